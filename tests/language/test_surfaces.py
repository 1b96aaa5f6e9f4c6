"""The two surfaces, parameters, cells as text: where a kernel comes from, and where its lines are."""

# ruff: noqa: E501 -- programs and what they become stand side by side

from __future__ import annotations

import textwrap

import pytest

from tests.language.reading import cell, kernel, refused, whole
from tilebench.errors import Source, TileError
from tilebench.ir.dtype import float16, float32
from tilebench.ir.tile import Kernel
from tilebench.ir.verify import verify_kernel
from tilebench.language.parse import (
    PrimFunc,
    TensorSpec,
    is_factory,
    is_tile_program,
    parse_eager,
    parse_module,
    parse_prim_func,
    source_of,
)


def eager(text: str, **arguments: object) -> Kernel:
    functions = [v for v in cell(text).values() if callable(v)]
    made = parse_eager(functions[-1], arguments)
    verify_kernel(made)
    return made


def eager_error(text: str, **arguments: object) -> TileError:
    with pytest.raises(TileError) as caught:
        eager(text, **arguments)
    assert caught.value.at is not None
    return caught.value


PARAMETERS = """
@T.prim_func
def main({}):
    with T.Kernel(1) as bx:
        pass
"""


@pytest.mark.parametrize(
    ("spelled", "shown"),
    [
        ("A: T.Tensor((4, 8), 'float16')", "A: float16[4, 8]"),
        ("A: T.Tensor((4, 8))", "A: float32[4, 8]"),
        ("A: T.Tensor[(4, 8), T.float16]", "A: float16[4, 8]"),
        ("A: T.Tensor[[4, 8], 'bfloat16']", "A: bfloat16[4, 8]"),
        ("A: T.Tensor(4, 'int8')", "A: int8[4]"),
        ("A: T.Buffer((4,), 'int8')", "A: int8[4]"),
        ("A: T.StridedTensor((4, 8), (16, 1), 'float16')", "A: float16[4, 8]"),
        ("A: 'T.Tensor((4,), T.float16)'", "A: float16[4]"),
        ("A: T.Tensor((4,), __import__('torch').float16)", "A: float16[4]"),
        ("A: T.Tensor((4,), float), n: int, x: T.float16", "A: float32[4], n: int32, x: float16"),
    ],
)
def test_parameters(spelled: str, shown: str) -> None:
    assert whole(kernel(PARAMETERS.format(spelled))).splitlines()[0] == f"kernel main({shown})"


@pytest.mark.parametrize(
    ("spelled", "code"),
    [
        ("A", "TB231"),
        ("*A", "TB231"),
        ("A: T.Tensor((T.const('M'),), 'float16')", "TB213"),
        ("A: T.Tensor((-1,), 'float16')", "TB206"),
        ("A: 'T.Tensr((4,))'", "TB120"),
        ("A: 'T.Tensor(('", "TB100"),
    ],
)
def test_wrong_parameters(spelled: str, code: str) -> None:
    assert refused(PARAMETERS.format(spelled)).code == code


def test_annotations_that_are_text_see_the_factory_around_them() -> None:
    names = cell(
        """
        from __future__ import annotations

        def factory(M, dtype="float16"):
            shape = (M, 2 * M)

            @T.prim_func
            def main(A: T.Tensor(shape, dtype)):
                with T.Kernel(1) as bx:
                    A[M - 1, 0] = 1

            return main
        """
    )
    assert is_factory(names["factory"])
    assert "A: float16[4, 8]" in whole(parse_prim_func(names["factory"](4)))


def test_a_plain_function_with_annotations_is_a_program() -> None:
    names = cell("def main(A: T.Tensor((4,), 'float32')):\n    with T.Kernel(1) as bx:\n        A[0] = 1\n")
    assert is_tile_program(names["main"])
    assert not is_factory(names["main"])
    assert "A[0] = 1.0" in whole(parse_prim_func(names["main"]))


RELU = """
def relu(A, size: int = 4, out=T.float32):
    M, N = T.const("M, N")
    A: T.Tensor[[M, N], T.float16]
    C = T.empty((M, N), dtype=out)
    with T.Kernel(M // size) as bx:
        for i, j in T.Parallel(size, N):
            C[bx * size + i, j] = T.max(A[bx * size + i, j], 0)
    return C
"""


def test_constants_come_from_the_shapes_of_the_tensors() -> None:
    made = eager(RELU, A=TensorSpec((16, 8), (8, 1), float16), size=4, out=float32)
    assert whole(made).splitlines()[:2] == [
        "kernel relu(A: float16[16, 8], C: float32[16, 8])",
        "  grid bx < 4; threads (128,)",
    ]
    assert made.out_idx == (1,)


def test_constants_can_be_given_without_tensors() -> None:
    function = cell(RELU)["relu"]
    made = parse_eager(function, {"size": 4, "out": float32}, consts={"M": 16, "N": 8})
    assert "A: float16[16, 8]" in whole(made)


def test_a_size_that_is_not_known_stays_a_symbol() -> None:
    text = RELU.replace("M // size", "T.ceildiv(M, size)").replace(
        "T.Parallel(size, N)", "T.Parallel(size, 8)"
    )
    made = eager(text, A=TensorSpec((None, 8), (None, 1), float16), size=4, out=float32)
    assert [v.name for v in made.symbols] == ["M"]
    assert "grid bx < (M + 3) // 4" in whole(made)


def test_tensors_of_a_call_must_fit_what_is_declared() -> None:
    square = RELU.replace("[M, N]", "[M, M]", 1)
    assert eager_error(square, A=TensorSpec((16, 8), (8, 1), float16), size=4, out=float32).code == "TB604"
    assert eager_error(RELU, A=TensorSpec((16,), (1,), float16), size=4, out=float32).code == "TB604"
    fixed = RELU.replace("[[M, N]", "[[M, 4]", 1)
    assert eager_error(fixed, A=TensorSpec((16, 8), (8, 1), float16), size=4, out=float32).code == "TB604"


def test_an_eager_function_returns_what_it_allocated() -> None:
    assert (
        eager_error(
            RELU.replace("return C", "return A"), A=TensorSpec((16, 8), (8, 1), float16), size=4, out=float32
        ).code
        == "TB232"
    )
    ahead = RELU.replace("    A: T.Tensor", "    half = M // 2\n    A: T.Tensor").replace(
        "M // size", "half // size * 2"
    )
    assert "grid bx < 4" in whole(eager(ahead, A=TensorSpec((16, 8), (8, 1), float16), size=4, out=float32))
    aliased = ahead.replace("half = M // 2", "half, rows, shape = M // 2, M, [M, N]").replace(
        "T.Tensor[[M, N], T.float16]", "T.Tensor(shape, T.float16)"
    )
    assert "grid bx < 4" in whole(eager(aliased, A=TensorSpec((16, 8), (8, 1), float16), size=4, out=float32))
    product = (
        RELU.replace("[M, N]", "[M * N]", 1)
        .replace("def relu(A", "def relu(A, B")
        .replace("    C = T", "    B: T.Tensor[[M, N], T.float16]\n    C = T")
    )
    product = product.replace("A[bx * size + i, j]", "B[bx * size + i, j]")
    flat, full = TensorSpec((128,), (1,), float16), TensorSpec((16, 8), (8, 1), float16)
    assert "A: float16[128], B: float16[16, 8]" in whole(eager(product, A=flat, B=full, size=4, out=float32))
    early = RELU.replace("    A: T.Tensor[[M, N], T.float16]\n", "").replace(
        "    C = T", "    K = M + 1\n    C = T"
    )
    assert eager_error(early, A=TensorSpec((16, 8), (8, 1), float16), size=4, out=float32).code == "TB213"


def test_several_outputs_keep_the_order_of_the_return() -> None:
    text = """
    def both(A):
        M = T.const("M")
        A: T.Tensor[[M], T.float16]
        low = T.empty((M,), T.float16)
        high = T.empty((M,), T.float32)
        with T.Kernel(1) as bx:
            T.copy(A, low)
            T.copy(A, high)
        return high, low
    """
    made = eager(text, A=TensorSpec((16,), (1,), float16))
    assert [p.name for p in made.params] == ["A", "high", "low"]
    assert made.out_idx == (1, 2)


# ------------------------------------------------------------------ text


def test_lines_are_counted_from_the_first_line_of_the_cell() -> None:
    text = "\n@T.prim_func\ndef main(A: T.Tensor((4,), 'float32')):\n    with T.Kernel(1) as bx:\n        A[9] = 1\n"
    for first in (1, 40):
        names = cell(text, first_line=first)
        with pytest.raises(TileError) as caught:
            parse_prim_func(names["main"])
        at = caught.value.at
        assert at is not None
        assert at.line == first + 4
        assert "A[9] = 1" in caught.value.render()


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("x = 1\ny = (2,\n", 2, 4),
        ("x = 1\n\ny = = 3\n", 3, 4),
        ("def f():\n    return 1\nreturn 2\n", 3, 0),
        ("é = 1; y = = 3\n", 1, len("é = 1; y = ".encode())),
        ("x = 1\0", 1, 5),
        ("🙂 = 1", 1, 0),
        ("def f():\n\tx = 1\n        y = 2\n", 3, None),
        ("x = undefined_name\n", 1, None),
        ("def f():\n    return 1 / 0\n\nf()\n", 2, None),
    ],
)
def test_text_that_does_not_run_is_located(text: str, line: int, column: int | None) -> None:
    for first in (1, 7):
        with pytest.raises(TileError) as caught:
            parse_module(Source("In[3]", text, first), {})
        at = caught.value.at
        assert at is not None
        assert at.line == line + first - 1
        if column is not None:
            assert at.column == column


def test_windows_lines_and_tabs_are_read() -> None:
    text = "@T.prim_func\r\ndef main(A: T.Tensor((4,), 'float32')):\r\n\twith T.Kernel(1) as bx:\r\n\t\tA[0] = 1\r\n"
    assert "A[0] = 1.0" in whole(kernel(text))


def test_odd_names_are_names() -> None:
    assert "größe" in whole(
        kernel(
            "@T.prim_func\ndef größe(ñ: T.Tensor((4,), 'float32')):\n    with T.Kernel(1) as 块:\n        ñ[块] = 1\n"
        )
    )


def test_a_cell_gives_the_names_that_it_defines() -> None:
    namespace: dict[str, object] = {"kept": 1, "changed": 1}
    made = parse_module(Source("In[4]", "changed = 2\nfresh = 3\nkept\n"), namespace)
    assert made == {"changed": 2, "fresh": 3}
    assert parse_module(Source("In[5]", ""), {}) == {}


def test_a_long_sum_is_a_kernel_or_one_diagnostic() -> None:
    for terms, fits in ((100, True), (5000, False)):
        text = (
            "@T.prim_func\ndef main(A: T.Tensor((4,), 'float32')):\n    with T.Kernel(1) as bx:\n        A[0] = "
            + " + ".join(["A[1]"] * terms)
            + "\n"
        )
        if fits:
            kernel(text)
        else:
            assert refused(text).code == "TB112"


def test_a_function_knows_its_source() -> None:
    names = cell("@T.prim_func\ndef main(A: T.Tensor((4,), 'float32')):\n    pass\n", first_line=3)
    program = names["main"]
    assert isinstance(program, PrimFunc)
    assert source_of(program.function).line(4).startswith("def main")
    with pytest.raises(TileError) as caught:
        source_of(eval("lambda x: x", {}))
    assert caught.value.code == "TB103"
    with pytest.raises(TileError, match="a lambda is no tile program") as caught:
        parse_prim_func(lambda A: None)
    assert caught.value.code == "TB103"
    with pytest.raises(TileError) as caught:
        parse_prim_func(cell("def main():\n    pass\n")["main"])
    assert caught.value.code == "TB110"
    with pytest.raises(TileError) as caught:
        parse_prim_func(3)
    assert caught.value.code == "TB110"


def test_a_helper_in_another_cell_is_shown_with_its_own_line() -> None:
    helper = cell(
        textwrap.dedent("""
        @T.macro
        def put(target):
            target[9] = 1
    """)
    )["put"]
    error = refused(
        "@T.prim_func\ndef main(A: T.Tensor((4,), 'float32')):\n    with T.Kernel(1) as bx:\n        put(A)\n",
        put=helper,
    )
    text = error.render()
    assert "target[9] = 1" in text
    assert "put(A)" in text
