"""cpu against interp: every example of every op, per-thread programs, arithmetic at its edges, errors,
prints.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.backends.cpu_running import run_native, same_storage
from tests.backends.running import integers, run
from tests.ops.test_examples import EXAMPLES, arguments
from tilebench import config
from tilebench.errors import TargetError, TypeTileError
from tilebench.ir.dtype import DTYPES, bool_, decode, encode, float32, int32, parse_dtype, uint32
from tilebench.ir.expr import Expr, Var, binary, call, const, select
from tilebench.ir.tile import (
    Assert,
    Break,
    Buffer,
    Continue,
    For,
    Kernel,
    Print,
    Seq,
    Store,
    SyncThreads,
)
from tilebench.ops.atomic import atomic_add
from tilebench.ops.copy import copy
from tilebench.ops.elementwise import clear
from tilebench.ops.examples import Draft, tile
from tilebench.ops.gemm import gemm

RNG = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def _memory_only() -> Any:
    """Nothing of these tests goes to the user's store."""
    with config.using(cache_dir=None):
        yield


def both(kernel: Kernel, *arrays: Any) -> tuple[list[Any], list[Any]]:
    """The arguments after a run on interp, and on cpu."""
    first = [x.copy() if isinstance(x, np.ndarray) else x for x in arrays]
    second = [x.copy() if isinstance(x, np.ndarray) else x for x in arrays]
    run(kernel, *first)
    run_native(kernel, *second)
    return first, second


def agree(kernel: Kernel, *arrays: Any) -> None:
    """interp and cpu leave the same bytes."""
    for a, b in zip(*both(kernel, *arrays), strict=True):
        assert not isinstance(a, np.ndarray) or same_storage(a, b)


# ------------------------------------------------------------------ ops


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_exact_on_small_integers(example: Callable[[], Kernel]) -> None:
    kernel = example()
    agree(kernel, *arguments(kernel, 1, True))


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_within_the_rounding_of_its_sums(example: Callable[[], Kernel]) -> None:
    """Sums of up to 100 terms in another order: 100 u of the sum of magnitudes, which is below 400; one more
    rounding of the output's own type.
    """
    kernel = example()
    for param, a, b in zip(kernel.params, *both(kernel, *arguments(kernel, 2, False)), strict=True):
        assert isinstance(param.value, Buffer)
        dtype = param.value.dtype
        x, y = decode(a, dtype), decode(b, dtype)
        if not dtype.is_float:
            assert np.array_equal(x, y)
            continue
        assert np.array_equal(np.isnan(x), np.isnan(y))
        x, y = np.nan_to_num(x.astype(np.float64)), np.nan_to_num(y.astype(np.float64))
        assert (np.abs(x - y) <= 2 * dtype.unit_roundoff * np.abs(x) + 100 * 2.0**-24 * 400).all()


@pytest.mark.parametrize("depth", [1, 3, 8, 9, 17])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_a_loop_over_k_taken_several_rounds_at_a_time(
    depth: int, transposed: tuple[bool, bool], dtype: str
) -> None:
    """Tails in M, N and K; the number of rounds is known only at the call."""
    ta, tb = transposed
    m, n, k, bm, bn, bk = 50, 37, depth * 32 - 5, 24, 24, 32
    d = Draft("deep", (2, 3), threads=32)
    size, wide = Var("K", dtype=int32), "int32" if dtype == "int8" else "float32"
    a = d.tensor("A", (size, m) if ta else (m, size), dtype)
    b = d.tensor("B", (n, size) if tb else (size, n), dtype)
    c = d.tensor("C", (m, n), wide, "out")
    bx, by = d.blocks
    a_s = d.shared("A_s", (bk, bm) if ta else (bm, bk), dtype)
    b_s = d.shared("B_s", (bn, bk) if tb else (bk, bn), dtype)
    acc = d.fragment("acc", (bm, bn), wide)
    d.add(clear(acc))
    with d.pipelined((size + bk - 1) // bk) as ko:
        d.add(copy(a[ko * bk, by * bm] if ta else a[by * bm, ko * bk], a_s))
        d.add(copy(b[bx * bn, ko * bk] if tb else b[ko * bk, bx * bn], b_s))
        d.add(gemm(a_s, b_s, acc, ta, tb))
    d.add(copy(acc, c[by * bm, bx * bn]))
    x = integers(RNG, *((k, m) if ta else (m, k)), dtype=dtype)
    y = integers(RNG, *((n, k) if tb else (k, n)), dtype=dtype)
    agree(d.kernel(), x, y, np.zeros((m, n), wide))


# ------------------------------------------------------------------ arithmetic


def elementwise(dtype: str, function: Callable[..., Expr], *inputs: Any, out: str | None = None) -> Kernel:
    """Y = function(X...) element by element."""
    count = len(inputs[0])
    d = Draft("elementwise")
    tensors = [d.tensor(f"X{n}", (count,), dtype) for n in range(len(inputs))]
    y = d.tensor("Y", (count,), out or dtype, "out")
    with d.parallel(count) as (i,):
        d.store(y, i, function(*(t[i] for t in tensors)))
    return d.kernel()


INTS = ["int8", "int16", "int32", "int64", "uint8", "uint32"]


@pytest.mark.parametrize("op", ["floordiv", "floormod", "truncdiv", "truncmod"])
@pytest.mark.parametrize("dtype", INTS)
def test_integer_division_at_its_edges(op: Any, dtype: str) -> None:
    """The lowest number by -1 wraps around; signs in all combinations."""
    d = parse_dtype(dtype)
    values = [d.min, d.min + 1, d.max, 0, 1, 2, 7, 100] + ([-1, -2, -7, -100] if d.min else [])
    x, y = (a.ravel() for a in np.meshgrid(values, [v for v in values if v != 0]))
    x, y = x.astype(dtype), y.astype(dtype)
    agree(elementwise(dtype, lambda a, b: binary(op, a, b), x, y), x, y, np.zeros(len(x), dtype))


@pytest.mark.parametrize("divisor", [1, 2, 8, 7, -1, -4, -7])
@pytest.mark.parametrize("op", ["floordiv", "floormod", "truncdiv", "truncmod"])
def test_division_by_a_constant(op: Any, divisor: int) -> None:
    x = np.array([*range(-40, 41), 2**31 - 1, -(2**31)], np.int32)
    agree(
        elementwise("int32", lambda a: binary(op, a, const(divisor, int32)), x), x, np.zeros(len(x), np.int32)
    )


@pytest.mark.parametrize(
    "op",
    ["add", "sub", "mul", "min", "max", "div", "floordiv", "floormod", "truncdiv", "truncmod", "lt", "ne"],
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_float_operators_give_the_same_bits(op: Any, dtype: str) -> None:
    d = parse_dtype(dtype)
    special = [math.inf, -math.inf, math.nan, 0.0, 1.0, -2.5, 1e-7, 65504.0, 3e38]
    x, y = (a.ravel() for a in np.meshgrid(special, special))
    x = encode(np.concatenate([x, RNG.standard_normal(77)]).astype(d.compute_dtype), d)
    y = encode(np.concatenate([y, RNG.standard_normal(77)]).astype(d.compute_dtype), d)
    out = "bool" if op in ("lt", "ne") else dtype
    kernel = elementwise(dtype, lambda a, b: binary(op, a, b), x, y, out=out)
    first, second = both(kernel, x, y, np.zeros(len(x), parse_dtype(out).storage_dtype))
    a, b = (decode(v[2], parse_dtype(out)) for v in (first, second))
    assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


@pytest.mark.parametrize("target", sorted(n for n in DTYPES if not n.endswith("int4")))
@pytest.mark.parametrize("source", ["float32", "float16", "int32", "uint8", "int64"])
def test_casts_give_the_same_bits(source: str, target: str) -> None:
    a, b = parse_dtype(source), parse_dtype(target)
    if a.is_float:
        values = [
            math.inf,
            -math.inf,
            math.nan,
            0.0,
            -0.0,
            0.3,
            -1.5,
            2.5,
            240.0,
            248.0,
            449.0,
            1e-3,
            300.7,
            -3e9,
            1e30,
            2e-8,
        ]
        x = np.array([*values, *(RNG.standard_normal(50) * 20)]).astype(a.storage_dtype)
    else:
        x = np.array([0, 1, 2, 127, 128, 255, a.min, a.max, a.max // 3], a.storage_dtype)
    kernel = elementwise(source, lambda v: v.astype(b), x, out=target)
    first, second = both(kernel, x, np.zeros(len(x), b.storage_dtype))
    p, q = decode(first[1], b), decode(second[1], b)
    assert np.array_equal(p, q, equal_nan=p.dtype.kind == "f")


FUNCTIONS: list[tuple[str, Any, float, float]] = [
    ("exp", np.exp, -104.0, 88.7), ("exp2", np.exp2, -150.0, 127.9), ("log", np.log, 1e-40, 1e30),
    ("log2", np.log2, 1e-40, 1e30),
    ("tanh", np.tanh, -10.0, 10.0), ("sigmoid", lambda x: 1 / (1 + np.exp(-x)), -80.0, 80.0),
    ("sqrt", np.sqrt, 0.0, 1e30),
    ("rsqrt", lambda x: 1 / np.sqrt(x), 1e-30, 1e30), ("erf", np.vectorize(math.erf), -4.0, 4.0),
    ("sin", np.sin, -50.0, 50.0),
    ("cos", np.cos, -50.0, 50.0), ("log1p", np.log1p, -0.99, 1e4), ("atan", np.arctan, -30.0, 30.0),
    ("log10", np.log10, 1e-30, 1e30),
]  # fmt: skip


@pytest.mark.parametrize(("name", "reference", "low", "high"), FUNCTIONS, ids=[f[0] for f in FUNCTIONS])
def test_functions_are_within_two_ulp(name: str, reference: Any, low: float, high: float) -> None:
    spread = RNG.uniform(0, 1, 5000)
    x = (
        np.exp(np.log(max(low, 1e-45)) + spread * np.log(high / max(low, 1e-45)))
        if low > 0
        else low + spread * (high - low)
    )
    x = np.concatenate([x, [low, high, 1.0, 0.7071, 1.4142, 0.99999994, 1.0000001]]).astype(np.float32)
    y = np.zeros(len(x), np.float32)
    run_native(elementwise("float32", lambda v: call(name, (v,), float32), x), x, y)
    exact = reference(x.astype(np.float64))
    with np.errstate(all="ignore"):
        ulp = np.maximum(np.spacing(np.abs(exact.astype(np.float32))), 2.0**-149)
    assert np.max(np.abs(y - exact) / ulp) <= 2


@pytest.mark.parametrize("name", ["exp", "exp2", "log", "log2", "tanh", "sqrt"])
def test_functions_at_the_ends_of_the_line(name: str) -> None:
    x = np.array([math.inf, -math.inf, math.nan, 0.0, -0.0, -1.0, 1e-42, 200.0, -200.0], np.float32)
    first, second = both(
        elementwise("float32", lambda v: call(name, (v,), float32), x), x, np.zeros(9, np.float32)
    )
    assert np.allclose(first[1], second[1], rtol=3e-7, atol=1e-45, equal_nan=True)


# ------------------------------------------------------------------ loops, guards, gathers


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 9, 31, 100])
def test_guards_and_gathers_of_any_length(count: int) -> None:
    d = Draft("guards", (3,))
    size = Var("N", dtype=int32)
    x, index, y = (
        d.tensor("X", (size,), "float32"),
        d.tensor("I", (size,), "int32"),
        d.tensor("Y", (size,), "float32", "out"),
    )
    (bx,) = d.blocks
    with d.parallel(40) as (i,), d.when(binary("lt", bx * 40 + i, size)):
        at = index[bx * 40 + i]
        d.store(
            y, bx * 40 + i, select(binary("ge", at, 0), x[binary("max", at, 0)], const(-1.0)) + x[bx * 40 + i]
        )
    values = RNG.standard_normal(count).astype(np.float32)
    agree(d.kernel(), values, RNG.integers(-1, count, count).astype(np.int32), np.zeros(count, np.float32))


def test_a_select_does_not_load_the_other_side() -> None:
    d = Draft("shift")
    x, y = d.tensor("X", (50,), "float32"), d.tensor("Y", (50,), "float32", "out")
    with d.parallel(50) as (i,):
        d.store(y, i, select(binary("ge", i, 7), x[i - 7], const(0.0)))
    agree(d.kernel(), RNG.standard_normal(50).astype(np.float32), np.zeros(50, np.float32))


def test_scalars_of_each_iteration_and_loops_inside_a_nest() -> None:
    d = Draft("inside")
    x, y = d.tensor("X", (19, 6), "float32"), d.tensor("Y", (19,), "float32", "out")
    total = d.var("total", "float32")
    with d.parallel(19) as (i,):
        d.store(total, 0, 0)
        with d.serial(6) as k, d.when(binary("lt", k, i % 7)):
            d.store(total, 0, total[0] * 0.5 + x[i, k])
        with d.loop_while(binary("gt", total[0], 1.0)):
            d.store(total, 0, total[0] - 1)
        d.store(y, i, total[0])
    agree(d.kernel(), RNG.standard_normal((19, 6)).astype(np.float32), np.zeros(19, np.float32))


def test_a_strided_tensor_with_strides_known_at_the_call() -> None:
    d = Draft("strided", (2,))
    rows, step = Var("M", dtype=int32), Var("S", dtype=int32)
    x = d.tensor("X", (rows, 20), "float32", strides=(step, 1))
    y = d.tensor("Y", (rows, 20), "float16", "out")
    d.symbols.append(step)
    part = d.shared("part", (16, 20), "float16")
    (bx,) = d.blocks
    d.add(copy(x[bx * 16, 0], part), copy(part, y[bx * 16, 0]))
    base = RNG.standard_normal((27, 50)).astype(np.float32)
    out = np.zeros((27, 20), np.float16)
    run_native(d.kernel(), base[:, 5:25], out)
    assert np.array_equal(out, base[:, 5:25].astype(np.float16))


def test_views_share_bytes() -> None:
    d = Draft("views")
    x, y = d.tensor("X", (8, 4), "float32"), d.tensor("Y", (32,), "int32", "out")
    s = d.shared("s", (8, 4), "float32")
    bits = Buffer("bits", (const(32),), int32, "shared", view_of=s)
    d.buffers.append(bits)
    d.add(copy(x, s), copy(bits, y))
    agree(d.kernel(), RNG.standard_normal((8, 4)).astype(np.float32), np.zeros(32, np.int32))


def test_scratch_tensors_are_allocated_for_each_launch() -> None:
    d = Draft("workspace")
    x, y = d.tensor("X", (70,), "float32"), d.tensor("Y", (70,), "float32", "out")
    work = Buffer("work", (const(70),), float32, "global", workspace=True)
    d.buffers.append(work)
    d.add(copy(x, work))
    with d.parallel(70) as (i,):
        d.store(y, i, work[69 - i] * 2.0)
    agree(d.kernel(), RNG.standard_normal(70).astype(np.float32), np.zeros(70, np.float32))


@pytest.mark.parametrize("dtype", ["int32", "float32", "float16", "bfloat16", "float64"])
def test_atomics_of_many_blocks_lose_nothing(dtype: str) -> None:
    d = Draft("count", (64,))
    d_type = parse_dtype(dtype)
    y = d.tensor("Y", (3,), dtype, "inout")
    with d.parallel(30) as (i,), d.when(binary("lt", i % 10, 1)):
        d.atomic("add", y, i % 3, 1)
    out = np.zeros(3, d_type.storage_dtype)
    run_native(d.kernel(), out)
    assert decode(out, d_type).tolist() == [64, 64, 64]


def test_an_atomic_update_gives_the_old_value() -> None:
    d = Draft("tickets", (8,))
    counter, y = d.tensor("C", (1,), "int32", "inout"), d.tensor("Y", (240,), "int32", "out")
    (bx,) = d.blocks
    with d.parallel(30) as (i,):
        d.store(y, bx * 30 + i, d.add(atomic_add(counter[0], 1, return_prev=True)))
    out = np.zeros(240, np.int32)
    run_native(d.kernel(), np.zeros(1, np.int32), out)
    assert sorted(out.tolist()) == list(range(240))


# ------------------------------------------------------------------ threads


def test_a_block_sum_with_shuffles_and_a_mask() -> None:
    """Each warp sums by shuffles; the first lanes share it; the first warp alone sums those."""
    d = Draft("block_sum", (3,), threads=128)
    x, y = d.tensor("X", (384,), "float32"), d.tensor("Y", (3,), "float32", "out")
    (bx,), tx = d.blocks, d.thread
    v, s = d.var("v", "float32"), d.shared("s", (4,), "float32")
    d.store(v, 0, x[bx * 128 + tx])
    for step in (16, 8, 4, 2, 1):
        d.store(v, 0, v[0] + call("shfl_down", (v[0], step), float32))
    with d.when(binary("eq", tx % 32, 0)):
        d.store(s, tx // 32, v[0])
    d.add(SyncThreads())
    with d.when(binary("lt", tx, 32)):
        d.store(v, 0, select(binary("lt", tx, 4), s[binary("min", tx, 3)], const(0.0)))
        for step in (2, 1):
            d.store(v, 0, v[0] + call("shfl_xor", (v[0], step), float32))
        with d.when(binary("eq", tx, 0)):
            d.store(y, bx, v[0])
    agree(d.kernel(), integers(RNG, 384, dtype=np.float32), np.zeros(3, np.float32))


def test_votes_of_a_ragged_last_warp() -> None:
    d = Draft("votes", threads=48)
    y, tx = d.tensor("Y", (5, 48), "int32", "out"), d.thread
    odd = binary("eq", tx % 2, 1)
    d.store(y, (0, tx), call("ballot", (odd,), uint32).astype(int32))
    d.store(y, (1, tx), call("shfl_up", (tx, 5), int32))
    d.store(y, (2, tx), call("all_sync", (binary("lt", tx, 40),), bool_).astype(int32))
    d.store(y, (3, tx), call("syncthreads_count", (odd,), int32))
    d.store(y, (4, tx), call("shfl", (tx * 3, 7), int32))
    agree(d.kernel(), np.zeros((5, 48), np.int32))


def test_each_thread_has_its_own_array_and_loop() -> None:
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
    agree(d.kernel(), np.zeros(64, np.int32))


def test_a_copy_to_a_local_array_is_made_by_each_thread() -> None:
    d = Draft("local_copy", threads=32)
    x, y, tx = d.tensor("X", (64,), "float32"), d.tensor("Y", (32,), "float32", "out"), d.thread
    own = d.local("own", (2,), "float32")
    d.add(copy(tile(x, (tx * 2, 2)), own))
    d.store(y, tx, own[0] - own[1])
    agree(d.kernel(), RNG.standard_normal(64).astype(np.float32), np.zeros(32, np.float32))


@pytest.mark.parametrize("seed", range(25))
def test_random_programs_of_threads(seed: int) -> None:
    """Loops, breaks and conditions that differ between threads, against interp."""
    from tests.backends.test_interp_properties import THREADS, VARS, Maker, per_thread_kernel

    maker = Maker(seed, seed % 4 == 0)
    agree(per_thread_kernel(maker, maker.block([], 2, False)), np.zeros((VARS, THREADS), np.int32))


def test_a_shuffle_in_a_loop_that_differs_between_threads_is_refused() -> None:
    d = Draft("odd", threads=32)
    y, tx = d.tensor("Y", (32,), "int32", "out"), d.thread
    v = d.var("v", "int32")
    d.store(v, 0, tx)
    with d.serial(tx % 3) as _:
        d.store(v, 0, v[0] + call("shfl_xor", (v[0], 1), int32))
    d.store(y, tx, v[0])
    with pytest.raises(TargetError, match="shfl_xor") as caught:
        run_native(d.kernel(), np.zeros(32, np.int32))
    assert caught.value.code == "TB541"


# ------------------------------------------------------------------ what goes wrong


def failing(kernel: Kernel, *arrays: Any) -> tuple[TypeTileError, TypeTileError]:
    with pytest.raises(TypeTileError) as expected:
        run(kernel, *(a.copy() for a in arrays))
    with pytest.raises(TypeTileError) as caught:
        run_native(kernel, *arrays)
    assert caught.value.code == expected.value.code
    return expected.value, caught.value


def test_an_index_past_a_tensor_is_an_error_not_a_crash() -> None:
    d = Draft("past", (8,))
    size = Var("N", dtype=int32)
    x, y = d.tensor("X", (size,), "float32"), d.tensor("Y", (1024,), "float32", "out")
    (bx,) = d.blocks
    with d.parallel(128) as (i,):
        d.store(y, bx * 128 + i, x[bx * 128 + i])
    _, error = failing(d.kernel(), np.zeros(1000, np.float32), np.zeros(1024, np.float32))
    assert error.what == "X[1000] is out of the tensor, block (7, 0, 0)"


def test_a_gathered_index_is_checked_in_every_lane() -> None:
    d = Draft("gather")
    x, index, y = (
        d.tensor("X", (8,), "float32"),
        d.tensor("I", (20,), "int32"),
        d.tensor("Y", (20,), "float32", "out"),
    )
    with d.parallel(20) as (i,):
        d.store(y, i, x[index[i]])
    at = np.zeros(20, np.int32)
    at[13] = 2**31 - 1
    _, error = failing(d.kernel(), np.zeros(8, np.float32), at, np.zeros(20, np.float32))
    assert error.what == "X[2147483647] is out of 0..7, block (0, 0, 0)"


@pytest.mark.parametrize(("op", "bad"), [("floordiv", 0), ("truncmod", 0), ("shl", 32), ("shr", -1)])
def test_division_by_zero_and_wide_shifts_are_errors(op: Any, bad: int) -> None:
    x, y = np.arange(1, 21, dtype=np.int32), np.ones(20, np.int32)
    y[11] = bad
    failing(elementwise("int32", lambda a, b: binary(op, a, b), x, y), x, y, np.zeros(20, np.int32))


def test_a_guard_makes_division_by_zero_harmless() -> None:
    x, y = np.arange(-10, 11, dtype=np.int32), np.arange(-10, 11, dtype=np.int32)
    kernel = elementwise(
        "int32", lambda a, b: select(binary("ne", b, 0), binary("floordiv", a * 7, b), const(-1, int32)), x, y
    )
    agree(kernel, x, y, np.zeros(21, np.int32))


def test_a_failed_assertion_says_its_message() -> None:
    d = Draft("asserts", (4,))
    x = d.tensor("X", (4,), "int32")
    d.add(Assert(binary("gt", x[d.blocks[0]], 0), "x is positive"))
    _, error = failing(d.kernel(), np.array([1, 1, 0, 1], np.int32))
    assert error.what == "device_assert failed: x is positive, block (2, 0, 0)"


def test_print_says_what_interp_says(capsys: pytest.CaptureFixture[str]) -> None:
    d = Draft("prints", threads=4)
    x = d.tensor("X", (3,), "float16")
    s = d.shared("s", (3,), "bfloat16")
    d.add(copy(x, s), Print("s is", (), s), Print("first", (x[0], const(7))), Print("mine", (d.thread * 2,)))
    run(d.kernel(), np.array([1.5, -2, 0.25], np.float16))
    expected = capsys.readouterr().out
    run_native(d.kernel(), np.array([1.5, -2, 0.25], np.float16))
    assert capsys.readouterr().out == expected


def test_empty_grids_and_empty_tensors_do_nothing() -> None:
    d = Draft("empty", (Var("G", dtype=int32),))
    d.symbols.append(d.grid[0])  # type: ignore[arg-type]
    x = d.tensor("X", (d.grid[0], 4), "float32", "inout")
    with d.parallel(4) as (i,):
        d.store(x, (d.blocks[0], i), 1.0)
    run_native(d.kernel(), np.zeros((0, 4), np.float32))


@pytest.mark.parametrize(
    ("start", "stop", "step"),
    [
        (2**31 - 2, 2**31 - 1, 4),
        (2 - 2**31, 1 - 2**31, -4),
        (2**31 - 9, 2**31 - 1, 3),
        (9 - 2**31, 1 - 2**31, -3),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_a_loop_ends_where_its_variable_would_wrap(start: int, stop: int, step: int, known: bool) -> None:
    d = Draft("ends")
    a, b, by, y = d.scalar("a"), d.scalar("b"), d.scalar("by"), d.tensor("Y", (2,), "int32", "out")
    k = Var("k", dtype=int32)
    body = Seq((Store(y, (const(0),), y[0] + 1), Store(y, (const(1),), k)))
    d.add(Store(y, (const(0),), const(0)), For(k, a, b, body, const(step) if known else by))
    got = np.zeros(2, np.int32)
    run_native(d.kernel(), start, stop, step, got)
    assert got.tolist() == [len(range(start, stop, step)), range(start, stop, step)[-1]]
