"""The closed table of `Call` names: what each means, how many arguments, which dtype it gives.

Elementwise names take and give floats of one dtype unless said otherwise; half types are computed in float32
and rounded once. Per-thread names exist at both levels (the user may write them); `effect` calls may not be
moved, dropped or duplicated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Result = Literal["same", "bool", "int32", "uint32", "given"]


@dataclass(frozen=True)
class Intrinsic:
    """arity: argument count; result: 'same' as the first argument, a fixed dtype or 'given' by the caller."""

    name: str
    arity: int
    result: Result
    meaning: str
    effect: bool = False
    per_thread: bool = False


def _table(*rows: Intrinsic) -> dict[str, Intrinsic]:
    return {row.name: row for row in rows}


_UNARY_FLOAT = (
    "exp exp2 exp10 log log2 log10 log1p sqrt rsqrt sin cos tan sinh cosh tanh asin acos atan asinh "
    "acosh atanh erf sigmoid "
    "floor ceil round trunc nearbyint"
)

INTRINSICS = _table(
    *(Intrinsic(name, 1, "same", f"{name}(x)") for name in _UNARY_FLOAT.split()),
    Intrinsic("abs", 1, "same", "|x|, integers too"),
    Intrinsic("rcp", 1, "same", "1 / x, may be approximate (2 ulp)"),
    Intrinsic("pow", 2, "same", "x ** y"),
    Intrinsic("fmod", 2, "same", "C remainder, sign of x"),
    Intrinsic("atan2", 2, "same", "angle of (x=second, y=first)"),
    Intrinsic("copysign", 2, "same", "|x| with y's sign"),
    Intrinsic("hypot", 2, "same", "sqrt(x*x + y*y)"),
    Intrinsic("ldexp", 2, "same", "x * 2**n"),
    Intrinsic("nextafter", 2, "same", "next value after x towards y"),
    Intrinsic("fma", 3, "same", "x*y + z, rounded once"),
    Intrinsic("isnan", 1, "bool", "x is NaN"),
    Intrinsic("isinf", 1, "bool", "x is infinite"),
    Intrinsic("isfinite", 1, "bool", "x is finite"),
    Intrinsic("popcount", 1, "int32", "set bits"),
    Intrinsic("clz", 1, "int32", "leading zero bits"),
    Intrinsic("reinterpret", 1, "given", "the same bits as another dtype of the same width"),
    Intrinsic("shfl_xor", 2, "same", "the value of lane (lane ^ mask)", per_thread=True),
    Intrinsic(
        "shfl_up", 2, "same", "the value of lane - delta (own value where there is none)", per_thread=True
    ),
    Intrinsic(
        "shfl_down", 2, "same", "the value of lane + delta (own value where there is none)", per_thread=True
    ),
    Intrinsic("shfl", 2, "same", "the value of the given lane", per_thread=True),
    Intrinsic("ballot", 1, "uint32", "bit l is lane l's predicate", per_thread=True),
    Intrinsic("any_sync", 1, "bool", "true if any lane's predicate is", per_thread=True),
    Intrinsic("all_sync", 1, "bool", "true if all lanes' predicates are", per_thread=True),
    Intrinsic("activemask", 0, "uint32", "lanes running this call", per_thread=True),
    Intrinsic(
        "syncthreads_and",
        1,
        "bool",
        "barrier; true if every thread's predicate is",
        effect=True,
        per_thread=True,
    ),
    Intrinsic(
        "syncthreads_or",
        1,
        "bool",
        "barrier; true if any thread's predicate is",
        effect=True,
        per_thread=True,
    ),
    Intrinsic(
        "syncthreads_count",
        1,
        "int32",
        "barrier; how many threads' predicates are true",
        effect=True,
        per_thread=True,
    ),
    *(
        Intrinsic(
            f"barrier_{name}",
            3,
            "bool",
            f"syncthreads_{name} of the threads of a role: (predicate, barrier, threads), both constant",
            effect=True,
            per_thread=True,
        )
        for name in ("and", "or")
    ),
    *(
        Intrinsic(
            f"f16x2_{name}", n, "uint32", f"two float16 in a word each: {name} of both", per_thread=True
        )
        for name, n in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3))
    ),
    Intrinsic("f16x2", 2, "uint32", "two float32 rounded to float16, the first low", per_thread=True),
    Intrinsic(
        "f16x2_finite",
        2,
        "uint32",
        "two float32 rounded to float16, the first low; what is beyond its numbers to the nearest of them",
        per_thread=True,
    ),
    Intrinsic("in_register", 1, "same", "x, which no compiler takes for a constant", per_thread=True),
    Intrinsic("dp4a", 3, "int32", "c + sum of four int8 products packed in two int32"),
)
