"""The real kernels, from their text, through all passes on the emulator: values, findings, and what the
layouts promise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.backends.running import integers, run
from tests.kernels import programs
from tests.ops.test_examples import SYMBOL, arguments
from tests.passes.lowering import lowered
from tests.passes.tile_programs import PROGRAMS
from tilebench.backends.emulator import run_program
from tilebench.ir.dtype import DType, decode, encode
from tilebench.ir.rewrite import walk
from tilebench.ir.thread import VectorCopy
from tilebench.ir.tile import Buffer, Kernel
from tilebench.language.parse import parse_prim_func
from tilebench.passes.stages import Lowered

RNG = np.random.default_rng(5)


def arrays_of(kernel: Kernel, exact: bool) -> list[np.ndarray]:
    """Small integers, or normal numbers, for inputs; zeros for the last parameter."""
    out: list[np.ndarray] = []
    for param in kernel.params:
        assert isinstance(param.value, Buffer)
        dtype: DType = param.value.dtype
        shape = param.value.static_shape
        values = integers(RNG, *shape, dtype=np.float32) if exact else RNG.standard_normal(shape)
        out.append(encode(values.astype(dtype.compute_dtype), dtype))
    out[-1][...] = 0
    return out


def both(program: Any, exact: bool = True, rtol: float = 0.0, atol: float = 0.0) -> Lowered:
    """interp and the emulator on the same arrays."""
    kernel = parse_prim_func(program)
    expected = arrays_of(kernel, exact)
    emulated = [a.copy() for a in expected]
    run(kernel, *expected)
    stage = lowered(kernel)
    result = run_program(stage.program, emulated, {})
    assert not [f for f in result.findings if f.severity == "error"]
    assert result.counts.worst_ways() <= 2
    last = kernel.params[-1].value
    assert isinstance(last, Buffer)
    a, b = (
        decode(expected[-1], last.dtype).astype(np.float64),
        decode(emulated[-1], last.dtype).astype(np.float64),
    )
    np.testing.assert_allclose(b, a, rtol=rtol, atol=atol)
    return stage


def global_widths(stage: Lowered) -> set[int]:
    """Bytes of the vector loads and stores of global memory."""
    found: set[int] = set()
    for role in stage.program.roles:
        for n in walk(role.body):
            if isinstance(n, VectorCopy) and "global" in (n.source.space, n.destination.space):
                found.add(n.lanes * n.source.dtype.bytes)
    return found


@pytest.mark.parametrize("transpose_A", [False, True])
@pytest.mark.parametrize("transpose_B", [False, True])
@pytest.mark.parametrize(("M", "N", "K"), [(128, 128, 64), (200, 136, 72)])
def test_gemm(M: int, N: int, K: int, transpose_A: bool, transpose_B: bool) -> None:
    stage = both(programs.gemm(M, N, K, transpose_A=transpose_A, transpose_B=transpose_B))
    assert not stage.conversions


@pytest.mark.parametrize(
    ("dtype", "out", "accumulator"),
    [("int8", "int32", "int32"), ("float32", "float32", "float32"), ("bfloat16", "bfloat16", "float32")],
)
def test_gemm_of_other_types(dtype: str, out: str, accumulator: str) -> None:
    both(programs.gemm(100, 90, 70, dtype, out, accumulator))


@pytest.mark.parametrize(
    ("M", "N", "dtype"), [(9, 100, "float16"), (8, 1024, "float16"), (5, 512, "float32"), (3, 33, "bfloat16")]
)
def test_rows(M: int, N: int, dtype: str) -> None:
    # one rounding to the output's type, of values that differ by the order of a float32 sum of N terms
    step = {"float16": 2.0**-10, "float32": 2.0**-20, "bfloat16": 2.0**-7}[dtype]
    for program in (programs.softmax(M, N, dtype), programs.rms_norm(M, N, dtype)):
        stage = both(program, exact=False, rtol=step, atol=step * 2.0**-10)
        assert not stage.conversions
        assert stage.program.shared_bytes == 0
        if N % 512 == 0:
            assert global_widths(stage) == {16}


@pytest.mark.parametrize(
    ("seq_q", "seq_kv", "dim", "causal", "kv_heads"),
    [(128, 128, 64, False, 0), (128, 192, 80, True, 0), (100, 130, 96, False, 1), (128, 128, 128, True, 1)],
)
def test_attention(seq_q: int, seq_kv: int, dim: int, causal: bool, kv_heads: int) -> None:
    # p and the output are rounded to float16; the rest is float32
    program = programs.attention(1, 2, seq_q, seq_kv, dim, causal, kv_heads)
    stage = both(program, exact=False, rtol=2.0**-8, atol=2.0**-9)
    assert not stage.conversions


def test_mlp() -> None:
    both(programs.mlp(136, 144, 72), exact=False, rtol=2.0**-8, atol=2.0**-8)


@pytest.mark.parametrize(
    ("M", "N", "dtype"), [(128, 128, "float16"), (100, 70, "float32"), (64, 192, "int8")]
)
def test_transpose(M: int, N: int, dtype: str) -> None:
    stage = both(programs.transpose(M, N, dtype))
    assert not stage.conversions


def test_histogram() -> None:
    kernel = parse_prim_func(programs.histogram(3000, 16))
    numbers = RNG.integers(0, 16, 3000).astype(np.int32)
    counts = np.zeros(16, np.int32)
    result = run_program(lowered(kernel).program, [numbers, counts], {})
    assert not [f for f in result.findings if f.severity == "error"]
    assert np.array_equal(counts, np.bincount(numbers, minlength=16))


@pytest.mark.parametrize("name", PROGRAMS)
def test_tile_programs(name: str) -> None:
    kernel = parse_prim_func(PROGRAMS[name]())
    expected = arguments(kernel, 1, True) if kernel.symbols else arrays_of(kernel, True)
    emulated = [a.copy() for a in expected]
    run(kernel, *expected)
    result = run_program(lowered(kernel).program, emulated, dict.fromkeys(kernel.symbols, SYMBOL))
    assert not [f for f in result.findings if f.severity == "error"]
    for param, a, b in zip(kernel.params, expected, emulated, strict=True):
        assert isinstance(param.value, Buffer)
        x, y = (
            decode(a, param.value.dtype).astype(np.float64),
            decode(b, param.value.dtype).astype(np.float64),
        )
        # float16 storage of sums in another order
        np.testing.assert_allclose(y, x, rtol=2.0**-9, atol=2.0**-9, err_msg=param.name)
