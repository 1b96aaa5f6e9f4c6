"""interp: the kernel in NumPy, block by block, with every access checked. This is the specification of the
language."""

from tilebench.backends.interp.build import Interpreted, build

__all__ = ["Interpreted", "build"]
