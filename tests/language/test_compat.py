"""`tilebench compat`: what becomes of TileLang's names."""

import pytest

import tilebench
from tilebench.cli import main


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("T.copy", "supported"),
        ("gemm", "supported"),
        ("tilelang.autotuner", "supported"),
        ("tilelang.jit", "supported"),
        ("T.alloc_reducer", "translated"),
        ("T.no_set_max_nreg", "accepted"),
        ("T.wgmma_gemm", "refused"),
        ("T.copyy", "unknown"),
        ("tilelang.nothing_such", "unknown"),
        ("tilelang.PassConfigKey.TL_ENABLE_FAST_MATH", "supported"),
        ("PassConfigKey.TL_DISABLE_VECTORIZE_256", "accepted"),
    ],
)
def test_each_name_has_a_verdict_with_a_reason(name: str, status: str) -> None:
    verdict = tilebench.compat(name)
    assert verdict.status == status
    assert verdict.why


def test_where_results_differ_from_tilelangs_the_verdict_says_so() -> None:
    for name in ("T.atomic_add", "T.atomic_max", "T.atomic_addx2"):
        assert "once by the block" in str(tilebench.compat(name))
    assert "once by the block" not in str(tilebench.compat("T.copy"))


def test_the_command_prints_verdicts_and_fails_on_refusals(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compat", "T.copy"]) == 0
    assert main(["compat", "T.copy", "T.wgmma_gemm"]) == 1
    text = capsys.readouterr().out
    assert "T.wgmma_gemm: refused" in text
    assert "T.gemm(A, B, C)" in text
