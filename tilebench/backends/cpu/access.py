"""Where elements are: addresses, checks of bounds, loads and stores of lanes."""

from __future__ import annotations

from collections.abc import Sequence

from tilebench.backends.cpu.indices import Overlay, Place, Site
from tilebench.backends.cpu.storage import Storage
from tilebench.backends.cpu.text import V, i64, storage_type, suffix, vector
from tilebench.errors import Loc
from tilebench.ir.dtype import DType, bool_, int64
from tilebench.ir.expr import Expr, Load, int_value
from tilebench.ir.tile import Buffer


class Access(Storage):
    """Loads and stores."""

    # -------------------------------------------------------------- addresses

    def _checked(
        self,
        buffer: Buffer,
        indices: Sequence[Expr],
        steps: Sequence[int | None],
        place: Place,
        at: Loc | None,
    ) -> None:
        for dim, (index, step) in enumerate(zip(indices, steps, strict=True)):
            if self.inside(index, buffer.shape[dim]):
                continue
            site = Site("bounds", index.loc or at, buffer, dim)
            size = place.shape[dim]
            if step == 0:
                value = self.index(self.first_lane(index))
                self.fail_unless(self.compare("icmp ult", value, size), site, value)
            else:
                value = self.index(self.evaluate(index))
                self.fail_unless(self.compare("icmp ult", value, size), site, value)

    def flat(self, place: Place, values: Sequence[V]) -> V:
        """Elements from the base to the element at `values`."""
        total: V | None = None
        for value, stride in zip(values, place.strides, strict=True):
            if stride.name == "0" or value.name == "0":
                continue
            part = value if stride.name == "1" else self.times(value, stride)
            total = part if total is None else self.raw("add nsw", total, part)
        return i64(0) if total is None else total

    def times(self, a: V, b: V) -> V:
        """a * b of i64 values."""
        if a.literal and b.literal and a.w == 1:
            return i64(int(a.name) * int(b.name))
        if "1" in (a.name, b.name):
            return b if a.name == "1" else a
        return self.raw("mul nsw", a, b)

    def address(
        self, buffer: Buffer, indices: Sequence[Expr], at: Loc | None
    ) -> tuple[str, V, int | None, Place]:
        """(base, flat index, step from lane to lane or None, place).

        With a fixed step the index is lane 0's.
        """
        place = self.place(buffer)
        steps = [self.coefficient(i) for i in indices]
        self._checked(buffer, indices, steps, place, at)
        total: int | None = 0
        for step, stride in zip(steps, place.strides, strict=True):
            if step == 0:
                continue
            if step is None or not stride.literal:
                total = None
                break
            total += step * int(stride.name)
        if total is not None:
            return (
                place.base,
                self.flat(place, [self.index(self.first_lane(i)) for i in indices]),
                total,
                place,
            )
        return place.base, self.flat(place, [self.index(self.evaluate(i)) for i in indices]), None, place

    def pointer(self, base: str, dtype: DType, flat: V) -> str:
        """The address of an element (or of each lane's)."""
        kind = storage_type(dtype)
        if flat.name == "0":
            return base
        return self.op(f"getelementptr {kind}, ptr {base}, {self.type_of(flat)} {flat.name}")

    # -------------------------------------------------------------- loads

    def load(self, e: Load) -> V:
        """An element in each lane."""
        root = e.buffer.data
        if root in self.overlays:
            return self._load_overlay(e, self.overlays[root])
        free = self.mask is None or self.safe(e.buffer, e.indices)
        saved = self.mask
        if free:
            self.mask = None
        try:
            base, flat, step, place = self.address(e.buffer, e.indices, e.loc)
        finally:
            self.mask = saved
        mask = None if free else saved
        return self.fetch(base, e.dtype, flat, step, place.scope, mask)

    def fetch(
        self,
        base: str,
        dtype: DType,
        flat: V,
        step: int | None,
        scope: int,
        mask: V | None = None,
        w: int = 0,
    ) -> V:
        """Load `w` lanes (those of the loop by default) that are `step` elements apart."""
        w = w or self.lanes
        kind = storage_type(dtype)
        note = self.note(scope)
        if (step == 0 or w == 1) and mask is None:
            p = self.pointer(base, dtype, flat)
            return self.from_storage(self.op(f"load {kind}, ptr {p}, align {dtype.bytes}{note}"), dtype, 1)
        if step == 1 and mask is None:
            p = self.pointer(base, dtype, flat)
            many = self.op(f"load {vector(kind, w)}, ptr {p}, align {dtype.bytes}{note}")
            return self.from_storage(many, dtype, w)
        if step == 1:
            assert mask is not None
            p = self.pointer(base, dtype, flat)
            return self.from_storage(self.masked_load(p, kind, w, dtype.bytes, self.splat(mask, w)), dtype, w)
        if step is not None:
            flat = self.raw("add nsw", flat, self.ramp(step, w))
        p = self.pointer(base, dtype, self.splat(flat, w))
        chosen = self.splat(mask, w) if mask is not None else V("splat (i1 true)", bool_, w)
        return self.from_storage(self._gather(p, kind, w, dtype.bytes, chosen), dtype, w)

    def ramp(self, step: int, w: int) -> V:
        """0, step, 2*step, ... as i64 lanes."""
        return V("<" + ", ".join(f"i64 {step * lane}" for lane in range(w)) + ">", int64, w)

    def masked_load(self, p: str, kind: str, w: int, align: int, mask: V) -> str:
        """Contiguous lanes where the mask holds, zero elsewhere."""
        many = f"<{w} x {kind}>"
        full = f"llvm.masked.load.{suffix(kind, w)}.p0"
        arguments = [("ptr", p), ("i32", str(align)), (f"<{w} x i1>", mask.name), (many, "zeroinitializer")]
        return self.call(full, many, arguments)

    def _gather(self, p: str, kind: str, w: int, align: int, mask: V) -> str:
        many = f"<{w} x {kind}>"
        if mask.literal:
            total = "poison"
            for lane in range(w):
                q = self.op(f"extractelement <{w} x ptr> {p}, i64 {lane}")
                x = self.op(f"load {kind}, ptr {q}, align {align}")
                total = self.op(f"insertelement {many} {total}, {kind} {x}, i64 {lane}")
            return total
        full = f"llvm.masked.gather.{suffix(kind, w)}.v{w}p0"
        arguments = [
            (f"<{w} x ptr>", p),
            ("i32", str(align)),
            (f"<{w} x i1>", mask.name),
            (many, "zeroinitializer"),
        ]
        return self.call(full, many, arguments)

    def _load_overlay(self, e: Load, over: Overlay) -> V:
        p = self._overlay_pointer(e.buffer, e.indices, over, e.loc)
        kind = vector(storage_type(e.dtype), over.w)
        return self.from_storage(self.op(f"load {kind}, ptr {p}"), e.dtype, over.w)

    def _overlay_pointer(self, buffer: Buffer, indices: Sequence[Expr], over: Overlay, at: Loc | None) -> str:
        if all(int_value(i) == 0 for i in indices) and buffer.data is buffer:
            return over.base
        place = Place(over.base, tuple(map(i64, buffer.static_shape)), self.place(buffer).strides, 0)
        steps = [self.coefficient(i) for i in indices]
        assert all(s == 0 for s in steps), "a private array in a nest is indexed alike in all lanes"
        self._checked(buffer, indices, steps, place, at)
        flat = self.flat(place, [self.index(self.first_lane(i)) for i in indices])
        return self.op(
            f"getelementptr {vector(storage_type(buffer.dtype), over.w)}, ptr {over.base}, i64 {flat.name}"
        )

    # -------------------------------------------------------------- stores

    def store(self, buffer: Buffer, indices: Sequence[Expr], value: V, at: Loc | None) -> None:
        """Write an element in each active lane."""
        root = buffer.data
        if root in self.overlays:
            over = self.overlays[root]
            p = self._overlay_pointer(buffer, indices, over, at)
            kind = vector(storage_type(buffer.dtype), over.w)
            value = self.splat(value, over.w)
            if self.mask is not None:
                old = self.from_storage(self.op(f"load {kind}, ptr {p}"), buffer.dtype, over.w)
                value = self.choose(self.mask, value, old)
            self.put(f"store {kind} {self.to_storage(value)}, ptr {p}")
            return
        base, flat, step, place = self.address(buffer, indices, at)
        self.deposit(base, buffer.dtype, flat, step, place.scope, value, self.mask)

    def deposit(
        self, base: str, dtype: DType, flat: V, step: int | None, scope: int, value: V, mask: V | None = None
    ) -> None:
        """Store the lanes of the loop (one lane where there is none), `step` elements apart."""
        w, kind, note = self.lanes, storage_type(dtype), self.note(scope)
        if w == 1:
            p = self.pointer(base, dtype, flat)
            self.put(f"store {kind} {self.to_storage(value)}, ptr {p}, align {dtype.bytes}{note}")
            return
        value = self.splat(value, w)
        if step == 1:
            p = self.pointer(base, dtype, flat)
            stored = self.to_storage(value)
            if mask is None:
                self.put(f"store <{w} x {kind}> {stored}, ptr {p}, align {dtype.bytes}{note}")
                return
            many = f"<{w} x {kind}>"
            arguments = [
                (many, stored),
                ("ptr", p),
                ("i32", str(dtype.bytes)),
                (f"<{w} x i1>", self.splat(mask, w).name),
            ]
            self.call(f"llvm.masked.store.{suffix(kind, w)}.p0", "void", arguments)
            return
        if step is not None:
            flat = self.raw("add nsw", flat, self.ramp(step, w)) if step else flat
        p = self.pointer(base, dtype, self.splat(flat, w))
        stored = self.to_storage(value)
        for lane in range(w):
            q = self.op(f"extractelement <{w} x ptr> {p}, i64 {lane}")
            x = self.op(f"extractelement <{w} x {kind}> {stored}, i64 {lane}")
            with_mask = self.lane(self.splat(mask, w), lane) if mask is not None else None
            if with_mask is None:
                self.put(f"store {kind} {x}, ptr {q}, align {dtype.bytes}{note}")
                continue
            do, on = self.fresh("lane"), self.fresh("next")
            self.branch(with_mask.name, do, on)
            self.start(do)
            self.put(f"store {kind} {x}, ptr {q}, align {dtype.bytes}{note}")
            self.start(on)
