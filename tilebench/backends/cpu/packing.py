"""Packing: the code that makes the panels of a tile, or finds them made (see packs.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilebench.backends.cpu.gemm import Panels, panels
from tilebench.backends.cpu.packs import Pack, Side, Step, keyed
from tilebench.backends.cpu.reductions import Reductions
from tilebench.backends.cpu.storage import ANYWHERE
from tilebench.backends.cpu.text import V, compute_type, i64, vector
from tilebench.ir.dtype import DType, float32, float64, int32, int64
from tilebench.ir.expr import Var, const, is_const
from tilebench.ir.tile import Buffer, Region
from tilebench.ops.copy import Copy

EMPTY, BUSY, READY = 0, 1, 2
"""States of a shared tile: an i32 each, in the table of the launch."""

CONTEXT_SLOTS = 2
"""i64 of the context that a pack has before those of its keys (low, factor): its states, its memory."""


@dataclass(frozen=True)
class Source:
    """A matrix to be packed: address, row stride, and whether a row runs along K."""

    base: str
    rows: V
    along_k: bool


def wide_type(dtype: DType) -> DType:
    """What operands of a product are multiplied as."""
    return float64 if dtype.bits == 64 else float32 if dtype.is_float else int32


def pack_slots(pack: Pack) -> int:
    """i64 of the context that the pack takes."""
    return CONTEXT_SLOTS + 2 * len(pack.keys)


class Packing(Reductions):
    """Writes packed copies."""

    tile_of_host: tuple[int, int] = (6, 16)
    sides: dict[Buffer, Side]
    untouched: set[Buffer]
    """Tensors that the kernel does not write."""
    packs: list[Pack]
    packed: dict[Buffer, str]
    """Tiles that are panels: where the address of the panels stands."""
    steps: list[Step]

    def panels_of(self, side: Side, dtype: DType) -> list[Panels]:
        """How the tile is cut."""
        lanes = max(self.width_of_host * 4 // wide_type(dtype).bytes, 1)
        return panels(side.operand, side.size, lanes, self.tile_of_host, compute_type(wide_type(dtype)))

    def pack(self, op: Copy, side: Side, rounds: dict[Var, int] | None = None) -> bool:
        """Write a copy as panels; False where it is not of that kind, or not worth it: an A that is copied
        once in a block is read as fast where it lies.
        """
        source, target = op.source, op.destination.buffer
        root = source.buffer
        wide = [d for d, e in enumerate(source.extents) if e != 1]
        if (
            len(wide) != 2
            or 1 in op.destination.extents
            or root.scope != "global"
            or root not in self.untouched
            or root.data is not root
            or self.place(root).strides[wide[1]].name != "1"
            or not (op.outside is None or is_const(op.outside))
            or not (side.operand == "B" or any(s.stop is not None for s in self.steps))
        ):
            return False
        rounds = rounds or {}
        keys, units = keyed(source, rounds)
        pad = self.width_of_host
        size = (side.size * side.depth + pad) * wide_type(target.dtype).bytes
        size = -(-size // 64) * 64
        pack = Pack(root, size, keys, units, tuple(self.steps), rounds)
        first = sum(map(pack_slots, self.packs))
        self.packs.append(pack)
        self.shared_tile(pack, first, target, lambda to: self._fill(op, wide, side, to))
        return True

    # -------------------------------------------------------------- the table

    def shared_tile(self, pack: Pack, first: int, target: Buffer, fill: Callable[[str], None]) -> None:
        """Set the address of the tile: that of a ready one, or of one that `fill` makes.

        Who finds a tile that another is making makes one for itself, so that nobody waits.
        """
        number = len(self.packs)
        self.serial += 1
        private = f"%s{self.serial}"
        start = self.take(pack.bytes)
        self.allocas.append(f"  {private} = getelementptr i8, ptr %arena, i64 {start}")
        slot, won, mark = self.alloca("ptr"), self.alloca("i1"), self.alloca("ptr")
        self.allocas.append(f"  store ptr {private}, ptr {slot}")
        self.packed[target] = slot
        look, claim, make, publish, have, done = (
            self.fresh(f"{name}{number}_") for name in ("look", "claim", "make", "publish", "have", "done")
        )

        def word(k: int, kind: str = "i64") -> str:
            return self.op(f"load {kind}, ptr {self.op(f'getelementptr i64, ptr %packs, i64 {first + k}')}")

        states, memory = word(0, "ptr"), word(1, "ptr")
        self.put(f"store ptr {private}, ptr {slot}")
        self.put(f"store i1 false, ptr {won}")
        self.branch(self.op(f"icmp eq ptr {states}, null"), make, look)
        self.start(look)
        at = i64(0)
        for d, (key, unit) in enumerate(zip(pack.keys, pack.units, strict=True)):
            low, factor = (V(word(CONTEXT_SLOTS + 2 * d + k), int64) for k in (0, 1))
            offset = self.raw("sub nsw", self.index(self.evaluate(key)), low)
            if unit > 1:
                offset = self.raw("udiv", offset, i64(unit))
            at = self.plus(at, self.raw("mul nsw", offset, factor))
        state = self.op(f"getelementptr i32, ptr {states}, i64 {at.name}")
        self.put(f"store ptr {state}, ptr {mark}")
        place = self.raw("mul nsw", at, i64(pack.bytes))
        shared = self.op(f"getelementptr i8, ptr {memory}, i64 {place.name}")
        now = self.op(f"load atomic i32, ptr {state} acquire, align 4")
        self.branch(self.op(f"icmp eq i32 {now}, {READY}"), have, claim)
        self.start(claim)
        pair = self.op(f"cmpxchg ptr {state}, i32 {EMPTY}, i32 {BUSY} monotonic monotonic")
        mine = self.op(f"extractvalue {{ i32, i1 }} {pair}, 1")
        self.put(f"store i1 {mine}, ptr {won}")
        chosen = self.op(f"select i1 {mine}, ptr {shared}, ptr {private}")
        self.put(f"store ptr {chosen}, ptr {slot}")
        self.start(make)
        fill(self.op(f"load ptr, ptr {slot}"))
        self.branch(self.op(f"load i1, ptr {won}"), publish, done)
        self.start(publish)
        self.put(f"store atomic i32 {READY}, ptr {self.op(f'load ptr, ptr {mark}')} release, align 4")
        self.jump(done)
        self.start(have)
        self.put(f"store ptr {shared}, ptr {slot}")
        self.start(done)

    # -------------------------------------------------------------- panels

    def _fill(self, op: Copy, wide: list[int], side: Side, to: str) -> None:
        """Pack the source into panels at `to`; a tile that is not all there is copied, filled up, first."""
        region, target = op.source, op.destination.buffer
        box = self.box(region)
        there = self.all_there(region, box.clips)
        source = self.pointer(box.place.base, region.dtype, self.flat(box.place, list(box.offsets)))
        rows = box.place.strides[wide[0]]
        if there is not None:
            base_slot, rows_slot = self.alloca("ptr"), self.alloca("i64")
            self.put(f"store ptr {source}, ptr {base_slot}")
            self.put(f"store i64 {rows.name}, ptr {rows_slot}")
            edge, inside = self.fresh("edge"), self.fresh("inside")
            self.branch(there.name, inside, edge)
            self.start(edge)
            extents = tuple(region.extents[d] for d in wide)
            whole = Buffer(f"edge_{target.name}", tuple(map(const, extents)), region.dtype, "shared")
            filled = Region(whole, (const(0), const(0)), extents)
            moved = self.move_rows(
                Copy(region, filled, outside=op.outside, loc=op.loc)  # the tile's own type comes in packing
            )
            assert moved, "a copy between contiguous rows"
            self.put(f"store ptr {self.place(whole).base}, ptr {base_slot}")
            self.put(f"store i64 {extents[1]}, ptr {rows_slot}")
            self.start(inside)
            source = self.op(f"load ptr, ptr {base_slot}")
            rows = V(self.op(f"load i64, ptr {rows_slot}"), int64)
        matrix = Source(source, rows, side.along == 1)
        write = self._turn if matrix.along_k else self._straight
        write(matrix, region.dtype, target.dtype, side, to)

    def all_there(self, region: Region, clips: tuple[tuple[V, V] | None, ...]) -> V | None:
        """Whether all of the region exists; None: it does for certain."""
        total: V | None = None
        for clip, extent in zip(clips, region.extents, strict=True):
            if clip is None:
                continue
            length = self.raw("sub nsw", clip[1], clip[0])
            good = self.compare("icmp eq", length, i64(extent))
            total = good if total is None else self.raw("and", total, good)
        return total

    def _take(self, source: Source, at: V, dtype: DType, tile: DType, w: int) -> V:
        """Elements of the source as they are multiplied."""
        v = self.convert(self.fetch(source.base, dtype, at, 1, ANYWHERE, w=w), tile)
        return self.convert(v, wide_type(tile))

    def _keep(self, to: str, at: V, v: V) -> None:
        p = self.pointer(to, v.dtype, at)
        self.put(f"store {vector(compute_type(v.dtype), v.w)} {v.name}, ptr {p}, align {v.dtype.bytes}")

    def _straight(self, source: Source, dtype: DType, tile: DType, side: Side, to: str) -> None:
        """Rows of the source lie across K: pieces of a row go to the panels."""

        def row(k: V) -> None:
            start = self.times(k, source.rows)
            for group in self.panels_of(side, tile):

                def panel(p: V, group: Panels = group, start: V = start) -> None:
                    column = self.plus(self.times(p, i64(group.width)), i64(group.first))
                    at = self.plus(self.times(column, i64(side.depth)), self.times(k, i64(group.width)))
                    done = 0
                    w = self.width_of_host
                    while done < group.width:
                        while w > group.width - done:
                            w //= 2
                        v = self._take(source, self.plus(start, self.plus(column, i64(done))), dtype, tile, w)
                        self._keep(to, self.plus(at, i64(done)), v)
                        done += w

                self.count(i64(0), i64(group.count), 1, panel)

        self.count(i64(0), i64(side.depth), 1, row)

    def _turn(self, source: Source, dtype: DType, tile: DType, side: Side, to: str) -> None:
        """Rows of the source run along K: squares are transposed. A store may reach into the next row of
        panels, which is written after it.
        """
        for group in self.panels_of(side, tile):

            def panel(p: V, group: Panels = group) -> None:
                first = self.plus(self.times(p, i64(group.width)), i64(group.first))
                base = self.times(first, i64(side.depth))

                def square(k: V, w: int) -> None:
                    parts: list[list[V]] = []
                    for chunk in range(0, group.width, w):
                        lines = [
                            self._take(
                                source,
                                self.plus(self.times(self.plus(first, i64(r)), source.rows), k),
                                dtype,
                                tile,
                                w,
                            )
                            for r in range(chunk, min(chunk + w, group.width))
                        ]
                        blank = V("poison" if w > 1 else "0", lines[0].dtype, w)
                        parts.append(self.exchange(lines + [blank] * (w - len(lines))))
                    for r in range(w):
                        at = self.plus(base, self.times(self.plus(k, i64(r)), i64(group.width)))
                        for number, part in enumerate(parts):
                            self._keep(to, self.plus(at, i64(number * w)), part[r])

                self.spans(i64(0), i64(side.depth), self.width_of_host, square)

            self.count(i64(0), i64(group.count), 1, panel)

    def exchange(self, lines: list[V]) -> list[V]:
        """The transpose of w vectors of w lanes: off-diagonal blocks change places, sizes 1, 2, 4 ..."""
        w = len(lines)
        lines = list(lines)
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


__all__ = ["Packing"]
