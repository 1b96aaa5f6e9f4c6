"""A GEMM and an attention block in IR form, with pipelined loops: what the tests of the passes look at."""

from __future__ import annotations

from tilebench.ir.dtype import float32
from tilebench.ir.expr import binary, const, select
from tilebench.ir.tile import Kernel
from tilebench.ops.copy import copy
from tilebench.ops.elementwise import clear, fill
from tilebench.ops.examples import Draft
from tilebench.ops.gemm import GemmWarpPolicy, gemm
from tilebench.ops.reduce import reduce_max, reduce_sum


def pipelined_gemm(
    m: int, n: int, k: int, tile: tuple[int, int, int] = (64, 64, 32), stages: int = 3,
    dtype: str = "float16", accumulator: str = "float32", transpose_a: bool = False,
    transpose_b: bool = False, threads: int = 128,
) -> Kernel:  # fmt: skip
    """C = A @ B over tiles of (M, N, K); the tiles need not divide the matrices."""
    bm, bn, bk = tile
    d = Draft("gemm", (-(-n // bn), -(-m // bm)), threads)
    A = d.tensor("A", (k, m) if transpose_a else (m, k), dtype)
    B = d.tensor("B", (n, k) if transpose_b else (k, n), dtype)
    C = d.tensor("C", (m, n), accumulator, "out")
    bx, by = d.blocks
    A_s = d.shared("A_s", (bk, bm) if transpose_a else (bm, bk), dtype)
    B_s = d.shared("B_s", (bn, bk) if transpose_b else (bk, bn), dtype)
    c = d.fragment("c", (bm, bn), accumulator)
    d.add(clear(c))
    with d.pipelined(-(-k // bk), stages) as ko:
        d.add(
            copy(A[ko * bk, by * bm] if transpose_a else A[by * bm, ko * bk], A_s),
            copy(B[bx * bn, ko * bk] if transpose_b else B[ko * bk, bx * bn], B_s),
            gemm(A_s, B_s, c, transpose_a, transpose_b),
        )
    d.add(copy(c, C[by * bm, bx * bn]))
    return d.kernel()


def attention(
    length: int = 128, size: int = 64, rows: int = 64, keys: int = 64, stages: int = 2, causal: bool = False,
    threads: int = 128, policy: GemmWarpPolicy = GemmWarpPolicy.Square,
) -> Kernel:  # fmt: skip
    """The data flow of online-softmax attention, with differences and halvings for exponentials: exact on
    small integers.
    """
    d = Draft("attention", (-(-length // rows),), threads)
    Q, K, V = (d.tensor(name, (length, size), "float16") for name in "QKV")
    O = d.tensor("O", (length, size), "float16", "out")
    bx = d.blocks[0]
    Q_s, O_s = d.shared("Q_s", (rows, size), "float16"), d.shared("O_s", (rows, size), "float16")
    K_s, V_s = d.shared("K_s", (keys, size), "float16"), d.shared("V_s", (keys, size), "float16")
    s, p = d.fragment("s", (rows, keys), "float32"), d.fragment("p", (rows, keys), "float16")
    o = d.fragment("o", (rows, size), "float32")
    m, m_before, alpha, l, total = (
        d.fragment(x, (rows,), "float32") for x in ("m", "m_before", "alpha", "l", "total")
    )
    d.add(copy(Q[bx * rows, 0], Q_s), clear(o), clear(l), fill(m, -1024.0))
    with d.pipelined(-(-length // keys), stages) as k:
        d.add(copy(K[k * keys, 0], K_s))
        if causal:
            with d.parallel(rows, keys) as (i, j):
                d.store(
                    s,
                    (i, j),
                    select(
                        binary("ge", bx * rows + i, k * keys + j), const(0.0, float32), const(-512.0, float32)
                    ),
                )
        else:
            d.add(clear(s))
        d.add(
            gemm(Q_s, K_s, s, transpose_B=True, policy=policy),
            copy(m, m_before),
            reduce_max(s, m, dim=1, clear=False),
        )
        with d.parallel(rows) as (i,):
            d.store(alpha, i, m_before[i] - m[i])
        with d.parallel(rows, keys) as (i, j):
            d.store(s, (i, j), s[i, j] - m[i])
        d.add(reduce_sum(s, total, dim=1))
        with d.parallel(rows) as (i,):
            d.store(l, i, l[i] * 0.5 + total[i] + alpha[i])
        d.add(copy(s, p))
        with d.parallel(rows, size) as (i, j):
            d.store(o, (i, j), o[i, j] * 0.5)
        d.add(copy(V[k * keys, 0], V_s), gemm(p, V_s, o, policy=policy))
    with d.parallel(rows, size) as (i, j):
        d.store(o, (i, j), o[i, j] * 0.0625 + l[i] * 0.0)
    d.add(copy(o, O_s), copy(O_s, O[bx * rows, 0]))
    return d.kernel()
