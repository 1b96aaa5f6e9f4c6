"""Outputs compared with what they should be."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np  # noqa: TC002 # from_json reads the fields' types

LARGEST_ERROR, LARGEST_RATIO = 1e300, 1e30
"""What stands for an error without a number (NaN against a number, never written) and for what it is of its
bound; views say it in words.
"""


@dataclass(frozen=True)
class WorstElement:
    """A wrong or worst element: where, both values, its error over its bound, who wrote it.

    error and ratio are LARGEST_ERROR and LARGEST_RATIO where they are not finite, or the bound is 0; written:
    whether anything wrote it (the value, the line and the thread say nothing if not).
    """

    coord: tuple[int, ...]
    value: float
    reference: float
    error: float
    ratio: float
    line: int = 0
    block: tuple[int, ...] = ()
    thread: int = -1
    written: bool = True


@dataclass(frozen=True)
class DiffInfo:
    """One output against a reference.

    against: 'torch' | 'oracle'; verdict 'pass' | 'fail' | 'unchecked'; how: the rule that was applied, with
    its numbers; heat: downsampled max |error| / bound, 2-D; heat_at: which element of its heat_step box each
    cell of the map stands for, row-major (None: the boxes are single elements); histograms: (edges, counts)
    by name; pattern: a guess at the cause; unwritten, special: of the wrong elements, those that nothing
    wrote, and others that are NaN or infinite on one side; heat_unwritten: 1 for each cell of the map that
    has one of the former (None: there is none).
    """

    output: str
    against: str
    verdict: Literal["pass", "fail", "unchecked"]
    how: str
    max_abs: float = 0.0
    max_rel: float = 0.0
    max_ratio: float = 0.0
    wrong: int = 0
    ambiguous: int = 0
    checked: int = 0
    total: int = 0
    heat: np.ndarray | None = None
    heat_step: tuple[int, ...] = ()
    heat_at: np.ndarray | None = None
    worst: tuple[WorstElement, ...] = ()
    histograms: dict[str, tuple[tuple[float, ...], tuple[int, ...]]] = field(default_factory=dict[str, Any])
    pattern: str = ""
    unwritten: int = 0
    special: int = 0
    heat_unwritten: np.ndarray | None = None
