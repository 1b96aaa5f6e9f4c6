"""float8_e5m2 has infinities, float8_e4m3 has none; finite values saturate in both. float8_e8m0fnu has powers
of two alone."""

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


SCALES = [0.0, -0.0, 1.0, 1.5, -3.0, 4.0, 2.0**127, 3e38, math.inf, -math.inf, math.nan, 2.0**-127, 2.0**-149,
          1.001 * 2.0**-127, 2.0**-126, 0.75]  # fmt: skip
EXPONENTS = [0, 0, 127, 128, 129, 129, 254, 254, 254, 254, 255, 0, 0, 1, 1, 127]


def scale_by_rows(rows, columns):
    @T.prim_func
    def f(
        X: T.Tensor((rows, columns), "float32"), E: T.Tensor((rows,), "float8_e8m0fnu"),
        Made: T.Tensor((rows,), "float8_e8m0fnu"), Y: T.Tensor((rows, columns), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((rows, columns), "float32")
            e = T.alloc_shared((rows,), "float8_e8m0fnu")
            T.copy(X, x)
            T.copy(E, e)
            for i in T.Parallel(rows):
                Made[i] = X[i, 0]
            for i, j in T.Parallel(rows, columns):
                Y[i, j] = x[i, j] * T.cast(e[i], "float32")

    return f


@pytest.mark.parametrize("target", ["interp", "cpu", "emu:sm_80", "emu:sm_90a"])
def test_a_scale_of_exponents_alone(target):
    rows, columns = len(SCALES), 8
    x = torch.tensor(SCALES)[:, None].expand(rows, columns).contiguous()
    e = torch.arange(120, 120 + rows, dtype=torch.uint8).view(torch.float8_e8m0fnu)
    made, y = torch.zeros(rows, dtype=torch.float8_e8m0fnu), torch.zeros(rows, columns)
    program = scale_by_rows(rows, columns)
    if target.startswith("emu"):
        emulate(tilebench.compile(program, target="interp"), x, e, made, y, target=target)
    else:
        tilebench.compile(program, target=target)(x, e, made, y)
    assert made.view(torch.uint8).tolist() == EXPONENTS
    torch.testing.assert_close(y, x * e.float()[:, None], rtol=0, atol=0, equal_nan=True)


def test_every_power_of_two_survives_a_round_trip():
    kind = parse_dtype("float8_e8m0fnu")
    codes = np.arange(256, dtype=np.uint8)
    assert (encode(decode(codes, kind), kind) == codes).all()
    assert (decode(codes[:-1], kind) == 2.0 ** np.arange(-127, 128)).all()
    reference = torch.from_numpy(codes).view(torch.float8_e8m0fnu).float().numpy()
    assert np.array_equal(decode(codes, kind), reference, equal_nan=True)


def test_a_scale_is_never_less_than_what_it_scales():
    kind = parse_dtype("float8_e8m0fnu")
    values = 2.0 ** np.random.default_rng(0).uniform(-127, 127, 999).astype(np.float32)
    scales = decode(encode(values, kind), kind)
    assert ((scales >= values) & (scales < 2 * values)).all()


def test_exponents_alone_have_no_infinity_and_a_smallest_value():
    with pytest.raises(tilebench.TileError, match="float8_e8m0fnu has no infinity"):
        T.infinity(T.float8_e8m0fnu)
    assert T.float8_e8m0fnu.min == 2.0**-127
    assert T.float8_e8m0fnu.max == 2.0**127


@pytest.mark.parametrize("target", ["cpu", "interp"])
def test_the_oracle_rounds_scales_up_as_kernels_do(target):
    rows, columns = len(SCALES), 8
    x = (
        torch.tensor([s if math.isfinite(s) else 5.0 for s in SCALES])[:, None]
        .expand(rows, columns)
        .contiguous()
    )
    e = torch.arange(120, 120 + rows, dtype=torch.uint8).view(torch.float8_e8m0fnu)
    made, y = torch.zeros(rows, dtype=torch.float8_e8m0fnu), torch.zeros(rows, columns)
    result = tilebench.run(scale_by_rows(rows, columns), args=(x, e, made, y), target=target)
    assert "PASS" in str(result)
    assert "bit for bit" in str(result)
