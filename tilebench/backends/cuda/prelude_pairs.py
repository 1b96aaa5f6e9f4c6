"""Conversions of two narrow floats at once, under the names that CUDA's own headers give them, or TileLang's
where those have none for it.

The headers are not needed. A pair is the word that holds it, the first in the low half; rounding and
saturation are those of the single conversions (prelude.py). Source: PTX ISA, "cvt"; CUDA math API, "Half
Precision Conversion and Data Movement", "FP8 Conversion and Data Movement".
"""

from __future__ import annotations

from tilebench.backends.cuda.prelude import Piece

_HALVES = """
DEVICE float2 __half22float2(unsigned v) {
  float2 r;
  asm("{.reg .f16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b;}"
    : "=f"(r.x), "=f"(r.y) : "r"(v));
  return r;
}"""
_FP8 = """
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };"""
_FLOATS_TO_FP8 = """
DEVICE unsigned short __nv_cvt_float2_to_fp8x2(float2 v, __nv_saturation_t, __nv_fp8_interpretation_t kind) {
  unsigned short r;
  if (kind == __NV_E4M3) asm("cvt.rn.satfinite.e4m3x2.f32 %0, %2, %1;" : "=h"(r) : "f"(v.x), "f"(v.y));
  else asm("cvt.rn.satfinite.e5m2x2.f32 %0, %2, %1;" : "=h"(r) : "f"(v.x), "f"(v.y));
  return r;
}"""
# satfinite makes e5m2's largest number of an infinity; the next code is its infinity.
_HALVES_TO_FP8 = """
DEVICE unsigned short __tl_cvt_half2_to_fp8x2(unsigned v, __nv_fp8_interpretation_t kind) {
  unsigned short r;
  if (kind == __NV_E4M3) {
    asm("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;" : "=h"(r) : "r"(v));
  } else {
    asm("cvt.rn.satfinite.e5m2x2.f16x2 %0, %1;" : "=h"(r) : "r"(v));
    if ((v & 0x7fffu) == 0x7c00u) r += 1;
    if ((v & 0x7fff0000u) == 0x7c000000u) r += 0x100;
  }
  return r;
}"""
_FP8_TO_HALVES = """
DEVICE unsigned __tl_cvt_fp8x2_to_half2(unsigned short v, __nv_fp8_interpretation_t kind) {
  unsigned r;
  if (kind == __NV_E4M3) asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"(v));
  else asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(r) : "h"(v));
  return r;
}"""
_FP8_TO_FLOATS = """
DEVICE float2 __tl_cvt_fp8x2_to_float2(unsigned short v, __nv_fp8_interpretation_t kind) {
  return __half22float2(__tl_cvt_fp8x2_to_half2(v, kind));
}"""
# e8m0 is the exponent field of the wider types; code 0 is 2^-127, subnormal there. Magnitudes are rounded up.
_E8M0_TO_BFLOATS = """
DEVICE unsigned __tl_cvt_e8m0x2_to_bfloat162(unsigned short v) {
  const unsigned a = v & 0xff, b = v >> 8;
  return (a == 0xff ? 0x7fffu : a ? a << 7 : 0x40u) | (b == 0xff ? 0x7fffu : b ? b << 7 : 0x40u) << 16;
}"""
_TO_E8M0 = """
DEVICE unsigned to_e8m0_code(unsigned a) {
  a &= 0x7fffffffu;
  return a > 0x7f800000u ? 0xffu : a <= 0x400000u ? 0u : min((a + 0x7fffffu) >> 23, 254u);
}"""


def _to_e8m0(name: str, pair: str, first: str, second: str) -> str:
    return f"""
DEVICE unsigned short __tl_cvt_{name}_to_e8m0x2({pair} v) {{
  return (unsigned short)(to_e8m0_code({first}) | to_e8m0_code({second}) << 8);
}}"""


# satfinite again.
_TO_E5M2 = """
DEVICE unsigned short to_e5m2x2(float2 v) {
  unsigned short r = __nv_cvt_float2_to_fp8x2(v, __NV_SATFINITE, __NV_E5M2);
  if ((__float_as_uint(v.x) & 0x7fffffffu) == 0x7f800000u) r += 1;
  if ((__float_as_uint(v.y) & 0x7fffffffu) == 0x7f800000u) r += 0x100;
  return r;
}"""


def _rounded(name: str, instruction: str) -> str:
    return f"""
DEVICE unsigned {name}(float2 v) {{
  unsigned r;
  asm("{instruction} %0, %2, %1;" : "=r"(r) : "f"(v.x), "f"(v.y));
  return r;
}}"""


_HALF_TO_FLOAT = Piece("half22float2", ((0, _HALVES),))
_BFLOAT_TO_FLOAT = Piece("bfloat1622float2", ((0, """
DEVICE float2 __bfloat1622float2(unsigned v) {
  return make_float2(__uint_as_float(v << 16), __uint_as_float(v & 0xffff0000u));
}"""),))  # fmt: skip
_FLOAT_TO_HALF = Piece("float22half2_rn", ((80, _rounded("__float22half2_rn", "cvt.rn.f16x2.f32")),))
_FLOAT_TO_BFLOAT = Piece(
    "float22bfloat162_rn", ((80, _rounded("__float22bfloat162_rn", "cvt.rn.bf16x2.f32")),)
)
_KINDS = Piece("fp8_kinds", ((0, _FP8),))
_FLOAT_TO_FP8 = Piece("float2_to_fp8x2", ((89, _FLOATS_TO_FP8),), (_KINDS,))
_HALF_TO_FP8 = Piece("half2_to_fp8x2", ((89, _HALVES_TO_FP8),), (_KINDS,))
_FP8_TO_HALF = Piece("fp8x2_to_half2", ((89, _FP8_TO_HALVES),), (_KINDS,))
_FP8_TO_FLOAT = Piece("fp8x2_to_float2", ((89, _FP8_TO_FLOATS),), (_FP8_TO_HALF, _HALF_TO_FLOAT))
_E8M0_TO_BFLOAT = Piece("e8m0x2_to_bfloat162", ((0, _E8M0_TO_BFLOATS),))
_E8M0_CODE = Piece("to_e8m0_code", ((0, _TO_E8M0),))
_FLOAT_TO_E5M2 = Piece("e5m2x2_float2", ((89, _TO_E5M2),), (_FLOAT_TO_FP8,))

Conversion = tuple[str, tuple[Piece, ...]]
"""(calls around {}, the pieces that they are of)."""


def _from_fp8(kind: str, to: str, piece: Piece) -> Conversion:
    return f"__tl_cvt_fp8x2_to_{to}({{}}, {kind})", (piece,)


def _to_e8m0_from(name: str, pair: str, first: str, second: str) -> Conversion:
    piece = Piece(f"{name}_to_e8m0x2", ((0, _to_e8m0(name, pair, first, second)),), (_E8M0_CODE,))
    return f"__tl_cvt_{name}_to_e8m0x2({{}})", (piece,)


def _after(inner: Conversion, outer: Conversion) -> Conversion:
    return outer[0].format(inner[0]), (*inner[1], *outer[1])


_AS_IS: Conversion = "{}", ()
_HALVES_FLOATS: Conversion = "__half22float2({})", (_HALF_TO_FLOAT,)
_BFLOATS_FLOATS: Conversion = "__bfloat1622float2({})", (_BFLOAT_TO_FLOAT,)
_E8M0_BFLOATS: Conversion = "__tl_cvt_e8m0x2_to_bfloat162({})", (_E8M0_TO_BFLOAT,)
_TO_FLOATS: dict[str, Conversion] = {
    "float32": _AS_IS,
    "float16": _HALVES_FLOATS,
    "bfloat16": _BFLOATS_FLOATS,
    "float8_e4m3": _from_fp8("__NV_E4M3", "float2", _FP8_TO_FLOAT),
    "float8_e5m2": _from_fp8("__NV_E5M2", "float2", _FP8_TO_FLOAT),
    "float8_e8m0fnu": _after(_E8M0_BFLOATS, _BFLOATS_FLOATS),
}
_FROM_FLOATS: dict[str, Conversion] = {
    "float32": _AS_IS,
    "float16": ("__float22half2_rn({})", (_FLOAT_TO_HALF,)),
    "bfloat16": ("__float22bfloat162_rn({})", (_FLOAT_TO_BFLOAT,)),
    "float8_e4m3": ("__nv_cvt_float2_to_fp8x2({}, __NV_SATFINITE, __NV_E4M3)", (_FLOAT_TO_FP8,)),
    "float8_e5m2": ("to_e5m2x2({})", (_FLOAT_TO_E5M2,)),
    "float8_e8m0fnu": _to_e8m0_from("float2", "float2", "__float_as_uint(v.x)", "__float_as_uint(v.y)"),
}
_DIRECT: dict[tuple[str, str], Conversion] = {
    ("float8_e4m3", "float16"): _from_fp8("__NV_E4M3", "half2", _FP8_TO_HALF),
    ("float8_e5m2", "float16"): _from_fp8("__NV_E5M2", "half2", _FP8_TO_HALF),
    ("float16", "float8_e4m3"): ("__tl_cvt_half2_to_fp8x2({}, __NV_E4M3)", (_HALF_TO_FP8,)),
    ("float16", "float8_e5m2"): ("__tl_cvt_half2_to_fp8x2({}, __NV_E5M2)", (_HALF_TO_FP8,)),
    ("float8_e8m0fnu", "bfloat16"): _E8M0_BFLOATS,
    ("bfloat16", "float8_e8m0fnu"): _to_e8m0_from("bfloat162", "unsigned", "v << 16", "v & 0xffff0000u"),
    ("float64", "float8_e8m0fnu"): _to_e8m0_from(
        "double2", "double2", "__float_as_uint((float)v.x)", "__float_as_uint((float)v.y)"
    ),
}  # fmt: skip
"""Pairs that need not go by way of float."""


def pair_conversion(source: str, destination: str, capability: int) -> Conversion | None:
    """How a pair of one type becomes one of the other; None where the hardware has no instruction for
    it.
    """
    narrow = any(name in ("float8_e4m3", "float8_e5m2") for name in (source, destination))
    if capability < (89 if narrow else 80):
        return None
    direct = _DIRECT.get((source, destination))
    if direct is not None:
        return direct
    if source == destination or source not in _TO_FLOATS or destination not in _FROM_FLOATS:
        return None
    return _after(_TO_FLOATS[source], _FROM_FLOATS[destination])


__all__ = ["Conversion", "pair_conversion"]
