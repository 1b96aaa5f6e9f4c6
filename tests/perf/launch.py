"""Prints what a call costs in microseconds of the CPU: plain, bound, and with every check of the first call.

Run as `python -m tests.perf.launch [rounds]`. With a GPU the kernels are launched there, beside a Triton
kernel of the same five tensors when triton is installed; the bars are 1.0 x Triton for the plain call and
6 us for the bound one. Without a GPU a C function that does nothing stands for the driver's launch (a real
one adds its own time), and tensors of the host for those of the GPU. Ways take turns; the best and the median
of the rounds. "full checks" is a call whose signature is not known, and which is remembered.
"""

from __future__ import annotations

import ctypes
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import tilebench
from tests.backends.fake_cuda import FakeCuda
from tests.kernels import programs
from tests.perf.extra_rows import five
from tilebench.backends.cuda import driver
from tilebench.backends.cuda.build import CudaExecutable
from tilebench.kernel.compiled import Kernel

Call = Callable[[], Any]
CALLS = 200
BOUND_BAR_US = 6.0


def without_driver(kernel: Kernel) -> Kernel:
    """The kernel launched by a C function that only returns 0."""
    gpu = driver.Gpu(FakeCuda())
    nothing = ctypes.cast(ctypes.CDLL(None).isdigit, ctypes.c_void_p).value  # 0 for the handle, 77
    words = (ctypes.c_void_p, *(ctypes.c_uint,) * 7, *(ctypes.c_void_p,) * 3)
    gpu.launch_kernel = ctypes.CFUNCTYPE(ctypes.c_int, *words)(nothing)
    executable = kernel.executable
    assert isinstance(executable, CudaExecutable)
    executable._gpu = lambda: gpu
    return kernel


def ways(kernel: Kernel, tensors: list[torch.Tensor]) -> dict[str, Call]:
    """The kinds of a call: plain, bound, and checked in full."""
    plain = partial(kernel, *tensors)
    plain()
    return {
        "plain": plain,
        "bound": kernel.bind(*tensors),
        "full checks": partial(kernel._launch_checked, tensors, tensors, None),
    }


def five_tensors(device: str) -> tuple[Kernel, list[torch.Tensor]]:
    """E = A + B + C + D."""
    kernel = tilebench.compile(five(), target="cuda" if device == "cuda" else "cuda:sm_90a")
    return kernel, [torch.randn(1024, device=device) for _ in range(5)]


def small_gemm(device: str) -> tuple[Kernel, list[torch.Tensor]]:
    """C = A @ B of 128, with tensor maps where the GPU has them."""
    program = programs.gemm(128, 128, 128, block_M=64, block_N=64, num_stages=2)
    kernel = tilebench.compile(program, target="cuda" if device == "cuda" else "cuda:sm_90a")
    return kernel, [torch.zeros(128, 128, dtype=torch.float16, device=device) for _ in range(3)]


def triton_call(tensors: list[torch.Tensor]) -> Call | None:
    """Triton's launch of the five tensors, None where it is not installed."""
    try:
        from tests.perf import triton_peers
    except ImportError:
        return None
    return partial(triton_peers.five, *tensors)


def measure(calls: dict[str, Call], rounds: int, wait: Call) -> dict[str, list[float]]:
    """Microseconds of a call, for each round. wait: for what was launched, untimed."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            wait()
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            found[name].append((time.perf_counter() - start) / CALLS * 1e6)
    wait()
    return found


def main(rounds: int) -> None:
    """Print a line for every way of calling."""
    gpu = torch.cuda.is_available()
    device = "cuda" if gpu else "cpu"
    print(f"microseconds of a call, best and median of {rounds} rounds, on {driver_name(gpu)}")
    for label, make in (("five tensors", five_tensors), ("gemm", small_gemm)):
        kernel, tensors = make(device)
        calls = ways(kernel if gpu else without_driver(kernel), tensors)
        triton = triton_call(tensors) if gpu and label == "five tensors" else None
        if triton is not None:
            triton()
            calls["triton"] = triton
        times = measure(calls, rounds, torch.cuda.synchronize if gpu else lambda: None)
        for name, found in times.items():
            print(f"  {label:13s} {name:12s} {min(found):7.2f} {statistics.median(found):7.2f}")
        if "triton" in times:
            ratios = [a / b for a, b in zip(times["plain"], times["triton"], strict=True)]
            print(f"  plain / triton: {statistics.median(ratios):.2f} (bar 1.00)")
        bound = statistics.median(times["bound"])
        print(f"  bound: {bound:.2f} (bar {BOUND_BAR_US}, the driver's own time included)")


def driver_name(gpu: bool) -> str:
    """What launches here."""
    return torch.cuda.get_device_name() if gpu else "no GPU: a function that does nothing"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 31)
