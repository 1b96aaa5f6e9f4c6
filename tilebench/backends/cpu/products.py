"""Products: operands where they lie or converted into scratch, then a call of the micro-kernel."""

from __future__ import annotations

from tilebench.backends.cpu.copies import Box
from tilebench.backends.cpu.gemm import Product, micro_kernel
from tilebench.backends.cpu.indices import Place
from tilebench.backends.cpu.packing import Packing, wide_type
from tilebench.backends.cpu.text import V, compute_type, i64, storage_type, vector
from tilebench.ir.dtype import DType
from tilebench.ir.tile import Region
from tilebench.ops.gemm import Gemm


class Products(Packing):
    """Writes products."""

    functions: dict[Product, str]
    function_text: list[str]
    scratch_places: dict[tuple[str, int], str]

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
        """Operands as panels, or straight from tiles that are f32 with contiguous columns of B, else through
        scratch.

        depth: how much of K counts, if not all.
        """
        m, n, k = op.mnk
        wide = wide_type(op.c.dtype)
        depths = [k if r.buffer in self.packed else 0 for r in (op.a, op.b)]
        if depths[0]:
            a_ptr, am, ak = self.op(f"load ptr, ptr {self.packed[op.a.buffer]}"), 0, 0
        else:
            a_ptr, a_rows, a_cols = self._operand(op.a, wide, "A", (k, m) if op.transpose_a else (m, k))
            am, ak = (a_cols, a_rows) if op.transpose_a else (a_rows, a_cols)
        if depths[1]:
            b_ptr, bk = self.op(f"load ptr, ptr {self.packed[op.b.buffer]}"), 0
        elif op.transpose_b:
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
            *depths,
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
            start = self.plus(flat, self.times(i, i64(rows)))
            to = self.times(i, i64(n))

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
            start = self.plus(flat, self.times(i, i64(rows)))
            at = self.times(i, i64(n))

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
            at = self.plus(self.plus(flat, self.times(i, i64(rows))), j)
            return self.convert(
                self.fetch(box.place.base, region.dtype, at, 1, box.place.scope, w=lanes), wide
            )

        def keep(i: V, j: V, v: V) -> None:
            p = self.pointer(out, wide, self.plus(self.times(j, i64(n)), i))
            self.put(f"store {vector(kind, v.w)} {v.name}, ptr {p}, align {wide.bytes}")

        def square(i: V, j: V) -> None:
            lines = [fetch(self.plus(i, i64(r)), j, w) for r in range(w)]
            for c, v in enumerate(self.exchange(lines)):
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
