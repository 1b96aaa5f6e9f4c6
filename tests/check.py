"""Run every checker, all of them even when one fails: what `make check` does."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHECKS = (
    ("ruff", "format", "--check", "--output-format", "concise", "."),
    ("ruff", "check", "--output-format", "concise", "."),
    ("pyright",),
    ("lint-imports", "--no-cache"),
)


def main() -> int:
    """Number of checkers that complained."""
    complaints: list[str] = []
    for command in CHECKS:
        name = " ".join(command)
        print(f"=== {name}", flush=True)
        start = time.perf_counter()
        tool = Path(sys.executable).with_name(command[0])
        if subprocess.run([tool, *command[1:]], cwd=ROOT, stdin=subprocess.DEVNULL).returncode:
            complaints.append(name)
        print(f"=== {time.perf_counter() - start:.1f} s", flush=True)
    print(f"complaints: {', '.join(complaints)}" if complaints else "no complaints")
    return len(complaints)


if __name__ == "__main__":
    sys.exit(main())
