"""What-if in a real JupyterLab: figures are predicted, the compile follows, a point is kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.browser.board import LUMINANCE
from tests.browser.test_jupyterlab import execute, lab, open_notebook, write_notebook

__all__ = ["lab"]

FACTORY = """\
import tilebench
import tilebench.language as T

def gemm(M=512, N=512, K=2048, block_M=64, block_N=64, block_K=32, num_stages=2, threads=128):
    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(N // block_N, M // block_M, threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), "float16")
            B_shared = T.alloc_shared((block_K, block_N), "float16")
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_local)
            for k in T.Pipelined(K // block_K, num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])
    return kernel
"""
SHOW = "w = tilebench.whatif(gemm, num_stages=[2, 3, 4], block_K=[16, 32, 512])\nw"
ASK = "print('KEPT', [r.config['num_stages'] for r in w.kept], len(w.points))"


@pytest.mark.slow
def test_a_slider_predicts_compiles_and_keeps(chrome: Any, lab: tuple[str, Path]) -> None:
    write_notebook(lab[1] / "whatif.ipynb", [FACTORY, SHOW, ASK])
    refused: list[str] = []
    page = open_notebook(chrome, lab, "whatif.ipynb", refused)
    execute(page, "notebook:run-all-cells")
    page.wait_for_selector(".tb-sliders")
    board = page.locator(".tb-board")
    status = board.locator(".tb-panel .tb-status").first

    slider = board.get_by_role("slider", name="num_stages")
    slider.scroll_into_view_if_needed()
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function(
        "() => /num_stages=3: [\\d.]+ us, .* \\(predicted\\)/"
        ".test(document.querySelector('.tb-panel .tb-status').textContent)"
    )
    page.wait_for_selector(".tb-state[data-state=compiled]")
    assert "(compiler's log)" in status.inner_text()
    mark = board.get_by_role("button", name="block_K 512: illegal")
    assert "shared memory" in mark.get_attribute("aria-label")

    board.get_by_role("button", name="run and measure").click()
    page.wait_for_function(
        "() => /measured [\\d.]+ [mu]s on .*, right/"
        ".test(document.querySelector('.tb-panel .tb-status').textContent)"
    )
    assert "made-up inputs" in board.locator(".tb-panel").first.inner_text()

    board.get_by_role("button", name="keep").click()
    page.wait_for_selector(".tb-state[data-state=kept]")
    board.get_by_role("tab", name="changes").click()
    assert "num_stages" in board.locator(".tb-deltas").first.inner_text() + board.inner_text()
    board.get_by_role("tab", name="roofline").click()
    assert board.locator(".tb-point").count() == 2
    board.get_by_role("tab", name="what if").click()

    page.evaluate(
        """() => {
          const book = window.jupyterapp.shell.currentWidget.content;
          book.activeCellIndex = book.widgets.length - 1;
        }"""
    )
    execute(page, "notebook:run-cell")
    page.wait_for_function(
        "[...document.querySelectorAll('.jp-OutputArea-output pre')]"
        ".some((e) => /KEPT \\['3'\\] \\d+/.test(e.textContent))"
    )
    for theme, light in (("JupyterLab Dark", "false"), ("JupyterLab Light", "true")):
        execute(page, "apputils:change-theme", f"{{theme: '{theme}'}}")
        page.wait_for_function(f"document.body.dataset.jpThemeLight === '{light}'")
        page.wait_for_timeout(300)
        assert page.evaluate(LUMINANCE) == [], theme
        if folder := os.environ.get("BROWSER_SCREENSHOTS"):
            slider.scroll_into_view_if_needed()
            page.screenshot(path=f"{folder}/whatif-lab-{light}.png")
    execute(page, "docmanager:save")
    page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")
    page.context.close()
    assert [u for u in refused if "tilebench" in u or "anywidget" in u] == []

    import nbformat

    saved = nbformat.read(lab[1] / "whatif.ipynb", as_version=4)
    output = next(o for o in saved.cells[1].outputs if "data" in o)
    assert "image/png" in output.data
    assert "predicted" in output.data["text/plain"]
    tried = output.data["application/vnd.tilebench.report+json"]["report"]["whatif"]["tried"]
    assert [p["config"]["num_stages"] for p in tried if p["kept"]] == ["3"]
    assert any(p["measured"] for p in tried)
