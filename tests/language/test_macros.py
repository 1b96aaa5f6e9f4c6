"""Macros: inlined, arguments by value, T.Ref by reference, places with the call."""

from __future__ import annotations

import textwrap

from tests.language.reading import body, kernel, refused_body, wrapped
from tilebench.ir.rewrite import walk
from tilebench.ir.tile import Store

HEAD = """
@T.macro
def put(target, i, value: T.float32 = 7):
    target[i, 0] = value

@T.macro
def bump(x: T.Ref, by):
    x += by

@T.macro
def larger(x, y):
    return T.max(x, y), T.min(x, y)
"""


def shows(text: str, expected: str) -> None:
    assert body(text, HEAD) == textwrap.dedent(expected).strip()


def test_a_macro_is_inlined() -> None:
    shows("put(A, bx)\nput(B, value=1, i=2)", "A[bx, 0] = 7.0\nB[2, 0] = 1.0")


def test_arguments_are_taken_at_the_call() -> None:
    shows("put(A, I[0], A[0, 0] + 1)", "i: int32 = I[0]\nvalue: float32 = A[0, 0] + 1.0\nA[i, 0] = value")


def test_variables_are_passed_by_value_unless_by_reference() -> None:
    shows(
        "v = T.alloc_var('int32', 1)\nbump(v, v)\nbump(I[2], 3)\nput(A, v)",
        """
        v[0] = 1
        by: int32 = v[0]
        v[0] = v[0] + by
        I[2] = I[2] + 3
        i: int32 = v[0]
        A[i, 0] = 7.0
        """,
    )


def test_a_macro_returns_values() -> None:
    shows("a, b = larger(n, bx)\nI[0] = a - b", "I[0] = max(n, bx) - min(n, bx)")


def test_places_inside_a_macro_name_the_call() -> None:
    made = kernel(wrapped("put(A, bx)", HEAD))
    (store,) = [s for s in walk(made.body) if isinstance(s, Store)]
    assert store.loc is not None
    assert store.loc.call_site is not None
    assert "put(A, bx)" in store.loc.source.line(store.loc.call_site.line)
    error = refused_body("put(I, 0)", HEAD)
    assert error.code == "TB216"
    assert "called from" in error.render()


def test_wrong_arguments_of_a_macro() -> None:
    for call in ("put(A)", "put(A, 1, 2, 3)", "put(A, 1, other=2)"):
        assert refused_body(call, HEAD).code == "TB230"


def test_macros_of_a_class_get_their_object() -> None:
    head = """
    class Scheduler:
        def __init__(self, step):
            self.step = step

        @T.macro
        def store(self, target, i):
            target[i * self.step, 0] = 1

    scheduler = Scheduler(4)
    """
    assert body("scheduler.store(A, bx)", textwrap.dedent(head)) == "A[bx * 4, 0] = 1.0"


def test_break_of_a_macro_does_not_reach_the_loop_around_its_call() -> None:
    assert (
        refused_body(
            "for i in T.serial(3):\n    stop()", "@T.macro\ndef stop():\n    if True:\n        T.loop_break()"
        ).code
        == "TB104"
    )
