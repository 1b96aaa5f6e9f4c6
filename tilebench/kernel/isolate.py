"""`--isolate`: the launch happens in a worker process, so that a fault there leaves this process, its
variables and its GPU alone.

The worker gets the cell's text, plain constants and names of modules that it uses, and the inputs as raw
bytes; it sends the outputs back. Frames are a JSON header with a length before it and raw buffers after it:
no pickle, no port.
"""

from __future__ import annotations

import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import IO, Any, cast

import numpy as np

from tilebench.errors import LaunchError, Loc, Source, TileError
from tilebench.kernel import args
from tilebench.kernel.compiled import Kernel
from tilebench.kernel.frames import read_frame, write_frame
from tilebench.kernel.progress import Progress
from tilebench.kernel.raw import bytes_tensor, pack
from tilebench.kernel.session import Result, run
from tilebench.profiling.benchmark import Times

DEADLINE_S = 60.0
"""Seconds that a worker may take, its start and compile included, before it is ended."""


_UNKNOWN = re.compile(r"unknown name (\w+)|name '(\w+)' is not defined")


def constants(namespace: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Numbers, strings and tuples of them in the namespace whose name occurs in the text."""
    plain: dict[str, Any] = {}
    for name, value in namespace.items():
        if name.startswith("_") or name not in text:
            continue
        if isinstance(value, bool | int | float | str) or (
            isinstance(value, list | tuple)
            and all(isinstance(v, bool | int | float | str) for v in cast("Sequence[Any]", value))
        ):
            plain[name] = value
    return plain


def modules(namespace: Mapping[str, Any], text: str) -> dict[str, str]:
    """The modules in the namespace whose name occurs in the text: variable -> module."""
    return {n: v.__name__ for n, v in namespace.items() if isinstance(v, ModuleType) and n in text}


def run_isolated(program: str, *, deadline_s: float = DEADLINE_S, **options: Any) -> Result:
    """`session.run` of a cell's text with the launch in a worker.

    Raises LaunchError: TB620 when the worker dies, TB621 when it hangs, TB622 for what cannot go to it.
    """
    if not isinstance(program, str):  # pyright: ignore[reportUnnecessaryIsInstance]  (called with user values)
        raise LaunchError(
            "TB622", "only the text of a cell can run in a worker", fix="pass the program as text"
        )
    if options.get("override"):
        raise LaunchError(
            "TB617",
            "--override cuda does not act in a worker",
            why="the worker compiles the cell's own text",
            fix="leave out --isolate or --override",
        )
    namespace: dict[str, Any] = options.get("namespace") or {}
    before, imported = constants(namespace, program), modules(namespace, program)

    def launch(kernel: Kernel, values: Sequence[Any], rounds: int) -> tuple[Times, Times | None]:
        described, buffers = pack(values)
        source = kernel.prim.loc.source if kernel.prim.loc else None
        header = {
            "text": program, "name": options.get("name", ""),
            "settings": _plain(options.get("settings") or {}), "target": str(kernel.target),
            "constants": before, "values": described, "rounds": rounds,
            "first_line": options.get("first_line", 1), "modules": imported,
            "watch": options.get("check", True) not in (False, "none"),
        }  # fmt: skip
        try:
            reply, outputs = _ask(header, buffers, deadline_s, source)
        except TileError as error:
            raise _missing(error, namespace, {*before, *imported}) or error from None
        for value, made in zip([v for v in values if args.is_tensor(v)], outputs, strict=True):
            _fill(value, made)
        once, many = (tuple(float(ms) for ms in reply[key]) for key in ("once", "rounds"))
        return Times(once), Times(many) if many else None

    return run(program, launcher=launch, **options)


def _missing(error: TileError, namespace: Mapping[str, Any], sent: set[str]) -> TileError | None:
    """The worker's complaint of an unknown name, when the notebook has it and could not send it."""
    match = _UNKNOWN.search(error.what) if error.code in ("TB101", "TB113") else None
    name = "" if match is None else match[1] or match[2]
    if name in sent or name not in namespace:
        return None
    return LaunchError(
        "TB622",
        f"{name} of this notebook is a {type(namespace[name]).__name__}, and stays here",
        at=error.at,
        why="the worker gets the cell's text, its tensors, modules, and plain numbers, strings and tuples",
        fix=f"define {name} in this cell, or leave out --isolate",
    )


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    bad = [k for k, v in settings.items() if not isinstance(v, bool | int | float | str)]
    if bad:
        raise LaunchError(
            "TB622",
            f"--set {bad[0]} is no plain value",
            why="it goes to another process",
            fix="use numbers and strings with --isolate",
        )
    return dict(settings)


def _fill(value: Any, raw: bytes) -> None:
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, np.dtype[Any]]", value)
        array[...] = np.frombuffer(raw, array.dtype).reshape(array.shape)
        return
    value.copy_(bytes_tensor(raw).view(value.dtype).reshape(value.shape).to(value.device))


def _ask(
    header: Mapping[str, Any], buffers: Sequence[bytes], deadline_s: float, source: Source | None
) -> tuple[dict[str, Any], list[bytes]]:
    worker = subprocess.Popen(
        [sys.executable, "-m", "tilebench.kernel.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert worker.stdin is not None, "a pipe"
    assert worker.stdout is not None, "a pipe"
    assert worker.stderr is not None, "a pipe"
    try:
        try:
            write_frame(worker.stdin, header, buffers)
            _await(worker, deadline_s)
            reply, outputs = read_frame(worker.stdout)
        except (EOFError, BrokenPipeError, ValueError):
            worker.wait(timeout=5)
            said = worker.stderr.read().decode(errors="replace").strip().splitlines()
            raise LaunchError(
                "TB620", f"the worker ended without an answer ({_ending(worker.returncode)})",
                why=said[-1] if said else "a fault in the kernel, or the cell itself, ended its process",
                fix="this process is unharmed; --target emu finds out-of-bounds accesses and races",
            ) from None  # fmt: skip
    finally:
        worker.kill()
        worker.wait()
        for stream in (worker.stdin, worker.stdout, worker.stderr):
            _close(stream)
    if "error" in reply:
        raise _error(reply["error"], source)
    return reply, outputs


def _ending(code: int) -> str:
    """'SIGSEGV' or 'exit code 3'."""
    known = {int(s): s.name for s in signal.Signals}
    return known.get(-code, f"exit code {code}")


def describe(error: TileError) -> dict[str, Any]:
    """An error as plain data, with its place in the cell."""
    at = error.at
    while at is not None and at.call_site is not None:
        at = at.call_site
    place = None if at is None else [at.line, at.column, at.end_line, at.end_column]
    return {
        "kind": type(error).__name__, "code": error.code, "what": error.what, "why": error.why,
        "fix": error.fix, "at": place,
    }  # fmt: skip


def _error(said: Mapping[str, Any], source: Source | None) -> TileError:
    """The error that the worker described, of the same kind and at the same place."""
    kinds = {k.__name__: k for k in TileError.__subclasses__()}
    place = said.get("at")
    line, column, end_line, end_column = (int(n) for n in place or (0, 0, 0, 0))
    at = Loc(source, line, column, end_line, end_column) if source is not None and line else None
    kind = kinds.get(said["kind"], LaunchError)
    return kind(said["code"], said["what"], at=at, why=said["why"], fix=said["fix"])


def _close(stream: IO[bytes]) -> None:
    try:
        stream.close()
    except BrokenPipeError:
        return  # the worker is gone; there is nothing left to flush


def _await(worker: subprocess.Popen[bytes], deadline_s: float) -> None:
    """Wait for an answer without blocking for ever: Ctrl-C works, and a hang ends at the deadline."""
    end = time.monotonic() + deadline_s
    assert worker.stdout is not None, "a pipe"
    with Progress("in a worker", 0) as progress:
        while time.monotonic() < end:
            ready, _, _ = select.select([worker.stdout], [], [], 0.2)
            if ready:
                return
            progress.say()
    raise LaunchError(
        "TB621", f"the kernel did not finish within {deadline_s:g} s and its worker was ended",
        why="a loop without end, or a barrier that some threads never reach",
        fix="this process is unharmed; --target emu says which barrier waits",
    )  # fmt: skip
