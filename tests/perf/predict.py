"""The model's time beside the measured one, for every case of the table: writes `predicted_ms` into the file.

    python -m tests.perf.predict [FILE]

Needs no GPU: the configuration that raced is compiled again and played on the model's H200.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.perf.cases import Candidate
from tests.perf.plots import TABLE
from tests.perf.rows import cases
from tilebench import compile as tb_compile
from tilebench.ir.expr import int_value
from tilebench.passes.stages import Scheduled
from tilebench.profiling.model import device_for, predict
from tilebench.profiling.work import count
from tilebench.targets import occupancy

ARCH = "sm_90a"


def predicted_ms(candidate: Candidate) -> float:
    """The model's milliseconds of all kernels of a candidate."""
    total = 0.0
    for make in candidate.programs:
        kernel = tb_compile(make(), target=f"cuda:{ARCH}", pass_configs=dict(candidate.configs))
        built, stages, device = kernel.executable.built, kernel.stages(), device_for(ARCH)
        assert device is not None, "the H200's data sheet is there"
        grid = tuple(int_value(n) or 0 for n in kernel.prim.grid)
        threads = kernel.prim.thread_count
        occupied = occupancy(ARCH, threads, built.registers or 64, built.shared_bytes or 0)
        found = predict(stages.stage(Scheduled), count(kernel.prim, grid, {}), device, occupied, grid, {})
        total += found.total_us / 1e3
    return total


def errors_of(table: Mapping[str, Any]) -> dict[str, float]:
    """Relative error of each predicted time, by row and shape."""
    return {
        f"{row} {label}": case["predicted_ms"] / case["ms"]["ours"][0] - 1
        for row, kept in table["rows"].items()
        for label, case in kept["cases"].items()
        if "predicted_ms" in case
    }


def main() -> int:
    """Predict, write, and print the errors with their median."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else TABLE
    table: dict[str, Any] = json.loads(path.read_text())
    for row, found in cases().items():
        kept = table["rows"].get(row, {"cases": {}})["cases"]
        for case in found:
            measured = kept.get(case.label)
            if measured is None or not measured.get("ms"):
                continue
            candidate = next((c for c in case.candidates if c.label == measured["config"]), None)
            if candidate is not None:
                measured["predicted_ms"] = predicted_ms(candidate)
    path.write_text(json.dumps(table, indent=1))
    errors = errors_of(table)
    for name, error in errors.items():
        print(f"{error:+7.1%}  {name}")
    if errors:
        print(f"median of the absolute error: {statistics.median(map(abs, errors.values())):.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
