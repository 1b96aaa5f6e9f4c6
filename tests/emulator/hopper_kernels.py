"""Warp-specialised kernels as hand-built thread programs: a GEMM and an attention forward of one block."""

from __future__ import annotations

from tests.emulator.build import intrinsic
from tests.emulator.hopper_build import HopperBuild
from tilebench.ir.dtype import as_dtype
from tilebench.ir.expr import binary, cast, const
from tilebench.ir.hopper import Descriptor

ROWS = Descriptor(16, 1024, 128)  # K contiguous, rows of 128 bytes
STEPS = (0, 16, 32, 48)


def gemm(k: int, stages: int = 3, deferred: bool = True) -> HopperBuild:
    """C[128, 256] = A[128, k] @ B[256, k].T in bfloat16: a producer and two consumers of 64 rows.

    deferred: the wait leaves one group under way, and the stage before is given back.
    """
    h = HopperBuild(384)
    ga, gb = h.tensor("A", 128 * k, "bfloat16"), h.tensor("B", 256 * k, "bfloat16")
    gc = h.tensor("C", 128 * 256, "float32", "out")
    ma, mb = h.map(ga, (k, 128), (64, 128), 128), h.map(gb, (k, 256), (64, 256), 128)
    sa, sb = h.tile("As", stages * 128 * 64, "bfloat16"), h.tile("Bs", stages * 256 * 64, "bfloat16")
    full, empty = h.barriers("full", stages), h.barriers("empty", stages)
    acc = h.regs("acc", 128, "float32")
    steps = k // 64
    h.ready((full, stages, 1), (empty, stages, 2))
    h.end_prologue()
    h.set_registers(24, increase=False)
    with h.first(), h.loop(steps) as i:
        slot = i % stages
        h.await_(empty, 1 - i // stages % 2, slot)
        h.expect(full, ma.bytes + mb.bytes, slot)
        h.bulk_load(sa, slot * (128 * 64), ma, (i * 64, 0), full, slot)
        h.bulk_load(sb, slot * (256 * 64), mb, (i * 64, 0), full, slot)
    h.end_role("producer", 0, 128)
    h.set_registers(240, increase=True)
    group, tid = h.tx // 128 - 1, h.tx % 128
    leader = binary("eq", tid, const(0))
    with h.loop(steps) as i:
        slot = i % stages
        h.await_(full, i // stages % 2, slot)
        h.wgmma_fence()
        h.wgmma(
            256, acc, sa, slot * (128 * 64) + group * (64 * 64), STEPS, ROWS,
            sb, slot * (256 * 64), STEPS, ROWS, i > 0,
        )  # fmt: skip
        h.wgmma_commit()
        if deferred:
            h.wgmma_wait(1)
            with h.when(binary("and", leader, i > 0)):
                h.arrive(empty, (i + (stages - 1)) % stages)
        else:
            h.wgmma_wait(0)
            with h.when(leader):
                h.arrive(empty, slot)
    h.wgmma_wait(0, acc)
    row = group * 64 + tid // 32 * 16 + tid % 32 // 4
    with h.each(32) as j, h.each(2) as half:
        h.copy(gc, (row + half * 8) * 256 + j * 8 + tid % 4 * 2, acc, j * 4 + half * 2, 2)
    h.end_roles("consumer", 128, 128, 2)
    return h


def attention(steps: int) -> HopperBuild:
    """O = softmax(Q K^T) V, base 2, for 128 queries, steps * 128 keys, head dimension 128, in float16.

    One producer, two consumers of 64 rows; P stays in registers as the A operand of P V; O leaves through
    stmatrix and a bulk store. V lies as [keys][128]: two panels of 64 columns, N contiguous.
    """
    h = HopperBuild(384)
    keys, f16 = steps * 128, as_dtype("float16")
    q, k, v = (h.tensor(n, s * 128, "float16") for n, s in (("Q", 128), ("K", keys), ("V", keys)))
    out = h.tensor("O", 128 * 128, "float16", "out")
    mq, mk, mv = (h.map(m, (128, n), (64, 128), 128) for m, n in ((q, 128), (k, keys), (v, keys)))
    mo = h.map(out, (128, 128), (64, 64), 128)
    tile, panel = 128 * 128, 128 * 64
    sq, sk, sv = (
        h.tile("Qs", tile, "float16"),
        h.tile("Ks", 2 * tile, "float16"),
        h.tile("Vs", 2 * tile, "float16"),
    )
    full_q, full_k, full_v = h.barriers("full_q"), h.barriers("full_k", 2), h.barriers("full_v", 2)
    empty_k, empty_v = h.barriers("empty_k", 2), h.barriers("empty_v", 2)
    s, p, o = h.regs("s", 64, "float32"), h.regs("p", 64, "float16"), h.regs("o", 64, "float32")
    m, new, total = h.regs("m", 2, "float32"), h.regs("new", 2, "float32"), h.regs("l", 2, "float32")
    half_o = h.regs("half_o", 64, "float16")
    h.ready((full_q, 1, 1), (full_k, 2, 1), (full_v, 2, 1), (empty_k, 2, 2), (empty_v, 2, 2))
    h.end_prologue()
    h.set_registers(24, increase=False)
    with h.first():
        h.expect(full_q, 2 * mq.bytes)
        for i in range(2):
            h.bulk_load(sq, i * panel, mq, (i * 64, 0), full_q)
        with h.loop(steps) as j:
            slot, phase = j % 2, j // 2 % 2
            for tensor, memory, full, empty in ((mk, sk, full_k, empty_k), (mv, sv, full_v, empty_v)):
                h.await_(empty, 1 - phase, slot)
                h.expect(full, 2 * tensor.bytes, slot)
                for i in range(2):
                    h.bulk_load(memory, slot * tile + i * panel, tensor, (i * 64, j * 128), full, slot)
    h.end_role("producer", 0, 128)
    h.set_registers(240, increase=True)
    group, tid = h.tx // 128 - 1, h.tx % 128
    leader = binary("eq", tid, const(0))
    with h.each(2) as i:
        h.store(m, i, -1e30)
        h.store(total, i, 0.0)
    with h.each(64) as i:
        h.store(o, i, 0.0)
    q_steps = tuple(i * panel + s_ for i in range(2) for s_ in STEPS)
    h.await_(full_q, 0)
    with h.loop(steps) as j:
        slot, phase = j % 2, j // 2 % 2
        h.await_(full_k, phase, slot)
        h.wgmma_fence(o)
        h.wgmma(128, s, sq, group * (64 * 64), q_steps, ROWS, sk, slot * tile, q_steps, ROWS)
        h.wgmma_commit()
        h.wgmma_wait(0, s)
        with h.when(leader):
            h.arrive(empty_k, slot)
        for r in range(2):  # the two rows of a thread
            h.store(new, r, h.load(m, r))
            with h.loop(32) as i:
                at = i // 2 * 4 + r * 2 + i % 2
                h.store(new, r, binary("max", h.load(new, r), h.load(s, at)))
            for lane in (1, 2):
                h.store(new, r, binary("max", h.load(new, r), intrinsic("shfl_xor", h.load(new, r), lane)))
        with h.each(16) as c, h.each(4) as i:
            h.store(s, c * 4 + i, intrinsic("exp2", h.load(s, c * 4 + i) - h.load(new, i // 2)))
        for r in range(2):
            h.store(total, r, h.load(total, r) * intrinsic("exp2", h.load(m, r) - h.load(new, r)))
            with h.loop(32) as i:
                h.store(total, r, h.load(total, r) + h.load(s, i // 2 * 4 + r * 2 + i % 2))
        with h.each(64) as i:
            h.store(p, i, cast(h.load(s, i), f16))
        with h.each(16) as c, h.each(4) as i:
            scale = intrinsic("exp2", h.load(m, i // 2) - h.load(new, i // 2))
            h.store(o, c * 4 + i, h.load(o, c * 4 + i) * scale)
        with h.each(2) as i:
            h.store(m, i, h.load(new, i))
        h.await_(full_v, phase, slot)
        h.wgmma_fence(o, p)
        h.wgmma(
            128, o, p, 0, tuple(range(0, 64, 8)), None, sv, slot * tile, tuple(range(0, 8 * 1024, 1024)),
            Descriptor(16384, 1024, 128, True), True,
        )  # fmt: skip
        h.wgmma_commit()
        h.wgmma_wait(0, o, p)
        with h.when(leader):
            h.arrive(empty_v, slot)
    for r in range(2):
        for lane in (1, 2):
            h.store(total, r, h.load(total, r) + intrinsic("shfl_xor", h.load(total, r), lane))
    with h.each(16) as c, h.each(4) as i:
        h.store(half_o, c * 4 + i, cast(h.load(o, c * 4 + i) / h.load(total, i // 2), f16))
    lane = tid % 32
    row = tid // 32 * 16 + lane % 16
    # the staging tile is Q's: panel i of this warpgroup's 64 rows
    h.sync(1, 256)
    with h.loop(2, kind="unroll") as i, h.loop(4, kind="unroll") as c:
        chunk = (c * 2 + lane // 16) ^ (row % 8)
        h.stmatrix(sq, (group * 2 + i) * 4096 + row * 64 + chunk * 8, half_o, i * 32 + c * 8, 4)
    h.fence_proxy()
    h.sync(2, 256)
    with h.when(leader):
        for i in range(2):
            h.bulk_store(mo, (i * 64, group * 64), sq, (group * 2 + i) * 4096)
        h.bulk_commit()
        h.bulk_wait()
    h.end_roles("consumer", 128, 128, 2)
    return h
