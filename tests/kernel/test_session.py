"""`run`: a verdict that can be trusted, on every target, and every option that could not act says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import tilebench
from tilebench.errors import LaunchError, TileError
from tilebench.kernel.outputs import region
from tilebench.kernel.session import Result

GEMM = """\
@T.prim_func
def gemm(A: T.Tensor((128, 64), "float16"), B: T.Tensor((64, 128), "float16"), C: T.Tensor((128, 128), "float32")):
    with T.Kernel(2, 2, threads=128) as (bx, by):
        A_s = T.alloc_shared((64, 32), "float16")
        B_s = T.alloc_shared((32, 64), "float16")
        C_l = T.alloc_fragment((64, 64), "float32")
        for k in T.Pipelined(2, num_stages=2):
            T.copy(A[by * 64, k * 32], A_s)
            T.copy(B[k * 32, bx * 64], B_s)
            T.gemm(A_s, B_s, C_l)
        T.copy(C_l, C[by * 64, bx * 64])
"""  # noqa: E501 # the lines are numbered
ADD = """\
@T.prim_func
def add(X: T.Tensor((N,), DTYPE), Y: T.Tensor((N,), DTYPE)):
    with T.Kernel(2, threads=32) as bx:
        for i in T.Parallel(32):
            Y[bx * 32 + i] = X[bx * 32 + i] + 1
"""
TARGETS = ["interp", "cpu", "emu:sm_80", "cuda:sm_90a"]
absent = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")


def add(target: str, n: int = 64, dtype: str = "float32", **options: Any) -> Result:
    return tilebench.run(ADD, target=target, namespace={"N": n, "DTYPE": dtype}, cell="In[1]", **options)


def kinds(result: Result) -> dict[str, str]:
    return {f.kind: f.text for f in result.report.findings}


def test_interp_finds_the_accumulator_that_was_not_cleared(golden: Callable[[str, str], None]) -> None:
    with pytest.raises(TileError) as caught:
        tilebench.run(GEMM, target="interp", cell="In[1]")
    golden("errors/TB274-gemm-without-clear.txt", caught.value.render() + "\n")
    assert caught.value.at is not None
    assert caught.value.at.line == 10


@pytest.mark.parametrize("target", ["cpu", pytest.param("cuda:sm_90a", marks=absent)])
def test_a_wrong_result_comes_with_its_cause(target: str) -> None:
    report = tilebench.run(GEMM, target=target, cell="In[1]").report
    assert report.ok is False
    cause = next(f for f in report.findings if f.code == "TB274")
    assert cause.severity == "error"
    assert cause.spans[0].line == 10
    assert "C_l[0, 0] is read at line 10 before it was written" in report.verdict


def test_a_fault_of_the_target_itself_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilebench.kernel.compiled import Kernel

    launch = Kernel.launch

    def spoil(self: Kernel, values: Any, stream: int | None = None) -> None:
        launch(self, values, stream)
        values[1][3] += 1

    monkeypatch.setattr(Kernel, "launch", spoil)
    result = add("cpu")
    assert result.report.ok is False
    assert "the fault is the cpu target's own" in kinds(result)["target"]


def test_a_block_with_too_much_work_is_not_emulated_on_the_side(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilebench.kernel import checks

    monkeypatch.setattr(checks, "BLOCK_FLOPS", 10.0)
    result = tilebench.run(GEMM, target="cpu")
    assert result.report.ok is False
    assert kinds(result)["emulated"].startswith("not emulated: a block has")


def test_a_right_program_is_not_emulated_on_the_side() -> None:
    result = tilebench.run(GEMM.replace("for k", "T.clear(C_l)\n        for k"), target="cpu")
    assert result.report.ok is True
    assert "emulated" not in kinds(result)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int8", "bool"])
@pytest.mark.parametrize("target", TARGETS)
def test_an_output_that_is_partly_unwritten_never_passes(target: str, dtype: str) -> None:
    text = ADD if dtype != "bool" else ADD.replace(" + 1", "")
    namespace = {"N": 100, "DTYPE": dtype}
    report = tilebench.run(text, target=target, namespace=namespace).report
    assert report.ok is False
    assert report.verdict.startswith("36 of 100 elements of Y are never written: Y[64:100]")


def test_unwritten_elements_keep_what_they_held() -> None:
    x, y = torch.zeros(100), torch.full((100,), 7.0)
    result = add("cpu", 100, args=(x, y))
    assert result.report.ok is False
    assert y[:64].eq(1).all()
    assert y[64:].eq(7).all()


def test_a_nan_that_was_computed_is_told_from_an_element_that_was_not_written() -> None:
    result = add("cpu", args=(torch.full((64,), float("nan")),))
    assert result.report.ok is True  # NaN + 1 is NaN
    assert kinds(result)["nan"] == "64 of 64 elements of Y are NaN: Y[0:64]"


def test_regions_are_written_as_slices() -> None:
    mask = torch.zeros(8, 8, dtype=torch.bool).numpy()
    mask[2:4, 5] = True
    assert region("C", mask) == "C[2:4, 5]"
    mask[7, 7] = True
    assert region("C", mask) == "within C[2:8, 5:8], the first is C[2, 5]"


# ------------------------------------------------------------------ settings


@pytest.mark.parametrize("target", TARGETS)
def test_a_setting_reaches_the_signature(target: str) -> None:
    namespace: dict[str, Any] = {"N": 64, "DTYPE": "float32"}
    result = tilebench.run(
        ADD, target=target, namespace=namespace, settings={"N": 32 * 2, "DTYPE": "float16"}
    )
    assert result.kernel.params[0].value.dtype == "float16"
    assert result.report.ok is True
    assert namespace["DTYPE"] == "float32"
    result = tilebench.run(ADD, target=target, namespace=namespace, settings={"N": 128})
    assert result.kernel.params[0].value.static_shape == (128,)
    assert namespace["N"] == 64


def test_a_setting_wins_over_the_cells_own_assignment_and_leaves_it_alone() -> None:
    namespace: dict[str, Any] = {"DTYPE": "float32"}
    text = "N = 32 * 4\nM: int = N\n" + ADD.replace("Kernel(2", "Kernel(M // 32")
    assert tilebench.run(text, target="interp", namespace=namespace).report.ok is True
    result = tilebench.run(text, target="interp", namespace=namespace, settings={"N": 256})
    assert result.report.ok is True
    assert result.kernel.params[0].value.static_shape == (256,)
    assert namespace["N"] == 128


def test_a_setting_wins_however_the_cell_assigns_it() -> None:
    namespace: dict[str, Any] = {}
    text = "N, DTYPE = 32, 'float32'\nif DTYPE:\n    N = N * 2\nM = N\n" + ADD.replace(
        "Kernel(2", "Kernel(M // 32"
    )
    result = tilebench.run(text, target="interp", namespace=namespace, settings={"N": 96, "DTYPE": "float16"})
    assert result.report.ok is True
    assert result.kernel.params[0].value.static_shape == (96,)
    assert result.kernel.params[0].value.dtype == "float16"
    assert namespace["DTYPE"] == "float32"


@pytest.mark.parametrize(
    ("name", "hint"), [("M", "names that can be set here: DTYPE, N"), ("NN", "did you mean N?"), ("X", "N")]
)
def test_a_setting_that_nothing_reads_is_an_error(name: str, hint: str) -> None:
    with pytest.raises(TileError) as caught:
        add("interp", settings={name: 3})
    assert caught.value.code == "TB616"
    assert hint in caught.value.render()


def test_errors_of_settings_and_levels_read_well(golden: Callable[[str, str], None]) -> None:
    with pytest.raises(TileError) as caught:
        add("interp", settings={"NN": 3})
    golden("errors/TB616-setting-that-nothing-reads.txt", caught.value.render() + "\n")
    with pytest.raises(TileError) as caught:
        add("interp", check="everything")
    golden("errors/TB617-unknown-level.txt", caught.value.render() + "\n")


FACTORY = """\
def make(n, BLOCK=32):
    @T.prim_func
    def add(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(n // BLOCK, threads=32) as bx:
            for i in T.Parallel(BLOCK):
                Y[bx * BLOCK + i] = X[bx * BLOCK + i] + 1
    return add
"""
EAGER = """\
def scale(X):
    M = T.const("M")
    X: T.Tensor[[M], "float32"]
    Y = T.empty((M,), "float32")
    with T.Kernel(1, threads=32) as bx:
        for i in T.Parallel(M):
            Y[i] = X[i] * 2
    return Y
"""


def test_settings_reach_factories_and_constants() -> None:
    result = tilebench.run(FACTORY, target="interp", settings={"n": 64, "BLOCK": 16})
    assert result.report.ok is True
    assert result.report.resources.grid == (4,)
    with pytest.raises(TileError, match="did you mean BLOCK"):
        tilebench.run(FACTORY, target="interp", settings={"n": 64, "BLOK": 16})
    result = tilebench.run(EAGER, target="interp", settings={"M": 32})
    assert result.report.ok is True
    assert result.outputs[0].shape == (32,)


# ------------------------------------------------------------------ options that cannot act


@absent
def test_the_blocks_of_an_absent_gpu_are_compared_with_the_reference() -> None:
    right = add("cuda:sm_90a", ref=lambda x: x + 1)
    assert right.report.ok is True
    assert {d.against for d in right.report.diffs} == {"torch", "oracle"}
    wrong = add("cuda:sm_90a", ref=lambda x: x + 2)
    assert wrong.report.ok is False
    assert "differ from torch" in wrong.report.verdict


@absent
def test_a_part_of_the_grid_is_compared_on_the_elements_that_it_wrote() -> None:
    text = ADD.replace("Kernel(2", "Kernel(64")
    namespace = {"N": 2048, "DTYPE": "float32"}
    result = tilebench.run(text, target="cuda", namespace=namespace, ref=lambda x: x + 1)
    assert result.report.ok is True
    assert all(0 < d.checked < d.total for d in result.report.diffs)
    assert "4 of 64 blocks" in kinds(result)["emulated"]


@absent
def test_no_time_is_given_for_a_gpu_that_is_not_here() -> None:
    result = add("cuda:sm_90a", bench=5)
    assert "run_ms" not in result.report.figures
    assert "--bench timed nothing: there is no GPU here" in kinds(result)["not-done"]


def test_what_is_not_done_when_nothing_runs_is_said() -> None:
    result = add("cpu", launch=False, ref=lambda x: x, bench=3, steps=())
    said = [f.text for f in result.report.findings if f.kind == "not-done"]
    assert [t.split()[0] for t in said] == ["--ref", "--bench", "--steps"]
    result = add("cpu", launch=False, check="full")
    assert kinds(result)["not-done"] == "--check looked at nothing: the kernel was not run"
    assert kinds(add("cpu", atol=1.0))["not-done"].startswith(
        "--atol and --rtol did nothing: they are for --ref"
    )
    result = add("cpu", check="none", ref=lambda x: x)
    assert kinds(result)["not-done"] == "--ref was not compared: checking is off"
    assert result.report.verdict == "ran, not checked"
    assert result.report.ok is None


def test_levels_of_checking() -> None:
    assert "emulated" not in kinds(add("cpu", check="static"))
    assert "all 2 blocks" in kinds(add("cpu", check="sim"))["emulated"]
    assert "no race" in kinds(add("interp", check="full"))["emulated"]
    assert "no race" in kinds(add("emu:sm_80", check="full"))["emulated"]
    with pytest.raises(TileError, match="did you mean full"):
        add("cpu", check="ful")


# ------------------------------------------------------------------ figures


def test_a_bench_shows_its_median_spread_rounds_and_device() -> None:
    figure = add("cpu", bench=8).report.figures["run_ms"]
    assert figure.rounds == 8
    assert figure.low is not None
    assert figure.high is not None
    assert figure.low <= figure.value <= figure.high
    assert figure.device


@pytest.mark.parametrize(
    ("target", "name"), [("emu:sm_80", "emulator_time_ms"), ("interp", "interpreter_time_ms")]
)
@pytest.mark.parametrize("rounds", [0, 3])
def test_how_long_imitating_a_device_took_is_called_that(target: str, name: str, rounds: int) -> None:
    result = add(target, bench=rounds)
    assert "run_ms" not in result.report.figures
    figure = result.report.figures[name]
    assert (figure.provenance, figure.rounds or 0) == ("measured", rounds)
    assert figure.note.endswith("of imitating it, not a time of the kernel")
    assert "time of a run" not in str(result)
    assert name.replace("_", " ").removesuffix(" ms") in str(result)


def test_a_kernel_that_was_at_hand_says_so() -> None:
    namespace = {"N": 96, "DTYPE": "float32"}
    text = ADD.replace("Kernel(2", "Kernel(3")
    first = tilebench.run(text, target="cpu", namespace=namespace).report.figures
    again = tilebench.run(text, target="cpu", namespace=namespace).report.figures
    assert "this process" not in first["compile_ms"].note
    assert again["compile_ms"].note == "cached: compiled before in this process"
    assert again["compile_ms"].value < first["compile_ms"].value
    assert "code_ms" not in again


def test_the_bound_is_explained_where_it_is_named() -> None:
    assert "adds up" in kinds(add("cpu"))["error-bound"]
    assert "error-bound" not in kinds(add("cpu", args=(torch.ones(64),)))


def test_a_host_kernel_is_timed_by_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilebench.profiling import benchmark, gpu_timing

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("a kernel of the CPU was timed on the GPU")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(gpu_timing, "event_times", fail)
    assert benchmark.measure(lambda: None, repeat_count=3, device="cpu").median >= 0
    kernel = add("cpu").kernel
    assert kernel.get_profiler().do_bench(rep=1, warmup=1) > 0


def test_too_much_shared_memory_for_a_gpu_has_a_fix_on_the_cpu_too() -> None:
    text = """\
@T.prim_func
def big(A: T.Tensor((256, 512), "float32"), C: T.Tensor((256, 512), "float32")):
    with T.Kernel(1, threads=128) as bx:
        s = T.alloc_shared((256, 512), "float32")
        T.copy(A, s)
        T.copy(s, C)
"""
    found = next(f for f in tilebench.run(text, target="cpu").report.findings if f.kind == "gpu")
    assert found.code == "TB521"
    assert found.hint == "make s smaller"
    assert found.spans[0].line == 4


def test_the_steps_of_a_block_are_recorded() -> None:
    text = GEMM.replace("for k", "T.clear(C_l)\n        for k")
    trace = tilebench.run(text, target="cpu", steps=("C_l",), cta=(1, 1)).report.traces[0]
    assert trace.block == (1, 1)
    assert [b.name for b in trace.buffers] == ["C_l"]


LAST = """\
@T.prim_func
def late(X: T.Tensor((2048,), "float32"), Y: T.Tensor((2048,), "float32")):
    with T.Kernel(64, threads=32) as bx:
        f = T.alloc_fragment((32,), "float32")
        if bx != 37:
            T.clear(f)
        for i in T.Parallel(32):
            Y[bx * 32 + i] = X[bx * 32 + i] + f[i]
"""


def test_the_block_of_the_worst_element_is_looked_at_and_recorded() -> None:
    report = tilebench.run(LAST, target="cpu", steps=()).report
    assert report.ok is False
    cause = next(f for f in report.findings if f.code == "TB274")
    assert "block 37" in cause.text
    assert cause.spans[0].line == 8
    assert report.traces[0].block == (37,)


def test_a_run_that_fails_still_shows_its_steps() -> None:
    report = tilebench.run(GEMM, target="interp", steps=("C_l",)).report
    assert report.ok is False
    assert "read before it is written" in report.verdict
    assert report.traces[0].steps


VANISHING = """\
@T.prim_func
def vanishing(X: T.Tensor((4, 16), "float32"), Y: T.Tensor((4, 16), "float32")):
    with T.Kernel(1, threads=32) as bx:
        x = T.alloc_fragment((4, 16), "float32")
        s = T.alloc_fragment((4,), "float32")
        T.copy(X[0, 0], x)
        for i, j in T.Parallel(4, 16):
            x[i, j] = T.exp(x[i, j])
        T.reduce_sum(x, s, dim=1)
        for i, j in T.Parallel(4, 16):
            x[i, j] = x[i, j] / s[i]
        T.copy(x, Y[0, 0])
"""


def test_a_nan_where_the_reference_has_a_number_is_wrong_whatever_the_bound_of_a_zero_divisor() -> None:
    scores = torch.full((4, 16), -300.0)
    result = tilebench.run(VANISHING, args=(scores,), ref=lambda x: torch.softmax(x, dim=1), target="interp")
    assert result.report.ok is False
    assert "64 of 64 elements differ from torch" in result.report.verdict


def test_blocks_that_write_each_others_elements_are_found_without_a_gpu() -> None:
    text = """\
@T.prim_func
def race3(A: T.Tensor((64,), "float32"), C: T.Tensor((16,), "float32")):
    with T.Kernel(4, threads=64) as bx:
        for i in T.Parallel(16):
            C[i] = A[bx * 16 + i]
"""
    for target in ("cuda:sm_80", "cuda:sm_90a"):
        report = tilebench.run(text, target=target).report
        assert report.ok is False
        assert any(f.code == "TB431" for f in report.findings)


@pytest.mark.parametrize(("target", "level", "seen"), [
    ("cpu", "static", False), ("interp", "static", False), ("cpu", "sim", True), ("emu", "static", True),
    pytest.param("cuda:sm_90a", "static", True, marks=absent),
])  # fmt: skip
def test_a_verdict_says_when_nobody_looked_for_races(target: str, level: str, seen: bool) -> None:
    report = add(target, check=level).report
    assert report.ok
    assert ("; races were not looked at (--check sim does)" in report.verdict) is not seen
    unseen = [f for f in report.findings if f.kind == "races-unseen"]
    assert bool(unseen) is not seen
    assert all("--check sim" in f.hint for f in unseen)


def test_the_threads_of_a_launch_say_whose_they_are() -> None:
    from tests.kernels.programs import gemm
    from tilebench.views import summary

    kernel = tilebench.compile(gemm(256, 256, 256, block_M=128, block_N=128, block_K=64), target="cpu")
    report = kernel.report()
    rows = dict(summary.resources(report))
    assert rows["threads"].startswith(f"{report.resources.threads} a block as launched on a GPU (")
    assert "128 that only fetch tiles, the producer)" in rows["threads"]
    assert dict(summary.resources(add("cpu").report))["threads"] == "32 a block, grid 2"


def test_a_plain_function_that_returns_something_is_no_program() -> None:
    text = ADD + "\ndef expected(x):\n    return x + 1\n"
    scope: dict[str, Any] = {"N": 64, "DTYPE": "float32"}
    assert tilebench.run(text, namespace=scope, target="interp").kernel.name == "add"
    with pytest.raises(TileError, match="no tile program"):
        tilebench.run("def expected(x):\n    return x + 1\n", target="interp")
    inner = "\n".join("    " + line for line in ADD.splitlines())
    makers = f"def one(N, DTYPE='float32'):\n{inner}\n    return add\n\ndef other(N):\n    return one(N)\n"
    for name in ("one", "other", ""):
        made = tilebench.run(
            makers + "def expected(x):\n    return x\n", name=name, settings={"N": 64}, target="interp"
        )
        assert made.kernel.name == "add"


def test_what_is_right_beside_an_error_was_not_searched_for_races_either() -> None:
    text = """\
@T.prim_func
def f(X: T.Tensor((8, 8), "float32"), Y: T.Tensor((8, 8), "float32")):
    with T.Kernel(1, threads=32):
        for i, j in T.Parallel(8, 8):
            Y[0, j] = X[i, j]
"""
    report = tilebench.run(text, target="cpu").report
    assert report.ok is False
    assert report.verdict.endswith("; races were not looked at (--check sim does)")


@absent
@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64", "float8_e4m3fn", "bool"])
def test_outputs_of_every_type_come_back_from_the_emulated_blocks(dtype: str) -> None:
    result = tilebench.run(ADD.replace(" + 1", ""), target="cuda:sm_90a", namespace={"N": 64, "DTYPE": dtype})
    assert result.report.ok
    given, made = (v.view(torch.uint8) for v in result.values)
    assert torch.equal(given, made)


EMPTY = """\
n = T.dynamic("n")
@T.prim_func
def empty(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
    with T.Kernel(T.ceildiv(n, 32), threads=32) as bx:
        for i in T.Parallel(32):
            if bx * 32 + i < n:
                Y[bx * 32 + i] = X[bx * 32 + i]
"""


@pytest.mark.parametrize("target", ["interp", "cpu", "emu", "cuda:sm_90a"])
def test_a_grid_without_blocks_has_no_steps_and_no_times_and_says_so(target: str) -> None:
    args = (torch.ones(0), torch.empty(0))
    result = tilebench.run(EMPTY, args=args, target=target, steps=(), trace_warps=True)
    said = [f.text for f in result.report.findings]
    assert "--steps recorded nothing: the grid is empty" in said
    assert any(t.startswith("--trace-warps timed nothing") for t in said)


IN_TURN = """\
@T.prim_func
def in_turn(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=32) as bx:
        for i in T.Parallel(64):
            Y[i] = X[i]
    with T.Kernel(2, threads=32) as bx:
        for i in T.Parallel(32):
            Y[bx * 32 + i] = Y[bx * 32 + i] + bx
"""


def test_of_a_program_of_several_launches_the_first_is_recorded() -> None:
    for ref in (None, lambda x: x):  # the second makes block 1 of the second launch the wrong one
        args = (torch.ones(64), torch.empty(64))
        report = tilebench.run(IN_TURN, args=args, ref=ref, target="interp", steps=()).report
        assert report.ok is (ref is None)
        assert report.traces[0].block == (0,)
        assert report.traces[0].note == "the first of 2 launches"


@absent
def test_launches_that_no_gpu_and_no_emulator_ran_are_called_compiled() -> None:
    report = tilebench.run(IN_TURN, target="cuda:sm_90a").report
    assert (report.verdict, report.ok) == ("compiled, not run", None)


def test_a_reference_that_gives_no_tensor_is_told() -> None:
    for made, kind in ((None, "NoneType"), (3, "int")):
        with pytest.raises(TileError, match=f"gives {kind} for Y") as caught:
            add("interp", ref=lambda x, made=made: made)
        assert caught.value.code == "TB630"


def test_trips_that_an_argument_says_are_counted() -> None:
    text = """\
@T.prim_func
def times(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32"), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        f = T.alloc_fragment((64,), "float32")
        T.clear(f)
        for k in range(n):
            for i in T.Parallel(64):
                f[i] = f[i] + X[i]
        T.copy(f, Y)
"""
    for n in (0, 1, 50):
        args = (torch.ones(64), torch.empty(64), n)
        assert tilebench.run(text, args=args, target="interp").report.figures["flops"].value == 64 * n


def test_one_name_or_value_stands_for_a_list_of_one() -> None:
    trace = tilebench.run(
        EMPTY, args=(torch.ones(40), torch.empty(40)), target="interp", steps="Y"
    ).report.traces
    assert [b.name for b in trace[0].buffers] == ["Y"]
    names = {"N": 64, "DTYPE": "float32"}
    assert len(tilebench.sweep(ADD, {"DTYPE": "float16"}, target="interp", namespace=names).points) == 1


def test_blocks_are_named_by_numbers() -> None:
    for cta in (("a",), "x", (None,)):
        with pytest.raises(LaunchError, match="whole numbers"):
            add("interp", steps=(), cta=cta)
