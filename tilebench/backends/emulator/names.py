"""Elements as the user names them: coordinates of the tile or tensor, from the layouts that were chosen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from tilebench.layouts import FragmentLayout, SharedLayout

if TYPE_CHECKING:
    from tilebench.ir.thread import Memory
    from tilebench.ir.tile import Buffer


class Names:
    """Names of elements. layouts: of shared buffers and fragments; shapes: of row-major global arrays."""

    def __init__(
        self,
        layouts: Mapping[Buffer, FragmentLayout | SharedLayout] | None = None,
        shapes: Mapping[Memory, tuple[int, ...]] | None = None,
    ) -> None:
        self.layouts = layouts or {}
        self.shapes = shapes or {}

    def element(self, memory: Memory, index: int) -> str:
        """`As[3, 5]` for an element of shared or global memory; a flat index where no layout is known."""
        name = base(memory)
        layout = self.layouts.get(memory.origin) if memory.origin is not None else None
        if isinstance(layout, SharedLayout):
            each = memory.static_shape[0] // memory.versions
            version, offset = divmod(index, each)
            at = np.argwhere(layout.offsets() == offset)
            if len(at):
                copy = f" (copy {version} of {memory.versions})" if memory.versions > 1 else ""
                return f"{name}[{', '.join(str(int(i)) for i in at[0])}]{copy}"
        shape = self.shapes.get(memory, ())
        if len(shape) > 1 and 0 <= index < int(np.prod(shape)):
            return f"{name}[{', '.join(str(int(i)) for i in np.unravel_index(index, shape))}]"
        return f"{name}[{index}]"

    def register(self, memory: Memory, register: int, thread: int) -> str:
        """`acc[3, 5]` for what a thread's register holds; the register's number where no layout is known."""
        name = base(memory)
        layout = self.layouts.get(memory.origin) if memory.origin is not None else None
        if isinstance(layout, FragmentLayout) and register < layout.registers and thread < layout.threads:
            at = tuple(int(i) for i in layout.coordinate(thread, register))
            if all(0 <= i < n for i, n in zip(at, layout.shape, strict=True)):
                return f"{name}[{', '.join(map(str, at))}]"
        if memory.static_shape[0] == 1:
            return name
        return f"{name} (register {register})"


def base(memory: Memory) -> str:
    """The user's name of a buffer, the memory's own for scratch."""
    return memory.origin.name if memory.origin is not None else memory.name
