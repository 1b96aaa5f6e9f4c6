"""What a name means while a function is walked: locals, then closure and globals of the user's function."""

from __future__ import annotations

import ast
import builtins
import linecache
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from tilebench.errors import Loc, Source, SyntaxTileError


@dataclass(frozen=True)
class LoopMark:
    """A loop being walked. depth: the frame's at its head.

    kind: python (unrolled while compiling), serial (a run-time loop), parallel, grid.
    """

    kind: Literal["python", "serial", "parallel", "grid"]
    depth: int


@dataclass
class Frame:
    """Names of one function being walked.

    depth: how many run-time loops and branches are open; bound_at: the depth at which a name was bound;
    gone: names of loops and branches that have ended, with their places; loops: innermost last;
    references: T.Ref parameters.
    """

    source: Source
    outer: dict[str, Any]
    names: dict[str, Any] = field(default_factory=dict[str, Any])
    call_site: Loc | None = None
    depth: int = 0
    bound_at: dict[str, int] = field(default_factory=dict[str, int])
    gone: dict[str, Loc] = field(default_factory=dict[str, Loc])
    loops: list[LoopMark] = field(default_factory=list[LoopMark])
    references: set[str] = field(default_factory=set[str])

    def loc(self, node: ast.AST) -> Loc:
        """Where a node stands."""
        line, end = getattr(node, "lineno", 1), getattr(node, "end_lineno", None)
        return Loc(
            self.source,
            line,
            getattr(node, "col_offset", 0),
            end or line,
            getattr(node, "end_col_offset", 0) or 0,
            self.call_site,
        )

    def find(self, name: str) -> tuple[bool, Any]:
        """(whether it is known, its value)."""
        if name in self.names:
            return True, self.names[name]
        if name in self.outer:
            return True, self.outer[name]
        if hasattr(builtins, name):
            return True, getattr(builtins, name)
        return False, None

    def known(self) -> list[str]:
        """All names in reach, for suggestions."""
        return [*self.names, *self.outer, *dir(builtins)]


def outer_names(function: Callable[..., Any]) -> dict[str, Any]:
    """Globals and closure cells of a function, as one table."""
    table = dict(getattr(function, "__globals__", {}))
    code = getattr(function, "__code__", None)
    for name, cell in zip(
        code.co_freevars if code else (), getattr(function, "__closure__", None) or (), strict=False
    ):
        try:
            table[name] = cell.cell_contents
        except ValueError:
            continue  # a name that its function has not assigned yet
    return table


def source_of(function: Callable[..., Any]) -> Source:
    """The text of the cell or file that a function was defined in. Raises TB103 when there is none."""
    code = getattr(function, "__code__", None)
    if code is None:
        raise SyntaxTileError(
            "TB103",
            f"{function!r} is not a Python function",
            why="a tile program is read from the text of a function",
            fix="decorate a function: def kernel(...)",
        )
    own = getattr(function, "__tilebench_source__", None)
    if isinstance(own, Source):
        return own
    lines = linecache.getlines(code.co_filename, getattr(function, "__globals__", None))
    if not lines:
        raise SyntaxTileError(
            "TB103",
            f"the text of {function.__name__} cannot be found",
            why=(
                f"it was made by exec() or eval() under the name {code.co_filename!r}, so there is nothing "
                "to read"
            ),
            fix="define it in a file or a notebook cell, or compile its text: tilebench.compile(text)",
        )
    return Source(shown_name(code.co_filename), "".join(lines))


def shown_name(filename: str) -> str:
    """'In[3]' for the file that IPython keeps a cell's text under; other names as they are."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    named = getattr(getattr(shell, "compile", None), "format_code_name", None)
    found = named(filename) if named is not None else None
    return str(found[1]) if found else filename


@lru_cache(maxsize=64)
def parse_text(text: str, name: str, first_line: int = 1) -> ast.Module:
    """The syntax tree, its lines counted from first_line; cached, since a file has many functions."""
    tree = ast.parse(text, name)
    return ast.increment_lineno(tree, first_line - 1) if first_line > 1 else tree


def node_of(function: Callable[..., Any], source: Source) -> ast.FunctionDef:
    """The definition of a function in its source, found by its first line and name."""
    code = function.__code__
    if code.co_name == "<lambda>":
        raise SyntaxTileError(
            "TB103",
            "a lambda is no tile program",
            why="a program is read from its definition, and a lambda has no statements",
            fix="write a function: def kernel(...), decorated with @T.prim_func",
        )
    tree = parse_text(source.text, source.name, source.first_line)
    found: list[ast.FunctionDef] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if code.co_firstlineno in (first, node.lineno):
                return node
            found.append(node)
        elif isinstance(node, ast.AsyncFunctionDef) and node.name == code.co_name:
            raise SyntaxTileError(
                "TB102",
                f"{node.name} is an async function",
                at=Loc(source, node.lineno, node.col_offset),
                why="a kernel does not wait for Python",
                fix="write def, not async def",
            )
    if len(found) == 1:
        return found[0]
    raise SyntaxTileError(
        "TB103",
        f"the definition of {code.co_name} is not in {source.name}",
        why="the text has changed since the function was defined",
        fix="save the file, or run the cell that defines it again",
    )
