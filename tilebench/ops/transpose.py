"""`T.transpose`: a 2-D tile written with its axes exchanged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilebench.errors import TypeTileError
from tilebench.ir.tile import Buffer, Kernel, Region, Stmt
from tilebench.ops.base import BlockValues, Cost, Op, as_region, register
from tilebench.ops.regions import Walk, extents_of, is_private, region_bytes, shape_text, writable


@register
@dataclass(frozen=True, eq=False)
class Transpose(Op):
    """destination[j, i] = source[i, j]; converted as by T.copy, zero outside a global source, clipped
    stores."""

    source: Region
    destination: Region

    @property
    def reads(self) -> tuple[Region, ...]:
        return (self.source,)

    @property
    def writes(self) -> tuple[Region, ...]:
        return (self.destination,)

    @property
    def matrix(self) -> tuple[int, int]:
        """(rows, columns) of the source, leading unit dimensions left out."""
        rows, columns = self.source.shape[-2:]
        return rows, columns

    def check(self) -> None:
        a, b = self.source, self.destination
        for side, region in (("source", a), ("destination", b)):
            if len(region.shape) < 2 or any(e != 1 for e in region.shape[:-2]):
                raise TypeTileError(
                    "TB252",
                    f"transpose: the {side} {region.buffer.name} is {shape_text(region.shape)}, not a matrix",
                    why="transpose exchanges the last two dimensions; those in front must be 1",
                    fix=f"pass a 2-D slice of {region.buffer.name}",
                )
        if a.shape[-2:] != b.shape[-2:][::-1]:
            rows, columns = self.matrix
            raise TypeTileError(
                "TB253",
                f"transpose: the source {a.buffer.name} is {rows}x{columns}, so the destination must be "
                f"{columns}x{rows}; "
                f"{b.buffer.name} is {shape_text(b.shape[-2:])}",
                fix=f"allocate {b.buffer.name} with shape ({columns}, {rows})",
            )
        if a.buffer is b.buffer:
            raise TypeTileError(
                "TB254",
                f"transpose: source and destination are both {a.buffer.name}",
                why="elements would be overwritten before they are read",
                fix="transpose into another buffer",
            )
        writable(a, "transpose")
        writable(b, "transpose")

    def run(self, block: BlockValues) -> None:
        values = block.read(self.source).reshape(self.matrix)
        block.write(self.destination, values.T.reshape(self.destination.shape))

    def cost(self) -> Cost:
        return Cost(
            read={self.source.buffer.scope: region_bytes(self.source)},
            written={self.destination.buffer.scope: region_bytes(self.destination)},
        )

    def expand(self) -> Stmt:
        rows, columns = self.matrix
        walk = Walk((columns, rows))
        j, i = walk.vars
        source = [i] * (rows != 1) + [j] * (columns != 1)
        destination = [j] * (columns != 1) + [i] * (rows != 1)
        return walk.parallel(
            walk.write(self.destination, destination, walk.read(self.source, source)),
            private=is_private(self.source, self.destination),
        )


def transpose(src: Buffer | Region, dst: Buffer | Region, annotations: Any = None) -> Stmt:
    """`dst[j, i] = src[i, j]` for 2-D tiles; an element as an operand marks where the tile starts."""
    given, wanted = extents_of(src), extents_of(dst)
    a = as_region(src, "the source", None if wanted is None else wanted[:-2] + wanted[-2:][::-1])
    b = as_region(dst, "the destination", None if given is None else given[:-2] + given[-2:][::-1])
    return Transpose(a, b)


def _example(rows: int, columns: int, dtype: str) -> Callable[[], Kernel]:
    def build() -> Kernel:
        from tilebench.ops.copy.spec import copy
        from tilebench.ops.examples import Draft

        d = Draft(f"transpose_{dtype}")
        a, b = d.tensor("A", (rows, columns), dtype), d.tensor("B", (columns, rows), dtype, "out")
        one, two = d.shared("one", (rows, columns), dtype), d.shared("two", (columns, rows), dtype)
        d.add(copy(a, one), transpose(one, two), copy(two, b))
        return d.kernel()

    build.__name__ = f"transpose_{dtype}_{rows}x{columns}"
    return build


Transpose.examples = (
    _example(64, 32, "float16"),
    _example(33, 48, "float32"),
    _example(1, 20, "int8"),
    _example(16, 16, "bfloat16"),
)
