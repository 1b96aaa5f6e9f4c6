"""Inputs that a profiler makes up: the distributions that TileLang's programs count on."""

import pytest
import torch

from tilebench.kernel.profiler import TensorSupplyType, supply

Kind = TensorSupplyType


def made(dtype, kind, count=20_000):
    torch.manual_seed(0)
    return supply((count,), dtype, "cpu", kind)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_auto_is_uniform_for_floats(dtype):
    x = made(dtype, Kind.Auto).float()
    assert -1 <= float(x.min()) < -0.99
    assert 0.99 < float(x.max()) <= 1
    assert abs(float(x.mean())) < 0.02


def test_normal_has_mean_minus_one_and_randn_mean_zero():
    assert float(made(torch.float32, Kind.Normal).mean()) == pytest.approx(-1, abs=0.03)
    assert float(made(torch.float32, Kind.Randn).mean()) == pytest.approx(0, abs=0.03)


@pytest.mark.parametrize("kind", [Kind.Auto, Kind.Integer, Kind.Randn])
@pytest.mark.parametrize(
    ("dtype", "values"),
    [(torch.int32, {-2, -1, 0, 1, 2}), (torch.uint8, {0, 1, 2}), (torch.bool, {0, 1})],
)
def test_whole_numbers_are_small(dtype, values, kind):
    assert set(made(dtype, kind).tolist()) == values


def test_narrow_floats_are_whole_numbers_of_a_byte():
    x = made(torch.float8_e4m3fn, Kind.Auto).float()
    assert torch.equal(x, x.round())
    assert x.min() == -128
    assert 100 < x.max() <= 128
