"""The exercises of *who holds what*: closed forms for the places of a fragment, tried on every cell."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import numpy as np

from tilebench.layouts import FragmentLayout
from tilebench.teach.answers import number
from tilebench.teach.exercise import Exercise, Found
from tilebench.teach.outcome import Outcome, Unmet, holds

ROWS, COLUMNS, THREADS, REGISTERS = 16, 8, 32, 4
"""The accumulator of one mma.m16n8 (PTX ISA, matrix fragments for mma.m16n8k16)."""
Pair = tuple[int, int]


def accumulator(i: int, j: int) -> Pair:
    """(thread, register) of element (i, j)."""
    return (i % 8) * 4 + j // 2, (i // 8) * 2 + j % 2


def _called(answer: Any, a: int, b: int, names: str) -> Pair:
    """The answer for two numbers. Raises Unmet where it fails or gives no pair."""
    claim = f"the function gives {names}"
    if not callable(answer):
        raise Unmet(
            Outcome(claim, False, "not-a-function", repr(answer), "a function of two numbers is asked for")
        )
    try:
        first, second = cast("Callable[[int, int], Any]", answer)(a, b)
        pair = int(first), int(second)
        if pair != (first, second):
            raise ValueError(f"({first}, {second}) are no whole numbers; // divides and rounds down")
        return pair
    except Exception as error:
        raise Unmet(
            Outcome(
                claim, False, "fails", f"f({a}, {b}): {type(error).__name__}: {error}",
                f"it should give {names}", look="try that call in a cell of its own", element=(a, b),
            )
        ) from error  # fmt: skip


def place(answer: Any) -> Found:
    """answer: (i, j) -> (thread, register)."""
    got = {(i, j): _called(answer, i, j, "(thread, register)") for i in range(ROWS) for j in range(COLUMNS)}
    outcomes = [
        _range(got, "thread", 0, THREADS, "(i, j)"),
        _range(got, "register", 1, REGISTERS, "(i, j)"),
        _distinct(got, "no two elements are in one place"),
    ]
    cells = "it is the layout of the hardware, on all 128 cells"
    wrong = [c for c, p in got.items() if p != accumulator(*c)]
    if not wrong:
        return [*outcomes, holds(cells)], None
    kind, means = _place_mistake(got)
    i, j = wrong[0]
    t, r = accumulator(i, j)
    saw = f"f({i}, {j}) gives thread {got[i, j][0]}, register {got[i, j][1]}; it is thread {t}, register {r}"
    return [
        *outcomes,
        Outcome(
            cells, False, kind, f"{saw}; {len(wrong)} of 128 cells differ", means, f"element ({i}, {j})",
            "that cell in the layout view, and the one right of it and below", element=(i, j),
        ),
    ], None  # fmt: skip


def _place_mistake(got: dict[Pair, Pair]) -> tuple[str, str]:
    guesses: tuple[tuple[str, str, Callable[[int, int], Pair]], ...] = (
        ("registers-swapped",
         "the two halves of the register number are exchanged: j % 2 counts by 1, i // 8 by 2",
         lambda i, j: (accumulator(i, j)[0], (j % 2) * 2 + i // 8)),
        ("transposed", "rows and columns are exchanged",
         lambda i, j: ((j % 8) * 4 + (i // 2) % 4, (j // 8) * 2 + i % 2)),
        ("one-element",
         "a thread holds one element here; in the hardware two neighbours of a row go to one thread",
         lambda i, j: ((i * 8 + j) % 32, (i * 8 + j) // 32)),
    )  # fmt: skip
    for kind, means, guess in guesses:
        if all(p == guess(*c) for c, p in got.items()):
            return kind, means
    top = all(got[c] == accumulator(*c) for c in got if c[0] < 8)
    if top:
        return "lower-half", "rows 0 to 7 are right; rows 8 to 15 belong to the same threads again"
    threads = all(p[0] == accumulator(*c)[0] for c, p in got.items())
    if threads:
        return "register", "the thread is right everywhere, the register is not"
    if all(p[1] == accumulator(*c)[1] for c, p in got.items()):
        return "thread", "the register is right everywhere, the thread is not"
    return "wrong", "neither number is right throughout"


def element(answer: Any) -> Found:
    """answer: (thread, register) -> (i, j)."""
    got = {(t, r): _called(answer, t, r, "(i, j)") for t in range(THREADS) for r in range(REGISTERS)}
    outcomes = [
        _range(got, "row", 0, ROWS, "(t, r)"),
        _range(got, "column", 1, COLUMNS, "(t, r)"),
        _distinct(got, "every place gives another element"),
    ]
    claim = "it undoes the layout: place, then element, gives back (i, j), on all cells"
    wrong = [(i, j) for i in range(ROWS) for j in range(COLUMNS) if got[accumulator(i, j)] != (i, j)]
    if not wrong:
        return [*outcomes, holds(claim)], None
    i, j = wrong[0]
    t, r = accumulator(i, j)
    if all(got[accumulator(i, j)] == (j, i) for i in range(ROWS) for j in range(COLUMNS)):
        kind, means = "transposed", "row and column are exchanged"
    elif all(got[accumulator(i, j)][0] == i for i in range(ROWS) for j in range(COLUMNS)):
        kind, means = "column", "the row is right everywhere, the column is not"
    elif all(got[accumulator(i, j)][1] == j for i in range(ROWS) for j in range(COLUMNS)):
        kind, means = "row", "the column is right everywhere, the row is not"
    else:
        kind, means = "wrong", "neither number is right throughout"
    saw = f"f({t}, {r}) gives {got[t, r]}; that place holds ({i}, {j}); {len(wrong)} of 128 differ"
    return [
        *outcomes,
        Outcome(
            claim,
            False,
            kind,
            saw,
            means,
            f"thread {t}, register {r}",
            f"thread {t} in the layout view (key t)",
            element=(i, j),
        ),
    ], None


TALL, WIDE = 16, 32
"""The tile of the row sum."""


def rows_together(answer: Any) -> Found:
    """answer: (i, j) -> (thread, register) of a 16 x 32 tile over 32 threads, for sums along rows."""
    got = {(i, j): _called(answer, i, j, "(thread, register)") for i in range(TALL) for j in range(WIDE)}
    outcomes = [
        _range(got, "thread", 0, THREADS, "(i, j)"),
        _range(got, "register", 1, TALL * WIDE // THREADS, "(i, j)"),
        _distinct(got, "no two elements are in one place"),
    ]
    claim = "a row is held by two threads: one exchange completes its sum"
    holders = {i: sorted({got[i, j][0] for j in range(WIDE)}) for i in range(TALL)}
    i = max(holders, key=lambda k: len(holders[k]))
    worst = holders[i]
    if len(worst) > 2:
        steps = int(np.ceil(np.log2(len(worst))))
        outcomes.append(
            Outcome(
                claim, False, "row-spread", f"row {i} is held by {len(worst)} threads: {worst[:6]}...",
                f"its sum needs {steps} exchanges between threads, where 1 is enough", f"row {i}",
                "which of i and j decides the thread", element=(i, 0),
            )
        )  # fmt: skip
    else:
        outcomes.append(holds(claim))
    near = "the two threads are neighbours"
    far = [k for k, t in holders.items() if len(t) == 2 and t[1] - t[0] != 1]
    if len(worst) > 2 or not far:
        outcomes.append(
            holds(near)
            if len(worst) <= 2
            else Outcome(near, None, saw="not looked at until the one above holds")
        )
    else:
        k = far[0]
        outcomes.append(
            Outcome(
                near, False, "far-apart", f"row {k} is held by threads {holders[k]}",
                "any pair of threads could exchange, but the usual order of a sum starts with neighbours",
                f"row {k}", "the factor of i in the thread number", element=(k, 0),
            )
        )  # fmt: skip
    return outcomes, None


def _range(got: dict[Pair, Pair], name: str, at: int, limit: int, of: str) -> Outcome:
    claim = f"the {name} is from 0 to {limit - 1}"
    bad = next((c for c, p in got.items() if not 0 <= p[at] < limit), None)
    if bad is None:
        return holds(claim)
    return Outcome(
        claim, False, f"{name}-range", f"{of} = {bad} gives {name} {got[bad][at]}", f"there are {limit}",
        f"{of} = {bad}", "% and //: which of them keeps a number below a limit?", element=bad,
    )  # fmt: skip


def _distinct(got: dict[Pair, Pair], claim: str) -> Outcome:
    seen: dict[Pair, Pair] = {}
    for c, p in got.items():
        if p in seen:
            return Outcome(
                claim, False, "twice", f"{seen[p]} and {c} both give {p}",
                "one of them would overwrite the other", f"{c}", "what tells these two apart", element=c,
            )  # fmt: skip
        seen[p] = c
    return holds(claim)


def layout_of(function: Callable[[int, int], Pair], shape: Pair = (ROWS, COLUMNS)) -> FragmentLayout:
    """A closed form as a layout of the language, to look at."""
    from tilebench.language import Fragment

    return Fragment(shape, function)


EXERCISES = (
    Exercise(
        "t03.p1",
        "predict: who holds (9, 5)",
        partial(
            number,
            want=6.0,
            rtol=1e-9,
            means="row 9 is row 1 of the lower half: threads 4 to 7; columns 4 and 5 are the third pair",
        ),
        ("Row 9 belongs to the same four threads as row 1.",),
    ),
    Exercise(
        "t03.p2",
        "predict: copies of a row's maximum",
        partial(
            number, want=4.0, rtol=1e-9, means="four threads hold parts of a row, and each needs its maximum"
        ),
        ("Who will subtract m[i] from an element of row i?",),
    ),
    Exercise(
        "t03.q1",
        "the thread and register of (i, j)",
        place,
        (
            "Walk along row 0 in the layout view: after how many columns does the thread change?",
            "Thread: 4 for each step down, 1 for every second step right; rows 8 to 15 repeat rows 0 to 7.",
            "The register has two parts: which of a pair (j % 2), and which half of the rows (i // 8).",
        ),
    ),
    Exercise(
        "t03.q2",
        "the element of a thread and register",
        element,
        (
            "Solve the two formulas of the first exercise for i and j.",
            "t // 4 and t % 4 undo (i % 8) * 4 + j // 2; r // 2 and r % 2 undo the register.",
        ),
    ),
    Exercise(
        "t03.q3",
        "a layout for sums along rows",
        rows_together,
        (
            "32 threads, 16 rows: two threads a row.",
            "Which half of the row decides between the two; the rest of j is the register.",
        ),
    ),
)
