"""One browser for the session; skipped with a reason where there is none, an error where CI promises one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser import harness


@pytest.fixture(scope="session")
def chrome() -> Iterator[Any]:
    if harness.chromium() is None:
        if os.environ.get("CI") == "true":
            pytest.fail("no chromium on the path: apt-get install chromium")
        pytest.skip("no chromium on the path: apt-get install chromium")
    with harness.browser() as made:
        yield made


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    with harness.serving() as url:
        yield url


@pytest.fixture
def page(chrome: Any, address: str) -> Iterator[Any]:
    """A page with the bundle; a console error, an exception or a request to elsewhere fails the test."""
    complaints: list[str] = []
    opened = harness.open_page(chrome, address, complaints)
    try:
        yield opened
    finally:
        opened.context.close()
    assert complaints == []
