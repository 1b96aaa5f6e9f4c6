"""The device functions of atomics: `AtomicAdd(p, v)` and its like, `AtomicAddRet(p, v)` with the old value,
`AtomicAddx4(p, v)` for four neighbours as one access.

A last argument is a memory order by its number in C++ (ir.tile.MEMORY_ORDERS), kept by fences around a
relaxed access: that is what the machine does for an ordered one, too. What the hardware lacks is a
compare-and-swap loop on the word around it. Sources: PTX ISA, "atom", "red", "membar/fence".
"""

from __future__ import annotations

from functools import cache

from tilebench.backends.cuda.prelude import (
    NARROW_FLOATS,
    Piece,
    c_name,
    conversions,
    decode_text,
    encode_text,
)
from tilebench.ir.dtype import DType

RELAXED = "relaxed"
OLDEST, SM90 = 0, 90
"""Capabilities from which bodies hold: any, and the one with vectors and additions of bfloat16."""

# ------------------------------------------------------------------ what the functions are made of

_LOOP = Piece(
    "atomic_loop",
    (
        (
            OLDEST,
            """
template <class F> DEVICE unsigned atomic_loop(unsigned* p, F change) {
  unsigned old = *(volatile unsigned*)p, seen;
  do { seen = old; old = atomicCAS(p, seen, change(seen)); } while (old != seen);
  return old;
}
template <class F> DEVICE unsigned long long atomic_loop(unsigned long long* p, F change) {
  unsigned long long old = *(volatile unsigned long long*)p, seen;
  do { seen = old; old = atomicCAS(p, seen, change(seen)); } while (old != seen);
  return old;
}
// An element narrower than a word: change(its bits) within the aligned word that holds it.
template <int BITS, class F> DEVICE unsigned atomic_loop_narrow(void* p, F change) {
  unsigned shift = ((unsigned long long)p & 3) * 8, mask = ((1u << BITS) - 1) << shift;
  unsigned old = atomic_loop((unsigned*)((unsigned long long)p & ~3ull),
    [=](unsigned w) { return (w & ~mask) | ((change((w & mask) >> shift) << shift) & mask); });
  return (old & mask) >> shift;
}""",
        ),
    ),
)
_FENCES = Piece(
    "atomic_fences",
    (
        (
            OLDEST,
            """
// Around an access: what came before it is seen before it, what comes after it sees what it saw.
struct Fences {
  int order;
  DEVICE Fences(int order) : order(order) {
    if (order == 5) asm volatile("fence.sc.gpu;" ::: "memory");
    else if (order >= 3) asm volatile("fence.acq_rel.gpu;" ::: "memory");
  }
  DEVICE ~Fences() {
    if (order == 1 || order == 2 || order >= 4) asm volatile("fence.acq_rel.gpu;" ::: "memory");
  }
};""",
        ),
    ),
)
_PAIR_OF_BF16 = Piece(
    "add_bf16x2",
    (
        (
            OLDEST,
            """
DEVICE unsigned add_bf16x2(unsigned* p, unsigned v) {
  return atomic_loop(p, [=](unsigned w) {
    bf16 low = to_bf16(to_f32(bf16{(unsigned short)w}) + to_f32(bf16{(unsigned short)v}));
    bf16 high = to_bf16(to_f32(bf16{(unsigned short)(w >> 16)}) + to_f32(bf16{(unsigned short)(v >> 16)}));
    return (unsigned)low.x | (unsigned)high.x << 16;
  });
}""",
        ),
    ),
    (_LOOP, "bf16_f32", "f32_bf16"),
)


def _native_half(c: str) -> Piece:
    text = (
        f"DEVICE {c} add_{c}({c}* p, {c} v) {{\n  {c} r;\n"
        f'  asm volatile("atom.add.noftz.{c} %0, [%1], %2;" : "=h"(r.x) : "l"(p), "h"(v.x) : "memory");\n'
        "  return r;\n}"
    )
    return Piece(f"add_{c}", ((OLDEST, text),), (c,))


# ------------------------------------------------------------------ one element


@cache
def atomic_piece(op: str, dtype: DType, returns: bool = True, ordered: bool = False) -> Piece:
    """The piece with the function of one element; see `atomic_name`."""
    name, c = atomic_name(op, returns), c_name(dtype)
    signature, around = f"{c}* p, {c} v", ""
    if ordered:
        signature, around = f"{signature}, int order", "Fences fences{order}; "
    bodies: list[tuple[int, str]] = []
    needs: list[str | Piece] = [*_storage(dtype), *((_FENCES,) if ordered else ())]
    oldest: list[str | Piece] = []
    for least, (setup, call, uses) in _updates(op, dtype):
        head = f"DEVICE {c if returns else 'void'} {name}({signature})"
        bodies.append((least, f"{head} {{\n{setup}  {around}{'return ' if returns else ''}{call};\n}}"))
        (oldest if not oldest and least == OLDEST else needs).extend(uses)
    of = f"{name}_{c}".replace(" ", "_") + ("_ordered" if ordered else "")
    return Piece(of, tuple(bodies), tuple(needs), oldest_needs=tuple(oldest))


def _storage(dtype: DType) -> tuple[str, ...]:
    """The piece with the type of a narrow float."""
    return (c_name(dtype),) if dtype.name in NARROW_FLOATS else ()


def atomic_name(op: str, returns: bool) -> str:
    """The function of an operation, with or without the old value."""
    return f"Atomic{_BUILTIN[op]}" + ("Ret" if returns else "")


_NATIVE = {
    "add": ("int32", "uint32", "uint64", "float32", "float64"),
    "min": ("int32", "uint32", "int64", "uint64"), "max": ("int32", "uint32", "int64", "uint64"),
    "and": ("int32", "uint32", "int64", "uint64"), "or": ("int32", "uint32", "int64", "uint64"),
    "xor": ("int32", "uint32", "int64", "uint64"), "exch": ("int32", "uint32", "uint64", "float32"),
}  # fmt: skip
_BUILTIN = {"add": "Add", "min": "Min", "max": "Max", "and": "And", "or": "Or", "xor": "Xor", "exch": "Exch"}

_Update = tuple[str, str, tuple[str | Piece, ...]]
"""Statements before, the expression that updates *p and gives the old value, and the pieces it needs."""


def _updates(op: str, dtype: DType) -> list[tuple[int, _Update]]:
    """The ways to do it, with the least capability of each."""
    c = c_name(dtype)
    if dtype.name in _NATIVE[op]:
        return [(OLDEST, ("", f"atomic{_BUILTIN[op]}(p, v)", ()))]
    if op == "add" and dtype.name == "int64":
        return [(OLDEST, ("", f"({c})atomicAdd((unsigned long long*)p, (unsigned long long)v)", ()))]
    if op == "add" and dtype.name in ("float16", "bfloat16"):
        native: _Update = ("", f"add_{c}(p, v)", (_native_half(c),))
        return [(OLDEST, native)] if dtype == "float16" else [(OLDEST, _loop(op, dtype)), (SM90, native)]
    return [(OLDEST, _loop(op, dtype))]


def _loop(op: str, dtype: DType) -> _Update:
    """Compare and swap until nobody came between."""
    c = c_name(dtype)
    a, b = decode_text(dtype, "x"), decode_text(dtype, "v")
    kind = "f" if dtype.bits < 64 else ""
    changed = {
        "add": f"{a} + {b}",
        "min": f"fmin{kind}({a}, {b})" if dtype.is_float else f"min({a}, {b})",
        "max": f"fmax{kind}({a}, {b})" if dtype.is_float else f"max({a}, {b})",
        "and": f"{a} & {b}", "or": f"{a} | {b}", "xor": f"{a} ^ {b}", "exch": "v",
    }[op]  # fmt: skip
    if op != "exch":
        changed = encode_text(dtype, changed)
    word = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long"}[dtype.bytes]
    wide = "unsigned long long" if dtype.bytes == 8 else "unsigned"
    change = (
        f"  auto change = [=]({wide} w) {{\n    {c} x = bit_cast<{c}>(({word})w), r = {changed};\n"
        f"    return ({wide})bit_cast<{word}>(r);\n  }};\n"
    )
    loop = f"atomic_loop(({wide}*)p, change)"
    if dtype.bytes < 4:
        loop = f"({word})atomic_loop_narrow<{dtype.bytes * 8}>(p, change)"
    return change, f"bit_cast<{c}>({loop})", (_LOOP, "bit_cast", *conversions(dtype))


# ------------------------------------------------------------------ several neighbours as one access


def vector_name(lanes: int, returns: bool) -> str:
    """`AtomicAddx<lanes>(p, v)`, `AtomicAddx<lanes>Ret(old, p, v)`: v and old are registers."""
    return f"AtomicAddx{lanes}" + ("Ret" if returns else "")


@cache
def vector_piece(dtype: DType, lanes: int, returns: bool = False, ordered: bool = False) -> Piece:
    """The piece with `vector_name`. Before sm_90 an access is one for each float32, and for each two halves.

    The address is a multiple of the size of the vector.
    """
    c, name = c_name(dtype), vector_name(lanes, returns)
    signature = (
        (f"{c}* old, " if returns else "") + f"{c}* p, const {c}* v" + (", int order" if ordered else "")
    )
    around = "  Fences fences{order};\n" if ordered else ""
    oldest: tuple[str | Piece, ...] = ()
    if dtype == "float32":
        words = lanes
        older = (
            f"  for (int i = 0; i < {lanes}; ++i) {'old[i] = ' if returns else ''}atomicAdd(p + i, v[i]);\n"
        )
        newer = _access("f32", "f", "float", range(words), returns)
    else:
        words, kind = lanes // 2, f"noftz.{c}x2"
        older = "".join(_access(kind, "r", "unsigned", range(k, k + 1), returns) for k in range(words))
        if dtype == "bfloat16":
            oldest = (_PAIR_OF_BF16,)
            take = "((unsigned*)old)[i] = " if returns else ""
            each = f"{take}add_bf16x2((unsigned*)p + i, ((const unsigned*)v)[i]);"
            older = f"  for (int i = 0; i < {words}; ++i) {each}\n"
        newer = _access(kind, "r", "unsigned", range(words), returns)
    bodies = tuple(
        (least, f"DEVICE void {name}({signature}) {{\n{around}{body}}}")
        for least, body in ((OLDEST, older), (SM90, newer))
    )
    needs: list[str | Piece] = [*_storage(dtype), *((_FENCES,) if ordered else ())]
    of = f"{name}_{c}" + ("_ordered" if ordered else "")
    return Piece(of, bodies, tuple(needs), oldest_needs=oldest)


def _access(kind: str, constraint: str, c: str, words: range, returns: bool) -> str:
    """One instruction on some 32-bit registers of a vector."""
    count = len(words)
    rounding, _, element = kind.rpartition(".")
    way = ".".join(part for part in (rounding, f"v{count}" if count > 1 else "", element) if part)
    first = count if returns else 0
    inputs = ", ".join(f'"{constraint}"(((const {c}*)v)[{k}])' for k in words)
    at = f'"l"(__cvta_generic_to_global(({c}*)p + {words.start}))'
    operand = _slots(first + 1, count)
    if not returns:
        return f'  asm volatile("red.global.add.{way} [%0], {operand};"\n    :: {at}, {inputs} : "memory");\n'
    outputs = ", ".join(f'"={constraint}"((({c}*)old)[{k}])' for k in words)
    return (
        f'  asm volatile("atom.global.add.{way} {_slots(0, count)}, [%{count}], {operand};"\n'
        f'    : {outputs} : {at}, {inputs} : "memory");\n'
    )


def _slots(first: int, count: int) -> str:
    names = ", ".join(f"%{first + k}" for k in range(count))
    return "{" + names + "}" if count > 1 else names


__all__ = ["RELAXED", "atomic_name", "atomic_piece", "vector_name", "vector_piece"]
