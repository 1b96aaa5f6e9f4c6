"""The live board in a real browser: what is drawn where, what is said, keys, themes, links between views,
leaks, times.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.browser.board import LUMINANCE, TABS, hover, pixel, status, tab
from tests.browser.harness import model_data, mount
from tests.views.fixture import load
from tests.views.test_escaping import PAYLOADS, poisoned


def test_ids_are_unique_though_every_widget_loads_the_module_anew(page: Any) -> None:
    ids = page.evaluate(
        """async (data) => {
        const text = await (await fetch('/bundle.js')).text();
        for (let k = 0; k < 3; k++) {
          const url = URL.createObjectURL(new Blob([text], { type: 'text/javascript' }));
          const widget = (await import(url)).default;
          const el = document.createElement('div');
          document.querySelector('main').append(el);
          await widget.render({ model: window.makeModel(data), el });
        }
        return [...document.querySelectorAll('[id]')].map((e) => e.id);
      }""",
        model_data(load()),
    )
    assert len(ids) >= 30
    assert len(ids) == len(set(ids))


def test_the_byte_map_shows_who_lives_when(page: Any) -> None:
    mount(page, load(), state="tab:layout")
    tab(page, "shared memory")
    page.locator(".tb-life .tb-bar").nth(1).hover()
    said = status(page)
    assert said.startswith("B_shared: bytes 24576–49151, 3 copies of 8192, in use from line 8 to line 12")
    page.locator(".tb-life").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    assert page.evaluate("window.board.model.get('sel')")["buffer"] == "A_shared"
    assert page.locator(".tb-life .tb-bar.tb-lit").count() == 1


def test_a_pinned_line_reaches_every_view(page: Any) -> None:
    mount(page, load(), state="tab:layout")
    tab(page, "code")
    page.locator(".tb-pane").nth(0).locator(".tb-line", has_text="T.gemm").click()
    cuda = page.locator(".tb-pane").nth(1).locator(".tb-pinned")
    assert cuda.count() == 3
    assert "mma_m16n8k16" in cuda.nth(2).inner_text()
    assert page.locator(".tb-pane").nth(2).locator(".tb-pinned").count() == 41
    assert page.evaluate("window.board.model.get('sel')") == {"line": 12}
    tab(page, "timeline")
    assert page.locator(".tb-bar.tb-lit").count() == 8
    tab(page, "shared memory")
    assert page.get_by_label("buffer").input_value() in ("A_shared", "B_shared")


def test_code_lights_both_ways(page: Any) -> None:
    mount(page, load(), state="tab:layout")
    tab(page, "code")
    page.locator(".tb-pane").nth(2).locator(".tb-line", has_text="ldmatrix").first.hover()
    assert "T.gemm" in page.locator(".tb-pane").nth(0).locator(".tb-hover").inner_text()
    assert status(page).startswith("line 12: 1 line of cell, 3 lines of CUDA C++")


def test_machine_code_has_live_registers_spills_and_words_for_its_opcodes(page: Any) -> None:
    mount(page, load(), state="tab:layout")
    tab(page, "code")
    page.get_by_label("text of column 3").select_option("sass")
    sass = page.locator(".tb-pane").nth(2)
    assert sass.locator(".tb-spill").count() == 2
    spilled = sass.locator(".tb-line", has=page.locator(".tb-spill")).all_inner_texts()
    assert ["STL" in spilled[0], "LDL" in spilled[1]] == [True, True]
    sass.locator(".tb-line", has_text="HMMA").first.hover()
    said = status(page)
    assert said.startswith(
        "line 12: 1 line of cell, 3 lines of CUDA C++, 6 lines of SASS; HMMA.16816.F32: multiplies"
    )
    assert said.endswith("; 28 registers live")
    assert "T.gemm" in page.locator(".tb-pane").nth(0).locator(".tb-hover").inner_text()
    bars = sass.locator(".tb-live i").evaluate_all("(all) => all.map((e) => e.style.width)")
    assert bars[-1] > bars[0]
    sass.get_by_role("button", name="peak 39 live").click()
    assert status(page).endswith("NOP: does nothing: fills up the end of the code; 39 registers live"), (
        "unfolded"
    )


def test_what_says_nothing_is_folded_and_counted(page: Any) -> None:
    mount(page, load(), state="tab:layout")
    tab(page, "code")
    page.get_by_label("text of column 3").select_option("sass")
    sass = page.locator(".tb-pane").nth(2)
    assert sass.locator(".tb-fold").inner_text().split("\n") == ["⋯", "3 lines hidden"]
    before = sass.locator(".tb-line").count()
    sass.get_by_role("button", name="3 hidden").click()
    assert sass.locator(".tb-fold").count() == 0
    assert sass.locator(".tb-line").count() == before + 2
    sass.get_by_role("button", name="hide noise").click()
    assert sass.locator(".tb-fold").count() == 1


def test_the_mix_counts_by_kind_and_leads_to_the_instruction(page: Any) -> None:
    mount(page, load(), state="tab:layout")
    tab(page, "code")
    page.get_by_label("text of column 3").select_option("sass")
    page.locator(".tb-mix summary").last.click()
    rows = page.locator(".tb-mix tr").all_inner_texts()
    assert any(r.startswith("tensor cores\t4\t") and "HMMA 4" in r for r in rows)
    assert any(r.startswith("local memory\t2\t") for r in rows)
    page.get_by_role("button", name="LDSM 1").click()
    assert "LDSM.16.M88.4: loads 8x8 matrices" in status(page)


def test_a_block_shows_its_part_of_each_tensor_and_who_reads_it_again(page: Any) -> None:
    mount(page, load(), state="tab:layout")
    tab(page, "warps")
    hover(page, 1, 2, 4, 4)
    assert (
        status(page)
        == "block (2, 1): reads A[128:256, 0:512], reads B[0:512, 256:384], writes C[128:256, 256:384]"
    )
    assert pixel(page, 1, 2, 4, 4) == [255, 209, 102], "the chosen block"
    assert pixel(page, 1, 0, 4, 4) == [142, 202, 230], "reads the same part of A"
    assert pixel(page, 3, 2, 4, 4) == [163, 217, 165], "reads the same part of B"
    assert pixel(page, 0, 0, 4, 4) == [222, 226, 231]
    rows = page.get_by_role("row").all_inner_texts()
    assert "A\t2 MiB\t512 KiB\t4\t4 parts for 16 blocks" in rows
    page.get_by_label("iteration of the loop").fill("15")
    step = page.locator(".tb-tensor").first.locator(".tb-step")
    assert float(step.get_attribute("x")) > 130, "the last of sixteen parts of A"
    page.locator(".tb-grid").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("window.board.model.get('sel')")["coord"] == [128, 256]


def test_an_element_of_the_output_leads_to_its_block(page: Any) -> None:
    mount(page, load(), state="tab:layout")
    tab(page, "warps")
    page.evaluate("window.board.model.change('sel', {buffer: 'C', coord: [300, 40]})")
    assert status(page).startswith("block (0, 2): ")
    page.evaluate("window.board.model.change('sel', {thread: 70})")
    lit = page.locator(".tb-warp.tb-lit")
    assert lit.count() == 1
    assert "warp 2" in lit.inner_text()


def test_a_warp_says_its_rows_its_columns_and_its_instructions(page: Any) -> None:
    mount(page, load(), state="tab:layout")
    tab(page, "warps")
    page.locator(".tb-warp", has_text="warp 0").focus()
    page.keyboard.press("ArrowRight")
    said = status(page)
    assert said == (
        "warp 2: rows 0–63 of A_shared and C_local, columns 64–127 of B_shared and C_local; "
        "4 × 8 instructions mma.m16n8k16, 2 along K"
    )


def test_a_pass_shows_what_it_changed_word_by_word(page: Any) -> None:
    mount(page, load(), state="tab:layout")
    tab(page, "passes")
    page.locator(".tb-list").focus()
    for _ in range(3):
        page.keyboard.press("j")
    assert status(page).startswith("lower: 2 lines added or changed, 1 line removed or changed since sync")
    assert "unroll" in page.locator(".tb-pass ins").all_inner_texts()
    assert page.locator(".tb-pass .tb-new").inner_text().split() == ["7", "+", "barrier"]
    page.locator(".tb-pass .tb-new").click()
    assert page.evaluate("window.board.model.get('sel')") == {"line": 12}
    assert page.locator(".tb-pass .tb-pinned").count() >= 1
    page.keyboard.press("k")
    assert status(page).startswith("sync: 11 lines of a new kind of text")
    page.keyboard.press("Escape")
    assert page.locator(".tb-pins").inner_text() == "nothing pinned"


def test_the_timeline_says_that_it_is_predicted(page: Any) -> None:
    mount(page, load(), state="tab:layout")
    tab(page, "timeline")
    page.locator(".tb-bar").nth(20).hover()
    assert "(predicted)" in status(page)
    page.locator(".tb-panel svg").focus()
    page.keyboard.press("ArrowLeft")
    assert "of iteration" in status(page)


def test_the_difference_leads_to_the_line(page: Any) -> None:
    mount(page, load(), state="tab:layout")
    tab(page, "difference")
    hover(page, 4, 8, 64, 64)
    assert "rows 32–39, columns 64–71" in status(page)
    assert "wrong" in status(page)
    page.get_by_role("button", name="[37, 64]").click()
    assert page.evaluate("window.board.model.get('sel')") == {
        "line": 14,
        "buffer": "C",
        "coord": [37, 64],
        "thread": 37,
        "instr": "st.global 8 B",
    }
    tab(page, "code")
    assert "T.copy(C_local" in page.locator(".tb-pane").nth(0).locator(".tb-pinned").inner_text()


def test_two_outputs_of_one_kernel_share_the_bus_and_another_kernel_does_not(page: Any) -> None:
    mount(page, load(), state="tab:layout")
    page.evaluate("async (data) => { window.second = await window.mount(data); }", model_data(load()))
    page.evaluate(
        "async (data) => { window.other = await window.mount(data); }",
        model_data(replace(load(), id="another00000")),
    )
    page.locator(".tb-grid").first.focus()
    page.keyboard.press("Enter")
    texts = page.locator(".tb-pins").all_inner_texts()
    assert texts[0] == texts[1] != "nothing pinned"
    assert texts[2] == "nothing pinned"


def test_python_can_pin_from_outside(page: Any) -> None:
    mount(page, load(), state="tab:layout")
    page.evaluate("window.board.model.change('sel', {line: 12, evil: '<b>'})")
    assert "line 12" in page.locator(".tb-pins").inner_text()
    assert "evil" not in page.locator(".tb-pins").inner_text()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_contrast_in_both_themes(page: Any, theme: str) -> None:
    mount(page, load(), state="tab:layout")
    page.evaluate("(t) => { document.body.dataset.theme = t; }", theme)
    for name in TABS:
        tab(page, name)
        if name == "code":
            page.get_by_label("text of column 3").select_option("sass")
            page.locator(".tb-mix summary").last.click()
            page.locator(".tb-line", has_text="STL").click()
        if name == "passes":
            page.locator(".tb-list").focus()
            for _ in range(3):
                page.keyboard.press("j")
        if name == "shared memory":
            page.locator(".tb-way-bad").first.click()
        if name == "layout":
            page.locator(".tb-bases summary").click()
        assert page.evaluate(LUMINANCE) == [], name


@pytest.mark.parametrize("width", [1000, 420])
def test_nothing_sticks_out(page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("(w) => { document.body.style.width = `${w - 16}px`; }", width)
    mount(page, load(), state="tab:layout")
    for name in TABS:
        tab(page, name)
        over = page.evaluate(
            "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert over <= 0, name


def test_every_control_has_a_name_and_tabs_take_arrow_keys(page: Any) -> None:
    mount(page, load(), state="tab:layout")
    unnamed = """() => {
      const named = (e) => e.getAttribute('aria-label') || e.getAttribute('aria-labelledby')
        || e.textContent.trim() || e.labels?.[0]?.textContent.trim();
      return [...document.querySelectorAll('button, select, input, [tabindex="0"]')]
        .filter((e) => e.getClientRects().length && !named(e)).map((e) => e.outerHTML.slice(0, 90));
    }"""
    for name in TABS:
        tab(page, name)
        assert page.evaluate(unnamed) == [], name
    page.get_by_role("tab", name="layout").focus()
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("tab", name="shared memory").get_attribute("aria-selected") == "true"


def test_fifty_mounts_leave_nothing(page: Any) -> None:
    mount(page, load(), state="tab:layout")
    page.evaluate("() => window.board.end()")
    left = page.evaluate(
        """async (data) => {
        for (let k = 0; k < 50; k++) {
          const b = await window.mount(data);
          b.el.querySelectorAll('.tb-tab')[k % 10].click();
          b.end();
          if (b.model.count()) return ['model listeners', b.model.count()];
        }
        const buses = globalThis[Symbol.for('tilebench.selection')];
        return [document.querySelectorAll('main *').length, buses.size];
      }""",
        model_data(load()),
    )
    assert left == [0, 0]


def test_the_state_of_a_view_can_be_given(page: Any) -> None:
    mount(page, load(), state="tab:layout:buffer:row_max:mode:register:view:hardware")
    assert page.get_by_label("buffer").input_value() == "row_max"
    assert page.get_by_label("view", exact=True).input_value() == "hardware"
    page.get_by_role("button", name="copy link").click()
    assert (
        "buffer:row_max:mode:register:view:hardware" in page.get_by_label("state of this view").input_value()
    )


def test_a_view_of_a_later_version_is_named_and_the_rest_is_shown(page: Any) -> None:
    mount(page, load(), views=("hologram",))
    assert page.get_by_text("not in this version: hologram").count() == 1
    assert page.get_by_role("tab").count() == len(TABS)


def test_a_view_without_anything_to_show_is_named_and_the_rest_is_shown(page: Any) -> None:
    bare = replace(load(), layouts=(), traces=())
    mount(page, bare, views=("smem", "step"))
    assert page.get_by_text("nothing of this kernel to show in: shared memory, time travel").count() == 1
    assert page.get_by_role("tab").count() == len(TABS) - 3, "no layout, no shared memory, no trace"
    mount(page, bare, views=("smem", "code"))
    assert page.get_by_role("tab").last.inner_text() == "code"


def test_chosen_views_alone_are_shown(page: Any) -> None:
    mount(page, load(), views=("roofline", "code"))
    assert page.get_by_role("tab").all_inner_texts() == ["roofline", "code"]


MARKUP = "main script, main img, main a, main [onload], main [onerror], main [data-commandlinker-command]"


@pytest.mark.parametrize("payload", PAYLOADS[:5])
def test_users_text_stays_text(page: Any, payload: str) -> None:
    mount(page, poisoned(load(), payload))
    for k in range(page.get_by_role("tab").count()):
        page.get_by_role("tab").nth(k).click()
        found = page.evaluate("() => document.querySelectorAll(" + repr(MARKUP) + ").length")
        assert found == 0
    ids = page.evaluate("() => [...document.querySelectorAll('main [id]')].map((e) => e.id)")
    assert all(i.startswith("tb-") for i in ids)


def test_a_report_of_a_newer_version_is_refused_in_words(page: Any) -> None:
    page.evaluate(
        "async (data) => { window.board = await window.mount(data); }", model_data(replace(load(), version=2))
    )
    assert "update tilebench" in page.locator("main").inner_text()


def test_after_a_fail_what_is_wrong_opens_first(page: Any) -> None:
    mount(page, load())
    assert page.locator("[role=tab][aria-selected=true]").inner_text() == "difference"
    mount(page, replace(load(), ok=True))
    assert page.locator(".tb-board").last.locator("[role=tab][aria-selected=true]").inner_text() == "layout"


def test_an_element_that_nothing_wrote_has_no_figures_and_no_writer(page: Any) -> None:
    report = load()
    odd = replace(report.diffs[0].worst[0], value=float("nan"), error=1e300, ratio=1e30, written=False)
    d = replace(report.diffs[0], worst=(odd,), unwritten=8192, wrong=8192, max_ratio=1e30)
    mount(page, replace(report, diffs=(d,)), ("diff",))
    row = page.locator("tr", has=page.get_by_role("button", name="[37, 64]"))
    assert row.locator("td").all_inner_texts()[-6:] == ["never written", "1", "–", "–", "–", "–"]
    page.get_by_role("button", name="[37, 64]").click()
    assert "C[37, 64] is never written" in page.locator(".tb-writer").inner_text()
    assert "e+30" not in page.locator(".tb-board").inner_text()
