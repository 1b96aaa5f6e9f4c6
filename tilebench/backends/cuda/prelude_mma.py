"""The device functions of mma.sync, one for each shape and types. Source: PTX ISA, "mma"."""

from __future__ import annotations

from functools import cache

from tilebench.backends.cuda.prelude import Piece
from tilebench.ir.dtype import DType

_OPERAND = {
    "float16": "f16", "bfloat16": "bf16", "tfloat32": "tf32", "float32": "f32", "float64": "f64",
    "float8_e4m3": "e4m3", "float8_e5m2": "e5m2", "int4": "s4", "uint4": "u4", "int8": "s8", "uint8": "u8",
    "int32": "s32",
}  # fmt: skip
_FP8_FROM = 89


@cache
def mma_piece(shape: tuple[int, int, int], d: DType, a: DType, b: DType, round_tf32: bool = False) -> Piece:
    """The piece for one mma.sync. round_tf32: operands are float32 and rounded on the way in."""
    m, n, k = shape
    kinds = [_OPERAND[t.name] for t in (d, a, b)]
    if round_tf32:
        kinds[1:] = ["tf32", "tf32"]
    name = f"mma_m{m}n{n}k{k}_{kinds[0]}_{kinds[1]}_{kinds[2]}" + ("_round" if round_tf32 else "")
    least = _FP8_FROM if a.bits == 8 and a.is_float else 80
    body = _mma(name, shape, kinds, a.bits, b.bits, round_tf32)
    return Piece(name, ((least, body),), ("tf32_f32",) if round_tf32 else ())


def _mma(
    name: str, shape: tuple[int, int, int], kinds: list[str], a_bits: int, b_bits: int, round_tf32: bool
) -> str:
    m, n, k = shape
    d_kind, a_kind, b_kind = kinds
    d_count = m * n // 32 // (2 if d_kind == "f16" else 1)
    a_count, b_count = m * k * a_bits // 1024, n * k * b_bits // 1024
    d_type, letter = {"f32": ("float", "f"), "f16": ("unsigned", "r"), "s32": ("int", "r")}[d_kind]
    slots = iter(range(d_count + a_count + b_count))
    groups = ["{" + ", ".join(f"%{next(slots)}" for _ in range(c)) + "}" for c in (d_count, a_count, b_count)]
    outputs = ", ".join(f'"+{letter}"(D[{i}])' for i in range(d_count))
    value = "__float_as_uint(to_tf32(__uint_as_float({}[{}])))" if round_tf32 else "{}[{}]"
    inputs = ", ".join(
        f'"r"({value.format(o, i)})' for o, c in (("A", a_count), ("B", b_count)) for i in range(c)
    )
    return (
        f"DEVICE void {name}(void* d, const void* a, const void* b) {{\n"
        f"  {d_type}* D = ({d_type}*)d; const unsigned *A = (const unsigned*)a, *B = (const unsigned*)b;\n"
        f'  asm volatile("mma.sync.aligned.m{m}n{n}k{k}.row.col.{d_kind}.{a_kind}.{b_kind}.{d_kind} "\n'
        f'    "{", ".join(groups)}, {groups[0]};"\n'
        f"    : {outputs} : {inputs});\n}}"
    )
