"""The language: `import tilebench.language as T`. Spellings of tile ops live beside each op and are gathered here."""

from types import ModuleType
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
from tilebench.language.math import __dict__ as _math
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

globals().update(_SPELLINGS)
globals().update({name: _math[name] for name in ("__exp", "__exp10", "__log", "__log2", "__log10", "__sin", "__cos", "__tan")})
_OWN = ("Any", "nearest", "ModuleType", "annotations")
__all__ = [name for name, value in globals().items() if not name.startswith("_") and name not in _OWN and not isinstance(value, ModuleType)]


def __getattr__(name: str) -> Any:
    if name.startswith("__") and name.endswith("__"):
        raise AttributeError(name)
    raise AttributeError(f"module 'tilebench.language' has no attribute {name!r}{nearest(name, __all__)}")
