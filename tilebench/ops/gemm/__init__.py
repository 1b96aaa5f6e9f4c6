"""The gemm op: spec.py says what it is; one file for each instruction that carries it out."""

from tilebench.ops.gemm.examples import EXAMPLES
from tilebench.ops.gemm.spec import Gemm, GemmWarpPolicy, gemm

Gemm.examples = EXAMPLES

__all__ = ["Gemm", "GemmWarpPolicy", "gemm"]
