"""Runs emitted text on the CPU: the kernel's own lines, compiled by g++ against host.h in place of the
PTX.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tilebench.backends.cuda.driver import ArgumentPack
from tilebench.backends.cuda.emit import ENTRY, emit, kernel_parameters
from tilebench.ir.rewrite import walk
from tilebench.ir.thread import Barrier, Memory, Program

_ON_HOST = ("asm", "__cvta", "to_f32(bf16 h)")
"""Marks of the definitions that host.h has in its own way; it has its own types, too."""
HEADER = Path(__file__).with_name("host.h")


def available() -> bool:
    """Whether there is a g++ with _Float16."""
    return shutil.which("g++") is not None


def chunks(prelude: str) -> list[str]:
    """The top-level definitions of the prelude."""
    found: list[str] = []
    current: list[str] = []
    for line in prelude.split("\n"):
        if not line.strip() and not current:
            continue
        current.append(line)
        text = "\n".join(current)
        if (text.count("{") == text.count("}") and not line.startswith(("//", "template"))) or (
            line.startswith("template") and text.count("{") == text.count("}") > 0
        ):
            found.append(text)
            current = []
    return found


def translate(program: Program) -> str:
    """The text for g++: host.h, those parts of the prelude that are plain C++, the kernel, and an entry
    point.
    """
    text = emit(program).text
    start = min(text.find(mark) for mark in ("extern __shared__", 'extern "C" __global__') if mark in text)
    plain = [
        c
        for c in chunks(text[:start])
        if not c.startswith("struct ") and not any(word in c for word in _ON_HOST)
    ]
    arguments, workspaces = kernel_parameters(program)
    kernel = text[start:]
    signature = re.search(rf"{ENTRY}\((.*)\) {{", kernel)
    assert signature is not None
    types = (
        [p.rsplit(" ", 1)[0].replace("__restrict__", "").strip() for p in signature[1].split(", ")]
        if signature[1]
        else []
    )
    assert len(types) == len(arguments) + len(workspaces)
    values = ", ".join(f"*({t}*)a[{i}]" for i, t in enumerate(types))
    named = [0] * 16
    for role in program.roles:
        for node in walk(role.body):
            if isinstance(node, Barrier):
                named[node.id] = node.threads or program.threads
    entry = (
        'extern "C" void launch(void** a, int x, int y, int z) {\n'
        f"  static const int named[16] = {{{', '.join(map(str, named))}}};\n"
        f"  run_grid(x, y, z, {program.threads}, named, [=] {{ {ENTRY}({values}); }});\n}}\n"
    )
    kernel = kernel.replace("extern __shared__ __align__(1024) unsigned char shared_memory[];\n", "")
    head = "#define WITH_MMA\n" if "mma_" in kernel else ""
    return f'{head}#include "host.h"\n' + "\n".join(plain) + "\n" + kernel + "\n" + entry


_FLAGS = (
    "-O1",
    "-std=c++20",
    "-w",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-ffp-contract=off",
    "-fPIC",
    "-pthread",
)


def _gcc(*arguments: str) -> None:
    done = subprocess.run(["g++", *_FLAGS, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]


@cache
def _folder() -> Path:
    """A folder with host.h, compiled ahead: most of the time of a small kernel is the standard headers."""
    folder = Path(tempfile.mkdtemp(prefix="tilebench-host-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    shutil.copy(HEADER, folder / "host.h")
    _gcc("-x", "c++-header", str(folder / "host.h"), "-o", str(folder / "host.h.gch"))
    return folder


@cache
def _compiled(text: str) -> Any:
    stem = _folder() / hashlib.sha256(text.encode()).hexdigest()[:16]
    stem.with_suffix(".cpp").write_text(text)
    _gcc("-shared", str(stem.with_suffix(".cpp")), "-o", str(stem.with_suffix(".so")))
    return ctypes.CDLL(str(stem.with_suffix(".so")))


def run(
    program: Program,
    values: Mapping[str, Any],
    grid: tuple[int, ...] = (1,),
    symbols: Mapping[Any, int] | None = None,
) -> dict[str, np.ndarray]:
    """The tensors after a launch on copies. values: arrays in storage form, or numbers, by parameter."""
    library = _compiled(translate(program))
    arguments, workspaces = kernel_parameters(program)
    held = {
        p.name: np.array(values[p.name], order="C")
        for p in program.params
        if isinstance(values[p.name], np.ndarray)
    }
    by_position: list[Any] = [
        held[p.name].ctypes.data if p.name in held else values[p.name] for p in program.params
    ]
    by_position += [(symbols or {})[s] for s in program.symbols]
    pack = ArgumentPack([None if isinstance(a, Memory) else a.dtype for a in arguments])
    assert not workspaces
    pack.fill(by_position)
    x, y, z = (*grid, 1, 1)[:3]
    library.launch(ctypes.c_void_p(pack.address), x, y, z)
    return held
