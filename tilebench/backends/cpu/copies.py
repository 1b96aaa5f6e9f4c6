"""Regions in memory, and copies between them: rows of vectors, clipped at the ends of tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilebench.backends.cpu.indices import Place, Site
from tilebench.backends.cpu.text import V, i64, storage_type, vector
from tilebench.backends.cpu.threads import Threads
from tilebench.ir.dtype import DType
from tilebench.ir.expr import Expr, const, int_value
from tilebench.ir.simplify import bounds
from tilebench.ir.tile import Region
from tilebench.ops.copy import Copy


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


class Copies(Threads):
    """Writes copies."""

    ahead: int = 0
    """Rows that a copy asks for before it needs them."""

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
                low = self.clip(self.raw("sub nsw", i64(0), at), i64(0), extent)
                high = self.clip(self.raw("sub nsw", place.shape[d], at), low, extent)
                clips.append((low, high))
                continue
            room = self.raw("sub nsw", place.shape[d], i64(extent))
            good = self.raw("and", self.compare("icmp sge", at, i64(0)), self.compare("icmp sle", at, room))
            self.fail_unless(good, Site("bounds", region.loc, region.buffer, d), at)
            clips.append(None)
        wide = tuple(d for d, e in enumerate(region.extents) if e != 1)
        return Box(place, region.dtype, tuple(offsets), tuple(clips), wide)

    def clip(self, v: V, low: V, high: int) -> V:
        """low <= v <= high."""
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

    def move_rows(self, op: Copy) -> bool:
        """Write a copy between rows that are contiguous; False where it is not of that kind."""
        a, b = op.source, op.destination
        wide_a = [d for d, e in enumerate(a.extents) if e != 1]
        wide_b = [d for d, e in enumerate(b.extents) if e != 1]
        if not wide_a or a.buffer.data is b.buffer.data:
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
            lanes = max(self.width_of_host * 4 // a.dtype.bytes, 1)
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
                    rows = self.times(source.place.strides[wide_a[-2]], i64(self.ahead))
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
        self.when(writable, lambda: level(0, [], readable))
        return True

    def plus(self, a: V, b: V) -> V:
        """a + b of i64 values."""
        if a.literal and b.literal:
            return i64(int(a.name) + int(b.name))
        return a if b.name == "0" else b if a.name == "0" else self.raw("add nsw", a, b)

    def when(self, condition: V | None, body: Callable[[], None]) -> None:
        """Write `body` under a condition, None being true."""
        if condition is None:
            body()
            return
        yes, end = self.fresh("then"), self.fresh("end")
        self.branch(condition.name, yes, end)
        self.start(yes)
        body()
        self.start(end)
