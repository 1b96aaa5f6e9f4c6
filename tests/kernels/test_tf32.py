"""GEMM of tfloat32 on warpgroups: within the oracle's bound, and only where both operands lie along K."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilebench.language as T
from tests.kernels.running import checked
from tilebench.kernel.decorator import compile
from tilebench.ops.gemm import Gemm
from tilebench.passes.stages import Selected

M, N, K = 128, 64, 96


def program(transpose_a: bool, transpose_b: bool, from_registers: bool = False) -> Any:
    """C = A @ B in float32, operands rounded to tfloat32 by the tensor cores; block_K 32."""
    a_shape, b_shape = ((K, M) if transpose_a else (M, K)), ((N, K) if transpose_b else (K, N))
    a_tile, b_tile = ((32, M) if transpose_a else (M, 32)), ((N, 32) if transpose_b else (32, N))

    @T.prim_func
    def tf32_gemm(
        A: T.Tensor(a_shape, "tfloat32"), B: T.Tensor(b_shape, "tfloat32"), C: T.Tensor((M, N), "float32")
    ):
        with T.Kernel(1, threads=256):
            A_s = T.alloc_shared(a_tile, "tfloat32")
            B_s = T.alloc_shared(b_tile, "tfloat32")
            C_f = T.alloc_fragment((M, N), "float32")
            T.clear(C_f)
            for k in T.Pipelined(K // 32, num_stages=2):
                if transpose_a:
                    T.copy(A[k * 32, 0], A_s)
                else:
                    T.copy(A[0, k * 32], A_s)
                if transpose_b:
                    T.copy(B[0, k * 32], B_s)
                else:
                    T.copy(B[k * 32, 0], B_s)
                if from_registers:
                    A_f = T.alloc_fragment(a_tile, "tfloat32")
                    T.copy(A_s, A_f)
                    T.gemm(A_f, B_s, C_f, transpose_B=transpose_b, policy=T.GemmWarpPolicy.FullRow)
                else:
                    T.gemm(A_s, B_s, C_f, transpose_A=transpose_a, transpose_B=transpose_b)
            T.copy(C_f, C)

    return tf32_gemm


def values(transpose_a: bool, transpose_b: bool) -> list[torch.Tensor]:
    """Normal numbers with all bits of float32."""
    g = torch.Generator().manual_seed(4)
    a = torch.randn((K, M) if transpose_a else (M, K), generator=g)
    b = torch.randn((N, K) if transpose_b else (K, N), generator=g)
    return [a, b, torch.zeros(M, N)]


def chosen(program: Any) -> tuple[str, str]:
    """The gemm's instruction, and why the warpgroup product was declined ('' if it was not)."""
    selected = compile(program, target="emu:sm_90a").stages().stage(Selected)
    (op,) = (o for o in selected.instructions if isinstance(o, Gemm))
    declined = " ".join(r.text for r in selected.declined.get(op, ()))
    return selected.instructions[op].name, declined


@pytest.mark.parametrize("from_registers", [False, True], ids=["shared", "registers"])
def test_operands_along_k_are_multiplied_by_warpgroups(from_registers: bool) -> None:
    made = program(False, True, from_registers)
    assert chosen(made)[0] == "wgmma"
    (diff,) = checked(made, "emu:sm_90a", values(False, True))
    assert diff.verdict == "pass", f"{diff.wrong} of {diff.checked} wrong; {diff.how}"
    assert diff.max_abs > 0, "tfloat32 has ten bits: not every sum is that of float32"


@pytest.mark.parametrize(("transpose_a", "transpose_b"), [(False, False), (True, True), (True, False)])
def test_operands_along_m_or_n_are_left_to_warps(transpose_a: bool, transpose_b: bool) -> None:
    made = program(transpose_a, transpose_b)
    name, declined = chosen(made)
    assert name.startswith("mma")
    assert "tfloat32 operands must lie along K" in declined
    (diff,) = checked(made, "emu:sm_90a", values(transpose_a, transpose_b))
    assert diff.verdict == "pass", f"{diff.wrong} of {diff.checked} wrong; {diff.how}"


@pytest.mark.parametrize("from_registers", [False, True], ids=["shared", "registers"])
def test_it_compiles_without_serialised_products(from_registers: bool) -> None:
    kernel = compile(program(False, True, from_registers), target="cuda:sm_90a")
    built = kernel.executable.built
    assert "m64n64k8.f32.tf32.tf32" in kernel.get_kernel_source()
    assert not built.warnings
    assert not built.spill_bytes
