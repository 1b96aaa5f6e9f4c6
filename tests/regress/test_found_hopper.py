"""The smallest case of each fault that random programs with a producer found: interp against the emulator."""

from __future__ import annotations

import pytest
import torch

import tilebench
from tilebench.compiler import analyse
from tilebench.ir.verify import verify_kernel, verify_program
from tilebench.kernel.emulate import emulate
from tilebench.kernel.program import define
from tilebench.passes.stages import Lowered, Selected, Synchronised
from tilebench.targets import parse

HEAD = """\
@T.prim_func
def k(A: T.Tensor((64, 192), "float16"), B: T.Tensor((192, 64), "float16"), table: T.Tensor((8,), "int32"),
      C: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128) as bx:
        A_s = T.alloc_shared((64, 64), "float16")
        B_s = T.alloc_shared((64, 64), "float16")
        D_s = T.alloc_shared((64, 64), "float16")
        E_s = T.alloc_shared((64, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        s = T.alloc_fragment((64, 64), "float32")
        p = T.alloc_fragment((64, 64), "float16")
        T.clear(c)
"""
TABLE_AND_TRAILING = """\
        T.copy(A[0, 0], A_s)
        for k in T.Pipelined(3, num_stages=2):
            at = table[k]
            T.copy(B[at * 64, 0], B_s)
            T.clear(s)
            T.gemm(A_s, B_s, s, transpose_B=True)
            T.copy(s, p)
            T.copy(B[at * 64, 0], D_s)
            T.gemm(p, D_s, c)
        T.copy(c, C)
"""
ONE_STAGE = """\
        for k in T.Pipelined(3, num_stages=2):
            T.copy(A[0, k * 64], A_s)
            T.copy(B[k * 64, 0], B_s)
            T.gemm(A_s, B_s, c)
        for k in T.Pipelined(3, num_stages=1):
            T.copy(A[0, k * 64], D_s)
            T.copy(B[k * 64, 0], E_s)
            T.gemm(D_s, E_s, c)
        T.copy(c, C)
"""
LIMIT = """\
        lim = T.alloc_var("int32")
        lim = 100
        for k in T.Pipelined(3, num_stages=2):
            T.copy(A[0, k * 64], A_s)
            T.copy(B[k * 64, 0], B_s)
            for i, j in T.Parallel(64, 64):
                s[i, j] = T.if_then_else(j < lim, 0.0, -4.0)
            lim = k * 20
            T.gemm(A_s, B_s, s)
            for i, j in T.Parallel(64, 64):
                c[i, j] = c[i, j] + s[i, j]
        T.copy(c, C)
"""
DENSE_ROWS = """\
        F_s = T.alloc_shared((29, 31), "float16")
        G_s = T.alloc_shared((8, 24), "float16")
        f = T.alloc_fragment((8, 24), "float32")
        g = T.alloc_fragment((64, 64), "float32")
        T.clear(f)
        for i, j in T.Parallel(29, 31):
            F_s[i, j] = 1
        for k in T.Pipelined(3, num_stages=2):
            T.copy(A[0, k * 64], A_s)
            T.copy(B[k * 64, 0], B_s)
            T.copy(A[16 * k, 8], G_s)
            T.gemm(A_s, B_s, c)
            for i, j in T.Parallel(8, 24):
                f[i, j] = f[i, j] + G_s[i, j]
        for i, j in T.Parallel(29, 31):
            F_s[i, j] = F_s[i, j] + 1
        T.clear(g)
        T.copy(f, g[:8, :24])
        for i, j in T.Parallel(64, 64):
            g[i, j] = g[i, j] + c[i, j] + F_s[i % 29, j % 31]
        T.copy(g, C)
"""
CASES = {
    "tiles-of-dense-rows-start-at-128-bytes": DENSE_ROWS,
    "what-a-mask-reads-changes-before-the-product": LIMIT,
    "a-table-says-what-comes-before-a-trailing-product": TABLE_AND_TRAILING,
    "one-stage-beside-two": ONE_STAGE,
}


@pytest.mark.parametrize("body", CASES.values(), ids=CASES.keys())
def test_a_producer_gives_what_the_interpreter_gives(body: str) -> None:
    kernel = tilebench.compile(define(HEAD + body)[0], target="interp")
    stages = analyse(kernel.prim, parse("emu:sm_90a"), thread_ir=True)
    assert stages.stage(Selected).specialised
    verify_kernel(stages.stage(Synchronised).kernel, stages.stage(Synchronised).body)
    verify_program(stages.stage(Lowered).program)
    generator = torch.Generator().manual_seed(1)
    inputs = [torch.randint(-1, 2, shape, generator=generator).half() for shape in ((64, 192), (192, 64))]
    inputs.append(torch.tensor([2, 0, 1, 0, 0, 0, 0, 0], dtype=torch.int32))
    want, got = torch.zeros(64, 64), torch.zeros(64, 64)
    kernel(*inputs, want)
    result = emulate(kernel, *inputs, got, target="emu:sm_90a")
    assert not result.findings, result
    assert torch.equal(want, got)
