"""The small device functions that hold every PTX instruction, each put into the text only when it is used.

Narrow floats are plain storage structs (`f16 { unsigned short x; }`): arithmetic happens in float and is
rounded once by the `to_*` function. A piece has one body per capability from which it holds; pieces name the
pieces that they need. Sources: PTX ISA, sections "cvt", "ldmatrix", "cp.async", "bar".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from tilebench.ir.dtype import DType, encode

DEVICE = "__device__ __forceinline__"


@dataclass(frozen=True)
class Piece:
    """A device function or type. bodies: (least capability, text), newest last; needs: other pieces, those
    of this file by name; only: the one architecture that has it ('' when later ones do too); oldest_needs:
    what the first body needs beside.
    """

    name: str
    bodies: tuple[tuple[int, str], ...]
    needs: tuple[str | Piece, ...] = ()
    only: str = ""
    oldest_needs: tuple[str | Piece, ...] = ()

    def text(self, capability: int) -> str:
        """The newest body that the capability allows. Raises KeyError when there is none."""
        fitting = [text for least, text in self.bodies if least <= capability]
        if not fitting:
            raise KeyError(f"{self.name} needs sm_{self.bodies[0][0]}, not sm_{capability}")
        return fitting[-1].strip("\n").replace("DEVICE", DEVICE)


_PIECES: dict[str, Piece] = {}


def _piece(
    name: str, text: str, needs: str = "", newer: tuple[tuple[int, str], ...] = (), least: int = 0
) -> None:
    _PIECES[name] = Piece(name, ((least, text), *newer), tuple(needs.split()))


def _instruction(signature: str, result: str, instruction: str, outputs: str, inputs: str) -> str:
    """A function of one instruction: `signature { result r; asm(...); return r; }`."""
    body = f'  {result} r;\n  asm("{instruction};" : {outputs} : {inputs});\n  return r;'
    return f"DEVICE {result} {signature} {{\n{body}\n}}"


def _approximate(name: str, instruction: str) -> None:
    _piece(name, _instruction(f"{name}(float x)", "float", f"{instruction} %0, %1", '"=f"(r)', '"f"(x)'))


# ------------------------------------------------------------------ element types and conversions

_piece("f16", "struct f16 { unsigned short x; };")
_piece("bf16", "struct bf16 { unsigned short x; };")
_piece("e4m3", "struct e4m3 { unsigned char x; };")
_piece("e5m2", "struct e5m2 { unsigned char x; };")
_piece("e8m0", "struct e8m0 { unsigned char x; };")

_piece("f32_f16", _instruction("to_f32(f16 h)", "float", "cvt.f32.f16 %0, %1", '"=f"(r)', '"h"(h.x)'), "f16")
_piece("f32_bf16", "DEVICE float to_f32(bf16 h) { return __uint_as_float((unsigned)h.x << 16); }", "bf16")
_piece(
    "f16_f32", _instruction("to_f16(float v)", "f16", "cvt.rn.f16.f32 %0, %1", '"=h"(r.x)', '"f"(v)'), "f16"
)
# Two float16 in a word, the first low; each result is rounded once.
for _name, _count in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)):
    _words = tuple("abc"[:_count])
    _piece(
        f"f16x2_{_name}",
        _instruction(
            f"f16x2_{_name}({', '.join(f'unsigned {w}' for w in _words)})",
            "unsigned",
            f"{_name}.rn.f16x2 {', '.join(f'%{k}' for k in range(_count + 1))}",
            '"=r"(r)',
            ", ".join(f'"r"({w})' for w in _words),
        ),
    )
_piece(
    "f16x2",
    _instruction(
        "f16x2(float low, float high)",
        "unsigned",
        "cvt.rn.f16x2.f32 %0, %2, %1",
        '"=r"(r)',
        '"f"(low), "f"(high)',
    ),
)
_piece(
    "f16x2_finite",
    _instruction(
        "f16x2_finite(float low, float high)",
        "unsigned",
        "cvt.rn.satfinite.f16x2.f32 %0, %2, %1",
        '"=r"(r)',
        '"f"(low), "f"(high)',
    ),
)
# The number of a multiprocessor is below 65536, which no compiler knows.
_piece(
    "in_register",
    """DEVICE unsigned in_register(unsigned x) {
  unsigned number;
  asm("mov.u32 %0, %smid;" : "=r"(number));
  return x + (number >> 16);
}""",
)
_piece(
    "f16_f64", _instruction("to_f16(double v)", "f16", "cvt.rn.f16.f64 %0, %1", '"=h"(r.x)', '"d"(v)'), "f16"
)
_piece(
    "bf16_f32",
    _instruction("to_bf16(float v)", "bf16", "cvt.rn.bf16.f32 %0, %1", '"=h"(r.x)', '"f"(v)'),
    "bf16",
)
_piece(
    "tf32_f32",
    """
DEVICE float to_tf32(float v) {
  unsigned r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
  return __uint_as_float(r);
}""",
)
# e4m3 -> f16: the same bits one place further right are the value / 256; e5m2 is the upper half of an f16.
_piece(
    "f32_e4m3",
    """
DEVICE float to_f32(e4m3 v) {
  if ((v.x & 0x7f) == 0x7f) return __uint_as_float(0x7fffffffu);
  return to_f32(f16{(unsigned short)((v.x & 0x80) << 8 | (v.x & 0x7f) << 7)}) * 256.0f;
}""",
    "e4m3 f32_f16",
    ((89, """
DEVICE float to_f32(e4m3 v) {
  unsigned r;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"((unsigned short)v.x));
  return to_f32(f16{(unsigned short)r});
}"""),),
)  # fmt: skip
_piece(
    "f32_e5m2",
    "DEVICE float to_f32(e5m2 v) { return to_f32(f16{(unsigned short)(v.x << 8)}); }",
    "e5m2 f32_f16",
)

# e8m0 -> f32: the exponent field; code 0 is 2^-127, which is subnormal there. Back: the magnitude rounded up.
_piece(
    "f32_e8m0",
    """
DEVICE float to_f32(e8m0 v) {
  return __uint_as_float(v.x == 0xff ? 0x7fffffffu : v.x ? (unsigned)v.x << 23 : 0x400000u);
}""",
    "e8m0",
)
_piece(
    "e8m0_f32",
    """
DEVICE e8m0 to_e8m0(float v) {
  const unsigned a = __float_as_uint(v) & 0x7fffffffu;
  if (a > 0x7f800000u) return e8m0{0xff};
  return e8m0{(unsigned char)(a <= 0x400000u ? 0u : min((a + 0x7fffffu) >> 23, 254u))};
}""",
    "e8m0",
)


def _encode_fp8(name: str, mantissa: int, bias: int, largest: str) -> str:
    """Round-to-nearest-even, saturating conversion in integer arithmetic, for GPUs with no fp8
    instructions.

    Subnormals: adding 1.5 * 2^(23 - mantissa + 1 - bias) leaves the rounded multiple of the smallest in the
    low bits.
    """
    shift = 23 - mantissa
    magic = f"{2.0 ** (1 - bias - mantissa + 23)!r}f"
    infinity = (
        "\n  if (a == 0x7f800000u) return e5m2{(unsigned char)(sign | 0x7c)};" if name == "e5m2" else ""
    )
    return f"""
DEVICE {name} to_{name}(float v) {{
  unsigned bits = __float_as_uint(v), sign = bits >> 24 & 0x80, a = bits & 0x7fffffffu;
  if (a > 0x7f800000u) return {name}{{0x7f}};{infinity}
  float m = fminf(__uint_as_float(a), {largest});
  if (m < {2.0 ** (1 - bias)!r}f)
    return {name}{{(unsigned char)(sign | (__float_as_uint(m + {magic}) - __float_as_uint({magic})))}};
  a = __float_as_uint(m) - {(127 - bias) << 23:#x}u;
  return {name}{{(unsigned char)(sign | (a + {(1 << (shift - 1)) - 1:#x}u + (a >> {shift} & 1)) >> {shift})}};
}}"""


_KEPT = "\n  if ((__float_as_uint(v) & 0x7fffffffu) == 0x7f800000u) r += 1;"
"""satfinite makes e5m2's largest number of an infinity; the next code is its infinity."""
for _name, _mantissa, _bias, _largest, _infinity in (
    ("e4m3", 3, 7, "448.0f", ""), ("e5m2", 2, 15, "57344.0f", _KEPT),
):  # fmt: skip
    _piece(
        f"{_name}_f32",
        _encode_fp8(_name, _mantissa, _bias, _largest),
        _name,
        ((89, f"""
DEVICE {_name} to_{_name}(float v) {{
  unsigned short r;
  asm("cvt.rn.satfinite.{_name}x2.f32 %0, %1, %2;" : "=h"(r) : "f"(0.0f), "f"(v));{_infinity}
  return {_name}{{(unsigned char)r}};
}}"""),),
    )  # fmt: skip

# ------------------------------------------------------------------ integers and floats

_piece(
    "floordiv",
    """
template <class T> DEVICE T floordiv(T a, T b) {
  if (b == 0) return 0;
  if (b == (T)-1) return (T)(0ull - (unsigned long long)a);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}""",
)
_piece(
    "floormod",
    """
template <class T> DEVICE T floormod(T a, T b) {
  if (b == 0 || b == (T)-1) return 0;
  T r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? (T)(r + b) : r;
}""",
)
_piece(
    "floordiv_u", "template <class T> DEVICE T floordiv_u(T a, T b) { return b == 0 ? (T)0 : (T)(a / b); }"
)
_piece(
    "floormod_u", "template <class T> DEVICE T floormod_u(T a, T b) { return b == 0 ? (T)0 : (T)(a % b); }"
)
_piece(
    "truncdiv",
    """
template <class T> DEVICE T truncdiv(T a, T b) {
  return b == 0 ? (T)0 : b == (T)-1 ? (T)(0ull - (unsigned long long)a) : (T)(a / b);
}""",
)
_piece(
    "truncmod",
    "template <class T> DEVICE T truncmod(T a, T b) { return b == 0 || b == (T)-1 ? (T)0 : (T)(a % b); }",
)
_piece(
    "shift_left",
    """
template <class T> DEVICE T shift_left(T a, int n) {
  return (unsigned)n < 8 * sizeof(T) ? (T)((unsigned long long)a << n) : (T)0;
}""",
)
_piece(
    "shift_right",
    """
template <class T> DEVICE T shift_right(T a, int n) {
  return (unsigned)n < 8 * sizeof(T) ? (T)(a >> n) : (T)(a < 0 ? -1 : 0);
}""",
)
_piece(
    "integer_power",
    """
template <class T> DEVICE T integer_power(T x, T n) {
  T r = 1;
  for (; n > 0; n = (T)(n >> 1), x = (T)(x * x)) if (n & 1) r = (T)(r * x);
  return n < 0 ? (T)0 : r;
}""",
)
# div.rn.f32 is a branch and a call a division: 128 of them in an unrolled loop take ptxas a second. This one
# has neither. div.full is within 2 ulp everywhere; one step with the remainder rounds it right unless an
# exponent is extreme (then f is no number).
_piece(
    "divide",
    """
DEVICE float divide(float a, float b) {
  float q;
  asm("div.full.f32 %0, %1, %2;" : "=f"(q) : "f"(a), "f"(b));
  float f = fmaf(fmaf(-b, q, a), rcp_fast(b), q);
  return fabsf(f) <= 3.4e38f ? f : q;
}""",
    "rcp_fast",
)
_piece("rcp", _instruction("rcp(float x)", "float", "rcp.approx.f32 %0, %1", '"=f"(r)', '"f"(x)'))
_piece(
    "divide_fast",
    _instruction(
        "divide_fast(float a, float b)", "float", "div.full.f32 %0, %1, %2", '"=f"(r)', '"f"(a), "f"(b)'
    ),
)
_piece("square", "template <class T> DEVICE T square(T x) { return x * x; }")
_piece("is_nan", "template <class T> DEVICE bool is_nan(T x) { return x != x; }")
_piece(
    "is_inf",
    """
DEVICE bool is_inf(float x) { return (__float_as_uint(x) & 0x7fffffffu) == 0x7f800000u; }
DEVICE bool is_inf(double x) {
  return (__double_as_longlong(x) & 0x7fffffffffffffffll) == 0x7ff0000000000000ll;
}""",
)
_piece(
    "is_finite",
    """
DEVICE bool is_finite(float x) { return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u; }
DEVICE bool is_finite(double x) {
  return (__double_as_longlong(x) & 0x7ff0000000000000ll) != 0x7ff0000000000000ll;
}""",
)
_piece(
    "sigmoid",
    """
DEVICE float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
DEVICE double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }""",
)
# tanhf branches, which 128 unrolled copies make slow to compile. Near 0 an odd polynomial (least squares on
# Chebyshev points), else 1 - 2 / (exp(2 |x|) + 1); both within 2 ulp where they are taken.
_piece(
    "tanh_f32",
    """
DEVICE float tanh_f32(float x) {
  float a = fabsf(x), t = x * x;
  float big = fmaf(-2.0f, rcp_fast(exp2_fast(2.885390082f * a) + 1.0f), 1.0f);
  float p = fmaf(fmaf(-0.00627747f, t, 0.02111718f), t, -0.05387543f);
  p = fmaf(fmaf(p, t, 0.13332927f), t, -0.33333331f);
  return copysignf(a < 0.6f ? fmaf(p * t, a, a) : big, x);
}""",
    "rcp_fast exp2_fast",
)
_approximate("exp2_fast", "ex2.approx.ftz.f32")
_approximate("rcp_fast", "rcp.approx.ftz.f32")
_approximate("rsqrt_fast", "rsqrt.approx.ftz.f32")
_approximate("sqrt_fast", "sqrt.approx.ftz.f32")
_approximate("tanh_fast", "tanh.approx.f32")
_piece(
    "sigmoid_fast",
    "DEVICE float sigmoid_fast(float x) { return rcp_fast(1.0f + exp2_fast(-1.4426950408889634f * x)); }",
    "rcp_fast exp2_fast",
)
_piece(
    "bit_cast",
    """
template <class T, class S> DEVICE T bit_cast(S s) {
  static_assert(sizeof(T) == sizeof(S), "widths");
  union U { S s; T t; DEVICE U() {} } u;
  u.s = s;
  return u.t;
}""",
)

# ------------------------------------------------------------------ memory

_piece(
    "shared_address",
    "DEVICE unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }",
)


def _cp_async(count: int, way: str, or_zero: bool) -> tuple[str, str, str]:
    name = f"cp_async_{count}" + ("_or_zero" if or_zero else "")
    extra, slot, size = (", bool p", ", %2", f', "r"(p ? {count} : 0)') if or_zero else ("", "", "")
    body = (
        f"DEVICE void {name}(void* d, const void* s{extra}) {{\n"
        f'  asm volatile("cp.async.{way}.shared.global [%0], [%1], {count}{slot};"\n'
        f'    :: "r"(shared_address(d)), "l"(s){size} : "memory");\n}}'
    )
    return name, body, "shared_address"


for _bytes, _way in ((4, "ca"), (8, "ca"), (16, "cg")):
    _piece(*_cp_async(_bytes, _way, False))
    _piece(*_cp_async(_bytes, _way, True))
_piece(
    "cp_async_commit",
    'DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }',
)
_piece(
    "cp_async_wait",
    """
template <int N> DEVICE void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");
}""",
)
_piece(
    "barrier_arrive",
    """
template <int ID, int THREADS> DEVICE void barrier_arrive() {
  asm volatile("bar.arrive %0, %1;" :: "n"(ID), "n"(THREADS) : "memory");
}""",
)
_piece(
    "barrier",
    """
template <int ID, int THREADS> DEVICE void barrier() {
  asm volatile("bar.sync %0, %1;" :: "n"(ID), "n"(THREADS) : "memory");
}""",
)
for _vote in ("and", "or"):
    _piece(
        f"barrier_{_vote}",
        f"""
template <int ID, int THREADS> DEVICE bool barrier_{_vote}(bool x) {{
  int all;
  asm volatile("{{\\n.reg .pred mine, all;\\nsetp.ne.b32 mine, %1, 0;\\n"
    "barrier.cta.red.{_vote}.pred all, %2, %3, mine;\\nselp.b32 %0, 1, 0, all;\\n}}"
    : "=r"(all) : "r"((int)x), "n"(ID), "n"(THREADS) : "memory");
  return all;
}}""",
    )


def _ldmatrix(matrices: int, transpose: bool) -> tuple[str, str]:
    name = f"ldmatrix_x{matrices}" + ("_trans" if transpose else "")
    slots = ", ".join(f"%{i}" for i in range(matrices))
    outputs = ", ".join(f'"=r"(r[{i}])' for i in range(matrices))
    way = ".trans" if transpose else ""
    return name, (
        f"DEVICE void {name}(void* d, const void* s) {{\n  unsigned* r = (unsigned*)d;\n"
        f'  asm volatile("ldmatrix.sync.aligned.m8n8.x{matrices}{way}.shared.b16 "\n'
        f'    "{{{slots}}}, [%{matrices}];"\n'
        f'    : {outputs} : "r"(shared_address(s)) : "memory");\n}}'
    )


for _count in (1, 2, 4):
    for _transpose in (False, True):
        _piece(*_ldmatrix(_count, _transpose), "shared_address")

# ------------------------------------------------------------------ launches that overlap

for _name, _what in (("launch_dependents", "launch_dependents"), ("wait_for_launches", "wait")):
    _text = f'DEVICE void {_name}() {{\n  asm volatile("griddepcontrol.{_what};" ::: "memory");\n}}'
    _piece(_name, _text, least=90)

# ------------------------------------------------------------------ names of types, the closure over needs

_C_NAMES = {
    "bool": "bool", "int4": "signed char", "uint4": "unsigned char", "int8": "signed char", "int16": "short",
    "uint8": "unsigned char", "uint16": "unsigned short", "int32": "int", "uint32": "unsigned",
    "int64": "long long", "uint64": "unsigned long long",
    "float16": "f16", "bfloat16": "bf16", "float8_e4m3": "e4m3",
    "float8_e5m2": "e5m2", "float8_e8m0fnu": "e8m0", "float32": "float",
    "tfloat32": "float", "float64": "double",
}  # fmt: skip
NARROW_FLOATS = frozenset({"float16", "bfloat16", "float8_e4m3", "float8_e5m2", "float8_e8m0fnu"})


def capability_of(arch: str) -> int:
    """90 for sm_90a."""
    return int("".join(c for c in arch if c.isdigit()))


def c_name(dtype: DType) -> str:
    """The C++ type that stores one element. Raises KeyError for vector types."""
    return _C_NAMES[dtype.name]


def conversions(dtype: DType) -> tuple[str, ...]:
    """The pieces that convert a narrow float to and from float; none for other types."""
    if dtype.name not in NARROW_FLOATS:
        return ()
    c = c_name(dtype)
    return (f"f32_{c}", f"{c}_f32")


def decode_text(dtype: DType, text: str) -> str:
    """Storage form -> value that calculates."""
    return f"to_f32({text})" if dtype.name in NARROW_FLOATS else text


def encode_text(dtype: DType, text: str) -> str:
    """Value that calculates -> storage form, rounded."""
    if dtype.name in NARROW_FLOATS:
        return f"to_{c_name(dtype)}({text})"
    return f"({c_name(dtype)})({text})"


def storage_bits(value: float, dtype: DType) -> int:
    """The bytes of a narrow float as an unsigned integer, rounded and saturated as a store would."""
    with np.errstate(all="ignore"):
        stored = encode(np.asarray([value], np.float32), dtype)
    return int(stored.view(np.uint16 if dtype.bits == 16 else np.uint8)[0])


PIECES: Mapping[str, Piece] = MappingProxyType(_PIECES)
"""The pieces that do not depend on an element type or a shape, by name."""


def _with_needs(piece: Piece, found: dict[str, Piece], capability: int) -> None:
    is_oldest = len(piece.bodies) == 1 or capability < piece.bodies[1][0]
    for need in (*piece.needs, *(piece.oldest_needs if is_oldest else ())):
        _with_needs(PIECES[need] if isinstance(need, str) else need, found, capability)
    found[piece.name] = piece


def prelude(used: Iterable[Piece], arch: str) -> str:
    """The text of the used pieces and all that they need, each once, in an order that compiles.

    Raises KeyError for what the architecture ('sm_90a') does not have.
    """
    capability = capability_of(arch)
    ordered: dict[str, Piece] = {}
    for piece in sorted(used, key=lambda p: p.name):
        _with_needs(piece, ordered, capability)
        if piece.only and piece.only != arch:
            raise KeyError(f"{piece.name} is of {piece.only} alone, not of {arch}")
    return "\n".join(piece.text(capability) for piece in ordered.values())
