"""What a notebook shows: a kernel's report as a widget with tabs, and its still form beside it."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from tilebench import config
from tilebench.errors import TileError, nearest
from tilebench.report import REPORT_MIME, VIEWS, Report


class ErrorCard:
    """A TileError as a notebook output: escaped HTML and plain text."""

    def __init__(self, error: TileError) -> None:
        self.error = error

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        del include, exclude
        text = self.error.render()
        style = (
            "border-left:3px solid #c62828;padding:.5em 1em;overflow:auto;white-space:pre;"
            "font-family:var(--jp-code-font-family,monospace)"
        )
        card = f'<pre class="tilebench-error" style="{style}">{html.escape(text)}</pre>'
        return {"text/plain": text, "text/html": card}

    def __repr__(self) -> str:
        return self.error.render()


def report_of(thing: Any) -> Report:
    """The Report of a Kernel, a Result or a Report."""
    if isinstance(thing, Report):
        return thing
    report = getattr(thing, "report", None)
    if isinstance(report, Report):
        return report
    if callable(report):
        made = report()
        assert isinstance(made, Report), "Kernel.report gives a Report"
        return made
    raise TypeError(f"a kernel, a result or a report can be shown, and this is a {type(thing).__name__}")


def show(thing: Any, *views: str, static: bool | None = None, state: str = "") -> Any:
    """Views of a kernel or report, as an object that a notebook displays. No views: all that apply.

    Raises ValueError naming the nearest view for an unknown name.
    """
    from tilebench.views import Board

    for view in views:
        if view not in VIEWS:
            raise ValueError(f"no view called {view!r}{nearest(view, VIEWS)}; views are {', '.join(VIEWS)}")
    return Board(
        report_of(thing), views, static=config.current().static if static is None else static, state=state
    )


def show_result(
    result: Any,
    views: Sequence[str] | None,
    *,
    static: bool = False,
    other: Report | None = None,
    table: Any = None,
    asked: str | None = None,
) -> None:
    """Display what a `%%tile` cell made.

    other: the report to compare with (--compare); asked: its name, '' for the last run, None when no
    comparison is wanted; table: of a sweep.
    """
    from IPython.display import display  # pyright: ignore[reportUnknownVariableType] # untyped arguments

    chosen = tuple(v for v in views or () if v != "none")
    if table is not None:
        display(table)  # type: ignore[no-untyped-call]
    if views and not chosen:
        print(result.report.verdict)
    else:
        display(show(result.report, *chosen, static=static or None))  # type: ignore[no-untyped-call]
    if other is not None and asked is not None:
        display(show_difference(other, result.report))  # type: ignore[no-untyped-call]
    elif asked is not None:
        print("--compare: this is the first run of this kernel, so there is nothing to compare it with yet")


def compare(before: Any, after: Any) -> Any:
    """What changed from one kernel, result or report to another, as an object that a notebook displays."""
    return show_difference(report_of(before), report_of(after))


def show_difference(before: Report, after: Report) -> Any:
    """The difference card of two reports."""
    from tilebench.views import Comparison

    return Comparison(before, after)


__all__ = ["REPORT_MIME", "ErrorCard", "compare", "report_of", "show", "show_difference", "show_result"]
