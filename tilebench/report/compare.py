"""What changed from one compile to another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np  # noqa: TC002 # from_json reads the fields' types


@dataclass(frozen=True)
class Delta:
    """Something that differs between two compiles. verdict: whether the change is for the better, where that
    can be said.
    """

    group: Literal["setting", "resource", "time", "instruction", "result"]
    what: str
    before: str
    after: str
    change: str = ""
    verdict: Literal["better", "worse", ""] = ""


@dataclass(frozen=True)
class LayoutDelta:
    """A buffer whose layout differs.

    moved of total elements are in another place; map: uint8 [rows, columns], the share of each part of the
    tile that moved (255: all), None when there is nothing to map.
    """

    buffer: str
    before: str
    after: str
    moved: int = 0
    total: int = 0
    map: np.ndarray | None = None


@dataclass(frozen=True)
class TextDelta:
    """One level of code that differs: a unified difference, at most so many lines.

    lines: (mark, text) with mark ' ', '+', '-' or '@'.
    """

    level: str
    added: int
    removed: int
    lines: tuple[tuple[str, str], ...] = ()
    cut: int = 0


@dataclass(frozen=True)
class CompareInfo:
    """What changed from an earlier compile to this one."""

    before: str
    before_id: str
    after: str
    deltas: tuple[Delta, ...] = ()
    layouts: tuple[LayoutDelta, ...] = ()
    texts: tuple[TextDelta, ...] = ()
