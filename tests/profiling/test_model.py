"""The predicted timeline and time: what is drawn exists, and numbers move the way the hardware does."""

from __future__ import annotations

import pytest

from tests.kernels import programs
from tilebench import compiler
from tilebench.kernel.roles import with_roles
from tilebench.language.parse import parse_prim_func
from tilebench.passes.stages import Scheduled
from tilebench.profiling.model import device_for, predict
from tilebench.profiling.timeline import ITERATIONS_SHOWN, predicted
from tilebench.profiling.work import count
from tilebench.report import TimelineInfo
from tilebench.targets import occupancy, parse


def timeline(k: int, stages: int = 3) -> TimelineInfo:
    kernel = with_roles(parse_prim_func(programs.gemm(128, 128, k, num_stages=stages)))
    scheduled = compiler.analyse(kernel, parse("cuda:sm_90a")).stage(Scheduled)
    device = device_for("sm_90a")
    assert device is not None
    made = predicted(scheduled, {}, device, 2)
    assert made is not None
    return made


@pytest.mark.parametrize("trips", [1, 2, 4, 8])
def test_every_iteration_is_drawn_once_and_none_that_does_not_exist(trips: int) -> None:
    made = timeline(32 * trips)
    assert {b.iteration for b in made.bars} == set(range(trips))
    tensor = [b for b in made.bars if b.lane == "tensor cores"]
    assert [b.iteration for b in tensor] == list(range(trips))
    assert f"all {trips} iterations" in made.note
    # one trip is no pipeline: its copies are in order
    assert tensor[-1].phase == ("epilogue" if trips > 1 else "steady")


def test_a_long_loop_says_how_much_of_it_is_drawn() -> None:
    made = timeline(32 * 40)
    assert len([b for b in made.bars if b.lane == "tensor cores"]) == ITERATIONS_SHOWN
    assert "the first 8 of 40 iterations" in made.note
    assert not [b for b in made.bars if b.phase == "epilogue"]


def test_no_operand_is_multiplied_before_it_has_arrived() -> None:
    made = timeline(32 * 8)
    for copied, used in made.arrows:
        assert made.bars[copied].end_us <= made.bars[used].start_us
        assert made.bars[copied].iteration == made.bars[used].iteration


def test_a_float32_product_is_predicted_on_the_float32_pipes() -> None:
    device = device_for("sm_90a")
    assert device is not None
    times: dict[str, float] = {}
    for dtype in ("float16", "float32"):
        kernel = with_roles(parse_prim_func(programs.gemm(4096, 4096, 4096, dtype, dtype)))
        work = count(kernel, (32, 32), {})
        assert work.flops == pytest.approx(2 * 4096**3, rel=0.01)
        prediction = predict(work, device, occupancy("sm_90a", 128, 200, 49152))
        times[dtype] = prediction.total_us
        assert prediction.limiter == ("FP32 pipes" if dtype == "float32" else "tensor cores")
    assert times["float32"] > 5 * times["float16"]
