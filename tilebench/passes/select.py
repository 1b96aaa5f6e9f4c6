"""Typed -> Selected: the instruction of each tile op, once. Lowering must not decline what was selected.

An op offers instructions in order of preference (`Op.offers`), each with what speaks for it or stands against
it. The first legal one is taken; the others are kept as declined, so that a view can say why an instruction
was not used. Names that the program bound to an index are written out first: whether an address is aligned is
often visible only then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tilebench.errors import TargetError, located
from tilebench.ir.expr import Expr, Var
from tilebench.ir.rewrite import children, substitute
from tilebench.ir.tile import Buffer, Kernel, Pipelined, Stmt, TileOp
from tilebench.ops.atomic import AtomicTile
from tilebench.ops.base import Instruction, Offer, Op
from tilebench.ops.copy import Copy
from tilebench.ops.copy.bulk import NAME as BULK
from tilebench.ops.copy.bulk import STORE
from tilebench.ops.copy.bulk_reduce import NAME as REDUCE
from tilebench.ops.copy.bulk_reduce import refusal
from tilebench.ops.gemm import Gemm
from tilebench.ops.gemm.wgmma import NAME as WGMMA
from tilebench.ops.gemm.wgmma import WIDEST
from tilebench.passes import persistent
from tilebench.passes.annotated import laid_by_hand
from tilebench.passes.occupied import wanted_blocks, with_blocks
from tilebench.passes.reductions import with_reductions_alone
from tilebench.passes.regions import bound_indices, touches
from tilebench.passes.specialise import Specialisation, specialise
from tilebench.passes.stages import Reason, Selected, Typed
from tilebench.passes.staging import with_staged_results
from tilebench.passes.stored_operands import with_operands_by_matrix

ASYNCHRONOUS = "cp.async"
BULK_REDUCE = "TB_BULK_REDUCE"
"""Pass config: False keeps atomic additions of shared tiles from being bulk reductions where that can be."""
NO_WGMMA = "TL_DISABLE_WGMMA"
"""Pass config: no products of warpgroups."""


def select(typed: Typed) -> Selected:
    """Choose. Raises TargetError TB520 when no instruction of the target can carry out an op."""
    chosen = _select(typed)
    if not chosen.specialised:
        return chosen
    for pass_ in (with_reductions_alone, with_operands_by_matrix):
        changed = pass_(chosen)
        if changed is not typed.kernel:
            typed = replace(typed, kernel=changed)
            chosen = _select(typed)
    typed = replace(typed, kernel=with_blocks(typed.kernel, wanted_blocks(chosen)))
    chosen = replace(chosen, typed=typed)
    going_round = persistent.wanted(chosen)
    kernel = with_staged_results(chosen, going_round)
    if going_round:
        kernel = persistent.with_persistent_blocks(replace(chosen, typed=replace(typed, kernel=kernel)))
    elif persistent.unbalanced(chosen):
        kernel = persistent.with_longest_first(kernel)
    return chosen if kernel is typed.kernel else _select(replace(typed, kernel=kernel))


def _select(typed: Typed) -> Selected:
    kernel = typed.kernel
    instructions: dict[TileOp, Instruction] = {}
    reasons: dict[TileOp, Reason] = {}
    declined: dict[TileOp, tuple[Reason, ...]] = {}
    bound = bound_indices(kernel.body)
    offered: dict[Op, tuple[Offer, ...]] = {}
    for op, loop in _ops(kernel.body, None):
        with located(op.loc):
            if op not in typed.per_thread:
                offered[op] = _offers(op, typed, bound, loop)
    division = _division(typed, offered)
    for op, _ in _ops(kernel.body, None):
        with located(op.loc):
            if op in typed.per_thread:
                instructions[op] = Instruction("expand")
                reasons[op] = Reason("each thread does it for itself", op.loc)
                continue
            offers = _with_producer(op, offered[op], division)
            taken = next((o for o in offers if o.legal), None)
            if taken is None:
                raise _impossible(op, typed, offers)
            instructions[op] = taken.instruction
            reasons[op] = Reason(taken.reason, op.loc)
            before = offers[: offers.index(taken)]
            if before:
                declined[op] = tuple(Reason(f"{o.instruction.name}: {o.reason}", op.loc) for o in before)
    return Selected(typed, instructions, reasons, declined, bool(division.copies), division.reason)


def _division(typed: Typed, offered: Mapping[Op, tuple[Offer, ...]]) -> Specialisation:
    """Whether a producer makes the bulk copies."""

    def takes(op: Op, name: str) -> bool:
        return any(o.legal and o.instruction.name == name for o in offered[op])

    candidates = [op for op in offered if isinstance(op, Copy) and takes(op, BULK)]
    products = sum(isinstance(op, Gemm) and takes(op, WGMMA) for op in offered)
    return specialise(typed.kernel, typed.per_thread, candidates, products)


def _with_producer(op: Op, offers: tuple[Offer, ...], division: Specialisation) -> tuple[Offer, ...]:
    """Bulk copies are for the producer alone; where there is one, nobody else copies asynchronously."""
    if isinstance(op, AtomicTile) and not division.copies and not op.bulk:
        return _without(offers, REDUCE, "only kernels with a producer add with bulk reductions")
    if not isinstance(op, Copy):
        return offers
    if op not in division.copies:
        offers = _without(offers, BULK, division.against.get(op, division.reason))
    if not division.copies:
        return _without(offers, STORE, "only kernels with a producer store with bulk copies")
    return _without(offers, ASYNCHRONOUS, "the producer's bulk copies are the ones that run ahead")


def _without(offers: tuple[Offer, ...], name: str, reason: str) -> tuple[Offer, ...]:
    """The offers, with a reason against the instruction `name`."""
    return tuple(
        Offer(o.instruction, False, reason) if o.legal and o.instruction.name == name else o for o in offers
    )


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
    if isinstance(op, Gemm):
        return _without_wgmma(op, typed.kernel, offers)
    if isinstance(op, AtomicTile):
        return _reductions(op, typed, offers)
    if not isinstance(op, Copy) or loop is not None or op.asynchronous or op.prefer == "cp_async":
        return offers
    alone = "nothing to overlap with: the copy is in no loop with num_stages of 2 or more"
    return _without(offers, ASYNCHRONOUS, alone)


def _reductions(op: AtomicTile, typed: Typed, offers: tuple[Offer, ...]) -> tuple[Offer, ...]:
    """The offers of an atomic tile: bulk reductions where they are wanted, and nobody waits for the sums.

    Raises TargetError TB520 when one was asked for that the target has for no tile.
    """
    against = refusal(op, typed.target)
    if against:
        raise TargetError(
            "TB520",
            against,
            at=op.loc,
            why="use_tma asks for a bulk reduction (cp.reduce.async.bulk.tensor) by name",
            fix="leave use_tma out: the elements are then added as the target can, several at a time",
        )
    if not op.bulk and not typed.kernel.configs.get(BULK_REDUCE, True):
        return _without(offers, REDUCE, f"{BULK_REDUCE} is False")
    tensor = op.destination.buffer.data
    others = (t for t in touches(typed.kernel.body) if t.buffer.data is tensor)
    if any(not isinstance(t.stmt, AtomicTile) or t.stmt.op != "add" for t in others):
        return _without(
            offers, REDUCE, f"other statements touch {tensor.name}, which has no sums yet by then"
        )
    return offers


PANEL = 128 * 8
"""Bits of a row in the widest panel."""


def _without_wgmma(op: Gemm, kernel: Kernel, offers: tuple[Offer, ...]) -> tuple[Offer, ...]:
    """The offers, less the warpgroup product where it is not wanted, or where an operand cannot have its
    layout.
    """
    if kernel.configs.get(NO_WGMMA):
        return _without(offers, WGMMA, f"{NO_WGMMA} is set")
    given: Mapping[Buffer, object] = kernel.attributes.get("layouts", {})
    by_hand = laid_by_hand(kernel) if given else frozenset[Buffer]()
    viewed = {b.view_of for b in kernel.buffers if b.view_of is not None}
    for region in (op.a, op.b):
        buffer = region.buffer
        if buffer.scope == "shared" and (buffer in by_hand or buffer in viewed):
            why = "has a layout of the program's own" if buffer in by_hand else "is reread by a view"
            return _without(offers, WGMMA, f"{buffer.name} {why}")
    _, n, _ = op.mnk
    part = n // max(1, kernel.thread_count // 128) * op.b.dtype.bits  # of a warpgroup, if all share columns
    crosses = part != n * op.b.dtype.bits and part % PANEL and PANEL % part
    if not op.transpose_b and op.b.buffer in given and (n > WIDEST or crosses):
        return _without(offers, WGMMA, f"{op.b.buffer.name} has panels that warpgroups cannot share")
    return offers


def _impossible(op: Op, typed: Typed, offers: tuple[Offer, ...]) -> TargetError:
    name = type(op).__name__.lower()
    return TargetError(
        "TB520",
        f"{name}: no instruction of {typed.target} can do this",
        at=op.loc,
        why="; ".join(f"{o.instruction.name}: {o.reason}" for o in offers) or "it offers none",
    )
