"""The kernel's side of diagnostics while typing.

An editor opens the comm `tilebench.lint` and sends `{"id": n, "cell": key, "text": cell}`; the answer
has the same id, the diagnostics, and what hovers show of buffers and ops. The work is done in a thread of
its own, the newest text first, with a deadline, so that the notebook never waits for it.
"""

from __future__ import annotations

import ctypes
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from tilebench.notebook.diagnose import Diagnosis, diagnose

TARGET = "tilebench.lint"
DEADLINE_S = 2.0
FORBIDDEN = frozenset(
    [
        "os.chmod", "os.chown", "os.exec", "os.fork", "os.forkpty", "os.kill", "os.killpg",
        "os.link", "os.mkdir", "os.posix_spawn", "os.putenv", "os.remove", "os.rename", "os.rmdir",
        "os.spawn", "os.symlink", "os.system", "os.truncate", "os.unsetenv", "shutil.move",
        "shutil.rmtree", "socket.connect", "socket.sendto", "subprocess.Popen", "urllib.Request",
        "webbrowser.open",
    ]
)  # fmt: skip
"""Audit events of what a thread that only examines must not do; opening a file to write is another."""

log = logging.getLogger("tilebench")


class Late(BaseException):
    """Raised in the thread at its deadline; not an Exception, so that nothing turns it into one."""


@dataclass
class _Job:
    """What the thread is at; late: whether its deadline has passed."""

    running: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


def within(deadline_s: float, work: Callable[[], Diagnosis]) -> Diagnosis:
    """Do the work in this thread; at the deadline it is interrupted, between two steps of Python."""
    job, thread = _Job(True), threading.get_ident()

    def interrupt() -> None:
        with job.lock:
            if job.running:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Late))

    timer = threading.Timer(deadline_s, interrupt)
    timer.daemon = True
    timer.start()
    try:
        made = work()
        with job.lock:
            job.running = False
        return made
    except Late:
        return Diagnosis(note=f"not examined: it takes longer than {deadline_s:g} s")
    finally:
        job.running = False
        timer.cancel()


class Linter:
    """Answers the editors of one kernel."""

    def __init__(self, namespace: Callable[[], Mapping[str, Any]], deadline_s: float = DEADLINE_S) -> None:
        self.namespace, self.deadline_s = namespace, deadline_s
        self._waiting: dict[str, tuple[Any, Any, str]] = {}
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def opened(self, comm: Any, message: Any) -> None:
        """An editor has opened the comm."""
        del message

        def heard(message: dict[str, Any]) -> None:
            self.asked(comm, message.get("content", {}).get("data"))

        comm.on_msg(heard)

    def asked(self, comm: Any, data: object) -> None:
        """A text has come: it replaces one that the same cell's editor still waits for."""
        if not isinstance(data, dict):
            return
        request = cast("dict[str, Any]", data)
        text, ident, cell = request.get("text"), request.get("id"), str(request.get("cell", ""))
        if not isinstance(text, str) or not isinstance(ident, int):
            return
        with self._wake:
            key = f"{comm.comm_id} {cell}"
            self._waiting.pop(key, None)
            self._waiting[key] = (comm, ident, text)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="tilebench-lint", daemon=True)
                self._thread.start()
            self._wake.notify()

    def close(self) -> None:
        """End the thread once it has answered what it is at."""
        with self._wake:
            self._closed = True
            self._waiting.clear()
            self._wake.notify()

    def _requests(self) -> Iterator[tuple[Any, Any, str]]:
        while True:
            with self._wake:
                while not self._waiting and not self._closed:
                    self._wake.wait()
                if self._closed:
                    return
                newest = next(reversed(self._waiting))
                request = self._waiting.pop(newest)
            yield request

    def _work(self) -> None:
        guard(threading.get_ident())
        for comm, ident, text in self._requests():
            started = time.perf_counter()
            try:
                found = within(self.deadline_s, lambda text=text: diagnose(text, self.namespace()))
            except Late:  # raised between the end of the work and the end of its watch
                continue
            except Exception as error:
                log.warning("a cell could not be examined", exc_info=error)
                found = Diagnosis(note=f"{type(error).__name__}: {error}")
            answer = found.message(ident)
            answer["milliseconds"] = round((time.perf_counter() - started) * 1e3, 1)
            comm.send(answer)


_guarded: set[int] = set()


def guard(thread: int) -> None:
    """Let this thread compute only: writing a file, starting a process or opening a connection fails there.

    What is known at compile time is evaluated while a program is parsed, also when it is half typed.
    """
    if not _guarded:
        sys.addaudithook(_audit)
    _guarded.add(thread)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if threading.get_ident() not in _guarded:
        return
    if event == "open":
        mode, flags = arguments[1], arguments[2]
        writes = any(c in mode for c in "wax+") if isinstance(mode, str) else bool(int(flags or 0) & 3)
    else:
        writes = event in FORBIDDEN
    if writes:
        raise PermissionError(f"{event} while a cell is examined")


def install(shell: Any) -> None:
    """Offer the comm in this kernel; does nothing where there are no comms (a terminal)."""
    manager = getattr(getattr(shell, "kernel", None), "comm_manager", None)
    if manager is not None:
        shell.tilebench_linter = Linter(lambda: shell.user_ns)
        manager.register_target(TARGET, shell.tilebench_linter.opened)


def remove(shell: Any) -> None:
    """Take the comm away again."""
    linter = getattr(shell, "tilebench_linter", None)
    if linter is not None:
        shell.kernel.comm_manager.unregister_target(TARGET, linter.opened)
        linter.close()
        shell.tilebench_linter = None
