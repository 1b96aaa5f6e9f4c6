"""The texts of a kernel, whatever it was compiled for, and TileLang's `lower`, which gives texts alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilebench.errors import LaunchError
from tilebench.passes.stages import Lowered

if TYPE_CHECKING:
    from tilebench.backends.cuda.emit import Emitted
    from tilebench.compiler import Compilation
    from tilebench.ir import tile
    from tilebench.kernel.compiled import Kernel


def lowered_text(kernel: Kernel) -> str:
    """CUDA C++ of a kernel that was not compiled for a GPU, every launch one after the other.

    It is lowered for one here: an emulated kernel for the one that is emulated, others for sm_90a. Nothing is
    compiled, so no CUDA has to be installed. Raises TileError, at the statement that a GPU cannot do.
    """
    return "\n".join(_named(_emitted(part.stages())) for part in kernel.parts)


def compiled_text(kernel: Kernel) -> str:
    """CUDA C++ that a kernel for a GPU was compiled from, with the program's names; text that was edited
    (kernel/override.py) as it is.
    """
    text = built_texts(kernel)["cuda"]
    emitted = [_emitted(part.compilation) for part in kernel.parts]
    return "\n".join(map(_named, emitted)) if text == "\n".join(e.text for e in emitted) else text


def _emitted(stages: Compilation) -> Emitted:
    from tilebench.backends.cuda.emit import emit

    return emit(stages.stage(Lowered).program)


def _named(emitted: Emitted) -> str:
    from tilebench.backends.cuda.named import with_names

    return with_names(emitted.text, emitted.names)


def device_text(kernel: Kernel, which: str) -> str:
    """The CUDA C++ of 'kernel' or 'both'. Raises LaunchError TB617 for what there is not."""
    if which in ("kernel", "both"):
        return kernel.get_kernel_source()
    raise LaunchError(
        "TB617",
        f"there is no {which} source of {kernel.name}",
        why="Python launches the kernel through the driver: no code is made for the host"
        if which == "host"
        else "the code of a kernel is all that is made",
        fix="use show_source(), or get_source('tile' or 'ptx') for the other texts",
    )


def export(kernel: Kernel, kernel_path: str | None, host_path: str | None) -> None:
    """See Kernel.export_sources. Raises LaunchError TB617 where no path is given, too."""
    if host_path is not None:
        device_text(kernel, "host")
    if kernel_path is None:
        raise LaunchError(
            "TB617", "export_sources was given no path", fix="name a file: export_sources('kernel.cu')"
        )
    path = Path(kernel_path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(kernel.get_kernel_source())


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
    texts = [_named(_emitted(analyse(part.prim, kernel.target))) for part in kernel.parts]
    return Artifact(kernel, kernel.params, "\n".join(texts))


__all__ = ["Artifact", "built_texts", "compiled_text", "lower", "lowered_text", "text_of"]
