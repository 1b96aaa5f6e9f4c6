"""From a function to a tile Kernel: the entry points of the front-end."""

from __future__ import annotations

import ast
import linecache
import types
from collections.abc import Callable, Mapping
from typing import Any, cast

from tilebench.errors import Loc, Source, SyntaxTileError, TileError, TypeTileError, lines_of, nearest
from tilebench.ir.dtype import DType
from tilebench.ir.expr import Var
from tilebench.ir.launches import in_order
from tilebench.ir.rewrite import variables
from tilebench.ir.tile import Buffer, Kernel, Param
from tilebench.language import assignment, control, statements
from tilebench.language.captured import captured
from tilebench.language.launching import enter_launch, refuse_foreign
from tilebench.language.markers import Address, LaunchSpec, Pointer, PrimFunc, TensorType
from tilebench.language.scope import Frame, node_of, outer_names, source_of
from tilebench.language.tensors import TensorSpec, as_buffer, bind_spec, foreseen_constants, undeclared
from tilebench.language.walker import Handler, Returned, Walker

MAX_TEXT = 1 << 20
HANDLERS: dict[type[ast.stmt], Handler] = {
    ast.Pass: statements.pass_,
    ast.Import: statements.import_,
    ast.ImportFrom: statements.import_from,
    ast.FunctionDef: statements.function_def,
    ast.Expr: statements.expression,
    ast.Return: statements.return_,
    ast.Assert: statements.assert_,
    ast.Raise: statements.raise_,
    ast.Assign: assignment.assign,
    ast.AugAssign: assignment.augmented,
    ast.AnnAssign: assignment.annotated,
    ast.Break: control.break_,
    ast.Continue: control.continue_,
    ast.If: control.if_,
    ast.While: control.while_,
    ast.For: control.for_,
    ast.With: control.with_,
}
DEEPEST = "the text is nested too deeply or too long to be parsed"


def parse_prim_func(function: Any, source: Source | None = None) -> Kernel:
    """The Kernel of a @T.prim_func, or of a plain function whose parameters are all annotated.

    A @T.prim_func is parsed where it is defined, and here again when what it reads has changed since.
    """
    if not isinstance(function, PrimFunc) or source is not None:
        return _parsed(function, source)
    reads = captured(function.function, function.scope)
    if reads not in function.parsed:
        function.parsed = {reads: _parsed(function, source)}
    return function.parsed[reads]


def parse_to_look_at(function: PrimFunc) -> Kernel:
    """The Kernel of a @T.prim_func. One that launches nothing, which cannot be compiled, is shown as what one
    thread does.
    """
    try:
        return parse_prim_func(function)
    except SyntaxTileError as error:
        if error.code not in ("TB108", "TB110"):
            raise
    reads = "shown", captured(function.function, function.scope)
    if reads not in function.parsed:
        function.parsed[reads] = _parsed(function, None, alone=True)
    return function.parsed[reads]


def _parsed(function: Any, source: Source | None, alone: bool = False) -> Kernel:
    scope = function.scope if isinstance(function, PrimFunc) else {}
    plain = function.function if isinstance(function, PrimFunc) else function
    if isinstance(plain, Kernel):
        return plain
    if not isinstance(plain, types.FunctionType):
        raise SyntaxTileError(
            "TB110",
            f"{type(function).__name__} is not a tile program",
            why="a tile program is a function with `with T.Kernel(...)` in it",
            fix="return a @T.prim_func from the factory",
        )
    source = source or source_of(plain)
    node = node_of(plain, source)
    walker = Walker(plain.__name__, HANDLERS)
    frame = Frame(source, {**scope, **outer_names(plain)})
    at = frame.loc(node)
    order: list[str] = []
    defaults = _defaults(plain)
    if _has_program(node) and not any(isinstance(n, ast.With) for n in node.body):
        required = [f"{a.arg}=..." for a in _parameters(node, frame) if a.arg not in defaults]
        raise SyntaxTileError(
            "TB110",
            f"{plain.__name__} is not a tile program but a factory of one",
            at=at,
            why="it has a @T.prim_func inside, whose text depends on the factory's parameters",
            fix=f"call it: {plain.__name__}({', '.join(required)})",
        )
    for argument in _parameters(node, frame):
        name, place = argument.arg, frame.loc(argument)
        annotation = _dtype_like(_annotation(walker, plain, argument, frame))
        match annotation:
            case TensorType():
                frame.names[name] = walker.parameters[name] = as_buffer(name, annotation, place)
                order.append(name)
            case DType():
                frame.names[name] = walker.parameters[name] = Var(name, dtype=annotation, loc=place)
                order.append(name)
            case Pointer():
                frame.names[name] = Address(name)
                order.append(name)
            case _ if name in defaults:
                frame.names[name] = defaults[name]
            case Buffer():
                frame.names[name] = walker.parameters[name] = annotation
                order.append(name)
            case _:
                raise TypeTileError(
                    "TB231",
                    f"parameter {name} has no type",
                    at=place,
                    why="a @T.prim_func's parameters are tensors and scalars of the launch",
                    fix=f"{name}: T.Tensor((M, N), 'float16'), or {name}: T.int32",
                )
    if alone:
        enter_launch(walker, LaunchSpec((1,), (1,)), at)
        walker.attributes["alone"] = True
    return _finish(walker, frame, node, order, at)


def parse_eager(
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    source: Source | None = None,
    consts: Mapping[str, int] | None = None,
) -> Kernel:
    """The Kernel of an eager function for these arguments: TensorSpecs for tensors, compile-time values else.

    consts: values of T.const names, for compiling without tensors.
    """
    plain = cast("types.FunctionType", function)
    source = source or source_of(plain)
    node = node_of(plain, source)
    walker = Walker(plain.__name__, HANDLERS)
    frame = Frame(source, outer_names(plain))
    walker.tensor_specs = {k: v for k, v in arguments.items() if isinstance(v, TensorSpec)}
    order: list[str] = []
    for argument in _parameters(node, frame):
        name, place = argument.arg, frame.loc(argument)
        value = arguments.get(name)
        annotation = _annotation(walker, plain, argument, frame) if argument.annotation is not None else None
        if isinstance(annotation, TensorType):
            frame.names[name] = walker.parameters[name] = bind_spec(walker, name, annotation, place)
            order.append(name)
        elif isinstance(annotation, Pointer) or isinstance(value, Pointer):
            frame.names[name] = Address(name)
            order.append(name)
        elif isinstance(value, TensorSpec) or name not in arguments:
            order.append(name)
            if isinstance(value, TensorSpec):
                frame.names[name] = walker.parameters[name] = undeclared(name, value, place)
        elif isinstance(annotation, DType) and isinstance(value, int | float):
            frame.names[name] = walker.parameters[name] = Var(name, dtype=annotation, loc=place)
            order.append(name)
        else:
            frame.names[name] = value
    walker.given_consts = dict(consts or {})
    walker.foreseen = foreseen_constants(node, walker.tensor_specs)
    return _finish(walker, frame, node, order, frame.loc(node), eager=True)


def _parameters(node: ast.FunctionDef, frame: Frame) -> list[ast.arg]:
    for rest in (node.args.vararg, node.args.kwarg):
        if rest is not None:
            raise TypeTileError(
                "TB231",
                f"parameter *{rest.arg} stands for any number of values",
                at=frame.loc(rest),
                why="a kernel has a fixed list of arguments",
                fix="name each parameter",
            )
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]


def _annotation(walker: Walker, function: types.FunctionType, argument: ast.arg, frame: Frame) -> Any:
    """The annotation's value: as evaluated when the function was defined, else now (strings)."""
    made = getattr(function, "__annotations__", {}).get(argument.arg)
    if made is not None and not isinstance(made, str):
        return made
    return (
        assignment.annotation_of(walker, argument.annotation, frame)
        if argument.annotation is not None
        else None
    )


def _dtype_like(value: Any) -> Any:
    """`n: int` of a @T.prim_func is an int32 of the launch."""
    if value is int or value is float or value is bool:
        from tilebench.language.dtypes import dtype

        return dtype(value)
    return value


def _defaults(function: types.FunctionType) -> dict[str, Any]:
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    values = function.__defaults__ or ()
    return {
        **dict(zip(names[len(names) - len(values) :], values, strict=True)),
        **(function.__kwdefaults__ or {}),
    }


def _finish(
    walker: Walker, frame: Frame, node: ast.FunctionDef, order: list[str], at: Loc, eager: bool = False
) -> Kernel:
    returned: Any = None
    try:
        walker.statements(node.body, frame)
    except Returned as result:
        returned = result.value
    except RecursionError:
        raise SyntaxTileError(
            "TB112",
            DEEPEST,
            at=at,
            why="the compiler walks it node by node",
            fix="split the expression over several lines or loops",
        ) from None
    if walker.launch is None:
        raise SyntaxTileError(
            "TB110",
            f"{node.name} launches nothing",
            at=at,
            why="a tile program says how many blocks and threads run it",
            fix="with T.Kernel(T.ceildiv(N, block), threads=128) as bx:",
        )
    if returned is not None and not eager:
        raise TypeTileError(
            "TB232",
            f"{node.name} returns a value, and a tile program has none",
            at=_return_of(node, at),
            why="every thread of every block runs the program: what it makes goes into its tensors",
            fix="store it in a parameter: T.copy(acc, C[...]); or leave out the return",
        )
    params = [
        Param(name, walker.parameters[name], "in", walker.parameters[name].loc)
        for name in order
        if name in walker.parameters
    ]
    outputs = _outputs(walker, returned, at) if eager else []
    params += [Param(b.name, b, "out", b.loc) for b in outputs]
    launched = (*walker.earlier, walker.launched())
    refuse_foreign(launched)
    symbols, out_idx = _symbols(params), tuple(range(len(params) - len(outputs), len(params)))
    return in_order([
        Kernel(
            walker.name, tuple(params), one.grid, one.blocks, one.threads, one.thread, one.buffers, one.body,
            symbols, out_idx, one.attributes, at if one is launched[0] else one.at,
        )
        for one in launched
    ])  # fmt: skip


def _return_of(node: ast.FunctionDef, at: Loc) -> Loc:
    """Where the first `return` with a value stands."""
    for n in ast.walk(node):
        if isinstance(n, ast.Return) and n.value is not None:
            return Loc(at.source, n.lineno, n.col_offset, n.end_lineno or 0, n.end_col_offset or 0)
    return at


def _outputs(walker: Walker, returned: Any, at: Loc) -> list[Buffer]:
    values = (
        list(cast("tuple[Any, ...]", returned))
        if isinstance(returned, tuple | list)
        else []
        if returned is None
        else [returned]
    )
    made = walker.outputs
    for value in values:
        if value not in [b for b in made if b is value]:
            raise TypeTileError(
                "TB232",
                "an eager function returns what T.empty made",
                at=at,
                why="the call allocates its outputs",
                fix="C = T.empty((M, N), dtype), then return C",
            )
    return [cast("Buffer", v) for v in values] + [b for b in made if not any(b is v for v in values)]


def _symbols(params: list[Param]) -> tuple[Var, ...]:
    """Dynamic extents in the order in which they occur, scalar parameters that size a tensor last."""
    found: dict[Var, None] = {}
    for param in params:
        if isinstance(param.value, Buffer):
            for e in (*param.value.shape, *(param.value.strides or ())):
                for v in sorted(variables(e), key=lambda v: v.id):
                    found.setdefault(v)
    own = {p.value for p in params if isinstance(p.value, Var)}
    return tuple(v for v in found if v not in own) + tuple(v for v in found if v in own)


# ------------------------------------------------------------------ cells


def parse_module(
    source: Source,
    namespace: dict[str, Any],
    change: Callable[[ast.Module], ast.Module] = lambda tree: tree,
) -> dict[str, Any]:
    """Execute a cell's text in `namespace` and return the names that it defined or changed, in order.

    change: what is executed in place of the text as it was parsed (kernel/settings.py).
    Text that Python cannot parse gives one located SyntaxTileError; so does what fails while it runs.
    """
    text = source.text
    if len(text) > MAX_TEXT:
        raise SyntaxTileError(
            "TB112",
            f"the cell has {len(text)} characters",
            why=f"at most {MAX_TEXT} are read",
            fix="move data out of the cell",
        )
    lines = [*[""] * (source.first_line - 1), *lines_of(text)]
    linecache.cache[source.name] = (len(text), None, [line + "\n" for line in lines], source.name)
    try:
        tree = ast.parse(text, source.name)
        if source.first_line > 1:
            ast.increment_lineno(tree, source.first_line - 1)
        code = compile(change(tree), source.name, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise _not_python(error, source) from None
    except (RecursionError, MemoryError):
        raise SyntaxTileError(
            "TB112",
            DEEPEST,
            at=Loc(source, source.first_line),
            why="the parser has a limit",
            fix="split the expression over several lines",
        ) from None
    except ValueError as error:
        raise SyntaxTileError(
            "TB100",
            f"this is not Python: {error}",
            at=_odd_character(source),
            why="source text holds printable characters",
            fix="remove the character",
        ) from None
    before = dict(namespace)
    namespace.setdefault("__name__", "__main__")
    namespace.setdefault("__builtins__", __builtins__)
    try:
        exec(code, namespace)
    except TileError:
        raise
    except SyntaxError as error:
        if error.filename != source.name:
            raise _runtime_error(error, source, namespace) from error
        raise _not_python(error, source) from error
    except Exception as error:
        raise _runtime_error(error, source, namespace) from error
    return {
        k: v
        for k, v in namespace.items()
        if not k.startswith("__") and (k not in before or before[k] is not v)
    }


def _not_python(error: SyntaxError, source: Source) -> SyntaxTileError:
    """A SyntaxError with its place; Python counts its columns in characters, a Loc in bytes."""
    if error.lineno is None or "\0" in source.text:
        return SyntaxTileError(
            "TB100",
            f"this is not Python: {error.msg}",
            at=_odd_character(source),
            why="source text holds printable characters",
            fix="remove the character",
        )
    # Errors of the symbol pass come after the tree was moved to its first line, those of the parser before.
    moved = (
        source.first_line - 1
        if error.text is not None and source.line(error.lineno or 1) != error.text.rstrip("\r\n")
        else 0
    )
    line = (error.lineno or 1) + moved
    text = source.line(line)
    column = len(text[: max(0, (error.offset or 1) - 1)].encode())
    end = (
        len(text[: max(0, (error.end_offset or 0) - 1)].encode())
        if error.end_lineno in (None, error.lineno)
        else column + 1
    )
    return SyntaxTileError(
        "TB100",
        f"this is not Python: {error.msg}",
        at=Loc(source, line, column, line, max(end, column + 1)),
        why="a cell is Python text",
        fix="correct the line",
    )


def _odd_character(source: Source) -> Loc:
    for number, text in enumerate(source.text.split("\n"), source.first_line):
        for column, c in enumerate(text):
            if c == "\0" or 0xD800 <= ord(c) < 0xE000:
                return Loc(source, number, len(text[:column].encode(errors="replace")))
    return Loc(source, source.first_line)


def _runtime_error(error: Exception, source: Source, namespace: Mapping[str, Any]) -> SyntaxTileError:
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == source.name:
            line = trace.tb_lineno
        trace = trace.tb_next
    hint = nearest(error.name or "", namespace) if isinstance(error, NameError) else ""
    return SyntaxTileError(
        "TB113",
        f"{type(error).__name__}: {error}{hint}",
        at=Loc(source, line or 1),
        why="Python ran the cell and stopped on this line",
        fix="correct what this line does",
    )


def _definition(function: Callable[..., Any]) -> ast.FunctionDef | None:
    try:
        return node_of(cast("types.FunctionType", function), source_of(function))
    except (TileError, SyntaxError):
        return None


def has_program(function: Callable[..., Any]) -> bool:
    """Whether the function has a @T.prim_func inside."""
    node = _definition(function)
    return node is not None and _has_program(node)


def _has_program(node: ast.FunctionDef) -> bool:
    nested = [n for n in ast.walk(node) if isinstance(n, ast.FunctionDef) and n is not node]
    return any(_names(d) & {"prim_func"} for n in nested for d in n.decorator_list)


def is_factory(function: Callable[..., Any]) -> bool:
    """Whether a function that is a kernel for sure returns its program: it has a @T.prim_func inside, or no
    launch, and returns something.
    """
    node = _definition(function)
    if node is None or _has_program(node):
        return True
    if any(
        isinstance(n, ast.AnnAssign) and n.value is None and _names(n.annotation) & _DECLARED
        for n in node.body
    ):
        return False  # it declares its tensors, so it is a program, whose launch may be in a macro
    return not is_tile_program(function) and any(
        isinstance(n, ast.Return) and n.value is not None for n in ast.walk(node)
    )


_DECLARED = {"Tensor", "StridedTensor", "Buffer"}


def _names(node: ast.expr) -> set[str]:
    return {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)} | {
        n.id for n in ast.walk(node) if isinstance(n, ast.Name)
    }


def is_tile_program(function: Callable[..., Any]) -> bool:
    """Whether the function's own body has `with T.Kernel(...)`."""
    node = _definition(function)
    if node is None:
        return False
    stack: list[ast.AST] = list(node.body)
    while stack:
        top = stack.pop()
        if isinstance(top, ast.FunctionDef | ast.Lambda):
            continue
        if isinstance(top, ast.With) and any(
            _names(i.context_expr) & {"Kernel", "ClusterKernel"} for i in top.items
        ):
            return True
        stack.extend(ast.iter_child_nodes(top))
    return False


__all__ = [
    "PrimFunc",
    "TensorSpec",
    "has_program",
    "is_factory",
    "is_tile_program",
    "parse_eager",
    "parse_module",
    "parse_prim_func",
    "source_of",
]
