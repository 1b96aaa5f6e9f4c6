"""Programs that are the same up to names, and the first place where others differ."""

from __future__ import annotations

import pytest

import tilebench.language as T
from tilebench.ir.equal import difference
from tilebench.tvm import IRModule, ir


def scaled(rows: int, factor: float, name: str = "x"):
    if name == "x":

        @T.prim_func
        def first(A: T.Tensor((rows, 32), "float32"), B: T.Tensor((rows, 32), "float32")):
            with T.Kernel(1, threads=32):
                x = T.alloc_fragment((rows, 32), "float32")
                T.copy(A, x)
                for i, j in T.Parallel(rows, 32):
                    x[rows - 1 - i, j] = x[i, j] * factor + A[i, 31 - j]
                T.copy(x, B)

        return first

    @T.prim_func
    def second(From: T.Tensor((rows, 32), "float32"), To: T.Tensor((rows, 32), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((rows, 32), "float32")
            T.copy(From, tile)
            for r, c in T.Parallel(rows, 32):
                tile[-r + (rows - 1), c] = tile[r, c] * factor + From[r, 30 - c + 1]
            T.copy(tile, To)

    return second


def test_names_and_the_order_of_a_sum_make_no_difference() -> None:
    assert difference(scaled(8, 2.0).body, scaled(8, 2.0, "tile").body) is None


@pytest.mark.parametrize(
    ("other", "where"),
    [
        (scaled(8, 3.0), "x[i, j] * 3.0"),
        (scaled(9, 2.0), "A"),
        (scaled(9, 2.0, "tile"), "From"),
    ],
)
def test_what_differs_is_told(other, where: str) -> None:
    found = difference(scaled(8, 2.0).body, other.body)
    assert found is not None
    assert where in found[1]
    with pytest.raises(ValueError, match="these differ"):
        ir.assert_structural_equal(scaled(8, 2.0), other)


def test_a_buffer_stands_for_one_buffer_only() -> None:
    def stores(same: bool):
        @T.prim_func
        def f(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32")):
            with T.Kernel(1, threads=32):
                for i in T.serial(4):
                    A[i] = 1
                    if same:
                        A[i] = 2
                    else:
                        B[i] = 2

        return f.body

    assert difference(stores(True), stores(True)) is None
    assert difference(stores(True), stores(False)) is not None
    assert difference(stores(False), stores(True)) is not None


def test_functions_and_kinds_of_ops_are_compared() -> None:
    def one(function, fold):
        @T.prim_func
        def f(A: T.Tensor((8, 32), "float32"), B: T.Tensor((8,), "float32")):
            with T.Kernel(1, threads=32):
                x = T.alloc_fragment((8, 32), "float32")
                y = T.alloc_fragment((8,), "float32")
                T.copy(A, x, annotations={"seen": 0})
                for i, j in T.Parallel(8, 32):
                    x[i, j] = function(x[i, j])
                fold(x, y)
                T.copy(y, B)

        return f.body

    assert difference(one(T.exp2, T.reduce_max), one(T.exp2, T.reduce_max)) is None
    assert difference(one(T.exp2, T.reduce_max), one(T.exp, T.reduce_max)) == (
        "exp2(x[i, j])",
        "exp(x[i, j])",
    )
    found = difference(one(T.exp2, T.reduce_max), one(T.exp2, T.reduce_sum))
    assert found is not None
    assert found[0].startswith("reduce(kind=max")


def test_statements_more_or_fewer() -> None:
    @T.prim_func
    def longer(A: T.Tensor((8, 32), "float32"), B: T.Tensor((8, 32), "float32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((8, 32), "float32")
            T.copy(A, x)
            T.copy(x, B)

    assert difference(scaled(8, 2.0).body, longer.body) is not None
    module = IRModule({"a": longer, "b": scaled(8, 2.0)})
    assert (list(module), len(module)) == (["a", "b"], 2)
    assert module.script() == longer.script() + "\n\n" + scaled(8, 2.0).script()
    assert module["a"].params == ("A", "B")
