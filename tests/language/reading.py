"""Ways to parse a program in a test: the text of its IR, or the error that it gives."""

from __future__ import annotations

import itertools
import textwrap
from typing import Any

import pytest

from tilebench.errors import Source, TileError
from tilebench.ir.text import print_kernel, print_stmt
from tilebench.ir.tile import Kernel
from tilebench.ir.verify import verify_kernel
from tilebench.language.parse import PrimFunc, parse_module, parse_prim_func

_numbers = itertools.count(1)


def cell(text: str, first_line: int = 1, **names: Any) -> dict[str, Any]:
    """What a cell of this text defines; T is in reach."""
    import tilebench.language as T

    source = Source(f"<cell {next(_numbers)}>", textwrap.dedent(text), first_line)
    return parse_module(source, {"T": T, **names})


def kernel(text: str, **names: Any) -> Kernel:
    """The valid kernel of the last @T.prim_func in a cell."""
    programs = [v for v in cell(text, **names).values() if isinstance(v, PrimFunc)]
    made = parse_prim_func(programs[-1])
    verify_kernel(made)
    return made


def wrapped(body: str, head: str = "", threads: int = 128) -> str:
    """A cell with one kernel over A, B: float32[64, 64], I: int32[64], n: int32, one block."""
    return (
        f"{textwrap.dedent(head)}\n"
        "@T.prim_func\n"
        "def main(A: T.Tensor((64, 64), 'float32'), B: T.Tensor((64, 64), 'float32'),\n"
        "         I: T.Tensor((64,), 'int32'), n: T.int32):\n"
        f"    with T.Kernel(4, threads={threads}) as bx:\n"
        + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8)
        + "\n"
    )


def body(text: str, head: str = "", **names: Any) -> str:
    """The IR of a body, as text."""
    return print_stmt(kernel(wrapped(text, head), **names).body).text


def whole(made: Kernel) -> str:
    """A kernel as text."""
    return print_kernel(made).text + "\n"


def refused(text: str, **names: Any) -> TileError:
    """The error of a cell; it has a place, a reason and a fix."""
    with pytest.raises(TileError) as caught:
        kernel(text, **names)
    error = caught.value
    assert error.at is not None, f"{error.code} has no place: {error.what}"
    assert error.at.source.line(error.at.line).strip(), f"{error.code} points at an empty line"
    assert error.why, f"{error.code} has no reason"
    assert error.fix, f"{error.code} has no fix"
    return error


def refused_body(text: str, head: str = "", **names: Any) -> TileError:
    """The error of a body."""
    return refused(wrapped(text, head), **names)
