"""Everything that the magics do is a plain call, for places that have no magics."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import tilebench
from tests.kernel.test_session import ADD, FACTORY, absent
from tilebench.errors import TileError
from tilebench.report import REPORT_MIME


def test_a_result_displays_as_its_board_and_prints_as_text() -> None:
    result = tilebench.run(ADD, target="interp", namespace={"N": 64, "DTYPE": "float32"})
    assert repr(result).startswith("add on interp: PASS")
    data, _ = result._repr_mimebundle_()
    assert REPORT_MIME in data
    assert tilebench.show(result, "layout").views == ("layout",)


def test_a_sweep_is_a_table_with_its_best_point() -> None:
    table = tilebench.sweep(FACTORY, {"BLOCK": [16, 32, 0]}, target="cpu", settings={"n": 64})
    assert table.best is not None
    assert table.best.settings["BLOCK"] in (16, 32)
    assert table.points[2].result is None
    assert "not possible" in repr(table)
    assert "<table>" in table._repr_html_()
    for wrong in ({}, {"BLOCK": []}, {"BLOCK": range(1, 100)}):
        with pytest.raises(TileError, match="TB617"):
            tilebench.sweep(FACTORY, wrong, target="cpu", settings={"n": 64})


@absent
def test_without_a_gpu_a_sweep_compares_what_is_predicted() -> None:
    table = tilebench.sweep(FACTORY, {"BLOCK": [32, 64]}, target="cuda:sm_90a", settings={"n": 64})
    assert table.best is not None
    assert table.best.time is not None
    assert table.best.time.provenance == "predicted"


def test_reports_are_saved_loaded_and_compared(tmp_path: Path) -> None:
    a = tilebench.run(FACTORY, target="cpu", settings={"n": 64})
    b = tilebench.run(FACTORY, target="cpu", settings={"n": 64, "BLOCK": 16})
    for name in ("a.tbz", "a.json"):
        again = tilebench.load(tilebench.save(a, tmp_path / name))
        assert (again.id, again.figures, again.ok) == (a.report.id, a.report.figures, True)
        assert again.diffs[0].heat is not None
        assert (again.diffs[0].heat == a.report.diffs[0].heat).all()
    assert (tmp_path / "a.tbz").stat().st_size < (tmp_path / "a.json").stat().st_size
    assert "setting BLOCK" in repr(tilebench.compare(a, b))
    with pytest.raises(TypeError, match="takes a result"):
        tilebench.save(3, tmp_path / "x.json")


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x05\x06" + bytes(18)])
def test_a_file_that_is_no_report_is_refused(tmp_path: Path, content: bytes) -> None:
    for name in ("bad.tbz", "bad.json"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=r"bad|Expecting|decode|utf"):
            tilebench.load(tmp_path / name)


def test_the_machine_says_what_it_is() -> None:
    assert "NVRTC" in repr(tilebench.doctor())
    assert tilebench.devices()[-1].target == "cpu"


def test_a_reference_of_another_function_is_told_from_a_broken_kernel() -> None:
    namespace = {"N": 64, "DTYPE": "float32"}
    report = tilebench.run(ADD, target="cpu", namespace=namespace, ref=lambda x: x * 2).report
    assert report.ok is False
    text = next(f.text for f in report.findings if f.kind == "reference")
    assert "computes what its program says" in text
    assert not any(f.kind == "emulated" for f in report.findings)


def test_a_name_that_the_text_does_not_define_is_an_error() -> None:
    with pytest.raises(TileError, match="did you mean add"):
        tilebench.run(ADD, target="interp", name="ad", namespace={"N": 64, "DTYPE": "float32"})


def test_checks_run_without_notebook_packages() -> None:
    """The whole path on a server: no IPython, no anywidget."""
    code = (
        "import sys\n"
        "for name in ('IPython', 'anywidget', 'ipywidgets', 'matplotlib', 'llvmlite', 'cuda'):\n"
        "    sys.modules[name] = None\n"
        "import tilebench\n"
        f"r = tilebench.run({FACTORY!r}, target='interp', settings={{'n': 64}}, check='full', steps=())\n"
        "print(r.report.ok, len(r.report.traces))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True", "1"], done.stderr


def test_tensors_of_numpy_are_checked_too() -> None:
    x, y = torch.ones(100).numpy(), torch.full((100,), 5.0).numpy()
    result = tilebench.run(ADD, target="cpu", namespace={"N": 100, "DTYPE": "float32"}, args=(x, y))
    assert result.report.ok is False
    assert (y[64:] == 5).all()
