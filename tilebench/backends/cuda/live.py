"""How many registers are live on each line of PTX, and how often each opcode stands in a listing.

PTX has as many virtual registers as it likes; how many hold a value that is still wanted, in 32-bit words,
says where the pressure is before ptxas decides. Found by the usual backward analysis over basic blocks.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

_REGISTER = re.compile(r"%(rd|rs|rc|fd|fs|f|r|h|b|p|q)\d+")
_WORDS = {"rd": 2, "fd": 2, "r": 1, "f": 1, "rs": 1, "fs": 1, "h": 1, "b": 1, "rc": 1, "p": 0, "q": 4}
"""32-bit registers for a virtual one of each kind; predicates have a file of their own."""
_GUARD = re.compile(r"^@(!?)(%p\d+)\s+")
_LABEL = re.compile(r"^(\$?[\w$]+):")
_TARGET = re.compile(r"(\$[\w$]+)\s*;")
_NO_RESULT = (
    "st", "red", "bar", "bra", "ret", "exit", "cp", "fence", "membar", "prefetch", "trap", "barrier",
    "discard", "setmaxnreg", "nanosleep", "griddepcontrol", "stmatrix", "brkpt",
)  # fmt: skip


@dataclass
class _Line:
    uses: int = 0
    defines: int = 0
    target: str = ""
    falls: bool = True
    kept: bool = False
    """A guarded instruction leaves the old value in place when the guard is false."""


def opcode(line: str) -> str:
    """The operation of a line of PTX or SASS without qualifiers; '' for directives, labels and remarks."""
    text = line.strip()
    m = re.match(r"^[0-9a-f]{4,}\s+", text)  # an address, in our SASS
    text = text[m.end() :] if m else text
    text = re.sub(r"^@!?U?%?P\w+\s+", "", re.sub(r"^@!?%p\d+\s+", "", text))
    if not text or text[0] in "./{}()$" or text.endswith(":"):
        return ""
    found = re.match(r"[A-Za-z_][\w]*", text)
    return found[0] if found else ""


def mix(text: str) -> dict[str, int]:
    """How often each opcode stands in the text, the most frequent first."""
    seen = Counter(op for line in text.splitlines() if (op := opcode(line)))
    return dict(seen.most_common())


@lru_cache(maxsize=16)
def live_registers(ptx: str) -> tuple[int, ...]:
    """32-bit registers that are live after each line of PTX (0 for directives and blank lines)."""
    texts = ptx.split("\n")
    numbers: dict[str, int] = {}
    labels: dict[str, int] = {}
    lines: list[_Line] = []
    for k, raw in enumerate(texts):
        label = _LABEL.match(raw.strip())
        if label is not None:
            labels[label[1]] = k
        lines.append(_parse(raw.strip(), numbers))
    words = [_WORDS[re.match(r"%([a-z]+)", name)[1]] for name in numbers]  # type: ignore[index]
    after = [0] * (len(lines) + 1)
    out = [0] * len(lines)
    changed = True
    while changed:
        changed = False
        for k in range(len(lines) - 1, -1, -1):
            line = lines[k]
            flow = after[k + 1] if line.falls else 0
            if line.target:
                flow |= after[labels.get(line.target, len(lines))]
            out[k] = flow
            entering = flow if line.kept else flow & ~line.defines
            entering |= line.uses
            if entering != after[k]:
                after[k] = entering
                changed = True
    heavy = [i for i, w in enumerate(words) if w]
    twice = sum(1 << i for i in heavy if words[i] >= 2)
    once = sum(1 << i for i in heavy)
    counted: list[int] = []
    for k, line in enumerate(lines):
        here = out[k] | line.defines
        real = bool(line.uses or line.defines or line.target or not line.falls)
        counted.append((here & once).bit_count() + (here & twice).bit_count() if real else 0)
    return tuple(counted)


def _parse(text: str, numbers: dict[str, int]) -> _Line:
    line = _Line()
    guard = _GUARD.match(text)
    if guard is not None:
        line.uses |= _bit(guard[2], numbers)
        line.kept = True
        text = text[guard.end() :]
    op = opcode(text)
    if not op:
        return line
    if op in ("bra", "brx"):
        target = _TARGET.search(text)
        line.target = target[1] if target else ""
        line.falls = guard is not None
    elif op in ("ret", "exit", "trap"):
        line.falls = guard is not None
    operands = text.split(None, 1)[1] if len(text.split(None, 1)) > 1 else ""
    first, rest = "", operands
    if not op.startswith(_NO_RESULT) and not operands.lstrip().startswith("["):
        first, rest = _first(operands)
    for name in _REGISTER.finditer(first):
        line.defines |= _bit(name[0], numbers)
    for name in _REGISTER.finditer(rest):
        line.uses |= _bit(name[0], numbers)
    if op == "wgmma":  # the accumulator is read as well
        line.uses |= line.defines
    return line


def _first(operands: str) -> tuple[str, str]:
    """(the first operand, the rest): up to the first comma outside braces."""
    depth = 0
    for k, c in enumerate(operands):
        depth += (c == "{") - (c == "}")
        if c == "," and depth == 0:
            return operands[:k], operands[k + 1 :]
    return operands, ""


def _bit(name: str, numbers: dict[str, int]) -> int:
    return 1 << numbers.setdefault(name, len(numbers))
