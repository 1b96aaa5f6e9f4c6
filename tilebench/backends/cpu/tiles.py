"""Tile ops: copies, row reductions and products have code of their own, others run what `expand` gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilebench.backends.cpu.access import Place, Site, root_of
from tilebench.backends.cpu.fuse import deepened
from tilebench.backends.cpu.gemm import Product, micro_kernel
from tilebench.backends.cpu.text import V, compute_type, i64, storage_type, suffix, vector
from tilebench.backends.cpu.threads import Threads
from tilebench.errors import located
from tilebench.ir.dtype import DType, float32, float64, int32
from tilebench.ir.expr import Expr, const, int_value
from tilebench.ir.simplify import bounds
from tilebench.ir.tile import For, Kernel, Region
from tilebench.ops.base import Op
from tilebench.ops.copy import Copy
from tilebench.ops.gemm import Gemm
from tilebench.ops.reduce import Reduce

_FOLD = {
    "sum": "add", "abssum": "add", "max": "max", "min": "min", "absmax": "max", "bitand": "bitand",
    "bitor": "bitor",
    "bitxor": "bitxor", "any": "or", "all": "and",
}  # fmt: skip


PREFETCH = 4
"""Rows that the copy of a deep tile asks for ahead: rows of a large tensor lie on pages of their own, which
hardware does not prefetch across.
"""


@dataclass(frozen=True)
class Box:
    """A region in memory.

    offsets in elements; clips: per dimension the coordinates [low, high) that exist, None for all.
    """

    place: Place
    dtype: DType
    offsets: tuple[V, ...]
    clips: tuple[tuple[V, V] | None, ...]
    wide: tuple[int, ...]

    @property
    def strides(self) -> tuple[V, ...]:
        """Strides of the dimensions that are longer than 1."""
        return tuple(self.place.strides[d] for d in self.wide)


class Tiles(Threads):
    """Writes tile ops."""

    functions: dict[Product, str]
    function_text: list[str]
    scratch_places: dict[tuple[str, int], str]

    def op_statement(self, op: Op) -> None:
        """A tile op of the block, or what it expands to."""
        regions = (*op.reads, *op.writes)
        private = any(r.buffer.scope in ("local", "var") for r in regions)
        if self.thread_value is None:
            match op:
                case Gemm():
                    self.gemm(op)
                    return
                case Copy() if not private and self._copy(op):
                    return
                case Reduce() if self._reduce(op):
                    return
                case _:
                    pass
        self.statement(op.expand())

    def loop(self, s: For) -> None:
        """A loop; one over deep tiles is rearranged first."""
        deep = deepened(s, self.kernel) if self.thread_value is None and not self.in_nest else None
        if deep is None:
            super().loop(s)
            return
        start, stop = self.evaluate(s.start), self.evaluate(s.stop)
        first, last = bounds(s.start, self.ranges), bounds(s.stop, self.ranges)
        if first is not None and last is not None:
            self.ranges[s.var] = (first[0], max(last[1] - 1, first[0]))

        def step(k: V) -> None:
            self.check_abort()
            self.env[s.var] = self.narrow(k, s.var.dtype)
            self.ahead = PREFETCH
            for copy in deep.copies:
                self.statement(copy)
            self.ahead = 0
            left = self.several("smin", self.raw("sub nsw", self.index(stop), k), i64(deep.rounds))
            with located(deep.product.loc):
                self.gemm(deep.product, self.raw("mul nsw", left, i64(deep.bk)))

        self.count(self.index(start), self.index(stop), deep.rounds, step)

    kernel: Kernel
    ahead: int = 0

    # -------------------------------------------------------------- regions

    def box(self, region: Region) -> Box:
        """Where a region is, and which part of it exists.

        Reaching out of a buffer of the block is an error.
        """
        place = self.place(region.buffer)
        offsets: list[V] = []
        clips: list[tuple[V, V] | None] = []
        for d, (offset, extent) in enumerate(zip(region.offsets, region.extents, strict=True)):
            at = self.index(self.evaluate(offset))
            offsets.append(at)
            interval, size = bounds(offset, self.ranges), int_value(region.buffer.shape[d])
            if (
                interval is not None
                and size is not None
                and interval[0] >= 0
                and interval[1] + extent <= size
            ):
                clips.append(None)
                continue
            if region.buffer.scope == "global":
                low = self._clamp_index(self.raw("sub nsw", i64(0), at), i64(0), extent)
                high = self._clamp_index(self.raw("sub nsw", place.shape[d], at), low, extent)
                clips.append((low, high))
                continue
            room = self.raw("sub nsw", place.shape[d], i64(extent))
            good = self.raw("and", self.compare("icmp sge", at, i64(0)), self.compare("icmp sle", at, room))
            self.fail_unless(good, Site("bounds", region.loc, region.buffer, d), at)
            clips.append(None)
        wide = tuple(d for d, e in enumerate(region.extents) if e != 1)
        return Box(place, region.dtype, tuple(offsets), tuple(clips), wide)

    def _clamp_index(self, v: V, low: V, high: int) -> V:
        return self.several("smin", self.several("smax", v, low), i64(high))

    def at(self, box: Box, point: list[V]) -> V:
        """Flat index of the element at `point` (wide dimensions only)."""
        values = list(box.offsets)
        for d, p in zip(box.wide, point, strict=True):
            values[d] = (
                p
                if values[d].name == "0"
                else values[d]
                if p.name == "0"
                else self.raw("add nsw", values[d], p)
            )
        return self.flat(box.place, values)

    # -------------------------------------------------------------- copies

    def _copy(self, op: Copy) -> bool:
        a, b = op.source, op.destination
        wide_a = [d for d, e in enumerate(a.extents) if e != 1]
        wide_b = [d for d, e in enumerate(b.extents) if e != 1]
        if not wide_a or root_of(a.buffer) is root_of(b.buffer):
            return False
        if (
            self.place(a.buffer).strides[wide_a[-1]].name != "1"
            or self.place(b.buffer).strides[wide_b[-1]].name != "1"
        ):
            return False
        source, target = self.box(a), self.box(b)
        extents = [a.extents[d] for d in wide_a]
        same = a.dtype == b.dtype
        outside: Expr = const(0, a.dtype) if op.outside is None else op.outside
        fill = self.convert(self.convert(self.evaluate(outside), a.dtype), b.dtype)
        lanes = self.width_of_host
        if same:
            lanes = max(self.width_of_host * 4 // storage_bytes(a.dtype), 1)
        while lanes > extents[-1]:
            lanes //= 2

        def inside(box: Box, wide: list[int]) -> V | None:
            """Whether the coordinates of unit dimensions exist."""
            total: V | None = None
            for d, clip in enumerate(box.clips):
                if clip is None or d in wide:
                    continue
                here = self.compare("icmp slt", clip[0], clip[1])
                total = here if total is None else self.raw("and", total, here)
            return total

        def row(point: list[V], exists: V | None) -> None:
            clip_a, clip_b = source.clips[wide_a[-1]], target.clips[wide_b[-1]]
            low, high = clip_b if clip_b is not None else (i64(0), i64(extents[-1]))
            from_a, to_b = self.at(source, [*point, i64(0)]), self.at(target, [*point, i64(0)])

            def move(x: V, w: int) -> None:
                p = self.pointer(source.place.base, a.dtype, self.plus(from_a, x))
                q = self.pointer(target.place.base, b.dtype, self.plus(to_b, x))
                old, new = vector(storage_type(a.dtype), w), vector(storage_type(b.dtype), w)
                if self.ahead and w > 1 and len(extents) > 1:
                    rows = self._times(source.place.strides[wide_a[-2]], i64(self.ahead))
                    q2 = self.pointer(p, a.dtype, rows)
                    self.call(
                        "llvm.prefetch.p0", "void", [("ptr", q2), ("i32", "0"), ("i32", "2"), ("i32", "1")]
                    )
                raw = self.op(f"load {old}, ptr {p}, align {a.dtype.bytes}{self.note(source.place.scope)}")
                if not same:
                    raw = self.to_storage(self.convert(self.from_storage(raw, a.dtype, w), b.dtype))
                self.put(f"store {new} {raw}, ptr {q}, align {b.dtype.bytes}{self.note(target.place.scope)}")

            def blank(x: V, w: int) -> None:
                q = self.pointer(target.place.base, b.dtype, self.plus(to_b, x))
                new = vector(storage_type(b.dtype), w)
                raw = self.to_storage(self.splat(fill, w))
                self.put(f"store {new} {raw}, ptr {q}, align {b.dtype.bytes}{self.note(target.place.scope)}")

            if clip_a is None and exists is None:
                self.spans(low, high, lanes, move)
                return
            first, last = clip_a if clip_a is not None else (low, high)
            first = self.several("smin", self.several("smax", first, low), high)
            last = self.several("smin", self.several("smax", last, first), high)
            if exists is not None:
                first, last = self.choose(exists, first, low), self.choose(exists, last, low)
            if clip_a is not None:
                self.spans(low, first, lanes, blank)
            self.spans(first, last, lanes, move)
            self.spans(last, high, lanes, blank)

        def level(depth: int, point: list[V], exists: V | None) -> None:
            if depth == len(extents) - 1:
                row(point, exists)
                return
            clip_a, clip_b = source.clips[wide_a[depth]], target.clips[wide_b[depth]]
            low, high = clip_b if clip_b is not None else (i64(0), i64(extents[depth]))

            def inner(i: V) -> None:
                here = exists
                if clip_a is not None:
                    good = self.raw(
                        "and", self.compare("icmp sge", i, clip_a[0]), self.compare("icmp slt", i, clip_a[1])
                    )
                    here = good if here is None else self.raw("and", here, good)
                level(depth + 1, [*point, i], here)

            self.count(low, high, 1, inner)

        writable = inside(target, wide_b)
        readable = inside(source, wide_a)
        self._when(writable, lambda: level(0, [], readable))
        return True

    def plus(self, a: V, b: V) -> V:
        """a + b of i64 values."""
        if a.literal and b.literal:
            return i64(int(a.name) + int(b.name))
        return a if b.name == "0" else b if a.name == "0" else self.raw("add nsw", a, b)

    def _when(self, condition: V | None, body: Callable[[], None]) -> None:
        if condition is None:
            body()
            return
        yes, end = self.fresh("then"), self.fresh("end")
        self.branch(condition.name, yes, end)
        self.start(yes)
        body()
        self.start(end)

    # -------------------------------------------------------------- reductions

    def _reduce(self, op: Reduce) -> bool:
        """Folds along a contiguous dimension: vectors of partial results, then across the lanes."""
        a, b = op.source, op.destination
        kept = [d for d in range(len(a.extents)) if d not in a.dropped]
        along = kept[op.dim]
        count = a.extents[along]
        if op.nan_propagate or a.buffer.scope not in ("shared", "fragment") or b.buffer.scope == "local":
            return False
        if (
            count < 2
            or self.place(a.buffer).strides[along].name != "1"
            or any(d > along and e != 1 for d, e in enumerate(a.extents))
        ):
            return False
        if b.buffer.scope == "global" or (b.buffer.scope == "var" and root_of(b.buffer) in self.spread):
            return False
        source, target = self.box(a), self.box(b)
        extents = [a.extents[d] for d in source.wide if d != along]
        dtype, fold = op.accumulator_dtype, _FOLD[op.kind]
        w = self.width_of_host
        while w > count:
            w //= 2

        def part(start: V, at: V, lanes: int) -> V:
            v = self.fetch(source.place.base, a.dtype, self.plus(start, at), 1, source.place.scope, w=lanes)
            v = self.convert(v, dtype)
            return self.intrinsic("abs", [v], dtype) if op.kind in ("absmax", "abssum") else v

        def row(point: list[V]) -> None:
            start = self.at(source, [*point, i64(0)])
            chunks = count // w
            chains = min(4, chunks)
            totals = [part(start, i64(c * w), w) for c in range(chains)]
            if chunks <= 16:
                for c in range(chains, chunks):
                    totals[c % chains] = self.arithmetic(fold, totals[c % chains], part(start, i64(c * w), w))
            else:
                kind = vector(compute_type(dtype), w)
                slots = [self.alloca(kind) for _ in range(chains)]
                for slot, t in zip(slots, totals, strict=True):
                    self.put(f"store {kind} {t.name}, ptr {slot}")

                def step(i: V) -> None:
                    for c, slot in enumerate(slots):
                        old = V(self.op(f"load {kind}, ptr {slot}"), dtype, w)
                        new = self.arithmetic(fold, old, part(start, self.plus(i, i64(c * w)), w))
                        self.put(f"store {kind} {new.name}, ptr {slot}")

                whole = chunks // chains * chains
                self.count(i64(chains * w), i64(whole * w), chains * w, step)
                totals = [V(self.op(f"load {kind}, ptr {slot}"), dtype, w) for slot in slots]
                for c in range(whole, chunks):
                    totals[c % chains] = self.arithmetic(fold, totals[c % chains], part(start, i64(c * w), w))
            while len(totals) > 1:
                totals = [
                    self.arithmetic(fold, totals[c], totals[c + 1]) if c + 1 < len(totals) else totals[c]
                    for c in range(0, len(totals), 2)
                ]
            total = self.across(fold, totals[0])
            done, left = chunks * w, w
            while done < count:
                left //= 2
                if count - done >= left:
                    total = self.arithmetic(fold, total, self.across(fold, part(start, i64(done), left)))
                    done += left
            total = (
                self.arithmetic(fold, total, self.constant(op.identity, dtype))
                if fold in ("max", "min")
                else total
            )
            flat = self.at(target, point)
            if not op.clear:
                old = self.fetch(target.place.base, b.dtype, flat, 1, target.place.scope, w=1)
                total = self.arithmetic(fold, total, self.convert(old, dtype))
            saved, self.lanes = self.lanes, 1
            self.deposit(
                target.place.base, b.dtype, flat, 1, target.place.scope, self.convert(total, b.dtype)
            )
            self.lanes = saved

        def level(depth: int, point: list[V]) -> None:
            if depth == len(extents):
                row(point)
                return
            self.count(i64(0), i64(extents[depth]), 1, lambda i: level(depth + 1, [*point, i]))

        level(0, [])
        return True

    def across(self, fold: str, v: V) -> V:
        """The fold of the lanes of a value."""
        if v.w == 1:
            return v
        kind, full = compute_type(v.dtype), suffix(compute_type(v.dtype), v.w)
        many = vector(kind, v.w)
        if v.dtype.is_float:
            if fold == "add":
                zero = "-0.0"
                out = self.call(
                    f"llvm.vector.reduce.fadd.{full}", kind, [(kind, zero), (many, v.name)], "reassoc "
                )
            else:
                out = self.call(f"llvm.vector.reduce.f{fold}.{full}", kind, [(many, v.name)])
            return V(out, v.dtype)
        name = {"bitand": "and", "bitor": "or", "bitxor": "xor"}.get(fold, fold)
        if name in ("max", "min"):
            name = ("s" if v.dtype.kind == "int" else "u") + name
        return self.settle(V(self.call(f"llvm.vector.reduce.{name}.{full}", kind, [(many, v.name)]), v.dtype))

    # -------------------------------------------------------------- products

    def scratch(self, name: str, size: int) -> str:
        """Memory of the block for the time of one op, shared by all that ask for the same."""
        key = (name, size)
        if key not in self.scratch_places:
            start = self.take(size)
            self.count_names += 1
            self.scratch_places[key] = f"%w{self.count_names}"
            self.allocas.append(f"  %w{self.count_names} = getelementptr i8, ptr %arena, i64 {start}")
        return self.scratch_places[key]

    def gemm(self, op: Gemm, depth: V | None = None) -> None:
        """Operands straight from their tiles where they are f32 with contiguous columns of B, else through
        scratch.

        depth: how much of K counts, if not all.
        """
        m, n, k = op.mnk
        wide = float64 if op.c.dtype.bits == 64 else int32 if op.c.dtype.is_int else float32
        a_ptr, a_rows, a_cols = self._operand(op.a, wide, "A", (k, m) if op.transpose_a else (m, k))
        am, ak = (a_cols, a_rows) if op.transpose_a else (a_rows, a_cols)
        if op.transpose_b:
            b_ptr, bk = self._turned(op.b, wide, n, k), n
        else:
            b_ptr, bk, bn = self._operand(op.b, wide, "B", (k, n))
            assert bn == 1, "columns of an on-chip tile are contiguous"
        c, c_flat, ldc, _ = self._matrix(op.c)
        own = compute_type(op.c.dtype) == storage_type(op.c.dtype)
        c_ptr = self.pointer(c.place.base, op.c.dtype, c_flat)
        if not own:
            c_ptr = self.scratch("C", m * n * wide.bytes)
            if not op.clear_accum:
                self._convert(c.place, op.c.dtype, c_flat, ldc, c_ptr, wide, m, n)
        lanes = self.width_of_host * 4 // wide.bytes
        product = Product(
            m,
            n,
            k,
            am,
            ak,
            bk,
            ldc if own else n,
            compute_type(wide),
            max(lanes, 1),
            self.tile_of_host,
            op.clear_accum,
        )
        if product not in self.functions:
            name = f"gemm{len(self.functions)}"
            self.functions[product] = name
            self.function_text.append(micro_kernel(name, product, self.declares))
        self.put(
            f"call void @{self.functions[product]}(ptr {a_ptr}, ptr {b_ptr}, ptr {c_ptr}, i64 "
            f"{(depth or i64(k)).name})"
        )
        if not own:
            self._convert_back(c_ptr, wide, c.place, op.c.dtype, c_flat, ldc, m, n)

    tile_of_host: tuple[int, int] = (6, 16)

    def _matrix(self, region: Region) -> tuple[Box, V, int, int]:
        """(box, flat index of its first element, row stride, column stride)."""
        box = self.box(region)
        kept = [d for d in range(len(region.extents)) if d not in region.dropped][-2:]
        rows, cols = (int(box.place.strides[d].name) for d in kept)
        return box, self.flat(box.place, box.offsets), rows, cols

    def _operand(
        self, region: Region, wide: DType, name: str, shape: tuple[int, int]
    ) -> tuple[str, int, int]:
        """(address, row stride, column stride) of a matrix of `wide` elements; converted into scratch if need
        be.
        """
        box, flat, rows, cols = self._matrix(region)
        if storage_type(region.dtype) == compute_type(wide):
            return self.pointer(box.place.base, region.dtype, flat), rows, cols
        m, n = shape
        out = self.scratch(name, m * n * wide.bytes)
        self._convert(box.place, region.dtype, flat, rows, out, wide, m, n)
        return out, n, 1

    def _convert(
        self, place: Place, dtype: DType, flat: V, rows: int, out: str, wide: DType, m: int, n: int
    ) -> None:
        def row(i: V) -> None:
            start = self.plus(flat, self._times(i, i64(rows)))
            to = self._times(i, i64(n))

            def cell(j: V, w: int) -> None:
                v = self.convert(
                    self.fetch(place.base, dtype, self.plus(start, j), 1, place.scope, w=w), wide
                )
                p = self.pointer(out, wide, self.plus(to, j))
                self.put(f"store {vector(compute_type(wide), w)} {v.name}, ptr {p}, align {wide.bytes}")

            self.spans(i64(0), i64(n), self.width_of_host, cell)

        self.count(i64(0), i64(m), 1, row)

    def _convert_back(
        self, source: str, wide: DType, place: Place, dtype: DType, flat: V, rows: int, m: int, n: int
    ) -> None:
        def row(i: V) -> None:
            start = self.plus(flat, self._times(i, i64(rows)))
            at = self._times(i, i64(n))

            def cell(j: V, w: int) -> None:
                p = self.pointer(source, wide, self.plus(at, j))
                v = V(self.op(f"load {vector(compute_type(wide), w)}, ptr {p}, align {wide.bytes}"), wide, w)
                stored = self.to_storage(self.convert(v, dtype))
                q = self.pointer(place.base, dtype, self.plus(start, j))
                self.put(
                    f"store {vector(storage_type(dtype), w)} {stored}, ptr {q}, align "
                    f"{dtype.bytes}{self.note(place.scope)}"
                )

            self.spans(i64(0), i64(n), self.width_of_host, cell)

        self.count(i64(0), i64(m), 1, row)

    def _turned(self, region: Region, wide: DType, n: int, k: int) -> str:
        """An N x K matrix as K x N in scratch, square blocks of vectors at a time."""
        box, flat, rows, _ = self._matrix(region)
        out = self.scratch("B", n * k * wide.bytes)
        w = self.width_of_host
        kind = compute_type(wide)
        whole_n, whole_k = n // w * w, k // w * w

        def fetch(i: V, j: V, lanes: int) -> V:
            at = self.plus(self.plus(flat, self._times(i, i64(rows))), j)
            return self.convert(
                self.fetch(box.place.base, region.dtype, at, 1, box.place.scope, w=lanes), wide
            )

        def keep(i: V, j: V, v: V) -> None:
            p = self.pointer(out, wide, self.plus(self._times(j, i64(n)), i))
            self.put(f"store {vector(kind, v.w)} {v.name}, ptr {p}, align {wide.bytes}")

        def square(i: V, j: V) -> None:
            lines = [fetch(self.plus(i, i64(r)), j, w) for r in range(w)]
            for c, v in enumerate(self._exchange(lines)):
                keep(i, self.plus(j, i64(c)), v)

        if whole_n and whole_k:
            self.count(
                i64(0), i64(whole_n), w, lambda i: self.count(i64(0), i64(whole_k), w, lambda j: square(i, j))
            )
        single = [((0, whole_n), (whole_k, k)), ((whole_n, n), (0, k))]
        for (i0, i1), (j0, j1) in single:
            if i0 < i1 and j0 < j1:
                self.count(
                    i64(i0), i64(i1), 1,
                    lambda i, j0=j0,
                    j1=j1: self.count(i64(j0), i64(j1), 1, lambda j: keep(i, j, fetch(i, j, 1))),
                )  # fmt: skip
        return out

    def _exchange(self, lines: list[V]) -> list[V]:
        """The transpose of w vectors of w lanes: off-diagonal blocks change places, sizes 1, 2, 4 ..."""
        w = len(lines)
        many = self.type_of(lines[0])
        step = 1
        while step < w:
            for i in range(w):
                if i & step:
                    continue
                a, b = lines[i], lines[i + step]
                low = [lane if not lane & step else w + lane - step for lane in range(w)]
                high = [lane + step if not lane & step else w + lane for lane in range(w)]
                for at, order in ((i, low), (i + step, high)):
                    picks = ", ".join(f"i32 {p}" for p in order)
                    text = f"shufflevector {many} {a.name}, {many} {b.name}, <{w} x i32> <{picks}>"
                    lines[at] = V(self.op(text), a.dtype, w)
            step *= 2
        return lines


def storage_bytes(dtype: DType) -> int:
    """Bytes of one element in memory."""
    return dtype.bytes


__all__ = ["Tiles"]
