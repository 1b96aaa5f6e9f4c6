"""interp: real kernels, per-thread code, atomics, integer semantics, and the errors of wrong programs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.backends.running import integers, run
from tilebench.errors import SyncError, TypeTileError
from tilebench.ir.dtype import bool_, decode, encode, float32, int32, parse_dtype, uint32
from tilebench.ir.expr import Var, binary, call, const, select
from tilebench.ir.tile import Break, Buffer, Continue, Evaluate, For, Kernel, Store, SyncThreads
from tilebench.ops.atomic import atomic_add
from tilebench.ops.copy import copy
from tilebench.ops.elementwise import clear, fill
from tilebench.ops.examples import Draft, tile
from tilebench.ops.gemm import gemm
from tilebench.ops.reduce import any_of, reduce_max, reduce_sum

RNG = np.random.default_rng(7)


def gemm_kernel(M: int, N: int, K: int, dtype: str = "float16", out: str = "float32") -> Kernel:
    d = Draft("gemm", (-(-N // 64), -(-M // 64)))
    bx, by = d.blocks
    a, b, c = d.tensor("A", (M, K), dtype), d.tensor("B", (K, N), dtype), d.tensor("C", (M, N), out, "out")
    a_shared, b_shared = d.shared("A_shared", (64, 32), dtype), d.shared("B_shared", (32, 64), dtype)
    c_local = d.fragment("C_local", (64, 64), out)
    d.add(clear(c_local))
    with d.pipelined(-(-K // 32), 3) as ko:
        d.add(
            copy(a[by * 64, ko * 32], a_shared),
            copy(b[ko * 32, bx * 64], b_shared),
            gemm(a_shared, b_shared, c_local),
        )
    d.add(copy(c_local, c[by * 64, bx * 64]))
    return d.kernel()


@pytest.mark.parametrize("size", [(128, 128, 64), (100, 70, 45), (1, 1, 1), (65, 130, 33)])
@pytest.mark.parametrize(
    ("dtype", "out"), [("float16", "float32"), ("float32", "float32"), ("int8", "int32")]
)
def test_gemm_with_tails_is_exact_on_integers(size: tuple[int, int, int], dtype: str, out: str) -> None:
    M, N, K = size
    a, b = integers(RNG, M, K, dtype=dtype), integers(RNG, K, N, dtype=dtype)
    c = np.zeros((M, N), out)
    run(gemm_kernel(M, N, K, dtype, out), a, b, c, check_init=True)
    assert np.array_equal(c, a.astype(np.float64) @ b.astype(np.float64))


def test_gemm_of_bfloat16_is_exact_on_integers() -> None:
    dtype = parse_dtype("bfloat16")
    a, b = integers(RNG, 70, 50, dtype=np.float32), integers(RNG, 50, 66, dtype=np.float32)
    c = np.zeros((70, 66), np.float32)
    run(gemm_kernel(70, 66, 50, "bfloat16"), encode(a, dtype), encode(b, dtype), c)
    assert np.array_equal(c, a @ b)


def test_strided_and_transposed_arrays_are_read_in_place() -> None:
    a, b = integers(RNG, 45, 100).T, integers(RNG, 90, 140)[::2, ::2]
    c = np.zeros((100, 70), np.float32)
    run(gemm_kernel(100, 70, 45), a, b, c)
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


def softmax_kernel(M: int, N: int, rows: int = 16) -> Kernel:
    d = Draft("softmax", (-(-M // rows),))
    (bx,) = d.blocks
    x, y = d.tensor("X", (M, N), "float32"), d.tensor("Y", (M, N), "float32", "out")
    s, top, total = (
        d.fragment("s", (rows, N), "float32"),
        d.fragment("top", (rows,), "float32"),
        d.fragment("total", (rows,), "float32"),
    )
    d.add(copy(x[bx * rows, 0], s), reduce_max(s, top, dim=1))
    with d.parallel(rows, N) as (i, j):
        d.store(s, (i, j), call("exp", (s[i, j] - top[i],), float32))
    d.add(reduce_sum(s, total, dim=1))
    with d.parallel(rows, N) as (i, j):
        d.store(s, (i, j), s[i, j] / total[i])
    d.add(copy(s, y[bx * rows, 0]))
    return d.kernel()


def test_row_softmax() -> None:
    x = RNG.standard_normal((37, 50)).astype(np.float32)
    y = np.full_like(x, np.nan)
    run(softmax_kernel(37, 50), x, y, check_init=True)
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    # exp is good to 2 ulp, the sum of 50 positive terms to 50 u, the quotient to 1 u
    assert np.allclose(y, e / e.sum(axis=1, keepdims=True), rtol=60 * 2.0**-24, atol=0)


def attention_kernel(length: int, keys: int, dim: int, causal: bool) -> Kernel:
    """Online softmax over tiles of 32 keys for 32 queries of one head."""
    d = Draft("attention", (-(-length // 32),))
    (bx,) = d.blocks
    q, k, v = (d.tensor(n, (s, dim), "float16") for n, s in (("Q", length), ("K", keys), ("V", keys)))
    out = d.tensor("O", (length, dim), "float32", "out")
    qs, ks, vs = (d.shared(n, (32, dim), "float16") for n in ("Q_shared", "K_shared", "V_shared"))
    s, p, o = (
        d.fragment("s", (32, 32), "float32"),
        d.fragment("p", (32, 32), "float16"),
        d.fragment("o", (32, dim), "float32"),
    )
    top, before, scale = (d.fragment(n, (32,), "float32") for n in ("top", "before", "scale"))
    total, part = d.fragment("total", (32,), "float32"), d.fragment("part", (32,), "float32")
    d.add(copy(q[bx * 32, 0], qs), clear(o), clear(total), fill(top, -math.inf))
    factor = 1.4426950408889634 / math.sqrt(dim)
    with d.pipelined(-(-keys // 32), 2) as ko:
        d.add(copy(k[ko * 32, 0], ks))
        with d.parallel(32, 32) as (i, j):
            seen = binary("lt", ko * 32 + j, keys)
            if causal:
                seen = binary("and", seen, binary("le", ko * 32 + j, bx * 32 + i + (keys - length)))
            d.store(s, (i, j), select(seen, 0.0, -math.inf))
        d.add(gemm(qs, ks, s, transpose_B=True), copy(top, before), reduce_max(s, top, dim=1, clear=False))
        with d.parallel(32) as (i,):
            d.store(scale, i, call("exp2", ((before[i] - top[i]) * factor,), float32))
        with d.parallel(32, 32) as (i, j):
            d.store(s, (i, j), call("exp2", ((s[i, j] - top[i]) * factor,), float32))
        d.add(reduce_sum(s, part, dim=1))
        with d.parallel(32) as (i,):
            d.store(total, i, total[i] * scale[i] + part[i])
        with d.parallel(32, dim) as (i, j):
            d.store(o, (i, j), o[i, j] * scale[i])
        d.add(copy(s, p), copy(v[ko * 32, 0], vs), gemm(p, vs, o))
    with d.parallel(32, dim) as (i, j):
        d.store(o, (i, j), o[i, j] / total[i])
    d.add(copy(o, out[bx * 32, 0]))
    return d.kernel()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("length", "keys", "dim"), [(64, 64, 64), (50, 77, 80), (33, 100, 32)])
def test_attention(length: int, keys: int, dim: int, causal: bool) -> None:
    q, k, v = (RNG.standard_normal((n, dim)).astype(np.float16) for n in (length, keys, keys))
    out = np.full((length, dim), np.nan, np.float32)
    run(attention_kernel(length, keys, dim, causal), q, k, v, out, check_init=True)
    scores = q.astype(np.float64) @ k.astype(np.float64).T / math.sqrt(dim)
    if causal:
        scores = np.where(np.arange(keys) <= np.arange(length)[:, None] + keys - length, scores, -np.inf)
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = p / p.sum(axis=1, keepdims=True) @ v.astype(np.float64)
    # p is rounded to float16, so a weighted mean of v moves by 2^-11 * max|v|; twice for the running scale
    assert np.max(np.abs(out - expected)) <= 2 * 2.0**-11 * np.abs(v).max()


# ------------------------------------------------------------------ per-thread code


def test_warp_reduction_with_shuffles() -> None:
    d = Draft("warp_sum", (2,), threads=128)
    x, y = d.tensor("X", (256,), "float32"), d.tensor("Y", (8,), "float32", "out")
    (bx,), tx = d.blocks, d.thread
    v = d.var("v", "float32")
    d.store(v, 0, x[bx * 128 + tx])
    for step in (16, 8, 4, 2, 1):
        d.store(v, 0, v[0] + call("shfl_xor", (v[0], step), float32))
    with d.when(binary("eq", tx % 32, 0)):
        d.store(y, bx * 4 + tx // 32, v[0])
    x_values, y_values = integers(RNG, 256, dtype=np.float32), np.zeros(8, np.float32)
    run(d.kernel(), x_values, y_values, check_init=True)
    assert np.array_equal(y_values, x_values.reshape(8, 32).sum(axis=1))


def test_each_thread_has_its_own_array_and_loop() -> None:
    """Thread t fills t % 5 elements, skips odd ones, and leaves the loop at 3."""
    d = Draft("loops", threads=64)
    y, tx = d.tensor("Y", (64,), "int32", "out"), d.thread
    own, total = d.local("own", (4,), "int32"), d.var("total", "int32")
    d.store(total, 0, 0)
    with d.serial(4) as k:
        d.store(own, k, tx * 10 + k)
    with d.serial(tx % 5 + 1) as k:
        with d.when(binary("eq", k % 2, 1)):
            d.add(Continue())
        with d.when(binary("gt", k, 3)):
            d.add(Break())
        d.store(total, 0, total[0] + own[select(binary("lt", k, 4), k, 0)])
    d.store(y, tx, total[0])
    out = np.zeros(64, np.int32)
    run(d.kernel(), out, check_init=True)
    expected = []
    for t in range(64):
        total_of_t = 0
        for k_value in range(t % 5 + 1):
            if k_value % 2 == 1:
                continue
            if k_value > 3:
                break
            total_of_t += t * 10 + k_value
        expected.append(total_of_t)
    assert out.tolist() == expected


def test_while_with_a_condition_of_each_thread() -> None:
    """Steps of Collatz from t + 1 down to 1."""
    d = Draft("collatz", threads=96)
    y, tx = d.tensor("Y", (96,), "int32", "out"), d.thread
    n, steps = d.var("n", "int32"), d.var("steps", "int32")
    d.store(n, 0, tx + 1)
    d.store(steps, 0, 0)
    with d.loop_while(binary("ne", n[0], 1)):
        d.store(n, 0, select(binary("eq", n[0] % 2, 0), n[0] // 2, n[0] * 3 + 1))
        d.store(steps, 0, steps[0] + 1)
    d.store(y, tx, steps[0])
    out = np.zeros(96, np.int32)
    run(d.kernel(), out)

    def collatz(value: int) -> int:
        count = 0
        while value != 1:
            value, count = (value // 2 if value % 2 == 0 else value * 3 + 1), count + 1
        return count

    assert out.tolist() == [collatz(t + 1) for t in range(96)]


def test_votes_and_shuffles_of_a_ragged_last_warp() -> None:
    d = Draft("votes", threads=48)
    y, tx = d.tensor("Y", (4, 48), "int32", "out"), d.thread
    odd = binary("eq", tx % 2, 1)
    d.store(y, (0, tx), call("ballot", (odd,), uint32).astype(int32))
    d.store(y, (1, tx), call("shfl_down", (tx, 8), int32))
    d.store(y, (2, tx), call("any_sync", (binary("gt", tx, 40),), bool_).astype(int32))
    d.store(y, (3, tx), call("syncthreads_count", (odd,), int32))
    out = np.zeros((4, 48), np.int32)
    run(d.kernel(), out)
    t = np.arange(48)
    assert np.array_equal(out[0].view(np.uint32), np.where(t < 32, 0xAAAAAAAA, 0xAAAA))
    assert np.array_equal(out[1], np.where((t % 32 + 8 < 32) & (t + 8 < 48), t + 8, t))
    assert np.array_equal(out[2], (t >= 32).astype(int))
    assert set(out[3].tolist()) == {24}


def test_shared_memory_between_threads() -> None:
    d = Draft("reverse", (2,), threads=64)
    x, y = d.tensor("X", (128,), "float32"), d.tensor("Y", (128,), "float32", "out")
    (bx,), tx = d.blocks, d.thread
    s = d.shared("s", (64,), "float32")
    d.store(s, tx, x[bx * 64 + tx])
    d.add(SyncThreads())
    d.store(y, bx * 64 + tx, s[63 - tx])
    x_values, y_values = RNG.standard_normal(128).astype(np.float32), np.zeros(128, np.float32)
    run(d.kernel(), x_values, y_values, check_init=True)
    assert np.array_equal(y_values, x_values.reshape(2, 64)[:, ::-1].ravel())


def test_a_copy_to_a_local_array_is_made_by_each_thread() -> None:
    d = Draft("local_copy", threads=32)
    x, y, tx = d.tensor("X", (64,), "float32"), d.tensor("Y", (32,), "float32", "out"), d.thread
    own = d.local("own", (2,), "float32")
    d.add(copy(tile(x, (tx * 2, 2)), own))
    d.store(y, tx, own[0] - own[1])
    x_values, y_values = RNG.standard_normal(64).astype(np.float32), np.zeros(32, np.float32)
    run(d.kernel(), x_values, y_values)
    assert np.array_equal(y_values, x_values[::2] - x_values[1::2])


# ------------------------------------------------------------------ atomics


def test_histogram() -> None:
    d = Draft("histogram", (4,))
    x, h = d.tensor("X", (1000,), "int32"), d.tensor("H", (16,), "int32", "inout")
    (bx,) = d.blocks
    own = d.shared("own", (16,), "int32")
    d.add(clear(own))
    with d.parallel(256) as (i,), d.when(binary("lt", bx * 256 + i, 1000)):
        d.add(atomic_add(own[x[bx * 256 + i]], 1))
    d.add(atomic_add(h, own))
    x_values, h_values = RNG.integers(0, 16, 1000).astype(np.int32), np.zeros(16, np.int32)
    run(d.kernel(), x_values, h_values)
    assert np.array_equal(h_values, np.bincount(x_values, minlength=16))


@pytest.mark.parametrize("dtype", ["int32", "float32", "float16"])
def test_atomic_add_that_returns_the_old_value_numbers_the_iterations(dtype: str) -> None:
    d = Draft("tickets")
    counter, y = d.tensor("counter", (3,), dtype, "inout"), d.tensor("Y", (30,), dtype, "out")
    with d.parallel(30) as (i,):
        d.store(y, i, d.add(atomic_add(counter[i % 3], 1, return_prev=True)))
    c, out = np.zeros(3, dtype), np.zeros(30, dtype)
    run(d.kernel(), c, out)
    assert c.tolist() == [10, 10, 10]
    assert sorted(out.reshape(10, 3)[:, 0].tolist()) == list(range(10))


# ------------------------------------------------------------------ scalar semantics


def elementwise(name: str, dtype: str, function: Any, *inputs: Any, out: str | None = None) -> np.ndarray:
    """function applied in a Parallel loop to tensors of `dtype` holding the inputs."""
    arrays = [np.asarray(x) for x in inputs]
    d = Draft(name)
    tensors = [d.tensor("abc"[n], x.shape, dtype) for n, x in enumerate(arrays)]
    y = d.tensor("Y", arrays[0].shape, out or dtype, "out")
    with d.parallel(*arrays[0].shape) as (i,):
        d.store(y, i, function(*(t[i] for t in tensors)))
    kind, result = parse_dtype(dtype), parse_dtype(out or dtype)
    stored = [encode(x.astype(kind.compute_dtype), kind) for x in arrays]
    values = np.zeros(arrays[0].shape, result.storage_dtype)
    run(d.kernel(), *stored, values)
    return decode(values, result)


def test_integer_division_and_remainder_are_python_s() -> None:
    a, b = [7, -7, 7, -7, -1], [2, 2, -2, -2, 512]
    assert elementwise("div", "int32", lambda x, y: x // y, a, b).tolist() == [
        x // y for x, y in zip(a, b, strict=True)
    ]
    assert elementwise("mod", "int32", lambda x, y: x % y, a, b).tolist() == [
        x % y for x, y in zip(a, b, strict=True)
    ]
    assert elementwise("tdiv", "int32", lambda x, y: binary("truncdiv", x, y), a, b).tolist() == [
        3,
        -3,
        -3,
        3,
        0,
    ]
    assert elementwise("tmod", "int32", lambda x, y: binary("truncmod", x, y), a, b).tolist() == [
        1,
        -1,
        1,
        -1,
        -1,
    ]


def test_integers_wrap_around() -> None:
    assert elementwise("wrap", "int8", lambda x: x + 100, [100, -128]).tolist() == [-56, -28]
    assert elementwise("wrap", "uint8", lambda x: x - 1, [0, 5]).tolist() == [255, 4]
    assert elementwise("neg", "int32", lambda x: -x, [-(2**31)]).tolist() == [-(2**31)]
    assert elementwise("wrap", "int32", lambda x: x // -1, [-(2**31)]).tolist() == [-(2**31)]


def test_a_float_becomes_an_integer_by_truncation_and_is_clamped() -> None:
    x = [1.9, -1.9, 300.0, -1e9, math.nan, math.inf]
    assert elementwise("cast", "float32", lambda v: v, x, out="int8").tolist() == [1, -1, 127, -128, 0, 127]


def test_halves_are_rounded_after_each_operation() -> None:
    x = [2048.0, 1.0]
    assert elementwise("f16", "float16", lambda v: v + 1.0 - 2048.0, x).tolist() == [0.0, -2046.0 - 1 + 1]
    assert elementwise("bf16", "bfloat16", lambda v: v + 1.0, [256.0, 1.0]).tolist() == [256.0, 2.0]


def test_min_and_max_pass_over_nan() -> None:
    a, b = [math.nan, 1.0, math.nan], [2.0, math.nan, math.nan]
    out = elementwise("max", "float32", lambda x, y: binary("max", x, y), a, b)
    assert out[:2].tolist() == [2.0, 1.0]
    assert math.isnan(out[2])


def test_float16_overflows_to_infinity_and_fp8_saturates() -> None:
    assert elementwise("f16", "float16", lambda x: x * 2.0, [60000.0]).tolist() == [math.inf]
    assert elementwise("fp8", "float32", lambda x: x, [1e6, -1e6], out="float8_e4m3").tolist() == [
        448.0,
        -448.0,
    ]


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("exp", np.exp),
        ("exp2", np.exp2),
        ("log", np.log),
        ("sqrt", np.sqrt),
        ("tanh", np.tanh),
        ("erf", np.vectorize(math.erf)),
    ],
)
def test_functions_are_within_two_ulp(name: str, reference: Any) -> None:
    x = RNG.uniform(0.1, 4.0, 200).astype(np.float32)
    out = elementwise(name, "float32", lambda v: call(name, (v,), float32), x)
    assert np.max(np.abs(out - reference(x.astype(np.float64))) / np.spacing(np.abs(out))) <= 2


# ------------------------------------------------------------------ views, guards, hooks


def test_views_share_bytes() -> None:
    d = Draft("views")
    x, y, z = (
        d.tensor("X", (8, 4), "float32"),
        d.tensor("Y", (32,), "int32", "out"),
        d.tensor("Z", (4, 8), "float32", "out"),
    )
    s = d.shared("s", (8, 4), "float32")
    bits = Buffer("bits", (const(32),), int32, "shared", view_of=s)
    wide = Buffer("wide", (const(4), const(8)), float32, "shared", view_of=s)
    d.buffers += [bits, wide]
    d.add(copy(x, s), copy(bits, y), copy(wide, z))
    x_values = RNG.standard_normal((8, 4)).astype(np.float32)
    y_values, z_values = np.zeros(32, np.int32), np.zeros((4, 8), np.float32)
    run(d.kernel(), x_values, y_values, z_values)
    assert np.array_equal(y_values.view(np.float32), x_values.ravel())
    assert np.array_equal(z_values, x_values.reshape(4, 8))


def test_a_guard_keeps_loads_inside() -> None:
    d = Draft("shift", (4,))
    x, y = d.tensor("X", (100,), "float32"), d.tensor("Y", (100,), "float32", "out")
    (bx,) = d.blocks
    with d.parallel(32) as (i,):
        n = bx * 32 + i
        with d.when(binary("lt", n, 100)):
            d.store(
                y, n, select(binary("and", binary("ge", n, 1), binary("gt", x[n - 1], 0.0)), x[n - 1], -1.0)
            )
    x_values, y_values = RNG.standard_normal(100).astype(np.float32), np.zeros(100, np.float32)
    run(d.kernel(), x_values, y_values)
    before = np.r_[0, x_values[:-1]]
    assert np.array_equal(y_values, np.where(before > 0, before, np.float32(-1)).astype(np.float32))


def test_safe_values_fill_what_is_outside() -> None:
    d = Draft("safe", (2,))
    x, y = d.tensor("X", (40,), "float32"), d.tensor("Y", (64,), "float32", "out")
    (bx,) = d.blocks
    s = d.shared("s", (32,), "float32")
    d.attributes["safe_values"] = {x: -math.inf}
    d.add(copy(x[bx * 32], s), copy(s, y[bx * 32]))
    x_values, y_values = np.ones(40, np.float32), np.zeros(64, np.float32)
    run(d.kernel(), x_values, y_values)
    assert np.array_equal(y_values, np.r_[np.ones(40), np.full(24, -np.inf)])


def test_any_of_gives_a_uniform_condition() -> None:
    d = Draft("any", (2,))
    x, y = d.tensor("X", (64,), "int32"), d.tensor("Y", (2,), "int32", "out")
    (bx,) = d.blocks
    s = d.shared("s", (32,), "int32")
    d.add(copy(x[bx * 32], s))
    d.store(y, bx, 5)
    with d.when(d.add(any_of(s))):
        d.add(SyncThreads())
        d.store(y, bx, 6)
    x_values, y_values = np.zeros(64, np.int32), np.zeros(2, np.int32)
    x_values[40] = 3
    run(d.kernel(), x_values, y_values)
    assert y_values.tolist() == [5, 6]


def test_the_observer_sees_every_statement_with_its_writes() -> None:
    seen: list[tuple[tuple[int, ...], str, list[str]]] = []
    d = Draft("seen", (2,))
    x, y = d.tensor("X", (64,), "float32"), d.tensor("Y", (64,), "float32", "out")
    (bx,) = d.blocks
    s = d.shared("s", (32,), "float32")
    d.add(copy(x[bx * 32], s), copy(s, y[bx * 32]))
    zeros = np.zeros(64, np.float32)
    run(
        d.kernel(),
        zeros,
        zeros.copy(),
        observer=lambda b, st, w: seen.append((b.coordinates, type(st).__name__, [v.name for v in w])),
    )
    assert seen == [(c, "Copy", [n]) for c in ((0, 0, 0), (1, 0, 0)) for n in ("s", "Y")]


def test_the_observer_can_look_into_buffers() -> None:
    d = Draft("look", threads=4)
    x, tx = d.tensor("X", (4,), "float32"), d.thread
    v = d.var("v", "float32")
    d.store(v, 0, x[tx])
    seen: list[np.ndarray] = []
    run(d.kernel(), np.arange(4, dtype=np.float32), observer=lambda b, st, w: seen.append(b.values(w[0])))
    assert seen[0].tolist() == [[0.0], [1.0], [2.0], [3.0]]


def test_an_empty_tensor_and_an_empty_grid() -> None:
    run(
        gemm_kernel(64, 64, 32),
        np.zeros((64, 32), np.float16),
        np.zeros((32, 64), np.float16),
        np.zeros((64, 64), np.float32),
        blocks=[],
    )
    d = Draft("empty", (1,))
    x, y = d.tensor("X", (0,), "float32"), d.tensor("Y", (0,), "float32", "out")
    s = d.shared("s", (32,), "float32")
    d.add(copy(x[0], s), copy(s, y[0]))
    run(d.kernel(), np.zeros(0, np.float32), np.zeros(0, np.float32))


# ------------------------------------------------------------------ errors


def test_an_index_past_a_tensor_names_element_block_and_iteration() -> None:
    d = Draft("tail", (8,))
    n = d.scalar("n")
    x, y = d.tensor("A", (1000,), "float32"), d.tensor("B", (1024,), "float32", "out")
    (bx,) = d.blocks
    with d.parallel(128) as (i,), d.when(binary("lt", i, n)):
        d.store(y, bx * 128 + i, x[bx * 128 + i])
    with pytest.raises(TypeTileError) as caught:
        run(d.kernel(), 128, np.zeros(1000, np.float32), np.zeros(1024, np.float32))
    assert caught.value.code == "TB273"
    assert caught.value.what == "A[1000] is out of 0..999, block (7, 0, 0), i=104"


def test_a_negative_index_at_run_time_is_outside() -> None:
    d = Draft("negative", (2,))
    n = d.scalar("n")
    x, y = d.tensor("A", (32,), "float32"), d.tensor("B", (32,), "float32", "out")
    with d.parallel(16) as (i,):
        d.store(y, i, x[i - n])
    with pytest.raises(TypeTileError, match=r"A\[-1\] is out of 0\.\.31, block \(0, 0, 0\), i=0"):
        run(d.kernel(), 1, np.zeros(32, np.float32), np.zeros(32, np.float32))


def test_a_read_before_any_write_is_found() -> None:
    d = Draft("uninitialised")
    a, c = d.tensor("A", (32, 32), "float16"), d.tensor("C", (32, 32), "float32", "out")
    s, acc = d.shared("s", (32, 32), "float16"), d.fragment("acc", (32, 32), "float32")
    d.add(copy(a, s), gemm(s, s, acc), copy(acc, c))
    with pytest.raises(TypeTileError, match=r"acc\[0, 0\] is read before it is written") as caught:
        run(d.kernel(), np.zeros((32, 32), np.float16), np.zeros((32, 32), np.float32), check_init=True)
    assert caught.value.code == "TB274"
    out = np.zeros((32, 32), np.float32)
    run(d.kernel(), np.zeros((32, 32), np.float16), out)
    assert np.isnan(out).all()  # without the check the poison shows


def test_two_iterations_that_write_one_element_are_a_race() -> None:
    d = Draft("race")
    x, y = d.tensor("A", (64,), "float32"), d.tensor("B", (32,), "float32", "out")
    with d.parallel(64) as (i,):
        d.store(y, i // 2, x[i])
    with pytest.raises(SyncError, match=r"B\[0\] is written by i=0 with 0.0 and by i=1 with 1.0") as caught:
        run(d.kernel(), np.arange(64, dtype=np.float32), np.zeros(32, np.float32))
    assert caught.value.code == "TB430"


def test_two_threads_that_write_one_element_are_a_race() -> None:
    d = Draft("race", threads=64)
    y = d.tensor("B", (32,), "int32", "out")
    d.store(y, d.thread % 32, d.thread)
    with pytest.raises(SyncError, match=r"B\[0\] is written by thread 0 with 0 and by thread 32 with 32"):
        run(d.kernel(), np.zeros(32, np.int32))


def test_one_value_written_by_all_is_no_race() -> None:
    d = Draft("same", threads=64)
    y = d.tensor("B", (1,), "int32", "out")
    n = d.scalar("n")
    with d.parallel(64) as (_,):
        d.store(y, 0, n)
    out = np.zeros(1, np.int32)
    run(d.kernel(), out, 3)
    assert out[0] == 3


def test_division_by_zero_names_the_iteration() -> None:
    with pytest.raises(TypeTileError, match=r"division by zero, block \(0, 0, 0\), i=2") as caught:
        elementwise("div", "int32", lambda x, y: x // y, [1, 2, 3], [1, 1, 0])
    assert caught.value.code == "TB263"
    guarded = elementwise(
        "div", "int32", lambda x, y: select(binary("ne", y, 0), x // y, -1), [1, 2, 3], [1, 1, 0]
    )
    assert guarded.tolist() == [1, 2, -1]


def test_a_step_that_is_zero_at_run_time_is_refused() -> None:
    d = Draft("step")
    n, y = d.scalar("n"), d.tensor("Y", (4,), "int32", "out")
    k = Var("k", dtype=int32)
    d.add(For(k, const(0), const(4), Store(y, (const(0),), k), n))
    with pytest.raises(TypeTileError, match="a loop with step 0"):
        run(d.kernel(), 0, np.zeros(4, np.int32))


def test_a_shift_past_the_width_is_refused() -> None:
    with pytest.raises(TypeTileError, match=r"a shift of int32 by 32") as caught:
        elementwise("shift", "int32", lambda x, y: x << y, [1, 1], [31, 32])
    assert caught.value.code == "TB264"


def test_a_barrier_that_some_threads_reach_is_refused_by_check() -> None:
    d = Draft("divergent")
    with d.when(binary("lt", d.thread, 16)):
        d.add(SyncThreads())
    with pytest.raises(SyncError) as caught:
        run(d.kernel())
    assert caught.value.code == "TB410"


def test_a_condition_that_is_the_same_for_all_threads_may_hold_a_barrier() -> None:
    d = Draft("uniform")
    with d.when(call("syncthreads_or", (binary("eq", d.thread, 3),), bool_)):
        d.add(SyncThreads(), Evaluate(call("syncthreads_and", (binary("eq", d.thread, 3),), bool_)))
    run(d.kernel())


def test_a_scalar_carried_through_parallel_is_refused() -> None:
    d = Draft("carried")
    x, y = d.tensor("A", (32,), "float32"), d.tensor("B", (32,), "float32", "out")
    total = d.var("total", "float32")
    d.store(total, 0, 0)
    with d.parallel(32) as (i,):
        d.store(total, 0, total[0] + x[i])
        d.store(y, i, total[0])
    with pytest.raises(SyncError) as caught:
        run(d.kernel(), np.zeros(32, np.float32), np.zeros(32, np.float32))
    assert caught.value.code == "TB413"


# ------------------------------------------------------------------ between blocks


def test_two_blocks_that_write_one_element_are_a_race() -> None:
    d = Draft("blocks", (2,))
    y = d.tensor("C", (4,), "int32", "out")
    d.store(y, 0, d.blocks[0])
    with pytest.raises(
        SyncError, match=r"C\[0\] is written by block \(0, 0, 0\) and written by block \(1, 0, 0\)"
    ) as caught:
        run(d.kernel(), np.zeros(4, np.int32), check_races=True)
    assert caught.value.code == "TB431"


def test_a_block_that_reads_another_one_s_part_of_an_inout_tensor_is_a_race() -> None:
    d = Draft("exchange", (2,))
    x = d.tensor("X", (64,), "float32", "inout")
    (bx,) = d.blocks
    with d.parallel(32) as (i,):
        d.store(x, bx * 32 + i, x[(bx * 32 + i + 32) % 64])
    expected = r"X\[0\] is written by block \(0, 0, 0\) and read by block \(1, 0, 0\)"
    with pytest.raises(SyncError, match=expected):
        run(d.kernel(), np.arange(64, dtype=np.float32), check_races=True)


def test_kernels_whose_blocks_keep_apart_have_no_findings() -> None:
    a, b = integers(RNG, 100, 45), integers(RNG, 45, 70)
    done = run(
        gemm_kernel(100, 70, 45), a, b, np.zeros((100, 70), np.float32), check_init=True, check_races=True
    )
    assert done.findings == ()
    done = run(
        attention_kernel(50, 77, 32, True),
        *(integers(RNG, n, 32) for n in (50, 77, 77)),
        np.zeros((50, 32), np.float32),
        check_races=True,
    )
    assert done.findings == ()


def test_atomics_from_many_blocks_are_no_race() -> None:
    d = Draft("sum", (4,))
    x, y = d.tensor("X", (128,), "float32"), d.tensor("Y", (32,), "float32", "out")
    s = d.shared("s", (32,), "float32")
    d.add(copy(x[d.blocks[0] * 32], s), atomic_add(y, s), atomic_add(y[0], 1.0))
    y_values = np.zeros(32, np.float32)
    done = run(d.kernel(), np.ones(128, np.float32), y_values, check_races=True)
    assert y_values.tolist() == [8.0] + [4.0] * 31
    assert done.findings == ()


def test_elements_of_an_output_that_nobody_writes_are_found() -> None:
    d = Draft("short", (3,))
    x, y = d.tensor("X", (100,), "float32"), d.tensor("Y", (100,), "float32", "out")
    s = d.shared("s", (32,), "float32")
    d.add(copy(x[d.blocks[0] * 32], s), copy(s, y[d.blocks[0] * 32]))
    done = run(d.kernel(), np.ones(100, np.float32), np.zeros(100, np.float32), check_races=True)
    assert [f.text for f in done.findings] == ["4 of 100 elements of Y are never written, the first is Y[96]"]


# ------------------------------------------------------------------ between iterations


def shifted(in_place: bool) -> Kernel:
    d = Draft("shift")
    x, y = d.tensor("X", (32,), "float32"), d.tensor("Y", (32,), "float32", "out")
    s, t = d.shared("s", (32,), "float32"), d.shared("t", (32,), "float32")
    target = s if in_place else t
    d.add(copy(x, s), copy(x, t))
    with d.parallel(31) as (i,):
        d.store(target, i, s[i + 1])
    d.add(copy(target, y))
    return d.kernel()


def test_an_iteration_that_reads_what_another_one_writes_is_a_race() -> None:
    with pytest.raises(SyncError, match=r"TB413.*reads an element of s that another one writes"):
        run(shifted(True), np.zeros(32, np.float32), np.zeros(32, np.float32), check_races=True)


def test_an_iteration_may_read_what_it_writes_itself() -> None:
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    run(shifted(False), x, y, check_races=True)
    assert y.tolist() == [*range(1, 32), 31]
    d = Draft("own")
    s, y_tensor = d.fragment("s", (8, 4), "float32"), d.tensor("Y", (8, 4), "float32", "out")
    d.add(fill(s, 2))
    with d.parallel(8, 4) as (i, j):
        d.store(s, (i, j), s[i, j] * s[i, j])
        with d.when(binary("lt", s[i, j], 3.0)):
            d.store(s, (i, j), 0)
    d.add(copy(s, y_tensor))
    out = np.zeros((8, 4), np.float32)
    run(d.kernel(), out, check_races=True)
    assert (out == 4).all()


def test_a_row_that_reads_another_row_s_element_is_a_race() -> None:
    d = Draft("row")
    s, n = d.shared("s", (8, 4), "float32"), d.scalar("n")
    d.add(fill(s, 2))
    with d.parallel(8, 4) as (i, j):
        d.store(s, (i, j), s[i, j] - s[i, n])
    with pytest.raises(SyncError, match=r"s\[0, 3\] is read by i=0, j=0 and written by i=0, j=3"):
        run(d.kernel(), 3, check_races=True)
