"""The program as it was compiled: buffers, layouts, ops, accesses, roles, passes, code."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np  # noqa: TC002 # from_json reads the fields' types

from tilebench.report.figures import Provenance, Span


@dataclass(frozen=True)
class BufferInfo:
    """A buffer of the kernel. offset: byte in shared memory; versions: copies made by pipelining."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    scope: str
    bytes: int
    span: Span | None = None
    offset: int | None = None
    versions: int = 1
    first: int = 0
    last: int = 0


@dataclass(frozen=True)
class DigitInfo:
    """One digit of a layout: `size` values, each step moves `stride` along `dim` (-1: replica)."""

    size: int
    dim: int
    stride: int


@dataclass(frozen=True)
class CauseInfo:
    """One link of the chain of reasons of a layout: what was decided, the cell line and the op or buffer that
    decided it.
    """

    text: str
    line: int = 0
    op: str = ""
    buffer: str = ""


@dataclass(frozen=True)
class LayoutInfo:
    """Where each element of a buffer (or of a parallel loop, name 'loop@LINE') is.

    kind fragment: reg and thread digits (layouts/fragment.py), or `table` = flat coordinates
    [threads*registers] in row-major element numbers, -1 for none. kind shared: strides in elements, panel,
    swizzle (bits, base, shift) on bytes, or `table` = element offset of each element. chain: why it is so,
    from the nearest reason to the first cause.
    """

    buffer: str
    kind: Literal["fragment", "shared"]
    shape: tuple[int, ...]
    itemsize_bits: int
    threads: int = 0
    registers: int = 0
    replication: int = 1
    reg: tuple[DigitInfo, ...] = ()
    thread: tuple[DigitInfo, ...] = ()
    strides: tuple[int, ...] = ()
    panel: int = 0
    panel_stride: int = 0
    swizzle: tuple[int, int, int] = (0, 0, 0)
    table: np.ndarray | None = None
    formula: str = ""
    reason: str = ""
    reason_line: int = 0
    atom: tuple[int, ...] = ()
    chain: tuple[CauseInfo, ...] = ()


@dataclass(frozen=True)
class SliceInfo:
    """The box of a tensor that one block touches in an op, by the block and by the iteration of the loop.

    Dimension d has extents[d] elements from base[d] + sum(blocks[d][axis] * block[axis]) + loop[d] *
    iteration on; trips: iterations of the loop (1: none). table: int32 [blocks, rank] starts for iteration
    0 instead, blocks counted with axis 0 fastest, where the start is not affine.
    """

    buffer: str
    mode: Literal["read", "write"]
    extents: tuple[int, ...]
    base: tuple[int, ...]
    blocks: tuple[tuple[int, ...], ...]
    loop: tuple[int, ...]
    trips: int = 1
    table: np.ndarray | None = None


@dataclass(frozen=True)
class OpInfo:
    """An op or parallel loop.

    id: 'op3'; instruction: what carries it out and why; cost per execution by a block. Of a matrix product:
    operands are the names of A, B and C, transposed whether A and B are, atom the M, N, K of one instruction.
    """

    id: str
    name: str
    text: str
    span: Span | None
    instruction: str = ""
    reason: str = ""
    declined: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    flops: float = 0.0
    bytes: float = 0.0
    role: str = "all"
    warp_grid: tuple[int, int] = (1, 1)
    operands: tuple[str, ...] = ()
    transposed: tuple[bool, ...] = ()
    atom: tuple[int, ...] = ()
    slices: tuple[SliceInfo, ...] = ()


@dataclass(frozen=True)
class Access:
    """A shared or global access of an op.

    kind: 'ld.shared', 'st.shared', 'ldmatrix', 'cp.async', 'atom.shared', 'ld.global', 'st.global' ...;
    requests: warp-level instructions of a block; conflict_ways: worst bank conflict (1: none, 0: not known,
    the addresses depend on data); efficiency: useful bytes over bytes of the 32-byte sectors moved (global).
    provenance: predicted from the addresses in the thread program, or simulated: counted by the emulator.
    addresses: of a predicted access, the byte that each lane of the worst warp asks for (-1: none), in the
    block's shared memory; empty for bulk copies and warpgroup products, which are no lane's accesses.
    """

    op: str
    buffer: str
    kind: str
    width_bytes: int
    conflict_ways: int = 1
    requests: int = 0
    efficiency: float = 1.0
    line: int = 0
    addresses: tuple[int, ...] = ()
    provenance: Provenance = "predicted"
    warp: int = 0


@dataclass(frozen=True)
class RoleInfo:
    """A group of warps and what it does. note: what else is to say, as its registers."""

    name: str
    first_thread: int
    threads: int
    ops: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class PassInfo:
    """A stage of the compiler: its text after it, microseconds, whether it changed anything.

    lines[i]: the cell line that line i+1 of the text came from, 0 for none.
    """

    name: str
    text: str
    microseconds: float
    changed: bool
    note: str = ""
    lines: tuple[int, ...] = ()


@dataclass(frozen=True)
class CodeText:
    """One level of code. lines[i]: the cell line that line i+1 came from, 0 for none.

    live[i]: 32-bit registers that are live there (of PTX: virtual ones, before allocation), empty when not
    known; mix: how often each opcode is in the whole text.
    """

    level: Literal["cell", "tile", "thread", "cuda", "llvm", "ptx", "sass", "asm"]
    text: str
    lines: tuple[int, ...] = ()
    live: tuple[int, ...] = ()
    mix: dict[str, int] = field(default_factory=dict[str, int])
