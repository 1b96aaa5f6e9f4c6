"""Two whole kernels as thread programs written by hand: what the passes should come to."""

from __future__ import annotations

from tests.compiles.programs import at, load, store, unrolled
from tilebench.ir.dtype import DType, float16, float32, int32
from tilebench.ir.expr import Expr, Var, as_expr, binary, call, cast, const
from tilebench.ir.thread import (
    Barrier,
    CpAsync,
    CpAsyncCommit,
    CpAsyncWait,
    LdMatrix,
    Memory,
    Mma,
    Program,
    Role,
    VectorCopy,
    global_memory,
    register_array,
    shared_memory,
)
from tilebench.ir.tile import Bind, Buffer, For, If, Param, Seq, Stmt


def softmax(rows: int = 512, columns: int = 4096, arch: str = "sm_90a", threads: int = 256) -> Program:
    """A row a block, 16-byte accesses, reductions by shuffles and through shared memory."""
    x, y = (Buffer(n, (const(rows), const(columns)), float16, "global") for n in "XY")
    gx, gy = global_memory(x, const(rows * columns)), global_memory(y, const(rows * columns))
    bx, t = Var("bx", dtype=int32), Var("t", dtype=int32)
    per = columns // threads
    h, f = register_array("h", per, float16), register_array("f", per, float32)
    m, s = register_array("m", 1, float32), register_array("s", 1, float32)
    red = shared_memory("red", threads // 32, float32, 0)

    def address(r: Expr) -> Expr:
        return bx * columns + (r * threads + t) * 8

    def block_reduce(memory: Memory, op: str, line: int) -> list[Stmt]:
        def joined(other: Expr) -> Stmt:
            return store(memory, 0, binary(op, load(memory, 0), other), line)  # type: ignore[arg-type]

        return [
            *(joined(call("shfl_xor", [load(memory, 0), d], float32)) for d in (16, 8, 4, 2, 1)),
            Barrier(loc=at(line)),
            If(binary("eq", t % 32, 0), store(red, t // 32, load(memory, 0), line)),
            Barrier(loc=at(line)),
            store(memory, 0, load(red, 0), line),
            unrolled(threads // 32 - 1, lambda i: joined(load(red, i + 1)), line),
            Barrier(loc=at(line)),
        ]

    def exponent(i: Expr) -> Expr:
        return call("exp2", [(load(f, i) - load(m, 0)) * 1.4426950408889634], float32)

    body = (
        unrolled(per // 8, lambda r: VectorCopy(h, r * 8, gx, address(r), 8, loc=at(5)), 5),
        store(m, 0, const(float("-inf")), 6),
        unrolled(per, lambda i: store(f, i, cast(load(h, i), float32), 7), 7),
        unrolled(per, lambda i: store(m, 0, binary("max", load(m, 0), load(f, i)), 7), 7),
        *block_reduce(m, "max", 8),
        store(s, 0, const(0.0), 9),
        unrolled(
            per, lambda i: Seq((store(f, i, exponent(i), 10), store(s, 0, load(s, 0) + load(f, i), 10))), 10
        ),
        *block_reduce(s, "add", 11),
        unrolled(per, lambda i: store(h, i, cast(load(f, i) / load(s, 0), float16), 12), 12),
        unrolled(per // 8, lambda r: VectorCopy(gy, address(r), h, r * 8, 8, loc=at(13)), 13),
    )
    return Program(
        "softmax",
        (Param("X", x), Param("Y", y, "out")),
        {x: gx, y: gy},
        (),
        (const(rows),),
        (bx,),
        t,
        threads,
        (Role("all", 0, threads, Seq(body)),),
        (h, f, m, s),
        (red,),
        threads // 32 * 4,
        arch,
    )


def gemm(
    M: int = 4096, N: int = 4096, K: int = 4096, arch: str = "sm_90a", dtype: DType = float16, stages: int = 4
) -> Program:
    """C = A @ B.T by tiles of 128 x 128 x 32: cp.async into swizzled tiles, ldmatrix, mma.sync, four
    warps.
    """
    BM, BN, BK, threads = 128, 128, 32, 128
    a, b, c = (
        Buffer(n, (const(r), const(w)), dtype, "global")
        for n, r, w in (("A", M, K), ("B", N, K), ("C", M, N))
    )
    ga, gb, gc = (global_memory(x, const(n)) for x, n in ((a, M * K), (b, N * K), (c, M * N)))
    bx, by, t, stage, ahead = (Var(n, dtype=int32) for n in ("bx", "by", "t", "stage", "ahead"))
    lane, warp, wm, wn, ko = (Var(n, dtype=int32) for n in ("lane", "warp", "wm", "wn", "ko"))
    sa = shared_memory("As", stages * BM * BK, dtype, 0, versions=stages)
    sb = shared_memory("Bs", stages * BN * BK, dtype, stages * BM * BK * 2, versions=stages)
    acc, fa, fb = (
        register_array("acc", 128, float32),
        register_array("fa", 32, dtype),
        register_array("fb", 32, dtype),
    )

    def swizzled(row: Expr, chunk: Expr) -> Expr:
        return row * BK + (chunk ^ (row // 2 % 4)) * 8

    def fetch(slot: Expr, k: Expr) -> list[Stmt]:
        def tile(memory: Memory, source: Memory, block: Var) -> Stmt:
            def one(q: Var) -> Stmt:
                row, chunk = (q * threads + t) // 4, (q * threads + t) % 4
                place = slot * (BM * BK) + swizzled(row, chunk)
                return CpAsync(
                    memory, place, source, (block * BM + row) * K + k * BK + chunk * 8, 8, loc=at(5)
                )

            return unrolled(BM * 4 // threads, one, 5)

        return [tile(sa, ga, by), tile(sb, gb, bx)]

    def multiply(kk: Var) -> Stmt:
        def row_a(i: Var) -> Expr:
            return wm * 64 + i * 16 + lane % 16

        def row_b(i: Var) -> Expr:
            return wn * 64 + i * 16 + lane % 8 + lane // 16 * 8

        at_a, at_b = stage * (BM * BK), stage * (BN * BK)
        return Seq(
            (
                unrolled(
                    4,
                    lambda i: LdMatrix(
                        fa, i * 8, sa, at_a + swizzled(row_a(i), kk * 2 + lane // 16), 4, loc=at(7)
                    ),
                    7,
                ),
                unrolled(
                    4,
                    lambda i: LdMatrix(
                        fb, i * 8, sb, at_b + swizzled(row_b(i), kk * 2 + lane // 8 % 2), 4, loc=at(7)
                    ),
                    7,
                ),
                unrolled(
                    4,
                    lambda i: unrolled(
                        8,
                        lambda j: Mma((16, 8, 16), acc, (i * 8 + j) * 4, fa, i * 8, fb, j * 4, loc=at(8)),
                        8,
                    ),
                    8,
                ),
            )
        )

    def write(i: Var, j: Var) -> Stmt:
        def one(e: int) -> Stmt:
            row = by * BM + wm * 64 + i * 16 + lane // 4 + 8 * (e // 2)
            return store(
                gc,
                row * N + bx * BN + wn * 64 + j * 8 + lane % 4 * 2 + e % 2,
                load(acc, (i * 8 + j) * 4 + e),
                9,
            )

        return Seq(tuple(one(e) for e in range(4)))

    steps = K // BK
    loop = Seq((
        CpAsyncWait(stages - 2, loc=at(6)),
        Barrier(loc=at(6)),
        Bind(stage, ko % stages),
        unrolled(BK // 16, multiply, 7),
        Bind(ahead, ko + (stages - 1)),
        If(binary("lt", ahead, steps), Seq(tuple(fetch(ahead % stages, ahead)))),
        CpAsyncCommit(),
    ))  # fmt: skip
    body = (
        Bind(lane, t % 32), Bind(warp, t // 32), Bind(wm, warp % 2), Bind(wn, warp // 2),
        unrolled(128, lambda i: store(acc, i, const(0.0)), 4),
        *(s for k in range(stages - 1) for s in (*fetch(as_expr(k), as_expr(k)), CpAsyncCommit())),
        For(ko, const(0), const(steps), loop, loc=at(6)),
        unrolled(4, lambda i: unrolled(8, lambda j: write(i, j), 9), 9),
    )  # fmt: skip
    params = (Param("A", a), Param("B", b), Param("C", c, "out"))
    return Program(
        "gemm", params, {a: ga, b: gb, c: gc}, (), (const(N // BN), const(M // BM)), (bx, by), t, threads,
        (Role("all", 0, threads, Seq(body)),), (acc, fa, fb), (sa, sb), stages * (BM + BN) * BK * 2, arch,
    )  # fmt: skip
