"""NVRTC in a process of its own, so that a compile that nobody waits for any longer can be ended.

One request on standard input (architecture, flags, CUDA text), one answer on standard output (PTX, cubin,
log), in the frames of kernel/frames.py. The parent puts the answer into the store of built kernels: a later
compile of the same program finds it there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

from tilebench.errors import InternalError, LaunchError, TileError
from tilebench.kernel.frames import read_frame, write_frame


class Cancelled(Exception):
    """The compile was ended because nobody wants it any longer."""


class Compile:
    """One compile under way. `wait` gives what was made; `cancel` may be called from any thread."""

    def __init__(self, text: str, arch: str, flags: Sequence[str] = ()) -> None:
        self._lock = threading.Lock()
        self._cancelled = False
        self._process: subprocess.Popen[bytes] | None = None
        self.text, self.arch, self.flags = text, arch, tuple(flags)

    def cancel(self) -> None:
        """End the process; `wait` then raises Cancelled."""
        with self._lock:
            self._cancelled = True
            if self._process is not None:
                self._process.kill()

    def wait(self) -> tuple[str, bytes, str, float]:
        """(PTX, cubin, log, milliseconds in NVRTC).

        Raises Cancelled, TileError as NVRTC's errors are in this process, LaunchError TB620 when the worker
        died.
        """
        with self._lock:
            if self._cancelled:
                raise Cancelled
            self._process = process = subprocess.Popen(
                [sys.executable, "-m", "tilebench.kernel.compiling"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        assert process.stdin is not None, "a pipe"
        assert process.stdout is not None, "a pipe"
        try:
            asked = {"arch": self.arch, "flags": self.flags}
            write_frame(process.stdin, asked, [self.text.encode()])
            reply, parts = read_frame(process.stdout)
        except (EOFError, BrokenPipeError, ValueError):
            if self._cancelled:
                raise Cancelled from None
            raise LaunchError(
                "TB620",
                f"the compile worker ended without an answer (exit code {process.wait()})",
                why="it was ended from outside, or ran out of memory",
                fix="try again; the notebook's own process is unharmed",
            ) from None
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
            with suppress(BrokenPipeError):  # the worker is gone: nothing is left to flush
                process.stdin.close()
        if "error" in reply:
            e = reply["error"]
            raise InternalError(e["code"], e["what"], why=e["why"], fix=e["fix"])
        ptx, cubin, log = parts
        return ptx.decode(), cubin, log.decode(), float(reply["ms"])


def serve() -> int:
    """Answer the one request."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    request, (text,) = read_frame(sys.stdin.buffer)
    from tilebench.backends.cuda import nvrtc

    try:
        made = nvrtc.compile_text(text.decode(), request["arch"], flags=request["flags"])
    except TileError as error:
        told = {"code": error.code, "what": error.what, "why": error.why, "fix": error.fix}
        write_frame(answers, {"error": told})
        return 1
    write_frame(answers, {"ms": made.milliseconds}, [made.ptx.encode(), made.cubin, made.log.encode()])
    return 0


if __name__ == "__main__":
    sys.exit(serve())
