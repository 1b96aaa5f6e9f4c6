"""Work in foreign code that may take long (NVRTC, LLVM): Ctrl-C is heard meanwhile, and progress is shown."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

from tilebench.kernel.progress import Progress, is_shown_around

R = TypeVar("R")
TICK_S = 0.1


def patiently(label: str, work: Callable[[], R]) -> R:
    """What `work` gives. It runs in a thread of its own when the main thread asks for it.

    An interrupt leaves the thread to end by itself: a compiler that was called cannot be stopped, but nobody
    waits for it. What `work` raises is raised here.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    made: list[R] = []
    failed: list[BaseException] = []

    def act() -> None:
        try:
            made.append(work())
        except BaseException as error:
            failed.append(error)

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(act,), name="tilebench-compile", daemon=True)
    quiet = is_shown_around()
    with Progress(label, 0) as progress:
        thread.start()
        while thread.is_alive():
            thread.join(TICK_S)
            if not quiet:
                progress.say()
    if failed:
        raise failed[0]
    return made[0]
