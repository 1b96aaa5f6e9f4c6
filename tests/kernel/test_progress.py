"""Progress: nothing for what is quick, a line that says how far it is for what is not."""

from __future__ import annotations

import io
from typing import Any

import pytest

from tilebench.kernel import progress
from tilebench.kernel.progress import Progress, State, shown_by


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    monkeypatch.setattr(progress, "EVERY_S", 0.0)


def test_what_is_quick_shows_nothing() -> None:
    seen: list[State] = []
    with shown_by(seen.append), Progress("quick", 2) as p:
        p.advance()
        p.advance()
    assert seen == []


@pytest.mark.usefixtures("impatient")
def test_steps_are_shown_and_the_end_is_said() -> None:
    seen: list[State] = []
    with shown_by(seen.append), Progress("tuning", 3) as p:
        for name in "abc":
            p.say(f"BLOCK={name}")
            p.advance()
    assert [s.done for s in seen] == [0, 1, 1, 2, 2, 3]
    assert seen[-1].over
    assert "tuning  [" in seen[1].text
    assert "1 of 3, about" in seen[1].text
    assert "BLOCK=a" in seen[1].text


@pytest.mark.usefixtures("impatient")
def test_an_error_takes_the_line_away() -> None:
    seen: list[State] = []

    def fail() -> None:
        with shown_by(seen.append), Progress("t", 2) as p:
            p.advance()
            raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        fail()
    assert seen[-1].over


@pytest.mark.usefixtures("impatient")
def test_outside_of_a_terminal_one_line_is_written_at_the_end(capsys: Any) -> None:
    with Progress("sweep", 2) as p:
        p.advance()
        p.advance()
    assert capsys.readouterr().err.startswith("sweep: 2 of 2 in 0.")


@pytest.mark.usefixtures("impatient")
def test_sweeps_and_tuning_say_how_far_they_are() -> None:
    import tilebench
    import tilebench.language as T
    from tests.kernel.test_session import FACTORY

    seen: list[State] = []
    with shown_by(seen.append):
        tilebench.sweep(FACTORY, {"BLOCK": [16, 32]}, target="interp", settings={"n": 64})
    assert {s.label for s in seen} == {"sweep"}
    assert "BLOCK=32" in seen[-2].text
    assert {s.total for s in seen} == {2}
    seen.clear()

    @tilebench.autotune(configs=[{"B": 16}, {"B": 32}], rep=1, warmup=1)
    @tilebench.jit(target="interp")
    def copy(n: int = 64, B: int = 16) -> Any:
        @T.prim_func
        def body(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):  # type: ignore[valid-type]
            with T.Kernel(n // B, threads=32) as bx:
                for i in T.Parallel(B):
                    Y[bx * B + i] = X[bx * B + i]

        return body

    with shown_by(seen.append):
        copy()
    assert {s.label for s in seen} == {"tuning copy"}
    assert seen[-1].done == 2


@pytest.mark.usefixtures("impatient")
def test_a_recording_counts_its_steps() -> None:
    import tilebench
    from tests.kernel.test_session import FACTORY

    seen: list[State] = []
    with shown_by(seen.append):
        result = tilebench.run(FACTORY, target="interp", settings={"n": 64}, steps=())
    shown = [s for s in seen if s.label == "recording add"]
    assert shown[-1].over
    assert shown[-1].done == len(result.report.traces[0].steps)
    assert shown[0].text.startswith("recording add  1 step")


@pytest.mark.usefixtures("impatient")
def test_a_notebook_shows_one_line_that_goes(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    import IPython.display

    from tilebench.notebook.progress import Line

    class Handle:
        shown: list[str] = []  # noqa: RUF012 # one for the test

        def update(self, thing: Any) -> None:
            self.shown.append(thing.data)

    def display(thing: Any, display_id: bool) -> Handle:
        assert display_id
        Handle.shown.append(thing.data)
        return Handle()

    monkeypatch.setattr(IPython.display, "display", display)
    with shown_by(Line()), Progress("<tuning>", 2) as p:
        p.advance()
        p.advance()
    assert "&lt;tuning&gt;" in Handle.shown[0]
    assert "1 of 2" in Handle.shown[0]
    assert Handle.shown[-1] == ""

    class Shell:
        kernel = None

    Handle.shown.clear()
    monkeypatch.setattr("IPython.get_ipython", Shell)
    with Progress("plain call", 2) as p:  # nobody said where: IPython runs behind a notebook
        p.advance()
        p.advance()
    assert "plain call" in Handle.shown[0]
    assert Handle.shown[-1] == ""
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("impatient")
def test_what_takes_a_line_s_place_covers_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without "erase the line", which a notebook's output does not know."""
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", stream)
    with Progress("emulating", 2) as p:
        p.say("a long note")
        p.advance()
        p.advance()
    assert "\x1b" not in stream.getvalue()
    screen = ""
    for text in stream.getvalue().rstrip("\n").split("\r"):
        screen = text + screen[len(text) :]
    assert screen.rstrip() == "emulating: 0.0 s"
