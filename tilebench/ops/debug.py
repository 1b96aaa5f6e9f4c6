"""`T.print`, `T.device_assert`: spellings only; the statements are Print and Assert."""

from __future__ import annotations

from typing import Any

from tilebench.errors import TypeTileError
from tilebench.ir.expr import as_expr, to_bool
from tilebench.ir.tile import Assert, Buffer, Print, Region, Stmt


def print(obj: Any = None, msg: str = "", warp_group_id: int = 0, warp_id: int = 0) -> Stmt:
    """Print a scalar, a whole buffer or a text when the kernel runs. warp_group_id, warp_id: a buffer is
    printed once anyway."""
    if obj is None or isinstance(obj, str):
        return Print(" ".join(part for part in (msg, obj) if part))
    if isinstance(obj, Buffer):
        return Print(msg, (), obj)
    if isinstance(obj, Region):
        if not obj.is_whole:
            raise TypeTileError(
                "TB285",
                f"print: a slice of {obj.buffer.name}",
                why="a buffer is printed whole, an element alone",
                fix=f"T.print({obj.buffer.name}) or T.print({obj.buffer.name}[i, j])",
            )
        return Print(msg, (), obj.buffer)
    return Print(msg, (as_expr(obj),))


def device_assert(cond: Any, msg: str = "", no_stack_info: bool = False) -> Stmt:
    """Stop the kernel with `msg` when `cond` is false in a thread."""
    return Assert(to_bool(as_expr(cond)), msg)
