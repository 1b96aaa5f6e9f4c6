"""The gemm op: spec.py says what it is; one file for each instruction that carries it out."""

from tilebench.ops.gemm import examples as _examples  # noqa: F401  (fills Gemm.examples)
from tilebench.ops.gemm.spec import Gemm, GemmWarpPolicy, gemm

__all__ = ["Gemm", "GemmWarpPolicy", "gemm"]
