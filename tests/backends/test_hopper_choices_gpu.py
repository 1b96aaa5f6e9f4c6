"""Choices of the Hopper schedule on a GPU: right values, launch after launch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kernels import programs, programs_attention, references_more
from tilebench import compile as tb_compile

pytestmark = pytest.mark.gpu

ROUND = {"TB_PERSISTENT": True}
CHOICES: dict[str, dict[str, Any]] = {
    "ahead": ROUND,
    "not ahead": {**ROUND, "TB_TILES_AHEAD": False},
    "pairs": {**ROUND, "TB_PAIRED_TILES": True},
    "one block a tile": {"TB_PERSISTENT": False},
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("choice", CHOICES)
def test_attention(choice: str, causal: bool) -> None:
    import torch
    import torch.nn.functional as F

    shape = (3, 16, 1024, 128)
    prim = programs.attention(3, 16, 1024, 1024, 128, causal, block_M=128, block_N=128, threads=256)
    kernel = tb_compile(prim, target="cuda:sm_90a", pass_configs=CHOICES[choice])
    assert kernel.executable.built.warnings == ()
    q, k, v = (torch.randn(*shape, device="cuda", dtype=torch.float16) for _ in range(3))
    want = F.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=causal)
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    outs = [torch.full_like(q, float("nan")) for _ in range(6)]
    for n, out in enumerate(outs):  # launches that follow one another, and that overlap
        with torch.cuda.stream(streams[n % 2]):
            kernel(q, k, v, out)
    torch.cuda.synchronize()
    for out in outs:
        assert float((out.float() - want).norm() / want.norm()) < 2e-3


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("in_bulk", [False, True])
def test_gradients(in_bulk: bool, causal: bool) -> None:
    import math

    import torch

    shape = (2, 4, 512, 128)
    q, k, v, g = (torch.randn(*shape, device="cuda", dtype=torch.float16) for _ in range(4))
    s = q.float() @ k.float().mT / shape[-1] ** 0.5
    if causal:
        s = s.masked_fill(torch.ones(512, 512, dtype=torch.bool, device="cuda").triu(1), -math.inf)
    o = s.softmax(-1) @ v.float()
    logs = s.logsumexp(-1) / math.log(2)
    sums = (o * g.float()).sum(-1)
    z = torch.zeros(programs_attention.query_gradient_shape(*shape), device="cuda")
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    configs = {} if in_bulk else {"TB_BULK_REDUCE": False, "TB_STORE_OPERANDS_BY_MATRIX": False}
    prim = programs_attention.attention_backward(*shape, causal)
    tb_compile(prim, target="cuda:sm_90a", pass_configs=configs)(q, k, v, g, logs, sums, z, dk, dv)
    tb_compile(programs_attention.backward_scaled(*shape), target="cuda:sm_90a")(z, dq)
    wanted = references_more.attention_gradients(q, k, v, g, causal)
    for got, want in zip((dq, dk, dv), wanted, strict=True):
        assert float((got.float() - want.float()).norm() / want.float().norm()) < 5e-3
