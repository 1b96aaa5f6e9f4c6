"""The worker process of kernel/isolate.py: reads one request, runs it, answers, ends."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

from tilebench.errors import TileError
from tilebench.kernel.frames import read_frame, write_frame
from tilebench.kernel.isolate import describe
from tilebench.kernel.raw import pack, unpack
from tilebench.profiling.benchmark import Times


def serve() -> int:
    """Answer the request on standard input. What the kernel prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    request, buffers = read_frame(sys.stdin.buffer)
    try:
        once, rounds, outputs = _run(request, buffers)
    except TileError as error:
        write_frame(answers, {"error": describe(error)})
        return 1
    many = [] if rounds is None else list(rounds.milliseconds)
    write_frame(answers, {"once": list(once.milliseconds), "rounds": many}, outputs)
    return 0


def _run(request: dict[str, Any], buffers: list[bytes]) -> tuple[Times, Times | None, list[bytes]]:
    from tilebench.kernel.program import define, prepare
    from tilebench.kernel.session import launch_here, watch
    from tilebench.kernel.settings import in_force
    from tilebench.kernel.target import device_of
    from tilebench.targets import parse

    target = parse(request["target"])
    namespace: dict[str, Any] = {**_imported(request["modules"]), **request["constants"]}
    settings = request["settings"]
    values = unpack(request["values"], buffers, device_of(target), numpy=device_of(target) == "cpu")
    with in_force(namespace, settings):
        text, name, first = request["text"], request["name"], request["first_line"]
        program, _ = define(text, namespace, name, "", first, tuple(settings))
        kernel = prepare(program, values, settings, str(target)).kernel
    if request["watch"]:
        watch(kernel, "static")
    once, rounds = launch_here(kernel, values, request["rounds"])
    if device_of(target) == "cuda":
        import torch

        torch.cuda.synchronize()
    return once, rounds, pack([v for v in values if hasattr(v, "shape")])[1]


def _imported(modules: dict[str, str]) -> dict[str, Any]:
    """The modules by variable; one that is not found here is left out: who reads it says so."""
    made: dict[str, Any] = {}
    for name, module in modules.items():
        with suppress(ImportError):
            made[name] = import_module(module)
    return made


if __name__ == "__main__":
    sys.exit(serve())
