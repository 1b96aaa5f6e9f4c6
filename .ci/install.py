"""pip install, told in a line a step instead of hundreds or none: what the Makefile sets up with.

    python .ci/install.py PIP-ARGUMENTS...

Prints each large download, the number of packages, and the time. What pip said is shown when it fails.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time

DOWNLOAD = re.compile(r"\s*Downloading (?:\S*/)?([\w.]+-[\w.!]+)\S* \((\d+(?:\.\d+)?) ([MG])B\)")
INSTALLING = "Installing collected packages: "
LARGE_MB = 5.0


def main(arguments: list[str]) -> int:
    """Run pip with these arguments; its exit code."""
    start = time.monotonic()
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off"]
    pip = subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    said: list[str] = []
    assert pip.stdout is not None, "a pipe was asked for"
    for line in pip.stdout:
        said.append(line)
        found = DOWNLOAD.match(line)
        if found is not None and (found[3] == "G" or float(found[2]) >= LARGE_MB):
            print(f"     fetching {found[1]}, {found[2]} {found[3]}B", flush=True)
        elif line.startswith(INSTALLING):
            print(f"     installing {line.count(',') + 1} packages", flush=True)
    if pip.wait():
        print("".join(said[-40:]), file=sys.stderr)
    print(
        f"     {'failed after' if pip.returncode else 'done in'} {time.monotonic() - start:.0f} s", flush=True
    )
    return pip.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
