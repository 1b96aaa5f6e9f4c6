"""Programs in which warpgroups exchange values in each iteration."""

from __future__ import annotations

from typing import Any

import tilebench.language as T


def softmax_loop(order: list[int] | None = None, stage: list[int] | None = None) -> Any:
    """Attention in which two warpgroups share the rows of the scores and the columns of the result."""

    @T.prim_func
    def softmax_loop_kernel(
        Q: T.Tensor((64, 64), "float16"), K: T.Tensor((256, 64), "float16"), O: T.Tensor((64, 64), "float16")
    ):
        with T.Kernel(1, threads=256):
            q = T.alloc_shared((64, 64), "float16")
            k = T.alloc_shared((64, 64), "float16")
            p = T.alloc_shared((64, 64), "float16")
            s = T.alloc_fragment((64, 64), "float32")
            o = T.alloc_fragment((64, 64), "float32")
            m = T.alloc_fragment((64,), "float32")
            old = T.alloc_fragment((64,), "float32")
            T.copy(Q, q)
            T.clear(o)
            T.fill(m, -T.infinity("float32"))
            for i in T.Pipelined(4, num_stages=2, order=order, stage=stage):
                T.copy(K[i * 64, 0], k)
                T.clear(s)
                T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                T.copy(m, old)
                T.reduce_max(s, m, dim=1, clear=False)
                for r, c in T.Parallel(64, 64):
                    s[r, c] = T.exp2(s[r, c] - m[r])
                T.copy(s, p)
                for r, c in T.Parallel(64, 64):
                    o[r, c] = o[r, c] * T.exp2(old[r] - m[r])
                T.gemm(p, k, o, policy=T.GemmWarpPolicy.FullCol)
            T.copy(o, O)

    return softmax_loop_kernel
