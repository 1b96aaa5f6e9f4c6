"""End to end in a real JupyterLab: a notebook with a `%%tile` cell is opened and run; its board answers the
mouse.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.board import LUMINANCE
from tests.browser.harness import block_network

CELL = """\
%%tile --target emu:sm_90a
@T.prim_func
def gemm(
    A: T.Tensor((128, 64), "float16"), B: T.Tensor((64, 128), "float16"), C: T.Tensor((128, 128), "float32"),
):
    with T.Kernel(1, 1, threads=128) as (bx, by):
        A_shared = T.alloc_shared((128, 32), "float16")
        B_shared = T.alloc_shared((32, 128), "float16")
        C_local = T.alloc_fragment((128, 128), "float32")
        T.clear(C_local)
        for k in T.Pipelined(2, num_stages=2):
            T.copy(A[by * 128, k * 32], A_shared)
            T.copy(B[k * 32, bx * 128], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[by * 128, bx * 128])
"""
SHOW = "import tilebench\nboard = tilebench.show(gemm, 'layout')\nboard"
ASK = "print('PINNED', board.sel)"


def write_notebook(path: Path, cells: list[str]) -> None:
    import nbformat

    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    book.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(book, path)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """(address, folder of notebooks) of a JupyterLab of its own: no settings of the user's, no token, this
    machine only.
    """
    home = tmp_path_factory.mktemp("lab")
    (home / "books").mkdir()
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    env = {
        **os.environ,
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "run"),
        "IPYTHONDIR": str(home / "ipython"),
        "TILEBENCH_CACHE_DIR": str(home / "cache"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
    }
    with (home / "log").open("w") as log:
        command = [
            sys.executable,
            "-m",
            "jupyterlab",
            "--no-browser",
            "--allow-root",
            f"--ServerApp.port={port}",
            "--ServerApp.ip=127.0.0.1",
            "--IdentityProvider.token=",
            "--ServerApp.password=",
            f"--ServerApp.root_dir={home / 'books'}",
            "--LabApp.expose_app_in_browser=True",
            "--JupyterNotebookApp.expose_app_in_browser=True",  # Notebook 7 is served beside it
            "--LabApp.news_url=None",
            "--ServerApp.port_retries=0",
        ]
        server = subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT)
        try:
            address = f"http://127.0.0.1:{port}"
            until = time.monotonic() + 60
            while True:
                try:
                    urllib.request.urlopen(f"{address}/api", timeout=2).close()
                    break
                except (urllib.error.URLError, OSError):
                    assert server.poll() is None, (home / "log").read_text()[-3000:]
                    assert time.monotonic() < until, (home / "log").read_text()[-3000:]
                    time.sleep(0.3)
            yield address, home / "books"
        finally:
            server.terminate()
            server.wait(timeout=20)


def open_notebook(chrome: Any, lab: tuple[str, Path], name: str, refused: list[str]) -> Any:
    context = chrome.new_context(viewport={"width": 1300, "height": 1100}, reduced_motion="reduce")
    block_network(context, refused)
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.goto(f"{lab[0]}/lab/tree/{name}")
    page.wait_for_function("window.jupyterapp && document.querySelector('.jp-Notebook .jp-Cell')")
    page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
    )
    return page


def execute(page: Any, command: str, options: str = "{}") -> None:
    page.evaluate(f"() => window.jupyterapp.commands.execute('{command}', {options})")


@pytest.mark.slow
def test_a_tile_cell_shows_a_live_board(chrome: Any, lab: tuple[str, Path]) -> None:
    write_notebook(lab[1] / "first.ipynb", ["%load_ext tilebench", CELL, SHOW, ASK])
    refused: list[str] = []
    page = open_notebook(chrome, lab, "first.ipynb", refused)
    execute(page, "notebook:run-all-cells")
    page.wait_for_function("document.querySelectorAll('.tb-board').length === 2")
    first = page.locator(".tb-board").first
    assert re.match(
        r"PASS gemm on emu:sm_90a: correct against oracle", first.locator(".tb-verdict").inner_text()
    )

    grid = first.locator(".tb-over")
    grid.scroll_into_view_if_needed()
    box = grid.bounding_box()
    page.mouse.move(box["x"] + 17.5 * box["width"] / 128, box["y"] + 3.5 * box["height"] / 128)
    assert re.match(
        r"row 3 column 17: thread 12 \(warp 0, lane 12\), register \d+",
        first.locator(".tb-status").first.inner_text(),
    )

    first.get_by_role("tab", name="code").click()
    pane = first.locator(".tb-pane")
    pane.nth(0).locator(".tb-line", has_text="T.gemm").first.click()
    assert pane.nth(1).locator(".tb-pinned").count() > 0
    second = page.locator(".tb-board").nth(1)
    line = next(
        k for k, text in enumerate(CELL.splitlines(), 1) if "T.gemm(" in text
    )  # as the notebook's editor counts
    pinned = second.locator(".tb-pins").inner_text()
    assert pinned == f"1 pinned: line {line}", "both outputs are of one kernel"

    page.wait_for_timeout(500)
    page.evaluate(
        """() => {
          const book = window.jupyterapp.shell.currentWidget.content;
          book.activeCellIndex = book.widgets.length - 1;
        }"""
    )
    execute(page, "notebook:run-cell")
    page.wait_for_function(
        "[...document.querySelectorAll('.jp-OutputArea-output pre')]"
        ".some((e) => /PINNED \\{'line'/.test(e.textContent))"
    )

    for theme, light in (("JupyterLab Dark", "false"), ("JupyterLab Light", "true")):
        execute(page, "apputils:change-theme", f"{{theme: '{theme}'}}")
        page.wait_for_function(f"document.body.dataset.jpThemeLight === '{light}'")
        page.wait_for_timeout(300)
        for name in ("code", "figures", "layout"):
            first.get_by_role("tab", name=name).click()
            assert page.evaluate(LUMINANCE) == [], (theme, name)
        if folder := os.environ.get("BROWSER_SCREENSHOTS"):
            page.screenshot(path=f"{folder}/lab-{light}.png")
    execute(page, "docmanager:save")
    page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")
    page.context.close()
    assert [u for u in refused if "tilebench" in u or "anywidget" in u] == []

    import nbformat

    saved = nbformat.read(lab[1] / "first.ipynb", as_version=4)
    outputs = [o.data for c in saved.cells for o in c.get("outputs", ()) if "data" in o]
    assert all("image/png" in data for data in outputs)
    assert len(outputs) == 2
