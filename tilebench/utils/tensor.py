"""Inputs made for the parameters of a kernel, and a comparison that lets a few elements differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilebench.kernel.profiler import TensorSupplyType, make_input

__all__ = ["TensorSupplyType", "get_tensor_supply", "torch_assert_close"]


def get_tensor_supply(supply_type: TensorSupplyType = TensorSupplyType.Integer) -> Callable[[Any], Any]:
    """A function from a tensor parameter of a kernel to a fresh tensor, on the GPU where there is one."""

    def supply(param: Any) -> Any:
        import torch

        return make_input(param, "cuda" if torch.version.cuda and torch.cuda.is_available() else "cpu",
                          supply_type)  # fmt: skip

    return supply


def torch_assert_close(
    tensor_a: Any,
    tensor_b: Any,
    rtol: float = 1e-2,
    atol: float = 1e-3,
    max_mismatched_ratio: float = 0.001,
    verbose: bool = False,
    equal_nan: bool = True,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    base_name: str = "LHS",
    ref_name: str = "RHS",
) -> bool:
    """Raise AssertionError unless at most max_mismatched_ratio of the elements lie outside the tolerance.

    An element agrees when |a - b| <= atol + rtol * |b|. Shapes must be equal; so must dtype, device and
    stride, where asked for.
    """
    import torch

    del check_layout
    pairs = [("shape", tuple(tensor_a.shape), tuple(tensor_b.shape))]
    if check_dtype:
        pairs.append(("dtype", tensor_a.dtype, tensor_b.dtype))
    if check_device:
        pairs.append(("device", tensor_a.device, tensor_b.device))
    if check_stride:
        pairs.append(("stride", tensor_a.stride(), tensor_b.stride()))
    for what, one, other in pairs:
        assert one == other, f"{what} differs: {base_name} has {one}, {ref_name} has {other}"
    a, b = tensor_a.detach().to(torch.float64), tensor_b.detach().to(torch.float64)
    bad = ~torch.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)
    count, total = int(bad.sum()), bad.numel()
    if verbose:
        print(f"{count} of {total} elements differ")
    if count > max_mismatched_ratio * total:
        first = tuple(int(i) for i in bad.nonzero()[0])
        raise AssertionError(
            f"{count} of {total} elements differ (at most {max_mismatched_ratio:.2%} may): the first at "
            f"{first}, {base_name} {float(a[first]):.6g}, {ref_name} {float(b[first]):.6g}, "
            f"with rtol={rtol}, atol={atol}"
        )
    return True
