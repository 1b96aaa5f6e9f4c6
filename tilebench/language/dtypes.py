"""`T.float16` and the other element types: equal to their names, callable, known to torch."""

from __future__ import annotations

from typing import Any

from tilebench.errors import SyntaxTileError, TypeTileError, nearest
from tilebench.ir.dtype import ALIASES, DTYPES, DType, as_dtype
from tilebench.ir.expr import Expr, as_expr, cast, const


class ScalarType(DType, str):
    """A DType as the language has it: `T.float32(x)` is a constant or a cast, `.as_torch()` is torch's dtype.

    It is its name too, so that programs can say getattr(torch, dtype).
    """

    def __new__(cls, name: str, *facts: Any) -> ScalarType:
        """The name as text; the rest is the DType's."""
        del facts
        return str.__new__(cls, name)

    def __call__(self, value: Any = 0) -> Expr:
        """The value as this type: a constant for numbers, a cast for expressions."""
        if isinstance(value, bool | int | float):
            return const(value, self)
        return cast(as_expr(value), self)

    def as_torch(self) -> Any:
        """torch's dtype of this name."""
        import torch

        spelled = {"float8_e4m3": "float8_e4m3fn", "tfloat32": "float32"}.get(self.name, self.name)
        return getattr(torch, spelled)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.bytes


class NamedType(ScalarType):
    """A type of TileLang's that a program may name (`T.float4_e2m1fn`), but not compute with or store."""

    def __new__(cls, name: str, *facts: Any) -> NamedType:
        """As of any ScalarType."""
        del facts
        return str.__new__(cls, name)

    def __call__(self, value: Any = 0) -> Expr:
        """Raises TB121."""
        del value
        raise self.refusal()

    def refusal(self) -> SyntaxTileError:
        """The error for a use of it."""
        return SyntaxTileError(
            "TB121",
            f"T.{self.name} is not offered",
            why="this element type is not supported",
            fix="T.float8_e4m3, T.float8_e5m2 or a wider type",
        )


NAMED: dict[str, NamedType] = {
    name: NamedType(name, "float", bits)
    for name, bits in {
        "float8_e3m4": 8, "float8_e4m3b11fnuz": 8, "float8_e4m3fnuz": 8, "float8_e5m2fnuz": 8,
        "float6_e2m3fn": 6, "float6_e3m2fn": 6, "float4_e2m1fn": 4,
        "float4_e2m1_unpacked": 8,
    }.items()
}  # fmt: skip
SCALARS: dict[str, ScalarType] = {
    name: ScalarType(d.name, d.kind, d.bits, d.lanes) for name, d in DTYPES.items()
}
SPELLINGS: dict[str, ScalarType] = {
    **SCALARS,
    **{alias: SCALARS[name] for alias, name in ALIASES.items() if name in SCALARS and alias.isidentifier()},
}


def named_type(name: str) -> ScalarType | None:
    """What `T.name` is beside the names that the module lists: `T.float32x2`, and the types only named."""
    if name in NAMED:
        return NAMED[name]
    base, _, lanes = name.rpartition("x")
    if base in SPELLINGS and lanes.isdecimal() and int(lanes) > 1:
        return dtype(name)
    return None


def dtype(value: Any) -> ScalarType:
    """`T.dtype(x)`: the type meant by a T, torch or NumPy dtype, a name, or a Python type.

    Raises TB204 for what is no type, TB121 for one that can only be named.
    """
    if isinstance(value, NamedType):
        raise value.refusal()
    try:
        found = as_dtype(value)
    except KeyError:
        raise TypeTileError(
            "TB204",
            f"unknown dtype {str(value)[:60]!r}{nearest(str(value), DTYPES)}",
            why="the language has " + ", ".join(sorted(DTYPES)),
            fix="use one of these names",
        ) from None
    return SCALARS.get(found.name) or ScalarType(found.name, found.kind, found.bits, found.lanes)
