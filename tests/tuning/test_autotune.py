"""`tilebench.autotune` from the decorator to the kernel: on the CPU measured in worker processes, on a GPU
that is not here predicted, and on one that is made up measured with its events.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tilebench
import tilebench.language as T
from tests.profiling.timed_cuda import TimedCuda
from tests.tuning import programs
from tilebench.autotuner import AutoTuner, set_autotune_inputs
from tilebench.backends.cuda import driver
from tilebench.backends.cuda.driver import Gpu
from tilebench.errors import LaunchError
from tilebench.kernel.program import define
from tilebench.kernel.target import gpu_arch
from tilebench.profiling.gpu_timing import EventTimer
from tilebench.targets import parse
from tilebench.tuning import tuner
from tilebench.tuning.bench import Bench, Rule
from tilebench.tuning.job import Job
from tilebench.tuning.tuner import Options, tune

QUICK: dict[str, Any] = {"warmup": 0, "rep": 1, "workers": 1}


def tuned(factory: Any, configs: Any, target: str = "cpu", **options: Any) -> Any:
    jitted = tilebench.jit(out_idx=[-1], target=target)(factory)
    return tilebench.autotune(configs=configs, **{**QUICK, **options})(jitted)


def test_every_kind_of_candidate_gets_its_word(tmp_path: Path) -> None:
    """One process is brought down, one raises, one does not compile: the rest are measured all the same."""
    function = tuned(programs.fragile, {"B": [8, 16, 32, 48, 64]}, log=tmp_path / "log.jsonl")
    kernel = function(64)
    by_tile = {t.config["B"]: t for t in kernel.tuning}
    assert by_tile[8].state == "failed"
    assert "no such tile" in by_tile[8].reason
    assert by_tile[32].state == "crashed"
    assert "signal 11" in by_tile[32].reason
    assert by_tile[48].state == "failed"
    assert by_tile[48].reason.startswith("[TB101] unknown name nothing")
    assert {by_tile[16].state, by_tile[64].state} <= {"measured", "slow"}
    assert kernel.config in ({"B": 16}, {"B": 64})
    assert kernel.latency == by_tile[kernel.config["B"]].latency_ms > 0
    assert kernel.tuning.rows()[0][0] == "best"
    assert "crashed: the compile" in repr(kernel.tuning)
    x = np.arange(64, dtype=np.float32)
    assert np.array_equal(kernel(x), x + 1)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert {line["state"] for line in lines} >= {"failed", "crashed", "measured"}


def test_a_second_run_measures_nothing_and_a_third_only_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log.jsonl"
    first = tuned(programs.scale, {"B": [16, 32]}, log=log, early_stop=False)(64)
    with monkeypatch.context() as patch:
        patch.setattr(tuner, "_runner", None)  # a run that measures would fail
        patch.setattr(tuner, "Compilers", None)
        second = tuned(programs.scale, {"B": [16, 32]}, log=log)(64)
    assert second.config == first.config
    assert second.latency == first.latency
    assert all(t.remembered for t in second.tuning)
    third = tuned(programs.scale, {"B": [16, 32, 64]}, log=log, early_stop=False)(64)
    assert [t.remembered for t in third.tuning][:2].count(False) <= 1, (
        "at most the best met the new one again"
    )
    assert third.tuning[2].state == "measured"
    other = tuned(programs.scale, {"B": [16]}, log=log)(128)
    assert not other.tuning[0].remembered, "another size is another key"


def test_a_function_that_moves_in_its_file_keeps_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    text = Path(programs.__file__).read_text(encoding="utf-8")
    found = []
    for lines in ("", "\n\n\n"):
        scope: dict[str, Any] = {"__name__": "moved"}
        define(lines + text, scope, "scale")
        found.append(tuned(scope["scale"], {"B": [16]}, "interp", log=log)(64).tuning[0].remembered)
    assert found == [False, True]


def test_wrong_candidates_are_found_by_the_oracle_or_by_the_reference() -> None:
    kernel = tuned(programs.half, {"B": [16, 64]}, log=False)(64)
    assert kernel.config == {"B": 64}
    assert "48 of 64 elements of Y are never written" in kernel.tuning[0].reason
    function = tuned(programs.scale, {"shift": [1, 0]}, log=False, ref_prog=lambda x: 3 * x, supply_type=None)
    kernel = function(64)
    assert kernel.config == {"shift": 0}
    assert kernel.tuning[0].state == "wrong"
    assert "64 of 64 elements of Y differ from the reference" in kernel.tuning[0].reason
    assert kernel.ref_latency is not None
    assert kernel.ref_latency > 0


def test_nothing_that_works_is_an_error_with_the_reasons() -> None:
    function = tuned(programs.half, {"B": [16, 32]}, "interp", log=False)
    with pytest.raises(RuntimeError, match=r"TB644(?s:.*)never written") as caught:
        function(64)
    assert isinstance(caught.value, LaunchError)


def test_a_program_that_cannot_be_sent_is_tuned_in_threads_with_a_reason() -> None:
    weights = torch.ones(64)

    def make(n: int = 64, B: int = 16) -> Any:
        size = weights.numel()

        @T.prim_func
        def body(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):  # type: ignore[valid-type]
            with T.Kernel(size // B, threads=32) as bx:
                for i in T.Parallel(B):
                    Y[bx * B + i] = X[bx * B + i]

        return body

    with pytest.warns(UserWarning, match="weights is a Tensor"):
        kernel = tuned(make, {"B": [16, 32]})(64)
    assert "measured in this process" in kernel.tuning.notes[0]
    assert kernel.latency > 0


def test_an_eager_function_is_tuned_for_the_shapes_of_its_tensors() -> None:
    @tilebench.autotune(configs={"B": [16, 32]}, log=False, isolate=False, **QUICK)
    @tilebench.jit(target="cpu")
    def add_one(X, B: int = 16):  # type: ignore[no-untyped-def]
        n = T.const("n")
        X: T.Tensor((n,), "float32")  # type: ignore[valid-type]
        Y = T.empty((n,), "float32")
        with T.Kernel(n // B, threads=32) as bx:
            for i in T.Parallel(B):
                Y[bx * B + i] = X[bx * B + i] + 1.0
        return Y

    x = torch.arange(64, dtype=torch.float32)
    assert torch.equal(add_one(x), x + 1)
    first = add_one.tuning
    assert torch.equal(add_one(x + 1), x + 2)
    assert add_one.tuning is first, "the same shape is tuned once"
    assert torch.equal(add_one(torch.ones(128)), torch.full((128,), 2.0))
    assert add_one.tuning is not first
    last = add_one.tuning
    assert torch.equal(add_one(x, B=32), x + 1)
    assert add_one.tuning is last, "a tunable that is passed skips the tuning"


def test_a_scalar_needs_a_value_even_when_everything_is_remembered(tmp_path: Path) -> None:
    def factory(B: int = 16) -> Any:
        @T.prim_func
        def body(X: T.Tensor((64,), "float32"), s: T.float32):  # type: ignore[valid-type]
            with T.Kernel(64 // B, threads=32) as bx:
                for i in T.Parallel(B):
                    X[bx * B + i] += s

        return body

    def fresh() -> Any:
        jitted = tilebench.jit(target="cpu")(factory)
        return tilebench.autotune(configs={"B": [16, 32]}, log=tmp_path / "log", **QUICK)(jitted)

    with pytest.raises(ValueError, match="set_autotune_inputs"):
        fresh()()
    with set_autotune_inputs(torch.zeros(64), 0.1):
        assert fresh()().latency is not None
    with pytest.raises(ValueError, match="set_autotune_inputs"):
        fresh()()


def test_some_parameters_do_not_call_for_another_tuning() -> None:
    function = tuned(programs.scale, {"B": [16, 32]}, log=False, do_not_specialize=["n"])
    first = function(64)
    assert first.latency is not None
    trials = function.tuning
    other = function(n=128)
    assert function.tuning is trials, "the size is not specialised"
    assert other.config == first.config
    assert other.latency is None, "nothing was measured at this size"
    x = np.arange(128, dtype=np.float32)
    assert np.array_equal(other(x), programs.SCALE * x)
    assert function(64) is first
    assert len(function._tuner_cache) == 1
    with pytest.raises(TypeError, match="no option"):
        tuned(programs.scale, {"B": [16]}, do_not_specialise=["n"])


def test_configurations_may_hold_pass_configs() -> None:
    key = tilebench.PassConfigKey.TL_DISABLE_VECTORIZE_256
    configs = [{"B": 16, "pass_configs": {"TB_PERSISTENT": True}}, {"B": 16, "pass_configs": {}}]
    kernel = tuned(programs.scale, configs, "interp", log=False)(64)
    assert len(kernel.tuning) == 2
    assert kernel.prim.attributes["pass_configs"] == kernel.config["pass_configs"]
    assert key.name not in kernel.prim.attributes["pass_configs"]


def test_a_gpu_that_is_absent_is_predicted_and_nothing_is_called_measured() -> None:
    if gpu_arch() is not None:
        pytest.skip("there is a GPU here, so candidates are measured")
    kernel = tuned(programs.scale, {"B": [32, 64]}, "cuda:sm_90a", log=False)(4096)
    assert kernel.latency is None
    assert all(t.predicted_us and t.latency_ms is None for t in kernel.tuning)
    assert kernel.config == dict(min(kernel.tuning, key=lambda t: t.predicted_us).config)
    assert "nothing was measured" in kernel.tuning.notes[0]


def test_a_gpu_is_measured_with_its_events(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A made-up GPU whose kernels take 10 us and 1 us a block: the fewest blocks win."""
    if gpu_arch() is not None:  # asked before the driver is replaced: the answer is kept
        pytest.skip("tensors of the CPU are for a GPU that is not there")
    api = TimedCuda(lambda grid: 10.0 + grid[0])
    api.argument_sizes = [8, 8]
    gpu = Gpu(api)
    monkeypatch.setattr(driver, "gpu", lambda: gpu)
    function = tilebench.jit(out_idx=[-1], target="cuda:sm_90a")(programs.scale)
    job = Job(function, (4096,), {}, parse("cuda:sm_90a"), "Fake H200")
    configs = [{"B": 32}, {"B": 128}, {"B": 64}]
    timer = EventTimer(0, driver=gpu)
    bench = Bench(
        lambda number: job.kernel(configs[number]),
        [torch.zeros(4096)],
        rule=Rule("none"),
        watch=lambda run, device: lambda: timer.milliseconds(run),
    )
    found = tune(job, configs, Options(log=tmp_path / "log.jsonl", workers=2), bench)
    assert found.best == 1
    assert found[1].latency_ms == pytest.approx((10 + 32) / 1e3)
    assert {t.state for t in found} <= {"measured", "slow"}
    assert [t.latency_ms for t in found] == pytest.approx([0.138, 0.042, 0.074])
    assert all(t.predicted_us and t.registers for t in found)


def test_inputs_of_the_users_own_are_what_is_measured_on() -> None:
    seen: list[Any] = []

    def reference(x: Any) -> Any:
        seen.append(x)
        return 3 * x

    own = torch.full((64,), 7.0)
    with set_autotune_inputs(own):
        tuned(programs.scale, {"B": [16]}, "interp", log=False, ref_prog=reference)(64)
    assert all(torch.equal(x, own) for x in seen)


def test_the_tuner_as_an_object() -> None:
    result = (
        AutoTuner.from_kernel(kernel=programs.scale, configs=[{"B": 16}, {"B": 32}])
        .set_compile_args(out_idx=[-1], target="interp")
        .set_profile_args(ref_prog=lambda x: 3 * x)
        .run(warmup=0, rep=1)
    )
    assert result.config in ({"B": 16}, {"B": 32})
    assert result.latency is not None
    assert result.kernel is not None
    assert torch.equal(result.kernel(torch.ones(64)), torch.full((64,), 3.0))


def test_an_option_that_there_is_not_is_refused() -> None:
    with pytest.raises(TypeError, match="no option 'raep'"):
        tilebench.autotune(configs=[{}], raep=1)
