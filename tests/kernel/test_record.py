"""`record`: what a block did, step by step, at both levels; references, conditions, limits."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest

import tilebench
import tilebench.language as T
from tilebench.codec import to_json
from tilebench.errors import LaunchError, TileError
from tilebench.kernel.record import Moment, Recording, record, steps_on, trace_of, with_traces
from tilebench.kernel.session import run
from tilebench.kernel.writers import block_of
from tilebench.report import Report, from_json
from tilebench.views import trace as codec
from tilebench.views.step import lean
from tilebench.views.widget import packed

KEYS, DIM, TILE = 512, 64, 64
SCALE = (1.0 / DIM) ** 0.5 * 1.44269504


def attention(rescale: bool = True, start: float = -1e30) -> Any:
    """Online softmax over eight tiles; without `rescale` the accumulator does not follow the maximum."""

    @T.prim_func
    def online_softmax(
        Q: T.Tensor((TILE, DIM), "float16"),
        K: T.Tensor((KEYS, DIM), "float16"),
        V: T.Tensor((KEYS, DIM), "float16"),
        O: T.Tensor((TILE, DIM), "float16"),
    ):
        with T.Kernel(1, threads=128) as bx:
            Q_s = T.alloc_shared((TILE, DIM), "float16")
            K_s = T.alloc_shared((TILE, DIM), "float16")
            V_s = T.alloc_shared((TILE, DIM), "float16")
            s = T.alloc_fragment((TILE, TILE), "float32")
            p = T.alloc_fragment((TILE, TILE), "float16")
            acc = T.alloc_fragment((TILE, DIM), "float32")
            m = T.alloc_fragment((TILE,), "float32")
            m_old = T.alloc_fragment((TILE,), "float32")
            alpha = T.alloc_fragment((TILE,), "float32")
            row = T.alloc_fragment((TILE,), "float32")
            l = T.alloc_fragment((TILE,), "float32")
            T.copy(Q[bx * TILE, 0], Q_s)
            T.fill(acc, 0)
            T.fill(l, 0)
            T.fill(m, start)
            T.fill(s, 0)
            for k in T.Pipelined(KEYS // TILE, num_stages=2):
                T.copy(K[k * TILE, 0], K_s)
                T.clear(s)
                T.gemm(Q_s, K_s, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(m, m_old)
                T.reduce_max(s, m, dim=1, clear=False)
                for i in T.Parallel(TILE):
                    alpha[i] = T.exp2(m_old[i] * SCALE - m[i] * SCALE)
                for i, j in T.Parallel(TILE, TILE):
                    s[i, j] = T.exp2(s[i, j] * SCALE - m[i] * SCALE)
                T.reduce_sum(s, row, dim=1)
                for i in T.Parallel(TILE):
                    l[i] = l[i] * alpha[i] + row[i]
                T.copy(s, p)
                if rescale:
                    for i, j in T.Parallel(TILE, DIM):
                        acc[i, j] = acc[i, j] * alpha[i]
                T.copy(V[k * TILE, 0], V_s)
                T.gemm(p, V_s, acc, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(TILE, DIM):
                acc[i, j] = acc[i, j] / l[i]
            T.copy(acc, O[bx * TILE, 0])

    return online_softmax


@cache
def inputs() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    shapes = ((TILE, DIM), (KEYS, DIM), (KEYS, DIM))
    return (*(rng.standard_normal(s).astype(np.float16) for s in shapes), np.zeros((TILE, DIM), np.float16))


@cache
def kernel(rescale: bool = True, start: float = -1e30) -> tilebench.Kernel:
    return tilebench.compile(attention(rescale, start), target="emu:sm_80")


@cache
def recorded(
    level: str = "tile", rescale: bool = True, start: float = -1e30, reference: Any = None
) -> Recording:
    chosen = "thread" if level == "thread" else "tile"
    return record(kernel(rescale, start), *inputs(), level=chosen, reference=reference)


def truth(moment: Moment) -> dict[str, np.ndarray] | None:
    """m, l and acc after an iteration, as the definition of softmax has them."""
    if moment.op != "gemm" or "p" not in moment.values or np.isnan(moment.values["acc"]).all():
        return None
    if np.isnan(moment.values["p"]).any() or moment.line != GEMM_LINE:
        return None
    q, keys, v = (moment.inputs[n].astype(np.float64) for n in ("Q", "K", "V"))
    seen = TILE * (moment.at["k"] + 1)
    scores = q @ keys[:seen].T
    m = scores.max(axis=1)
    weights = np.exp2((scores - m[:, None]) * SCALE)
    return {"m": m, "l": weights.sum(axis=1), "acc": weights @ v[:seen]}


def line_of(rec: Recording, text: str) -> int:
    return next(s.line for s in rec.trace.sites if text in s.text)


GEMM_LINE = line_of(recorded(), "T.gemm(p, V_s, acc")


# ------------------------------------------------------------------ tile level


def test_the_last_step_leaves_what_the_kernel_computes() -> None:
    rec = recorded()
    values = [x.copy() for x in inputs()]
    tilebench.compile(attention(), target="interp")(*values)
    np.testing.assert_array_equal(rec.value("O"), values[3].astype(float))
    assert not inputs()[3].any(), "the arguments are left alone"


def test_steps_name_line_statement_and_loop_variables() -> None:
    rec = recorded()
    assert len(rec.steps) == 6 + 8 * 13 + 1
    sites = [rec.trace.sites[s.site] for s in rec.steps]
    scores = [k for k, s in enumerate(sites) if s.text.startswith("T.gemm(Q_s")]
    assert [rec.steps[k].at for k in scores] == [(k,) for k in range(8)]
    rescale = sites[steps_on(rec.trace, line_of(rec, "acc[i, j] = acc[i, j] * alpha"))[0]]
    assert (rescale.name, rescale.vars, rescale.end_line) == ("parallel", ("k",), rescale.line + 1)
    assert rec.report.ops[int(rescale.op[2:])].span.line == rescale.line  # type: ignore[union-attr]


def test_values_follow_the_definition_step_by_step() -> None:
    rec = recorded()
    q, keys = (inputs()[i].astype(np.float32) for i in (0, 1))
    for k, step in enumerate(steps_on(rec.trace, line_of(rec, "T.reduce_max"))):
        m = (q @ keys[: TILE * (k + 1)].T).max(axis=1)
        np.testing.assert_allclose(rec.value("m", step), m, rtol=1e-5)
    alpha = rec.value("alpha", steps_on(rec.trace, line_of(rec, "alpha[i] ="))[0])
    assert (alpha == 0).all(), "the first tile rescales nothing by exp2(-1e30)"


def test_before_the_first_write_nothing_is_known() -> None:
    assert np.isnan(recorded().value("p", 3)).all()


def test_who_wrote_an_element_is_the_last_writer_up_to_a_step() -> None:
    rec = recorded()
    last = len(rec.steps) - 1
    assert rec.who_wrote("O", (3, 17)) == last
    assert rec.who_wrote("acc", (3, 17)) == last - 1
    assert rec.who_wrote("O", (3, 17), last - 1) is None
    assert rec.who_wrote("acc", (3, 17), 4) == 1
    with pytest.raises(KeyError, match="did you mean acc"):
        rec.who_wrote("ac", (0, 0))


def test_find_runs_to_a_condition() -> None:
    rec = recorded()
    k = rec.find(lambda at: at.at.get("k") == 5 and at.op == "gemm")
    assert k is not None
    assert rec.steps[k].at == (5,)
    assert rec.find(lambda at: bool((at.values["l"] < 0).any())) is None


def test_a_recording_is_quick_and_small() -> None:
    report = kernel().report()
    best = min(record(kernel(), *inputs(), report=report).seconds for _ in range(2))
    assert best <= 2.0
    assert len(packed(recorded().report)) <= 1_500_000
    assert len(json.dumps(to_json(lean(recorded().report)))) <= 256_000


def test_what_is_saved_are_key_steps_that_read_the_same() -> None:
    rec = recorded()
    (kept,) = lean(rec.report).traces
    assert kept.total == len(rec.steps)
    assert 4 <= len(kept.steps) <= 10
    assert kept.kept[-1] == len(rec.steps) - 1
    for k, number in enumerate(kept.kept):
        for name in ("acc", "m", "l"):
            index = [b.name for b in kept.buffers].index(name)
            have, want = codec.Replay(kept).to(k).values[index], rec.value(name, number)
            np.testing.assert_allclose(have, want, atol=np.abs(want).max() / 250, rtol=2**-10)


def test_a_trace_survives_json() -> None:
    report = recorded().report
    again = from_json(Report, json.loads(json.dumps(to_json(report))))
    assert to_json(again) == to_json(report)


def test_chosen_buffers_alone_are_followed() -> None:
    trace = trace_of(kernel(), inputs(), buffers=["m", "l"])
    assert [b.name for b in trace.buffers] == ["m", "l"]
    assert len(trace.steps) == len(recorded().steps)


def test_a_block_outside_the_grid_and_an_unknown_buffer_are_refused() -> None:
    with pytest.raises(LaunchError, match="TB614"):
        record(kernel(), *inputs(), block=(1, 0, 0))
    with pytest.raises(LaunchError, match="no buffer called alfa; did you mean alpha"):
        record(kernel(), *inputs(), buffers=["alfa"])


# ------------------------------------------------------------------ references


def test_every_step_agrees_with_the_oracle() -> None:
    rec = recorded(start=-float("inf"), reference="oracle")
    checks = [c for s in rec.steps for c in s.checks]
    assert len(checks) >= len(rec.steps) - 1
    assert 0 < max(c.ratio for c in checks) <= 1
    assert rec.first_wrong() is None
    assert "float64" in rec.trace.reference


def test_a_function_finds_the_step_that_goes_wrong() -> None:
    assert recorded(reference=truth).first_wrong() is None
    rec = recorded(rescale=False, reference=truth)
    first = rec.first_wrong()
    assert first is not None
    # the maximum of some row grows in the second tile: from there on acc is wrong, m and l are not
    assert rec.steps[first].at == (1,)
    names = {rec.trace.buffers[c.buffer].name for c in rec.steps[first].checks if c.wrong}
    assert names == {"acc"}


def test_a_reference_that_fails_is_an_error_that_says_where() -> None:
    with pytest.raises(TileError, match=r"failed at step 0 .*KeyError"):
        record(kernel(), *inputs(), reference=lambda at: {"m": at.values["nope"]})
    with pytest.raises(TileError, match="has shape"):
        record(kernel(), *inputs(), reference=lambda at: {"m": 0.0})


def test_the_first_nan_is_found() -> None:
    rec = recorded(start=-float("inf"))
    assert rec.first_nan() is None, "exp2(-inf - finite) is 0"
    tiled = [x.copy() for x in inputs()]
    tiled[1][70] = np.inf
    rec = record(kernel(), *tiled)
    first = rec.first_nan()
    assert first is not None
    assert rec.steps[first].at == (1,), "row 70 of K is in the second tile"


# ------------------------------------------------------------------ other programs


def test_a_masked_write_names_the_elements_that_it_wrote() -> None:
    @T.prim_func
    def lower(X: T.Tensor((16, 16), "float32"), Y: T.Tensor((16, 16), "float32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((16, 16), "float32")
            T.copy(X, x)
            for i, j in T.Parallel(16, 16):
                if j > i:
                    x[i, j] = 0
            T.copy(x, Y)

    X = np.ones((16, 16), np.float32)
    rec = record(tilebench.compile(lower, target="interp"), X, np.zeros_like(X))
    assert rec.who_wrote("x", (3, 9)) == 2 - 1
    assert rec.who_wrote("x", (9, 3)) == 0
    np.testing.assert_array_equal(rec.value("Y"), np.tril(X))


def test_the_tensor_is_shown_where_the_block_writes_it() -> None:
    @T.prim_func
    def double(X: T.Tensor((64, 32), "float32"), Y: T.Tensor((64, 32), "float32")):
        with T.Kernel(4, threads=32) as bx:
            x = T.alloc_fragment((16, 32), "float32")
            T.copy(X[bx * 16, 0], x)
            for i, j in T.Parallel(16, 32):
                x[i, j] = x[i, j] * 2
            T.copy(x, Y[bx * 16, 0])

    X = np.arange(64 * 32, dtype=np.float32).reshape(64, 32)
    rec = record(tilebench.compile(double, target="interp"), X, np.zeros_like(X), block=(2,))
    (out,) = (b for b in rec.trace.buffers if b.name == "Y")
    assert (out.shape, out.origin) == ((16, 32), (32, 0))
    np.testing.assert_array_equal(rec.value("Y"), 2 * X[32:48])
    assert rec.who_wrote("Y", (40, 3)) == 2


def test_an_error_of_the_program_ends_the_recording_and_is_told() -> None:
    @T.prim_func
    def outside(X: T.Tensor((16,), "float32"), N: T.Tensor((16,), "int32"), Y: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((16,), "float32")
            T.copy(X, x)
            for i in T.Parallel(16):
                Y[N[i]] = x[i]

    X = np.ones(16, np.float32)
    places = np.arange(1, 17, dtype=np.int32)
    rec = record(tilebench.compile(outside, target="interp"), X, places, np.zeros_like(X))
    assert "TB273" in rec.trace.stopped
    np.testing.assert_array_equal(rec.value("x"), X)


def test_scalars_and_private_arrays_are_followed() -> None:
    @T.prim_func
    def counted(X: T.Tensor((32,), "float32"), Y: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            n = T.alloc_var("int32")
            mine = T.alloc_local((2,), "float32")
            n = 0
            mine[0] = X[t]
            for k in T.serial(3):
                n += 2
                mine[1] = mine[0] * n
            Y[t] = mine[1]

    X = np.arange(32, dtype=np.float32)
    rec = record(tilebench.compile(counted, target="interp"), X, np.zeros_like(X))
    shapes = {b.name: (b.scope, b.shape) for b in rec.trace.buffers}
    assert shapes["n"] == ("scalar", ())
    assert shapes["mine"] == ("local", (32, 2))
    assert rec.value("n") == 6
    np.testing.assert_array_equal(rec.value("mine")[:, 1], 6 * X)
    assert any(rec.trace.sites[s.site].vars == ("k",) and s.at == (2,) for s in rec.steps)


def test_too_much_is_said_and_kept_small() -> None:
    trace = trace_of(kernel(), inputs(), limit_bytes=200_000)
    assert trace.data is not None
    assert trace.data.size <= 200_000
    assert "8 bits" in trace.note
    trace = trace_of(kernel(), inputs(), limit_bytes=30_000)
    assert trace.data is not None
    assert trace.data.size <= 30_000
    assert "no room for the values of" in trace.note
    index = [b.name for b in trace.buffers].index("l")
    want = recorded().value("l")
    np.testing.assert_allclose(codec.Replay(trace).to(len(trace.steps) - 1).values[index], want, rtol=0.02)


# ------------------------------------------------------------------ thread level


def test_the_thread_level_ends_where_the_tile_level_does() -> None:
    threads, tiles = recorded("thread"), recorded()
    np.testing.assert_allclose(threads.value("O"), tiles.value("O"), atol=2e-3)
    assert threads.seconds <= 5.0
    assert len(packed(threads.report)) <= 1_500_000
    kinds = {s.name for s in threads.trace.sites}
    assert {"mma", "ldmatrix", "cpasync", "cpasyncwait", "barrier", "store", "vectorcopy"} <= kinds


def test_registers_hold_what_the_layout_says() -> None:
    rec = recorded("thread")
    layout = kernel().layout("acc")
    registers = rec.value("acc")  # [register, thread]
    assert registers.shape == (32, 128)
    got = np.empty((TILE, DIM))
    for t in range(128):
        for r in range(32):
            i, j = layout.coordinate(t, r)  # type: ignore[union-attr]
            got[i, j] = registers[r, t]
    np.testing.assert_allclose(got, recorded().value("acc"), atol=4e-3)


def test_an_asynchronous_copy_lands_at_its_wait() -> None:
    rec = recorded("thread")
    number = [b.name for b in rec.trace.buffers].index("K_s")
    writes = [rec.trace.sites[s.site].name for s in rec.steps if any(w.buffer == number for w in s.writes)]
    assert set(writes) == {"cpasyncwait"}
    assert len(writes) == 8


def test_bulk_copies_and_warpgroup_products_are_followed() -> None:
    rec = record(kernel(), *inputs(), level="thread", target="emu:sm_90a")
    np.testing.assert_allclose(rec.value("O"), recorded().value("O"), atol=2e-3)
    have, want = np.sort(rec.value("Q_s").ravel()), np.sort(inputs()[0].ravel()).astype(float)
    np.testing.assert_array_equal(have, want)
    assert len(packed(rec.report)) <= 1_500_000


def test_both_levels_stand_in_one_report() -> None:
    report = with_traces(recorded().report, recorded("thread").trace)
    assert [t.level for t in report.traces] == ["tile", "thread"]
    again = with_traces(report, recorded().trace)
    assert sorted(t.level for t in again.traces) == ["thread", "tile"]
    assert len(json.dumps(to_json(lean(report)))) <= 256_000


def test_the_block_of_the_worst_element_is_recorded_when_none_is_named() -> None:
    @T.prim_func
    def halved(X: T.Tensor((64, 64), "float32"), Y: T.Tensor((64, 64), "float32")):
        with T.Kernel(2, 4, threads=32) as (bx, by):
            x = T.alloc_fragment((16, 32), "float32")
            T.copy(X[by * 16, bx * 32], x)
            T.copy(x, Y[by * 16, bx * 32])

    X = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    wrong = X.copy()
    wrong[40, 50] = -1
    made = run(
        halved, args=[X, np.zeros_like(X)], ref=lambda x: np.where(wrong == X, x, -1.0), target="emu:sm_80"
    )
    assert made.report.ok is False
    assert block_of(made.report, "Y", (40, 50)) == (1, 2)
    assert block_of(made.report, "X", (40, 50)) is None
    rec = record(made.kernel, X, np.zeros_like(X), block=None, report=made.report)
    assert rec.trace.block == (1, 2)
    assert rec.who_wrote("Y", (40, 50)) == 1


def test_record_takes_a_program_and_makes_inputs() -> None:
    rec = tilebench.record(attention())
    assert "steps of block (0) at tile level" in repr(rec)
    data, metadata = rec._repr_mimebundle_()
    assert metadata["image/png"]["alt"]
    assert "text/plain" in data


# ------------------------------------------------------------------ a function of the inputs, as run's


PRODUCT = """
S = (64, 64)

@T.prim_func
def product(A: T.Tensor(S, "float16"), B: T.Tensor(S, "float16"), C: T.Tensor(S, "float32")):
    with T.Kernel(2, 2, threads=128) as (bx, by):
        a = T.alloc_shared((32, 32), "float16")
        b = T.alloc_shared((32, 32), "float16")
        c = T.alloc_fragment((32, 32), "float32")
        T.clear(c)
        for k in T.Pipelined(2, num_stages=2):
            T.copy(A[by * 32, k * 32], a)
            T.copy(B[k * 32, bx * 32], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * 32, bx * 32])
"""


def product(a: Any, b: Any) -> Any:
    return np.asarray(a, np.float32) @ np.asarray(b, np.float32)


@cache
def multiplied() -> Any:
    rng = np.random.default_rng(2)
    values = tuple(rng.standard_normal((64, 64)).astype(np.float16) for _ in range(2))
    return tilebench.run(PRODUCT, args=values, ref=product, target="interp"), values


@pytest.mark.parametrize("how", ["ref", "reference"])
def test_a_function_of_the_inputs_is_compared_as_run_does(how: str) -> None:
    result, values = multiplied()
    assert result.report.ok
    for block in ((0, 0), (1, 1)):
        rec = record(result.kernel, args=values, block=block, **{how: product})
        assert rec.first_wrong() is None
        assert [k for k, s in enumerate(rec.steps) if s.checks] == [len(rec.steps) - 1], (
            "after the last write"
        )
        wrong = record(result.kernel, *values, block=block, **{how: lambda a, b: product(a, b) + 1})
        assert wrong.first_wrong() == len(wrong.steps) - 1
        strict = record(
            result.kernel,
            *values,
            block=block,
            atol=0.0,
            rtol=0.0,
            **{how: lambda a, b: product(a, b) + 1e-9},
        )
        assert strict.first_wrong() == len(strict.steps) - 1
        assert "0 * |reference|" in strict.trace.reference


def test_what_a_reference_may_be_is_said() -> None:
    result, values = multiplied()
    with pytest.raises(TileError, match="both ref= and reference="):
        record(result.kernel, *values, ref=product, reference="oracle")
    with pytest.raises(TileError, match="both args= and tensors"):
        record(result.kernel, *values, args=values)
    with pytest.raises(TileError, match="gave a ndarray at step 0") as caught:
        record(result.kernel, *values, reference=lambda at: np.zeros(3))
    assert "is given as ref=" in caught.value.fix
    threads = record(result.kernel, *values, ref=product, level="thread")
    assert "nothing was compared" in threads.trace.note


def test_elements_and_levels_that_there_are_not_are_refused() -> None:
    rec = recorded()
    with pytest.raises(IndexError, match="takes 2 indices"):
        rec.who_wrote("acc", (3,))
    with pytest.raises(IndexError, match="outside of what this block holds"):
        rec.who_wrote("acc", (3, 1000))
    with pytest.raises(LaunchError, match="no level of steps"):
        record(attention(), level="threads")  # type: ignore[arg-type] # a user's slip
