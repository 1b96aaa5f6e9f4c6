"""Every pass configuration of TileLang acts, or is accepted with exactly one notice and changes nothing."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import pytest

import tilebench
import tilebench.language as T
from tilebench import compiler
from tilebench.ir.text import print_program
from tilebench.kernel import options
from tilebench.kernel.options import ACTING, PassConfigKey
from tilebench.passes.stages import Lowered
from tilebench.targets import parse


def product() -> Any:
    """A product in a pipeline, with exp2, a turned tile, and tiles that are not in use at the same time."""

    @T.prim_func
    def program(
        A: T.Tensor((128, 256), "float16"),
        B: T.Tensor((256, 64), "float16"),
        C: T.Tensor((128, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((128, 64), "float16")
            B_s = T.alloc_shared((64, 64), "float16")
            R = T.alloc_shared((128, 64), "float32")
            acc = T.alloc_fragment((128, 64), "float32")
            T.clear(acc)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], A_s)
                T.copy(B[k * 64, 0], B_s)
                T.gemm(A_s, B_s, acc)
            for i, j in T.Parallel(128, 64):
                acc[i, j] = T.exp(acc[i, j])
            T.copy(acc, R)
            for i, j in T.Parallel(128, 64):
                C[i, j] = R[127 - i, j]

    return program


def lowered(configs: Mapping[Any, Any] | None = None) -> Lowered:
    """The thread code for sm_90a with these configurations."""
    kernel = tilebench.compile(product(), target="interp", pass_configs=configs)
    return compiler.analyse(kernel.prim, parse("emu:sm_90a"), thread_ir=True).stage(Lowered)


def text(configs: Mapping[Any, Any] | None = None) -> str:
    """It as text."""
    return print_program(lowered(configs).program).text


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process: no notice was given yet."""
    monkeypatch.setattr(options, "_said", set[str]())


@pytest.mark.parametrize("key", sorted(set(PassConfigKey) - ACTING, key=str), ids=lambda k: k.name)
def test_what_has_no_effect_says_so_once(key: PassConfigKey) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        first = text({key: True})
        assert [str(w.message) for w in said] == [f"pass config {key.name} has no effect in tilebench"]
        assert text({key: True}) == first == text()
        assert text({key.value: True}) == first
    assert len(said) <= 2, "one notice for the member, at most one more for its text"


@pytest.mark.parametrize("spelled", [lambda k: k, lambda k: k.value, lambda k: k.name])
@pytest.mark.parametrize("key", sorted(ACTING, key=str), ids=lambda k: k.name)
def test_what_acts_acts_and_says_nothing(key: PassConfigKey, spelled: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        given = "-DN=1" if key is PassConfigKey.TL_DEVICE_COMPILE_FLAGS else True
        on, off = lowered({spelled(key): given}), lowered({spelled(key): False})
    before, after = print_program(off.program).text, print_program(on.program).text
    assert before == text()
    match key:
        case PassConfigKey.TL_ENABLE_FAST_MATH:
            assert on.program.facts["fast_math"]
            assert not off.program.facts["fast_math"]
        case PassConfigKey.TL_DEVICE_COMPILE_FLAGS:
            assert on.program.facts["compile_flags"] == ("-DN=1",)
            assert before == after
        case PassConfigKey.TL_DISABLE_THREAD_STORAGE_SYNC:
            assert after.count("because=line") == 0 < before.count("because=line")
        case PassConfigKey.TL_DISABLE_SHARED_MEMORY_REUSE:
            assert on.program.shared_bytes > off.program.shared_bytes
        case PassConfigKey.TL_DISABLE_WARP_SPECIALIZED:
            assert len(on.program.roles) == 1 < len(off.program.roles)
        case PassConfigKey.TL_DISABLE_TMA_LOWER:
            assert "bulk_load(" in before
            assert "bulk_load(" not in after
        case PassConfigKey.TL_DISABLE_WGMMA:
            assert "wgmma(" in before
            assert "wgmma(" not in after
            assert " mma(" in after
        case _:
            pytest.fail(f"{key.name} acts, and nothing here says how")


def test_a_key_that_nobody_knows_is_one_notice_too() -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert text({"tl.of_another_day": 1}) == text({"tl.of_another_day": 1}) == text()
    assert [str(w.message) for w in said] == ["pass config tl.of_another_day has no effect in tilebench"]
