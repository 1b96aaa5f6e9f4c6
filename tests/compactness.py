"""How many lines an operator takes here and in Triton: `python tests/compactness.py` prints a table.

Counted are the kernel and what launches it: lines with code, after ruff's formatter, which is asked to format
everything (no `# fmt: skip`); not counted are blank lines, comments, docstrings, and the configurations that
Triton's versions are tuned over. "as written": with signatures packed by hand, as they stand in the files.
Both sides take tensors of any strides (Triton's attention: contiguous ones) and sizes that are no multiples
of the blocks.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
BAR = 0.6
OURS = HERE / "compact" / "programs.py"
PEERS = HERE / "perf" / "triton_peers.py"
SCANS = HERE / "perf" / "triton_scan_peers.py"
OPERATORS: dict[str, Path] = {
    "gemm": PEERS,
    "attention": PEERS,
    "linear_attention": SCANS,
    "chunk_scan": SCANS,
}
"""Operator -> the file with Triton's `operator`, which launches `_operator`."""
_IGNORED = (
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """Lines of an operator, here and in Triton."""

    operator: str
    ours: int
    triton: int
    ours_written: int
    triton_written: int

    @property
    def ratio(self) -> float:
        """Of lines after the formatter."""
        return self.ours / self.triton

    @property
    def ratio_written(self) -> float:
        """Of lines as they stand in the files."""
        return self.ours_written / self.triton_written


def formatted(path: Path) -> str:
    """The file's text as ruff lays it out, without exceptions and without trailing commas to keep."""
    text = re.sub(r"[ ]*# fmt: skip", "", path.read_text())
    text = re.sub(r",(\s*\n\s*\))", r"\1", text)
    command = [str(Path(sys.executable).with_name("ruff")), "format", "--stdin-filename", str(path), "-"]
    return subprocess.run(
        command, input=text, capture_output=True, text=True, check=True, cwd=HERE.parent
    ).stdout


def lines(text: str, *functions: str) -> int:
    """Lines of code of these functions, each with its decorators (but triton.autotune)."""
    tree = ast.parse(text)
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _IGNORED:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) is not None:
            code -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
        for d in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            if "autotune" in ast.unparse(d):
                code -= set(range(d.lineno, (d.end_lineno or 0) + 1))
    found = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    total = 0
    for name in functions:
        node = found[name]
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        total += len(code & set(range(first, (node.end_lineno or first) + 1)))
    return total


def rows() -> list[Row]:
    """Every operator's lines."""
    found: list[Row] = []
    for name, path in OPERATORS.items():
        both = (f"_{name}", name)
        found.append(
            Row(
                name,
                lines(formatted(OURS), name),
                lines(formatted(path), *both),
                lines(OURS.read_text(), name),
                lines(path.read_text(), *both),
            )
        )
    return found


def main() -> int:
    """Print the table; 1 when an operator is over the bar."""
    over = 0
    print(
        f"{'operator':18} {'here':>5} {'Triton':>7} {'ratio':>6} (bar {BAR}) {'as written':>14} {'ratio':>6}"
    )
    for row in rows():
        written = f"{row.ours_written} / {row.triton_written}"
        print(
            f"{row.operator:18} {row.ours:5} {row.triton:7} {row.ratio:6.2f} {written:>24} "
            f"{row.ratio_written:6.2f}"
        )
        over += row.ratio > BAR
    return int(over > 0)


if __name__ == "__main__":
    sys.exit(main())
