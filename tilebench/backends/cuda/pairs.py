"""Two neighbours of 16 bits in registers that are read or written as one word are printed as one.

Thread IR says it in halves (`passes/lower/packed.py`); the compiler would put them together again with shifts
and permutations.
"""

from __future__ import annotations

from tilebench.ir.expr import Binary, Call, Cast, Expr, Load, Var, int_value
from tilebench.ir.thread import Memory
from tilebench.ir.tile import Stmt, Store


def written_word(first: Stmt, second: Stmt) -> Var | None:
    """The word whose halves two stores put side by side, the low one first; else None."""
    if not isinstance(first, Store) or not isinstance(second, Store) or first.buffer is not second.buffer:
        return None
    low, high = _bits_of(first.value), _bits_of(second.value)
    if not _side_by_side(first.buffer, first.indices[0], second.indices[0]) or low is None or high is None:
        return None
    if not isinstance(high, Binary) or high.op != "shr" or int_value(high.right) != 16:
        return None
    return low if isinstance(low, Var) and high.left is low and low.dtype == "uint32" else None


def read_word(e: Binary) -> Load | None:
    """The first of two neighbours that `low | high << 16` reads as one word; else None."""
    if e.op != "bitor" or not isinstance(e.right, Binary) or e.right.op != "shl":
        return None
    low, high = _loaded(e.left), _loaded(e.right.left)
    if low is None or high is None or int_value(e.right.right) != 16 or low.buffer is not high.buffer:
        return None
    return low if _side_by_side(low.buffer, low.indices[0], high.indices[0]) else None


def _bits_of(e: Expr) -> Expr | None:
    """v of `reinterpret(cast(v, uint16))`."""
    if not isinstance(e, Call) or e.name != "reinterpret":
        return None
    x = e.args[0]
    return x.value if isinstance(x, Cast) and x.dtype == "uint16" else None


def _loaded(e: Expr) -> Load | None:
    """x of `cast(reinterpret(x, uint16), uint32)`, a load."""
    if not isinstance(e, Cast) or not isinstance(e.value, Call) or e.value.name != "reinterpret":
        return None
    x = e.value.args[0]
    return x if isinstance(x, Load) and e.dtype == "uint32" else None


def _side_by_side(buffer: object, first: Expr, second: Expr) -> bool:
    a, b = int_value(first), int_value(second)
    registers = isinstance(buffer, Memory) and buffer.space == "register" and buffer.dtype.bytes == 2
    return registers and a is not None and b == a + 1 and a % 2 == 0


__all__ = ["read_word", "written_word"]
