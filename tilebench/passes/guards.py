"""`if c: continue` in a pipelined loop: a condition around the rest of the body, so that copies run ahead."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tilebench.ir.expr import unary
from tilebench.ir.rewrite import Node, seq, transform, walk
from tilebench.ir.tile import Continue, If, Kernel, Pipelined, Seq, Stmt


def with_guards(kernel: Kernel) -> Kernel:
    """The kernel with the rest of such a body under the opposite condition; itself where there is none."""
    if not any(isinstance(n, Pipelined) and _skips(n.body) for n in walk(kernel.body)):
        return kernel
    return dataclasses.replace(kernel, body=transform(kernel.body, _guarded))


def _guarded(n: Node) -> Node | None:
    if not isinstance(n, Pipelined) or not isinstance(n.body, Seq) or not _skips(n.body):
        return None
    return dataclasses.replace(n, body=seq(*_under(n.body.body)))


def _under(parts: Sequence[Stmt]) -> list[Stmt]:
    for k, p in enumerate(parts):
        if isinstance(p, If) and _is_skip(p):
            rest = seq(*_under(parts[k + 1 :]))
            return [*parts[:k], If(unary("not", p.condition), rest, loc=p.loc)]
    return list(parts)


def _skips(body: Stmt) -> bool:
    """Whether a body has such a statement with something behind it."""
    return isinstance(body, Seq) and any(isinstance(p, If) and _is_skip(p) for p in body.body[:-1])


def _is_skip(s: If) -> bool:
    only = s.then.body if isinstance(s.then, Seq) else (s.then,)
    return s.orelse is None and len(only) == 1 and isinstance(only[0], Continue)
