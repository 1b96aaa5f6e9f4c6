"""The worker process of the tuner: compiles, checks and times candidates until its standard input ends.

It gets text and raw bytes in the frames of kernel/frames.py. When a candidate brings it down (a fault on a
GPU, a crash of native code), its parent starts another.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from tilebench import config
from tilebench.kernel.frames import read_frame, write_frame
from tilebench.kernel.raw import unpack
from tilebench.kernel.target import device_of
from tilebench.targets import parse
from tilebench.tuning.bench import Bench, Rule
from tilebench.tuning.build import build, compiled, keep_binary, read_answer, settings


def serve() -> int:
    """Answer requests. What a kernel prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    bench: Bench | None = None
    requests: dict[int, dict[str, Any]] = {}
    while True:
        try:
            header, buffers = read_frame(sys.stdin.buffer)
        except EOFError:
            return 0
        match header["do"]:
            case "build":
                write_frame(answers, {}, [build(buffers[0].decode()).encode()])
            case "setup":
                config.set_process(**settings(header))
                bench = _bench(header, buffers, requests)
                write_frame(answers, {})
            case "load":
                assert bench is not None, "setup comes first"
                number = int(header["number"])
                requests[number] = header["request"]
                if buffers:
                    keep_binary(
                        read_answer(buffers[0].decode()), parse(header["request"]["target"]).arch or ""
                    )
                write_frame(answers, {"reason": bench.load(number)})
            case "time":
                assert bench is not None, "setup comes first"
                times, _ = bench.time(header["numbers"], header["rounds"])
                write_frame(answers, {"times": times})
            case "drop":
                assert bench is not None, "setup comes first"
                bench.drop(int(header["number"]))
                requests.pop(int(header["number"]), None)
                write_frame(answers, {})
            case other:
                raise ValueError(f"no request is called {other!r}")


def _bench(header: dict[str, Any], buffers: list[bytes], requests: dict[int, dict[str, Any]]) -> Bench:
    device = device_of(parse(header["target"]))
    split = int(header["inputs"])
    inputs = unpack(header["values"], buffers[:split], device, numpy=device == "cpu")
    expected = None
    if header["expected"] is not None:
        expected = unpack(header["expected"], buffers[split:], "cpu", numpy=True)

    def kernel(number: int) -> Any:
        return compiled(requests[number])[0]

    return Bench(kernel, inputs, expected, Rule(**header["rule"]))


if __name__ == "__main__":
    sys.exit(serve())
