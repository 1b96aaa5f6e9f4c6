"""The live side of `whatif`: what the sliders ask for, answered from this process.

A move is predicted at once, on the thread that hears it. What takes longer goes on in one background thread
that the next move ends: first the neighbours (which values are illegal, how long each would take), then,
when the sliders have been still for DEBOUNCE_S, the compile.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from tilebench import config
from tilebench.codec import to_json
from tilebench.kernel.compiling import Cancelled, Compile
from tilebench.report import TriedPoint

if TYPE_CHECKING:
    from tilebench.kernel.whatif import WhatIf

DEBOUNCE_S = 0.4
SHOWN = ("whatif", "roofline", "timeline", "compare")
"""The tabs of the board that a WhatIf shows."""
MOST_OUTPUTS = 4
"""Outputs that are kept up to date: the latest ones."""

log = logging.getLogger("tilebench")


class Job:
    """What goes on behind one position of the sliders. `cancel` ends it, also in the middle of a compile."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._compile: Compile | None = None
        self._lock = threading.Lock()

    @property
    def ended(self) -> bool:
        """Whether somebody cancelled it."""
        return self._ended.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleep; gives True when cancelled meanwhile."""
        return self._ended.wait(seconds)

    def begun(self, compile_: Compile) -> None:
        """The compile that is under way now."""
        with self._lock:
            self._compile = compile_
            if self.ended:
                compile_.cancel()

    def cancel(self) -> None:
        """End it."""
        with self._lock:
            self._ended.set()
            if self._compile is not None:
                self._compile.cancel()


class Panel:
    """A WhatIf and its widget. send: how messages leave; the widget's own when left out."""

    def __init__(self, whatif: WhatIf, send: Callable[[dict[str, Any]], None] | None = None) -> None:
        self.whatif = whatif
        self.widget: Any = None
        self.job: Job | None = None
        self.thread: threading.Thread | None = None
        self._send = send
        self._outputs: list[Any] = []
        self._showing = threading.Lock()

    def bundle(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """(data by MIME type, metadata) of what is known now, live unless the user wants static views."""
        from tilebench.views import Board

        static = config.current().static
        board = Board(self.whatif.report(), SHOWN, static=True) if static else self.board()
        data, metadata = board.bundle()
        return {**data, "text/plain": repr(self.whatif)}, metadata

    def display(self) -> None:
        """An output of the cell that `refresh` brings up to date: what is saved is what was tried."""
        from IPython.display import display  # pyright: ignore[reportUnknownVariableType] # untyped

        data, metadata = self.bundle()
        handle: Any = display(data, metadata=metadata, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        if handle is not None:  # None outside of IPython
            self._outputs = [*self._outputs, handle][-MOST_OUTPUTS:]

    def board(self) -> Any:
        """The board to display; its widget is made once and hears the sliders."""
        from tilebench.views import Board

        report = self.whatif.report()
        board = Board(report, SHOWN, widget=self.widget)
        if self.widget is None and board.widget is not None:
            self.widget = board.widget
            self.widget.on_msg(self._heard)
        return board

    def send(self, message: dict[str, Any]) -> None:
        """Tell the front end."""
        if self._send is not None:
            self._send(message)
        elif self.widget is not None:
            self.widget.send(message)

    def _heard(self, widget: Any, content: Any, buffers: Any) -> None:
        del widget, buffers
        self.hear(content)

    def hear(self, content: object) -> None:
        """Answer a message of the front end: move, keep, measure, stop. Anything else is said to be wrong."""
        message = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
        kind, config = message.get("kind"), message.get("config")
        try:
            if kind == "stop":
                self.stop()
                return
            if kind not in ("move", "keep", "measure") or not isinstance(config, dict):
                raise ValueError(f"a message of an unknown kind: {str(kind)[:40]!r}")
            given = {str(k): str(v) for k, v in cast("dict[Any, Any]", config).items()}
            chosen = self.whatif.of_text(given)
        except ValueError as error:
            log.warning("what-if: %s", error)
            self.send({"kind": "error", "text": str(error)})
            return
        self.stop()
        if kind == "move":
            point = self.whatif.predict(**chosen)
            self.send({"kind": "point", "point": to_json(point)})
        self.job = Job()
        work = {"move": self._behind, "keep": self._keep, "measure": self._measure}[str(kind)]
        self.thread = threading.Thread(
            target=self._guarded, args=(work, self.job, chosen), name="tilebench-whatif", daemon=True
        )
        self.thread.start()

    def stop(self) -> None:
        """End what goes on behind the last move."""
        if self.job is not None:
            self.job.cancel()

    # -------------------------------------------------------------- in the background

    def _guarded(
        self, work: Callable[[Job, Mapping[str, Any]], None], job: Job, chosen: Mapping[str, Any]
    ) -> None:
        """Say what went wrong before the thread ends with it: nobody else would see it."""
        try:
            work(job, chosen)
        except Exception as error:
            self.send({"kind": "error", "text": f"{type(error).__name__}: {error}"})
            raise

    def _behind(self, job: Job, chosen: Mapping[str, Any]) -> None:
        values: dict[str, dict[str, Any]] = {}
        for name, value, point in self.whatif.neighbours(chosen):
            if job.ended:
                return
            values.setdefault(name, {})[str(value)] = _brief(point)
        config = {k: str(v) for k, v in chosen.items()}
        self.send({"kind": "around", "config": config, "values": values})
        if self.whatif.predict(**chosen).state != "predicted" or job.wait(DEBOUNCE_S):
            return
        self.send({"kind": "compiling", "config": config})
        try:
            point = self.whatif.compile(begun=job.begun, **chosen)
        except Cancelled:
            self.send({"kind": "cancelled", "config": config})
            return
        self.refresh()
        self.send({"kind": "compiled", "point": to_json(point)})

    def _keep(self, job: Job, chosen: Mapping[str, Any]) -> None:
        config = {k: str(v) for k, v in chosen.items()}
        base = {k: str(v) for k, v in self.whatif.base.items()}

        def compiled(given: Mapping[str, Any], named: Mapping[str, str]) -> None:
            if self.whatif.predict(**given).state == "predicted":
                self.send({"kind": "compiling", "config": named})
            self.whatif.compile(begun=job.begun, **given)

        try:
            compiled({}, base)  # the base too: the card compares with it
            compiled(chosen, config)
            self.whatif.keep(**chosen)
        except Cancelled:
            self.send({"kind": "cancelled", "config": config})
            return
        except ValueError as error:
            self.send({"kind": "error", "text": str(error)})
            return
        report = self.whatif.report()
        self.send(
            {
                "kind": "kept",
                "config": config,
                "whatif": to_json(report.whatif),
                "roofline": to_json(report.roofline),
                "compare": to_json(report.compare),
                "verdict": report.verdict,
            }
        )

    def _measure(self, job: Job, chosen: Mapping[str, Any]) -> None:
        config = {k: str(v) for k, v in chosen.items()}

        def said(text: str) -> None:
            self.send({"kind": "running", "config": config, "text": text})

        said("compiling")
        try:
            point = self.whatif.measure(begun=job.begun, ended=lambda: job.ended, said=said, **chosen)
        except Cancelled:
            self.send({"kind": "cancelled", "config": config})
            return
        self.send({"kind": "measured", "point": to_json(point)})

    def refresh(self) -> None:
        """Put what is known now into the widget, for views that are opened later, and into the outputs, which
        are what a notebook saves.
        """
        with self._showing:
            if self.widget is not None:
                from tilebench.views.widget import packed

                self.widget.payload = packed(self.whatif.report())
            if self._outputs:
                data, metadata = self.bundle()
                for output in self._outputs:
                    output.update(data, metadata=metadata, raw=True)


def _brief(point: TriedPoint) -> dict[str, Any]:
    """What a neighbour's mark shows: whether it is legal and why not, its time."""
    us = point.point.time_us.value if point.point is not None and point.point.time_us is not None else None
    return {"state": point.state, "reason": point.reason, "us": us}
