"""Thread statements of sm_90a: mbarriers, bulk tensor copies, warpgroup products, and what orders them.

Three things run beside the threads here: bulk tensor copies (they report to an mbarrier, or to a group of the
thread), warpgroup products (groups of the warpgroup), and the *async proxy* through which both see shared
memory: what threads wrote there needs `FenceProxyAsync` and then a barrier before either may read it.
Sources: PTX ISA, "mbarrier", "cp.async.bulk.tensor", "wgmma", "Async proxy", "setmaxnreg", "stmatrix".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tilebench.ir.expr import Expr
from tilebench.ir.thread import Memory
from tilebench.ir.tile import Stmt

# ------------------------------------------------------------------ mbarriers


@dataclass(frozen=True, eq=False)
class MBarrierInit(Stmt):
    """mbarrier.init: barrier[index] (a shared Memory of uint64) completes a phase after `arrivals` arrivals
    and all bytes that it was told to expect. One thread does it, before `MBarrierInitFence` and a barrier.
    """

    barrier: Memory
    index: Expr
    arrivals: int


@dataclass(frozen=True, eq=False)
class MBarrierInitFence(Stmt):
    """fence.mbarrier_init: the initialised barriers are visible to the async proxy."""


@dataclass(frozen=True, eq=False)
class MBarrierArrive(Stmt):
    """One arrival of this thread at barrier[index], releasing what it did before."""

    barrier: Memory
    index: Expr


@dataclass(frozen=True, eq=False)
class MBarrierExpect(Stmt):
    """One arrival, and `bytes` more to come in this phase (mbarrier.arrive.expect_tx)."""

    barrier: Memory
    index: Expr
    bytes: int


@dataclass(frozen=True, eq=False)
class MBarrierWait(Stmt):
    """Wait until the phase of parity `parity` (int32, 0 or 1) of barrier[index] has completed.

    A fresh barrier is in phase 0: a wait for parity 1 passes at once.
    """

    barrier: Memory
    index: Expr
    parity: Expr


# ------------------------------------------------------------------ bulk tensor copies


@dataclass(frozen=True, eq=False)
class TensorMap:
    """A tensor as bulk copies see it; the host makes it at each launch and it is passed by value.

    All tuples innermost dimension first. sizes: extents (Exprs of the kernel's symbols); strides: of
    dimensions 1 and up, in elements (dimension 0 has stride 1); box: elements of one copy; swizzle: span in
    bytes, 0 for none (then box[0] <= 256 elements; else <= the span). Elements outside read as zero, and are
    not written. Source: CUDA driver API, cuTensorMapEncodeTiled.
    """

    name: str
    memory: Memory
    sizes: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    box: tuple[int, ...]
    swizzle: int = 0

    @property
    def bytes(self) -> int:
        """Bytes that one copy brings, those outside of the tensor included."""
        total = self.memory.dtype.bytes
        for n in self.box:
            total *= n
        return total


@dataclass(frozen=True, eq=False)
class BulkLoad(Stmt):
    """One thread starts a copy of a box of the tensor to shared memory; its bytes arrive at barrier[index].

    destination_index: element at which the box starts, before the swizzle, which acts on absolute shared
    addresses (the start is a multiple of 128 bytes and, with a swizzle, of its period). The box lies dense,
    innermost dimension fastest. coordinates: int32, innermost first; may be negative or outside.
    """

    destination: Memory
    destination_index: Expr
    source: TensorMap
    coordinates: tuple[Expr, ...]
    barrier: Memory
    barrier_index: Expr


@dataclass(frozen=True, eq=False)
class BulkStore(Stmt):
    """One thread starts a copy of a dense (swizzled) box in shared memory to the tensor, clipped to it.

    It joins the thread's open bulk group. combine: 'add' adds each element to the tensor's, atomically.
    """

    destination: TensorMap
    coordinates: tuple[Expr, ...]
    source: Memory
    source_index: Expr
    combine: Literal["", "add"] = ""


@dataclass(frozen=True, eq=False)
class BulkCommit(Stmt):
    """Close the thread's bulk group (cp.async.bulk.commit_group)."""


@dataclass(frozen=True, eq=False)
class BulkWait(Stmt):
    """Wait until at most `pending` bulk groups of this thread are under way.

    reading: only until their sources have been read (shared memory may be used again).
    """

    pending: int
    reading: bool = False


@dataclass(frozen=True, eq=False)
class FenceProxyAsync(Stmt):
    """fence.proxy.async.shared::cta: what this thread did in shared memory comes before what the async proxy
    does there (bulk copies and products of other threads after the next barrier): it sees what the thread
    wrote, and does not overwrite what a load of the thread is still reading.
    """


# ------------------------------------------------------------------ warpgroup products


@dataclass(frozen=True)
class Descriptor:
    """How a wgmma operand lies in shared memory. leading, stride: byte offsets of the matrix descriptor;
    swizzle: span in bytes (0, 32, 64, 128); transposed: M or N is the contiguous dimension instead of K
    (16-bit types only). Source: PTX ISA, "Matrix descriptor" and "Strides" of wgmma.
    """

    leading: int
    stride: int
    swizzle: int
    transposed: bool = False


def product_columns(n: int, sums: str) -> bool:
    """Whether there is a product of N columns into accumulators of this dtype. Source: PTX ISA,
    wgmma.mma_async, table of shapes: integers have no odd multiples of 8 but 8 and 24.
    """
    return 8 <= n <= 256 and n % 8 == 0 and (sums != "int32" or n % 16 == 0 or n in (8, 24))


@dataclass(frozen=True, eq=False)
class Wgmma(Stmt):
    """One warpgroup's d[64, n] (+)= a[64, K] @ b[K, n], asynchronous: wgmma.mma_async for each k step.

    d: registers, n / 2 consecutive elements from d_index, laid out as layouts.atoms.wgmma_c(n). a: registers
    (a_descriptor None; consecutive elements as wgmma_a) or shared memory. a_steps, b_steps: for each k step
    (16 elements of 16 bits, 32 of 8, 8 of 32), the element offset from a_index, b_index; indices into shared
    memory are before the swizzle. accumulate: false (uniform in the warpgroup) makes the first step overwrite
    d. Registers of d, and of a, belong to the product from here to the `WgmmaWait` that ends its group.
    """

    n: int
    d: Memory
    d_index: Expr
    a: Memory
    a_index: Expr
    a_steps: tuple[int, ...]
    a_descriptor: Descriptor | None
    b: Memory
    b_index: Expr
    b_steps: tuple[int, ...]
    b_descriptor: Descriptor
    accumulate: Expr


@dataclass(frozen=True, eq=False)
class WgmmaFence(Stmt):
    """wgmma.fence: registers that threads wrote may be used by products that follow.

    registers: arrays that are written before and used after; the text keeps them on their side of the fence.
    """

    registers: tuple[Memory, ...] = ()


@dataclass(frozen=True, eq=False)
class WgmmaCommit(Stmt):
    """Close the warpgroup's group of products."""


@dataclass(frozen=True, eq=False)
class WgmmaWait(Stmt):
    """Wait until at most `pending` groups of products of this warpgroup are under way.

    registers: arrays of products that are finished by it; the text keeps later uses behind it.
    """

    pending: int
    registers: tuple[Memory, ...] = ()


@dataclass(frozen=True, eq=False)
class StMatrix(Stmt):
    """stmatrix.sync.aligned.m8n8.x{matrices}[.trans].shared.b16: the inverse of LdMatrix.

    Lane 8*m + r gives the address of row r of matrix m (destination_index, 16-byte aligned); register m of
    each lane is source[source_index + m * (4 / itemsize) ...].
    """

    destination: Memory
    destination_index: Expr
    source: Memory
    source_index: Expr
    matrices: Literal[1, 2, 4]
    transpose: bool = False


# ------------------------------------------------------------------ roles


@dataclass(frozen=True, eq=False)
class SetMaxRegisters(Stmt):
    """setmaxnreg: every warp of a warpgroup gives registers up, or (increase) waits for more.

    count: a multiple of 8 from 24 to 256.
    """

    count: int
    increase: bool


THREAD_STATEMENTS = (
    MBarrierInit, MBarrierInitFence, MBarrierArrive, MBarrierExpect, MBarrierWait, BulkLoad, BulkStore,
    BulkCommit, BulkWait, FenceProxyAsync, Wgmma, WgmmaFence, WgmmaCommit, WgmmaWait, StMatrix,
    SetMaxRegisters,
)  # fmt: skip
"""All of the above: for the verifier and the printers."""
