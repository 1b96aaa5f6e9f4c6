"""The table's arithmetic, and the watchdog with a process that hangs and crashes on demand. No GPU."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.perf import h200, racing
from tests.perf.cases import Case, both

WORKER = """
import json, sys, time
jobs = json.loads(sys.stdin.readline())
print("@step 60 start", flush=True)
print('@device ["a GPU", "2", "13"]', flush=True)
for row, k, skip in jobs:
    print("@begin " + json.dumps([row, k]), flush=True)
    for name in ("first", "second"):
        if name not in skip:
            print("@step 1 " + name, flush=True)
            if (k, name) == (1, "first"):
                time.sleep(60)
            if (k, name) == (2, "second"):
                raise SystemExit(3)
    found = {"ok": True, "label": str(k), "unit": "TB/s", "work": 1.0, "ms": {"ours": [1, 1, 1]},
             "ratio": {"cuBLAS": [1.1, 1.0, 1.2]}, "config": "first", "tried": {}, "absent": {}}
    print("@case " + json.dumps([row, k, found]), flush=True)
"""


def test_intervals_are_order_statistics() -> None:
    assert racing.interval([float(n) for n in range(15)]) == (7.0, 3.0, 11.0)
    assert racing.interval([2.0, 1.0, 3.0]) == (2.0, 1.0, 3.0)


def test_ratios_are_taken_round_by_round() -> None:
    times = {"ours": [1.0, 2.0, 4.0], "peer": [1.1, 2.2, 4.4]}
    assert racing.ratios(times, "ours")["peer"] == pytest.approx((1.1, 1.1, 1.1))


def case(ratio: float, peer: str = "cuBLAS", ok: bool = True) -> dict[str, Any]:
    """A result with one peer."""
    return {"ok": ok, "ratio": {peer: [ratio] * 3}}


def test_a_row_passes_by_the_geometric_mean_of_its_shapes() -> None:
    assert h200.judge("gemm", [case(1.2), case(0.9)])["pass"]
    assert not h200.judge("gemm", [case(1.1), case(0.9)])["pass"]


def test_a_row_with_a_wrong_result_or_without_any_peer_does_not_pass() -> None:
    assert not h200.judge("gemm", [case(1.5), {"ok": False}])["pass"]
    assert not h200.judge("gemm", [{"ok": True, "ratio": {}}])["pass"]
    assert h200.judge("check", [{"ok": True}])["pass"], "no bars to meet"
    assert not h200.judge("check", [{"ok": False}])["pass"]


def test_of_several_peers_the_fastest_counts() -> None:
    found = {"ok": True, "ratio": {"cuDNN": [1.5] * 3, "FA2": [1.01] * 3}}
    assert not h200.judge("varlen", [found])["bars"]["cuDNN|FA2 >= 1.05"]


def test_a_file_keeps_the_rows_of_earlier_calls(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_text(json.dumps(h200.merged(None, {"rows": {"gemm": {"cases": {"a": case(1.1)}}}})))
    both_rows = h200.merged(path, {"rows": {"softmax": {"cases": {"b": case(1.0, "copy")}}}})
    assert set(both_rows["rows"]) == {"gemm", "softmax"}
    again = h200.merged(path, {"rows": {"gemm": {"cases": {"a": {"ok": False, "unrun": True}}}}})
    assert again["rows"]["gemm"]["cases"]["a"]["ok"]


def test_what_hangs_or_crashes_is_left_out_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text(WORKER)
    monkeypatch.setattr(h200, "__file__", str(worker))
    monkeypatch.setattr(h200, "compile_all", lambda wanted: {})
    monkeypatch.setattr(sys, "argv", ["h200.py", "--rows", "gqa", "--json", str(tmp_path / "t.json")])
    start = time.monotonic()
    assert h200.main() == 0
    assert time.monotonic() - start < 30
    table = json.loads((tmp_path / "t.json").read_text())
    assert table["device"] == "a GPU"
    assert len(table["rows"]["gqa"]["cases"]) == len(h200.cases()["gqa"])
    assert table["rows"]["gqa"]["right"]


def test_every_case_has_candidates_with_different_labels() -> None:
    rows: dict[str, list[Case]] = h200.cases()
    assert {"gemm", "attention-D128", "varlen", "decode", "linear-attention", "attention-backward"} <= set(
        rows
    )
    for found in rows.values():
        assert len({c.label for c in found}) == len(found)
        for c in found:
            labels = [x.label for x in c.candidates]
            assert labels
            assert len(set(labels)) == len(labels)
            assert len(both(c.candidates)) == 2 * len(labels)


def test_a_result_belongs_to_the_case_of_its_work() -> None:
    from tests.perf import predict

    found = h200.cases()["gqa"]
    causal = found[1]
    old = causal.label.removesuffix(" causal")
    assert predict.case_of(found, old, causal.work) is causal
    assert predict.case_of(found, found[0].label, found[0].work) is found[0]
    assert predict.case_of(found, old, causal.work * 3) is None


def test_a_configuration_is_found_by_its_label() -> None:
    from tests.perf import predict

    (found,) = h200.cases()["gemm-int4-M16"]
    first = found.candidates[0]
    assert predict.candidate_of(found, first.label) is first
    lone = predict.candidate_of(found, first.label + predict.LONE)
    assert lone is not None
    assert lone.configs["TB_PERSISTENT"] is False
    assert predict.candidate_of(found, "of old") is None


def test_the_model_knows_the_lengths_of_the_ragged_row() -> None:
    from tests.perf import predict

    for row in ("varlen", "gemm-int4-M16"):
        found = h200.cases()[row][0]
        assert 0.2 < predict.predicted_ms(found.candidates[0], [168]) / MEASURED[row] < 1.5


MEASURED = {"varlen": 0.66, "gemm-int4-M16": 0.026}
"""Milliseconds on an H200: of the first configuration, and of the fastest one before it."""
