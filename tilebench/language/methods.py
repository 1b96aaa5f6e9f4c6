"""What the language has for the methods that tensors have elsewhere: `tile.sum()` is T.reduce_sum."""

from __future__ import annotations

from typing import Any

from tilebench.ir.tile import Buffer

_REDUCTIONS = {
    "sum": "sum", "max": "max", "amax": "max", "min": "min", "amin": "min", "absmax": "absmax",
}  # fmt: skip
_ELEMENTWISE = (
    "abs",
    "exp",
    "log",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "tanh",
    "sigmoid",
    "floor",
    "ceil",
    "round",
)
_WHOLE = {"T": "transpose", "transpose": "transpose", "t": "transpose", "zero_": "clear", "fill_": "fill",
          "fill": "fill", "copy_": "copy", "clone": "copy", "copy": "copy"}  # fmt: skip


def instead_of_method(base: Any, name: str) -> str:
    """What the language has for a method that tensors elsewhere have."""
    if not isinstance(base, Buffer):
        return "correct the name"
    tile = base.name
    if name in ("mean", "var", "std"):
        return f"T.reduce_sum({tile}, out, dim=...), then divide by the extent in a T.Parallel loop"
    if name in ("any", "all"):
        return f"T.{name}_of({tile})"
    if name == "cumsum":
        return f"T.cumsum({tile}, out, dim=...)"
    if name in _REDUCTIONS:
        return (
            f"T.reduce_{_REDUCTIONS[name]}({tile}, out, dim=...), with out a tile of the shape that is left"
        )
    if name in _ELEMENTWISE:
        return f"for i in T.Parallel(...): out[i] = T.{name}({tile}[i]): one element at a time"
    if name in _WHOLE:
        value = ", value" if _WHOLE[name] == "fill" else "" if _WHOLE[name] == "clear" else ", out"
        return f"T.{_WHOLE[name]}({tile}{value})"
    return "buffers have .shape, .dtype, .strides and .scope()"
