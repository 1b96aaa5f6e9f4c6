"""The verdict line, what the binary needs, and every figure with its provenance."""

from __future__ import annotations

from tilebench.report import Report
from tilebench.views.base import figure_text, html_table, verdict_mark

PRODUCER = "producer"


def headline(report: Report) -> str:
    """'matmul on cuda:sm_90a: PASS, correct against torch: ...'."""
    mark, _ = verdict_mark(report)
    verdict = report.verdict or "not run"
    return (
        f"{report.name} on {report.target}: {verdict}"
        if report.ok is None
        else f"{report.name} on {report.target}: {mark}, {verdict}"
    )


def resources(report: Report) -> list[tuple[str, str]]:
    """(what, how much and from where) of the binary and its launch."""
    r = report.resources
    rows: list[tuple[str, str]] = []
    if r.registers is not None:
        rows.append(("registers a thread", f"{r.registers} (compiler's log)"))
    if r.spill_bytes is not None:
        rows.append(("spilled", f"{r.spill_bytes} B (compiler's log)"))
    rows.append(("shared memory", f"{r.shared_bytes} B ({r.shared_bytes / 1024:.1f} KiB) a block"))
    if r.threads:
        grid = f", grid {' x '.join(map(str, r.grid))}" if r.grid else ""
        rows.append(("threads", f"{r.threads} a block{shares(report)}{grid}"))
    if r.occupancy is not None:
        limit = f", limited by {r.limiter}" if r.limiter else ""
        blocks = f", {r.blocks_per_sm} blocks an SM" if r.blocks_per_sm is not None else ""
        rows.append(("occupancy", figure_text(r.occupancy) + blocks + limit))
    return rows


def shares(report: Report) -> str:
    """' (128 of the program and 128 that only fetch tiles, the producer)'; '' where there is no producer.

    The threads are those of a launch on a GPU, whatever target the kernel ran on.
    """
    own = sum(r.threads for r in report.roles if r.name != PRODUCER)
    fetching = sum(r.threads for r in report.roles if r.name == PRODUCER)
    if not (own and fetching):
        return ""
    where = "" if report.target.startswith("cuda") else " as launched on a GPU"
    return f"{where} ({own} of the program and {fetching} that only fetch tiles, the producer)"


SPOKEN = {
    "run_ms": "time of a run",
    "predicted_us": "predicted time",
    "compile_ms": "compile time",
    "flops": "arithmetic",
    "bytes": "bytes to move",
}
"""Figures whose names say too little."""


def plain(name: str) -> str:
    """A figure's name in words, without the unit that its value carries: 'build_ms' is 'build'."""
    return SPOKEN.get(name) or name.removesuffix("_ms").removesuffix("_us").replace("_", " ")


def figures(report: Report) -> list[tuple[str, str]]:
    """(name, value with unit and provenance) of every figure."""
    return [(plain(name), figure_text(f)) for name, f in report.figures.items()]


def text(report: Report) -> str:
    """The report in plain text: verdict, one line per figure with where it comes from, then findings."""
    rows = [*resources(report), *figures(report)]
    width = max((len(name) for name, _ in rows), default=0)
    lines = [headline(report), *(f"  {name.ljust(width)}  {value}" for name, value in rows)]
    for finding in report.findings:
        at = f" (line {finding.spans[0].line})" if finding.spans else ""
        lines.append(
            f"  {finding.severity}{at}: {finding.text}" + (f"; {finding.hint}" if finding.hint else "")
        )
    return "\n".join(lines)


def html(report: Report) -> str:
    """The table of resources and figures."""
    return html_table(("what", "how much, and from where"), [*resources(report), *figures(report)])
