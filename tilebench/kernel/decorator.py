"""`jit` and `compile`: from the user's function to a Kernel, on both of TileLang's surfaces.

Lazy: the decorated function returns a `@T.prim_func`; calling it with Python values gives a Kernel. Eager:
the decorated function is the tile program; calling it with tensors compiles, runs and returns the outputs.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilebench import compiler
from tilebench.config import current
from tilebench.errors import LaunchError, Loc, TileError, TypeTileError
from tilebench.ir import tile
from tilebench.ir.launches import each_launch
from tilebench.ir.tile import Buffer
from tilebench.kernel import args, recall
from tilebench.kernel.call_forms import CallForms
from tilebench.kernel.compile_flags import notice
from tilebench.kernel.compiled import Kernel, Origin
from tilebench.kernel.options import normalise
from tilebench.kernel.roles import with_roles
from tilebench.kernel.target import resolve
from tilebench.language.captured import captured, freeze


def with_outputs(kernel: tile.Kernel, out_idx: Any) -> tile.Kernel:
    """The kernel with the parameters at out_idx (an int or a list, negative from the end) allocated by the
    call.
    """
    if out_idx is None:
        return kernel
    count = len(kernel.params)
    positions: list[int] = []
    for index in [out_idx] if isinstance(out_idx, int | str) else list(out_idx):
        if (
            not isinstance(index, int)
            or not -count <= index < count
            or not isinstance(kernel.params[index].value, Buffer)
        ):
            raise TypeTileError(
                "TB220",
                f"out_idx {index!r} is not a tensor parameter of {kernel.name}",
                at=kernel.loc,
                why=f"the parameters are {', '.join(p.name for p in kernel.params)}",
                fix="out_idx=[-1] stands for the last parameter",
            )
        positions.append(index % count)
    return replace(kernel, out_idx=tuple(positions))


def compile(
    func: Any,
    out_idx: Any = None,
    execution_backend: str = "auto",
    target: Any = "auto",
    target_host: Any = None,
    verbose: bool = False,
    pass_configs: Mapping[Any, Any] | None = None,
    compile_flags: Sequence[str] | str | None = None,
) -> Kernel:
    """The Kernel of a `@T.prim_func`, of program text, or of a parsed ir.tile.Kernel.

    target: 'auto', 'interp', 'emu[:sm_XX]', 'cpu' or 'cuda[:sm_XX]'. execution_backend, target_host, verbose
    are accepted for TileLang's sake. Raises TileError when the program is wrong.
    """
    from tilebench.language.parse import parse_prim_func

    del execution_backend, target_host, verbose
    if isinstance(func, str):
        from tilebench.kernel.program import define

        func = define(func)[0]
    if isinstance(func, tile.Kernel):
        return finish(func, out_idx, target, pass_configs, compile_flags)
    kernel = recall_or(func, lambda: parse_prim_func(func), out_idx, target, pass_configs, compile_flags)
    kernel.origin = Origin(func, {})
    return kernel


def recall_or(
    program: Any,
    parse: Callable[[], tile.Kernel],
    out_idx: Any,
    target: Any,
    pass_configs: Mapping[Any, Any] | None,
    compile_flags: Any = None,
    facts: Any = None,
) -> Kernel:
    """A fresh Kernel of the program: from this process's memory (kernel/recall.py), else parsed and compiled.

    facts: what `parse` depends on beside the program.
    """
    start = time.perf_counter()
    resolved = resolve(target)
    key = recall.key_of(program, resolved, out_idx, pass_configs, compile_flags, facts)
    found = None if key is None else recall.memory().get(key)
    if found is not None:
        kernel = Kernel(found.prim, resolved, compilation=compiler.again(found.compilation))
        kernel.recalled_ms = (time.perf_counter() - start) * 1e3
        return kernel
    kernel = finish(parse(), out_idx, resolved, pass_configs, compile_flags)
    if key is not None:
        recall.memory().put(key, recall.Recalled(kernel.prim, kernel.compilation))
    return kernel


def finish(
    prim: tile.Kernel,
    out_idx: Any,
    target: Any,
    pass_configs: Mapping[Any, Any] | None,
    compile_flags: Any = None,
) -> Kernel:
    """Options joined to a parsed kernel; compiled at once, so that its errors come from here."""
    kernel = Kernel(with_options(prim, out_idx, pass_configs, compile_flags), resolve(target))
    _ = kernel.compilation
    notice(kernel)
    return kernel


def with_options(
    prim: tile.Kernel, out_idx: Any, pass_configs: Mapping[Any, Any] | None, compile_flags: Any = None
) -> tile.Kernel:
    """The parsed kernel with the options of `jit` in its attributes."""

    def optioned(part: tile.Kernel) -> tile.Kernel:
        options = normalise({**dict(current().pass_configs), **part.configs, **(pass_configs or {})})
        attributes = {**part.attributes, "pass_configs": options}
        if compile_flags:
            more = (compile_flags,) if isinstance(compile_flags, str) else tuple(compile_flags)
            annotated = part.attributes.get("compile_flags", ())
            attributes["compile_flags"] = more if annotated == more else (*annotated, *more)
        return replace(part, attributes=attributes)

    return each_launch(with_outputs(with_roles(prim), out_idx), optioned)


class JitFunction:
    """What `@jit` makes of a function. Lazy or eager is read off its source."""

    __test__ = False
    """For pytest: a kernel is no test, whatever its name."""

    def __init__(self, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        self.function = function
        self.options = dict(options)
        self.kernels: dict[Any, Kernel] = {}
        self.func = CallForms(function)
        functools.update_wrapper(self, function, updated=())

    @functools.cached_property
    def is_lazy(self) -> bool:
        """Whether the function is a factory that returns a @T.prim_func."""
        from tilebench.language.parse import is_factory

        return is_factory(self.function)

    def __call__(self, *values: Any, **named: Any) -> Any:
        """Lazy: the Kernel for these values. Eager: run on these tensors and return the outputs."""
        if self.is_lazy:
            return self._lazy(values, named)
        kernel, tensors = self._eager(values, named)
        return kernel(*tensors)

    def compile(self, *values: Any, **named: Any) -> Kernel:
        """The Kernel without running it.

        Eager functions take tensors, or the values of their T.const names.
        """
        if self.is_lazy:
            return self._lazy(values, named)
        return self._eager(values, named)[0]

    def get_tir(self, *values: Any, **named: Any) -> Any:
        """The program for these values, not compiled: the factory's @T.prim_func, or an eager function's
        tile IR. `compile` and `par_compile` take it.
        """
        if self.is_lazy:
            return self.function(*values, **named)
        return self._parsed(values, named)[1]()

    def par_compile(
        self, configs: Iterable[Any], num_workers: int | None = None, ignore_error: bool = False
    ) -> list[Kernel | None]:
        """The Kernels of several sets of arguments, each a dict (by name) or a tuple (in order).

        ignore_error: None stands for the sets whose program is wrong. num_workers is accepted: a kernel is
        compiled in milliseconds, one after the other.
        """
        del num_workers
        made: list[Kernel | None] = []
        for config in configs:
            try:
                made.append(self.compile(**config) if isinstance(config, Mapping) else self.compile(*config))
            except TileError:
                if not ignore_error:
                    raise
                made.append(None)
        return made

    def get_kernel_source(self, *values: Any, **named: Any) -> str:
        """The generated text for these arguments."""
        return self.compile(*values, **named).get_kernel_source()

    def _lazy(self, values: tuple[Any, ...], named: dict[str, Any]) -> Kernel:
        key = (
            freeze(values),
            freeze(named),
            captured(self.function),
            str(resolve(self.options.get("target"))),
        )
        if key not in self.kernels:
            from tilebench.language.parse import parse_prim_func

            prim_func = self.function(*values, **named)
            self.kernels[key] = recall_or(
                prim_func, lambda: parse_prim_func(prim_func), self.options.get("out_idx"),
                self.options.get("target"), self.options.get("pass_configs"),
                self.options.get("compile_flags"),
            )  # fmt: skip
            bound = inspect.signature(self.function).bind(*values, **named)
            self.kernels[key].origin = Origin(self, bound.arguments)
        return self.kernels[key]

    def _eager(self, values: tuple[Any, ...], named: dict[str, Any]) -> tuple[Kernel, list[Any]]:
        arguments, parse, consts, tensors = self._parsed(values, named)
        target = resolve(self.options.get("target"))
        key = (freeze(arguments), freeze(consts), captured(self.function), str(target))
        if key not in self.kernels:
            self.kernels[key] = recall_or(
                self.function, parse, None, target, self.options.get("pass_configs"),
                self.options.get("compile_flags"), (arguments, consts),
            )  # fmt: skip
        kernel = self.kernels[key]
        inputs = [
            tensors.get(p.name, arguments.get(p.name))
            for i, p in enumerate(kernel.params)
            if i not in kernel.out_idx
        ]
        return kernel, inputs

    def _parsed(
        self, values: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[dict[str, Any], Callable[[], tile.Kernel], dict[str, Any], dict[str, Any]]:
        """Arguments as the front-end takes them, a function that parses, T.const values, tensors by name."""
        from tilebench.language.markers import TensorType
        from tilebench.language.parse import TensorSpec, parse_eager
        from tilebench.language.scope import source_of

        if self.options.get("out_idx") is not None:
            code = self.function.__code__
            raise TypeTileError(
                "TB220",
                f"{self.function.__name__} has an out_idx, and is no factory of a @T.prim_func",
                at=Loc(source_of(self.function), code.co_firstlineno),
                why="it has no @T.prim_func and returns none, so it is taken for the program itself",
                fix="return a @T.prim_func; or leave out_idx out and return the output: C = T.empty(...); "
                "return C",
            )
        signature = inspect.signature(self.function)
        consts = {k: v for k, v in named.items() if k not in signature.parameters}
        try:
            bound = signature.bind(*values, **{k: v for k, v in named.items() if k in signature.parameters})
        except TypeError as error:
            if not consts and (values or named or not _all_declared(signature)):
                raise LaunchError(
                    "TB602", f"{self.function.__name__}(): {error}", fix=f"the parameters are {signature}"
                ) from None
            bound = signature.bind_partial(
                *values, **{k: v for k, v in named.items() if k in signature.parameters}
            )
        bound.apply_defaults()
        arguments: dict[str, Any] = {}
        tensors: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            if args.is_tensor(value):
                tensor = args.view(value, name)
                arguments[name] = TensorSpec(tensor.shape, tensor.strides, tensor.dtype)
                tensors[name] = value
            elif isinstance(value, TensorType):  # a tensor that is described, for compiling
                extents = tuple(s if isinstance(s, int) else None for s in value.shape)
                arguments[name] = TensorSpec(extents, (None,) * len(extents), value.dtype)
            else:
                arguments[name] = value
        parse = functools.partial(
            parse_eager, self.function, arguments, **({"consts": consts} if consts else {})
        )
        return arguments, parse, consts, tensors


def _all_declared(signature: inspect.Signature) -> bool:
    """Whether every parameter without a default is a tensor declared in full: no call has to tell more."""
    from tilebench.language.markers import TensorType

    needed = [p for p in signature.parameters.values() if p.default is inspect.Parameter.empty]
    return all(
        isinstance(p.annotation, TensorType) and all(isinstance(n, int) for n in p.annotation.shape)
        for p in needed
    )


def par_compile(
    funcs: Iterable[Any],
    out_idx: Any = None,
    execution_backend: str = "auto",
    target: Any = "auto",
    target_host: Any = None,
    verbose: bool = False,
    pass_configs: Mapping[Any, Any] | None = None,
    compile_flags: Sequence[str] | str | None = None,
    num_workers: int | None = None,
    ignore_error: bool = False,
) -> list[Kernel | None]:
    """`compile` of several programs, with the same options.

    ignore_error: None stands for the programs that are wrong.
    """
    del num_workers
    made: list[Kernel | None] = []
    for func in funcs:
        try:
            made.append(
                compile(func, out_idx, execution_backend, target, target_host, verbose, pass_configs,
                        compile_flags)
            )  # fmt: skip
        except TileError:
            if not ignore_error:
                raise
            made.append(None)
    return made


def jit(
    func: Callable[..., Any] | None = None,
    *,
    out_idx: Any = None,
    target: Any = "auto",
    target_host: Any = None,
    execution_backend: str = "auto",
    verbose: bool = False,
    pass_configs: Mapping[Any, Any] | None = None,
    debug_root_path: str | None = None,
    compile_flags: Sequence[str] | str | None = None,
) -> Any:
    """Decorator: `@jit` or `@jit(out_idx=[-1], target="cuda")`.

    See JitFunction and `compile` for the options.
    """
    del target_host, execution_backend, verbose, debug_root_path
    options = {
        "out_idx": out_idx,
        "target": target,
        "pass_configs": pass_configs,
        "compile_flags": compile_flags,
    }
    if func is not None:
        return JitFunction(func, options)

    def decorate(function: Callable[..., Any]) -> JitFunction:
        return JitFunction(function, options)

    return decorate
