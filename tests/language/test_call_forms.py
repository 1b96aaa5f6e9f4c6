"""`f.func.parse_args`: what a call says, however it is spelled."""

import gc
import weakref
from dataclasses import dataclass

import pytest
import torch

import tilebench
import tilebench.language as T

OPTIONS = {"axes": [0, 1]}


@tilebench.jit
def factory(rows: int, columns: int = 8, options=OPTIONS):
    @T.prim_func
    def f(A: T.Tensor((rows, columns), "float32")):
        with T.Kernel(1, threads=32):
            T.clear(A)

    return f


@tilebench.jit
def program(A, block: int = 16, **more):
    n = T.const("n")
    A: T.Tensor[[n], T.float32]
    with T.Kernel(T.ceildiv(n, block), threads=32) as bx:
        for i in T.Parallel(block):
            A[bx * block + i] = 0


def test_a_call_has_one_key_however_it_is_spelled():
    want = ((4, 8, (("axes", (0, 1)),)), None)
    for values, named in (
        ((4,), {}), ((4, 8), {}), ((), {"columns": 8, "rows": 4}), ((4,), {"options": {"axes": [0, 1]}}),
    ):  # fmt: skip
        key, tensors = factory.func.parse_args(*values, **named)
        assert key == want
        assert hash(key) == hash(want)
        assert tensors == {}
    assert factory.func.parse_args(4, M=64, K=2)[0] == (
        (*want[0], (("K", 2), ("M", 64))),
        None,
    ), "T.const values come last"


def test_tensors_stand_beside_the_key():
    a = torch.zeros(4)
    key, tensors, plain = program.func._parse_phase1_key(a, extra=[1])
    assert key == (16, (("extra", (1,)),))
    assert tensors == {"A": a}
    assert plain == {"block": 16, "extra": [1]}


def test_wrong_calls_are_pythons_errors():
    @dataclass
    class Unhashable:
        axis: int

    with pytest.raises(TypeError, match="missing a required argument: 'rows'"):
        factory.func.parse_args(columns=4)
    with pytest.raises(TypeError, match="multiple values"):
        factory.func.parse_args(4, rows=4)
    with pytest.raises(TypeError, match="unhashable"):
        factory.func.parse_args(4, options=Unhashable(0))


def test_compiling_keeps_nothing_of_its_caller_alive():
    def probe():
        tensor = torch.zeros(4)
        factory(3)
        return weakref.ref(tensor)

    gc.disable()  # a cycle through a frame would be hidden by it
    try:
        assert probe()() is None
    finally:
        gc.enable()
