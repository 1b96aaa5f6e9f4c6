"""Why a layout is what it is: the chain from a buffer over those that it follows to the op that fixed it."""

from __future__ import annotations

from collections.abc import Mapping

from tilebench.errors import Loc
from tilebench.ir.tile import Buffer, Parallel, Stmt
from tilebench.ops.base import Op
from tilebench.passes.stages import Placed, Reason
from tilebench.report import CauseInfo


def chain(placed: Placed, of: Buffer | Parallel, ids: Mapping[Stmt, str]) -> tuple[CauseInfo, ...]:
    """The reasons of a buffer's or a nest's layout, nearest first.

    Ends with what fixed it: the user's annotation, a free choice, or an op with its instruction and its split
    over warps. ids: of the ops, as in the report.
    """
    links: list[CauseInfo] = []
    seen: set[str] = set()
    by_name = {b.name: b for b in placed.layouts}
    at: Buffer | Parallel | None = of
    while at is not None:
        reason = placed.reasons.get(at)
        if reason is None:
            break
        name = at.name if isinstance(at, Buffer) else f"loop@{_line(at.loc)}"
        if name in seen:
            break
        seen.add(name)
        op = _op_at(ids, reason.at, at if isinstance(at, Buffer) else None)
        links.append(
            CauseInfo(_sentence(name, reason), _line(reason.at), ids.get(op, "") if op else "", name)
        )
        if not reason.of:
            links += _instruction(placed, op, ids)
            break
        at = by_name.get(reason.of)
    return tuple(links)


def _sentence(name: str, reason: Reason) -> str:
    return f"{name}: {reason.text}"


def _instruction(placed: Placed, op: Stmt | None, ids: Mapping[Stmt, str]) -> list[CauseInfo]:
    """Why a product that fixed a layout has its instruction, and why its warps are split so."""
    if not isinstance(op, Op) or op not in placed.partitioned.warp_grids:
        return []
    found: list[CauseInfo] = []
    selected = placed.partitioned.selected
    why = selected.reasons.get(op)
    if why is not None and op in selected.instructions:
        text = f"{selected.instructions[op].name}: {why.text}"
        found.append(CauseInfo(text, _line(op.loc), ids.get(op, "")))
    split = placed.partitioned.reasons.get(op)
    if split is not None:
        found.append(CauseInfo(split.text, _line(split.at or op.loc), ids.get(op, "")))
    return found


def _op_at(ids: Mapping[Stmt, str], at: Loc | None, buffer: Buffer | None) -> Stmt | None:
    """The op that a reason points at: of those on its line, one that touches the buffer."""
    line = _line(at)
    here = [s for s in ids if line and _line(s.loc) == line]
    if buffer is not None:
        for s in here:
            if isinstance(s, Op) and any(r.buffer.name == buffer.name for r in (*s.reads, *s.writes)):
                return s
    return here[0] if here else None


def _line(at: Loc | None) -> int:
    while at is not None and at.call_site is not None:
        at = at.call_site
    return at.line if at is not None else 0
