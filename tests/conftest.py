"""What every test may use: the `golden` fixture, the `gpu` marker, and the hypothesis profiles."""

from __future__ import annotations

import ctypes
import difflib
import functools
import importlib.util
import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"

if importlib.util.find_spec("hypothesis"):
    from hypothesis import settings

    # A run in CI depends on the commit alone; on a developer's machine every run looks at new examples.
    settings.register_profile("ci", derandomize=True, deadline=None, database=None)
    settings.register_profile("dev", deadline=None)
    settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite tests/golden/ with what the tests see now"
    )


def pytest_configure(config: pytest.Config) -> None:
    # No test sees the user's settings, nor kernels of an earlier run; nor do the processes that tests start.
    for name in [name for name in os.environ if name.startswith("TILEBENCH_")]:
        del os.environ[name]
    cache = tempfile.TemporaryDirectory(prefix="tilebench-tests-")
    config.add_cleanup(cache.cleanup)
    os.environ["TILEBENCH_CACHE_DIR"] = cache.name
    # A shell starts its background jobs with interrupts ignored; the tests of Ctrl-C need them.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not gpu_count():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no NVIDIA GPU on this machine"))


@functools.cache
def gpu_count() -> int:
    """Number of GPUs that the CUDA driver sees; 0 where there is no driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return 0
    return count.value


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden("errors/TB304.txt", text)` compares text with tests/golden/errors/TB304.txt.

    With --update-golden the file is rewritten instead, and its diff is read in review.
    """
    return functools.partial(compare_golden, update=request.config.getoption("--update-golden"))


def compare_golden(name: str, text: str, update: bool) -> None:
    """Fail the test, with a diff, unless text is what tests/golden/<name> holds; or rewrite the file."""
    __tracebackhide__ = True
    path = GOLDEN / name
    text = text.rstrip("\n") + "\n"
    if update:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    if not path.exists():
        pytest.fail(f"tests/golden/{name} does not exist; pytest --update-golden writes it:\n\n{text}")
    expected = path.read_text(encoding="utf-8")
    if text != expected:
        lines = difflib.unified_diff(
            expected.splitlines(), text.splitlines(), f"tests/golden/{name}", "now", lineterm=""
        )
        diff = "\n".join(lines)
        pytest.fail(f"the text has changed (pytest --update-golden accepts it):\n\n{diff}")
