"""Every option of `%%tile` and every command of `%tile`, in a real IPython shell."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from tilebench.codec import to_json
from tilebench.errors import TileError
from tilebench.notebook.completion import COMMANDS, OPTIONS, SHOWN, Known, candidates, known_to
from tilebench.notebook.words import split_line
from tilebench.report import REPORT_MIME, VIEWS

CELL = """BLOCK = 32

@T.prim_func
def add(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32")):
    with T.Kernel(N // BLOCK, threads=BLOCK) as bx:
        f = T.alloc_fragment((BLOCK,), "float32")
        T.copy(X[bx * BLOCK], f)
        for i in T.Parallel(BLOCK):
            f[i] = f[i] + 1
        T.copy(f, Y[bx * BLOCK])
"""
absent = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.chdir(tmp_path)
    ip: Any = InteractiveShell.instance()
    ip.run_line_magic("load_ext", "tilebench")
    ip.run_cell("import torch\nN = 64\nx = torch.randn(64)")
    yield ip
    ip.run_line_magic("unload_ext", "tilebench")
    InteractiveShell.clear_instance()


def run(ip: Any, line: str, cell: str = CELL, target: str = "interp") -> Any:
    """Run a cell. Its pictures are left out unless the line asks for views: they are tested elsewhere."""
    held = ip.tilebench_magics.results
    before = list(held.values())
    shown = "" if {"--show", "--static", "--quiet"} & set(line.split()) else " --show none"
    with capture_output() as captured:
        ip.run_cell(f"%%tile --target {target} {line}{shown}\n{cell}")
    made = [r for r in held.values() if all(r is not b for b in before)]
    captured.made = made[-1].report if made else None
    return captured


def command(ip: Any, line: str) -> str:
    with capture_output() as captured:
        ip.run_cell(f"%tile {line}")
    return words(captured)


def words(captured: Any) -> str:
    shown = [str(o.data.get("text/plain", "")) for o in captured.outputs]
    return "\n".join([captured.stdout, captured.stderr, *shown])


def report(captured: Any) -> dict[str, Any]:
    assert captured.made is not None, words(captured)
    return to_json(captured.made)


def findings(captured: Any) -> str:
    return "\n".join(f["text"] for f in report(captured)["findings"])


def test_the_list_of_options_is_the_one_that_completion_has(shell: Any) -> None:
    parser = shell.tilebench_magics.tile.parser
    known = {o for action in parser._actions for o in action.option_strings if o.startswith("--")}
    assert known - {"--help"} == set(OPTIONS)
    assert all(action.help for action in parser._actions)
    assert set(SHOWN) - {"none"} <= set(VIEWS)


# ------------------------------------------------------------------ what each does


def test_run_and_no_run(shell: Any) -> None:
    assert report(run(shell, "--run"))["ok"] is True
    assert report(run(shell, "--no-run"))["verdict"] == "not run"


@pytest.mark.parametrize("level", ["none", "static", "sim", "full"])
def test_check(shell: Any, level: str) -> None:
    out = run(shell, f"--check {level}")
    assert report(out)["ok"] is (None if level == "none" else True)
    assert ("blocks run by the emulator" in findings(out)) == (level in ("sim", "full"))


def test_no_check_is_check_none(shell: Any) -> None:
    assert report(run(shell, "--no-check"))["verdict"] == "ran, not checked"


def test_steps_of_a_block(shell: Any) -> None:
    trace = report(run(shell, "--steps f,Y --cta 1 --show step"))["traces"][0]
    assert trace["block"] == [1]
    assert [b["name"] for b in trace["buffers"]] == ["f", "Y"]
    assert report(run(shell, "--show step"))["traces"][0]["block"] == [0]
    assert report(run(shell, "--cta 1"))["traces"][0]["block"] == [1]
    assert "no buffer called g" in words(run(shell, "--steps g"))
    assert "not in the grid" in words(run(shell, "--steps f --cta 7"))
    assert "--cta: expected X,Y,Z" in words(run(shell, "--steps f --cta one"))


def test_trace_warps_says_what_it_cannot_do(shell: Any) -> None:
    said = findings(run(shell, "--trace-warps"))
    assert "--trace-warps timed nothing: interp runs blocks without warps" in said
    made = report(run(shell, "--trace-warps statements --cta 1 --show timeline", target="emu:sm_80"))
    assert [t["provenance"] for t in made["timelines"]] == ["predicted", "simulated"]
    assert made["timelines"][1]["note"].startswith("block 1, ")
    assert made["traces"] == []


def test_compare_with_the_last_run_and_with_another(shell: Any) -> None:
    assert "first run" in words(run(shell, "--compare"))
    out = words(run(shell, "--compare --set BLOCK=64"))
    assert "threads: 32 -> 64 +32" in out
    run(shell, "--as wide --set BLOCK=64 --quiet")
    assert "threads: 64 -> 32 −32" in words(run(shell, "--compare wide"))
    assert "did you mean wide?" in words(run(shell, "--compare wid"))


def test_sweep_tries_all_and_keeps_the_best(shell: Any) -> None:
    out = run(shell, "--sweep BLOCK=16,32,64 --as best", target="cpu")
    text = words(out)
    assert all(f"BLOCK={n} " in text for n in (16, 32, 64))
    assert text.count("best") >= 1
    assert shell.user_ns["best"].config["BLOCK"] in (16, 32, 64)
    assert shell.user_ns["BLOCK"] == 32
    assert "median of 10 rounds" in text
    assert "not possible" in words(run(shell, "--sweep BLOCK=0,32"))
    assert "did you mean BLOCK" in words(run(shell, "--sweep BLOKC=16"))
    assert "expected NAME=VALUE,VALUE" in words(run(shell, "--sweep BLOCK"))
    assert "none of the 1 combinations works" in words(run(shell, "--sweep BLOCK=0"))
    assert "81 combinations" in words(run(shell, "--sweep BLOCK=range(1,82)"))


def test_override_writes_the_text_and_then_compiles_it(shell: Any, tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    assert "wrote add.cu" in findings(run(shell, "--override cuda --no-run", target="cuda:sm_90a"))
    path = tmp_path / "add.cu"
    text = path.read_text()
    assert "says what is generated" in findings(run(shell, "--override cuda --no-run", target="cuda:sm_90a"))
    path.write_text(text.replace("\n}", "\n// mine\n}"))
    out = run(shell, "--override cuda --no-run", target="cuda:sm_90a")
    assert "was compiled in place" in findings(out)
    assert "// mine" in next(c["text"] for c in report(out)["code"] if c["level"] == "cuda")
    path.write_text(text.replace("\n}", "\nnonsense;\n}"))
    out = words(run(shell, "--override cuda", target="cuda:sm_90a"))
    assert "TB623" in out
    assert "nonsense" in out
    path.write_text(text.replace("\n}", "\n// mine\n}"))
    out = run(shell, "--override cuda --no-run --set BLOCK=64", target="cuda:sm_90a")
    assert "the program has changed since" in findings(out)
    assert "the target is cpu" in words(run(shell, "--override cuda", target="cpu"))
    assert "neither cuda nor a .cu file" in words(run(shell, "--override ptx"))


@absent
def test_an_override_that_was_not_run_says_so(shell: Any, tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    run(shell, "--override mine.cu --quiet", target="cuda")
    path = tmp_path / "mine.cu"
    path.write_text(path.read_text().replace("\n}", "\n// mine\n}"))
    assert "compiled, not run" in findings(run(shell, "--override mine.cu", target="cuda"))
    said = findings(run(shell, "--override mine.cu --trace-warps", target="cuda"))
    assert "--trace-warps timed the generated text, not the edited one" in said
    path.unlink()
    run(shell, "--override mine.cu --quiet", target="cuda")
    assert "the edited one" not in findings(run(shell, "--override mine.cu --trace-warps", target="cuda"))


@pytest.mark.parametrize("ending", ["tbz", "json", "html"])
def test_save(shell: Any, tmp_path: Path, ending: str) -> None:
    import tilebench

    out = run(shell, f"--save made/add.{ending}")
    assert f"wrote made/add.{ending}" in words(out)
    path = tmp_path / "made" / f"add.{ending}"
    if ending == "html":
        assert "<html" in path.read_text()
    else:
        again = tilebench.load(path)
        assert again.name == "add"
        assert again.ok is True
    assert "does not end in" in words(run(shell, "--save add.pkl"))


def test_static_quiet_seed_and_traceback(shell: Any) -> None:
    static = run(shell, "--static")
    assert "application/vnd.jupyter.widget-view+json" not in static.outputs[-1].data
    assert not run(shell, "--quiet").outputs
    assert report(run(shell, "--quiet", CELL.replace("N // BLOCK", "1")))["ok"] is False
    run(shell, "--seed 1 --as one --quiet")
    assert "Traceback" in words(run(shell, "--traceback", CELL.replace("T.copy(X", "T.cpy(X")))
    assert "leave one out" in words(run(shell, "--isolate --no-run"))
    assert "does not act in a worker" in words(run(shell, "--isolate --override cuda"))


def test_isolate(shell: Any) -> None:
    assert report(run(shell, "--isolate --bench 3"))["figures"]["interpreter_time_ms"]["rounds"] == 3
    wrong = CELL.replace("T.copy(X[bx * BLOCK], f)", "pass")
    for line in ("--isolate", ""):
        out = words(run(shell, line, wrong))
        assert "[TB274]" in out
        assert "In[1]:10:" in out  # the line of %%tile is the first


def test_a_kernel_keeps_its_earlier_points_on_the_roofline(shell: Any) -> None:
    run(shell, "", target="cpu")
    run(shell, "--set BLOCK=16", target="cpu")
    points = report(run(shell, "", target="cpu"))["roofline"]["points"]
    assert len(points) == 3


# ------------------------------------------------------------------ what is wrong is said


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--targt cpu", "unknown option --targt; did you mean --target?"),
        ("--shwo layout", "did you mean --show?"),
        ("--show layuot", "did you mean layout?"),
        ("--check ful", "did you mean full?"),
        ("--as 3x", "'3x' is not a name"),
        ("--as class", "'class' is not a name"),
        ("--set BLOK=3", "did you mean BLOCK?"),
        ("--set X=3", "the program reads no such name"),
        ("--bench many", "invalid int value"),
        ("--bench -3", "--bench"),
        ("one two", "a cell takes one kernel's name"),
        ("--ref lambda x: x", "an expression with spaces stands in quotes"),
    ],
)
def test_a_wrong_word_names_the_right_one(shell: Any, line: str, said: str) -> None:
    out = words(run(shell, line))
    assert said in out
    assert "Traceback" not in out


def test_an_unknown_target_names_the_one_that_was_meant(shell: Any) -> None:
    assert "did you mean cuda?" in words(run(shell, "", target="gpu"))


# ------------------------------------------------------------------ commands


def test_list_shows_the_names_that_kernels_are_bound_to(shell: Any) -> None:
    assert "no kernels yet" in command(shell, "list")
    run(shell, "--as first --quiet")
    run(shell, "--as second --set BLOCK=16 --quiet")
    lines = command(shell, "list").splitlines()
    assert lines[0].split() == ["variable", "kernel", "target", "run", "verdict"]
    assert [line.split()[:2] for line in lines[1:3]] == [["first", "add"], ["second", "add"]]


def test_show_diff_clear(shell: Any) -> None:
    assert "no kernel yet" in command(shell, "show")
    run(shell, "--as a --quiet")
    run(shell, "--as b --set BLOCK=64 --quiet")
    assert "add on interp: PASS" in command(shell, "show a layout")
    assert "add on interp" in command(shell, "show")
    assert "did you mean layout?" in command(shell, "show a layuot")
    assert "threads: 32 -> 64 +32" in command(shell, "diff a b")
    assert "takes two kernels" in command(shell, "diff a")
    assert "no kernel called 'c'" in command(shell, "diff a c")
    assert "forgot a" in command(shell, "clear a")
    assert "no kernel called 'a'" in command(shell, "clear a")
    assert "forgot b" in command(shell, "clear")
    assert "a" in shell.user_ns


def test_device_doctor_and_unknown_words(shell: Any) -> None:
    assert "auto means" in command(shell, "device")
    text = command(shell, "doctor")
    for part in ("NVRTC", "NVIDIA driver", "nvdisasm", "llvmlite", "torch", "lab extension", "counters"):
        assert part in text
    assert "takes no arguments" in command(shell, "doctor now")
    assert "did you mean list?" in command(shell, "lst")


def test_export(shell: Any, tmp_path: Path) -> None:
    run(shell, "--as a --quiet")
    assert "wrote a.json" in command(shell, "export a a.json")
    assert json.loads((tmp_path / "a.json").read_text())["name"] == "add"
    assert "wrote a.cu" in command(shell, "export a a.cu")
    assert "__global__" in (tmp_path / "a.cu").read_text()
    assert "write a report as" in command(shell, "export a a.xyz")
    assert "takes a kernel and a file" in command(shell, "export a")


def test_config_changes_what_the_magics_do(shell: Any) -> None:
    assert "(changed here)" in command(shell, "config target=interp static=on threads=1")
    with capture_output() as out:
        shell.run_cell(f"%%tile\n{CELL}")
    assert out.outputs[-1].data[REPORT_MIME]["report"]["target"] == "interp"
    assert "application/vnd.jupyter.widget-view+json" not in out.outputs[-1].data
    assert "static     False" in command(shell, "config static= target=")
    assert "did you mean target?" in command(shell, "config targt=cpu")
    assert "did you mean cuda?" in command(shell, "config target=gpu")
    assert "is on or off" in command(shell, "config static=maybe")
    assert "is a whole number" in command(shell, "config threads=-1")
    assert "expected static=VALUE" in command(shell, "config static")


# ------------------------------------------------------------------ completion

KNOWN = Known(("gemm", "add"), ("BLOCK", "N"), ("A", "acc"), ("x", "w"), ("torch_ref",), ("target", "static"))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%%tile --check ", ["none", "static", "sim", "full"]),
        ("%%tile --set ", ["BLOCK=", "N="]),
        ("%%tile --set N=3 --set B", ["BLOCK="]),
        ("%%tile --sweep ", ["BLOCK=", "N="]),
        ("%%tile --compare g", ["gemm"]),
        ("%%tile --steps a", ["acc"]),
        ("%%tile --steps acc,", ["acc,A"]),
        ("%%tile --args ", ["x", "w"]),
        ("%%tile -r ", ["torch_ref"]),
        ("%%tile -t in", ["interp"]),
        ("%%tile --override ", ["cuda"]),
        ("%%tile --target cpu --target", []),
        ("%%tile --show layout layou", []),
        ("%tile ", [*COMMANDS, "gemm", "add"]),
        ("%tile show g", ["gemm"]),
        ("%tile show gemm time", ["timeline"]),
        ("%tile diff gemm ", ["add"]),
        ("%tile export gemm rep", ["report.tbz", "report.json", "report.html"]),
        ("%tile config st", ["static="]),
        ("%tile clear ", ["gemm", "add"]),
    ],
)
def test_values_are_completed(line: str, expected: list[str]) -> None:
    assert candidates(line, KNOWN) == expected


def test_the_shell_completes_names_of_the_cell(shell: Any) -> None:
    first = "%%tile --set B"
    text = f"{first}\n{CELL}"
    context = [c.text for c in shell.Completer.completions(text, len(first))]
    assert any("BLOCK=" in c for c in context)
    first = "%%tile --steps "
    found = [c.text for c in shell.Completer.completions(f"{first}\n{CELL}", len(first))]
    assert {"f", "X", "Y"} <= {c.strip() for c in found}


BODY = """%%tile --target cpu
@T.prim_func
def double(X: T.Tensor((64,), "float16"), Y: T.Tensor((64,), "float16")):
    with T.Kernel(2, threads=64) as bx:
        x_shared = T.alloc_shared((64, 64), "float16")
        for i in T.Parallel(64"""  # the parenthesis is not closed: a cell is completed while it is typed


@pytest.mark.parametrize(("typed", "offered", "missing"), [
    ("T.alloc_sh", ["alloc_shared"], ["alloc_fragment"]),
    ("T.Para", ["Parallel"], []),
    ("BLO", ["BLOCK_M"], []),
    ("T.copy(X[bx], x_s", ["x_shared"], []),
    ("T.copy(X[bx * 64], Y", ["Y"], ["X"]),
    ("T.alloc_shared((64, 64), dt", ["dtype="], []),
    ("T.Pipelined(8, num", ["num_stages="], []),
    ("ran", ["range"], []),
    ("whi", ["while"], []),
    ("L.alloc_fr", ["alloc_fragment"], []),
])  # fmt: skip
def test_names_are_completed_in_the_body(
    shell: Any, typed: str, offered: list[str], missing: list[str]
) -> None:
    import time

    from IPython.core.completer import provisionalcompleter

    shell.run_cell("BLOCK_M = 64\nimport tilebench.language as L")
    code = f"{BODY}\n            {typed}"
    start = time.process_time()
    with provisionalcompleter():  # what ipykernel asks for a front end
        found = list(shell.Completer.completions(code, len(code)))
    assert time.process_time() - start < 0.5, "a front end waits a second"
    texts = [c.text for c in found]
    assert set(offered) <= set(texts)
    assert not set(missing) & set(texts)
    assert all(code[c.start : c.end] == re.search(r"\w*$", code)[0] for c in found)  # type: ignore[index]


def test_text_and_other_cells_are_left_alone(shell: Any) -> None:
    from tilebench.notebook.body import names_at

    for line in ("# T.al", "x = 'T.al", "np.zer", "unknown.al", "  "):
        text = f"%%tile\n{line}"
        assert names_at(text, len(text), {}) is None
    assert names_at("%%tile\nT.alloc_sh", 17, {"T": 3}) is None, "T is something else here"


@pytest.mark.parametrize(
    ("line", "split"),
    [
        ("--args 'x, y' -q", ["--args", "x, y", "-q"]),
        ("""--target "cpu" --as 'k'""", ["--target", "cpu", "--as", "k"]),
        ("--args '-x' --ref='lambda a: a'", ["--args=-x", "--ref=lambda a: a"]),
        ("""--args "f('a b')" x['a b']""", ["--args", "f('a b')", "x['a b']"]),
        (r'--args "f(\"a\")"', ["--args", 'f("a")']),
        ("""--set d="a b" 'a', 'b'""", ["--set", 'd="a b"', "'a',", "b"]),
        ("", []),
    ],
)
def test_quotes_of_a_line_keep_words_together(line: str, split: list[str]) -> None:
    assert split_line(line) == split


def test_a_quote_that_is_not_closed_is_a_usage_error(shell: Any) -> None:
    out = words(run(shell, "--args 'x --seed 1"))
    assert "UsageError: the quote that opens at" in out
    assert "Traceback" not in out


def test_values_in_quotes_mean_what_they_mean_without(shell: Any, tmp_path: Path) -> None:
    assert report(run(shell, """--target "emu" --as 'mine'"""))["target"].startswith("emu")
    assert "mine" in shell.user_ns
    run(shell, '--save "my report.json"')
    assert (tmp_path / "my report.json").exists()
    assert "wrote my kernel.html" in command(shell, 'export mine "my kernel.html"')
    made = report(run(shell, '--steps "f, Y" --show step'))
    assert {b["name"] for b in made["traces"][0]["buffers"]} >= {"f", "Y"}


def test_a_setting_in_quotes_is_text_or_an_expression(shell: Any) -> None:
    cell = CELL.replace('f = T.alloc_fragment((BLOCK,), "float32")', "f = T.alloc_fragment((BLOCK,), kind)")
    cell = 'kind = "float32"\n' + cell
    assert report(run(shell, '--set kind="float64"', cell))["buffers"][0]["dtype"] == "float64"
    assert report(run(shell, '--set "BLOCK=N // 4"'))["resources"]["threads"] == 16
    assert report(run(shell, '--set BLOCK="N // 4"'))["resources"]["threads"] == 16
    assert "write --set NAME=64" in words(run(shell, "--set BLOCK="))


def test_a_wrong_cell_shows_its_error_once_and_stops_the_notebook(shell: Any) -> None:
    for cell, code in ((CELL.replace("f[i] + 1", "g[i]"), "TB101"), ('print("hi"', "TB100")):
        with capture_output() as captured:
            outcome = shell.run_cell(f"%%tile --target interp\n{cell}")
        assert isinstance(outcome.error_in_exec, TileError)
        assert outcome.error_in_exec.code == code
        out = words(captured)
        assert out.count(outcome.error_in_exec.what) == 1
        assert "this cell stopped" in out
        assert 'File "' not in out


def test_an_interrupted_cell_shows_one_line(shell: Any) -> None:
    with capture_output() as captured:
        outcome = shell.run_cell("%%tile --target interp\nraise KeyboardInterrupt")
    assert isinstance(outcome.error_in_exec, KeyboardInterrupt)
    assert words(captured).strip() == "KeyboardInterrupt: the cell was interrupted"


def test_a_semicolon_shows_nothing(shell: Any) -> None:
    assert words(run(shell, "--show none --static;")).strip() == ""
    with capture_output() as captured:
        shell.run_cell(f"%%tile --target interp\n{CELL.rstrip()};\n")
        shell.run_cell(f"%%tile --target interp\n{CELL}\n;\n")
    assert words(captured).strip() == ""
    assert "correct" in words(run(shell, "", CELL + "# a comment;\n"))
    assert command(shell, "add;").strip() == ""


def test_help_is_printed(shell: Any) -> None:
    out = words(run(shell, "--help"))
    assert "--trace-warps" in out
    assert "UsageError" not in out


@pytest.mark.parametrize("option", ["--atol=-1 --ref 'lambda x: x + 1'", "--rtol nan", "--bench -1"])
def test_negative_numbers_are_refused(shell: Any, option: str) -> None:
    out = words(run(shell, f"--args x {option}"))
    assert "makes no sense" in out or "not negative" in out


def test_commands_refuse_without_half_done_work(shell: Any) -> None:
    run(shell, "--as a"), run(shell, "--as b")
    assert "takes one kernel" in command(shell, "show a b")
    assert "no setting 'x'" in command(shell, "config static=1 x")
    assert shell.tilebench_magics.changes == {}
    assert "UsageError: %tile export: /proc/no/x.tbz" in command(shell, "export a /proc/no/x.tbz")
    assert "UsageError: argument --save: /proc/no/x.tbz" in words(run(shell, "--save /proc/no/x.tbz"))
    assert "forgot a;" in command(shell, "clear a a")


def test_values_behind_an_equals_sign_are_completed() -> None:
    assert candidates("%%tile --target=cuda:sm_8") == [f"--target=cuda:sm_{a}" for a in (80, 86, 89)]
    assert candidates("%%tile --show=lay") == ["--show=layout"]
    assert candidates("%%tile --seed 3 --nope=x") == []


def test_names_that_the_shell_brings_are_no_references(shell: Any) -> None:
    shell.user_ns["mine"] = lambda x: x
    shell.user_ns_hidden["theirs"] = shell.user_ns["theirs"] = lambda x: x
    assert "mine" in known_to(shell, CELL).functions
    assert "theirs" not in known_to(shell, CELL).functions
