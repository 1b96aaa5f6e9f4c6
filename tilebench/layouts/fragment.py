"""Who holds what: the layout of a tile that lives in the registers of a block's threads.

The idea, once and for all
--------------------------
A fragment is a tile spread over threads; each thread keeps its share in a small array of registers. The
layout is a function from the place to the element,

    (thread, register)  ->  (i, j)

in that direction because it is always a function: when several threads hold the same element (a row maximum
is kept by each of the four lanes of its row) the function is just not injective. Indices are split in mixed
radix and every digit moves one coordinate by a fixed stride; that is all a layout is. A 4x4 tile over 4
threads with 4 registers each, two neighbours in a row per thread:

    reg    = (Digit(2, dim=1, stride=1), Digit(2, dim=0, stride=2))     r:  j += r % 2,      i += r // 2 * 2
    thread = (Digit(2, dim=1, stride=2), Digit(2, dim=0, stride=1))     t:  j += t % 2 * 2,  i += t // 2

             j=0   1     2   3                     and the other way round:
    i=0     T0r0 T0r1  T1r0 T1r1                       thread   = j // 2 + i % 2 * 2
    i=1     T2r0 T2r1  T3r0 T3r1                       register = j % 2 + i // 2 * 2
    i=2     T0r2 T0r3  T1r2 T1r3
    i=3     T2r2 T2r3  T3r2 T3r3

Sum over j and ask where the four row sums live: drop the digits of dim 1 from the registers, and turn those
of the threads into replicas. `project(1)` gives reg = (Digit(2, 0, 2)), thread = (Digit(2, None), Digit(2, 0,
1)): threads 0 and 1 both hold sums 0 and 2. Nothing was moved, so giving the sum back to the row costs
nothing; what costs is adding up over the replica digit, one shuffle (xor 1).

    T0r0 T1r0 -> row 0     T2r0 T3r0 -> row 1     T0r1 T1r1 -> row 2     T2r1 T3r1 -> row 3

When all sizes and strides are powers of two the digits are bits and the layout is a matrix over F2
(`to_linear`); N = 96 needs a digit of size 3 and nothing else changes. Coordinates outside the shape are
padding: the place exists, the element does not (`valid`). A layout that no digits describe (a user's
function) is a `table`. The dense enumeration (`coords`, `elements`) is the truth that every shortcut here is
tested against.

Sources: Linear Layouts (arXiv 2505.23819); PTX ISA, "Matrix Fragments for mma", which are such digits
throughout.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilebench.layouts.digits import (
    Digit,
    Ints,
    add,
    digit_terms,
    enumerate_digits,
    fit_digits,
    merged,
    total,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tilebench.layouts.access import Access
    from tilebench.layouts.linear import Linear

Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class FragmentLayout:
    """(thread, register) -> coordinates of a tile of `shape`; see the module's header.

    reg, thread: digits of the two indices, least significant first (lane bits come before warps).
    table: int32 [threads, registers, rank] coordinates instead of digits; anything outside the shape is
    padding. Layouts compare and hash by content; `same_as` compares what they mean.
    """

    shape: tuple[int, ...]
    reg: tuple[Digit, ...] = ()
    thread: tuple[Digit, ...] = ()
    table: Ints | None = None

    def __post_init__(self) -> None:
        rank = len(self.shape)
        assert rank >= 1, "a fragment has at least one dimension; use (1,) for a scalar"
        for d in (*self.reg, *self.thread):
            assert d.dim is None or 0 <= d.dim < rank, f"{d} names a dimension outside {self.shape}"
        if self.table is not None:
            assert self.table.shape[2:] == (rank,), f"table of shape {self.table.shape}"
            table = np.ascontiguousarray(self.table, np.int32)
            table.setflags(write=False)
            object.__setattr__(self, "table", table)

    def _key(self) -> tuple[object, ...]:
        table = None if self.table is None else (self.table.shape, self.table.tobytes())
        return self.shape, self.reg, self.thread, table

    @cached_property
    def _hash(self) -> int:
        return hash(self._key())

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, FragmentLayout) and self._hash == other._hash and self._key() == other._key()

    def __hash__(self) -> int:
        return self._hash

    # -- sizes

    @property
    def rank(self) -> int:
        """Number of dimensions of the tile."""
        return len(self.shape)

    @property
    def is_digits(self) -> bool:
        """True when digits describe the layout, so that it has formulas."""
        return self.table is None

    @cached_property
    def threads(self) -> int:
        """Number of threads that the layout speaks of."""
        return total(self.thread) if self.table is None else int(self.table.shape[0])

    @cached_property
    def registers(self) -> int:
        """Elements that each thread keeps (array entries, not 32-bit registers)."""
        return total(self.reg) if self.table is None else int(self.table.shape[1])

    @cached_property
    def size(self) -> int:
        """Number of elements of the tile."""
        return int(np.prod(self.shape))

    # -- the function

    def coordinate(self, thread: Any, reg: Any) -> tuple[Any, ...]:
        """The element at (thread, reg) in + * // %: ints, arrays or IR expressions, which must be in range.

        A coordinate that depends on neither is the int 0. Raises LayoutError TB305 when a user's table is
        asked for an expression that is not a number or an array.
        """
        if self.table is not None:
            if not all(isinstance(x, (int, np.integer, np.ndarray)) for x in (thread, reg)):
                from tilebench.errors import LayoutError

                raise LayoutError(
                    "TB305",
                    f"this {'x'.join(map(str, self.shape))} fragment layout has no formula",
                    why="it was given as a function that is not a sum of digits of the thread and register",
                    fix="write it with // and % of the indices, one stride for each digit",
                )
            place = self.table[thread, reg]
            if place.ndim == 1:
                return tuple(int(x) for x in place)
            return tuple(place[..., d] for d in range(self.rank))
        out: list[Any] = [0] * self.rank
        for index, digits in ((thread, self.thread), (reg, self.reg)):
            part: list[Any] = [0] * self.rank
            for dim, term in digit_terms(index, digits):
                part[dim] = add(part[dim], term)
            out = [add(a, b) for a, b in zip(out, part, strict=True)]
        return tuple(out)

    @cached_property
    def _coords(self) -> Ints:
        if self.table is not None:
            return self.table
        thread, reg = enumerate_digits(self.thread, self.rank), enumerate_digits(self.reg, self.rank)
        return _read_only(thread[:, None, :] + reg[None, :, :])

    @cached_property
    def _valid(self) -> Bools:
        coords = self._coords
        return _read_only(((coords >= 0) & (coords < np.array(self.shape, np.int32))).all(axis=2))

    @cached_property
    def _elements(self) -> Ints:
        flat = np.zeros(self._coords.shape[:2], np.int32)
        for d, extent in enumerate(self.shape):
            flat = flat * np.int32(extent) + self._coords[..., d]
        return _read_only(np.where(self._valid, flat, np.int32(-1)))

    def coords(self) -> Ints:
        """int32 [threads, registers, rank] coordinates, padding included (read-only)."""
        return self._coords

    def valid(self) -> Bools:
        """bool [threads, registers]: False where the place is padding (read-only)."""
        return self._valid

    def elements(self) -> Ints:
        """int32 [threads, registers] row-major element number, -1 for padding (read-only)."""
        return self._elements

    @cached_property
    def padded_dims(self) -> tuple[bool, ...]:
        """For each dimension, whether some place lies outside it: those need a guard."""
        coords = self._coords
        outside = (coords < 0) | (coords >= np.array(self.shape, np.int32))
        return tuple(bool(outside[..., d].any()) for d in range(self.rank))

    def thread_digits(self, dim: int | None) -> tuple[tuple[int, int, int], ...]:
        """(divisor, size, stride) of each digit of the thread index that moves along `dim` (None: replicas).

        For a reduction: divisors below 32 are lanes (shuffles, by xor when the size is a power of two).
        """
        return _digits_of(self.thread, dim)

    def register_digits(self, dim: int | None) -> tuple[tuple[int, int, int], ...]:
        """(divisor, size, stride) of each digit of the register index that moves along `dim`."""
        return _digits_of(self.reg, dim)

    # -- the inverse

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        flat = self._elements.ravel()
        return np.bincount(flat[flat >= 0], minlength=self.size)

    @cached_property
    def replication(self) -> int:
        """The largest number of places that hold one element."""
        return int(self._counts.max(initial=0))

    @cached_property
    def covers(self) -> bool:
        """True when every element of the tile is held somewhere, as a usable layout must."""
        return bool((self._counts > 0).all())

    @cached_property
    def _sorted(self) -> tuple[NDArray[np.int64], Ints]:
        """(thread * size + element, register) of the valid places, sorted, lowest register first."""
        flat = self._elements.astype(np.int64) + np.arange(self.threads, dtype=np.int64)[:, None] * self.size
        valid = self._valid.ravel()
        reg = np.broadcast_to(np.arange(self.registers, dtype=np.int32), self._valid.shape).ravel()[valid]
        keys = flat.ravel()[valid]
        order = np.argsort(keys, kind="stable")
        return keys[order], reg[order]

    def lookup(self, thread: Any, element: Any) -> Ints:
        """Register in which `thread` holds row-major `element`, or -1 (as for -1); arrays broadcast."""
        keys, regs = self._sorted
        wanted = np.asarray(element, np.int64) + np.asarray(thread, np.int64) * self.size
        if not len(keys):
            return np.full(wanted.shape, -1, np.int32)
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where((keys[at] == wanted) & (np.asarray(element) >= 0), regs[at], np.int32(-1))

    def register_of(self) -> Ints:
        """int32 [threads, *shape]: the (lowest) register that holds the element, or -1."""
        dense = np.full((self.threads, self.size), -1, np.int32)
        keys, regs = self._sorted
        dense.reshape(-1)[keys[::-1]] = regs[::-1]
        return dense.reshape(self.threads, *self.shape)

    def holders(self, *index: int) -> list[tuple[int, int]]:
        """All (thread, register) that hold the element, in order."""
        assert len(index) == self.rank, f"{len(index)} indices for a fragment of shape {self.shape}"
        assert all(0 <= i < n for i, n in zip(index, self.shape, strict=True)), (
            f"{index} outside {self.shape}"
        )
        flat = int(np.ravel_multi_index(index, self.shape))
        return [(int(t), int(r)) for t, r in np.argwhere(self._elements == flat)]

    def owner(self) -> Bools:
        """bool [threads, registers], True for one holder of each element: the lowest (thread, register)."""
        flat = self._elements.ravel()
        first = np.zeros(flat.shape, bool)
        elements, at = np.unique(flat, return_index=True)
        first[at[elements >= 0]] = True
        return first.reshape(self._elements.shape)

    @cached_property
    def owner_digits(self) -> tuple[tuple[int, int], ...] | None:
        """(divisor, size) of each replica digit of the thread; owners have thread // divisor % size == 0.

        None when ownership is no such conjunction (a table, or digits that overlap): use `owner()`.
        """
        if self.table is not None:
            return None
        owner = np.broadcast_to(np.array(self.owner_registers_by_digits), self._valid.shape) & self._valid
        thread = np.arange(self.threads)[:, None]
        pairs = tuple((divisor, size) for divisor, size, _ in self.thread_digits(None))
        for divisor, size in pairs:
            owner = owner & (thread // divisor % size == 0)
        return pairs if np.array_equal(owner, self.owner()) else None

    @cached_property
    def owner_registers_by_digits(self) -> tuple[bool, ...]:
        """For each register, whether its replica digits are all 0: all are True without register replicas."""
        reg = np.arange(self.registers)
        keep = np.ones(self.registers, bool)
        for divisor, size, _ in self.register_digits(None):
            keep &= reg // divisor % size == 0
        return tuple(bool(x) for x in keep)

    def is_owner(self, thread: Any) -> list[Any] | None:
        """Expressions in `thread` that are all 0 exactly for the owners, or None when no such digits exist.

        An empty list means that no element has two holding threads. Padding and register replicas are not
        covered: see `valid` and `owner_registers_by_digits`.
        """
        if self.owner_digits is None:
            return None
        out: list[Any] = []
        for divisor, size in self.owner_digits:
            value = thread if divisor == 1 else thread // divisor
            out.append(value if divisor * size == self.threads else value % size)
        return out

    # -- new layouts from old

    def project(self, dim: int, keep: bool = False) -> FragmentLayout:
        """Layout of the tile reduced over `dim`: every thread that held part of a row holds the row's value.

        Register digits of `dim` vanish, thread digits become replicas. keep=True leaves the dimension with
        extent 1. A projection of a rank-1 tile has shape (1,).
        """
        dim = self._dim(dim)
        keep = keep or self.rank == 1
        shape = tuple(1 if d == dim else n for d, n in enumerate(self.shape) if keep or d != dim)
        if self.table is not None:
            table = self.table.copy()
            table[~self._valid] = -1
            if keep:
                table[..., dim] = np.where(self._valid, 0, -1)
            else:
                table = np.delete(table, dim, axis=2)
            table = _compact(table)
            _, first = np.unique(table, axis=1, return_index=True)
            return FragmentLayout.from_table(shape, table[:, np.sort(first)])

        def moved(d: Digit) -> Digit:
            if d.dim is None or d.dim == dim:
                return Digit(d.size, None)
            return d if keep or d.dim < dim else Digit(d.size, d.dim - 1, d.stride)

        return FragmentLayout(
            shape, tuple(moved(d) for d in self.reg if d.dim != dim), tuple(moved(d) for d in self.thread)
        )

    def expand(self, dim: int, extent: int = 1) -> FragmentLayout:
        """Layout with a new dimension before position `dim`, held whole in each holder's registers.

        project(dim) undoes it.
        """
        assert 0 <= dim <= self.rank, f"position {dim} in a fragment of shape {self.shape}"
        shape = (*self.shape[:dim], extent, *self.shape[dim:])
        if self.table is not None:
            table = np.insert(self.table, dim, 0, axis=2)
            table = np.concatenate([table + _unit(self.rank + 1, dim, k) for k in range(extent)], axis=1)
            return FragmentLayout.from_table(shape, table)

        def moved(d: Digit) -> Digit:
            return d if d.dim is None or d.dim < dim else Digit(d.size, d.dim + 1, d.stride)

        reg = tuple(moved(d) for d in self.reg)
        reg = (*reg, Digit(extent, dim, 1)) if extent > 1 else reg
        return FragmentLayout(shape, reg, tuple(moved(d) for d in self.thread))

    def broadcast(self, dim: int, extent: int) -> FragmentLayout:
        """Layout with dimension `dim`, of extent 1 now, grown to `extent` in every holder's registers."""
        dim = self._dim(dim)
        assert self.shape[dim] == 1, f"dimension {dim} of {self.shape} is not 1"
        return (
            self.project(dim).expand(dim, extent)
            if self.rank > 1
            else FragmentLayout((extent,), (*self.reg, Digit(extent, 0, 1)), self.thread)
        )

    def permute(self, dims: Sequence[int]) -> FragmentLayout:
        """Layout of the transposed tile: new dimension k is old dims[k]; nobody's registers move."""
        assert sorted(dims) == list(range(self.rank)), f"{dims} is no permutation of {self.rank} dimensions"
        shape = tuple(self.shape[d] for d in dims)
        if self.table is not None:
            return FragmentLayout(shape, table=self.table[..., list(dims)])

        def moved(d: Digit) -> Digit:
            return d if d.dim is None else Digit(d.size, list(dims).index(d.dim), d.stride)

        return FragmentLayout(shape, tuple(map(moved, self.reg)), tuple(map(moved, self.thread)))

    def reshape(self, shape: Sequence[int]) -> FragmentLayout:
        """Layout of the same row-major elements under another shape."""
        shape = tuple(shape)
        assert int(np.prod(shape)) == self.size, f"{self.shape} has {self.size} elements, {shape} does not"
        flat = self._elements
        coords = np.stack(np.unravel_index(np.maximum(flat, 0), shape), axis=-1).astype(np.int32)
        return FragmentLayout.from_table(shape, np.where(flat[..., None] >= 0, coords, np.int32(-1)))

    def replicate(self, count: int) -> FragmentLayout:
        """Layout over `count` times the threads, each group of self.threads holding a copy."""
        if self.table is not None:
            return FragmentLayout(self.shape, table=np.concatenate([self.table] * count))
        return FragmentLayout(self.shape, self.reg, (*self.thread, Digit(count, None)))

    def pullback(self, access: Access | Ints, loop_shape: Sequence[int]) -> FragmentLayout | None:
        """Layout of a loop nest over this fragment: iteration p goes to the holders of element access(p).

        access: one (coefficients, constant) per dimension here, or an integer array [*loop_shape, rank].
        None when two iterations visit one element or an iteration falls outside: no layout does that.
        """
        from tilebench.layouts import access as loops

        return loops.pullback(self, access, tuple(loop_shape))

    def restrict(self, starts: Sequence[int], extents: Sequence[int]) -> FragmentLayout | None:
        """Layout of the slice [start, start + extent) in each dimension, in the same threads."""
        rank = self.rank
        access = [([int(k == d) for k in range(rank)], int(starts[d])) for d in range(rank)]
        return self.pullback(access, tuple(extents))

    # -- comparing

    def same_as(self, other: FragmentLayout) -> bool:
        """True when every place holds the same element in both (padding included)."""
        if self == other:
            return True
        same_sizes = (self.shape, self.threads, self.registers) == (
            other.shape,
            other.threads,
            other.registers,
        )
        return same_sizes and np.array_equal(self._elements, other._elements)

    def contains(self, other: FragmentLayout) -> bool:
        """True when each thread holds here (in some register) everything that it holds in `other`."""
        if self.shape != other.shape or self.threads != other.threads:
            return False
        if self == other:
            return True
        found = self.lookup(np.arange(self.threads)[:, None], other._elements)
        return bool(((found >= 0) | ~other._valid).all())

    def registers_for(self, loop: FragmentLayout, access: Access | Ints) -> Ints:
        """int32 [threads, loop.registers]: the register here that iteration (thread, reg) of `loop` reads.

        -1 where the iteration is padding, where its element lies outside, or where the thread does not hold
        it.
        """
        from tilebench.layouts import access as loops

        return loops.registers_for(self, loop, access)

    def uniform_registers(self, loop: FragmentLayout, access: Access | Ints) -> Ints | None:
        """int32 [loop.registers]: as `registers_for`, when every thread says the same; else None.

        -1 for a register of the loop that is padding in all threads. None as well when a thread lacks an
        element.
        """
        found = self.registers_for(loop, access)
        if ((found < 0) & loop.valid()).any():
            return None
        highest = found.max(axis=0, initial=-1)
        return highest if ((found == highest) | ~loop.valid()).all() else None

    # -- other forms

    def to_linear(self) -> Linear | None:
        """F2 columns, or None when a size or stride is no power of two or two digits meet in a bit."""
        from tilebench.layouts.linear import linear_form

        return linear_form(self)

    def simplified(self) -> FragmentLayout:
        """The same function with the fewest digits."""
        if self.table is not None:
            return FragmentLayout.from_table(self.shape, self.table)
        return FragmentLayout(self.shape, merged(self.reg), merged(self.thread))

    def describe(self, grid: bool = True) -> str:
        """Formulas of the layout as text and, for tiles up to 16x16, a grid of its places."""
        from tilebench.layouts.describe import describe_fragment

        return describe_fragment(self, grid)

    @staticmethod
    def from_table(shape: Sequence[int], table: NDArray[Any]) -> FragmentLayout:
        """Layout from coordinates [threads, registers, rank]: as digits where they can say it."""
        shape = tuple(shape)
        table = np.asarray(table, np.int32)
        thread = fit_digits(table[:, 0])
        reg = fit_digits(table[0]) if thread is not None else None
        as_table = FragmentLayout(shape, table=table)
        if thread is None or reg is None:
            return as_table
        layout = FragmentLayout(shape, reg, thread)
        return layout if np.array_equal(layout._elements, as_table._elements) else as_table

    @staticmethod
    def from_function(
        shape: Sequence[int],
        place: Callable[..., tuple[int, int]],
        *,
        replicate: int = 1,
        threads: int | None = None,
    ) -> FragmentLayout:
        """Layout from a user's function element -> (thread, register), evaluated once per element.

        With replicate > 1 the function takes the replica number as one more last argument. threads defaults
        to one more than the largest thread named.
        Raises LayoutError TB306 when two elements share a place, or one is negative or not below `threads`.
        """
        from tilebench.layouts.user import fragment_from_function

        return fragment_from_function(tuple(shape), place, replicate, threads)

    def _dim(self, dim: int) -> int:
        assert -self.rank <= dim < self.rank, f"dimension {dim} of a fragment of shape {self.shape}"
        return dim % self.rank

    def __repr__(self) -> str:
        if self.table is not None:
            return (
                f"FragmentLayout({self.shape}, table of {self.threads} threads x {self.registers} registers)"
            )
        return f"FragmentLayout({self.shape}, reg={_short(self.reg)}, thread={_short(self.thread)})"


def _read_only(array: Any) -> Any:
    array.setflags(write=False)
    return array


def _unit(rank: int, dim: int, k: int) -> Ints:
    step = np.zeros(rank, np.int32)
    step[dim] = k
    return step


def _digits_of(digits: Sequence[Digit], dim: int | None) -> tuple[tuple[int, int, int], ...]:
    found: list[tuple[int, int, int]] = []
    below = 1
    for d in merged(digits):
        if d.dim == dim:
            found.append((below, d.size, d.stride))
        below *= d.size
    return tuple(found)


def _compact(table: Ints) -> Ints:
    """The table without registers that are padding in every thread (at least one is kept)."""
    used = (table >= 0).all(axis=2).any(axis=0)
    return table[:, used] if used.any() else table[:, :1]


def _short(digits: Sequence[Digit]) -> str:
    return (
        "("
        + ", ".join(f"{d.size}:{'rep' if d.dim is None else f'd{d.dim}*{d.stride}'}" for d in digits)
        + ")"
    )
