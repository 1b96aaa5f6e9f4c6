"""Counting loops of the back end's own: over rows, panels, and along a row in steps of lanes."""

from __future__ import annotations

from collections.abc import Callable

from tilebench.backends.cpu.expressions import Expressions
from tilebench.backends.cpu.text import V, compute_type, i64
from tilebench.ir.dtype import DType, int64


class Loops(Expressions):
    """Writes counting loops."""

    def count(self, low: V, high: V, step: int, body: Callable[[V], None]) -> None:
        """`for i in range(low, high, step)` over i64, the body once when that is certain."""
        if low.literal and high.literal:
            rounds = -(-(int(high.name) - int(low.name)) // step)
            if rounds <= 0:
                return
            if rounds == 1:
                body(low)
                return
        head, inside, leave = (self.fresh(h) for h in ("count", "body", "done"))
        slot = self.alloca("i64")
        self.put(f"store i64 {low.name}, ptr {slot}")
        static = low.literal and high.literal
        if static:
            self.start(inside)
        else:
            self.start(head)
            value = self.op(f"load i64, ptr {slot}")
            going = self.op(f"icmp slt i64 {value}, {high.name}")
            self.branch(going, inside, leave)
            self.start(inside)
        value = self.op(f"load i64, ptr {slot}")
        body(V(value, int64))
        following = self.op(f"add nsw i64 {value}, {step}")
        self.put(f"store i64 {following}, ptr {slot}")
        if static:
            going = self.op(f"icmp slt i64 {following}, {high.name}")
            self.branch(going, inside, leave)
        else:
            self.jump(head)
        self.start(leave)

    def spans(self, low: V, high: V, w: int, body: Callable[[V, int], None]) -> None:
        """[low, high) in steps of w lanes, what is left one by one: body(first, lanes)."""
        if low.literal and high.literal:
            a, b = int(low.name), int(high.name)
            cut = a + max(b - a, 0) // w * w
            self.count(low, i64(cut), w, lambda i: body(i, w))
            while w > 1 and cut < b:
                w //= 2
                if b - cut >= w:
                    at = cut
                    cut += (b - cut) // w * w
                    self.count(i64(at), i64(cut), w, lambda i, w=w: body(i, w))
            return
        length = self.raw("sub nsw", high, low)
        length = self.choose(self.compare("icmp slt", length, i64(0)), i64(0), length)
        whole = self.raw("and", length, i64(-w))
        cut_at = self.raw("add nsw", low, whole)
        self.count(low, cut_at, w, lambda i: body(i, w))
        self.count(cut_at, high, 1, lambda i: body(i, 1))

    def narrow(self, i: V, dtype: DType) -> V:
        """An i64 counter as a loop variable."""
        if i.literal:
            return V(i.name, dtype)
        kind = compute_type(dtype)
        return V(i.name, dtype) if kind == "i64" else V(self.op(f"trunc i64 {i.name} to {kind}"), dtype)
