"""Typed -> Selected: the instruction of each tile op, once. Lowering must not decline what was selected.

An op offers instructions in order of preference (`Op.offers`), each with what speaks for it or stands against
it. The first legal one is taken; the others are kept as declined, so that a view can say why an instruction
was not used. Names that the program bound to an index are written out first: whether an address is aligned is
often visible only then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilebench.errors import TargetError, located
from tilebench.ir.expr import Expr, Load, Var
from tilebench.ir.rewrite import children, substitute, walk
from tilebench.ir.tile import Bind, Pipelined, Stmt, TileOp
from tilebench.ops.base import Instruction, Offer, Op
from tilebench.ops.copy import Copy
from tilebench.passes.stages import Reason, Selected, Typed

ASYNCHRONOUS = "cp.async"


def select(typed: Typed) -> Selected:
    """Choose. Raises TargetError TB520 when no instruction of the target can carry out an op."""
    kernel = typed.kernel
    instructions: dict[TileOp, Instruction] = {}
    reasons: dict[TileOp, Reason] = {}
    declined: dict[TileOp, tuple[Reason, ...]] = {}
    bound = bound_indices(kernel.body)
    for op, loop in _ops(kernel.body, None):
        with located(op.loc):
            if op in typed.per_thread:
                instructions[op] = Instruction("expand")
                reasons[op] = Reason("each thread does it for itself", op.loc)
                continue
            offers = _offers(op, typed, bound, loop)
            taken = next((o for o in offers if o.legal), None)
            if taken is None:
                raise _impossible(op, typed, offers)
            instructions[op] = taken.instruction
            reasons[op] = Reason(taken.reason, op.loc)
            before = offers[: offers.index(taken)]
            if before:
                declined[op] = tuple(Reason(f"{o.instruction.name}: {o.reason}", op.loc) for o in before)
    return Selected(typed, instructions, reasons, declined)


def bound_indices(body: Stmt) -> Mapping[Var, Expr]:
    """Names bound once to integer expressions without loads: var -> value, in terms of names that are not in
    the mapping.
    """
    values: dict[Var, Expr] = {}
    for node in walk(body):
        if (
            isinstance(node, Bind)
            and node.value.dtype.is_int
            and not any(isinstance(n, Load) for n in walk(node.value))
        ):
            values[node.var] = substitute(node.value, values)
    return values


def _ops(s: Stmt, loop: Pipelined | None) -> Iterator[tuple[Op, Pipelined | None]]:
    if isinstance(s, Op):
        yield s, loop
        return
    inner = s if isinstance(s, Pipelined) and s.num_stages >= 2 else loop
    for child in children(s):
        if isinstance(child, Stmt):
            yield from _ops(child, inner)


def _offers(op: Op, typed: Typed, bound: Mapping[Var, Expr], loop: Pipelined | None) -> tuple[Offer, ...]:
    written_out = substitute(op, bound) if bound else op
    assert isinstance(written_out, Op)
    offers = written_out.offers(typed.target, typed.kernel.thread_count)
    if not isinstance(op, Copy) or loop is not None or op.asynchronous or op.prefer == "cp_async":
        return offers
    alone = "nothing to overlap with: the copy is in no loop with num_stages of 2 or more"
    return tuple(
        Offer(o.instruction, False, alone) if o.legal and o.instruction.name == ASYNCHRONOUS else o
        for o in offers
    )


def _impossible(op: Op, typed: Typed, offers: tuple[Offer, ...]) -> TargetError:
    name = type(op).__name__.lower()
    return TargetError(
        "TB520",
        f"{name}: no instruction of {typed.target} can do this",
        at=op.loc,
        why="; ".join(f"{o.instruction.name}: {o.reason}" for o in offers) or "it offers none",
    )
