"""The texts of a kernel, level by level, with the cell line that each line came from."""

from __future__ import annotations

from dataclasses import replace

from tilebench.report import CodeText, PassInfo, Report
from tilebench.views.base import esc

LEVELS = {
    "cell": "cell",
    "tile": "tile IR",
    "thread": "thread IR",
    "cuda": "CUDA C++",
    "llvm": "LLVM IR",
    "ptx": "PTX",
    "sass": "SASS",
    "asm": "assembly",
}
SAVED_CHARACTERS = 6_000
"""Of each text in what a notebook saves; the live view has all of it."""


def cell_text(report: Report) -> CodeText:
    """The cell as a level of its own: line i comes from line i."""
    count = report.source.count("\n") + 1
    return CodeText("cell", report.source, tuple(range(report.first_line, report.first_line + count)))


def levels(report: Report) -> list[CodeText]:
    """The cell, then every text of the report, in the order of the compiler."""
    order = list(LEVELS)
    return [
        cell_text(report),
        *sorted((c for c in report.code if c.level != "cell"), key=lambda c: order.index(c.level)),
    ]


def shorten(text: str, limit: int, how: str) -> str:
    """The first whole lines of at most `limit` characters, then a note that says how to get the rest."""
    if len(text) <= limit:
        return text
    lines = text[:limit].splitlines()[:-1] or [text[:limit]]
    more = text.count("\n") + 1 - len(lines)
    return "\n".join([*lines, f"... {more} more lines: {how}"])


def shortened(report: Report, limit: int = SAVED_CHARACTERS) -> Report:
    """The report with its long texts cut, for a payload that is kept in a notebook."""
    code: list[CodeText] = []
    for c in report.code:
        text = shorten(
            c.text,
            limit,
            "kernel.get_kernel_source()" if c.level == "cuda" else f"kernel.report().code, level {c.level}",
        )
        count = text.count("\n") + 1
        code.append(replace(c, text=text, lines=c.lines[:count], live=c.live[:count]))
    passes: list[PassInfo] = []
    for p in report.passes:
        if p.changed:
            text = shorten(p.text, limit // 4, f"kernel.report().passes, {p.name}")
            passes.append(replace(p, text=text, lines=p.lines[: text.count("\n") + 1]))
    unchanged = tuple(
        PassInfo(p.name, "", p.microseconds, False, p.note) for p in report.passes if not p.changed
    )
    kept = {p.name: p for p in (*passes, *unchanged)}
    return replace(report, code=tuple(code), passes=tuple(kept[p.name] for p in report.passes))


def html(report: Report, limit: int = 60, opened: bool = False) -> str:
    """The cell and the generated code as folded, escaped text. opened: the generated code is unfolded."""
    out: list[str] = []
    wanted = [c for c in levels(report) if c.level in ("cell", "cuda", "llvm")]
    for c in wanted:
        lines = c.text.splitlines()
        body = "\n".join(lines[:limit]) + (
            f"\n... {len(lines) - limit} more lines" if len(lines) > limit else ""
        )
        shown = " open" * (opened and c.level != "cell")
        out.append(
            f"<details{shown}><summary>{esc(LEVELS[c.level])}, {len(lines)} lines</summary>"
            f"<pre style='font-family:monospace;overflow:auto'>{esc(body)}</pre></details>"
        )
    return "".join(out)
