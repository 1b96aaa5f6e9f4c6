"""Attention beside the plain forward pass: ragged batches, decoding from a cache, and the backward pass."""

from __future__ import annotations

import math
from typing import Any

import tilebench.language as T

LOG2E = 1.44269504


def attention_varlen(
    batch: int,
    total: int,
    longest: int,
    heads: int,
    kv_heads: int,
    dim: int,
    causal: bool = False,
    dtype: str = "float16",
    block_M: int = 128,
    block_N: int = 128,
    num_stages: int = 2,
    threads: int = 256,
) -> Any:
    """Attention of `batch` sequences packed one after the other: rows cu[b] to cu[b + 1] are sequence b.

    Q, O: (total, heads, dim); K, V: (total, kv_heads, dim); cu: (batch + 1,) int32; longest: of them all.
    """
    ratio = heads // kv_heads
    scale = (1.0 / dim) ** 0.5 * LOG2E

    @T.prim_func
    def attention_varlen_kernel(
        Q: T.Tensor((total, heads, dim), dtype),
        K: T.Tensor((total, kv_heads, dim), dtype),
        V: T.Tensor((total, kv_heads, dim), dtype),
        cu: T.Tensor((batch + 1,), "int32"),
        O: T.Tensor((total, heads, dim), dtype),
    ):
        with T.Kernel(T.ceildiv(longest, block_M), heads, batch, threads=threads) as (bx, by, bz):
            Q_s = T.alloc_shared((block_M, dim), dtype)
            K_s = T.alloc_shared((block_N, dim), dtype)
            V_s = T.alloc_shared((block_N, dim), dtype)
            s = T.alloc_fragment((block_M, block_N), "float32")
            p = T.alloc_fragment((block_M, block_N), dtype)
            o = T.alloc_fragment((block_M, dim), "float32")
            m = T.alloc_fragment((block_M,), "float32")
            m_old = T.alloc_fragment((block_M,), "float32")
            alpha = T.alloc_fragment((block_M,), "float32")
            row = T.alloc_fragment((block_M,), "float32")
            l = T.alloc_fragment((block_M,), "float32")
            first = cu[bz]
            length = cu[bz + 1] - first
            if bx * block_M < length:
                T.copy(Q[first + bx * block_M : first + (bx + 1) * block_M, by, :], Q_s)
                T.fill(o, 0)
                T.fill(l, 0)
                T.fill(m, -T.infinity("float32"))
                steps = (
                    T.min(T.ceildiv(length, block_N), T.ceildiv((bx + 1) * block_M, block_N))
                    if causal
                    else T.ceildiv(length, block_N)
                )
                for k in T.Pipelined(steps, num_stages=num_stages):
                    T.copy(K[first + k * block_N : first + (k + 1) * block_N, by // ratio, :], K_s)
                    for i, j in T.Parallel(block_M, block_N):
                        if causal:
                            s[i, j] = T.if_then_else(
                                bx * block_M + i >= k * block_N + j and k * block_N + j < length,
                                0,
                                -T.infinity("float32"),
                            )
                        else:
                            s[i, j] = T.if_then_else(k * block_N + j < length, 0, -T.infinity("float32"))
                    T.gemm(Q_s, K_s, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                    T.copy(m, m_old)
                    T.reduce_max(s, m, dim=1, clear=False)
                    for i in T.Parallel(block_M):
                        alpha[i] = T.exp2(m_old[i] * scale - m[i] * scale)
                    for i, j in T.Parallel(block_M, block_N):
                        s[i, j] = T.exp2(s[i, j] * scale - m[i] * scale)
                    T.reduce_sum(s, row, dim=1)
                    for i in T.Parallel(block_M):
                        l[i] = l[i] * alpha[i] + row[i]
                    T.copy(s, p)
                    for i, j in T.Parallel(block_M, dim):
                        o[i, j] = o[i, j] * alpha[i]
                    T.copy(V[first + k * block_N : first + (k + 1) * block_N, by // ratio, :], V_s)
                    T.gemm(p, V_s, o, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(block_M, dim):
                    if bx * block_M + i < length:
                        O[first + bx * block_M + i, by, j] = o[i, j] / l[i]

    return attention_varlen_kernel


def decode_parts(
    batch: int,
    heads: int,
    kv_heads: int,
    seq: int,
    dim: int,
    parts: int,
    dtype: str = "float16",
    block_N: int = 128,
    num_stages: int = 2,
    threads: int = 128,
) -> Any:
    """One query row a head against a cache, the cache cut into parts; `join_parts` joins them.

    Q: (batch, heads, dim); K, V: (batch, kv_heads, seq, dim); P: (batch, heads, parts, dim) float32, the
    part's own result; L: (batch, heads, parts) float32, log2 of its sum of exponentials. The heads of a
    group share their keys, so they are the rows of one product.
    """
    ratio = heads // kv_heads
    rows = 64
    scale = (1.0 / dim) ** 0.5 * LOG2E
    steps = seq // parts // block_N

    @T.prim_func
    def decode_parts_kernel(
        Q: T.Tensor((batch, heads, dim), dtype),
        K: T.Tensor((batch, kv_heads, seq, dim), dtype),
        V: T.Tensor((batch, kv_heads, seq, dim), dtype),
        P: T.Tensor((batch, heads, parts, dim), "float32"),
        L: T.Tensor((batch, heads, parts), "float32"),
    ):
        with T.Kernel(parts, kv_heads, batch, threads=threads) as (bx, by, bz):
            Q_s = T.alloc_shared((rows, dim), dtype)
            K_s = T.alloc_shared((block_N, dim), dtype)
            V_s = T.alloc_shared((block_N, dim), dtype)
            s = T.alloc_fragment((rows, block_N), "float32")
            p = T.alloc_fragment((rows, block_N), dtype)
            o = T.alloc_fragment((rows, dim), "float32")
            m = T.alloc_fragment((rows,), "float32")
            m_old = T.alloc_fragment((rows,), "float32")
            alpha = T.alloc_fragment((rows,), "float32")
            row = T.alloc_fragment((rows,), "float32")
            l = T.alloc_fragment((rows,), "float32")

            T.copy(Q[bz, by * ratio, 0], Q_s)
            T.fill(o, 0)
            T.fill(l, 0)
            T.fill(m, -T.infinity("float32"))
            for k in T.Pipelined(steps, num_stages=num_stages):
                T.copy(K[bz, by, (bx * steps + k) * block_N, 0], K_s)
                T.clear(s)
                T.gemm(Q_s, K_s, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(m, m_old)
                T.reduce_max(s, m, dim=1, clear=False)
                for i in T.Parallel(rows):
                    alpha[i] = T.exp2(m_old[i] * scale - m[i] * scale)
                for i, j in T.Parallel(rows, block_N):
                    s[i, j] = T.exp2(s[i, j] * scale - m[i] * scale)
                T.reduce_sum(s, row, dim=1)
                for i in T.Parallel(rows):
                    l[i] = l[i] * alpha[i] + row[i]
                T.copy(s, p)
                for i, j in T.Parallel(rows, dim):
                    o[i, j] = o[i, j] * alpha[i]
                T.copy(V[bz, by, (bx * steps + k) * block_N, 0], V_s)
                T.gemm(p, V_s, o, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(rows, dim):
                if i < ratio:
                    P[bz, by * ratio + i, bx, j] = o[i, j] / l[i]
            for i in T.Parallel(rows):
                if i < ratio:
                    L[bz, by * ratio + i, bx] = T.log2(l[i]) + m[i] * scale

    return decode_parts_kernel


def join_parts(
    batch: int, heads: int, parts: int, dim: int, dtype: str = "float16", threads: int = 128
) -> Any:
    """O = the parts' results, weighted by their sums of exponentials."""

    @T.prim_func
    def join_parts_kernel(
        P: T.Tensor((batch, heads, parts, dim), "float32"),
        L: T.Tensor((batch, heads, parts), "float32"),
        O: T.Tensor((batch, heads, dim), dtype),
    ):
        with T.Kernel(heads, batch, threads=threads) as (by, bz):
            logs = T.alloc_fragment((parts,), "float32")
            most = T.alloc_fragment((1,), "float32")
            weights = T.alloc_shared((parts,), "float32")
            total = T.alloc_fragment((dim,), "float32")
            share = T.alloc_fragment((dim,), "float32")
            T.copy(L[bz, by, :], logs)
            T.reduce_max(logs, most, dim=0)
            for p in T.Parallel(parts):
                weights[p] = T.exp2(logs[p] - most[0])
            T.clear(total)
            T.clear(share)
            for p in T.serial(parts):
                for j in T.Parallel(dim):
                    total[j] += weights[p] * P[bz, by, p, j]
                    share[j] += weights[p]
            for j in T.Parallel(dim):
                O[bz, by, j] = total[j] / share[j]

    return join_parts_kernel


LAG = 8.0
"""By how many powers of two scores may be above the point that they are taken from: 2**8 times the largest
weight of a softmax is far from what a float16 holds."""


def mla_decode(
    batch: int,
    heads: int,
    seq: int,
    dim: int = 512,
    rope: int = 64,
    dtype: str = "float16",
    block_H: int = 64,
    block_N: int = 64,
    num_stages: int = 2,
    threads: int = 256,
    held: int = 192,
) -> Any:
    """Latent attention, one query row a head: values are `dim` numbers, keys the same ones and `rope` more.

    Q: (batch, heads, dim); R: (batch, heads, rope); C: (batch, seq, dim); E: (batch, seq, rope);
    O: (batch, heads, dim). R and the last `held` columns of Q (0: none) stay in registers: two warpgroups
    would read them again for each tile of keys, and shared memory is what those products wait for. Weights
    are powers of two of scores less `m`, which lags behind the rows' maxima: only when a score is more than
    LAG above it do the warpgroups exchange maxima, and is what was added up scaled anew. Sums of rows are
    folded at the end.
    """
    scale = (1.0 / (dim + rope)) ** 0.5 * LOG2E
    parts = threads // 128
    columns = T.GemmWarpPolicy.FullCol

    @T.prim_func
    def mla_decode_kernel(
        Q: T.Tensor((batch, heads, dim), dtype),
        R: T.Tensor((batch, heads, rope), dtype),
        C: T.Tensor((batch, seq, dim), dtype),
        E: T.Tensor((batch, seq, rope), dtype),
        O: T.Tensor((batch, heads, dim), dtype),
    ):
        with T.Kernel(heads // block_H, batch, threads=threads) as (bx, by):
            Q_s = T.alloc_shared((block_H, dim), dtype)
            R_s = T.alloc_shared((block_H, rope), dtype)
            C_s = T.alloc_shared((block_N, dim), dtype)
            E_s = T.alloc_shared((block_N, rope), dtype)
            p_s = T.alloc_shared((block_H, block_N), dtype)
            q = T.alloc_fragment((block_H, max(held, 64)), dtype)
            r = T.alloc_fragment((block_H, rope), dtype)
            s = T.alloc_fragment((block_H, block_N), "float32")
            p = T.alloc_fragment((block_H, block_N), "float32")
            o = T.alloc_fragment((block_H, dim), "float32")
            m = T.alloc_fragment((block_H,), "float32")
            m_old = T.alloc_fragment((block_H,), "float32")
            alpha = T.alloc_fragment((block_H,), "float32")
            above = T.alloc_fragment((block_H, block_N), "bool")
            # Sums of each thread's own columns: 8 in turn, of each warpgroup.
            sums = T.alloc_fragment((block_H, parts, 8), "float32")
            added = T.alloc_fragment((block_H, parts, 8), "float32")
            l = T.alloc_fragment((block_H,), "float32")

            T.copy(Q[by, bx * block_H, 0], Q_s)
            T.copy(R[by, bx * block_H, 0], R_s)
            T.copy(R_s, r)
            if held:
                T.copy(Q_s[0:block_H, dim - held : dim], q)
            T.fill(o, 0)
            T.fill(sums, 0)
            T.fill(m, -T.infinity("float32"))
            for k in T.Pipelined(T.ceildiv(seq, block_N), num_stages=num_stages):
                T.copy(C[by, k * block_N, 0], C_s)
                T.copy(E[by, k * block_N, 0], E_s)
                T.clear(s)
                T.gemm(
                    Q_s[0:block_H, 0 : dim - held],
                    C_s[0:block_N, 0 : dim - held],
                    s,
                    transpose_B=True,
                    policy=columns,
                )
                if held:
                    T.gemm(q, C_s[0:block_N, dim - held : dim], s, transpose_B=True, policy=columns)
                T.gemm(r, E_s, s, transpose_B=True, policy=columns)
                T.sync_threads()  # the last tile of weights has been read: met for while the products run
                for i, j in T.Parallel(block_H, block_N):
                    p[i, j] = T.exp2(s[i, j] * scale - m[i] * scale)
                T.copy(p, p_s)
                T.reduce_sum(T.reshape(p, (block_H, parts, block_N // parts // 8, 8)), added, dim=2)
                for i, j in T.Parallel(block_H, block_N):
                    above[i, j] = s[i, j] * scale - m[i] * scale > LAG
                if T.any_of(T.reshape(above, (block_H * block_N,))):
                    T.copy(m, m_old)
                    T.reduce_max(s, m, dim=1, clear=False)
                    for i in T.Parallel(block_H):
                        alpha[i] = T.exp2(m_old[i] * scale - m[i] * scale)
                    for i, j in T.Parallel(block_H, block_N):
                        s[i, j] = T.exp2(s[i, j] * scale - m[i] * scale)
                    T.copy(s, p_s)
                    T.reduce_sum(T.reshape(s, (block_H, parts, block_N // parts // 8, 8)), added, dim=2)
                    for i, x, j in T.Parallel(block_H, parts, 8):
                        sums[i, x, j] = sums[i, x, j] * alpha[i]
                    for i, j in T.Parallel(block_H, dim):
                        o[i, j] = o[i, j] * alpha[i]
                    T.sync_threads()  # the weights are written; else the vote was the last barrier
                for i, x, j in T.Parallel(block_H, parts, 8):
                    sums[i, x, j] = sums[i, x, j] + added[i, x, j]
                T.gemm(p_s, C_s, o, policy=columns)
            T.reduce_sum(T.reshape(sums, (block_H, parts * 8)), l, dim=1)
            for i, j in T.Parallel(block_H, dim):
                o[i, j] = o[i, j] / l[i]
            T.copy(o, O[by, bx * block_H, 0])

    return mla_decode_kernel


def attention_logs(
    batch: int,
    heads: int,
    seq: int,
    dim: int,
    causal: bool = False,
    dtype: str = "float16",
    block_M: int = 128,
    block_N: int = 128,
    num_stages: int = 2,
    threads: int = 256,
) -> Any:
    """Attention forward that also gives L, log2 of each row's sum of exponentials, for the backward pass."""
    scale = (1.0 / dim) ** 0.5 * LOG2E

    @T.prim_func
    def attention_logs_kernel(
        Q: T.Tensor((batch, heads, seq, dim), dtype),
        K: T.Tensor((batch, heads, seq, dim), dtype),
        V: T.Tensor((batch, heads, seq, dim), dtype),
        O: T.Tensor((batch, heads, seq, dim), dtype),
        L: T.Tensor((batch, heads, seq), "float32"),
    ):
        with T.Kernel(T.ceildiv(seq, block_M), heads, batch, threads=threads) as (bx, by, bz):
            Q_s = T.alloc_shared((block_M, dim), dtype)
            K_s = T.alloc_shared((block_N, dim), dtype)
            V_s = T.alloc_shared((block_N, dim), dtype)
            s = T.alloc_fragment((block_M, block_N), "float32")
            p = T.alloc_fragment((block_M, block_N), dtype)
            o = T.alloc_fragment((block_M, dim), "float32")
            m = T.alloc_fragment((block_M,), "float32")
            m_old = T.alloc_fragment((block_M,), "float32")
            alpha = T.alloc_fragment((block_M,), "float32")
            row = T.alloc_fragment((block_M,), "float32")
            l = T.alloc_fragment((block_M,), "float32")

            T.copy(Q[bz, by, bx * block_M : (bx + 1) * block_M, :], Q_s)
            T.fill(o, 0)
            T.fill(l, 0)
            T.fill(m, -T.infinity("float32"))
            steps = T.ceildiv((bx + 1) * block_M, block_N) if causal else T.ceildiv(seq, block_N)
            for k in T.Pipelined(steps, num_stages=num_stages):
                T.copy(K[bz, by, k * block_N : (k + 1) * block_N, :], K_s)
                for i, j in T.Parallel(block_M, block_N):
                    if causal:
                        s[i, j] = T.if_then_else(
                            bx * block_M + i >= k * block_N + j, 0, -T.infinity("float32")
                        )
                    else:
                        s[i, j] = 0
                T.gemm(Q_s, K_s, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(m, m_old)
                T.reduce_max(s, m, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    alpha[i] = T.exp2(m_old[i] * scale - m[i] * scale)
                for i, j in T.Parallel(block_M, block_N):
                    s[i, j] = T.exp2(s[i, j] * scale - m[i] * scale)
                T.reduce_sum(s, row, dim=1)
                for i in T.Parallel(block_M):
                    l[i] = l[i] * alpha[i] + row[i]
                T.copy(s, p)
                for i, j in T.Parallel(block_M, dim):
                    o[i, j] = o[i, j] * alpha[i]
                T.copy(V[bz, by, k * block_N : (k + 1) * block_N, :], V_s)
                T.gemm(p, V_s, o, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, dim):
                o[i, j] = o[i, j] / l[i]
            T.copy(o, O[bz, by, bx * block_M : (bx + 1) * block_M, :])
            for i in T.Parallel(block_M):
                l[i] = T.log2(l[i]) + m[i] * scale
            T.copy(l, L[bz, by, bx * block_M : (bx + 1) * block_M])

    return attention_logs_kernel


def query_gradient_shape(
    batch: int, heads: int, seq: int, dim: int, block_N: int = 64
) -> tuple[int, int, int, int, int]:
    """The shape of Z, where the backward pass adds up the gradient of Q: for each block_N queries their
    block_N x dim numbers in rows of 32, in the order in which the threads of a product hold them. Columns
    8 q + 2 c + e of rows 16 w + 8 h + 2 g + o stand in row block_N / 4 q + 4 w + g, at 16 o + 4 c + 2 h + e.
    """
    return batch, heads, seq // block_N, block_N * dim // 32, 32


def backward_sums(
    batch: int,
    heads: int,
    seq: int,
    dim: int,
    dtype: str = "float16",
    block_M: int = 64,
    threads: int = 128,
    block_N: int = 64,
) -> Any:
    """D = rows of O * G summed; Z = 0, where the backward pass adds up the gradient of Q."""
    z_shape = query_gradient_shape(batch, heads, seq, dim, block_N)
    tiles = block_M // block_N

    @T.prim_func
    def backward_sums_kernel(
        O: T.Tensor((batch, heads, seq, dim), dtype),
        G: T.Tensor((batch, heads, seq, dim), dtype),
        D: T.Tensor((batch, heads, seq), "float32"),
        Z: T.Tensor(z_shape, "float32"),
    ):
        with T.Kernel(T.ceildiv(seq, block_M), heads, batch, threads=threads) as (bx, by, bz):
            o = T.alloc_fragment((block_M, dim), "float32")
            g = T.alloc_fragment((block_M, dim), "float32")
            d = T.alloc_fragment((block_M,), "float32")
            T.copy(O[bz, by, bx * block_M : (bx + 1) * block_M, :], o)
            T.copy(G[bz, by, bx * block_M : (bx + 1) * block_M, :], g)
            for i, j in T.Parallel(block_M, dim):
                o[i, j] = o[i, j] * g[i, j]
            T.reduce_sum(o, d, dim=1)
            T.copy(d, D[bz, by, bx * block_M : (bx + 1) * block_M])
            for t, i, j in T.Parallel(tiles, z_shape[3], 32):
                Z[bz, by, bx * tiles + t, i, j] = 0

    return backward_sums_kernel


def attention_backward(
    batch: int,
    heads: int,
    seq: int,
    dim: int,
    causal: bool = False,
    dtype: str = "float16",
    block_M: int = 128,
    block_N: int = 64,
    num_stages: int = 2,
    threads: int = 256,
) -> Any:
    """Gradients of attention: a block has block_M keys and goes over block_N queries at a time.

    L as `attention_logs` gives it, D and Z as `backward_sums` does. dK, dV are written; the gradient of Q,
    over the scale, is added to Z, in its threads' own order: they store 16 bytes at a time, without bank
    conflicts. Everything is transposed: keys are the rows of the products, so that their results are left
    operands of the next ones in registers. dQ comes before dK, so that it leaves, through a shared tile,
    while dK is multiplied; dS has two tiles in turn, so that the threads meet once an iteration. Causal
    blocks mask only where the diagonal is; they come longest first, a few heads at a time, so that the last
    ones are short and the queries of those heads stay in L2.
    """
    scale = (1.0 / dim) ** 0.5
    total = seq // block_N
    z_shape = query_gradient_shape(batch, heads, seq, dim, block_N)
    section = math.gcd(batch * heads, 8) if causal else 1

    @T.prim_func
    def attention_backward_kernel(
        Q: T.Tensor((batch, heads, seq, dim), dtype),
        K: T.Tensor((batch, heads, seq, dim), dtype),
        V: T.Tensor((batch, heads, seq, dim), dtype),
        G: T.Tensor((batch, heads, seq, dim), dtype),
        L: T.Tensor((batch, heads, seq), "float32"),
        D: T.Tensor((batch, heads, seq), "float32"),
        Z: T.Tensor(z_shape, "float32"),
        dK: T.Tensor((batch, heads, seq, dim), dtype),
        dV: T.Tensor((batch, heads, seq, dim), dtype),
    ):
        with T.Kernel(section, T.ceildiv(seq, block_M), batch * heads // section, threads=threads) as (
            head,
            bx,
            group,
        ):
            by = (group * section + head) % heads
            bz = (group * section + head) // heads
            K_s = T.alloc_shared((block_M, dim), dtype)
            V_s = T.alloc_shared((block_M, dim), dtype)
            Q_s = T.alloc_shared((block_N, dim), dtype)
            G_s = T.alloc_shared((block_N, dim), dtype)
            L_s = T.alloc_shared((block_N,), "float32")
            logs = T.alloc_fragment((block_N,), "float32")
            D_s = T.alloc_shared((block_N,), "float32")
            ds_s = T.alloc_shared((2, block_M, block_N), dtype)
            dq_s = T.alloc_shared(z_shape[3:], "float32")
            s = T.alloc_fragment((block_M, block_N), "float32")
            dp = T.alloc_fragment((block_M, block_N), "float32")
            p = T.alloc_fragment((block_M, block_N), dtype)
            ds = T.alloc_fragment((block_M, block_N), dtype)
            dk = T.alloc_fragment((block_M, dim), "float32")
            dv = T.alloc_fragment((block_M, dim), "float32")
            dq = T.alloc_fragment((block_N, dim), "float32")

            T.copy(K[bz, by, bx * block_M : (bx + 1) * block_M, :], K_s)
            T.copy(V[bz, by, bx * block_M : (bx + 1) * block_M, :], V_s)
            T.clear(dk)
            T.clear(dv)
            T.sync_threads()  # a tile before may have ended with either tile of dS
            first = T.floordiv(bx * block_M, block_N) if causal else 0
            for t in T.Pipelined(total - first, num_stages=num_stages):
                T.copy(Q[bz, by, (first + t) * block_N, 0], Q_s)
                T.copy(G[bz, by, (first + t) * block_N, 0], G_s)
                T.copy(L[bz, by, (first + t) * block_N], L_s)
                T.copy(D[bz, by, (first + t) * block_N], D_s)
                T.copy(L_s, logs)
                T.gemm(K_s, Q_s, s, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                T.gemm(V_s, G_s, dp, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(block_M, block_N):
                    s[i, j] = T.exp2(s[i, j] * (scale * LOG2E) - logs[j])
                if causal:
                    if (first + t) * block_N < bx * block_M + block_M - 1:
                        for i, j in T.Parallel(block_M, block_N):
                            s[i, j] = T.if_then_else(
                                bx * block_M + i <= (first + t) * block_N + j, s[i, j], 0
                            )
                T.copy(s, p)
                T.gemm(p, G_s, dv, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(block_M, block_N):
                    ds[i, j] = T.cast(s[i, j] * (dp[i, j] - D_s[j]), dtype)
                T.copy(ds, ds_s[t % 2, :, :])
                T.gemm(ds_s[t % 2, :, :], K_s, dq, transpose_A=True, clear_accum=True)
                T.gemm(ds, Q_s, dk, policy=T.GemmWarpPolicy.FullRow)
                for q, w, g, o, c, h, e in T.Parallel(dim // 8, block_N // 16, 4, 2, 4, 2, 2):
                    dq_s[q * (block_N // 4) + w * 4 + g, o * 16 + c * 4 + h * 2 + e] = dq[
                        w * 16 + h * 8 + g * 2 + o, q * 8 + c * 2 + e
                    ]
                T.atomic_add(Z[bz, by, first + t, 0, 0], dq_s)
            for i, j in T.Parallel(block_M, dim):
                dk[i, j] = dk[i, j] * scale
            T.copy(dk, dK[bz, by, bx * block_M : (bx + 1) * block_M, :])
            T.copy(dv, dV[bz, by, bx * block_M : (bx + 1) * block_M, :])

    return attention_backward_kernel


def backward_scaled(
    batch: int,
    heads: int,
    seq: int,
    dim: int,
    dtype: str = "float16",
    block_M: int = 64,
    threads: int = 128,
) -> Any:
    """dQ = Z times the scale of the products, block_M queries of Z's order at a time."""
    scale = (1.0 / dim) ** 0.5

    @T.prim_func
    def backward_scaled_kernel(
        Z: T.Tensor(query_gradient_shape(batch, heads, seq, dim, block_M), "float32"),
        dQ: T.Tensor((batch, heads, seq, dim), dtype),
    ):
        with T.Kernel(T.ceildiv(seq, block_M), heads, batch, threads=threads) as (bx, by, bz):
            for w, g, o, q, c, h, e in T.Parallel(block_M // 16, 4, 2, dim // 8, 4, 2, 2):
                dQ[bz, by, bx * block_M + w * 16 + h * 8 + g * 2 + o, q * 8 + c * 2 + e] = (
                    Z[bz, by, bx, q * (block_M // 4) + w * 4 + g, o * 16 + c * 4 + h * 2 + e] * scale
                )

    return backward_scaled_kernel
