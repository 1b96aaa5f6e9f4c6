"""The copy op: spec.py says what it is; one file for each way to carry it out."""

from tilebench.ops.copy.examples import EXAMPLES
from tilebench.ops.copy.spec import Copy, async_copy, copy

Copy.examples = EXAMPLES

__all__ = ["Copy", "async_copy", "copy"]
