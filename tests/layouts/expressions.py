"""A recorder with the operators that the compiler's expressions overload: a number and what made it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

ALLOWED: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "mul": operator.mul, "floordiv": operator.floordiv, "mod": operator.mod,
    "xor": operator.xor, "and": operator.and_, "lshift": operator.lshift, "rshift": operator.rshift,
}  # fmt: skip


class Recorded:
    """An integer that remembers which operators made it."""

    def __init__(self, value: int, ops: tuple[str, ...] = ()) -> None:
        self.value, self.ops = value, ops


def _binary(name: str, swapped: bool) -> Callable[[Recorded, Any], Recorded]:
    def method(self: Recorded, other: Any) -> Recorded:
        assert isinstance(other, (int, Recorded)), f"{name} with {type(other)}"
        value, ops = (other.value, other.ops) if isinstance(other, Recorded) else (other, ())
        left, right = (value, self.value) if swapped else (self.value, value)
        # Every operation must be worth a node: these are the ones the layouts promise to leave out.
        assert not (isinstance(other, int) and name in ("add", "xor", "lshift", "rshift") and other == 0), (
            f"{name} 0"
        )
        assert not (isinstance(other, int) and name in ("mul", "floordiv", "mod") and other == 1), f"{name} 1"
        return Recorded(ALLOWED[name](left, right), (*self.ops, *ops, name))

    return method


for _name in ALLOWED:
    setattr(Recorded, f"__{_name}__", _binary(_name, swapped=False))
    setattr(Recorded, f"__r{_name}__", _binary(_name, swapped=True))


def value_of(x: Any) -> int:
    """The number that an index or a recorded expression stands for."""
    return x.value if isinstance(x, Recorded) else int(x)


def operations_of(x: Any) -> tuple[str, ...]:
    """Names of the operators in an expression, () for a plain int."""
    return x.ops if isinstance(x, Recorded) else ()
