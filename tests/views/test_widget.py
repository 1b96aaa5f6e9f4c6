"""The live board's traits: what it sends, and what it takes from a browser."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import zlib

import pytest

from tests.views.fixture import load
from tilebench.report import Report, from_json
from tilebench.views import Board
from tilebench.views.board import WIDGET_MIME
from tilebench.views.widget import BoardWidget, cleaned


def test_the_payload_is_the_report_and_small() -> None:
    widget = BoardWidget.of(load(), ("layout",), "")
    assert len(widget.payload) <= 256_000
    assert from_json(Report, json.loads(zlib.decompress(widget.payload))).verdict == load().verdict
    assert widget.views == ["layout"]


def test_a_pin_arrives_in_python() -> None:
    board = Board(load())
    board.widget.set_state({"sel": {"line": 12, "coord": [3, 17], "thread": 37}})
    assert board.sel == {"line": 12, "coord": [3, 17], "thread": 37}


@pytest.mark.parametrize(
    "message",
    [
        None,
        7,
        "sel",
        [],
        {"payload": b"x", "_esm": "alert(1)"},
        {"sel": 3},
        {"sel": {"line": float("nan"), "path": "/etc", "coord": "abc"}},
        {"sel": {"op": "x" * 100_000}},
    ],
)
def test_a_hostile_message_changes_nothing(message: object, caplog: pytest.LogCaptureFixture) -> None:
    board = Board(load())
    before = (board.widget.payload, board.widget._esm)
    with caplog.at_level(logging.WARNING, "tilebench"):
        board.widget.set_state(message)
    assert (board.widget.payload, board.widget._esm) == before
    assert board.sel == {}


def test_only_bus_keys_pass() -> None:
    assert cleaned({"line": 1, "thread": True, "bank": 3.5, "coord": [1, "a"], "nope": 1, "reg": -1}) == {
        "line": 1,
        "reg": -1,
    }


def test_without_anywidget_a_board_is_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tilebench.views.widget", raising=False)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    data, _ = Board(load())._repr_mimebundle_()
    assert WIDGET_MIME not in data
    assert "image/png" in data


def test_views_import_nothing_heavy() -> None:
    heavy = "{'matplotlib', 'anywidget', 'ipywidgets', 'IPython', 'PIL', 'torch'}"
    script = f"import sys, tilebench.views; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


def test_static_boards_have_no_widget() -> None:
    assert Board(load(), static=True).widget is None
    assert Board(load(), static=True).sel == {}
