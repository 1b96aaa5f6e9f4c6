"""Pass configurations: which act, which are accepted for TileLang's sake with one notice."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from enum import Enum
from typing import Any


class PassConfigKey(str, Enum):  # noqa: UP042 # str() of a member is TileLang's: "PassConfigKey.X"
    """Names of pass configurations (TileLang's spellings). The ones in ACTING change what is compiled."""

    TL_ENABLE_FAST_MATH = "tl.enable_fast_math"
    TL_DISABLE_THREAD_STORAGE_SYNC = "tl.disable_thread_storage_sync"
    TL_DISABLE_SHARED_MEMORY_REUSE = "tl.disable_shared_memory_reuse"
    TL_DISABLE_SAFE_MEMORY_ACCESS = "tl.disable_safe_memory_legalize"
    TL_DISABLE_WARP_SPECIALIZED = "tl.disable_warp_specialized"
    TL_DISABLE_TMA_LOWER = "tl.disable_tma_lower"
    TL_DISABLE_WGMMA = "tl.disable_wgmma"
    TL_CONFIG_INDEX_BITWIDTH = "tl.config_index_bitwidth"
    TL_PTXAS_REGISTER_USAGE_LEVEL = "tl.ptxas_register_usage_level"
    TL_DEVICE_COMPILE_FLAGS = "tl.device_compile_flags"
    TL_ENABLE_AGGRESSIVE_SHARED_MEMORY_MERGE = "tl.enable_aggressive_shared_memory_merge"
    TL_ENABLE_ASYNC_COPY = "tl.enable_async_copy"
    TL_LAYOUT_COST_MODEL = "tl.layout_cost_model"
    TL_LAYOUT_VISUALIZATION_ENABLE = "tl.layout_visualization_enable"
    TL_LAYOUT_VISUALIZATION_FORMATS = "tl.layout_visualization_formats"
    TL_DISABLE_BUFFER_INIT_CHECK = "tl.disable_buffer_init_check"
    TL_DISABLE_DATA_RACE_CHECK = "tl.disable_data_race_check"
    TL_FORCE_LET_INLINE = "tl.force_let_inline"
    TL_AST_PRINT_ENABLE = "tl.ast_print_enable"
    TL_ENABLE_DUMP_IR = "tl.enable_dump_ir"
    TL_DUMP_IR_DIR = "tl.dump_ir_path"
    TL_PASS_PROFILE = "tl.pass_profile"
    TL_SIMPLIFY = "tl.Simplify"
    TL_DISABLE_DYNAMIC_TAIL_SPLIT = "tl.disable_dynamic_tail_split"
    TL_DISABLE_VECTORIZE_256 = "tl.disable_vectorize_256"
    TL_SIMPLIFY_TRANSITIVELY_PROVE_INEQUALITIES = "transitively_prove_inequalities"
    TL_SIMPLIFY_CONVERT_BOOLEAN_TO_AND_OF_ORS = "convert_boolean_to_and_of_ors"
    TL_SIMPLIFY_APPLY_CONSTRAINTS_TO_BOOLEAN_BRANCHES = "apply_constraints_to_boolean_branches"
    TL_SIMPLIFY_PROPAGATE_KNOWNS_TO_PROVE_CONDITIONAL = "propagate_knowns_to_prove_conditional"
    TL_SIMPLIFY_PROPAGATE_KNOWNS_TO_SIMPLIFY_EXPRESSIONS = "propagate_knowns_to_simplify_expressions"
    TL_SIMPLIFY_ENABLE_LET_INLINE = "enable_simplify_let_inline"
    TL_DISABLE_PRELOWER_SEMANTIC_CHECK = "tl.disable_prelower_semantic_check"
    TL_EMIT_LINE_DIRECTIVES = "tl.emit_line_directives"
    TL_ENABLE_REDUCER_PLAN_VERBOSE = "tl.enable_reducer_plan_verbose"
    TL_REDUCER_FORCE_BASELINE = "tl.reducer_force_baseline"
    TL_ENABLE_LOWER_LDGSTG = "tl.enable_lower_ldgstg"
    TL_ENABLE_LOWER_LDGSTG_PREDICATED = "tl.enable_lower_ldgstg_predicated"
    TL_ENABLE_VECTORIZE_PLANNER_VERBOSE = "tl.enable_vectorize_planner_verbose"
    TL_DEBUG_MERGE_SHARED_MEMORY_ALLOCATIONS = "tl.debug_merge_shared_memory_allocations"
    TL_DISABLE_SHUFFLE_ELECT = "tl.disable_shuffle_elect"
    TL_DISABLE_LOOP_UNSWITCHING = "tl.disable_loop_unswitching"
    TL_LOOP_UNSWITCHING_ALLOW_NON_TRIVIAL_ELSE = "tl.loop_unswitching_allow_non_trivial_else"
    TL_IF_STMT_BINDING_INLINE_REPLAYABLE_BINDS = "tl.if_stmt_binding_inline_replayable_binds"
    TL_STORAGE_REWRITE_DETECT_INPLACE = "tl.storage_rewrite_detect_inplace"
    TIR_ENABLE_EQUIV_TERMS_IN_CSE = "tir.enable_equiv_terms_in_cse_tir"
    TIR_DISABLE_CSE = "tirx.disable_cse_tir"
    TIR_SIMPLIFY = "tirx.Simplify"
    TIR_DISABLE_STORAGE_REWRITE = "tirx.disable_storage_rewrite"
    TIR_DISABLE_VECTORIZE = "tirx.disable_vectorize"
    TIR_USE_ASYNC_COPY = "tirx.use_async_copy"
    TIR_ENABLE_DEBUG = "tirx.enable_debug"
    TIR_MERGE_STATIC_SMEM = "tirx.merge_static_smem"
    TIR_ADD_LOWER_PASS = "tirx.add_lower_pass"
    TIR_NOALIAS = "tirx.noalias"
    CUDA_KERNELS_OUTPUT_DIR = "cuda.kernels_output_dir"
    TL_DISABLE_OUT_OF_BOUND_WARNING = "tl.disable_out_of_bound_warning"
    TL_PASS_PROFILE_THRESHOLD_MS = "tl.pass_profile_threshold_ms"


ACTING = frozenset(
    {
        PassConfigKey.TL_ENABLE_FAST_MATH,
        PassConfigKey.TL_DISABLE_THREAD_STORAGE_SYNC,
        PassConfigKey.TL_DISABLE_SHARED_MEMORY_REUSE,
        PassConfigKey.TL_DISABLE_WARP_SPECIALIZED,
        PassConfigKey.TL_DISABLE_TMA_LOWER,
        PassConfigKey.TL_DISABLE_WGMMA,
        PassConfigKey.TL_DEVICE_COMPILE_FLAGS,
    }
)
OWN = frozenset(
    {
        "TB_DISABLE_PRODUCT_OVERLAP",
        "TB_PIN_PRODUCT_WAIT",
        "TB_DISABLE_RESULT_STAGING",
        "TB_PERSISTENT",
        "TB_LONGEST_FIRST",
        "TB_BULK_REDUCE",
        "TB_BLOCKS_PER_SM",
        "TB_STAGE_IN_LOOPS",
        "TB_DISABLE_PACKED_HALVES",
        "TB_STAGES_BY_HAND",
        "TB_STORE_OPERANDS_BY_MATRIX",
        "TB_UNIFORM_WARPGROUP",
        "TB_TILES_AHEAD",
        "TB_PAIRED_TILES",
        "TB_TURNS",
        "TB_CONSUMERS_IN_TURN",
        "TB_OVERLAP_LAUNCHES",
    }
)
"""Configurations of tilebench's own: choices of the Hopper schedule (passes/handover.py, staging.py)."""
_said: set[str] = set()


def normalise(pass_configs: Mapping[Any, Any] | None) -> dict[str, Any]:
    """Keys as member names ('TL_ENABLE_FAST_MATH'); one warning a process for each key that does nothing
    here.
    """
    result: dict[str, Any] = {}
    for key, value in (pass_configs or {}).items():
        member = _member(key)
        if member not in ACTING and str(key) not in _said and str(key) not in OWN:
            _said.add(str(key))
            name = member.name if member else str(key)
            warnings.warn(f"pass config {name} has no effect in tilebench", stacklevel=3)
        result[member.name if member else str(key)] = value
    return result


def _member(key: Any) -> PassConfigKey | None:
    if isinstance(key, PassConfigKey):
        return key
    try:
        return PassConfigKey(str(key))
    except ValueError:
        return PassConfigKey.__members__.get(str(key))
