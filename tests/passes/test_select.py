"""Which instruction each op gets, and what is said of the others."""

from __future__ import annotations

import numpy as np
import pytest

import tilebench
import tilebench.language as T
from tests.passes.pipelined_kernels import pipelined_gemm
from tests.traps.running import check, numbers
from tilebench.compiler import analyse
from tilebench.ir.tile import Kernel
from tilebench.layout import make_swizzled_layout
from tilebench.ops.copy import Copy, copy
from tilebench.ops.elementwise import clear
from tilebench.ops.examples import Draft, tile
from tilebench.ops.gemm import Gemm, gemm
from tilebench.passes.stages import Selected
from tilebench.targets import parse


def selected(kernel: Kernel, target: str = "emu:sm_90") -> Selected:
    return analyse(kernel, parse(target)).stage(Selected)


def names(kernel: Kernel, kind: type, target: str = "emu:sm_90") -> list[str]:
    return [i.name for op, i in selected(kernel, target).instructions.items() if isinstance(op, kind)]


@pytest.mark.parametrize(
    ("dtype", "accumulator", "target", "name"),
    [
        ("float16", "float32", "emu:sm_80", "mma.m16n8k16"),
        ("float16", "float16", "emu:sm_80", "mma.m16n8k16"),
        ("bfloat16", "float32", "emu:sm_80", "mma.m16n8k16"),
        ("int8", "int32", "emu:sm_80", "mma.m16n8k32"),
        ("uint8", "int32", "emu:sm_80", "mma.m16n8k32"),
        ("tfloat32", "float32", "emu:sm_80", "mma.m16n8k8"),
        ("float8_e4m3", "float32", "emu:sm_89", "mma.m16n8k32"),
        ("float8_e4m3", "float32", "emu:sm_80", "fma"),
        ("float32", "float32", "emu:sm_80", "fma"),
        ("float64", "float64", "emu:sm_80", "fma"),
    ],
)
def test_gemm_by_dtype(dtype: str, accumulator: str, target: str, name: str) -> None:
    kernel = pipelined_gemm(64, 64, 64, dtype=dtype, accumulator=accumulator)
    assert names(kernel, Gemm, target) == [name]


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ((24, 64, 32), "M = 24 is no multiple of 16 (M x N x K of 32x64x32 would do)"),
        ((32, 12, 32), "N = 12 is no multiple of 8 (M x N x K of 32x16x32 would do)"),
        ((32, 16, 8), "K = 8 is no multiple of 16 (M x N x K of 32x16x16 would do)"),
    ],
)
def test_tiles_that_tensor_cores_do_not_have_say_which_they_have(
    shape: tuple[int, int, int], said: str
) -> None:
    stage = selected(pipelined_gemm(*shape, tile=shape))
    (op,) = (op for op in stage.instructions if isinstance(op, Gemm))
    assert stage.instructions[op].name == "fma"
    assert stage.declined[op][0].text == f"mma.m16n8k16: {said}"


def test_a_copy_that_overlaps_with_nothing_is_plain() -> None:
    stage = selected(pipelined_gemm(64, 64, 64, stages=1))
    op = next(op for op in stage.instructions if isinstance(op, Copy))
    assert stage.instructions[op].name == "plain"
    assert stage.declined[op][0].text.startswith("cp.async: nothing to overlap with")


def copied(
    shape: tuple[int, int], start: int, dtype: str = "float16", of: str | None = None, columns: int = 32
) -> Selected:
    """A pipelined copy of [64, columns] tiles from column `start` of a tensor."""
    d = Draft("copied")
    A = d.tensor("A", shape, of or dtype)
    A_s, c = d.shared("A_s", (64, columns), dtype), d.fragment("c", (64, columns), dtype)
    B = d.tensor("B", (64, columns), dtype, "out")
    with d.pipelined(4, 2) as k:
        d.add(copy(tile(A, (0, 64), (k * columns + start, columns)), A_s), copy(A_s, c))
    d.add(copy(c, B))
    return selected(d.kernel())


@pytest.mark.parametrize(
    ("arguments", "lanes"),
    [
        (((64, 256), 0), 8),
        (((64, 256), 4), 4),
        (((64, 256), 2), 2),
        (((64, 260), 0), 4),
        (((64, 258), 0), 2),
        (((64, 256), 0, "float32"), 4),
        (((64, 256), 0, "int8"), 16),
    ],
)
def test_the_chunk_is_as_wide_as_is_known_to_be_aligned(
    arguments: tuple[tuple[int, int], int, str], lanes: int
) -> None:
    stage = copied(*arguments)
    instruction = next(i for op, i in stage.instructions.items() if isinstance(op, Copy))
    assert (instruction.name, instruction.facts["lanes"]) == ("cp.async", lanes)


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        (lambda: copied((64, 256), 1), "is not known to start at a multiple of 2 elements"),
        (lambda: copied((64, 257), 0), "rows of A do not start at multiples of 2 elements"),
        (lambda: copied((64, 256), 0, "float16", "float32"), "it cannot convert float32 to float16"),
        (lambda: copied((64, 256), 0, columns=33), "rows of 33 elements are no multiple of 2"),
    ],
)
def test_why_a_copy_is_not_asynchronous(stage: object, said: str) -> None:
    found: Selected = stage()  # type: ignore[operator]
    op = next(op for op in found.instructions if isinstance(op, Copy))
    assert found.instructions[op].name == "plain"
    assert said in found.declined[op][0].text


def test_names_bound_in_the_program_are_seen_through() -> None:
    d = Draft("bound", (4,))
    A, B = d.tensor("A", (256, 64), "float16"), d.tensor("B", (64, 64), "float16", "out")
    A_s, c = d.shared("A_s", (64, 32), "float16"), d.fragment("c", (64, 32), "float16")
    first = d.bind("first", d.blocks[0] * 64)
    d.add(clear(c))
    with d.pipelined(2, 2) as k:
        column = d.bind("column", k * 32)
        d.add(copy(A[first, column], A_s), copy(A_s, c))
    d.add(copy(c, B[0, 0]))
    assert names(d.kernel(), Copy)[0] == "cp.async"


def test_an_operand_in_registers_that_no_instruction_takes_is_expanded() -> None:
    d = Draft("registers")
    A, B, C = (
        d.tensor("A", (32, 32), "float32"),
        d.tensor("B", (32, 32), "float32"),
        d.tensor("C", (32, 32), "float32", "out"),
    )
    a, B_s, c = (
        d.fragment("a", (32, 32), "float32"),
        d.shared("B_s", (32, 32), "float32"),
        d.fragment("c", (32, 32), "float32"),
    )
    d.add(clear(c), copy(A, a), copy(B, B_s), gemm(a, B_s, c), copy(c, C))
    assert names(d.kernel(), Gemm) == ["expand"]


@pytest.mark.parametrize("swizzled", [True, False])
def test_the_usual_swizzle_by_hand_is_no_layout_of_the_programs_own(swizzled: bool) -> None:
    @T.prim_func
    def program(
        A: T.Tensor((64, 128), "float16"), B: T.Tensor((128, 96), "float16"), C: T.Tensor((64, 96), "float32")
    ):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((64, 64), "float16")
            B_s = T.alloc_shared((64, 96), "float16")
            c = T.alloc_fragment((64, 96), "float32")
            if swizzled:
                T.annotate_layout({A_s: make_swizzled_layout(A_s), B_s: make_swizzled_layout(B_s)})
            else:
                T.annotate_layout({A_s: T.Layout((64, 64), lambda i, j: i * 64 + j)})
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, k * 64], A_s)
                T.copy(B[k * 64, 0], B_s)
                T.gemm(A_s, B_s, c)
            T.copy(c, C)

    compiled = tilebench.compile(program, target="emu:sm_90a").compilation.stage(Selected)
    (gemm,) = [i for op, i in compiled.instructions.items() if type(op).__name__ == "Gemm"]
    assert compiled.specialised is swizzled
    assert (gemm.name == "wgmma") is swizzled
    a, b = numbers(64, 128, dtype=np.float16), numbers(128, 96, dtype=np.float16, seed=1)
    check(program, [a, b], a.astype(np.float32) @ b.astype(np.float32))
