"""Machine code of a cubin as text, through nvdisasm (the wheel nvidia-cuda-nvdisasm, or the one of an
installed toolkit).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tilebench.backends.cuda.emit import FILE
from tilebench.errors import TargetError
from tilebench.report import CodeText


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
    """SASS, one instruction or label a line, each with the cell line that the line table names (0 for none).

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
        command = [str(program), "-gi", "-c", file.name]
        try:
            done = subprocess.run(command, capture_output=True, timeout=timeout, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise TargetError(
                "TB514",
                f"nvdisasm did not run: {error}",
                why=str(program),
                fix="reinstall nvidia-cuda-nvdisasm",
            ) from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()[:300]
        fix = "install the newest nvidia-cuda-nvdisasm"
        raise TargetError(
            "TB514",
            f"nvdisasm cannot read this binary: {said}",
            why=f"{program} gave {done.returncode}",
            fix=fix,
        )
    return parse(done.stdout.decode(errors="replace"))


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


def _cell_line(place: re.Match[str]) -> int:
    for file, number in ((place[1], place[2]), (place[3], place[4])):
        if file == FILE:
            return int(number)
    return 0
