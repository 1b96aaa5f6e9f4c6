"""Long work in foreign code: its value, its errors, its configuration, progress, and an interrupt."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from tilebench import config
from tilebench.kernel import patient, progress
from tilebench.kernel.patient import patiently


def test_values_errors_and_the_configuration_pass_through() -> None:
    def fails() -> int:
        raise KeyError("a")

    with config.using(threads=3):
        assert patiently("x", lambda: config.current().threads) == 3
    with pytest.raises(KeyError, match="a"):
        patiently("x", fails)


def test_work_of_another_thread_stays_in_it() -> None:
    found: list[object] = []

    def outside() -> None:
        found.append(patiently("x", threading.current_thread) is threading.current_thread())

    thread = threading.Thread(target=outside)
    thread.start()
    thread.join()
    assert found == [True]


def test_an_interrupt_does_not_wait_for_the_end() -> None:
    ended = threading.Event()
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        patiently("x", lambda: ended.wait(60))
    ended.set()


def test_long_work_shows_how_long_it_has_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    monkeypatch.setattr(progress, "EVERY_S", 0.0)
    monkeypatch.setattr(patient, "TICK_S", 0.01)
    states: list[progress.State] = []
    with progress.shown_by(states.append):
        patiently("compiling add", lambda: time.sleep(0.1))
    assert states[0].text.startswith("compiling add  0 s")
    assert states[-1].over
