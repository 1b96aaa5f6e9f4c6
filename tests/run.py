"""Run the test suites in turn, print the time of each, and close with the sum: what `make test` does.

    python tests/run.py                all suites
    python tests/run.py unit emulator  those two

Exit code 0 when at least one test ran and none failed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build" / "tests"

# Folders that are suites of their own, in the order they run; all the rest of tests/ is the suite `unit`.
SUITES: dict[str, str] = {
    "unit": "what each part promises, mirroring tilebench/",
    "traps": "what a program may get wrong elsewhere: every target beside NumPy",
    "emulator": "lowered kernels, run thread by thread in NumPy",
    "compiles": "every kernel through NVRTC for every architecture",
    "perf": "ratios to a peer in the same process, and the bars",
    "notebooks": "the showcase, executed without a screen",
    "browser": "JupyterLab in a real browser",
}
SHOWS_OUTPUT = {"perf"}  # its bars are there to be read
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True)
class Result:
    """One suite's counts; `note` says why it did not run, when it did not."""

    suite: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    note: str = ""


def test_files(suite: str) -> list[Path]:
    """The suite's test files; none when its folder does not exist."""
    if suite != "unit":
        return sorted((ROOT / "tests" / suite).rglob("test_*.py"))
    others = {ROOT / "tests" / name for name in SUITES if name != "unit"}
    return [path for path in sorted((ROOT / "tests").rglob("test_*.py")) if not others & set(path.parents)]


def browser_at_hand() -> bool:
    """True when there is a Chromium, installed from Debian's packages if need be and if we may."""
    if any(map(shutil.which, BROWSERS)):
        return True
    if not (shutil.which("apt-get") and os.geteuid() == 0):
        return False
    print("installing chromium for the browser tests", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    packages = ["chromium", "fonts-dejavu-core"]
    for command in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
        done = subprocess.run(["apt-get", "-qq", *command], env=environment, capture_output=True, text=True)
        if done.returncode:
            print(done.stdout + done.stderr, flush=True)
            return False
    return shutil.which("chromium") is not None


def run_suite(suite: str) -> Result:
    """Run one suite in its own process; a suite that dies without a result counts as one failure."""
    if not test_files(suite):
        return Result(suite, note=f"absent: no tests in tests/{suite}/")
    if suite == "browser" and not browser_at_hand():
        note = "needs Chromium: apt-get install chromium fonts-dejavu-core"
        # In CI a suite that could not run is a failure; at home the rest still counts.
        return (
            Result(suite, failed=1, note=note)
            if os.environ.get("CI")
            else Result(suite, skipped=1, note=note)
        )

    results = RESULTS / f"{suite}.xml"
    results.unlink(missing_ok=True)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--durations=5",
        "--durations-min=2",
        f"--junitxml={results}",
    ]
    command += ["-s"] if suite in SHOWS_OUTPUT else []
    if suite == "unit":
        command += ["tests", *(f"--ignore=tests/{name}" for name in SUITES if name != "unit")]
    else:
        command += [f"tests/{suite}"]

    start = time.perf_counter()
    code = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL).returncode
    seconds = time.perf_counter() - start
    if not results.exists():
        return Result(suite, failed=1, seconds=seconds, note=f"pytest ended with code {code} and no results")
    # The attributes are pytest's own counts; errors are failures in collection or in a fixture.
    counts = next(ElementTree.parse(results).getroot().iter("testsuite")).attrib
    failed = int(counts["failures"]) + int(counts["errors"])
    skipped = int(counts["skipped"])
    passed = int(counts["tests"]) - failed - skipped
    if code and not failed:
        return Result(suite, passed, 1, skipped, seconds, note=f"pytest ended with code {code}")
    return Result(suite, passed, failed, skipped, seconds)


def main(names: list[str]) -> int:
    """Run the named suites, or all of them; the exit code."""
    unknown = [name for name in names if name not in SUITES]
    if unknown:
        print(f"no suite named {', '.join(unknown)}; there are {', '.join(SUITES)}", file=sys.stderr)
        return 2
    RESULTS.mkdir(parents=True, exist_ok=True)
    results: list[Result] = []
    for suite in names or list(SUITES):
        print(f"\n=== {suite}: {SUITES[suite]}", flush=True)
        result = run_suite(suite)
        results.append(result)
        print(f"=== {suite}: {result.note or f'{result.seconds:.1f} s'}", flush=True)

    print("\nsuite       passed  failed  skipped  seconds")
    for r in results:
        print(f"{r.suite:<10} {r.passed:7} {r.failed:7} {r.skipped:8} {r.seconds:8.1f}  {r.note}".rstrip())
    passed, failed, skipped = (
        sum(getattr(r, count) for r in results) for count in ("passed", "failed", "skipped")
    )
    print(f"\n{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
