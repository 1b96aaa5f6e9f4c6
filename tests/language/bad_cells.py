"""Cells that are wrong, each under the name of what is wrong with it.

The golden files hold what the user reads.
"""

HEAD = """@T.prim_func
def f(A: T.Tensor((64, 64), 'float16'), C: T.Tensor((64, 64), 'float16')):
    with T.Kernel(1, threads=128) as bx:
"""
LAUNCH = """@T.prim_func
def f(A: T.Tensor((4,), 'float32')):
    with T.Kernel(SIZES):
        T.clear(A)
"""


def inside(*lines: str) -> str:
    """A program with these lines in its block."""
    return HEAD + "".join(f"        {line}\n" for line in lines)


COMPILE: dict[str, str] = {
    "unknown-spelling": inside("x = T.alloc_shard((64, 64), 'float16')"),
    "unknown-name": inside("T.copy(A, Cc)"),
    "unknown-dtype": inside("x = T.alloc_shared((64, 64), 'float17')"),
    "not-python": "def f(:\n    pass\n",
    "no-program": "x = 1\n",
    "no-launch": "@T.prim_func\ndef f(A: T.Tensor((4,), 'float32')):\n    x = 1\n",
    "untyped-parameter": "@T.prim_func\ndef f(A):\n    with T.Kernel(1):\n        T.clear(A)\n",
    "class-inside": inside("class Inner:", "    pass"),
    "try-inside": inside("try:", "    T.clear(C)", "except Exception:", "    pass"),
    "return-in-branch": inside("if bx > 0:", "    return", "T.clear(C)"),
    "value-changed-in-loop": inside("n = 0", "for i in T.serial(4):", "    n = n + 1", "C[0, n] = 0"),
    "name-of-an-ended-loop": inside("for i in T.serial(4):", "    last = A[0, i] * 2", "C[0, 0] = last"),
    "index-out-of-range": inside(
        "s = T.alloc_shared((64, 32), 'float16')", "T.copy(A[0:64, 0:32], s)", "s[64, 0] = 0"
    ),
    "fragment-index-out-of-range": inside(
        "x = T.alloc_fragment((64, 64), 'float32')",
        "T.copy(A, x)",
        "for i, j in T.Parallel(64, 64):",
        "    x[i, j + 1] = 0",
    ),
    "too-many-indices": inside("C[0, 0, 0] = 1"),
    "float-index": inside("C[A[0, 0], 0] = 1"),
    "slice-with-step": inside("T.copy(A[0:64:2, :], C)"),
    "slice-of-unknown-size": inside("T.copy(A[0:bx, :], C[0:bx, :])"),
    "tile-in-arithmetic": inside("C[0, 0] = A + 1"),
    "extent-of-tile-unknown": inside("s = T.alloc_shared((bx, 4), 'float16')"),
    "copy-shapes-differ": inside("s = T.alloc_shared((64, 32), 'float16')", "T.copy(A, s)"),
    "print-of-a-tile": inside(
        "s = T.alloc_fragment((64, 64), 'float32')", "T.copy(A, s)", "print(s, s[0, 0])"
    ),
    "gemm-shapes-differ": inside(
        "a = T.alloc_shared((64, 32), 'float16')",
        "b = T.alloc_shared((64, 64), 'float16')",
        "c = T.alloc_fragment((64, 64), 'float32')",
        "T.copy(A[:, 0:32], a)",
        "T.copy(A, b)",
        "T.clear(c)",
        "T.gemm(a, b, c)",
        "T.copy(c, C)",
    ),
    "gemm-accumulator": inside(
        "a = T.alloc_shared((64, 64), 'bfloat16')",
        "b = T.alloc_shared((64, 64), 'bfloat16')",
        "c = T.alloc_fragment((64, 64), 'float16')",
        "T.copy(A, a)",
        "T.copy(A, b)",
        "T.clear(c)",
        "T.gemm(a, b, c)",
        "T.copy(c, C)",
    ),
    "gemm-into-shared": inside(
        "a = T.alloc_shared((64, 64), 'float16')",
        "c = T.alloc_shared((64, 64), 'float32')",
        "T.copy(A, a)",
        "T.clear(c)",
        "T.gemm(a, a, c)",
    ),
    "reduce-shapes-differ": inside(
        "x = T.alloc_fragment((64, 64), 'float32')",
        "m = T.alloc_fragment((32,), 'float32')",
        "T.copy(A, x)",
        "T.reduce_max(x, m, dim=1)",
    ),
    "too-many-threads": LAUNCH.replace("SIZES", "1, threads=2048"),
    "no-threads": LAUNCH.replace("SIZES", "1, threads=0"),
    "four-axes": LAUNCH.replace("SIZES", "1, 1, 1, 1"),
    "too-much-shared-memory": inside(
        "s = T.alloc_shared((640, 256), 'float16')", "T.clear(s)", "T.copy(s[0:64, 0:64], C)"
    ),
    "barrier-in-a-branch": inside("tx = T.get_thread_binding()", "if tx < 16:", "    T.sync_threads()"),
    "unroll-factor-of-none": inside("for i in T.unroll(8, unroll_factor=0):", "    A[0, i] = 0"),
    "negative-stages": inside("for k in T.Pipelined(4, num_stages=-1):", "    T.clear(C)"),
    "loop-over-a-tensor": inside("for x in A:", "    T.clear(C)"),
    "parallel-extent-negative": inside("for i in T.Parallel(0 - 2):", "    C[0, i] = 0"),
    "assert-fails": inside("assert A.shape[0] == 128, 'the block needs 128 rows'"),
    "macro-error-names-both-places": "@T.macro\ndef wrong(x):\n    T.reduce_sum(x)\n\n"
    + inside("x = T.alloc_fragment((64, 64), 'float32')", "wrong(x)"),
    "python-error": "width = 1 / 0\n" + inside("T.clear(C)"),
}
