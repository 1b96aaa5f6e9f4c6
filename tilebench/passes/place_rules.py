"""The rules of layout inference: how a loop's layout follows from its fragments, and theirs from the loop's.

`loop_layout` is also what lowering asks for nests made after placing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import gcd, prod
from typing import TypeVar

from tilebench.ir.expr import Binary, Expr, Var, const, int_value, is_const
from tilebench.ir.rewrite import walk
from tilebench.ir.tile import (
    Buffer,
    Parallel,
    Stmt,
)  # fmt: skip
from tilebench.layouts import Digit, FragmentLayout, SharedLayout, blocked, replicated
from tilebench.passes.indices import Affine, divisor, own_registers, split_index
from tilebench.passes.nodes import Access, Node, node_of_nest
from tilebench.passes.stages import Reason

AnyLayout = FragmentLayout | SharedLayout
S = TypeVar("S", bound=Stmt)
T = TypeVar("T")
WARP = 32
VECTOR_BYTES = 16


def find_by_place(facts: Mapping[S, T], op: S) -> T | None:
    """The fact about an op, or about the op of the same kind and place that it was rebuilt from."""
    if op in facts:
        return facts[op]
    if op.loc is None:
        return None
    for other, fact in facts.items():
        if type(other) is type(op) and other.loc is op.loc:
            return fact
    return None


def storage_of(buffer: Buffer) -> Buffer:
    """`buffer.data`."""
    return buffer.data


# -- from fragments to loops and back ------------------------------------------------------------------------


def affine_access(access: Access, names: Sequence[Var]) -> tuple[Affine, ...] | None:
    """The access as coefficients of the loop variables; None when it names anything else."""
    out: list[Affine] = []
    for index in access.indices or (const(0),):
        parts = split_index(index, names)
        if parts is None or parts.rest is not None:
            return None
        out.append(parts.affine)
    return tuple(out)


def pulled_back(node: Node, access: Access, held: FragmentLayout, threads: int) -> FragmentLayout | None:
    """The loop layout in which every iteration runs where its element of the fragment is."""
    if held.threads != threads:
        return None
    affine = affine_access(access, node.names)
    found = held.pullback(affine, node.extents) if affine is not None else _unpacked(node, access, held)
    if found is None or not found.is_digits or found.threads != threads:
        return None
    found = interned(found)
    return found if found.covers else None


def _packed_dims(node: Node, access: Access) -> list[tuple[int, int]] | None:
    """(loop variable, c) of each dimension for indices i and j // c, each variable once; else None."""
    shape = access.buffer.static_shape
    if len(shape) != len(node.names) or len(access.indices) != len(shape):
        return None
    targets: list[tuple[int, int]] = []
    for index, extent in zip(access.indices, shape, strict=True):
        base, by = index, 1
        if isinstance(index, Binary) and index.op == "floordiv":
            base, by = index.left, int_value(index.right) or 0
        k = next((k for k, v in enumerate(node.names) if v is base), None)
        if k is None or by < 1 or node.extents[k] != extent * by or k in [t for t, _ in targets]:
            return None
        targets.append((k, by))
    return targets


def _unpacked(node: Node, access: Access, held: FragmentLayout) -> FragmentLayout | None:
    """The loop layout for a packed fragment: c neighbours share an element of it, in one thread."""
    targets = _packed_dims(node, access)
    if targets is None or not held.is_digits:
        return None

    def moved(d: Digit) -> Digit:
        return d if d.dim is None else Digit(d.size, targets[d.dim][0], d.stride * targets[d.dim][1])

    near = tuple(Digit(by, k, 1) for k, by in targets if by > 1)
    return FragmentLayout(node.extents, (*near, *map(moved, held.reg)), tuple(map(moved, held.thread)))


def _packed(node: Node, access: Access, loop: FragmentLayout) -> FragmentLayout | None:
    """The layout of a packed fragment for a loop: digits within one element fall away."""
    targets = _packed_dims(node, access)
    if targets is None or not loop.is_digits:
        return None
    place = {k: (d, by) for d, (k, by) in enumerate(targets)}

    def moved(digits: Sequence[Digit], threads: bool) -> list[Digit] | None:
        out: list[Digit] = []
        for d in digits:
            if d.dim is None:
                out += [d] if threads else []
                continue
            dim, by = place[d.dim]
            low = min(d.size, by // d.stride) if d.stride < by else 1  # values that stay within one element
            if d.size % low or (d.stride < by and by % d.stride) or (d.stride >= by and d.stride % by):
                return None
            if low > 1 and threads:
                out.append(Digit(low, None))
            if d.size > low:
                out.append(Digit(d.size // low, dim, max(1, d.stride * low // by)))
        return out

    reg, thread = moved(loop.reg, False), moved(loop.thread, True)
    if reg is None or thread is None:
        return None
    return interned(FragmentLayout(access.buffer.static_shape, tuple(reg), tuple(thread)))


@lru_cache(maxsize=1024)
def interned(layout: FragmentLayout) -> FragmentLayout:
    """The first layout equal to this one: what it has enumerated is not enumerated again."""
    return layout


def derived(node: Node, access: Access, loop: FragmentLayout) -> FragmentLayout | None:
    """The layout of a whole buffer that the loop visits once for each combination of some of its
    variables."""
    shape = access.buffer.static_shape
    affine = affine_access(access, node.names)
    if affine is None:
        return _packed(node, access, loop)
    order: list[int | None] = []
    for (coefficients, constant), extent in zip(affine, shape, strict=True):
        used = [k for k, c in enumerate(coefficients) if c]
        if constant or len(used) > 1:
            return None
        if not used:
            if extent != 1:
                return None
            order.append(None)
        else:
            k = used[0]
            if coefficients[k] != 1 or k in order or node.extents[k] != extent:
                return None
            order.append(k)
    named = [k for k in order if k is not None]
    layout = loop
    kept = list(range(loop.rank))
    for k in reversed(range(loop.rank)):
        if k not in named and len(kept) > 1:
            layout = layout.project(kept.index(k))
            kept.remove(k)
    if not named:
        layout = layout.project(0) if layout.rank == 1 else layout
        for _ in range(len(shape) - 1):
            layout = layout.expand(0)
        return _fewest(layout) if layout.shape == shape else None
    layout = layout.permute([kept.index(k) for k in named])
    for d, k in enumerate(order):
        if k is None:
            layout = layout.expand(d)
    return _fewest(layout) if layout.shape == shape else None


def _fewest(layout: FragmentLayout) -> FragmentLayout:
    """The layout without register replicas: they hold nothing of their own."""
    if not layout.is_digits:
        return layout
    return interned(
        FragmentLayout(layout.shape, tuple(d for d in layout.reg if d.dim is not None), layout.thread)
    )


def anchored(
    node: Node, layouts: Mapping[Buffer, AnyLayout], threads: int
) -> tuple[FragmentLayout, Access] | None:
    """The loop layout that a fragment with a layout gives, and that access: fewest conversions, then written,
    unique, big."""
    best: tuple[tuple[int, int, int, int], FragmentLayout, Access] | None = None
    tried: dict[FragmentLayout, int] = {}
    for access in node.of("fragment"):
        held = layouts.get(access.buffer)
        if not isinstance(held, FragmentLayout):
            continue
        loop = pulled_back(node, access, held, threads)
        if loop is None or (node.rereads and loop.replication > 1):
            continue
        if loop not in tried:
            tried[loop] = _converted_bytes(node, loop, layouts)
        score = (tried[loop], int(not access.write), int(loop.replication > 1), -prod(held.shape))
        if best is None or score < best[0]:
            best = (score, loop, access)
    return None if best is None else (best[1], best[2])


def _converted_bytes(node: Node, loop: FragmentLayout, layouts: Mapping[Buffer, AnyLayout]) -> int:
    total = 0
    for access in node.of("fragment"):
        held = layouts.get(access.buffer)
        affine = affine_access(access, node.names)
        if not isinstance(held, FragmentLayout) or affine is None:
            continue
        own = own_registers(held, loop, affine)
        if own is None or (access.write and not own.complete):
            total += prod(held.shape) * access.buffer.dtype.bytes
    return total


def loop_layout(
    nest: Parallel, layouts: Mapping[Buffer, AnyLayout], threads: int, reduced: frozenset[int] = frozenset()
) -> tuple[FragmentLayout, Reason]:
    """The layout of a nest when the layouts of its fragments are known."""
    return node_layout(node_of_nest(nest), layouts, threads, reduced)


def node_layout(
    node: Node, layouts: Mapping[Buffer, AnyLayout], threads: int, reduced: frozenset[int] = frozenset()
) -> tuple[FragmentLayout, Reason]:
    """The user's layout, else a fragment's, else the free one."""
    if node.layout is not None and node.layout.shape == node.extents and node.layout.threads == threads:
        return node.layout, Reason("given with loop_layout", node.loc)
    found = anchored(node, layouts, threads)
    if found is not None:
        loop, access = found
        verb = "writes" if access.write else "reads"
        text = f"the layout of {access.buffer.name}, which it {verb} element by element"
        return loop, Reason(text, node.loc, of=access.buffer.name)
    return free_layout(node, threads, reduced, layouts)


# -- free layouts --------------------------------------------------------------------------------------------


def memory_weight(node: Node) -> int:
    """Bytes of global and shared memory that the node touches, global counting eight times."""
    total = 0
    for access in node.of("global", "shared"):
        total += _weight(node, access)
    return total


def _weight(node: Node, access: Access) -> int:
    factor = 8 if access.buffer.scope == "global" else 1
    points = 1
    for k, v in enumerate(node.names):
        if any(v in _vars(i) for i in access.indices):
            points *= node.extents[k]
    return points * access.buffer.dtype.bytes * factor


def _vars(e: Expr) -> set[Var]:
    return {n for n in walk(e) if isinstance(n, Var)}


def _lead(node: Node, access: Access) -> int | None:
    """The loop variable along which the access is contiguous."""
    if not access.indices:
        return None
    if access.buffer.strides is not None and not is_const(access.buffer.strides[-1], 1):
        return None
    parts = split_index(access.indices[-1], node.names)
    if parts is None:
        return None
    ones = [k for k, c in enumerate(parts.coefficients) if c == 1]
    return ones[-1] if ones else None


def _vector(node: Node, access: Access, lead: int) -> int:
    """Elements that one access may move along `lead`, as far as constants prove alignment."""
    known = {v: node.extents[lead] for k, v in enumerate(node.names) if k == lead}
    limit = VECTOR_BYTES // access.buffer.dtype.bytes
    steps: list[int] = []
    below = 1
    for n in reversed(access.buffer.shape):
        steps.append(below)
        below *= int_value(n) or divisor(n, {})
    steps.reverse()
    if access.buffer.strides is not None:
        steps = [divisor(s, {}) for s in access.buffer.strides]
    align = node.extents[lead]
    for index, step in zip(access.indices[:-1], steps[:-1], strict=True):
        align = gcd(align, divisor(index, known) * step)
    align = gcd(align, divisor(access.indices[-1], known))
    align = gcd(align, 1 << 20)
    return max(1, min(limit, align & -align))


def free_layout(
    node: Node,
    threads: int,
    reduced: frozenset[int] = frozenset(),
    layouts: Mapping[Buffer, AnyLayout] | None = None,
) -> tuple[FragmentLayout, Reason]:
    """The vectorised partition along the contiguous dimension of the heaviest memory access.

    reduced: loop dimensions that are folded later; their threads are kept within a warp where there are rows
    enough.
    """
    size = prod(node.extents)
    best: tuple[int, int, Access] | None = None
    for access in node.of("global", "shared"):
        lead = _lead(node, access)
        if lead is not None and node.extents[lead] > 1:
            weight = _weight(node, access)
            if best is None or weight > best[0]:
                best = (weight, lead, access)
    if best is None:
        lead, vector, why = (
            len(node.extents) - 1,
            1,
            "spread over the threads, neighbours in neighbouring threads",
        )
        if reduced and lead not in reduced:
            lead = max(reduced)
    else:
        _, lead, access = best
        vector = _vector(node, access, lead)
        for other in node.of("global", "shared"):
            if _lead(node, other) == lead:
                vector = max(vector, _vector(node, other, lead))
        why = f"neighbours of {access.buffer.name} in neighbouring threads"
    share = max(1, size // threads)
    while vector > 1 and vector > share:
        vector //= 2
    if node.width is not None:
        while vector > max(1, node.width):
            vector //= 2
    if vector > 1:
        why += f", {vector} elements at a time"
    if lead in reduced and not node.rereads:
        layout = row_layout(node.extents, threads, vector, lead)
        return layout, Reason(why + ", each row within as few warps as possible", node.loc)
    order = [d for d in range(len(node.extents)) if d != lead] + [lead]
    layout = blocked([node.extents[d] for d in order], threads, vector)
    layout = layout.permute([order.index(d) for d in range(len(order))])
    if layout.threads != threads:
        layout = row_layout(node.extents, threads, vector, lead)
    return layout, Reason(why, node.loc)


def row_layout(shape: Sequence[int], threads: int, vector: int, along: int) -> FragmentLayout:
    """Rows along `along`, each in a power of two of neighbouring lanes of one warp where there are rows
    enough.

    A row that more threads share costs an exchange between warps when it is folded.
    """
    shape = tuple(shape)
    outer_shape = tuple(n for d, n in enumerate(shape) if d != along)
    rows = prod(outer_shape)
    columns = -(-shape[along] // vector)

    def cost(share: int) -> tuple[int, int, int]:
        registers = -(-columns // share) * -(-rows // (threads // share)) * vector
        across = share > WARP or WARP % share != 0
        return registers * (2 if across else 1), int(across), -share

    shares = [t for t in range(1, threads + 1) if threads % t == 0 and (t & (t - 1) == 0 or t == threads)]
    share = min(shares, key=cost)
    steps = -(-columns // share)
    reg = [Digit(vector, along, 1), Digit(steps, along, vector * share)]
    thread = [Digit(share, along, vector)]
    if outer_shape:
        outer = blocked(outer_shape, threads // share, 1)
        where = [d for d in range(len(shape)) if d != along]
        reg += [Digit(d.size, None if d.dim is None else where[d.dim], d.stride) for d in outer.reg]
        thread += [Digit(d.size, None if d.dim is None else where[d.dim], d.stride) for d in outer.thread]
    elif threads // share > 1:
        thread.append(Digit(threads // share, None))
    keep = FragmentLayout(shape, tuple(d for d in reg if d.size > 1), tuple(d for d in thread if d.size > 1))
    if keep.threads != threads:
        keep = FragmentLayout(shape, keep.reg, (*keep.thread, Digit(threads // keep.threads, None)))
    return keep


def everywhere(shape: Sequence[int], threads: int) -> FragmentLayout:
    """Each thread holds all of it."""
    return replicated(tuple(shape) or (1,), threads)
