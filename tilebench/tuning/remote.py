"""The parent's side of the tuner's workers: questions with a deadline, and a new worker for one that died."""

from __future__ import annotations

import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from tilebench.errors import LaunchError
from tilebench.kernel.frames import read_frame, write_frame


class WorkerDied(Exception):
    """The worker ended, or did not answer in time; the message says which."""


class Worker:
    """One worker process. Not for several threads at once."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tilebench.tuning.worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._said: list[str] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        stream = self._process.stderr
        assert stream is not None, "a pipe"
        for line in stream:
            text = line.decode(errors="replace").strip()
            if text:
                self._said[:] = [*self._said[-4:], text]

    def ask(
        self, header: Mapping[str, Any], buffers: Sequence[bytes] = (), deadline_s: float = 600.0
    ) -> tuple[dict[str, Any], list[bytes]]:
        """The answer to a request. Raises WorkerDied."""
        assert self._process.stdin is not None, "a pipe"
        assert self._process.stdout is not None, "a pipe"
        try:
            write_frame(self._process.stdin, header, buffers)
            end = time.monotonic() + deadline_s
            while not select.select([self._process.stdout], [], [], 0.2)[0]:
                if time.monotonic() > end:
                    raise WorkerDied(f"it did not finish within {deadline_s:g} s")
            return read_frame(self._process.stdout)
        except (EOFError, BrokenPipeError, ValueError):
            self._process.kill()
            code = self._process.wait()
            self._listener.join(timeout=1)
            said = f": {self._said[-1][:200]}" if self._said else ""
            what = f"signal {-code}" if code < 0 else f"exit code {code}"
            raise WorkerDied(f"it ended its process ({what}){said}") from None

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._listener.join(timeout=1)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with suppress(BrokenPipeError):  # the worker is gone: nothing is left to flush
                    stream.close()


class Compilers:
    """An executor of compiles: so many worker processes, each fed by a thread. `submit` takes a request's
    text and gives a future of the answer's.
    """

    def __init__(self, workers: int) -> None:
        self._threads = ThreadPoolExecutor(workers)
        self._idle: SimpleQueue[Worker] = SimpleQueue()
        self._closed = False

    def submit(self, text: str, deadline_s: float) -> Any:
        """A Future of `build(text)`'s answer. It raises WorkerDied when the worker does."""
        return self._threads.submit(self._build, text, deadline_s)

    def _build(self, text: str, deadline_s: float) -> str:
        try:
            worker = self._idle.get_nowait()
        except Empty:
            worker = Worker()
        try:
            _, (answer,) = worker.ask({"do": "build"}, [text.encode()], deadline_s)
        except BaseException:
            worker.close()
            raise
        if self._closed:
            worker.close()
        else:
            self._idle.put(worker)
        return answer.decode()

    def take(self) -> Worker | None:
        """An idle worker, which is the caller's from now on."""
        with suppress(Empty):
            return self._idle.get_nowait()
        return None

    def close(self) -> None:
        """Compiles that have not begun are not made; the workers end."""
        self._closed = True
        self._threads.shutdown(wait=True, cancel_futures=True)
        while (worker := self.take()) is not None:
            worker.close()


class Remote:
    """A Runner whose candidates live in a worker process.

    setup: the header and buffers that a fresh worker gets first; requests and answers (of `build`): by
    candidate; spare: a worker that is there already.
    """

    def __init__(
        self,
        setup: tuple[Mapping[str, Any], Sequence[bytes]],
        requests: Mapping[int, Mapping[str, Any]],
        answers: Mapping[int, str],
        deadline_s: float,
        spare: Worker | None = None,
    ) -> None:
        self._setup, self._requests, self._answers = setup, requests, answers
        self._deadline_s = deadline_s
        self._loaded: list[int] = []
        self._worker: Worker | None = None
        self._spare = spare
        self.restarts = -1

    def _ready(self) -> Worker:
        if self._worker is None:
            self._worker, self._spare = self._spare or Worker(), None
            self.restarts += 1
            try:
                self._worker.ask(*self._setup, self._deadline_s)
                for number in self._loaded:
                    reply = self._load(self._worker, number)
                    if reply:
                        raise WorkerDied(
                            f"a candidate that was right before is not in a new process: {reply}"
                        )
            except WorkerDied as error:
                self.close()
                raise LaunchError(
                    "TB620",
                    f"the tuner's worker cannot be started again: {error}",
                    why="candidates run in a process of their own, and the last one brought it down",
                    fix="what was measured so far is in the log, and is not measured again",
                ) from None
        return self._worker

    def _load(self, worker: Worker, number: int) -> str:
        buffers = [self._answers[number].encode()] if number in self._answers else []
        header = {"do": "load", "number": number, "request": self._requests[number]}
        return str(worker.ask(header, buffers, self._deadline_s)[0]["reason"])

    def load(self, number: int) -> str:
        """See Runner. A candidate that brings the worker down is discarded; the others go on in another."""
        worker = self._ready()
        try:
            reason = self._load(worker, number)
        except WorkerDied as error:
            self.close()
            return f"crashed: {error}"
        if not reason:
            self._loaded.append(number)
        return reason

    def time(self, numbers: Sequence[int], rounds: int) -> tuple[list[list[float]], str]:
        """See Runner. The last of the numbers is the new one: a crash is its fault."""
        worker = self._ready()
        try:
            reply, _ = worker.ask(
                {"do": "time", "numbers": list(numbers), "rounds": rounds}, (), self._deadline_s
            )
        except WorkerDied as error:
            self.close()
            self._loaded.remove(numbers[-1])
            return [], f"crashed: {error}"
        return [[float(t) for t in samples] for samples in reply["times"]], ""

    def drop(self, number: int) -> None:
        """See Runner."""
        if number in self._loaded:
            self._loaded.remove(number)
            if self._worker is not None:
                self._worker.ask({"do": "drop", "number": number}, (), self._deadline_s)

    def close(self) -> None:
        """See Runner."""
        for worker in (self._worker, self._spare):
            if worker is not None:
                worker.close()
        self._worker = self._spare = None
