"""Hand-built thread programs of sm_90a: `Build` with mbarriers, bulk copies, products, and a prologue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.emulator.build import Build
from tilebench.ir.expr import Expr, as_expr, binary, const
from tilebench.ir.hopper import (
    BulkCommit,
    BulkLoad,
    BulkStore,
    BulkWait,
    Descriptor,
    FenceProxyAsync,
    MBarrierArrive,
    MBarrierExpect,
    MBarrierInit,
    MBarrierInitFence,
    MBarrierWait,
    SetMaxRegisters,
    StMatrix,
    TensorMap,
    Wgmma,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from tilebench.ir.rewrite import seq
from tilebench.ir.thread import Memory, Program, Role
from tilebench.ir.tile import Stmt


class HopperBuild(Build):
    """As `Build`; what stands before `end_prologue` is run by all threads before the roles."""

    def __init__(self, threads: int = 128, grid: Sequence[int] = (1,)) -> None:
        super().__init__(threads, grid)
        self.maps: list[TensorMap] = []
        self.before: Stmt | None = None

    # -------------------------------------------------------------- memories

    def tile(self, name: str, count: int, dtype: str) -> Memory:
        """Shared memory from a multiple of 1024 bytes."""
        return self.shared(name, count, dtype, at=-(-self.bytes // 1024) * 1024)

    def barriers(self, name: str, count: int = 1) -> Memory:
        """mbarriers."""
        return self.shared(name, count, "uint64")

    def map(
        self,
        memory: Memory,
        sizes: Sequence[int],
        box: Sequence[int],
        swizzle: int = 0,
        pitch: Sequence[int] = (),
    ) -> TensorMap:
        """A tensor map, innermost first; pitch: strides where the tensor is not dense."""
        strides, step = [], 1
        for n in sizes[:-1]:
            step *= n
            strides.append(step)
        strides = list(pitch) or strides
        made = TensorMap(
            f"{memory.name}_map", memory, tuple(const(n) for n in sizes), tuple(const(n) for n in strides),
            tuple(box), swizzle,
        )  # fmt: skip
        self.maps.append(made)
        return made

    # -------------------------------------------------------------- statements

    def first(self, thread: int = 0) -> Any:
        """`if` of one thread."""
        return self.when(binary("eq", self.tx, const(thread)))

    def init(self, barrier: Memory, arrivals: int = 1, index: Any = 0) -> int:
        return self.emit(MBarrierInit, barrier, as_expr(index), arrivals)

    def init_fence(self) -> int:
        return self.emit(MBarrierInitFence)

    def arrive(self, barrier: Memory, index: Any = 0) -> int:
        return self.emit(MBarrierArrive, barrier, as_expr(index))

    def expect(self, barrier: Memory, bytes: int, index: Any = 0) -> int:
        return self.emit(MBarrierExpect, barrier, as_expr(index), bytes)

    def await_(self, barrier: Memory, parity: Any, index: Any = 0) -> int:
        return self.emit(MBarrierWait, barrier, as_expr(index), as_expr(parity))

    def ready(self, *barriers: tuple[Memory, int, int]) -> None:
        """Thread 0 initialises (barriers, how many, arrivals), then all meet."""
        with self.first():
            for memory, count, arrivals in barriers:
                for i in range(count):
                    self.init(memory, arrivals, i)
            self.init_fence()
        self.sync()

    def bulk_load(
        self,
        memory: Memory,
        index: Any,
        source: TensorMap,
        place: Sequence[Any],
        barrier: Memory,
        stage: Any = 0,
    ) -> int:
        place = tuple(as_expr(c) for c in place)
        return self.emit(BulkLoad, memory, as_expr(index), source, place, barrier, as_expr(stage))

    def bulk_store(self, target: TensorMap, place: Sequence[Any], memory: Memory, index: Any = 0) -> int:
        return self.emit(BulkStore, target, tuple(as_expr(c) for c in place), memory, as_expr(index))

    def bulk_commit(self) -> int:
        return self.emit(BulkCommit)

    def bulk_wait(self, pending: int = 0, reading: bool = False) -> int:
        return self.emit(BulkWait, pending, reading)

    def fence_proxy(self) -> int:
        return self.emit(FenceProxyAsync)

    def wgmma(
        self,
        n: int,
        d: Memory,
        a: Memory,
        a_index: Any,
        a_steps: Sequence[int],
        a_descriptor: Descriptor | None,
        b: Memory,
        b_index: Any,
        b_steps: Sequence[int],
        b_descriptor: Descriptor,
        accumulate: Any = False,
        d_index: int = 0,
    ) -> int:
        keep = accumulate if isinstance(accumulate, Expr) else const(bool(accumulate))
        return self.emit(
            Wgmma, n, d, const(d_index), a, as_expr(a_index), tuple(a_steps), a_descriptor, b,
            as_expr(b_index), tuple(b_steps), b_descriptor, keep,
        )  # fmt: skip

    def wgmma_fence(self, *registers: Memory) -> int:
        return self.emit(WgmmaFence, registers)

    def wgmma_commit(self) -> int:
        return self.emit(WgmmaCommit)

    def wgmma_wait(self, pending: int, *registers: Memory) -> int:
        return self.emit(WgmmaWait, pending, registers)

    def stmatrix(self, d: Memory, di: Any, s: Memory, si: Any, matrices: Any, transpose: bool = False) -> int:
        return self.emit(StMatrix, d, as_expr(di), s, as_expr(si), matrices, transpose)

    def set_registers(self, count: int, increase: bool) -> int:
        return self.emit(SetMaxRegisters, count, increase)

    # -------------------------------------------------------------- the program

    def end_prologue(self) -> None:
        self.before = seq(*self.open.pop())
        self.open.append([])

    def end_roles(self, name: str, first: int, threads: int, count: int) -> None:
        """Roles that share what was written so far as their body."""
        body = seq(*self.open.pop())
        self.open.append([])
        for i in range(count):
            self.roles.append(Role(f"{name} {i}", first + i * threads, threads, body))

    def program(self) -> Program:
        return replace(super().program(), arch="sm_90a", prologue=self.before, tensor_maps=tuple(self.maps))
