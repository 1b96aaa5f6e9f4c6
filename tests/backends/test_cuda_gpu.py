"""What only a GPU can show: generated kernels give the values of the specification, and faults are told
apart.
"""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

from tests.compiles import kernels, programs
from tests.compiles.test_on_host import TANH, check_division, check_tanh, division_cases
from tilebench.backends.base import TensorArgument
from tilebench.backends.cuda.build import build_program
from tilebench.backends.cuda.driver import GpuError
from tilebench.errors import LaunchError
from tilebench.ir.dtype import DTYPES, decode, encode, float32, round_tf32
from tilebench.ir.expr import binary, call, cast
from tilebench.ir.thread import Memory, Program
from tilebench.store import Store
from tilebench.targets import parse

pytestmark = pytest.mark.gpu
MEMORY = Store(None)


def arch() -> str:
    from tilebench.backends.cuda import driver

    return driver.arch()


def run(
    program: Program, arrays: dict[str, np.ndarray], grid: tuple[int, ...] = (1,), symbols: dict | None = None
) -> dict[str, np.ndarray]:
    """Launch on copies of the arrays (storage form; scalars as Python numbers); gives every tensor
    afterwards.
    """
    import torch

    executable = build_program(program, parse(f"cuda:{arch()}"), programs.CELL, MEMORY)
    held: dict[str, torch.Tensor] = {}
    arguments = []
    for param in program.params:
        value = arrays[param.name]
        if not isinstance(value, np.ndarray):
            arguments.append(value)
            continue
        held[param.name] = torch.from_numpy(np.ascontiguousarray(value).view(np.uint8).copy()).cuda()
        arguments.append(
            TensorArgument(
                held[param.name].data_ptr(), value.shape, tuple(s // value.itemsize for s in value.strides)
            )
        )
    executable.launch(arguments, symbols or {}, grid, torch.cuda.current_stream().cuda_stream)
    torch.cuda.synchronize()
    return {n: t.cpu().numpy().view(arrays[n].dtype).reshape(arrays[n].shape) for n, t in held.items()}


def compute(
    inputs: list[tuple[np.ndarray, str]], make: object, fast_math: bool = False
) -> list[tuple[np.ndarray, str]]:
    """make's expressions on the GPU, element by element: (values in storage form, dtype name)."""
    count = len(inputs[0][0])
    program = programs.elementwise([DTYPES[d] for _, d in inputs], make, count, arch(), fast_math)  # type: ignore[arg-type]
    arrays = {f"x{i}": x for i, (x, _) in enumerate(inputs)}
    outputs = [p for p in program.params if p.name.startswith("y")]
    for p in outputs:
        assert not isinstance(p.value, Memory)
        arrays[p.name] = np.zeros(count, p.value.dtype.storage_dtype)
    found = run(program, arrays)
    return [(found[p.name], p.value.dtype.name) for p in outputs]


def every_code(dtype: str) -> np.ndarray:
    return (
        np.arange(256, dtype=np.uint8)
        if DTYPES[dtype].bits == 8
        else np.arange(0, 65536, 64, dtype=np.uint16)
    )


def same_bits(a: np.ndarray, b: np.ndarray, dtype: str) -> None:
    """Equal storage, any NaN being as good as another."""
    x, y = decode(a, DTYPES[dtype]), decode(b, DTYPES[dtype])
    both = np.isnan(x) & np.isnan(y) if DTYPES[dtype].is_float else np.zeros(x.shape, bool)
    raw = np.dtype(f"u{a.itemsize}")
    wrong = (a.view(raw) != b.view(raw)) & ~both
    assert not wrong.any(), [(i, x[i], y[i]) for i in np.flatnonzero(wrong)[:8]]


@pytest.mark.parametrize("dtype", ["float8_e4m3", "float8_e5m2", "float16", "bfloat16"])
def test_every_narrow_float_widens_to_its_value(dtype: str) -> None:
    codes = every_code(dtype)
    stored = codes if DTYPES[dtype].bits == 8 or dtype == "bfloat16" else codes.view(np.float16)
    [(found, _)] = compute([(stored, dtype)], lambda x: [cast(x, float32)])
    expected = decode(stored, DTYPES[dtype]).astype(np.float32)
    same_bits(found, expected, "float32")


@pytest.mark.parametrize("dtype", ["float8_e4m3", "float8_e5m2", "float16", "bfloat16", "tfloat32"])
def test_rounding_to_a_narrow_float_is_the_specification(dtype: str) -> None:
    rng = np.random.default_rng(3)
    values = np.concatenate(
        [
            rng.standard_normal(600),
            rng.standard_normal(200) * 1e-3,
            rng.standard_normal(100) * 300,
            [0.0, -0.0, np.nan],
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
    [(found, _)] = compute([(values, "float32")], lambda x: [cast(x, DTYPES[dtype])])
    expected = round_tf32(values) if dtype == "tfloat32" else encode(values, DTYPES[dtype])
    same_bits(found, np.asarray(expected).astype(found.dtype, copy=False), dtype)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_integer_arithmetic_wraps_and_floors(dtype: str) -> None:
    rng = np.random.default_rng(5)
    kind = np.dtype(dtype)
    info = np.iinfo(kind)
    special = np.array([0, 1, 2, 3, 7, info.max, info.min, info.max - 1], kind)
    x = np.concatenate([special, rng.integers(info.min, info.max, 248, kind)])
    y = np.concatenate([special[::-1], rng.integers(max(info.min, -9), 9, 248, kind)])
    ops = ("add", "sub", "mul", "floordiv", "floormod", "min", "max", "bitand", "bitor", "bitxor")
    found = compute([(x, dtype), (y, dtype)], lambda a, b: [binary(op, a, b) for op in ops])  # type: ignore[arg-type]
    with np.errstate(all="ignore"):
        expected = [
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
        ]
    for op, (got, _), want in zip(ops, found, expected, strict=True):
        assert np.array_equal(got, want), (
            op,
            [(a, b, g, w) for a, b, g, w in zip(x, y, got, want, strict=True) if g != w][:5],
        )


@pytest.mark.parametrize("fast_math", [False, True])
def test_math_functions_are_close_to_float64(fast_math: bool) -> None:
    x = np.linspace(0.1, 4.0, 512, dtype=np.float32)
    names = "exp exp2 exp10 log log2 log10 log1p sqrt rsqrt sin cos tan tanh erf rcp sigmoid sinh cosh asinh"
    names = names.split()
    found = compute([(x, "float32")], lambda v: [call(n, [v], float32) for n in names], fast_math)
    import math

    wide = x.astype(np.float64)
    special = {
        "erf": np.array([math.erf(v) for v in wide]), "rcp": 1 / wide, "sigmoid": 1 / (1 + np.exp(-wide)),
        "rsqrt": 1 / np.sqrt(wide), "exp10": 10**wide, "asinh": np.arcsinh(wide),
    }  # fmt: skip
    for name, (got, _) in zip(names, found, strict=True):
        want = special[name] if name in special else getattr(np, name)(wide)
        # CUDA programming guide, appendix on mathematical functions: at most 4 ulp here; the fast ones lose
        # relative accuracy near zeros and far from 0, so they are held to 2^-10 of 1 or of the value.
        scale = np.maximum(np.abs(want), 1.0) if fast_math else np.abs(want)
        error = np.max(np.abs(got - want) / scale)
        assert error < (2.0**-10 if fast_math else 6 * 2.0**-24), (name, error)


def test_division_is_exact_where_it_can_be_and_right_at_the_ends() -> None:
    a, b = division_cases()
    pad = -len(a) % 32
    a, b = np.pad(a, (0, pad), constant_values=1), np.pad(b, (0, pad), constant_values=1)
    [(got, _)] = compute([(a, "float32"), (b, "float32")], lambda x, y: [x / y])
    check_division(a, b, got)


def test_tanh_is_close_everywhere() -> None:
    [(got, _)] = compute([(TANH, "float32")], lambda x: [call("tanh", [x], float32)])
    check_tanh(got)


def test_narrow_float_arithmetic_is_rounded_once() -> None:
    rng = np.random.default_rng(7)
    x, y = (rng.standard_normal(1024).astype(np.float16) for _ in range(2))
    ops = ("add", "sub", "mul", "div", "min", "max")
    found = compute([(x, "float16"), (y, "float16")], lambda a, b: [binary(op, a, b) for op in ops])  # type: ignore[arg-type]
    for (got, _), want in zip(
        found, [x + y, x - y, x * y, x / y, np.minimum(x, y), np.maximum(x, y)], strict=True
    ):
        same_bits(got, want, "float16")


def test_every_suite_of_the_compile_tests_loads_and_runs() -> None:
    for make in (programs.conversions, programs.bits):
        program = make(arch())
        arrays = {p.name: np.ones(32, p.value.dtype.storage_dtype) for p in program.params}
        run(program, arrays)


def test_atomics_of_every_type_combine_all_threads() -> None:
    program = programs.atomics(arch())
    arrays = {p.name: np.zeros(32, p.value.dtype.storage_dtype) for p in program.params}
    found = run(program, arrays)
    operations = {
        "add": np.add,
        "max": np.maximum,
        "min": np.minimum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }
    for op in programs.ATOMIC_OPS:
        for dtype in programs.atomic_types(op):
            got = decode(found[f"x_{op}_{dtype}"], dtype)[:16]
            pairs = decode(encode(np.arange(32).astype(dtype.compute_dtype), dtype), dtype).reshape(16, 2)
            if op == "exch":
                assert all(g in p for g, p in zip(got, pairs, strict=True)), (op, dtype, got)
                continue
            want = operations[op](operations[op](np.zeros_like(pairs[:, 0]), pairs[:, 0]), pairs[:, 1])
            assert np.array_equal(got, decode(encode(want, dtype), dtype)), (op, dtype, got)


@pytest.mark.parametrize(("rows", "columns"), [(64, 4096), (3, 2048)])
def test_a_row_softmax(rows: int, columns: int) -> None:
    program = kernels.softmax(rows, columns, arch())
    x = np.random.default_rng(1).standard_normal((rows, columns)).astype(np.float16)
    got = run(program, {"X": x, "Y": np.zeros_like(x)}, (rows,))["Y"].astype(np.float64)
    wide = x.astype(np.float64)
    e = np.exp(wide - wide.max(1, keepdims=True))
    want = e / e.sum(1, keepdims=True)
    # one rounding to float16 (half an ulp, or half the smallest subnormal), and the errors of float32 sums
    assert np.all(np.abs(got - want) <= 2.0**-10 * want + 2.0**-25)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_gemm_is_exact_on_small_integers(dtype: str) -> None:
    size = 256
    program = kernels.gemm(size, size, size, arch=arch(), dtype=DTYPES[dtype])
    rng = np.random.default_rng(2)
    a, b = (rng.choice([-2, -1, 1, 2], (size, size)).astype(np.float32) for _ in range(2))
    stored = [np.asarray(encode(v, DTYPES[dtype])) for v in (a, b)]
    found = run(program, {"A": stored[0], "B": stored[1], "C": np.zeros_like(stored[0])}, (2, 2))["C"]
    want = encode((a @ b.T).astype(np.float32), DTYPES[dtype])
    same_bits(found, np.asarray(want), dtype)


@pytest.mark.parametrize("case", range(len(programs.MMA)))
def test_every_mma_is_exact_on_small_integers(case: int) -> None:
    """The fragments' layouts are the PTX ISA's (layouts/atoms.py), so a product of tiles comes out as a
    product.
    """
    from tilebench.layouts import atoms

    (m, n, k), d_name, name = programs.MMA[case]
    dtype, d_type = DTYPES[name], DTYPES[d_name]
    if (m, n, k) != (16, 8, 256 // dtype.bits):
        pytest.skip("half-size atoms have no layout in layouts/atoms.py")
    rng = np.random.default_rng(case)
    low = 1 if dtype.kind == "uint" else -3
    a, b = rng.integers(low, 4, (m, k)).astype(np.float32), rng.integers(low, 4, (k, n)).astype(np.float32)
    program = programs.products(arch())
    arrays = {p.name: np.zeros(p.value.static_shape, p.value.dtype.storage_dtype) for p in program.params}

    def spread(layout: object, tile: np.ndarray, to: object) -> np.ndarray:
        registers, threads = layout.registers, 32  # type: ignore[attr-defined]
        out = np.zeros((threads, registers), np.float32)
        for t in range(threads):
            for r in range(registers):
                out[t, r] = tile[layout.coordinate(t, r)]  # type: ignore[attr-defined]
        return np.asarray(encode(out, to)).reshape(-1)  # type: ignore[arg-type]

    arrays[f"A{case}"], arrays[f"B{case}"] = (
        spread(atoms.mma_a(dtype.bits), a, dtype),
        spread(atoms.mma_b(dtype.bits), b, dtype),
    )
    got = run(program, arrays)[f"D{case}"]
    assert np.array_equal(
        decode(got, d_type).astype(np.float64), spread(atoms.mma_c(), a @ b, float32).astype(np.float64)
    )


def test_launches_from_several_threads_do_not_mix_their_arguments() -> None:
    import torch

    program = programs.elementwise([float32], lambda x: [x * 2.0], 256, arch())
    executable = build_program(program, parse(f"cuda:{arch()}"), programs.CELL, MEMORY)
    inputs = [torch.full((256,), float(i), device="cuda") for i in range(8)]
    outputs = [torch.zeros(256, device="cuda") for _ in range(8)]

    def work(i: int) -> None:
        for _ in range(50):
            executable.launch(
                [
                    TensorArgument(inputs[i].data_ptr(), (256,), (1,)),
                    TensorArgument(outputs[i].data_ptr(), (256,), (1,)),
                ],
                {},
                (1,),
            )

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    torch.cuda.synchronize()
    assert [float(o[0]) for o in outputs] == [2.0 * i for i in range(8)]


def test_an_empty_grid_launches_nothing_and_a_huge_one_is_refused() -> None:
    program = programs.elementwise([float32], lambda x: [x], 32, arch())
    executable = build_program(program, parse(f"cuda:{arch()}"), programs.CELL, MEMORY)
    nothing = [TensorArgument(0, (0,), (1,))] * 2
    executable.launch(nothing, {}, (0,))
    with pytest.raises(LaunchError, match="TB613"):
        executable.launch(nothing, {}, (1, 65536))


def test_a_gpu_that_runs_out_of_memory_goes_on() -> None:
    from tilebench.backends.cuda import driver

    gpu = driver.gpu()
    gpu.enter(gpu.current_device())
    with pytest.raises(GpuError, match="TB611") as error:
        gpu.check(gpu.api.cuMemAlloc(1 << 50), "allocate", f"{1 << 50} bytes")
    assert not error.value.sticky
    gpu.synchronize()


FAULT = """
import numpy as np, torch
from tests.compiles import programs
from tilebench.backends.base import TensorArgument
from tilebench.backends.cuda import driver
from tilebench.backends.cuda.build import build_program
from tilebench.ir.dtype import float32
from tilebench.store import Store
from tilebench.targets import parse

torch.zeros(1, device="cuda")
program = programs.elementwise([float32], lambda x: [x], 32, driver.arch())
executable = build_program(program, parse("cuda:" + driver.arch()), None, Store(None))
executable.launch([TensorArgument(POINTER, (32,), (1,))] * 2, {}, (1,))
try:
    driver.synchronize()
except driver.GpuError as error:
    print(error.code_number, error.sticky, error.code)
"""


@pytest.mark.parametrize(
    ("pointer", "code"), [("0x10", "700"), ("torch.zeros(64, device='cuda').data_ptr() + 2", "716")]
)
def test_a_fault_is_sticky_and_named(pointer: str, code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FAULT.replace("POINTER", pointer)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.split() == [code, "True", "TB610"], done.stdout + done.stderr[-2000:]


def test_the_device_is_described() -> None:
    from tilebench.backends.cuda import driver

    properties = driver.properties(0)
    assert properties.name.startswith("NVIDIA")
    assert properties.sms > 0
    assert driver.device_name() == properties.name
    free, total = driver.gpu().memory(0)
    assert 0 < free <= total
