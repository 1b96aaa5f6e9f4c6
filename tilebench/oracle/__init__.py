"""The oracle: a tile program evaluated in float64 with a running bound on the error of its own arithmetic.

Every number is a pair (value, bound): the program, run by any right back end, gives a result within `bound`
of `value`. Rounding happens where the language says that it does, in any order where the language leaves the
order open. The oracle knows nothing of threads, layouts or instructions, and shares no code with ops/ or the
back ends.

    add, sub      ea + eb + u|r|
    mul           |a|eb + |b|ea + ea*eb + u|r|
    sum of n      sum(e) + gamma(n-1) * sum|a|,   gamma(n) = n*u / (1 - n*u)           Higham, Accuracy and
        Stability, ch. 3
    exp           |r| * (expm1(ea) + k*u)         k: ulps of the function on any target
    cast          + u_out*|r| + half the smallest subnormal
    compare       a difference within the bounds is *ambiguous*

No rounding is charged where the result is exactly representable from exact operands, so on small integers
bounds are zero and results must agree bit for bit. Comparisons that hang on their own error make a select
cover both arms; an integer or index that does so is ambiguous, left out of the comparison, and counted.
"""

from tilebench.oracle.evaluate import OracleResult, OracleUnsupported, evaluate

__all__ = ["OracleResult", "OracleUnsupported", "evaluate"]
