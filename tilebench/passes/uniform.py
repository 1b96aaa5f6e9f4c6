"""Which statements are per-thread: they name a thread, or depend on a value that differs between threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tilebench.errors import Loc, SyncError
from tilebench.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var, int_value
from tilebench.ir.intrinsics import INTRINSICS
from tilebench.ir.rewrite import calls, children
from tilebench.ir.simplify import bounds, prove
from tilebench.ir.tile import (
    AtomicRMW,
    Bind,
    Break,
    Buffer,
    Continue,
    For,
    If,
    Kernel,
    Parallel,
    Pipelined,
    Region,
    Seq,
    Stmt,
    Store,
    SyncThreads,
    TileOp,
    While,
)

PRIVATE = ("local", "var")
BARRIER_CALLS = ("syncthreads_and", "syncthreads_or", "syncthreads_count")


@dataclass
class Facts:
    """What is known so far: variables and private buffers whose value differs between threads."""

    vars: set[Var] = field(default_factory=set[Var])
    buffers: set[Buffer] = field(default_factory=set[Buffer])
    per_thread: set[Stmt] = field(default_factory=set[Stmt])
    ranges: dict[Var, tuple[int, int]] = field(default_factory=dict[Var, "tuple[int, int]"])
    groups: frozenset[Stmt] = frozenset()
    """Ifs whose branches are looked at as the work of a group of threads (passes/groups.py)."""

    def size(self) -> int:
        """How much is known."""
        return len(self.vars) + len(self.buffers) + len(self.per_thread)


def per_thread_statements(kernel: Kernel) -> frozenset[Stmt]:
    """The statements of the kernel that differ between threads; all others are uniform.

    A statement is per-thread when it names the thread variable, calls a per-thread intrinsic, reads a local
    or var buffer that was fed by such a value, or stands inside an if or loop whose condition does. A
    Parallel nest that holds such a statement, or stores to private buffers only, is per-thread: every thread
    runs all of its iterations. Raises SyncError TB410 for a barrier and TB411 for a tile op of the whole
    block in such a place.
    """
    facts = facts_of(kernel)
    _refuse(kernel.body, None, facts)
    return frozenset(facts.per_thread)


def facts_of(kernel: Kernel, groups: frozenset[Stmt] = frozenset()) -> Facts:
    """What differs between the threads of the block; inside the ifs in `groups`, of a branch."""
    facts = Facts({kernel.thread}, ranges={kernel.thread: (0, kernel.thread_count - 1)}, groups=groups)
    before = -1
    while facts.size() != before:  # buffers are fed in loops, so until nothing changes
        before = facts.size()
        _visit(kernel.body, None, facts)
    return facts


def varies(e: Expr, facts: Facts) -> bool:
    """Whether the value differs between threads."""
    match e:
        case Const():
            return False
        case Var():
            return e in facts.vars
        case Load():
            return e.buffer.data in facts.buffers or any(varies(i, facts) for i in e.indices)
        case Unary() | Cast():
            return varies(e.value, facts)
        case Binary():
            return varies(e.left, facts) or varies(e.right, facts)
        case Select():
            return varies(e.condition, facts) or varies(e.then, facts) or varies(e.orelse, facts)
        case Call():
            if e.name in BARRIER_CALLS:
                return False
            row = INTRINSICS.get(e.name)
            return (row is not None and row.per_thread) or any(varies(a, facts) for a in e.args)
        case _:
            return False


def _region_varies(region: Region, facts: Facts) -> bool:
    return region.buffer.data in facts.buffers or any(varies(o, facts) for o in region.offsets)


def _own_expressions(s: Stmt) -> list[Expr]:
    found: list[Expr] = []
    for child in children(s):
        if isinstance(child, Expr):
            found.append(child)
        elif isinstance(child, Region):
            found.extend(child.offsets)
    return found


def _visit(s: Stmt, control: Stmt | None, facts: Facts, grouped: bool = False) -> None:
    """control: the innermost per-thread if or loop around s; grouped: a group of threads is."""
    if isinstance(s, Seq):
        for part in s.body:
            _visit(part, control, facts, grouped)
        return
    own = any(varies(e, facts) for e in _own_expressions(s)) or any(
        c.name in BARRIER_CALLS for e in _own_expressions(s) for c in calls(e)
    )
    if isinstance(s, TileOp):
        own = own or any(_region_varies(r, facts) for r in s.reads)
    here = own or control is not None
    if here:
        facts.per_thread.add(s)
    match s:
        case Bind() if varies(s.value, facts) or control is not None:
            facts.vars.add(s.var)
        case AtomicRMW() if here and s.result is not None:
            facts.vars.add(s.result)
        case Store() if (here or grouped) and s.buffer.scope in PRIVATE:
            facts.buffers.add(s.buffer.data)
        case TileOp() if here or grouped:
            facts.buffers.update(r.buffer.data for r in s.writes if r.buffer.scope in PRIVATE)
        case For() | Pipelined() if own and (varies(s.start, facts) or varies(s.stop, facts)):
            facts.vars.add(s.var)
        case _:
            pass
    inner = control
    if s in facts.groups:
        grouped = True
    elif diverges(s, facts):
        inner = s
    for child in children(s):
        if isinstance(child, Stmt):
            _visit(child, inner, facts, grouped)
    if isinstance(s, Parallel) and (stores_only_private(s) or any(c in facts.per_thread for c in _below(s))):
        facts.per_thread.add(s)


def _below(s: Stmt) -> Iterator[Stmt]:
    for child in children(s):
        if isinstance(child, Stmt):
            yield child
            yield from _below(child)


def _refuse(s: Stmt, control: Stmt | None, facts: Facts) -> None:
    if control is not None:
        _refuse_here(s, control, facts)
    inner = control
    if diverges(s, facts):
        inner = s
    for child in children(s):
        if isinstance(child, Stmt):
            _refuse(child, inner, facts)


def diverges(s: Stmt, facts: Facts) -> bool:
    """Whether some threads go into the statement's body, or round its loop, when others do not."""
    match s:
        case If():
            return varies(s.condition, facts) and prove(s.condition, facts.ranges) is None
        case While():
            return varies(s.condition, facts) or _leaves(s.body, False, facts)
        case For():
            differs = varies(s.start, facts) or varies(s.stop, facts)
            return (differs and not _same_trips(s, facts)) or _leaves(s.body, False, facts)
        case Pipelined():
            return varies(s.start, facts) or varies(s.stop, facts) or _leaves(s.body, False, facts)
        case _:
            return False


def _leaves(s: Stmt, divergent: bool, facts: Facts) -> bool:
    """Whether a break or continue of the loop around s is taken by some threads only."""
    match s:
        case Break() | Continue():
            return divergent
        case Seq():
            return any(_leaves(part, divergent, facts) for part in s.body)
        case If():
            inside = divergent or diverges(s, facts)
            return any(_leaves(part, inside, facts) for part in (s.then, s.orelse) if part is not None)
        case _:
            return False


def _same_trips(s: For, facts: Facts) -> bool:
    """Whether a loop such as range(thread, 1024, 128) has one number of iterations for all threads."""
    step, stop = int_value(s.step), int_value(s.stop)
    start = bounds(s.start, facts.ranges)
    if not step or stop is None or start is None:
        return False
    return len(range(start[0], stop, step)) == len(range(start[1], stop, step))


def _refuse_here(s: Stmt, control: Stmt, facts: Facts) -> None:
    kind = "if" if isinstance(control, If) else "loop"
    notes: list[tuple[Loc | None, str]] = [(control.loc, f"this {kind} is not the same for all threads")]
    barrier = isinstance(s, SyncThreads) or any(
        c.name in BARRIER_CALLS for e in _own_expressions(s) for c in calls(e)
    )
    if barrier:
        raise SyncError(
            "TB410",
            f"a barrier inside {'an if' if kind == 'if' else 'a loop'} that only some threads take",
            at=s.loc,
            why="the threads that come here would wait for ever for those that do not",
            fix=f"move the barrier out of the {kind}, so that every thread of the block reaches it",
            notes=notes,
        )
    if isinstance(s, Parallel) and not stores_only_private(s):
        raise SyncError(
            "TB411",
            f"T.Parallel inside {'an if' if kind == 'if' else 'a loop'} that only some threads take",
            at=s.loc,
            why="its iterations are spread over all threads of the block",
            fix=f"move it out of the {kind}, or use a serial loop that each thread runs for itself",
            notes=notes,
        )
    if isinstance(s, TileOp) and any(r.buffer.scope not in PRIVATE for r in s.writes):
        name = type(s).__name__.lower()
        raise SyncError(
            "TB411",
            f"T.{name} inside {'an if' if kind == 'if' else 'a loop'} that only some threads take",
            at=s.loc,
            why="a tile op is carried out by all threads of the block together",
            fix=f"move it out of the {kind}, or write the loop over elements for one thread",
            notes=notes,
        )


def stores_only_private(loop: Parallel) -> bool:
    """Whether a Parallel nest writes nothing but local and var buffers, so that every thread runs all of
    it."""
    stack: list[Stmt] = [loop.body]
    while stack:
        s = stack.pop()
        if isinstance(s, Store | AtomicRMW) and s.buffer.scope not in PRIVATE:
            return False
        stack.extend(child for child in children(s) if isinstance(child, Stmt))
    return True
