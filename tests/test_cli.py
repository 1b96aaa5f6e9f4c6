"""The command line: reports of programs and of files, and what is wrong is said with an exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.test_session import ADD
from tilebench.cli import main


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    text = "import tilebench.language as T\nN, DTYPE = 64, 'float32'\n\n" + ADD
    Path("add.py").write_text(text + "\n" + ADD.replace("add", "again").replace("+ 1", "+ 2"))
    return "add.py"


def test_a_report_is_printed(program: str, capsys: Any) -> None:
    assert main(["report", f"{program}::add", "--target", "interp"]) == 0
    assert capsys.readouterr().out.startswith("add on interp: PASS")
    assert main(["report", program, "--target", "interp"]) == 0
    assert capsys.readouterr().out.startswith("again on interp: PASS")


def test_json_is_printed_or_written(program: str, capsys: Any) -> None:
    assert main(["report", f"{program}::add", "--target", "interp", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "add"
    assert main(["report", f"{program}::add", "--target", "interp", "--json", "out/add.json"]) == 0
    assert f"wrote {Path('out/add.json').resolve()}" in capsys.readouterr().out
    assert main(["report", "out/add.json"]) == 0
    assert capsys.readouterr().out.startswith("add on interp: PASS")


def test_a_page_says_where_it_went(program: str, capsys: Any) -> None:
    assert main(["report", f"{program}::add", "--target", "interp", "--html"]) == 0
    assert f"wrote {Path('add.html').resolve()}" in capsys.readouterr().out
    assert "<html" in Path("add.html").read_text()
    assert main(["report", f"{program}::add", "--target", "interp", "--json", "--save", "a.tbz"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["ok"] is True
    assert f"wrote {Path('a.tbz').resolve()}" in captured.err


def test_settings_checks_and_benches(program: str, capsys: Any) -> None:
    line = ["report", f"{program}::add", "--target", "cpu", "--bench", "3", "--check", "sim"]
    assert main([*line, "--set", "DTYPE=float16"]) == 0
    out = capsys.readouterr().out
    assert "median of 3 rounds" in out
    assert "run by the emulator" in out
    assert "float16" in out  # of the bound
    assert main([*line, "--set", "N=128"]) == 1
    assert "64 of 128 elements of Y are never written" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["add.py::ad"], "did you mean add?"),
        (["ad.py"], "did you mean add.py?"),
        (["add.py", "--set", "M=3"], "names that can be set here: DTYPE, N"),
        (["add.py", "--set", "M"], "--set takes NAME=VALUE"),
        (["add.py", "--target", "gpu"], "did you mean cuda?"),
        (["add.py", "--check", "ful"], "did you mean full?"),
        (
            ["add.py", "--target", "interp", "--html", "a.pdf"],
            "--html a.pdf: the name of that file ends in .html",
        ),
        (["none.tbz"], "No such file"),
    ],
)
@pytest.mark.usefixtures("program")
def test_what_is_wrong_is_said(line: list[str], said: str, capsys: Any) -> None:
    assert main(["report", *line]) == 2
    assert said in capsys.readouterr().err


def test_doctor_and_device(capsys: Any) -> None:
    assert main(["doctor"]) == 0
    assert main(["device"]) == 0
    out = capsys.readouterr().out
    assert "NVRTC" in out
    assert "auto means" in out


SCALED = """
import sys
import tilebench.language as T

@T.prim_func
def scaled(X: T.Tensor((8,), "float32"), a: T.float32, Y: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=8) as bx:
        for i in T.Parallel(8):
            Y[i] = X[i] * a

def expected(x, a):
    return x * a

if LEAVES:
    sys.exit(5)
"""


def test_inputs_and_a_reference_are_expressions_in_the_files_names(program: str, capsys: Any) -> None:
    Path("scaled.py").write_text(SCALED.replace("LEAVES", "False"))
    line = ["report", "scaled.py", "--target", "interp"]
    assert main(line) == 2
    assert "no value for a" in capsys.readouterr().err
    assert main([*line, "--args", "torch.ones(8), 3.0", "--ref", "expected"]) == 0
    assert "correct against torch" in capsys.readouterr().out
    assert main([*line, "--args", "torch.ones(8), 3.0", "--ref", "lambda x, a: x"]) == 1
    assert main([*line, "--args", "ones(8)"]) == 2
    assert "--args 'ones(8)': NameError" in capsys.readouterr().err


def test_the_program_that_was_taken_is_named(program: str, capsys: Any) -> None:
    assert main(["report", program, "--target", "interp", "--json"]) == 0
    captured = capsys.readouterr()
    assert "add.py has add, again: the last was taken, again" in captured.err
    assert json.loads(captured.out)["name"] == "again"


def test_a_saved_report_is_not_run_again(program: str, capsys: Any) -> None:
    assert main(["report", f"{program}::add", "--target", "interp", "--json", "a.json"]) == 0
    capsys.readouterr()
    assert main(["report", "a.json::add", "--target", "emu"]) == 2
    assert "leave out --target, ::add" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["::add"], "no file is named"),
        (["folder.py"], "folder.py: Is a directory\n"),
        (["cell.ipynb"], "is a notebook"),
        (["junk.json"], "junk.json is not a report"),
        (["leaves.py"], "ends Python as it is read (exit 5)"),
        (["add.py", "--json", "a.html"], "ends in .json"),
        (["add.py::add", "--set", "N=x"], "TypeTileError"),
    ],
)
def test_odd_files_are_told_apart(program: str, line: list[str], said: str, capsys: Any) -> None:
    Path("folder.py").mkdir()
    Path("junk.json").write_text("junk")
    Path("leaves.py").write_text(SCALED.replace("LEAVES", "True"))
    assert main(["report", *line]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert "report: TypeTileError" not in err
