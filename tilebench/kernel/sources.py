"""The texts of a kernel, whatever it was compiled for, and TileLang's `lower`, which gives texts alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilebench.passes.stages import Lowered

if TYPE_CHECKING:
    from tilebench.ir import tile
    from tilebench.kernel.compiled import Kernel


def lowered_text(kernel: Kernel) -> str:
    """CUDA C++ of a kernel that was not compiled for a GPU, every launch one after the other.

    It is lowered for one here: an emulated kernel for the one that is emulated, others for sm_90a. Nothing is
    compiled, so no CUDA has to be installed. Raises TileError, at the statement that a GPU cannot do.
    """
    from tilebench.backends.cuda.emit import emit

    return "\n".join(emit(part.stages().stage(Lowered).program).text for part in kernel.parts)


def text_of(kernel: Kernel, level: str) -> str:
    """The text of one level. Raises KeyError with the levels that there are."""
    if level == "cuda":
        return kernel.get_kernel_source()
    from tilebench.ir.text import print_kernel

    levels = built_texts(kernel)
    if level == "tile" and level not in levels:
        return "\n".join(print_kernel(part.prim).text for part in kernel.parts)
    if level not in levels:
        raise KeyError(f"{level}: {kernel.name} for {kernel.target} has {sorted({*levels, 'cuda', 'tile'})}")
    return levels[level]


def built_texts(kernel: Kernel) -> dict[str, str]:
    """The texts that the target's build went through, by level."""
    return {code.level: code.text for code in kernel.executable.built.code}


@dataclass(frozen=True)
class Artifact:
    """What `lower` gives: the CUDA C++ of a program, its parameters in order, and the kernel it is of.

    TileLang's `host_mod`, `device_mod` and `rt_mod` are another compiler's modules: there are none here.
    """

    kernel: Kernel
    params: tuple[tile.Param, ...]
    kernel_source: str


def lower(
    func: Any,
    target: Any = "auto",
    target_host: Any = None,
    params: Any = None,
    enable_host_codegen: bool = False,
    enable_device_compile: bool = False,
    *,
    pass_configs: Mapping[Any, Any] | None = None,
    compile_flags: Sequence[str] | str | None = None,
) -> Artifact:
    """The CUDA C++ of a `@T.prim_func` for a target, without compiling it: no GPU and no CUDA are needed.

    target_host, params, enable_host_codegen and enable_device_compile are accepted for TileLang's sake.
    Raises TileError when the program is wrong, or the target cannot do it.
    """
    from tilebench.backends.cuda.emit import emit
    from tilebench.compiler import analyse
    from tilebench.kernel.compiled import Kernel
    from tilebench.kernel.decorator import with_options
    from tilebench.kernel.target import resolve
    from tilebench.language.parse import parse_prim_func

    del target_host, params, enable_host_codegen, enable_device_compile
    prim = with_options(parse_prim_func(func), None, pass_configs, compile_flags)
    kernel = Kernel(prim, resolve(target))
    if kernel.target.kind != "cuda":
        return Artifact(kernel, kernel.params, kernel.get_kernel_source())
    stages = [analyse(part.prim, kernel.target).stage(Lowered) for part in kernel.parts]
    return Artifact(kernel, kernel.params, "\n".join(emit(stage.program).text for stage in stages))


__all__ = ["Artifact", "built_texts", "lower", "lowered_text", "text_of"]
