"""The emitted text, compiled by g++ against a second writing of the PTX functions, gives the
specification's values.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiles import host, kernels, programs
from tilebench.ir.dtype import DTYPES, decode, encode, float32, round_tf32
from tilebench.ir.expr import binary, call, cast

pytestmark = pytest.mark.skipif(not host.available(), reason="no g++ on this machine")


def compute(inputs: list[tuple[np.ndarray, str]], make: object, arch: str = "sm_80") -> list[np.ndarray]:
    """make's expressions of the inputs, element by element (storage form)."""
    program = programs.elementwise([DTYPES[d] for _, d in inputs], make, len(inputs[0][0]), arch)  # type: ignore[arg-type]
    values: dict[str, np.ndarray] = {f"x{i}": x for i, (x, _) in enumerate(inputs)}
    outputs = [p for p in program.params if p.name.startswith("y")]
    for p in outputs:
        values[p.name] = np.zeros(len(inputs[0][0]), p.value.dtype.storage_dtype)
    found = host.run(program, values)
    return [found[p.name] for p in outputs]


def same(a: np.ndarray, b: np.ndarray) -> None:
    nan = np.isnan(a) & np.isnan(b) if a.dtype.kind == "f" else np.zeros(a.shape, bool)
    wrong = (a != b) & ~nan
    assert a.dtype == b.dtype
    assert not wrong.any(), [(i, a[i], b[i]) for i in np.flatnonzero(wrong)[:6]]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integer_arithmetic_wraps_and_floors(dtype: str) -> None:
    rng = np.random.default_rng(5)
    kind, info = np.dtype(dtype), np.iinfo(dtype)
    special = np.array([0, 1, 2, 3, 7, info.max, info.min, info.max - 1], kind)
    x = np.concatenate([special, rng.integers(info.min, info.max, 56, kind)])
    y = np.concatenate([special[::-1], rng.integers(max(info.min, -9), 9, 56, kind)])
    ops = (
        "add",
        "sub",
        "mul",
        "floordiv",
        "floormod",
        "min",
        "max",
        "bitand",
        "bitor",
        "bitxor",
        "lt",
        "ge",
        "ne",
    )
    k = kind.type(3)

    def make(a: object, b: object) -> list[object]:
        found = [binary(op, a, b) for op in ops]  # type: ignore[arg-type]
        return [
            *found,
            binary("floordiv", a, 3),
            binary("floormod", a, 3),
            binary("floordiv", a, 4),
            binary("floormod", a, 4),
            (a + b) * a - b,
        ]  # type: ignore[operator]

    with np.errstate(all="ignore"):
        want = [
            x + y,
            x - y,
            x * y,
            x // y,
            x % y,
            np.minimum(x, y),
            np.maximum(x, y),
            x & y,
            x | y,
            x ^ y,
            x < y,
            x >= y,
            x != y,
            x // k,
            x % k,
            x // kind.type(4),
            x % kind.type(4),
            (x + y) * x - y,
        ]
    for got, expected in zip(compute([(x, dtype), (y, dtype)], make), want, strict=True):
        same(got, expected)


@pytest.mark.parametrize("dtype", ["float8_e4m3", "float8_e5m2", "float16", "bfloat16", "tfloat32"])
def test_rounding_to_a_narrow_float_is_the_specification(dtype: str) -> None:
    rng = np.random.default_rng(3)
    values = np.concatenate(
        [
            rng.standard_normal(60),
            rng.standard_normal(60) * 1e-3,
            rng.standard_normal(20) * 300,
            [0.0, -0.0, np.nan, np.inf, -np.inf],
            [
                448,
                464,
                465,
                57344,
                65504,
                2.0**-9,
                2.0**-10,
                1.5 * 2.0**-10,
                2.0**-16,
                2.0**-17,
                1 + 2.0**-4,
                1 + 2.0**-9,
                1 + 2.0**-11,
            ],
        ]
    ).astype(np.float32)
    [found] = compute([(values, "float32")], lambda x: [cast(x, DTYPES[dtype])])
    want = round_tf32(values) if dtype == "tfloat32" else np.asarray(encode(values, DTYPES[dtype]))
    same(decode(found, DTYPES[dtype]), decode(want, DTYPES[dtype]))


def division_cases() -> tuple[np.ndarray, np.ndarray]:
    """Quotients that are exact, ordinary, and at the ends of the range."""
    rng = np.random.default_rng(11)
    exact = rng.integers(1, 100, 64) * rng.choice([-1, 1], 64)
    by = rng.integers(1, 100, 64)
    ordinary = rng.standard_normal((2, 512)) * 2.0 ** rng.integers(-20, 20, (2, 512))
    ends = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -3.0, 3.4e38, 1.2e-38])
    x, y = (e.ravel() for e in np.meshgrid(ends, ends))
    a, b = np.concatenate([exact * by, ordinary[0], x]), np.concatenate([by, ordinary[1], y])
    return a.astype(np.float32), b.astype(np.float32)


def check_division(a: np.ndarray, b: np.ndarray, got: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        want = a / b
        wide = a.astype(np.float64) / b.astype(np.float64)
        same(got[:64], want[:64])
        error = np.abs(got.astype(np.float64) - wide) / np.spacing(np.abs(want)).astype(np.float64)
    assert np.nanmax(error[64:576]) < 0.5001
    special = ~np.isfinite(want[576:]) | (want[576:] == 0)
    same(got[576:][special], want[576:][special])
    assert np.nanmax(error[576:][~special]) <= 2


def test_division_is_exact_where_it_can_be_and_right_at_the_ends() -> None:
    a, b = division_cases()
    [got] = compute([(a, "float32"), (b, "float32")], lambda x, y: [x / y])
    check_division(a, b, got)


TANH = np.concatenate(
    [np.linspace(-9, 9, 901), np.logspace(-30, 1, 99), [0.0, -0.0, 90.0, -1e30, np.inf, -np.inf, np.nan]]
).astype(np.float32)


def check_tanh(got: np.ndarray) -> None:
    want = np.tanh(TANH.astype(np.float64))
    with np.errstate(all="ignore"):
        error = np.abs(got - want) / np.spacing(np.abs(want).astype(np.float32))
    assert np.nanmax(error) <= 3
    assert np.array_equal(np.isnan(got), np.isnan(want))
    assert np.array_equal(np.signbit(got[:-1]), np.signbit(want[:-1]))


def test_tanh_is_close_everywhere() -> None:
    [got] = compute([(TANH, "float32")], lambda x: [call("tanh", [x], float32)])
    check_tanh(got)


@pytest.mark.parametrize("dtype", ["float8_e4m3", "float8_e5m2"])
def test_every_fp8_code_widens_to_its_value(dtype: str) -> None:
    codes = np.arange(256, dtype=np.uint8)
    [found] = compute([(codes, dtype)], lambda x: [cast(x, float32)])
    same(found, decode(codes, DTYPES[dtype]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_float_arithmetic_is_rounded_once(dtype: str) -> None:
    rng = np.random.default_rng(7)
    x, y = (np.asarray(encode(rng.standard_normal(64).astype(np.float32), DTYPES[dtype])) for _ in range(2))
    a, b = (decode(v, DTYPES[dtype]).astype(np.float32) for v in (x, y))
    found = compute(
        [(x, dtype), (y, dtype)],
        lambda u, v: [u + v, u - v, u * v, u / v, -u, binary("max", u, v), (u + v) * u],
    )
    once = decode(encode(a + b, DTYPES[dtype]), DTYPES[dtype]).astype(np.float32) * a
    for got, want in zip(found, [a + b, a - b, a * b, a / b, -a, np.maximum(a, b), once], strict=True):
        same(decode(got, DTYPES[dtype]), decode(np.asarray(encode(want, DTYPES[dtype])), DTYPES[dtype]))


@pytest.mark.parametrize(
    "suite",
    [programs.conversions, programs.bits, programs.memory_accesses, programs.control, programs.two_roles],
)
def test_the_suites_run(suite: object) -> None:
    program = suite("sm_80")  # type: ignore[operator]
    values: dict[str, object] = {}
    for p in program.params:
        has_shape = hasattr(p.value, "shape")
        values[p.name] = np.ones(4096, p.value.dtype.storage_dtype) if has_shape else 1
    host.run(program, values, tuple(1 for _ in program.grid), dict.fromkeys(program.symbols, 8))


def test_atomics_of_every_type_combine_all_threads() -> None:
    program = programs.atomics("sm_80")
    values = {p.name: np.zeros(32, p.value.dtype.storage_dtype) for p in program.params}
    found = host.run(program, values)
    operations = {
        "add": np.add,
        "max": np.maximum,
        "min": np.minimum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }
    for op, run in operations.items():
        for dtype in programs.atomic_types(op):
            got = decode(found[f"x_{op}_{dtype}"], dtype)[:16]
            pairs = decode(
                np.asarray(encode(np.arange(32).astype(dtype.compute_dtype), dtype)), dtype
            ).reshape(16, 2)
            want = run(run(np.zeros_like(pairs[:, 0]), pairs[:, 0]), pairs[:, 1])
            assert np.array_equal(got, decode(np.asarray(encode(want, dtype)), dtype)), (op, dtype, got)


def test_vectors_are_added_element_by_element() -> None:
    program = programs.vector_atomics("sm_80")
    counts = {p.name: int(p.value.shape[0].value) for p in program.params}  # type: ignore[union-attr]
    values = {p.name: np.zeros(counts[p.name], p.value.dtype.storage_dtype) for p in program.params}
    found = host.run(program, values)
    sums = [p for p in program.params if p.name.startswith("x_")]
    assert len(sums) == 8
    for p in sums:
        lanes = int(p.name.rsplit("_", 1)[1])
        got = decode(found[p.name], p.value.dtype).reshape(16, lanes)
        assert np.array_equal(got, np.tile(4 * (2 * np.arange(lanes) + 1), (16, 1))), p.name
        before = decode(found[p.name.replace("x_", "o_")], p.value.dtype).reshape(32, lanes)
        assert (before < 4 * (2 * np.arange(lanes) + 1) + (np.arange(lanes) == 0)).all(), p.name


def test_folds_are_what_they_say_written_out() -> None:
    from tilebench.backends.emulator import run_program

    program = programs.folds("sm_80")
    rng = np.random.default_rng(7)
    values: dict[str, np.ndarray] = {}
    for p in program.params:
        kind, dtype = p.value.dtype, p.value.dtype.compute_dtype
        values[p.name] = encode(rng.integers(1, 9, 128).astype(dtype), kind)
    found = host.run(program, {name: x.copy() for name, x in values.items()})
    held = {name: x.copy() for name, x in values.items()}
    assert run_program(program, list(held.values()), {}).findings == ()
    for name, x in held.items():
        same(found[name], x)
        assert not name.startswith("y_") or not np.array_equal(x, values[name]), name


def test_a_gemm_is_exact_on_small_integers() -> None:
    program = kernels.gemm(128, 128, 128, "sm_80")
    rng = np.random.default_rng(2)
    a, b = (rng.choice([-2, -1, 1, 2], (128, 128)).astype(np.float16) for _ in range(2))
    found = host.run(program, {"A": a, "B": b, "C": np.zeros_like(a)})["C"]
    want = (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)
    assert np.array_equal(found, want)


def test_a_row_softmax() -> None:
    program = kernels.softmax(2, 2048, "sm_80")
    x = np.random.default_rng(1).standard_normal((2, 2048)).astype(np.float16)
    got = host.run(program, {"X": x, "Y": np.zeros_like(x)}, (2,))["Y"].astype(np.float64)
    e = np.exp(x.astype(np.float64) - x.astype(np.float64).max(1, keepdims=True))
    want = e / e.sum(1, keepdims=True)
    assert np.all(np.abs(got - want) <= 2.0**-10 * want + 2.0**-25)
