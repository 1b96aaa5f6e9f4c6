"""What of a program can be changed, and the program with it changed: factories, and kernels made of them.

A factory's parameters are its tunables. A `@T.prim_func` that reads block sizes from the notebook's
variables is read again with other values of those. Nothing is compiled here.
"""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tilebench.errors import LaunchError, nearest
from tilebench.ir import tile
from tilebench.kernel.compiled import Kernel
from tilebench.kernel.decorator import JitFunction, jit, with_outputs
from tilebench.kernel.options import normalise
from tilebench.kernel.roles import with_roles
from tilebench.kernel.tune import TunedFunction
from tilebench.language.parse import PrimFunc, is_factory, is_tile_program, parse_prim_func

TILES = (16, 32, 64, 128, 256)
THREADS = (64, 128, 256, 384, 512)
STAGES = (1, 2, 3, 4, 5)
PANELS = (0, 4, 8, 16)
DTYPES = ("float16", "bfloat16", "float32")


@dataclass(frozen=True)
class Factory:
    """Makes a tile program from a choice of values. config: the values in force, by name; target: the
    user's.
    """

    name: str
    config: Mapping[str, Any]
    make: Callable[[Mapping[str, Any]], tile.Kernel]
    target: Any = None
    offered: Mapping[str, tuple[Any, ...]] = field(default_factory=dict[str, tuple[Any, ...]])


def factory_of(thing: Any, fixed: Mapping[str, Any]) -> Factory:
    """The Factory behind a factory function, a jit or autotuned function, a prim_func, or a kernel of one.

    fixed: values that the caller gave. Raises LaunchError TB640 for a thing with nothing to change, TB641
    for an unknown name.
    """
    if isinstance(thing, Kernel):
        origin = thing.origin
        if origin is None:
            raise _nothing(thing.name, "it was compiled from a program that is not at hand")
        made = factory_of(origin.program, {**origin.named, **fixed})
        return Factory(made.name, made.config, made.make, thing.target, made.offered)
    if isinstance(thing, TunedFunction):
        inner = factory_of(thing.function, fixed)
        return Factory(inner.name, inner.config, inner.make, inner.target, _of_configs(thing.configs))
    if isinstance(thing, PrimFunc):
        return _of_prim_func(thing, fixed)
    if inspect.isfunction(thing):
        if is_tile_program(thing) and not is_factory(thing):
            return _of_prim_func(thing, fixed)
        thing = jit(thing)
    if isinstance(thing, JitFunction) and thing.is_lazy:
        return _of_lazy(thing, fixed)
    name = getattr(thing, "__name__", type(thing).__name__)
    raise _nothing(
        name, "its shapes come from the tensors of a call" if isinstance(thing, JitFunction) else ""
    )


def _nothing(name: str, why: str) -> LaunchError:
    return LaunchError(
        "TB640",
        f"{name} has nothing to slide",
        why=why or "what-if takes a factory of a @T.prim_func, or a kernel that one made",
        fix="write def make(M, N, block_M=128, ...): with a @T.prim_func inside that it returns",
    )


def _unknown(name: str, known: Sequence[str], of: str) -> LaunchError:
    return LaunchError(
        "TB641",
        f"{of} has no parameter {name!r}{nearest(name, known)}",
        why=f"it has {', '.join(known) or 'none'}",
        fix="name parameters of the factory: whatif(make, block_M=[64, 128])",
    )


def _of_configs(configs: Any) -> dict[str, tuple[Any, ...]]:
    """The values that an autotuner's list of configurations has for each name."""
    if callable(configs):
        return {}
    found: dict[str, dict[Any, None]] = {}
    for config in configs:
        for key, value in dict(config).items():
            found.setdefault(key, {})[value] = None
    return {key: tuple(values) for key, values in found.items()}


def _of_lazy(function: JitFunction, fixed: Mapping[str, Any]) -> Factory:
    signature, own = inspect.signature(function.function), function.function.__name__
    for name in fixed:
        if name not in signature.parameters:
            raise _unknown(name, tuple(signature.parameters), own)
    config: dict[str, Any] = {}
    missing: list[str] = []
    for p in signature.parameters.values():
        if p.name in fixed:
            config[p.name] = fixed[p.name]
        elif p.default is not p.empty:
            config[p.name] = p.default
        elif p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
            missing.append(p.name)
    if missing:
        raise LaunchError(
            "TB602",
            f"{own} needs a value for {', '.join(missing)}",
            why="it is a factory: its parameters are known when the kernel is compiled",
            fix=f"give them: whatif({own}, " + ", ".join(f"{m}=..." for m in missing) + ")",
        )
    options = function.options

    def make(changed: Mapping[str, Any]) -> tile.Kernel:
        prim = with_roles(parse_prim_func(function.function(**{**config, **changed})))
        return _optioned(with_outputs(prim, options.get("out_idx")), options.get("pass_configs"))

    return Factory(own, config, make, options.get("target"))


def _of_prim_func(thing: Any, fixed: Mapping[str, Any]) -> Factory:
    """A program that reads its tunables from the variables around it."""
    plain: Any = thing.function if isinstance(thing, PrimFunc) else thing
    if not isinstance(plain, types.FunctionType):
        raise _nothing(getattr(thing, "__name__", "this program"), "")
    scope = plain.__globals__
    names = [n for n in plain.__code__.co_names if isinstance(scope.get(n), int | str | float)]
    for name in fixed:
        if name not in names:
            raise _unknown(name, names, plain.__name__)
    config = {n: scope[n] for n in names} | dict(fixed)
    signed = _signature_names(plain)

    def make(changed: Mapping[str, Any]) -> tile.Kernel:
        for name, value in changed.items():
            if name in signed and value != scope.get(name):
                raise LaunchError(
                    "TB642",
                    f"{name} is in the signature of {plain.__name__}",
                    why="the shapes of its tensors were fixed when it was defined",
                    fix=f"write a factory: def make({name}=...): with the @T.prim_func inside",
                )
        other = types.FunctionType(
            plain.__code__,
            {**scope, **config, **changed},
            plain.__name__,
            plain.__defaults__,
            plain.__closure__,
        )
        other.__annotations__ = dict(plain.__annotations__)
        other.__kwdefaults__ = plain.__kwdefaults__
        other.__dict__.update(plain.__dict__)
        return with_roles(parse_prim_func(other))

    return Factory(plain.__name__, config, make)


def _signature_names(function: types.FunctionType) -> frozenset[str]:
    """Names that stand in the annotations of a function's parameters."""
    from tilebench.language.scope import node_of, source_of

    node = node_of(function, source_of(function))
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return frozenset(
        n.id
        for a in arguments
        if a.annotation is not None
        for n in ast.walk(a.annotation)
        if isinstance(n, ast.Name)
    )


def _optioned(prim: tile.Kernel, pass_configs: Mapping[Any, Any] | None) -> tile.Kernel:
    options = normalise({**prim.configs, **(pass_configs or {})})
    return replace(prim, attributes={**prim.attributes, "pass_configs": options})


# ------------------------------------------------------------------ which values to offer


def tunables(factory: Factory, chosen: Mapping[str, Sequence[Any]]) -> dict[str, tuple[Any, ...]]:
    """Values to offer for each tunable, the one in force among them.

    chosen: the caller's lists; when there are none, what the autotuner's configurations have, else a guess
    from names and defaults: block sizes, stages, threads, panels, booleans and element types.
    """
    for name in chosen:
        if name not in factory.config:
            raise _unknown(name, tuple(factory.config), factory.name)
    wanted = {k: tuple(v) for k, v in chosen.items()} or dict(factory.offered)
    if not wanted:
        wanted = {k: g for k, v in factory.config.items() if (g := _guess(k, v))}
    if not wanted:
        known = ", ".join(factory.config)
        raise _nothing(factory.name, f"none of its parameters looks like a tunable: {known}")
    return {k: _with(v, factory.config[k]) for k, v in wanted.items()}


def _with(values: Sequence[Any], current: Any) -> tuple[Any, ...]:
    if current in values:
        return tuple(values)
    mixed = [*values, current]
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in mixed)
    return tuple(sorted(mixed)) if numbers else tuple(mixed)


def _guess(name: str, value: Any) -> tuple[Any, ...]:
    low = name.lower()
    if isinstance(value, bool):
        return (False, True) if any(w in low for w in ("stage", "swizzle", "async", "persist")) else ()
    if isinstance(value, int):
        if "stage" in low:
            return _with(STAGES, value)
        if "thread" in low:
            return _with(THREADS, value)
        if "panel" in low or "swizzle" in low:
            return _with(PANELS, value)
        if "block" in low or "tile" in low or low in ("bm", "bn", "bk"):
            near = [v for v in TILES if value / 4 <= v <= value * 2 or v == value]
            return _with(near, value)
        return ()
    return _with(DTYPES, value) if isinstance(value, str) and value in DTYPES and low == "dtype" else ()
