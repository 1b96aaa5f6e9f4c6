"""What changed between two compiles, as data: deltas with a verdict, layouts that moved, texts."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from tilebench.report import (
    CodeText,
    CompareInfo,
    Delta,
    Figure,
    LayoutDelta,
    LayoutInfo,
    Report,
    TextDelta,
)
from tilebench.views.base import figure_text, signed
from tilebench.views.layout import MAX_ELEMENTS, holders
from tilebench.views.smem import byte_offsets
from tilebench.views.summary import plain

MAP_CELLS = 32
"""The map of a moved layout has at most this many rows and columns."""
TEXT_LINES = 80
"""Lines of a text difference that a report keeps, by level; longer texts than COMPARED_LINES are only
counted.
"""
COMPARED_LINES = 3000
CONTEXT = 2
LEVELS = ("cell", "tile", "thread", "cuda", "ptx", "sass", "llvm", "asm")

FIRST = ("run_ms", "predicted_us")
PARTS_OF_COMPILE = frozenset(["emit_ms", "nvrtc_ms", "build_ms", "ptxas_ms", "llvm_ms", "optimise_ms"])
"""Shown in the figures, too much for a card: `compile time` has them in it."""
IMITATIONS = frozenset(["emulator_time_ms", "interpreter_time_ms"])
"""How long it takes to imitate a device says nothing of the kernel."""

Group = Literal["setting", "resource", "time", "instruction", "result"]
Verdict = Literal["better", "worse", ""]


def compare(before: Report, after: Report) -> CompareInfo:
    """Everything that differs, the most telling first. Pure: from the two reports alone."""
    return CompareInfo(
        before.name,
        before.id,
        after.name,
        tuple(_deltas(before, after)),
        tuple(_layouts(before, after)),
        tuple(_texts(before, after)),
    )


# ------------------------------------------------------------------ numbers


def _verdict(old: float, new: float, lower_is_better: bool) -> Verdict:
    if old == new:
        return ""
    return "better" if (new < old) == lower_is_better else "worse"


def _deltas(before: Report, after: Report) -> list[Delta]:
    rows: list[Delta] = []

    def add(
        group: Group, what: str, old: object, new: object, change: str = "", verdict: Verdict = ""
    ) -> None:
        if old != new:
            shown = ["–" if x is None or x == "" else str(x) for x in (old, new)]
            rows.append(Delta(group, what, shown[0], shown[1], change, verdict))

    add("result", "verdict", before.verdict, after.verdict, "", _correct(before.ok, after.ok))
    add("setting", "target", before.target, after.target)
    for key in sorted({*before.config, *after.config}):
        add("setting", key, before.config.get(key), after.config.get(key))
    b, a = before.resources, after.resources
    counts: tuple[tuple[str, Callable[[Any], Any], bool], ...] = (
        ("registers a thread", lambda r: r.registers, True),
        ("spilled bytes", lambda r: r.spill_bytes, True),
        ("shared bytes", lambda r: r.shared_bytes, True),
        ("threads", lambda r: r.threads, True),
        ("blocks an SM", lambda r: r.blocks_per_sm, False),
    )
    for what, of, lower in counts:
        old, new = of(b), of(a)
        both = isinstance(old, int) and isinstance(new, int)
        judged = _verdict(old, new, lower) if both and what != "threads" else ""
        add("resource", what, old, new, signed(f"{new - old:+d}") if both else "", judged)
    add("resource", "grid", _grid(b.grid), _grid(a.grid))
    _figure(rows, "resource", "occupancy", b.occupancy, a.occupancy, False)
    add("resource", "occupancy limited by", b.limiter, a.limiter)
    names = dict.fromkeys((*FIRST, *before.figures, *after.figures))
    for name in names:
        old, new = before.figures.get(name), after.figures.get(name)
        if name in PARTS_OF_COMPILE | IMITATIONS or (old is None and new is None):
            continue
        if name == "run_ms" and not (_runs_there(before) and _runs_there(after)):
            continue  # reports of older versions call imitating one a run
        group: Group = "time" if name.endswith(("_us", "_ms")) else "resource"
        of_kernel = name in FIRST or (group == "resource" and name not in ("flops", "bytes"))
        judged = True if of_kernel else None
        _figure(rows, group, plain(name), old, new, judged, name)
    _accesses(rows, before, after)
    limits = [r.roofline.limiter if r.roofline else None for r in (before, after)]
    add("time", "limited by", limits[0], limits[1])
    old_ops, new_ops = ({o.id: o for o in r.ops} for r in (before, after))
    for ident in dict.fromkeys((*old_ops, *new_ops)):
        one, two = old_ops.get(ident), new_ops.get(ident)
        if one and two and one.name == two.name:
            add("instruction", f"{one.name} is carried out by", one.instruction, two.instruction)
    mixes = mix(before), mix(after)
    if mixes[0][0] == mixes[1][0]:
        for name in dict.fromkeys((*mixes[0][1], *mixes[1][1])):
            old, new = mixes[0][1].get(name, 0), mixes[1][1].get(name, 0)
            add("instruction", f"{name} in {mixes[0][0].upper()}", old, new, signed(f"{new - old:+d}"))
    return rows


def _runs_there(report: Report) -> bool:
    """Whether a launch takes place on the device itself: a GPU or this CPU."""
    return report.target.partition(":")[0] in ("cuda", "cpu")


def _accesses(rows: list[Delta], before: Report, after: Report) -> None:
    """Memory accesses whose efficiency or bank conflicts changed, by buffer, kind and provenance."""
    old, new = ({(a.buffer, a.kind, a.provenance): a for a in reversed(r.accesses)} for r in (before, after))
    for key in (
        k for k in dict.fromkeys((a.buffer, a.kind, a.provenance) for a in before.accesses) if k in new
    ):
        one, two, (buffer, kind, provenance) = old[key], new[key], key
        if round(one.efficiency, 3) != round(two.efficiency, 3):
            was, now = (f"{a.efficiency:.0%} ({provenance})" for a in (one, two))
            change = signed(f"{100 * (two.efficiency - one.efficiency):+.3g} points")
            judged = _verdict(one.efficiency, two.efficiency, False)
            rows.append(Delta("resource", f"bytes used of {buffer}, {kind}", was, now, change, judged))
        if one.conflict_ways != two.conflict_ways:
            was, now = (f"{a.conflict_ways}-way ({provenance})" for a in (one, two))
            judged = _verdict(one.conflict_ways, two.conflict_ways, True)
            rows.append(Delta("resource", f"bank conflicts of {buffer}, {kind}", was, now, "", judged))


def _grid(grid: tuple[int, ...]) -> str:
    return " x ".join(map(str, grid))


def _correct(old: bool | None, new: bool | None) -> Verdict:
    if old == new or new is None:
        return ""
    return "better" if new else "worse"


def _figure(
    rows: list[Delta],
    group: Group,
    what: str,
    old: Figure | None,
    new: Figure | None,
    lower_is_better: bool | None,
    name: str = "",
) -> None:
    """A figure's delta; numbers from different sources are shown and never subtracted, and times of runs
    are judged only when both are medians whose quartiles lie apart. name: its key among the figures.
    """
    if old == new:
        return
    change, verdict = "", ""
    if old and new and old.unit == new.unit:
        same = (old.provenance, old.device) == (new.provenance, new.device)
        if same and old.value == new.value:
            return
        if same and name == "run_ms" and bool(old.rounds) != bool(new.rounds):
            change = "not comparable: a single run and a median (--bench times both alike)"
        elif same and old.value:
            change = signed(f"{100 * (new.value / old.value - 1):+.3g}%")
            doubt = _doubt(old, new) if name == "run_ms" else ""
            change += f", {doubt}" if doubt else ""
            if lower_is_better is not None and not doubt:
                verdict = _verdict(old.value, new.value, lower_is_better)
        elif not same:
            change = "not comparable: different sources"
    rows.append(
        Delta(
            group, what, figure_text(old) if old else "–", figure_text(new) if new else "–", change, verdict
        )
    )


def _doubt(old: Figure, new: Figure) -> str:
    """Why two measured times decide nothing, '' when they do."""
    if not old.rounds and not new.rounds:
        return "single runs: --bench gives medians"
    ends = old.low, old.high, new.low, new.high
    if None not in ends and max(old.low or 0, new.low or 0) <= min(old.high or 0, new.high or 0):
        return "within the spread"
    return ""


# ------------------------------------------------------------------ instructions

KINDS: tuple[tuple[str, str], ...] = (
    ("tensor products", r"^(mma|wgmma\.mma|HMMA|HGMMA|IMMA|IGMMA|QGMMA|QMMA)"),
    ("ldmatrix", r"^(ldmatrix|LDSM)"),
    ("stmatrix", r"^(stmatrix|STSM)"),
    ("asynchronous copies", r"^(cp\.async\.(c[ag]|bulk)|LDGSTS|UTMALDG|UTMASTG|UBLKCP)"),
    ("global loads", r"^(ld\.global|LDG)"),
    ("global stores", r"^(st\.global|STG)"),
    ("shared loads", r"^(ld\.shared|LDS)"),
    ("shared stores", r"^(st\.shared|STS)"),
    ("spills", r"^(ld\.local|st\.local|LDL|STL)"),
    ("barriers", r"^(bar\.|barrier|mbarrier|BAR|SYNCS)"),
    ("shuffles", r"^(shfl|SHFL)"),
    ("special functions", r"^(ex2|lg2|rcp|rsqrt|sqrt|sin|cos|tanh|MUFU)"),
    ("float arithmetic", r"^(fma|mul|add|sub|min|max)(\.\w+)*\.(f|bf)(16|16x2|32|64)$"),
    ("float arithmetic", r"^(F(FMA|MUL|ADD|MNMX)|H(FMA|MUL|ADD)2)"),
    ("branches", r"^(bra|BRA|BSSY|BSYNC)"),
)  # fmt: skip
_KINDS = tuple((name, re.compile(pattern)) for name, pattern in KINDS)
_OPCODE = re.compile(r"^\s*(?:/\*[0-9a-f]+\*/\s*|[0-9a-f]{4,}\s+)?(?:@!?%?\w+\s+)?([A-Za-z][\w.]*)")


def mix(report: Report) -> tuple[str, dict[str, int]]:
    """(level, instructions by kind) of the machine code, else of the PTX; ('', {}) without either."""
    texts = {c.level: c for c in report.code}
    for level in ("sass", "ptx"):
        if level in texts:
            return level, _mix(texts[level])
    return "", {}


def _mix(text: CodeText) -> dict[str, int]:
    found: Counter[str] = Counter()
    for line in text.text.split("\n"):
        opcode = _OPCODE.match(line)
        if opcode is None or line.lstrip().startswith(("//", ".", "{", "}", "$")):
            continue
        kind = next((name for name, pattern in _KINDS if pattern.match(opcode[1])), "integer and other")
        found[kind] += 1
    order = dict.fromkeys([*(name for name, _ in KINDS), "integer and other"])
    return {name: found[name] for name in order if found[name]}


# ------------------------------------------------------------------ layouts


def _layout_key(info: LayoutInfo) -> tuple[Any, ...]:
    table = None if info.table is None else np.asarray(info.table).tobytes()
    plan = (info.strides, info.panel, info.panel_stride, info.swizzle)
    return (info.kind, info.shape, info.reg, info.thread, *plan, table)


def _words(info: LayoutInfo | None) -> str:
    if info is None:
        return "–"
    if info.kind == "fragment":
        return (
            f"{'x'.join(map(str, info.shape))} over {info.threads} threads, {info.registers} registers each"
        )
    return info.formula


def _places(info: LayoutInfo | None) -> str:
    lines = info.formula.split("\n") if info is not None else []
    return "; ".join(t for t in lines if t.startswith(("thread =", "register ="))) or _words(info)


def _layouts(before: Report, after: Report) -> list[LayoutDelta]:
    old, new = ({i.buffer: i for i in r.layouts} for r in (before, after))
    rows: list[LayoutDelta] = []
    for name in dict.fromkeys((*old, *new)):
        one, two = old.get(name), new.get(name)
        if one is not None and two is not None and _layout_key(one) == _layout_key(two):
            continue
        moved = None if one is None or two is None else _moved(one, two)
        words = _words(one), _words(two)
        if words[0] == words[1]:  # the same sizes: what differs is who holds what
            words = _places(one), _places(two)
        if moved is None:
            rows.append(LayoutDelta(name, *words))
        else:
            rows.append(LayoutDelta(name, *words, int(moved.sum()), moved.size, _map(moved)))
    return rows


def _moved(one: LayoutInfo, two: LayoutInfo) -> np.ndarray | None:
    """bool [shape]: elements in another thread, register or byte; None when the tiles are not comparable."""
    size = int(np.prod(one.shape))
    if one.kind != two.kind or one.shape != two.shape or not 0 < size <= MAX_ELEMENTS:
        return None
    if one.kind == "shared":
        return np.asarray(byte_offsets(one) != byte_offsets(two)).reshape(one.shape)
    a, b = holders(one), holders(two)
    return np.asarray((a.thread != b.thread) | (a.register != b.register)).reshape(one.shape)


def _map(moved: np.ndarray) -> np.ndarray:
    """uint8 [rows, columns] of at most MAP_CELLS: the share of each part that moved."""
    flat = moved.reshape(-1, moved.shape[-1]) if moved.ndim > 1 else moved.reshape(1, -1)
    rows, columns = (min(n, MAP_CELLS) for n in flat.shape)
    parts = [np.array_split(line, columns, axis=1) for line in np.array_split(flat, rows, axis=0)]
    return np.array([[round(255 * float(p.mean())) for p in line] for line in parts], np.uint8)


# ------------------------------------------------------------------ texts

_REGISTER = re.compile(
    r"%\w+|\bU?[RP]\d+\b|/\*[0-9a-fx]+\*/|^[0-9a-f]{4,}(?=\s)|\b0x[0-9a-f]+\b|\$L\w+|\bL_x?_?\d+\b",
    re.MULTILINE,
)


def _texts(before: Report, after: Report) -> list[TextDelta]:
    old = {c.level: c.text for c in before.code} | {"cell": before.source}
    new = {c.level: c.text for c in after.code} | {"cell": after.source}
    rows: list[TextDelta] = []
    for level in LEVELS:
        if level in old and level in new and old[level] != new[level]:
            made = text_delta(level, old[level], new[level])
            if made.added or made.removed:
                rows.append(made)
    return rows


def text_delta(level: str, old: str, new: str) -> TextDelta:
    """The difference of two texts, lines apart in register numbers and addresses alone counting as equal."""
    old, new = old.rstrip("\n"), new.rstrip("\n")
    a, b = old.split("\n"), new.split("\n")
    machine = level in ("ptx", "sass", "asm")
    x, y = (_REGISTER.sub("%", t).split("\n") if machine else t.split("\n") for t in (old, new))
    if max(len(x), len(y)) > COMPARED_LINES:
        left, right = Counter(x), Counter(y)
        return TextDelta(
            level, sum((right - left).values()), sum((left - right).values()), (), max(len(x), len(y))
        )
    matcher = difflib.SequenceMatcher(None, x, y, autojunk=len(x) > 400)
    lines: list[tuple[str, str]] = []
    added = removed = 0
    for group in matcher.get_grouped_opcodes(CONTEXT):
        lines.append(("@", f"line {group[0][1] + 1} → {group[0][3] + 1}"))
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [(" ", line) for line in b[j1:j2]]
                continue
            lines += [("-", line) for line in a[i1:i2]] + [("+", line) for line in b[j1:j2]]
            removed, added = removed + i2 - i1, added + j2 - j1
    return TextDelta(level, added, removed, tuple(lines[:TEXT_LINES]), max(0, len(lines) - TEXT_LINES))
