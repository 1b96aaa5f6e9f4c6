"""What is wrong in a `%%tile` cell, and what is known of its buffers: parsed, shapes and layouts inferred.

Nothing is built or run. notebook/linter.py does it while the cell is typed.

Positions are lines from 1 and columns from 0 in UTF-16 units, as editors count.
"""

from __future__ import annotations

import ast
import inspect
import logging
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, cast

from tilebench.errors import InternalError, Loc, TileError
from tilebench.notebook.executable import executable_part

LARGEST_TEXT = 1 << 17
LARGEST_TABLE = 1 << 12
"""Layouts that need a longer table are sent without it."""
CELL = "<tile cell>"
_HEAD = re.compile(r"\s*%%tile\b(.*)")

log = logging.getLogger("tilebench")


@dataclass(frozen=True)
class Diagnostic:
    """Something to underline in the cell."""

    line: int
    column: int
    end_line: int
    end_column: int
    severity: str
    code: str
    text: str
    why: str = ""
    fix: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """All that one text gave. note: why there is less than usual, '' when there is all."""

    diagnostics: tuple[Diagnostic, ...] = ()
    params: tuple[Any, ...] = ()
    buffers: tuple[Any, ...] = ()
    layouts: tuple[Any, ...] = ()
    ops: tuple[Mapping[str, Any], ...] = ()
    note: str = ""

    def message(self, request: object) -> dict[str, Any]:
        """As JSON data for the editor."""
        from tilebench.codec import to_json

        return {
            "id": request,
            "diagnostics": [asdict(d) for d in self.diagnostics],
            "params": to_json(self.params),
            "buffers": to_json(self.buffers),
            "layouts": to_json(self.layouts),
            "ops": to_json(self.ops),
            "note": self.note,
        }


# ------------------------------------------------------------------ one text


def diagnose(cell: str, namespace: Mapping[str, Any]) -> Diagnosis:
    """What is wrong in a cell that starts with `%%tile`, and what is known of its buffers and ops.

    Names come from `namespace`, which is not changed. Of the cell's own top-level statements only those are
    executed that compute values without calling anything unknown. An empty Diagnosis for any other cell.
    """
    lines = cell.split("\n")
    first = next((k for k, line in enumerate(lines) if line.strip()), 0)
    head = _HEAD.fullmatch(lines[first])
    if head is None or len(cell) > LARGEST_TEXT:
        return Diagnosis()
    body = "\n".join(lines[first + 1 :])
    if not body.strip():
        return Diagnosis(note="the cell is empty")
    try:
        options = _options(head[1])
    except ValueError as error:
        start = lines[first].index("%%tile")
        at = Diagnostic(first + 1, start, first + 1, len(lines[first].rstrip()), "error", "", str(error))
        return Diagnosis((at,))
    try:
        return _examine(body, first + 2, dict(namespace), options)
    except InternalError as error:
        log.debug("diagnosing failed", exc_info=error)
        return Diagnosis(note=error.what)  # our own bug: the run says it, in full
    except TileError as error:
        return Diagnosis((_diagnostic(error, lines, first + 1),))


def _options(line: str) -> Any:
    """The options on the first line. Raises ValueError with the message for the user."""
    from IPython.core.error import UsageError

    from tilebench.notebook.magic import TileMagics
    from tilebench.notebook.words import split_line, suggest

    try:
        words = [w for w in split_line(line.rstrip(" ;")) if w not in ("-h", "--help")]
        return cast("Any", TileMagics.tile).parser.parse_args(words)
    except UsageError as error:
        raise ValueError(suggest(str(error), line)) from None


def _examine(body: str, first_line: int, scope: dict[str, Any], options: Any) -> Diagnosis:
    from tilebench.kernel.program import define

    text, missing = executable_part(body, scope)
    settings = _settings(options.set, scope)
    scope.update({k: v for k, v in settings.items() if k in scope})
    try:
        program, _ = define(text, scope, options.name, CELL, first_line)
        prim = _parse(program, settings, options, scope)
    except TileError:
        if missing:
            return Diagnosis(note=f"known once the cell has run: {', '.join(missing)}")
        raise
    return Diagnosis(note="its tensors are not known yet") if prim is None else _facts(prim, options.target)


def _settings(items: list[str], scope: Mapping[str, Any]) -> dict[str, Any]:
    """Values of `--set` that are literals or plain names."""
    found: dict[str, Any] = {}
    for item in items:
        name, _, value = item.partition("=")
        known, made = _plain(value, scope)
        if known:
            found[name] = made
    return found


def _plain(text: str, scope: Mapping[str, Any]) -> tuple[bool, Any]:
    """(whether it is known, its value) of an option's expression: a literal or names, perhaps several."""
    text = text.strip().strip("'\"")
    if re.fullmatch(r"[\w\s,.]+", text):
        try:
            tree = ast.parse(text, mode="eval")
            safe = all(
                isinstance(n, ast.Expression | ast.Tuple | ast.Name | ast.Constant | ast.expr_context)
                for n in ast.walk(tree)
            )
            return (True, eval(compile(tree, "<option>", "eval"), dict(scope))) if safe else (False, None)
        except (SyntaxError, NameError):
            return False, None
    return False, None


# ------------------------------------------------------------------ the compiler, as far as layouts


def _parse(program: Any, settings: Mapping[str, Any], options: Any, scope: Mapping[str, Any]) -> Any:
    """The tile Kernel; None when it depends on tensors that the cell's line does not name."""
    from tilebench.kernel.args import is_tensor, view
    from tilebench.kernel.decorator import JitFunction
    from tilebench.kernel.tune import TunedFunction
    from tilebench.language.parse import TensorSpec, parse_eager, parse_prim_func

    inner = program.function if isinstance(program, TunedFunction) else program
    if not isinstance(inner, JitFunction):
        return parse_prim_func(inner)
    parameters = inspect.signature(inner.function).parameters
    named = {k: v for k, v in settings.items() if k in parameters}
    if inner.is_lazy:
        required = [k for k, p in parameters.items() if p.default is p.empty and k not in named]
        return None if required else parse_prim_func(inner.function(**named))
    known, values = _plain(options.args, scope) if options.args else (False, None)
    if not known:
        return None
    given = list(cast("Any", values)) if isinstance(values, tuple | list) else [values]
    bound = dict(zip(parameters, given, strict=False)) | named
    specs = {
        k: TensorSpec(t.shape, t.strides, t.dtype) if (t := view(v, k) if is_tensor(v) else None) else v
        for k, v in bound.items()
    }
    return parse_eager(inner.function, specs)


def _facts(prim: Any, target: str | None) -> Diagnosis:
    """Errors of the checks and of the passes as far as the byte map of shared memory, and what they found."""
    from tilebench.compiler import BACKENDS, passes
    from tilebench.kernel.roles import with_roles
    from tilebench.kernel.target import resolve
    from tilebench.passes.check import check
    from tilebench.targets import parse

    prim = with_roles(prim)
    wanted = resolve(target)
    check(prim, wanted)
    own = BACKENDS[wanted.kind][1]
    stages: list[Any] = []
    try:
        # The CPU and interp have no threads: for them layouts are shown as a GPU would have them.
        stages.append(check(prim, wanted if own else parse("cuda:sm_90a")))
        for name, step in passes():
            if name in ("sync", "lower"):
                break
            stages.append(step(stages[-1]))
    except TileError:
        if own:
            raise
    except (AssertionError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise InternalError("TB901", f"{type(error).__name__}: {error}") from error
    return _gathered(prim, stages)


def _gathered(prim: Any, stages: list[Any]) -> Diagnosis:
    from tilebench.ir.tile import Buffer
    from tilebench.kernel.facts import buffer_info, layout_info, line_of, ops_of, span
    from tilebench.passes.stages import Allocated, Partitioned, Placed

    def stage(kind: type[Any]) -> Any:
        return next((s for s in stages if isinstance(s, kind)), None)

    allocated, placed, partitioned = stage(Allocated), stage(Placed), stage(Partitioned)
    layouts: list[Any] = []
    for buffer, layout in placed.layouts.items() if placed else ():
        reason = placed.reasons.get(buffer)
        where = line_of(reason.at) if reason else 0
        info = layout_info(buffer.name, layout, buffer.dtype.bits, reason.text if reason else "", where)
        if info.table is None or info.table.size <= LARGEST_TABLE:
            layouts.append(info)
    ops: list[Mapping[str, Any]] = []
    selected = partitioned.selected if partitioned else None
    for node, name in ops_of(prim).items():
        op = cast("Any", node)
        made = selected.instructions.get(op) if selected else None
        why = selected.reasons.get(op) if selected else None
        ops.append(
            {
                "id": name,
                "name": type(op).__name__.lower(),
                "text": "",
                "span": span(op.loc),
                "instruction": made.name if made else "",
                "reason": why.text if why else "",
                "reads": [r.buffer.name for r in getattr(op, "reads", ())],
                "writes": [r.buffer.name for r in getattr(op, "writes", ())],
            }
        )
    tensors = [p.value for p in prim.params if isinstance(p.value, Buffer)]
    return Diagnosis(
        (),
        tuple(buffer_info(b, None) for b in tensors),
        tuple(buffer_info(b, allocated) for b in prim.buffers),
        tuple(layouts),
        tuple(ops),
    )


# ------------------------------------------------------------------ places


def _diagnostic(error: TileError, lines: list[str], head: int) -> Diagnostic:
    """An error where it was written, else at the cell's call that led there, else on the first line."""
    at = _in_cell(error.at)
    notes = [f"line {p.line}: {text}" for where, text in error.notes if (p := _in_cell(where))]
    why = "; ".join([error.why, *notes]) if error.why else "; ".join(notes)
    if at is None or not 0 < at.line <= len(lines):
        return Diagnostic(
            head, 0, head, len(lines[head - 1]), "error", error.code, error.what, why, error.fix
        )
    end_line = min(max(at.end_line, at.line), len(lines))
    start = _units(lines[at.line - 1], at.column)
    end = _units(lines[end_line - 1], at.end_column)
    if (end_line, end) <= (at.line, start):
        end_line, end = at.line, len(lines[at.line - 1].rstrip().encode("utf-16-le")) // 2
        start = min(start, max(end - 1, 0))
    return Diagnostic(at.line, start, end_line, end, "error", error.code, error.what, why, error.fix)


def _in_cell(at: Loc | None) -> Loc | None:
    while at is not None and at.source.name != CELL:
        at = at.call_site
    return at


def _units(line: str, column: int) -> int:
    """A column in bytes of UTF-8, as Python's syntax trees count, in UTF-16 units."""
    return len(line.encode()[:column].decode(errors="ignore").encode("utf-16-le")) // 2
