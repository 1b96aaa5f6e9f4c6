"""What each Python construct means in a tile program: folded while compiling, or IR."""

# ruff: noqa: E501 -- programs and what they become stand side by side

from __future__ import annotations

import textwrap

import pytest

import tilebench
import tilebench.language as T
from tests.language.reading import body, kernel, refused_body, whole, wrapped
from tilebench.errors import TileError


def shows(text: str, expected: str, head: str = "") -> None:
    assert body(text, head) == textwrap.dedent(expected).strip()


# ------------------------------------------------------------------ conditions


def test_a_known_condition_leaves_the_branch_that_is_taken() -> None:
    shows("if 3 > 2:\n    A[0, 0] = 1\nelse:\n    A[0, 0] = undefined", "A[0, 0] = 1.0")


def test_a_run_time_condition_is_an_if() -> None:
    shows(
        "if bx < n:\n    A[0, 0] = 1\nelif bx == 3:\n    A[0, 0] = 2\nelse:\n    pass",
        """
        if bx < n:
          A[0, 0] = 1.0
        else:
          if bx == 3:
            A[0, 0] = 2.0
          else:
        """,
    )


def test_chained_comparisons_are_conjunctions() -> None:
    shows("if 0 < bx < n <= 9:\n    A[0, 0] = 1", "if 0 < bx and bx < n and n <= 9:\n  A[0, 0] = 1.0")


def test_and_or_not_fold_their_known_parts() -> None:
    shows("if True and bx < 2 and not False:\n    A[0, 0] = 1", "if bx < 2:\n  A[0, 0] = 1.0")
    shows("if False and bx < 2:\n    A[0, 0] = 1\nA[0, 1] = 2", "A[0, 1] = 2.0")
    shows("if bx < 2 or n > 3:\n    A[0, 0] = 1", "if bx < 2 or n > 3:\n  A[0, 0] = 1.0")
    shows("if bx < 2 or True:\n    A[0, 0] = 1", "A[0, 0] = 1.0")
    shows("if not bx < 2:\n    A[0, 0] = 1", "if not (bx < 2):\n  A[0, 0] = 1.0")


def test_the_right_side_of_and_may_not_act() -> None:
    error = refused_body("if bx < 2 and T.atomic_add(I[0], 1, return_prev=True) == 0:\n    A[0, 0] = 1")
    assert error.code == "TB114"


def test_a_ternary_folds_or_selects() -> None:
    shows("A[0, 0] = 1 if 2 > 1 else nowhere", "A[0, 0] = 1.0")
    shows("A[0, 0] = B[bx, 0] if bx < n else 0", "A[0, 0] = select(bx < n, B[bx, 0], 0.0)")


# ------------------------------------------------------------------ loops


def test_range_is_a_serial_loop_with_any_bounds_and_step() -> None:
    shows("for i in range(4):\n    A[i, 0] = 0", "for i in range(0, 4):\n  A[i, 0] = 0.0")
    shows("for i in range(n, 0, -1):\n    A[i, 0] = 0", "for i in range(n, 0, -1):\n  A[i, 0] = 0.0")


def test_loops_over_python_values_are_unrolled() -> None:
    shows("for v, k in zip([1, 2], (5, 6)):\n    A[v, k] = v", "A[1, 5] = 1.0\nA[2, 6] = 2.0")
    shows("for i, w in enumerate('ab'):\n    A[i, 0] = len(w)", "A[0, 0] = 1.0\nA[1, 0] = 1.0")


def test_break_and_continue_of_an_unrolled_loop_happen_while_compiling() -> None:
    shows(
        "for v in (1, 2, 3, 4):\n    if v == 2:\n        continue\n    if v == 4:\n        break\n    A[v, 0] = v",
        "A[1, 0] = 1.0\nA[3, 0] = 3.0",
    )


def test_an_unrolled_loop_cannot_break_on_a_run_time_condition() -> None:
    assert (
        refused_body("for i in T.serial(9):\n    for v in (1, 2):\n        if i < n:\n            break").code
        == "TB104"
    )


def test_break_in_a_serial_loop_is_ir() -> None:
    shows(
        "for i in T.serial(n):\n    if i > 3:\n        break\n    A[i, 0] = 0",
        "for i in range(0, n):\n  if i > 3:\n    break\n  A[i, 0] = 0.0",
    )


def test_no_break_in_parallel_or_grid_loops() -> None:
    assert refused_body("for i in T.Parallel(4):\n    break").code == "TB104"
    assert refused_body("for i, j in T.grid(4, 4):\n    break").code == "TB104"


def test_while_on_a_run_time_condition_is_ir() -> None:
    shows(
        "v = T.alloc_var('int32', 0)\nwhile v < n:\n    v += 2\n    if v > 9:\n        break",
        """
        v[0] = 0
        while v[0] < n:
          v[0] = v[0] + 2
          if v[0] > 9:
            break
        """,
    )


def test_while_on_a_known_condition_is_unrolled() -> None:
    shows("k = 8\nwhile k > 2:\n    A[k, 0] = k\n    k //= 2", "A[8, 0] = 8.0\nA[4, 0] = 4.0")


def test_a_condition_that_acts_is_evaluated_before_every_iteration() -> None:
    shows(
        "while T.atomic_add(I[0], 1, return_prev=True) < n:\n    A[0, 0] = 1",
        """
        while True:
          atomic_r_m_w(op=add, buffer=I, indices=(0), value=1, result=I_before)
          if not (I_before < n):
            break
          A[0, 0] = 1.0
        """,
    )


def test_the_loop_spellings() -> None:
    shows(
        """
        for i, j in T.Parallel(8, 4):
            A[i, j] = 0
        for k in T.Pipelined(4, num_stages=2):
            T.copy(A, B)
        for u in T.unroll(2):
            A[u, 0] = 0
        for v in T.vectorized(4):
            A[0, v] = 0
        for g, h in T.grid(2, 3):
            A[g, h] = 1
        """,
        """
        for i, j in parallel(8, 4):
          A[i, j] = 0.0
        for k in pipelined(0, 4, stages=2):
          copy(A, B)
        for u in unroll(0, 2):
          A[u, 0] = 0.0
        for v in vectorized(0, 4):
          A[0, v] = 0.0
        for g in range(0, 2):
          for h in range(0, 3):
            A[g, h] = 1.0
        """,
    )


def test_a_64_bit_bound_gives_a_64_bit_loop() -> None:
    made = kernel(wrapped("for i in T.serial(T.cast(n, 'int64')):\n    A[i, 0] = 0"))
    assert made.body.var.dtype == "int64"


def test_thread_binding_is_the_thread() -> None:
    shows("for t in T.thread_binding(128, 'threadIdx.x'):\n    A[0, t % 64] = 0", "A[0, tx % 64] = 0.0")
    shows("t = T.thread_binding(0, 128, thread='threadIdx.x')\nA[0, t % 64] = 0", "A[0, tx % 64] = 0.0")
    assert refused_body("for t in T.thread_binding(64, 'threadIdx.x'):\n    A[0, t] = 0").code == "TB222"


def test_loop_break() -> None:
    shows(
        "for i in T.serial(4):\n    if A[i, 0] > 0:\n        T.loop_break()",
        "for i in range(0, 4):\n  if A[i, 0] > 0.0:\n    break",
    )


# ------------------------------------------------------------------ assignment


def test_a_load_is_taken_where_it_is_assigned() -> None:
    shows("x = A[0, 0]\nA[0, 0] = 1\nB[0, 0] = x", "x: float32 = A[0, 0]\nA[0, 0] = 1.0\nB[0, 0] = x")


def test_loads_in_containers_are_taken_too() -> None:
    shows(
        "x = [A[0, k] for k in (0, 1)]\nA[0, 0] = 1\nB[0, 0] = x[0] + x[1]",
        "x_0: float32 = A[0, 0]\nx_1: float32 = A[0, 1]\nA[0, 0] = 1.0\nB[0, 0] = x_0 + x_1",
    )


def test_a_swap_reads_both_sides_first() -> None:
    shows(
        "a = T.alloc_var('int32', 0)\nb = T.alloc_var('int32', 1)\na, b = b, a + b",
        """
        a[0] = 0
        b[0] = 1
        held: int32 = b[0]
        held: int32 = a[0] + b[0]
        a[0] = held
        b[0] = held
        """,
    )


def test_variables_are_stored_to_by_their_name() -> None:
    shows(
        "x: T.int32 = 1\nfor i in T.serial(3):\n    x = x + i\nI[0] = x",
        "x[0] = 1\nfor i in range(0, 3):\n  x[0] = x[0] + i\nI[0] = x[0]",
    )


def test_a_value_cannot_be_changed_inside_a_run_time_loop() -> None:
    for first in ("0", "A[0, 0]", "(0, 0)", "'text'", "T.alloc_fragment((4,), 'float32')"):
        text = (
            f"x = {first}\nother = T.alloc_fragment((4,), 'float32')\nfor i in T.serial(3):\n    x = other\n"
        )
        assert refused_body(text).code == "TB106", first
    error = refused_body("s = 0\nfor i in T.serial(3):\n    s = s + i")
    assert error.code == "TB106"
    assert "s = T.alloc_var('int32', 0)" in error.fix


def test_a_list_cannot_be_changed_inside_a_run_time_loop() -> None:
    assert refused_body("x = [0, 1]\nfor i in T.serial(3):\n    x[0] = i").code == "TB106"


def test_variables_in_a_list_are_stored_to() -> None:
    shows(
        "v = [T.alloc_var('int32', 0) for _ in (0, 1)]\nfor i in T.serial(3):\n    v[1] += i",
        "v_0[0] = 0\nv_1[0] = 0\nfor i in range(0, 3):\n  v_1[0] = v_1[0] + i",
    )


def test_names_of_a_loop_end_with_it() -> None:
    error = refused_body("for i in T.serial(3):\n    y = A[i, 0]\nA[0, 0] = y")
    assert error.code == "TB105"
    assert error.notes


def test_chained_starred_and_nested_targets() -> None:
    shows(
        "a = b = 3\nc, *d = 1, 2, 3\n(e, f), g = (4, 5), 6\nA[a, b] = c + sum(d) + e + f + g",
        "A[3, 3] = 21.0",
    )


def test_augmented_assignment_computes_its_index_once() -> None:
    shows(
        "I[T.atomic_add(I[0], 1, return_prev=True)] += 2",
        "atomic_r_m_w(op=add, buffer=I, indices=(0), value=1, result=I_before)\nI[I_before] = I[I_before] + 2",
    )


def test_a_slice_is_filled_or_copied() -> None:
    shows("A[0:4, :] = 2.5", "for i0, i1 in parallel(4, 64):\n  A[0 + i0, 0 + i1] = 2.5".replace("0 + ", ""))
    shows("A[bx, :] = B[1, :]", "copy(B[1, 0:+64], A[bx, 0:+64])")


def test_stores_cast_to_the_type_of_the_buffer() -> None:
    shows("I[0] = A[0, 0]\nA[0, 0] = bx", "I[0] = int32(A[0, 0])\nA[0, 0] = float32(bx)")


def test_statements_stand_inside_the_launch() -> None:
    text = "@T.prim_func\ndef main(A: T.Tensor((4,), 'float32')):\n    A[0] = 1\n    with T.Kernel(1) as bx:\n        pass\n"
    from tests.language.reading import refused

    assert refused(text).code == "TB108"
    after = "@T.prim_func\ndef main(A: T.Tensor((4,), 'float32')):\n    with T.Kernel(1) as bx:\n        pass\n    T.clear(A)\n"
    assert refused(after).code == "TB108"
    nested = "@T.prim_func\ndef main(A: T.Tensor((4,), 'float32')):\n    with T.Kernel(1) as bx:\n        with T.Kernel(1) as by:\n            pass\n"
    assert refused(nested).code == "TB108"


# ------------------------------------------------------------------ assert, print, with


def test_assert_is_checked_when_its_condition_is_known() -> None:
    shows(
        "assert 1 < 2, 'never'\nassert bx < n, f'{1 + 1} blocks'",
        "assert(condition=bx < n, message=2 blocks)",
    )
    assert refused_body("assert 1 > 2, 'numbers'").code == "TB221"


def test_print_prints_while_compiling(capsys) -> None:
    shows("for k in (1, 2):\n    print('k', k)", "")
    assert capsys.readouterr().out == "k 1\nk 2\n"


def test_raise_while_compiling_is_the_users_error() -> None:
    error = refused_body("if 3 not in (4, 8):\n    raise ValueError('bits must be 4 or 8')")
    assert error.code == "TB221"
    assert "bits must be 4 or 8" in error.what
    assert refused_body("if bx == 3:\n    raise ValueError('x')").code == "TB102"


def test_warp_groups_are_conditions_on_the_thread() -> None:
    shows("with T.ws(0):\n    A[0, 0] = 1", "if tx // 128 == 0:\n  A[0, 0] = 1.0")


def test_python_context_managers_run_while_compiling() -> None:
    shows(
        "with suppress(KeyError) as s, T.ws(0):\n    A[0, 0] = 1",
        "if tx // 128 == 0:\n  A[0, 0] = 1.0",
        head="from contextlib import suppress",
    )


def test_the_launch_names_its_blocks() -> None:
    for names, grid in (
        ("bx", "4"),
        ("(bx)", "4"),
        ("(bx,)", "4"),
        ("(bx, by)", "4, 5"),
        ("(bx, by, bz)", "4, 5, 6"),
    ):
        text = f"@T.prim_func\ndef main(A: T.Tensor((4,), 'float32')):\n    with T.Kernel({grid}, threads=(32, 2)) as {names}:\n        A[bx] = T.get_thread_binding(1)\n"
        made = kernel(text)
        assert len(made.blocks) == len(grid.split(","))
        assert "float32(tx // 32)" in whole(made)


def test_a_program_that_returns_a_value_is_refused_where_it_does() -> None:
    @T.prim_func
    def copy(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=32) as bx:
            T.copy(X, Y)
            return 3

    with pytest.raises(TileError) as caught:
        tilebench.compile(copy, target="interp")
    assert caught.value.code == "TB232"
    assert caught.value.at is not None
    assert "return 3" in caught.value.render()
