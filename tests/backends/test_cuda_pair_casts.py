"""Conversions of registers two at a time: where the text has them, and that they are the single ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilebench
import tilebench.language as T
from tests.compiles import host, programs
from tests.compiles.programs import PAIRED, Maker, load, store, unrolled
from tilebench.backends.cuda import nvrtc
from tilebench.backends.cuda.emit import emit
from tilebench.backends.cuda.prelude_pairs import pair_conversion
from tilebench.ir.dtype import DTYPES, decode, encode, float16, float32
from tilebench.ir.expr import Expr, Var, cast
from tilebench.ir.thread import Program

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 448, 464, 465, 57344, 65504, 2.0**-9, 2.0**-17, 1 + 2.0**-9]


def converter(source: str, destination: str, fragments: bool):
    """A conversion of 512 elements from global memory to global memory, as one copy or by fragments."""

    @T.prim_func
    def convert(A: T.Tensor((512,), source), B: T.Tensor((512,), destination)):
        with T.Kernel(1, threads=128):
            if fragments:
                held = T.alloc_fragment((512,), source)
                made = T.alloc_fragment((512,), destination)
                T.copy(A, held)
                for i in T.Parallel(512):
                    made[i] = held[i]
                T.copy(made, B)
            else:
                T.copy(A, B)

    return convert


@pytest.mark.parametrize("fragments", [False, True])
@pytest.mark.parametrize(
    ("source", "destination", "call"),
    [
        ("float32", "float16", "__float22half2_rn(*(const float2*)("),
        ("float16", "float32", "__half22float2(*(const unsigned*)("),
        ("float32", "bfloat16", "__float22bfloat162_rn(*(const float2*)("),
        ("bfloat16", "float32", "__bfloat1622float2(*(const unsigned*)("),
        ("float32", "float8_e4m3", "__nv_cvt_float2_to_fp8x2(*(const float2*)("),
        ("float16", "float8_e4m3", "__tl_cvt_half2_to_fp8x2(*(const unsigned*)("),
        ("float16", "float8_e5m2", "__tl_cvt_half2_to_fp8x2(*(const unsigned*)("),
        ("float8_e5m2", "float16", "__tl_cvt_fp8x2_to_half2(*(const unsigned short*)("),
        ("float8_e4m3", "float32", "__tl_cvt_fp8x2_to_float2(*(const unsigned short*)("),
        ("float8_e4m3", "bfloat16", "__float22bfloat162_rn(__tl_cvt_fp8x2_to_float2("),
        ("float8_e8m0fnu", "bfloat16", "__tl_cvt_e8m0x2_to_bfloat162(*(const unsigned short*)("),
        ("float8_e8m0fnu", "float32", "__bfloat1622float2(__tl_cvt_e8m0x2_to_bfloat162("),
        ("bfloat16", "float8_e8m0fnu", "__tl_cvt_bfloat162_to_e8m0x2(*(const unsigned*)("),
        ("float32", "float8_e8m0fnu", "__tl_cvt_float2_to_e8m0x2(*(const float2*)("),
        ("float16", "float8_e8m0fnu", "__tl_cvt_float2_to_e8m0x2(__half22float2("),
        ("float64", "float8_e8m0fnu", "__tl_cvt_double2_to_e8m0x2(*(const double2*)("),
    ],
)
def test_a_copy_that_converts_goes_in_pairs(
    source: str, destination: str, call: str, fragments: bool
) -> None:
    text = tilebench.lower(converter(source, destination, fragments), target="cuda:sm_90a").kernel_source
    assert text.count(call) == 1
    assert "+= 2) {" in text


def test_only_what_the_hardware_pairs_is_paired() -> None:
    text = tilebench.lower(converter("float32", "float8_e4m3", False), target="cuda:sm_80").kernel_source
    assert "fp8x2" not in text
    assert pair_conversion("float32", "float16", 75) is None
    assert pair_conversion("float32", "int32", 90) is None
    assert pair_conversion("float16", "float16", 90) is None


def one_loop(
    count: int, into: Callable[[Var], Expr], at: Callable[[Var], Expr], sizes: tuple[int, int]
) -> str:
    m = Maker(32)
    out = m.tensor("out", 4, float16, "out")
    held, made = m.array("held", sizes[0], float32), m.array("made", sizes[1], float16)
    m.add(unrolled(count, lambda i: store(made, into(i), cast(load(held, at(i)), float16))))
    m.add(store(out, 0, load(made, 0)))
    return emit(m.program()).text


def test_pairs_begin_at_even_places() -> None:
    assert "__float22half2_rn" in one_loop(4, lambda i: i + 2, lambda i: i, (4, 6))
    assert "__float22half2_rn" not in one_loop(4, lambda i: i + 1, lambda i: i, (4, 6))
    assert "__float22half2_rn" not in one_loop(4, lambda i: i, lambda i: i * 2, (8, 4))
    assert "__float22half2_rn" not in one_loop(3, lambda i: i, lambda i: i, (4, 4))  # one would be left
    assert "__float22half2_rn" not in one_loop(2, lambda i: i, lambda i: i, (4, 3))  # lies anywhere


def test_beside_products_the_compiler_pairs() -> None:
    @T.prim_func
    def product(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((64, 64), "float16")
            C = T.alloc_fragment((64, 64), "float32")
            T.copy(A, S)
            T.clear(C)
            T.gemm(S, S, C)
            T.copy(C, B)

    assert "__float22half2_rn" not in tilebench.lower(product, target="cuda:sm_80").kernel_source


@pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC on this machine")
@pytest.mark.parametrize(("source", "destination"), [("float32", "float8_e4m3"), ("float8_e4m3", "float16")])
def test_pairs_are_half_of_the_conversions(source: str, destination: str) -> None:
    built = tilebench.compile(converter(source, destination, True), target="cuda:sm_90a").executable.built
    ptx = next(c.text for c in built.code if c.level == "ptx")
    assert ptx.count("cvt.rn.") == 2  # a thread has four elements
    assert built.spill_bytes == 0


def inputs(count: int) -> dict[str, np.ndarray]:
    """Every type's own, in storage form: ordinary values and the ends of each range."""
    rng = np.random.default_rng(4)
    values = np.concatenate([SPECIAL, rng.standard_normal(count - len(SPECIAL)) * 30]).astype(np.float32)
    with np.errstate(all="ignore"):
        return {name: np.asarray(encode(rng.permutation(values), DTYPES[name])) for name in PAIRED}


def check(
    program: Program, run: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]], count: int
) -> None:
    held = inputs(count)
    arrays = {p.name: np.zeros(count, p.value.dtype.storage_dtype) for p in program.params}
    arrays.update({f"x_{name}": x for name, x in held.items()})
    found = run(arrays)
    for source in PAIRED:
        for destination in PAIRED:
            if source == destination:
                continue
            with np.errstate(all="ignore"):
                want = encode(decode(held[source], DTYPES[source]).astype(np.float32), DTYPES[destination])
            x = decode(found[f"y_{source}_{destination}"], DTYPES[destination]).astype(np.float32)
            y = decode(np.asarray(want), DTYPES[destination]).astype(np.float32)
            assert np.array_equal(x, y, equal_nan=True), (source, destination)


@pytest.mark.skipif(not host.available(), reason="no g++ on this machine")
def test_pairs_are_converted_as_single_ones_are() -> None:
    program = programs.pair_casts("sm_80")
    assert "__float22bfloat162_rn(" in emit(program).text
    check(program, lambda arrays: host.run(program, arrays), 64)


@pytest.mark.gpu
def test_pairs_on_the_gpu() -> None:
    from tests.backends import test_cuda_gpu as gpu

    program = programs.pair_casts(gpu.arch(), 1024)
    check(program, lambda arrays: gpu.run(program, arrays), 1024)
