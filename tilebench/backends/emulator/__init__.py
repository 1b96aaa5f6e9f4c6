"""The thread emulator: runs the thread IR of a kernel in NumPy, and says what a GPU would keep to itself.

How it works, on one page
-------------------------
*One generator per role, all its threads at once.* `compile.py` and `expressions.py` turn a role's body into
the source of one Python generator function, compiled once. A value that differs between threads is an array
whose last axis is the threads; one that is the same in all of them (block index, loop counters, sizes) stays
a Python number, and control flow on it stays Python's. A condition that differs becomes a mask: both sides of
an `if` run, each for its threads; a loop runs until no thread is left in it. What depends only on the thread
is computed once for all blocks, what depends on the block once for a block, and so on inwards.

*Loops that run as one.* `For(independent=True)` adds a leading axis: 64 registers of 128 threads are one
NumPy operation on [64, 128]. An `mma` in such loops becomes one matrix product a warp (`tensorcore.py`); sums
are in float32, as the tensor core's products are exact there.

*Memory* (`memory.py`). Shared memory is one byte array a block, seen through typed views; global tensors are
the arrays of the call as flat memory (element 0 is the tensor's first element). Every access has bounds.
Register arrays are [count, threads].

*Time* (`barriers.py`, `turns.py`, `mbarriers.py`, `schedule.py`). A role yields at a barrier or a phase
that is not open yet; roles and blocks go forward, in reverse or shuffled by a seed. The prologue is a role
of all threads that runs first. `cp.async` (`async_copies.py`) reads at once and writes when its thread
waits for it.

*Hopper* (`async_statements.py` writes the calls). Bulk copies (`bulk.py`) and products (`warpgroup.py`) take
effect at once and are under way, to the checks, until who uses what they made has waited for them. Operands
of products are found through their descriptors alone, byte by byte as the PTX ISA says.

*Checks* (`race.py`) do not depend on the order of running. Each granule of shared memory (the greatest common
width of the accesses to it, 1 to 16 bytes) remembers who wrote it last, who read it, and in which segment of
time between barriers; a barrier says which segments of other warps are known to be over. So a race is found
even when this run gave the right values:

    thread 3 writes s[7] at line 4        segment 1 of warp 0
    barrier of warps 0 and 1              warps 0 and 1: everything up to segment 1 is over
    thread 40 reads s[7] at line 6        segment 1 of warp 0 is over: in order

Without the barrier it would be a race, reported with both lines and both threads. Bulk copies and products
are columns of the same clock (`order.py`): an mbarrier carries the order of its arrivals and of the bytes
that came in the phase, a wait for a group that of its copies or products. So these are found in any order of
running: a stage read before the wait for it, or given back before it was read; what threads wrote and the
async proxy reads without `fence.proxy.async`; registers of products that are under way, or not fenced
(`flights.py`).

Global memory is checked between blocks in the same way (blocks are never in order). Reads of shared memory
and registers that nobody wrote, outputs with elements that nobody wrote, barriers that not all threads reach,
part-warp mma/ldmatrix/shuffles, misaligned vectors, divisions by zero and failed assertions are findings too;
so are mbarriers used against their protocol, and registers that `setmaxnreg` cannot have.
*Counts* (`counts.py`): bank conflicts and sectors from real addresses, instructions by kind.

Not modelled: time in cycles, caches, the order of float atomics on a real device, clusters, and the accuracy
of sums within a product (float32 here). The two sides of a branch
run one after the other, so warps of one role cannot meet at a named barrier from different sides (roles can).
"""

from __future__ import annotations

from tilebench.backends.emulator.counts import AccessCount, AccessCounts
from tilebench.backends.emulator.executable import EmulatedKernel, build, error_of
from tilebench.backends.emulator.schedule import EmulationResult, run_program

__all__ = [
    "AccessCount",
    "AccessCounts",
    "EmulatedKernel",
    "EmulationResult",
    "build",
    "error_of",
    "run_program",
]
