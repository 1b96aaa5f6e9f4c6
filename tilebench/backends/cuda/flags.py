"""Compile flags of the user's: which NVRTC takes, which are for nvcc alone, which the target decides."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from tilebench.backends.cuda import nvrtc

_WITH_VALUE = frozenset(
    ["-D", "-U", "-I", "-Xptxas", "-Xcompiler", "-arch", "-code", "-gencode", "-std", "-maxrregcount",
     "--define-macro", "--undefine-macro", "--include-path", "--ptxas-options", "--compiler-options",
     "--gpu-architecture", "--gpu-code", "--generate-code", "--std", "--maxrregcount", "--diag-suppress"]
)  # fmt: skip
"""Flags whose value may stand behind them, as a word of its own."""
_OURS = re.compile(
    r"-(-gpu-architecture|arch|-gpu-code|code|-generate-code|gencode"  # the target says it
    r"|-relocatable-device-code|rdc|-device-c|dc|-dlink-time-opt|dlto|-pch|-create-pch|-use-pch)\b"
)
"""What is made for which GPU is settled: one cubin for the target's."""
_PTXAS = ("-Xptxas", "--ptxas-options")
_END = "--tilebench-end-of-flags"


@dataclass(frozen=True)
class Flags:
    """What becomes of flags. passed: to NVRTC; ours: the target decides; unknown: NVRTC has none such."""

    passed: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def words(flags: Iterable[str]) -> tuple[str, ...]:
    """Flags one by one, each with its value: '-O3 -D N=1' are '-O3' and '-DN=1', and
    '--ptxas-options=-v,-O2' are two for ptxas.
    """
    found: list[str] = []
    split = iter([word for flag in flags for word in shlex.split(str(flag))])
    for word in split:
        value = next(split, "") if word in _WITH_VALUE else ""
        name, joint, rest = word.partition("=")
        if name in _PTXAS:
            found += [f"--ptxas-options={one}" for one in (rest or value).split(",") if one]
        elif value:
            found.append(f"{word}{'=' if len(word) > 2 else ''}{value}")
        else:
            found.append(f"{name}{joint}{rest}")
    return tuple(found)


@cache
def sort(flags: tuple[str, ...]) -> Flags:
    """What becomes of flags, as the user wrote them. Without NVRTC nothing is known, and nothing passed."""
    if not flags or not nvrtc.available():
        return Flags()
    passed = [w for w in words(flags) if not _OURS.match(w)]
    unknown: list[str] = []
    while (refused := nvrtc.unrecognised([*passed, _END])) in passed:
        unknown.append(refused)
        passed.remove(refused)
    return Flags(tuple(passed), tuple(w for w in words(flags) if _OURS.match(w)), tuple(unknown))


def said(flags: Flags) -> list[str]:
    """Sentences on what was left out."""
    made: list[str] = []
    if flags.unknown:
        made.append(f"{', '.join(flags.unknown)}: NVRTC has no such flag (it is nvcc's, or misspelled)")
    if flags.ours:
        made.append(f"{', '.join(flags.ours)}: the target says what is made")
    return made
