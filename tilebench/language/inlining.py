"""Functions that are inlined: macros, local functions, helpers that get tiles or run-time values."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import types
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from tilebench.errors import Loc, SyntaxTileError, TileError, TypeTileError
from tilebench.ir.expr import Const, Expr
from tilebench.ir.tile import Buffer, Region
from tilebench.language.markers import BoundMacro, EmptySpec, Macro, Ref, VarSpec
from tilebench.language.scope import Frame, node_of, outer_names, source_of

if TYPE_CHECKING:
    from tilebench.language.walker import Walker

DEEPEST_CHAIN = 64


@dataclasses.dataclass(frozen=True, eq=False)
class LocalFunction:
    """A `def` inside the program. Python can call it too: as a layout's function, as a key."""

    walker: Walker
    node: ast.FunctionDef
    frame: Frame
    signature: inspect.Signature

    @property
    def __name__(self) -> str:
        return self.node.name

    def __call__(self, *positional: Any, **named: Any) -> Any:
        """Inline the body here."""
        return inline(self.walker, self, list(positional), named, self.node, self.frame)


def local_function(walker: Walker, node: ast.FunctionDef, frame: Frame) -> Any:
    """The value of a `def` inside the program; its defaults are evaluated now."""
    for decorator in node.decorator_list:
        value = walker.evaluate(decorator, frame)
        if getattr(value, "__name__", "") not in ("macro", "inline"):
            raise SyntaxTileError(
                "TB102",
                f"the decorator {ast.unparse(decorator)} of a function inside the kernel",
                at=frame.loc(decorator),
                why="such a function is inlined where it is called",
                fix="leave the decorator out, or define the function outside of the kernel",
            )
    given = node.args
    plain = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(plain) - len(given.defaults)) + [
        walker.evaluate(d, frame) for d in given.defaults
    ]
    kinds = inspect.Parameter
    parameters: list[inspect.Parameter] = []
    for i, (a, d) in enumerate(zip(plain, defaults, strict=True)):
        has_default = i >= len(plain) - len(given.defaults)
        kind = kinds.POSITIONAL_ONLY if a in given.posonlyargs else kinds.POSITIONAL_OR_KEYWORD
        parameters.append(inspect.Parameter(a.arg, kind, default=d if has_default else kinds.empty))
    if given.vararg is not None:
        parameters.append(inspect.Parameter(given.vararg.arg, kinds.VAR_POSITIONAL))
    for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        parameters.append(
            inspect.Parameter(
                a.arg, kinds.KEYWORD_ONLY, default=kinds.empty if d is None else walker.evaluate(d, frame)
            )
        )
    if given.kwarg is not None:
        parameters.append(inspect.Parameter(given.kwarg.arg, kinds.VAR_KEYWORD))
    return LocalFunction(walker, node, frame, inspect.Signature(parameters))


def is_inlined(function: Any, positional: list[Any], named: Mapping[str, Any]) -> bool:
    """Whether a call is walked rather than run by Python.

    Macros and local functions always; a plain function of the user's when it gets tiles or run-time values
    and its module uses the language: its T.* calls must be seen.
    """
    if isinstance(function, Macro | BoundMacro | LocalFunction):
        return True
    plain = function.__func__ if isinstance(function, types.MethodType) else function
    if not isinstance(plain, types.FunctionType) or (plain.__module__ or "").split(".")[0] == "tilebench":
        return False
    if inspect.isgeneratorfunction(plain) or plain.__code__.co_name == "<lambda>":
        return False
    own = [function.__self__] if isinstance(function, types.MethodType) else []
    if not any(_is_run_time(v, 2) for v in (*own, *positional, *named.values())):
        return False
    if not any(_uses_language(v) for v in outer_names(plain).values()):
        return False
    try:
        node_of(plain, source_of(plain))
    except (TileError, SyntaxError, ValueError):
        return False
    return True


def _is_run_time(value: Any, depth: int) -> bool:
    if isinstance(value, Buffer | Region | VarSpec | EmptySpec) or (
        isinstance(value, Expr) and not isinstance(value, Const)
    ):
        return True
    if not depth:
        return False
    if isinstance(value, tuple | list | set | frozenset):
        return any(_is_run_time(v, depth - 1) for v in cast("list[Any]", value))
    if isinstance(value, dict):
        return any(_is_run_time(v, depth - 1) for v in cast("dict[Any, Any]", value).values())
    if isinstance(value, type | types.ModuleType | types.FunctionType) or not hasattr(value, "__dict__"):
        return False
    return any(_is_run_time(v, depth - 1) for v in list(vars(value).values()))


def _uses_language(value: Any) -> bool:
    if isinstance(value, types.ModuleType):
        return value.__name__.split(".")[0] == "tilebench"
    return isinstance(value, Macro) or str(getattr(value, "__module__", "")).split(".")[0] == "tilebench"


def inline(
    walker: Walker,
    function: Any,
    positional: list[Any],
    named: Mapping[str, Any],
    node: ast.AST,
    frame: Frame,
) -> Any:
    """The body of the function, in place of its call; `return` gives the call's value."""
    from tilebench.language.walker import Returned

    at = frame.loc(node)
    if _chain_length(at) > DEEPEST_CHAIN:
        raise SyntaxTileError(
            "TB109",
            "functions call each other without end",
            at=at,
            why="they are inlined where they are called",
            fix="use a loop",
        )
    if isinstance(function, BoundMacro):
        positional, function = [function.instance, *positional], function.macro
    if isinstance(function, types.MethodType):
        positional, function = [function.__self__, *positional], function.__func__
    if isinstance(function, LocalFunction):
        definition, signature = function.node, function.signature
        inner = Frame(function.frame.source, _Enclosing(function.frame), call_site=at)
    else:
        plain = cast("types.FunctionType", function.function if isinstance(function, Macro) else function)
        source = source_of(plain)
        definition, signature = node_of(plain, source), inspect.signature(plain, eval_str=False)
        inner = Frame(source, outer_names(plain), call_site=at)
    shares = not isinstance(function, Macro | LocalFunction)
    _bind(walker, definition, signature, positional, named, inner, node, frame, shares)
    inner.gone.update(function.frame.gone if isinstance(function, LocalFunction) else {})
    try:
        walker.statements(definition.body, inner)
    except Returned as returned:
        return returned.value
    return None


class _Enclosing(dict[str, Any]):
    """Names around a local function, looked up when they are used, as Python's closures are."""

    def __init__(self, frame: Frame) -> None:
        super().__init__()
        self.frame = frame

    def __contains__(self, name: object) -> bool:
        return name in self.frame.names or name in self.frame.outer

    def __getitem__(self, name: str) -> Any:
        return self.frame.names[name] if name in self.frame.names else self.frame.outer[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self.frame.outer, **self.frame.names})


def _bind(
    walker: Walker,
    definition: ast.FunctionDef,
    signature: inspect.Signature,
    positional: list[Any],
    named: Mapping[str, Any],
    inner: Frame,
    node: ast.AST,
    frame: Frame,
    shares: bool,
) -> None:
    at = frame.loc(node)
    try:
        given = signature.bind(*positional, **named)
    except TypeError as error:
        raise TypeTileError(
            "TB230",
            f"{definition.name}(): {error}",
            at=at,
            why=f"its parameters are {_names(signature)}",
            fix="give a value for each parameter",
        ) from None
    given.apply_defaults()
    annotations = {
        a.arg: a.annotation
        for a in (*definition.args.posonlyargs, *definition.args.args, *definition.args.kwonlyargs)
    }
    for name, value in given.arguments.items():
        annotation = annotations.get(name)
        if annotation is not None and _is_reference(walker, annotation, inner):
            inner.references.add(name)
            inner.names[name] = value
            continue
        if isinstance(value, Buffer) and value.scope == "var":
            if shares and not _assigns(definition, name):
                inner.names[name] = value  # as Python passes it: the variable, not its value so far
                continue
            value = walker.evaluate.read(value)
        inner.names[name] = walker.bound(name, value, frame, node)


def _assigns(definition: ast.FunctionDef, name: str) -> bool:
    """Whether a function gives its parameter another value."""
    return any(
        isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load)
        for n in ast.walk(definition)
    )


def _names(signature: inspect.Signature) -> str:
    return ", ".join(signature.parameters) or "none"


def _is_reference(walker: Walker, node: ast.expr, frame: Frame) -> bool:
    if isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.split("[")[0].split(".")[-1] == "Ref"
    if not isinstance(node, ast.Name | ast.Attribute):
        return False
    try:
        return walker.evaluate(node, frame) is Ref
    except TileError:
        return False


def _chain_length(at: Loc | None) -> int:
    length = 0
    while at is not None:
        length, at = length + 1, at.call_site
    return length
