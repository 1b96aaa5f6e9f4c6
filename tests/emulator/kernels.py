"""Whole kernels as hand-built thread programs: a pipelined GEMM and an attention forward."""

from __future__ import annotations

from tests.emulator.build import Build, intrinsic
from tilebench.ir.dtype import as_dtype
from tilebench.ir.expr import Expr, binary, cast


def swizzled(row: Expr, chunk: Expr, chunks: int) -> Expr:
    """Index in 16-bit elements of a 16-byte chunk of a row of `chunks` (4 or 8) chunks, XOR-swizzled."""
    if chunks == 4:
        return (row * 4 + (chunk ^ (row // 2 % 4))) * 8
    return (row * 8 + (chunk ^ (row % 8))) * 8


def gemm(
    k: int, stages: int = 3, grid: tuple[int, int] = (1, 1), wait: bool = True, barrier: bool = True
) -> Build:
    """C[M, N] = A[M, k] @ B[k, N] in float16 with float32 sums: blocks of 128 x 128 x 32, 4 warps of 64 x 64.

    wait, barrier: leave them out to make it wrong.
    """
    b = Build(128, grid)
    n = 128 * grid[0]
    ga, gb = b.tensor("A", 128 * grid[1] * k, "float16"), b.tensor("B", n * k, "float16")
    gc = b.tensor("C", 128 * grid[1] * n, "float16", "out")
    sa, sb = b.shared("As", stages * 128 * 32, "float16"), b.shared("Bs", stages * 32 * 128, "float16")
    a, w, d = b.regs("a", 32, "float16"), b.regs("b", 32, "float16"), b.regs("acc", 128, "float32")
    tx, (bx, by) = b.tx, b.blocks
    lane, warp = tx % 32, tx // 32
    wm, wn = warp % 2, warp // 2
    steps = k // 32

    def load(step: Expr | int, stage: Expr | int) -> None:
        with b.each(4) as i:
            row, chunk = i * 32 + tx // 4, tx % 4
            b.cp_async(
                sa,
                stage * (128 * 32) + swizzled(row, chunk, 4),
                ga,
                (by * 128 + row) * k + step * 32 + chunk * 8,
                8,
            )
        with b.each(4) as i:
            row, chunk = i * 8 + tx // 16, tx % 16
            half = chunk // 8
            b.cp_async(
                sb,
                stage * (32 * 128) + half * 2048 + swizzled(row, chunk % 8, 8),
                gb,
                (step * 32 + row) * n + bx * 128 + chunk * 8,
                8,
            )
        b.commit()

    with b.each(128) as i:
        b.store(d, i, 0.0)
    for s in range(stages - 1):
        load(s, s)
    with b.loop(steps) as ko:
        if wait:
            b.wait(stages - 2)
        if barrier:
            b.sync()
        with b.when(ko + (stages - 1) < steps):
            load(ko + (stages - 1), (ko + (stages - 1)) % stages)
        with b.when(ko + (stages - 1) >= steps):
            b.commit()
        stage = ko % stages
        with b.loop(2, kind="unroll") as ki:
            with b.each(4) as m:
                b.ldmatrix(
                    a,
                    m * 8,
                    sa,
                    stage * 4096 + swizzled(wm * 64 + m * 16 + lane % 16, ki * 2 + lane // 16, 4),
                    4,
                )
            with b.each(4) as j:
                row, chunk = ki * 16 + lane % 16, j * 2 + lane // 16
                b.ldmatrix(w, j * 8, sb, stage * 4096 + wn * 2048 + swizzled(row, chunk, 8), 4, True)
            with b.each(4) as m, b.each(8) as j:
                b.mma(16, d, (m * 8 + j) * 4, a, m * 8, w, j * 4)
    b.wait(0)
    h = b.regs("h", 128, "float16")
    with b.each(128) as i:
        b.store(h, i, cast(b.load(d, i), as_dtype("float16")))
    with b.each(4) as m, b.each(8) as j, b.each(2) as half:
        row = by * 128 + wm * 64 + m * 16 + half * 8 + lane // 4
        b.copy(
            gc,
            row * n + bx * 128 + wn * 64 + j * 8 + (lane % 4) * 2,
            h,
            (m * 8 + j) * 4 + half * 2,
            2,
        )
    return b


def attention(steps: int, head: int = 64) -> Build:
    """O = softmax(Q K^T) V, base 2, for one block of 128 queries and steps * 64 keys: 4 warps of 32 rows."""
    b = Build(128, (1,))
    q, kk, v = (
        b.tensor(n, s * head, "float16") for n, s in (("Q", 128), ("K", steps * 64), ("V", steps * 64))
    )
    out = b.tensor("O", 128 * head, "float32", "out")
    sq, sk, sv = (
        b.shared("Qs", 128 * head, "float16"),
        b.shared("Ks", 64 * head, "float16"),
        b.shared("Vs", 64 * head, "float16"),
    )
    chunks = head // 8
    assert chunks == 8
    qa, f = b.regs("qa", 2 * 4 * 8, "float16"), b.regs("f", 4 * 8, "float16")
    s, p, o = b.regs("s", 64, "float32"), b.regs("p", 64, "float16"), b.regs("o", 64, "float32")
    m, l, alpha = b.regs("m", 4, "float32"), b.regs("l", 4, "float32"), b.regs("alpha", 4, "float32")
    new, part = b.regs("new", 4, "float32"), b.regs("part", 4, "float32")
    tx = b.tx
    lane, warp = tx % 32, tx // 32

    def fetch(shared: object, tensor: object, rows: int, first: Expr | int) -> None:
        with b.each(rows * chunks // 128) as i:
            row, chunk = i * 16 + tx // 8, tx % 8
            b.cp_async(shared, swizzled(row, chunk, 8), tensor, (first + row) * head + chunk * 8, 8)  # type: ignore[arg-type]
        b.commit()

    fetch(sq, q, 128, 0)
    for memory, count, value in ((o, 64, 0.0), (m, 4, -1e30), (l, 4, 0.0)):
        with b.each(count) as i:
            b.store(memory, i, value)
    b.wait(0)
    b.sync()
    with b.each(2) as mi, b.each(4) as ki:
        b.ldmatrix(
            qa,
            (mi * 4 + ki) * 8,
            sq,
            swizzled(warp * 32 + mi * 16 + lane % 16, ki * 2 + lane // 16, 8),
            4,
        )
    with b.loop(steps) as step:
        b.sync()
        fetch(sk, kk, 64, step * 64)
        fetch(sv, v, 64, step * 64)
        b.wait(1)
        b.sync()
        with b.each(64) as i:
            b.store(s, i, 0.0)
        with b.loop(4, kind="unroll") as ki:
            with b.each(4) as j:
                row = j * 16 + lane % 8 + lane // 16 * 8
                b.ldmatrix(f, j * 8, sk, swizzled(row, ki * 2 + lane // 8 % 2, 8), 4)
            with b.each(2) as mi, b.each(8) as j:
                b.mma(16, s, (mi * 8 + j) * 4, qa, (mi * 4 + ki) * 8, f, j * 4)
        # register ((mi * 8 + j) * 4 + half * 2 + e) is row mi * 2 + half of the thread
        with b.each(4) as r:
            b.store(new, r, b.load(m, r))
        with b.loop(16, kind="unroll") as c, b.each(4) as r:
            at = r // 2 * 32 + c // 2 * 4 + r % 2 * 2 + c % 2
            b.store(new, r, binary("max", b.load(new, r), b.load(s, at)))
        for step_mask in (1, 2):
            with b.each(4) as r:
                b.store(
                    new, r, binary("max", b.load(new, r), intrinsic("shfl_xor", b.load(new, r), step_mask))
                )
        with b.each(4) as r:
            b.store(alpha, r, intrinsic("exp2", b.load(m, r) - b.load(new, r)))
        with b.each(4) as r:
            b.store(m, r, b.load(new, r))
        with b.each(64) as i:
            b.store(s, i, intrinsic("exp2", b.load(s, i) - b.load(m, i // 32 * 2 + i // 2 % 2)))
        with b.each(4) as r:
            b.store(part, r, 0.0)
        with b.loop(16, kind="unroll") as c, b.each(4) as r:
            b.store(part, r, b.load(part, r) + b.load(s, r // 2 * 32 + c // 2 * 4 + r % 2 * 2 + c % 2))
        for step_mask in (1, 2):
            with b.each(4) as r:
                b.store(part, r, b.load(part, r) + intrinsic("shfl_xor", b.load(part, r), step_mask))
        with b.each(4) as r:
            b.store(l, r, b.load(l, r) * b.load(alpha, r) + b.load(part, r))
        with b.each(64) as i:
            b.store(p, i, cast(b.load(s, i), as_dtype("float16")))
        with b.each(64) as i:
            b.store(o, i, b.load(o, i) * b.load(alpha, i // 32 * 2 + i // 2 % 2))
        b.wait(0)
        b.sync()
        with b.loop(4, kind="unroll") as ki:
            with b.each(4) as j:
                b.ldmatrix(f, j * 8, sv, swizzled(ki * 16 + lane % 16, j * 2 + lane // 16, 8), 4, True)
            with b.each(2) as mi, b.each(8) as j:
                b.mma(16, o, (mi * 8 + j) * 4, p, (mi * 8 + ki * 2) * 4, f, j * 4)
    with b.each(64) as i:
        row = warp * 32 + i // 32 * 16 + i // 2 % 2 * 8 + lane // 4
        column = i // 4 % 8 * 8 + lane % 4 * 2 + i % 2
        b.store(out, row * head + column, b.load(o, i) / b.load(l, i // 32 * 2 + i // 2 % 2))
    return b
