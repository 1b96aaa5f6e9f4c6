"""float8_e5m2 has infinities, float8_e4m3 has none; finite values saturate in both."""

import math

import numpy as np
import pytest
import torch

import tilebench
import tilebench.language as T
from tilebench.ir.dtype import decode, encode, parse_dtype
from tilebench.kernel.emulate import emulate
from tilebench.kernel.verify import oracle_references

VALUES = [math.inf, -math.inf, 1e9, -1e9, 57344.0, 61439.0, 61441.0, 1.0]


@pytest.mark.parametrize("target", ["interp", "cpu", "emu:sm_80", "emu:sm_90a"])
def test_an_infinity_stays_one_where_the_type_has_it(target):
    @T.prim_func
    def f(
        X: T.Tensor((8,), "float32"),
        Five: T.Tensor((8,), "float8_e5m2"), Four: T.Tensor((8,), "float8_e4m3"),
        Filled: T.Tensor((8,), "float8_e5m2"), Copied: T.Tensor((8,), "float8_e5m2"),
    ):  # fmt: skip
        with T.Kernel(1, threads=32):
            T.fill(Filled, T.infinity("float8_e5m2"))
            for i in T.Parallel(8):
                Five[i] = X[i]
                Four[i] = X[i]
            for i in T.Parallel(8):
                Copied[i] = Five[i]

    x = torch.tensor(VALUES)
    five, filled, copied = (torch.zeros(8, dtype=torch.float8_e5m2) for _ in range(3))
    four = torch.zeros(8, dtype=torch.float8_e4m3fn)
    if target.startswith("emu"):
        emulate(tilebench.compile(f, target="interp"), x, five, four, filled, copied, target=target)
    else:
        tilebench.compile(f, target=target)(x, five, four, filled, copied)
    top = 57344.0
    assert five.float().tolist() == [math.inf, -math.inf, top, -top, top, top, top, 1.0]
    assert copied.float().tolist() == five.float().tolist()
    assert four.float().tolist() == [448.0, -448.0, 448.0, -448.0, 448.0, 448.0, 448.0, 1.0]
    assert filled.float().tolist() == [math.inf] * 8


def test_every_code_of_e5m2_survives_a_round_trip():
    kind = parse_dtype("float8_e5m2")
    codes = np.arange(256, dtype=np.uint8)
    back = encode(decode(codes, kind), kind)
    nan = (codes & 0x7F) > 0x7C
    assert np.array_equal(back[~nan], codes[~nan])
    assert ((back[nan] & 0x7F) == 0x7F).all()


def test_the_oracle_takes_a_scalar_as_the_kernel_does():
    @T.prim_func
    def f(A: T.Tensor((64,), "float32"), s: T.float32):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                A[i] += s

    kernel = tilebench.compile(f, target="interp")
    right = oracle_references(kernel, [np.full(64, -0.1, np.float32), 0.1])["A"]
    assert (right.value == 0).all(), "0.1 is rounded to float32 before it is added"
