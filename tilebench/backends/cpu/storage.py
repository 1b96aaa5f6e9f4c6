"""Storage of buffers: tensors, the block's own memory, one copy for each thread; and what may be the same."""

from __future__ import annotations

from tilebench.backends.cpu.indices import Indices, Place
from tilebench.backends.cpu.text import V, i64, storage_type
from tilebench.ir.expr import Expr, int_value
from tilebench.ir.tile import Buffer

ALIGN = 64

ANYWHERE = -1
"""The alias class of an access that may be to any memory."""


class Storage(Indices):
    """Places of buffers."""

    def scope_of(self, buffer: Buffer) -> int:
        """The alias class of a buffer: arguments may overlap each other, everything else is apart."""
        root = buffer.data
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
        root = buffer.data
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
        root = buffer.data
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
