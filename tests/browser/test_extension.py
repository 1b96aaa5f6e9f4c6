"""The extension in a real JupyterLab."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.harness import block_network
from tests.browser.test_jupyterlab import CELL, execute, lab, write_notebook

__all__ = ["lab"]
pytestmark = pytest.mark.slow
BROKEN = CELL.replace("T.clear(C_local)", "T.clear(C_locl)")
CONFLICT = """\
%%tile --target emu:sm_80
@T.prim_func
def turned(A: T.Tensor((128, 64), "float16"), B: T.Tensor((64, 128), "float16")):
    with T.Kernel(1, threads=128) as bx:
        S = T.alloc_shared((128, 64), "float16")
        T.copy(A, S)
        for i, j in T.Parallel(64, 128):
            B[i, j] = S[j, i]
"""
PLAIN = "x = 1  # T.copy and\n# %%tile are only words here"
GEMM_LINE = next(k for k, text in enumerate(CELL.splitlines(), 1) if "T.gemm(" in text)
NOTEBOOKS_OWN = re.compile(
    r"^(Cannot read properties of undefined \(reading 'schema'\)"
    r"|Command 'filebrowser:open-path' not registered)[^\n]*\n +at [^\n]*/static/notebook/"
    r"|^Cannot read properties of null \(reading 'updateRenderOption'\)"  # its clock, when a page has closed
)
IDLE = "() => window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
COMPLETED = """([k, text]) => {
  const { content } = window.jupyterapp.shell.currentWidget;
  const offered = [...document.querySelectorAll('.jp-Completer-item')].map((e) => e.textContent);
  return [content.widgets[k].model.sharedModel.getSource(), ...offered].some((t) => t.includes(text));
}"""
LIT = "(e) => [...e.querySelectorAll('.cm-line')].flatMap((l, k) => l.classList.contains('NAME') ? [k + 1] : [])"  # noqa: E501 # one expression of the page


class Book:
    """A notebook open in a page; what the page complained of."""

    def __init__(self, page: Any, complaints: list[str]) -> None:
        self.page, self.complaints = page, complaints

    def cell(self, number: int) -> Any:
        return self.page.locator(".jp-Notebook .jp-Cell").nth(number)

    def run(self, number: int) -> None:
        """Run a cell and wait until its kernel is idle."""
        self.activate(number)
        self.page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-cell')")
        self.page.wait_for_function(
            f"() => window.jupyterapp.shell.currentWidget.content.widgets[{number}].model.executionCount > 0"
        )

    def activate(self, number: int) -> None:
        self.page.evaluate(
            f"() => {{ window.jupyterapp.shell.currentWidget.content.activeCellIndex = {number}; }}"
        )

    def edit_end(self, number: int) -> None:
        """Edit a cell, the cursor behind its text."""
        self.activate(number)
        self.page.evaluate(
            """(k) => {
              const { content } = window.jupyterapp.shell.currentWidget;
              content.mode = 'edit';
              const { editor } = content.widgets[k];
              editor.focus();
              editor.setCursorPosition(editor.getPositionAt(editor.model.sharedModel.getSource().length));
            }""",
            number,
        )

    def set_text(self, number: int, text: str) -> None:
        """Replace a cell's text as an edit of its document."""
        self.page.evaluate(
            "([k, t]) => window.jupyterapp.shell.currentWidget.content.widgets[k].model.sharedModel.setSource(t)",  # noqa: E501 # one expression of the page
            [number, text],
        )

    def lines(self, number: int, name: str) -> list[int]:
        """The numbers of a cell's lines that have a class."""
        return self.cell(number).locator(".cm-content").evaluate(LIT.replace("NAME", name))

    def word(self, number: int, line: int, text: str) -> tuple[float, float]:
        """The middle of the first occurrence of a word in a line of a cell, in the page."""
        return tuple(
            self.page.evaluate(
                """([k, line, text]) => {
                  const view = window.jupyterapp.shell.currentWidget.content.widgets[k].editor.editor;
                  const from = view.state.doc.line(line);
                  const at = from.from + from.text.indexOf(text) + Math.floor(text.length / 2);
                  const box = view.coordsAtPos(at);
                  return [box.left, (box.top + box.bottom) / 2];
                }""",
                [number, line, text],
            )
        )

    def shot(self, name: str) -> None:
        if folder := os.environ.get("BROWSER_SCREENSHOTS"):
            self.page.screenshot(path=f"{folder}/extension-{name}.png")


@pytest.fixture
def open_book(chrome: Any, lab: tuple[str, Path]) -> Iterator[Any]:
    """Opens notebooks; at the end no page may have complained, nor asked another machine for anything."""
    books: list[Book] = []

    def opened(name: str, cells: list[str] | None, path: str = "") -> Book:
        if cells is not None:
            write_notebook(lab[1] / name, cells)
        context = chrome.new_context(viewport={"width": 1300, "height": 1100}, reduced_motion="reduce")
        complaints: list[str] = []
        block_network(context, complaints)
        page = context.new_page()
        page.set_default_timeout(90_000)  # a busy machine of two cores opens a page in half a minute
        page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: complaints.append(f"{e} {e.stack}"))
        # A workspace of its own: the notebooks of other tests are not opened again beside this one.
        page.goto(f"{lab[0]}/{path or f'lab/workspaces/{name[:-6]}/tree'}/{name}")
        page.wait_for_function("window.jupyterapp && document.querySelector('.jp-Notebook .jp-Cell')")
        page.wait_for_function(IDLE)
        books.append(Book(page, complaints))
        return books[-1]

    yield opened
    complaints = [c for book in books for c in book.complaints]
    for book in books:  # what is cut off by this end is not the test's
        book.page.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")
        book.page.context.close()
    assert not complaints, "\n\n".join(complaints)


def test_tile_cells_are_decorated_and_other_cells_are_not(open_book: Any) -> None:
    book = open_book("decorated.ipynb", ["%load_ext tilebench", PLAIN, CELL])
    tile = book.cell(2)
    assert tile.locator(".tb-magic").all_inner_texts() == ["%%tile"]
    assert tile.locator(".tb-option").all_inner_texts() == ["--target"]
    names = tile.locator(".tb-name").all_inner_texts()
    assert "T.alloc_shared" in names
    assert "T.gemm" in names
    for plain in (0, 1):
        assert book.cell(plain).locator("[class*='tb-'], .cm-gutter, .cm-gutters").count() == 0
    book.set_text(1, CELL)
    book.cell(1).locator(".tb-magic").wait_for()
    assert book.cell(1).locator(".tb-gutter").count() == 1
    book.set_text(1, PLAIN)
    book.cell(1).locator(".tb-gutter").wait_for(state="detached")
    assert book.cell(1).locator("[class*='tb-'], .cm-gutter, .cm-gutters").count() == 0


def test_squiggles_come_as_one_types_and_vanish_on_the_fix_and_with_the_kernel(open_book: Any) -> None:
    book = open_book("squiggles.ipynb", ["%load_ext tilebench", BROKEN, BROKEN.replace("%%tile", "#%%tile")])
    page, tile = book.page, book.cell(1)
    wrong, mark = tile.locator(".cm-lintRange-error"), tile.locator(".tb-gutter-error span")
    page.wait_for_timeout(500)
    assert wrong.count() == 0, "the kernel has not loaded tilebench"
    book.run(0)
    wrong.wait_for()
    assert wrong.inner_text() == "C_locl"
    assert mark.get_attribute("title") == "unknown name C_locl; did you mean C_local?"
    wrong.hover()
    tip = page.locator(".cm-tooltip .tb-diagnostic")
    tip.wait_for()
    assert "why: it is defined neither in the kernel nor around it" in tip.inner_text()
    assert "TB101" in page.locator(".cm-tooltip").inner_text()
    book.shot("squiggle")
    assert book.cell(2).locator(".cm-lintRange-error, .tb-gutter").count() == 0, "not in other cells"

    page.mouse.move(5, 5)
    x, y = book.word(1, 10, "locl")
    page.mouse.click(x, y)  # between o and c
    page.keyboard.type("x")
    page.keyboard.press("Backspace")
    page.keyboard.press("ArrowRight")
    page.keyboard.type("a")
    tile.locator(".cm-line", has_text="T.clear(C_local)").wait_for()
    wrong.wait_for(state="detached")
    assert mark.count() == 0
    page.keyboard.press("Backspace")
    wrong.wait_for()

    page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.restartKernel()")
    wrong.wait_for(state="detached")
    page.wait_for_function(IDLE)
    book.run(0)
    wrong.wait_for()


def test_hovers_say_what_a_buffer_is_and_what_carries_out_an_op(open_book: Any) -> None:
    from playwright.sync_api import TimeoutError

    book = open_book("hovers.ipynb", ["%load_ext tilebench", CELL, PLAIN.replace("x =", "C_local =")])
    book.run(0)
    page, card = book.page, book.page.locator(".tb-card")
    book.activate(1)

    def read(line: int, word: str) -> str:
        page.mouse.move(5, 5)
        card.wait_for(state="detached")
        for attempt in range(5):  # until the kernel has answered for the first time
            x, y = book.word(1, line, word)
            page.mouse.move(x, y)
            page.mouse.move(x + 1, y)
            try:
                card.wait_for(timeout=6_000)
                break
            except TimeoutError:
                assert attempt < 4
                page.mouse.move(5, 5)
        return card.inner_text()

    text = read(GEMM_LINE, "C_local")
    assert "C_local 128×128 float32, fragment" in text
    assert "64 KiB" in text
    assert "why: the accumulator of" in text
    picture = card.locator("canvas")
    assert picture.evaluate("c => [c.width, c.height]") == [128, 128]
    assert picture.evaluate("c => [...c.getContext('2d').getImageData(0, 0, 1, 1).data]") == [
        175,
        175,
        255,
        255,
    ]
    book.shot("hover")
    text = read(GEMM_LINE, "A_shared")
    assert "A_shared 128×32 float16, shared" in text
    assert "8 KiB × 2, from byte 0" in text
    assert "64×128 float16, global" in read(13, "B[")
    text = read(GEMM_LINE, "gemm")
    assert re.search(r"T\.gemm is carried out by \S*mma", text)
    assert re.search(r"reads A_shared, B_shared.*; writes C_local", text)


def test_findings_of_the_last_run_are_squiggles(open_book: Any) -> None:
    book = open_book("findings.ipynb", ["%load_ext tilebench", CONFLICT])
    book.run(0)
    book.run(1)
    tile = book.cell(1)
    mark = tile.locator(".tb-gutter-warning span")
    mark.wait_for()
    assert "4-way bank conflict" in mark.get_attribute("title")
    assert tile.locator(".cm-lintRange-warning").inner_text() == "B[i, j] = S[j, i]"
    book.set_text(1, CONFLICT.replace("S[j, i]", "S[i, j]"))
    mark.wait_for(state="detached")  # the finding was of another text
    book.set_text(1, CONFLICT)
    mark.wait_for()


def test_pinned_lines_are_lit_both_ways_and_follow_the_text(open_book: Any) -> None:
    book = open_book("pins.ipynb", ["%load_ext tilebench", CELL])
    book.run(0)
    book.run(1)
    page, tile = book.page, book.cell(1)
    board = tile.locator(".tb-board")
    board.wait_for()
    assert tile.locator(".tilebench-report > .tilebench").count() == 0, "the live widget, not a second board"

    tile.locator(".tb-gutter .cm-gutterElement").nth(GEMM_LINE - 1).click()
    assert book.lines(1, "tb-line-pinned") == [GEMM_LINE]
    assert tile.locator(".tb-gutter-pin").count() == 1
    assert board.locator(".tb-pins").inner_text() == f"1 pinned: line {GEMM_LINE}"
    board.get_by_role("tab", name="code").click()
    pane = board.locator(".tb-pane")
    assert pane.nth(1).locator(".tb-pinned").count() > 0
    book.shot("pinned")

    pane.nth(0).locator(".tb-line", has_text="T.copy(A[").first.click()
    assert book.lines(1, "tb-line-pinned") == [GEMM_LINE - 2]
    pane.nth(0).locator(".tb-line", has_text="T.copy(B[").first.hover()
    assert book.lines(1, "tb-line-hovered") == [GEMM_LINE - 1]
    page.mouse.move(5, 5)

    book.set_text(1, CELL.replace("        T.clear", "        # one line more\n        T.clear"))
    page.wait_for_timeout(200)
    assert book.lines(1, "tb-line-pinned") == [GEMM_LINE - 1], "the same statement, a line further down"
    board.get_by_role("button", name="clear pins").click()
    assert book.lines(1, "tb-line-pinned") == []


def test_the_side_board_follows_the_active_cell(open_book: Any) -> None:
    other = CELL.replace("def gemm(", "def product(")
    book = open_book("side.ipynb", ["%load_ext tilebench", CELL, other])
    for number in range(3):
        book.run(number)
    page = book.page
    side = page.locator("#tilebench-board")
    book.activate(1)
    execute(page, "tilebench:show-board")
    verdict = side.locator(".tb-verdict")
    verdict.wait_for()
    assert "gemm on emu:sm_90a" in verdict.inner_text()
    book.shot("side")
    book.activate(2)
    side.locator(".tb-verdict", has_text="product on").wait_for()
    book.activate(0)
    page.wait_for_timeout(200)
    assert "product on" in verdict.inner_text(), "kept while a cell without a report is active"
    side.get_by_role("tab", name="code").click()
    side.locator(".tb-pane").nth(0).locator(".tb-line", has_text="T.gemm").first.click()
    assert book.lines(2, "tb-line-pinned") == [GEMM_LINE]
    assert book.lines(1, "tb-line-pinned") == [], "the other kernel has a bus of its own"


def test_after_a_reload_the_kernel_lives_and_the_board_is_back(open_book: Any) -> None:
    kernel = "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.id"
    book = open_book("again.ipynb", ["%load_ext tilebench\nkept = 41", CELL, "print(kept + 1)"])
    page = book.page
    book.run(0)
    book.run(1)
    book.cell(1).locator(".tb-board").wait_for()
    book.activate(1)
    execute(page, "tilebench:show-board")
    verdict = page.locator("#tilebench-board .tb-verdict")
    verdict.wait_for()
    said, number = verdict.inner_text(), page.evaluate(kernel)
    execute(page, "docmanager:save")
    page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")
    page.wait_for_timeout(2_000)  # JupyterLab writes down where its panels are a moment later
    page.reload()
    page.wait_for_function("window.jupyterapp && document.querySelector('.jp-Notebook .jp-Cell')")
    page.wait_for_function(IDLE)
    assert page.evaluate(kernel) == number
    verdict.wait_for()
    assert verdict.inner_text() == said, "without a click: the report nearest to the active cell"
    book.activate(1)
    assert verdict.inner_text() == said
    panel = page.locator("#tilebench-board")
    panel.get_by_role("tab", name="code").click()
    panel.locator(".tb-line", has_text="T.gemm").first.click()
    assert book.lines(1, "tb-line-pinned") == [GEMM_LINE]
    book.run(2)
    assert book.cell(2).locator(".jp-OutputArea-output").inner_text().strip() == "42"
    book.shot("after-reload")
    # The sockets of the page that was left are cut off by the browser.
    book.complaints[:] = [c for c in book.complaints if "WebSocket" not in c and "Failed to fetch" not in c]


def test_saved_reports_are_interactive_with_no_kernel(open_book: Any, lab: tuple[str, Path]) -> None:
    import nbformat

    book = open_book(
        "saved.ipynb", ["%load_ext tilebench", CELL, "import tilebench\ntilebench.show(gemm, 'layout')"]
    )
    for number in range(3):
        book.run(number)
    execute(book.page, "docmanager:save")
    book.page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")
    saved = nbformat.read(lab[1] / "saved.ipynb", as_version=4)
    saved.metadata.pop("kernelspec")
    saved.metadata.pop("widgets", None)
    nbformat.write(saved, lab[1] / "still.ipynb")

    still = open_book("still.ipynb", None)
    page = still.page
    boards = "document.querySelectorAll('.tilebench-report > .tilebench .tb-board').length === 2"
    page.wait_for_function(boards)  # a fresh kernel does not know the widgets
    page.evaluate(
        """async () => {
          const { sessionContext, context } = window.jupyterapp.shell.currentWidget;
          await sessionContext.shutdown();
          document.querySelectorAll('.tilebench-report').forEach((e) => e.remove());
          await context.revert();
        }"""
    )
    page.wait_for_function(boards)  # drawn again, with no kernel at all
    assert page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session") is None
    first = page.locator(".tb-board").first
    first.locator(".tb-grid").focus()
    for key in ["ArrowDown"] * 3 + ["ArrowRight"] * 2:
        page.keyboard.press(key)
    assert re.match(r"row 3 column 2: thread 13 \(warp 0", first.locator(".tb-status").first.inner_text())
    first.get_by_role("tab", name="code").click()
    first.locator(".tb-pane").nth(0).locator(".tb-line", has_text="T.gemm").first.click()
    assert still.lines(1, "tb-line-pinned") == [GEMM_LINE]
    second = page.locator(".tb-board").nth(1)
    assert second.locator(".tb-pins").inner_text() == f"1 pinned: line {GEMM_LINE}"
    assert second.get_by_role("tab").all_inner_texts() == ["layout"]
    still.shot("no-kernel")
    # JupyterLab's debugger may have been asking the kernel something when it was shut down.
    still.complaints[:] = [c for c in still.complaints if "Canceled future for debug_request" not in c]


def test_the_kernel_completes_options_and_names(open_book: Any) -> None:
    from playwright.sync_api import TimeoutError

    body = "%%tile --target cpu\n@T.prim_func\ndef f(X: T.Tensor((64,), 'float16')):\n    with T.Kernel("
    book = open_book(
        "complete.ipynb",
        [
            "%load_ext tilebench",
            "%%tile --ta",
            "%%tile\nT.alloc_sh",
            f"{body}1) as b:\n        T.alloc_",
            f"{body}1, thr",
        ],
    )
    book.run(0)
    page = book.page
    for number, completed in ((1, "--target"), (2, "alloc_shared"), (3, "alloc_fragment"), (4, "threads=")):
        # A single answer is put in at once, several are offered.
        for attempt in range(
            5
        ):  # the editor may have got its completer, and the kernel its names, a little later
            book.edit_end(number)
            page.keyboard.press("Tab")
            try:
                page.wait_for_function(COMPLETED, arg=[number, completed], timeout=10_000)
                break
            except TimeoutError:
                assert attempt < 4, page.locator(".jp-Completer").all_inner_texts()
        page.keyboard.press("Escape")


def test_tutorials_are_listed_and_opened_as_copies(open_book: Any, lab: tuple[str, Path]) -> None:
    book = open_book("before.ipynb", ["x = 1"])
    page = book.page
    execute(page, "launcher:create")
    card = page.locator(".jp-LauncherCard[data-category=Tilebench]", has_text="Tile Tutorials")
    card.wait_for()
    book.shot("launcher")
    card.click()
    offered = page.locator(".tb-tutorial")
    offered.first.wait_for()
    assert "not started" in offered.first.inner_text()
    book.shot("tutorials")
    title = offered.first.locator("strong").inner_text()
    offered.first.click()
    page.wait_for_function(
        "() => /^tile-tutorials/.test(window.jupyterapp.shell.currentWidget?.context?.path ?? '')"
    )
    page.wait_for_function(IDLE)
    page.get_by_role("heading", name=title).first.wait_for()
    (copy,) = (lab[1] / "tile-tutorials").glob("*.ipynb")
    cells = "window.jupyterapp.shell.currentWidget.content.widgets"
    book.run(page.evaluate(f"() => {cells}.findIndex((w) => w.model.type === 'code')"))
    execute(page, "docmanager:save")
    page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")
    assert '"execution_count": 1' in copy.read_text()
    page.evaluate("() => void window.jupyterapp.commands.execute('tilebench:tutorials')")
    offered.first.wait_for()
    assert re.search(r"1 of \d+ cells run", offered.first.inner_text())
    page.keyboard.press("Escape")
    offered.first.wait_for(state="detached")


def test_a_new_tile_notebook_runs(open_book: Any) -> None:
    book = open_book("from.ipynb", ["x = 1"])
    page = book.page
    execute(page, "tilebench:new-notebook")
    page.wait_for_function(
        "() => /^Untitled/.test(window.jupyterapp.shell.currentWidget?.context?.path ?? '')"
        " && window.jupyterapp.shell.currentWidget.content.widgets.length === 2"
    )
    page.wait_for_function(IDLE)
    execute(page, "notebook:run-all-cells")
    verdict = page.locator(".tb-verdict")
    verdict.wait_for()
    assert verdict.inner_text().startswith("PASS scale")


def test_notebook_7_has_the_same_extension(open_book: Any) -> None:
    book = open_book("seven.ipynb", ["%load_ext tilebench", BROKEN, CELL], path="notebooks")
    page = book.page
    assert book.cell(2).locator(".tb-magic").all_inner_texts() == ["%%tile"]
    book.run(0)
    book.cell(1).locator(".cm-lintRange-error").wait_for()
    book.run(2)
    book.cell(2).locator(".tb-board").wait_for()
    book.activate(2)
    execute(page, "tilebench:show-board")
    page.locator("#tilebench-board .tb-verdict").wait_for()
    book.shot("notebook-7")
    # The tutorials, by the menu's command; in Notebook they open in a tab of the browser.
    page.evaluate("() => void window.jupyterapp.commands.execute('tilebench:tutorials')")
    offered = page.locator(".tb-tutorial")
    offered.first.wait_for()
    title = offered.first.locator("strong").inner_text()
    with page.context.expect_page() as opening:
        offered.first.click()
    copy = opening.value
    copy.wait_for_function("window.jupyterapp && document.querySelector('.jp-Notebook .jp-Cell')")
    copy.get_by_role("heading", name=title).first.wait_for()
    assert "/notebooks/tile-tutorials/" in copy.url
    copy.close()
    with page.context.expect_page() as opening:
        page.evaluate("() => void window.jupyterapp.commands.execute('tilebench:new-notebook')")
    fresh = opening.value
    fresh.wait_for_function("document.querySelectorAll('.jp-Notebook .jp-Cell').length === 2")
    assert "/notebooks/Untitled" in fresh.url
    assert "%load_ext tilebench" in fresh.locator(".jp-Notebook .jp-Cell").first.inner_text()
    fresh.close()
    # While it starts Notebook's handler of shortcuts meets a plugin without settings, with our extension as
    # without it; where JupyterLab ran before, its file browser asks for a command that only JupyterLab has.
    # Nothing else may go wrong.
    book.complaints[:] = [c for c in book.complaints if not NOTEBOOKS_OWN.search(c)]
