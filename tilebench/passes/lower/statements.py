"""Tile-level statements as thread code: control flow as it stands, uniform stores by one thread, ops by their
lowering."""

from __future__ import annotations

from collections.abc import Callable

from tilebench.errors import InternalError, located
from tilebench.ir.expr import Const, Expr, Load, Var, binary, const, int_value, is_const, unary
from tilebench.ir.hopper import WgmmaCommit, WgmmaFence, WgmmaWait
from tilebench.ir.rewrite import seq, walk
from tilebench.ir.simplify import bounds
from tilebench.ir.thread import CpAsyncCommit, CpAsyncWait, Memory, SyncWarp
from tilebench.ir.tile import (
    Acquire,
    Assert,
    AtomicRMW,
    Bind,
    Break,
    Buffer,
    Continue,
    Evaluate,
    For,
    If,
    Issue,
    Parallel,
    Pipelined,
    Print,
    Produce,
    Region,
    Release,
    Seq,
    Stmt,
    Store,
    SyncThreads,
    TileOp,
    Versioned,
    Wait,
    While,
)  # fmt: skip
from tilebench.passes.indices import divisor
from tilebench.passes.lower.atomics import add_together, grouped
from tilebench.passes.lower.builder import INT32_MAX, Builder, both
from tilebench.passes.lower.elements import combine, lower_statement
from tilebench.passes.lower.timers import tiled, timed

UNROLL_LIMIT = 256
"""Trips of a loop that is unrolled because it indexes registers."""


def lower_stmt(b: Builder, s: Stmt) -> None:
    """Emit the thread code of a tile-level statement."""
    if b.nest is not None:
        lower_statement(b.nest, s)
        return
    with b.at(s.loc), located(s.loc), timed(b, s):
        match s:
            case Seq():
                _sequence(b, s)
            case TileOp():
                lower_op(b, s)
            case Parallel():
                _parallel(b, s)
            case For():
                lower_for(b, s, lambda body: lower_stmt(b, body))
            case Pipelined():
                plain = For(s.var, s.start, s.stop, s.body, loc=s.loc)
                lower_for(b, plain, lambda body: lower_stmt(b, body))
            case While():
                _while(b, s)
            case If():
                lower_if(b, s, lambda body: lower_stmt(b, body))
            case Break() | Continue():
                b.emit(s)
            case Bind():
                _bind(b, s)
            case Store():
                _store(b, s)
            case AtomicRMW():
                _atomic(b, s)
            case Evaluate():
                b.emit(Evaluate(b.expr(s.value)))
            case Assert():
                b.emit(Assert(b.condition(s.condition), s.message))
            case Print():
                _print(b, s)
            case SyncThreads():
                b.meet("; ".join(_because(s)), s.group)
            case SyncWarp():
                b.emit(s)
            case Issue():
                _issue(b, s)
            case Wait() if s.token.kind == "wgmma":
                b.emit(WgmmaWait(s.pending, tuple(b.fragment(x)[0] for x in s.buffers)))
            case Wait():
                b.emit(CpAsyncWait(s.pending))
            case Produce():
                pass  # another role does it
            case Acquire() | Release():
                from tilebench.passes.lower.handover import lower_acquire, lower_release

                lower_acquire(b, s) if isinstance(s, Acquire) else lower_release(b, s)
            case Versioned():
                before = dict(b.versions)
                b.versions.update({k.data: v for k, v in s.versions.items()})
                lower_stmt(b, s.body)
                b.versions = before
            case _:
                raise InternalError("TB902", f"no lowering for {type(s).__name__}", at=s.loc)


def _because(s: SyncThreads) -> list[str]:
    return [
        f"line {a.loc.line} before line {z.loc.line}"
        for a, z in s.because
        if a.loc is not None and z.loc is not None
    ]


# -- control flow --------------------------------------------------------------------------------------------


def _wide_trips(b: Builder, s: For) -> int | None:
    """Iterations of a T.vectorized loop of stores that each thread does for itself; None for other loops."""
    count = int_value(s.stop)
    if s.kind != "vectorized" or b.nest is not None or not is_const(s.start, 0) or not is_const(s.step, 1):
        return None
    if count not in (2, 4, 8, 16):
        return None
    for part in s.body.body if isinstance(s.body, Seq) else (s.body,):
        private = isinstance(part, Store) and part.buffer.scope in ("local", "var")
        if (
            not isinstance(part, Store)
            or part.buffer.scope == "fragment"
            or not (private or b.is_per_thread(part))
        ):
            return None
        if any(isinstance(n, Load) and n.buffer.scope == "fragment" for n in walk(part)):
            return None
    return count


def lower_for(b: Builder, s: For, visit: Callable[[Stmt], None]) -> None:
    """A For with its own variable; unrolled when it indexes registers and its trips are few."""
    if (count := _wide_trips(b, s)) is not None:
        from tilebench.passes.lower.nest import lower_vectorized

        lower_vectorized(b, s, count)
        return
    start, stop, step = (b.simple(b.expr(x)) for x in (s.start, s.stop, s.step))
    low, high = bounds(start, b.ranges), bounds(stop, b.ranges)
    forward = (int_value(step) or 1) > 0
    if low is not None and high is not None:
        interval = (low[0], max(low[0], high[1] - 1)) if forward else (min(high[0] + 1, low[1]), low[1])
    else:
        interval = (low[0] if low else 0, INT32_MAX - 1)
    if low is not None or high is not None:
        b.ranges[s.var] = interval
    from math import gcd

    b.divisors[s.var] = gcd(divisor(start, b.divisors), divisor(step, b.divisors))
    b.unroll_wanted.discard(s.var)
    with b.inside() as body, b.diverging(b.nest is None and s in b.per_thread), tiled(b, s):
        visit(s.body)
    trips = (
        None
        if None in (int_value(start), int_value(stop))
        else (int_value(stop) or 0) - (int_value(start) or 0)
    )
    kind = s.kind
    if s.var in b.unroll_wanted and trips is not None and trips <= UNROLL_LIMIT:
        kind = "unroll"
    if body:
        loop = For(s.var, start, stop, seq(*body), step, kind, s.independent, s.factor)
        b.emit(loop)


def _while(b: Builder, s: While) -> None:
    with b.inside() as head:
        condition = b.expr(s.condition)
    head = list(head)
    with b.inside() as body, b.diverging(b.is_per_thread(s)):
        lower_stmt(b, s.body)
    if not head:
        b.emit(While(condition, seq(*body)))
        return
    leave = If(unary("not", condition), Break())
    b.emit(While(const(True), seq(*head, leave, *body)))


def lower_if(b: Builder, s: If, visit: Callable[[Stmt], None]) -> None:
    """An If around what `visit` makes of its arms; one arm alone where the condition is known."""
    condition = b.condition(s.condition)
    if isinstance(condition, Const):
        arm = s.then if condition.value else s.orelse
        if arm is not None:
            visit(arm)
        return
    diverges = b.is_per_thread(s)
    with b.inside() as then, b.knowing(s.condition), b.diverging(diverges):
        visit(s.then)
    orelse: list[Stmt] = []
    if s.orelse is not None:
        with b.inside() as orelse, b.diverging(diverges):
            visit(s.orelse)
    if then or orelse:
        b.emit(If(condition, seq(*then), seq(*orelse) if orelse else None))


def _bind(b: Builder, s: Bind) -> None:
    value = b.simple(b.expr(s.value)) if not s.value.dtype.is_float else b.expr(s.value)
    b.learn(s.var, value)
    b.emit(Bind(s.var, value))
    if b.body is b.root:
        b.root_names.add(s.var)


def _parallel(b: Builder, s: Parallel) -> None:
    from tilebench.passes.lower.nest import lower_parallel
    from tilebench.passes.nodes import flattened

    if not b.is_per_thread(s):
        lower_parallel(b, s)
        return
    names, extents, body = flattened(s)
    for name, extent in reversed(list(zip(names, extents, strict=True))):
        body = For(name, const(0), const(extent), body, loc=s.loc)
    with b.diverging(True):
        lower_stmt(b, body)


# -- memory --------------------------------------------------------------------------------------------------


def _one_thread(b: Builder, s: Stmt) -> Expr | None:
    """The condition under which this thread does a store: one thread for a uniform one, all for a per-thread
    one."""
    if b.is_per_thread(s):
        return None
    return binary("eq", b.thread, const(0))


def _store(b: Builder, s: Store) -> None:
    value = b.expr(s.value)
    if isinstance(s.buffer, Memory):
        b.store(s.buffer, b.expr(s.indices[0]), value)
        return
    match s.buffer.scope:
        case "global":
            memory, index, inside = b.global_element(s.buffer, s.indices)
            with b.when(both(_one_thread(b, s), inside)):
                b.store(memory, index, value)
        case "shared":
            memory, index = b.shared_element(s.buffer, s.indices)
            with b.when(_one_thread(b, s)):
                b.store(memory, index, value)
        case "fragment":
            from tilebench.passes.lower.scalar import store_element

            store_element(b, s.buffer, s.indices, value)
        case _:
            b.store(b.local(s.buffer), b.local_index(s.buffer, s.indices), value)


def _atomic(b: Builder, s: AtomicRMW) -> None:
    value = b.expr(s.value)
    inside: Expr | None = None
    if s.buffer.scope == "global":
        memory, index, inside = b.global_element(s.buffer, s.indices)
    elif s.buffer.scope == "shared":
        memory, index = b.shared_element(s.buffer, s.indices)
    else:
        lower_stmt(
            b,
            Store(
                s.buffer, s.indices, combine(s.op, Load(s.buffer, s.indices, dtype=s.buffer.dtype), s.value)
            ),
        )
        return
    one = _one_thread(b, s)
    if s.result is None:
        with b.when(both(one, inside)):
            b.emit(AtomicRMW(s.op, memory, (index,), value, order=s.order))
        return
    old = b.registers(s.result.name, 1, s.result.dtype)
    with b.when(both(one, inside)):
        b.emit(AtomicRMW(s.op, memory, (index,), value, s.result, s.order))
        b.store(old, 0, s.result)
    if one is None:
        b.names[s.result] = b.load(old, 0)
        return
    scratch = b.scratch(s.result.dtype, 1)
    b.barrier("shared scratch may still be read from its last use", scratch)
    with b.when(one):
        b.store(scratch, 0, b.load(old, 0))
    b.barrier("the old value is read by all threads")
    b.names[s.result] = b.bind(s.result.name, b.load(scratch, 0))


def _sequence(b: Builder, s: Seq) -> None:
    for part in grouped(b, s.body):
        if isinstance(part, Stmt):
            lower_stmt(b, part)
            continue
        with b.at(part[0].loc), located(part[0].loc):
            add_together(b, part, _one_thread(b, part[0]), shared=True)


def _print(b: Builder, s: Print) -> None:
    if s.buffer is None:
        values = tuple(b.expr(v) for v in s.values)
        with b.when(_one_thread(b, s)):
            b.emit(Print(s.message, values))
        return
    _print_buffer(b, s, s.buffer)


def _print_buffer(b: Builder, s: Print, buffer: Buffer) -> None:
    names = tuple(Var("ijkl"[d % 4], dtype=const(0).dtype) for d in range(len(buffer.shape)))
    body: Stmt = Print(s.message, (*names, Load(buffer, names, dtype=buffer.dtype)), loc=s.loc)
    if buffer.scope == "fragment":
        lower_stmt(b, Parallel(names, buffer.static_shape, body, loc=s.loc))
        return
    for name, extent in reversed(list(zip(names, buffer.shape, strict=True))):
        body = For(name, const(0), extent, body, loc=s.loc)
    if buffer.scope in ("global", "shared"):
        with b.when(_one_thread(b, s)), b.diverging(True):
            lower_stmt(b, body)
    else:
        lower_stmt(b, body)


# -- asynchronous work ---------------------------------------------------------------------------------------


def _issue(b: Builder, s: Issue) -> None:
    before, b.asynchronous = b.asynchronous, True
    for op in s.ops:
        lower_stmt(b, op)
    b.asynchronous = before
    if s.token.kind == "cp_async":
        b.emit(CpAsyncCommit())
    if s.token.kind == "wgmma" and not s.ops:
        b.emit(WgmmaFence(()))
        b.emit(WgmmaCommit())


# -- ops -----------------------------------------------------------------------------------------------------


def lower_op(b: Builder, op: TileOp) -> None:
    """A tile op through the instruction that select chose for it."""
    from tilebench.ops.base import Op
    from tilebench.passes.lower.ops import lowering_of

    assert isinstance(op, Op)
    instruction = b.instruction(op)
    lowering = type(op).lowerings.get(instruction.name)
    if lowering is not None:
        from tilebench.passes.lower.operands import with_required_layouts

        with with_required_layouts(b, op) as fitted:
            lowering(fitted, b)
        if instruction.name.startswith("cp.async") and not b.asynchronous:
            b.emit(CpAsyncCommit())
            b.emit(CpAsyncWait(0))
        return
    with b.diverging(op in b.per_thread):
        lowering_of(op)(op, b)


def fragments_of(op: TileOp) -> list[Buffer]:
    """Fragment buffers that an op touches, in field order."""
    found: list[Buffer] = []
    for n in walk(op):
        if isinstance(n, Region | Load) and n.buffer.scope == "fragment" and n.buffer not in found:
            found.append(n.buffer)
    return found


__all__ = ["fragments_of", "is_const", "lower_for", "lower_if", "lower_op", "lower_stmt"]
