"""Random numbers: `T.rng_init(seed, seq, off)`, then `T.rng_rand()` and `T.rng_rand_float()`.

Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), as cuRAND's
curandStatePhilox4_32_10_t counts: number n of a sequence is word n % 4 of the block whose counter has n // 4
in its low and the sequence in its high half, under the seed as key. A number depends on nothing but
(seed, sequence, n), so it is the same on every target.

A thread takes numbers off, off + 1, ...; in a T.Parallel loop an iteration takes the number of its place in
the loop, whichever thread it is given to.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tilebench.errors import Loc, SyncError, TypeTileError
from tilebench.ir.dtype import float32, float64, uint32, uint64
from tilebench.ir.expr import Call, Expr, Load, Var, as_expr, const, select
from tilebench.ir.rewrite import walk
from tilebench.ir.tile import Bind, Buffer
from tilebench.language.markers import Deferred
from tilebench.language.math import cos as _cos
from tilebench.language.math import log as _log
from tilebench.language.math import sqrt as _sqrt

PHILOX = "curandStatePhilox4_32_10_t"
GENERATORS = (PHILOX, "curandStateMRG32k3a_t", "curandStateXORWOW_t")
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)


@dataclass
class Stream:
    """The kernel's generator: seed, sequence and the next number, each in a variable of each thread."""

    seed: Buffer
    sequence: Buffer
    next: Buffer
    per_thread: bool = False


@dataclass
class Nest:
    """A T.Parallel loop being walked, or (extents None) another loop in one.

    taken: how many numbers all of its iterations take together, so far.
    """

    variables: tuple[Var, ...]
    extents: tuple[int, ...] | None
    taken: int = 0


@contextmanager
def counted(
    walker: Any, variables: tuple[Var, ...], extents: tuple[int, ...] | None, parallel: bool = True
) -> Generator[None]:
    """Around the body of a loop. extents: of a T.Parallel loop, where they are known."""
    if not parallel and not walker.nests:
        yield
        return
    walker.nests.append(Nest(variables, extents))
    try:
        yield
    finally:
        walker.drawn = walker.nests.pop().taken


def after_loop(walker: Any, at: Loc) -> None:
    """Move the generator past the numbers that the outermost T.Parallel loop took."""
    if walker.drawn and not walker.nests:
        following: Expr = Load(walker.stream.next, (const(0),), dtype=uint64) + const(walker.drawn, uint64)
        walker.drawn = 0
        walker.store(walker.stream.next, (const(0),), following, at)


def rng_init(seed: Any, seq: Any = None, off: Any = 0, generator: str = PHILOX) -> Deferred:
    """Start the generator: numbers `off`, off + 1, ... of sequence `seq` (0 without) under `seed`.

    generator: one of cuRAND's names; all give Philox's numbers. Raises TypeTileError TB209 for another.
    """
    if generator not in GENERATORS:
        raise TypeTileError(
            "TB209", f"rng_init: generator {generator!r}", why="the names are cuRAND's",
            fix=f"one of {', '.join(GENERATORS)}",
        )  # fmt: skip
    if generator != PHILOX:
        warnings.warn(f"{generator}: the numbers are those of {PHILOX}", stacklevel=2)

    def run(walker: Any, at: Loc) -> None:
        if walker.stream is None:
            names = ("random_seed", "random_sequence", "random_next")
            made = [walker.declare(Buffer("", (const(1),), uint64, "var"), n, at) for n in names]
            walker.stream = Stream(*made)
        stream: Stream = walker.stream
        given = [as_expr(v).astype(uint64) for v in (seed, 0 if seq is None else seq, off)]
        if math.prod(walker.threads) > 1 and any(_is_of_a_thread(v, walker) for v in given):
            stream.per_thread = True
        for buffer, value in zip((stream.seed, stream.sequence, stream.next), given, strict=True):
            walker.store(buffer, (const(0),), value, at)

    return Deferred(run)


def _is_of_a_thread(e: Expr, walker: Any) -> bool:
    """Whether it may differ between threads: what names one, and what memory or a call gave."""
    return any(n is walker.thread or isinstance(n, Load | Call) or n in walker.computed for n in walk(e))


def rng_rand() -> Deferred:
    """The next number, a uint32 of which every value is equally likely."""
    return Deferred(_draw)


def rng_rand_float(bit: int = 32, dist: str = "uniform") -> Deferred:
    """The next float32 (bit=32) or float64 (bit=64), uniform in (0, 1] or normal.

    dist: "uniform", or "normal" with mean 0 and variance 1 (Box and Muller). It takes 1 number, 2 for a
    float64 or a normal one, 4 for both.
    """
    if bit not in (32, 64) or dist not in ("uniform", "normal"):
        raise TypeTileError(
            "TB209", f"rng_rand_float: bit={bit!r}, dist={dist!r}", why="bit is 32 or 64",
            fix='dist is "uniform" or "normal"',
        )  # fmt: skip

    def run(walker: Any, at: Loc) -> Expr:
        first = _uniform(walker, bit, at)
        if dist == "uniform":
            return first
        angle = _uniform(walker, bit, at) * const(2 * math.pi, first.dtype)
        return _bound(walker, "normal", _sqrt(_log(first) * const(-2.0, first.dtype)) * _cos(angle), at)

    return Deferred(run)


def _uniform(walker: Any, bit: int, at: Loc) -> Expr:
    """In (0, 1]: the middle of one of 2**32 (2**53) equal parts."""
    if bit == 32:
        whole = _draw(walker, at).astype(float32)
        return _bound(walker, "uniform", whole * const(2.0**-32, float32) + const(2.0**-33, float32), at)
    low, high = (_draw(walker, at).astype(uint64) for _ in range(2))
    whole = (low ^ (high << const(21, uint64))).astype(float64)
    return _bound(walker, "uniform", whole * const(2.0**-53, float64) + const(2.0**-54, float64), at)


def _draw(walker: Any, at: Loc) -> Expr:
    """Number `next`, which moves on; in a T.Parallel loop that of the iteration, and the loop moves it on."""
    stream: Stream | None = walker.stream
    if stream is None:
        raise TypeTileError(
            "TB209", "a random number before T.rng_init", at=at, why="the seed says which numbers come",
            fix="T.rng_init(seed) first, in the block",
        )  # fmt: skip
    number: Expr = Load(stream.next, (const(0),), dtype=uint64)
    nests: list[Nest] = walker.nests
    if not nests:
        value = _philox(walker, stream, _bound(walker, "number", number, at), at)
        walker.store(stream.next, (const(0),), number + const(1, uint64), at)
        return value
    _refuse(walker, stream, at)
    outer, place, size = nests[0], const(0, uint64), 1
    for nest in nests:
        for variable, extent in zip(nest.variables, nest.extents or (), strict=True):
            place = place * const(extent, uint64) + variable.astype(uint64)
            size *= extent
    number = number + place + const(outer.taken, uint64)
    outer.taken += size
    return _philox(walker, stream, _bound(walker, "number", number, at), at)


def _refuse(walker: Any, stream: Stream, at: Loc) -> None:
    if stream.per_thread:
        raise SyncError(
            "TB413", "a random number of each thread in a T.Parallel loop", at=at,
            why="which thread has which iteration is the compiler's choice, so the numbers would be too",
            fix="T.rng_init(seed, seq, off) alike in all threads: each iteration has a number of its own",
        )  # fmt: skip
    if any(nest.extents is None for nest in walker.nests):
        raise TypeTileError(
            "TB308", "a random number in a loop inside T.Parallel, or in one of unknown extent", at=at,
            why="an iteration takes the number of its place, which must be known now",
            fix="make the inner loop a dimension of T.Parallel",
        )  # fmt: skip


def _bound(walker: Any, name: str, value: Expr, at: Loc) -> Expr:
    var = Var(name, dtype=value.dtype)
    walker.emit(Bind(var, value), at)
    return var


def _philox(walker: Any, stream: Stream, number: Expr, at: Loc) -> Expr:
    """Word `number % 4` of block number // 4: ten rounds, each bound to variables."""

    def word(e: Expr, shift: int = 0) -> Expr:
        return (e >> const(shift, uint64) if shift else e).astype(uint32)

    seed: Expr = _bound(walker, "seed", Load(stream.seed, (const(0),), dtype=uint64), at)
    sequence = _bound(walker, "sequence", Load(stream.sequence, (const(0),), dtype=uint64), at)
    key = [word(seed), word(seed, 32)]
    counter = [word(number, 2), word(number, 34), word(sequence), word(sequence, 32)]
    for turn in range(10):
        keys = [
            _bound(walker, "key", k + const(w * turn & 0xFFFFFFFF, uint32), at)
            for k, w in zip(key, _WEYL, strict=True)
        ]
        left, right = (
            _bound(walker, "product", counter[i].astype(uint64) * const(m, uint64), at)
            for i, m in zip((0, 2), _MULTIPLIERS, strict=True)
        )
        fresh = (word(right, 32) ^ counter[1] ^ keys[0], word(right), word(left, 32) ^ counter[3] ^ keys[1],
                 word(left))  # fmt: skip
        counter = [_bound(walker, "word", e, at) for e in fresh]
    which = _bound(walker, "which", word(number & const(3, uint64)), at)
    halves = [select(which & const(1, uint32), counter[i + 1], counter[i]) for i in (0, 2)]
    return _bound(walker, "random", select(which > const(1, uint32), halves[1], halves[0]), at)


__all__ = ["Nest", "Stream", "after_loop", "counted", "rng_init", "rng_rand", "rng_rand_float"]
