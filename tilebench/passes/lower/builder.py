"""The builder that lowerings write thread code with: memories, indices, bodies, and the names in force.

It implements `ops.base.ThreadBuilder`. Tile-level expressions go in, thread-level ones come out (`expr`):
block and loop variables keep their identity, buffers become flat memories, layouts and versions go into the
index.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tilebench.errors import LayoutError, Loc, SyncError
from tilebench.ir.dtype import DType, bool_, int32, int64
from tilebench.ir.expr import (
    COMPARISONS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Unary,
    Var,
    as_expr,
    binary,
    call,
    cast,
    const,
    int_value,
    is_const,
    select,
    to_bool,
)  # fmt: skip
from tilebench.ir.hopper import BulkWait, FenceProxyAsync, TensorMap
from tilebench.ir.rewrite import rebuild, seq, substitute, variables, walk
from tilebench.ir.simplify import Interval, Linear, bounds, from_linear, linear, prove, simplify
from tilebench.ir.thread import Barrier, Memory, global_memory, register_array, shared_memory
from tilebench.ir.tile import Bind, Buffer, Channel, For, If, Region, Seq, Stmt, Store
from tilebench.layouts import FragmentLayout, SharedLayout, row_major
from tilebench.layouts.digits import digit_terms
from tilebench.passes.indices import MANY, divisor, flat_index
from tilebench.passes.place_rules import find_by_place, storage_of
from tilebench.passes.stages import Reason, Synchronised
from tilebench.passes.teams import teams_of
from tilebench.passes.uniform import per_thread_statements

if TYPE_CHECKING:
    from tilebench.ops.base import Instruction, Op
    from tilebench.passes.lower.handover import Ring
    from tilebench.passes.lower.nest import Nest
    from tilebench.passes.lower.timers import Timers

INT32_MAX = 2**31 - 1
CONSUMERS = 1
"""The named barrier of all threads but the producer's."""


UNIFORM = "TB_UNIFORM_WARPGROUP"
"""Pass config: a warp's lanes ask lane 0 for their warpgroup, which ptxas then knows to be the same for all:
the addresses in the descriptors of products that follow from it stay in uniform registers. Measured on an
H200 it pays in some loops and costs in others (tests/perf/NOTES.md), so it is off."""


class Builder:
    """Writes the body of one role. Mutable while lowering; `program` parts are read off at the end.

    beside: the builder of another role of the same program, whose memories and tensor maps it shares.
    """

    def __init__(self, stage: Synchronised, beside: Builder | None = None) -> None:
        allocated = stage.allocated
        placed = allocated.scheduled.placed
        self.stage = stage
        self.kernel = stage.kernel
        self.target = placed.partitioned.selected.typed.target
        self.threads = self.kernel.thread_count
        self.thread: Expr = self.kernel.thread
        self.teams = teams_of(self.kernel)
        self.every: Var = self.kernel.thread
        """The thread of the program; `thread` is that of a team where consumers take turns."""
        if self.teams > 1:
            self.every = Var("tx", dtype=int32) if beside is None else beside.every
        self.team: Expr = const(0)
        self.layouts: dict[Buffer, FragmentLayout | SharedLayout] = dict(placed.layouts)
        self.placed = placed
        self.conversions: list[Reason] = []
        self.registers_used: list[Memory] = []
        self.shared_used: list[Memory] = []
        self.globals: dict[Buffer, Memory] = {} if beside is None else beside.globals
        self.rings: dict[Channel, Ring] = {}
        self.tensor_maps: dict[object, TensorMap] = {} if beside is None else beside.tensor_maps
        self.specialised = placed.partitioned.specialised
        self.fences = fences_needed(stage)
        """Whether threads write shared memory that products or bulk stores read."""
        chosen = placed.partitioned.selected.instructions.values()
        self.stores = any(i.name in ("bulk.store", "bulk.reduce") for i in chosen)
        self.ranges: dict[Var, Interval] = {}
        self.divisors: dict[Var, int] = {}
        self.names: dict[Var, Expr] = {}
        """What tile variables stand for in the thread program (those of the nest being lowered)."""
        self.versions: dict[Buffer, Expr] = {}
        self.assumed: list[Expr] = []
        self.nest: Nest | None = None
        self.loc: Loc | None = None
        self.per_thread = per_thread_statements(dataclasses.replace(self.kernel, body=stage.body))
        self.diverged = False
        """Whether the statement being lowered belongs to each thread on its own."""
        self.unroll_wanted: set[Var] = set()
        self.scratch_needed = 0
        self._bodies: list[list[Stmt]] = [[]]
        self._memories: dict[Buffer, Memory] = {}
        self._scratches: dict[tuple[str, int, int], Memory] = {}
        self._hoisted: dict[int, dict[Any, Var]] = {}
        self._scratch_buffers: dict[Buffer, Memory] = {}
        self._coordinates: dict[FragmentLayout, tuple[Expr, ...]] = {}
        self.root_names: set[Var] = {self.kernel.thread, *self.kernel.blocks, *self.kernel.symbols}
        """Names that are known at the top of the program."""
        self.root_names |= {p.value for p in self.kernel.params if isinstance(p.value, Var)}
        self.asynchronous = False
        self.timers: Timers | None = None
        self.outside: Expr | None = None
        """What the copy being lowered reads outside of its global source, when it says so."""
        self.ranges[self.kernel.thread] = (0, self.threads - 1)
        for var, extent in zip(self.kernel.blocks, self.kernel.grid, strict=True):
            n = int_value(extent)
            self.ranges[var] = (0, (n if n is not None else INT32_MAX) - 1)
        for symbol in self.kernel.symbols:
            self.ranges[symbol] = (0, INT32_MAX)
        if beside is not None:
            self.ranges[self.kernel.thread] = (self.threads, self.threads + 127)
            self.shared_used, self._memories = beside.shared_used, dict(beside.shared_memories())
            self.rings = beside.rings
        for param in self.kernel.params:
            if isinstance(param.value, Buffer) and param.value not in self.globals:
                self.globals[param.value] = global_memory(param.value, _spanned(param.value))

    # -- bodies ----------------------------------------------------------------------------------------------

    @property
    def body(self) -> list[Stmt]:
        """The innermost open body."""
        return self._bodies[-1]

    @property
    def root(self) -> list[Stmt]:
        """The outermost body."""
        return self._bodies[0]

    def emit(self, stmt: Stmt) -> None:
        """Append a statement, with the place in force when it has none."""
        if stmt.loc is None and self.loc is not None:
            stmt = dataclasses.replace(stmt, loc=self.loc)
        self.body.append(stmt)

    @contextmanager
    def inside(self) -> Generator[list[Stmt]]:
        """A fresh body; the caller wraps it up."""
        self._bodies.append([])
        try:
            yield self._bodies[-1]
        finally:
            self._hoisted.pop(id(self._bodies[-1]), None)
            self._bodies.pop()

    def finish(self) -> Stmt:
        """Everything emitted."""
        return Seq(tuple(self._bodies[0]))

    @contextmanager
    def loop(
        self, extent: int | Expr, *, unroll: bool = True, independent: bool = False, name: str = "r"
    ) -> Generator[Expr]:
        """`with b.loop(n) as r:` a For over 0..n-1; extent 1 gives the constant 0 and no loop."""
        if int_value(extent) == 1:
            yield const(0)
            return
        var = self.fresh(name)
        limit = as_expr(extent)
        top = bounds(limit, self.ranges)
        self.ranges[var] = (0, (top[1] if top else INT32_MAX) - 1)
        with self.inside() as body:
            yield var
        if not body:
            return
        kind = "unroll" if unroll else "serial"
        self.emit(For(var, const(0), limit, seq(*body), kind=kind, independent=independent))

    @contextmanager
    def when(self, condition: Expr | None) -> Generator[None]:
        """`with b.when(c):` an If; None or a true constant gives no If."""
        if condition is not None:
            condition = simplify(to_bool(condition), self.ranges)
        if condition is None or is_const(condition, True):
            yield
            return
        with self.inside() as body:
            yield
        if body and not is_const(condition, False):
            self.emit(If(condition, seq(*body)))

    def barrier(self, because: str, reuse: Memory | None = None) -> None:
        """A barrier of the threads of this role; reuse: scratch whose last readers it waits for, if that is
        all (lower/reused.py). Raises SyncError TB414 where some may not come by.
        """
        self.check_met(because)
        self.meet(because, reuse=reuse)

    def check_met(self, because: str) -> None:
        """Raises SyncError TB414 where some threads may not come by."""
        if self.diverged:
            raise SyncError(
                "TB414",
                "threads would have to exchange values inside of control flow that differs between threads",
                at=self.loc,
                why=f"a barrier is needed here ({because}), and all threads of the block must reach it",
                fix="compute the value before the `if`, into a T.alloc_var or a shared buffer",
            )

    def meet(self, because: str, group: bool = False, reuse: Memory | None = None) -> None:
        """A barrier of the threads that the program has, or of each warpgroup; a producer takes no part."""
        self.finish_stores()
        if self.fences:
            self.emit(FenceProxyAsync())
        if group and self.threads > 128:
            barrier: Stmt = Barrier(CONSUMERS + self.threads // 128, 128, because)
            for i in reversed(range(self.threads // 128 - 1)):
                mine = binary("eq", self.thread // 128, const(i))
                barrier = If(mine, Barrier(CONSUMERS + 1 + i, 128, because), barrier)
            self.emit(barrier)
            return
        if self.teams > 1:
            first, second = (Barrier(CONSUMERS + k, self.threads, because) for k in range(2))
            self.emit(If(binary("eq", self.team, const(0)), first, second))
            return
        number, threads = (CONSUMERS, self.threads) if self.specialised else (0, None)
        self.emit(Barrier(number, threads, because, reuse))

    def vote(self, value: Expr, every: bool, because: str) -> Expr:
        """A barrier of the threads of this role that says whether one of them (every: all) has a true value.
        Raises SyncError TB414 as `barrier` does.
        """
        self.check_met(because)
        self.finish_stores()
        if self.fences:
            self.emit(FenceProxyAsync())
        name = "and" if every else "or"
        if self.specialised:
            met = call(f"barrier_{name}", (value, const(CONSUMERS), const(self.threads)), bool_)
        else:
            met = call(f"syncthreads_{name}", (value,), bool_)
        return self.bind("met", met)

    def finish_stores(self) -> None:
        """Bulk stores have read their tiles: what is behind the next barrier may write there."""
        if self.stores:
            with self.when(binary("eq", self.thread % 128, const(0))):
                self.emit(BulkWait(0, True))

    def shared_memories(self) -> dict[Buffer, Memory]:
        """Shared memory made so far, by buffer."""
        return {k: m for k, m in self._memories.items() if m.space == "shared"}

    @property
    def warpgroup(self) -> Expr:
        """The number of the thread's warpgroup; with TB_UNIFORM_WARPGROUP taken from lane 0."""
        number = self.thread // 128
        if self.threads <= 128 or not self.kernel.configs.get(UNIFORM, False):
            return number
        found = self.bind_above(self.root, "warpgroup", call("shfl", (number, const(0)), int32))
        assert isinstance(found, Var)
        self.ranges[found] = (0, self.threads // 128 - 1)
        return found

    # -- names -----------------------------------------------------------------------------------------------

    def fresh(self, name: str, dtype: DType = int32) -> Var:
        """A new variable."""
        return Var(name, dtype=dtype)

    def bind(self, name: str, value: Expr) -> Expr:
        """Name a value (a Bind statement) so that it is computed once."""
        value = self.simple(value)
        if isinstance(value, Const | Var):
            return value
        var = self.fresh(name, value.dtype)
        self.learn(var, value)
        self.emit(Bind(var, value))
        return var

    def bind_above(self, body: list[Stmt], name: str, value: Expr) -> Expr:
        """Name a value at the present end of an outer body; equal values share their name."""
        if isinstance(value, Const | Var):
            return value
        known = self._hoisted.setdefault(id(body), {})
        key = expr_key(value)
        if key not in known:
            var = self.fresh(name, value.dtype)
            self.learn(var, value)
            body.append(Bind(var, value, loc=self.loc))
            known[key] = var
            if body is self.root:
                self.root_names.add(var)
        return known[key]

    def learn(self, var: Var, value: Expr) -> None:
        """Remember range and divisor of a name's value."""
        if value.dtype.is_float or value.dtype.kind == "bool":
            return
        interval = bounds(value, self.ranges)
        if interval is not None:
            self.ranges[var] = interval
        self.divisors[var] = divisor(value, self.divisors)

    def simple(self, e: Expr) -> Expr:
        """`e` simplified with what is known of the variables."""
        return simplify(e, self.ranges)

    def proves(self, condition: Expr) -> bool:
        """Whether intervals, or a condition around us, decide that `condition` holds."""
        if prove(condition, self.ranges):
            return True
        key = expr_key(condition)
        return any(expr_key(c) == key for c in self.assumed)

    # -- memories --------------------------------------------------------------------------------------------

    def registers(self, name: str, count: int, dtype: DType) -> Memory:
        """A new register array."""
        memory = register_array(name, count, dtype)
        self.registers_used.append(memory)
        return memory

    def resized(self, memory: Memory, count: int) -> Memory:
        """A register array of another size in the place of `memory`, which no code names yet."""
        fresh = register_array(memory.name, count, memory.dtype, memory.origin)
        self.registers_used = [fresh if m is memory else m for m in self.registers_used]
        return fresh

    def thread_coordinates(self, layout: FragmentLayout) -> tuple[Expr, ...]:
        """What the thread adds to each coordinate of a layout, named at the top of the program."""
        if layout not in self._coordinates:
            if not layout.is_digits:
                layout.coordinate(self.thread, const(0))  # raises: a table has no formula
            out: list[Expr] = [const(0)] * layout.rank
            for dim, term in digit_terms(self.thread, layout.thread):
                out[dim] = out[dim] + self.simple(term)
            self._coordinates[layout] = tuple(
                self.bind_above(self.root, "ijkl"[d % 4] + "0", x) for d, x in enumerate(out)
            )
        return self._coordinates[layout]

    def add_fragment(self, buffer: Buffer, layout: FragmentLayout) -> None:
        """Make a temporary fragment known."""
        self.layouts[buffer] = layout

    def fragment(self, buffer: Buffer) -> tuple[Memory, FragmentLayout]:
        """The register array that holds this thread's part of a fragment buffer, and its layout."""
        layout = self.layouts[buffer]
        assert isinstance(layout, FragmentLayout), f"{buffer.name} has no fragment layout"
        return self._register_memory(buffer, layout.registers), layout

    def _register_memory(self, buffer: Buffer, count: int) -> Memory:
        memory = self._memories.get(buffer)
        if memory is None:
            base = storage_of(buffer)
            if base is not buffer:
                if base.dtype != buffer.dtype:
                    raise LayoutError(
                        "TB310",
                        f"{buffer.name} views {base.name} ({base.dtype}) as {buffer.dtype}",
                        at=buffer.loc,
                        why="registers cannot be reread as another type; shared memory can",
                        fix=f"allocate {base.name} with T.alloc_shared, or use T.reinterpret on elements",
                    )
                memory = self._register_memory(base, self._register_count(base))
            else:
                memory = register_array(buffer.name, count, buffer.dtype, buffer)
                self.registers_used.append(memory)
            self._memories[buffer] = memory
        return memory

    def _register_count(self, buffer: Buffer) -> int:
        layout = self.layouts.get(buffer)
        if isinstance(layout, FragmentLayout):
            return layout.registers
        total = 1
        for n in buffer.static_shape:
            total *= n
        return total

    def local(self, buffer: Buffer) -> Memory:
        """The register array behind `alloc_local` and `alloc_var`."""
        return self._register_memory(buffer, self._register_count(buffer))

    def shared(self, buffer: Buffer) -> tuple[Memory, SharedLayout, Expr]:
        """Shared memory of a buffer, its layout, and the element offset of the version in force here."""
        base = storage_of(buffer)
        layout = self.layouts.get(buffer)
        if buffer in self._scratch_buffers:
            assert isinstance(layout, SharedLayout), "scratch is row-major"
            return self._scratch_buffers[buffer], layout, const(0)
        if not isinstance(layout, SharedLayout):
            layout = row_major(buffer.static_shape or (1,), max(8, buffer.dtype.bits))
            self.layouts[buffer] = layout
        slot = self.stage.allocated.slots[base]
        copies = self.stage.allocated.scheduled.versions.get(base, 1)
        each = slot.size // copies // buffer.dtype.bytes
        memory = self._memories.get(buffer)
        if memory is None:
            memory = shared_memory(buffer.name, each * copies, buffer.dtype, slot.offset, buffer, copies)
            self._memories[buffer] = memory
            self.shared_used.append(memory)
        version = self.versions.get(base)
        if version is None or is_const(version, 0) or copies == 1:
            return memory, layout, const(0)
        return memory, layout, self.expr(version) * each

    def shared_start(self, region: Region, coordinates: tuple[Expr, ...]) -> tuple[Memory, Expr]:
        """Memory and element index of region[coordinates] before the swizzle: where a descriptor starts."""
        memory, layout, version = self.shared(region.buffer)
        thread = [self.expr(i) for i in region.index(coordinates)]
        return memory, self.simple(as_expr(layout.linear_offset(*thread)) + version)

    def version_start(self, buffer: Buffer, version: Expr) -> Expr:
        """Element at which a version of a shared buffer starts."""
        slot = self.stage.allocated.slots[buffer]
        copies = self.stage.allocated.scheduled.versions.get(buffer, 1)
        return version * (slot.size // copies // buffer.dtype.bytes) if copies > 1 else const(0)

    def value(self, e: Expr) -> Expr:
        """A tile-level expression as one of the thread, in int32."""
        return self.simple(self.expr(cast(e, int32)))

    def tensor_map(self, buffer: Buffer, layout: SharedLayout, box: tuple[int, ...]) -> TensorMap:
        """The map of a global tensor with boxes of this size, for tiles of this layout; shared by copies."""
        key = (buffer, box, layout.swizzle.span)
        if key not in self.tensor_maps:
            memory = self.global_of(buffer)
            sizes = tuple(self.expr(n) for n in reversed(buffer.shape))
            strides = tuple(self.expr(x) for x in reversed(global_strides(buffer)[:-1]))
            name = f"{buffer.name}_map"
            self.tensor_maps[key] = TensorMap(name, memory, sizes, strides, box, layout.swizzle.span)
        return self.tensor_maps[key]

    def warp_grid(self, op: Op) -> tuple[int, int]:
        """(warps along M, warps along N) of a gemm, from the partition."""
        found = find_by_place(self.placed.partitioned.warp_grids, op)
        return found if found is not None else (self.threads // 32, 1)

    def add_scratch(self, buffer: Buffer, start: int) -> None:
        """Let a shared buffer of this op stand in scratch, row-major, `start` bytes into it."""
        layout = row_major(buffer.static_shape or (1,), max(8, buffer.dtype.bits))
        self.layouts[buffer] = layout
        self._scratch_buffers[buffer] = self.scratch(buffer.dtype, layout.size, start)

    def scratch(self, dtype: DType, count: int, start: int = 0) -> Memory:
        """Shared scratch viewed as `count` elements of dtype, `start` bytes into it (16-byte aligned)."""
        self.scratch_needed = max(self.scratch_needed, start + count * dtype.bytes)
        slot = self.stage.allocated.scratch
        if slot is not None and slot.size >= start + count * dtype.bytes:
            offset = slot.offset
        else:
            offset = -(-self.stage.allocated.shared_bytes // 128) * 128
        key = (dtype.name, count, offset + start)
        if key not in self._scratches:
            memory = shared_memory(f"scratch_{dtype.name}", count, dtype, offset + start)
            self._scratches[key] = memory
            self.shared_used.append(memory)
        return self._scratches[key]

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory with the scratch that was asked for."""
        allocated = self.stage.allocated
        if not self.scratch_needed or (allocated.scratch and allocated.scratch.size >= self.scratch_needed):
            return allocated.shared_bytes
        return -(-allocated.shared_bytes // 128) * 128 + self.scratch_needed

    # -- expressions -----------------------------------------------------------------------------------------

    def expr(self, e: Expr) -> Expr:
        """A tile-level expression as one of the thread: names replaced, buffers flat, global loads
        guarded."""
        match e:
            case Var():
                return self.names.get(e, e)
            case Load():
                return self._load(e)
            case Binary() if e.op in COMPARISONS and e.left.dtype.is_int and self.nest is not None:
                found = self.simple(rebuild(e, self.expr))
                if (
                    not isinstance(found, Binary)
                    or found.op not in COMPARISONS
                    or any(isinstance(n, Load) for n in walk(found))
                ):
                    return found
                return self.nest.compared(found)
            case _:
                return rebuild(e, self.expr)

    def condition(self, e: Expr) -> Expr:
        """A tile-level condition, decided where the ranges of the tile's variables decide it."""
        e = simplify(e, self.ranges)
        return e if isinstance(e, Const) else self.simple(self.expr(e))

    def _load(self, e: Load) -> Expr:
        buffer = e.buffer
        if isinstance(buffer, Memory):
            return rebuild(e, self.expr)
        if self.nest is not None:
            found = self.nest.replaced_load(e)
            if found is not None:
                return found
        match buffer.scope:
            case "global":
                memory, index, inside = self.global_element(buffer, e.indices)
                value: Expr = Load(memory, (index,), dtype=e.dtype, loc=e.loc)
                if inside is None:
                    return value
                return select(inside, value, self.outside_value(buffer))
            case "shared":
                memory, index = self.shared_element(buffer, e.indices)
                return Load(memory, (index,), dtype=e.dtype, loc=e.loc)
            case "fragment":
                if self.nest is not None:
                    return self.nest.fragment_load(e)
                from tilebench.passes.lower.scalar import fragment_element

                return fragment_element(self, e)
            case _:
                memory = self.local(buffer)
                return Load(memory, (self.local_index(buffer, e.indices),), dtype=e.dtype, loc=e.loc)

    def outside_value(self, buffer: Buffer) -> Expr:
        """What an element outside of a global tensor reads as."""
        if self.outside is not None:
            return cast(self.outside, buffer.dtype)
        safe: Mapping[Buffer, Any] = self.kernel.attributes.get("safe_values", {})
        value = safe.get(buffer, 0)
        return cast(as_expr(value), buffer.dtype) if isinstance(value, Expr) else const(value, buffer.dtype)

    def local_index(self, buffer: Buffer, indices: Sequence[Expr]) -> Expr:
        """Flat index in a per-thread array."""
        index = self.simple(self.expr(flat_index(indices, buffer.static_shape)))
        self.want_unrolled(index)
        return index

    def load(self, memory: Memory, index: Expr | int) -> Expr:
        """memory[index]."""
        return Load(memory, (as_expr(index),), dtype=memory.dtype)

    def store(self, memory: Memory, index: Expr | int, value: Expr) -> None:
        """memory[index] = value (cast to its dtype)."""
        self.emit(Store(memory, (self.simple(as_expr(index)),), cast(value, memory.dtype)))

    # -- addresses -------------------------------------------------------------------------------------------

    def shared_index(self, region: Region, coordinates: tuple[Expr, ...]) -> tuple[Memory, Expr]:
        """Flat element index of region[coordinates] in shared memory (layout, swizzle, version applied)."""
        return self.shared_element(region.buffer, region.index(coordinates))

    def global_index(self, region: Region, coordinates: tuple[Expr, ...]) -> tuple[Memory, Expr, Expr | None]:
        """Flat element index of region[coordinates] in a global tensor, and the in-bounds predicate (None:
        always)."""
        return self.global_element(region.buffer, region.index(coordinates))

    def shared_element(self, buffer: Buffer, indices: Sequence[Expr]) -> tuple[Memory, Expr]:
        """Memory and flat index of buffer[indices] (tile-level indices)."""
        memory, layout, version = self.shared(buffer)
        thread = [self.expr(i) for i in indices or (const(0),)]
        if layout.table is not None:
            return memory, self.settled(self.simple(layout.offset(*thread)) + version)
        linear_part = self.simple(as_expr(layout.linear_offset(*thread)))
        return memory, self._swizzled(linear_part, layout, version)

    def _swizzled(self, offset: Expr, layout: SharedLayout, version: Expr) -> Expr:
        if not layout.swizzle.bits:
            return self.settled(self.simple(offset + version))
        period = layout.swizzle.period * 8 // layout.itemsize_bits
        form = linear(offset)
        outer = Linear(
            tuple((t, c) for t, c in form.terms if c % period == 0), form.constant // period * period
        )
        inner = Linear(tuple((t, c) for t, c in form.terms if c % period), form.constant % period)
        swizzled = layout.swizzle.apply_elements(self.settled(from_linear(inner)), layout.itemsize_bits)
        swizzled = self.settled(swizzled)
        return self.settled(swizzled + from_linear(outer) + version)

    def global_element(self, buffer: Buffer, indices: Sequence[Expr]) -> tuple[Memory, Expr, Expr | None]:
        """Memory, flat index and in-bounds predicate of buffer[indices] (tile-level indices)."""
        memory = self.global_of(buffer)
        strides = global_strides(buffer)
        wide = not _fits_int32(buffer)
        total: Expr = const(0, int64) if wide else const(0)
        for x, stride in zip(indices, strides, strict=True):
            index = self.expr(x)
            if wide:
                total = total + cast(self.settled(self.simple(index)), int64) * cast(self.expr(stride), int64)
            else:
                total = total + cast(index, int32) * self.expr(stride)
        return memory, self.settled(self.simple(total)), self.inside_bounds(buffer, indices)

    def global_of(self, buffer: Buffer) -> Memory:
        """The flat memory of a tensor argument or workspace; a view with other elements has one beside it."""
        base = storage_of(buffer)
        own = buffer if buffer.dtype != base.dtype else base
        for key in (base, own):
            if key not in self.globals:
                self.globals[key] = global_memory(key, _spanned(key))
        return self.globals[own]

    def inside_bounds(self, buffer: Buffer, indices: Sequence[Expr]) -> Expr | None:
        """The condition that tile-level indices are inside of the tensor; None when that is certain."""
        found: Expr | None = None
        for x, extent in zip(indices, buffer.shape, strict=True):
            for test in (binary("ge", x, const(0, x.dtype)), binary("lt", x, extent)):
                if self.proves(test):
                    continue
                test = self.settled(self.simple(self.expr(test)))
                if isinstance(test, Const) and test.value:
                    continue
                found = test if found is None else binary("and", found, test)
        return found

    def is_inside(self, buffer: Buffer, indices: Sequence[Expr]) -> bool:
        """Whether tile-level indices are certainly inside of the tensor. Emits nothing."""
        for x, extent in zip(indices, buffer.shape, strict=True):
            for test in (binary("ge", x, const(0, x.dtype)), binary("lt", x, extent)):
                if not self.proves(test) and not is_const(self.simple(substitute(test, self.names)), True):
                    return False
        return True

    def settled(self, e: Expr) -> Expr:
        """`e` with what does not change inside the nest being lowered computed once, before it."""
        return e if self.nest is None else self.nest.hoist(e)

    # -- the rest of the protocol ----------------------------------------------------------------------------

    def expand(self, stmt: Stmt) -> None:
        """Lower tile-level loops and stores (what Op.expand gives) with the usual distribution over
        threads."""
        from tilebench.passes.lower.statements import lower_stmt

        lower_stmt(self, stmt)

    @contextmanager
    def at(self, loc: Loc | None) -> Generator[None]:
        """Statements emitted inside come from `loc`."""
        before = self.loc
        self.loc = loc or before
        try:
            yield
        finally:
            self.loc = before

    @contextmanager
    def ranging(self, names: Sequence[Var], extents: Sequence[int]) -> Generator[None]:
        """Inside, the names run from 0 to below their extents."""
        before = {v: self.ranges.get(v) for v in names}
        for v, n in zip(names, extents, strict=True):
            self.ranges[v] = (0, n - 1)
        yield
        for v, old in before.items():
            if old is not None:
                self.ranges[v] = old

    @contextmanager
    def knowing(self, condition: Expr | None) -> Generator[None]:
        """`condition` (tile level) holds inside."""
        parts = conjuncts(condition) if condition is not None else []
        self.assumed.extend(parts)
        try:
            yield
        finally:
            if parts:
                del self.assumed[-len(parts) :]

    @contextmanager
    def diverging(self, diverges: bool) -> Generator[None]:
        """Statements inside belong to each thread on its own, when `diverges`."""
        before = self.diverged
        self.diverged = before or diverges
        try:
            yield
        finally:
            self.diverged = before

    def is_per_thread(self, s: Stmt) -> bool:
        """Whether each thread does the statement for itself (else the block does it as one)."""
        return self.diverged or s in self.per_thread

    def want_unrolled(self, index: Expr) -> None:
        """`index` names a register: loops over its variables should be unrolled."""
        self.unroll_wanted |= variables(index)

    def instruction(self, op: Op) -> Instruction:
        """What select chose for the op; statements that later passes rebuilt are found by their place."""
        selected = self.placed.partitioned.selected
        found = find_by_place(selected.instructions, op)
        if found is not None:
            return found
        offers = op.offers(self.target, self.threads)
        return next(o.instruction for o in offers if o.legal)


def fences_needed(stage: Synchronised) -> bool:
    """Whether some thread writes shared memory that the async proxy reads."""
    selected = stage.allocated.scheduled.placed.partitioned.selected
    bulk: set[Buffer] = set()
    for op, instruction in selected.instructions.items():
        if instruction.name in ("wgmma", "bulk.store", "bulk.reduce"):
            bulk |= {storage_of(r.buffer) for r in op.reads if r.buffer.scope == "shared"}
    if not bulk:
        return False
    brought = {r.buffer for op, i in selected.instructions.items() if i.name == "bulk" for r in op.writes}
    return bool(bulk - brought)


def conjuncts(e: Expr) -> list[Expr]:
    """The parts of a conjunction."""
    if isinstance(e, Binary) and e.op == "and":
        return conjuncts(e.left) + conjuncts(e.right)
    return [e]


def both(a: Expr | None, b: Expr | None) -> Expr | None:
    """`a and b`, None being true."""
    if a is None or b is None:
        return b if a is None else a
    return binary("and", a, b)


def expr_key(e: Expr) -> object:
    """A hashable key that is equal for equal trees."""
    match e:
        case Const():
            return ("const", e.dtype.name, repr(e.value))
        case Var():
            return e.id
        case Load():
            return ("load", e.buffer.id, *(expr_key(i) for i in e.indices))
        case Select():
            return ("select", expr_key(e.condition), expr_key(e.then), expr_key(e.orelse))
        case Binary():
            return (e.op, expr_key(e.left), expr_key(e.right))
        case Unary():
            return (e.op, expr_key(e.value))
        case Cast():
            return ("cast", e.dtype.name, expr_key(e.value))
        case Call():
            return (e.name, e.dtype.name, *(expr_key(a) for a in e.args))
        case _:
            return e


def global_strides(buffer: Buffer) -> tuple[Expr, ...]:
    """Strides of a global tensor in elements; row-major unless given."""
    if buffer.strides is not None:
        return buffer.strides
    out: list[Expr] = []
    below: Expr = const(1)
    for n in reversed(buffer.shape):
        out.append(below)
        below = n * below
    return tuple(reversed(out))


def _spanned(buffer: Buffer) -> Expr:
    """Elements between the first and the last one of a global tensor, in int64 when symbolic."""
    total: Expr = const(1, int64)
    for n, s in zip(buffer.shape, global_strides(buffer), strict=True):
        total = total + (cast(n, int64) - 1) * cast(s, int64)
    return total


def _fits_int32(buffer: Buffer) -> bool:
    spanned = int_value(_spanned(buffer))
    return spanned is not None and spanned < 2**31


__all__ = ["MANY", "Builder", "bool_", "both", "conjuncts", "expr_key", "global_strides", "storage_of"]
