"""The copy op: spec.py says what it is; one file for each way to carry it out."""

from tilebench.ops.copy import examples as _examples  # noqa: F401  (fills Copy.examples)
from tilebench.ops.copy.spec import Copy, async_copy, copy

__all__ = ["Copy", "async_copy", "copy"]
