"""Elements that nothing wrote, and NaN: said in words, never as the numbers that stand for them."""

from __future__ import annotations

from typing import Any

import tilebench
import tilebench.language as T
from tilebench.kernel.verify import UNDEFINED
from tilebench.report import LARGEST_ERROR, LARGEST_RATIO, DiffInfo
from tilebench.views import diff
from tilebench.views.board import Board

SENTINEL = "e+" + "30"  # the reports hold this very text, as their source


def square(M: int, N: int, scale: float = 1.0) -> Any:
    """Swapped extents of the grid: right only where M equals N; scale 0 makes NaN of what is written."""

    @T.prim_func
    def copy(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):  # type: ignore[valid-type]
        with T.Kernel(T.ceildiv(M, 32), T.ceildiv(N, 32), threads=128) as (bx, by):
            for i, j in T.Parallel(32, 32):
                if by * 32 + i < M and bx * 32 + j < N:
                    Y[by * 32 + i, bx * 32 + j] = X[by * 32 + i, bx * 32 + j] * scale / scale

    return copy


def compared(kernel: Any, **given: Any) -> tuple[Any, DiffInfo]:
    report = tilebench.run(kernel, target="interp", ref=lambda x: x, **given).report
    return report, next(d for d in report.diffs if d.against == "torch")


def test_what_nothing_wrote_has_no_writer_and_no_error() -> None:
    report, d = compared(square(64, 96))
    assert (d.wrong, d.unwritten, d.special) == (2048, 2048, 0)
    assert all(not w.written and w.line == 0 for w in d.worst)
    assert diff.figures(d.worst[0])[0] == "never written"
    assert diff.figures(d.worst[0])[2:] == ("–", "–")
    assert "2048 of them never written" in diff.sentence(d)
    assert "largest" not in diff.sentence(d)
    assert d.heat_unwritten is not None
    assert d.heat_unwritten.sum() * d.heat_step[0] * d.heat_step[1] == 2048
    data, _ = Board(report, ("diff",), static=True).bundle()
    for text in (diff.html(report), Board(report, static=True).html(), data["text/plain"]):
        assert SENTINEL not in text


def test_nan_is_called_nan_and_the_rest_keeps_its_figures() -> None:
    report, d = compared(square(64, 64, 0.0))
    assert (d.wrong, d.unwritten, d.special) == (4096, 0, 4096)
    assert diff.figures(d.worst[0])[0] == "NaN"
    assert d.worst[0].line > 0
    assert "4096 of them NaN or infinite on one side" in diff.sentence(d)
    assert SENTINEL not in diff.html(report)
    assert (d.worst[0].error, d.worst[0].ratio) == (LARGEST_ERROR, LARGEST_RATIO)


def test_a_product_on_top_of_what_nothing_wrote_is_not_said_to_be_exact() -> None:
    @T.prim_func
    def gemm(
        A: T.Tensor((32, 32), "float16"), B: T.Tensor((32, 32), "float16"), C: T.Tensor((32, 32), "float16")
    ):
        with T.Kernel(1, threads=32) as bx:
            a, b = T.alloc_shared((32, 32), "float16"), T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c)
            T.copy(c, C)

    report = tilebench.run(gemm, target="cpu", ref=lambda A, B: A @ B).report
    assert report.ok is False
    assert {d.how for d in report.diffs} == {UNDEFINED}
    assert "read at line" in report.verdict
