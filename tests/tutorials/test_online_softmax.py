"""*Online softmax*: the skeletons fail, the solutions pass, and each wrong variant fails with its message."""

from __future__ import annotations

import math

import pytest

from tests.tutorials.tutorial import edited, program, skeleton
from tilebench.teach import check

STEM = "06-online-softmax"
STATISTICS, WEIGHTED = skeleton(STEM, "t06.q1"), skeleton(STEM, "t06.q2")
SUSPECT = skeleton(STEM, "t06.bug")

RUNNING = edited(
    STATISTICS,
    (
        "        for k in",
        """\
        m_old = T.alloc_fragment((16,), "float32")
        alpha = T.alloc_fragment((16,), "float32")
        row = T.alloc_fragment((16,), "float32")
        T.fill(m, -T.infinity("float32"))
        T.clear(l)
        for k in""",
    ),
    (
        "T.reduce_max(x, m, dim=1)",
        """\
T.copy(m, m_old)
            T.reduce_max(x, m, dim=1, clear=False)
            for i in T.Parallel(16):
                alpha[i] = T.exp(m_old[i] - m[i])""",
    ),
    (
        "T.reduce_sum(x, l, dim=1)",
        """\
T.reduce_sum(x, row, dim=1)
            for i in T.Parallel(16):
                l[i] = l[i] * alpha[i] + row[i]""",
    ),
)
UPDATE = "l[i] = l[i] * alpha[i] + row[i]"
WRONG_STATISTICS = {
    "maximum-of-block": (("dim=1, clear=False", "dim=1"),),
    "maximum-start": (('T.fill(m, -T.infinity("float32"))', "T.fill(m, 0)"),),
    "not-rescaled": ((UPDATE, "l[i] = l[i] + row[i]"),),
    "rescaled-too-late": ((UPDATE, "l[i] = (l[i] + row[i]) * alpha[i]"),),
    "forgets": ((UPDATE, "l[i] = row[i]"),),
    "inverted": (
        (
            "alpha[i] = T.exp(m_old[i] - m[i])",
            "alpha[i] = T.if_then_else(k == 0, 0.0, T.exp(m[i] - m_old[i]))",
        ),
    ),
    "base-two": (
        ("T.exp(x[i, j] - m[i])", "T.exp2(x[i, j] - m[i])"),
        ("T.exp(m_old[i] - m[i])", "T.exp2(m_old[i] - m[i])"),
    ),
    "not-read": (("T.serial(4)", "T.serial(3)"),),
    "read-twice": (
        ("for k in T.serial(4):\n", "for k in T.serial(4):\n            T.copy(X[0, k * 32], x)\n"),
    ),
    "long-buffer": (
        (
            "        m_old = T",
            '        whole = T.alloc_shared((16, 128), "float32")\n        T.clear(whole)\n        m_old = T',
        ),
    ),
    "output-wrong": (("T.copy(l, L)", "T.copy(row, L)"),),
    "not-written": (("\n        T.copy(l, L)", ""),),
    "no-buffer": (
        (
            '        m = T.alloc_fragment((16,), "float32")',
            '        top = T.alloc_fragment((16,), "float32")',
        ),
        ("T.fill(m, -T", "T.fill(top, -T"),
        ("T.copy(m, m_old)", "T.copy(top, m_old)"),
        ("T.reduce_max(x, m, ", "T.reduce_max(x, top, "),
        ("T.exp(m_old[i] - m[i])", "T.exp(m_old[i] - top[i])"),
        ("T.exp(x[i, j] - m[i])", "T.exp(x[i, j] - top[i])"),
        ("T.copy(m, M)", "T.copy(top, M)"),
    ),
}

RESCALED = edited(
    WEIGHTED,
    (
        "T.clear(acc)  # here something is missing",
        """\
for i, j in T.Parallel(16, 16):
                acc[i, j] = acc[i, j] * alpha[i]""",
    ),
)
COMPLETE = edited(
    RESCALED,
    ("        T.clear(l)\n", '        T.clear(l)\n        base = T.alloc_fragment((16,), "float32")\n'),
    (
        "                alpha[i] = T.exp(m_old[i] - m[i])",
        """\
                base[i] = T.if_then_else(m[i] == -T.infinity("float32"), 0.0, m[i])
                alpha[i] = T.exp(m_old[i] - base[i])""",
    ),
    ("T.exp(x[i, j] - m[i])", "T.exp(x[i, j] - base[i])"),
    ("acc[i, j] / l[i]", "acc[i, j] / T.if_then_else(l[i] == 0, 1.0, l[i])"),
)
SCALING = "            for i, j in T.Parallel(16, 16):\n                acc[i, j] = acc[i, j] * alpha[i]\n"
DIVISION = """\
        for i, j in T.Parallel(16, 16):
            acc[i, j] = acc[i, j] / T.if_then_else(l[i] == 0, 1.0, l[i])
"""
WRONG_WEIGHTED = {
    "not-rescaled": ((SCALING, ""),),
    "rescaled-too-late": (
        (SCALING + "            T.gemm(x, V_s, acc)\n", "            T.gemm(x, V_s, acc)\n" + SCALING),
    ),
    "stale-factor": (
        (SCALING, ""),
        ("            T.copy(m, m_old)\n", SCALING + "            T.copy(m, m_old)\n"),
        ("        T.clear(acc)\n", "        T.clear(acc)\n        T.clear(alpha)\n"),
    ),
    "not-divided": ((DIVISION, ""),),
    "masked-nan": (("m_old[i] - base[i]", "m_old[i] - m[i]"),),
    "divided-early": (
        (DIVISION, ""),
        (
            "            T.gemm(x, V_s, acc)\n",
            "            T.gemm(x, V_s, acc)\n            for i, j in T.Parallel(16, 16):\n"
            "                acc[i, j] = acc[i, j] / T.if_then_else(l[i] == 0, 1.0, l[i])\n",
        ),
    ),
}
MENDED = edited(
    SUSPECT,
    (SCALING, ""),
    ("            T.gemm(x, V_s, acc)\n", SCALING + "            T.gemm(x, V_s, acc)\n"),
)


@pytest.mark.parametrize(
    ("exercise", "text"),
    [("t06.q1", RUNNING), ("t06.q2", COMPLETE), ("t06.bug", MENDED), ("t06.bug", COMPLETE)],
)
def test_the_solution_passes(exercise: str, text: str) -> None:
    found = check(program(text), exercise)
    assert found.passed, str(found)
    assert "done" in str(found)


@pytest.mark.parametrize(
    ("exercise", "text", "kind"),
    [
        ("t06.q1", STATISTICS, "maximum-of-block"),
        ("t06.q2", WEIGHTED, "forgets"),
        ("t06.bug", SUSPECT, "stale-factor"),
    ],
)
def test_the_skeleton_fails(exercise: str, text: str, kind: str) -> None:
    found = check(program(text), exercise)
    assert found.kinds == (kind,)


@pytest.mark.parametrize("kind", list(WRONG_STATISTICS))
def test_a_wrong_running_sum_fails_with_its_message(kind: str) -> None:
    found = check(program(edited(RUNNING, *WRONG_STATISTICS[kind])), "t06.q1")
    assert kind in found.kinds, str(found)
    wrong = next(o for o in found.outcomes if o.kind == kind)
    assert wrong.saw
    assert wrong.means
    assert wrong.look


@pytest.mark.parametrize("kind", list(WRONG_WEIGHTED))
def test_a_wrong_weighted_sum_fails_with_its_message(kind: str) -> None:
    text = edited(COMPLETE, *WRONG_WEIGHTED[kind])
    found = check(program(text), "t06.q2")
    assert found.kinds == (kind,), str(found)
    wrong = next(o for o in found.outcomes if o.kind == kind)
    assert wrong.line > 0
    assert wrong.step is not None
    assert f"line {wrong.line}" in wrong.where


def test_the_line_that_is_named_is_the_line_of_the_update() -> None:
    text = edited(RUNNING, (UPDATE, "l[i] = l[i] + row[i]"))
    [wrong] = [o for o in check(program(text), "t06.q1").outcomes if o.passed is False]
    lines = text.split("\n")
    assert "for i in T.Parallel" in lines[wrong.line - 2]
    assert "l[i] + row[i]" in lines[wrong.line - 1]


def test_the_failing_run_can_be_stepped_through_and_is_wrong_where_the_check_says() -> None:
    found = check(program(edited(RUNNING, (UPDATE, "l[i] = l[i] + row[i]"))), "t06.q1")
    [wrong] = [o for o in found.outcomes if o.passed is False]
    recording = found.replay()
    assert recording.report.exercise == found.info()
    assert [c.passed for c in recording.report.exercise.claims] == [o.passed for o in found.outcomes]
    first = recording.first_wrong()
    assert first is not None
    assert first >= wrong.step
    assert recording.trace.sites[recording.steps[first].site].vars == ("k",)
    assert recording.steps[first].at == recording.steps[wrong.step].at
    with pytest.raises(ValueError, match="no run to replay"):
        check(None, "t06.q1").replay()


def test_the_bug_hunt_does_not_give_the_answer_away() -> None:
    text = str(check(program(SUSPECT), "t06.bug"))
    assert "factor of the block before" not in text
    assert "for you" in text or "find out" in text


def test_predictions() -> None:
    assert check(math.exp(-2), "t06.p1").passed
    assert check(math.exp(2), "t06.p1").kinds == ("upside-down",)
    assert check("a lot", "t06.p1").kinds == ("not-a-number",)
    assert check(None, "t06.p1").kinds == ("no-answer",)
    assert check([1, 0], "t06.p2").passed
    assert "[2] are not among them" in str(check([0, 1, 2], "t06.p2"))
    assert "[0, 1]" not in str(check([2], "t06.p2")), "the answer is not given away"
    assert check(3, "t06.p2").kinds == ("not-rows",)
