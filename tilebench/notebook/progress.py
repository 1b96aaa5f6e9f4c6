"""Progress in a notebook: a line of text under the cell, rewritten in place, that goes when it is done."""

from __future__ import annotations

from tilebench.kernel.progress import Line, Sink, in_notebook, on_terminal


def bar() -> Sink:
    """Where progress goes: the output of the cell in a notebook, standard error elsewhere."""
    return Line() if in_notebook() else on_terminal


__all__ = ["Line", "bar"]
