"""Whether two programs are the same up to the names of variables and buffers, and where they first differ."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, cast

from tilebench.ir.dtype import DType
from tilebench.ir.expr import Expr, Var
from tilebench.ir.simplify import linear
from tilebench.ir.text import expr_text, print_stmt, region_text
from tilebench.ir.tile import Buffer, Region, Stmt

_UNSEEN = frozenset({"loc", "id", "because", "annotations"})
"""Fields that say nothing of what a node does."""


@dataclasses.dataclass
class _Pairs:
    """Variables and buffers of the one program, and what stands for each in the other."""

    there: dict[Any, Any] = dataclasses.field(default_factory=dict[Any, Any])
    back: dict[Any, Any] = dataclasses.field(default_factory=dict[Any, Any])

    def match(self, a: Any, b: Any) -> bool:
        """Whether b stands for a; from the first meeting on it does."""
        return self.there.setdefault(a, b) is b and self.back.setdefault(b, a) is a


def difference(a: Stmt | Expr | Region, b: Stmt | Expr | Region) -> tuple[str, str] | None:
    """The texts of the first two nodes that differ, None for programs that are the same.

    Sums of integers are compared by value: `15 - i` is `-i - 1 + 16`.
    """
    return _node(a, b, _Pairs())


def _node(a: Any, b: Any, pairs: _Pairs) -> tuple[str, str] | None:
    found = _compared(a, b, pairs)
    # What differs within an expression is told with all of the expression, or of a plain value's statement.
    return (_text(a), _text(b)) if found is not None and (found == ("", "") or isinstance(a, Expr)) else found


def _compared(a: Any, b: Any, pairs: _Pairs) -> tuple[str, str] | None:
    """As of `_node`; ('', '') where the two themselves differ."""
    if isinstance(a, Buffer) and isinstance(b, Buffer):
        alike = a.dtype == b.dtype and a.scope == b.scope and _inside(a.shape, b.shape, pairs) is None
        return None if alike and pairs.match(a, b) else ("", "")
    if isinstance(a, Var) and isinstance(b, Var):
        return None if a.dtype == b.dtype and pairs.match(a, b) else ("", "")
    if isinstance(a, Expr) and isinstance(b, Expr) and not a.dtype.is_float and a.dtype == b.dtype:
        kept = _Pairs(dict(pairs.there), dict(pairs.back))
        if type(a) is type(b) and _fields(a, b, kept) is None:
            pairs.there, pairs.back = kept.there, kept.back
            return None
        return None if _same_sum(a, b, pairs) else ("", "")
    return _fields(a, b, pairs) if type(a) is type(b) else ("", "")


def _fields(a: Any, b: Any, pairs: _Pairs) -> tuple[str, str] | None:
    names = (f.name for f in dataclasses.fields(a) if f.name not in _UNSEEN)
    return next((d for n in names if (d := _inside(getattr(a, n), getattr(b, n), pairs))), None)


def _inside(a: Any, b: Any, pairs: _Pairs) -> tuple[str, str] | None:
    """As of `_node`; ('', '') for plain values that differ."""
    if dataclasses.is_dataclass(a) and not isinstance(a, DType):
        return _node(a, b, pairs)
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        x, y = cast("Sequence[Any]", a), cast("Sequence[Any]", b)
        if len(x) != len(y):
            return "", ""
        return next((d for p, q in zip(x, y, strict=True) if (d := _inside(p, q, pairs))), None)
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        x, y = cast("Mapping[Any, Any]", a), cast("Mapping[Any, Any]", b)
        return _inside(list(x.items()), list(y.items()), pairs)
    return None if type(cast("Any", a)) is type(b) and a == b else ("", "")


def _same_sum(a: Expr, b: Expr, pairs: _Pairs) -> bool:
    x, y = linear(a), linear(b)
    left = list(y.terms)
    if x.constant != y.constant or len(x.terms) != len(left) or any(t is a for t, _ in x.terms):
        return False
    for term, factor in x.terms:
        for place, (other, times) in enumerate(left):
            kept = _Pairs(dict(pairs.there), dict(pairs.back))
            if factor == times and _node(term, other, kept) is None:
                pairs.there, pairs.back = kept.there, kept.back
                del left[place]
                break
        else:
            return False
    return True


def _text(node: Any) -> str:
    if isinstance(node, Stmt):
        return print_stmt(node).text
    if isinstance(node, Region):
        return region_text(node)
    return expr_text(node) if isinstance(node, Expr) else str(getattr(node, "name", node))


__all__ = ["difference"]
