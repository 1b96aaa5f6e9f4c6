"""One tile op, one file. Importing this package registers them all in `ops.base.OPS`."""

from tilebench.ops.atomic import AtomicTile
from tilebench.ops.base import OPS, Op
from tilebench.ops.copy import Copy
from tilebench.ops.elementwise import Fill
from tilebench.ops.gemm import Gemm, GemmWarpPolicy
from tilebench.ops.reduce import Reduce
from tilebench.ops.scan import Scan
from tilebench.ops.transpose import Transpose

__all__ = ["OPS", "AtomicTile", "Copy", "Fill", "Gemm", "GemmWarpPolicy", "Op", "Reduce", "Scan", "Transpose"]
