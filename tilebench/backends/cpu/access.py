"""Where elements are: storage of buffers, addresses, checks of bounds, loads and stores of lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilebench.backends.cpu.mathlib import Math
from tilebench.backends.cpu.text import V, i64, storage_type, suffix, vector
from tilebench.errors import Loc
from tilebench.ir.dtype import DType, bool_, int64
from tilebench.ir.expr import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Unary,
    Var,
    binary,
    int_value,
    same,
)
from tilebench.ir.rewrite import children
from tilebench.ir.simplify import bounds, prove
from tilebench.ir.tile import Buffer


@dataclass(frozen=True)
class Place:
    """Storage of a buffer: its base address, extents and strides (values in elements), the root for alias
    facts.
    """

    base: str
    shape: tuple[V, ...]
    strides: tuple[V, ...]
    scope: int


@dataclass(frozen=True)
class Site:
    """A place in the program that can fail at run time. kind: 'bounds' 'zero' 'shift' 'assert' 'power'."""

    kind: str
    at: Loc | None
    buffer: Buffer | None = None
    dim: int = 0
    text: str = ""
    dtype: DType | None = None


@dataclass(frozen=True)
class Overlay:
    """A private buffer inside a nest: one copy for each lane, element by element."""

    base: str
    w: int


def root_of(buffer: Buffer) -> Buffer:
    """The buffer whose storage this one shows."""
    while buffer.view_of is not None:
        buffer = buffer.view_of
    return buffer


ALIGN = 64

ANYWHERE = -1
"""The alias class of an access that may be to any memory."""


class Access(Math):
    """Loads and stores."""

    def prepare(self) -> None:
        """Start with nothing known."""
        self.env: dict[Var, V] = {}
        self.inline: dict[Var, Expr] = {}
        self.ranges: dict[Var, tuple[int, int]] = {}
        self.facts: list[Expr] = []
        self.mask: V | None = None
        self.lane_var: Var | None = None
        self.lanes = 1
        self.sites: list[Site] = []
        self.places_of: dict[Buffer, Place] = {}
        self.overlays: dict[Buffer, Overlay] = {}
        self.scopes: dict[Buffer, int] = {}
        self.spread: set[Buffer] = set()
        self.thread_value: V | None = None
        self.threads = 1
        self.arena_bytes = 0
        self.scratch_bytes = 0
        self.failing: dict[str, str] = {}

    def evaluate(self, e: Expr) -> V:
        """The value of an expression (expressions.py)."""
        raise NotImplementedError

    # -------------------------------------------------------------- what is known of indices

    def coefficient(self, e: Expr) -> int | None:
        """By how much the integer `e` grows from lane to lane; 0: the same in all; None: no fixed step."""
        if self.lane_var is None:
            return 0
        match e:
            case Const():
                return 0
            case Var():
                if e is self.lane_var:
                    return 1
                if e in self.inline:
                    return self.coefficient(self.inline[e])
                return 0 if self.env[e].w == 1 else None
            case Binary(op="add"):
                return _plus(self.coefficient(e.left), self.coefficient(e.right), 1)
            case Binary(op="sub"):
                return _plus(self.coefficient(e.left), self.coefficient(e.right), -1)
            case Binary(op="mul"):
                a, b = self.coefficient(e.left), self.coefficient(e.right)
                if a == 0 and b == 0:
                    return 0
                x, y = int_value(e.left), int_value(e.right)
                if y is not None and a is not None:
                    return a * y
                return b * x if x is not None and b is not None else None
            case Cast() if (
                e.dtype.is_int and e.dtype.bits >= 32 and e.value.dtype.is_int and e.value.dtype.bits >= 32
            ):
                return self.coefficient(e.value)
            case Load():
                if root_of(e.buffer) in self.overlays:
                    return 0 if self.overlays[root_of(e.buffer)].w == 1 else None
                return 0 if all(self.coefficient(i) == 0 for i in e.indices) else None
            case Unary() | Cast() | Binary() | Select() | Call():
                parts = [c for c in children(e) if isinstance(c, Expr)]
                return 0 if all(self.coefficient(c) == 0 for c in parts) else None
            case _:
                return None

    def first_lane(self, e: Expr) -> V:
        """The value of an index in lane 0."""
        if self.lane_var is None or self.lanes == 1:
            return self.evaluate(e)
        saved = self.env[self.lane_var], self.lanes, self.mask
        self.env[self.lane_var], self.lanes, self.mask = self.lane_base, 1, None
        try:
            return self.evaluate(e)
        finally:
            self.env[self.lane_var], self.lanes, self.mask = saved

    lane_base: V

    def known(self, condition: Expr) -> bool:
        """Whether an enclosing condition says so, or the ranges of the variables do."""
        if prove(condition, self.ranges) is True:
            return True
        return any(same(condition, f) for f in self.facts)

    def inside(self, index: Expr, extent: Expr, with_facts: bool = True) -> bool:
        """Whether 0 <= index < extent for certain."""
        interval = bounds(index, self.ranges)
        size = int_value(extent)
        low = interval is not None and interval[0] >= 0
        high = interval is not None and size is not None and interval[1] < size
        if low and high:
            return True
        if not with_facts or not self.facts:
            return False
        low = low or self.known(binary("ge", index, 0))
        return low and (high or self.known(binary("lt", index, extent)))

    def safe(self, buffer: Buffer, indices: Sequence[Expr]) -> bool:
        """Whether the element exists whatever conditions hold."""
        return all(self.inside(i, s, False) for i, s in zip(indices, buffer.shape, strict=True))

    def risky(self, e: Expr) -> bool:
        """Whether evaluating `e` where it is not wanted could go wrong."""
        match e:
            case Const() | Var():
                return False
            case Load():
                return not self.safe(e.buffer, e.indices) or any(self.risky(i) for i in e.indices)
            case Binary():
                checked = not e.dtype.is_float and e.op in (
                    "floordiv", "floormod", "truncdiv", "truncmod", "shl", "shr", "pow"
                )  # fmt: skip
                return (checked and int_value(e.right) is None) or self.risky(e.left) or self.risky(e.right)
            case _:
                return any(self.risky(c) for c in children(e) if isinstance(c, Expr))

    # -------------------------------------------------------------- failing

    def fail_unless(self, good: V, site: Site, shown: V | None = None) -> None:
        """Stop the kernel with an error at `site` where an active lane is not good."""
        bad = self.invert(good)
        if self.mask is not None:
            bad = self.raw("and", bad, self.mask)
        wrong = self.any_lane(bad)
        self.sites.append(site)
        out, on = self.fresh("bad"), self.fresh("ok")
        value = "0"
        if shown is not None and shown.w == 1:
            value = self.index(shown).name
        elif shown is not None:
            value = None  # type: ignore[assignment]
        self.branch(wrong, out, on, unlikely=True)
        self.closed = False
        self.lines.append(f"{out}:")
        self.places.append(self.line)
        if value is None:
            assert shown is not None
            many = self.splat(bad, shown.w)
            word = self.op(f"bitcast <{shown.w} x i1> {many.name} to i{shown.w}")
            first = self.op(f"call i{shown.w} @llvm.cttz.i{shown.w}(i{shown.w} {word}, i1 false)")
            self.declares[f"llvm.cttz.i{shown.w}"] = (
                f"declare i{shown.w} @llvm.cttz.i{shown.w}(i{shown.w}, i1)"
            )
            wide = self.op(f"zext i{shown.w} {first} to i64") if shown.w < 64 else first
            picked = self.op(f"extractelement {self.type_of(shown)} {shown.name}, i64 {wide}")
            value = self.index(V(picked, shown.dtype)).name
        self.put(f"call void @fail(ptr %ctx, i64 {len(self.sites)}, i64 %n, i64 {value})")
        self.finish()
        self.start(on)

    # -------------------------------------------------------------- storage

    def scope_of(self, buffer: Buffer) -> int:
        """The alias class of a buffer: arguments may overlap each other, everything else is apart."""
        root = root_of(buffer)
        if root.scope == "global":
            return 0
        return self.scopes.setdefault(root, len(self.scopes) + 1)

    def extent(self, e: Expr) -> V:
        """An extent or stride as i64."""
        size = int_value(e)
        return i64(size) if size is not None else self.index(self.first_lane(e))

    def take(self, size: int) -> int:
        """Bytes of the block's own memory; neighbours do not start at the same place of a page."""
        start = self.arena_bytes
        self.arena_bytes = -(-(start + size) // ALIGN) * ALIGN + ALIGN
        return start

    def place(self, buffer: Buffer) -> Place:
        """The storage of a buffer, made at first use."""
        found = self.places_of.get(buffer)
        if found is None:
            found = self.places_of[buffer] = self._place(buffer)
        root = root_of(buffer)
        if root in self.spread:
            assert self.thread_value is not None, f"{buffer.name} is read outside a thread"
            count = 1
            for s in root.static_shape:
                count *= s
            t = self.index(self.thread_value)
            step = self.op(f"mul nsw i64 {t.name}, {count * root.dtype.bytes}")
            return Place(
                self.op(f"getelementptr i8, ptr {found.base}, i64 {step}"),
                found.shape,
                found.strides,
                found.scope,
            )
        return found

    def _place(self, buffer: Buffer) -> Place:
        root = root_of(buffer)
        if buffer is not root or buffer.scope != "global":
            sizes = buffer.static_shape
            steps = [1] * len(sizes)
            for d in reversed(range(len(sizes) - 1)):
                steps[d] = steps[d + 1] * sizes[d + 1]
            shape, strides = tuple(map(i64, sizes)), tuple(map(i64, steps))
            if buffer is not root:
                base = self.places_of[root].base if root in self.places_of else self._root_place(root).base
            else:
                base = self._memory(root)
            return Place(base, shape, strides, self.scope_of(root))
        raise KeyError(buffer.name)

    def _root_place(self, root: Buffer) -> Place:
        found = self.places_of[root] = self._place(root)
        return found

    def _memory(self, root: Buffer) -> str:
        count = 1
        for s in root.static_shape:
            count *= s
        size = count * root.dtype.bytes * (self.threads if root in self.spread else 1)
        if size <= 256 and root.scope in ("var", "local") and root not in self.spread:
            return self.alloca(storage_type(root.dtype), max(count, 1))
        start = self.take(size)
        self.serial += 1
        name = f"%s{self.serial}"
        self.allocas.append(f"  {name} = getelementptr i8, ptr %arena, i64 {start}")
        return name

    def note(self, scope: int) -> str:
        """Alias metadata of an access."""
        return "" if scope == ANYWHERE else f", !alias.scope !{100 + 2 * scope}, !noalias !{101 + 2 * scope}"

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
            part = value if stride.name == "1" else self._times(value, stride)
            total = part if total is None else self.raw("add nsw", total, part)
        return i64(0) if total is None else total

    def _times(self, a: V, b: V) -> V:
        if a.literal and b.literal and a.w == 1:
            return i64(int(a.name) * int(b.name))
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
        root = root_of(e.buffer)
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
        if all(int_value(i) == 0 for i in indices) and root_of(buffer) is buffer:
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
        root = root_of(buffer)
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


def _plus(a: int | None, b: int | None, sign: int) -> int | None:
    return None if a is None or b is None else a + sign * b
