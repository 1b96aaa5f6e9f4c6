"""Completion of `%%tile`'s options and of their values, on the magic's own line only."""

from __future__ import annotations

import re
from typing import Any

SHOWN = (
    "layout", "smem", "code", "passes", "warps", "timeline", "step", "diff", "roofline", "findings", "board",
    "none",
)  # fmt: skip
"""What --show takes."""
OPTIONS = (
    "--target", "--args", "--ref", "--set", "--show", "--bench", "--as", "--atol", "--rtol", "--no-run",
    "--no-check", "--isolate",
    "--static", "--seed", "--quiet", "--traceback",
)  # fmt: skip
VALUES = {
    "--target": ("auto", "interp", "emu", "emu:sm_80", "emu:sm_90a", "cpu", "cuda",
                 "cuda:sm_80", "cuda:sm_86", "cuda:sm_89", "cuda:sm_90a", "cuda:sm_120"),
    "--show": SHOWN,
}  # fmt: skip
COMMANDS = ("list", "show", "diff", "doctor", "export", "clear", "config")


def candidates(line: str) -> list[str] | None:
    """Completions of the last word of a `%%tile` or `%tile` line; None when it is not such a line."""
    match = re.match(r"\s*(%%?)tile\b(.*)$", line, re.DOTALL)
    if match is None or "\n" in line:
        return None
    words = re.split(r"\s+", match[2])
    last = words[-1] if words else ""
    earlier = [w for w in words[:-1] if w]
    if match[1] == "%" and not earlier:
        return [c for c in COMMANDS if c.startswith(last)]
    option = next((w for w in reversed(earlier) if w.startswith("--")), "")
    if option in VALUES and not last.startswith("-"):
        taken = earlier[len(earlier) - 1 - earlier[::-1].index(option) + 1 :]
        if option == "--show" or not taken:
            return [v for v in VALUES[option] if v.startswith(last)]
    if last.startswith("-") or not last:
        return [o for o in OPTIONS if o.startswith(last) and o not in earlier]
    return None


def install(shell: Any) -> None:
    """Add the matcher to IPython's completer."""
    from IPython.core.completer import (
        SimpleCompletion,
        context_matcher,  # pyright: ignore[reportUnknownVariableType] # untyped
    )

    @context_matcher()  # type: ignore[no-untyped-call]
    def tile_matcher(context: Any) -> Any:
        first = context.full_text.split("\n", 1)[0]
        line = context.line_with_cursor if context.cursor_line == 0 else "\n"
        if context.cursor_line == 0 and first.lstrip().startswith(("%%tile", "%tile")):
            found = candidates(line)
            if found is not None:
                return {
                    "completions": [SimpleCompletion(text=c, type="option") for c in found],
                    "suppress": True,
                }
        return {"completions": [], "suppress": False}

    shell.tilebench_matcher = tile_matcher
    shell.Completer.custom_matchers.append(tile_matcher)


def remove(shell: Any) -> None:
    """Take the matcher out again."""
    matcher = getattr(shell, "tilebench_matcher", None)
    if matcher in shell.Completer.custom_matchers:
        shell.Completer.custom_matchers.remove(matcher)
