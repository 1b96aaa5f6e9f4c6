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
    annotate_safe_value, assume, disable_warp_group_reg_alloc, inline, macro, no_set_max_nreg, prim_func, use_swizzle,
)  # fmt: skip
from tilebench.language.dtypes import SPELLINGS as _SPELLINGS
from tilebench.language.dtypes import dtype
from tilebench.language.launch import (
    Kernel, WarpSpecialize, get_block_binding, get_block_bindings, get_block_extent, get_lane_idx, get_thread_binding, get_thread_bindings,
    get_thread_extent, get_warp_group_idx, get_warp_idx, get_warp_idx_sync, ws,
)  # fmt: skip
from tilebench.language.layout import Fragment, Layout, make_linear_layout, make_swizzled_layout
from tilebench.language.loops import Parallel, Persistent, Pipelined, Serial, Unroll, Vectorized, grid, parallel, serial, unroll, vectorized
from tilebench.language.markers import Ref
from tilebench.language.math import *  # noqa: F403
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

globals().update({name: value for name, value in _SPELLINGS.items() if name not in globals()})
globals().update({name: _math[name] for name in ("__exp", "__exp10", "__log", "__log2", "__log10", "__sin", "__cos", "__tan")})


def __getattr__(name: str) -> Any:
    if name.startswith("__") and name.endswith("__"):
        raise AttributeError(name)
    raise AttributeError(f"module 'tilebench.language' has no attribute {name!r}{nearest(name, globals())}")


__all__ = [name for name in globals() if not name.startswith("_") and name not in ("Any", "nearest")]
