"""Values of straight and divergent thread code against a plain Python loop over the threads."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.emulator.build import Build, intrinsic, kinds, zeros
from tilebench.errors import InternalError
from tilebench.ir.dtype import as_dtype, decode, encode
from tilebench.ir.expr import binary, cast, const, select, unary


def test_divergent_ifs_run_both_sides_for_their_threads() -> None:
    b = Build(64)
    out, r = b.tensor("C", 64, "int32", "out"), b.regs("r", 1, "int32")
    b.store(r, 0, 0)
    with b.when(b.tx < 20):
        b.store(r, 0, b.tx * 2)
        with b.when(b.tx % 3 == 0):
            b.store(r, 0, b.load(r, 0) + 100)
        with b.otherwise():
            b.store(r, 0, b.load(r, 0) + 200)
    with b.otherwise():
        b.store(r, 0, -b.tx)
    b.store(out, b.tx, b.load(r, 0))
    c = zeros(64, "int32")
    assert b.run(c).findings == ()
    assert c.tolist() == [t * 2 + (100 if t % 3 == 0 else 200) if t < 20 else -t for t in range(64)]


def test_loops_with_trip_counts_of_the_thread() -> None:
    b = Build(32)
    out, r = b.tensor("C", 32, "int32", "out"), b.regs("r", 1, "int32")
    b.store(r, 0, 0)
    with b.loop(b.tx % 5, kind="serial") as i:
        b.store(r, 0, b.load(r, 0) + i + 1)
    with b.loop(20, start=b.tx, step=7) as i:
        b.store(r, 0, b.load(r, 0) + 1000)
    b.store(out, b.tx, b.load(r, 0))
    c = zeros(32, "int32")
    assert b.run(c).findings == ()
    assert c.tolist() == [sum(range(1, t % 5 + 1)) + 1000 * len(range(t, 20, 7)) for t in range(32)]


def test_break_and_continue_under_conditions_of_the_thread() -> None:
    b = Build(32)
    out, r = b.tensor("C", 32, "int32", "out"), b.regs("r", 1, "int32")
    b.store(r, 0, 0)
    with b.loop(10) as i:
        with b.when(i % 2 == 1):
            b.skip()
        with b.when(i > b.tx), b.when(b.tx < 30):
            b.leave()
        b.store(r, 0, b.load(r, 0) * 3 + i)
    b.store(out, b.tx, b.load(r, 0))
    c = zeros(32, "int32")
    assert b.run(c).findings == ()
    expected: list[int] = []
    for t in range(32):
        x = 0
        for i in range(10):
            if i % 2 == 1:
                continue
            if i > t:
                break
            x = x * 3 + i
        expected.append(x)
    assert c.tolist() == expected


def test_uniform_break_and_while() -> None:
    b = Build(32)
    n = b.scalar("n", "int32")
    out, r = b.tensor("C", 32, "int32", "out"), b.regs("r", 2, "int32")
    b.store(r, 0, 0)
    with b.loop(100) as i:
        with b.when(i >= n):
            b.leave()
        b.store(r, 0, b.load(r, 0) + i)
    b.store(r, 1, b.tx)
    with b.loop_while(b.load(r, 1) > 3):
        b.store(r, 1, b.load(r, 1) // 2)
        with b.when(b.load(r, 1) == 6):
            b.leave()
    b.store(out, b.tx, b.load(r, 0) * 100 + b.load(r, 1))
    c = zeros(32, "int32")
    assert b.run(7, c).findings == ()
    expected: list[int] = []
    for t in range(32):
        x = t
        while x > 3:
            x //= 2
            if x == 6:
                break
        expected.append(2100 + x)
    assert c.tolist() == expected


def test_loops_run_as_one_give_what_they_give_one_by_one() -> None:
    seen: list[np.ndarray] = []
    for independent in (False, True):
        b = Build(32)
        out, r = b.tensor("C", 32 * 12, "float32", "out"), b.regs("r", 12, "float32")
        with b.loop(3, independent=independent) as i, b.loop(4, independent=independent) as j:
            v = b.bind(cast(i * 10 + j, as_dtype("float32")) + cast(b.tx, as_dtype("float32")))
            b.store(r, i * 4 + j, v)
            with b.when((j + b.tx) % 2 == 0):
                b.store(r, i * 4 + j, v * 0.5)
            with b.when(i == 1):
                b.store(r, i * 4 + j, -v)
        with b.loop(12, independent=independent) as i:
            b.store(out, b.tx * 12 + i, intrinsic("shfl_xor", b.load(r, i), 5))
        c = zeros(32 * 12, "float32")
        assert b.run(c).findings == ()
        seen.append(c)
    assert (seen[0] == seen[1]).all()
    expected = np.zeros((32, 12))
    for t in range(32):
        for i in range(3):
            for j in range(4):
                v = i * 10 + j + (t ^ 5)
                expected[t, i * 4 + j] = -v if i == 1 else v * 0.5 if (j + (t ^ 5)) % 2 == 0 else v
    assert (seen[1].reshape(32, 12) == expected).all()


def test_a_scratch_register_in_an_independent_loop_is_not_shared_between_iterations() -> None:
    b = Build(32)
    out, r = b.tensor("C", 128, "int32", "out"), b.regs("r", 1, "int32")
    with b.loop(4, independent=True) as i:
        b.store(r, 0, b.tx + i)
        b.store(out, b.tx * 4 + i, b.load(r, 0) * 2)
    c = zeros(128, "int32")
    assert b.run(c).findings == ()
    assert c.tolist() == [(t + i) * 2 for t in range(32) for i in range(4)]


def test_a_bound_register_keeps_its_value_when_the_register_changes() -> None:
    b = Build(32)
    out, r = b.tensor("C", 32, "int32", "out"), b.regs("r", 2, "int32")
    b.store(r, 0, b.tx)
    b.store(r, 1, b.tx + 100)
    old = b.bind(b.load(r, 0))
    b.store(r, 0, b.load(r, 1))
    b.store(r, 1, old)
    b.store(out, b.tx, b.load(r, 0) * 1000 + b.load(r, 1))
    c = zeros(32, "int32")
    b.run(c)
    assert c.tolist() == [(t + 100) * 1000 + t for t in range(32)]


SHUFFLES = {
    "shfl_xor": lambda t, x: t ^ x,
    "shfl_up": lambda t, x: t - x if t >= x else t,
    "shfl_down": lambda t, x: t + x if t + x < 32 else t,
    "shfl": lambda t, x: x,
}


@pytest.mark.parametrize("name", SHUFFLES)
@pytest.mark.parametrize("amount", [1, 4, 16])
def test_shuffles_take_the_value_of_another_lane(name: str, amount: int) -> None:
    b = Build(64)
    out = b.tensor("C", 64, "float32", "out")
    b.store(out, b.tx, intrinsic(name, cast(b.tx, as_dtype("float32")) + 0.5, amount))
    c = zeros(64, "float32")
    assert b.run(c).findings == ()
    assert c.tolist() == [t // 32 * 32 + SHUFFLES[name](t % 32, amount) + 0.5 for t in range(64)]


def test_a_shuffle_from_a_lane_that_does_not_run_it_is_a_finding() -> None:
    b = Build(32)
    out = b.tensor("C", 32, "int32", "inout")
    with b.when(b.tx < 8):
        line = b.store(out, b.tx, intrinsic("shfl_xor", b.tx, 8))
    found = b.run(zeros(32, "int32")).findings
    assert [f.kind for f in found] == ["divergence"]
    assert found[0].spans[0].line == line


def test_votes() -> None:
    b = Build(64)
    out = b.tensor("C", 256, "uint32", "out")
    p = b.tx % 3 == 0
    b.store(out, b.tx * 4, intrinsic("ballot", p, dtype="uint32"))
    b.store(out, b.tx * 4 + 1, cast(intrinsic("any_sync", b.tx == 40, dtype="bool"), as_dtype("uint32")))
    b.store(out, b.tx * 4 + 2, cast(intrinsic("all_sync", b.tx < 32, dtype="bool"), as_dtype("uint32")))
    with b.when(b.tx % 2 == 1):
        b.store(out, b.tx * 4 + 3, intrinsic("activemask", dtype="uint32"))
    c = zeros(256, "uint32")
    b.run(c)
    rows = c.reshape(64, 4)
    assert rows[0, 0] == sum(1 << t for t in range(32) if t % 3 == 0)
    assert rows[63, 0] == sum(1 << (t - 32) for t in range(32, 64) if t % 3 == 0)
    assert (rows[:32, 1] == 0).all()
    assert (rows[32:, 1] == 1).all()
    assert (rows[:32, 2] == 1).all()
    assert (rows[32:, 2] == 0).all()
    assert rows[1, 3] == 0xAAAAAAAA


@pytest.mark.parametrize(
    ("name", "expected"), [("syncthreads_and", 0), ("syncthreads_or", 1), ("syncthreads_count", 22)]
)
def test_barriers_with_a_predicate(name: str, expected: int) -> None:
    b = Build(64)
    out = b.tensor("C", 64, "int32", "out")
    v = b.bind(intrinsic(name, b.tx % 3 == 0, dtype="int32" if name.endswith("count") else "bool"))
    b.store(out, b.tx, cast(v, as_dtype("int32")))
    c = zeros(64, "int32")
    assert b.run(c).findings == ()
    assert (c == expected).all()


INTS = [(7, 2), (-7, 2), (7, -2), (-7, -2), (0, 5), (-(2**31), 3), (2**31 - 1, -1), (6, 3)]


@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize("op", ["floordiv", "floormod", "truncdiv", "truncmod"])
def test_integer_division_rounds_as_its_name_says(op: str, uniform: bool) -> None:
    for x, y in INTS:
        b = Build(32)
        n, out = b.scalar("n", "int32"), b.tensor("C", 32, "int32", "out")
        source = b.tensor("A", 32, "int32")
        left = n if uniform else b.load(source, b.tx)
        b.store(out, b.tx, binary(op, left, const(y)))  # type: ignore[arg-type]
        c = zeros(32, "int32")
        b.run(x, c, np.full(32, x, np.int32))
        q = math.floor(x / y) if op.startswith("floor") else int(x / y)
        assert c[0] == np.int64(q if op.endswith("div") else x - q * y).astype(np.int32), (op, x, y)


@pytest.mark.parametrize("uniform", [False, True])
def test_integers_wrap(uniform: bool) -> None:
    b = Build(32)
    n, out, source = b.scalar("n", "int32"), b.tensor("C", 128, "int32", "out"), b.tensor("A", 32, "int32")
    x = n if uniform else b.bind(b.load(source, b.tx))
    for i, e in enumerate((x + 5, x * x, x << 3, -(x + 1))):
        b.store(out, b.tx * 4 + i, e)
    c = zeros(128, "int32")
    b.run(2**31 - 1, c, np.full(32, 2**31 - 1, np.int32))
    assert c[:4].tolist() == [-(2**31) + 4, 1, -8, -(2**31)]


def test_shifts_as_wide_as_the_type_give_zero_or_the_sign() -> None:
    b = Build(32)
    out, by = b.tensor("C", 96, "int32", "out"), b.tensor("A", 32, "int32")
    s = b.bind(b.load(by, b.tx))
    b.store(out, b.tx * 3, const(-5) << s)
    b.store(out, b.tx * 3 + 1, const(-5) >> s)
    b.store(out, b.tx * 3 + 2, const(5) >> s)
    c = zeros(96, "int32")
    b.run(c, np.full(32, 32, np.int32))
    assert c[:3].tolist() == [0, -1, 0]


def test_integer_division_by_zero_is_a_finding_and_gives_zero() -> None:
    b = Build(32)
    out, source = b.tensor("C", 32, "int32", "out"), b.tensor("A", 32, "int32")
    line = b.store(out, b.tx, const(7) // b.load(source, b.tx))
    c = zeros(32, "int32")
    found = b.run(c, np.arange(32, dtype=np.int32)).findings
    assert [f.kind for f in found] == ["division-by-zero"]
    assert found[0].spans[0].line == line
    assert c[0] == 0


def test_a_guarded_division_is_silent() -> None:
    b = Build(32)
    out, source = b.tensor("C", 32, "int32", "inout"), b.tensor("A", 32, "int32")
    with b.when(b.load(source, b.tx) != 0):
        b.store(out, b.tx, const(7) // b.load(source, b.tx))
    assert b.run(zeros(32, "int32"), np.arange(32, dtype=np.int32)).findings == ()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3", "float8_e5m2"])
def test_narrow_floats_round_after_each_operation(dtype: str) -> None:
    kind = as_dtype(dtype)
    rng = np.random.default_rng(5)
    x, y = (
        encode(rng.standard_normal(32).astype(np.float32).astype(kind.compute_dtype), kind) for _ in range(2)
    )
    b = Build(32)
    ga, gb, out = b.tensor("A", 32, dtype), b.tensor("B", 32, dtype), b.tensor("C", 96, dtype, "out")
    u, v = b.bind(b.load(ga, b.tx)), b.bind(b.load(gb, b.tx))
    b.store(out, b.tx * 3, u * v)
    b.store(out, b.tx * 3 + 1, u * v + u)
    b.store(out, b.tx * 3 + 2, intrinsic("exp2", u))
    c = zeros(96, dtype)
    assert b.run(x, y, c).findings == ()
    du, dv = (decode(z, kind).astype(np.float32) for z in (x, y))

    def r(z: np.ndarray) -> np.ndarray:
        return decode(encode(z.astype(kind.compute_dtype) if kind == "float16" else z, kind), kind).astype(
            np.float32
        )

    got = decode(c, kind).astype(np.float32).reshape(32, 3)
    assert (got[:, 0] == r(du * dv)).all()
    assert (got[:, 1] == r(r(du * dv) + du)).all()
    assert (got[:, 2] == r(np.exp2(du))).all()


def test_casts_truncate_saturate_and_round() -> None:
    b = Build(32)
    source, out = b.tensor("A", 32, "float32"), b.tensor("C", 32, "int32", "out")
    small, half = b.tensor("S", 32, "int8", "out"), b.tensor("H", 32, "float16", "out")
    x = b.bind(b.load(source, b.tx))
    b.store(out, b.tx, cast(x, as_dtype("int32")))
    b.store(small, b.tx, cast(x, as_dtype("int8")))
    b.store(half, b.tx, cast(x, as_dtype("float16")))
    values = np.resize(np.array([1.9, -1.9, 3e9, -3e9, np.nan, 70000, 200.0, 0.1], np.float32), 32)
    c, s, h = zeros(32, "int32"), zeros(32, "int8"), zeros(32, "float16")
    b.run(values, c, s, h)
    assert c[:8].tolist() == [1, -1, 2**31 - 1, -(2**31), 0, 70000, 200, 0]
    assert s[:8].tolist() == [1, -1, 127, -128, 0, 127, 127, 0]
    assert h[5] == np.inf
    assert h[7] == np.float16(0.1)


def test_select_does_not_load_the_side_that_is_not_taken() -> None:
    b = Build(32)
    source, out = b.tensor("A", 10, "float32"), b.tensor("C", 32, "float32", "out")
    b.store(out, b.tx, select(b.tx < 10, b.load(source, b.tx), const(-1.0)))
    c = zeros(32, "float32")
    assert b.run(np.arange(10, dtype=np.float32), c).findings == ()
    assert c.tolist() == [float(t) if t < 10 else -1.0 for t in range(32)]


def test_and_does_not_load_what_its_left_side_forbids() -> None:
    b = Build(32)
    source, out = b.tensor("A", 10, "float32"), b.tensor("C", 32, "int32", "out")
    b.store(out, b.tx, cast(binary("and", b.tx < 10, b.load(source, b.tx) > 4.0), as_dtype("int32")))
    b.store(
        out,
        b.tx,
        cast(unary("not", binary("or", b.tx >= 10, b.load(source, b.tx) <= 4.0)), as_dtype("int32")),
    )
    c = zeros(32, "int32")
    assert b.run(np.arange(10, dtype=np.float32), c).findings == ()
    assert c.tolist() == [int(4 < t < 10) for t in range(32)]


@pytest.mark.parametrize("op", ["add", "max", "min", "exch"])
@pytest.mark.parametrize("space", ["shared", "global"])
def test_atomics_are_done_thread_after_thread(op: str, space: str) -> None:
    b = Build(64)
    out, olds = b.tensor("C", 4, "int32", "inout"), b.tensor("O", 64, "int32", "out")
    s = b.shared("s", 4, "int32")
    with b.when(b.tx < 4):
        b.store(s, b.tx, 10)
    b.sync()
    old = b.atomic(op, s if space == "shared" else out, b.tx % 4, b.tx, result=True)
    b.store(olds, b.tx, old)  # type: ignore[arg-type]
    b.sync()
    if space == "shared":
        with b.when(b.tx < 4):
            b.store(out, b.tx, b.load(s, b.tx))
    c, o = np.full(4, 10, np.int32), zeros(64, "int32")
    assert kinds(b.run(c, o)) == []
    f = {"add": lambda a, x: a + x, "max": max, "min": min, "exch": lambda a, x: x}[op]
    state, expected = [10] * 4, [0] * 64
    for t in range(64):
        expected[t] = state[t % 4]
        state[t % 4] = f(state[t % 4], t)
    assert c.tolist() == state
    assert o.tolist() == expected


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_float_atomics(dtype: str) -> None:
    b = Build(32)
    out = b.tensor("C", 1, dtype, "inout")
    b.atomic("add", out, 0, 1.0)
    c = zeros(1, dtype)
    assert b.run(c).findings == ()
    assert decode(c, as_dtype(dtype))[0] == 32.0


def test_vector_copies_with_predicates() -> None:
    b = Build(32)
    source, out = b.tensor("A", 128, "float32"), b.tensor("C", 256, "float32", "out")
    r, q = b.regs("r", 4, "float32"), b.regs("q", 4, "float32")
    with b.loop(4, independent=True) as i:
        b.store(q, i, 9.0)
    b.copy(r, 0, source, b.tx * 4, 4, b.tx % 2 == 0, zero_fill=True)
    b.copy(q, 0, source, b.tx * 4, 4, b.tx % 2 == 0)
    b.copy(out, b.tx * 8, r, 0, 4)
    b.copy(out, b.tx * 8 + 4, q, 0, 4)
    c = zeros(256, "float32")
    assert b.run(np.arange(128, dtype=np.float32), c).findings == ()
    for t in range(32):
        want = list(range(t * 4, t * 4 + 4))
        assert c[t * 8 : t * 8 + 8].tolist() == (want + want if t % 2 == 0 else [0] * 4 + [9] * 4)


def test_strided_arrays_are_the_memory_they_span() -> None:
    b = Build(32)
    source, out = b.tensor("A", 64, "int32"), b.tensor("C", 32, "int32", "out")
    b.store(out, b.tx, b.load(source, b.tx * 2))
    base = np.arange(64, dtype=np.int32)
    c = zeros(32, "int32")
    assert b.run(base[::2], c).findings == ()
    assert c.tolist() == base[::2].tolist()
    b = Build(32)
    source, out = b.tensor("A", 64, "int32"), b.tensor("C", 32, "int32", "out")
    b.store(out, b.tx, b.load(source, -b.tx))
    b.run(base[:32][::-1], c)
    assert c.tolist() == list(range(31, -1, -1))


def test_threads_that_are_no_whole_warp() -> None:
    b = Build(48)
    s, out = b.shared("s", 48, "int32"), b.tensor("C", 48, "int32", "out")
    b.store(s, b.tx, b.tx)
    b.sync()
    b.store(out, b.tx, b.load(s, 47 - b.tx))
    c = zeros(48, "int32")
    assert b.run(c).findings == ()
    assert c.tolist() == list(range(47, -1, -1))


def test_print_and_assert() -> None:
    b = Build(32)
    b.print("hello")
    with b.when(b.tx == 5):
        b.print("value", b.tx * 2)
    line = b.loc().line + 1
    b.check(b.tx < 31, "too far")
    result = b.run()
    assert result.printed == ("block 0 thread 0: hello", "block 0 thread 5: value 10")
    assert [f.kind for f in result.findings] == ["assert"]
    assert "too far" in result.findings[0].text
    assert "thread 31" in result.findings[0].text
    assert result.findings[0].spans[0].line == line


@pytest.mark.parametrize("schedule", ["forward", "reverse", 1, 2])
def test_schedules_agree(schedule: object) -> None:
    b = Build(64, (5,))
    out, s = b.tensor("C", 320, "int32", "out"), b.shared("s", 64, "int32")
    b.store(s, b.tx, b.tx * 3)
    b.sync()
    b.store(out, b.blocks[0] * 64 + b.tx, b.load(s, (b.tx + 1) % 64) + b.blocks[0])
    c = zeros(320, "int32")
    assert b.run(c, schedule=schedule).findings == ()
    assert c.tolist() == [(t + 1) % 64 * 3 + x for x in range(5) for t in range(64)]


def test_chosen_blocks_only() -> None:
    b = Build(32, (4, 2))
    out = b.tensor("C", 8 * 32, "int32", "out")
    b.store(out, (b.blocks[1] * 4 + b.blocks[0]) * 32 + b.tx, b.blocks[0] * 10 + b.blocks[1] + 1)
    c = zeros(256, "int32")
    result = b.run(c, blocks=[0, 7])
    assert result.blocks == 2
    assert result.findings == ()
    rows = c.reshape(8, 32)
    assert (rows[0] == 1).all()
    assert (rows[7] == 32).all()
    assert (rows[1:7] == 0).all()


UNARY = [
    "exp",
    "exp2",
    "log",
    "log2",
    "sqrt",
    "rsqrt",
    "sin",
    "tanh",
    "erf",
    "sigmoid",
    "floor",
    "ceil",
    "round",
    "trunc",
    "nearbyint",
    "abs",
    "rcp",
]


@pytest.mark.parametrize("name", UNARY)
def test_float_functions(name: str) -> None:
    reference = {
        "exp2": lambda x: 2.0**x, "log2": math.log2, "rsqrt": lambda x: 1 / math.sqrt(x),
        "sigmoid": lambda x: 1 / (1 + math.exp(-x)), "round": lambda x: math.floor(x + 0.5), "trunc": int,
        "nearbyint": round, "abs": abs, "rcp": lambda x: 1 / x,
    }  # fmt: skip
    f = reference.get(name) or getattr(math, name)
    b = Build(32)
    source, out = b.tensor("A", 32, "float32"), b.tensor("C", 64, "float32", "out")
    half = b.regs("h", 1, "float16")
    b.store(out, b.tx * 2, intrinsic(name, b.load(source, b.tx)))
    b.store(half, 0, cast(b.load(source, b.tx), as_dtype("float16")))
    b.store(out, b.tx * 2 + 1, cast(intrinsic(name, b.load(half, 0)), as_dtype("float32")))
    x = (np.arange(32, dtype=np.float32) + 1) / 4
    c = zeros(64, "float32")
    assert b.run(x, c).findings == ()
    want = np.array([f(float(v)) for v in x])
    assert np.allclose(c[0::2], want, rtol=4e-7, atol=1e-7)  # a few units in the last place of float32
    assert (np.abs(c[1::2] - want) <= 2.0**-11 * np.abs(want) * 1.001 + 1e-7).all()  # rounded once to float16


def test_bit_functions() -> None:
    b = Build(32)
    source, out = b.tensor("A", 32, "int32"), b.tensor("C", 128, "int32", "out")
    x = b.bind(b.load(source, b.tx))
    b.store(out, b.tx * 4, intrinsic("popcount", x, dtype="int32"))
    b.store(out, b.tx * 4 + 1, intrinsic("clz", x, dtype="int32"))
    b.store(
        out,
        b.tx * 4 + 2,
        intrinsic("reinterpret", intrinsic("reinterpret", x, dtype="float32"), dtype="int32"),
    )
    b.store(out, b.tx * 4 + 3, intrinsic("dp4a", x, const(0x01FF0201), const(7)))
    values = np.array([0, 1, -1, 0x7FFFFFFF, 0x01020304, -(2**31), *range(26)], np.int32)
    c = zeros(128, "int32")
    b.run(values, c)
    for v, row in zip(values.tolist(), c.reshape(32, 4).tolist(), strict=True):
        bits = v & 0xFFFFFFFF
        quads = np.array([v], np.int32).view(np.int8).astype(int)
        assert row[:3] == [bits.bit_count(), 32 - bits.bit_length(), v]
        assert row[3] == int((quads * np.array([1, 2, -1, 1])).sum()) + 7


def test_empty_and_tiny_arrays_are_only_read_where_they_have_elements() -> None:
    b = Build(32)
    none, few = b.tensor("N", 0, "float32"), b.tensor("A", 3, "float32")
    out = b.tensor("C", 128, "float32", "out")
    r = b.regs("r", 4, "float32")
    b.copy(r, 0, few, b.tx * 4, 4, b.tx < 0, zero_fill=True)
    b.copy(out, b.tx * 4, r, 0, 4)
    b.sync()
    with b.when(b.tx < 3):
        b.store(out, b.tx, b.load(few, b.tx))
    with b.when(b.tx < 0):
        b.store(out, b.tx, b.load(none, b.tx))
    c = np.ones(128, np.float32)
    assert b.run(zeros(0, "float32"), np.full(3, 2.0, np.float32), c).findings == ()
    assert c.tolist() == [2.0] * 3 + [0.0] * 125
    b = Build(32)
    none, out = b.tensor("N", 0, "float32"), b.tensor("C", 32, "float32", "out")
    b.store(out, b.tx, b.load(none, b.tx))
    assert kinds(b.run(zeros(0, "float32"), zeros(32, "float32"))) == ["out-of-bounds"]


def test_a_bug_of_ours_is_reported_with_the_line_of_the_statement() -> None:
    b = Build(32)
    a, w, d = b.regs("a", 64, "float16"), b.regs("b", 4, "float16"), b.regs("d", 4, "float32")
    line = b.mma(16, d, 0, a, b.tx, w, 0)  # a fragment cannot start at a register of the thread
    with pytest.raises(InternalError) as caught:
        b.run()
    assert caught.value.at is not None
    assert caught.value.at.line == line
