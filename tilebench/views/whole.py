"""The still form of a whole board: one picture, one page of HTML, one text."""

from __future__ import annotations

import base64
import importlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tilebench.report import Report
from tilebench.views import (
    code,
    compare,
    diff,
    exercise,
    findings,
    layout,
    passes,
    roofline,
    smem,
    step,
    summary,
    timeline,
    warps,
    whatif,
)
from tilebench.views.base import (
    ON_DARK,
    PANEL,
    QUIET,
    Still,
    clip,
    esc,
    figure_text,
    new_figure,
    png,
    verdict_mark,
    write,
)

Painter = Callable[[Any], None]
COLUMNS = 3
STILLS: dict[str, Callable[[Report], Still | None]] = {
    "whatif": whatif.still,
    "layout": layout.still,
    "smem": smem.still,
    "warps": warps.still,
    "timeline": timeline.still,
    "roofline": roofline.still,
    "compare": compare.still,
    "step": step.still,
    "exercise": exercise.still,
    "passes": passes.still,
    "diff": diff.still,
    "findings": findings.still,
}


def subtitle(report: Report) -> str:
    """The second line: the most wanted figures, each with its provenance."""
    parts: list[str] = []
    if "run_ms" in report.figures:
        parts.append(f"run {figure_text(report.figures['run_ms'])}")
    if "predicted_us" in report.figures:
        parts.append(f"model {figure_text(report.figures['predicted_us'])}")
    r = report.resources
    parts += [f"{r.registers} registers"] if r.registers is not None else []
    parts += [f"{r.spill_bytes} B spilled"] if r.spill_bytes else []
    parts.append(
        f"{r.shared_bytes / 1024:.1f} KiB shared, {r.threads} threads, "
        f"grid {' x '.join(map(str, r.grid)) or '?'}"
    )
    if report.resources.occupancy is not None:
        parts.append(
            f"occupancy {report.resources.occupancy.value:.0%} ({report.resources.occupancy.provenance})"
        )
    return " · ".join(parts)


def panels(report: Report, views: Sequence[str] = ()) -> list[tuple[str, int, Painter]]:
    """(view, columns it takes, painter) of each panel that the report has data for."""
    wanted = [v for v in views if v in STILLS] or list(STILLS)
    found: list[tuple[str, int, Painter]] = []
    if "whatif" in wanted and report.whatif is not None and report.whatif.tried:
        found.append(("whatif", 3, partial(whatif.paint, info=report.whatif)))
    if "layout" in wanted:
        count = 2 if "smem" in wanted and smem.tiles(report) else COLUMNS
        for info, same in layout.distinct(report)[:count]:
            found.append(("layout", 1, partial(layout.paint, info=info, room=50, same=same)))
    if "smem" in wanted:
        found += [
            ("smem", 1, partial(smem.paint, report=report, info=info, rows=8))
            for info in smem.tiles(report)[: COLUMNS - len(found)]
        ]
    if "warps" in wanted and "warps" in views:
        found.append(("warps", 3, partial(warps.paint_all, report=report)))
    if "passes" in views and passes.changes(report):
        found.append(("passes", 3, partial(passes.paint, report=report)))
    if "timeline" in wanted:
        found += [("timeline", 3, partial(timeline.paint, info=t)) for t in report.timelines[:2]]
    if "step" in wanted:
        found += [("step", 3, partial(step.paint, trace=t)) for t in report.traces[:1] if t.steps]
    if "exercise" in wanted and report.exercise is not None:
        found.append(("exercise", 3, partial(exercise.paint, info=report.exercise)))
    if "roofline" in wanted and report.roofline is not None:
        found.append(("roofline", 2, partial(roofline.paint, info=report.roofline)))
    d = diff.shown(report)
    if "diff" in wanted and d is not None:
        found.append(("diff", 1, partial(diff.paint, d=d)))
    if "compare" in wanted and compare.has(report) and report.compare is not None:
        found.append(("compare", 3, partial(compare.paint, info=report.compare)))
    if "findings" in wanted and "findings" in views and report.findings:
        found.append(("findings", 3, partial(findings.paint, report=report)))
    return found


def rows_of(found: Sequence[tuple[str, int, Painter]]) -> list[list[tuple[str, int, Painter]]]:
    """The panels laid out in rows of three columns, in order."""
    rows: list[list[tuple[str, int, Painter]]] = [[]]
    for panel in found:
        if sum(width for _, width, _ in rows[-1]) + panel[1] > COLUMNS:
            rows.append([])
        rows[-1].append(panel)
    return [row for row in rows if row]


def picture(report: Report, views: Sequence[str] = ()) -> Still:
    """The whole board as one PNG on a light card."""
    rows = rows_of(panels(report, views))
    heights = [_height(report, row[0][0]) for row in rows]
    head = 0.62
    total = head + sum(heights) + 0.05
    width = 10.0
    figure = new_figure(width, total)
    figure.patches.append(_band(figure, head / total))
    mark, colour = verdict_mark(report)
    top = 1 - 0.2 / total
    write(figure, 0.015, top, mark, fontsize=12, fontweight="bold", color=colour)
    said, _, rest = (report.verdict or "not run").partition("; ")
    line = f"{report.name} on {report.target}: {said}"
    left = 0.075 if report.ok is not None else 0.035
    _fitted(figure, (left, top), line, (9.5, 8.5, 7.5), fontweight="bold")
    more = f"{rest} · {subtitle(report)}" if rest else subtitle(report)
    _fitted(figure, (0.015, 1 - 0.45 / total), more, (7.0, 6.5), color=QUIET)
    y = 1 - head / total
    for row, height in zip(rows, heights, strict=True):
        y -= height / total
        x = 0.0
        used = sum(w for _, w, _ in row)
        for name, columns, paint in row:
            share = columns / used if used <= COLUMNS else columns / COLUMNS
            if used < COLUMNS and name not in ("timeline", "roofline"):
                share = columns / COLUMNS
            left, right = (0.075, 0.012) if name in ("timeline", "roofline") else (0.018, 0.018)
            below, above = {
                "timeline": (0.54, 0.26),
                "roofline": (0.34, 0.3),
                "layout": (0.56, 0.3),
                "smem": (0.52, 0.3),
                "compare": (0.05, 0.05),
                "exercise": (0.1, 0.1),
                "findings": (0.1, 0.1),
                "warps": (0.1, 0.1),
                "passes": (0.1, 0.3),
                "step": (0.12, 0.3),
                "whatif": (0.1, 0.3),
            }.get(name, (0.42, 0.3))
            box = (x + left, y + below / total, share - left - right, (height - below - above) / total)
            paint(figure.add_axes(box))
            x += share
    return Still(png(figure), "image/png", alt(report))


def _fitted(figure: Any, place: tuple[float, float], text: str, sizes: Sequence[float], **style: Any) -> None:
    """Text in one line up to the right edge: at the first size at which it fits, cut at the last."""
    room = (1 - place[0] - 0.01) * figure.bbox.width
    note, wide = write(figure, *place, clip(text, 300), **style), 0.0
    for size in sizes:
        note.set_fontsize(size)
        wide = note.get_window_extent().width
        if wide <= room:
            return
    note.set_text(clip(text, int(len(note.get_text()) * room / wide) - 1))


def _height(report: Report, name: str) -> float:
    """Inches of a row that starts with this view's panel."""
    if name == "compare" and report.compare is not None:
        return compare.height(report.compare) + 0.15
    if name == "exercise" and report.exercise is not None:
        return exercise.height(report.exercise) + 0.25
    if name == "findings":
        return findings.height(report) + 0.25
    if name == "passes":
        return passes.height(report) + 0.1
    if name == "whatif" and report.whatif is not None:
        return whatif.height(report.whatif)
    if name == "step" and report.traces:
        return step.height(report.traces[0]) + 0.3
    return {"timeline": 1.65, "warps": warps.HEIGHT}.get(name, 2.8)


def _band(figure: Any, height: float) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle(
        (0, 1 - height), 1, height, transform=figure.transFigure, facecolor=PANEL, edgecolor="none", zorder=-1
    )


def alt(report: Report) -> str:
    """The sentence that stands for the picture."""
    parts = [summary.headline(report)]
    parts += [layout.sentence(i) for i in layout.fragments(report)[:2]]
    parts += [timeline.sentence(t) for t in report.timelines[:1]]
    parts += [step.sentence(t) for t in report.traces[:1]]
    if report.roofline is not None:
        parts.append(roofline.sentence(report.roofline))
    return clip(". ".join(parts), 1200)


def verdict_line(report: Report) -> str:
    """The verdict as an escaped paragraph, in colours for both themes."""
    mark, colour = verdict_mark(report)
    return (
        f"<p><strong style='color:light-dark({colour},{ON_DARK[colour]})'>{esc(mark)}</strong> "
        f"<strong>{esc(report.name)}</strong> on {esc(report.target)}: {esc(report.verdict or 'not run')}</p>"
    )


def texts(report: Report, views: Sequence[str]) -> str:
    """The chosen views as text, where they are views that have no picture; '' otherwise."""
    made = {"code": lambda: code.html(report, opened=True), "summary": lambda: summary.html(report)}
    if not views or not set(views) <= set(made):
        return ""
    return verdict_line(report) + "".join(made[v]() for v in views)


def html(report: Report) -> str:
    """Script-free, escaped: verdict line, tables of resources, differences and findings, layouts in words,
    code excerpts.
    """
    out = [verdict_line(report)]
    out += [summary.html(report), exercise.html(report), diff.html(report), step.html(report)]
    out += [findings.html(report)]
    words = [layout.sentence(i) for i in layout.fragments(report)] + [
        smem.sentence(i) for i in smem.tiles(report)
    ]
    if words:
        out.append(
            "<details><summary>layouts in words</summary><ul>"
            + "".join(f"<li>{esc(w)}</li>" for w in words)
            + "</ul></details>"
        )
    out += [_folded("passes", passes.html(report)), code.html(report)]
    return "".join(out)


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{esc(title)}</summary>{body}</details>" if body else ""


def image(still: Still) -> str:
    """A still as an element that carries its own data."""
    data = base64.b64encode(still.data).decode()
    style = "max-width:100%;height:auto"
    return f'<img alt="{esc(still.alt)}" src="data:{still.mime};base64,{data}" style="{style}">'


def warm() -> None:
    """Import what the first picture and the first widget need, and draw once, so that the first cell does not
    wait.
    """
    from tilebench.views.bundle import bundle

    bundle()
    picture(Report("warm", "warm", "", ""))
    try:
        importlib.import_module("tilebench.views.widget")
    except ModuleNotFoundError as error:
        if error.name not in ("anywidget", "ipywidgets", "traitlets"):
            raise


_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1040px; margin: 2em auto; padding: 0 1em; }
img { border: 1px solid #8888; border-radius: 4px; }
table { border-collapse: collapse; margin: .6em 0; font-size: 13px; }
td, th { border: 1px solid #8886; padding: .2em .6em; }
pre { overflow: auto; font-size: 12px; padding: .6em; border: 1px solid #8886; }
"""


def page(reports: list[Report]) -> str:
    """One self-contained HTML page with the pictures of every report: no script, no network."""
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    title = ", ".join(dict.fromkeys(r.name for r in reports)) or "no reports"
    sections: list[str] = []
    for report in reports:
        pictures = image(picture(report))
        folded = "".join(
            _folded(name, image(made))
            for name, still in (
                ("shared memory", smem.still),
                ("warps", warps.still),
                ("pass by pass", passes.still),
            )
            if (made := still(report)) is not None
        )
        sections.append(f"<section><h2>{esc(report.name)}</h2>{pictures}{html(report)}{folded}</section>")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{esc(policy)}">'
        f'<meta name="viewport" content="width=device-width"><title>{esc(title)}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{esc(title)}</h1>" + "".join(sections) + "</body></html>\n"
    )
