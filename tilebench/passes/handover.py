"""Placed -> Scheduled where a producer makes the copies: rings of tiles handed from it to the consumers.

Every tile that a bulk copy brings belongs to a channel, a ring of `num_stages` versions (one outside of
pipelined loops). The copy becomes a `Produce`; the first statement that needs the tile stands behind an
`Acquire`, the last one before a `Release`. Products run asynchronously: each is waited for as late as the
fragments and rings that it uses allow. In a pipelined loop two products more can overlap:

* a product whose accumulator nothing else in the loop touches stays under way into the next iteration, so
  that one group is always in flight; its slots are given back an iteration later (`carried`);
* a last product that takes its left operand from registers, with another product before it (attention),
  trails by one iteration: it is issued behind the next iteration's first product and runs while the threads
  work on the result of that one (`trailing`). What touches its fragments goes behind its wait;
* with TB_STAGES_BY_HAND, statements to which `stage=` gives the later of two stages run in the next
  iteration, at their place in `order=` (`by_stages`).

Products under a condition that the block meets as one stay under way behind it: where it does not hold, empty
groups stand for them, so that waits count the same (`conditional`). Small tiles that threads read are one
ring (`gathered`), given back behind a bulk store's fence where there is one (`_fenced`).

The body's text shows all of it; `Schedule.reason` says what was chosen.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeGuard

from tilebench.ir.dtype import int32
from tilebench.ir.expr import Expr, Load, Var, binary, const, int_value, is_const, unary
from tilebench.ir.rewrite import children, rebuild, seq, substitute, transform, variables, walk
from tilebench.ir.simplify import Interval, bounds
from tilebench.ir.tile import (
    Acquire,
    Bind,
    Buffer,
    Channel,
    For,
    If,
    Issue,
    Pipelined,
    Produce,
    Release,
    Seq,
    Stmt,
    TileOp,
    Token,
    Versioned,
    Wait,
)  # fmt: skip
from tilebench.ops.copy import Copy
from tilebench.ops.copy.bulk import NAME as BULK
from tilebench.ops.copy.bulk import STORE
from tilebench.ops.gemm import Gemm
from tilebench.ops.gemm.wgmma import NAME as WGMMA
from tilebench.passes.masks import ALWAYS, cleared_when
from tilebench.passes.persistent import FACT
from tilebench.passes.pipeline_table import Table, read_table
from tilebench.passes.regions import bound_indices, guarded_copies, root_of, uses
from tilebench.passes.schedule import key_tile_of, scheduled_op
from tilebench.passes.stages import Placed, Reason, Schedule, Scheduled
from tilebench.passes.staging import free_bytes, size_of
from tilebench.passes.teams import teams_of
from tilebench.passes.two_stages import buffers_of, depends, fragments_of, staged_order

NO_OVERLAP = "TB_DISABLE_PRODUCT_OVERLAP"
"""Pass config: products are waited for within their iteration."""
PIN_WAIT = "TB_PIN_PRODUCT_WAIT"
"""Pass config: keep ptxas from moving the wait of a trailing product ahead of the work that hides it.
Measured on an H200 this loses a few per cent (tests/perf/NOTES.md), so it is off."""

BY_HAND = "TB_STAGES_BY_HAND"
"""Pass config: `stage=` and `order=` of T.Pipelined say which statements trail by an iteration."""

AHEAD = "TB_TILES_AHEAD"
"""Pass config: False keeps tiles that persistent blocks bring once for a tile of the result from having two
versions, where there is room, so that the next ones come while the last are in use."""

SMALL = 1024
"""Bytes of a tile that is never waited for alone, where threads read another one like it."""

Overlap = Literal["", "carried", "trailing"]


def hand_over(placed: Placed, most: int | None = None, *, ahead: bool = True) -> Scheduled:
    """The body with its copies given to the producer, and its products waited for.

    most: versions of a tile, where shared memory has no room for as many as a loop asks for; ahead:
    persistent blocks may bring what a tile of the result needs once before the last tile's is used up.
    """
    pass_ = _Handover(placed, most, ahead)
    body = pass_.sequence(_parts(placed.kernel.body), False)
    teams = teams_of(placed.kernel)
    if teams > 1:  # each has tiles of its own in which it stages its results
        brought = {b for n in walk(seq(*body)) if isinstance(n, Produce) for b in n.channel.buffers}
        own = (b for b in placed.kernel.buffers if b.scope == "shared" and b not in brought)
        pass_.versions.update(dict.fromkeys(own, teams))
    return Scheduled(placed, seq(*body), tuple(pass_.schedules), pass_.versions)


@dataclass
class _Flight:
    """A product under way: the fragments that it owns, the rings that it reads, those to be given back after
    it."""

    product: Gemm
    fragments: frozenset[Buffer]
    channels: frozenset[Channel]
    after: list[Release] = field(default_factory=list[Release])
    lagging: bool = False
    """Whether one of those is a tile that the next iteration's statements have gone past."""


def _parts(s: Stmt) -> list[Stmt]:
    return list(s.body) if isinstance(s, Seq) else [s]


class _Handover:
    """Rewrites sequences; collects channels, versions and schedules."""

    def __init__(self, placed: Placed, most: int | None = None, ahead: bool = True) -> None:
        self.placed = placed
        self.most = most
        self.may_be_ahead = ahead
        self.said = ""
        """Of the tiles around a loop, for its reason."""
        self.stages = 1
        """Versions of what an if brings: as many as the pipelined loop has that it stands in."""
        self.instructions = placed.partitioned.selected.instructions
        self.configs = placed.kernel.configs
        self.schedules: list[Schedule] = []
        self.origins: dict[Stmt, Stmt] = {}
        """Products with other fields -> as they were written."""
        self.versions: dict[Buffer, int] = {}
        self.inside: dict[If, list[Stmt] | None] = {}
        """Conditions -> what is under them, where products stay under way behind them."""
        self.token = Token("products", "wgmma")
        self.ranges: dict[Var, Interval] = {
            v: (0, n - 1)
            for v, e in zip(placed.kernel.blocks, placed.kernel.grid, strict=True)
            if (n := int_value(e)) is not None
        }

    # -- structure

    def visit(self, s: Stmt, in_loop: bool) -> list[Stmt]:
        """A statement that is no copy of the producer and no product."""
        if isinstance(s, Pipelined):
            return self.loop(s, in_loop)
        if isinstance(s, TileOp) or not any(self.concerns(n) for n in walk(s)):
            return [s]
        inside = in_loop or not isinstance(s, If | Seq)
        stages = self.stages
        if not isinstance(s, If):
            self.stages = 1
        new = rebuild(s, lambda c: seq(*self.sequence(_parts(c), inside)) if isinstance(c, Stmt) else c)
        self.stages = stages
        return [new]

    def concerns(self, n: object) -> bool:
        """Whether a node is rewritten here."""
        return isinstance(n, Pipelined) or (isinstance(n, Copy | Gemm) and self.chosen(n) in (BULK, WGMMA))

    def chosen(self, op: TileOp) -> str:
        """The name of the op's instruction."""
        found = self.instructions.get(op)
        return found.name if found is not None else ""

    def sequence(self, parts: list[Stmt], in_loop: bool) -> list[Stmt]:
        """Statements that run one after the other."""
        stages = max(self.stages, 2 if in_loop and self.ahead(parts) else 1)
        rings, rest = self.channels(self.folded(parts), stages)
        return self.versioned(rings, in_front(_produced(rings), self.consumed(rest, rings, in_loop)))

    def ahead(self, parts: Sequence[Stmt]) -> bool:
        """Whether the tiles of a sequence get a second version: wanted, persistent, and there is room."""
        if not self.configs.get(AHEAD, True) or not self.placed.kernel.attributes.get(FACT, False):
            return False
        brought = [p.destination.buffer for p in parts if isinstance(p, Copy) and self.chosen(p) == BULK]
        if not brought:
            return False
        room = sum(map(size_of, brought)) <= free_bytes(self.placed.partitioned.selected)
        names = ", ".join(b.name for b in brought)
        if room and self.may_be_ahead:
            self.said = f"; the next tile's {names} may come before this one's are used up"
            return True
        self.said = f"; {names}: one version, shared memory has no room for the next tile's"
        return False

    def versioned(self, rings: Sequence[_Ring], body: list[Stmt]) -> list[Stmt]:
        """The body in the versions that are in turn."""
        table = {b: r.channel.version for r in rings for b in r.channel.buffers if r.channel.stages > 1}
        return [Versioned(table, seq(*body))] if table else body

    def folded(self, parts: Sequence[Stmt]) -> list[Stmt]:
        """A product into what was just cleared overwrites it instead."""
        out: list[Stmt] = []
        for p in parts:
            if self.is_product(p) and not p.clear_accum:
                k = next((k for k in reversed(range(len(out))) if p.c.buffer in fragments_of(out[k])), -1)
                zero = cleared_when(out[k], p.c.buffer, self.ranges) if k >= 0 and p.c.is_whole else None
                if zero is not None and self.may_change(zero, out[k + 1 :]):
                    zero = None
                if zero is ALWAYS:
                    del out[k]
                    p = self.renewed(p, clear_accum=True)
                elif zero is not None:
                    masked = unary("not", zero)
                    out[k] = If(masked, out[k], loc=out[k].loc)
                    p = self.renewed(p, keep=masked)
            out.append(p)
        return out

    def may_change(self, e: Expr, between: Sequence[Stmt]) -> bool:
        """Whether `e` may have another value behind these statements, or in another thread."""
        read = {root_of(n.buffer) for n in walk(e) if isinstance(n, Load)}
        if self.placed.kernel.thread in variables(e) or any(b.scope in ("fragment", "local") for b in read):
            return True
        return any(read & uses(p)[1] for p in between)

    def renewed(self, g: Gemm, **changes: object) -> Gemm:
        """The product with other fields; select's choice holds for it too."""
        fresh = dataclasses.replace(g, **changes)  # type: ignore[arg-type]
        self.instructions = {**self.instructions, fresh: self.instructions[g]}
        self.origins[fresh] = self.origins.get(g, g)
        return fresh

    # -- copies

    def channels(self, parts: Sequence[Stmt], stages: int) -> tuple[list[_Ring], list[Stmt]]:
        """The rings of a sequence, and what is left of it. Tiles of one first and last use share a ring."""
        names = bound_indices(seq(*parts))
        copies: list[Copy] = []
        rest: list[Stmt] = []
        for p in parts:
            if isinstance(p, Copy) and self.chosen(p) == BULK:
                copies.append(self.written_out(p, names))
            else:
                rest.append(p)
        groups: dict[tuple[int, int], list[Copy]] = {}
        for copy in copies:
            users = [i for i, p in enumerate(rest) if copy.destination.buffer in buffers_of(p)]
            if users:
                groups.setdefault((users[0], users[-1]), []).append(copy)
        groups = self.gathered(groups, rest)
        rings: list[_Ring] = []
        for (first, last), members in groups.items():
            buffers = tuple(c.destination.buffer for c in members)
            name = "_".join(b.name for b in buffers)
            products_only = all(self.only_products(p, buffers) for p in rest if buffers_of(p) & set(buffers))
            slot, phase = (Buffer(f"{name}_{what}", (const(1),), int32, "var") for what in ("slot", "phase"))
            channel = Channel(name, buffers, stages, slot, phase, products_only)
            self.versions.update(dict.fromkeys(buffers, stages))
            threads = any(self.threads_read(p, frozenset(buffers)) for p in rest)
            rings.append(_Ring(channel, rest[first], rest[last], tuple(members), threads_read=threads))
        return rings, rest

    def gathered(
        self, groups: dict[tuple[int, int], list[Copy]], rest: Sequence[Stmt]
    ) -> dict[tuple[int, int], list[Copy]]:
        """Small tiles that threads read in one ring, from the first use of any to the last one."""

        def small(copies: Sequence[Copy]) -> bool:
            buffers = frozenset(c.destination.buffer for c in copies)
            read = any(self.threads_read(p, buffers) for p in rest)
            return read and all(size_of(b) <= SMALL for b in buffers)

        together = [k for k, copies in groups.items() if small(copies)]
        if len(together) < 2:
            return groups
        whole = min(a for a, _ in together), max(b for _, b in together)
        kept = {k: v for k, v in groups.items() if k not in together}
        return {**kept, whole: [*kept.get(whole, []), *(c for k in together for c in groups[k])]}

    def only_products(self, s: Stmt, buffers: Sequence[Buffer]) -> bool:
        """Whether only products on warpgroups, which may be under a condition, use these tiles."""
        if isinstance(s, If) and self.conditional(s) is not None:
            return all(self.only_products(p, buffers) for p in _parts(s.then) if buffers_of(p) & set(buffers))
        return self.is_product(s)

    def threads_read(self, s: Stmt, buffers: frozenset[Buffer]) -> bool:
        """Whether something else than products reads these tiles in a statement."""
        if self.is_product(s):
            return False
        inside = [c for c in children(s) if isinstance(c, Stmt)]
        if not inside:
            return bool(buffers_of(s) & buffers)
        names = (n for c in children(s) if not isinstance(c, Stmt) for n in walk(c))
        loaded = any(isinstance(n, Load) and root_of(n.buffer) in buffers for n in names)
        return loaded or any(self.threads_read(c, buffers) for c in inside)

    def written_out(self, copy: Copy, names: Mapping[Var, Expr]) -> Copy:
        """The copy without names that its sequence binds: it moves to the front."""
        fresh = substitute(copy, names) if names else copy
        assert isinstance(fresh, Copy)
        self.instructions = {**self.instructions, fresh: self.instructions[copy]}
        return fresh

    # -- what the consumers do

    def consumed(
        self,
        parts: Sequence[Stmt],
        rings: Sequence[_Ring],
        in_loop: bool,
        *,
        pinned: Stmt | None = None,
        carried: Expr | None = None,
        late: frozenset[Stmt] = frozenset(),
    ) -> list[Stmt]:
        """The statements with Acquire and Release around the uses of each ring, and waits for products.

        pinned: the statement whose wait ptxas shall not move up; carried: the only product stays under way at
        the end, and this says that one of an earlier iteration is; late: statements of the iteration before.
        """
        out: list[Stmt] = []
        flying: list[_Flight] = []
        alike = carried is None and not late and not any(r.lagging for r in rings)

        def land(count: int) -> None:
            # What goes back an iteration late does so at once: its place is wanted for the next copy.
            for k in (k for k, f in enumerate(flying[:count], 1) if f.lagging and k < count):
                land(k)
                land(count - k)
                return
            done = flying[:count]
            if not done:
                return
            del flying[:count]
            owned = tuple(dict.fromkeys(b for f in done for b in f.fragments))
            out.append(Wait(self.token, len(flying), tuple(sorted(owned, key=lambda b: b.id))))
            out.extend(r for f in done for r in f.after)

        for part in parts:
            used = fragments_of(part)
            out += [Acquire(r.channel, loc=r.copies[0].loc) for r in rings if r.first is part]
            inner = self.conditional(part) if alike and isinstance(part, If) else None
            steps = [(p, fragments_of(p)) for p in inner] if inner is not None else [(part, used)]
            blocking = [k for k, f in enumerate(flying) if any(self.conflict(f, p, u) for p, u in steps)]
            if blocking:
                if pinned is part and self.configs.get(PIN_WAIT, False):
                    held = next((r for r in rings if r.channel in flying[blocking[-1]].channels), None)
                    if held is not None:
                        out.append(Acquire(held.channel, again=True))
                land(blocking[-1] + 1)
            ending = [r for r in rings if r.last is part]
            before = {
                b: r.channel.previous
                for r in rings
                if part in late and r.lagging and r.channel.stages > 1
                for b in r.channel.buffers
            }
            if self.is_product(part):
                issue = Issue(self.token, (part,), loc=part.loc)
                out.append(Versioned(before, issue) if before else issue)
                flight = self.flight(part, rings)
                flying.append(flight)
                for ring in ending:
                    if ring.lagging:
                        flight.lagging = True
                        flight.after.append(Release(ring.channel, "previous", False, loc=part.loc))
                    elif carried is not None:
                        flight.after.append(Release(ring.channel, "previous", True, carried, loc=part.loc))
                    else:
                        flight.after.append(Release(ring.channel, "own" if in_loop else "none", loc=part.loc))
                if carried is not None:
                    out.append(Wait(self.token, 1))
                    out.extend(flight.after)
                continue
            if inner is not None and isinstance(part, If):
                flying += [self.flight(p, rings) for p in inner if self.is_product(p)]
                then = [Issue(self.token, (p,), loc=p.loc) if self.is_product(p) else p for p in inner]
                nothing = [Issue(self.token, (), loc=p.loc) for p in inner if self.is_product(p)]
                out.append(dataclasses.replace(part, then=seq(*then), orelse=seq(*nothing)))
            else:
                visited = self.visit(part, in_loop)
                out.extend([Versioned(before, seq(*visited))] if before else visited)
            for ring in ending:
                release = Release(ring.channel, "own" if in_loop else "none", loc=part.loc)
                if ring.lagging:
                    release = Release(ring.channel, "previous", False, loc=part.loc)
                busy = next((f for f in reversed(flying) if ring.channel in f.channels), None)
                if busy is not None:
                    busy.after.append(release)
                else:
                    out.append(release)
        if carried is None:
            land(len(flying))
        out += [Release(r.channel, "none", True) for r in rings if r.lagging and r.first in parts]
        stores = frozenset(
            p for p in out for q in _parts(p) if isinstance(q, Copy) and self.chosen(q) == STORE
        )
        return _fenced(out, frozenset(r.channel for r in rings if r.threads_read), stores)

    def conditional(self, s: If) -> list[Stmt] | None:
        """The statements under a condition that all threads meet alike, when its products may stay under way
        behind it: where it does not hold, empty groups stand for them. Else None.
        """
        if s not in self.inside:
            self.inside[s] = self.conditional_parts(s)
        return self.inside[s]

    def conditional_parts(self, s: If) -> list[Stmt] | None:
        """What `conditional` remembers: a product has other fields each time that it is made."""
        if s.orelse is not None or s in self.placed.partitioned.selected.typed.per_thread:
            return None
        parts = self.folded(_parts(s.then))
        flying: list[_Flight] = []
        for p in parts:
            if any(self.conflict(f, p, fragments_of(p)) for f in flying):
                return None
            if self.is_product(p):
                flying.append(self.flight(p, ()))
            elif any(self.concerns(n) for n in walk(p)):
                return None
        return parts if flying else None

    def flight(self, p: Gemm, rings: Sequence[_Ring]) -> _Flight:
        """A product that starts, and what it holds until it ends."""
        reads = frozenset(r.channel for r in rings if buffers_of(p) & set(r.channel.buffers))
        return _Flight(p, fragments_of(p), reads)

    def conflict(self, f: _Flight, part: Stmt, used: frozenset[Buffer]) -> bool:
        """Whether a statement must wait for a product under way."""
        common = f.fragments & used
        if not common:
            operands = buffers_of(f.product) - f.fragments
            return any(b.scope == "shared" for b in uses(part)[1] & operands)
        if self.is_product(part) and part.c.buffer is f.product.c.buffer and len(common) == 1:
            return part.clear_accum
        return True

    # -- pipelined loops

    def loop(self, loop: Pipelined, in_loop: bool) -> list[Stmt]:
        """A pipelined loop, its products overlapped where that is possible."""
        low, high = bounds(loop.start, self.ranges), bounds(loop.stop, self.ranges)
        if low is not None and high is not None:
            self.ranges[loop.var] = (low[0], max(low[0], high[1] - 1))
        written = _parts(loop.body)
        table = read_table(loop, written)
        stages = max(1, loop.num_stages)
        start, stop = int_value(loop.start), int_value(loop.stop)
        if start is not None and stop is not None:
            stages = max(1, min(stages, stop - start))
        wanted, stages = stages, min(stages, self.most or stages)
        parts = self.folded(written)
        rings, rest = self.channels(parts, stages)
        # With one version the next tile cannot come before the product that reads the last one is over.
        may = loop.num_stages >= 2 and not self.configs.get(NO_OVERLAP, False)
        overlap, why = self.overlap(rest, rings) if may else ("", "")
        if table is not None and overlap != "trailing" and not self.configs.get(BY_HAND, False):
            parts = self.folded(table.arrange(written))
            rings, rest = self.channels(parts, stages)
        held = [c for p in rest for c in guarded_copies(p) if self.chosen(c) == BULK]
        names = ", ".join((*(r.channel.name for r in rings), *(c.destination.buffer.name for c in held)))
        text = (
            f"the producer keeps up to {stages} versions of {names} filled"
            if names
            else "no tile is brought in"
        )
        if held:
            text += "; iterations whose condition is false bring nothing"
        if stages < wanted:
            text += f", not {wanted}: shared memory has no room for more"
        fewer = wanted if stages < wanted and names else 0
        self.record(loop, parts, rings, stages, text + why + self.said, bool(overlap), fewer)
        self.said = ""
        around, self.stages = self.stages, stages
        new = self.opened(loop, overlap, rings, rest, written, table if may else None, in_loop)
        self.stages = around
        return new

    def opened(
        self,
        loop: Pipelined,
        overlap: Overlap,
        rings: Sequence[_Ring],
        rest: list[Stmt],
        written: Sequence[Stmt],
        table: Table | None,
        in_loop: bool,
    ) -> list[Stmt]:
        """The loop in the form that was chosen."""
        k, loc = loop.var, loop.loc
        if overlap == "carried":
            body = self.consumed(rest, rings, True, carried=binary("gt", k, loop.start))
            body = self.versioned(rings, in_front(_produced(rings), body))
            some = binary("lt", loop.start, loop.stop)
            (product,) = (p for p in rest if self.is_product(p))
            tail: list[Stmt] = [Wait(self.token, 0, (product.c.buffer,))]
            if in_loop:
                tail += [
                    Release(r.channel, "previous", False, some) for r in rings if self.is_product(r.last)
                ]
            return [For(k, loop.start, loop.stop, seq(*body), loc=loc), *tail]
        if overlap == "trailing":
            return self.trailing(loop, rest, rings)
        if table is not None and self.configs.get(BY_HAND, False):
            staged = self.by_stages(loop, self.places(rest, written, table), rest, rings)
            if staged is not None:
                return staged
        body = in_front(_produced(rings), self.consumed(rest, rings, True))
        return [For(k, loop.start, loop.stop, seq(*self.versioned(rings, body)), loc=loc)]

    def is_product(self, s: object) -> TypeGuard[Gemm]:
        """Whether a statement is a product on warpgroups."""
        return isinstance(s, Gemm) and self.chosen(s) == WGMMA

    def overlap(self, parts: Sequence[Stmt], rings: Sequence[_Ring]) -> tuple[Overlap, str]:
        """Which of the two ways to overlap applies, and a half-sentence."""
        products = [p for p in parts if self.is_product(p)]
        inside = [n for p in parts for n in walk(p) if self.is_product(n)]
        if len(products) != len(inside) or not products:
            return "", ""
        if len(products) == 1 and products[0].a.buffer.scope == "shared":
            g = products[0]
            alone = all(p is g or g.c.buffer not in fragments_of(p) for p in parts)
            mine = all(r.last is g for r in rings if buffers_of(g) & set(r.channel.buffers))
            served = {b for r in rings for b in r.channel.buffers}
            brought = all(r.buffer in served for r in (g.a, g.b))
            if alone and mine and brought and not g.clear_accum:
                return "carried", "; one product stays under way into the next iteration"
            return "", ""
        last = products[-1]
        if len(products) == 2 and parts[-1] is last and last.a.buffer.scope == "fragment":
            ahead, _ = _around(parts, last)
            first = products[0]
            own = {b for r in rings if r.first is last and r.last is last for b in r.channel.buffers}
            named = {p.var for p in parts if isinstance(p, Bind)} & variables(last)
            if (
                last.b.buffer in own
                and first in ahead
                and not named
                and not fragments_of(first) & fragments_of(last)
                and not self.brings_inside(parts)
            ):
                a, b = first.c.buffer.name, last.c.buffer.name
                return "trailing", f"; the product into {b} trails by an iteration, under the work on {a}"
        return "", ""

    def brings_inside(self, parts: Sequence[Stmt]) -> bool:
        """Whether an if or loop among these brings tiles: written twice, its rings would be two over the same
        bytes.
        """
        inside = (n for p in parts if not isinstance(p, TileOp) for n in walk(p))
        return any(isinstance(n, Copy) and self.chosen(n) == BULK for n in inside)

    def trailing(self, loop: Pipelined, parts: list[Stmt], rings: Sequence[_Ring]) -> list[Stmt]:
        """The loop with its last product an iteration behind: a first iteration without it, and it at the
        end.
        """
        last = parts[-1]
        assert isinstance(last, Gemm)
        ahead, behind = _around(parts, last)
        lead = next(k for k, p in enumerate(ahead) if self.is_product(p)) + 1
        k, loc = loop.var, loop.loc
        before = self.shifted(last, k, k - 1)
        own = [r for r in rings if r.last is last]
        mine = [dataclasses.replace(r, first=before, last=before) for r in own]
        others = [r for r in rings if r.last is not last]
        ordered = (*ahead, *behind)
        names = {
            n.var: Var(n.var.name, dtype=n.var.dtype) for p in ordered for n in walk(p) if isinstance(n, Bind)
        }
        first_parts = [self.shifted(p, k, loop.start, names) for p in ordered]
        renamed = dict(zip(map(id, ordered), first_parts, strict=True))
        first_rings = [
            dataclasses.replace(r, first=renamed[id(r.first)], last=renamed[id(r.last)]) for r in others
        ]
        head = self.consumed(first_parts, first_rings, True)
        steady = [*ahead[:lead], before, *ahead[lead:], *behind]
        body = self.consumed(steady, [*others, *mine], True, pinned=behind[0] if behind else None)
        end = self.shifted(last, k, loop.stop - 1)
        closing = [dataclasses.replace(r, first=end, last=end) for r in own]
        tail = self.consumed([end], closing, True)
        some = binary("lt", loop.start, loop.stop)
        produced_first = [
            Produce(r.channel, tuple(self.shifted(c, k, loop.start, names) for c in r.copies)) for r in rings
        ]
        steady_loop = For(k, loop.start + 1, loop.stop, seq(*in_front(_produced(rings), body)), loc=loc)
        whole = seq(*in_front(produced_first, head), steady_loop, *tail)
        whole = whole if is_const(some, True) else If(some, whole, loc=loc)
        return self.versioned(rings, [whole])

    def places(
        self, parts: Sequence[Stmt], written: Sequence[Stmt], table: Table
    ) -> dict[Stmt, tuple[int, int]]:
        """(stage, order) of each statement that the table places; -1 for what it leaves open."""
        index = {id(p): k for k, p in enumerate(written)}
        found: dict[Stmt, tuple[int, int]] = {}
        for p in parts:
            k = next((index[i] for n in walk(p) if (i := id(self.origins.get(n, n))) in index), None)  # type: ignore[arg-type]
            if k is not None and not isinstance(p, Bind):
                stage, order = table.stages[k], table.orders[k]
                found[p] = (-1 if stage is None else stage, -1 if order is None else order)
        return found

    def by_stages(
        self,
        loop: Pipelined,
        places: Mapping[Stmt, tuple[int, int]],
        parts: Sequence[Stmt],
        rings: Sequence[_Ring],
    ) -> list[Stmt] | None:
        """The loop with the statements of the later stage an iteration behind; None where that cannot be.

        Tiles that both stages use are kept until the later one has used them: in the iteration that gives
        them back, the ring has gone on by one.
        """
        plan = staged_order(parts, places)
        if plan is None or any(isinstance(n, Pipelined) for p in parts for n in walk(p)):
            return None
        if self.brings_inside(parts):
            return None
        k, loc = loop.var, loop.loc
        known = bound_indices(seq(*parts))
        behind: dict[Stmt, Stmt] = {}
        for p in plan.late:
            behind[p] = self.shifted(self.shifted_names(p, known), k, k - 1)
            if variables(behind[p]) & {n.var for q in parts for n in walk(q) if isinstance(n, Bind)}:
                return None
        early = [p for p in plan.steady if p not in behind]
        names = {
            n.var: Var(n.var.name, dtype=n.var.dtype) for p in early for n in walk(p) if isinstance(n, Bind)
        }
        heads = {p: self.shifted(p, k, loop.start, names) for p in early}
        ends = {p: self.shifted(self.shifted_names(p, known), k, loop.stop - 1) for p in plan.late}
        nowhere = seq()

        def of(r: _Ring, where: Mapping[Stmt, Stmt]) -> _Ring:
            """The ring as a sequence of only these statements uses it."""
            users = [p for p in plan.steady if buffers_of(p) & set(r.channel.buffers)]
            first = [p for p in users if p not in behind] or users
            last = [p for p in users if p in behind] or users
            both = 0 < sum(p in behind for p in users) < len(users)
            start, end = where.get(first[0], nowhere), where.get(last[-1], nowhere)
            return dataclasses.replace(r, first=start, last=end, lagging=both)

        steady = {p: behind.get(p, p) for p in plan.steady}
        late = frozenset((*behind.values(), *ends.values()))
        head, body, tail = (
            self.consumed(list(where.values()), [of(r, where) for r in rings], True, late=late)
            for where in (heads, steady, ends)
        )
        produced_first = [
            Produce(r.channel, tuple(self.shifted(c, k, loop.start, names) for c in r.copies)) for r in rings
        ]
        steady_loop = For(k, loop.start + 1, loop.stop, seq(*in_front(_produced(rings), body)), loc=loc)
        whole = seq(*in_front(produced_first, head), steady_loop, *tail)
        some = binary("lt", loop.start, loop.stop)
        whole = whole if is_const(some, True) else If(some, whole, loc=loc)
        return self.versioned(rings, [whole])

    def shifted_names(self, p: Stmt, known: Mapping[Var, Expr]) -> Stmt:
        """A statement without names that its sequence binds."""
        new = substitute(p, known) if variables(p) & known.keys() else p
        if new is not p and isinstance(p, TileOp) and p in self.instructions:
            assert isinstance(new, TileOp)
            self.instructions = {**self.instructions, new: self.instructions[p]}
        return new

    def shifted(self, p: Stmt, k: Var, by: Expr, names: Mapping[Var, Var] | None = None) -> Stmt:
        """A copy of a statement for another iteration. names: new ones for those that it binds or uses."""
        values: dict[Var, Expr] = {k: by, **(names or {})}
        new = substitute(p, values) if variables(p) & values.keys() else dataclasses.replace(p)
        if names:
            new = transform(new, lambda n: _renamed(n, names))
        if isinstance(p, TileOp) and p in self.instructions:
            assert isinstance(new, TileOp)
            self.instructions = {**self.instructions, new: self.instructions[p]}
        return new

    def record(
        self,
        loop: Pipelined,
        parts: Sequence[Stmt],
        rings: Sequence[_Ring],
        stages: int,
        text: str,
        overlap: bool,
        wanted: int = 0,
    ) -> None:
        """Keep what was decided. wanted: versions asked for, when there is no room for so many."""
        copies = {id(c) for r in rings for c in r.copies}
        ops = [
            scheduled_op(p, stages - 1 if id(p) in copies else 0, n, id(p) in copies or self.is_product(p))
            for n, p in enumerate(q for q in parts if not isinstance(q, Bind))
        ]
        self.schedules.append(
            Schedule(
                loop,
                stages,
                tuple(ops),
                Reason(text, loop.loc),
                overlap=overlap,
                persistent=bool(self.placed.kernel.attributes.get(FACT, False)),
                wanted=wanted,
                pinned=overlap and bool(self.configs.get(PIN_WAIT, False)),
                key_tile=key_tile_of(parts),
                ping_pong=teams_of(self.placed.kernel) > 1,
            )
        )


@dataclass(frozen=True)
class _Ring:
    """A channel of a sequence, the statements that use it first and last, and its copies.

    lagging: it is acquired by a statement of this iteration and given back behind one of the last;
    threads_read: not only products do.
    """

    channel: Channel
    first: Stmt
    last: Stmt
    copies: tuple[Copy, ...]
    lagging: bool = False
    threads_read: bool = False


def _fenced(parts: Sequence[Stmt], read: frozenset[Channel], stores: frozenset[Stmt]) -> list[Stmt]:
    """Tiles that threads have read go back together, with the last of them, behind one fence: it is dear.
    stores: bulk stores, which need one of all threads too; behind the last one they need none of their own.
    """
    late = [p for p in parts if isinstance(p, Release) and p.give != "none" and p.channel in read]
    if not late:
        return list(parts)
    together = [dataclasses.replace(late[0], fence=True), *late[1:]]
    out = [p for p in parts if p not in late[:-1]]
    at = out.index(late[-1])
    last = max((k for k, p in enumerate(out) if p in stores), default=at)
    if last > at:
        return [*out[:at], *out[at + 1 : last + 1], *together, *out[last + 1 :]]
    return [*out[:at], *together, *out[at + 1 :]]


def _produced(rings: Sequence[_Ring]) -> list[Stmt]:
    """The producer's part of a sequence."""
    return [Produce(r.channel, r.copies, loc=r.copies[0].loc) for r in rings]


def in_front(produced: Sequence[Stmt], body: list[Stmt]) -> list[Stmt]:
    """What the producer does, then the body; before both the names of the body that the copies need."""
    names = [s for s in body if isinstance(s, Bind)]
    kept = _closure(names, {v for p in produced for v in variables(p)})
    return [*kept, *produced, *(s for s in body if not any(s is x for x in kept))]


def _renamed(n: object, names: Mapping[Var, Var]) -> Bind | None:
    """A Bind under its new name."""
    return dataclasses.replace(n, var=names[n.var]) if isinstance(n, Bind) and n.var in names else None


def _closure(names: Sequence[Bind], needed: set[Var]) -> list[Bind]:
    wanted = set(needed)
    kept: list[Bind] = []
    for s in reversed(names):
        if s.var in wanted:
            kept.append(s)
            wanted |= variables(s.value)
    return kept[::-1]


def _around(parts: Sequence[Stmt], last: Gemm) -> tuple[list[Stmt], list[Stmt]]:
    """The statements before a trailing product: those that may run while it is under way, and those that must
    follow its end, each in their order.
    """
    owned = fragments_of(last)
    ahead: list[Stmt] = []
    behind: list[Stmt] = []
    for p in parts[:-1]:
        blocked = bool(fragments_of(p) & owned) or any(depends(p, q) for q in behind)
        (behind if blocked else ahead).append(p)
    return ahead, behind
