"""In-kernel timers: off, nothing changes; on, a twin of the kernel times the warps of one block, and its bars
stand beside the predicted ones.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import tilebench
from tests.kernels import programs
from tests.kernels.running import normal
from tilebench.backends.cuda import nvrtc
from tilebench.backends.cuda.build import build_program
from tilebench.backends.cuda.emit import compiled_text, emit
from tilebench.compiler import analyse
from tilebench.errors import LaunchError
from tilebench.ir import timers as ir
from tilebench.ir.tile import SyncThreads
from tilebench.ir.verify import verify_program
from tilebench.kernel.compiled import Kernel
from tilebench.kernel.decorator import compile
from tilebench.kernel.timers import (
    LAUNCHES,
    Taken,
    WarpTrace,
    around,
    last_of,
    summed,
    trace_warps,
    with_warps,
)
from tilebench.passes.stages import Lowered
from tilebench.profiling.benchmark import Times
from tilebench.profiling.stamps import Stretch, WarpStamps, clock_rate, stretches
from tilebench.store import Store

GEMM = """\
@T.prim_func
def gemm(A: T.Tensor((128, 256), "float16"), B: T.Tensor((256, 128), "float16"), C: T.Tensor((128, 128), "float32")):
    with T.Kernel(1, 2, threads=128) as (bx, by):
        A_s = T.alloc_shared((64, 32), "float16")
        B_s = T.alloc_shared((32, 128), "float16")
        C_l = T.alloc_fragment((64, 128), "float32")
        T.clear(C_l)
        for k in T.Pipelined(8, num_stages=3):
            T.copy(A[by * 64, k * 32], A_s)
            T.copy(B[k * 32, bx * 128], B_s)
            T.gemm(A_s, B_s, C_l)
        T.copy(C_l, C[by * 64, bx * 128])
"""  # noqa: E501 # the lines are numbered
REAL = {
    "gemm": lambda: programs.gemm(4096, 4096, 4096, block_M=128, block_N=256, block_K=64, threads=256),
    "attention": lambda: programs.attention(4, 16, 4096, 4096, 128, block_M=128, block_N=128, threads=256),
    "attention-causal": lambda: programs.attention(
        4, 16, 4096, 4096, 128, True, block_M=128, block_N=128, threads=256
    ),
    "softmax": lambda: programs.softmax(1024, 4096),
}


def run(target: str, **options: Any) -> Any:
    return tilebench.run(GEMM, target=target, cell="In[1]", trace_warps=True, **options)


def timed(kernel: Kernel, each: bool = False) -> Lowered:
    return analyse(ir.with_timers(kernel.prim, each=each), kernel.target).stage(Lowered)


@functools.cache
def attention(target: str) -> tuple[Kernel, WarpTrace]:
    program = programs.attention(1, 2, 256, 640, 64, block_M=128, block_N=64, threads=256)
    kernel = compile(program, target=target)
    return kernel, trace_warps(kernel, normal(kernel, 0), predicted=last_of(kernel.report()))


# ------------------------------------------------------------------ off


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_without_timers_the_text_has_nothing_of_them_and_with_them_it_is_another(arch: str) -> None:
    kernel = compile(programs.gemm(256, 256, 256), target=f"cuda:{arch}")
    plain = emit(analyse(kernel.prim, kernel.target).stage(Lowered).program)
    again = emit(analyse(kernel.prim, kernel.target).stage(Lowered).program)
    other = emit(timed(kernel).program)
    assert "stamp" not in plain.text
    assert "read_clock" not in plain.text
    assert plain == again
    assert "stamp(" in other.text
    assert compiled_text(other) != compiled_text(plain)  # so the store keeps both


SLOW = [pytest.param(n, marks=pytest.mark.slow) if n == "attention-causal" else n for n in REAL]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", SLOW)
def test_timed_programs_compile_and_spill_nothing(name: str, arch: str, tmp_path: Any) -> None:
    if not nvrtc.available():
        pytest.skip("no NVRTC here")
    kernel = compile(REAL[name](), target=f"cuda:{arch}")
    for each in (False, True) if name == "attention" else (False,):
        program = timed(kernel, each=each).program
        verify_program(program)
        built = build_program(program, kernel.target, store=Store(tmp_path)).built
        assert built.warnings == ()  # no C75xx: products are under way across stamps
        assert built.spill_bytes == 0


# ------------------------------------------------------------------ records


def sites(*kinds: str) -> list[ir.TimerSite]:
    return [ir.TimerSite(kind, SyncThreads()) for kind in kinds]  # type: ignore[arg-type]


def records(bits: int, *pairs: tuple[int, int]) -> np.ndarray:
    return np.array([tag << bits | clock & ((1 << bits) - 1) for tag, clock in pairs], np.uint32)


def test_a_stamp_that_opens_closes_what_was_open() -> None:
    known = sites("work", "wait")
    bits = ir.clock_bits(2)
    found = stretches(records(bits, (1, 10), (3, 14), (4, 20), (1, 25), (2, 26)), known, 0)
    assert found == (Stretch(0, 10, 14), Stretch(1, 14, 20), Stretch(0, 25, 26))


def test_clocks_that_wrap_are_unwound_from_the_whole_one() -> None:
    known = sites("work")
    bits = ir.clock_bits(1)
    begin = (5 << bits) - 7
    found = stretches(records(bits, (1, begin + 3), (2, begin + 20)), known, begin)
    assert found == (Stretch(0, begin + 3, begin + 20),)


def test_tiles_are_counted_and_what_never_closed_is_left_out() -> None:
    known = sites("tile", "work")
    bits = ir.clock_bits(2)
    found = stretches(records(bits, (1, 1), (3, 2), (4, 3), (2, 4), (1, 5), (3, 6)), known, 0)
    assert found == (Stretch(0, 1, 4, 0), Stretch(1, 2, 3, 0))


def stamps(clock: int, time: int, sm: int = 3) -> WarpStamps:
    return WarpStamps(0, sm, clock, clock + 1000, time, time + 600, (), 0)


def test_the_rate_comes_from_two_launches_on_one_sm() -> None:
    first, later = stamps(0, 0), stamps(1_755_000_000 - 1000, 10**9 - 600)
    assert clock_rate([[first], [later]]) == pytest.approx(1755.0)
    assert clock_rate([[first], [stamps(17550, 10**4)]]) is None  # too near for the timer
    assert clock_rate([[first], [stamps(10**9, 10**9, sm=4)]]) is None
    assert clock_rate([[stamps(5, 0, sm=4)], [first], [stamps(7, 9, sm=4)], [later]]) == pytest.approx(1755.0)
    assert clock_rate([[later], [first]]) is None  # a counter that ran back


def test_a_block_that_moves_to_another_sm_is_launched_until_it_comes_back() -> None:
    """The first launch finds the GPU otherwise than later ones do."""
    sms, time = iter([9, 7, 5, 124, 124, 5, 5]), 0

    def launch() -> tuple[WarpStamps, ...]:
        nonlocal time
        time += 600_000
        now = time * 1755 // 1000
        return (WarpStamps(0, next(sms), now, now + 1000, time, time + 600, (), 0),)

    launches, given = around(launch, lambda: "times")
    assert given == "times"
    assert [s.sm for (s,) in launches] == [9, 7, 5, 124, 124, 5]  # the two on 124 are too near each other
    assert clock_rate(launches) == pytest.approx(1755, rel=1e-3)
    sms = iter(range(1000))
    assert len(around(launch, lambda: None)[0]) == LAUNCHES


# ------------------------------------------------------------------ in the emulator


@pytest.mark.parametrize("target", ["emu:sm_80", "emu:sm_90a"])
def test_the_emulator_gives_a_simulated_timeline(target: str) -> None:
    report = run(target).report
    assert report.ok is True
    predicted, simulated = report.timelines
    assert (predicted.provenance, simulated.provenance, simulated.unit) == ("predicted", "simulated", "steps")
    assert "not how long it took" in simulated.note
    gemm = next(o.id for o in report.ops if o.name == "gemm")
    products = [b for b in simulated.bars if b.op == gemm and b.kind == "work"]
    assert [b.iteration for b in products] == list(range(8))
    assert {b.lane for b in products} == {"tensor cores"}
    assert all(b.line == 11 for b in products)
    assert {b.lane for b in simulated.bars} <= {b.lane for b in predicted.bars} | {"ALU"}
    waits = [b for b in simulated.bars if b.kind == "wait" and b.label.startswith("wait for")]
    assert len(waits) >= 8
    assert all(b.end_us >= b.start_us >= 0 for b in simulated.bars)
    store = next(b for b in simulated.bars if b.line == 12)
    assert store.start_us >= max(b.end_us for b in products)


def test_a_producer_and_its_consumers_are_lanes_with_arrows_between() -> None:
    _, traced = attention("emu:sm_90a")
    info = traced.timeline
    assert info is not None
    assert {b.lane for b in info.bars} >= {"producer", "tensor cores", "warpgroup 0", "warpgroup 1"}
    assert info.warps == (0, 4, 8)
    fills = [b for b in info.bars if b.kind == "issue" and b.lane == "producer"]
    assert {b.warp for b in fills} == {8}
    keys = [b.iteration for b in fills if "K_s" in b.label]
    assert keys[:6] == [0, 1, 2, 3, 4, 5]
    assert len(set(keys)) == len(keys) < 10  # the middle is cut
    assert info.cuts
    assert info.arrows
    for a, z in info.arrows:
        assert info.bars[a].label.split("into ")[1] == info.bars[z].label.split("for ")[1]
        assert info.bars[z].end_us >= info.bars[a].start_us
    softmax = [b for b in info.bars if b.lane == "warpgroup 1" and b.kind == "work"]
    assert 8 <= sum(b.label.endswith(" more") for b in softmax if b.iteration >= 0) <= len(softmax) <= 40


def test_what_threads_compute_between_two_waits_is_one_bar_or_a_bar_each() -> None:
    kernel = compile(programs.softmax(16, 512), target="emu:sm_90a")
    one, each = (trace_warps(kernel, normal(kernel, 0), each=e).timeline for e in (False, True))
    assert one is not None
    assert each is not None
    assert [b.label for b in sorted(one.bars, key=lambda b: b.start_us)] == [
        "copy",
        "reduce and 3 more",
        "copy",
    ]
    assert len(each.bars) == 6
    lines = [b.line for b in sorted(each.bars, key=lambda b: b.start_us)]
    assert lines == sorted(lines)
    with pytest.raises(LaunchError) as caught:
        tilebench.run(GEMM, target="emu:sm_80", trace_warps="all")
    assert caught.value.code == "TB617"


def test_the_warps_that_are_timed_compute_what_the_others_do() -> None:
    for target in ("emu:sm_80", "emu:sm_90a"):
        kernel = compile(programs.gemm(128, 128, 96, block_M=64, block_N=64, block_K=32), target=target)
        values = normal(kernel, 1)
        plain = [v.clone() for v in values]
        kernel.launch(plain)
        twin = Kernel(ir.with_timers(kernel.prim), kernel.target)
        words = torch.zeros(ir.words_of(kernel.prim, ir.CAPACITY), dtype=torch.int32)
        own = [v.clone() for v in values]
        twin.launch([*own, words])
        assert all(torch.equal(a, b) for a, b in zip(plain, own, strict=True))
        assert words.count_nonzero() > 20


def test_another_block_may_be_named_and_one_outside_is_refused() -> None:
    report = run("emu:sm_80", cta=(0, 1)).report
    assert report.timelines[1].note.startswith("block (0, 1)")
    with pytest.raises(LaunchError) as caught:
        run("emu:sm_80", cta=(0, 2))
    assert caught.value.code == "TB614"


def test_stamps_without_a_place_are_counted_and_said() -> None:
    kernel = compile(programs.softmax(16, 512), target="emu:sm_80")
    traced = trace_warps(kernel, normal(kernel, 0), capacity=4, each=True)
    assert traced.timeline is not None
    assert "12 stamps found no place" in traced.timeline.note  # 7 of each of 4 warps, 4 of them kept
    assert len(traced.timeline.bars) == 3


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_the_block_is_simulated_and_the_cuda_kernel_stays_as_it_was() -> None:
    plain = tilebench.run(GEMM, target="cuda:sm_90a", cell="In[1]").report
    report = run("cuda:sm_90a").report
    assert report.timelines[1].provenance == "simulated"
    assert [c.text for c in plain.code if c.level == "cuda"] == [
        c.text for c in report.code if c.level == "cuda"
    ]
    assert any(f.kind == "warps" and "an order of statements, no times" in f.text for f in report.findings)


@pytest.mark.parametrize("target", ["interp", "cpu"])
def test_where_there_are_no_warps_it_is_said_with_the_line_and_the_run_goes_on(target: str) -> None:
    report = run(target).report
    assert report.ok is True
    said = next(f for f in report.findings if "--trace-warps timed nothing" in f.text)
    assert "without warps" in said.text
    assert said.spans[0].line == 2
    assert all(t.provenance == "predicted" for t in report.timelines)


# ------------------------------------------------------------------ on a GPU


def test_what_a_gpu_gives_is_measured_and_says_what_the_timers_cost() -> None:
    cuda = compile(
        programs.attention(1, 2, 256, 640, 64, block_M=128, block_N=64, threads=256), target="cuda:sm_90a"
    )
    if not nvrtc.available():
        pytest.skip("no NVRTC here")
    twin = Kernel(ir.with_timers(cuda.prim), cuda.target)
    lowered: Lowered = twin.compilation.stage(Lowered)
    site = next(k for k, s in enumerate(lowered.program.timers) if s.what == "work")
    one = WarpStamps(0, 17, 1000, 9000, 5000, 9000, (Stretch(site, 2755, 4510),), 0)
    later = replace(one, clock_begin=1000 + 1_755_000_000, clock_end=9000 + 1_755_000_000,
                    time_begin=5000 + 10**9, time_end=9000 + 10**9,
                    stretches=(Stretch(site, 2755 + 1_755_000_000, 4510 + 1_755_000_000),))  # fmt: skip
    taken = Taken(((one,), (later,)), Times((0.100,) * 4), Times((0.103,) * 4), True, 1980.0, "a GPU", "0")
    made = summed(cuda, twin, taken, last_of(cuda.report()))
    info = made.timeline
    assert info is not None
    assert (info.provenance, info.unit, info.device) == ("measured", "us", "a GPU")
    assert info.bars[0].start_us == pytest.approx(1.0, abs=1e-3)
    assert info.bars[0].end_us == pytest.approx(2.0, abs=1e-3)
    assert info.note.startswith("block 0 on SM 17, warp 0; with timers 103 us")
    assert "SM clock 1.755 GHz, measured" in info.note
    assert "with timers 103 us, without 100 us (+3 %, medians of 4 rounds each)" in info.note
    assert made.figures["timed_ms"].provenance == "measured"
    report = with_warps(cuda.report(), made)
    assert [t.provenance for t in report.timelines] == ["predicted", "measured"]
    alone = summed(cuda, twin, replace(taken, launches=((one,),), same=False, times=None, timed=None), None)
    assert alone.timeline is not None
    assert "1.980 GHz, the highest that the driver names" in alone.timeline.note
    assert any("wrote other values" in f.text for f in alone.findings)
    assert alone.figures == {}


@pytest.mark.gpu
@pytest.mark.parametrize("name", list(REAL))
def test_on_the_gpu_bars_are_measured_and_cost_little(name: str) -> None:
    kernel = compile(REAL[name](), target="auto")
    values = [v.cuda() for v in normal(kernel, 0)]
    traced = trace_warps(kernel, values, predicted=last_of(kernel.report()))
    info = traced.timeline
    assert info is not None, traced.findings
    assert (info.provenance, info.unit) == ("measured", "us")
    assert "GHz, measured" in info.note
    assert not [f for f in traced.findings if f.severity != "info"], traced.findings
    assert len(info.bars) > 5
    end = max(b.end_us for b in info.bars)
    whole = traced.figures["untimed_ms"].value * 1e3
    assert 0 < end < 1.5 * whole
    assert traced.figures["timed_ms"].value < 1.25 * traced.figures["untimed_ms"].value
    if name != "softmax":
        products = [b for b in info.bars if b.lane == "tensor cores"]
        assert products
        assert all(b.end_us > b.start_us for b in products)
    print(info.note)
