"""The smallest case of each fault that random programs found: the emulator against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import tilebench
from tilebench.kernel.program import define

HEAD = """\
@T.prim_func
def k(A: T.Tensor((17, 16), "float32"), B: T.Tensor((17, 16), "float32")):
    with T.Kernel(1, threads=128) as bx:
        S = T.alloc_shared((17, 16), "float32")
        X = T.alloc_fragment((17, 16), "float32")
        T.copy(A, S)
"""
PART = """\
        T.fill(X, 2)
        T.copy(S[0:12, :], X[0:12, :])
        T.copy(X, B)
"""
AROUND = """\
        T.copy(S, X)
        for q in T.Pipelined(4, num_stages=2):
            T.copy(A[q, 0], S)
            for i, j in T.Parallel(17, 16):
                X[i, j] += S[i, j]
        T.copy(S, X)
        T.copy(X, B)
"""


def result(text: str, target: str) -> np.ndarray:
    A = np.arange(1, 17 * 16 + 1, dtype=np.float32).reshape(17, 16)
    B = np.zeros((17, 16), np.float32)
    tilebench.compile(define(text)[0], target=target)(A, B)
    return B


@pytest.mark.parametrize(
    "body", [PART, AROUND], ids=["copy-to-part-of-a-fragment", "tile-used-around-a-pipeline"]
)
def test_the_emulator_gives_what_the_interpreter_gives(body: str) -> None:
    assert np.array_equal(result(HEAD + body, "interp"), result(HEAD + body, "emu:sm_90a"))
