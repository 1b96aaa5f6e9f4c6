"""*Who holds what*: closed forms, tried on all cells; each wrong one fails with its message."""

from __future__ import annotations

from typing import Any

import pytest

import tilebench
import tilebench.language as T
from tests.tutorials.tutorial import skeleton
from tilebench.layouts import FragmentLayout
from tilebench.teach import check, hint
from tilebench.teach.fragments import accumulator, layout_of

STEM = "03-who-holds-what"
PLACE = {
    "lower-half": lambda i, j: ((i % 8) * 4 + j // 2, j % 2),
    "registers-swapped": lambda i, j: ((i % 8) * 4 + j // 2, (j % 2) * 2 + i // 8),
    "one-element": lambda i, j: ((i * 8 + j) % 32, (i * 8 + j) // 32),
    "transposed": lambda i, j: ((j % 8) * 4 + (i // 2) % 4, (j // 8) * 2 + i % 2),
    "thread-range": lambda i, j: (i * 4 + j // 2, j % 2),
    "register": lambda i, j: ((i % 8) * 4 + j // 2, 3 - (i // 8) * 2 - j % 2),
    "fails": lambda i, j: (i // (j - 3), 0),
}
ELEMENT = {
    "twice": lambda t, r: (t // 4, t % 4),
    "transposed": lambda t, r: ((t % 4) * 2 + r % 2, t // 4 + (r // 2) * 8),
    "column": lambda t, r: (t // 4 + (r // 2) * 8, (t % 4) + (r % 2) * 4),
    "row": lambda t, r: ((t // 4) * 2 + r // 2, (t % 4) * 2 + r % 2),
}
ROWS = {
    "row-spread": lambda i, j: (j, i),
    "far-apart": lambda i, j: (i + 16 * (j // 16), j % 16),
    "twice": lambda i, j: (i * 2 + j // 16, j // 2),
    "register-range": lambda i, j: (i * 2, j),
}


def test_the_formula_is_the_layout_that_the_compiler_places() -> None:
    @T.prim_func
    def product(
        A: T.Tensor((16, 16), "float16"), B: T.Tensor((16, 8), "float16"), C: T.Tensor((16, 8), "float32")
    ):
        with T.Kernel(1, threads=32) as bx:
            A_s = T.alloc_shared((16, 16), "float16")
            B_s = T.alloc_shared((16, 8), "float16")
            c = T.alloc_fragment((16, 8), "float32")
            T.copy(A[0, 0], A_s)
            T.copy(B[0, 0], B_s)
            T.clear(c)
            T.gemm(A_s, B_s, c)
            T.copy(c, C[0, 0])

    layout = tilebench.compile(product, target="emu:sm_80").layout("c")
    assert isinstance(layout, FragmentLayout)
    assert layout.same_as(layout_of(accumulator))


def test_the_solutions_pass() -> None:
    assert check(accumulator, "t03.q1").passed
    assert check(lambda t, r: (t // 4 + (r // 2) * 8, (t % 4) * 2 + r % 2), "t03.q2").passed
    assert check(lambda i, j: (i * 2 + j // 16, j % 16), "t03.q3").passed
    assert check(6, "t03.p1").passed
    assert check(4, "t03.p2").passed


@pytest.mark.parametrize(
    ("exercise", "name"), [("t03.q1", "place"), ("t03.q2", "element"), ("t03.q3", "rows_together")]
)
def test_the_skeleton_fails(exercise: str, name: str) -> None:
    scope: dict[str, Any] = {}
    exec(skeleton(STEM, exercise), scope)
    assert not check(scope[name], exercise).passed


@pytest.mark.parametrize(
    ("exercise", "kind", "wrong"),
    [
        *(("t03.q1", k, f) for k, f in PLACE.items()),
        *(("t03.q2", k, f) for k, f in ELEMENT.items()),
        *(("t03.q3", k, f) for k, f in ROWS.items()),
    ],
)
def test_a_wrong_formula_fails_with_its_message(exercise: str, kind: str, wrong: Any) -> None:
    found = check(wrong, exercise)
    assert kind in found.kinds, str(found)
    assert not found.passed


def test_hints_come_in_steps_and_end() -> None:
    assert "hint 1 (of 3)" in repr(hint("t03.q1", 1))
    assert "the last" in repr(hint("t03.q1", 3))
    assert repr(hint("t03.q1", 4)) == "t03.q1 has 3 hints, from 1 on: there is no hint 4"
    with pytest.raises(ValueError, match="did you mean"):
        check(1, "t03.q11")


def test_a_place_is_two_whole_numbers() -> None:
    found = check(lambda i, j: ((i % 8) * 4 + j / 2, (i // 8) * 2 + j % 2), "t03.q1")
    assert found.kinds == ("fails",)
    assert "// divides" in str(found)
