"""Recorded runs of a block, for time travel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np  # noqa: TC002 # from_json reads the fields' types

Box = tuple[int, ...]
"""Part of a buffer: its offsets, then its extents (2 x rank numbers)."""


@dataclass(frozen=True)
class TraceBuffer:
    """What a trace follows.

    scope: that of the buffer, or 'scalar' (a variable, shape ()), or 'register' (thread level: one row a
    register, one column a thread). origin: where the drawn box starts in a global tensor. holds: of
    registers and of shared memory at thread level, the buffer whose LayoutInfo says which element is where;
    first_thread: of the columns.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    scope: str
    origin: tuple[int, ...] = ()
    holds: str = ""
    versions: int = 1
    first_thread: int = 0
    line: int = 0


@dataclass(frozen=True)
class TraceSite:
    """A statement that steps are made of. op: its OpInfo id, '' for none; vars: loop variables around it,
    outermost first; text: the statement in one line (of a parallel loop its body's); end_line: its last line.
    """

    name: str
    line: int
    text: str
    op: str = ""
    vars: tuple[str, ...] = ()
    end_line: int = 0


@dataclass(frozen=True)
class TraceWrite:
    """What a step left in a box of a buffer.

    at: first byte of its values in the trace's data (inflated), -1 when they were not kept; code: how they
    are kept (views/trace.py); mask_at: first byte of the bits (row-major, least significant first) of the
    elements that were written, -1 for all; nan, inf: how many there are; low, high: range of the finite ones.
    """

    buffer: int
    box: Box
    at: int
    code: str
    mask_at: int = -1
    nan: int = 0
    inf: int = 0
    low: float = 0.0
    high: float = 0.0


@dataclass(frozen=True)
class TraceRead:
    """A box of a buffer that a step read."""

    buffer: int
    box: Box


@dataclass(frozen=True)
class TraceCheck:
    """A buffer compared with the reference after a step. error: the largest |difference|; ratio: the largest
    |difference| over what is allowed; wrong: elements beyond it; at: first byte of the map of differences
    (code 'e1' of views/trace.py), -1 for none.
    """

    buffer: int
    box: Box
    error: float
    ratio: float
    wrong: int
    at: int = -1


@dataclass(frozen=True)
class TraceStep:
    """One execution of a statement. at: values of the site's loop variables."""

    site: int
    at: tuple[int, ...]
    writes: tuple[TraceWrite, ...] = ()
    reads: tuple[TraceRead, ...] = ()
    checks: tuple[TraceCheck, ...] = ()


@dataclass(frozen=True)
class Trace:
    """What one block did, step by step: at tile level (the specification's order) or at thread level (the
    emulated thread program).

    data: values, one zlib stream; total: steps that there were; kept: their numbers where only key steps are
    here (empty: all are here); reference: what the checks compare with and how; stopped: the error that ended
    the run.
    """

    level: Literal["tile", "thread"]
    block: tuple[int, ...]
    grid: tuple[int, ...]
    buffers: tuple[TraceBuffer, ...]
    sites: tuple[TraceSite, ...]
    steps: tuple[TraceStep, ...]
    data: np.ndarray | None = None
    total: int = 0
    kept: tuple[int, ...] = ()
    reference: str = ""
    note: str = ""
    stopped: str = ""
