"""`T.` names that the language does not have: what to write instead, or the nearest spelling."""

from __future__ import annotations

import re

from tilebench.errors import Loc, SyntaxTileError, nearest

# Patterns of names (each matched from its start), why they are refused, what to write instead.
_REFUSED: tuple[tuple[str, str, str], ...] = (
    (
        "tma_ async_tma create_tma tma$",
        "bulk copies are chosen by the compiler",
        "T.copy in a T.Pipelined loop",
    ),
    (
        "wgmma warpgroup_ wait_wgmma tcgen05 alloc_tmem deallocate_tmem mma_ ptx_mma ptx_wgmma "
        "ptx_ldmatrix gemm_sp .*blockscaled alloc_descriptor alloc_wgmma initialize_",
        "the instruction of a gemm is chosen by the compiler",
        "T.gemm(A, B, C)",
    ),
    (
        ".*mbarrier barrier_ alloc_barrier alloc_cluster_barrier cp_async_barrier ptx_cp_async "
        "ptx_commit ptx_wait fence_proxy named_barrier",
        "barriers and copies under way are placed by the compiler",
        "T.Pipelined(n, num_stages=3) around T.copy and T.gemm",
    ),
    (
        "cluster_ ClusterKernel block_rank_in_cluster clc_ copy_cluster get_cluster ptx_arrive_cluster",
        "thread-block clusters are not supported",
        "T.Kernel(...) without clusters",
    ),
    (
        "call_extern import_source CUDASourceCodeKernel call_intrin call_packed",
        "a program must run on every target, and foreign source runs on one",
        "write the function in the language, as a T.macro",
    ),
    (
        r"access_ptr address_of make_tensor_from_addr handle buffer_var (ld|st)[gs]\d __ldg decl_buffer "
        "match_buffer allocate",
        "there are no raw pointers: every access is checked",
        "index the buffer, or T.copy a slice of it",
    ),
    (
        "set_max_nreg inc_max_nreg dec_max_nreg annotate_(producer|consumer) annotate_ws ws_op WSID",
        "registers of warp groups are divided by the compiler",
        "leave it out",
    ),
    (
        "im2col c2d_im2col",
        "there is no im2col copy",
        "gather the window with T.Parallel and T.if_then_else into a shared tile, then T.gemm",
    ),
    (
        "tvm_",
        "this is a name of another compiler",
        "T.warp_reduce_sum(x), T.shfl_xor(x, 1), or T.reduce_sum over a fragment",
    ),
    (
        "sync_grid pdl_",
        "blocks do not wait for each other",
        "write two kernels",
    ),
    (
        "float4_ float6_ float8_e3m4 float8_e8m0 .*fnuz",
        "this element type is not supported",
        "T.float8_e4m3, T.float8_e5m2 or a wider type",
    ),
)


def refusal(name: str) -> tuple[str, str] | None:
    """Why a known name is refused, and what to write instead; None for any other."""
    for pattern, why, fix in _REFUSED:
        if any(re.match(p, name) for p in pattern.split()):
            return why, fix
    return None


def unknown_spelling(name: str, module: str, at: Loc | None) -> SyntaxTileError:
    """The error for `T.name`: TB121 for a known one that is refused, else TB120 with the nearest."""
    import tilebench.language as language

    refused = refusal(name)
    if refused is not None:
        why, fix = refused
        return SyntaxTileError("TB121", f"{module}.{name} is not offered", at=at, why=why, fix=fix)
    close = nearest(name, language.__all__)
    return SyntaxTileError(
        "TB120",
        f"unknown name {module}.{name}{close}",
        at=at,
        why="the language has no such name",
        fix="correct the spelling; dir(T) lists what there is",
    )
