"""Conversions of neighbours in registers, printed two at a time: the hardware converts pairs.

A loop that does nothing but convert one register array to another goes in steps of two, each a call of the
function that CUDA's own headers have for a pair (cuda_fp16.h, cuda_bf16.h, cuda_fp8.h), or TileLang's;
`prelude_pairs.py` has them. Instructions of a kernel that converts 16 elements a thread from memory to
memory, one by one and in pairs, on sm_90a (NVRTC 13.5, nvdisasm; counted, not timed):

| f32 to e4m3 | f16 to e4m3 | e4m3 to f16 | e4m3 to f32 | bf16 to f32 | f32 to f16 |
| 67, 27 | 79, 23 | 79, 23 | 75, 43 | 46, 34 | 26, 26 (ptxas makes pairs of these) |
"""

from __future__ import annotations

from dataclasses import dataclass

from tilebench.backends.cuda.accesses import trips
from tilebench.backends.cuda.prelude import capability_of
from tilebench.backends.cuda.prelude_pairs import Conversion, pair_conversion
from tilebench.ir.expr import Cast, Expr, Load, Var, int_value
from tilebench.ir.simplify import linear
from tilebench.ir.thread import Memory
from tilebench.ir.tile import For, Seq, Store

_WORDS = {
    "float32": "float2", "float16": "unsigned", "bfloat16": "unsigned",
    "float8_e4m3": "unsigned short", "float8_e5m2": "unsigned short", "float8_e8m0fnu": "unsigned short",
    "float64": "double2",
}  # fmt: skip
"""The type that holds two neighbours."""


@dataclass(frozen=True)
class PairCast:
    """`destination[into + k] = cast(source[at + k])` for k in (0, 1), both places even.

    conversion: how the one becomes the other.
    """

    destination: Memory
    into: Expr
    source: Memory
    at: Expr
    conversion: Conversion

    @property
    def words(self) -> tuple[str, str]:
        """The C++ types of a pair: (of the destination, of the source)."""
        return _WORDS[self.destination.dtype.name], _WORDS[self.source.dtype.name]


def pair_cast(s: For, arch: str) -> PairCast | None:
    """What a step of two of the loop is, when all that it does is to convert registers; else None."""
    count = trips(s)
    if count is None or count % 2 or int_value(s.start) != 0 or int_value(s.step) != 1:
        return None
    body = s.body.body[0] if isinstance(s.body, Seq) and len(s.body.body) == 1 else s.body
    if not isinstance(body, Store) or not isinstance(body.value, Cast):
        return None
    load, into = body.value.value, body.buffer
    if not isinstance(load, Load) or not _takes_pairs(into, body.indices[0], s.var):
        return None
    found = pair_conversion(load.dtype.name, into.dtype.name, capability_of(arch))
    if found is None or load.buffer.dtype != load.dtype or body.value.dtype != into.dtype:
        return None
    if not _takes_pairs(load.buffer, load.indices[0], s.var):
        return None
    assert isinstance(into, Memory)
    assert isinstance(load.buffer, Memory)
    return PairCast(into, body.indices[0], load.buffer, load.indices[0], found)


def _takes_pairs(buffer: object, index: Expr, var: Var) -> bool:
    """Whether an access is to a register array that two neighbours of it fill evenly, one by one from an
    even place on.
    """
    if not isinstance(buffer, Memory) or buffer.space != "register":
        return False
    size, form = int_value(buffer.shape[0]), linear(index)
    others = [factor for term, factor in form.terms if term is not var]
    in_order = form.coefficient(var) == 1 and not any(x % 2 for x in (*others, form.constant))
    return in_order and size is not None and size % 2 == 0


__all__ = ["PairCast", "pair_cast"]
