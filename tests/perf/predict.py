"""The model's time beside the measured one, for every case of the table: writes `predicted_ms` into the file.

    python -m tests.perf.predict [FILE]

Needs neither a GPU nor a compiler: the configuration that raced is taken through the passes again, with the
registers that the table has, and played on the model's H200. Prints the error of every case, the median of
each row, and those of all cases and of all rows.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.perf.cases import Candidate, Case
from tests.perf.plots import TABLE
from tests.perf.rows import cases
from tests.perf.rows_attention import LENGTHS
from tilebench.compiler import analyse
from tilebench.ir.expr import Expr, Load, binary, const, int_value, select
from tilebench.ir.rewrite import transform
from tilebench.ir.tile import Kernel
from tilebench.language.parse import parse_prim_func
from tilebench.passes.stages import Lowered, Scheduled
from tilebench.profiling.model import device_for, predict
from tilebench.profiling.work import count
from tilebench.targets import occupancy, parse

ARCH = "sm_90a"
LONE = " one block a tile"
ENDS = {"cu": tuple(sum(LENGTHS[:i]) for i in range(len(LENGTHS) + 1))}
"""Tensors that say how much work there is, by the parameter's name: what they hold in the table."""


def predicted_ms(candidate: Candidate, registers: Sequence[int] = ()) -> float:
    """The model's milliseconds of all kernels of a candidate. registers: of each, as measured, else 64."""
    total = 0.0
    for k, make in enumerate(candidate.programs):
        kernel = parse_prim_func(make())
        configs = {**kernel.attributes.get("pass_configs", {}), **candidate.configs}
        kernel = _known(replace(kernel, attributes={**kernel.attributes, "pass_configs": configs}))
        stages, device = analyse(kernel, parse(f"cuda:{ARCH}")), device_for(ARCH)
        assert device is not None, "the H200's data sheet is there"
        grid = tuple(int_value(n) or 0 for n in kernel.grid)
        shared = stages.stage(Lowered).program.shared_bytes
        held = registers[k] if k < len(registers) else 64
        occupied = occupancy(ARCH, kernel.thread_count, held, shared)
        found = predict(stages.stage(Scheduled), count(kernel, grid, {}), device, occupied, grid, {})
        total += found.total_us / 1e3
    return total


def _known(kernel: Kernel) -> Kernel:
    """The kernel with the values of the table's own tensors of lengths in place of their elements."""

    def put(n: Any) -> Any:
        values = ENDS.get(n.buffer.name) if isinstance(n, Load) else None
        if values is None:
            return n
        (index,) = n.indices
        found: Expr = const(values[-1], n.dtype)
        for k in reversed(range(len(values) - 1)):
            found = select(binary("eq", index, const(k, index.dtype)), const(values[k], n.dtype), found)
        return found

    return replace(kernel, body=transform(kernel.body, put))


def errors_of(table: Mapping[str, Any]) -> dict[str, float]:
    """Relative error of each predicted time, by row and shape."""
    return {f"{row} {label}": error for row, label, error in _errors(table)}


def _errors(table: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    for row, kept in table["rows"].items():
        for label, case in kept["cases"].items():
            if "predicted_ms" in case:
                yield row, label, case["predicted_ms"] / case["ms"]["ours"][0] - 1


def by_row(table: Mapping[str, Any]) -> dict[str, float]:
    """Median of the absolute error of every row."""
    found: dict[str, list[float]] = {}
    for row, _, error in _errors(table):
        found.setdefault(row, []).append(abs(error))
    return {row: statistics.median(errors) for row, errors in found.items()}


def case_of(found: Sequence[Case], label: str, work: float) -> Case | None:
    """The case of a row that a result is of: its label (older ones do not say causal) and its work."""
    fits = (c for c in found if c.label in (label, f"{label} causal"))
    return next((c for c in fits if abs(c.work / work - 1) < 1e-6), None)


def candidate_of(case: Case, label: str) -> Candidate | None:
    """The configuration by its label; one block a tile may go without saying by now."""
    named = {c.label: c for c in case.candidates}
    if label in named or not label.endswith(LONE) or label.removesuffix(LONE) not in named:
        return named.get(label)
    plain = named[label.removesuffix(LONE)]
    return replace(plain, configs={**plain.configs, "TB_PERSISTENT": False})


def main() -> int:
    """Predict, write, and print the errors with their medians."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else TABLE
    table: dict[str, Any] = json.loads(path.read_text())
    rows = cases()
    for row, kept in table["rows"].items():
        for label, measured in kept["cases"].items():
            if row not in rows or not measured.get("ms"):
                continue
            case = case_of(rows[row], label, measured["work"])
            candidate = candidate_of(case, measured["config"]) if case is not None else None
            if candidate is None:
                measured.pop("predicted_ms", None)
                print(f"   gone  {row} {label} [{measured['config']}]")
                continue
            measured["predicted_ms"] = predicted_ms(candidate, measured["registers"])
    path.write_text(json.dumps(table, indent=1))
    for name, error in errors_of(table).items():
        print(f"{error:+7.1%}  {name}")
    medians = by_row(table)
    for row, error in medians.items():
        print(f"{error:7.1%}  {row}, median")
    if medians:
        every = statistics.median(map(abs, errors_of(table).values()))
        print(f"median of all cases {every:.1%}, of all rows {statistics.median(medians.values()):.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
