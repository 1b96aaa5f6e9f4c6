"""`--isolate`: the same results from a worker; its death, hang or error leaves this process alone."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest
import torch

from tilebench.errors import LaunchError
from tilebench.kernel.isolate import constants, run_isolated
from tilebench.kernel.raw import pack, unpack

TEXT = """
@T.prim_func
def double(X: T.Tensor((N,), "float16"), Y: T.Tensor((N,), "float16")):
    with T.Kernel(T.ceildiv(N, 64), threads=64) as bx:
        for i in T.Parallel(64):
            if bx * 64 + i < N:
                Y[bx * 64 + i] = X[bx * 64 + i] * 2
"""


def test_a_worker_gives_what_this_process_would() -> None:
    x = torch.randn(100).half()
    result = run_isolated(TEXT, args=(x,), namespace={"N": 100}, target="interp", ref=lambda x: x * 2)
    assert result.report.ok
    assert torch.equal(result.outputs[0], x * 2)


def test_tensors_survive_the_journey() -> None:
    values = [torch.randn(3, 5).bfloat16(), torch.arange(4, dtype=torch.int64), 7, torch.zeros(0, 2)]
    described, buffers = pack(values)
    again = unpack(described, buffers, "cpu")
    assert all(
        torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b
        for a, b in zip(values, again, strict=True)
    )


def test_only_plain_constants_that_occur_are_sent() -> None:
    assert constants({"N": 3, "model": object(), "unused": 1, "shape": (2, 3)}, "N shape model") == {
        "N": 3,
        "shape": (2, 3),
    }


def test_the_death_of_a_worker_is_an_error_with_a_place_to_go(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\nif 'tilebench.kernel.worker' in sys.orig_argv: os.abort()\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    with pytest.raises(LaunchError, match="TB620"):
        run_isolated(TEXT, args=(torch.randn(8).half(),), namespace={"N": 8}, target="interp")


def test_a_hang_ends_at_the_deadline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, time\nif 'tilebench.kernel.worker' in sys.orig_argv: time.sleep(60)\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    with pytest.raises(LaunchError, match="TB621"):
        run_isolated(TEXT, args=(torch.randn(8).half(),), namespace={"N": 8}, target="interp", deadline_s=1.0)


def test_what_the_worker_could_not_get_is_named() -> None:
    text = TEXT.replace("* 2", "* helper(2)")
    with pytest.raises(LaunchError, match="helper of this notebook is a method-wrapper") as caught:
        run_isolated(
            text, args=(torch.randn(8).half(),), namespace={"N": 8, "helper": abs.__call__}, target="interp"
        )
    assert caught.value.code == "TB622"


def test_modules_of_the_notebook_are_imported_in_the_worker() -> None:
    text = TEXT.replace("* 2", "* maths.floor(2.5)")
    x = torch.randn(8).half()
    result = run_isolated(text, args=(x,), namespace={"N": 8, "maths": math}, target="interp")
    assert torch.equal(result.outputs[0], x * 2)


def test_an_error_of_the_worker_is_on_its_line_of_the_cell() -> None:
    with pytest.raises(LaunchError, match="TB605") as caught:
        run_isolated(
            TEXT, args=(torch.zeros(8),), namespace={"N": 8}, target="interp", cell="In[1]", first_line=2
        )
    assert caught.value.at is not None
    assert caught.value.at.source.line(caught.value.at.line).startswith("def double")


def test_a_cell_that_ends_the_worker_is_told_by_its_exit() -> None:
    text = "import os, sys\nif 'tilebench.kernel.worker' in sys.orig_argv: os._exit(3)\n" + TEXT
    with pytest.raises(LaunchError, match="exit code 3"):
        run_isolated(text, args=(torch.randn(8).half(),), namespace={"N": 8}, target="interp")
