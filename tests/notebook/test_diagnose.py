"""Diagnostics of a cell while it is typed: where they stand, what is never executed, when they give up."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

import tilebench.language as T
from tilebench.notebook import diagnose as lint
from tilebench.notebook.diagnose import diagnose
from tilebench.notebook.executable import executable_part
from tilebench.notebook.linter import Linter

CELL = """\
%%tile --target emu:sm_90a
@T.prim_func
def gemm(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128) as bx:
        A_shared = T.alloc_shared((64, 64), "float16")
        C_local = T.alloc_fragment((64, 64), "float32")
        T.clear(C_local)
        T.copy(A, A_shared)
        T.gemm(A_shared, A_shared, C_local)
        T.copy(C_local, C)
"""


def endless() -> int:
    while True:
        pass


def names() -> dict[str, Any]:
    return {"T": T, "endless": endless}


def test_a_right_cell_gives_no_diagnostics_and_all_facts() -> None:
    found = diagnose(CELL, names())
    assert found.diagnostics == ()
    assert found.note == ""
    buffers = {b.name: (b.shape, b.dtype, b.scope, b.bytes) for b in (*found.params, *found.buffers)}
    assert buffers["A_shared"] == ((64, 64), "float16", "shared", 8192)
    assert buffers["C_local"] == ((64, 64), "float32", "fragment", 16384)
    assert buffers["A"] == ((64, 64), "float16", "global", 8192)
    assert {layout.buffer: layout.kind for layout in found.layouts} == {
        "A_shared": "shared",
        "C_local": "fragment",
    }
    gemm = next(op for op in found.ops if op["name"] == "gemm")
    assert gemm["span"].line == 9, "as the editor counts"
    assert gemm["instruction"]
    assert gemm["writes"] == ["C_local"]


@pytest.mark.parametrize(
    ("old", "new", "place", "code"),
    [
        ("clear(C_local)", "clear(C_locl)", (7, 16, 7, 22), "TB101"),
        ("clear(C_local)", "clear(C_local", (7, 15, 7, 16), "TB100"),
        ('C_local = T.alloc_fragment((64, 64), "float32")', 'C_local = T.alloc_fragment((64, 32), "float32")',
         (9, 8, 9, 43), "TB293"),
        ("emu:sm_90a", "emu:sm_1", (1, 0, 1, 24), "TB501"),
        ("--target emu:sm_90a", "--taget emu", (1, 0, 1, 18), ""),
        ("T.clear(C_local)", 'é = "ü€𝕏"; T.claer(C_local)', (7, 20, 7, 27), "TB120"),
    ],
)  # fmt: skip
def test_errors_are_where_they_were_written(
    old: str, new: str, place: tuple[int, int, int, int], code: str
) -> None:
    assert old in CELL
    (only,) = diagnose(CELL.replace(old, new), names()).diagnostics
    assert (only.line, only.column, only.end_line, only.end_column) == place
    assert only.code == code
    assert only.severity == "error"


def test_columns_count_utf16_units() -> None:
    (only,) = diagnose(CELL.replace("T.clear(C_local)", 'é = "ü€𝕏"; T.claer(C_local)'), names()).diagnostics
    line = '        é = "ü€𝕏"; T.claer(C_local)'
    units = line.encode("utf-16-le")
    assert units[2 * only.column : 2 * only.end_column].decode("utf-16-le") == "T.claer"


def test_blank_lines_before_the_magic_move_every_line() -> None:
    (only,) = diagnose("\n\n" + CELL.replace("clear(C_local)", "clear(C_locl)"), names()).diagnostics
    assert only.line == 9


@pytest.mark.parametrize(
    "text", ["", "x = 1", "# %%tile", "%%time\n@T.prim_func", "%%tilework\nx", "%tile list"]
)
def test_other_cells_give_nothing(text: str) -> None:
    assert diagnose(text, names()) == lint.Diagnosis()


def test_the_users_names_are_read_and_not_changed() -> None:
    scope = {**names(), "N": 32, "gemm": "mine"}
    before = dict(scope)
    text = CELL.replace('alloc_fragment((64, 64), "float32")', 'alloc_fragment((64, N), "float32")')
    assert [d.code for d in diagnose(text, scope).diagnostics] == ["TB293"]
    assert scope == before


def test_only_statements_that_compute_values_are_executed() -> None:
    body = """\
import math
import not_imported_yet
N = max(2, 3) * int(math.sqrt(16))
x = launch_missiles()
launch_missiles()
y = [n for n in range(N)]; z = open("/tmp/never", "w")
with open("/tmp/never", "w") as f:
    pass
def helper(a, b=len("ab")):
    return launch_missiles()
def armed(a=launch_missiles()):
    pass
"""
    text, missing = executable_part(body, {"x": 1})
    kept = [line for line in text.split("\n") if line]
    assert kept == [
        "import math",
        "N = max(2, 3) * int(math.sqrt(16))",
        'def helper(a, b=len("ab")):',
        "    return launch_missiles()",
    ]
    assert text.count("\n") == body.count("\n"), "lines keep their numbers"
    assert missing == ["z", "f", "armed"]


def test_what_a_call_would_define_is_waited_for() -> None:
    text = CELL.replace("@T.prim_func", "M = rows_of(data)\n@T.prim_func").replace(
        "clear(C_local)", "clear(M)"
    )
    assert diagnose(text, names()).note == "known once the cell has run: M"
    assert diagnose(text, names()).diagnostics == ()
    assert diagnose(text, {**names(), "M": 3}).diagnostics != ()


def test_a_factory_is_examined_with_its_defaults_and_settings() -> None:
    text = (
        "%%tile --set width=32\n@tilebench.jit\ndef make(width=64):\n"
        + "\n".join("    " + line for line in CELL.splitlines()[1:]).replace(
            'C_local = T.alloc_fragment((64, 64)', 'C_local = T.alloc_fragment((64, width)'
        )
        + "\n    return gemm\n"
    )  # fmt: skip
    assert [d.code for d in diagnose(text, names()).diagnostics] == ["TB293"]
    assert diagnose(text.replace("--set width=32", ""), names()).diagnostics == ()


class Comm:
    """As the kernel's: collects what is sent."""

    comm_id = "c"

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.heard: Any = None

    def on_msg(self, fn: Any) -> None:
        self.heard = fn

    def send(self, data: dict[str, Any]) -> None:
        self.sent.append(data)

    def ask(self, ident: Any, text: Any, cell: str = "a") -> None:
        self.heard({"content": {"data": {"id": ident, "text": text, "cell": cell}}})

    def await_id(self, ident: int) -> dict[str, Any]:
        until = time.monotonic() + 20
        while time.monotonic() < until:
            for data in list(self.sent):
                if data["id"] == ident:
                    return data
            threading.Event().wait(0.01)
        raise AssertionError(f"no answer to {ident}: {self.sent}")


@pytest.fixture
def comm() -> Any:
    linter = Linter(names, deadline_s=0.5)
    made = Comm()
    linter.opened(made, {})
    yield made
    linter.close()


def test_the_thread_answers_with_plain_data(comm: Comm) -> None:
    import json

    comm.ask(7, CELL)
    answer = comm.await_id(7)
    assert json.loads(json.dumps(answer)) == answer
    assert answer["diagnostics"] == []
    assert answer["ops"][0]["span"]["line"] == 7
    assert len(json.dumps(answer)) < 64_000


def test_nonsense_from_the_page_is_ignored(comm: Comm) -> None:
    comm.heard({"content": {"data": "x"}})
    comm.heard({})
    comm.ask("1", CELL)
    comm.ask(2, 3)
    comm.ask(9, "x = 1")
    assert comm.await_id(9)["diagnostics"] == []
    assert [a["id"] for a in comm.sent] == [9]


def test_a_text_that_takes_too_long_is_given_up_and_the_next_is_answered(comm: Comm) -> None:
    comm.ask(1, CELL.replace("T.clear(C_local)", "x = endless()"))
    assert "longer than 0.5 s" in comm.await_id(1)["note"]
    comm.ask(2, CELL)
    assert comm.await_id(2)["ops"]


def test_what_is_evaluated_while_typing_cannot_write(comm: Comm, tmp_path: Path) -> None:
    target = tmp_path / "never"
    comm.ask(1, CELL.replace("T.clear(C_local)", f"x = open({str(target)!r}, 'w')"))
    assert "PermissionError" in str(comm.await_id(1)["diagnostics"])
    assert not target.exists()
    target.write_text("other threads can")


@pytest.mark.parametrize("separator", ["\u2028", "\x0c", "\x85", "\x1c"])
def test_lines_are_those_that_python_counts(separator: str) -> None:
    cell = CELL.replace("T.clear(C_local)", f"T.clear(C_local)  # a{separator}b")
    assert diagnose(cell, names()).diagnostics == ()
    (wrong,) = diagnose(cell.replace("T.copy(C_local, C)", "T.copy(C_local, D)"), names()).diagnostics
    assert (wrong.line, wrong.text) == (10, "unknown name D")


def test_the_first_line_is_read_as_the_cell_reads_it() -> None:
    body = CELL.partition("\n")[2]
    assert diagnose(f"""%%tile --target "cpu" --args '-x';\n{body}""", names()).diagnostics == ()
    (unknown,) = diagnose(f"%%tile --targt cpu\n{body}", names()).diagnostics
    assert "did you mean --target?" in unknown.text
    (unclosed,) = diagnose(f"%%tile --args 'x\n{body}", names()).diagnostics
    assert "is not closed" in unclosed.text


@pytest.mark.parametrize("value", ["9 ** 9 ** 9", "2 ** k", "'a' * 10 ** 10", "[0] * k", "2 ** 1000000000"])
def test_what_could_fill_the_memory_is_not_executed(value: str) -> None:
    text, missing = executable_part(f"x = {value}\ny = 2 ** 7 + len([0] * 3)", {})
    assert (text, missing) == ("\ny = 2 ** 7 + len([0] * 3)", ["x"])


@pytest.mark.parametrize(
    "value",
    [
        "list(range(10**9))", "sum(range(-big, big))", "[i for i in range(1000000) for j in range(1000000)]",
        "max(range(0, 10 ** 9, 2))", "{i: 0 for i in range(big)}", "pow(9, 9 ** 9)", "pow(9, k)",
    ],
)  # fmt: skip
def test_what_would_count_for_long_is_not_executed(value: str) -> None:
    """range(10**9) takes seconds, while somebody types."""
    text, missing = executable_part(f"big = 1000000000\nx = {value}\n", {})
    assert text.split("\n")[1] == ""
    assert missing[0] == "x"
    kept = "n = 64\nx = [2 ** 3 for i in range(n // 2)]\ny = sum(range(m, 100))"
    assert executable_part(kept, {"m": 4}) == (kept, [])
