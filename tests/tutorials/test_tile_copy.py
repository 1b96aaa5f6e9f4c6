"""*What is a tile*: the skeleton fails, the solution passes, each wrong copy fails with its message."""

from __future__ import annotations

import linecache
from typing import Any

import pytest

import tilebench.language as T
from tests.tutorials.tutorial import edited, skeleton
from tilebench.teach import check

SKELETON = skeleton("01-what-is-a-tile", "t01.q1")
COPY = "                Y[by * 32 + i, bx * 32 + j] = X[by * 32 + i, bx * 32 + j]"
GUARD = "if by * 32 + i < M and bx * 32 + j < N:"
SOLUTION = edited(
    SKELETON,
    ("T.Kernel(N // 32, M // 32,", "T.Kernel(T.ceildiv(N, 32), T.ceildiv(M, 32),"),
    (COPY, f"                {GUARD}\n    {COPY}"),
)
WRONG = {
    "not-written": (("T.ceildiv(M, 32)", "M // 32"),),
    "outside": ((GUARD, "if by * 32 + i < M and bx * 32 + j <= N:"),),
    "written-twice": (
        ("threads=128) as (bx, by)", "threads=128) as (bx, by, bz)"),
        ("T.ceildiv(M, 32),", "T.ceildiv(M, 32), 2,"),
    ),
    "read-twice": (
        (
            "            for i, j in",
            """\
            x = T.alloc_fragment((32, 32), "float32")
            T.copy(X[by * 32, bx * 32], x)
            for i, j in""",
        ),
    ),
    "moved": (("= X[by * 32 + i, bx * 32 + j]", "= X[M - 1 - by * 32 - i, bx * 32 + j]"),),
}


def factory(text: str) -> Any:
    """The function that a plain cell defines, with its source where Python looks for it."""
    name = f"<cell {abs(hash(text))}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"T": T}
    exec(compile(text, name, "exec"), scope)
    return scope["my_copy"]


def test_the_solution_passes() -> None:
    found = check(factory(SOLUTION), "t01.q1")
    assert found.passed, str(found)


def test_the_skeleton_fails() -> None:
    found = check(factory(SKELETON), "t01.q1")
    assert found.kinds[0] == "not-written"
    assert "M = 100, N = 75" in str(found)


@pytest.mark.parametrize("kind", list(WRONG))
def test_a_wrong_copy_fails_with_its_message(kind: str) -> None:
    found = check(factory(edited(SOLUTION, *WRONG[kind])), "t01.q1")
    assert found.kinds[0] == kind or (kind == "written-twice" and kind in found.kinds), str(found)


def test_a_grid_with_its_axes_exchanged_is_found_at_a_size_that_is_not_square() -> None:
    swapped = edited(
        SOLUTION,
        ("T.Kernel(T.ceildiv(N, 32), T.ceildiv(M, 32),", "T.Kernel(T.ceildiv(M, 32), T.ceildiv(N, 32),"),
    )
    found = check(factory(swapped), "t01.q1")
    assert found.kinds[0] == "not-written"
    assert "columns 64 to 95" in str(found)


def test_what_is_no_factory_is_told_apart_and_errors_are_outcomes() -> None:
    assert check(7, "t01.q1").kinds == ("not-a-factory",)
    broken = edited(SOLUTION, ("Y[by * 32 + i, bx * 32 + j] =", "Z[by * 32 + i, bx * 32 + j] ="))
    assert check(factory(broken), "t01.q1").kinds == ("error",)
    assert check(12, "t01.p1").passed
    assert check(44, "t01.p2").passed
    assert not check(9, "t01.p1").passed


def test_a_guard_with_the_sizes_exchanged_is_not_called_a_matter_of_the_grid() -> None:
    text = edited(SOLUTION, (GUARD, "if by * 32 + i < N and bx * 32 + j < M:"))
    found = check(factory(text), "t01.q1")
    told = [o for o in found.outcomes if o.passed is False]
    assert all("the grid has a tile" in o.means and "guard" in o.look for o in told), str(found)


def test_the_number_of_those_outside_is_recognised() -> None:
    assert check(980, "t01.p2").kinds == ("slip",)
    assert check(44, "t01.p2").passed


def test_indices_that_are_held_at_the_edge_write_its_elements_more_than_once() -> None:
    row, column = "T.min(by * 32 + i, M - 1)", "T.min(bx * 32 + j, N - 1)"
    text = edited(
        SKELETON,
        ("T.Kernel(N // 32, M // 32,", "T.Kernel(T.ceildiv(N, 32), T.ceildiv(M, 32),"),
        (COPY, f"                Y[{row}, {column}] = X[{row}, {column}]"),
    )
    found = check(factory(text), "t01.q1")
    assert found.kinds == ("written-twice",), str(found)
    assert "same value" in str(found)
