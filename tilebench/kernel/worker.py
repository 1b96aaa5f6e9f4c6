"""The worker process of kernel/isolate.py: reads one request, runs it, answers, ends."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from tilebench.errors import TileError
from tilebench.kernel.frames import read_frame, write_frame
from tilebench.kernel.isolate import unpack


def serve() -> int:
    """Answer the request on standard input. What the kernel prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    request, buffers = read_frame(sys.stdin.buffer)
    try:
        ms, outputs = _run(request, buffers)
    except TileError as error:
        write_frame(
            answers, {"error": {"code": error.code, "what": error.what, "why": error.why, "fix": error.fix}}
        )
        return 1
    write_frame(answers, {"ms": ms}, outputs)
    return 0


def _run(request: dict[str, Any], buffers: list[bytes]) -> tuple[float, list[bytes]]:
    from tilebench.kernel.isolate import pack
    from tilebench.kernel.program import define, prepare
    from tilebench.kernel.target import device_of
    from tilebench.targets import parse

    target = parse(request["target"])
    namespace: dict[str, Any] = dict(request["constants"])
    program, _ = define(request["text"], namespace, request["name"])
    for key, value in request["settings"].items():
        if key in namespace:
            namespace[key] = value
    values = unpack(request["values"], buffers, device_of(target))
    prepared = prepare(program, values, request["settings"], str(target))
    start = time.perf_counter()
    prepared.kernel.launch(values)
    if device_of(target) == "cuda":
        import torch

        torch.cuda.synchronize()
    ms = (time.perf_counter() - start) * 1e3
    return ms, pack([v for v in values if hasattr(v, "shape")])[1]


if __name__ == "__main__":
    sys.exit(serve())
