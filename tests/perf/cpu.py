"""Prints how cpu kernels stand against NumPy and PyTorch on the same cores, and what compiling costs.

Run as `env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python -m tests.perf.cpu [--one] [rounds]`. Peers take
turns; the ratio of the best of all rounds counts, since the machine may be busy, and the median of the
rounds' ratios stands beside it. Before each turn the threads of the one before come to rest: those of
OpenBLAS and OpenMP wait for more work by spinning, on the cores that the next one needs. --one: one thread
each, in CPU time, which other processes disturb less.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

ONE = "--one" in sys.argv
if ONE:
    os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402 # after the libraries were told to use one thread
import torch  # noqa: E402

import tilebench  # noqa: E402
from tests.kernels import programs  # noqa: E402
from tilebench import config  # noqa: E402

Call = Callable[[], Any]
CLOCK = time.process_time if ONE else time.perf_counter


REST_S = 0.06
"""Longer than OpenBLAS's threads spin (2**26 cycles)."""


def turns(calls: dict[str, Call], rounds: int) -> dict[str, np.ndarray]:
    """Seconds of each call in each round; an untimed call before it wakes its threads."""
    taken = {name: np.zeros(rounds) for name in calls}
    for number in range(rounds):
        for name, call in calls.items():
            if not ONE:
                time.sleep(REST_S)
            call()
            start = CLOCK()
            call()
            taken[name][number] = CLOCK() - start
    return taken


def gemm(rounds: int) -> None:
    """f32 1024 x 1024 x 1024 as an ordinary tile program; the bar is 0.7."""
    n = 1024
    a, b = (np.random.default_rng(s).standard_normal((n, n)).astype(np.float32) for s in (0, 1))
    c, d = np.zeros_like(a), np.zeros_like(a)
    kernel = tilebench.compile(programs.gemm(n, n, n, "float32", "float32"), target="cpu")
    times = turns({"ours": lambda: kernel(a, b, c), "peer": lambda: np.matmul(a, b, out=d)}, rounds)
    error = float(np.abs(c - d).max() / np.abs(d).max())
    line(
        "gemm f32 1024",
        kernel,
        times,
        "NumPy",
        0.7,
        f"{2e-9 * n**3 / times['ours'].min():.0f} GFLOP/s, relative error {error:.1e}",
    )


def attention(rounds: int, causal: bool) -> None:
    """f32, 8 heads of 1024 x 64; the bar is 0.8."""
    q, k, v = (torch.randn(1, 8, 1024, 64, generator=torch.Generator().manual_seed(s)) for s in range(3))
    o = torch.zeros_like(q)
    kernel = tilebench.compile(
        programs.attention(1, 8, 1024, 1024, 64, causal, dtype="float32"), target="cpu"
    )
    peer = torch.nn.functional.scaled_dot_product_attention
    times = turns(
        {"ours": lambda: kernel(q, k, v, o), "peer": lambda: peer(q, k, v, is_causal=causal)}, rounds
    )
    error = (o - peer(q, k, v, is_causal=causal)).abs().max().item()
    line(
        f"attention f32{' causal' if causal else ''}",
        kernel,
        times,
        "PyTorch",
        0.8,
        f"largest error {error:.1e}",
    )


def softmax(rounds: int) -> None:
    """Rows of 1024, f32; no bar."""
    x = torch.randn(4096, 1024, generator=torch.Generator().manual_seed(0))
    y = torch.zeros_like(x)
    kernel = tilebench.compile(programs.softmax(4096, 1024, "float32"), target="cpu")
    times = turns({"ours": lambda: kernel(x, y), "peer": lambda: torch.softmax(x, 1)}, rounds)
    line("softmax f32 4096x1024", kernel, times, "PyTorch", 0.0, "")


def line(name: str, kernel: Any, times: dict[str, np.ndarray], peer: str, bar: float, more: str) -> None:
    """One row of the table."""
    ours, theirs = times["ours"], times["peer"]
    ratio, middle = theirs.min() / ours.min(), float(np.median(theirs / ours))
    steps = kernel.executable.built.milliseconds
    wanted = f"bar {bar}: {'ok' if ratio >= bar else 'MISSED'}" if bar else ""
    print(
        f"{name:24} {ours.min() * 1e3:8.2f} ms  {peer:8} {theirs.min() * 1e3:8.2f} ms  ratio {ratio:5.2f}  "
        f"(median {middle:4.2f})  {wanted:14} {more}"
    )
    print(f"{'':24} compile: " + ", ".join(f"{k} {v:.0f} ms" for k, v in steps.items()))


def main() -> None:
    """Print the table."""
    numbers = [int(x) for x in sys.argv[1:] if x.isdigit()]
    rounds = numbers[0] if numbers else 30
    if ONE:
        torch.set_num_threads(1)
    with config.using(cache_dir=None, threads=1 if ONE else 0):
        gemm(rounds)
        attention(rounds, False)
        attention(rounds, True)
        softmax(rounds)


if __name__ == "__main__":
    main()
