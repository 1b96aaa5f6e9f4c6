"""What is known of indices: their steps from lane to lane, their ranges; and failing on bad ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilebench.backends.cpu.mathlib import Math
from tilebench.backends.cpu.text import V
from tilebench.errors import Loc
from tilebench.ir.dtype import DType
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


class Indices(Math):
    """Facts about indices, checks, failures."""

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
                if e.buffer.data in self.overlays:
                    return 0 if self.overlays[e.buffer.data].w == 1 else None
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


def _plus(a: int | None, b: int | None, sign: int) -> int | None:
    return None if a is None or b is None else a + sign * b
