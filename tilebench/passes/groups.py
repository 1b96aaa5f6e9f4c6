"""Tile ops that a fixed group of the threads reaches: `if tx < 32: T.copy(...)`, `with T.ws(0): ...`.

Such an op is one piece of work for the group. Which threads carry it out changes no value, so the whole block
does: the if is spread over its body, and what all threads can do together stands outside of it.

    if tx < 32:              T.copy(A, a)
        T.copy(A, a)    ->   if tx < 32:
        b[tx] = a[tx]            b[tx] = a[tx]
    else:                    T.clear(c)
        T.clear(c)

The branches of an if run side by side with nothing that orders them, so one after the other is an order that
the program allows. Left as they are (and refused by passes/uniform.py): conditions that a value of the run
decides, bodies with a barrier, a break or a continue, and values of one thread that a tile op would read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tilebench.ir.expr import Expr, Var, unary
from tilebench.ir.rewrite import calls, rebuild, seq, variables, walk
from tilebench.ir.simplify import prove
from tilebench.ir.tile import (
    Bind,
    Break,
    Continue,
    For,
    If,
    Kernel,
    Parallel,
    Pipelined,
    Seq,
    Stmt,
    SyncThreads,
    TileOp,
    While,
)
from tilebench.passes.uniform import BARRIER_CALLS, PRIVATE, Facts, facts_of, stores_only_private, varies


def spread_groups(kernel: Kernel) -> Kernel:
    """The kernel with every if over a fixed group of threads spread over its tile ops; itself without one."""
    found = frozenset(s for s in walk(kernel.body) if isinstance(s, If) and _is_group(s, kernel))
    if not found:
        return kernel
    facts = facts_of(kernel, found)

    def visit(s: Stmt) -> Stmt:
        inner = rebuild(s, lambda c: visit(c) if isinstance(c, Stmt) else c)
        if s not in found or not isinstance(inner, If):
            return inner
        always = prove(inner.condition, facts.ranges)
        if always is not None:  # the group is the whole block
            return inner.then if always else seq(inner.orelse)
        then = _spread(inner.then, inner.condition, facts)
        orelse: list[Stmt] | None = []
        if inner.orelse is not None:
            orelse = _spread(inner.orelse, unary("not", inner.condition), facts)
        return inner if then is None or orelse is None else seq(*then, *orelse)

    return dataclasses.replace(kernel, body=visit(kernel.body))


def _is_group(s: If, kernel: Kernel) -> bool:
    """Whether the threads of both branches are known now, and a branch has a tile op."""
    if variables(s.condition) != {kernel.thread} or not any(_is_tile_work(n) for n in walk(s)):
        return False
    for node in walk(s):
        if isinstance(node, SyncThreads | Break | Continue):
            return False
        if isinstance(node, Expr) and any(c.name in BARRIER_CALLS for c in calls(node)):
            return False
    taken = {_at(s.condition, kernel.thread, t) for t in range(kernel.thread_count)}
    return None not in taken


def _at(condition: Expr, thread: Var, value: int) -> bool | None:
    here: Mapping[Var, tuple[int, int]] = {thread: (value, value)}
    return prove(condition, here)


def _is_tile_work(node: object) -> bool:
    """Whether all threads of a group share the work of the statement."""
    if isinstance(node, Parallel):
        return not stores_only_private(node)
    return isinstance(node, TileOp) and any(r.buffer.scope not in PRIVATE for r in node.writes)


def _is_shared_work(s: Stmt, facts: Facts) -> bool:
    """Whether the whole block can do it in place of the group: no value in it differs between threads."""
    return _is_tile_work(s) and not any(isinstance(n, Expr) and varies(n, facts) for n in walk(s))


def _spread(body: Stmt, condition: Expr, facts: Facts) -> list[Stmt] | None:
    """The statements of a branch, those of single threads under the condition; None when a value of single
    threads is named outside of the piece that binds it."""
    out: list[Stmt] = []
    waiting: list[Stmt] = []
    bound: set[Var] = set()

    def flush() -> None:
        if waiting:
            bound.update(n.var for s in waiting for n in walk(s) if isinstance(n, Bind))
            out.append(If(condition, seq(*waiting), None, loc=waiting[0].loc))
            waiting.clear()

    for s in body.body if isinstance(body, Seq) else (body,):
        if not waiting and bound & variables(s):
            return None
        if (isinstance(s, Bind) and not varies(s.value, facts)) or _is_shared_work(s, facts):
            flush()
            if bound & variables(s):
                return None
            out.append(s)
            continue
        inside = _inside(s, condition, facts) if any(_is_tile_work(n) for n in walk(s)) else None
        if inside is None:
            waiting.append(s)
            continue
        flush()
        if bound & variables(inside):
            return None
        out.append(inside)
    flush()
    return out


def _inside(s: Stmt, condition: Expr, facts: Facts) -> Stmt | None:
    """A loop or branch that all threads of the group take alike, with the condition spread in its body."""
    match s:
        case For() | Pipelined():
            heads = (s.start, s.stop)
        case While() | If():
            heads = (s.condition,)
        case Seq():
            heads = ()
        case _:
            return None
    if any(varies(e, facts) for e in heads):
        return None
    failed = False

    def change(child: Stmt) -> Stmt:
        nonlocal failed
        parts = _spread(child, condition, facts)
        failed = failed or parts is None
        return seq(*(parts or ()))

    made = (
        seq(*(_spread(s, condition, facts) or ()))
        if isinstance(s, Seq)
        else rebuild(s, lambda c: change(c) if isinstance(c, Stmt) else c)
    )
    return None if failed else made
