"""Boxes of buffers, as tile ops read and write them: clipped at the ends of tensors."""

from __future__ import annotations

import numpy as np

from tilebench.backends.interp.access import Access
from tilebench.backends.interp.arithmetic import settle
from tilebench.backends.interp.storage import Cell
from tilebench.errors import TypeTileError
from tilebench.ir.tile import Buffer, Region


class Tiles(Access):
    """Regions of one block."""

    def box(self, region: Region, lane: int | None) -> list[tuple[int, int]]:
        """(start, extent) in each dimension, for one thread when offsets differ between threads."""
        out: list[tuple[int, int]] = []
        for offset, extent in zip(region.offsets, region.extents, strict=True):
            value = self.evaluate(offset)
            if np.ndim(value):
                value = value.reshape(value.shape[0])[lane if lane is not None and value.shape[0] > 1 else 0]
            out.append((int(value), extent))
        return out

    def _clipped(
        self, region: Region, lane: int | None, shape: tuple[int, ...]
    ) -> tuple[tuple[slice, ...], tuple[slice, ...], bool]:
        """Slices of the buffer, the slices of the tile they fill, and whether the tile is all inside."""
        inside: list[slice] = []
        filled: list[slice] = []
        complete = True
        for dim, ((start, extent), size) in enumerate(zip(self.box(region, lane), shape, strict=True)):
            low, high = max(start, 0), min(start + extent, size)
            if low != start or high != start + extent:
                complete = False
                if region.buffer.scope != "global":
                    raise TypeTileError(
                        "TB273",
                        f"{region.buffer.name}: {start} to {start + extent - 1} is out of 0..{size - 1} "
                        f"in dimension {dim}, {self.where()}",
                        at=region.loc,
                        why=f"a {region.buffer.scope} buffer has no elements outside (only global tensors "
                        "are clipped)",
                        fix="keep the tile inside the buffer",
                    )
            high = max(high, low)
            if low >= size or high <= 0:
                low = high = 0
            inside.append(slice(low, high))
            filled.append(slice(low - start, high - start) if high > low else slice(0, 0))
        return tuple(inside), tuple(filled), complete

    def _tile(self, region: Region, lane: int | None) -> tuple[Cell, np.ndarray, np.ndarray | None]:
        """The cell, the region's buffer as an array without leading axes, and its validity."""
        cell, data = self.array(region.buffer)
        valid = self.validity(region.buffer, cell)
        for _ in range(cell.lead):
            pick = lane if lane is not None and data.shape[0] > 1 else 0
            data, valid = data[pick], None if valid is None else valid[pick]
        return cell, data, valid

    def read(self, region: Region, lane: int | None = None) -> np.ndarray:
        """A copy of the region's values, shape region.shape; zeros (or the safe value) outside a global
        tensor."""
        cell, data, valid = self._tile(region, lane)
        inside, filled, complete = self._clipped(region, lane, data.shape)
        part = cell.values(data[inside], region.dtype)
        if valid is not None and not valid[inside].all():
            first = tuple(
                int(c[0]) + s.start for c, s in zip(np.nonzero(~valid[inside]), inside, strict=True)
            )
            whole = region.loc is region.buffer.loc  # the op's own place says more than the allocation's
            raise self.uninitialised(region.buffer, first, None if whole else region.loc)
        if (sharing := cell.seen_by(region.buffer, data.shape)) is not None and not self.in_atomic:
            sharing.read(inside, True, self.coordinates, self.statement)
        if complete:
            return part.reshape(region.shape).copy()
        fill = self.safe.get(region.buffer, 0)
        out = np.full(region.extents, fill, region.dtype.compute_dtype)
        out[filled] = part
        return out.reshape(region.shape)

    def write(self, region: Region, values: np.ndarray, lane: int | None = None) -> None:
        """Store values (broadcast to region.shape), rounded; outside a global tensor they are dropped."""
        cell = self.cell(region.buffer)
        if cell.lead and lane is None and cell.data.shape[0] > 1:
            for every in range(cell.data.shape[0]):
                self.write(region, values, every)
            return
        cell, data, valid = self._tile(region, lane)
        inside, filled, _ = self._clipped(region, lane, data.shape)
        new = np.broadcast_to(values, region.shape).reshape(region.extents)[filled]
        stored = cell.stored(np.asarray(settle(new, region.dtype)), region.dtype)  # ops give plain float32
        if (sharing := cell.seen_by(region.buffer, data.shape)) is not None:
            if self.in_atomic:
                sharing.atomic(inside)
            else:
                sharing.write(inside, True, self.coordinates, self.statement, data[inside] != stored)
        data[inside] = stored
        if valid is not None:
            valid[inside] = True

    def values(self, buffer: Buffer) -> np.ndarray:
        """A copy of what a buffer holds, in compute form; private buffers with an axis of threads in front.

        Never written memory is NaN or 0xA5 bytes. For observers: time travel, printing, tests.
        """
        cell, data = self.array(buffer)
        return np.array(cell.values(data, buffer.dtype))
