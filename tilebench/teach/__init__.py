"""What the tutorials use: exercises that check themselves and say what was seen, what it means and where."""

from __future__ import annotations

from tilebench.teach.exercise import check, hint
from tilebench.teach.outcome import Checked, Outcome

__all__ = ["Checked", "Outcome", "check", "hint"]
