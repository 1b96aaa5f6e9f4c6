"""Expressions: what Python computes while compiling, what becomes IR, how elements and slices are named."""

# ruff: noqa: E501 -- programs and what they become stand side by side

from __future__ import annotations

import textwrap

import pytest

from tests.language.reading import body, kernel, refused_body, whole, wrapped
from tilebench.ir.rewrite import walk
from tilebench.ir.tile import Region, TileOp


def shows(text: str, expected: str, head: str = "") -> None:
    assert body(text, head) == textwrap.dedent(expected).strip()


# ------------------------------------------------------------------ Python while compiling


def test_python_values_are_computed_while_compiling() -> None:
    shows(
        """
        sizes = {'a': 3, **{'b': 4}}
        squares = [k * k for k in range(5) if k % 2]
        double = lambda x, by=2: x * by
        name = f"{sizes['b']:03d}"
        A[squares[1], double(sizes['a'])] = len(name) + max(1, 2) + sum(range(3)) + divmod(7, 2)[0]
        """,
        "A[9, 6] = 11.0",
    )


def test_helpers_and_closures_work_on_run_time_values() -> None:
    head = "import functools, math\noffset = 3\ndef index(i, j):\n    return i * 8 + j + offset\n"
    shows(
        "A[0, index(bx, 1)] = functools.reduce(lambda a, b: a + b, [n, bx, 1]) + math.sqrt(4)",
        "A[0, bx * 8 + 1 + 3] = float32(n + bx + 1) + 2.0",
        head,
    )


def test_helpers_that_use_tiles_are_walked() -> None:
    head = """
    def load(source, target, i):
        if i < 2:
            T.copy(source, target)
        return source[i, 0] + 1
    """
    shows(
        "x = load(A, B, bx)\nB[0, 0] = x",
        "if bx < 2:\n  copy(A, B)\nx: float32 = A[bx, 0] + 1.0\nB[0, 0] = x",
        head,
    )


def test_methods_that_use_tiles_are_walked() -> None:
    head = """
    class Tile:
        def __init__(self, size):
            self.size = size

        def reset(self, target, *rest, value=0):
            for i in T.Parallel(self.size):
                target[i, 0] = value

    tile = Tile(4)
    """
    shows("tile.reset(A, value=2)", "for i in parallel(4,):\n  A[i, 0] = 2.0", head)


def test_local_functions_see_the_names_around_them() -> None:
    shows(
        """
        def put(i, value=3):
            A[i, k] = value
        k = 5
        put(1)
        put(2, value=bx)
        """,
        "A[1, 5] = 3.0\nA[2, 5] = float32(bx)",
    )


def test_python_calls_local_functions_too() -> None:
    shows("def key(x):\n    return -x\nA[0, 0] = sorted([1, 3, 2], key=key)[0]", "A[0, 0] = 3.0")


def test_no_recursion_without_end() -> None:
    assert refused_body("def f(x):\n    return f(x)\nf(bx)").code == "TB109"


# ------------------------------------------------------------------ types


def test_numbers_take_the_type_of_the_other_operand() -> None:
    head = "import numpy"
    shows(
        "x = T.cast(A[0, 0], 'float16') * 2 + 0.5\nT.print(x)",
        "x: float16 = float16(A[0, 0]) * 2.0 + 0.5\nprint(message=, values=(x))",
    )
    shows(
        "T.print(bx / 2)\nT.print(bx // 2 % 3)\nT.print(bx + numpy.int64(3))",
        "print(message=, values=(float32(bx) / 2.0))\nprint(message=, values=(bx // 2 % 3))\nprint(message=, values=(bx + 3))",
        head,
    )


@pytest.mark.parametrize(
    ("spelled", "text"),
    [
        ("T.float16(bx)", "float16(bx)"),
        ("T.float32(2)", "2.0"),
        ("T.cast(bx, 'int8')", "int8(bx)"),
        ("T.Cast('int8', bx)", "int8(bx)"),
        ("bx.astype(T.float16)", "float16(bx)"),
        ("float(bx)", "float32(bx)"),
        ("int(A[0, 0])", "int32(A[0, 0])"),
        ("T.reinterpret(A[0, 0], 'int32')", "reinterpret(A[0, 0])"),
        ("T.max(bx, 3)", "max(bx, 3)"),
        ("max(bx, 3, n)", "max(max(bx, 3), n)"),
        ("T.clamp(bx, 0, 9)", "min(max(bx, 0), 9)"),
        ("T.ceildiv(n, 8)", "(n + 7) // 8"),
        ("T.truncdiv(n, 8)", "truncdiv(n, 8)"),
        ("T.if_then_else(bx < 2, 1, 0.5)", "select(bx < 2, 1.0, 0.5)"),
        ("T.exp2(A[0, 0])", "exp2(A[0, 0])"),
        ("abs(bx)", "abs(bx)"),
        ("T.infinity('float32')", "inf"),
        ("-T.infinity(A.dtype)", "-inf"),
        ("T.max_value(T.int8)", "127"),
        ("n >> 1 & 3 | 4 ^ n", "n >> 1 & 3 | 4 ^ n"),
        ("~n", "~n"),
        ("T.ieee_frcp(A[0, 0])", "1.0 / A[0, 0]"),
        ("T.index_to_coordinates(n, (4, 8))[1]", "n % 8"),
        ("T.popcount(n)", "popcount(n)"),
        ("T.shfl_xor(A[0, 0], 4)", "shfl_xor(A[0, 0], 4)"),
    ],
)
def test_scalar_functions(spelled: str, text: str) -> None:
    assert body(f"T.print({spelled})") == f"print(message=, values=({text}))"


def test_dtypes_are_equal_to_their_names_and_callable() -> None:
    import torch

    import tilebench.language as T

    assert T.float16 == "float16"
    assert (T.bfloat16.bits, T.float32.bytes) == (16, 4)
    assert T.float8_e4m3fn.as_torch() is torch.float8_e4m3fn
    for spelled in ("float16", torch.float16, T.float16, "half"):
        assert T.dtype(spelled) == T.float16
    assert all(type(getattr(T, name)) is type(T.float16) for name in ("float32", "int32", "uint32", "bool"))


# ------------------------------------------------------------------ elements and slices


def regions(text: str) -> list[Region]:
    made = kernel(wrapped(text))
    return [r for op in walk(made.body) if isinstance(op, TileOp) for r in (*op.reads, *op.writes)]


def test_negative_numbers_count_from_the_end() -> None:
    shows("A[-1, -64] = A[bx - 1, 0]", "A[63, 0] = A[bx - 1, 0]")
    shows("T.copy(A[-4:, 0:8], B[:4, -8:])", "copy(A[60:+4, 0:+8], B[0:+4, 56:+8])")


def test_a_tensor_of_unknown_size_counts_from_its_end() -> None:
    made = kernel(
        "m = T.dynamic('m')\n@T.prim_func\ndef main(A: T.Tensor((m, 4), 'float32')):\n    with T.Kernel(1) as bx:\n        A[-1, 0] = 1\n        T.clear(A[-2:, :])\n"
    )
    assert "A[m + -1, 0] = 1.0" in whole(made)
    assert "A[m + -2:+2, 0:+4]" in whole(made)


def test_fewer_indices_name_a_box() -> None:
    source, target = regions("T.copy(A[bx], B[bx * 2, 0:64])")
    assert source.shape == target.shape == (64,)
    assert source.dropped == {0}
    (inner,) = regions("T.clear(A[bx * 8 : bx * 8 + 8, 16:32][2:4, 3])")
    assert (inner.shape, inner.dropped) == ((2,), {1})
    assert regions("T.clear(A[..., 0:8])")[0].shape == (64, 8)


def test_the_extent_of_a_slice_is_found_by_cancelling() -> None:
    assert regions("T.clear(A[bx * n : bx * n + 8, (bx + 1) * 16 : (bx + 2) * 16])")[0].shape == (8, 16)


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("A[64, 0] = 1", "TB218", "index 64 is outside of dimension 0, which has 64 elements"),
        ("A[0, -65] = 1", "TB218", "index -65"),
        ("s = T.alloc_shared((16, 8), 'float32')\ns[16, 0] = 1", "TB218", "s: index 16"),
        ("s = T.alloc_fragment((16,), 'float32')\nT.clear(s[8:24])", "TB218", "8:24"),
        ("s = T.alloc_shared((16, 8), 'float32')\nT.clear(s[0:4, :][4, 0:2])", "TB218", "index 4"),
        ("A[0, 0, 0] = 1", "TB216", "2 dimensions (64 x 64), indexed with 3"),
        ("A[0.5, 0] = 1", "TB217", "float"),
        ("A[A[0, 0], 0] = 1", "TB217", "float32"),
        ("A[B, 0] = 1", "TB217", "the tile B"),
        ("T.clear(A[0:64:2, :])", "TB219", "step"),
        ("T.clear(A[0:n, :])", "TB219", "not known"),
        ("T.clear(A[8:8, :])", "TB219", "0 elements"),
        ("A[0, 0] = A + 1", "TB202", "A is a tile"),
        ("A[0, 0] = B", "TB223", "a tile (B)"),
        ("A += 1", "TB202", "A is a tile"),
        ("A[0, 0] = 'x'", "TB202", "'x'"),
        ("A[0, 0] = n & 1.5 | A[0, 0]", "TB203", "bitwise"),
        ("x = [1, 2][bx]", "TB215", "run-time value"),
        ("x = n()", "TB214", "cannot be called"),
        ("x = A.rows", "TB214", "rows"),
        ("x = [k for k in range(n)]", "TB104", "comprehension"),
        ("x = 1 / 0", "TB211", "ZeroDivisionError"),
        ("x = int('x')", "TB211", "ValueError"),
        ("for i in bx:\n    pass", "TB225", "looped"),
        ("for i in T.Parallel(-1):\n    pass", "TB226", "is -1"),
        ("for i, j in T.Parallel(4):\n    pass", "TB222", "1 extents and 2 variables"),
        ("for k in T.Pipelined(4, num_stages=-1):\n    pass", "TB227", "-1"),
        ("for k in T.serial(0, 4, 0):\n    pass", "TB270", "step 0"),
        ("for k in T.serial(n / 2):\n    pass", "TB217", "float32"),
        ("with 3:\n    pass", "TB229", "int"),
        ("a, b = 1, 2, 3", "TB222", "3 values for 2 names"),
        ("a, b = bx", "TB222", "unpack"),
        ("s = T.alloc_shared((n,), 'float32')", "TB206", "not known"),
        ("s = T.alloc_shared((2**70,), 'float32')", "TB202", "fits in no integer type"),
        ("A[0, 0] = 2**70", "TB202", "fits in no integer type"),
        ("A[0, 0] = A[0, 1] * 10**400", "TB202", "is no float32"),
        ("A[0, 0] = n + 2**200", "TB202", "with 201 bits"),
        ("s = T.alloc_shared((4,), 'float17')", "TB204", "did you mean float16?"),
        ("T.fill(A, T.infinity('int32'))", "TB203", "no infinity"),
        ("T.reinterpret(A[0, 0], 'int8')", "TB208", "32 bits"),
        ("import nothing_of_this_name", "TB211", "import"),
        ("x = T.copy(A)", "TB211", "copy()"),
    ],
)
def test_wrong_expressions_are_refused_where_they_stand(text: str, code: str, words: str) -> None:
    error = refused_body(text)
    assert error.code == code, str(error)
    assert words in error.what, str(error)


@pytest.mark.parametrize(
    "text",
    [
        "class C: pass", "try:\n    pass\nexcept KeyError:\n    pass", "x = yield 3", "async def f(): pass", "global x", "del A", "x = await A",
        "for i in range(3):\n    pass\nelse:\n    pass", "while bx < 3:\n    pass\nelse:\n    pass", "A.shape = 3", "match n:\n    case 1:\n        pass",
        "for A[0, 0] in T.serial(3):\n    pass", "A[0, 0]: T.int32 = 3", "x = yield",
    ],
)  # fmt: skip
def test_what_the_language_does_not_have_is_refused(text: str) -> None:
    assert refused_body(text).code in ("TB102", "TB100")


def test_return_belongs_at_the_end() -> None:
    assert refused_body("if bx < n:\n    return").code == "TB104"
    assert refused_body("break").code in ("TB104", "TB100")


# ------------------------------------------------------------------ names


def test_unknown_names_offer_the_nearest() -> None:
    error = refused_body("A[0, 0] = BB[0, 0]")
    assert (error.code, error.at and error.at.column) == ("TB101", 18)
    assert "did you mean B?" in refused_body("A[0, 0] = Bb[0, 0]").what or "B" in error.what
    error = refused_body("T.alloc_share((4,), 'float32')")
    assert error.code == "TB120"
    assert "did you mean alloc_shared?" in error.what
    assert refused_body("T.no_such_thing_at_all(3)").code == "TB120"


@pytest.mark.parametrize("name", ["tma_copy", "wgmma_gemm", "alloc_barrier", "mbarrier_wait_parity", "call_extern", "access_ptr", "set_max_nreg", "sync_grid", "alloc_tmem", "cluster_sync", "address_of", "float4_e2m1fn"])  # fmt: skip
def test_names_of_tilelang_that_are_refused_say_what_stands_for_them(name: str) -> None:
    error = refused_body(f"T.{name}(A)")
    assert error.code == "TB121"
    assert error.what == f"T.{name} is not offered"


def test_types_that_can_only_be_named_are_refused_where_they_are_used() -> None:
    import tilebench.language as T

    assert T.float32x2.lanes == 2
    assert (T.float8_e5m2fnuz.bits, T.float4_e2m1fn == "float4_e2m1fn") == (8, True)
    for text in ("s = T.alloc_shared((4,), T.float8_e5m2fnuz)", "A[0, 0] = T.cast(1.0, T.float6_e2m3fn)"):
        error = refused_body(text)
        assert error.code == "TB121"
        assert "element type is not supported" in error.why
