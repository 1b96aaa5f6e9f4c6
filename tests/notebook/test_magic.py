"""`%%tile` and `%tile` in a real IPython shell, without a browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from tilebench.notebook.completion import candidates
from tilebench.report import REPORT_MIME

CELL = """@T.prim_func
def double(X: T.Tensor((100,), "float16"), Y: T.Tensor((100,), "float16")):
    with T.Kernel(2, threads=64) as bx:
        for i in T.Parallel(64):
            if bx * 64 + i < 100:
                Y[bx * 64 + i] = X[bx * 64 + i] * FACTOR
"""


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    ip: Any = InteractiveShell.instance()
    ip.run_line_magic("load_ext", "tilebench")
    ip.run_cell("import torch\nFACTOR = 2\nx = torch.randn(100).half()")
    yield ip
    ip.run_line_magic("unload_ext", "tilebench")
    InteractiveShell.clear_instance()


def run(ip: Any, line: str, cell: str = CELL) -> Any:
    with capture_output() as captured:
        result = ip.run_cell(f"%%tile {line}\n{cell}")
    captured.success = result.success
    return captured


def bundle(captured: Any) -> dict[str, Any]:
    assert captured.outputs, captured.stdout + captured.stderr
    return captured.outputs[-1].data


def test_a_cell_compiles_runs_checks_and_shows(shell: Any) -> None:
    out = run(shell, "--target interp --args x --ref 'lambda x: x * 2'")
    data = bundle(out)
    assert {"text/plain", REPORT_MIME} <= set(data)
    assert "image/png" in data or "image/svg+xml" in data
    assert "<script" not in data.get("text/html", "")
    assert data[REPORT_MIME]["report"]["ok"] is True
    assert data["text/plain"].splitlines()[0].count("correct against torch and oracle") == 1
    assert shell.user_ns["double"].name == "double"


def test_options_reach_the_run(shell: Any) -> None:
    run(shell, "--target interp --args x --set FACTOR=3 --as three --quiet")
    kernel = shell.user_ns["three"]
    assert float(kernel.config["FACTOR"]) == 3
    assert shell.user_ns["FACTOR"] == 2
    shell.run_cell("y = torch.empty_like(x); three(x, y); ok = torch.equal(y, x * 3)")
    assert shell.user_ns["ok"] is True
    data = bundle(run(shell, "--target interp --bench 3"))
    assert data[REPORT_MIME]["report"]["figures"]["interpreter_time_ms"]["provenance"] == "measured"


def test_inputs_are_made_up_from_the_shapes(shell: Any) -> None:
    assert bundle(run(shell, "--target interp --seed 4"))[REPORT_MIME]["report"]["ok"] is True


def test_an_error_is_a_card_and_nothing_is_lost(shell: Any) -> None:
    out = run(shell, "--target interp", CELL.replace("T.Parallel", "T.Paralel"))
    data = bundle(out)
    assert "did you mean Parallel?" in data["text/plain"]
    assert ":5:18" in data["text/plain"]  # lines as the notebook's editor counts them, the magic's included
    assert "Traceback" not in data["text/plain"] + out.stdout + out.stderr
    assert shell.user_ns["FACTOR"] == 2
    assert run(shell, "--target interp --args x --quiet").success


def test_hostile_text_is_escaped(shell: Any) -> None:
    data = bundle(
        run(shell, "--target interp", CELL.replace("* FACTOR", "* UNKNOWN_<script>alert(1)</script>"))
    )
    assert "<script" not in data["text/html"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--target tpu", "unknown target"),
        ("--show nonsense", "invalid choice"),
        ("--args undefined_name", "undefined_name"),
        ("--args '('", "not a Python expression"),
        ("--set FACTOR", "NAME=VALUE"),
        ("--ref 'lambda x: 1/0' --args x", "the reference failed"),
        ("--args 'x.float()'", "has dtype float32, expected float16"),
        ("--args 'x[:50]'", "expected 100"),
        ("--args 'x, x, x'", "takes"),
        ("--args '(None,)'", "X is None"),
    ],
)
def test_wrong_options_say_what_is_right(shell: Any, line: str, words: str) -> None:
    target = "" if "--target" in line else "--target interp "
    out = run(shell, target + line)
    text = out.stdout + out.stderr + "".join(str(o.data.get("text/plain", "")) for o in out.outputs)
    assert words in text
    assert "site-packages" not in text
    assert run(shell, "--target interp --args x --quiet").success


def test_the_magic_explains_itself(shell: Any) -> None:
    with capture_output() as out:
        shell.run_line_magic("pinfo", "%%tile")
    assert "--target" in (out.stdout + "".join(str(o.data) for o in out.outputs))


def test_line_commands(shell: Any) -> None:
    run(shell, "--target interp --args x --quiet")
    with capture_output() as out:
        shell.run_cell("%tile list")
        shell.run_cell("%tile config")
        shell.run_cell("k = %tile double")
    assert "double" in out.stdout
    assert "cache_dir" in out.stdout
    assert shell.user_ns["k"] is shell.user_ns["double"]
    with capture_output() as out:
        shell.run_cell("%tile lsit")
    assert "list" in out.stdout + out.stderr


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%%tile --ta", ["--target"]),
        (
            "%%tile --target c",
            ["cpu", "cuda", "cuda:sm_80", "cuda:sm_86", "cuda:sm_89", "cuda:sm_90a", "cuda:sm_120"],
        ),
        ("%%tile gemm --show layout co", ["code"]),
        ("%tile li", ["list"]),
        ("%%time --ta", None),
        ("x = 1", None),
    ],
)
def test_completion_of_options_and_values(line: str, expected: list[str] | None) -> None:
    assert candidates(line) == expected


def test_the_shell_completes_on_the_magics_line_only(shell: Any) -> None:
    text = "%%tile --target int"
    found = [c.text for c in shell.Completer.completions(text, len(text))]
    assert any("interp" in c for c in found)


def test_loading_twice_is_loading_once(shell: Any) -> None:
    before = len(shell.Completer.custom_matchers)
    shell.run_line_magic("reload_ext", "tilebench")
    shell.run_line_magic("load_ext", "tilebench")
    assert len(shell.Completer.custom_matchers) == before


def test_what_was_made_is_known_after_a_reload(shell: Any) -> None:
    run(shell, "--target interp --args x --as kept --quiet")
    shell.run_line_magic("tile", "config static=True")
    shell.run_line_magic("reload_ext", "tilebench")
    with capture_output() as out:
        shell.run_line_magic("tile", "list")
    assert "kept" in out.stdout
    assert shell.tilebench_magics.changes == {"static": True}
    shell.run_line_magic("tile", "config static=False")


def test_an_error_in_a_plain_cell_names_the_cell(shell: Any) -> None:
    cell = CELL.replace("* FACTOR", "* missing")
    with capture_output() as out:
        result = shell.run_cell(
            f"import tilebench\n{cell}\nbroken = tilebench.compile(double)", store_history=True
        )
    error = result.error_in_exec
    assert error.code == "TB101"
    number = shell.execution_count - 1
    assert f"--> In[{number}]:7:51" in out.stdout
    assert f"7 |                 {cell.splitlines()[5].strip()}" in out.stdout
