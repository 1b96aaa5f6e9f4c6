"""A nest over pairs of half-precision registers: two neighbours at a time in one 32-bit register.

A thread's fragment of float16 lies in registers two by two, and the machine multiplies, adds and subtracts
both at once (rounding each as it would alone). What gains by it is done so: arithmetic of float16, and small
integers out of words, `T.cast(word >> s & 15, "float16") - 8`. A number below 1024 in the last bits of 1024.0
is 1024 more than itself, so that one three-input operation (and, or) makes two floats of a word whose two
numbers lie 16 bits apart; numbers that lie `s` bits further up are 2**s too large, which costs nothing more.

Registers are named one by one: what an index gives for each is found by evaluating it for all threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from tilebench.ir.dtype import float16, float32, uint16, uint32
from tilebench.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Var, binary, cast, const, select
from tilebench.ir.rewrite import rebuild, substitute, variables, walk
from tilebench.ir.thread import Memory, VectorCopy
from tilebench.ir.tile import Bind, Seq, Stmt, Store
from tilebench.layouts import SharedLayout
from tilebench.passes.indices import evaluate
from tilebench.passes.lower.builder import expr_key
from tilebench.passes.lower.wide import VECTOR_BYTES

if TYPE_CHECKING:
    from tilebench.passes.lower.nest import Nest

DISABLED = "TB_DISABLE_PACKED_HALVES"
"""Pass config: arithmetic of float16 one element at a time, by way of float32."""
ARITHMETIC = {"mul": "f16x2_mul", "add": "f16x2_add", "sub": "f16x2_sub"}
POWERS = ("exp", "exp2", "exp10")
LARGEST = 65504.0
"""Of float16. A conversion of two floats that stops there is one instruction, as the one that does not."""
MOST_WORDS = 64
"""Registers that the words of a nest may take."""
MAGIC = 0x6400
"""Bits of 1024.0 in float16: its last ten bits count ones."""


@dataclass(frozen=True)
class Words:
    """Loads of a nest that name fewer elements than it has registers: each element is loaded once.

    memory: registers for them in the order of their addresses; slots: of each register of the loop; runs:
    (slot, lanes, a register of the loop that names the first element).
    """

    access: Load
    memory: Memory
    slots: tuple[int, ...]
    runs: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Packed:
    """What to store where.

    value: in terms of the nest's variables; pairs: (register of the loop, of the fragment) of every first.
    """

    store: Store
    value: Expr
    pairs: tuple[tuple[int, int], ...]
    words: dict[object, Words]


def plan_packed(nest: Nest) -> Packed | None:
    """The nest as pairs, or None: it is not one store to a float16 fragment, or nothing is gained."""
    if nest.each or nest.b.kernel.configs.get(DISABLED):
        return None
    found = _one_store(nest.body)
    if found is None:
        return None
    store, value = found
    layout = nest.loop.layout
    if store.buffer.dtype != float16 or store.buffer.scope != "fragment" or isinstance(store.buffer, Memory):
        return None
    if not layout.is_digits or any(layout.padded_dims) or layout.registers % 2 or not _gains(value):
        return None
    place = nest.found(store)
    read = {n.buffer.data for n in walk(value) if isinstance(n, Load)}
    if place.extra is not None or store.buffer.data in read:
        return None
    table = place.own.table
    pairs = tuple((r, table[r]) for r in range(0, len(table), 2))
    if any(k < 0 or k % 2 or table[r + 1] != k + 1 for r, k in pairs):
        return None
    coordinates = _coordinates(nest)
    if coordinates is None:
        return None
    words: dict[object, Words] = {}
    for load in (n for n in walk(value) if isinstance(n, Load)):
        key = expr_key(load)
        if key not in words and (one := _words(nest, load, coordinates)) is not None:
            words[key] = one
    plan = Packed(store, value, pairs, words)
    first = [_settled(nest, value, r, coordinates) for r in (0, 1)]
    return plan if _packs(*first) else None


def _one_store(body: Stmt) -> tuple[Store, Expr] | None:
    """The only store of a nest's body, and its value with names written out."""
    parts = list(body.body) if isinstance(body, Seq) else [body]
    if not parts or not isinstance(parts[-1], Store):
        return None
    names: dict[Var, Expr] = {}
    for s in parts[:-1]:
        if not isinstance(s, Bind):
            return None
        names[s.var] = substitute(s.value, names)
    store = parts[-1]
    return store, substitute(store.value, names)


def _gains(value: Expr) -> bool:
    """Whether the value is worth it: it is made by arithmetic of float16."""
    if isinstance(value, Select):
        return _is_zero(value.orelse) and _gains(value.then)
    arithmetic = isinstance(value, Binary) and value.op in ARITHMETIC
    return (arithmetic or _is_fma(value)) and value.dtype == float16


def _coordinates(nest: Nest) -> dict[Var, Any] | None:
    """The nest's variables for every thread and register."""
    loop = nest.loop
    elements = loop.layout.elements()
    if not loop.layout.valid().all() or elements.size > 1 << 20:
        return None
    unravelled = np.unravel_index(elements, loop.extents)
    return {v: x.astype(np.int64) for v, x in zip(loop.names, unravelled, strict=True)}


def _words(nest: Nest, load: Load, coordinates: dict[Var, Any]) -> Words | None:
    """How to load the distinct elements of a load in wide accesses; None when it is not one of few."""
    b, buffer = nest.b, load.buffer
    if isinstance(buffer, Memory) or buffer.scope != "shared" or buffer.dtype.bits < 8:
        return None
    if buffer.data in nest.written:
        return None
    _, layout, _ = b.shared(buffer)
    indices = [i for i in (evaluate(i, coordinates) for i in load.indices) if i is not None]
    if len(indices) < len(load.indices) or not _is_contiguous(layout):
        return None
    shape = buffer.static_shape
    numbers = np.ravel_multi_index(tuple(np.broadcast_arrays(*indices)), shape, mode="clip")
    flat = np.broadcast_to(np.asarray(numbers), nest.loop.layout.elements().shape)
    steps = flat - flat[:, :1]
    if (steps != steps[:1]).any():
        return None
    offsets = sorted({int(x) for x in steps[0]})
    if len(offsets) >= len(steps[0]):
        return None
    row = shape[-1] if layout.panel is None else layout.panel
    slots = tuple(offsets.index(int(x)) for x in steps[0])
    runs: list[tuple[int, int, int]] = []
    k = 0
    while k < len(offsets):
        first = slots.index(k)
        lanes = VECTOR_BYTES // buffer.dtype.bytes
        while lanes > 1 and not _run(offsets[k : k + lanes], lanes, flat[:, first], row):
            lanes //= 2
        runs.append((k, lanes, first))
        k += lanes
    size = len(offsets) * buffer.dtype.bytes
    if all(lanes == 1 for _, lanes, _ in runs) or size > 4 * MOST_WORDS:
        return None
    return Words(load, b.registers(f"{buffer.name}_read", len(offsets), buffer.dtype), slots, tuple(runs))


def _is_contiguous(layout: SharedLayout) -> bool:
    return layout.table is None and layout.inner == layout.rank - 1 and layout.strides[-1] == 1


def _run(offsets: Sequence[int], lanes: int, starts: Any, row: int) -> bool:
    """Whether so many elements are neighbours, at an aligned place of a row, in every thread."""
    together = all(x == offsets[0] + n for n, x in enumerate(offsets)) and len(offsets) == lanes
    return together and row % lanes == 0 and not (starts % lanes).any()


def lower_packed(nest: Nest, plan: Packed) -> None:
    """Emit the nest: its loads, then pair by pair."""
    b, chunk = nest.b, nest.plan.chunk
    coordinates = _coordinates(nest)
    assert coordinates is not None
    nest.words = plan.words
    for w in plan.words.values():
        for slot, lanes, register in w.runs:
            with nest.at_register(const(register), const(0)):
                memory, index = b.shared_element(w.access.buffer, w.access.indices)
                b.emit(VectorCopy(w.memory, const(slot), memory, index, lanes))
    target, _ = b.fragment(plan.store.buffer)
    for start in range(0, len(plan.pairs) * 2, chunk):
        nest.load_loops(const(start // chunk), chunk)
        for register, into in plan.pairs[start // 2 : (start + chunk) // 2]:
            halves: list[Expr] = []
            for k in (register, register + 1):
                with nest.at_register(const(k), const(k - start)):
                    value = _settled(nest, plan.value, k, coordinates)
                    halves.append(_simplified(nest, b.expr(value)))
            word = b.bind("pair", _kept(nest, _pack(*halves)))
            for k in (0, 1):
                half = cast(word if k == 0 else binary("shr", word, const(16, uint32)), uint16)
                b.store(target, const(into + k), Call("reinterpret", (half,), dtype=float16))
    nest.words = {}


def _simplified(nest: Nest, e: Expr) -> Expr:
    return rebuild(e, lambda x: _simplified(nest, x)) if not e.dtype.is_int else nest.b.simple(e)


def _kept(nest: Nest, e: Expr) -> Expr:
    """`e` with the masks of its words in registers: machine code has room for one constant, and the compiler
    would load the other anew each time.
    """
    if isinstance(e, Binary) and e.op == "bitand" and e.dtype == uint32 and isinstance(e.right, Const):
        mask = nest.b.bind_above(nest.b.root, "mask", Call("in_register", (e.right,), dtype=uint32))
        return binary("bitand", _kept(nest, e.left), mask)
    return e if isinstance(e, Load) else rebuild(e, lambda x: _kept(nest, x))


def _settled(nest: Nest, e: Expr, register: int, coordinates: dict[Var, Any]) -> Expr:
    """`e` with the integers that are the same in all threads at a register."""
    if isinstance(e, Const | Load):
        return e
    if e.dtype.is_int and variables(e) and not any(isinstance(n, Load | Call) for n in walk(e)):
        found = evaluate(e, coordinates)
        if found is not None:
            column = np.broadcast_to(np.asarray(found), coordinates[nest.loop.names[0]].shape)[:, register]
            if (column == column[0]).all():
                return const(int(column[0]), e.dtype)
        return e
    return rebuild(e, lambda x: _settled(nest, x, register, coordinates))


# -- two expressions of float16 as one of uint32


def _packs(low: Expr, high: Expr) -> bool:
    """Whether the arithmetic at the top can be done on both."""
    if isinstance(low, Select) and isinstance(high, Select):
        return _packs(low.then, high.then)
    if _is_fma(low) and _is_fma(high):
        return True
    return isinstance(low, Binary) and isinstance(high, Binary) and low.op == high.op


def _is_fma(e: Expr) -> TypeGuard[Call]:
    return isinstance(e, Call) and e.name == "fma"


def _bounded(e: Expr) -> Expr | None:
    """x of `cast(min(x, 65504.0))`, a power: it is not negative, so that the bound is that of float16."""
    if not isinstance(e, Cast) or not isinstance(e.value, Binary) or e.value.op != "min":
        return None
    power, bound = e.value.left, e.value.right
    if not isinstance(power, Call) or power.name not in POWERS or not isinstance(bound, Const):
        return None
    return power if float(bound.value) == LARGEST and power.dtype == float32 else None


def _is_zero(e: Expr) -> bool:
    return isinstance(e, Const) and float(e.value) == 0.0 and not np.signbit(float(e.value))


def _pack(low: Expr, high: Expr) -> Expr:
    """Both values, the first in the low half."""
    if isinstance(low, Const) and isinstance(high, Const):
        return const(_bits(low) | _bits(high) << 16, uint32)
    if (
        isinstance(low, Select)
        and isinstance(high, Select)
        and _is_zero(low.orelse)
        and _is_zero(high.orelse)
    ):
        inside = binary(
            "bitor",
            select(low.condition, const(0xFFFF, uint32), const(0, uint32)),
            select(high.condition, const(0xFFFF0000, uint32), const(0, uint32)),
        )
        return binary("bitand", _pack(low.then, high.then), inside)
    if isinstance(low, Binary) and isinstance(high, Binary) and low.op == high.op and low.op in ARITHMETIC:
        less = _whole(low.right, high.right) if low.op in ("sub", "add") else None
        if less is not None:
            small = _integers(low.left, high.left, less if low.op == "sub" else -less)
            if small is not None:
                return small
        parts = _pack(low.left, high.left), _pack(low.right, high.right)
        return Call(ARITHMETIC[low.op], parts, dtype=uint32)
    if _is_fma(low) and _is_fma(high):
        parts = tuple(_pack(a, b) for a, b in zip(low.args, high.args, strict=True))
        return Call("f16x2_fma", parts, dtype=uint32)
    small = _integers(low, high, 0)
    if small is not None:
        return small
    powers = _bounded(low), _bounded(high)
    if powers[0] is not None and powers[1] is not None:
        return Call("f16x2_finite", (powers[0], powers[1]), dtype=uint32)
    if all(isinstance(x, Cast) and x.value.dtype == float32 for x in (low, high)):
        assert isinstance(low, Cast)
        assert isinstance(high, Cast)
        return Call("f16x2", (low.value, high.value), dtype=uint32)
    words = [cast(Call("reinterpret", (x,), dtype=uint16), uint32) for x in (low, high)]
    return binary("bitor", words[0], binary("shl", words[1], const(16, uint32)))


def _bits(e: Const) -> int:
    return int(np.asarray([float(e.value)], np.float16).view(np.uint16)[0])


def _whole(low: Expr, high: Expr) -> int | None:
    """A constant that both are, when it is a whole number of at most 1024."""
    if not isinstance(low, Const) or not isinstance(high, Const) or low.value != high.value:
        return None
    value = float(low.value)
    return int(value) if value.is_integer() and abs(value) <= 1024 else None


def _integers(low: Expr, high: Expr, less: int) -> Expr | None:
    """Two small numbers of one word, less a whole number, as floats; None when they are no such numbers."""
    fields = [_field(x) for x in (low, high)]
    if fields[0] is None or fields[1] is None:
        return None
    (word, shift, mask), (other, further, same) = fields[0], fields[1]
    if mask != same or further != shift + 16 or expr_key(word) != expr_key(other):
        return None
    up = shift
    if (mask << up) >= 1024:  # the numbers do not fit under 1024.0 where they are
        word, up = binary("shr", word, const(shift - shift % 8, uint32)), shift % 8
        if (mask << up) >= 1024:
            word, up = binary("shr", word, const(up, uint32)), 0
    ones = const((mask << up) * 0x10001, uint32)
    magic = binary("bitor", binary("bitand", word, ones), const(MAGIC * 0x10001, uint32))
    if up == 0:
        return Call("f16x2_sub", (magic, _twice(1024.0 + less)), dtype=uint32)
    scale, shifted = 2.0**-up, 1024.0 * 2.0**-up + less
    return Call("f16x2_fma", (magic, _twice(scale), _twice(-shifted)), dtype=uint32)


def _field(e: Expr) -> tuple[Expr, int, int] | None:
    """(word, shift, mask) of `cast(word >> shift & mask)`, a mask of low bits."""
    if not isinstance(e, Cast) or not isinstance(e.value, Binary) or e.value.op != "bitand":
        return None
    shifted, mask = e.value.left, e.value.right
    if not isinstance(mask, Const) or shifted.dtype != uint32:
        return None
    bits = int(mask.value)
    if bits <= 0 or bits & (bits + 1) or bits >= 1024:
        return None
    if isinstance(shifted, Binary) and shifted.op == "shr" and isinstance(shifted.right, Const):
        return shifted.left, int(shifted.right.value), bits
    return shifted, 0, bits


def _twice(value: float) -> Expr:
    bits = int(np.asarray([value], np.float16).view(np.uint16)[0])
    return const(bits * 0x10001, uint32)


__all__ = ["Packed", "Words", "lower_packed", "plan_packed"]
