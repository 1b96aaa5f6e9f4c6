"""Walks the statements of a tile program and emits the tile IR. One Walker a kernel; one Frame a function."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from tilebench.errors import Loc, Source, SyntaxTileError, TileError, TypeTileError
from tilebench.ir.dtype import DType, float32, int32
from tilebench.ir.expr import Expr, Load, Var, as_expr, binary, const, int_value, to_bool
from tilebench.ir.rewrite import seq
from tilebench.ir.tile import (
    Assert, AtomicRMW, Bind, Break, Buffer, Continue, Evaluate, For, If, Parallel, Pipelined, Region, Stmt, Store, While,
)  # fmt: skip
from tilebench.language.dtypes import ScalarType
from tilebench.language.expressions import Expressions, settle, statement_of
from tilebench.language.launching import enter_launch, resolve_thread_value, thread_range
from tilebench.language.markers import (
    Annotation, BoundMacro, ConstVar, EmptySpec, LaunchSpec, LoopSpec, Macro, PrimFunc, Ref, TensorType, ThreadRange, ThreadValue, VarSpec,
)  # fmt: skip
from tilebench.language.scope import Frame, node_of, outer_names, source_of
from tilebench.ops.base import Effect

MAX_UNROLLED = 4096


class Returned(Exception):  # noqa: N818  (control flow, not an error)
    """A `return` of the function being walked; value: what it returned."""

    def __init__(self, value: Any) -> None:
        self.value = value


@dataclasses.dataclass(frozen=True)
class LocalFunction:
    """A `def` inside the program, inlined where it is called."""

    node: ast.FunctionDef
    frame: Frame
    is_local_function: bool = True


class Walker:
    """State of one kernel: statements emitted so far, buffers, the launch."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.evaluate = Expressions(self)
        self.bodies: list[list[Stmt]] = [[]]
        self.buffers: list[Buffer] = []
        self.outputs: list[Buffer] = []
        self.consts: dict[ConstVar, int] = {}
        self.tensor_specs: dict[str, Any] = {}
        self.parameters: dict[str, Buffer | Var] = {}
        self.attributes: dict[str, Any] = {}
        self.launch: LaunchSpec | None = None
        self.grid: tuple[Expr, ...] = ()
        self.blocks: tuple[Var, ...] = ()
        self.thread = Var("tx", dtype=int32)
        self.threads: tuple[int, ...] = (1,)
        self.given_consts: dict[str, int] = {}

    # -------------------------------------------------------------- emitting

    def emit(self, stmt: Stmt, at: Loc | None) -> None:
        """Append a statement; it gets the place when it has none."""
        self.bodies[-1].append(stmt if stmt.loc is not None else dataclasses.replace(stmt, loc=at))

    def body(self, statements: Sequence[ast.stmt], frame: Frame) -> Stmt:
        """Statements of a run-time loop or branch, as one Stmt; names bound inside are gone after it."""
        before, known = dict(frame.names), set(frame.names)
        self.bodies.append([])
        frame.depth += 1
        try:
            self.statements(statements, frame)
        finally:
            inner = self.bodies.pop()
            frame.depth -= 1
        for name in set(frame.names) - known:
            at = frame.bound_at.get(name)
            frame.gone[name] = Loc(frame.source, at or 1)
        frame.names.clear()
        frame.names.update(before)
        return seq(*inner)

    def statements(self, statements: Sequence[ast.stmt], frame: Frame) -> None:
        """One after the other."""
        for node in statements:
            self.statement(node, frame)

    def statement(self, node: ast.stmt, frame: Frame) -> None:
        """One statement. Raises SyntaxTileError TB102 for what the language does not have."""
        method: Callable[[Any, Frame], None] | None = getattr(self, "_" + type(node).__name__, None)
        if method is None:
            words = {"ClassDef": "a class", "Try": "try", "AsyncFunctionDef": "async def", "Global": "global", "Nonlocal": "nonlocal", "Delete": "del", "Match": "match", "Raise": "raise"}
            raise SyntaxTileError(
                "TB102", f"{words.get(type(node).__name__, type(node).__name__)} is not part of the language", at=frame.loc(node),
                why="a tile program is compiled; it has loops, branches, assignments and calls", fix="do it in Python outside of the kernel",
            )  # fmt: skip
        try:
            method(node, frame)
        except TileError as error:
            if error.at is None:
                error.at = frame.loc(node)
            raise

    # -------------------------------------------------------------- simple statements

    def _Pass(self, node: ast.Pass, frame: Frame) -> None:
        return

    def _Break(self, node: ast.Break, frame: Frame) -> None:
        self._in_loop(node, frame, "break")
        self.emit(Break(), frame.loc(node))

    def _Continue(self, node: ast.Continue, frame: Frame) -> None:
        self._in_loop(node, frame, "continue")
        self.emit(Continue(), frame.loc(node))

    def _in_loop(self, node: ast.stmt, frame: Frame, word: str) -> None:
        if frame.depth == 0:
            raise SyntaxTileError("TB104", f"{word} in a loop that Python unrolls", at=frame.loc(node), fix="use T.serial for the loop")

    def _Import(self, node: ast.Import, frame: Frame) -> None:
        import importlib

        for alias in node.names:
            module = importlib.import_module(alias.name)
            frame.names[alias.asname or alias.name.split(".")[0]] = module if alias.asname else importlib.import_module(alias.name.split(".")[0])

    def _ImportFrom(self, node: ast.ImportFrom, frame: Frame) -> None:
        import importlib

        module = importlib.import_module(node.module or "")
        for alias in node.names:
            frame.names[alias.asname or alias.name] = getattr(module, alias.name)

    def _FunctionDef(self, node: ast.FunctionDef, frame: Frame) -> None:
        frame.names[node.name] = LocalFunction(node, frame)

    def _Expr(self, node: ast.Expr, frame: Frame) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring, or an ellipsis
        value = self.evaluate(node.value, frame)
        if isinstance(value, Expr) and not isinstance(value, Load | Var) and _has_effect(value):
            self.emit(Evaluate(value), frame.loc(node))
        elif isinstance(value, Annotation):
            self.annotate(value, frame.loc(node))

    def _Return(self, node: ast.Return, frame: Frame) -> None:
        if frame.depth:
            raise SyntaxTileError(
                "TB104", "return inside a run-time loop or branch", at=frame.loc(node), why="a block runs its program to the end",
                fix="put the rest under an if",
            )  # fmt: skip
        raise Returned(None if node.value is None else self._returned(node.value, frame))

    def _returned(self, node: ast.expr, frame: Frame) -> Any:
        if isinstance(node, ast.Tuple):
            return tuple(self._returned(n, frame) for n in node.elts)
        if isinstance(node, ast.Name):
            known, value = frame.find(node.id)
            if known and isinstance(value, Buffer) and value.scope != "var":
                return value
        return self.evaluate(node, frame)

    def _Assert(self, node: ast.Assert, frame: Frame) -> None:
        condition = self.evaluate(node.test, frame)
        message = str(self.evaluate(node.msg, frame)) if node.msg is not None else ast.unparse(node.test)
        if isinstance(condition, Expr):
            self.emit(Assert(to_bool(condition), message), frame.loc(node))
        elif not condition:
            raise TypeTileError("TB221", f"assertion failed: {message}", at=frame.loc(node), why="it does not hold for these parameters", fix="choose parameters for which it holds")

    # -------------------------------------------------------------- assignment

    def _Assign(self, node: ast.Assign, frame: Frame) -> None:
        value = self._assigned(node.value, frame)
        for target in node.targets:
            self.assign(target, value, frame, node)

    def _assigned(self, node: ast.expr, frame: Frame) -> Any:
        """The value of an assignment; tuples are evaluated in full before anything is assigned."""
        value = self.evaluate(node, frame)
        if isinstance(node, ast.Tuple):
            return tuple(self._hold(v, frame, node) for v in cast("tuple[Any, ...]", value)) if len(node.elts) > 1 else value
        return value

    def _hold(self, value: Any, frame: Frame, node: ast.AST) -> Any:
        """A load taken now, so that a swap reads both sides first."""
        return self._bound("held", value, frame, node) if isinstance(value, Load) else value

    def assign(self, target: ast.expr, value: Any, frame: Frame, node: ast.AST) -> None:
        """`target = value`."""
        match target:
            case ast.Name():
                self._assign_name(target.id, value, frame, node)
            case ast.Tuple() | ast.List():
                values = self._unpacked(value, len(target.elts), frame, node)
                for t, v in zip(target.elts, values, strict=True):
                    self.assign(t, v, frame, node)
            case ast.Subscript():
                self._assign_element(target, value, frame, node)
            case _:
                raise SyntaxTileError("TB102", f"assignment to {ast.unparse(target)}", at=frame.loc(target), why="only names and elements of buffers can be assigned", fix="use a buffer or a T.alloc_var")

    def _unpacked(self, value: Any, count: int, frame: Frame, node: ast.AST) -> list[Any]:
        try:
            values = list(value)
        except TypeError:
            raise TypeTileError("TB222", f"cannot unpack {type(value).__name__} into {count} names", at=frame.loc(node)) from None
        if len(values) != count:
            raise TypeTileError("TB222", f"{len(values)} values for {count} names", at=frame.loc(node), fix="use as many names as values")
        return values

    def bind_target(self, target: ast.expr, value: Any, frame: Frame) -> None:
        """Bind the variable of a comprehension or of a Python loop."""
        if isinstance(target, ast.Name):
            frame.names[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            for t, v in zip(target.elts, self._unpacked(value, len(target.elts), frame, target), strict=True):
                self.bind_target(t, v, frame)
        else:
            raise SyntaxTileError("TB102", "a loop variable is a name", at=frame.loc(target))

    def _assign_name(self, name: str, value: Any, frame: Frame, node: ast.AST) -> None:
        at = frame.loc(node)
        current = frame.names.get(name)
        if isinstance(current, Buffer) and current.scope == "var" and not isinstance(value, Buffer | VarSpec):
            self._store(current, (const(0),), value, at)
            return
        if frame.depth and name in frame.names and frame.bound_at.get(name, 0) < frame.depth and not isinstance(value, Buffer | VarSpec):
            if not (isinstance(current, Expr | int | float | bool) or current is None):
                frame.names[name] = self._named(value, name, frame, node)
                return
            raise SyntaxTileError(
                "TB106", f"{name} is changed inside a run-time loop or branch", at=at,
                why=f"{name} is a value, not a variable: it was bound outside, and the loop would not carry the new one on",
                fix=f"declare it before: {name} = T.alloc_var('{_kind(value)}', {settle(current) if isinstance(current, int | float) else 0})",
            )  # fmt: skip
        frame.names[name] = self._named(value, name, frame, node)
        frame.bound_at[name] = frame.depth
        frame.gone.pop(name, None)

    def _named(self, value: Any, name: str, frame: Frame, node: ast.AST) -> Any:
        """What a name is bound to: fresh buffers get the name, loads and calls are computed now, the rest is kept."""
        at = frame.loc(node)
        match value:
            case Buffer() if value.name == "":
                return self.declare(value, name, at)
            case VarSpec():
                buffer = self.declare(value.buffer, name, at)
                if value.init is not None:
                    self._store(buffer, (const(0),), value.init, at)
                return buffer
            case EmptySpec():
                shape = tuple(as_expr(self._extent(s, at)) for s in value.shape)
                buffer = Buffer(name, shape, value.dtype, "global", loc=at)
                self.outputs.append(buffer)
                return buffer
            case ThreadValue():
                return self._named(resolve_thread_value(self, value, at), name, frame, node)
            case list() | tuple():
                items = cast("list[Any]", value)
                if any(isinstance(v, Buffer) and v.name == "" or isinstance(v, VarSpec) for v in items):
                    return type(value)(self._named(v, f"{name}_{i}", frame, node) for i, v in enumerate(items))
                return value
            case Expr():
                return self._bound(name, value, frame, node)
            case Annotation():
                self.annotate(value, at)
                return None
            case _:
                return value

    def _bound(self, name: str, value: Any, frame: Frame, node: ast.AST) -> Any:
        """A value that depends on memory or is long gets a Bind; index arithmetic stays an expression."""
        if not isinstance(value, Expr) or isinstance(value, Var) or not _reads_or_calls(value):
            return value
        var = Var(name, dtype=value.dtype)
        self.emit(Bind(var, value), frame.loc(node))
        return var

    def declare(self, buffer: Buffer, name: str, at: Loc | None) -> Buffer:
        """Give a fresh buffer its name and list it."""
        named = dataclasses.replace(buffer, name=name, loc=at)
        self.buffers.append(named)
        return named

    def _extent(self, value: Any, at: Loc | None) -> Any:
        value = self.consts.get(value, value) if isinstance(value, ConstVar) else value
        if isinstance(value, ConstVar):
            raise TypeTileError("TB213", f"{value.name} is not known here", at=at, fix="declare an input tensor that has it as an extent first")
        return value

    def _store(self, buffer: Buffer, indices: tuple[Expr, ...], value: Any, at: Loc | None) -> None:
        e = self._scalar_value(value, at)
        self.emit(Store(buffer, indices, e.astype(buffer.dtype)), at)

    def _scalar_value(self, value: Any, at: Loc | None) -> Expr:
        if isinstance(value, ThreadValue):
            value = resolve_thread_value(self, value, at)
        if isinstance(value, Buffer | Region):
            name = value.name if isinstance(value, Buffer) else value.buffer.name
            raise TypeTileError("TB223", f"a tile ({name}) is assigned to one element", at=at, fix="index it, or use T.copy between tiles")
        try:
            return as_expr(value)
        except TileError as error:
            error.at = error.at or at
            raise

    def _assign_element(self, target: ast.Subscript, value: Any, frame: Frame, node: ast.AST) -> None:
        at = frame.loc(node)
        base = self.evaluate._base(target.value, frame)  # pyright: ignore[reportPrivateUsage]
        index = self.evaluate(target.slice, frame)
        if not isinstance(base, Buffer | Region):
            if isinstance(base, dict | list):
                base[index] = value
                return
            raise TypeTileError("TB224", f"{type(base).__name__} cannot be assigned by index", at=frame.loc(target), fix="assign to elements of buffers")
        place = self.evaluate.element_or_region(base, index, target, frame)
        if isinstance(place, Load):
            self._store(place.buffer, place.indices, value, at)
            return
        self._assign_region(place, value, at)

    def _assign_region(self, place: Region, value: Any, at: Loc | None) -> None:
        if isinstance(value, Buffer | Region):
            from tilebench.ops.copy import copy

            self.emit(copy(value, place), at)
            return
        variables = tuple(Var(f"i{d}", dtype=int32) for d in range(len(place.shape)))
        e = self._scalar_value(value, at).astype(place.dtype)
        self.emit(Parallel(variables, place.shape, Store(place.buffer, place.index(variables), e, loc=at)), at)

    def _AugAssign(self, node: ast.AugAssign, frame: Frame) -> None:
        read = ast.copy_location(_as_load(node.target), node.target)
        value = self.evaluate(ast.copy_location(ast.BinOp(cast(ast.expr, read), node.op, node.value), node), frame)
        self.assign(cast(ast.expr, node.target), value, frame, node)

    def _AnnAssign(self, node: ast.AnnAssign, frame: Frame) -> None:
        annotation = self.annotation(node.annotation, frame)
        at = frame.loc(node)
        if not isinstance(node.target, ast.Name):
            raise SyntaxTileError("TB102", "an annotation stands at a name", at=at)
        name = node.target.id
        if node.value is None:
            if isinstance(annotation, TensorType):
                self.declare_tensor(name, annotation, frame, at)
            elif isinstance(annotation, DType):
                frame.names[name] = self.declare(Buffer("", (const(1),), annotation, "var"), name, at)
            return
        value = self.evaluate(node.value, frame)
        if isinstance(annotation, DType) and not isinstance(value, Buffer | VarSpec):
            buffer = self.declare(Buffer("", (const(1),), annotation, "var"), name, at)
            self._store(buffer, (const(0),), value, at)
            frame.names[name], frame.bound_at[name] = buffer, frame.depth
            return
        self._assign_name(name, value, frame, node)

    def annotation(self, node: ast.expr, frame: Frame) -> Any:
        """An annotation's value; strings are parsed."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            inner = ast.parse(node.value, mode="eval").body
            for n in ast.walk(inner):
                ast.copy_location(n, node)
            node = inner
        value = self.evaluate(node, frame)
        return ScalarType(value.name, value.kind, value.bits, value.lanes) if isinstance(value, DType) else value

    def declare_tensor(self, name: str, kind: TensorType, frame: Frame, at: Loc | None) -> None:
        """`A: T.Tensor[[M, N], dtype]` in the body of an eager function: T.const names get their values here."""
        from tilebench.language.tensors import bind_spec

        frame.names[name] = self.parameters[name] = bind_spec(self, name, kind, at)

    # -------------------------------------------------------------- control flow

    def _If(self, node: ast.If, frame: Frame) -> None:
        condition = self.evaluate(node.test, frame)
        if not isinstance(condition, Expr):
            self.statements(node.body if condition else node.orelse, frame)
            return
        then = self.body(node.body, frame)
        orelse = self.body(node.orelse, frame) if node.orelse else None
        self.emit(If(to_bool(condition), then, orelse), frame.loc(node.test))

    def _While(self, node: ast.While, frame: Frame) -> None:
        if node.orelse:
            raise SyntaxTileError("TB102", "while ... else", at=frame.loc(node), fix="test the condition after the loop")
        condition = self.evaluate(node.test, frame)
        if not isinstance(condition, Expr):
            if not condition:
                return
            condition = const(True)
        self.emit(While(to_bool(condition), self.body(node.body, frame)), frame.loc(node.test))

    def _For(self, node: ast.For, frame: Frame) -> None:
        if node.orelse:
            raise SyntaxTileError("TB102", "for ... else", at=frame.loc(node), fix="put the else part after the loop")
        values = self.evaluate(node.iter, frame)
        if isinstance(values, LoopSpec):
            if self.launch is None and values.kind == "serial" and all(isinstance(v, int) for v in (values.start, values.stop, values.step)):
                values = range(values.start, values.stop, values.step)
            else:
                self._loop(node, values, frame)
                return
        if isinstance(values, Expr | Buffer | Region | int | float):
            raise TypeTileError("TB225", f"{ast.unparse(node.iter)} cannot be looped over", at=frame.loc(node.iter), fix="for i in T.serial(n)")
        for count, value in enumerate(values):
            if count >= MAX_UNROLLED:
                raise SyntaxTileError("TB107", f"this loop is unrolled more than {MAX_UNROLLED} times", at=frame.loc(node), why="a Python iterable is unrolled while the kernel is compiled", fix="use T.serial(n)")
            self.bind_target(node.target, value, frame)
            self.statements(node.body, frame)

    def _loop(self, node: ast.For, loop: LoopSpec, frame: Frame) -> None:
        at = frame.loc(node.iter)
        if loop.kind in ("parallel", "grid", "persistent"):
            names = self._loop_names(node.target, len(loop.extents), frame)
        else:
            names = self._loop_names(node.target, 1, frame)
        variables = tuple(Var(n, dtype=int32) for n in names)
        saved = {n: frame.names[n] for n in names if n in frame.names}
        depths = {n: frame.bound_at.get(n, 0) for n in names}
        for n, v in zip(names, variables, strict=True):
            frame.names[n], frame.bound_at[n] = v, frame.depth + 1
        if loop.kind == "persistent":
            self._persistent(node, loop, variables, frame, at)
        else:
            body = self.body(node.body, frame)
            self.emit(self._loop_statement(loop, variables, body, at), at)
        for n in names:
            frame.names.pop(n, None)
            if n in saved:
                frame.names[n], frame.bound_at[n] = saved[n], depths[n]

    def _loop_names(self, target: ast.expr, count: int, frame: Frame) -> list[str]:
        parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        if not all(isinstance(p, ast.Name) for p in parts):
            raise SyntaxTileError("TB102", "a loop variable is a name", at=frame.loc(target))
        if len(parts) != count:
            raise TypeTileError("TB222", f"the loop has {count} extents and {len(parts)} variables", at=frame.loc(target), fix="use one variable for each extent")
        return [cast(ast.Name, p).id for p in parts]

    def _loop_statement(self, loop: LoopSpec, variables: tuple[Var, ...], body: Stmt, at: Loc | None) -> Stmt:
        options = loop.options
        match loop.kind:
            case "parallel":
                extents: list[int] = []
                for e in loop.extents:
                    n = int_value(e) if isinstance(e, Expr | int) else None
                    if n is None:
                        raise TypeTileError(
                            "TB226", "an extent of T.Parallel is not known when the kernel is compiled", at=at, why="its iterations are laid out over the threads",
                            fix="loop over the tile's size and guard with if",
                        )  # fmt: skip
                    extents.append(n)
                return Parallel(variables, tuple(extents), body, options.get("coalesced_width"), options.get("layout"))
            case "grid":
                for var, extent in reversed(list(zip(variables, loop.extents, strict=True))):
                    body = For(var, const(0), self._int(extent, at), body, loc=at)
                return body
            case "pipelined":
                stages = options["num_stages"]
                if not isinstance(stages, int) or stages < 0:
                    raise TypeTileError("TB227", f"num_stages={stages}", at=at, why="it is the number of versions of each tile", fix="num_stages=2, 3 or 4; 0 for a plain loop")
                groups = options["group"]
                return Pipelined(
                    variables[0], self._int(loop.start, at), self._int(loop.stop, at), body, stages, _ints(options["order"]), _ints(options["stage"]),
                    tuple(tuple(int(i) for i in g) for g in groups) if groups else None,
                )  # fmt: skip
            case _:
                step = loop.step
                number = int_value(step) if isinstance(step, Expr | int) else None
                if number == 0:
                    raise TypeTileError("TB228", "a loop with step 0", at=at, fix="use a positive or a negative step")
                return For(variables[0], self._int(loop.start, at), self._int(loop.stop, at), body, self._int(step, at), cast(Any, loop.kind))

    def _int(self, value: Any, at: Loc | None) -> Expr:
        if isinstance(value, ConstVar):
            value = self._extent(value, at)
        e = as_expr(value)
        if e.dtype.is_float:
            raise TypeTileError("TB217", f"a loop bound is a {e.dtype}", at=at, why="bounds are whole numbers", fix="use // for division, or T.ceildiv")
        return e

    def _persistent(self, node: ast.For, loop: LoopSpec, variables: tuple[Var, ...], frame: Frame, at: Loc | None) -> None:
        """Tile number `index + wave * wave_size`, taken apart in groups of rows that share columns."""
        options = loop.options
        extents = [self._int(e, at) for e in loop.extents]
        total = extents[0]
        for e in extents[1:]:
            total = total * e
        wave, index = self._int(options["wave_size"], at), self._int(options["index"], at)
        trip = Var("wave", dtype=int32)
        flat = trip * wave + index
        coordinates: list[Expr] = []
        if len(extents) == 2:
            group = min(options["group_size"], int_value(extents[0]) or options["group_size"])
            span = extents[1] * group
            first = (flat // span) * group
            rows = binary("min", extents[0] - first, group)
            coordinates = [first + (flat % span) % rows, (flat % span) // rows]
        else:
            rest: Expr = flat
            for e in reversed(extents):
                coordinates.insert(0, rest % e)
                rest = rest // e
        self.bodies.append([])
        for var, value in zip(variables, coordinates, strict=True):
            self.emit(Bind(var, value), at)
        self.emit(self.body(node.body, frame), at)
        inner = seq(*self.bodies.pop())
        guarded = If(flat < total, inner, loc=at)
        self.emit(For(trip, const(0), (total + (wave - 1)) // wave, guarded, loc=at), at)

    def _With(self, node: ast.With, frame: Frame) -> None:
        for item in node.items:
            value = self.evaluate(item.context_expr, frame)
            at = frame.loc(item.context_expr)
            if isinstance(value, LaunchSpec):
                names = enter_launch(self, value, at)
                if item.optional_vars is not None:
                    target = item.optional_vars
                    if isinstance(target, ast.Tuple | ast.List) and len(target.elts) == len(names):
                        self.bind_target(target, names, frame)
                    elif isinstance(target, ast.Tuple | ast.List):
                        raise TypeTileError("TB222", f"the grid has {len(names)} axes and {len(target.elts)} names", at=at, fix="use one name for each axis")
                    else:
                        self.bind_target(target, names[0] if len(names) == 1 else names, frame)
            elif isinstance(value, ThreadRange):
                body = self.body(node.body, frame)
                self.emit(If(thread_range(self, value, at), body), at)
                return
            elif hasattr(value, "__enter__"):
                entered = value.__enter__()
                if item.optional_vars is not None:
                    self.bind_target(item.optional_vars, entered, frame)
                try:
                    self.statements(node.body, frame)
                finally:
                    value.__exit__(None, None, None)
                return
            elif value is not None:
                raise TypeTileError("TB229", f"{type(value).__name__} does not work with `with`", at=at, fix="with T.Kernel(...) as bx:")
        self.statements(node.body, frame)

    # -------------------------------------------------------------- calls

    def finish_call(self, value: Any, node: ast.Call, frame: Frame) -> Any:
        """What a call gave: statements are emitted, effects give their value, thread names are resolved."""
        at = frame.loc(node)
        stmt = statement_of(value)
        if stmt is not None:
            self.emit_spelling(stmt, at)
            return value.value if isinstance(value, Effect) else None
        if isinstance(value, Annotation):
            self.annotate(value, at)
            return None
        if isinstance(value, ThreadValue):
            return resolve_thread_value(self, value, at)
        return value

    def emit_spelling(self, stmt: Stmt, at: Loc) -> None:
        """Emit what a spelling made, listing the buffers that it brought along."""
        if self.launch is None:
            raise SyntaxTileError("TB108", "a tile operation outside of T.Kernel", at=at, why="only the blocks of a launch run operations", fix="put it under `with T.Kernel(...)`")
        self.emit(stmt, at)

    def annotate(self, annotation: Annotation, at: Loc | None) -> None:
        """Merge a fact into the kernel's attributes."""
        old = self.attributes.get(annotation.name)
        if isinstance(old, dict) and isinstance(annotation.value, dict):
            self.attributes[annotation.name] = {**cast("dict[Any, Any]", old), **cast("dict[Any, Any]", annotation.value)}
        else:
            self.attributes[annotation.name] = annotation.value
        self.attributes.setdefault("locs", {})[annotation.name] = at

    def inline(self, function: Any, positional: list[Any], named: Mapping[str, Any], node: ast.Call, frame: Frame) -> Any:
        """The body of a macro or local function, in place of its call."""
        at = frame.loc(node)
        if len(_chain(at)) > 64:
            raise SyntaxTileError("TB109", "macros call each other without end", at=at, why="they are inlined", fix="use a loop")
        if isinstance(function, LocalFunction):
            definition, source, outer = function.node, function.frame.source, {**function.frame.outer, **function.frame.names}
        else:
            if isinstance(function, BoundMacro):
                positional = [function.instance, *positional]
                function = function.macro
            assert isinstance(function, Macro), "macros, bound macros and local functions are inlined"
            source = source_of(function.function)
            definition, outer = node_of(function.function, source), outer_names(function.function)
        inner = Frame(source, outer, call_site=at)
        self._bind_arguments(definition, positional, dict(named), inner, node, frame)
        inner.depth = 0
        try:
            self.statements(definition.body, inner)
        except Returned as returned:
            return returned.value
        return None

    def _bind_arguments(self, definition: ast.FunctionDef, positional: list[Any], named: dict[str, Any], inner: Frame, node: ast.Call, frame: Frame) -> None:
        names = [a.arg for a in (*definition.args.posonlyargs, *definition.args.args)]
        annotations = {a.arg: a.annotation for a in (*definition.args.posonlyargs, *definition.args.args, *definition.args.kwonlyargs)}
        defaults = dict(zip(names[len(names) - len(definition.args.defaults) :], definition.args.defaults, strict=True))
        defaults |= {a.arg: d for a, d in zip(definition.args.kwonlyargs, definition.args.kw_defaults, strict=True) if d is not None}
        values: dict[str, Any] = dict(zip(names, positional, strict=False))
        if len(positional) > len(names):
            if definition.args.vararg is None:
                raise TypeTileError("TB230", f"{definition.name} takes {len(names)} arguments, got {len(positional)}", at=frame.loc(node))
            values[definition.args.vararg.arg] = tuple(positional[len(names) :])
        known = {*names, *(a.arg for a in definition.args.kwonlyargs)}
        for name, value in named.items():
            if name not in known:
                raise TypeTileError("TB230", f"{definition.name} has no parameter {name}", at=frame.loc(node), fix="its parameters are " + ", ".join(sorted(known)))
            values[name] = value
        for name in known - set(values):
            if name not in defaults:
                raise TypeTileError("TB230", f"{definition.name} needs a value for {name}", at=frame.loc(node))
            values[name] = self.evaluate(defaults[name], inner)
        for name, value in values.items():
            node_annotation = annotations.get(name)
            by_reference = node_annotation is not None and self._is_ref(node_annotation, inner)
            if by_reference:
                index = names.index(name) if name in names else -1
                if 0 <= index < len(node.args) and isinstance(node.args[index], ast.Name):
                    known_name, original = frame.find(cast(ast.Name, node.args[index]).id)
                    value = original if known_name and isinstance(original, Buffer) else value
            inner.names[name] = value if by_reference else self._bound(name, value, frame, node)

    def _is_ref(self, node: ast.expr, frame: Frame) -> bool:
        try:
            return self.evaluate(node, frame) is Ref
        except TileError:
            return False


def _chain(at: Loc | None) -> list[Loc]:
    out: list[Loc] = []
    while at is not None:
        out.append(at)
        at = at.call_site
    return out


def _as_load(target: ast.expr) -> ast.expr:
    match target:
        case ast.Name():
            return ast.copy_location(ast.Name(target.id, ast.Load()), target)
        case ast.Subscript():
            return ast.copy_location(ast.Subscript(target.value, target.slice, ast.Load()), target)
        case _:
            return target


def _kind(value: Any) -> str:
    if isinstance(value, Expr):
        return value.dtype.name
    return {bool: "bool", int: "int32"}.get(type(value), float32.name)


def _ints(values: Any) -> tuple[int, ...] | None:
    return tuple(int(v) for v in values) if values else None


def _reads_or_calls(e: Expr) -> bool:
    from tilebench.ir.expr import Call
    from tilebench.ir.rewrite import walk

    return any(isinstance(n, Load | Call) for n in walk(e))


def _has_effect(e: Expr) -> bool:
    from tilebench.ir.expr import Call
    from tilebench.ir.intrinsics import INTRINSICS
    from tilebench.ir.rewrite import walk

    return any(isinstance(n, Call) and INTRINSICS[n.name].effect for n in walk(e))


__all__ = ["AtomicRMW", "LocalFunction", "PrimFunc", "Returned", "Source", "Walker"]
