"""What changed between two compiles: the deltas that matter first, then layouts and texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilebench.report import Figure, LayoutInfo, Report
from tilebench.views.base import figure_text, html_table, number
from tilebench.views.summary import plain


def _layout_key(info: LayoutInfo) -> tuple[Any, ...]:
    table = None if info.table is None else np.asarray(info.table).tobytes()
    return (
        info.kind,
        info.shape,
        info.reg,
        info.thread,
        info.strides,
        info.panel,
        info.panel_stride,
        info.swizzle,
        table,
    )


def deltas(before: Report, after: Report) -> list[tuple[str, str, str, str]]:
    """(what, before, after, change) of everything that differs; times are compared only when both come from
    one kind of source.
    """
    rows: list[tuple[str, str, str, str]] = []

    def add(what: str, old: object, new: object, change: str = "") -> None:
        if old != new:
            rows.append((what, "–" if old is None else str(old), "–" if new is None else str(new), change))

    add("target", before.target, after.target)
    for key in sorted({*before.config, *after.config}):
        add(f"setting {key}", before.config.get(key), after.config.get(key))
    add("verdict", before.verdict, after.verdict)
    b, a = before.resources, after.resources
    counts: tuple[tuple[str, Callable[[Any], Any]], ...] = (
        ("registers a thread", lambda r: r.registers),
        ("spilled bytes", lambda r: r.spill_bytes),
        ("shared bytes", lambda r: r.shared_bytes),
        ("threads", lambda r: r.threads),
        ("blocks an SM", lambda r: r.blocks_per_sm),
    )
    for what, of in counts:
        old, new = of(b), of(a)
        add(what, old, new, f"{new - old:+d}" if isinstance(old, int) and isinstance(new, int) else "")
    _figure(rows, "occupancy", b.occupancy, a.occupancy)
    for name in dict.fromkeys((*before.figures, *after.figures)):
        _figure(rows, plain(name), before.figures.get(name), after.figures.get(name))
    old_layouts, new_layouts = ({i.buffer: i for i in r.layouts} for r in (before, after))
    for name in dict.fromkeys((*old_layouts, *new_layouts)):
        one, two = old_layouts.get(name), new_layouts.get(name)
        if one is None or two is None or _layout_key(one) != _layout_key(two):
            rows.append(
                (f"layout of {name}", one.formula if one else "–", two.formula if two else "–", "changed")
            )
    old_ops, new_ops = ({o.id: o for o in r.ops} for r in (before, after))
    for ident in dict.fromkeys((*old_ops, *new_ops)):
        one, two = old_ops.get(ident), new_ops.get(ident)
        if one and two and one.text == two.text:
            add(f"instruction of {one.text}", one.instruction, two.instruction)
    return rows


def _figure(rows: list[tuple[str, str, str, str]], what: str, old: Figure | None, new: Figure | None) -> None:
    if (old is None and new is None) or old == new:
        return
    change = ""
    if (
        old
        and new
        and old.unit == new.unit
        and (old.provenance, old.device) == (new.provenance, new.device)
        and old.value
    ):
        change = f"{number(100 * (new.value / old.value - 1))} %"
    elif old and new:
        change = "not comparable: different sources"
    rows.append((what, figure_text(old) if old else "–", figure_text(new) if new else "–", change))


def html(before: Report, after: Report) -> str:
    """The table of deltas."""
    return html_table(
        ("what", "before", "after", "change"),
        deltas(before, after),
        f"{before.name} ({before.id}) → {after.name} ({after.id})",
    )


class Comparison:
    """The difference of two reports as a notebook output."""

    def __init__(self, before: Report, after: Report) -> None:
        self.before, self.after = before, after

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        del include, exclude
        return {
            "text/plain": repr(self),
            "text/html": html(self.before, self.after) or "<p>nothing changed</p>",
        }

    def __repr__(self) -> str:
        rows = deltas(self.before, self.after)
        return (
            "\n".join(f"{what}: {old} -> {new} {change}".rstrip() for what, old, new, change in rows)
            or "nothing changed"
        )
