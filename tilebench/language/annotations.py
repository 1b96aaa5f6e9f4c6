"""Facts about a kernel, and the decorators of functions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tilebench.errors import ArgumentError, TileError
from tilebench.ir.expr import as_expr
from tilebench.ir.tile import Evaluate
from tilebench.language.markers import Annotation, Macro, PrimFunc


def prim_func(
    func: Callable[..., Any] | None = None, private: bool = False, check_well_formed: bool = False
) -> Any:
    """`@T.prim_func`: the function is a tile program.

    It is parsed here, with the names around it as they are now. What is wrong with it is told when it is
    compiled, but an ArgumentError comes from here, as in TileLang.
    """
    from tilebench.language.parse import parse_prim_func

    del private, check_well_formed
    if func is None:
        return prim_func
    textual = any(isinstance(a, str) for a in getattr(func, "__annotations__", {}).values())
    program = PrimFunc(func, dict(sys._getframe(1).f_locals) if textual else None)  # pyright: ignore[reportPrivateUsage]
    try:
        parse_prim_func(program)
    except TileError as error:
        if isinstance(error, ArgumentError):
            raise
    return program


def macro(*args: Any, hygienic: bool = True) -> Any:
    """`@T.macro`: the function is inlined where it is called."""
    del hygienic
    return Macro(args[0]) if args and callable(args[0]) else Macro


def inline(func: Callable[..., Any]) -> Macro:
    """`@T.inline`: same as a macro."""
    return Macro(func)


def annotate_layout(layout_map: dict[Any, Any]) -> Annotation:
    """Layouts chosen by the user: {buffer: T.Layout | T.Fragment | make_swizzled_layout(buffer)}."""
    return Annotation("layouts", dict(layout_map))


def use_swizzle(panel_size: int = 10, order: str = "row", enable: bool = True) -> Annotation:
    """Visit the blocks in panels, so that neighbours share L2."""
    return Annotation("swizzle_panel", (int(panel_size), order) if enable else None)


def annotate_safe_value(safe_value_map: dict[Any, Any]) -> Annotation:
    """What elements outside a tensor read as: {buffer: value}."""
    return Annotation("safe_values", dict(safe_value_map))


def func_attr(attrs: dict[str, Any]) -> Annotation:
    """Accepted: attributes of a function change no value."""
    return Annotation("func_attr", dict(attrs))


def annotate_l2_hit_ratio(l2_hit_ratio_map: dict[Any, Any]) -> Annotation:
    """A hint for the L2 cache; changes no value."""
    return Annotation("l2_hit_ratio", dict(l2_hit_ratio_map))


def annotate_restrict_buffers(*buffers: Any) -> Annotation:
    """Accepted: tensors never overlap here."""
    return Annotation("restrict", buffers)


def annotate_min_blocks_per_sm(n: int) -> Annotation:
    """Blocks that should fit on an SM at once (launch bounds)."""
    return Annotation("min_blocks", int(n))


def annotate_pass_configs(configs: dict[Any, Any]) -> Annotation:
    """Pass configurations of this kernel."""
    return Annotation("pass_configs", {getattr(k, "name", str(k)): v for k, v in configs.items()})


def annotate_compile_flags(flags: Any) -> Annotation:
    """Flags for the target's compiler."""
    return Annotation("compile_flags", (flags,) if isinstance(flags, str) else tuple(flags))


def disable_warp_group_reg_alloc() -> Annotation:
    """A hint for warp-specialised kernels; changes no value."""
    return Annotation("disable_reg_alloc", True)


def no_set_max_nreg() -> Annotation:
    """A hint for warp-specialised kernels; changes no value."""
    return Annotation("disable_reg_alloc", True)


def evaluate(value: Any) -> Evaluate | None:
    """A call for its effect, as a statement; nothing to do for a spelling that is one itself."""
    return None if value is None or isinstance(value, int) else Evaluate(as_expr(value))


def assume(condition: Any) -> Annotation:
    """A condition that holds; changes no value."""
    return Annotation("assume", condition)
