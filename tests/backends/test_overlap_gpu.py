"""Launches that overlap on a GPU: each sees what those before it in the stream wrote, and overwrites nothing
that they still read."""

from __future__ import annotations

from typing import Any

import pytest

import tilebench.language as T
from tests.kernels import programs
from tilebench import compile as tb_compile

pytestmark = pytest.mark.gpu

TARGET = "cuda:sm_90a"
OVERLAP = {"TB_OVERLAP_LAUNCHES": True}


def plus_one(n: int) -> Any:
    """Adds one in place; blocks of neighbours in time are far apart in the tensor."""

    @T.prim_func
    def plus(X: T.Tensor((n, 1024), "float32")):
        with T.Kernel(n, threads=128) as i:
            for j in T.Parallel(1024):
                X[i, j] = X[i, j] + 1.0

    return plus


def shifted(n: int) -> Any:
    """Y[i] = X[n - 1 - i] + 1: the first blocks read what the last ones of the launch before wrote."""

    @T.prim_func
    def shift(X: T.Tensor((n, 1024), "float32"), Y: T.Tensor((n, 1024), "float32")):
        with T.Kernel(n, threads=128) as i:
            for j in T.Parallel(1024):
                Y[i, j] = X[n - 1 - i, j] + 1.0

    return shift


@pytest.mark.parametrize("n", [3, 1000, 20000])
def test_a_chain_in_place(n: int) -> None:
    import torch

    kernel = tb_compile(plus_one(n), target=TARGET)
    assert "griddepcontrol.wait" in kernel.get_kernel_source()
    x = torch.zeros(n, 1024, device="cuda")
    for _ in range(300):
        kernel(x)
    torch.cuda.synchronize()
    assert bool((x == 300).all())


@pytest.mark.parametrize("n", [5, 3000])
def test_there_and_back_with_kernels_of_others_between(n: int) -> None:
    import torch

    kernel = tb_compile(shifted(n), target=TARGET)
    x, y = torch.zeros(n, 1024, device="cuda"), torch.zeros(n, 1024, device="cuda")
    for k in range(200):
        kernel(x, y)
        kernel(y, x)
        if k % 5 == 0:
            x += 1.0
    torch.cuda.synchronize()
    assert bool((x == 440).all())


def test_in_a_graph() -> None:
    import torch

    kernel = tb_compile(plus_one(500), target=TARGET)
    x = torch.zeros(500, 1024, device="cuda")
    kernel(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(20):
            kernel(x)
    x.zero_()
    for _ in range(10):
        graph.replay()
    torch.cuda.synchronize()
    assert bool((x == 200).all())


def test_products_one_after_the_other() -> None:
    """C = A @ B, then A = C @ B, many times: the same bits as without overlap."""
    import torch

    n = 1024
    prim = programs.gemm(n, n, n, block_M=128, block_N=128, block_K=64, threads=256, num_stages=4)
    b = torch.randn(n, n, device="cuda", dtype=torch.float16) / n**0.5
    start = torch.randn(n, n, device="cuda", dtype=torch.float16)
    found: list[Any] = []
    for configs in ({}, OVERLAP):
        kernel = tb_compile(prim, target=TARGET, pass_configs=configs)
        a, c = start.clone(), torch.empty_like(start)
        for _ in range(50):
            kernel(a, b, c)
            kernel(c, b, a)
        torch.cuda.synchronize()
        found.append(a)
    assert torch.equal(*found)


@pytest.mark.parametrize("overlap", [{}, OVERLAP], ids=["apart", "overlapping"])
@pytest.mark.parametrize(
    ("m", "n", "k", "dtype"),
    [
        (8192, 8192, 2048, "float8_e4m3"),
        (128 * 133, 192, 1024, "bfloat16"),
        (1000, 8000, 520, "float16"),
        (8192, 4096, 64, "float16"),
    ],
)
def test_consumers_in_turn(m: int, n: int, k: int, dtype: str, overlap: dict[str, bool]) -> None:
    import torch

    out = "bfloat16" if dtype == "float8_e4m3" else dtype
    block = 128 if dtype == "float8_e4m3" else 64
    prim = programs.gemm(
        m, n, k, dtype, out, transpose_B=True, block_M=128, block_N=192, block_K=block, num_stages=4,
        threads=128, panel=8,
    )  # fmt: skip
    configs = {"TB_PERSISTENT": True, "TB_CONSUMERS_IN_TURN": True, **overlap}
    kernel = tb_compile(prim, target=TARGET, pass_configs=configs)
    assert kernel.executable.built.warnings == ()
    assert kernel.executable.built.spill_bytes == 0
    kind = getattr(torch, {"float8_e4m3": "float8_e4m3fn"}.get(dtype, dtype))
    a, b = (torch.randn(r, k, device="cuda").to(kind) for r in (m, n))
    want = a.float() @ b.float().T
    streams = [torch.cuda.Stream() for _ in range(2)]
    outs = [torch.full((m, n), float("nan"), device="cuda", dtype=getattr(torch, out)) for _ in range(6)]
    torch.cuda.synchronize()
    for i, c in enumerate(outs):
        with torch.cuda.stream(streams[i % 2]):
            kernel(a, b, c)
    torch.cuda.synchronize()
    for c in outs:
        assert float((c.float() - want).norm() / want.norm()) < 6e-3
