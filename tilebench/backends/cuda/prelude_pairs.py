"""Conversions of two narrow floats at once, under the names that CUDA's own headers give them.

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
_HALVES_TO_FP8 = """
DEVICE unsigned short __nv_cvt_halfraw2_to_fp8x2(
    unsigned v, __nv_saturation_t, __nv_fp8_interpretation_t kind) {
  unsigned short r;
  if (kind == __NV_E4M3) asm("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;" : "=h"(r) : "r"(v));
  else asm("cvt.rn.satfinite.e5m2x2.f16x2 %0, %1;" : "=h"(r) : "r"(v));
  return r;
}"""
_FP8_TO_HALVES = """
DEVICE unsigned __nv_cvt_fp8x2_to_halfraw2(unsigned short v, __nv_fp8_interpretation_t kind) {
  unsigned r;
  if (kind == __NV_E4M3) asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"(v));
  else asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(r) : "h"(v));
  return r;
}"""
# satfinite makes e5m2's largest number of an infinity; the next code is its infinity.
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
_HALF_TO_FP8 = Piece("halfraw2_to_fp8x2", ((89, _HALVES_TO_FP8),), (_KINDS,))
_FP8_TO_HALF = Piece("fp8x2_to_halfraw2", ((89, _FP8_TO_HALVES),), (_KINDS,))
_FLOAT_TO_E5M2 = Piece("e5m2x2_float2", ((89, _TO_E5M2),), (_FLOAT_TO_FP8,))

Conversion = tuple[str, tuple[Piece, ...]]
"""(calls around {}, the pieces that they are of)."""


def _from_fp8(kind: str) -> Conversion:
    return f"__nv_cvt_fp8x2_to_halfraw2({{}}, {kind})", (_FP8_TO_HALF,)


def _after(inner: Conversion, outer: Conversion) -> Conversion:
    return outer[0].format(inner[0]), (*inner[1], *outer[1])


_AS_IS: Conversion = "{}", ()
_HALVES_FLOATS: Conversion = "__half22float2({})", (_HALF_TO_FLOAT,)
_TO_FLOATS: dict[str, Conversion] = {
    "float32": _AS_IS,
    "float16": _HALVES_FLOATS,
    "bfloat16": ("__bfloat1622float2({})", (_BFLOAT_TO_FLOAT,)),
    "float8_e4m3": _after(_from_fp8("__NV_E4M3"), _HALVES_FLOATS),
    "float8_e5m2": _after(_from_fp8("__NV_E5M2"), _HALVES_FLOATS),
}
_FROM_FLOATS: dict[str, Conversion] = {
    "float32": _AS_IS,
    "float16": ("__float22half2_rn({})", (_FLOAT_TO_HALF,)),
    "bfloat16": ("__float22bfloat162_rn({})", (_FLOAT_TO_BFLOAT,)),
    "float8_e4m3": ("__nv_cvt_float2_to_fp8x2({}, __NV_SATFINITE, __NV_E4M3)", (_FLOAT_TO_FP8,)),
    "float8_e5m2": ("to_e5m2x2({})", (_FLOAT_TO_E5M2,)),
}
_DIRECT: dict[tuple[str, str], Conversion] = {
    ("float8_e4m3", "float16"): _from_fp8("__NV_E4M3"),
    ("float8_e5m2", "float16"): _from_fp8("__NV_E5M2"),
    ("float16", "float8_e4m3"): (
        "__nv_cvt_halfraw2_to_fp8x2({}, __NV_SATFINITE, __NV_E4M3)", (_HALF_TO_FP8,)
    ),
}  # fmt: skip
"""Pairs that need not go by way of float."""


def pair_conversion(source: str, destination: str, capability: int) -> Conversion | None:
    """How a pair of one type becomes one of the other; None where the hardware has no instruction for
    it.
    """
    if source == destination or source not in _TO_FLOATS or destination not in _FROM_FLOATS:
        return None
    narrow = any(name.startswith("float8") for name in (source, destination))
    if capability < (89 if narrow else 80):
        return None
    direct = _DIRECT.get((source, destination))
    return direct or _after(_TO_FLOATS[source], _FROM_FLOATS[destination])


__all__ = ["Conversion", "pair_conversion"]
