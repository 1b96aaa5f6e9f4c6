"""The exercises of *what is a tile*: every element is read and written exactly once, at any size."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tilebench.errors import TileError
from tilebench.kernel.compiled import Kernel
from tilebench.kernel.emulate import emulate
from tilebench.teach.answers import number
from tilebench.teach.exercise import Exercise, Found, of_error
from tilebench.teach.outcome import Outcome, Unmet, holds
from tilebench.teach.traces import Run, blocks_of, kernel_of, reads, replayed, run_of
from tilebench.views import trace as codec

SHAPES = ((64, 96), (100, 75), (33, 31), (1, 1), (5, 130))
"""A multiple of the tile, then sizes with tails in one direction and in both, and a single element."""
TILE, TAILS = 32, (33, 31)
CLAIMS = (
    "the program compiles and runs at every size",
    "every element of Y is written once",
    "every element of X is read once",
    "Y holds what X holds",
)


def examine(answer: Any) -> Found:
    """answer: a factory (M, N) -> tile program with parameters X and Y."""
    if isinstance(answer, Kernel) or not callable(answer):
        saw = f"{type(answer).__name__}"
        raise Unmet(
            Outcome(
                "the answer is a factory", False, "not-a-factory", saw,
                "the check needs the program at other sizes",
                look="pass the function that takes M and N, not what it returns",
            )
        )  # fmt: skip
    for M, N in SHAPES:
        found = _at(answer, M, N)
        if any(o.passed is False for o in found[0]):
            return found
    sizes = ", ".join(f"{m} x {n}" for m, n in SHAPES)
    return [holds(claim, f"{sizes}") for claim in CLAIMS], None


def _at(answer: Callable[[int, int], Any], M: int, N: int) -> Found:
    size = f"M = {M}, N = {N}"
    x = np.arange(1, M * N + 1, dtype=np.float32).reshape(M, N)
    try:
        kernel = kernel_of(answer(M, N))
        runs = [run_of(kernel, {"X": x}, block) for block in blocks_of(run_of(kernel, {"X": x}).trace)]
    except TileError as error:
        wrong = of_error(error)
        return [_with_size(wrong, size)], None
    except Unmet as unmet:
        if unmet.outcome.kind != "stopped":
            raise
        o = unmet.outcome
        if "[TB273]" in o.saw:
            kind, means = "outside", "an index is beyond the tensor's edge: the last tile sticks out over it"
            look = "the last tile of a row and of a column: which of its elements exist?"
        else:
            kind, means, look = o.kind, "an error of the program ended the run", o.look
        wrong = Outcome(CLAIMS[0], False, kind, o.saw, means, f"{o.means} ({size})", look, o.line, o.step)
        return [wrong], None
    writes, result, lines = _written(runs, M, N)
    read: np.ndarray = np.zeros((M, N), int)
    for run in runs:
        read += reads(run, "X") if "X" in [b.name for b in run.trace.buffers] else 0
    outcomes = [holds(CLAIMS[0])]
    first: int | None = None
    covered = tuple(runs[0].trace.grid)[:2] == (-(-N // TILE), -(-M // TILE))
    for claim, counts, verb, name in ((CLAIMS[1], writes, "written", "Y"), (CLAIMS[2], read, "read", "X")):
        if (counts == 1).all():
            outcomes.append(holds(claim))
            continue
        never = counts == 0
        wrong = never if never.any() else counts > 1
        r, c = (int(i) for i in np.argwhere(wrong)[0])
        outcomes.append(
            Outcome(
                claim, False, f"not-{verb}" if never.any() else f"{verb}-twice",
                f"{name}[{r}, {c}] is {verb} {counts[r, c]} times, and so are {int(wrong.sum())} of {M * N}",
                _means(wrong, never.any(), covered),
                f"{_region(wrong)} ({size}, a grid of {' x '.join(map(str, runs[0].trace.grid))} blocks)",
                _look(never.any(), covered),
                line=lines, element=(r, c),
            )
        )  # fmt: skip
    differs = result != x
    if differs.any() and all(o.passed for o in outcomes):
        r, c = (int(i) for i in np.argwhere(differs)[0])
        at = np.argwhere(x == result[r, c])
        source = f"that is X[{at[0][0]}, {at[0][1]}]" if len(at) else "no element of X has that value"
        outcomes.append(
            Outcome(
                CLAIMS[3], False, "moved", f"Y[{r}, {c}] is {result[r, c]:g}, X there is {x[r, c]:g}", source,
                f"line {lines}, element ({r}, {c}) ({size})", "the two lists of indices, side by side", lines,
                element=(r, c),
            )
        )  # fmt: skip
        first = next((k for k, run in enumerate(runs) if (_written([run], M, N)[0] > 0)[r, c]), None)
    if all(o.passed for o in outcomes) and (M, N) == TAILS:
        outcomes = _by_threads(kernel, x, outcomes, f"({size})")
    again = None if first is None else partial(replayed, runs[first], None)
    return outcomes, again


def _by_threads(kernel: Kernel, x: np.ndarray, outcomes: list[Outcome], size: str) -> list[Outcome]:
    """The outcomes, when no two threads write an element: what a step writes says nothing of its threads."""
    found = [f for f in emulate(kernel, x, np.zeros_like(x)).findings if f.code in ("TB430", "TB431")]
    if not found:
        return outcomes
    line = found[0].spans[0].line if found[0].spans else 0
    twice = Outcome(
        CLAIMS[1], False, "written-twice", found[0].text,
        "several threads write the same element: harmless in a copy, wrong in a sum",
        f"line {line} {size}", "the indices beyond the edge: where do they end up?", line,
    )  # fmt: skip
    return [twice if o.claim == CLAIMS[1] else o for o in outcomes]


def _written(runs: list[Run], M: int, N: int) -> tuple[np.ndarray, np.ndarray, int]:
    """(how often each element of Y is written, what it holds at the end, the line of a write)."""
    counts, result, line = np.zeros((M, N), int), np.full((M, N), np.nan), 0
    for run in runs:
        if "Y" not in [b.name for b in run.trace.buffers]:
            continue
        number_, data = run.number("Y"), codec.inflated(run.trace)
        origin = run.trace.buffers[number_].origin
        for k, step in enumerate(run.trace.steps):
            for w in step.writes:
                if w.buffer != number_:
                    continue
                offsets, extents = codec.split(w.box)
                place = tuple(
                    slice(o + f, o + f + n) for o, f, n in zip(origin, offsets, extents, strict=True)
                )
                mask = codec.mask_of(data, w)
                here = np.ones(extents, bool) if mask is None else mask
                counts[place] += here
                values = codec.unpack(data, w.at, int(np.prod(extents)), w.code, w.low, w.high).reshape(
                    extents
                )
                result[place] = np.where(here, values, result[place])
                line = run.line(k)
    return counts, result, line


def _region(mask: np.ndarray) -> str:
    rows, columns = (np.flatnonzero(mask.all(axis=axis)) for axis in (1, 0))
    whole = [
        *([f"rows {rows[0]} to {rows[-1]}"] if len(rows) else []),
        *([f"columns {columns[0]} to {columns[-1]}"] if len(columns) else []),
    ]
    if whole:
        return " and ".join(whole)
    places = np.argwhere(mask)
    (r0, c0), (r1, c1) = places.min(0), places.max(0)
    return f"within rows {r0} to {r1}, columns {c0} to {c1}"


def _look(never: bool, covered: bool) -> str:
    if not never:
        return "where tiles start"
    if covered:
        return "the guard and the indices: which number goes with M, and which with N?"
    return "the grid: how many tiles cover a row and a column?"


def _means(wrong: np.ndarray, never: bool, covered: bool) -> str:
    rows, columns = wrong.all(axis=1), wrong.all(axis=0)
    if never and covered:
        return "the grid has a tile for each of them, and that tile leaves them out"
    if never:
        if wrong.all():
            return "no tile covers anything"
        if rows.any() and columns.any():
            return "the last rows and the last columns belong to no tile"
        if rows.any() or columns.any():
            return f"the last {'rows' if rows.any() else 'columns'} belong to no tile"
        return "some elements belong to no tile"
    return "tiles overlap, or several blocks do the same tile: harmless in a copy, wrong in a sum"


def _with_size(o: Outcome, size: str) -> Outcome:
    return Outcome(o.claim, o.passed, o.kind, o.saw, o.means, f"{o.where} ({size})", o.look, o.line)


EXERCISES = (
    Exercise(
        "t01.p1",
        "predict: the blocks",
        partial(
            number,
            want=12.0,
            rtol=1e-9,
            means="4 tiles of 32 rows cover 100 rows, 3 tiles of 32 columns cover 75",
        ),
        ("Tiles must cover every row: 100 / 32 is a little more than 3.",),
    ),
    Exercise(
        "t01.p2",
        "predict: the last tile",
        partial(
            number,
            want=44.0,
            rtol=1e-9,
            means="rows 96 to 99 and columns 64 to 74: 4 x 11 of its 1024 elements lie inside",
            slips={980.0: "so many lie beyond the edges"},
        ),
        ("Where does the last tile start? Count from there to the edge, in both directions.",),
    ),
    Exercise(
        "t01.q1",
        "copy, with tails",
        examine,
        (
            "How many tiles of 32 cover 100 rows? `//` rounds down.",
            "T.ceildiv(N, 32) rounds up. Now the last tile sticks out over the edge: what may it not touch?",
            "Ask for each element: is its row below M and its column below N?",
        ),
    ),
)
