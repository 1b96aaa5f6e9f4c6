"""`Board`: a report as a notebook output, live where there is a kernel and still everywhere else."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, cast

from tilebench.codec import to_json
from tilebench.report import REPORT_MIME, REPORT_VERSION, VIEWS, Report
from tilebench.views import code, diff, step, summary, whole

WIDGET_MIME = "application/vnd.jupyter.widget-view+json"


class Board:
    """The views of a report. views: names from report.VIEWS, empty for all that apply; state: what `copy
    link` gave; widget: one that shows this report already.

    static: no widget, only what can be kept in a notebook: the report as data, a picture, HTML and text.
    """

    def __init__(
        self,
        report: Report,
        views: Sequence[str] = (),
        static: bool = False,
        state: str = "",
        widget: Any = None,
    ) -> None:
        unknown = [v for v in views if v not in VIEWS]
        if unknown:
            raise ValueError(f"no view called {unknown[0]!r}; views are {', '.join(VIEWS)}")
        self.report, self.views, self.static, self.state = report, tuple(views), static, state
        self._widget: Any = None if static else widget

    @property
    def widget(self) -> Any:
        """The live widget, made on first use; None when static or when anywidget is not installed."""
        if self._widget is None and not self.static:
            try:
                from tilebench.views.widget import BoardWidget
            except ModuleNotFoundError as error:
                if error.name not in ("anywidget", "ipywidgets", "traitlets"):
                    raise
                return None
            self._widget = BoardWidget.of(self.report, self.views, self.state)
        return self._widget

    @property
    def sel(self) -> dict[str, Any]:
        """What is pinned in the live view, by report.BUS_KEYS; empty when nothing is."""
        return {} if self.widget is None else dict(self.widget.sel)

    def html(self) -> str:
        """The script-free page of this report (without the picture)."""
        return whole.html(self.report)

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        del include, exclude
        return self.bundle()

    def bundle(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """(data by MIME type, metadata): the report as data, a picture, text, and the widget when live."""
        still = whole.picture(self.report, self.views)
        saved = step.lean(diff.lean(code.shortened(self.report)))
        data: dict[str, Any] = {
            "text/plain": repr(self),
            still.mime: base64.b64encode(still.data).decode(),
            REPORT_MIME: {
                "version": REPORT_VERSION,
                "view": self.views[0] if len(self.views) == 1 else "board",
                "report": to_json(saved),
            },
        }
        words = whole.texts(self.report, self.views)
        if words:
            data["text/html"] = words
        widget = self.widget
        if widget is not None:
            live: Any = widget._repr_mimebundle_()  # a dict, or (dict, metadata) in later versions
            if isinstance(live, tuple):
                live = cast("tuple[Any, ...]", live)[0]
            if live and WIDGET_MIME in live:
                data[WIDGET_MIME] = live[WIDGET_MIME]
        return data, {still.mime: {"alt": still.alt}}

    def __repr__(self) -> str:
        return summary.text(self.report)


__all__ = ["Board"]
