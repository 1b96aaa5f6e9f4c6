"""Generated text compiles for every architecture that cubins are made for, whatever nodes it has."""

from __future__ import annotations

from typing import Any

import pytest

from tests.compiles import programs
from tilebench.backends.cuda import nvrtc
from tilebench.backends.cuda.emit import compiled_text, emit
from tilebench.backends.cuda.prelude import PIECES
from tilebench.errors import TargetError
from tilebench.ir.dtype import DTYPES
from tilebench.ir.thread import Program
from tilebench.targets import ARCHES

pytestmark = pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC on this machine")

SUITES = {
    "conversions": programs.conversions,
    "bits": programs.bits,
    "pairs": programs.pairs,
    "pair-casts": programs.pair_casts,
    "atomics": programs.atomics,
    "vector-atomics": programs.vector_atomics,
    "folds": programs.folds,
    "memory": programs.memory_accesses,
    "products": programs.products,
    "control": programs.control,
    "roles": programs.two_roles,
    "meetings": programs.meetings,
    **{
        f"math-{d}": lambda arch, d=d: programs.mathematics(arch, d)
        for d in programs.FLOATS
        if d.name != "tfloat32"
    },
    "math-fast": lambda arch: programs.mathematics(arch, DTYPES["float32"], fast_math=True),
    **{f"ops-{d}": lambda arch, d=d: programs.integers(arch, d) for d in programs.INTEGERS},
}
OLDEST_NEWEST = ("sm_80", "sm_90a", "sm_120")


def compiles(program: Program) -> nvrtc.Compiled:
    return nvrtc.compile_text(compiled_text(emit(program)), program.arch, programs.CELL)


def _cases() -> list[Any]:
    """Every suite for sm_90a; for the oldest and the newest too, types of arithmetic being slow tests."""
    found: list[Any] = []
    for suite in SUITES:
        for arch in OLDEST_NEWEST:
            plain = arch == "sm_90a" or not suite.startswith(("math-", "ops-"))
            found.append(pytest.param(suite, arch, marks=[] if plain else [pytest.mark.slow]))
    return found


@pytest.mark.parametrize(("suite", "arch"), _cases())
def test_every_node_compiles(suite: str, arch: str) -> None:
    compiled = compiles(SUITES[suite](arch))
    assert compiled.cubin.startswith(b"\x7fELF")
    assert f".target {arch}" in compiled.ptx


@pytest.mark.parametrize("arch", ARCHES)
def test_a_program_compiles_for_every_arch(arch: str) -> None:
    compiled = compiles(programs.memory_accesses(arch))
    assert compiled.registers
    assert compiled.spill_bytes == 0


@pytest.mark.parametrize("arch", ["sm_89", "sm_90a", "sm_120"])
def test_fp8_products_compile_where_the_hardware_has_them(arch: str) -> None:
    assert "e4m3" in compiles(programs.products(arch, fp8=True)).ptx


def test_fp8_products_are_refused_where_the_hardware_has_none() -> None:
    with pytest.raises(TargetError, match="TB508") as error:
        emit(programs.products("sm_80", fp8=True))
    assert "sm_89" in str(error.value)


def test_the_suites_use_every_piece_of_the_prelude() -> None:
    seen: set[str] = set()
    pieces = {n: piece for n, piece in PIECES.items() if piece.bodies[0][0] <= 80}  # newer: Hopper's tests
    for make in SUITES.values():
        text = emit(make("sm_80")).text
        seen |= {name for name, piece in pieces.items() if piece.text(80) in text}
    unused = set(pieces) - seen
    assert unused <= {"pack_f16", "pack_bf16"}, unused
