"""Tile programs through all passes: the CUDA text compiles, and gives on the CPU (and the GPU) what interp
gives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.backends.running import run
from tests.compiles import host, programs
from tests.ops.test_examples import SYMBOL, arguments
from tests.passes.random_kernels import random_kernel
from tilebench.backends.cuda import nvrtc
from tilebench.backends.cuda.build import build_program
from tilebench.backends.cuda.emit import compiled_text, emit
from tilebench.compiler import analyse
from tilebench.ir.dtype import decode
from tilebench.ir.thread import Program
from tilebench.ir.tile import Buffer, Kernel
from tilebench.ops import OPS
from tilebench.store import Store
from tilebench.targets import parse

Example = Callable[[], Kernel]


def _examples() -> list[Any]:
    """All examples; those past the first two of an op are slow tests on the CPU."""
    found = []
    for name, op in OPS.items():
        for k, example in enumerate(op.examples):
            marks = [pytest.mark.slow] if k >= 2 else []
            found.append(pytest.param(example, id=f"{name}-{k}-{example.__name__}", marks=marks))
    return found


EXAMPLES = _examples()


def lower(kernel: Kernel, arch: str) -> Program:
    return analyse(kernel, parse(f"cuda:{arch}")).last.program  # type: ignore[union-attr]


def check(
    kernel: Kernel, seed: int, launch: Callable[[Program, dict[str, Any]], dict[str, np.ndarray]], arch: str
) -> None:
    expected, given = arguments(kernel, seed, True), arguments(kernel, seed, True)
    run(kernel, *expected)
    found = launch(lower(kernel, arch), {p.name: v for p, v in zip(kernel.params, given, strict=True)})
    for param, want in zip(kernel.params, expected, strict=True):
        assert isinstance(param.value, Buffer)
        x, y = decode(want, param.value.dtype), decode(found[param.name], param.value.dtype)
        assert np.array_equal(x, y, equal_nan=x.dtype.kind == "f"), param.name


def grid_of(program: Program) -> tuple[int, ...]:
    from tilebench.ir.simplify import bounds

    sizes = [bounds(g, dict.fromkeys(program.symbols, (SYMBOL, SYMBOL))) for g in program.grid]
    return tuple(s[0] for s in sizes if s is not None)


def on_host(program: Program, values: dict[str, Any]) -> dict[str, np.ndarray]:
    return host.run(program, values, grid_of(program), dict.fromkeys(program.symbols, SYMBOL))


def on_gpu(program: Program, values: dict[str, Any]) -> dict[str, np.ndarray]:
    from tests.backends.test_cuda_gpu import run as launch

    return launch(program, values, grid_of(program), dict.fromkeys(program.symbols, SYMBOL))


@pytest.mark.skipif(not host.available(), reason="no g++ on this machine")
@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_on_the_host(example: Example) -> None:
    check(example(), 1, on_host, "sm_80")


@pytest.mark.skipif(not host.available(), reason="no g++ on this machine")
@pytest.mark.parametrize("seed", range(8))
def test_random_kernels_on_the_host(seed: int) -> None:
    check(random_kernel(seed), seed, on_host, "sm_80")


@pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC on this machine")
@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_compiles(example: Example) -> None:
    for arch in ("sm_80", "sm_120"):
        compiled = nvrtc.compile_text(compiled_text(emit(lower(example(), arch))), arch, programs.CELL)
        assert compiled.spill_bytes == 0


@pytest.mark.gpu
@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_on_the_gpu(example: Example) -> None:
    from tests.backends.test_cuda_gpu import arch

    check(example(), 1, on_gpu, arch())


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(60))
def test_random_kernels_on_the_gpu(seed: int) -> None:
    from tests.backends.test_cuda_gpu import arch

    check(random_kernel(seed), seed, on_gpu, arch())


def test_the_text_of_a_program_does_not_depend_on_what_was_built_before() -> None:
    example = OPS["gemm"].examples[0]
    first = emit(lower(example(), "sm_90a")).text
    for other in OPS["reduce"].examples[:3]:
        emit(lower(other(), "sm_90a"))
    assert emit(lower(example(), "sm_90a")).text == first


@pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC on this machine")
def test_a_second_build_comes_from_the_store() -> None:
    store = Store(None)
    example = OPS["copy"].examples[0]
    target = parse("cuda:sm_90a")
    first = build_program(lower(example(), "sm_90a"), target, None, store)
    second = build_program(lower(example(), "sm_90a"), target, None, store)
    assert not first.built.cached
    assert second.built.cached
    assert second.built.binary == first.built.binary
    assert second.built.registers == first.built.registers
