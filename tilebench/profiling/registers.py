"""How many registers a thread will need, guessed from the fragments before anything is compiled."""

from __future__ import annotations

from tilebench.layouts import FragmentLayout
from tilebench.passes.stages import Partitioned, Placed
from tilebench.targets import ARCHES

PLAIN = 40
"""Registers for addresses, indices and temporaries of a small kernel (typical of the kernels in
tests/kernels).
"""
OPERANDS = 24
"""Registers that the operands of mma instructions take beside the accumulator, when they come from shared
memory.
"""


def limit(arch: str, threads: int) -> int:
    """Registers that a thread may have at most in a block of so many threads (ptxas keeps to it by
    spilling).
    """
    facts = ARCHES[arch]
    warps = -(-threads // 32)
    fair = facts.registers_per_block // (warps * 32)
    unit = facts.register_unit // 32
    return max(unit, min(facts.registers_per_thread, fair // unit * unit))


def launch_threads(partitioned: Partitioned) -> int:
    """Threads of a block, those of a producer included."""
    return max(r.first_thread + r.threads for r in partitioned.roles)


def held(partitioned: Partitioned, launched: int) -> int:
    """Registers that a computing thread has: those of the launch, or what its role asks for (setmaxnreg)."""
    return max([launched, *(n for name, n in partitioned.registers.items() if name != "producer")])


def estimate(placed: Placed) -> int:
    """Registers of a thread: its share of every fragment, and a constant for the rest; may exceed the limit.

    Fragments whose lifetimes do not meet are counted both, so this is rather too high for long kernels.
    """
    held = sum(
        -(-layout.registers * buffer.dtype.bits // 32)
        for buffer, layout in placed.layouts.items()
        if isinstance(layout, FragmentLayout) and buffer.view_of is None
    )
    chosen = placed.partitioned.selected.instructions.values()
    tensor = any(i.name.startswith("mma.") for i in chosen)
    return held + PLAIN + (OPERANDS if tensor else 0)
