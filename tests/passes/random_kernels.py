"""Random kernels from a seed: fragments and shared tiles of odd shapes, odd thread counts, ops and loops in
any order."""

from __future__ import annotations

import random

from tilebench.ir.expr import binary
from tilebench.ir.tile import Kernel
from tilebench.layouts import FragmentLayout, blocked, mma_accumulator, replicated
from tilebench.ops.atomic import atomic_add
from tilebench.ops.copy import copy
from tilebench.ops.elementwise import fill
from tilebench.ops.examples import Draft, tile
from tilebench.ops.reduce import reduce_max, reduce_min, reduce_sum
from tilebench.ops.scan import cumsum
from tilebench.ops.transpose import transpose


def random_layout(r: random.Random, shape: tuple[int, int], threads: int) -> FragmentLayout:
    """Any way to spread a tile: columns before rows, vectors, replicas, accumulators where they fit."""
    M, N = shape
    fitting = [(wm, wn) for wm in (1, 2, 4) for wn in (1, 2, 4) if M % (16 * wm) == 0 and N % (8 * wn) == 0]
    fitting = [(wm, wn) for wm, wn in fitting if threads % (32 * wm * wn) == 0]
    if fitting and r.random() < 0.6:
        layout = mma_accumulator(shape, r.choice(fitting))
    else:
        copies = r.choice([c for c in (1, 2, 4, threads) if threads % c == 0])
        turned = r.random() < 0.5
        layout = blocked((N, M) if turned else shape, threads // copies, r.choice([1, 2, 4]))
        layout = layout.permute((1, 0)) if turned else layout
        if layout.threads != threads // copies:
            layout = replicated(shape, threads)
    return layout.replicate(threads // layout.threads) if threads != layout.threads else layout


def random_kernel(seed: int) -> Kernel:
    """Two to seven random steps on tiles of one random shape, all of them written out at the end."""
    r = random.Random(seed)
    threads = r.choice([1, 3, 32, 48, 64, 96, 128, 100, 256, 33, 160])
    M = r.choice([1, 3, 4, 7, 8, 16, 17, 32])
    N = r.choice([1, 2, 5, 8, 12, 16, 24, 31, 32, 64, 96])
    dtype = r.choice(["float32", "float16", "int32", "bfloat16", "int8"])
    wide = "int32" if dtype.startswith("int") else "float32"
    d = Draft("random", (2,), threads)
    b = d.blocks[0]
    rows = M * 2 - r.choice([0, 0, 1]) if M > 1 else 2
    columns = N + r.choice([0, 0, 3, 8, -1 if N > 1 else 0])
    A, B = d.tensor("A", (rows, columns), dtype), d.tensor("B", (rows, columns), wide, "inout")
    R, C = d.tensor("R", (rows,), wide, "inout"), d.tensor("C", (columns, 2), wide, "inout")
    W = d.tensor("W", (2 * N, 2 * M), wide, "inout")
    X, Y, Z = d.fragment("X", (M, N), wide), d.fragment("Y", (M, N), wide), d.fragment("Z", (M, N), dtype)
    row, col, line = (
        d.fragment("row", (M,), wide),
        d.fragment("col", (N,), wide),
        d.fragment("line", (1, N), wide),
    )
    S, T, sums = d.shared("S", (M, N), dtype), d.shared("T", (N, M), wide), d.shared("sums", (M,), wide)
    if r.random() < 0.5:
        d.add(copy(A[b * M, 0], S))
    else:
        d.add(copy(A[b * M, 0], Z), copy(Z, S))
    d.add(copy(S, X))
    for buffer, value in ((Y, 1), (row, 2), (col, 3), (line, 1), (T, 4), (sums, 1), (Z, 1)):
        d.add(fill(buffer, value))
    given = {b: random_layout(r, (M, N), threads) for b in (X, Y) if r.random() < 0.3}
    if given:
        d.attributes["layouts"] = given
    for _ in range(r.randint(2, 7)):
        match r.randint(0, 22):
            case 0:
                d.add(reduce_sum(X, row, dim=1, clear=r.random() < 0.5))
            case 1:
                d.add(reduce_max(X, col, dim=0, clear=r.random() < 0.5))
            case 2:
                with d.parallel(M, N) as (i, j):
                    d.store(X, (i, j), X[i, j] - row[i] + col[j])
            case 3:
                with d.parallel(M, N) as (i, j):
                    d.store(Y, (i, j), X[i, j] + Y[i, j] * 2)
            case 4:
                d.add(transpose(Y, T))
            case 5:
                with d.parallel(N, M) as (j, i):
                    d.store(X, (i, j), T[j, i] + S[i, j])
            case 6:
                with d.parallel(M, N) as (i, j):
                    d.store(Y, (i, j), X[(i + 1) % M, N - 1 - j])
            case 7:
                with d.parallel(M) as (i,), d.serial(N) as k:
                    d.store(row, i, row[i] + X[i, k])
            case 8:
                d.add(cumsum(X, dim=r.choice([0, 1])))
            case 9:
                d.add(reduce_min(S, sums, dim=1))
            case 10:
                with d.parallel(M, N) as (i, j), d.when(binary("lt", i, j)):
                    d.store(X, (i, j), 0)
            case 11:
                d.add(copy(X, Y))
            case 12:
                d.add(reduce_sum(Y, line, dim=0))
            case 13:
                with d.parallel(M) as (i,):
                    d.store(sums, i, row[i] * 2)
            case 14:
                with d.serial(M) as k, d.parallel(N) as (j,):
                    d.store(col, j, col[j] + X[k, j])
            case 15 if M > 1:
                half = M // 2
                d.add(copy(tile(X, (0, half), (0, N)), tile(Y, (M - half, half), (0, N))))
            case 16:
                with d.parallel(M) as (i,):
                    d.store(row, i, row[i] + sums[M - 1 - i])
            case 17:
                d.store(T, (0, 0), row[M - 1] + X[0, N - 1])
            case 18:
                with d.parallel(M) as (i,):
                    d.store(sums, i, row[i] * 2)
                    d.store(row, i, sums[i] + 1)
            case 19:
                with d.parallel(M, N) as (i, j):
                    d.store(T, (j, i), T[j, i] + Y[i, j] + row[i])
            case 20:
                d.add(cumsum(T, dim=r.choice([0, 1]), reverse=r.random() < 0.5))
            case 21:
                d.add(cumsum(row, dim=0), copy(row, sums))
            case _:
                with d.parallel(M * N) as (i,):
                    d.store(Y, (i // N, i % N), X[i // N, i % N] + i % 3)
    d.add(copy(X, B[b * M, 0]), atomic_add(tile(R, (b * M, M)), row))
    with d.parallel(M, N) as (i, j):
        d.store(W, (b * N + j, b * M + i), Y[i, j] + T[j, i] + line[0, j])
    with d.parallel(N) as (j,), d.when(binary("lt", j, columns)):
        d.store(C, (j, b), col[j])
    return d.kernel()
