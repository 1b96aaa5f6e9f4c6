"""Pictures of the table that h200.py writes: ratios with their bars, rates by shape."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("h200.json")
LONGEST = 2.5
"""Ratio at which a bar is cut, its number beside it: some peers do not serve a case at all."""
PEERS = ("cuBLAS", "cuBLASLt", "cuDNN", "FA2", "Triton", "TileLang", "inductor", "copy", "reference")


def load(path: Path = TABLE) -> dict[str, Any]:
    """The table; one without rows when nothing has been measured."""
    return json.loads(path.read_text()) if path.exists() else {"device": "", "rows": {}}


def where(table: Mapping[str, Any]) -> str:
    """On what it was measured."""
    if not table["rows"]:
        return "nothing is measured yet: python tests/perf/h200.py --json tests/perf/h200.json"
    return f"{table['device']}, CUDA {table['cuda']}, PyTorch {table['torch']}"


def ratios(table: Mapping[str, Any]) -> Any:
    """A figure: each row's time of a peer over ours, geometric means over its shapes; 1 is a draw."""
    import matplotlib.pyplot as plt

    rows = [(name, row) for name, row in table["rows"].items() if row.get("means")]
    figure, axes = plt.subplots(figsize=(9, 1.2 + 0.42 * max(1, len(rows))), layout="constrained")
    shown = [p for p in PEERS if any(p in row["means"] for _, row in rows)]
    colours = {peer: f"C{k}" for k, peer in enumerate(shown)}
    for i, (_, row) in enumerate(rows):
        here = [p for p in shown if p in row["means"]]
        height = 0.8 / max(4, len(here))
        for k, peer in enumerate(here):
            ratio = row["means"][peer]
            place = i + 0.4 + (k - (len(here) - 1) / 2) * height
            axes.barh(place, min(ratio, LONGEST), height, color=colours[peer])
            if ratio > LONGEST:
                axes.text(LONGEST, place, f" {ratio:.3g}", va="center", fontsize=7)
    for peer in shown:
        axes.barh(0, 0, color=colours[peer], label=peer)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlim(0, LONGEST * 1.08)
    axes.set_yticks([i + 0.4 for i in range(len(rows))], [name for name, _ in rows])
    axes.invert_yaxis()
    axes.set_xlabel("time of the peer / our time (higher is better)")
    axes.set_title(where(table))
    if shown:
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=8)
    return figure


def rates(table: Mapping[str, Any], row: str) -> Any:
    """A figure: the rate of everyone on every shape of a row, with the interval of the median."""
    import matplotlib.pyplot as plt

    found = [(label, c) for label, c in table["rows"].get(row, {"cases": {}})["cases"].items() if c.get("ms")]
    figure, axes = plt.subplots(figsize=(9, 3.2), layout="constrained")
    names = list(dict.fromkeys(n for _, c in found for n in c["ms"]))
    for name in names:
        at = [i for i, (_, c) in enumerate(found) if name in c["ms"]]
        middle = [found[i][1]["work"] / found[i][1]["ms"][name][0] for i in at]
        low = [m - found[i][1]["work"] / found[i][1]["ms"][name][2] for i, m in zip(at, middle, strict=True)]
        high = [found[i][1]["work"] / found[i][1]["ms"][name][1] - m for i, m in zip(at, middle, strict=True)]
        style = "o" if name == "ours" else "s"
        axes.errorbar(at, middle, yerr=(low, high), fmt=style, capsize=2, markersize=4, label=name)
    axes.set_xticks(range(len(found)), [label for label, _ in found], rotation=30, ha="right", fontsize=7)
    axes.set_ylabel(found[0][1]["unit"] if found else "")
    axes.set_title(f"{row}: {where(table)}", fontsize=9)
    if names:
        axes.legend(fontsize=8)
    return figure


def lines(table: Mapping[str, Any]) -> list[str]:
    """A line for each row: its means and its bars."""
    out: list[str] = []
    for name, row in table["rows"].items():
        means = "  ".join(f"{p} {m:.3f}" for p, m in row.get("means", {}).items())
        bars = ", ".join(
            f"{b} {'not here' if met is None else 'met' if met else 'MISSED'}"
            for b, met in row.get("bars", {}).items()
        )
        out.append(f"{name:24s} {means}  | {bars}")
    return out
