"""Completion of `%%tile`'s options and of their values, on the magic's own line; body.py does the rest."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from tilebench import config
from tilebench.notebook.body import names_at

PRIORITY = 100
"""Ahead of static analysis, which takes seconds at first: front ends do not wait for it."""
SHOWN = (
    "layout", "smem", "code", "passes", "warps", "timeline", "step", "diff", "roofline", "findings", "board",
    "none",
)  # fmt: skip
"""What --show takes."""
OPTIONS = (
    "--target", "--args", "--ref", "--set", "--show", "--bench", "--as", "--atol", "--rtol", "--run",
    "--no-run", "--check", "--no-check", "--steps", "--cta", "--trace-warps", "--compare", "--sweep",
    "--override", "--save", "--isolate", "--static", "--seed", "--quiet", "--traceback",
)  # fmt: skip
TARGETS = ("auto", "interp", "emu", "emu:sm_80", "emu:sm_90a", "cpu", "cuda",
           "cuda:sm_80", "cuda:sm_86", "cuda:sm_89", "cuda:sm_90a", "cuda:sm_120")  # fmt: skip
VALUES: dict[str, tuple[str, ...]] = {
    "--target": TARGETS,
    "--show": SHOWN,
    "--check": ("none", "static", "sim", "full"),
    "--override": ("cuda",),
    "--bench": ("20", "100"),
    "--cta": ("0,0,0",),
    "--trace-warps": ("parts", "statements"),
    "--seed": ("0", "1"),
    "--save": ("report.tbz", "report.json", "report.html"),
}
AGAIN = ("--set", "--sweep")
"""Options that may be given more than once."""
COMMANDS = ("list", "show", "diff", "device", "doctor", "export", "clear", "config")
_SHORT = {"-t": "--target", "-a": "--args", "-r": "--ref", "-s": "--set", "-q": "--quiet"}


@dataclass(frozen=True)
class Known:
    """What completion can name beside the options: kernels of this notebook by key, names of the cell that
    can be set, buffers of the cell, variables that hold tensors or functions, keys of the configuration.
    """

    kernels: Sequence[str] = ()
    settable: Sequence[str] = ()
    buffers: Sequence[str] = ()
    tensors: Sequence[str] = ()
    functions: Sequence[str] = ()
    settings: Sequence[str] = ()


NOTHING = Known()


def candidates(line: str, known: Known = NOTHING) -> list[str] | None:
    """Completions of the last word of a `%%tile` or `%tile` line; None when it is not such a line."""
    match = re.match(r"\s*(%%?)tile\b(.*)$", line, re.DOTALL)
    if match is None or "\n" in line:
        return None
    words = re.split(r"\s+", match[2])
    last = words[-1] if words else ""
    earlier = [w for w in words[:-1] if w]
    if match[1] == "%" and (not earlier or earlier[0] in COMMANDS):
        return _of_command(earlier, last, known)
    attached = re.fullmatch(r"(--[\w-]+)=(.*)", last)
    if attached is not None:
        values = _values(attached[1], attached[2], known) or []
        return [f"{attached[1]}={v}" for v in values if v.startswith(attached[2])]
    places = [k for k, w in enumerate(earlier) if w.startswith("-")]
    if places and not last.startswith("-"):
        option = _SHORT.get(earlier[places[-1]], earlier[places[-1]])
        taken = earlier[places[-1] + 1 :]
        values = _values(option, last, known)
        if values is not None and (option == "--show" or not taken):
            return [v for v in values if v.startswith(last) and v not in taken]
    if last.startswith("-") or not last:
        return [o for o in OPTIONS if o.startswith(last) and (o in AGAIN or o not in earlier)]
    return None


def _values(option: str, last: str, known: Known) -> list[str] | None:
    """What may follow an option; None when it takes no value, or any."""
    if option in VALUES:
        return list(VALUES[option])
    match option:
        case "--set" | "--sweep":
            return [f"{name}=" for name in known.settable]
        case "--compare":
            return list(known.kernels)
        case "--steps":
            head, comma, _ = last.rpartition(",")
            return [head + comma + b for b in known.buffers if b not in head.split(",")]
        case "--args":
            return list(known.tensors)
        case "--ref":
            return list(known.functions)
        case _:
            return None


def _of_command(earlier: Sequence[str], last: str, known: Known) -> list[str]:
    """Words of a line of `%tile`."""
    if not earlier:
        return [c for c in (*COMMANDS, *known.kernels) if c.startswith(last)]
    found: Sequence[str]
    match earlier[0]:
        case "show":
            named = any(w in known.kernels for w in earlier[1:])
            found = [*(() if named else known.kernels), *(v for v in SHOWN if v != "none")]
        case "diff":
            found = known.kernels if len(earlier) < 3 else ()
        case "export":
            found = known.kernels if len(earlier) == 1 else ("report.tbz", "report.json", "report.html")
        case "clear":
            found = known.kernels
        case "config":
            found = [f"{s}=" for s in known.settings]
        case _:
            found = ()
    return [w for w in found if w.startswith(last) and w not in earlier]


def known_to(shell: Any, cell: str) -> Known:
    """What the shell and the text of the cell let completion name.

    cell: all of it, the magic's line included.
    """
    from tilebench.kernel.settings import settable

    scope = cast("dict[str, Any]", shell.user_ns)
    body = cell.partition("\n")[2]
    magics = getattr(shell, "tilebench_magics", None)
    hidden = cast("dict[str, Any]", getattr(shell, "user_ns_hidden", {}))
    own = [(n, v) for n, v in scope.items() if not n.startswith("_") and hidden.get(n) is not v]
    made = re.findall(r"^\s*(\w+)\s*=\s*T\.(?:alloc_\w+|empty)\b", body, re.MULTILINE)
    declared = re.findall(r"(\w+)\s*:\s*T\.\w*Tensor\b", body)
    return Known(
        kernels=tuple(magics.results) if magics is not None else (),
        settable=settable(body, scope),
        buffers=tuple(dict.fromkeys([*declared, *made])),
        tensors=tuple(n for n, v in own if hasattr(v, "shape") and hasattr(v, "dtype")),
        functions=tuple(n for n, v in own if inspect.isfunction(v)),
        settings=tuple(config.Config.__dataclass_fields__),
    )


def install(shell: Any) -> None:
    """Add the matcher to IPython's completer."""
    from IPython.core.completer import (
        SimpleCompletion,
        context_matcher,  # pyright: ignore[reportUnknownVariableType] # untyped
    )

    @context_matcher(priority=PRIORITY)  # type: ignore[no-untyped-call]
    def tile_matcher(context: Any) -> Any:
        first = context.full_text.split("\n", 1)[0]
        if context.cursor_line > 0 and first.lstrip().startswith("%%tile"):
            lines = context.full_text.split("\n")[: context.cursor_line]
            place = sum(len(line) + 1 for line in lines) + len(context.line_with_cursor)
            own = names_at(context.full_text, place, shell.user_ns)
            if own is not None and own.names:
                return {
                    "completions": [SimpleCompletion(text=n, type=kind) for n, kind in own.names],
                    "matched_fragment": own.fragment,
                    "suppress": True,
                }
        line = context.line_with_cursor if context.cursor_line == 0 else "\n"
        if context.cursor_line == 0 and first.lstrip().startswith(("%%tile", "%tile")):
            found = candidates(line, known_to(shell, context.full_text))
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
