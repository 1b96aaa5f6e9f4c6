"""In-kernel timers: the statements that read counters, where they write, and what each stamp stands for.

A kernel made by `with_timers` has one more tensor, of 32-bit words, behind its own. Word 0 is the block that
is timed (flat, x fastest). Each warp has a header (`Header`), and a stretch of `capacity` records of its own.
A record is tag << bits | low bits of the SM's clock. An odd tag 1 + 2 * site opens a site, and closes the one
that was open before; an even tag closes it. Records that found no place are counted, not written.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Literal

from tilebench.ir.dtype import int32
from tilebench.ir.expr import Expr, const
from tilebench.ir.thread import Memory
from tilebench.ir.tile import Buffer, Kernel, Param, Stmt

ATTRIBUTE = "timers"
"""Attribute of a kernel with timers: the records that each warp has room for."""
EACH = "timers_each"
"""Attribute of one whose every statement is timed, also where threads only compute."""
PARAMETER = "warp_timers"
CAPACITY = 8192
"""Records a warp, 32 KiB: some hundred iterations of attention."""
WARPS_BEHIND = 4
"""Warps that a producer may add to those of the program."""


class Header(IntEnum):
    """Words of a warp's header. Those of 64-bit counters are followed by the upper half."""

    COUNT = 0
    SM = 1
    TIME_BEGIN = 2
    CLOCK_BEGIN = 4
    TIME_END = 6
    CLOCK_END = 8
    WORDS = 16


What = Literal["tile", "work", "issue", "wait", "fill"]


@dataclass(frozen=True)
class TimerSite:
    """What a stamp stands for.

    tile: one tile of a persistent block; work: a statement of the program; issue: starting asynchronous work;
    wait: until something is there; fill: the producer starts the copies of a slot. stmt: the statement, whose
    Loc is the user's line; more: statements behind it that are timed with it.
    """

    what: What
    stmt: Stmt
    more: tuple[Stmt, ...] = ()


@dataclass(frozen=True, eq=False)
class Timestamp(Stmt):
    """`buffer[at[0]] = tag << bits | clock` where at[0] < end[0]; then at[0] += 1, in either case.

    at, end: registers of int32, one element each; bits: as many as the tags of the program leave of 32
    (`clock_bits`). No branch and few registers: warpgroup products may be under way across it. Source: PTX
    ISA, %clock.
    """

    buffer: Memory
    at: Memory
    end: Memory
    tag: int


@dataclass(frozen=True, eq=False)
class ReadCounter(Stmt):
    """buffer[index] and the word behind it are the lower and upper half of a counter.

    clock: the SM's cycles; time: the GPU's nanoseconds; sm: the number of the SM. Sources: PTX ISA, %clock64,
    %globaltimer, %smid.
    """

    buffer: Memory
    index: Expr
    counter: Literal["clock", "time", "sm"]


def opens(site: int) -> int:
    """The tag that opens a site; the one that closes it is one more."""
    return 1 + 2 * site


def clock_bits(sites: int) -> int:
    """Bits of a record that the clock has, in a program with so many sites."""
    return 32 - (2 * sites).bit_length()


def warps_of(kernel: Kernel) -> int:
    """Warps that the buffer has room for."""
    return -(-kernel.thread_count // 32) + WARPS_BEHIND


def words_of(kernel: Kernel, capacity: int) -> int:
    """Words of the tensor."""
    return first_record(kernel, 0, capacity) + warps_of(kernel) * capacity


def first_record(kernel: Kernel, warp: int, capacity: int) -> int:
    """The word at which a warp's records start."""
    return Header.WORDS * (1 + warps_of(kernel)) + warp * capacity


def with_timers(kernel: Kernel, capacity: int = CAPACITY, each: bool = False) -> Kernel:
    """The kernel with the tensor of stamps as its last parameter: lowering puts the stamps in.

    each: time every statement. Else statements that only compute, one behind the other, are timed as one: the
    assembler moves nothing across a stamp, and what they gain by overlapping would be lost.
    """
    shape = (const(words_of(kernel, capacity)),)
    stamps = Buffer(PARAMETER, shape, int32, "global")
    return replace(
        kernel,
        params=(*kernel.params, Param(PARAMETER, stamps, "inout")),
        attributes={**kernel.attributes, ATTRIBUTE: capacity, EACH: each},
    )
