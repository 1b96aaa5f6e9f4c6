"""Progress of anything that takes longer than a second: how far it is, and how long it will take.

Plain text on standard error, rewritten in place on a terminal; a line of the cell's output in a notebook.
Whoever has a better place to show it says so with `shown_by`.
"""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

PATIENCE_S = 1.0
"""Nothing is shown before this many seconds."""
EVERY_S = 0.25
WIDTH = 24


@dataclass(frozen=True)
class State:
    """Where a task is: done of total steps (0: nobody knows how many), seconds so far.

    over: it has ended, take the display away; wide: characters of the line that this one takes the place of.
    """

    label: str
    done: int
    total: int
    seconds: float
    note: str = ""
    over: bool = False
    wide: int = 0

    @property
    def text(self) -> str:
        """'tuning  [######......]  3 of 6, about 4 s left: BLOCK_M=64'."""
        if not self.total:
            counted = f"{self.count}, " if self.done else ""
            return f"{self.label}  {counted}{self.seconds:.0f} s"
        filled = WIDTH * self.done // max(1, self.total)
        bar = "#" * filled + "." * (WIDTH - filled)
        left = self.seconds / self.done * (self.total - self.done) if self.done else None
        rest = "" if left is None else f", about {left:.0f} s left"
        note = f": {self.note}" if self.note else ""
        return f"{self.label}  [{bar}]  {self.count}{rest}{note}"

    @property
    def count(self) -> str:
        """'3 of 6', or '1,234 steps' when their number is not known."""
        return f"{self.done} of {self.total}" if self.total else f"{self.done:,} step{'s' * (self.done != 1)}"


Sink = Callable[[State], None]
_depth: ContextVar[int] = ContextVar("tilebench_progress_depth", default=0)
_sink: ContextVar[Sink | None] = ContextVar("tilebench_progress", default=None)


@contextmanager
def shown_by(sink: Sink) -> Generator[None]:
    """Inside the block, progress is given to `sink`."""
    token = _sink.set(sink)
    try:
        yield
    finally:
        _sink.reset(token)


def is_shown_around() -> bool:
    """Whether this is a part of a task that shows its progress already."""
    return _depth.get() > 0


class Progress:
    """`with Progress("tuning", 12) as p: ... p.advance(note="BLOCK_M=64")`."""

    def __init__(self, label: str, total: int) -> None:
        self.label, self.total, self.done, self.note = label, total, 0, ""
        self._start = self._last = 0.0
        self._shown, self._wide = False, 0

    def __enter__(self) -> Progress:
        self._start = self._last = time.monotonic()
        self._token = _depth.set(_depth.get() + 1)
        return self

    def advance(self, steps: int = 1, note: str = "") -> None:
        """So many steps more are done."""
        self.done = min(self.total, self.done + steps) if self.total else self.done + steps
        self.say(note)

    def say(self, note: str = "") -> None:
        """Show what is being done now, when it is time to show anything."""
        now = time.monotonic()
        self.note = note or self.note
        if now - self._start >= PATIENCE_S and now - self._last >= EVERY_S and self._goes_on:
            self._last, self._shown = now, True
            self._show(State(self.label, self.done, self.total, now - self._start, self.note))

    @property
    def _goes_on(self) -> bool:
        return not self.total or self.done < self.total

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        del kind, error, stack
        _depth.reset(self._token)
        if self._shown:
            seconds = time.monotonic() - self._start
            self._show(State(self.label, self.done, self.total, seconds, self.note, over=True))

    def _show(self, state: State) -> None:
        state = replace(state, wide=self._wide)
        self._wide = max(self._wide, len(state.text))
        (_sink.get() or _here())(state)


class Line:
    """A display of a notebook: a line of text under the cell that shows the state of one task after the
    other, rewritten in place, and goes when it is done.
    """

    def __init__(self) -> None:
        self._handle: Any = None

    def __call__(self, state: State) -> None:
        """Show it; what is over is taken away."""
        from IPython.display import HTML, display  # pyright: ignore[reportUnknownVariableType] # untyped

        text = "" if state.over else state.text
        shown = HTML(f'<pre role="status">{html.escape(text)}</pre>' if text else "")
        if self._handle is None:
            self._handle = display(shown, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(shown)
        if state.over:
            self._handle = None


def in_notebook() -> bool:
    """Whether IPython runs behind a notebook: where displays can be updated."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


_line = Line()


def _here() -> Sink:
    return _line if in_notebook() else on_terminal


def on_terminal(state: State) -> None:
    """Rewrites one line on a terminal; elsewhere one line for the start and one for the end."""
    stream = sys.stderr
    if stream.isatty() or type(stream).__module__.startswith("ipykernel"):  # both understand "\r"
        text = f"{state.label}: {state.seconds:.1f} s" if state.over else state.text
        stream.write(f"\r{text:<{state.wide}}" + "\n" * state.over)  # a notebook knows no "erase the line"
    elif state.over:
        counted = f"{state.count} in " if state.done or state.total else ""
        stream.write(f"{state.label}: {counted}{state.seconds:.1f} s\n")
    stream.flush()
