"""Partitioned -> Placed: a layout for every fragment, every shared buffer and every Parallel nest, with
reasons.

1. strict: what the selected instructions and the user's annotations fix;
2. common: along uses, until nothing changes: a nest takes the layout of a fragment that it visits element by
element, the
   other fragments take the nest's layout on the dimensions that they have;
3. free: the nest with the most memory traffic takes a vectorised partition, and 2. again, until all have one.

Where two fragments of a nest disagree the nest follows one of them and lowering converts the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tilebench.errors import LayoutError, Loc
from tilebench.ir.rewrite import children, walk
from tilebench.ir.tile import Buffer, Kernel, Parallel, Region, Stmt, TileOp
from tilebench.layouts import (
    FragmentLayout,
    SharedLayout,
    bank_conflicts,
    fragment_offsets,
    from_function,
    padded,
    reread,
    row_major,
    swizzled,
    widest_vector,
)  # fmt: skip
from tilebench.ops.base import Instruction, Op
from tilebench.passes.nodes import Node, node_of
from tilebench.passes.place_rules import (  # fmt: skip
    AnyLayout,
    affine_access,
    anchored,
    derived,
    everywhere,
    find_by_place,
    free_layout,
    memory_weight,
    node_layout,
    pulled_back,
)
from tilebench.passes.stages import Partitioned, Placed, Reason
from tilebench.targets import Target

SMALL = 16
"""Elements up to which a fragment that no parallel loop touches is kept by every thread."""


@dataclass
class Context:
    """What `Op.place` sees (ops.base.PlaceContext)."""

    threads: int
    warps: int
    target: Target
    partitioned: Partitioned
    layouts: Mapping[Buffer, AnyLayout]

    def instruction(self, op: TileOp) -> Instruction:
        """What `select` chose for the op."""
        found = find_by_place(self.partitioned.selected.instructions, op)
        if found is not None:
            return found
        assert isinstance(op, Op)
        return next(o.instruction for o in op.offers(self.target, self.threads) if o.legal)

    def warp_grid(self, op: TileOp) -> tuple[int, int]:
        """(warps along M, warps along N) of a gemm."""
        return find_by_place(self.partitioned.warp_grids, op) or (self.warps, 1)

    def layout(self, buffer: Buffer) -> FragmentLayout | SharedLayout | None:
        """The layout fixed so far, if any."""
        return self.layouts.get(buffer)


def context_of(partitioned: Partitioned, layouts: Mapping[Buffer, AnyLayout]) -> Context:
    """The context of the ops of a partitioned kernel."""
    threads = partitioned.kernel.thread_count
    return Context(threads, max(1, threads // 32), partitioned.selected.typed.target, partitioned, layouts)


def place(partitioned: Partitioned) -> Placed:
    """Choose layouts. Raises LayoutError for a user's layout that does not fit its buffer."""
    return _Placer(partitioned).run()


class _Placer:
    """The state of one inference."""

    def __init__(self, partitioned: Partitioned) -> None:
        self.partitioned = partitioned
        self.kernel: Kernel = partitioned.kernel
        self.threads = self.kernel.thread_count
        self.layouts: dict[Buffer, AnyLayout] = {}
        self.reasons: dict[Buffer | Parallel, Reason] = {}
        self.per_thread = partitioned.selected.typed.per_thread
        self.nodes = [n for s in self._statements(self.kernel.body) if (n := node_of(s)) is not None]
        self.chosen: dict[Node, FragmentLayout] = {}
        self.because: dict[Node, Reason] = {}
        self.reduced = self._reduced_dims()
        self.buffers = _all_buffers(self.kernel)

    def _statements(self, s: Stmt) -> Iterator[Stmt]:
        if isinstance(s, Parallel | TileOp):
            if s not in self.per_thread:
                yield s
            return
        for child in children(s):
            if isinstance(child, Stmt):
                yield from self._statements(child)

    def run(self) -> Placed:
        """All of it."""
        self._annotated()
        wishes = self._required()
        self._scalars()
        self._propagate()
        while (node := self._heaviest_free()) is not None:
            dims = self._node_reduced(node)
            loop, reason = free_layout(node, self.threads, dims, self.layouts)
            self.chosen[node] = loop
            self.because[node] = reason
            if isinstance(node.origin, Parallel):
                self.reasons[node.origin] = reason
            self._derive(node, loop, reason)
            self._propagate()
        self._leftover()
        loops: dict[Parallel, FragmentLayout] = {}
        for node in self.nodes:
            if isinstance(node.origin, Parallel):
                loop, reason = node_layout(node, self.layouts, self.threads, self._node_reduced(node))
                loops[node.origin] = loop
                self.reasons[node.origin] = reason
                self.chosen[node] = loop
        self._shared(wishes)
        return Placed(self.partitioned, self.layouts, loops, self.reasons)

    def _fix(self, buffer: Buffer, layout: AnyLayout, reason: Reason) -> bool:
        if buffer in self.layouts:
            return False
        self.layouts[buffer] = layout
        self.reasons[buffer] = reason
        for view in self.buffers:
            if view.scope != "fragment" or view in self.layouts or not isinstance(layout, FragmentLayout):
                continue
            related = view.view_of is buffer or buffer.view_of is view
            related = related or (view.view_of is not None and view.view_of is buffer.view_of)
            if related and prod(view.static_shape) == layout.size:
                why = Reason(f"the same registers as {buffer.name}", view.loc, of=buffer.name)
                self._fix(view, layout.reshape(view.static_shape), why)
        return True

    # -- strict ----------------------------------------------------------------------------------------------

    def _annotated(self) -> None:
        given: Mapping[Buffer, Any] = self.kernel.attributes.get("layouts", {})
        for buffer, layout in given.items():
            if buffer.scope == "global":
                continue
            found = _user_layout(buffer, layout, self.threads)
            if found is not None:
                self._fix(buffer, found, Reason("given with T.annotate_layout", buffer.loc))

    def _required(self) -> list[tuple[Buffer, AnyLayout, Reason]]:
        context = context_of(self.partitioned, self.layouts)
        wishes: list[tuple[Buffer, AnyLayout, Reason]] = []
        yielding: list[tuple[Buffer, AnyLayout, Reason]] = []
        for op in walk(self.kernel.body):
            if not isinstance(op, Op):
                continue
            for need in op.place(context):
                reason = Reason(need.reason, need.at or op.loc)
                if need.strict and not need.yields:
                    self._fix(need.buffer, need.layout, reason)
                else:
                    (yielding if need.strict else wishes).append((need.buffer, need.layout, reason))
        for buffer, layout, reason in yielding:
            self._fix(buffer, layout, reason)
        for buffer, layout, reason in wishes:
            if isinstance(layout, FragmentLayout):
                self._fix(buffer, layout, reason)
        return wishes

    def _scalars(self) -> None:
        for buffer in self.buffers:
            if buffer.scope == "fragment" and prod(buffer.static_shape) == 1:
                layout = everywhere(buffer.static_shape, self.threads)
                self._fix(buffer, layout, Reason("one element: every thread has it", buffer.loc))

    # -- common ----------------------------------------------------------------------------------------------

    def _propagate(self) -> None:
        changed = True
        while changed:
            changed = False
            for node in self.nodes:
                if node in self.chosen and all(a.buffer in self.layouts for a in node.of("fragment")):
                    continue
                loop = self.chosen.get(node)
                because = self.because.get(node, Reason("", node.loc))
                if loop is None:
                    if node.layout is not None and node.layout.threads == self.threads:
                        loop = node.layout
                    else:
                        found = anchored(node, self.layouts, self.threads)
                        if found is None:
                            continue
                        loop, access = found
                        because = Reason(access.buffer.name, node.loc, of=access.buffer.name)
                    self.chosen[node] = loop
                    self.because[node] = because
                changed = self._derive(node, loop, because) or changed

    def _derive(self, node: Node, loop: FragmentLayout, because: Reason) -> bool:
        changed = False
        for access in node.of("fragment"):
            if access.buffer in self.layouts:
                continue
            layout = derived(node, access, loop)
            if layout is None:
                continue
            whole = len(layout.shape) == len(node.extents) and access.buffer.static_shape == node.extents
            how = "the same places as in" if whole else "projected on its dimensions from"
            source = because.text if because.text and because.text.isidentifier() else "the loop"
            text = (
                f"{how} {source}"
                if source != "the loop"
                else f"follows the loop: {because.text or 'its layout'}"
            )
            causes = tuple(r.at for b in [because] if (r := b).at is not None)
            self._fix(access.buffer, layout, Reason(text, node.loc, causes, because.of))
            changed = True
        return changed

    # -- free ------------------------------------------------------------------------------------------------

    def _heaviest_free(self) -> Node | None:
        waiting = [
            n
            for n in self.nodes
            if n not in self.chosen and any(a.buffer not in self.layouts for a in n.of("fragment"))
        ]
        if not waiting:
            return None
        return max(waiting, key=lambda n: (memory_weight(n), prod(n.extents)))

    def _reduced_dims(self) -> set[tuple[Buffer, int]]:
        marks: set[tuple[Buffer, int]] = set()
        before = -1
        while len(marks) != before:
            before = len(marks)
            for node in self.nodes:
                dims = self._dims_of(node, marks)
                if node.reduced is not None:
                    dims = dims | {node.reduced}
                for access in node.of("fragment"):
                    affine = affine_access(access, node.names)
                    for d, (coefficients, _) in enumerate(affine or ()):
                        if any(c and k in dims for k, c in enumerate(coefficients)):
                            marks.add((access.buffer, d))
        return marks

    def _dims_of(self, node: Node, marks: set[tuple[Buffer, int]]) -> set[int]:
        dims: set[int] = set()
        for access in node.of("fragment"):
            affine = affine_access(access, node.names)
            for d, (coefficients, _) in enumerate(affine or ()):
                if (access.buffer, d) in marks:
                    dims |= {k for k, c in enumerate(coefficients) if c}
        return dims

    def _node_reduced(self, node: Node) -> frozenset[int]:
        dims = self._dims_of(node, self.reduced)
        return frozenset(dims | ({node.reduced} if node.reduced is not None else set()))

    def _leftover(self) -> None:
        for buffer in self.buffers:
            if buffer.scope != "fragment" or buffer in self.layouts:
                continue
            shape = buffer.static_shape
            touched = any(a.buffer is buffer for n in self.nodes for a in n.accesses)
            if not touched or prod(shape) <= SMALL:
                layout: FragmentLayout = everywhere(shape, self.threads)
                reason = Reason("no parallel loop spreads it, so every thread has all of it", buffer.loc)
            else:
                node = Node(self.kernel.body, node_names(len(shape)), shape, (), buffer.loc)
                layout, reason = free_layout(node, self.threads)
            self._fix(buffer, layout, reason)

    # -- shared ----------------------------------------------------------------------------------------------

    def _shared(self, wishes: list[tuple[Buffer, AnyLayout, Reason]]) -> None:
        viewed = {b.data for b in self.buffers if b.view_of is not None}
        for root in viewed:
            self._views(root)
        for buffer in self.buffers:
            if buffer.scope != "shared" or buffer in self.layouts:
                continue
            bits = max(8, buffer.dtype.bits)
            if buffer in viewed or buffer.view_of is not None:
                self._fix(
                    buffer,
                    row_major(buffer.static_shape or (1,), bits),
                    Reason("row-major, since a view rereads it", buffer.loc),
                )
                continue
            wished = [
                (layout, reason)
                for b, layout, reason in wishes
                if b is buffer and isinstance(layout, SharedLayout)
            ]
            if wished:
                self._fix(buffer, *wished[0])
                continue
            layout, reason = self._fewest_conflicts(buffer, bits)
            self._fix(buffer, layout, reason)

    def _views(self, root: Buffer) -> None:
        """A layout that a shared tile or one of its views was given holds for the others too."""
        family = [b for b in self.buffers if b.scope == "shared" and b.data is root]
        given = next((b for b in family if b in self.layouts), None)
        if given is None:
            return
        layout = self.layouts[given]
        assert isinstance(layout, SharedLayout), "shared tiles have shared layouts"
        for buffer in family:
            shape, bits = buffer.static_shape or (1,), max(8, buffer.dtype.bits)
            same = layout if buffer is given else reread(layout, shape, bits)
            if same is None:
                raise LayoutError(
                    "TB309",
                    f"the layout of {given.name} takes elements of {buffer.name} apart",
                    at=given.loc,
                    why=f"{buffer.name} reads the same memory in elements of {bits} bits",
                    fix=f"give {given.name} a layout that keeps {bits // 8} bytes together, or leave it out",
                )
            why = Reason(f"the same memory as {given.name}", buffer.loc, of=given.name)
            if not self._fix(buffer, same, why) and self.layouts[buffer] != same:
                raise LayoutError(
                    "TB309",
                    f"{given.name} and {buffer.name} are one memory and have different layouts",
                    at=buffer.loc or given.loc,
                    why="a view reads the bytes where the other wrote them",
                    fix="give a layout to one of them",
                )

    def _fewest_conflicts(self, buffer: Buffer, bits: int) -> tuple[SharedLayout, Reason]:
        shape = buffer.static_shape
        plain = row_major(shape or (1,), bits)
        if len(shape) != 2 or bits not in (8, 16, 32, 64):
            return plain, Reason("row-major", buffer.loc)
        patterns: list[tuple[FragmentLayout, Loc | None]] = []
        for node in self.nodes:
            for access in node.accesses:
                if access.buffer is not buffer:
                    continue
                loop = self.chosen.get(node)
                if loop is None:
                    loop, _ = node_layout(node, self.layouts, self.threads, self._node_reduced(node))
                    self.chosen[node] = loop
                fragment = derived(node, access, loop)
                if fragment is not None and fragment not in [p for p, _ in patterns]:
                    patterns.append((fragment, node.loc))
        size = bits // 8

        def cost(layout: SharedLayout) -> tuple[int, int]:
            total, worst = 0, 1
            for fragment, _ in patterns:
                vector = widest_vector(fragment, layout, size)
                ways = sampled_ways(fragment, layout, size, vector)
                total += ways * -(-fragment.registers // vector) * max(1, vector * size // 4)
                worst = max(worst, ways)
            return total, worst

        if not patterns:
            return plain, Reason("row-major", buffer.loc)
        base, ways = cost(plain)
        if ways == 1:
            return plain, Reason("row-major: its accesses have no bank conflicts", buffer.loc)
        best, layout, name = base, plain, "row-major"
        pad = max(1, 4 // size)
        candidates: list[tuple[str, Callable[[], SharedLayout]]] = [
            ("swizzled rows", lambda: swizzled(shape, bits)),
            ("rows padded by 32 bytes", lambda: padded(shape, bits, max(1, 32 // size))),
            ("rows padded by 16 bytes", lambda: padded(shape, bits, max(1, 16 // size))),
        ]
        if not self._filled_asynchronously(buffer):  # cp.async moves 16 bytes, whose start must be aligned
            candidates.append(("rows padded by 4 bytes", lambda: padded(shape, bits, pad)))
        for title, make in candidates:
            candidate = make()
            if (found := cost(candidate)[0]) < best:
                best, layout, name = found, candidate, title
        at = next((loc for _, loc in patterns if loc is not None), buffer.loc)
        return layout, Reason(f"{name}: {ways}-way bank conflicts otherwise", at)

    def _filled_asynchronously(self, buffer: Buffer) -> bool:
        chosen = self.partitioned.selected.instructions
        return any(
            i.name.startswith("cp.async") and any(r.buffer is buffer for r in op.writes)
            for op, i in chosen.items()
        )


def sampled_ways(fragment: FragmentLayout, shared: SharedLayout, itemsize: int, vector: int) -> int:
    """Bank-conflict degree of the first and the last whole warp on a few of their registers."""
    addresses = np.where(fragment.valid(), fragment_offsets(fragment, shared) * itemsize, -1)[:, ::vector]
    if len(addresses) % 32:
        addresses = np.pad(addresses, ((0, -len(addresses) % 32), (0, 0)), constant_values=-1)
    warps = addresses.reshape(-1, 32, addresses.shape[1])
    picked = sorted({0, 1, addresses.shape[1] // 2, addresses.shape[1] - 1} & set(range(addresses.shape[1])))
    seen = [warps[w, :, r] for w in {0, len(warps) - 1} for r in picked]
    return max(1, *(bank_conflicts(lanes, vector * itemsize) for lanes in seen))


def node_names(count: int) -> tuple[Any, ...]:
    """Loop variables of a made-up node."""
    from tilebench.passes.nodes import loop_names

    return loop_names(count)


def _all_buffers(kernel: Kernel) -> list[Buffer]:
    found = dict.fromkeys(kernel.buffers)
    for n in walk(kernel.body):
        buffer = getattr(n, "buffer", None)
        if isinstance(buffer, Buffer):
            found.setdefault(buffer)
    for buffer in list(found):
        while buffer.view_of is not None:
            buffer = buffer.view_of
            found.setdefault(buffer)
    return list(found)


def _user_layout(buffer: Buffer, layout: Any, threads: int) -> AnyLayout | None:
    if hasattr(layout, "bind"):  # T.Layout: the element size comes from the buffer
        layout = layout.bind(buffer)
    if isinstance(layout, FragmentLayout):
        if layout.shape != buffer.static_shape:
            raise _misfit(buffer, f"is for a tile of {layout.shape}")
        if layout.threads == threads:
            return layout
        if threads % layout.threads == 0:
            return layout.replicate(threads // layout.threads)
        used = _of_those_that_hold(layout)
        if threads % used.threads == 0:
            return used.replicate(threads // used.threads)
        raise _misfit(buffer, f"is over {layout.threads} threads, the block has {threads}")
    if isinstance(layout, SharedLayout):
        if layout.shape != buffer.static_shape:
            raise _misfit(buffer, f"is for a tile of {layout.shape}")
        return layout
    if callable(layout) and buffer.scope == "shared":
        return from_function(buffer.static_shape, layout, max(8, buffer.dtype.bits))
    raise _misfit(buffer, f"is a {type(layout).__name__}, not a layout of a {buffer.scope} buffer")


def _of_those_that_hold(layout: FragmentLayout) -> FragmentLayout:
    """The layout without the threads that hold no element (a block may hold a tile in some of its warps): one
    of fewer threads, and each of as many in the block then has a copy.
    """
    if layout.table is None:
        return layout
    held = (layout.table >= 0).all(axis=2).sum(axis=1) > 0
    return FragmentLayout.from_table(layout.shape, layout.table[held])


def _misfit(buffer: Buffer, what: str) -> LayoutError:
    return LayoutError(
        "TB309",
        f"the layout given for {buffer.name} {what}",
        at=buffer.loc,
        why=f"{buffer.name} is {buffer.scope}, {'x'.join(map(str, buffer.static_shape))}",
        fix="give a T.Fragment for a fragment, a T.Layout or make_swizzled_layout for a shared buffer",
    )


__all__ = ["Context", "Region", "context_of", "place", "pulled_back"]
