"""Row reductions: vectors of partial results, then across the lanes."""

from __future__ import annotations

from tilebench.backends.cpu.copies import Copies
from tilebench.backends.cpu.text import V, compute_type, i64, suffix, vector
from tilebench.ops.reduce import Reduce

_FOLD = {
    "sum": "add", "abssum": "add", "max": "max", "min": "min", "absmax": "max", "bitand": "bitand",
    "bitor": "bitor",
    "bitxor": "bitxor", "any": "or", "all": "and",
}  # fmt: skip


class Reductions(Copies):
    """Writes reductions."""

    def fold_rows(self, op: Reduce) -> bool:
        """Write a reduction along a contiguous dimension; False where it is not of that kind."""
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
        if b.buffer.scope == "global" or (b.buffer.scope == "var" and b.buffer.data in self.spread):
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
