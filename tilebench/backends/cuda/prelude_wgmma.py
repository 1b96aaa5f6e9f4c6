"""The device functions of warpgroup products: one for each shape, pair of types, placement of A and list of k
steps, holding all steps in one asm block: the operand list of the accumulators is what they cost to compile.

Sources: PTX ISA, "wgmma.mma_async", "Matrix descriptor", "wgmma.fence", "wgmma.commit_group",
"wgmma.wait_group". Only sm_90a has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from tilebench.backends.cuda.prelude import Piece
from tilebench.backends.cuda.prelude_hopper import SM90
from tilebench.ir.dtype import DType
from tilebench.ir.hopper import Descriptor, product_columns

_KINDS = {
    "float16": "f16", "bfloat16": "bf16", "tfloat32": "tf32", "float32": "tf32", "float8_e4m3": "e4m3",
    "float8_e5m2": "e5m2", "int8": "s8", "uint8": "u8",
}  # fmt: skip
_RESULTS = {"float32": "f32", "float16": "f16", "int32": "s32"}
_INTO = {
    "f16": ("f32", "f16"), "bf16": ("f32",), "tf32": ("f32",), "e4m3": ("f32", "f16"),
    "e5m2": ("f32", "f16"), "s8": ("s32",), "u8": ("s32",),
}  # fmt: skip
_SWIZZLE = {0: 0, 128: 1, 64: 2, 32: 3}
_ARCH = "sm_90a"
_PIN_AT_MOST = 128
"""Operands of one pin; longer arrays take several."""


@dataclass(frozen=True)
class Product:
    """What a wgmma function depends on. a_steps, b_steps: of each k step the offset from the first, in units
    of 16 bytes for an operand in shared memory, in 32-bit registers for A in registers.
    """

    n: int
    d: DType
    a: DType
    b: DType
    a_in_registers: bool
    a_transposed: bool
    b_transposed: bool
    a_steps: tuple[int, ...]
    b_steps: tuple[int, ...]


def kind_of(dtype: DType) -> str | None:
    """The PTX name of an operand type, None where wgmma has none."""
    return _KINDS.get(dtype.name)


def why_not(p: Product) -> str | None:
    """Why the hardware has no such product, None when it has."""
    a, b, d = kind_of(p.a), kind_of(p.b), _RESULTS.get(p.d.name)
    if a is None or b is None or d not in _INTO[a] or d not in _INTO[b]:
        return f"no wgmma of {p.a} and {p.b} into {p.d}"
    mixed = {"e4m3": "8", "e5m2": "8", "s8": "i", "u8": "i"}
    if a != b and (mixed.get(a) is None or mixed.get(a) != mixed.get(b)):
        return f"no wgmma of {p.a} and {p.b} together"
    if (p.a_transposed or p.b_transposed) and p.a.bits != 16:
        return f"wgmma reads {p.a} along K only"
    if p.a_transposed and p.a_in_registers:
        return "operand A in registers has one layout"
    if not product_columns(p.n, p.d.name):
        return f"no wgmma has N = {p.n}"
    if len(p.a_steps) != len(p.b_steps) or not p.a_steps:
        return "A and B have different numbers of k steps"
    return None


def layout_bits(descriptor: Descriptor) -> int:
    """A matrix descriptor but for its address. PTX ISA, "Matrix descriptor"."""
    leading, stride = descriptor.leading >> 4 & 0x3FFF, descriptor.stride >> 4 & 0x3FFF
    return leading << 16 | stride << 32 | _SWIZZLE[descriptor.swizzle] << 62


@cache
def wgmma_piece(p: Product) -> Piece:
    """`wgmma_...(d, a, b, accumulate)`; a: a matrix descriptor or a pointer to registers, b: a descriptor."""
    a_kind, b_kind, d_kind = _KINDS[p.a.name], _KINDS[p.b.name], _RESULTS[p.d.name]
    shape = f"m64n{p.n}k{256 // p.a.bits}"
    turned = f"{int(p.a_transposed)}{int(p.b_transposed)}" if p.a.bits == 16 else ""
    name = "_".join(
        x
        for x in (
            f"wgmma_{shape}",
            d_kind,
            a_kind,
            b_kind,
            ("r" if p.a_in_registers else "s") + turned,
            _steps_name(p.a_steps),
            _steps_name(p.b_steps),
        )
        if x
    )
    count = p.n // 4 if d_kind == "f16" else p.n // 2
    c, letter = {"f32": ("float", "f"), "f16": ("unsigned", "r"), "s32": ("int", "r")}[d_kind]
    words = sorted({w + i for w in p.a_steps for i in range(4)}) if p.a_in_registers else []
    slot_a = {w: f"%{count + i}" for i, w in enumerate(words)}
    first_a = f"%{count}"
    slot_b = f"%{count + (len(words) or 1)}"
    slot_p = f"%{count + (len(words) or 1) + 1}"
    signature = "const void* a" if p.a_in_registers else "unsigned long long a"
    inputs = [f'"r"(A[{w}])' for w in words] or ['"l"(a)']
    inputs += ['"l"(b)', '"r"(accumulate)']
    d = "{" + ", ".join(f"%{i}" for i in range(count)) + "}"
    tail = "" if d_kind == "s32" else ", 1, 1"
    if p.a.bits == 16:
        tail += "" if p.a_in_registers else f", {int(p.a_transposed)}"
        tail += f", {int(p.b_transposed)}"
    head = f"wgmma.mma_async.sync.aligned.{shape}.{d_kind}.{a_kind}.{b_kind}"
    lines = [".reg .pred first, later;", f"setp.ne.b32 first, {slot_p}, 0;"]
    if len(p.a_steps) > 1:
        lines.append(f"setp.eq.b32 later, {slot_p}, {slot_p};")
    # the address is in the low word, and a step never carries out of its 14 bits
    for x, slot, steps in (("a", first_a, p.a_steps), ("b", slot_b, p.b_steps)):
        if any(steps) and not (x == "a" and p.a_in_registers):
            lines += [f".reg .b32 {x}_low, {x}_high, {x}_at;", f".reg .b64 {x}_step;"]
            lines.append(f"mov.b64 {{{x}_low, {x}_high}}, {slot};")
    for i, (at_a, at_b) in enumerate(zip(p.a_steps, p.b_steps, strict=True)):
        a, b = first_a, slot_b
        if p.a_in_registers:
            a = "{" + ", ".join(slot_a[at_a + j] for j in range(4)) + "}"
        elif at_a:
            lines += _advance("a", at_a)
            a = "a_step"
        if at_b:
            lines += _advance("b", at_b)
            b = "b_step"
        lines.append(f"{head} {d}, {a}, {b}, {'later' if i else 'first'}{tail};")
    body = "".join(f'    "{line}\\n"\n' for line in ["{", *lines, "}"])
    outputs = ", ".join(f'"+{letter}"(D[{i}])' for i in range(count))
    registers = " const unsigned* A = (const unsigned*)a;" if p.a_in_registers else ""
    text = (
        f"DEVICE void {name}(void* d, {signature}, unsigned long long b, int accumulate) {{\n"
        f"  {c}* D = ({c}*)d;{registers}\n  asm volatile(\n{body}"
        f'    : {outputs}\n    : {", ".join(inputs)} : "memory");\n}}'
    )
    return Piece(name, ((SM90, text),), only=_ARCH)


def _advance(name: str, by: int) -> list[str]:
    """PTX: the descriptor of an operand moved by so many units of 16 bytes."""
    return [
        f"add.s32 {name}_at, {name}_low, {by};",
        f"mov.b64 {name}_step, {{{name}_at, {name}_high}};",
    ]


def _steps_name(steps: tuple[int, ...]) -> str:
    """'4x2' for 0, 2, 4, 6; else the offsets."""
    by = steps[1] - steps[0] if len(steps) > 1 else 0
    if steps == tuple(range(0, by * len(steps), by) if by > 0 else (0,)):
        return f"{len(steps)}x{by}"
    return "_".join(map(str, steps))


@cache
def pin_piece(letter: str, c: str, count: int) -> Piece:
    """`pin_<letter><count>(array)`: uses of the registers stay on their side of it."""
    name = f"pin_{letter}{count}"
    body = ""
    for first in range(0, count, _PIN_AT_MOST):
        end = min(first + _PIN_AT_MOST, count)
        operands = ", ".join(f'"+{letter}"(x[{i}])' for i in range(first, end))
        body += f'  asm volatile("" : {operands} :: "memory");\n'
    return Piece(name, ((0, f"DEVICE void {name}(void* p) {{\n  {c}* x = ({c}*)p;\n{body}}}"),))


def _whole(name: str, instruction: str) -> Piece:
    text = f'DEVICE void {name}() {{ asm volatile("{instruction};" ::: "memory"); }}'
    return Piece(name, ((SM90, text),), only=_ARCH)


_DESCRIPTOR = """
DEVICE unsigned long long matrix_descriptor(const void* p, unsigned long long layout) {
  return (unsigned long long)(shared_address(p) >> 4 & 0x3fff) | layout;
}"""
_WAIT = """
template <int N> DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory");
}"""
WGMMA_PIECES: Mapping[str, Piece] = MappingProxyType({
    "matrix_descriptor": Piece("matrix_descriptor", ((SM90, _DESCRIPTOR),), ("shared_address",)),
    "wgmma_fence": _whole("wgmma_fence", "wgmma.fence.sync.aligned"),
    "wgmma_commit": _whole("wgmma_commit", "wgmma.commit_group.sync.aligned"),
    "wgmma_wait": Piece("wgmma_wait", ((SM90, _WAIT),), only=_ARCH),
})  # fmt: skip
"""The pieces that do not depend on a shape, by name."""
