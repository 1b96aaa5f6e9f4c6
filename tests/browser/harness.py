"""A plain page that hosts the bundle with a fake model, served from this process on 127.0.0.1; nothing else
is reachable.
"""

from __future__ import annotations

import base64
import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlparse

from tilebench.report import Report
from tilebench.views.bundle import bundle, styles
from tilebench.views.widget import packed

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-sync",
    "--disable-component-update",
    "--no-first-run",
    "--force-device-scale-factor=1",
]

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>harness</title><style>__CSS__
body { margin: 8px; width: 984px; }
body[data-theme="dark"] { background: #0d1117; }</style></head>
<body data-theme="light"><main></main>
<script type="module">
import widget from "/bundle.js";
window.makeModel = (data) => {
  const bytes = Uint8Array.from(atob(data.payload), (c) => c.charCodeAt(0));
  const values = { ...data, payload: new DataView(bytes.buffer) };
  const listeners = new Map();
  return {
    get: (k) => values[k],
    set: (k, v) => { values[k] = v; },
    save_changes: () => { window.saved = (window.saved ?? 0) + 1; },
    send: (m) => {
      (window.messages ??= []).push(m);
      window.answer?.(m, (reply) => { for (const f of listeners.get("msg:custom") ?? []) f(reply); });
    },
    tell: (m) => { for (const f of listeners.get("msg:custom") ?? []) f(m); },
    on: (k, f) => { listeners.set(k, [...(listeners.get(k) ?? []), f]); },
    off: (k, f) => { listeners.set(k, (listeners.get(k) ?? []).filter((g) => g !== f)); },
    change: (k, v) => { values[k] = v; for (const f of listeners.get(`change:${k}`) ?? []) f(); },
    count: () => [...listeners.values()].reduce((n, l) => n + l.length, 0),
  };
};
window.mount = async (data) => {
  const el = document.createElement("div");
  document.querySelector("main").append(el);
  const model = window.makeModel(data);
  const end = await widget.render({ model, el });
  return { el, model, end: () => { end(); el.remove(); } };
};
window.ready = true;
</script></body></html>"""


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/bundle.js":
            body, kind = bundle().encode(), "text/javascript"
        elif self.path == "/":
            body, kind = PAGE.replace("__CSS__", styles()).encode(), "text/html"
        else:
            body, kind = b"", "image/x-icon"
        self.send_response(200)
        self.send_header("Content-Type", kind + "; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@contextmanager
def serving() -> Iterator[str]:
    """The address of the page."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()


def chromium() -> str | None:
    """Debian's Chromium, or another that is on the path."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextmanager
def browser() -> Iterator[Any]:
    """A headless browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        made = play.chromium.launch(executable_path=chromium(), args=FLAGS)
        try:
            yield made
        finally:
            made.close()


def block_network(context: Any, refused: list[str]) -> None:
    """Requests to anything but this machine fail, and are noted."""

    def decide(route: Any) -> None:
        url = urlparse(route.request.url)
        if url.scheme in ("data", "blob") or url.hostname in ("127.0.0.1", "localhost"):
            route.continue_()
        else:
            refused.append(route.request.url)
            route.abort()

    context.route("**/*", decide)


def open_page(made: Any, address: str, complaints: list[str], width: int = 1000, height: int = 900) -> Any:
    """A page with the bundle loaded; console errors, page errors and refused requests are noted in
    `complaints`.
    """
    context = made.new_context(
        viewport={"width": width, "height": height}, reduced_motion="reduce", color_scheme="light"
    )
    block_network(context, complaints)
    page = context.new_page()
    page.set_default_timeout(10_000)
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda e: complaints.append(str(e)))
    page.goto(address)
    page.wait_for_function("window.ready === true")
    return page


def model_data(report: Report, views: tuple[str, ...] = (), state: str = "") -> dict[str, Any]:
    """What the fake model holds."""
    return {
        "payload": base64.b64encode(packed(report)).decode(),
        "views": list(views),
        "state": state,
        "sel": {},
    }


def mount(page: Any, report: Report, views: tuple[str, ...] = (), state: str = "") -> None:
    """Render a board into the page; it is window.board there."""
    page.evaluate(
        "async (data) => { window.board = await window.mount(data); }",
        json.loads(json.dumps(model_data(report, views, state))),
    )
    page.wait_for_selector(".tb-board")
