"""Who does what, and what was chosen for a kernel as a whole, in its report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tilebench
from tests.kernels import programs
from tilebench.codec import to_json
from tilebench.kernel.export import write_report
from tilebench.report import Report, from_json


def report_of(program: Any, target: str = "emu:sm_90a") -> Report:
    return tilebench.compile(program, target=target).report()


@pytest.fixture(scope="module")
def product() -> Report:
    return report_of(
        programs.gemm(512, 512, 512, block_N=256, block_K=64, num_stages=3, threads=256, transpose_B=True)
    )


@pytest.fixture(scope="module")
def attention() -> Report:
    return report_of(programs.attention(1, 2, 512, 512, 64, block_N=128, threads=256))


def test_bulk_copies_are_the_producers_and_the_rest_is_the_consumers(product: Report) -> None:
    assert {o.role for o in product.ops if o.instruction == "bulk"} == {"producer"}
    assert {o.role for o in product.ops if o.instruction != "bulk"} == {"consumers"}
    by_name = {r.name: r for r in product.roles}
    assert set(by_name) == {"consumer0", "consumer1", "producer"}
    assert set(by_name["producer"].ops) == {o.id for o in product.ops if o.role == "producer"}
    assert by_name["consumer0"].ops == by_name["consumer1"].ops
    assert "starts the bulk copies" in by_name["producer"].note
    assert "setmaxnreg" in by_name["consumer0"].note


def test_a_staged_result_names_both_of_its_ways(product: Report) -> None:
    result = next(o for o in product.ops if "C" in o.writes)
    assert result.instruction.endswith("then bulk.store")


def test_the_schedule_is_said_in_sentences(product: Report, attention: Report) -> None:
    said = "\n".join(product.schedule)
    assert "a producer warp brings A_s, B_s" in said
    assert "keeps up to 3 versions" in said
    assert "one product stays under way" in said
    assert "results leave by bulk copies" in said
    assert "trails by an iteration" in "\n".join(attention.schedule)


def test_a_kernel_without_a_producer_says_why() -> None:
    report = report_of(programs.softmax(64, 512))
    assert {o.role for o in report.ops} == {"all"}
    assert report.schedule[0].startswith("all threads copy and compute: ")
    assert [(r.name, r.note) for r in report.roles] == [("all", "")]


def test_persistent_blocks_are_said() -> None:
    program = programs.gemm(4096, 4096, 512, block_N=256, block_K=64, num_stages=4, threads=256)
    said = "\n".join(report_of(program, "cuda:sm_90a").schedule)
    assert "132 persistent blocks, one for each multiprocessor, go through 512 tiles" in said


def test_the_lanes_of_a_producer_reach_the_trace(attention: Report, tmp_path: Path) -> None:
    path = tmp_path / "attention.trace.json"
    write_report(attention, path)
    events = json.loads(path.read_text())["traceEvents"]
    names = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert {"producer", "tensor cores", "warpgroup 0", "warpgroup 1"} <= names
    assert all(e["dur"] >= 0 for e in events if e["ph"] == "X")
    bars = attention.timelines[0].bars
    assert {b.op for b in bars} <= {o.id for o in attention.ops}, "every bar leads to its op"
    assert all(b.line for b in bars)


def test_a_report_keeps_it_on_disk(product: Report) -> None:
    again = from_json(Report, json.loads(json.dumps(to_json(product))))
    assert (again.schedule, again.roles) == (product.schedule, product.roles)


def test_the_views_show_it_without_scripts_too(product: Report) -> None:
    from tilebench.views import timeline, warps

    for page in (timeline.html(product), warps.html(product)):
        assert "one product stays under way" in page
    assert "setmaxnreg" in warps.html(product)
