"""What a program reads from around it changes between two calls: the kernel is built anew."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilebench
import tilebench.language as T

N = 40
SCALE = 2.0
TABLE = {"scale": [2.0, 3.0]}
KIND = "float32"
WIDTH = N
settings = types.ModuleType("settings")
settings.scale = 2.0  # type: ignore[attr-defined]


class Options:
    """What a user's own class holds."""

    scale = 2.0

    def __init__(self) -> None:
        self.own = {"scale": 2.0}


OPTIONS = Options()
ARRAY = np.array([2.0, 3.0])


def helper(x: Any, by: float = 2.0) -> Any:
    return x * by * one()


def one() -> float:
    return two()


def two() -> float:
    return three()


def three() -> float:
    return four()


def four() -> float:
    return SCALE / 2.0


@T.macro
def scaled(x: Any):
    return x * SCALE


def of_a_global(_: Any) -> Any:
    @T.prim_func
    def program(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                Y[i] = X[i] * SCALE

    return program


def of_a_container(_: Any) -> Any:
    @T.prim_func
    def program(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                Y[i] = X[i] * TABLE["scale"][0]

    return program


def of_a_module(_: Any) -> Any:
    @T.prim_func
    def program(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                Y[i] = X[i] * settings.scale

    return program


def of_a_class(_: Any) -> Any:
    @T.prim_func
    def program(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                Y[i] = X[i] * Options.scale

    return program


def of_an_object(_: Any) -> Any:
    @T.prim_func
    def program(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                Y[i] = X[i] * OPTIONS.own["scale"]

    return program


def of_an_array(_: Any) -> Any:
    @T.prim_func
    def program(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                Y[i] = X[i] * float(ARRAY[0])

    return program


def of_a_helper(_: Any) -> Any:
    @T.prim_func
    def program(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                Y[i] = helper(X[i])

    return program


def of_a_macro(_: Any) -> Any:
    @T.prim_func
    def program(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                Y[i] = scaled(X[i])

    return program


def of_an_argument(options: Any) -> Any:
    @T.prim_func
    def program(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                Y[i] = X[i] * options.own["scale"]

    return program


def change_global() -> None:
    globals()["SCALE"] = 5.0


def change_container() -> None:
    TABLE["scale"][0] = 5.0


def change_module() -> None:
    settings.scale = 5.0  # type: ignore[attr-defined]


def change_class() -> None:
    Options.scale = 5.0


def change_object() -> None:
    OPTIONS.own["scale"] = 5.0


def change_array() -> None:
    ARRAY[0] = 5.0


def change_default() -> None:
    helper.__defaults__ = (5.0,)


CASES: list[tuple[Callable[[Any], Any], Callable[[], None]]] = [
    (of_a_global, change_global),
    (of_a_container, change_container),
    (of_a_module, change_module),
    (of_a_class, change_class),
    (of_an_object, change_object),
    (of_an_array, change_array),
    (of_a_helper, change_global),
    (of_a_helper, change_default),
    (of_a_macro, change_global),
    (of_an_argument, change_object),
]


@pytest.fixture
def restored() -> Any:
    """What the tests change is as before afterwards."""
    yield
    globals()["SCALE"] = 2.0
    TABLE["scale"][0] = 2.0
    settings.scale = 2.0  # type: ignore[attr-defined]
    Options.scale = 2.0
    OPTIONS.own["scale"] = 2.0
    ARRAY[0] = 2.0
    helper.__defaults__ = (2.0,)


@pytest.mark.parametrize("surface", ["jit", "compile"])
@pytest.mark.parametrize("target", ["interp", "cpu", "emu:sm_90a"])
@pytest.mark.parametrize(("factory", "change"), CASES, ids=[f"{f.__name__}-{c.__name__}" for f, c in CASES])
@pytest.mark.usefixtures("restored")
def test_a_change_around_the_program_is_seen(
    factory: Callable[[Any], Any], change: Callable[[], None], target: str, surface: str
) -> None:
    x = np.arange(N, dtype=np.float32)
    jitted = tilebench.jit(factory, target=target) if surface == "jit" else None

    def result() -> Any:
        y = np.zeros_like(x)
        kernel = jitted(OPTIONS) if jitted else tilebench.compile(factory(OPTIONS), target=target)
        kernel(x, y)
        return y

    np.testing.assert_array_equal(result(), x * 2)
    np.testing.assert_array_equal(result(), x * 2)
    change()
    np.testing.assert_array_equal(result(), x * 5)


@pytest.mark.usefixtures("restored")
def test_an_eager_function_sees_it_too() -> None:
    @tilebench.jit(target="cpu")
    def run(X):  # type: ignore[no-untyped-def]
        n = T.const("n")
        X: T.Tensor[[n], T.float32]
        Y = T.empty((n,), T.float32)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                Y[i] = scaled(X[i]) * OPTIONS.own["scale"]
        return Y

    x = np.arange(N, dtype=np.float32)
    assert np.array_equal(np.asarray(run(x)), x * 4)
    change_object()
    assert np.array_equal(np.asarray(run(x)), x * 10)
    change_global()
    assert np.array_equal(np.asarray(run(x)), x * 25)


@pytest.mark.usefixtures("restored")
@pytest.mark.filterwarnings("ignore")
def test_a_tuned_function_sees_it_too() -> None:
    @tilebench.autotune(configs=[{"threads": 32}])
    @tilebench.jit(target="interp")
    def factory(options: Any, threads: int = 64) -> Any:
        @T.prim_func
        def program(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32")):
            with T.Kernel(1, threads=threads):
                for i in T.Parallel(N):
                    Y[i] = X[i] * SCALE

        return program

    def result() -> Any:
        y = np.zeros(N, np.float32)
        factory(None)(np.arange(N, dtype=np.float32), y)
        return y[1]

    assert (result(), result()) == (2, 2)
    change_global()
    assert result() == 5


def test_what_did_not_change_is_not_built_again() -> None:
    factory = tilebench.jit(of_an_object, target="interp")
    assert factory(OPTIONS) is factory(OPTIONS)
    assert len(factory.kernels) == 1


def test_zero_and_minus_zero_are_two_values() -> None:
    sign = 0.0

    @tilebench.jit(target="cpu")
    def factory() -> Any:
        @T.prim_func
        def program(Y: T.Tensor((N,), "float32")):
            with T.Kernel(1, threads=32):
                T.fill(Y, sign)

        return program

    y = np.ones(N, np.float32)
    factory()(y)
    assert math.copysign(1.0, float(y[0])) == 1.0
    sign = -0.0
    factory()(y)
    assert math.copysign(1.0, float(y[0])) == -1.0


@pytest.mark.parametrize("name", ["KIND", "WIDTH"])
def test_annotations_are_resolved_when_the_program_is_made(name: str) -> None:
    """This module's annotations are text (`from __future__ import annotations`); they name globals."""

    @tilebench.jit(target="interp")
    def factory() -> Any:
        @T.prim_func
        def program(X: T.Tensor((WIDTH,), KIND), Y: T.Tensor((WIDTH,), KIND)):
            with T.Kernel(1, threads=32):
                T.copy(X, Y)

        return program

    first = factory()
    assert [str(p.value.dtype) for p in first.params] == ["float32"] * 2
    before = globals()[name]
    globals()[name] = {"KIND": "float16", "WIDTH": 24}[name]
    try:
        second = factory()
    finally:
        globals()[name] = before
    assert second is not first
    width, kind = second.params[0].value.static_shape[0], str(second.params[0].value.dtype)
    assert (width, kind) == ((N, "float16") if name == "KIND" else (24, "float32"))
