"""Progress in a notebook: a line of text under the cell, rewritten in place, that goes when it is done."""

from __future__ import annotations

import html
import sys
from typing import Any

from tilebench.kernel.progress import Sink, State, on_terminal


class Line:
    """A display that shows the state of one task after the other."""

    def __init__(self) -> None:
        self._handle: Any = None

    def __call__(self, state: State) -> None:
        """Show it; what is over is taken away."""
        from IPython.display import HTML, display  # pyright: ignore[reportUnknownVariableType] # untyped

        text = "" if state.over else state.text
        shown = HTML(f'<pre role="status">{html.escape(text)}</pre>' if text else "")
        if self._handle is None:
            self._handle = display(shown, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(shown)
        if state.over:
            self._handle = None


def bar() -> Sink:
    """Where progress goes: the output of the cell in a notebook, standard error elsewhere."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return Line() if shell is not None and hasattr(shell, "kernel") else on_terminal
