"""Blocks with a producer: what may overlap overlaps, what must wait waits, and what is not played takes as
long as if it were.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tests.kernels import programs, programs_attention, programs_gemm, programs_scan
from tests.profiling.test_model import prediction
from tilebench import compiler
from tilebench.ir.expr import int_value
from tilebench.ir.rewrite import walk
from tilebench.ir.tile import Parallel
from tilebench.kernel.roles import with_roles
from tilebench.language.parse import parse_prim_func
from tilebench.ops.gemm import Gemm
from tilebench.passes.stages import Scheduled
from tilebench.profiling import lanes, rings
from tilebench.profiling.issue import pipes_of
from tilebench.profiling.model import device_for, rates_of
from tilebench.profiling.work import count
from tilebench.report import TimelineBar
from tilebench.targets import parse


def gemm(k: int = 1024, n: int = 256, size: int = 128, **settings: Any) -> Any:
    """One tile of 128 x 256 for a size of 128, two consumers."""
    chosen = {"block_M": 128, "block_N": 256, "block_K": 64, "num_stages": 4, "threads": 256, **settings}
    return programs.gemm(size, n, k, transpose_B=True, **chosen)


def attention(seq: int = 1024, dim: int = 128, heads: int = 1, **settings: Any) -> Any:
    return programs.attention(1, heads, seq, seq, dim, block_M=128, block_N=128, threads=256, **settings)


def on(bars: Iterable[TimelineBar], lane: str) -> list[TimelineBar]:
    return sorted((b for b in bars if b.lane == lane), key=lambda b: b.start_us)


def overlap(one: TimelineBar, two: TimelineBar) -> float:
    return min(one.end_us, two.end_us) - max(one.start_us, two.start_us)


def scheduled_of(program: Any, **configs: bool) -> tuple[Scheduled, rings.Rates]:
    kernel = with_roles(parse_prim_func(program))
    kernel = replace(kernel, attributes={**kernel.attributes, "pass_configs": configs})
    stages = compiler.analyse(kernel, parse("cuda:sm_90a"), until="pipeline")
    device = device_for("sm_90a")
    assert device is not None
    grid = tuple(int_value(g) or 0 for g in kernel.grid)
    return stages.stage(Scheduled), rates_of(count(kernel, grid, {}), device, 132, 0.8)


def played(program: Any, **configs: bool) -> lanes.Lanes:
    scheduled, rates = scheduled_of(program, **configs)
    values = dict.fromkeys(scheduled.kernel.blocks, 0.0)
    return lanes.play(rings.rings_of(scheduled, values, rates), {}, rates)


# ------------------------------------------------------------------ rings


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_a_slot_is_filled_again_only_when_its_products_are_done(stages: int) -> None:
    bars = prediction(gemm(k=64 * 8, num_stages=stages)).timeline.bars
    done = {k: max(b.end_us for b in on(bars, "tensor cores") if b.iteration == k) for k in range(8)}
    filled = {k: min(b.start_us for b in on(bars, "producer") if b.iteration == k) for k in range(8)}
    for k in range(stages, 8):
        assert filled[k] >= done[k - stages]
    assert all(filled[k] < min(done.values()) for k in range(stages)), "the first ones wait for nobody"


def test_the_first_copies_are_the_prologue_and_the_last_products_the_epilogue() -> None:
    bars = prediction(gemm(k=64 * 8)).timeline.bars
    assert {b.iteration for b in on(bars, "producer") if b.phase == "prologue"} == {0, 1, 2, 3}
    assert {b.iteration for b in on(bars, "tensor cores") if b.phase == "epilogue"} == {5, 6, 7}
    assert {b.phase for b in on(bars, "tensor cores")} == {"steady", "epilogue"}


def test_each_warpgroup_multiplies_its_half() -> None:
    bars = on(prediction(gemm(k=64 * 8)).timeline.bars, "tensor cores")
    assert len(bars) == 2 * 8
    assert {b.label for b in bars} == {"gemm, warpgroup 0", "gemm, warpgroup 1"}
    assert bars[0].end_us - bars[0].start_us == pytest.approx(bars[1].end_us - bars[1].start_us, abs=2e-4)


def test_lanes_are_in_the_order_of_the_data() -> None:
    names = list(dict.fromkeys(b.lane for b in prediction(gemm()).timeline.bars))
    assert names == ["producer", "tensor cores", "warpgroup 0", "warpgroup 1", "stores"]


def test_tensor_cores_hardly_wait_in_the_steady_state() -> None:
    made = played(gemm(k=64 * 40, n=4096, size=4096))
    product = on(made.bars, "tensor cores")[0]
    assert made.pace == pytest.approx(2 * (product.end_us - product.start_us), rel=0.02)


# ------------------------------------------------------------------ products that trail


def test_the_second_product_of_attention_runs_under_the_softmax() -> None:
    bars = prediction(attention()).timeline.bars
    tensor, threads = on(bars, "tensor cores"), on(bars, "warpgroup 0")
    own = [b for b in tensor if b.label.endswith("warpgroup 0")]
    assert any(overlap(a, b) > 0.05 for a in own for b in threads), "its own warpgroup's work"
    other = on(bars, "warpgroup 1")
    assert any(overlap(a, b) > 0.05 for a in own for b in other), "the other warpgroup's work"


def test_overlap_is_worth_what_it_hides() -> None:
    overlapped = prediction(attention(4096, heads=32))
    waiting = prediction(attention(4096, heads=32), configs={"TB_DISABLE_PRODUCT_OVERLAP": True})
    general = prediction(attention(4096, heads=32), configs={"TL_DISABLE_WARP_SPECIALIZED": True})
    assert overlapped.total_us < waiting.total_us < general.total_us


def test_every_product_of_every_iteration_is_drawn() -> None:
    bars = on(prediction(attention(512)).timeline.bars, "tensor cores")
    for warpgroup in (0, 1):
        seen = [b.iteration for b in bars if b.label.endswith(str(warpgroup))]
        assert sorted(seen) == [0, 0, 1, 1, 2, 2, 3, 3]


# ------------------------------------------------------------------ persistent blocks and many iterations


def test_the_next_tiles_operands_arrive_while_a_result_leaves() -> None:
    bars = prediction(gemm(k=512, n=4096, size=4096, num_stages=4)).timeline.bars
    leaving = on(bars, "stores")
    first = [b for b in leaving if b.end_us < leaving[-1].end_us / 2]
    early = [b for b in on(bars, "producer") if b.start_us < first[0].start_us]
    assert [b.iteration for b in early].count(0) == 4, "both operands of the first tile and of the second"


@pytest.mark.parametrize(
    "program", [gemm(k=8192, n=4096, size=4096), attention(8192, heads=16)], ids=["gemm", "attention"]
)
def test_what_is_not_played_takes_as_long(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    short = played(program, TB_PERSISTENT=True).total_us
    monkeypatch.setattr("tilebench.profiling.timeline.ITERATIONS_PLAYED", 10_000)
    monkeypatch.setattr("tilebench.profiling.rings.TILES_PLAYED", 10_000)
    assert played(program, TB_PERSISTENT=True).total_us == pytest.approx(short, rel=5e-3)


def test_persistent_blocks_with_uneven_tiles_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    program = attention(4096, heads=32, causal=True)
    short = played(program, TB_PERSISTENT=True).total_us
    monkeypatch.setattr("tilebench.profiling.rings.TILES_PLAYED", 10_000)
    assert played(program, TB_PERSISTENT=True).total_us == pytest.approx(short, rel=0.03)


def test_a_persistent_launch_is_one_round_of_blocks() -> None:
    made = prediction(gemm(k=1024, n=4096, size=4096), configs={"TB_PERSISTENT": True})
    assert [t.text for t in made.terms] == ["launch", "round of 132 persistent blocks, 4 tiles each"]
    assert "4 tiles" in made.timeline.note
    assert len(made.timeline.cuts) == 2


def test_a_causal_launch_takes_about_half() -> None:
    whole, half = (prediction(attention(4096, heads=32, causal=c)).total_us for c in (False, True))
    assert 0.45 * whole < half < 0.7 * whole


@pytest.mark.parametrize("seq", [4096, 32768])
def test_a_prediction_takes_well_under_a_second(seq: int) -> None:
    program = attention(seq, heads=32, causal=True)
    prediction(program)  # imports
    scheduled, rates = scheduled_of(program, TB_PERSISTENT=True)
    seconds: list[float] = []
    for _ in range(3):  # a garbage collection of a long test run may fall into one of them
        start = time.process_time()
        block = rings.heaviest(scheduled, 132)
        lanes.play(rings.rings_of(scheduled, {scheduled.kernel.blocks[0]: float(block)}, rates), {}, rates)
        seconds.append(time.process_time() - start)
    assert min(seconds) < 0.5


def test_a_loop_whose_length_the_call_decides_is_one_iteration() -> None:
    made = prediction(programs_attention.attention_varlen(4, 4096, 1024, 8, 2, 128))
    assert "one iteration (how many there are is known at the call)" in made.timeline.note
    assert {b.lane for b in made.timeline.bars} >= {"producer", "tensor cores", "warpgroup 1"}


OTHERS = {
    "attention backward": programs_attention.attention_backward(1, 4, 1024, 128, causal=True),
    "decode": programs_attention.decode_parts(8, 32, 8, 8192, 128, 8),
    "latent decode": programs_attention.mla_decode(64, 128, 2048),
    "int4": programs_gemm.gemm_int4(16, 4096, 4096),
    "split k": programs_gemm.gemm_parts(64, 4096, 4096, 4),
    "chunk scan": programs_scan.chunk_scan(1, 1024, 8),
    "linear attention": programs_scan.linear_attention(8, 1024, 16, 128),
}


@pytest.mark.parametrize("name", OTHERS)
def test_real_kernels_are_played_to_their_ends(name: str) -> None:
    made = prediction(OTHERS[name])
    assert made.total_us == pytest.approx(sum(t.count * t.each_us for t in made.terms))
    assert made.total_us > max(made.bounds.values())
    for lane in {b.lane for b in made.timeline.bars}:
        for one, two in pairwise(on(made.timeline.bars, lane)):
            assert one.end_us <= two.start_us + 2e-4, (lane, one, two)


# ------------------------------------------------------------------ costs


def test_the_softmax_of_a_score_takes_as_many_instructions_as_counted_by_hand() -> None:
    """Maximum (two slots), scale and subtract (one FMA), sum, half of a packed conversion at half rate, and
    the output's scaling: 128 of it for 128 scores; one exponential.
    """
    kernel = parse_prim_func(attention())
    big = [n for n in walk(kernel.body) if isinstance(n, Parallel) and n.extents == (128, 128)]
    exponential = pipes_of(big[1])
    scores = 128 * 128
    assert exponential.special / scores == pytest.approx(1.0)
    assert exponential.issue / scores == pytest.approx(1.0, abs=0.05)
    assert pipes_of(big[2]).issue / scores == pytest.approx(1.0)


def test_registers_that_spill_cost_time() -> None:
    scheduled, rates = scheduled_of(attention(4096, heads=32))
    values = dict.fromkeys(scheduled.kernel.blocks, 0.0)
    dry, wet = (
        lanes.play(rings.rings_of(scheduled, values, r), {}, r).total_us
        for r in (rates, replace(rates, spill_bytes=512.0))
    )
    assert wet > 1.02 * dry


def test_a_product_reads_operands_as_often_as_there_are_warpgroups() -> None:
    from tilebench.profiling.block import gemm_shared_bytes

    scheduled, _ = scheduled_of(gemm())
    product = next(n for n in walk(scheduled.kernel.body) if isinstance(n, Gemm))
    assert gemm_shared_bytes(product, scheduled.placed.partitioned) == (128 + 2 * 256) * 64 * 2
