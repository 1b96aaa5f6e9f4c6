"""How many blocks with a producer shall share a multiprocessor.

One consumer warpgroup alone leaves it idle whenever it waits: for a tile, for a product, for its own chain of
exponentials. Two blocks fill each other's gaps, as two warpgroups of one block do, without having to agree on
a tile. Registers decide: every block starts with its even share, and its producer gives the consumers what it
does not need (passes/roles.py).
"""

from __future__ import annotations

from dataclasses import replace

from tilebench.ir.rewrite import walk
from tilebench.ir.tile import Buffer, Kernel
from tilebench.ops.gemm import Gemm
from tilebench.passes.specialise import WARPGROUP
from tilebench.passes.stages import Selected
from tilebench.passes.staging import PANEL, RESERVE, kept_bytes, ring_bytes

BLOCKS = "TB_BLOCKS_PER_SM"
"""Pass config: blocks that share a multiprocessor; True: as many as the predicted registers and shared memory
allow; left out, what T.annotate_min_blocks_per_sm says, else one."""
FACT = "min_blocks"
"""The kernel's attribute, of T.annotate_min_blocks_per_sm too."""
MOST = 4
PRODUCER_REGISTERS = 24
"""The least that setmaxnreg can ask for: one thread that starts copies needs no more."""
ADDRESSES = 40
"""Registers of a consumer beside its fragments: addresses, slots, phases, what is on its way. ptxas needs 30
to 45 for the kernels of tests/kernels."""
ROWS = 64
"""Of a result that leaves through two panels: those of one warpgroup."""


def wanted_blocks(selected: Selected) -> int:
    """What the kernel or its configs ask for, as far as its accumulators leave room; 1 when nobody asks."""
    asked = selected.kernel.configs.get(BLOCKS)
    if asked is None:
        return blocks_per_sm(selected.kernel)
    if asked is True:
        return predicted_blocks(selected)
    return next((n for n in range(int(asked), 1, -1) if _has_room(selected.kernel, n)), 1)


def with_blocks(kernel: Kernel, blocks: int) -> Kernel:
    """The kernel, so many of its blocks on a multiprocessor; itself when it says so already."""
    if blocks_per_sm(kernel) == blocks:
        return kernel
    return replace(kernel, attributes={**kernel.attributes, FACT: blocks})


def blocks_per_sm(kernel: Kernel) -> int:
    """How many of its blocks shall share a multiprocessor."""
    return max(1, int(kernel.attributes.get(FACT) or 1))


def consumer_registers(threads: int, blocks: int) -> int:
    """Registers of each consumer thread when the producer has given up its own; threads: the consumers'."""
    consumers = threads // WARPGROUP
    each = 65536 // ((threads + WARPGROUP) * blocks) // 8 * 8
    spare = each * (consumers + 1) - PRODUCER_REGISTERS
    return min(240, spare // consumers // 8 * 8)


def predicted_registers(selected: Selected) -> int:
    """Registers of a consumer thread, an estimate from above: all fragments at once, vectors replicated."""
    threads = selected.kernel.thread_count
    return ADDRESSES + sum(_registers(b, threads) for b in selected.kernel.buffers if b.scope == "fragment")


def _registers(buffer: Buffer, threads: int) -> int:
    count = 1
    for n in buffer.static_shape:
        count *= n
    vector = sum(n > 1 for n in buffer.static_shape) <= 1
    held = count / 4 if vector else count / threads  # a quarter of a row's columns lie in each thread
    return max(1, round(held * buffer.dtype.bytes / 4))


def predicted_blocks(selected: Selected) -> int:
    """The most blocks whose registers and shared memory fit; 1 for kernels with more than one consumer."""
    facts, threads = selected.typed.target.facts, selected.kernel.thread_count
    if facts is None or threads != WARPGROUP:
        return 1
    need = predicted_registers(selected)
    shared = ring_bytes(selected) + kept_bytes(selected) + 2 * PANEL * ROWS + RESERVE
    for blocks in range(MOST, 1, -1):
        fits = blocks * (shared + facts.shared_reserved) <= facts.shared_per_sm
        if fits and need <= consumer_registers(threads, blocks) and _has_room(selected.kernel, blocks):
            return blocks
    return 1


def _has_room(kernel: Kernel, blocks: int) -> bool:
    """Whether the accumulator of every product fits into a thread's even share, which ptxas insists on."""
    threads = kernel.thread_count
    even = 65536 // ((threads + WARPGROUP) * blocks) // 8 * 8
    results = (n.c.buffer for n in walk(kernel.body) if isinstance(n, Gemm))
    return all(_registers(b, threads) + ADDRESSES // 2 <= even for b in results)


__all__ = [
    "BLOCKS", "blocks_per_sm", "consumer_registers", "predicted_blocks", "predicted_registers",
    "wanted_blocks", "with_blocks",
]  # fmt: skip
