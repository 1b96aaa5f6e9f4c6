"""TileLang's profiler object: inputs made for a kernel, comparison with a reference, timing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from tilebench.errors import LaunchError
from tilebench.ir.expr import as_expr, int_value
from tilebench.ir.rewrite import substitute, variables
from tilebench.ir.tile import Buffer, Param
from tilebench.profiling.benchmark import measure

if TYPE_CHECKING:
    from tilebench.kernel.compiled import Kernel


class TensorSupplyType(Enum):
    """How test inputs are filled, as TileLang's programs expect.

    Auto: uniform in [-1, 1) for floats of 16 bits and more, else as Integer: -2 to 2, unsigned 0 to 2, bool
    both, float8 whole numbers of -128 to 127. Normal has mean -1, Randn mean 0; standard deviation 1.
    """

    Integer = 1
    Uniform = 2
    Normal = 3
    Randn = 4
    Zero = 5
    One = 6
    Auto = 7


def supply(
    shape: tuple[int, ...], dtype: Any, device: str, kind: TensorSupplyType = TensorSupplyType.Auto
) -> Any:
    """A fresh torch tensor filled as `kind` says."""
    import torch

    floating = dtype.is_floating_point
    wide = torch.float32 if floating else dtype
    if kind is TensorSupplyType.Zero:
        return torch.zeros(shape, dtype=dtype, device=device)
    if kind is TensorSupplyType.One:
        return torch.ones(shape, dtype=torch.float32, device=device).to(dtype)
    narrow = floating and dtype.itemsize == 1
    if kind is TensorSupplyType.Integer or not floating or (kind is TensorSupplyType.Auto and narrow):
        low, high = (
            (0, 2)
            if dtype is torch.bool
            else (0, 3)
            if not dtype.is_signed
            else (-128, 128)
            if narrow
            else (-2, 3)
        )
        return torch.randint(low, high, shape, device=device).to(dtype)
    if kind in (TensorSupplyType.Uniform, TensorSupplyType.Auto):
        return torch.empty(shape, dtype=wide, device=device).uniform_(-1, 1).to(dtype)
    mean = -1.0 if kind is TensorSupplyType.Normal else 0.0
    return torch.empty(shape, dtype=wide, device=device).normal_(mean, 1.0).to(dtype)


class ScalarInput(LaunchError, ValueError):
    """A scalar parameter, for which no value can be made up."""


class UnknownExtent(LaunchError, ValueError):
    """An extent that only a call determines, for which none was given."""


def make_input(
    param: Param,
    device: str,
    kind: TensorSupplyType | None = None,
    extents: Mapping[str, int] | None = None,
) -> Any:
    """A fresh tensor for one parameter of a kernel. See Profiler.inputs for the errors."""
    from tilebench.kernel.compiled import torch_dtype

    if not isinstance(param.value, Buffer):
        raise ScalarInput(
            "TB602",
            f"{param.name} is a scalar: pass input_tensors",
            at=param.loc,
            fix="while tuning, give the values by `with set_autotune_inputs(...)`",
        )
    sizes: list[int] = []
    for extent in param.value.shape:
        number = int_value(substitute(extent, {v: as_expr(int(extents[v.name])) for v in variables(extent)
                                               if extents and v.name in extents}))  # fmt: skip
        if number is None:
            missing = sorted(v.name for v in variables(extent) if v.name not in (extents or {}))
            raise UnknownExtent(
                "TB604",
                f"{param.name} has a dynamic shape",
                at=param.loc,
                why=f"{', '.join(missing)} is known only at the call",
                fix="pass input_tensors=[...] of the sizes you want, or "
                "dynamic_symbolic_constraints={name: extent}",
            )
        sizes.append(number)
    dtype = torch_dtype(param.value.dtype.name)
    return supply(tuple(sizes), dtype, device, kind or TensorSupplyType.Auto)


class Profiler:
    """Made by `kernel.get_profiler()`."""

    def __init__(self, kernel: Kernel, supply_type: TensorSupplyType | None = None) -> None:
        self.kernel = kernel
        self.supply_type = supply_type or TensorSupplyType.Auto

    @property
    def func(self) -> Kernel:
        """The kernel, as TileLang's programs name it."""
        return self.kernel

    def inputs(self, with_outputs: bool = False, extents: Mapping[str, int] | None = None) -> list[Any]:
        """Fresh tensors for the parameters that a call takes.

        extents: values of dynamic extents by name. Raises LaunchError TB604 where one is missing, and
        ScalarInput (a ValueError) for a scalar parameter.
        """
        from tilebench.kernel.target import device_of

        device = device_of(self.kernel.target)
        return [
            make_input(param, device, self.supply_type, extents)
            for i, param in enumerate(self.kernel.params)
            if with_outputs or i not in self.kernel.out_idx
        ]

    def run_once(self, func: Callable[..., Any] | None = None) -> Any:
        """Call the kernel (or func) on fresh inputs."""
        return (func or self.kernel)(*self.inputs())

    def assert_allclose(
        self,
        reference_program: Callable[..., Any],
        input_tensors: Sequence[Any] | None = None,
        atol: float = 1e-2,
        rtol: float = 1e-2,
        max_mismatched_ratio: float = 0.01,
    ) -> None:
        """Raise AssertionError unless the outputs agree with the reference on fresh inputs (up to the given
        ratio).
        """
        inputs = list(input_tensors) if input_tensors is not None else self.inputs()
        expected = reference_program(*[x.clone() for x in inputs])
        got = self.kernel(*inputs)
        if not self.kernel.out_idx:
            got = [x for x, p in zip(inputs, self.kernel.params, strict=True) if p.role != "in"] or [
                inputs[-1]
            ]
            expected = [inputs[-1]] if expected is None else expected
        for a, b in zip(_as_list(got), _as_list(expected), strict=True):
            _assert_close(a, b, atol, rtol, max_mismatched_ratio)

    def manual_assert_close(
        self,
        reference_program: Callable[..., Any],
        input_tensors: Sequence[Any] | None = None,
        manual_check_prog: Callable[..., Any] | None = None,
    ) -> None:
        """Call manual_check_prog with the kernel's outputs and the reference's, on fresh inputs."""
        inputs = list(input_tensors) if input_tensors is not None else self.inputs()
        expected = _as_list(reference_program(*[x.clone() for x in inputs]))
        got = _as_list(self.kernel(*inputs))
        assert manual_check_prog is not None, "manual_assert_close needs manual_check_prog"
        manual_check_prog(got, expected)

    def assert_consistent(self, repeat: int = 10) -> None:
        """Raise AssertionError unless repeated runs on the same inputs give the same bits."""
        import torch

        inputs = self.inputs()
        first = [x.clone() for x in _as_list(self.kernel(*inputs))]
        for _ in range(repeat):
            for a, b in zip(_as_list(self.kernel(*inputs)), first, strict=True):
                assert torch.equal(a, b), f"{self.kernel.name} gives different results from run to run"

    def do_bench(
        self,
        func: Callable[..., Any] | None = None,
        warmup: float = 25,
        rep: float = 100,
        n_warmup: int = 0,
        n_repeat: int = 0,
        input_tensors: Sequence[Any] | None = None,
        backend: str = "event",
        fallback: str = "",
        quantiles: Sequence[float] | None = None,
        return_mode: str = "mean",
        dynamic_symbolic_constraints: Mapping[str, int] | None = None,
        **ignored: Any,
    ) -> Any:
        """Milliseconds of one call: return_mode mean, median, min, max, all (a list) or times (a Times:
        median, quartiles, spread, rounds); or the quantiles asked for.

        warmup and rep in ms; dynamic_symbolic_constraints: the dynamic extents of made-up inputs. backend
        on a GPU: 'event', 'cudagraph' or 'cupti' (profiling/gpu_timing.py); fallback: the one to use where
        CUPTI is missing, else that is LaunchError TB617. On the CPU the wall clock is read.
        """
        del ignored
        from tilebench.kernel.target import device_of, on_device_of

        inputs = (
            list(input_tensors)
            if input_tensors is not None
            else self.inputs(extents=dynamic_symbolic_constraints)
        )
        run = (lambda: func(*inputs)) if func is not None else self.kernel.bind(*inputs)
        with on_device_of(inputs):
            times = measure(
                run, warmup_ms=warmup, rep_ms=rep, warmup_count=n_warmup, repeat_count=n_repeat,
                backend=backend, fallback=fallback,
                device=device_of(self.kernel.target) if func is None else None,
            )  # fmt: skip
        return times.summary(return_mode, quantiles)


def _as_list(value: Any) -> list[Any]:
    return list(cast("Sequence[Any]", value)) if isinstance(value, list | tuple) else [value]


def _assert_close(got: Any, expected: Any, atol: float, rtol: float, ratio: float) -> None:
    import torch

    a, b = got.detach().to(torch.float64).cpu(), expected.detach().to(torch.float64).cpu()
    assert a.shape == b.shape, f"shapes differ: {tuple(a.shape)} and {tuple(b.shape)}"
    bad = ~torch.isclose(a, b, atol=atol, rtol=rtol, equal_nan=True)
    count = int(bad.sum())
    assert count <= ratio * a.numel(), (
        f"{count} of {a.numel()} elements differ (at most {ratio:.0%} may): "
        f"largest difference {float((a - b).abs().nan_to_num().max()):.3g} with atol={atol}, rtol={rtol}"
    )
