"""Whether two accesses to memory that threads share are in conflict: the same bytes, and one of the two
writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd
from typing import Literal

from tilebench.ir.expr import Binary, Expr, Load, Var, const, int_value
from tilebench.ir.rewrite import calls, loads, substitute, variables, walk
from tilebench.ir.simplify import bounds, from_linear, linear, simplify
from tilebench.ir.tile import Bind, Buffer, For, Kernel, Parallel, Pipelined, Region, Stmt
from tilebench.ops.atomic import AtomicTile
from tilebench.ops.copy import Copy
from tilebench.passes.regions import Mode
from tilebench.passes.stages import Slot

Hazard = Literal["RAW", "WAR", "WAW"]


@dataclass(frozen=True, eq=False)
class Access:
    """One access since the last barrier. version: of a pipelined buffer, None when any; earlier: of another
    iteration; once: the counter of a loop, when it is the iteration right before of that loop.
    """

    buffer: Buffer
    mode: Mode
    region: Region | None
    version: Expr | None
    stmt: Stmt
    unit: Stmt
    """The statement that the block executes as one: the nest or the op that `stmt` is in."""
    earlier: bool = False
    met: bool = False
    """Whether the threads of each warpgroup have met since."""
    once: Var | None = None

    @property
    def alone(self) -> bool:
        """Whether each warpgroup touches only what is its own there."""
        return isinstance(self.unit, Copy | AtomicTile | Parallel) and self.unit.alone

    @property
    def key(self) -> tuple[object, ...]:
        """Two accesses with one key need not both be kept."""
        return (self.buffer, self.mode, id(self.region), id(self.version), self.stmt, self.earlier, self.once)


class Conflicts:
    """What is known of a program's memory and indices, to tell accesses apart."""

    def __init__(self, kernel: Kernel, body: Stmt, slots: Mapping[Buffer, Slot]) -> None:
        self.slots = slots
        self.bound = {n.var: n.value for n in walk(body) if isinstance(n, Bind) and n.value.dtype.is_int}
        self.ranges = _ranges(body)
        self.uniform = _uniform(kernel, body)

    def hazard(self, before: Access, after: Access) -> Hazard | None:
        """How `after` depends on `before`, made by other threads without a barrier between; None when it does
        not.
        """
        if before.mode == "read" and after.mode == "read":
            return None
        if before.mode == "atomic" and after.mode == "atomic" and before.buffer is after.buffer:
            return None
        if not self._overlap(before, after):
            return None
        if before.mode == "read":
            return "WAR"
        return "RAW" if after.mode == "read" else "WAW"

    def _overlap(self, a: Access, b: Access) -> bool:
        if a.buffer is not b.buffer:
            x, y = self.slots.get(a.buffer), self.slots.get(b.buffer)
            return (
                x is not None
                and y is not None
                and x.offset < y.offset + y.size
                and y.offset < x.offset + x.size
            )
        earlier = a.earlier or b.earlier
        if (
            a.version is not None
            and b.version is not None
            and not earlier
            and self._differ(a.version, b.version)
        ):
            return False
        if a.region is None or b.region is None:
            return True
        if a.unit is b.unit and a.version is b.version and self._same_or_apart(a.region, b.region):
            return False
        return not any(
            self._apart(p, n, q, m, earlier) or (a.once is not None and _in_turn(p, n, q, m, a.once))
            for p, n, q, m in zip(
                a.region.offsets, a.region.extents, b.region.offsets, b.region.extents, strict=True
            )
        )

    def _differ(self, a: Expr, b: Expr) -> bool:
        """Whether two version numbers of one iteration are never equal: tried for every value of the stage
        counter.
        """
        a, b = (
            self.bound.get(x, x) if isinstance(x, Var) and not _counts(self.bound.get(x)) else x
            for x in (a, b)
        )
        names = variables(a) | variables(b)
        if not names:
            return int_value(a) != int_value(b)
        counter = next(iter(names))
        stages = _counts(self.bound.get(counter))
        if len(names) > 1 or not stages:
            return False
        for k in range(stages):
            at = {counter: const(k)}
            x, y = int_value(simplify(substitute(a, at), {})), int_value(simplify(substitute(b, at), {}))
            if x is None or y is None or x == y:
                return False
        return True

    def _same_or_apart(self, p: Region, q: Region) -> bool:
        """Whether one statement, executed twice, touches the same element by the same thread or else other
        elements.

        So it is when the parts of each index that differ between executions step over all that one execution
        covers.
        """
        for x, n, y in zip(p.offsets, p.extents, q.offsets, strict=True):
            form = linear(x)
            difference = linear(x - y)
            if (
                any(c for _, c in difference.terms)
                or difference.constant
                or any(isinstance(t, Load) for e in (x, y) for t in walk(e))
            ):
                return False
            step, low, high = 0, 0, n - 1
            for term, c in form.terms:
                if variables(term) <= self.uniform:
                    step = gcd(step, c)
                    continue
                reach = bounds(term, self.ranges) if isinstance(term, Var) else None
                if reach is None:
                    return False
                low, high = low + min(c * reach[0], c * reach[1]), high + max(c * reach[0], c * reach[1])
            if step and step < high - low + 1:
                return False
        return True

    def _apart(self, p: Expr, n: int, q: Expr, m: int, earlier: bool) -> bool:
        """Whether [p, p + n) and [q, q + m) share nothing. Offsets of an earlier iteration are known by their
        range only.
        """
        if any(isinstance(x, Load) for e in (p, q) for x in walk(e)):
            return False
        if earlier or not variables(p) | variables(q) <= self.uniform:
            a, b = bounds(p, self.ranges), bounds(q, self.ranges)
            return a is not None and b is not None and (a[1] + n <= b[0] or b[1] + m <= a[0])
        between = bounds(from_linear(linear(p - q)), self.ranges)
        return between is not None and (between[0] >= m or between[1] <= -n)


def _in_turn(p: Expr, n: int, q: Expr, m: int, counter: Var) -> bool:
    """Whether [p, p + n) of one iteration and [q, q + m) of the next share nothing, both offsets going round
    with the loop's counter: `k % S`.
    """
    stages = _counts(p)
    if not stages or _counts(q) != stages or variables(p) | variables(q) != {counter}:
        return False
    for k in range(stages, 2 * stages):
        x = int_value(simplify(substitute(p, {counter: const(k - 1)}), {}))
        y = int_value(simplify(substitute(q, {counter: const(k)}), {}))
        if x is None or y is None or (x < y + m and y < x + n):
            return False
    return True


def _counts(e: Expr | None) -> int:
    """S for the stage counter `k % S`, else 0."""
    return (int_value(e.right) or 0) if isinstance(e, Binary) and e.op in ("truncmod", "floormod") else 0


def _uniform(kernel: Kernel, body: Stmt) -> set[Var]:
    """Variables that all threads of a block agree on at one time: blocks, arguments, counters of loops, names
    made of them.
    """
    found = {*kernel.blocks, *kernel.symbols, *(p.value for p in kernel.params if isinstance(p.value, Var))}
    for n in walk(body):
        if (isinstance(n, For | Pipelined) and variables(n.start) | variables(n.stop) <= found) or (
            isinstance(n, Bind) and variables(n.value) <= found and not loads(n.value) and not calls(n.value)
        ):
            found.add(n.var)
    return found


def _ranges(body: Stmt) -> dict[Var, tuple[int, int]]:
    """What the variables of loops and nests range over, where that is constant."""
    found: dict[Var, tuple[int, int]] = {}
    for n in walk(body):
        if isinstance(n, Parallel):
            found.update({v: (0, max(0, e - 1)) for v, e in zip(n.vars, n.extents, strict=True)})
        elif isinstance(n, For | Pipelined):
            start, stop = int_value(n.start), int_value(n.stop)
            if start is not None and stop is not None and start < stop:
                found[n.var] = (start, stop - 1)
    return found
