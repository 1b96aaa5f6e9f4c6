"""The state of one tile program being walked, and what handlers do with it: emit, name, bind, finish calls.

Handlers of statements are plain functions (walker, node, frame): statements.py, assignment.py, control.py.
"""

from __future__ import annotations

import ast
import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from tilebench.errors import ArgumentError, InternalError, Loc, SyntaxTileError, TileError, TypeTileError
from tilebench.ir.dtype import int32
from tilebench.ir.expr import Call, Expr, Load, Var, as_expr, const
from tilebench.ir.rewrite import seq, walk
from tilebench.ir.tile import Assert, Buffer, Region, Stmt, Store
from tilebench.language.expressions import Expressions
from tilebench.language.launching import resolve_thread_value
from tilebench.language.markers import (
    Annotation,
    ConstVar,
    Deferred,
    EmptySpec,
    LaunchSpec,
    LoopSpec,
    ThreadValue,
    VarSpec,
)
from tilebench.language.scope import Frame
from tilebench.ops.base import Effect

if TYPE_CHECKING:
    from tilebench.language.random import Nest, Stream
    from tilebench.language.tensors import TensorSpec

Handler = Callable[["Walker", Any, Frame], None]
MAX_UNROLLED = 4096
MAX_STATEMENTS = 200_000


class Control(Exception):
    """Leaves what is being walked: a return, or a break or continue of a loop that Python unrolls."""


class Returned(Control):
    """A `return` of the function being walked; value: what it returned."""

    def __init__(self, value: Any) -> None:
        self.value = value


@dataclasses.dataclass(frozen=True)
class Launched:
    """One launch of the program: what ir.tile.Kernel says of it."""

    grid: tuple[Expr, ...]
    blocks: tuple[Var, ...]
    threads: tuple[int, ...]
    thread: Var
    buffers: tuple[Buffer, ...]
    body: Stmt
    attributes: dict[str, Any]
    at: Loc | None


class Walker:
    """One program: statements emitted so far, its buffers, parameters and launch; the launches before it."""

    def __init__(self, name: str, handlers: dict[type[ast.stmt], Handler]) -> None:
        self.name = name
        self.handlers = handlers
        self.evaluate = Expressions(self)
        self.bodies: list[list[Stmt]] = [[]]
        self.buffers: list[Buffer] = []
        self.outputs: list[Buffer] = []
        self.consts: dict[ConstVar, int | Var] = {}
        self.given_consts: dict[str, int] = {}
        self.foreseen: dict[str, int] = {}
        self.tensor_specs: dict[str, TensorSpec] = {}
        self.parameters: dict[str, Buffer | Var] = {}
        self.attributes: dict[str, Any] = {}
        self.common: dict[str, Any] = {}
        self.earlier: list[Launched] = []
        self.launch: LaunchSpec | None = None
        self.launched_at: Loc | None = None
        self.inside = False
        self.grid: tuple[Expr, ...] = ()
        self.blocks: tuple[Var, ...] = ()
        self.thread = Var("tx", dtype=int32)
        self.threads: tuple[int, ...] = (1,)
        self.emitted = 0
        self.stream: Stream | None = None
        self.nests: list[Nest] = []
        self.drawn = 0
        self.computed: set[Var] = set()

    # -------------------------------------------------------------- launches

    def launched(self) -> Launched:
        """The launch that was walked last."""
        return Launched(
            self.grid, self.blocks, self.threads, self.thread, tuple(self.buffers), seq(*self.bodies[0]),
            self.attributes, self.launched_at,
        )  # fmt: skip

    def first_launch(self) -> None:
        """Keep what was annotated so far: it is said of every launch."""
        self.common = _copied(self.attributes)

    def next_launch(self) -> None:
        """Set the launch walked so far aside; another begins. Workspaces belong to both, as does what was
        annotated ahead of the first.
        """
        self.earlier.append(self.launched())
        self.bodies, self.buffers = [[]], [b for b in self.buffers if b.workspace]
        self.attributes = _copied(self.common)
        self.thread, self.stream = Var("tx", dtype=int32), None

    # -------------------------------------------------------------- emitting

    def emit(self, stmt: Stmt, at: Loc | None) -> None:
        """Append a statement; it gets the place when it has none. Raises TB108 outside of T.Kernel."""
        if not self.inside and not isinstance(stmt, Assert):
            raise SyntaxTileError(
                "TB108",
                "this runs outside of T.Kernel",
                at=stmt.loc or at,
                why="only the blocks of a launch read, write and compute",
                fix="put it under `with T.Kernel(...)`",
            )
        self.emitted += 1
        if self.emitted > MAX_STATEMENTS:
            raise SyntaxTileError(
                "TB107",
                f"the program has more than {MAX_STATEMENTS} statements",
                at=at,
                why="loops over Python values are unrolled",
                fix="use T.serial(n)",
            )
        self.bodies[-1].append(stmt if stmt.loc is not None else dataclasses.replace(stmt, loc=at))

    @property
    def mark(self) -> int:
        """How many statements the innermost body has; see `since`."""
        return len(self.bodies[-1])

    def since(self, mark: int) -> list[Stmt]:
        """Take back what was emitted in the innermost body since `mark`."""
        taken = self.bodies[-1][mark:]
        del self.bodies[-1][mark:]
        return taken

    def body(self, statements: Sequence[ast.stmt], frame: Frame) -> Stmt:
        """Statements of a run-time loop or branch, as one Stmt; names bound inside are gone after it."""
        before, bound = dict(frame.names), dict(frame.bound_at)
        self.bodies.append([])
        frame.depth += 1
        try:
            self.statements(statements, frame)
        finally:
            inner = self.bodies.pop()
            frame.depth -= 1
        for name in set(frame.names) - set(before):
            value = frame.names[name]
            frame.gone[name] = getattr(value, "loc", None) or frame.loc(statements[0])
        frame.names.clear()
        frame.names.update(before)
        frame.bound_at.clear()
        frame.bound_at.update(bound)
        return seq(*inner)

    def statements(self, statements: Sequence[ast.stmt], frame: Frame) -> None:
        """One after the other."""
        for node in statements:
            self.statement(node, frame)

    def statement(self, node: ast.stmt, frame: Frame) -> None:
        """One statement. Raises TB102 for what the language does not have, TB901 for a bug of ours."""
        handler = self.handlers.get(type(node))
        if handler is None:
            raise SyntaxTileError(
                "TB102",
                f"{_WORDS.get(type(node).__name__, type(node).__name__)} is not part of the language",
                at=frame.loc(node),
                why="a tile program is compiled; it has loops, branches, assignments and calls",
                fix="do it in Python outside of the kernel",
            )
        try:
            handler(self, node, frame)
        except TileError as error:
            if error.at is None:
                error.at = frame.loc(node)
            raise
        except (Control, RecursionError):
            raise
        except Exception as error:
            raise InternalError(
                "TB901",
                f"tilebench failed on this line ({type(error).__name__}: {error})",
                at=frame.loc(node),
                why="this is a bug of tilebench, not of your program",
                fix="please report it with this cell; --traceback shows the Python stack",
            ) from error

    # -------------------------------------------------------------- names

    def bind_target(self, target: ast.expr, value: Any, frame: Frame) -> None:
        """Bind the variable of a comprehension, of a Python loop, of a with."""
        if isinstance(target, ast.Name):
            frame.names[target.id] = value
            frame.bound_at[target.id] = frame.depth
        elif isinstance(target, ast.Tuple | ast.List):
            for t, v in zip(target.elts, self.unpacked(value, len(target.elts), frame, target), strict=True):
                self.bind_target(t, v, frame)
        else:
            raise SyntaxTileError(
                "TB102",
                f"{ast.unparse(target)} as a loop variable",
                at=frame.loc(target),
                why="it is a name, or names in a tuple",
                fix="assign to it in the body",
            )

    def unpacked(self, value: Any, count: int, frame: Frame, node: ast.AST) -> list[Any]:
        """The values of an unpacking. Raises TB222 when their number is another."""
        if isinstance(value, Buffer | Region | Expr | str) or not hasattr(value, "__iter__"):
            raise TypeTileError(
                "TB222",
                f"cannot unpack {type(value).__name__} into {count} names",
                at=frame.loc(node),
                why="only tuples and lists have parts",
                fix="unpack a tuple",
            )
        values = list(value)
        if len(values) != count:
            raise TypeTileError(
                "TB222",
                f"{len(values)} values for {count} names",
                at=frame.loc(node),
                why="each name takes one value",
                fix="use as many names as values",
            )
        return values

    def named(self, value: Any, name: str, frame: Frame, node: ast.AST) -> Any:
        """What a name is bound to: fresh buffers get the name, loads and calls are computed."""
        at = frame.loc(node)
        match value:
            case Buffer() if value.name == "":
                return self.declare(value, name, at)
            case VarSpec():
                buffer = self.declare(value.buffer, name, at)
                if value.init is not None:
                    _fits(value.init, buffer, at)
                    self.store(buffer, (const(0),), value.init, at)
                return buffer
            case EmptySpec():
                shape = tuple(as_expr(self.known_extent(s, at)) for s in value.shape)
                buffer = Buffer(name, shape, value.dtype, "global", loc=at)
                self.outputs.append(buffer)
                return buffer
            case LoopSpec(kind="thread"):  # t = T.thread_binding(0, 128, thread="threadIdx.x")
                from tilebench.language.control import thread_bound

                return thread_bound(self, value, at)
            case ThreadValue():
                return self.named(resolve_thread_value(self, value, at), name, frame, node)
            case list() | tuple():
                items = cast("list[Any]", value)
                if any(
                    isinstance(v, Buffer | VarSpec | EmptySpec | Expr | ThreadValue | list | tuple)
                    for v in items
                ):
                    return self._rebuilt(
                        items, [self.named(v, f"{name}_{i}", frame, node) for i, v in enumerate(items)]
                    )
                return cast("Any", items)
            case dict():
                table = cast("dict[Any, Any]", value)
                for k, v in table.items():
                    table[k] = self.named(v, f"{name}_{k}", frame, node)
                return table
            case Expr():
                return self.bound(name, value, frame, node)
            case Annotation():
                self.annotate(value, at)
                return None
            case _:
                return value

    @staticmethod
    def _rebuilt(old: Any, values: list[Any]) -> Any:
        if isinstance(old, list):
            old[:] = values  # the list stays the same object, as in Python
            return cast("Any", old)
        kind: Any = cast("Any", type(old))
        return kind(*values) if hasattr(kind, "_fields") else tuple(values)

    def bound(self, name: str, value: Any, frame: Frame, node: ast.AST) -> Any:
        """A value that depends on memory is computed now, by a Bind; index arithmetic stays an expression."""
        if not isinstance(value, Expr) or isinstance(value, Var) or not _reads_or_calls(value):
            return value
        var = Var(name, dtype=value.dtype)
        from tilebench.ir.tile import Bind

        self.computed.add(var)
        self.emit(Bind(var, value), frame.loc(node))
        return var

    def held(self, value: Any, frame: Frame, node: ast.AST) -> Any:
        """Values of a tuple taken now, so that a swap reads both sides first."""
        if isinstance(value, tuple | list):
            items = cast("list[Any]", value)
            return [self.held(v, frame, node) for v in items]
        return self.bound("held", value, frame, node)

    def declare(self, buffer: Buffer, name: str, at: Loc | None) -> Buffer:
        """Give a fresh buffer its name and list it."""
        if not self.inside and not buffer.workspace:
            raise SyntaxTileError(
                "TB108",
                f"{name} is allocated outside of T.Kernel",
                at=at,
                why="tiles belong to the blocks of a launch",
                fix="put it under `with T.Kernel(...)`",
            )
        made = dataclasses.replace(buffer, name=name, loc=at)
        self.buffers.append(made)
        return made

    def known_extent(self, value: Any, at: Loc | None) -> Any:
        """An extent; T.const names as their values. Raises TB213 for one that no tensor has determined."""
        value = self.evaluate.read(value) if isinstance(value, ConstVar) else value
        if isinstance(value, ConstVar):
            raise TypeTileError(
                "TB213",
                f"{value.name} is not known here",
                at=at,
                why="T.const names are determined by the shapes of the arguments",
                fix="declare an input tensor that has it as an extent first",
            )
        return value

    # -------------------------------------------------------------- values

    def store(self, buffer: Buffer, indices: tuple[Expr, ...], value: Any, at: Loc | None) -> None:
        """`buffer[indices] = value`, cast to the buffer's dtype."""
        self.emit(Store(buffer, indices, self.scalar_value(value, at).astype(buffer.dtype)), at)

    def scalar_value(self, value: Any, at: Loc | None) -> Expr:
        """A value that is stored to one element. Raises TB223 for tiles."""
        if isinstance(value, ThreadValue):
            value = resolve_thread_value(self, value, at)
        if isinstance(value, Buffer | Region):
            name = value.name if isinstance(value, Buffer) else value.buffer.name
            raise TypeTileError(
                "TB223",
                f"a tile ({name}) is assigned to one element",
                at=at,
                why="an element holds one number",
                fix="index it, or use T.copy between tiles",
            )
        try:
            return as_expr(value)
        except TileError as error:
            error.at = error.at or at
            raise

    def finish_call(self, value: Any, node: ast.AST, frame: Frame) -> Any:
        """What a spelling gave: statements are emitted, effects give their value, thread names resolved."""
        at = frame.loc(node)
        if isinstance(value, Stmt):
            self.emit_spelling(value, at, frame)
            return None
        if isinstance(value, Effect):
            self.emit_spelling(value.stmt, at, frame)
            return value.value
        if isinstance(value, Deferred):
            return value.run(self, at)
        if isinstance(value, Annotation):
            self.annotate(value, at)
            return None
        if isinstance(value, ThreadValue):
            return resolve_thread_value(self, value, at)
        return value

    def emit_spelling(self, stmt: Stmt, at: Loc, frame: Frame) -> None:
        """Emit what a spelling made."""
        from tilebench.ir.tile import Break
        from tilebench.language.control import leave

        if isinstance(stmt, Break):
            leave(self, "break", at, frame)
            return
        self.emit(stmt, at)

    def annotate(self, annotation: Annotation, at: Loc | None) -> None:
        """Merge a fact into the kernel's attributes."""
        old, new = self.attributes.get(annotation.name), annotation.value
        both = isinstance(old, dict) and isinstance(new, dict)
        self.attributes[annotation.name] = (
            cast("dict[Any, Any]", old) | cast("dict[Any, Any]", new) if both else new
        )
        self.attributes.setdefault("locs", {})[annotation.name] = at


def _copied(attributes: dict[str, Any]) -> dict[str, Any]:
    return {k: dict(cast("dict[Any, Any]", v)) if isinstance(v, dict) else v for k, v in attributes.items()}


_WORDS = {
    "ClassDef": "a class",
    "Try": "try",
    "TryStar": "try",
    "AsyncFunctionDef": "async def",
    "AsyncFor": "async for",
    "AsyncWith": "async with",
    "Global": "global",
    "Nonlocal": "nonlocal",
    "Delete": "del",
    "Match": "match",
}


def _fits(value: Any, buffer: Buffer, at: Loc | None) -> None:
    """Raise ArgumentError TB251 for a number that the variable cannot hold."""
    kind = buffer.dtype
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return
    if value > kind.max or value < kind.min:
        limit, word = (kind.max, "maximum") if value > kind.max else (kind.min, "minimum")
        raise ArgumentError(
            "TB251",
            f"{buffer.name}: {value!r} exceeds {word} of {kind} ({limit!r})",
            at=at,
            why="a variable starts with a value of its type",
            fix="use a wider type, or T.infinity(dtype)",
        )


def _reads_or_calls(e: Expr) -> bool:
    return any(isinstance(n, Load | Call) for n in walk(e))
