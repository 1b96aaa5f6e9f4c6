"""The rows whose programs stand in tests/kernels/programs_more.py."""

from __future__ import annotations

from tests.perf.cases import Case


def cases() -> dict[str, list[Case]]:
    """Rows by name."""
    return {}
