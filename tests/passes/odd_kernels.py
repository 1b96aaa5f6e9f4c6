"""Small kernels, each for one thing that lowering must get right."""

from __future__ import annotations

from collections.abc import Callable

from tilebench.ir.dtype import float16, float32, int32
from tilebench.ir.expr import Var, binary, call, const
from tilebench.ir.tile import AtomicRMW, Bind, Buffer, Kernel, Parallel, Seq, Store
from tilebench.ops.atomic import atomic_add
from tilebench.ops.copy import copy
from tilebench.ops.elementwise import fill
from tilebench.ops.examples import Draft, tile
from tilebench.ops.reduce import reduce_sum

KERNELS: list[Callable[[], Kernel]] = []


def kernel(make: Callable[[], Kernel]) -> Callable[[], Kernel]:
    KERNELS.append(make)
    return make


@kernel
def slices_of_fragments_at_loop_variables() -> Kernel:
    d = Draft("slices", (2,), 128)
    b = d.blocks[0]
    A, O = d.tensor("A", (64, 128), "float16"), d.tensor("O", (64, 128), "float16", "out")
    X, Y, Z = (
        d.fragment("X", (32, 128), "float16"),
        d.fragment("Y", (32, 32), "float16"),
        d.fragment("Z", (32, 128), "float16"),
    )
    d.add(copy(A[b * 32, 0], X), fill(Z, 0))
    with d.serial(4) as k:
        d.add(copy(tile(X, (0, 32), (k * 32, 32)), Y))
        with d.parallel(32, 32) as (i, j):
            d.store(Y, (i, j), Y[i, j] * 2)
        d.add(copy(Y, tile(Z, (0, 32), ((3 - k) * 32, 32))))
    d.add(copy(Z, O[b * 32, 0]))
    return d.kernel()


@kernel
def rows_of_fragments_at_loop_variables() -> Kernel:
    d = Draft("rows", (2,), 128)
    b = d.blocks[0]
    A, O = d.tensor("A", (64, 128), "float16"), d.tensor("O", (64, 128), "float32", "out")
    X, v = d.fragment("X", (32, 128), "float16"), d.fragment("v", (128,), "float32")
    d.add(copy(A[b * 32, 0], X), fill(v, 0))
    with d.serial(32) as k:
        with d.parallel(128) as (j,):
            d.store(v, j, v[j] + X[k, j])
        d.add(copy(v, tile(O, b * 32 + k, (0, 128))))
    return d.kernel()


@kernel
def threads_by_name() -> Kernel:
    d = Draft("threads", (2,), 64)
    t, b = d.thread, d.blocks[0]
    A, O = d.tensor("A", (128,), "float32"), d.tensor("O", (128,), "float32", "out")
    L, v, S = d.local("L", (4,), "float32"), d.var("v", "float32"), d.shared("S", (64,), "float32")
    with d.serial(4) as k:
        d.store(L, k, A[b * 64 + t] + k)
    d.store(v, 0, 0.0)
    with d.serial(4) as k:
        d.store(v, 0, v[0] + L[k])
    d.store(S, t, v[0])
    with d.when(binary("lt", t, 32)):
        d.store(O, b * 64 + t, S[63 - t])
    with d.when(binary("ge", t, 32)):
        d.store(O, b * 64 + t, call("shfl_xor", (v[0], const(1)), float32))
    return d.kernel()


@kernel
def uniform_scalars() -> Kernel:
    d = Draft("uniform", (2,), 96)
    b = d.blocks[0]
    A, O = d.tensor("A", (2, 8), "int32"), d.tensor("O", (2, 4), "int32", "out")
    S, v = d.shared("S", (4,), "int32"), d.var("v", "int32")
    d.store(S, 0, A[b, 0])
    d.store(S, 1, A[b, 1] + S[0])
    d.store(v, 0, S[1] * 2)
    with d.loop_while(binary("lt", v[0], 20)):
        d.store(v, 0, v[0] + call("abs", (v[0],), int32) + 5)
    with d.when(binary("gt", S[0], 0)):
        d.store(S, 2, v[0])
    with d.when(binary("le", S[0], 0)):
        d.store(S, 2, 7)
    d.store(S, 3, 1)
    d.add(copy(S, tile(O, b, (0, 4))))
    return d.kernel()


@kernel
def histogram() -> Kernel:
    d = Draft("histogram", (3,), 128)
    b = d.blocks[0]
    A, H = d.tensor("A", (300,), "int32"), d.tensor("H", (8,), "int32", "inout")
    S = d.shared("S", (8,), "int32")
    d.add(fill(S, 0))
    with d.parallel(100) as (i,):
        d.add(AtomicRMW("add", S, (A[b * 100 + i] + 4,), const(1)))
    d.add(atomic_add(H, S))
    return d.kernel()


@kernel
def an_atomic_gives_its_old_value_to_all_threads() -> Kernel:
    d = Draft("old_value", (1,), 64)
    H, O = d.tensor("H", (4,), "int32", "inout"), d.tensor("O", (64,), "int32", "out")
    old = Var("old", dtype=int32)
    d.add(AtomicRMW("add", H, (const(0),), const(5), old))
    with d.parallel(64) as (i,):
        d.store(O, i, old * 2 + i)
    return d.kernel()


@kernel
def views() -> Kernel:
    d = Draft("views", (1,), 64)
    A, O = d.tensor("A", (16, 32), "float16"), d.tensor("O", (32, 16), "float16", "out")
    P, Q = d.tensor("P", (256,), "int32", "out"), d.tensor("Q", (512,), "float16", "out")
    S, X = d.shared("S", (16, 32), "float16"), d.fragment("X", (16, 32), "float16")
    shape = Buffer("as_32x16", (const(32), const(16)), float16, "shared", view_of=S)
    words = Buffer("as_words", (const(256),), int32, "shared", view_of=S)
    flat = Buffer("flat", (const(512),), float16, "fragment", view_of=X)
    d.buffers += [shape, words, flat]
    d.add(copy(A, S), copy(shape, O), copy(words, P), copy(A, X), copy(flat, Q))
    return d.kernel()


@kernel
def symbolic_extents() -> Kernel:
    M, N = Var("M", dtype=int32), Var("N", dtype=int32)
    d = Draft("symbolic", (2, 2), 96)
    bx, by = d.blocks
    A, O = d.tensor("A", (M, N), "float32"), d.tensor("O", (M, N), "float32", "out")
    X = d.fragment("X", (32, 32), "float32")
    d.add(copy(A[bx * 32, by * 32], X))
    with d.parallel(32, 32) as (i, j):
        d.store(X, (i, j), X[i, j] * 2)
    with (
        d.parallel(32, 32) as (i, j),
        d.when(binary("and", binary("lt", bx * 32 + i, M), binary("lt", by * 32 + j, N))),
    ):
        d.store(O, (bx * 32 + i, by * 32 + j), X[i, j] + A[bx * 32 + i, by * 32 + j])
    return d.kernel()


@kernel
def blocks_in_panels() -> Kernel:
    d = Draft("panels", (5, 7), 64)
    bx, by = d.blocks
    d.attributes["swizzle_panel"] = 3
    A, O = d.tensor("A", (56, 40), "float32"), d.tensor("O", (56, 40), "float32", "out")
    X = d.fragment("X", (8, 8), "float32")
    d.add(copy(A[by * 8, bx * 8], X), copy(X, O[by * 8, bx * 8]))
    return d.kernel()


@kernel
def elements_of_fragments_outside_of_loops() -> Kernel:
    d = Draft("elements", (1,), 128)
    A, O = d.tensor("A", (4, 64), "int32"), d.tensor("O", (4, 64), "int32", "out")
    X, m, s = (
        d.fragment("X", (4, 64), "int32"),
        d.fragment("m", (1,), "int32"),
        d.fragment("s", (4,), "int32"),
    )
    d.add(copy(A, X), reduce_sum(X, s, dim=1))
    with d.serial(4) as k:
        with d.when(binary("gt", s[k], 0)), d.parallel(64) as (j,):
            d.store(X, (k, j), X[k, j] + s[k])
        d.store(s, k, s[k] + k)
        d.store(X, (k, 3), s[k])
    d.store(m, 0, s[1])
    with d.loop_while(binary("lt", s[2], 50)):
        d.store(s, 2, s[2] * s[2] + 1)
    with d.parallel(4, 64) as (i, j):
        d.store(X, (i, j), X[i, j] + m[0] + s[2])
    d.add(copy(X, O))
    return d.kernel()


@kernel
def indices_from_memory() -> Kernel:
    d = Draft("gather", (1,), 64)
    A, B = d.tensor("A", (64,), "int32"), d.tensor("B", (8, 64), "float32")
    O, P = d.tensor("O", (64, 64), "float32", "out"), d.tensor("P", (64,), "float32", "out")
    F, G, I = (
        d.fragment("F", (8,), "float32"),
        d.fragment("G", (64,), "float32"),
        d.fragment("I", (64,), "int32"),
    )
    d.add(copy(A, I), copy(tile(B, (0, 8), 0), F))
    with d.parallel(64, 64) as (i, j):
        d.store(O, (i, j), B[A[i] + 4, j])
    with d.parallel(64) as (i,):
        d.store(G, i, F[I[i] + 4])
    d.add(copy(G, P))
    return d.kernel()


@kernel
def variables_inside_of_parallel_loops() -> Kernel:
    d = Draft("inside", (1,), 64)
    A, O = d.tensor("A", (64, 16), "float32"), d.tensor("O", (64,), "float32", "out")
    P, v = d.tensor("P", (64, 16), "float32", "out"), d.var("v", "float32")
    with d.parallel(64) as (i,):
        d.store(v, 0, 0.0)
        with d.serial(16) as k:
            d.store(v, 0, v[0] + A[i, k])
        with d.when(binary("gt", v[0], 0)):
            d.store(v, 0, v[0] * 2)
        d.store(O, i, v[0])
    with d.parallel(64, 16) as (i, j):
        d.store(P, (i, j), A[i, j] + A[63 - i, 15 - j])
    return d.kernel()


@kernel
def heads_of_a_4d_tensor() -> Kernel:
    d = Draft("heads", (2, 3), 128)
    b, h = d.blocks
    A, O = d.tensor("A", (2, 40, 3, 64), "float16"), d.tensor("O", (2, 3, 40, 64), "float16", "out")
    S, X = d.shared("S", (40, 64), "float16"), d.fragment("X", (40, 64), "float32")
    d.add(copy(tile(A, b, (0, 40), h, (0, 64)), S), copy(S, X))
    with d.parallel(40, 64) as (i, j):
        d.store(X, (i, j), X[i, j] + S[39 - i, j])
    d.add(copy(X, tile(O, b, h, (0, 40), (0, 64))))
    return d.kernel()


@kernel
def a_name_between_two_parallel_loops() -> Kernel:
    d = Draft("names", (1,), 64)
    A, O = d.tensor("A", (16, 16), "int32"), d.tensor("O", (16, 16), "int32", "out")
    X = d.fragment("X", (16, 16), "int32")
    i, j, r = (Var(n, dtype=int32) for n in "ijr")
    inner = Parallel((j,), (16,), Store(O, (r, j), X[r, j] + A[i, j]))
    d.add(copy(A, X), Parallel((i,), (16,), Seq((Bind(r, (i * 3) % 16), inner))))
    return d.kernel()


@kernel
def packed_elements() -> Kernel:
    d = Draft("packed", (2,), 128)
    b = d.blocks[0]
    A, O = d.tensor("A", (48, 40), "int8"), d.tensor("O", (48, 80), "float16", "out")
    packed, wide = d.fragment("packed", (24, 40), "int8"), d.fragment("wide", (24, 80), "float16")
    tall = d.fragment("tall", (72, 40), "int8")
    P = d.tensor("P", (144, 40), "int8", "out")
    d.add(copy(A[b * 24, 0], packed))
    with d.parallel(24, 80) as (i, j):
        d.store(wide, (i, j), (packed[i, j // 2] >> (j % 2)) & 1)
    with d.parallel(72, 40) as (i, j):
        d.store(tall, (i, j), packed[i // 3, j] + i % 3)
    d.add(copy(wide, O[b * 24, 0]), copy(tall, P[b * 72, 0]))
    return d.kernel()
