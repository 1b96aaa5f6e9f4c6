"""TileLang's smaller modules, where programs import names from."""

import numpy as np
import pytest

import tilebench
import tilebench.language as T
from tilebench import TileError, _ffi_api, tvm
from tilebench.language.compat import compat
from tilebench.language.kernel import normalize_threads
from tilebench.tvm import tirx


def test_threads_of_a_block_have_three_axes():
    assert normalize_threads(None) == [128, 1, 1]
    assert normalize_threads(96) == [96, 1, 1]
    assert normalize_threads((16, 4)) == [16, 4, 1]
    for wrong in (0, -2, [64, 0], (1, 2, 3, 4)):
        with pytest.raises(ValueError, match="threads"):
            normalize_threads(wrong)


def test_layouts_are_repeated_and_expanded():
    layout = T.Layout((4, 8), lambda i, j: i * 8 + j)
    assert _ffi_api.Layout_repeat(layout, 0, 2).is_equal(layout.repeat(0, 2))
    assert _ffi_api.Layout_expand(layout, [3]).is_equal(layout.expand(3))
    with pytest.raises(ValueError, match="factor"):
        _ffi_api.Layout_repeat(layout, 0, 0)


def test_a_first_value_that_does_not_fit_is_refused():
    def program(kind, value):
        @T.prim_func
        def f(Y: T.Tensor((1,), kind)):
            with T.Kernel(1, threads=32):
                v = T.alloc_var(kind, init=value)
                Y[0] = v

        return tilebench.compile(f, target="cpu")

    for kind, value in (("float32", 1e300), ("float16", -7e4), ("int8", 128), ("uint8", -1)):
        with pytest.raises(ValueError, match=f"maximum of {kind}|minimum of {kind}") as caught:
            program(kind, value)
        assert isinstance(caught.value, TileError)
        assert caught.value.code == "TB251"
    for kind, value in (("float64", 1e300), ("float32", float("inf")), ("int8", -128)):
        y = np.zeros(1, kind)
        program(kind, value)(y)
        assert y[0] == value


def test_a_program_shows_its_nodes():
    @T.prim_func
    def f(Y: T.Tensor((4,), "float64")):
        with T.Kernel(1, threads=32):
            for i in T.serial(4):
                Y[i] = 2.5 + i

    floats, integers, order = [], [], []

    def visit(node):
        order.append(type(node).__name__)
        if isinstance(node, tirx.FloatImm):
            floats.append((node.value, node.dtype))
        if isinstance(node, tirx.IntImm):
            integers.append(node.value)

    tirx.stmt_functor.post_order_visit(f.body, visit)
    assert [value for value, _ in floats] == [2.5]
    assert 4 in integers
    assert order.index("Store") < order.index("For")


def test_a_name_that_has_no_counterpart_says_what_stands_for_it() -> None:
    with pytest.raises(AttributeError, match="instead: warnings"):
        _ = tilebench.set_log_level
    with pytest.raises(AttributeError, match=r"'nothing_like_this'$"):
        _ = tilebench.nothing_like_this
    assert "__" not in compat("tilelang.cached").why


def test_tvms_own_names_build_expressions():
    def decoded(bits):  # four bits of a word as a small number, written as TVM writes it
        low = tirx.Cast("int32", bits & tirx.const(7, "uint32"))
        sign = bits >> tirx.const(3, "uint32") & tirx.const(1, "uint32")
        value = tirx.Select(sign == tirx.const(1, "uint32"), -low, low)
        return tirx.Max(tirx.Min(value, tirx.const(5)), tirx.const(-5))

    @T.prim_func
    def f(X: T.Tensor((16,), "uint32"), Y: T.Tensor((16,), "int32"), Z: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                Y[i] = decoded(X[i])
                Z[i] = tirx.reinterpret("float32", X[i] << 23)

    x, y, z = np.arange(16, dtype=np.uint32), np.zeros(16, np.int32), np.zeros(16, np.float32)
    tilebench.compile(f, target="cpu")(x, y, z)
    low = (x & 7).astype(np.int32)
    np.testing.assert_array_equal(y, np.clip(np.where(x >> 3 & 1, -low, low), -5, 5))
    np.testing.assert_array_equal(z, (x << 23).view(np.float32))
    assert isinstance(tirx.const(1), tirx.PrimExpr)


def test_a_pass_run_by_hand_counts_negative_indices_from_the_end():
    @T.prim_func
    def turned(A: T.Tensor((16,), "float32"), B: T.Tensor((16,), "float32"), shift: T.int32):
        T.func_attr({"note": "what one thread does"})
        for i in T.serial(16):
            B[i - 16] = A[-i - 1] + A[i + shift]

    @T.prim_func
    def meant(A: T.Tensor((16,), "float32"), B: T.Tensor((16,), "float32"), shift: T.int32):
        for i in T.serial(16):
            B[i] = A[15 - i] + A[i + shift]

    module = tvm.IRModule({"main": turned})
    after = tilebench.transform.LegalizeNegativeIndex()(module)
    tvm.ir.assert_structural_equal(after["main"], meant)
    assert "B[i - 16] = A[-i - 1]" in module.script()
    assert after["main"].script().splitlines()[-1].strip().startswith("B[i] = ")
    with pytest.raises(tilebench.TileError, match=r"outside of T\.Kernel"):
        tilebench.compile(turned, target="interp")


def test_attributes_of_a_function_change_no_value():
    @T.prim_func
    def f(A: T.Tensor((32,), "int32")):
        T.func_attr({"tir.noalias": True})
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                A[i] = i

    a = np.zeros(32, np.int32)
    tilebench.compile(f, target="cpu")(a)
    assert (a == np.arange(32)).all()
