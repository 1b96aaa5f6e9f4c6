"""Accumulators that start as a mask: when the mask is all zeros the product overwrites them instead.

Attention writes 0 or -inf into the scores before `S += Q K^T`. On most trips of the loop nothing is masked:
the condition holds for every element. It is linear in the indices, so whether it does has a formula. Then the
nest is run on the other trips only, and on these the product does not read its accumulator: `accumulate` of
wgmma is a run-time flag that costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilebench.ir.expr import Binary, Const, Expr, Select, Var, binary, const, is_const
from tilebench.ir.rewrite import variables
from tilebench.ir.simplify import Interval, Linear, from_linear, linear, simplify
from tilebench.ir.tile import Buffer, Parallel, Seq, Stmt, Store
from tilebench.ops.elementwise import Fill

ALWAYS = const(True)
Ranges = Mapping[Var, Interval]


def cleared_when(s: Stmt, buffer: Buffer, ranges: Ranges) -> Expr | None:
    """The condition (of names outside of the statement) under which it writes zeros to all of the fragment.

    None when it does not write all of it, or when there is no such condition; `ALWAYS` when it only clears.
    """
    if isinstance(s, Fill):
        return (
            ALWAYS
            if s.destination.buffer is buffer and s.destination.is_whole and is_const(s.value, 0)
            else None
        )
    if not isinstance(s, Parallel) or s.extents != buffer.static_shape:
        return None
    body = s.body.body[0] if isinstance(s.body, Seq) and len(s.body.body) == 1 else s.body
    if not isinstance(body, Store) or body.buffer is not buffer:
        return None
    if not all(i is v for i, v in zip(body.indices, s.vars, strict=True)):
        return None
    inside: dict[Var, Interval] = {
        **ranges,
        **{v: (0, n - 1) for v, n in zip(s.vars, s.extents, strict=True)},
    }
    value = simplify(body.value, inside)
    if is_const(value, 0):
        return ALWAYS
    if not isinstance(value, Select) or not is_const(value.then, 0):
        return None
    own = dict(zip(s.vars, s.extents, strict=True))
    return _everywhere(value.condition, own)


def _everywhere(condition: Expr, own: Mapping[Var, int]) -> Expr | None:
    """`condition` for all values of the nest's variables at once."""
    if not isinstance(condition, Binary):
        return ALWAYS if isinstance(condition, Const) and condition.value else None
    if condition.op == "and":
        left, right = _everywhere(condition.left, own), _everywhere(condition.right, own)
        return None if left is None or right is None else binary("and", left, right)
    if condition.op not in ("ge", "gt", "le", "lt") or not _signed(condition.left):
        return None
    difference = condition.left - condition.right
    if condition.op in ("le", "lt"):
        difference = condition.right - condition.left
    form = linear(difference)
    least = form.constant
    rest: list[tuple[Expr, int]] = []
    for term, c in form.terms:
        named = variables(term) & own.keys()
        if not named:
            rest.append((term, c))
            continue
        if not isinstance(term, Var):
            return None
        least += min(0, c * (own[term] - 1))
    limit = 0 if condition.op in ("ge", "le") else 1
    return binary("ge", from_linear(Linear(tuple(rest), least)), const(limit))


def _signed(e: Expr) -> bool:
    """Whether differences of such values do not wrap below zero."""
    return e.dtype.is_int and e.dtype.bits >= 32 and not e.dtype.name.startswith("uint")


__all__ = ["ALWAYS", "cleared_when"]
