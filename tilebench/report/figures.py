"""Numbers with where they come from, places in the cell, and what is worth knowing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Provenance = Literal["predicted", "simulated", "measured"]


@dataclass(frozen=True)
class Figure:
    """A number with its unit and where it comes from.

    device: the machine's name when measured; model when predicted. Of several rounds: value is their median,
    low and high their quartiles. note: what else must be known, as 'cached'.
    """

    value: float
    unit: str
    provenance: Provenance
    device: str = ""
    low: float | None = None
    high: float | None = None
    rounds: int = 0
    note: str = ""


@dataclass(frozen=True)
class Span:
    """A place in the cell: lines from 1, columns from 0, end exclusive."""

    line: int
    column: int = 0
    end_line: int = 0
    end_column: int = 0


@dataclass(frozen=True)
class Finding:
    """Something worth knowing: kind ('race', 'bank-conflict', 'spill', 'unwritten', ...), where (one or two
    places), a hint.
    """

    kind: str
    severity: Literal["error", "warning", "info"]
    text: str
    spans: tuple[Span, ...] = ()
    hint: str = ""
    code: str = ""
