"""The language: `import tilebench.language as T`. Spellings of tile ops live beside each op and are gathered here."""

from typing import Any

from tilebench.errors import nearest
from tilebench.language.alloc import (
    FragmentBuffer, LocalBuffer, SharedBuffer, StridedTensor, Tensor, alloc_fragment, alloc_global, alloc_local, alloc_shared, alloc_var, const,
    dynamic, empty, reshape, symbolic, view,
)  # fmt: skip
from tilebench.language.alloc import Tensor as Buffer
from tilebench.language.annotations import (
    annotate_compile_flags, annotate_l2_hit_ratio, annotate_layout, annotate_min_blocks_per_sm, annotate_pass_configs, annotate_restrict_buffers,
    annotate_safe_value, assume, disable_warp_group_reg_alloc, evaluate, inline, macro, no_set_max_nreg, prim_func, use_swizzle,
)  # fmt: skip
from tilebench.language.dtypes import SPELLINGS as _SPELLINGS
from tilebench.language.dtypes import dtype
from tilebench.language.launch import (
    Kernel, WarpSpecialize, get_block_binding, get_block_bindings, get_block_extent, get_block_extents, get_lane_idx, get_thread_binding, get_thread_bindings,
    get_thread_extent, get_thread_extents, get_warp_group_idx, get_warp_idx, get_warp_idx_sync, ws,
)  # fmt: skip
from tilebench.language.layout import Fragment, Layout, make_linear_layout, make_swizzled_layout
from tilebench.language.loops import Parallel, Persistent, Pipelined, Serial, Unroll, Vectorized, grid, loop_break, parallel, serial, thread_binding, unroll, vectorized
from tilebench.language.markers import Ref
from tilebench.language.math import (
    exp, exp2, exp10, log, log2, log10, log1p, sqrt, rsqrt, sin, cos, tan, sinh, cosh, tanh, asin, acos,
    atan, asinh, acosh, atanh, erf, sigmoid, fast_rcp, floor, ceil, round, trunc, nearbyint, abs, pow,
    fmod, atan2, copysign, hypot, nextafter, ldexp, fma, max, min, clamp, isnan, isinf, isfinite, infinity,
    max_value, min_value, ceildiv, floordiv, floormod, truncdiv, truncmod, align_up, shift_left,
    shift_right, bitwise_and, bitwise_or, bitwise_xor, bitwise_not, popcount, clz, dp4a, if_then_else,
    Select, And, Or, Not, cast, Cast, reinterpret, index_to_coordinates, ieee_add, ieee_sub, ieee_mul,
    ieee_fdiv, ieee_fmaf, ieee_fsqrt, ieee_frsqrt, ieee_frcp, shfl_xor, shfl_up, shfl_down, shfl_sync,
    warp_reduce_sum, warp_reduce_max, warp_reduce_min, warp_reduce_bitand, warp_reduce_bitor, any_sync,
    all_sync, ballot, ballot_sync, activemask,
)  # fmt: skip
from tilebench.language.math import __cos, __exp, __exp10, __log, __log2, __log10, __sin, __tan  # pyright: ignore[reportUnusedImport, reportPrivateUsage]
from tilebench.ops.atomic import atomic_add, atomic_addx2, atomic_addx4, atomic_load, atomic_max, atomic_min, atomic_or, atomic_store
from tilebench.ops.copy import async_copy, copy
from tilebench.ops.debug import device_assert, print
from tilebench.ops.elementwise import clear, fill
from tilebench.ops.gemm import GemmWarpPolicy, gemm
from tilebench.ops.reduce import (
    all_of, any_of, reduce, reduce_absmax, reduce_abssum, reduce_bitand, reduce_bitor, reduce_bitxor, reduce_max, reduce_min, reduce_sum,
)  # fmt: skip
from tilebench.ops.scan import cummax, cumsum
from tilebench.ops.sync import sync_threads, sync_warp, syncthreads_and, syncthreads_count, syncthreads_or
from tilebench.ops.transpose import transpose

(
    bool, int4, int8, int16, int32, int64, uint4, uint8, uint16, uint32, uint64, float16, bfloat16,
    float32, tfloat32, float64, float8_e4m3, float8_e5m2, float, half, double, int, uint, short, long,
    float8_e4m3fn, bool_, e4m3, e5m2, bf16, f16, f32, tf32, fp16, fp32,
) = (_SPELLINGS[name] for name in (
    "bool", "int4", "int8", "int16", "int32", "int64", "uint4", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "tfloat32", "float64", "float8_e4m3", "float8_e5m2", "float", "half",
    "double", "int", "uint", "short", "long", "float8_e4m3fn", "bool_", "e4m3", "e5m2", "bf16", "f16",
    "f32", "tf32", "fp16", "fp32",
))  # fmt: skip

__all__ = [
    "And", "Buffer", "Cast", "Fragment", "FragmentBuffer", "GemmWarpPolicy", "Kernel", "Layout",
    "LocalBuffer", "Not", "Or", "Parallel", "Persistent", "Pipelined", "Ref", "Select", "Serial",
    "SharedBuffer", "StridedTensor", "Tensor", "Unroll", "Vectorized", "WarpSpecialize", "abs", "acos",
    "acosh", "activemask", "align_up", "all_of", "all_sync", "alloc_fragment", "alloc_global",
    "alloc_local", "alloc_shared", "alloc_var", "annotate_compile_flags", "annotate_l2_hit_ratio",
    "annotate_layout", "annotate_min_blocks_per_sm", "annotate_pass_configs", "annotate_restrict_buffers",
    "annotate_safe_value", "any_of", "any_sync", "asin", "asinh", "assume", "async_copy", "atan", "atan2",
    "atanh", "atomic_add", "atomic_addx2", "atomic_addx4", "atomic_load", "atomic_max", "atomic_min",
    "atomic_or", "atomic_store", "ballot", "ballot_sync", "bf16", "bfloat16", "bitwise_and", "bitwise_not",
    "bitwise_or", "bitwise_xor", "bool", "bool_", "cast", "ceil", "ceildiv", "clamp", "clear", "clz",
    "const", "copy", "copysign", "cos", "cosh", "cummax", "cumsum", "device_assert",
    "disable_warp_group_reg_alloc", "double", "dp4a", "dtype", "dynamic", "e4m3", "e5m2", "empty", "erf",
    "evaluate", "exp", "exp10", "exp2", "f16", "f32", "fast_rcp", "fill", "float", "float16", "float32",
    "float64", "float8_e4m3", "float8_e4m3fn", "float8_e5m2", "floor", "floordiv", "floormod", "fma",
    "fmod", "fp16", "fp32", "gemm", "get_block_binding", "get_block_bindings", "get_block_extent",
    "get_block_extents", "get_lane_idx", "get_thread_binding", "get_thread_bindings", "get_thread_extent",
    "get_thread_extents", "get_warp_group_idx", "get_warp_idx", "get_warp_idx_sync", "grid", "half",
    "hypot", "ieee_add", "ieee_fdiv", "ieee_fmaf", "ieee_frcp", "ieee_frsqrt", "ieee_fsqrt", "ieee_mul",
    "ieee_sub", "if_then_else", "index_to_coordinates", "infinity", "inline", "int", "int16", "int32",
    "int4", "int64", "int8", "isfinite", "isinf", "isnan", "ldexp", "log", "log10", "log1p", "log2",
    "long", "loop_break", "macro", "make_linear_layout", "make_swizzled_layout", "max", "max_value", "min",
    "min_value", "nearbyint", "nextafter", "no_set_max_nreg", "parallel", "popcount", "pow", "prim_func",
    "print", "reduce", "reduce_absmax", "reduce_abssum", "reduce_bitand", "reduce_bitor", "reduce_bitxor",
    "reduce_max", "reduce_min", "reduce_sum", "reinterpret", "reshape", "round", "rsqrt", "serial",
    "shfl_down", "shfl_sync", "shfl_up", "shfl_xor", "shift_left", "shift_right", "short", "sigmoid",
    "sin", "sinh", "sqrt", "symbolic", "sync_threads", "sync_warp", "syncthreads_and", "syncthreads_count",
    "syncthreads_or", "tan", "tanh", "tf32", "tfloat32", "thread_binding", "transpose", "trunc",
    "truncdiv", "truncmod", "uint", "uint16", "uint32", "uint4", "uint64", "uint8", "unroll",
    "use_swizzle", "vectorized", "view", "warp_reduce_bitand", "warp_reduce_bitor", "warp_reduce_max",
    "warp_reduce_min", "warp_reduce_sum", "ws",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name.startswith("__") and name.endswith("__"):
        raise AttributeError(name)
    raise AttributeError(f"module 'tilebench.language' has no attribute {name!r}{nearest(name, __all__)}")
