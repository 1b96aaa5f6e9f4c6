"""Machine code of a cubin as text, through nvdisasm (the wheel nvidia-cuda-nvdisasm, or the one of an
installed toolkit).
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
import threading
from dataclasses import replace
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path

from tilebench.backends.cuda.emit import FILE
from tilebench.backends.cuda.live import mix
from tilebench.errors import TargetError
from tilebench.report import CodeText
from tilebench.store import current_store, make_key


@cache
def find() -> Path | None:
    """The nvdisasm to use: of the wheel, else on PATH, else of /usr/local/cuda; None when there is none."""
    spec = find_spec("nvidia")
    for root in (spec.submodule_search_locations or []) if spec is not None else []:
        for path in sorted(Path(root).glob("*/bin/nvdisasm*"), reverse=True):
            return path
    found = shutil.which("nvdisasm")
    if found is not None:
        return Path(found)
    usual = Path("/usr/local/cuda/bin/nvdisasm")
    return usual if usual.exists() else None


def disassemble(cubin: bytes, timeout: float = 60.0) -> CodeText:
    """SASS, one instruction or label a line, each with the cell line that the line table names (0 for none)
    and the number of general registers that are live there.

    Raises TargetError TB514 when there is no nvdisasm or it fails.
    """
    program = find()
    if program is None:
        raise TargetError(
            "TB514",
            "there is no nvdisasm to show machine code with",
            why="it is not part of the driver or of NVRTC",
            fix="pip install nvidia-cuda-nvdisasm; the PTX is there without it",
        )
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        # Line numbers and live ranges exclude each other, and starting takes most of the time: both at once.
        options = (["-gi", "-c"], ["-lrm", "count", "-c"])
        listing, ranges = _run(program, [[*o, file.name] for o in options], timeout)
    code = parse(listing)
    live = parse_live(ranges)
    counts = tuple(live.get(line.split(None, 1)[0], 0) for line in code.text.splitlines())
    return replace(code, live=counts if any(counts) else (), mix=mix(code.text))


def _run(program: Path, commands: list[list[str]], timeout: float) -> list[str]:
    """What the program prints for each list of arguments, run side by side. Raises TargetError TB514."""
    started: list[subprocess.Popen[bytes]] = []
    texts: list[str] = []
    try:
        for c in commands:
            process = subprocess.Popen([program, *c], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            started.append(process)  # at once: those that were started are ended whatever happens
        for process in started:
            out, err = process.communicate(timeout=timeout)
            if process.returncode != 0:
                said = err.decode(errors="replace").strip()[:300]
                raise TargetError(
                    "TB514",
                    f"nvdisasm cannot read this binary: {said}",
                    why=f"{program} gave {process.returncode}",
                    fix="install the newest nvidia-cuda-nvdisasm",
                )
            texts.append(out.decode(errors="replace"))
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TargetError(
            "TB514",
            f"nvdisasm did not run: {error}",
            why=str(program),
            fix="reinstall nvidia-cuda-nvdisasm",
        ) from error
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
            process.communicate()
    return texts


_waiting = threading.Lock()


def listing(cubin: bytes) -> CodeText:
    """`disassemble`, kept in the store: nvdisasm takes most of a second for any binary."""
    with _waiting:  # a second caller waits for the first instead of starting nvdisasm again
        return _listing(cubin)


@lru_cache(maxsize=32)
def _listing(cubin: bytes) -> CodeText:
    program, store = find(), current_store()
    if program is None:
        return disassemble(cubin)  # raises: there is none
    key = make_key("sass", cubin, str(program.stat().st_mtime_ns), "2")
    entry = store.get(key)
    if entry is not None and "sass.json" in entry.files:
        kept = json.loads(entry.files["sass.json"])
        return CodeText("sass", kept["text"], tuple(kept["lines"]), tuple(kept["live"]), kept["mix"])
    code = disassemble(cubin)
    data = {"text": code.text, "lines": code.lines, "live": code.live, "mix": code.mix}
    store.put(key, {"sass.json": json.dumps(data).encode()}, {"kind": "sass"})
    return code


def begin(cubin: bytes) -> threading.Thread | None:
    """Start `listing` in a thread, so that it is there when the report is made; None where there is no
    nvdisasm.
    """
    if not cubin or find() is None:
        return None

    def work() -> None:
        try:
            listing(cubin)
        except TargetError:
            return  # who asks for the listing gets the error

    thread = threading.Thread(target=work, name="tilebench-sass", daemon=True)
    thread.start()
    return thread


_PLACE = re.compile(r'^\s*//## File "([^"]*)", line (\d+)(?: inlined at "([^"]*)", line (\d+))?')
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]+)\*/\s+(.*?)\s*;?\s*$")
_LABEL = re.compile(r"^\s*(\.L_x_\d+):\s*$")


def parse(text: str) -> CodeText:
    """nvdisasm's listing as code with cell lines: instructions without their trailing semicolons, and
    labels.
    """
    texts: list[str] = []
    lines: list[int] = []
    line = 0
    fresh = True  # a run of '//##' lines describes one place: the first that names the cell counts
    for raw in text.splitlines():
        place = _PLACE.match(raw)
        if place is not None:
            named = _cell_line(place)
            if fresh or not line:
                line = named
            fresh = False
            continue
        fresh = True
        label = _LABEL.match(raw)
        if label is not None:
            texts.append(f"{label[1]}:")
            lines.append(0)
            continue
        instruction = _INSTRUCTION.match(raw)
        if instruction is not None:
            texts.append(f"{instruction[1]}  {instruction[2]}")
            lines.append(line)
    return CodeText("sass", "\n".join(texts), tuple(lines))


_LIVE = re.compile(r"^\s*/\*([0-9a-f]+)\*/.*?// \|\s*(\d*)\s*\|")


def parse_live(text: str) -> dict[str, int]:
    """Address -> live general registers, from a listing with live ranges counted."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        m = _LIVE.match(line)
        if m is not None:
            found[m[1]] = int(m[2] or 0)
    return found


def _cell_line(place: re.Match[str]) -> int:
    for file, number in ((place[1], place[2]), (place[3], place[4])):
        if file == FILE:
            return int(number)
    return 0
