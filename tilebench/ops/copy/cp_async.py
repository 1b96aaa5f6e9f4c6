"""cp.async: a global tile copied to shared memory without passing through registers, while the threads go on.

Each thread copies chunks of 16 (or 8, or 4) bytes. All of a chunk must be contiguous and aligned on both
sides, and inside or outside the tensor as one; outside, zeros are written. Source: PTX ISA, "Non-bulk
asynchronous copies".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilebench.ir.expr import Expr, binary, const, int_value, is_const, select
from tilebench.ir.thread import CpAsync
from tilebench.ir.tile import Buffer, Region
from tilebench.layouts import FragmentLayout, blocked
from tilebench.layouts.digits import digit_terms
from tilebench.ops.base import Instruction, Offer, ThreadBuilder
from tilebench.ops.divisors import known_divisor, whole_chunks
from tilebench.ops.regions import squeezed
from tilebench.targets import Target

if TYPE_CHECKING:
    from tilebench.ops.copy.spec import Copy

CHUNKS = (16, 8, 4)
"""Bytes that one cp.async can copy."""


def offers(op: Copy, target: Target, threads: int) -> tuple[Offer, ...]:
    """cp.async where it can be used, then the copy through registers."""
    lanes, against = _lanes(op, target)
    size = lanes * op.source.dtype.bytes
    good = f"global to shared memory without registers, {size} bytes at a time"
    plain = "through registers, as wide as the layouts allow"
    return (
        Offer(Instruction("cp.async", {"lanes": lanes}), not against, against or good),
        Offer(Instruction("plain"), True, plain),
    )


def _lanes(op: Copy, target: Target) -> tuple[int, str]:
    """Elements of a chunk, and what stands against the instruction ('' when nothing does)."""
    source, destination = op.source, op.destination
    if source.buffer.scope != "global" or destination.buffer.scope != "shared":
        return (
            0,
            f"copies global to shared memory only, not {source.buffer.scope} to {destination.buffer.scope}",
        )
    if op.prefer == "sync":
        return 0, "the program asked for a plain copy"
    if not target.supports("cp_async"):
        return 0, f"needs sm_80 or later; the target is {target}"
    if source.dtype != destination.dtype:
        return 0, f"it cannot convert {source.dtype} to {destination.dtype}"
    if op.outside is not None and not is_const(op.outside, 0):
        return 0, "elements outside read as a value other than 0"
    size = source.dtype.bytes
    for chunk in CHUNKS:
        if chunk % size == 0 and not _against(op, chunk // size):
            return chunk // size, ""
    return 0, _against(
        op, max(1, CHUNKS[-1] // size)
    ) or f"{size}-byte elements are no chunk of 4, 8 or 16 bytes"


def _against(op: Copy, lanes: int) -> str:
    """Why chunks of `lanes` elements will not do."""
    source, destination = op.source, op.destination
    name = source.buffer.name
    extent = source.extents[-1]
    if extent % lanes or destination.extents[-1] % lanes or source.extents[-1] != destination.extents[-1]:
        return f"rows of {extent} elements are no multiple of {lanes}"
    strides = _strides(source.buffer)
    if strides is None or strides[-1] != 1:
        return f"neighbours in a row of {name} are not known to be neighbours in memory"
    if any(
        s % lanes for s, e in zip(strides[:-1], source.buffer.shape[:-1], strict=True) if not is_const(e, 1)
    ):
        return f"rows of {name} do not start at multiples of {lanes} elements"
    if known_divisor(source.offsets[-1]) % lanes:
        return f"the tile is not known to start at a multiple of {lanes} elements of {name}'s rows"
    last = int_value(source.buffer.shape[-1])
    start = int_value(source.offsets[-1])
    within = last is not None and start is not None and start >= 0 and start + extent <= last
    if not within and (last is None or last % lanes):
        return f"rows of {name} do not end at a multiple of {lanes} elements"
    if known_divisor(destination.offsets[-1]) % lanes:
        to = destination.buffer.name
        return f"the tile is not known to start at a multiple of {lanes} elements of {to}'s rows"
    return ""


def _strides(buffer: Buffer) -> tuple[int, ...] | None:
    """Strides in elements as far as they are known: what certainly divides them. None when the last is
    unknown.
    """
    if buffer.strides is not None:
        if int_value(buffer.strides[-1]) is None:
            return None
        return (*(known_divisor(s) for s in buffer.strides[:-1]), int_value(buffer.strides[-1]) or 0)
    out = [1]
    for n in reversed(buffer.shape[1:]):
        out.append(out[-1] * known_divisor(n))
    return tuple(reversed(out))


def lower(op: Copy, b: ThreadBuilder) -> None:
    """Thread code: this thread's chunks. The commit is the caller's."""
    _, shared, _ = b.shared(op.destination.buffer)
    size = op.source.dtype.bytes
    most = int(b.instruction(op).facts.get("lanes", 0)) * size
    fitting = [c // size for c in CHUNKS if c <= most and c % size == 0]
    lanes = next((v for v in fitting if whole_chunks(op.destination, shared, v)), 0)
    shape = squeezed(op.destination.extents)
    if not lanes or not shape:
        b.expand(op.expand())
        return
    layout = blocked(shape, b.threads, lanes)
    start = [const(0)] * layout.rank
    for dim, term in digit_terms(b.thread, layout.thread):
        start[dim] = start[dim] + term
    start = [b.bind("ijkl"[d % 4], x) for d, x in enumerate(start)]
    with b.loop(layout.registers // lanes, independent=True, name="v") as v:
        point = list(start)
        for dim, term in digit_terms(v * lanes, layout.reg):
            point[dim] = point[dim] + term
        _chunk(op, b, layout, tuple(point), lanes)


def _chunk(op: Copy, b: ThreadBuilder, layout: FragmentLayout, point: tuple[Expr, ...], lanes: int) -> None:
    inside: Expr | None = None
    for x, n, padded in zip(point, layout.shape, layout.padded_dims, strict=True):
        if padded:
            test = binary("lt", x, const(n))
            inside = test if inside is None else binary("and", inside, test)
    with b.when(inside):
        to, to_index = b.shared_index(op.destination, _spread(op.destination, point))
        of, of_index, exists = b.global_index(op.source, _spread(op.source, point))
        if exists is not None:
            of_index = select(exists, of_index, const(0, of_index.dtype))
        b.emit(CpAsync(to, to_index, of, of_index, lanes, exists))


def _spread(region: Region, point: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """A point of the tile without its unit dimensions as coordinates of the region."""
    rest = iter(point)
    return tuple(const(0) if e == 1 else next(rest) for e in region.shape)
