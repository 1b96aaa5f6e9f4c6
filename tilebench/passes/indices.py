"""Index arithmetic of the lowering: which register an access names, how long a vector may be, how an index
splits.

Everything here is a function of expressions and layouts; nothing is emitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np

from tilebench.ir.expr import Binary, Cast, Const, Expr, Select, Unary, Var, const
from tilebench.ir.rewrite import variables
from tilebench.ir.simplify import linear
from tilebench.layouts import Digit, FragmentLayout, access_indices

if TYPE_CHECKING:
    from numpy.typing import NDArray

MANY = 1 << 30
"""The power of two that divides 0, for our purposes."""

Affine = tuple[tuple[int, ...], int]
"""(coefficients of the loop variables, constant)."""

_WHERE: Any = np.where
_NUMPY: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "floordiv": np.floor_divide, "floormod": np.mod,
    "min": np.minimum, "max": np.maximum, "bitand": np.bitwise_and, "bitor": np.bitwise_or,
    "bitxor": np.bitwise_xor, "shl": np.left_shift, "shr": np.right_shift, "eq": np.equal, "ne": np.not_equal,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "and": np.logical_and,
    "or": np.logical_or,
}  # fmt: skip


def evaluate(e: Expr, values: Mapping[Var, Any]) -> Any | None:
    """An integer expression over arrays; None when it holds a variable without a value, a load or a call."""
    match e:
        case Const():
            return int(e.value) if not e.dtype.is_float else None
        case Var():
            return values.get(e)
        case Binary():
            a, b = evaluate(e.left, values), evaluate(e.right, values)
            if a is None or b is None or e.op not in _NUMPY:
                return None
            if e.op in ("floordiv", "floormod") and not np.all(b):
                return None
            return _NUMPY[e.op](a, b)
        case Unary(op="neg"):
            a = evaluate(e.value, values)
            return None if a is None else -a
        case Cast() if not e.dtype.is_float and not e.value.dtype.is_float:
            return evaluate(e.value, values)
        case Select():
            condition, then = evaluate(e.condition, values), evaluate(e.then, values)
            orelse = evaluate(e.orelse, values)
            if condition is None or then is None or orelse is None:
                return None
            return _WHERE(condition, then, orelse)
        case _:
            return None


def divisor(e: Expr, known: Mapping[Var, int]) -> int:
    """A number that divides every value of `e`; `known` gives divisors of variables (default 1)."""
    match e:
        case Const() if not e.dtype.is_float:
            return abs(int(e.value)) or MANY
        case Var():
            return known.get(e, 1)
        case Binary(op="add" | "sub" | "min" | "max"):
            return gcd(divisor(e.left, known), divisor(e.right, known))
        case Binary(op="mul"):
            return min(MANY, divisor(e.left, known) * divisor(e.right, known))
        case Binary(op="floormod"):
            return gcd(divisor(e.left, known), divisor(e.right, known))
        case Binary(op="floordiv") if isinstance(e.right, Const) and int(e.right.value) > 0:
            by, left = int(e.right.value), divisor(e.left, known)
            return left // by if left % by == 0 else 1
        case Binary(op="shl") if isinstance(e.right, Const):
            return min(MANY, divisor(e.left, known) << int(e.right.value))
        case Unary(op="neg"):
            return divisor(e.value, known)
        case Cast() if not e.dtype.is_float and not e.value.dtype.is_float:
            return divisor(e.value, known)
        case Select():
            return gcd(divisor(e.then, known), divisor(e.orelse, known))
        case _:
            return 1


# -- an index of a loop nest ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """An index as affine part over the nest's variables, plus `rest`, which does not name them (None:
    nothing)."""

    coefficients: tuple[int, ...]
    constant: int
    rest: Expr | None

    @property
    def affine(self) -> Affine:
        """Without the rest."""
        return self.coefficients, self.constant


def split_index(e: Expr, names: Sequence[Var]) -> Split | None:
    """`e` split over the nest's variables, or None when they occur in a non-linear part."""
    form = linear(e)
    coefficients = [0] * len(names)
    rest: Expr | None = None
    for term, factor in form.terms:
        if isinstance(term, Var) and any(term is v for v in names):
            coefficients[next(k for k, v in enumerate(names) if v is term)] += factor
            continue
        if any(v in variables(term) for v in names):
            return None
        part = term if factor == 1 else term * factor
        rest = part if rest is None else rest + part
    return Split(tuple(coefficients), form.constant, rest)


# -- registers -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Own:
    """The register in which each iteration finds its element in its own thread.

    coefficients of the digits of the loop's register index, and a constant; None when only the table says it
    (table[r] for r known at compile time, -1 where r is never a valid iteration).
    """

    coefficients: tuple[int, ...] | None
    constant: int
    table: tuple[int, ...]
    complete: bool = True
    """Whether all holders of each element run an iteration that names it, so that a write reaches them
    all."""

    @property
    def is_injective(self) -> bool:
        """Whether no two iterations of a thread name one register."""
        named = [x for x in self.table if x >= 0]
        return len(set(named)) == len(named)


def own_registers(
    held: FragmentLayout, loop: FragmentLayout, access: tuple[Affine, ...] | NDArray[Any]
) -> Own | None:
    """Registers of `held` that the iterations of `loop` name, when each thread holds what it needs; else
    None.

    The register may depend on the iteration's register only, not on the thread.
    """
    return _own(held, loop, access) if isinstance(access, tuple) else _own_registers(held, loop, access)


@lru_cache(maxsize=4096)
def _own(held: FragmentLayout, loop: FragmentLayout, access: tuple[Affine, ...]) -> Own | None:
    return _own_registers(held, loop, access)


def _own_registers(
    held: FragmentLayout, loop: FragmentLayout, access: tuple[Affine, ...] | NDArray[Any]
) -> Own | None:
    if held.threads != loop.threads:
        return None
    sizes = tuple(d.size for d in loop.reg) if loop.is_digits else (loop.registers,)
    indices = access_indices(access, loop.shape).reshape(-1, held.rank)
    inside = ((indices >= 0) & (indices < np.array(held.shape))).all(axis=1)
    clipped = np.clip(indices, 0, np.array(held.shape) - 1)
    flat = np.where(inside, np.ravel_multi_index(tuple(clipped.T), held.shape), -1)
    elements = np.where(loop.valid(), flat[np.maximum(loop.elements(), 0)], -1)
    cared = elements >= 0
    if held == loop and np.array_equal(elements, np.where(cared, loop.elements(), -1)):
        # the identity: every register where it is
        return Own(_weights(sizes), 0, tuple(range(loop.registers)))
    complete = held.replication <= 1 or _reaches_all(held, elements)
    found = held.lookup(np.arange(held.threads)[:, None], elements)
    if ((found < 0) & cared).any():
        return None
    table = np.where(cared, found, -1).max(axis=0, initial=-1)
    if ((found != table) & cared).any():
        return None
    fitted = _fit(table, sizes)
    entries = tuple(int(x) for x in table)
    if fitted is None:
        return Own(None, 0, entries, complete)
    return Own(fitted[0], fitted[1], entries, complete)


def _reaches_all(held: FragmentLayout, elements: NDArray[Any]) -> bool:
    """Whether each element that some thread names is named by as many threads as hold it."""

    def threads_of(table: NDArray[Any]) -> NDArray[Any]:
        pairs = np.arange(len(table), dtype=np.int64)[:, None] * held.size + table
        named = np.unique(pairs[table >= 0]) % held.size
        return np.bincount(named, minlength=held.size)

    visits, holders = threads_of(elements), threads_of(held.elements())
    return bool((visits == holders)[visits > 0].all())


def _weights(sizes: Sequence[int]) -> tuple[int, ...]:
    out: list[int] = []
    below = 1
    for size in sizes:
        out.append(below if size > 1 else 0)
        below *= size
    return tuple(out)


def _fit(table: NDArray[Any], sizes: Sequence[int]) -> tuple[tuple[int, ...], int] | None:
    """Digit coefficients and constant that give the table's entries; entries below 0 do not matter."""
    cared = table >= 0
    if not cared.any():
        return (0,) * len(sizes), 0
    number = np.arange(len(table))
    coefficients: list[int] = []
    below = 1
    for size in sizes:
        step = 0
        if size > 1:
            movable = (number // below % size < size - 1) & cared
            starts = number[movable]
            starts = starts[cared[starts + below]]
            if len(starts):
                step = int(table[starts[0] + below] - table[starts[0]])
        coefficients.append(step)
        below *= size
    predicted = np.zeros(len(table), np.int64)
    below = 1
    for size, step in zip(sizes, coefficients, strict=True):
        predicted += number // below % size * step
        below *= size
    first = int(number[cared][0])
    constant = int(table[first] - predicted[first])
    good = np.array_equal((predicted + constant)[cared], table[cared])
    return (tuple(coefficients), constant) if good else None


def register_expr(own: Own, digits: Sequence[Digit], r: Expr) -> Expr:
    """The register index as an expression of the loop's register index r (a constant r reads the table)."""
    if isinstance(r, Const):
        return const(max(own.table[int(r.value)], 0))
    assert own.coefficients is not None, "a register table needs a constant index"
    sizes = [d.size for d in digits]
    # Neighbouring digits whose coefficients continue each other are one digit.
    parts: list[list[int]] = []  # [below, size, coefficient]
    below = 1
    for size, coefficient in zip(sizes, own.coefficients, strict=True) if sizes else ():
        if size > 1:
            last = parts[-1] if parts else None
            if last and last[0] * last[1] == below and coefficient == last[2] * last[1]:
                last[1] *= size
            else:
                parts.append([below, size, coefficient])
        below *= size
    total: Expr = const(0)
    for under, size, coefficient in parts:
        if coefficient:
            digit = r // under
            digit = digit if under * size == below else digit % size
            total = total + digit * coefficient
    return total + own.constant


def opaque_register(held: FragmentLayout, dim: int, index: Expr, unit: int) -> Expr | None:
    """What `index` (a multiple of `unit`, not known to the layout) along `dim` adds to the register, or None.

    None when a thread does not hold all of the dimension above `unit`.
    """
    if not held.is_digits:
        return None
    if any(d.dim == dim and d.size > 1 and d.stride * d.size > unit for d in held.thread):
        return None
    own: list[tuple[int, int, int]] = []  # stride, size, weight
    weight = 1
    for d in held.reg:
        if d.dim == dim and d.size > 1:
            if d.stride < unit < d.stride * d.size:
                return None
            if d.stride >= unit:
                own.append((d.stride, d.size, weight))
        weight *= d.size
    own.sort()
    reach = unit
    total: Expr = const(0, index.dtype)
    joined: list[list[int]] = []
    for stride, size, weight in own:
        if stride != reach:
            return None
        reach *= size
        if joined and weight == joined[-1][2] * joined[-1][1]:
            joined[-1][1] *= size
        else:
            joined.append([stride, size, weight])
    if reach < held.shape[dim]:
        return None
    for k, (stride, size, weight) in enumerate(joined):
        digit = index // stride
        digit = digit if k + 1 == len(joined) else digit % size
        total = total + digit * weight
    return total


def strides_of(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides of a static shape."""
    out: list[int] = []
    below = 1
    for n in reversed(shape):
        out.append(below)
        below *= n
    return tuple(reversed(out))


def flat_index(indices: Sequence[Any], shape: Sequence[int]) -> Any:
    """Row-major element number of `indices`."""
    total: Any = const(0)
    for x, s in zip(indices, strides_of(shape), strict=True):
        total = total + x * s
    return total
