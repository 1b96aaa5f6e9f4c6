"""Symbolic sizes from extents: `n` from an extent `n`, `3 * n + 1` or `n + m` with m known."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tilebench.ir.expr import Expr, Var
from tilebench.ir.simplify import linear


def unknown(extent: Expr, known: Collection[Var]) -> tuple[Var, int] | None:
    """The only symbol of a linear extent that is not known, with its factor; None where an extent does not
    determine one.
    """
    open_terms = [(term, factor) for term, factor in linear(extent).terms if term not in known]
    if len(open_terms) != 1:
        return None
    term, factor = open_terms[0]
    return (term, factor) if isinstance(term, Var) else None


def determined(extents: Iterable[Expr], known: Iterable[Var] = ()) -> set[Var]:
    """The symbols that the extents determine, beside those known."""
    every, found = list(extents), set(known)
    before = -1
    while len(found) != before:
        before = len(found)
        for extent in every:
            one = unknown(extent, found)
            if one is not None:
                found.add(one[0])
    return found


__all__ = ["determined", "unknown"]
