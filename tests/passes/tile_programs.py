"""Programs as TileLang's examples write them, each for layouts, loops or memory that the others lack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tilebench.language as T

PROGRAMS: dict[str, Callable[[], Any]] = {}


def program(make: Callable[[], Any]) -> Callable[[], Any]:
    PROGRAMS[make.__name__] = make
    return make


@program
def quickstart() -> Any:
    @T.prim_func
    def main(
        A: T.Tensor((128, 96), "float16"),
        B: T.Tensor((96, 128), "float16"),
        C: T.Tensor((128, 128), "float16"),
    ):
        with T.Kernel(T.ceildiv(128, 64), T.ceildiv(128, 64), threads=128) as (bx, by):
            A_s = T.alloc_shared((64, 32), "float16")
            B_s = T.alloc_shared((32, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.use_swizzle(panel_size=10, enable=True)
            T.clear(C_l)
            for ko in T.Pipelined(T.ceildiv(96, 32), num_stages=3):
                T.copy(A[by * 64, ko * 32], A_s)
                for k, j in T.Parallel(32, 64):
                    B_s[k, j] = B[ko * 32 + k, bx * 64 + j]
                T.gemm(A_s, B_s, C_l)
            for i, j in T.Parallel(64, 64):
                C_l[i, j] = T.max(C_l[i, j], 0)
            T.copy(C_l, C[by * 64, bx * 64])

    return main


@program
def splitk() -> Any:
    @T.prim_func
    def main(
        A: T.Tensor((64, 256), "float16"), B: T.Tensor((256, 64), "float16"), C: T.Tensor((64, 64), "float32")
    ):
        with T.Kernel(1, 1, 4, threads=128) as (bx, by, bz):
            A_s = T.alloc_shared((64, 32), "float16")
            B_s = T.alloc_shared((32, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            C_s = T.alloc_shared((64, 64), "float32")
            T.clear(C_l)
            for ko in T.Pipelined(2, num_stages=0):
                T.copy(A[by * 64, bz * 64 + ko * 32], A_s)
                T.copy(B[bz * 64 + ko * 32, bx * 64], B_s)
                T.gemm(A_s, B_s, C_l)
            T.copy(C_l, C_s)
            for i, j in T.Parallel(64, 64):
                T.atomic_add(C[by * 64 + i, bx * 64 + j], C_s[i, j])

    return main


@program
def splitk_tile() -> Any:
    @T.prim_func
    def main(
        A: T.Tensor((64, 256), "float16"), B: T.Tensor((256, 64), "float16"), C: T.Tensor((64, 64), "float32")
    ):
        with T.Kernel(1, 1, 4, threads=128) as (bx, by, bz):
            A_s = T.alloc_shared((64, 64), "float16")
            B_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.clear(C_l)
            T.copy(A[by * 64, bz * 64], A_s)
            T.copy(B[bz * 64, bx * 64], B_s)
            T.gemm(A_s, B_s, C_l)
            T.atomic_add(C[by * 64, bx * 64], C_l)

    return main


@program
def per_token_cast() -> Any:
    @T.prim_func
    def main(
        X: T.Tensor((24, 256), "float32"),
        S: T.Tensor((24, 2), "float32"),
        Y: T.Tensor((24, 256), "float8_e4m3"),
    ):
        with T.Kernel(3, 2, threads=128) as (row, rg):
            y = T.alloc_fragment((8, 128), "float32")
            am = T.alloc_fragment((8,), "float32")
            s = T.alloc_fragment((8,), "float32")
            q = T.alloc_fragment((8, 128), "float32")
            q8 = T.alloc_fragment((8, 128), "float8_e4m3")
            T.annotate_layout({y: T.Fragment(y.shape, forward_thread_fn=lambda i, j: (i // 2) * 32 + j % 32)})
            T.copy(X[row * 8 : (row + 1) * 8, rg * 128 : (rg + 1) * 128], y)
            T.reduce_absmax(y, am, dim=1)
            for i in T.Parallel(8):
                am[i] = T.max(am[i], 1e-4)
                s[i] = am[i] / 448.0
            for i, j in T.Parallel(8, 128):
                q[i, j] = T.clamp(y[i, j] / s[i], -448.0, 448.0)
            T.copy(q, q8)
            for i in T.Parallel(8):
                S[row * 8 + i, rg] = s[i]
            T.copy(q8, Y[row * 8 : (row + 1) * 8, rg * 128 : (rg + 1) * 128])

    return main


@program
def topk() -> Any:
    @T.prim_func
    def main(
        L: T.Tensor((64, 32), "float32"), I: T.Tensor((64, 4), "int32"), V: T.Tensor((64, 4), "float32")
    ):
        with T.Kernel(1, threads=128) as bx:
            lf = T.alloc_fragment((64, 32), "float32")
            mx = T.alloc_fragment((64,), "float32")
            ei = T.alloc_fragment((64, 32), "int32")
            mi = T.alloc_fragment((64,), "int32")
            T.copy(L[bx * 64, 0], lf)
            for k in T.serial(4):
                T.fill(ei, -1)
                T.reduce_max(lf, mx, dim=1, clear=True)
                for i, j in T.Parallel(64, 32):
                    ei[i, j] = T.if_then_else(mx[i] == lf[i, j], j, ei[i, j])
                T.reduce_max(ei, mi, dim=1, clear=True)
                for i, j in T.Parallel(64, 32):
                    lf[i, j] = T.if_then_else(j == mi[i], -10000.0, lf[i, j])
                for i in T.Parallel(64):
                    V[bx * 64 + i, k] = mx[i]
                    I[bx * 64 + i, k] = mi[i]

    return main


@program
def linear_attention() -> Any:
    @T.prim_func
    def main(
        Q: T.Tensor((1, 128, 2, 64), "float16"),
        Kt: T.Tensor((1, 128, 2, 64), "float16"),
        V: T.Tensor((1, 128, 2, 64), "float16"),
        O: T.Tensor((1, 128, 2, 64), "float32"),
    ):
        with T.Kernel(1, 2, 2, threads=128) as (iv, ik, ibh):
            ib = ibh // 2
            ih = ibh % 2
            q = T.alloc_shared([64, 32], "float16")
            k = T.alloc_shared([64, 32], "float16")
            v = T.alloc_shared([64, 64], "float16")
            s = T.alloc_fragment([64, 64], "float32")
            ss = T.alloc_shared([64, 64], "float16")
            h = T.alloc_fragment([32, 64], "float32")
            hs = T.alloc_shared([32, 64], "float16")
            o = T.alloc_fragment([64, 64], "float32")
            os = T.alloc_shared([64, 64], "float32")
            T.clear(h)
            for i in T.Pipelined(2, num_stages=2):
                for r, c in T.Parallel(64, 32):
                    q[r, c] = Q[ib, i * 64 + r, ih, ik * 32 + c] * 0.5
                T.copy(Kt[ib, i * 64 : (i + 1) * 64, ih, ik * 32 : (ik + 1) * 32], k)
                T.copy(V[ib, i * 64 : (i + 1) * 64, ih, iv * 64 : (iv + 1) * 64], v)
                T.gemm(q, k, s, clear_accum=True, transpose_B=True)
                for r, c in T.Parallel(64, 64):
                    ss[r, c] = T.if_then_else(r >= c, s[r, c], 0)
                T.gemm(ss, v, o, clear_accum=True)
                T.copy(h, hs)
                T.gemm(k, v, h, transpose_A=True)
                T.gemm(q, hs, o)
                T.copy(o, os)
                T.atomic_add(O[ib, i * 64 : (i + 1) * 64, ih, iv * 64 : (iv + 1) * 64], os)

    return main


@program
def gemv() -> Any:
    @T.prim_func
    def main(A: T.Tensor((64,), "float16"), B: T.Tensor((8, 64), "float16"), C: T.Tensor((8,), "float32")):
        with T.Kernel(2, threads=(8, 4)) as bn:
            tk = T.get_thread_binding(0)
            tn = T.get_thread_binding(1)
            Al = T.alloc_local((8,), "float16")
            Bl = T.alloc_local((8,), "float16")
            acc = T.alloc_local((1,), "float32")
            S = T.alloc_shared((4, 8), "float32")
            T.clear(acc)
            for bk in T.serial(1):
                for k in T.vectorized(8):
                    Al[k] = A[bk * 64 + tk * 8 + k]
                    Bl[k] = B[bn * 4 + tn, bk * 64 + tk * 8 + k]
                for k in T.serial(8):
                    acc[0] += Al[k].astype("float32") * Bl[k].astype("float32")
            S[tn, tk] = acc[0]
            T.sync_threads()
            if tk == 0:
                acc[0] = 0
                for k in T.serial(8):
                    acc[0] += S[tn, k]
                C[bn * 4 + tn] = acc[0]

    return main


@program
def elementwise_dyn() -> Any:
    M = T.dynamic("M")
    N = T.dynamic("N")

    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((M, N), "float32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, 32), T.ceildiv(M, 32), threads=128) as (bx, by):
            As = T.alloc_shared((32, 32), "float32")
            Bs = T.alloc_shared((32, 32), "float32")
            Cl = T.alloc_fragment((32, 32), "float32")
            Cs = T.alloc_shared((32, 32), "float32")
            T.copy(A[by * 32, bx * 32], As)
            T.copy(B[by * 32, bx * 32], Bs)
            for i, j in T.Parallel(32, 32):
                Cl[i, j] = As[i, j] + Bs[i, j]
            T.copy(Cl, Cs)
            T.copy(Cs, C[by * 32, bx * 32])

    return main


@program
def rope() -> Any:
    @T.prim_func
    def main(
        X: T.Tensor((32, 128), "float16"),
        Cs: T.Tensor((32, 64), "float32"),
        Y: T.Tensor((32, 128), "float16"),
    ):
        with T.Kernel(2, threads=64) as b:
            x = T.alloc_fragment((16, 128), "float16")
            y = T.alloc_fragment((16, 128), "float16")
            c = T.alloc_fragment((16, 64), "float32")
            T.copy(X[b * 16, 0], x)
            T.copy(Cs[b * 16, 0], c)
            for i, j in T.Parallel(16, 64):
                y[i, j] = x[i, j] * c[i, j] - x[i, j + 64]
                y[i, j + 64] = x[i, j + 64] * c[i, j] + x[i, j]
            T.copy(y, Y[b * 16, 0])

    return main


@program
def cumsum_kernel() -> Any:
    @T.prim_func
    def main(A: T.Tensor((64, 100), "float32"), B: T.Tensor((64, 100), "float32")):
        with T.Kernel(2, threads=128) as b:
            s = T.alloc_shared((32, 100), "float32")
            f = T.alloc_fragment((32, 100), "float32")
            T.copy(A[b * 32, 0], s)
            T.cumsum(s, dim=1)
            T.copy(s, f)
            T.cumsum(f, dim=0, reverse=True)
            T.copy(f, B[b * 32, 0])

    return main


@program
def conv() -> Any:
    N, C, H, W, F, KK, S, D, P = 1, 16, 8, 8, 32, 3, 1, 1, 1
    OH = OW = 8

    @T.prim_func
    def main(
        data: T.Tensor((N, H, W, C), "float16"),
        kernel: T.Tensor((KK, KK, C, F), "float16"),
        out: T.Tensor((N, OH, OW, F), "float16"),
    ):
        with T.Kernel(1, T.ceildiv(N * OH * OW, 64), threads=128) as (_, by):
            ds = T.alloc_shared((64, 16), "float16")
            ks = T.alloc_shared((16, 32), "float16")
            ol = T.alloc_fragment((64, 32), "float32")
            os = T.alloc_shared((64, 32), "float16")
            T.clear(ol)
            for k in T.Pipelined(KK * KK * C // 16, num_stages=2):
                for i, j in T.Parallel(64, 16):
                    kk = k * 16 + j
                    m = by * 64 + i
                    ah = m % (OH * OW) // OW * S + kk // (KK * C) * D - P
                    aw = m % OW * S + kk // C % KK * D - P
                    ib = (ah >= 0) and (aw >= 0) and (ah < H) and (aw < W)
                    ds[i, j] = T.if_then_else(ib, data[m // (OH * OW), ah, aw, kk % C], 0)
                for i, j in T.Parallel(16, 32):
                    kk2 = k * 16 + i
                    ks[i, j] = kernel[kk2 // (KK * C), kk2 // C % KK, kk2 % C, j]
                T.gemm(ds, ks, ol)
            T.copy(ol, os)
            for i, j in T.Parallel(64, 32):
                m2 = by * 64 + i
                out[m2 // (OH * OW), m2 % (OH * OW) // OW, m2 % OW, j] = os[i, j]

    return main


@program
def blocksparse() -> Any:
    @T.prim_func
    def main(
        A: T.Tensor((64, 128), "float16"),
        B: T.Tensor((128, 64), "float16"),
        Mk: T.Tensor((1, 1, 4), "int32"),
        C: T.Tensor((64, 64), "float16"),
    ):
        with T.Kernel(1, 1, threads=128) as (bx, by):
            As = T.alloc_shared((64, 32), "float16")
            Bs = T.alloc_shared((32, 64), "float16")
            Cl = T.alloc_fragment((64, 64), "float32")
            Cs = T.alloc_shared((64, 64), "float16")
            T.clear(Cl)
            for k in T.Pipelined(4, num_stages=2):
                if Mk[by, bx, k] > 0:
                    T.copy(A[by * 64, k * 32], As)
                    T.copy(B[k * 32, bx * 64], Bs)
                    T.gemm(As, Bs, Cl)
            T.copy(Cl, Cs)
            T.copy(Cs, C[by * 64, bx * 64])

    return main


@program
def dequant() -> Any:
    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float16"), B: T.Tensor((32, 32), "uint8"), C: T.Tensor((64, 32), "float32")
    ):
        with T.Kernel(1, 1, threads=128) as (_, _):
            As = T.alloc_shared((64, 64), "float16")
            Bs = T.alloc_shared((32, 32), "uint8")
            Bl = T.alloc_fragment((32, 32), "uint8")
            Bd = T.alloc_fragment((32, 64), "float16")
            Bds = T.alloc_shared((32, 64), "float16")
            Cl = T.alloc_fragment((64, 32), "float32")
            T.clear(Cl)
            T.copy(A, As)
            T.copy(B, Bs)
            T.copy(Bs, Bl)
            for i, j in T.Parallel(32, 64):
                Bd[i, j] = T.cast((Bl[i, j // 2] >> (j % 2 * 4)) & 0xF, "float16")
            T.copy(Bd, Bds)
            T.gemm(As, Bds, Cl, transpose_B=True)
            T.copy(Cl, C)

    return main


@program
def layernorm_welford() -> Any:
    @T.prim_func
    def main(
        X: T.Tensor((6, 300), "float32"), G: T.Tensor((300,), "float32"), Y: T.Tensor((6, 300), "float32")
    ):
        with T.Kernel(6, threads=96) as b:
            x = T.alloc_fragment((300,), "float32")
            s = T.alloc_fragment((1,), "float32")
            q = T.alloc_fragment((1,), "float32")
            x2 = T.alloc_fragment((300,), "float32")
            T.copy(X[b, :], x)
            T.reduce_sum(x, s, dim=0)
            for i in T.Parallel(300):
                x2[i] = (x[i] - s[0] / 300) * (x[i] - s[0] / 300)
            T.reduce_sum(x2, q, dim=0)
            for i in T.Parallel(300):
                Y[b, i] = (x[i] - s[0] / 300) * T.rsqrt(q[0] / 300 + 1e-5) * G[i]

    return main


@program
def gemm_rs_chain() -> Any:
    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float16"),
        B: T.Tensor((64, 64), "float16"),
        D: T.Tensor((64, 64), "float16"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128) as b:
            Af = T.alloc_fragment((64, 64), "float16")
            Bs = T.alloc_shared((64, 64), "float16")
            Ds = T.alloc_shared((64, 64), "float16")
            x = T.alloc_fragment((64, 64), "float32")
            y = T.alloc_fragment((64, 64), "float32")
            xh = T.alloc_fragment((64, 64), "float16")
            mx = T.alloc_fragment((64,), "float32")
            T.copy(A, Af)
            T.copy(B, Bs)
            T.copy(D, Ds)
            T.clear(x)
            T.clear(y)
            T.gemm(Af, Bs, x)
            T.reduce_max(x, mx, dim=0)
            for i, j in T.Parallel(64, 64):
                xh[i, j] = T.clamp(x[i, j] - mx[j], -8.0, 8.0)
            T.gemm(xh, Ds, y)
            T.gemm(Af, Ds, y)
            T.copy(y, C)

    return main
