"""Every public name of TileLang has a verdict; what is said to be supported is there, and is tested."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tilebench
import tilebench.language as T
from tilebench.ir.dtype import DType
from tilebench.kernel.options import ACTING, PassConfigKey
from tilebench.language.dtypes import NamedType
from tilebench.ops.base import Op

HERE = Path(__file__).parent


@cache
def listed() -> dict[str, list[str]]:
    """The names of tilelang_names.txt by section."""
    found: dict[str, list[str]] = {}
    names: list[str] = []
    for line in (HERE / "tilelang_names.txt").read_text().splitlines():
        if line.startswith("["):
            names = found.setdefault(line[1:-1], [])
        elif not line.startswith("#"):
            names += line.split()
    return found


def every() -> list[str]:
    return [
        f"{section.removesuffix(' modules')}.{name}" for section, names in listed().items() for name in names
    ]


def test_every_name_has_a_verdict_and_a_reason() -> None:
    verdicts = [tilebench.compat(name) for name in every()]
    assert [v.name for v in verdicts if v.status == "unknown"] == []
    assert [v.name for v in verdicts if not v.why or (v.status == "refused" and not v.fix)] == []
    counts = Counter(v.status for v in verdicts if v.name.startswith("T."))
    assert counts["supported"] + counts["translated"] > 230


def test_a_name_of_a_dialect_is_the_languages_and_an_unknown_one_stays_unknown() -> None:
    assert tilebench.compat("tilelang.cuda.language.copy").status == "supported"
    assert tilebench.compat("tilelang.language.fp8.determine_fp8_type").status == "supported"
    for name in ("T.nonsense", "tilelang.nonsense", "tilelang.language.nonsense", "tilelang.jit.nonsense"):
        assert tilebench.compat(name).status == "unknown"


@pytest.mark.parametrize("dtype", [T.float32x4, T.float4_e2m1fn])
def test_types_that_can_only_be_named_are_refused_as_elements(dtype: Any) -> None:
    def make() -> Any:
        @T.prim_func
        def program(A: T.Tensor((8,), "float32")):
            with T.Kernel(1, threads=32):
                x = T.alloc_local((4,), dtype)
                x[0] = A[0]

        return program

    with pytest.raises(tilebench.TileError):
        tilebench.compile(make(), target="interp")


def resolved(path: str) -> Any:
    """What a dotted path in tilebench names. Raises AttributeError or ImportError."""
    found: Any = tilebench
    done = "tilebench"
    for part in path.split("."):
        done = f"{done}.{part}"
        found = getattr(found, part) if hasattr(found, part) else importlib.import_module(done)
    return found


def test_what_is_supported_or_translated_exists() -> None:
    for name in every():
        verdict = tilebench.compat(name)
        if name.startswith("T.") and verdict.status in ("supported", "translated"):
            assert name[2:] in T.__all__, name
        elif name.startswith("tilelang.") and verdict.status == "supported":
            resolved(name.removeprefix("tilelang."))


def test_what_is_refused_is_refused_in_a_program() -> None:
    """The verdict and the compiler agree: neither offers what the other refuses."""
    for name in listed()["T"]:
        if tilebench.compat(f"T.{name}").status == "refused":
            there = getattr(T, name, None)
            assert name not in T.__all__, name
            assert there is None or isinstance(there, NamedType) or not isinstance(there, DType | Op), name


@cache
def used() -> frozenset[str]:
    """Names that some test, or the example of some op, uses as T.name."""
    root = HERE.parent
    texts = [p.read_text() for p in root.rglob("*.py")]
    found = {n for text in texts for n in re.findall(r"\bT\.(\w+)", text)}
    examples = [p.read_text() for p in (root.parent / "tilebench" / "ops").rglob("*.py")]
    made = " ".join(text.partition("def examples")[2] or text for text in examples if "Draft" in text)
    return frozenset(found | set(re.findall(r"\b(\w+)\(", made)))


def test_every_supported_name_of_the_language_is_used_by_a_test() -> None:
    names = [n for n in T.__all__ if tilebench.compat(f"T.{n}").status in ("supported", "translated")]
    assert [n for n in names if n not in used()] == []


@pytest.mark.parametrize("key", listed()["PassConfigKey"])
def test_pass_configs_have_a_verdict_by_name_and_by_text(key: str) -> None:
    member = PassConfigKey[key]
    expected = "supported" if member in ACTING else "accepted"
    for spelled in (f"PassConfigKey.{key}", f"tilelang.PassConfigKey.{key}", member.value):
        assert tilebench.compat(spelled).status == expected, spelled
