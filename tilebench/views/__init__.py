"""Views: pure functions of a `Report`. `Board` shows one, `Comparison` two, `page` writes several into one
HTML file.

Each view is a Python file here (what it shows, its still form) and an ES module in static/ (the live form).

To add a view NAME: `NAME.py` with `still(report) -> Still | None` and, for the board's picture,
`paint(ax, ...)`, named in `whole.py`; `static/NAME.js` with `draw(el, state, act)`, which fills `el` from
`state.report`, tells the other views through `act` (hover, pin, watch) and gives back its end, named in
`static/board.js`; NAME in `VIEW_MODULES` and in `report.VIEWS`. Text goes into the page through `h` of
`static/kit.js` and is never markup.
"""

from __future__ import annotations

from tilebench.views.board import Board
from tilebench.views.compare import Comparison
from tilebench.views.whole import page, warm

VIEW_MODULES = (
    "whatif",
    "summary",
    "layout",
    "smem",
    "warps",
    "timeline",
    "roofline",
    "compare",
    "step",
    "exercise",
    "diff",
    "code",
    "passes",
    "findings",
)
"""The views in the order of the board's tabs; each names a file here and one in static/."""

__all__ = ["VIEW_MODULES", "Board", "Comparison", "page", "warm"]
