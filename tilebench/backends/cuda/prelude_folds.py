"""The device functions of folds: `tl::max2<f16>(a, b)` of two words of two halves, and
`tl::AllReduce<tl::MaxOp, scale, batch, threads>::run_batch(v)` between the lanes of a warp (one word alone:
`tl::AllReduceWord<...>::run(v)`).

Sources: PTX ISA, "max", "min" (.f16x2, .bf16x2, .NaN: sm_80 and later); CUDA programming guide, "Warp
Shuffle Functions".
"""

from __future__ import annotations

from functools import cache

from tilebench.backends.cuda.prelude import Piece, c_name
from tilebench.ir.dtype import DType
from tilebench.ir.folds import FoldOp

SM80 = 80
OPS: dict[FoldOp, str] = {
    "sum": "SumOp", "max": "MaxOp", "min": "MinOp", "bitand": "BitAndOp", "bitor": "BitOrOp",
    "bitxor": "BitXorOp",
}  # fmt: skip


def _in_tl(name: str, text: str, *needs: str | Piece, least: int = 0) -> Piece:
    return Piece(name, ((least, f"namespace tl {{\n{text.strip()}\n}}"),), needs)


def pair_name(op: FoldOp, nan: bool) -> str:
    """`max2`, `min2`, or with NaN kept `max2_nan`, `min2_nan`."""
    return f"{op}2" + ("_nan" if nan else "")


@cache
def _declared(op: FoldOp, nan: bool) -> Piece:
    name = pair_name(op, nan)
    return _in_tl(name, f"template <class T> DEVICE unsigned {name}(unsigned a, unsigned b);")


@cache
def pair_piece(op: FoldOp, nan: bool, dtype: DType) -> Piece:
    """The piece with `tl::max2<f16>` and its like: each half on its own."""
    name, c = pair_name(op, nan), c_name(dtype)
    instruction = f"{op}{'.NaN' if nan else ''}.{c}x2"
    text = (
        f"template <> DEVICE unsigned {name}<{c}>(unsigned a, unsigned b) {{\n"
        f'  unsigned r;\n  asm("{instruction} %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));\n  return r;\n}}'
    )
    return _in_tl(f"{name}_{c}", text, c, _declared(op, nan), least=SM80)


ABSOLUTE = _in_tl("abs2", "DEVICE unsigned abs2(unsigned a) { return a & 0x7fff7fffu; }")
"""Both halves without their signs."""


def op_name(op: FoldOp, nan: bool) -> str:
    """The type in tl that names an operation: `MaxOp`, `MaxOpNan`."""
    return OPS[op] + ("Nan" if nan else "")


_PLAIN: dict[FoldOp, str] = {
    "sum": "a + b", "max": "a < b ? b : a", "min": "b < a ? b : a", "bitand": "a & b", "bitor": "a | b",
    "bitxor": "a ^ b",
}  # fmt: skip


@cache
def op_piece(op: FoldOp, nan: bool) -> Piece:
    """The piece with `op_name`: `of` two values, and for max and min `pair<T>` of two words of halves."""
    name = op_name(op, nan)
    lines = [f"  template <class T> DEVICE static T of(T a, T b) {{ return {_PLAIN[op]}; }}"]
    if op not in ("max", "min"):
        return _in_tl(name, f"struct {name} {{\n{lines[0]}\n}};")
    if nan:
        lines.append(
            f"  DEVICE static float of(float a, float b) {{\n    float r;\n"
            f'    asm("{op}.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));\n    return r;\n  }}'
        )
        lines.append(
            "  DEVICE static double of(double a, double b) "
            f"{{ return a != a ? a : b != b ? b : f{op}(a, b); }}"
        )
    else:
        lines.append(f"  DEVICE static float of(float a, float b) {{ return f{op}f(a, b); }}")
        lines.append(f"  DEVICE static double of(double a, double b) {{ return f{op}(a, b); }}")
    call = f"{pair_name(op, nan)}<T>(a, b)"
    lines.append(
        f"  template <class T> DEVICE static unsigned pair(unsigned a, unsigned b) {{ return {call}; }}"
    )
    body = "\n".join(lines)
    return _in_tl(name, f"struct {name} {{\n{body}\n}};", _declared(op, nan), least=SM80 if nan else 0)


LANES = _in_tl(
    "AllReduce",
    """
// Each of `batch` values becomes the fold over its lanes, `scale` apart; halves travel two in a word.
template <class Op, int scale, int batch, int threads> struct AllReduce {
  template <class T> DEVICE static void run_batch(T* v) {
    #pragma unroll
    for (int m = scale; m < threads; m *= 2) {
      if constexpr (sizeof(T) == 2) {
        unsigned* w = (unsigned*)v;
        #pragma unroll
        for (int i = 0; i < batch / 2; ++i)
          w[i] = Op::template pair<T>(w[i], __shfl_xor_sync(0xffffffffu, w[i], m));
      } else {
        #pragma unroll
        for (int i = 0; i < batch; ++i) v[i] = Op::of(v[i], __shfl_xor_sync(0xffffffffu, v[i], m));
      }
    }
  }
};""",
)
WORD = _in_tl(
    "AllReduceWord",
    """
// The same of one word: a value, two halves, or the one half that there is.
template <class Op, int scale, int batch, int threads> struct AllReduceWord {
  template <class T> DEVICE static void run(T* v) {
    if constexpr (sizeof(T) == 2) {
      unsigned w = batch == 1 ? v->x : *(unsigned*)v;
      #pragma unroll
      for (int m = scale; m < threads; m *= 2)
        w = Op::template pair<T>(w, __shfl_xor_sync(0xffffffffu, w, m));
      if (batch == 1) v->x = (unsigned short)w;
      else *(unsigned*)v = w;
    } else {
      #pragma unroll
      for (int m = scale; m < threads; m *= 2) *v = Op::of(*v, __shfl_xor_sync(0xffffffffu, *v, m));
    }
  }
};""",
)

__all__ = ["ABSOLUTE", "LANES", "WORD", "op_name", "op_piece", "pair_name", "pair_piece"]
