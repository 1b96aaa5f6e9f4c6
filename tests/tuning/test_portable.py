"""Programs as text: what another process makes of them is the same program, to the byte of its code."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
import torch

import tilebench
import tilebench.language as T
from tests.tuning import programs
from tilebench import PassConfigKey
from tilebench.language.parse import parse_prim_func
from tilebench.tuning.portable import NotPortable, decode, describe, encode, restore


def again(function: Any) -> Any:
    return restore(json.loads(json.dumps(describe(function))))


@pytest.mark.parametrize(
    "value",
    [None, True, 3, 2.5, float("inf"), "text", (1, (2, 3)), [1, "a"], {"a": 1, 2: (3,)}, range(1, 9, 2),
     T.float16, torch.bfloat16, PassConfigKey.TL_DISABLE_TMA_LOWER, T.GemmWarpPolicy.FullRow, max],
)  # fmt: skip
def test_plain_values_come_back_equal(value: Any) -> None:
    assert decode(json.loads(json.dumps(encode(value)))) == value


@pytest.mark.parametrize("value", [torch.ones(2), threading.Lock(), object(), {1, 2}, threading])
def test_what_is_not_plain_is_named_in_the_reason(value: Any) -> None:
    with pytest.raises(NotPortable, match="weights"):
        encode(value, "weights")


def test_only_known_packages_are_named_by_what_arrives() -> None:
    with pytest.raises(ValueError, match="subprocess is not one of the packages"):
        decode({"object": ["subprocess", "Popen"]})
    with pytest.raises(ValueError, match="no value is described"):
        decode({"eval": "1"})


@pytest.mark.parametrize("factory", [programs.scale, programs.twice])
@pytest.mark.parametrize("target", ["cpu", "cuda:sm_90a"])
def test_the_same_code_is_generated(factory: Any, target: str) -> None:
    texts = [
        tilebench.compile(parse_prim_func(f(128, B=32)), target=target).get_kernel_source()
        for f in (factory, again(factory))
    ]
    assert texts[0] == texts[1]


def test_only_the_functions_that_are_used_travel_on_their_lines() -> None:
    (text, first), *more = describe(programs.twice)["texts"]
    assert not more
    assert first == 1
    assert "def doubled" in text
    assert "@T.macro" in text
    assert "def scale" not in text
    place = programs.twice.__code__.co_firstlineno
    assert text.splitlines()[place - 1].startswith("def twice(")


def test_closures_travel_as_values() -> None:
    size = 32

    def make(B: int = 16) -> Any:
        @T.prim_func
        def body(X: T.Tensor((size,), "float32")):  # type: ignore[valid-type]
            with T.Kernel(size // B, threads=32) as bx:
                for i in T.Parallel(B):
                    X[bx * B + i] = 1.0

        return body

    data = describe(make)
    assert data["values"]["size"] == 32
    assert parse_prim_func(restore(data)(8)).params[0].value.static_shape == (32,)


def test_a_program_that_names_a_tensor_is_refused() -> None:
    weights = torch.ones(4)

    def make(B: int = 16) -> Any:
        total = int(weights.sum())

        @T.prim_func
        def body(X: T.Tensor((total,), "float32")):  # type: ignore[valid-type]
            with T.Kernel(1, threads=32):
                X[0] = 1.0

        return body

    with pytest.raises(NotPortable, match="weights is a Tensor"):
        describe(make)
