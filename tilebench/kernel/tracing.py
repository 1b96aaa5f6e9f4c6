"""From the steps that a back end noted down to a `Trace`: buffers, sites, packed values, checks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tilebench.backends.recording import Extents, Step, Write, union
from tilebench.ir.expr import Var
from tilebench.ir.rewrite import walk
from tilebench.ir.text import print_stmt
from tilebench.ir.tile import Buffer, Parallel, Stmt
from tilebench.report import Trace, TraceBuffer, TraceCheck, TraceRead, TraceSite, TraceStep, TraceWrite
from tilebench.views import trace as codec


@dataclass(frozen=True)
class Check:
    """A comparison after a step: |difference| and what is allowed, over a box of a buffer (broadcast)."""

    key: Hashable
    box: Extents
    error: np.ndarray
    allowed: Any


@dataclass(frozen=True)
class Followed:
    """A buffer in the trace: its key in the steps, how it is shown, and the box of it that is."""

    key: Hashable
    info: TraceBuffer
    box: Extents


@dataclass(frozen=True)
class Noted:
    """What a trace is made of. sites: the statements, and the number of each; checks: by step."""

    steps: Sequence[Step]
    followed: Sequence[Followed]
    sites: tuple[list[TraceSite], dict[Stmt, int]]
    checks: Mapping[int, Sequence[Check]] = field(default_factory=dict[int, "Sequence[Check]"])


def name_of(stmt: Stmt) -> str:
    """What a step is called: gemm, copy, parallel, store ..."""
    return "parallel" if isinstance(stmt, Parallel) else type(stmt).__name__.lower()


def sites_of(
    steps: Sequence[Step],
    ids: Mapping[Stmt, str],
    vars_of: Mapping[Stmt, tuple[str, ...]],
    line: Callable[[Stmt], int],
    cell: Sequence[str],
    first_line: int,
) -> tuple[list[TraceSite], dict[Stmt, int]]:
    """The statements of the steps in order of first execution, and the number of each."""
    sites: list[TraceSite] = []
    numbers: dict[Stmt, int] = {}

    def text_at(number: int) -> str:
        return cell[number - first_line].strip() if 0 <= number - first_line < len(cell) else ""

    for step in steps:
        s = step.stmt
        if s in numbers:
            continue
        at = line(s)
        lines = [n for part in walk(s) if isinstance(part, Stmt) and (n := line(part))]
        last = max([at, *lines]) if at else 0
        inner = sorted({n for n in lines if n > at})
        text = text_at(inner[0]) if inner else text_at(at)
        numbers[s] = len(sites)
        sites.append(
            TraceSite(
                name_of(s),
                at,
                text or print_stmt(s).text.splitlines()[0],
                ids.get(s, ""),
                vars_of.get(s, ()),
                last,
            )
        )
    return sites, numbers


def boxes_of(steps: Sequence[Step]) -> dict[Hashable, Extents]:
    """The box of each written buffer that the steps wrote."""
    found: dict[Hashable, Extents] = {}
    for step in steps:
        for w in step.writes:
            known = found.get(w.key)
            if known is None:
                found[w.key] = w.box
            elif len(known[0]) == len(w.box[0]):
                found[w.key] = union([known, w.box])
    return found


def tile_buffers(
    steps: Sequence[Step],
    buffers: Sequence[Buffer],
    threads: int,
    line: Callable[[Any], int],
    keep: frozenset[str] | None,
) -> list[Followed]:
    """What a tile-level trace shows, in the order of the program: tensors read, tiles, tensors written,
    variables.
    """
    written = boxes_of(steps)
    read = {key for step in steps for key, _ in step.reads}
    found: list[Followed] = []

    def wanted(name: str) -> bool:
        return keep is None or name in keep

    for buffer in buffers:
        if not wanted(buffer.name) or (buffer not in written and buffer not in read):
            continue
        box = written.get(buffer)
        if buffer.scope == "global":
            whole = box or ((0,) * len(buffer.shape), (0,) * len(buffer.shape))
            info = TraceBuffer(
                buffer.name, whole[1], buffer.dtype.name, "global", whole[0], line=line(buffer)
            )
            found.append(Followed(buffer, info, whole))
            continue
        shape = buffer.static_shape
        if buffer.scope in ("local", "var"):
            spread = any(w.key is buffer and w.values.shape[0] > 1 for s in steps for w in s.writes)
            shape = ((threads,) if spread else ()) + (() if buffer.scope == "var" else shape)
            if not shape and buffer.scope == "local":
                shape = (1,)
        scope = "scalar" if buffer.scope == "var" and not shape else buffer.scope
        info = TraceBuffer(buffer.name, shape, buffer.dtype.name, scope, line=line(buffer))
        found.append(Followed(buffer, info, ((0,) * len(shape), shape)))
    for key in written:
        if isinstance(key, Var) and wanted(key.name):
            wide = max((w.values.shape for s in steps for w in s.writes if w.key is key), key=len)
            info = TraceBuffer(
                key.name, wide, key.dtype.name, "scalar" if not wide else "var", line=line(key)
            )
            found.append(Followed(key, info, ((0,) * len(wide), wide)))
    return found


def assemble(noted: Noted, limit_bytes: int, base: Trace) -> Trace:
    """The trace: `base` with buffers, sites, steps and data. Values are kept exactly when they fit in
    `limit_bytes`, else float32 in 16 and then in 8 bits; the note says so.
    """
    made = base
    for precision in codec.PRECISIONS:
        made = _packed(noted, precision, base)
        assert made.data is not None, "a packed trace has data"
        if made.data.size <= limit_bytes:
            break
    else:
        made = _without_values(noted, limit_bytes, base)
    return made


NOTES = {
    "exact": "",
    "half": "float32 values are kept to 11 bits (8 where they are very large or small)",
    "byte": "float32 values are kept to 8 bits",
}


def _joined(*parts: str) -> str:
    return "; ".join(p for p in parts if p)


def _packed(noted: Noted, precision: str, base: Trace, dropped: frozenset[Hashable] = frozenset()) -> Trace:
    packer, followed = codec.Packer(), noted.followed
    index = {f.key: i for i, f in enumerate(followed)}
    made: list[TraceStep] = []
    for number, step in enumerate(noted.steps):
        writes = [
            _write(w, index[w.key], followed[index[w.key]], packer, precision, w.key in dropped)
            for w in step.writes
            if w.key in index
        ]
        reads = tuple(
            TraceRead(index[k], _relative(box, followed[index[k]])) for k, box in step.reads if k in index
        )
        found = [c for c in noted.checks.get(number, ()) if c.key in index]
        compared = tuple(_check(c, index[c.key], followed[index[c.key]], packer) for c in found)
        made.append(TraceStep(noted.sites[1][step.stmt], step.at, tuple(writes), reads, compared))
    return replace(
        base, buffers=tuple(f.info for f in followed), sites=tuple(noted.sites[0]), steps=tuple(made),
        data=packer.stream(), total=len(noted.steps), note=_joined(base.note, NOTES[precision]),
    )  # fmt: skip


def _without_values(noted: Noted, limit_bytes: int, base: Trace) -> Trace:
    """The values of the largest buffers left out, one after the other, until the rest fits."""
    sizes: dict[Hashable, int] = {}
    for step in noted.steps:
        for w in step.writes:
            sizes[w.key] = sizes.get(w.key, 0) + w.values.size
    dropped: list[Hashable] = []
    made = base
    for key in sorted(sizes, key=lambda k: -sizes[k]):
        dropped.append(key)
        names = ", ".join(f.info.name for f in noted.followed if f.key in dropped)
        told = replace(
            base, note=_joined(base.note, f"no room for the values of {names}: name the buffers to record")
        )
        made = _packed(noted, "byte", told, frozenset(dropped))
        if made.data is not None and made.data.size <= limit_bytes:
            break
    return made


def _relative(box: Extents, f: Followed) -> tuple[int, ...]:
    """A box in the coordinates that the trace draws (those of the tensor for one that is only read)."""
    origin = f.info.origin or (0,) * len(box[0])
    if f.info.scope == "global" and not any(f.info.shape):
        origin = (0,) * len(box[0])
    return (*(o - b for o, b in zip(box[0], origin, strict=True)), *box[1])


def _write(
    w: Write, number: int, f: Followed, packer: codec.Packer, precision: str, drop: bool
) -> TraceWrite:
    shape = f.info.shape
    if f.info.scope in ("local", "var", "scalar"):
        values = _private(w.values, shape)
        box: tuple[int, ...] = (*(0 for _ in shape), *shape)
    else:
        values, box = w.values, _relative(w.box, f)
    if drop:
        return replace(codec.Packer().values(number, box, values, f.info.dtype, "byte", None), at=-1)
    return packer.values(number, box, values, f.info.dtype, precision, w.mask)


def _private(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Values of each thread in the shape that is shown."""
    if int(np.prod(shape, dtype=np.int64)) == values.size:
        return values.reshape(shape)
    return np.array(
        np.broadcast_to(
            values.reshape((1,) * (len(shape) - values.ndim + 1) + values.shape[1:])
            if values.ndim
            else values,
            shape,
        )
    )


def _check(c: Check, number: int, f: Followed, packer: codec.Packer) -> TraceCheck:
    with np.errstate(all="ignore"):
        known = np.nan_to_num(c.allowed, nan=np.inf)  # NaN: no bound is known
        allowed = np.broadcast_to(known, c.error.shape)
        ratio = np.where(c.error == 0, 0.0, c.error / np.maximum(allowed, np.finfo(float).tiny))
    ratio = np.where(np.isnan(ratio), np.inf, ratio)
    top = float(c.error.max(initial=0.0)) if not np.isnan(c.error).any() else float("inf")
    return TraceCheck(
        number,
        _relative(c.box, f),
        min(top, 1e300),
        float(min(ratio.max(initial=0.0), 1e30)),
        int((ratio > 1).sum()),
        packer.add(codec.pack(c.error, "e1")),
    )
