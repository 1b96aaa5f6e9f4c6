"""Whether copies become the work of warps of their own: which copies a producer can make, and why others
stay.

A producer runs the loops and conditions around its copies and nothing else. So what these depend on must be
known without the other threads: block and loop variables, arguments, tensors that the kernel only reads. A
tile is handed over whole: nothing else may write it, and all that reads it must follow the copy in the same
sequence of statements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tilebench.ir.expr import Expr, Load, Var
from tilebench.ir.rewrite import calls, children, variables, walk
from tilebench.ir.tile import (
    Bind,
    Buffer,
    For,
    If,
    Kernel,
    Parallel,
    Pipelined,
    Region,
    Seq,
    Stmt,
    TileOp,
    While,
)  # fmt: skip
from tilebench.ops.copy import Copy
from tilebench.passes.annotated import laid_by_hand
from tilebench.passes.regions import leaves_loop, touches

WARPGROUP = 128
DISABLED = ("TL_DISABLE_WARP_SPECIALIZED", "TL_DISABLE_TMA_LOWER")


@dataclass(frozen=True)
class Specialisation:
    """copies: those that the producer makes; reason: in a sentence; against: why a copy is not among them."""

    copies: frozenset[Copy]
    reason: str
    against: Mapping[Copy, str]


@dataclass(frozen=True)
class _Place:
    """A copy, the statements of its sequence that follow it, and what is around it, outermost first."""

    copy: Copy
    following: tuple[Stmt, ...]
    around: tuple[Stmt, ...]


def specialise(
    kernel: Kernel, per_thread: frozenset[Stmt], candidates: Sequence[Copy], products: int
) -> Specialisation:
    """Decide. candidates: copies that a bulk instruction can make; products: gemms on warpgroups."""
    why_not = _against_kernel(kernel, products)
    if why_not or not candidates:
        return Specialisation(frozenset(), why_not or "there is no copy that a bulk instruction can make", {})
    places = {p.copy: p for p in _places(kernel.body, (), ())}
    facts = _Facts(kernel)
    against: dict[Copy, str] = {}
    for copy in candidates:
        reason = "each thread does it for itself" if copy in per_thread else facts.against(places[copy])
        if reason:
            against[copy] = reason
    taken = [c for c in candidates if c not in against]
    ahead = [
        c for c in taken if any(isinstance(s, Pipelined) and s.num_stages >= 2 for s in places[c].around)
    ]
    if not ahead:
        first = next(iter(against.values()), "no loop with num_stages of 2 or more brings tiles")
        return Specialisation(frozenset(), f"no copy could run ahead: {first}", against)
    names = ", ".join(dict.fromkeys(c.destination.buffer.name for c in taken))
    return Specialisation(
        frozenset(taken), f"a producer warp brings {names} while the others compute", against
    )


def _against_kernel(kernel: Kernel, products: int) -> str:
    configs: Mapping[str, object] = kernel.configs
    for name in DISABLED:
        if configs.get(name, False):
            return f"{name} is set"
    if not products:
        return "no gemm runs on whole warpgroups"
    if kernel.thread_count % WARPGROUP:
        return f"{kernel.thread_count} threads are not whole warpgroups"
    if kernel.thread_count + WARPGROUP > 1024:
        return f"{kernel.thread_count} threads leave no room for a producer warpgroup"
    if any(c.name.startswith("syncthreads") for c in calls(kernel.body)):
        return "a barrier that votes counts all threads of the block"
    return ""


def _places(s: Stmt, following: tuple[Stmt, ...], around: tuple[Stmt, ...]) -> Iterator[_Place]:
    if isinstance(s, Copy):
        yield _Place(s, following, around)
    elif isinstance(s, Seq):
        for k, part in enumerate(s.body):
            yield from _places(part, s.body[k + 1 :], around)
    elif not isinstance(s, TileOp | Parallel):
        for child in children(s):
            if isinstance(child, Stmt):
                yield from _places(child, (), (*around, s))


class _Facts:
    """What the kernel writes, who touches which tile, and what names stand for."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.touched: dict[Buffer, list[Stmt]] = {}
        self.writers: dict[Buffer, list[Stmt]] = {}
        for t in touches(kernel.body):
            self.touched.setdefault(t.buffer, []).append(t.stmt)
            if t.mode != "read":
                self.writers.setdefault(t.buffer, []).append(t.stmt)
        viewed = {n.buffer.data for n in walk(kernel.body) if isinstance(n, Region | Load)
                  and n.buffer.view_of is not None}  # fmt: skip
        self.viewed = viewed
        self.bound = {n.var: n.value for n in walk(kernel.body) if isinstance(n, Bind)}
        self.by_hand = laid_by_hand(kernel)
        self.counters = {n.var for n in walk(kernel.body) if isinstance(n, For | Pipelined)}
        self.known = {*kernel.blocks, *kernel.symbols}
        self.known |= {p.value for p in kernel.params if isinstance(p.value, Var)}

    def against(self, place: _Place) -> str:
        """Why the producer cannot make the copy; '' when it can."""
        copy = place.copy
        buffer = copy.destination.buffer
        if buffer in self.viewed:
            return f"a view rereads {buffer.name}"
        if buffer in self.by_hand:
            return f"{buffer.name} has a layout of the program's own"
        if any(w is not copy for w in self.writers[buffer]):
            return f"another statement writes {buffer.name} too"
        if self.writers.get(copy.source.buffer.data):
            return f"the kernel writes {copy.source.buffer.name}"
        after = {id(n) for s in place.following for n in walk(s)}
        if any(s is not copy and id(s) not in after for s in self.touched[buffer]):
            return f"{buffer.name} is used outside of the statements that follow the copy"
        for s in place.around:
            if isinstance(s, While):
                return "it stands in a while loop"
            if isinstance(s, For | Pipelined) and leaves_loop(s.body):
                return "break or continue may leave the loop around it"
            bounds = (s.start, s.stop) if isinstance(s, For | Pipelined) else ()
            conditions = (s.condition,) if isinstance(s, If) else ()
            for e in (*bounds, *conditions):
                if reason := self.unknown(e):
                    return reason
        for e in (*copy.source.offsets, *copy.destination.offsets):
            if reason := self.unknown(e):
                return reason
        return ""

    def unknown(self, e: Expr) -> str:
        """Why the value of `e` is not known to a warp that does nothing but copy."""
        for node in walk(e):
            if isinstance(node, Load):
                root = node.buffer.data
                if root.scope != "global" or self.writers.get(root):
                    return f"its place depends on {node.buffer.name}, which the kernel computes"
        for var in variables(e):
            if var in self.known or var in self.counters:
                continue
            if var is self.kernel.thread or var not in self.bound:
                return f"its place depends on {var.name}, which differs between threads"
            if reason := self.unknown(self.bound[var]):
                return reason
        return ""
