"""The live board: an anywidget whose module is a constant of this package and whose data is the report,
deflated.
"""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Sequence
from typing import Any, cast

import anywidget
import traitlets

from tilebench.codec import to_json
from tilebench.report import BUS_KEYS, Report
from tilebench.views import code
from tilebench.views.bundle import bundle, styles

LIVE_CHARACTERS = 400_000
"""Of each text in the live view."""

log = logging.getLogger("tilebench")


def packed(report: Report) -> bytes:
    """The report as deflated JSON."""
    return zlib.compress(json.dumps(to_json(code.shortened(report, LIVE_CHARACTERS))).encode(), 6)


def cleaned(sel: object) -> dict[str, Any]:
    """The fields of a selection that are on the bus and have a plain value; all else is dropped."""
    if not isinstance(sel, dict):
        return {}
    given = cast("dict[object, Any]", sel)
    kept: dict[str, Any] = {}
    for key in BUS_KEYS:
        value = given.get(key)
        if key == "coord":
            items = list(cast("list[Any]", value)) if isinstance(value, list | tuple) else []
            if 0 < len(items) <= 8 and all(type(x) is int for x in items):
                kept[key] = items
        elif type(value) is int or (type(value) is str and len(value) < 1000):
            kept[key] = value
    return kept


class BoardWidget(anywidget.AnyWidget):
    """Traits: payload (deflated JSON of the report), views (tabs to show), state (what `copy link` gave), sel
    (what is pinned).
    """

    _esm = bundle()
    _css = styles()
    payload = traitlets.Bytes(b"").tag(sync=True)
    views = traitlets.List(traitlets.Unicode(), []).tag(sync=True)
    state = traitlets.Unicode("").tag(sync=True)
    sel = traitlets.Dict({}).tag(sync=True)

    @classmethod
    def of(cls, report: Report, views: Sequence[str], state: str) -> BoardWidget:
        """The widget of a report."""
        return cls(payload=packed(report), views=list(views), state=state)  # type: ignore[no-untyped-call]

    def set_state(self, sync_data: Any) -> None:
        """What the browser sends: the selection alone may come from there, and only its known fields."""
        if not isinstance(sync_data, dict):
            log.warning("ignored a widget message of type %s", type(sync_data).__name__)
            return
        ignored = [str(k)[:40] for k in sync_data if k != "sel"]  # type: ignore[reportUnknownVariableType]
        if ignored:
            log.warning("ignored fields of a widget message: %s", ", ".join(ignored[:8]))
        if "sel" in sync_data:
            super().set_state({"sel": cleaned(sync_data["sel"])})  # type: ignore[no-untyped-call]
