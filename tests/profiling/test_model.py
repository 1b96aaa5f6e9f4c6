"""The predicted timeline and time: one model, whose numbers add up and move the way the hardware does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tests.kernels import programs
from tilebench import compiler
from tilebench.ir.expr import int_value
from tilebench.kernel.roles import with_roles
from tilebench.language.parse import parse_prim_func
from tilebench.passes.stages import Allocated, Scheduled
from tilebench.profiling.block import residence
from tilebench.profiling.model import Prediction, device_for, predict
from tilebench.profiling.timeline import ITERATIONS_PLAYED, ITERATIONS_SHOWN
from tilebench.profiling.work import count, typical_block
from tilebench.targets import occupancy, parse


def prediction(
    program: Any, registers: int = 200, arch: str = "sm_90a", configs: Mapping[str, bool] | None = None
) -> Prediction:
    kernel = with_roles(parse_prim_func(program))
    kernel = replace(kernel, attributes={**kernel.attributes, "pass_configs": dict(configs or {})})
    stages = compiler.analyse(kernel, parse(f"cuda:{arch}"))
    device = device_for(arch)
    assert device is not None
    grid = tuple(int_value(g) or 0 for g in kernel.grid)
    occupied = occupancy(arch, kernel.thread_count, registers, stages.stage(Allocated).shared_bytes)
    return predict(stages.stage(Scheduled), count(kernel, grid, {}), device, occupied, grid, {})


def loop_of(k: int, stages: int = 3) -> Prediction:
    return prediction(programs.gemm(128, 128, k, num_stages=stages))


@pytest.mark.parametrize("trips", [1, 2, 4, 8])
def test_every_iteration_is_drawn_once_and_none_that_does_not_exist(trips: int) -> None:
    made = loop_of(32 * trips).timeline
    assert {b.iteration for b in made.bars if b.iteration >= 0} == set(range(trips))
    tensor = [b for b in made.bars if b.lane == "tensor cores"]
    assert [b.iteration for b in tensor] == list(range(trips))
    assert f"all {trips} iterations" in made.note
    assert made.cuts == ()
    # one trip is no pipeline: its copies are in order
    assert tensor[-1].phase == ("epilogue" if trips > 1 else "")


def test_a_long_loop_is_cut_and_says_so() -> None:
    made = loop_of(32 * 40).timeline
    tensor = [b.iteration for b in made.bars if b.lane == "tensor cores"]
    assert tensor == [0, 1, 2, 3, 4, 5, 38, 39]
    assert len(tensor) == ITERATIONS_SHOWN
    assert "the first 6 and last 2 of 40 iterations" in made.note
    ((start, end),) = made.cuts
    assert all(b.end_us <= start or b.start_us >= end for b in made.bars)


def test_a_loop_that_is_not_played_to_the_end_takes_the_same_time_to_half_a_percent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    short = loop_of(32 * 200).total_us
    monkeypatch.setattr("tilebench.profiling.timeline.ITERATIONS_PLAYED", 10_000)
    assert ITERATIONS_PLAYED < 200
    assert loop_of(32 * 200).total_us == pytest.approx(short, rel=5e-3)


@pytest.mark.parametrize("trips", [8, 40])
def test_no_operand_is_multiplied_before_it_has_arrived(trips: int) -> None:
    made = loop_of(32 * trips).timeline
    assert made.arrows
    for copied, used in made.arrows:
        assert made.bars[copied].end_us <= made.bars[used].start_us
        assert made.bars[copied].iteration == made.bars[used].iteration


def test_bars_of_one_lane_do_not_overlap() -> None:
    for program in (programs.gemm(512, 512, 2048), programs.attention(1, 2, 512, 512, 64)):
        bars = prediction(program).timeline.bars
        for lane in {b.lane for b in bars}:
            own = sorted((b for b in bars if b.lane == lane), key=lambda b: b.start_us)
            for one, two in pairwise(own):
                assert one.end_us <= two.start_us + 2e-4, (lane, one, two)


PROGRAMS = {
    "gemm": programs.gemm(4096, 4096, 4096),
    "few blocks": programs.gemm(256, 256, 4096),
    "softmax": programs.softmax(8192, 8192),
    "attention": programs.attention(2, 8, 2048, 2048, 64, causal=True),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_terms_add_up_and_one_of_them_is_the_block_that_is_drawn(name: str) -> None:
    made = prediction(PROGRAMS[name])
    assert made.total_us == pytest.approx(sum(t.count * t.each_us for t in made.terms))
    assert made.timeline.total_us == made.total_us
    assert made.timeline.terms == made.terms
    end = max(b.end_us for b in made.timeline.bars)
    assert any(t.each_us == pytest.approx(end, abs=1e-3) for t in made.terms)


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_unit_is_faster_than_its_data_sheet(name: str) -> None:
    made = prediction(PROGRAMS[name])
    assert made.total_us > max(made.bounds.values())


MEASURED = {
    # one NVIDIA H200, CUDA 13.0: TFLOP/s of tests/perf/h200.py for mma.sync (sm_90: no wgmma there)
    "gemm 4096": (programs.gemm(4096, 4096, 4096, num_stages=4), 365.0),
    "attention 128": (programs.attention(4, 16, 4096, 4096, 128), 304.0),
    "attention 64": (programs.attention(4, 16, 4096, 4096, 64), 282.0),
}


@pytest.mark.parametrize("name", MEASURED)
def test_the_prediction_is_within_a_third_of_what_an_h200_measured(name: str) -> None:
    program, rate = MEASURED[name]
    kernel = with_roles(parse_prim_func(program))
    grid = tuple(int_value(g) or 0 for g in kernel.grid)
    work = count(kernel, grid, {})
    tensor = sum(work.tensor_flops.values())
    assert tensor / prediction(program, arch="sm_90").total_us / 1e6 == pytest.approx(rate, rel=1 / 3)


def test_more_stages_hide_more_latency_until_it_is_hidden() -> None:
    times = [prediction(programs.gemm(4096, 4096, 4096, num_stages=n)).total_us for n in (1, 2, 3, 4)]
    assert times[0] > 1.2 * times[1] > times[1] > times[2] >= times[3]


def test_larger_tiles_ask_less_of_the_cache() -> None:
    small = prediction(programs.gemm(4096, 4096, 4096, block_M=64, block_N=64), 128, "sm_90")
    large = prediction(programs.gemm(4096, 4096, 4096), arch="sm_90")
    assert small.bounds["L2"] > 1.9 * large.bounds["L2"]
    assert small.total_us > large.total_us
    assert (small.limiter, large.limiter) == ("L2", "tensor cores")


def test_a_block_alone_waits_for_nobody_and_a_crowd_for_the_bottleneck() -> None:
    needs = {"copy": 1.0, "tensor cores": 4.0, "ALU": 1.0}
    assert set(residence(needs, 2.0, 1).values()) == {1.0}
    crowd = residence(needs, 2.0, 64)
    assert crowd["tensor cores"] == pytest.approx(64, rel=0.03)
    assert crowd["copy"] < 1.5


def test_the_typical_block_of_a_causal_loop_is_in_the_middle() -> None:
    kernel = with_roles(parse_prim_func(programs.attention(1, 1, 2048, 2048, 64, causal=True)))
    grid = tuple(int_value(g) or 0 for g in kernel.grid)
    index = typical_block(kernel, grid, {})
    assert 0.3 * max(grid) <= max(index) <= 0.7 * max(grid)


def test_a_kernel_without_a_loop_has_a_timeline_too() -> None:
    made = prediction(programs.softmax(8192, 8192)).timeline
    assert [b.lane for b in made.bars] == ["copy", "ALU", "ALU", "ALU", "ALU", "copy"]
    assert all(a.end_us <= b.start_us for a, b in pairwise(made.bars))


def test_an_empty_grid_takes_the_launch_alone() -> None:
    made = prediction(programs.gemm(0, 128, 128))
    assert [t.text for t in made.terms] == ["launch"]
    assert made.timeline.bars == ()


def test_a_float32_product_is_predicted_on_the_float32_pipes() -> None:
    types = ("float16", "float32")
    made = {d: prediction(programs.gemm(4096, 4096, 4096, d, d), arch="sm_90") for d in types}
    assert made["float32"].limiter == "FP32 pipes"
    assert made["float16"].limiter == "tensor cores"
    assert made["float32"].total_us > 5 * made["float16"].total_us


def test_warpgroup_products_are_faster_and_one_trails_into_the_next_iteration() -> None:
    program = programs.attention(4, 16, 4096, 4096, 128, block_N=128, threads=256)
    old, new = prediction(program, arch="sm_90"), prediction(program)
    assert old.total_us > 1.2 * new.total_us
    assert new.bounds["tensor cores"] < old.bounds["tensor cores"]


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"])
def test_every_architecture_has_a_model(arch: str) -> None:
    made = prediction(programs.gemm(1024, 1024, 1024, num_stages=2), arch=arch)
    assert 2.5 < made.total_us < 1000
