"""What-if: predictions without a compile, reasons for what is illegal, the compile behind, points that are
kept.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

import tilebench
import tilebench.language as T
from tests.kernels import programs
from tilebench import config
from tilebench.codec import to_json
from tilebench.errors import LaunchError
from tilebench.kernel.compiling import Cancelled, Compile
from tilebench.kernel.whatif import WhatIf, whatif
from tilebench.kernel.whatif_panel import Panel
from tilebench.report import REPORT_MIME, Report, from_json
from tilebench.views.whatif import html as whatif_html

nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
SMALL = {"M": 256, "N": 256, "K": 256}


@pytest.fixture(autouse=True)
def own_store(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with config.using(cache_dir=tmp_path_factory.mktemp("store"), target="cuda:sm_90a"):
        yield


def gemm(**values: Any) -> WhatIf:
    return whatif(programs.gemm, **{**SMALL, "block_M": 64, "block_N": 64, **values})


def microseconds(point: Any) -> float:
    assert point.point is not None
    assert point.point.time_us.provenance == "predicted"
    return point.point.time_us.value


def test_tunables_are_found_by_name_and_default() -> None:
    choices = whatif(programs.gemm, **SMALL).choices
    assert choices["num_stages"] == (1, 2, 3, 4, 5)
    assert choices["block_M"] == (32, 64, 128, 256)
    assert choices["threads"] == (64, 128, 256, 384, 512)
    assert choices["dtype"] == ("float16", "bfloat16", "float32")
    assert not {"M", "N", "K", "out_dtype", "transpose_A"} & set(choices)


def test_given_lists_are_the_tunables_and_the_value_in_force_is_among_them() -> None:
    w = gemm(num_stages=[2, 4], block_K=[16, 64])
    assert w.choices == {"num_stages": (2, 3, 4), "block_K": (16, 32, 64)}
    assert w.base == {"num_stages": 3, "block_K": 32}


def test_a_prediction_compiles_nothing_and_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Compile, "wait", lambda self: pytest.fail("compiled"))
    w = gemm()
    w.predict()
    seconds: list[float] = []
    for stages in (2, 5, 4):
        start = time.process_time()
        point = w.predict(num_stages=stages)
        seconds.append(time.process_time() - start)
    assert min(seconds) < 1.0
    assert point.state == "predicted"
    assert 0 <= point.resources.shared_bytes - 4 * 2 * 64 * 32 * 2 < 1024  # tiles, then barriers
    assert point.resources.grid == (4, 4)
    assert point.resources.occupancy is not None
    assert microseconds(point) > 2.5
    assert w.predict(num_stages=4) is point


def test_what_is_illegal_says_why() -> None:
    w = whatif(programs.gemm, M=256, N=256, K=1024, block_K=128, num_stages=[2, 3, 8])
    point = w.predict(num_stages=8)
    assert point.state == "illegal"
    assert "shared memory" in point.reason
    assert point.point is None
    assert point in [p for _, _, p in w.neighbours(w.base)]


def test_an_assertion_of_the_factory_is_a_reason() -> None:
    def make(M: int = 256, block_M: int = 64) -> Any:
        assert block_M <= 64, "a block has at most 64 rows"
        return programs.softmax(M, 512, block_M=block_M)

    tilebench.jit(make)
    point = whatif(make, block_M=[64, 128]).predict(block_M=128)
    assert (point.state, point.reason) == ("illegal", "AssertionError: a block has at most 64 rows")


def test_the_compile_gives_the_log_s_registers_and_is_found_again_in_the_store() -> None:
    w = gemm(num_stages=[2, 3])
    jobs: list[Compile] = []
    point = w.compile(begun=jobs.append, num_stages=2)
    assert point.state == "compiled"
    assert point.resources.registers is not None
    assert point.resources.spill_bytes == 0
    assert len(jobs) == 1
    kernel = tilebench.compile(programs.gemm(**SMALL, block_M=64, block_N=64, num_stages=2))
    assert kernel.executable.built.cached, "the worker's binary is in the store"
    assert kernel.executable.built.registers == point.resources.registers
    gemm(num_stages=[2, 3]).compile(begun=jobs.append, num_stages=2)
    assert len(jobs) == 1, "no second process"


def test_a_compile_can_be_ended() -> None:
    job = Compile('extern "C" __global__ void f() {}', "sm_90a")
    threading.Timer(0.05, job.cancel).start()
    with pytest.raises(Cancelled):
        job.wait()
    with pytest.raises(Cancelled):
        job.wait()


def test_what_nvrtc_refuses_comes_back_as_its_error() -> None:
    with pytest.raises(tilebench.TileError, match="TB903") as error:
        Compile("this is not C", "sm_90a").wait()
    assert error.value.code == "TB903"


def test_kept_points_are_on_the_roofline_and_on_the_card() -> None:
    w = gemm(num_stages=[2, 3], block_K=[32, 64])
    w.compile()
    w.keep(num_stages=2)
    report = w.keep(block_K=64)
    assert report.figures["predicted_us"].value > 0
    shown = w.report()
    assert shown.roofline is not None
    assert [p.config for p in shown.roofline.points] == [
        "num_stages=3, block_K=32", "num_stages=2, block_K=32", "num_stages=3, block_K=64",
    ]  # fmt: skip
    assert shown.compare is not None
    changed = {d.what: (d.before, d.after) for d in shown.compare.deltas}
    assert changed["block_K"] == ("32", "64")
    assert "registers a thread" in changed or "shared bytes" in changed
    assert [p.kept for p in shown.whatif.tried if p.config["block_K"] == "64"] == [True]  # type: ignore[union-attr]
    assert len(json.dumps(to_json(shown))) <= 256_000
    assert to_json(from_json(Report, to_json(shown))) == to_json(shown)


def test_an_illegal_point_cannot_be_kept() -> None:
    w = whatif(programs.gemm, M=256, N=256, K=1024, block_K=128, num_stages=[2, 3, 8])
    with pytest.raises(ValueError, match="cannot be kept: "):
        w.keep(num_stages=8)


def test_a_sweep_predicts_every_combination_best_first() -> None:
    points = gemm(num_stages=[2, 3], block_K=[32, 64]).sweep()
    assert len(points) == 4
    times = [microseconds(p) for p in points]
    assert times == sorted(times)


def test_the_model_and_the_slider_say_the_same_time() -> None:
    w = gemm(num_stages=[2, 3])
    kernel = tilebench.compile(programs.gemm(**SMALL, block_M=64, block_N=64))
    roofline = kernel.report().roofline
    assert roofline is not None
    assert microseconds(w.compile()) == pytest.approx(roofline.predicted_us)
    drawn = w.report().timelines[0]
    assert drawn.total_us == pytest.approx(microseconds(w.predict()), rel=0.2)


def test_a_kernel_of_a_factory_knows_what_it_came_from() -> None:
    make = tilebench.jit(programs.gemm)
    kernel = make.compile(256, 256, 256, block_M=64, block_N=64)
    w = tilebench.whatif(kernel, num_stages=[2, 3])
    assert w.base == {"num_stages": 3}
    assert w.factory.config["block_M"] == 64
    assert w.report().id == kernel.report().id, "one bus"


def test_configurations_of_an_autotuned_function_are_what_is_offered() -> None:
    configs = [{"num_stages": s, "block_K": k} for s in (2, 3) for k in (32, 64)]
    tuned = tilebench.autotune(configs=configs)(tilebench.jit(programs.gemm))
    assert whatif(tuned, **SMALL).choices == {"num_stages": (2, 3), "block_K": (32, 64)}


ROWS = 8


@T.prim_func
def doubled(X: T.Tensor((256, 128), "float32"), Y: T.Tensor((256, 128), "float32")):
    with T.Kernel(256 // ROWS, threads=128) as bx:
        x = T.alloc_fragment((ROWS, 128), "float32")
        T.copy(X[bx * ROWS, 0], x)
        for i, j in T.Parallel(ROWS, 128):
            x[i, j] = 2 * x[i, j]
        T.copy(x, Y[bx * ROWS, 0])


def test_a_program_that_reads_its_tunables_from_around_it_is_read_again() -> None:
    w = whatif(doubled, ROWS=[4, 8, 16])
    assert [w.predict(ROWS=n).resources.grid for n in (4, 8, 16)] == [(64,), (32,), (16,)]


def test_what_has_nothing_to_change_or_is_misspelt_is_said() -> None:
    with pytest.raises(LaunchError, match="TB641") as error:
        whatif(programs.gemm, **SMALL, blok_M=[64])
    assert "did you mean 'block_M'" in error.value.render() or "block_M" in error.value.render()
    with pytest.raises(LaunchError, match="TB640"):
        whatif(3)
    with pytest.raises(LaunchError, match="TB602"):
        whatif(programs.gemm, M=256)
    with pytest.raises(ValueError, match="not offered"):
        gemm(num_stages=[2, 3]).predict(num_stages=7)


def test_plain_text_has_a_line_for_each_point_and_says_that_it_is_predicted() -> None:
    w = gemm(num_stages=[2, 3])
    w.predict(num_stages=2)
    lines = repr(w).splitlines()
    assert len(lines) == 3
    assert all("predicted" in line for line in lines[1:])
    with config.using(static=True):
        data, _ = w._repr_mimebundle_()
    assert {"text/plain", "image/png", REPORT_MIME} == set(data)


# ------------------------------------------------------------------ the live side


class Heard:
    """The messages that a panel sent, with waiting for one of a kind."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.condition = threading.Condition()

    def __call__(self, message: dict[str, Any]) -> None:
        with self.condition:
            self.messages.append(message)
            self.condition.notify_all()

    def wait(self, kind: str, where: Callable[[dict[str, Any]], bool] = lambda m: True) -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            return next((m for m in self.messages if m["kind"] == kind and where(m)), None)

        with self.condition:
            assert self.condition.wait_for(lambda: found() is not None, 60), [
                m["kind"] for m in self.messages
            ]
            made = found()
        assert made is not None
        return made


def test_a_move_is_answered_at_once_then_its_neighbours_then_the_compile() -> None:
    heard = Heard()
    panel = Panel(gemm(num_stages=[2, 3], block_K=[32, 64]), heard)
    panel.hear({"kind": "move", "config": {"num_stages": "2", "block_K": "32"}})
    assert heard.messages[0]["kind"] == "point", "before hear returns"
    around = heard.wait("around")
    assert set(around["values"]) == {"num_stages", "block_K"}
    assert around["values"]["block_K"]["64"]["us"] > 0
    done = heard.wait("compiled")
    assert done["point"]["state"] == "compiled"
    kinds = [m["kind"] for m in heard.messages]
    assert kinds == ["point", "around", "compiling", "compiled"]


def test_the_next_move_ends_what_was_behind_the_last() -> None:
    heard = Heard()
    panel = Panel(gemm(num_stages=[2, 3, 4]), heard)
    panel.hear({"kind": "move", "config": {"num_stages": "2"}})
    first = panel.thread
    panel.hear({"kind": "move", "config": {"num_stages": "4"}})
    done = heard.wait("compiled")
    assert done["point"]["config"] == {"num_stages": "4"}
    assert first is not None
    first.join(30)
    compiled = [m for m in heard.messages if m["kind"] == "compiled"]
    assert len(compiled) == 1


def test_keep_answers_with_the_roofline_and_the_card() -> None:
    heard = Heard()
    panel = Panel(gemm(num_stages=[2, 3]), heard)
    panel.hear({"kind": "keep", "config": {"num_stages": "2"}})
    kept = heard.wait("kept")
    assert len(kept["roofline"]["points"]) == 2
    assert kept["compare"]["deltas"]
    assert [p["kept"] for p in kept["whatif"]["tried"]] == [False, True]


def test_what_is_compiled_already_is_kept_without_a_compile() -> None:
    heard = Heard()
    w = gemm(num_stages=[2, 3])
    w.compile()
    w.compile(num_stages=2)
    Panel(w, heard).hear({"kind": "keep", "config": {"num_stages": "2"}})
    heard.wait("kept")
    assert [m["kind"] for m in heard.messages] == ["kept"]


def test_the_output_that_is_saved_has_what_was_tried_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    import IPython.display

    shown: list[dict[str, Any]] = []

    class Handle:
        def update(self, data: dict[str, Any], **given: Any) -> None:
            assert given["raw"]
            shown.append(data)

    def display(data: dict[str, Any], **given: Any) -> Handle:
        assert given["raw"]
        assert given["display_id"]
        shown.append(data)
        return Handle()

    monkeypatch.setattr(IPython.display, "display", display)
    w = gemm(num_stages=[2, 3, 4])
    w._ipython_display_()
    w.keep(num_stages=2)

    def saved() -> list[tuple[dict[str, str], bool]]:
        info = from_json(Report, shown[-1][REPORT_MIME]["report"]).whatif
        assert info is not None
        return [(dict(p.config), p.kept) for p in info.tried]

    assert saved() == [({"num_stages": "3"}, False), ({"num_stages": "2"}, True)]
    heard = Heard()
    w.panel._send = heard
    w.panel.hear({"kind": "move", "config": {"num_stages": "4"}})
    heard.wait("compiled")
    assert ({"num_stages": "4"}, False) in saved()
    assert "num_stages=4: compiled" in shown[-1]["text/plain"]


def test_threads_that_the_compiler_adds_are_told_from_those_of_the_program() -> None:
    point = gemm(num_stages=[2, 3], threads=128).predict()
    assert point.program_threads == 128 <= point.resources.threads


@pytest.mark.parametrize(
    "message",
    [
        None, 7, "move", [], {}, {"kind": "move"}, {"kind": "eval", "config": {}},
        {"kind": "move", "config": {"num_stages": "99"}}, {"kind": "move", "config": {"__class__": "x"}},
        {"kind": "keep", "config": "num_stages"},
    ],
)  # fmt: skip
def test_a_hostile_message_is_refused_in_words(message: object) -> None:
    heard = Heard()
    panel = Panel(gemm(num_stages=[2, 3]), heard)
    panel.hear(message)
    assert [m["kind"] for m in heard.messages] == ["error"]
    assert panel.thread is None


# ------------------------------------------------------------------ run and measure

absent = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")


def product(a: Any, b: Any) -> Any:
    return a.float() @ b.float()


def small(**options: Any) -> WhatIf:
    return whatif(programs.gemm, M=64, N=64, K=64, block_M=32, block_N=32, num_stages=[1, 2], **options)


@absent
def test_a_point_is_run_checked_and_measured_on_this_machine() -> None:
    w = small(ref=product)
    steps: list[str] = []
    point = w.measure(said=steps.append, num_stages=2)
    assert point.measured is not None
    assert point.measured.provenance == "measured"
    assert point.measured.unit in ("us", "ms")
    assert "not the one of the prediction" in point.measured.note
    assert point.measured.device
    assert point.measured.value > 0
    assert "made-up inputs" in point.measured.note
    assert point.ok is True
    assert point.verdict.startswith("correct against torch")
    assert point.point is not None, "the prediction stays beside it"
    assert steps[:3] == ["compiling", "running", "comparing"]
    assert set(steps[3:]) == {"timing"}
    assert ", right" in repr(w)
    assert "measured on" in whatif_html(w.report())


@absent
def test_it_runs_with_the_inputs_of_the_call_and_leaves_them_alone() -> None:
    with config.using(target="cpu"):
        kernel = tilebench.jit(programs.gemm).compile(64, 64, 64, block_M=32, block_N=32)
        a, b = torch.randn(64, 64).half(), torch.randn(64, 64).half()
        c = torch.zeros(64, 64).half()
        kernel(a, b, c)
        done = c.clone()
        w = whatif(kernel, num_stages=[1, 2], ref=product)
        point = w.measure(num_stages=1)
    assert point.measured is not None
    assert "the inputs of its call" in point.measured.note
    assert point.ok is True
    assert torch.equal(c, done)
    del a, b, c, w
    assert not whatif(kernel, num_stages=[1, 2]).inputs.by_name, "tensors do not live longer for it"


@absent
def test_a_wrong_result_says_so_and_is_timed_all_the_same() -> None:
    point = small(ref=lambda a, b: product(a, b) + 1).measure()
    assert point.ok is False
    assert "is wrong" in point.verdict
    assert point.measured is not None


@absent
def test_what_goes_wrong_is_said_and_nothing_is_lost() -> None:
    w = small()
    before = w.measure()
    assert before.measured is not None
    w.ref = lambda a, b: a.nonsense()
    after = w.measure()
    assert "the reference failed" in after.problem
    assert after.measured == before.measured
    assert after.point == before.point
    w.ref = None
    assert w.measure().problem == ""
    given = small(args=[torch.zeros(3)])
    assert "arguments" in given.measure().problem


@absent
def test_a_run_ends_between_its_steps() -> None:
    w = small()
    steps: list[str] = []
    with pytest.raises(Cancelled):
        w.measure(said=steps.append, ended=lambda: "running" in steps)
    assert steps == ["compiling", "running"]
    assert w.predict().measured is None


@absent
def test_a_launch_of_minutes_is_not_begun_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilebench.profiling import cpu_peaks

    monkeypatch.setattr(cpu_peaks, "peaks", lambda: (1e-6, 1.0))
    assert "would take at least" in small().measure().problem


@absent
def test_the_panel_measures_behind_and_stop_ends_it() -> None:
    heard = Heard()
    panel = Panel(small(), heard)
    config_ = {"num_stages": "2"}
    panel.hear({"kind": "measure", "config": config_})
    made = heard.wait("measured")["point"]
    assert made["measured"]["provenance"] == "measured"
    assert made["config"] == config_
    texts = [m["text"] for m in heard.messages if m["kind"] == "running"]
    assert texts[0] == "compiling"
    assert "timing" in texts

    def stop(message: dict[str, Any]) -> None:
        heard(message)
        if message.get("text") == "running" and message["config"] == {"num_stages": "1"}:
            panel.stop()

    panel._send = stop
    panel.hear({"kind": "measure", "config": {"num_stages": "1"}})
    assert heard.wait("cancelled")["config"] == {"num_stages": "1"}
    assert panel.thread is not None
    panel.thread.join(60)


@pytest.mark.gpu
def test_on_a_gpu_the_compiled_candidate_is_measured() -> None:
    with config.using(target="auto"):
        point = gemm(num_stages=[2, 3], ref=product).measure(num_stages=2)
    assert point.state == "compiled"
    assert point.measured is not None, point.problem
    assert point.ok is True


@pytest.mark.parametrize("values", [[], range(1000)])
def test_a_slider_has_one_place_to_sixty_four(values: Any) -> None:
    with pytest.raises(LaunchError, match="values to slide over"):
        gemm(block_M=values)
