"""Layouts in a browser: fragments, instructions and shared memory, by pointer and by keys."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.browser.board import CELLS, PIXEL, hover, pixel, status, tab
from tests.browser.harness import model_data, mount
from tests.kernel.test_record import recorded
from tests.views.fixture import fragment_info, load
from tilebench.layouts import atoms
from tilebench.layouts.digits import Digit
from tilebench.layouts.fragment import FragmentLayout
from tilebench.views.base import LANES, WARPS, rgb
from tilebench.views.layout import holders

ROWS = (
    (Digit(8, 1, 1), Digit(2, 1, 256)),
    (Digit(32, 1, 8), Digit(4, 0, 1)),
)


def test_each_cell_has_the_colour_of_its_thread(page: Any) -> None:
    mount(page, load(), state="tab:layout")
    info = load().layouts[0]
    thread = holders(info).thread.reshape(info.shape)
    for i, j in CELLS[:4]:
        assert pixel(page, i, j, 128, 128) == rgb(LANES)[thread[i, j] % 8].tolist(), (i, j)
    page.get_by_label("colour").select_option("warp")
    for i, j in CELLS[:4]:
        assert pixel(page, i, j, 128, 128) == rgb(WARPS)[thread[i, j] // 32].tolist(), (i, j)


@pytest.mark.parametrize(("i", "j"), CELLS)
def test_hover_says_thread_and_register(page: Any, i: int, j: int) -> None:
    mount(page, load(), state="tab:layout")
    hover(page, i, j, 128, 128)
    held, at = holders(load().layouts[0]), i * 128 + j
    t = held.thread[at]
    assert (
        status(page)
        == f"row {i} column {j}: thread {t} (warp {t // 32}, lane {t % 32}), register {held.register[at]}"
    )
    assert f"= {t}\n" in page.locator(".tb-formula").inner_text() + "\n"


def test_hover_in_the_hardware_view_says_the_element(page: Any) -> None:
    mount(page, load(), state="tab:layout")
    page.get_by_label("view", exact=True).select_option("hardware")
    hover(page, 37, 5, 128, 128)
    assert "thread 37 (warp 1, lane 5), register 5" in status(page)


def test_a_strip_is_cut_into_bands_with_labels(page: Any) -> None:
    info = fragment_info("x", FragmentLayout((4, 512), ROWS[0], ROWS[1]), 32, "", 0)
    mount(page, replace(load(), layouts=(info,)), ("layout",))
    box = page.locator(".tb-over").bounding_box()
    assert box["height"] > 150, "not four pixels high"
    thread = holders(info).thread.reshape(info.shape)
    for row, column in ((0, 3), (2, 70), (3, 511)):
        band, at = divmod(column, 64)
        assert pixel(page, band * 5 + row, at, 39, 64) == rgb(LANES)[thread[row, column] % 8].tolist()
    hover(page, 5 * 7 + 3, 63, 39, 64)
    assert status(page).startswith("row 3 column 511: thread 127")
    gap = page.evaluate(PIXEL, [4, 10, 39, 64])
    assert gap[3] == 0, "nothing is drawn between the bands"
    page.locator(".tb-grid").focus()
    page.keyboard.press("ArrowUp")
    page.get_by_label("go to").fill("3,0")
    page.get_by_label("go to").press("Enter")
    page.locator(".tb-grid").focus()
    page.keyboard.press("ArrowDown")
    assert status(page).startswith("row 0 column 64"), "the keyboard steps over the gap"


def test_the_instruction_view_shows_a_b_and_c_of_one_instruction(page: Any) -> None:
    mount(page, load(), state="tab:layout")
    page.get_by_label("view", exact=True).select_option("instruction")
    assert page.locator(".tb-mma .tb-grid").count() == 3
    a, b, c = (page.locator(f".tb-mma-{x}").bounding_box() for x in "abc")
    assert a["x"] < c["x"] == b["x"], "A left, B and C right"
    assert b["y"] < a["y"] == c["y"], "B above, A and C below"
    over = page.locator(".tb-mma-c .tb-over").bounding_box()
    page.mouse.move(over["x"] + 3.5 * over["width"] / 8, over["y"] + 7.5 * over["height"] / 16)
    assert status(page) == (
        "C row 7 column 3 of the instruction, C_local (7, 3): lane 29, register c1; "
        "thread 29, register 1 of C_local"
    )
    page.get_by_label("along N").fill("3")
    page.get_by_label("along M").fill("1")
    page.get_by_label("warp", exact=True).fill("3")
    page.mouse.move(over["x"] + 0.5 * over["width"] / 8, over["y"] + 0.5 * over["height"] / 16)
    held = holders(load().layouts[0])
    at = (64 + 16) * 128 + 64 + 24
    assert f"thread {held.thread[at]}, register {held.register[at]} of C_local" in status(page)
    page.mouse.down()
    page.mouse.up()
    pinned = page.evaluate("window.board.model.get('sel')")
    assert pinned["coord"] == [80, 88]
    assert pinned["instr"] == 1 * 8 + 3


def test_colours_and_keys_of_instructions(page: Any) -> None:
    mount(page, load(), state="tab:layout")
    page.get_by_label("colour").select_option("instruction")
    same, other = pixel(page, 0, 0, 128, 128), pixel(page, 0, 8, 128, 128)
    assert pixel(page, 15, 7, 128, 128) == same, "one instruction fills 16 by 8"
    assert other != same
    hover(page, 20, 9, 128, 128)
    assert status(page).endswith("instruction 9 of 32 (mma.m16n8k16)")
    page.locator(".tb-grid").focus()
    for key, what in (("r", "register"), ("w", "warp"), ("i", "instruction"), ("b", "bank"), ("t", "thread")):
        page.keyboard.press(key)
        assert page.get_by_label("follow").input_value() == what


def test_recorded_values_colour_a_fragment_at_the_step_on_the_bus(page: Any) -> None:
    report = recorded().report
    mount(page, report, ("layout",))
    colour = page.get_by_label("colour")
    colour.locator("option[value=value]").wait_for(state="attached")
    page.get_by_label("buffer").select_option("m")
    colour.select_option("value")
    last = len(report.traces[0].steps) - 1
    rows, columns = 4, 16
    hover(page, 0, 0, rows, columns)
    values = recorded().value("m", last)
    assert f"value {values[0]:.3g} after step {last}" in status(page)
    page.evaluate("window.board.model.change('sel', {step: 0})")
    hover(page, 0, 1, rows, columns)
    assert status(page).endswith("not written by step 0")
    lowest, highest = int(values.argmin()), int(values.argmax())
    page.evaluate(f"window.board.model.change('sel', {{step: {last}}})")
    assert pixel(page, *divmod(lowest, 16), rows, columns) == [143, 170, 255]
    assert pixel(page, *divmod(highest, 16), rows, columns) == [255, 245, 140]


def test_why_this_layout_leads_to_the_product(page: Any) -> None:
    mount(page, load(), state="tab:layout")
    page.get_by_label("buffer").select_option("row_max")
    links = page.locator(".tb-chain li").all_inner_texts()
    assert len(links) == 4
    assert links[0].startswith("row_max: projected on its dimensions from C_local")
    page.locator(".tb-chain li").nth(1).get_by_role("button").click()
    pinned = page.evaluate("window.board.model.get('sel')")
    assert (pinned["line"], pinned["op"], pinned["buffer"]) == (12, "op3", "C_local")
    assert page.get_by_label("buffer").input_value() == "C_local", "the view follows the pin"


def test_the_bases_matrix_names_each_bit(page: Any) -> None:
    mount(page, load(), state="tab:layout")
    page.locator(".tb-bases summary").click()
    assert page.locator(".tb-bits .tb-on").count() == 14, "one 1 a column: nothing is held twice"
    page.get_by_label("bit 2 of the thread").hover()
    assert status(page) == "bit 2 of the thread (thread 4) moves i by 1"
    page.get_by_label("buffer").select_option("row_max")
    page.locator(".tb-bases summary").click()
    page.get_by_label("bit 0 of the thread").focus()
    assert status(page) == "bit 0 of the thread (thread 1) changes nothing: a copy"


def test_a_replicated_element_names_all_its_holders(page: Any) -> None:
    mount(page, load(), state="tab:layout")
    page.get_by_label("buffer").select_option("row_max")
    hover(page, 0, 0, 8, 16)
    assert "8 holders: 0:0 1:0 2:0 3:0 64:0" in status(page)


def test_keys_move_pin_follow_and_clear(page: Any) -> None:
    mount(page, load(), state="tab:layout")
    page.locator(".tb-grid").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert status(page).startswith("row 2 column 1: thread 8")
    page.keyboard.press("Enter")
    assert "coord (2, 1)" in page.locator(".tb-pins").inner_text()
    assert page.evaluate("window.board.model.get('sel')")["thread"] == 8
    page.keyboard.press("w")
    assert page.get_by_label("follow").input_value() in ("thread", "warp")
    page.keyboard.press("Escape")
    assert page.locator(".tb-pins").inner_text() == "nothing pinned"
    assert page.evaluate("window.board.model.get('sel')") == {}


def test_hover_lights_the_elements_of_the_same_thread(page: Any) -> None:
    mount(page, load(), state="tab:layout")
    hover(page, 0, 0, 128, 128)
    lit = """() => {
      const c = document.querySelector('.tb-over');
      const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
      const px = (k, size) => Math.floor((k + 0.5) * size / 128);
      const at = (row, column) => d[4 * (px(row, c.height) * c.width + px(column, c.width)) + 3];
      return [at(0, 8), at(8, 0), at(0, 2), at(100, 100)];
    }"""
    same, also, other, far = page.evaluate(lit)
    assert (same, also) == (0, 0), "elements of thread 0 stay clear"
    assert other > 100
    assert far > 100


def test_go_to_finds_a_thread_and_says_when_there_is_none(page: Any) -> None:
    mount(page, load(), state="tab:layout")
    box = page.get_by_label("go to a thread, an element or a byte")
    box.fill("T37")
    box.press("Enter")
    assert "thread 37 " in status(page)
    box.fill("T999")
    box.press("Enter")
    assert status(page) == "nothing here is called T999"


def test_the_table_has_the_same_data(page: Any) -> None:
    mount(page, load(), state="tab:layout")
    page.get_by_role("button", name="table").click()
    rows = page.locator(".tb-scroll tbody tr")
    assert rows.count() == 64
    assert rows.nth(17).inner_text().split("\t")[:3] == ["0, 17", "0", "9"]


def test_shared_memory_says_byte_and_bank_and_shows_what_no_swizzle_would_cost(page: Any) -> None:
    mount(page, load(), state="tab:layout")
    tab(page, "shared memory")
    page.get_by_label("buffer").select_option("B_shared")
    hover(page, 1, 0, 24, 32)
    assert status(page) == "byte 24704, bank 0: B_shared (1,8) (1,9)"
    assert "1-way, no conflict" in page.locator(".tb-badge").inner_text()
    page.get_by_label("what if the swizzle were").select_option("none")
    assert "8-way conflict" in page.locator(".tb-badge").inner_text()
    options = page.get_by_label("what if the swizzle were").locator("option").all_inner_texts()
    assert options == ["as compiled", "no swizzle", "32 bytes", "64 bytes", "128 bytes"]
    page.get_by_label("buffer").select_option("A_shared")
    assert "128 bytes" not in page.get_by_label("what if").locator("option").all_inner_texts(), "64-byte rows"


def test_an_access_is_shown_phase_by_phase_with_every_swizzle(page: Any) -> None:
    mount(page, load(), state="tab:layout")
    tab(page, "shared memory")
    page.get_by_label("buffer").select_option("B_shared")
    ways = page.locator(".tb-ways tbody tr").first.locator("td").all_inner_texts()
    assert ways[:5] == ["1", "8", "1", "1", "1"], "as compiled, none, 32, 64 and 128 bytes"
    assert ways[5] == "1 (64 seen)", "simulated"
    page.get_by_role("button", name="line 12 ldmatrix.trans, no swizzle: 8-way").click()
    assert "phase 1 of 4: 8-way conflict" in page.locator(".tb-badge").inner_text()
    assert "8-way without" not in page.locator(".tb-badge").inner_text()
    assert pixel(page, 0, 0, 10, 32) == rgb(LANES)[0].tolist()
    assert pixel(page, 3, 2, 10, 32) == rgb(LANES)[3].tolist(), "lane 3 asks for four words of line 3"
    assert pixel(page, 9, 0, 10, 32) == [255, 168, 160], "the bank must give eight words"
    hover(page, 3, 2, 10, 32)
    assert status(page) == "word at byte 25352: lane 3; bank 2: 8 threads, 8 words: 8-way conflict"
    page.locator(".tb-grid").focus()
    page.keyboard.press("j")
    assert page.get_by_label("phase").input_value() == "1"
    page.get_by_label("what if the swizzle were").select_option("own")
    assert "1-way, no conflict" in page.locator(".tb-badge").inner_text()
    page.keyboard.press("Escape")


def big() -> Any:
    info = fragment_info("big", atoms.mma_accumulator((128, 256), (2, 2)), 32, "", 0)
    return replace(load(), layouts=(info,))


def test_a_fragment_of_128_by_256_is_drawn_in_time(page: Any) -> None:
    times = page.evaluate(
        """async (data) => {
        const best = { draw: 1e9, light: 1e9 };
        for (let k = 0; k < 12; k++) {
          const start = performance.now();
          const b = await window.mount(data);
          b.el.querySelector('.tb-grid canvas').getContext('2d').getImageData(0, 0, 1, 1);
          best.draw = Math.min(best.draw, performance.now() - start);
          const over = b.el.querySelector('.tb-over'), at = over.getBoundingClientRect();
          const mid = performance.now();
          const where = { clientX: at.left + 30 + k, clientY: at.top + 30 };
          over.dispatchEvent(new PointerEvent('pointermove', where));
          over.getContext('2d').getImageData(0, 0, 1, 1);
          best.light = Math.min(best.light, performance.now() - mid);
          b.end();
        }
        return best;
      }""",
        model_data(big(), ("layout",)),
    )
    assert times["draw"] < 300, times
    assert times["light"] < 50, times
