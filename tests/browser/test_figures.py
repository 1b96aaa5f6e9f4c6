"""Timeline, roofline, difference card, findings, what-if and docked views in a real browser."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tests.browser.board import LUMINANCE, status, tab
from tests.browser.harness import model_data, mount
from tests.views.fixture import load
from tests.views.more import compared, everything, sliding, timed, with_history
from tilebench.codec import to_json
from tilebench.report import Finding, Report, Span
from tilebench.views.timeline import chrome_trace

SEL = "window.board.model.get('sel')"


def bars(page: Any, kind: str = "") -> Any:
    return page.locator(f".tb-panel .tb-bar{kind}")


# ------------------------------------------------------------------ timeline


def test_predicted_and_measured_lie_over_each_other_and_each_bar_says_which(page: Any) -> None:
    mount(page, everything())
    tab(page, "timeline")
    assert bars(page).count() == sum(len(t.bars) for t in everything().timelines)
    bars(page, ".tb-real").nth(20).hover()
    assert "(measured on NVIDIA H200)" in status(page)
    page.get_by_label("show", exact=True).select_option("predicted")
    assert bars(page, ".tb-real").count() == 0
    bars(page).nth(3).hover()
    assert "(predicted: model of H200 SXM)" in status(page)


def test_what_is_left_out_is_a_gap_with_its_length(page: Any) -> None:
    mount(page, everything())
    tab(page, "timeline")
    page.get_by_label("show", exact=True).select_option("predicted")
    assert page.locator(".tb-panel .tb-cut").count() == 1
    assert "4 us" in page.locator(".tb-panel svg.tb-time").text_content()
    edge = page.locator(".tb-panel .tb-cut").bounding_box()
    for k in range(bars(page).count()):
        box = bars(page).nth(k).bounding_box()
        assert box["x"] + box["width"] <= edge["x"] + 2 or box["x"] >= edge["x"] + edge["width"] - 2


def test_the_launch_is_a_sum_on_the_page(page: Any) -> None:
    mount(page, everything())
    tab(page, "timeline")
    rows = page.locator(".tb-panel .tb-table tbody tr")
    cells = [rows.nth(k).inner_text().split("\t") for k in range(rows.count())]
    parts = [float(c[3]) for c in cells[:-1]]
    assert sum(parts) == pytest.approx(float(cells[-1][-1]), abs=0.2)
    assert "(drawn above)" in cells[1][0]


def test_keys_walk_zoom_and_pin(page: Any) -> None:
    mount(page, everything())
    tab(page, "timeline")
    svg = page.locator(".tb-panel svg.tb-time")
    svg.focus()
    page.keyboard.press("Home")
    first = status(page)
    page.keyboard.press("ArrowRight")
    assert status(page) != first
    assert "measured" in status(page)
    page.keyboard.press("ArrowDown")
    assert "on tensor cores" in status(page)
    before = bars(page).first.bounding_box()["width"]
    for _ in range(3):
        page.keyboard.press("+")
    page.keyboard.press("Home")
    assert bars(page).first.bounding_box()["width"] > 2 * before
    page.keyboard.press("0")
    assert bars(page).first.bounding_box()["width"] == pytest.approx(before, abs=3), "and an outline"
    page.keyboard.press("Enter")
    assert page.evaluate(SEL)["op"].startswith("op")
    assert page.locator(".tb-bar.tb-lit").count() > 0


def test_bands_of_prologue_steady_state_and_epilogue_do_not_overlap(page: Any) -> None:
    mount(page, load())
    tab(page, "timeline")
    boxes = [page.locator(".tb-panel .tb-band").nth(k).bounding_box() for k in range(3)]
    for one, two in pairwise(boxes):
        assert one["x"] + one["width"] <= two["x"] + 1
    text = page.locator(".tb-panel svg.tb-time").text_content()
    assert all(phase in text for phase in ("prologue", "steady", "epilogue"))


def test_the_trace_is_downloaded_from_the_page_itself(page: Any, tmp_path: Any) -> None:
    mount(page, everything())
    tab(page, "timeline")
    with page.expect_download() as caught:
        page.get_by_role("button", name="export trace").click()
    assert caught.value.suggested_filename == "matmul.trace.json"
    path = tmp_path / "trace.json"
    caught.value.save_as(path)
    wanted = json.loads(json.dumps(chrome_trace(everything())))
    got = json.loads(path.read_text())
    assert len(got["traceEvents"]) == len(wanted["traceEvents"])
    for one, two in zip(got["traceEvents"], wanted["traceEvents"], strict=True):
        assert {k: v for k, v in one.items() if k not in ("ts", "dur")} == {
            k: v for k, v in two.items() if k not in ("ts", "dur")
        }


@pytest.mark.parametrize("provenance", ["measured", "simulated"])
def test_the_trace_has_a_thread_for_each_lane_and_warp(page: Any, tmp_path: Any, provenance: Any) -> None:
    report = timed(provenance)
    mount(page, report)
    tab(page, "timeline")
    with page.expect_download() as caught:
        page.get_by_role("button", name="export trace").click()
    path = tmp_path / "trace.json"
    caught.value.save_as(path)
    got, wanted = json.loads(path.read_text()), json.loads(json.dumps(chrome_trace(report)))
    assert [e for e in got["traceEvents"] if e["ph"] != "X"] == [
        e for e in wanted["traceEvents"] if e["ph"] != "X"
    ]
    bars_of = [[e for e in t["traceEvents"] if e["ph"] == "X"] for t in (got, wanted)]
    for one, two in zip(*bars_of, strict=True):
        assert one == {**two, "dur": pytest.approx(two["dur"])}
    names = {
        e["args"]["name"] for e in got["traceEvents"] if e.get("pid") == 1 and e["name"].endswith("_name")
    }
    assert {"copy, warp 0", "tensor cores, warp 1", "tensor cores, warp 1 (2)"} <= names
    assert any("a step as 1 us" in n for n in names) == (provenance == "simulated")
    for tid in {e["tid"] for e in bars_of[0] if e["pid"] == 1}:  # events of a thread do not overlap
        own = sorted((e["ts"], e["ts"] + e["dur"]) for e in bars_of[0] if e["pid"] == 1 and e["tid"] == tid)
        assert all(a[1] <= b[0] + 1e-6 for a, b in pairwise(own))


def test_waits_are_hollow_and_started_work_is_flat_and_one_warp_is_shown(page: Any) -> None:
    report = timed()
    mount(page, report)
    tab(page, "timeline")
    assert bars(page, ".tb-real").count() == 12
    assert bars(page, ".tb-waiting").count() == 4
    assert {"waiting", "started, goes on behind the bar", "upper row predicted, lower row measured"} <= {
        t.strip() for t in page.locator(".tb-panel .tb-legend > span").all_inner_texts()
    }
    bars(page, ".tb-waiting").first.hover()
    assert "wait for copies of iteration 0 on copy" in status(page)
    assert "waiting, warp 0" in status(page)
    assert "(measured on NVIDIA H200)" in status(page)
    flat = [bars(page, ".tb-real").nth(k).bounding_box()["height"] for k in (0, 1)]
    assert flat[0] < 0.7 * flat[1]
    page.get_by_label("warp", exact=True).select_option("1")
    bars(page, ".tb-waiting").first.hover()
    assert "warp 1" in status(page)
    page.get_by_label("warp", exact=True).select_option("all")
    assert bars(page, ".tb-real").count() == 24
    boxes = [bars(page, ".tb-real").nth(k).bounding_box() for k in range(24)]
    for k, one in enumerate(boxes):  # no bar hides another
        for two in boxes[k + 1 :]:
            apart = one["x"] + one["width"] <= two["x"] + 2 or two["x"] + two["width"] <= one["x"] + 2
            assert apart or abs(one["y"] - two["y"]) > 4
    page.get_by_role("button", name="table").click()
    assert "warp" in page.locator(".tb-tall thead").inner_text()
    assert "measured, waiting" in page.locator(".tb-tall").inner_text()
    assert "the whole launch, measured on NVIDIA H200: 97.3 us" in page.locator(".tb-panel").inner_text()


def test_a_simulated_timeline_has_a_chart_of_its_own_in_steps(page: Any) -> None:
    mount(page, timed("simulated"))
    tab(page, "timeline")
    charts = page.locator(".tb-panel svg.tb-time")
    assert charts.count() == 2
    assert charts.nth(0).get_attribute("aria-label").startswith("predicted timeline")
    assert charts.nth(1).get_attribute("aria-label").startswith("simulated timeline of 12 bars")
    assert "steps" in charts.nth(1).text_content()
    bars(page, ".tb-real").nth(2).hover()
    said = page.locator(".tb-panel .tb-status").nth(1).inner_text()
    assert "steps" in said
    assert " us" not in said
    assert "(simulated" in said
    page.get_by_label("show", exact=True).select_option("simulated")
    assert page.locator(".tb-panel svg.tb-time").count() == 1
    assert bars(page).count() == 12


def test_the_table_of_bars_leads_to_the_bar(page: Any) -> None:
    mount(page, load())
    tab(page, "timeline")
    page.get_by_role("button", name="table").click()
    page.locator(".tb-tall tbody tr").nth(4).get_by_role("button").click()
    assert page.locator(".tb-bar.tb-cursor").count() == 1


# ------------------------------------------------------------------ roofline


def test_the_path_of_compiles_can_be_walked_and_says_what_changed(page: Any) -> None:
    mount(page, with_history())
    tab(page, "roofline")
    assert "limited by memory (predicted)" in status(page)
    page.locator(".tb-panel svg.tb-roof").focus()
    page.keyboard.press("ArrowLeft")
    assert "3. matmul" in status(page)
    assert "changed: num_stages 2 → 3" in status(page)
    assert "measured on NVIDIA H200" in status(page)
    page.keyboard.press("Enter")
    assert page.evaluate(SEL) == {"kernel": "id2"}
    assert page.locator(".tb-point.tb-lit").count() == 1


OVERLAP = """() => {
  const boxes = [...document.querySelectorAll('.tb-roof text')].filter((e) =>
  !e.classList.contains('tb-along'))
    .map((e) => [e.textContent, e.getBoundingClientRect()]);
  const svg = document.querySelector('.tb-roof').getBoundingClientRect(), bad = [];
  for (const [t, r] of boxes) if (r.left < svg.left - 1 || r.right > svg.right + 1 || r.top < svg.top - 1)
  bad.push(['cut', t]); for (let i = 0; i < boxes.length; i++) for (let j = 0; j < i; j++) {
    const [a, b] = [boxes[i][1], boxes[j][1]];
    if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2)
    bad.push([boxes[i][0], boxes[j][0]]);
  }
  return bad;
}"""


def crowded() -> Report:
    """Ten points nearly on top of each other, with long names."""
    report = with_history()
    assert report.roofline is not None
    point = report.roofline.points[-1]
    points = tuple(
        replace(point, label="a kernel with a rather long name indeed", bytes=point.bytes * (1 + k / 40))
        for k in range(10)
    )
    return replace(report, roofline=replace(report.roofline, points=points))


@pytest.mark.parametrize("make", [load, with_history, crowded])
def test_no_label_covers_another_or_is_cut(page: Any, make: Any) -> None:
    mount(page, make())
    tab(page, "roofline")
    assert page.evaluate(OVERLAP) == []


def test_a_ceiling_can_be_taken_away(page: Any) -> None:
    mount(page, with_history())
    tab(page, "roofline")
    before = page.locator(".tb-ceiling").count()
    page.get_by_label("FP32 67 TFLOP/s").uncheck()
    assert page.locator(".tb-ceiling").count() == before - 1


# ------------------------------------------------------------------ what changed


def test_the_card_marks_better_and_worse_and_shows_which_elements_moved(page: Any) -> None:
    mount(page, compared())
    tab(page, "changes")
    assert "2 layouts changed" in status(page)
    row = page.locator("tr[data-verdict=worse]", has_text="registers a thread")
    assert "+32 ▼ worse" in row.inner_text()
    assert page.locator("tr[data-verdict=better]", has_text="predicted").count() == 1
    canvas = page.locator(".tb-moved").first
    assert "14336 of 16384 elements of C_local" in canvas.get_attribute("aria-label")
    page.get_by_label("level").select_option("ptx")
    assert "wait_group 2" in page.locator(".tb-added").inner_text()


# ------------------------------------------------------------------ findings


def test_a_finding_leads_to_both_lines_and_to_the_element(page: Any) -> None:
    race = Finding(
        "race", "error", "C is written twice, the first at [37, 64]", (Span(12), Span(14)), "wait", "TB411"
    )
    mount(page, replace(load(), findings=(race, *load().findings)))
    tab(page, "findings")
    page.get_by_role("button", name="both lines").click()
    assert "2 pinned" in page.locator(".tb-pins").inner_text()
    page.get_by_role("button", name="element [37, 64]").click()
    assert page.evaluate(SEL) == {"line": 12, "buffer": "C", "coord": [37, 64]}
    page.get_by_label("show", exact=True).select_option("warning")
    assert page.locator(".tb-findings li").count() == 1
    page.locator(".tb-findings").focus()
    page.keyboard.press("ArrowDown")
    assert "uncoalesced" in status(page)
    page.keyboard.press("Enter")
    assert page.evaluate(SEL)["line"] == 14


# ------------------------------------------------------------------ docked


def test_two_views_side_by_side_follow_one_pin(page: Any) -> None:
    mount(page, load())
    page.get_by_role("button", name="split").click()
    assert page.get_by_label("beside").input_value() == "code"
    page.get_by_label("beside").select_option("timeline")
    second = page.get_by_role("region", name="second view")
    assert second.locator(".tb-bar").count() > 0
    tab(page, "code")
    page.locator(".tb-pane").nth(0).locator(".tb-line", has_text="T.gemm").click()
    page.mouse.move(1, 1)
    assert second.locator(".tb-bar.tb-lit").count() == 8
    tab(page, "timeline")
    assert page.get_by_label("beside").input_value() != "timeline", "no view stands beside itself"
    page.get_by_role("button", name="copy link").click()
    assert ":beside:" in page.get_by_label("state of this view").input_value()
    page.get_by_role("button", name="one view").click()
    assert page.get_by_role("region", name="second view").count() == 0


def test_a_link_brings_both_views_back(page: Any) -> None:
    mount(page, load(), state="tab:timeline:beside:roofline")
    assert page.get_by_role("region", name="second view").locator(".tb-roof").count() == 1
    page.evaluate("() => window.board.end()")
    assert page.evaluate("() => document.querySelectorAll('main *').length") == 0


# ------------------------------------------------------------------ what if


def answering(page: Any) -> None:
    """A kernel's part: a move is answered with a point and its neighbours."""
    page.evaluate(
        """(tried) => {
        const find = (c) => tried.find((p) => Object.entries(c).every(([k, v]) => p.config[k] === v));
        window.answer = (m, tell) => {
          if (m.kind !== 'move') return;
          const seen = find(m.config);
          const fresh = { ...tried[1], config: m.config, state: 'predicted', kept: false };
          tell({ kind: 'point', point: seen ?? fresh });
          const us = (stages) => ({ state: 'predicted', reason: '', us: 100 / stages });
          const illegal = { state: 'illegal', reason: 'the block needs 256 KiB of shared memory', us: null };
          const stages = { 1: us(1), 2: us(2), 4: us(4), 8: illegal };
          tell({ kind: 'around', config: m.config, values: { num_stages: stages } });
        };
      }""",
        to_json(sliding())["whatif"]["tried"],
    )


def slide(page: Any, name: str) -> Any:
    return page.get_by_role("slider", name=name)


def test_a_slider_asks_and_shows_figures_with_where_they_come_from(page: Any) -> None:
    answering(page)
    mount(page, sliding())
    slide(page, "num_stages").focus()
    page.keyboard.press("ArrowRight")
    assert status(page).startswith(
        "num_stages=4: 20.1 us, −6.51% (predicted), 164 registers (compiler's log)"
    )
    sent = page.evaluate("window.messages")
    assert sent[-1] == {"kind": "move", "config": {"num_stages": "4", "block_M": "128"}}
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert "registers (estimate)" in status(page)
    assert page.locator(".tb-state").first.inner_text() == "predicted"
    page.evaluate("window.board.model.tell({kind: 'compiling', config: {num_stages: '2', block_M: '128'}})")
    assert page.get_by_text("compiling…").count() == 1
    done = to_json(sliding())["whatif"]["tried"][1] | {"state": "compiled", "milliseconds": 812.0}
    page.evaluate("(p) => window.board.model.tell({kind: 'compiled', point: p})", done)
    assert page.locator(".tb-state").first.inner_text() == "compiled"
    assert page.get_by_text("known after 812 ms").count() == 1


def test_an_illegal_value_is_greyed_and_says_why(page: Any) -> None:
    answering(page)
    mount(page, sliding())
    mark = page.get_by_role("button", name="num_stages 8: illegal")
    assert mark.get_attribute("aria-disabled") == "true"
    assert "256 KiB of shared memory" in mark.get_attribute("aria-label")
    mark.click(force=True)
    assert status(page).startswith("illegal: the block needs 256 KiB")
    assert page.get_by_role("button", name="keep").is_disabled()
    bar = page.locator(".tb-mark-bar")
    assert slide(page, "num_stages").get_attribute("aria-valuetext").startswith("8, illegal: ")
    assert bar.count() == 8


def test_keep_is_answered_on_the_roofline_and_on_the_card(page: Any) -> None:
    answering(page)
    report = replace(sliding(), compare=None)
    mount(page, report)
    tab(page, "changes")
    assert "keep a point" in page.locator(".tb-panel").inner_text()
    tab(page, "what if")
    slide(page, "num_stages").focus()
    page.keyboard.press("ArrowLeft")
    page.get_by_role("button", name="keep").click()
    assert page.evaluate("window.messages").pop()["kind"] == "keep"
    after = to_json(sliding())
    message = {"kind": "kept", "config": {"num_stages": "2", "block_M": "128"}}
    message |= {k: after[k] for k in ("whatif", "roofline", "compare")}
    page.evaluate("(m) => window.board.model.tell(m)", message)
    assert "kept: it is on the roofline" in status(page)
    tab(page, "changes")
    assert page.locator(".tb-deltas").count() > 0
    tab(page, "roofline")
    assert page.locator(".tb-point").count() == 4


RAN = {
    "measured": {
        "value": 30.5, "unit": "us", "provenance": "measured", "device": "NVIDIA H200", "low": 30.1,
        "high": 31.0, "rounds": 20, "note": "with the inputs of its call",
    },
    "ok": True,
    "verdict": "correct against torch: within the running error bound",
}  # fmt: skip


def tell(page: Any, message: dict[str, Any]) -> None:
    page.evaluate("(m) => window.board.model.tell(m)", message)


def test_run_and_measure_shows_measured_beside_predicted(page: Any) -> None:
    answering(page)
    mount(page, sliding())
    here = {"num_stages": "3", "block_M": "128"}
    button, stop = (page.get_by_role("button", name=n, exact=True) for n in ("run and measure", "stop"))
    button.click()
    assert page.evaluate("window.messages").pop() == {"kind": "measure", "config": here}
    assert button.is_disabled()
    for text in ("compiling", "running", "comparing", "timing"):
        tell(page, {"kind": "running", "config": here, "text": text})
        assert page.locator(".tb-state[data-state=busy]").inner_text() == f"{text}…"
        assert status(page).endswith(f"; {text}")
    assert not stop.is_disabled()
    point = to_json(sliding())["whatif"]["tried"][0]
    tell(page, {"kind": "measured", "point": {**point, **RAN}})
    panel = page.locator(".tb-panel").inner_text()
    assert "30.5 us (measured on NVIDIA H200; median of 20 rounds" in panel
    assert "21.5 us (predicted: model of H200 SXM" in panel
    assert "correct against torch" in panel
    assert "with the inputs of its call" in panel
    assert "; measured 30.5 us on NVIDIA H200, right" in status(page)
    assert page.locator(".tb-state[data-state=busy]").count() == 0
    row = page.locator(".tb-tall tbody tr").first.inner_text()
    assert "30.5 us, right" in row
    assert "measured on NVIDIA H200" in page.locator(".tb-tall caption").inner_text()


def test_a_run_that_fails_says_why_and_loses_nothing(page: Any) -> None:
    answering(page)
    mount(page, sliding())
    point = {**to_json(sliding())["whatif"]["tried"][0], **RAN}
    tell(page, {"kind": "measured", "point": point})
    page.get_by_role("button", name="run and measure", exact=True).click()
    tell(page, {"kind": "measured", "point": {**point, "problem": "the GPU is out of memory"}})
    panel = page.locator(".tb-panel").inner_text()
    assert "it did not run: the GPU is out of memory" in panel
    assert "30.5 us (measured on NVIDIA H200" in panel
    assert "21.5 us (predicted" in panel
    tell(
        page, {"kind": "measured", "point": {**point, "ok": False, "verdict": "C is wrong: 3 of 9 elements"}}
    )
    assert "C is wrong: 3 of 9 elements" in page.locator(".tb-panel").inner_text()
    assert "30.5 us, wrong" in page.locator(".tb-tall tbody tr").first.inner_text()
    tell(page, {"kind": "error", "text": "RuntimeError: <b>no</b>"})
    assert "RuntimeError: <b>no</b>" in status(page)
    assert not page.get_by_role("button", name="run and measure", exact=True).is_disabled()


def test_a_run_can_be_ended(page: Any) -> None:
    answering(page)
    mount(page, sliding())
    here = {"num_stages": "3", "block_M": "128"}
    page.get_by_role("button", name="run and measure", exact=True).click()
    tell(page, {"kind": "running", "config": here, "text": "timing"})
    page.get_by_role("button", name="stop", exact=True).click()
    assert page.evaluate("window.messages").pop() == {"kind": "stop"}
    tell(page, {"kind": "cancelled", "config": here})
    assert "the run was ended" in status(page)
    assert not page.get_by_role("button", name="run and measure", exact=True).is_disabled()
    slide(page, "num_stages").focus()
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    assert page.get_by_role("button", name="run and measure", exact=True).is_disabled(), "illegal"


def test_without_a_kernel_the_points_that_were_tried_remain(page: Any) -> None:
    data = model_data(sliding())
    page.evaluate(
        """async (data) => {
        const make = window.makeModel;
        window.makeModel = (d) => { const m = make(d); delete m.send; return m; };
        window.board = await window.mount(data);
        window.makeModel = make;
      }""",
        data,
    )
    assert page.get_by_text("no kernel here: only points that were tried").count() == 1
    assert slide(page, "num_stages").is_disabled()
    assert page.get_by_text("read only: no kernel here").count() == 1
    page.get_by_role("button", name="num_stages 4").click()
    assert status(page).startswith("num_stages=4: 20.1 us")
    page.get_by_role("button", name="block_M 256").click(force=True)
    assert "was not tried" in status(page)


def test_a_kernel_that_does_not_answer_is_spoken_of(page: Any) -> None:
    page.clock.install()
    mount(page, sliding())
    page.clock.fast_forward(7000)
    assert "the kernel does not answer" in status(page)


def test_hostile_messages_change_nothing(page: Any) -> None:
    answering(page)
    mount(page, sliding())
    before = page.locator(".tb-panel").inner_text()
    for message in ("null", "7", "'x'", "{kind: 'other'}", "{}"):
        page.evaluate(f"window.board.model.tell({message})")
    assert page.locator(".tb-panel").inner_text() == before


NEW = ("what if", "timeline", "roofline", "changes", "findings")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_contrast(page: Any, theme: str) -> None:
    answering(page)
    mount(page, everything())
    page.evaluate("(t) => { document.body.dataset.theme = t; }", theme)
    for name in NEW:
        tab(page, name)
        assert page.evaluate(LUMINANCE) == [], name


@pytest.mark.parametrize("width", [1000, 420])
def test_nothing_sticks_out(page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("(w) => { document.body.style.width = `${w - 16}px`; }", width)
    answering(page)
    mount(page, everything())
    for name in NEW:
        tab(page, name)
        over = page.evaluate(
            "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert over <= 0, name


def test_every_control_has_a_name(page: Any) -> None:
    answering(page)
    mount(page, everything())
    unnamed = """() => {
      const named = (e) => e.getAttribute('aria-label') || e.getAttribute('aria-labelledby')
        || e.textContent.trim() || e.labels?.[0]?.textContent.trim();
      return [...document.querySelectorAll('button, select, input, [tabindex="0"]')]
        .filter((e) => e.getClientRects().length && !named(e)).map((e) => e.outerHTML.slice(0, 90));
    }"""
    for name in NEW:
        tab(page, name)
        assert page.evaluate(unnamed) == [], name


def test_each_view_is_drawn_in_time_and_leaves_nothing(page: Any) -> None:
    answering(page)
    times = page.evaluate(
        """async ([data, names]) => {
        const best = {};
        for (let k = 0; k < 50; k++) {
          const name = names[k % names.length];
          const start = performance.now();
          const b = await window.mount({ ...data, views: [name] });
          best[name] = Math.min(best[name] ?? 1e9, performance.now() - start);
          b.end();
          if (b.model.count()) return { listeners: b.model.count() };
        }
        best.left = document.querySelectorAll('main *').length;
        best.buses = globalThis[Symbol.for('tilebench.selection')].size;
        return best;
      }""",
        [model_data(everything()), ["whatif", "timeline", "roofline", "compare", "findings"]],
    )
    assert times.pop("left") == 0
    assert times.pop("buses") == 0
    assert "listeners" not in times
    assert all(ms < 300 for ms in times.values()), times


def test_in_a_narrow_cell_of_a_wide_window_tables_stand_below_the_pictures(page: Any) -> None:
    page.evaluate("() => { document.body.style.width = '480px'; }")
    mount(page, load())
    tab(page, "difference")
    grid = page.locator(".tb-panel .tb-grid").bounding_box()
    table = page.locator(".tb-panel .tb-table").first.bounding_box()
    assert table["y"] > grid["y"] + grid["height"]
    assert table["x"] + table["width"] <= 480


# ------------------------------------------------------------------ exercise


def test_a_claim_leads_to_its_line_its_step_and_its_element_and_hints_come_one_by_one(page: Any) -> None:
    mount(page, everything(), ("exercise", "step"))
    tab(page, "exercise")
    claims = page.locator(".tb-panel .tb-claims li")
    assert [claims.nth(k).locator("b").inner_text() for k in range(3)] == [
        "✓ holds", "✖ does not hold", "– not looked at",
    ]  # fmt: skip
    assert "the accumulator kept what was in it" in claims.nth(1).inner_text()
    claims.nth(1).get_by_role("button", name="step 4").click()
    sel = page.evaluate(SEL)
    assert (sel["line"], sel["step"], sel["buffer"], sel["coord"]) == (12, 4, "C", [4, 67])
    assert "tb-lit" in claims.nth(1).get_attribute("class")
    tab(page, "time travel")
    assert status(page).startswith("step 4 / 6")
    tab(page, "exercise")
    hints = page.locator(".tb-panel .tb-hints p")
    assert hints.count() == 0
    page.get_by_role("button", name="hint", exact=True).click()
    assert hints.all_inner_texts() == ["hint 1 of 2: What does C_local hold before the first product?"]
    page.get_by_role("button", name="next hint").click()
    assert hints.count() == 2
    assert not page.get_by_role("button", name="next hint").is_visible()
    page.locator(".tb-claims").focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    assert status(page).startswith(
        "does not hold: every element of C is the product's; seen: C[4, 67] is 3.5"
    )
