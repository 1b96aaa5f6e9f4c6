"""`--override cuda`: the generated CUDA text, edited by hand, compiled in place of itself.

The text lies in a file beside the notebook, NAME.cu: the first run writes it, later runs compile what it
says. Its first line holds a hash of the text that it was generated as, so that a program that has changed
since is noticed. Registers, spills and the code view are those of the edited text; the other views are of the
program.
"""

from __future__ import annotations

import difflib
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilebench.errors import InternalError, LaunchError, TargetError
from tilebench.report import CodeText, Finding

if TYPE_CHECKING:
    from tilebench.kernel.compiled import Kernel

EDITED = "override-edited"
"""The kind of the finding that says that edited text was compiled."""
_MARK = "// tilebench: generated as "


def override(kernel: Kernel, where: str | Path) -> Finding:
    """Compile edited text for the kernel; gives the finding that says what was done.

    where: 'cuda' (NAME.cu in the working directory) or a path. Raises LaunchError TB617 for a target without
    CUDA text, TargetError TB623 for text that does not compile, TB510 without NVRTC.
    """
    if kernel.target.kind != "cuda":
        raise LaunchError(
            "TB617",
            f"--override cuda changes CUDA text, and the target is {kernel.target}",
            why="only the cuda target runs that text",
            fix="add --target cuda (it compiles with no GPU too)",
        )
    path = Path(f"{kernel.name}.cu") if str(where) == "cuda" else Path(where)
    built = kernel.executable.built
    own = next(c for c in built.code if c.level == "cuda")
    digest = hashlib.sha256(own.text.encode()).hexdigest()[:16]
    if not path.exists():
        path.write_text(f"{_MARK}{digest}\n{own.text}\n")
        return Finding("override", "info", f"wrote {path}: edit it and run the cell again")
    head, _, text = path.read_text().partition("\n")
    if not head.startswith(_MARK):
        head, text = "", path.read_text()
    stale = head and head.removeprefix(_MARK).strip() != digest
    if text.strip() == own.text.strip():
        return Finding("override", "info", f"{path} says what is generated: nothing was changed")
    _compile(kernel, path, own, text.rstrip("\n"))
    note = f"{path} was compiled in place of the generated text"
    if stale:
        note += "; the program has changed since the file was written: delete it to start again"
    return Finding(EDITED, "warning" if stale else "info", note)


def _matched(before: str, after: str) -> list[int]:
    """For each line of `after`, the line (from 0) of `before` that it was, -1 for a new one."""
    old, new = before.split("\n"), after.split("\n")
    found = [-1] * len(new)
    for block in difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
        for k in range(block.size):
            found[block.b + k] = block.a + k
    return found


def _compile(kernel: Kernel, path: Path, own: CodeText, text: str) -> None:
    from tilebench.backends.cuda import nvrtc
    from tilebench.backends.cuda.build import CudaExecutable, passed, ptx_text
    from tilebench.backends.cuda.emit import Emitted, compiled_text
    from tilebench.kernel.emulate import refuse_several

    refuse_several(kernel, "edited code")
    lines = tuple(own.lines[k] if 0 <= k < len(own.lines) else 0 for k in _matched(own.text, text))
    executable: Any = kernel.executable
    arch = kernel.target.arch or executable.program.arch
    try:
        given = passed(executable.program)
        compiled = nvrtc.compile_text(compiled_text(Emitted(text, lines)), arch, flags=given)
    except InternalError as error:
        raise TargetError(
            "TB623",
            f"{path} does not compile",
            why="\n       ".join([error.what, *error.why.splitlines()]),
            fix=f"correct it, or delete {path} to have it generated again",
        ) from error
    old = executable.built
    built = replace(
        old,
        code=(CodeText("cuda", text, lines), ptx_text(compiled.ptx)),
        registers=compiled.registers,
        spill_bytes=compiled.spill_bytes,
        log=compiled.log,
        binary=compiled.cubin,
        milliseconds={"nvrtc": compiled.milliseconds},
        cached=False,
    )
    kernel.recalled_ms = None
    kernel.compilation = replace(kernel.compilation, executable=CudaExecutable(built, executable.program))
