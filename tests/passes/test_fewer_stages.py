"""Rings that shared memory has no room for lose versions, and the report says so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.kernels import programs
from tilebench.compiler import analyse
from tilebench.errors import TargetError
from tilebench.ir.rewrite import transform
from tilebench.ir.tile import Pipelined
from tilebench.kernel.decorator import compile
from tilebench.passes.stages import Allocated, Lowered, Scheduled, Synchronised
from tilebench.targets import parse


def gemm(stages: int, block_k: int = 64) -> Any:
    return programs.gemm(
        128, 256, 640, transpose_B=True, block_N=256, block_K=block_k, num_stages=stages, threads=256
    )


def test_a_ring_keeps_as_many_versions_as_fit() -> None:
    kernel = compile(gemm(8), target="emu:sm_90a")
    scheduled = kernel.stages().stage(Scheduled)
    (loop,) = scheduled.schedules
    assert (loop.stages, loop.wanted) == (4, 8)
    assert set(scheduled.versions.values()) == {4}
    assert kernel.stages().stage(Synchronised).allocated.scheduled is scheduled, "the stages agree"
    assert kernel.stages().stage(Allocated).shared_bytes <= 232448
    assert "4 versions" in loop.reason.text
    assert "not 8" in loop.reason.text
    (finding,) = (f for f in kernel.report().findings if f.kind == "fewer-stages")
    assert "4 versions of a tile, not 8" in finding.text
    assert finding.hint == "num_stages=4 says so"
    assert finding.spans


def test_it_computes_the_same() -> None:
    g = torch.Generator().manual_seed(2)
    a, b = (torch.randint(-3, 4, shape, generator=g).half() for shape in ((128, 640), (256, 640)))
    c = torch.zeros(128, 256, dtype=torch.float16)
    compile(gemm(8), target="emu:sm_90a")(a, b, c)
    assert torch.equal(c.float(), (a.float() @ b.float().T).half().float())


def test_what_fits_says_nothing_and_keeps_its_versions() -> None:
    kernel = compile(gemm(4), target="emu:sm_90a")
    (loop,) = kernel.stages().stage(Scheduled).schedules
    assert (loop.stages, loop.wanted) == (4, 0)
    assert not any(f.kind == "fewer-stages" for f in kernel.report().findings)


def test_the_text_is_that_of_the_number_that_fits() -> None:
    def body(stages: int) -> Any:
        return compile(gemm(stages), target="emu:sm_90a").stages().stage(Lowered).program

    assert body(8).shared_bytes == body(4).shared_bytes


def test_two_versions_that_do_not_fit_are_an_error_still() -> None:
    with pytest.raises(TargetError) as error:
        compile(gemm(3, block_k=320), target="emu:sm_90a")
    assert error.value.code == "TB521"


def test_who_compares_numbers_of_stages_is_told() -> None:
    prim = compile(gemm(4), target="emu:sm_90a").prim
    asked = replace(prim, body=transform(prim.body, eight))
    assert analyse(asked, parse("emu:sm_90a")).stage(Scheduled).schedules[0].wanted == 8
    with pytest.raises(TargetError) as error:
        analyse(asked, parse("emu:sm_90a"), as_asked=True)
    assert error.value.code == "TB521"
    assert "num_stages=4 would fit" in (error.value.fix or "")


def eight(n: Any) -> Any:
    return replace(n, num_stages=8) if isinstance(n, Pipelined) else n
