"""The same operator takes at most 0.6 of the lines that it takes in Triton."""

from __future__ import annotations

import ast

import pytest

from tests import compactness


@pytest.mark.parametrize("row", compactness.rows(), ids=lambda row: row.operator)
def test_an_operator_takes_at_most_so_many_of_tritons_lines(row: compactness.Row) -> None:
    assert row.ratio <= compactness.BAR
    assert row.ratio_written <= compactness.BAR, "with signatures packed by hand"


def test_what_is_counted() -> None:
    text = '"""Doc."""\n\n@a\ndef f(x):\n    """Doc\n    of f."""\n\n    # no\n'
    text += "    y = [\n        1,\n    ]\n    return y\n"
    assert lines_of(text, "f") == 6
    assert lines_of("@triton.autotune(\n    configs,\n)\n@triton.jit\ndef f():\n    return 1\n", "f") == 3


def lines_of(text: str, name: str) -> int:
    ast.parse(text)
    return compactness.lines(text, name)


def test_no_line_holds_two_statements() -> None:
    """Lines are not saved by semicolons or by bodies behind a colon."""
    for path in {compactness.OURS, *compactness.OPERATORS.values()}:
        for node in ast.walk(ast.parse(path.read_text())):
            for name in ("body", "orelse"):
                body = getattr(node, name, None)
                if isinstance(body, list) and body and not isinstance(node, ast.Module):
                    starts = [s.lineno for s in body]
                    assert len(set(starts)) == len(starts), (path.name, starts)
                    assert starts[0] > getattr(node, "lineno", 0), (path.name, starts)
