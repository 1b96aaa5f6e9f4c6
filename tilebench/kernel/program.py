"""From the text of a cell to the tile program in it, and from the program and its inputs to a Kernel."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tilebench.errors import LaunchError, Source, SyntaxTileError, nearest
from tilebench.ir.tile import Buffer
from tilebench.kernel.compiled import Kernel, torch_dtype
from tilebench.kernel.decorator import JitFunction, compile, jit
from tilebench.kernel.profiler import TensorSupplyType, supply
from tilebench.kernel.recall import names_in
from tilebench.kernel.settings import overruled
from tilebench.kernel.target import device_of
from tilebench.kernel.tune import TunedFunction


def define(
    text: str,
    namespace: dict[str, Any] | None = None,
    name: str = "",
    cell: str = "",
    first_line: int = 1,
    settings: Sequence[str] = (),
) -> tuple[Any, Source]:
    """Execute a cell's text and return its tile program (the one called `name`, else the last defined) and
    its Source.

    The program is a @T.prim_func, a @jit or @autotune function, or a plain function whose body has T.Kernel.
    Names that the cell defines stay in `namespace`. first_line: the number of the text's first line (2 under
    a `%%tile` line, so that numbers are those of the notebook's editor). Raises SyntaxTileError TB110 when
    there is no tile program.
    """
    import tilebench
    import tilebench.language as language
    from tilebench.language.parse import parse_module

    scope = {} if namespace is None else namespace
    scope.setdefault("T", language)
    scope.setdefault("tilebench", tilebench)
    source = Source(
        cell or f"<tile-cell-{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:6]}>",
        text,
        first_line,
    )
    defined = parse_module(source, scope, lambda tree: overruled(tree, settings))
    programs = {n: p for n, v in defined.items() if (p := as_program(v, scope)) is not None}
    if name and programs and name not in programs:
        raise SyntaxTileError(
            "TB110",
            f"no tile program here is called {name}{nearest(name, programs)}",
            why=f"there {'is' if len(programs) == 1 else 'are'} {', '.join(programs)}",
            fix="name one of them; without a name the last is taken (--as NAME binds the kernel to a name)",
        )
    program = programs.get(name, next(reversed(programs.values()), None))
    if program is None:
        raise SyntaxTileError(
            "TB110",
            "this cell has no tile program",
            why="a tile program is a function with `with T.Kernel(...)` in it",
            fix="define one: @T.prim_func def f(A: T.Tensor((M, N), 'float16'), ...): with T.Kernel(...) "
            "as bx: ...",
        )
    return program, source


def as_program(value: Any, scope: Mapping[str, Any]) -> Any:
    """`value` when it is something that becomes a kernel (a plain function is wrapped), else None.

    A plain function is one when it has a program inside, or is a factory that calls one of `scope`: not when
    it just returns something, as a reference does.
    """
    from tilebench.language.parse import PrimFunc, has_program, is_factory, is_tile_program

    if isinstance(value, JitFunction | TunedFunction | PrimFunc):
        return value
    if inspect.isfunction(value):
        called = (scope.get(n) for n in names_in(value.__code__))
        if has_program(value) or (is_factory(value) and any(_makes_program(f) for f in called)):
            return jit(value)
        if is_tile_program(value):
            return value if _annotated(value) else jit(value)
    return None


def _makes_program(value: Any) -> bool:
    from tilebench.language.parse import PrimFunc, has_program

    return isinstance(value, JitFunction | TunedFunction | PrimFunc) or (
        inspect.isfunction(value) and has_program(value)
    )


def _annotated(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return bool(parameters) and all(p.annotation is not inspect.Parameter.empty for p in parameters)


@dataclass(frozen=True)
class Prepared:
    """A kernel and a value for each of its parameters, ready to run."""

    kernel: Kernel
    values: tuple[Any, ...]


def prepare(
    program: Any, values: Sequence[Any] | None, settings: Mapping[str, Any], target: Any = None,
    seed: int = 0,
    pass_configs: Mapping[Any, Any] | None = None,
) -> Prepared:  # fmt: skip
    """Compile the program for these inputs. values None: inputs are made from the shapes in the program.

    settings: `--set` values, given to the parameters of a factory or of an eager function.
    """
    if isinstance(program, JitFunction | TunedFunction):
        kernel, inputs = _jitted(program, values, settings, target)
    else:
        kernel, inputs = compile(program, target=target, pass_configs=pass_configs), values
    kernel.config = {**dict(kernel.config), **settings}
    full = make_inputs(kernel, seed) if inputs is None else complete(kernel, inputs)
    return Prepared(kernel, tuple(full))


def _jitted(
    program: Any, values: Sequence[Any] | None, settings: Mapping[str, Any], target: Any
) -> tuple[Kernel, Any]:
    inner = program.function if isinstance(program, TunedFunction) else program
    if target not in (None, "auto"):
        inner.options["target"] = target
    signature = inspect.signature(inner.function)
    named = {k: v for k, v in settings.items() if k in signature.parameters}
    if inner.is_lazy:
        missing = [
            p.name
            for p in signature.parameters.values()
            if p.default is p.empty and p.name not in named and p.kind is p.POSITIONAL_OR_KEYWORD
        ]
        if missing and not isinstance(program, TunedFunction):
            raise LaunchError(
                "TB602",
                f"{inner.__name__} needs a value for {', '.join(missing)}",
                why="it is a factory: its parameters are known when the kernel is compiled",
                fix="give them: --set "
                + " ".join(f"{m}=..." for m in missing)
                + ", or give the parameters defaults",
            )
        return program.compile(**named), values
    consts = {k: v for k, v in settings.items() if k not in signature.parameters}
    if values is None and consts:
        return program.compile(**named, **consts), None
    if values is None:
        raise LaunchError(
            "TB602",
            f"{inner.__name__} needs its tensors",
            why="the shapes of an eager program come from the tensors it is called with",
            fix="give them: --args 'A, B', with A and B tensors of this notebook; or the sizes: --set M=64",
        )
    return program.compile(*values, **named), [v for v in values if hasattr(v, "shape")]


def complete(kernel: Kernel, inputs: Sequence[Any]) -> list[Any]:
    """A value for every parameter: inputs may leave out the parameters that the kernel only writes."""
    params = kernel.params
    if len(inputs) == len(params) or kernel.out_idx:
        return kernel.complete(inputs)
    written = tuple(i for i, p in enumerate(params) if p.role == "out")
    if len(inputs) == len(params) - len(written):
        kernel.return_outputs(written)
    return kernel.complete(inputs)


def make_inputs(kernel: Kernel, seed: int) -> list[Any]:
    """Random normal tensors (small integers for integer types) for every parameter, outputs included."""
    import torch

    random = cast("Any", torch.random)  # its functions are not annotated
    with random.fork_rng(devices=[]):
        random.manual_seed(seed)
        full: list[Any] = []
        for param in kernel.params:
            if not isinstance(param.value, Buffer):
                raise LaunchError(
                    "TB602", f"no value for {param.name}", at=param.loc, fix="give all inputs with --args"
                )
            try:
                shape = param.value.static_shape
            except AssertionError:
                raise LaunchError(
                    "TB604",
                    f"{param.name} has a dynamic shape, so no input can be made up",
                    at=param.loc,
                    fix="give the tensors with --args",
                ) from None
            dtype, device = torch_dtype(param.value.dtype.name), device_of(kernel.target)
            full.append(supply(shape, dtype, device, TensorSupplyType.Randn))
        return full
