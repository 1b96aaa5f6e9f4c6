"""Rows that are multiplied by ones are left alone when the warp votes so; attention with lagging maxima."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kernels import programs_attention
from tests.ops.test_examples import shape_of
from tests.passes.test_handover import configured, nodes, stage
from tilebench.backends.emulator import run_program
from tilebench.ir.expr import Call
from tilebench.ir.rewrite import walk
from tilebench.ir.thread import Barrier
from tilebench.ir.tile import If, Kernel
from tilebench.kernel.roles import with_roles
from tilebench.language.parse import parse_prim_func
from tilebench.passes.stages import Lowered

SKIP = {"TB_SKIP_UNIT_SCALING": True}


def lazy(seq: int, causal: bool, **options: Any) -> Kernel:
    prim = programs_attention.attention_lazy(
        1, 2, seq, 64, causal, block_M=64, block_N=64, threads=128, **options
    )
    return with_roles(parse_prim_func(prim))


def votes(kernel: Kernel) -> list[If]:
    return [
        n
        for n in nodes(kernel, If)
        if any(isinstance(x, Call) and x.name == "any_sync" for x in walk(n.condition))
    ]


def test_off_by_default_and_without_barriers() -> None:
    kernel = lazy(256, False)
    assert not votes(kernel)
    found = votes(configured(kernel, **SKIP))
    assert len(found) == 3  # before the loop's first product, in the loop, and the division
    assert not any(isinstance(x, Barrier) for n in found for x in walk(n))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("size", [0.3, 4.0])
def test_values(causal: bool, size: float) -> None:
    """size 4: scores beyond the slack, so that maxima are taken anew."""
    seq, dim = 256, 64
    kernel = configured(lazy(seq, causal), **SKIP)
    rng = np.random.default_rng(3)
    given = [(rng.standard_normal(shape_of(p.value)) * size).astype("float16") for p in kernel.params]  # type: ignore[arg-type]
    result = run_program(stage(kernel, Lowered).program, given, {})
    assert not result.findings, "\n".join(f.text for f in result.findings)
    q, k, v = (x.astype(np.float64) for x in given[:3])
    s = q @ k.swapaxes(-1, -2) / dim**0.5
    if causal:
        s = np.where(np.tril(np.ones((seq, seq), dtype=bool)), s, -np.inf)
    w = np.exp(s - s.max(-1, keepdims=True))
    want = w / w.sum(-1, keepdims=True) @ v
    assert np.linalg.norm(given[3].astype(np.float64) - want) <= 2e-3 * np.linalg.norm(want)
