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
        r"access_ptr address_of make_tensor_from_addr handle_ buffer_var (ld|st)[gs]\d __ldg decl_buffer "
        "allocate",
        "there are no raw pointers: every access is checked",
        "index the buffer, or T.copy a slice of it",
    ),
    (
        "set_max_nreg inc_max_nreg dec_max_nreg annotate_(producer|consumer) annotate_ws ws_op WSID",
        "registers of warp groups are divided by the compiler",
        "leave it out",
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
        "Add$ Sub$ Mul$ Div$ Mod$ FloorDiv$ FloorMod$ Min$ Max$ EQ$ NE$ LT$ LE$ GT$ GE$ IntImm$ "
        "FloatImm$ StringImm$ SizeVar$ Ramp$ Broadcast$ Shuffle$ Call$ CallEffectKind$ BufferLoad$ "
        "ProducerLoad$ Reduce$ IterVar$ CommReducer$ PrimFunc$ Range$ JITFunc$ Let$ LetStmt$ If$ Then$ "
        "Else$ While$ Assert$ let$ boolean$ broadcast$ ramp$ var$ void$ extract_lane likely$ "
        "vector(high|low|combine)$ vscale$ get_active_lane_mask$ undef$ type_annotation$ fabs$",
        "it builds a node of another compiler's expressions, by hand",
        "write the Python: operators, if, while, assert, T.alloc_var, T.vectorized",
    ),
    (
        "axis$ bind$ block(_attr|_name_suffix_context)?$ arg$ buffer$ buffer_(decl|store)$ env_thread$ "
        "func_(name|ret)$ index_map$ init$ iter_var$ launch_thread$ meta_var$ prefetch$ reads$ "
        "writes$ realize$ sblock target$ where$ Ptr$ ret$ ignore_loop_partition$ call_kernel$ "
        "get_let_value$ has_let_value$ region$ KernelLaunchFrame$ WarpSpecializeFrame$",
        "it is part of the schedule language under TileLang, which tile programs do not need",
        "T.Kernel, T.alloc_shared, T.alloc_fragment and loops",
    ),
    (
        "anylist_ call_(cpacked|llvm|pure) llvm_ TVMBackend isnullptr$ lookup_param$ q_multiply_shift "
        "(start|end)_profile create_barriers$ thread_return$",
        "it calls the run-time library of another compiler",
        "write the computation in the language",
    ),
    (
        "ptx_ compute_(gmma|umma) get_(ldmatrix|mma|swizzle)_ make_mma_ alloc_tcgen05 "
        "increase_descriptor .*IntrinEmitter (WGMMA|TCGEN05)Descriptor",
        "instructions of the tensor cores and their operands' layouts are chosen by the compiler",
        "T.gemm(A, B, C), T.copy(A, S)",
    ),
    (
        "(add|sub|mul|fma|max|min|abs)2$ fmul$",
        "pairs of numbers are packed by the compiler where the target has such instructions",
        "the same arithmetic on elements, in T.Parallel",
    ),
    (
        "match_(any|all)_sync __ffs __fns shuffle_elect",
        "this exchange between the threads of a warp is not part of the language",
        "T.ballot(c), T.any_sync(c), T.shfl_xor(x, 1), T.get_lane_idx() == 0",
    ),
    (
        "WS[A-Z]",
        "what each warp does when is decided by the compiler",
        "T.Pipelined, or T.ws(0) for a part of the program",
    ),
    (
        "BaseTileScheduler PersistentTileScheduler meta_class",
        "classes whose methods run on the device are not part of the language",
        "for i, j in T.Persistent([m, n], blocks, bx):",
    ),
    (
        "(tvm_)?mfma ds_read_tr cooperative_tensor simdgroup_",
        "it is an instruction of another vendor's GPUs",
        "T.gemm(A, B, C), T.copy(A, S)",
    ),
    ("PartialFragment", "layouts that hold part of a tile are not supported", "T.Fragment(shape, ...)"),
    ("continue_loop$ break_loop$", "Python has the word", "continue, break or T.loop_break()"),
    ("cdiv$", "this is the name of a Python function on numbers", "T.ceildiv(a, b)"),
    ("sync_global$", "blocks do not wait for each other", "write two kernels"),
    ("Any$", "it is a name of Python's typing", "from typing import Any"),
    ("dyn$", "it is named in TileLang's pages, and not in TileLang", "n = T.dynamic('n')"),
    (
        "AnyDType$ (Boolean|BFloat16|TensorFloat32|U?Int\\d+|Float\\d+\\w*)$ get_tvm_dtype$ is_float4 "
        "is_f8f6f4 validate_gemm_ab",
        "it is a class or a question of TileLang's own element types",
        "T.float16, T.int8, T.dtype(x)",
    ),
    (
        "float4_ float6_ float8_e3m4 .*fnuz",
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
