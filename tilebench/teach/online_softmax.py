"""The exercises of *online softmax, step by step*: what must hold of m, l and acc after every block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tilebench.kernel.record import Moment
from tilebench.teach.answers import number, rows
from tilebench.teach.exercise import Exercise, Found
from tilebench.teach.outcome import Outcome, Unmet, holds, skipped
from tilebench.teach.running import FORGETS, STALE, Mistake, Transition, diagnose
from tilebench.teach.traces import Run, State, kernel_of, reads, replayed, run_of, states

ROWS, KEYS, DIM = 16, 128, 16


@dataclass(frozen=True)
class Case:
    """Scores X [ROWS, KEYS], and values V [KEYS, DIM] where the exercise has them. name: in words."""

    name: str
    X: np.ndarray
    V: np.ndarray | None = None

    @property
    def inputs(self) -> dict[str, np.ndarray]:
        """By parameter name."""
        return {"X": self.X} if self.V is None else {"X": self.X, "V": self.V}

    @property
    def rtol(self) -> float:
        """Sums of 128 terms in float32, and exponents whose own rounding grows with the scores."""
        finite = np.abs(self.X[np.isfinite(self.X)])
        return 1e-4 + 4 * 2.0**-24 * float(finite.max(initial=0.0))


def cases(weighted: bool) -> list[Case]:
    """Ordinary rows with three seeds, and rows that are chosen to break what only ordinary rows let pass."""
    made: list[tuple[str, np.ndarray]] = [
        (f"random scores, seed {seed}", np.random.default_rng(seed).standard_normal((ROWS, KEYS)) * 2)
        for seed in range(3)
    ]
    noise = np.random.default_rng(9).standard_normal((ROWS, KEYS))
    ramp = np.linspace(0, 12, KEYS)
    made += [
        ("the maximum comes last", noise + ramp),
        ("the maximum comes first", noise - ramp),
        ("ties: every score is one of 0, 1, 2", np.round(np.abs(noise)) % 3),
        ("scores of +-10000", noise * 3 + np.where(noise > 0, 10_000.0, -10_000.0)),
        ("all scores below -280", noise - 300.0),
    ]
    values = np.random.default_rng(10).standard_normal((KEYS, DIM)).astype(np.float32)
    return [Case(name, x.astype(np.float32), values if weighted else None) for name, x in made]


def masked_case() -> Case:
    """Rows 0 to 3 are -inf throughout, rows 4 to 7 in their first half."""
    base = cases(True)[0]
    x = base.X.copy()
    x[:4], x[4:8, : KEYS // 2] = -np.inf, -np.inf
    return Case("masked rows: 0 to 3 all -inf, 4 to 7 in their first half", x, base.V)


@dataclass(frozen=True)
class Truth:
    """What the definition says of the columns that were read.

    m, l: [ROWS]; acc: [ROWS, DIM]; size: the same sum over sizes, which errors are measured against.
    """

    m: np.ndarray
    l: np.ndarray
    acc: np.ndarray | None
    size: np.ndarray | None


def truth(case: Case, seen: np.ndarray) -> Truth:
    """Softmax's parts on the columns that were read, in float64; zeros where all of them are -inf."""
    x = case.X[:, seen].astype(np.float64)
    m = x.max(axis=1, initial=-np.inf)
    weights = np.exp(x - np.where(np.isfinite(m), m, 0.0)[:, None])
    if case.V is None:
        return Truth(m, weights.sum(1), None, None)
    v = case.V[seen].astype(np.float64)
    return Truth(m, weights.sum(1), weights @ v, weights @ np.abs(v))


# ------------------------------------------------------------------ structure


def read_once(run: Run, source: str) -> Outcome:
    """Every score is read exactly once."""
    claim = "every score is read once"
    counts = reads(run, source)
    if (counts == 1).all():
        return holds(claim, f"{counts.size} scores, {counts.size * 4} bytes")
    wrong = counts == 0 if (counts == 0).any() else counts > 1
    r, c = (int(i) for i in np.argwhere(wrong)[0])
    kind, means = (
        ("not-read", "a part of the row does not take part")
        if (counts == 0).any()
        else ("read-twice", "that is another pass over the scores: on a GPU the same bytes again from memory")
    )
    return Outcome(
        claim,
        False,
        kind,
        f"{source}[{r}, {c}] is read {counts[r, c]} times, and so are {int(wrong.sum())} of {counts.size}",
        means,
        f"columns {c} to {int(np.argwhere(wrong)[-1][1])}",
        "the range of the loop" if kind == "not-read" else f"the copies from {source}: one is enough",
        element=(r, c),
    )


def short_buffers(run: Run) -> Outcome:
    """No buffer of the block is as long as a row."""
    claim = "no buffer holds a whole row of scores"
    for b in run.trace.buffers:
        if b.scope not in ("global", "scalar") and any(n >= KEYS for n in b.shape) and b.name != "V_s":
            return Outcome(
                claim,
                False,
                "long-buffer",
                f"{b.name} has shape {b.shape}",
                f"it grows with the row ({KEYS} scores here, 100 000 in a real one) and will not fit",
                f"line {b.line}",
                "tiles of one block's width",
                b.line,
            )
    return holds(claim)


# ------------------------------------------------------------------ after every block


@dataclass(frozen=True)
class Walk:
    """A run of a case and its states."""

    case: Case
    run: Run
    states: Sequence[State]

    def place(self, buffer: str, state: State, element: Sequence[int]) -> dict[str, Any]:
        """Where an element of a buffer got its value, as fields of an Outcome."""
        step = self.run.last_write(buffer, state.step)
        line = self.run.line(step)
        shown = f"row {element[0]}" + (f", column {element[1]}" if len(element) > 1 else "")
        where = f"line {line}, step {step or 0}, {state.loop} = {state.at}, {shown} ({self.case.name})"
        return {"where": where, "line": line, "step": step, "element": tuple(int(i) for i in element)}


def walk(kernel: Any, case: Case, follow: Sequence[str]) -> Walk:
    """Run a case. Raises Unmet where there is no loop, or a buffer is missing."""
    run = run_of(kernel, case.inputs)
    found = states(run, "X", follow)
    if not found:
        raise Unmet(
            Outcome(
                "the scores are taken block by block",
                False,
                "no-loop",
                "there is no loop around the statements",
                "all is done in one go",
                look="for k in T.serial(...)",
            )
        )
    return Walk(case, run, found)


def maximum_follows(w: Walk) -> Outcome | None:
    """None, or how the maximum goes wrong."""
    claim = "m is the largest score so far, after every block, and never decreases"
    before = np.full(ROWS, -np.inf)
    for s in w.states:
        got, want = s.values["m"], truth(w.case, s.seen).m
        empty = want == -np.inf
        wrong = np.where(empty, ~(got <= -1e29), got != want.astype(np.float32))
        if wrong.any():
            r = int(np.argmax(wrong))
            saw = (
                f"after block {s.loop} = {s.at} m[{r}] is {got[r]:.6g}; the largest score read so far is "
                f"{want[r]:.6g}"
            )
            fresh = w.case.X[:, s.fresh].max(axis=1, initial=-np.inf)
            if np.isnan(got[r]):
                kind, means, look = "nan", "NaN: -inf minus -inf, or 0/0", "the first NaN in the step view"
            elif np.array_equal(got, fresh):
                kind = "maximum-of-block"
                means = "m is the maximum of this block alone" + (
                    f": it fell from {before[r]:.6g}" if got[r] < before[r] else ""
                )
                look = "reduce_max(..., clear=False) takes the value that m has into account"
            elif got[r] > want[r]:
                kind = "maximum-start"
                means = "m started above every score of the row: exp(x - m) can vanish for all of them"
                look = "the T.fill of m: nothing is below -T.infinity"
            else:
                kind, means, look = "maximum-wrong", "larger scores were passed over", "what reduce_max reads"
            return Outcome(claim, False, kind, saw, means, look=look, **w.place("m", s, (r,)))
        before = got
    return None


def sum_follows(w: Walk, buffer: str) -> Outcome | None:
    """None, or how the running sum `l` or `acc` goes wrong, and which mistake explains it."""
    weighted = buffer == "acc"
    formula = "sum of exp(x - m) * V" if weighted else "sum of exp(x - m)"
    claim = f"{buffer} is the {formula} over what was read, after every block"
    shape = (ROWS, DIM) if weighted else (ROWS,)
    before, maxima = np.zeros(shape), [np.full(ROWS, -np.inf), np.full(ROWS, -np.inf)]
    first: Outcome | None = None
    mistakes: list[Mistake] = []
    for s in w.states:
        t, got = truth(w.case, s.seen), s.values[buffer]
        want, size = (t.acc, t.size) if weighted else (t.l, t.l)
        assert want is not None, "the case of an exercise with acc has V"
        assert size is not None, "and with it the sizes"
        if got.shape != shape:
            saw = f"{buffer} has shape {got.shape}"
            raise Unmet(Outcome(claim, False, "shape", saw, f"it needs {shape}", look="its allocation"))
        # elements that are not within rtol of the sum of the sizes of their terms
        excess = np.abs(got - want) - w.case.rtol * size
        wrong = ~(excess <= 0)
        if wrong.any() or first is not None:
            fresh = w.case.X[:, s.fresh].astype(np.float64)
            v = None if w.case.V is None or not weighted else w.case.V[s.fresh].astype(np.float64)
            moved = Transition(fresh, v, maxima[-1], s.values["m"], before, got, maxima[-2], t.l)
            mistakes.append(diagnose(moved, 2 * w.case.rtol))
        if wrong.any() and first is None:
            at = tuple(
                int(i)
                for i in np.unravel_index(int(np.argmax(np.where(np.isnan(excess), np.inf, excess))), shape)
            )
            name = f"{buffer}[{', '.join(map(str, at))}]"
            count = int(wrong.any(-1).sum() if weighted else wrong.sum())
            saw = (
                f"after block {s.loop} = {s.at} {name} is {got[at]:.6g}; the {formula} over the "
                f"{int(s.seen.sum())} scores read so far is {want[at]:.6g}; {count} of {ROWS} rows are wrong"
            )
            first = Outcome(claim, False, saw=saw, **w.place(buffer, s, at))
        before, maxima = got, [*maxima, s.values["m"]]
    if first is None:
        return None
    # the factor of the first block is 0, so a stale one looks like a sum that forgets until one block later
    mistake = STALE if mistakes[0] is FORGETS and STALE in mistakes[1:] else mistakes[0]
    return replace(first, kind=mistake.kind, means=mistake.means, look=mistake.look)


def output_follows(
    w: Walk, output: str, want: np.ndarray, size: np.ndarray, undivided: np.ndarray
) -> Outcome | None:
    """None, or how an output differs from the definition."""
    claim = f"{output} is right at the end"
    if output not in [b.name for b in w.run.trace.buffers]:
        saw, look = f"no step writes to {output}", f"a T.copy to {output} after the loop"
        return Outcome(claim, False, "not-written", saw, "it keeps what it held before the launch", look=look)
    got = w.run.final(output)
    wrong = ~(np.abs(got - want) <= 2 * w.case.rtol * size + 1e-6)
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    step = w.run.last_write(output, len(w.run.trace.steps) - 1)
    line = w.run.line(step)
    shown = ", ".join(map(str, at))
    kind, means, look = (
        "output-wrong",
        "what was computed is right, what is written is not",
        "the statements after the loop",
    )
    if np.isnan(got[at]):
        kind, means, look = "nan", "NaN: 0/0, or -inf minus -inf", "the first NaN in the step view"
    elif np.allclose(got, undivided, rtol=1e-3, atol=1e-5):
        kind, means, look = (
            "not-divided",
            "the weights do not add up to 1: they add up to l",
            "one division by l, after the loop",
        )
    return Outcome(
        claim, False, kind, f"{output}[{shown}] is {got[at]:.6g}; the definition gives {want[at]:.6g}", means,
        f"line {line}, element ({shown}) ({w.case.name})", look, line, step, at,
    )  # fmt: skip


# ------------------------------------------------------------------ the exercises


def hunt(answer: Any) -> Found:
    """The bug hunt: what is wrong is seen, what it means is for the learner to find."""
    outcomes, again = examine(answer, True, False)
    means, look = (
        "that is what you are to find out",
        "replay() below: which value that its statement reads is wrong?",
    )
    return [o if o.passed is not False else replace(o, means=means, look=look) for o in outcomes], again


def examine(answer: Any, weighted: bool, masks: bool = True) -> Found:
    """The running maximum and sum (outputs M and L), or with `weighted` the whole of O = softmax(X) @ V;
    masks: also rows of -inf.
    """
    kernel = kernel_of(answer)
    follow = ("m", "l", "acc") if weighted else ("m", "l")
    walks = [walk(kernel, case, follow) for case in cases(weighted)]
    outcomes = [read_once(walks[0].run, "X"), short_buffers(walks[0].run)]
    again: Callable[[], Any] | None = None
    steps: list[tuple[str, Callable[[Walk], Outcome | None]]] = [
        ("m is the largest score so far, after every block, and never decreases", maximum_follows),
        (
            "l is the sum of exp(x - m) over what was read, after every block",
            partial(sum_follows, buffer="l"),
        ),
    ]
    if weighted:
        steps.append(
            (
                "acc is the sum of exp(x - m) * V over what was read, after every block",
                partial(sum_follows, buffer="acc"),
            )
        )
    steps.append(("the outputs are right at the end", partial(outputs, weighted=weighted)))
    broken = False
    for claim, look in steps:
        if broken:
            outcomes.append(skipped(claim, "not looked at until the one above holds"))
            continue
        failing = next(((w, o) for w in walks if (o := look(w)) is not None), None)
        if failing is None:
            outcomes.append(holds(claim, f"{len(walks)} inputs, {len(walks[0].states)} blocks each"))
        else:
            broken, again = True, partial(_replay, failing[0])
            outcomes.append(failing[1])
    if weighted and masks:
        claim = "a row that is masked (-inf) so far gives zeros, not NaN"
        if broken:
            outcomes.append(skipped(claim, "not looked at until the ones above hold"))
        else:
            w = walk(kernel, masked_case(), follow)
            found = masked(w, claim)
            outcomes.append(found)
            again = None if found.passed else partial(_replay, w)
    return outcomes, again


def outputs(w: Walk, weighted: bool) -> Outcome | None:
    """M and L, or O."""
    t = truth(w.case, np.ones(KEYS, bool))
    if not weighted:
        plain = np.full(ROWS, np.nan)
        return output_follows(w, "M", t.m, np.abs(t.m), plain) or output_follows(w, "L", t.l, t.l, plain)
    assert t.acc is not None, "the case has V"
    assert t.size is not None, "and with it the sizes"
    total = np.where(t.l == 0, 1, t.l)[:, None]
    return output_follows(w, "O", t.acc / total, t.size / total, t.acc)


def masked(w: Walk, claim: str) -> Outcome:
    """Rows without a finite score: 0 in l, acc and O."""
    for s in w.states:
        for name in ("l", "acc"):
            bad = np.isnan(s.values[name])
            if bad.any():
                at = tuple(int(i) for i in np.argwhere(bad)[0])
                return Outcome(
                    claim,
                    False,
                    "masked-nan",
                    f"after block {s.loop} = {s.at} {name}[{', '.join(map(str, at))}] is NaN; "
                    f"{int(bad.sum())} elements are",
                    "m is still -inf there, and -inf - -inf is NaN, which no later block can repair",
                    look="the exponents: subtract 0 where m is -inf (T.if_then_else)",
                    **w.place(name, s, at),
                )
    wrong = maximum_follows(w) or sum_follows(w, "l") or sum_follows(w, "acc") or outputs(w, True)
    if wrong is None:
        return holds(claim, w.case.name)
    kind = "masked-nan" if wrong.kind == "nan" else wrong.kind
    return Outcome(
        claim,
        False,
        kind,
        wrong.saw,
        wrong.means,
        wrong.where,
        wrong.look,
        wrong.line,
        wrong.step,
        wrong.element,
    )


def _replay(w: Walk) -> Any:
    follow = tuple(w.states[0].values)
    by_step = {s.step: s.seen for s in w.states}

    def reference(moment: Moment) -> Mapping[str, Any] | None:
        seen = by_step.get(moment.step)
        if seen is None:
            return None
        t = truth(w.case, seen)
        known = {"m": t.m, "l": t.l, "acc": t.acc}
        return {name: known[name] for name in follow if known[name] is not None}

    return replayed(w.run, reference)


EXERCISES = (
    Exercise(
        "t06.p1",
        "predict: the factor",
        partial(
            number,
            want=float(np.exp(-2.0)),
            rtol=0.02,
            means="old terms are exp(x - 3), and should be exp(x - 5)",
        ),
        ("Write one old term before and after: exp(1 - 3) and exp(1 - 5). What is their quotient?",),
    ),
    Exercise(
        "t06.p2",
        "predict: which rows survive",
        partial(
            rows,
            want=frozenset({0, 1}),
            means="the factor is 1 where the maximum does not move: only rows that meet their largest score "
            "in the first block need no rescaling",
        ),
        ("For which rows is exp(m_old - m_new) equal to 1 at every block after the first?",),
    ),
    Exercise(
        "t06.q1",
        "running maximum and sum",
        partial(examine, weighted=False),
        (
            "After the first block your kernel is right. Which two of its buffers must remember that block?",
            "Keep a copy of m before reduce_max (which takes clear=False). What happened to the old terms of "
            "l when m grew?",
            "With alpha = exp(m_old - m): the new l is the old l times alpha plus the sum of this block.",
        ),
    ),
    Exercise(
        "t06.q2",
        "the weighted sum, and rows that are masked",
        partial(examine, weighted=True),
        (
            "acc is a running sum like l, with V as weights. Whatever l needs, acc needs, in the same order.",
            "For masked rows: at which statement does the first NaN appear? check(...).replay() shows it.",
            "Use one more row vector: 0 where m is -inf, else m. Subtract that in both exponentials; and "
            "mind the division at the end, where l can be 0.",
        ),
    ),
    Exercise(
        "t06.bug",
        "bug hunt",
        hunt,
        (
            "m and l are right after every block. Look at what acc is multiplied with.",
            "In the step view, stop at the statement that scales acc in the second block. Which block is the "
            "alpha of that moment from?",
        ),
    ),
)
