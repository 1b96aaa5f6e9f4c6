"""TileLang's modules around the language: names that have no counterpart here, and what stands for them."""

from __future__ import annotations

import importlib
import re
from typing import Any

# (module, patterns of names, why, what to use instead); the first row that fits counts.
_REFUSED: tuple[tuple[str, str, str, str], ...] = (
    (
        "",
        "register_",
        "generated text is not changed behind the compiler's back",
        "tilebench.compile(f).get_kernel_source()",
    ),
    (
        "",
        "cpu metal rocm webgpu cuda",
        "targets are names, not modules",
        "target='cpu', 'cuda:sm_90a', 'emu:sm_80', 'interp'",
    ),
    (
        "",
        "backend$ instrumentation$ libinfo$ autodd$",
        "it is a part of how TileLang is made",
        "tilebench.compile(f), tilebench.doctor()",
    ),
    (
        "",
        "ir$ tvm$",
        "it is another compiler's intermediate language",
        "tilebench.ir.tile, and f.get_tir(...)",
    ),
    ("", "set_log_level", "what there is to say is an exception or a warning", "warnings.simplefilter(...)"),
    (
        "transform",
        ".*",
        "it is a pass of another compiler",
        "tilebench.compile(f).compilation.snapshots has what each pass here made",
    ),
    (
        "analysis",
        ".*",
        "it checks another compiler's trees",
        "tilebench.compile(f) checks the program, tilebench.emulate(kernel, ...) runs it with every check on",
    ),
    ("engine", ".*", "it drives another compiler", "tilebench.compile(f)"),
    (
        "jit",
        "JITFunc$ JITImpl$ ExecutionBackend$ TargetLike$ cached$ get_available_cpu_count$ prim_func$ "
        "abi$ adapter diagnostics$ env$ exceptions$ param$",
        "it is a part of how TileLang's jit works inside",
        "tilebench.jit, tilebench.compile, T.prim_func",
    ),
    (
        "profiler",
        "BaseKernelAdapter$ KernelParam$ get_tensor_supply$ is_float8_dtype$ torch_assert_close$",
        "it is a part of how TileLang's profiler works inside",
        "kernel.get_profiler(tensor_supply_type), tilebench.testing.torch_assert_close",
    ),
    (
        "layout",
        "make_tcgen05|make_volta|make_cutlass|make_.*_8x8|SwizzleMode|cute",
        "operands of tensor cores are laid out by the compiler",
        "T.Layout, T.Fragment, make_swizzled_layout",
    ),
    (
        "testing",
        "determine_target$ nvcc$ target_is_",
        "it asks for a compiler or a GPU that need not be here",
        "tilebench.doctor(), tilebench.devices()",
    ),
    (
        "utils",
        ".*",
        "it takes another compiler's trees apart",
        "buffer.shape and buffer.dtype in the program; tilebench.ir.tile outside",
    ),
    (
        "cache",
        ".*",
        "it is a part of how TileLang's cache works inside",
        "tilebench.cache, TILEBENCH_CACHE_DIR",
    ),
    (
        "env",
        ".*",
        "it says where TileLang's own files and compilers are",
        "tilebench.doctor() says what is here; TILEBENCH_CACHE_DIR, TILEBENCH_TARGET",
    ),
    (
        "carver",
        ".*",
        "its templates schedule another compiler's expressions",
        "tilebench.autotune with its own model of the cost, tilebench.whatif",
    ),
    (
        "autotuner",
        "grouped_compile",
        "candidates are compiled by processes of their own, or by an executor that you give",
        "tilebench.autotune(..., executor=...)",
    ),
    (
        "testing",
        "perf_regression",
        "it compares runs of TileLang's own checks",
        "kernel.get_profiler().do_bench()",
    ),
    (
        "language",
        "ast annotations$ atomic$ builtin$ copy_op$ customize$ eager experimental fastmath$ fill_op$ frame$ "
        "gemm_op$ kernel$ logical$ loop$ math_intrinsics$ meta$ overrides parser proxy$ reduce_op$ scan_op$ "
        "symbolics$ tile_schedule$ tir utils$ ws_schedule$",
        "it is a part of how TileLang's language is made",
        "import tilebench.language as T, which has its names",
    ),
    ("tileop", ".*", "it is a part of how TileLang lowers its ops", "T.gemm, T.GemmWarpPolicy"),
    ("contrib", ".*", "it calls a compiler by hand", "tilebench.compile(f, target='cuda:sm_90a')"),
    ("intrinsics", ".*", "instructions are chosen by the compiler", "T.gemm"),
    ("tools", ".*", "it looks into another compiler's passes", "tilebench.show(kernel, 'layout')"),
)


_INSIDES = ("backend", "cpu", "cuda", "instrumentation", "metal", "rocm", "tvm", "webgpu")
"""Modules all of whose parts are refused for one reason."""


def resolve(path: str) -> Any:
    """What `tilebench.` and this dotted path name. Raises AttributeError when it is nothing."""
    found: Any = importlib.import_module("tilebench")
    where = "tilebench"
    for part in path.split("."):
        where = f"{where}.{part}"
        try:
            found = getattr(found, part)
        except AttributeError:
            try:
                found = importlib.import_module(where)
            except ModuleNotFoundError:
                raise AttributeError(where) from None
    return found


def refusal(path: str) -> tuple[str, str] | None:
    """Why TileLang's `module.name` has no counterpart, and what to use instead; None: nothing is known."""
    first, _, inside = path.partition(".")
    for where, patterns, why, fix in _REFUSED:
        for name in (inside, path.rpartition(".")[2]) if inside else ():
            if where == first and any(re.match(p, name) for p in patterns.split()):
                return why, fix
        if not inside and where == "" and any(re.match(p, first) for p in patterns.split()):
            return why, fix
        if not inside and where == first and patterns == ".*":  # a module as a whole
            return why, fix
    return refusal(first) if inside and first in _INSIDES else None
