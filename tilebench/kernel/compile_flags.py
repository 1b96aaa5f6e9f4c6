"""What is said of `compile_flags`: which reached the CUDA compiler, and which do nothing."""

from __future__ import annotations

import warnings
from functools import cache

from tilebench.kernel.compiled import Kernel
from tilebench.report import Finding


def left_out(kernel: Kernel) -> tuple[str, ...]:
    """Sentences on the flags that do nothing."""
    asked = kernel.prim.compile_flags
    if not asked:
        return ()
    if kernel.target.kind != "cuda":
        return (f"{' '.join(asked)}: they are the CUDA compiler's, and {kernel.target} has none",)
    from tilebench.backends.cuda import flags

    return tuple(flags.said(flags.sort(asked)))


def notice(kernel: Kernel) -> None:
    """Warn of the flags that do nothing on a GPU, once a process for the same ones."""
    if kernel.target.kind == "cuda" and kernel.prim.compile_flags:
        for sentence in left_out(kernel):
            _warn(sentence)


@cache
def _warn(sentence: str) -> None:
    warnings.warn(f"compile_flags {sentence}", stacklevel=4)


def findings(kernel: Kernel) -> list[Finding]:
    """What the report says of the flags."""
    made = [
        Finding("flags", "info" if kernel.target.kind != "cuda" else "warning", f"compile_flags {sentence}")
        for sentence in left_out(kernel)
    ]
    if kernel.target.kind == "cuda" and kernel.prim.compile_flags:
        from tilebench.backends.cuda import flags

        passed = flags.sort(kernel.prim.compile_flags).passed
        if passed:
            text = f"compile_flags: the CUDA compiler was given {' '.join(passed)}"
            hint = "the oracle's bounds are of the program's own arithmetic: they know of no fast math"
            made.append(Finding("flags", "info", text, hint=hint if _inexact(passed) else ""))
    return made


def _inexact(passed: tuple[str, ...]) -> bool:
    return any(word in flag for flag in passed for word in ("fast_math", "ftz", "prec-", "fmad"))
