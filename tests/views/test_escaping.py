"""Nothing that a user writes becomes markup: names, errors, comments, dtypes, labels, in every output."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from html.parser import HTMLParser
from typing import Any

import pytest

from tests.views.fixture import load
from tests.views.more import sliding
from tilebench.report import Report, TraceWrite
from tilebench.views import Board, Comparison, page, whatif, whole
from tilebench.views.bundle import bundle

PAYLOADS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg onload=alert(1)>",
    "</pre></details><button data-commandlinker-command='notebook:run'>x</button>",
    '<a href="javascript:alert(1)">x</a>',
    "$\\frac{1}{0}$ %s {0} \u202e\x00 \x1b[31m",
)


def poisoned(value: Any, text: str) -> Any:
    """The same data with `text` added to every free string."""
    if is_dataclass(value) and not isinstance(value, type):
        closed = {"id", "kind", "provenance", "phase", "level", "severity", "verdict", "scope"}
        if isinstance(value, Report):
            closed = {"id"}
        if isinstance(value, TraceWrite):
            closed |= {"code"}
        return replace(
            value,
            **{f.name: poisoned(getattr(value, f.name), text) for f in fields(value) if f.name not in closed},
        )
    if isinstance(value, str):
        return value + text
    if isinstance(value, tuple):
        return tuple(poisoned(v, text) for v in value)
    if isinstance(value, dict):
        return {k if isinstance(v, tuple) else k + text: poisoned(v, text) for k, v in value.items()}
    return value


class Elements(HTMLParser):
    """The tags and attribute names of a text, as a browser sees them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


TAGS = {
    "p",
    "strong",
    "table",
    "caption",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "details",
    "summary",
    "ul",
    "li",
    "pre",
}


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_output_carries_a_users_markup(payload: str) -> None:
    report = poisoned(load(), payload)
    for text in (
        whole.html(report),
        Comparison(report, load()).html(),
        whatif.html(poisoned(sliding(), payload)),
        Board(report, static=True).html(),
    ):
        seen = Elements(text)
        assert seen.tags <= TAGS
        assert seen.attributes <= {"style", "scope"}


def test_a_page_of_poisoned_reports_has_no_script_and_no_handler() -> None:
    seen = Elements(page([poisoned(load(), "".join(PAYLOADS[:5]))]))
    assert seen.tags <= TAGS | {
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "h1",
        "h2",
        "section",
        "img",
    }
    assert seen.attributes <= {
        "style",
        "scope",
        "lang",
        "charset",
        "name",
        "content",
        "http-equiv",
        "alt",
        "src",
    }


def test_pictures_take_any_text() -> None:
    assert whole.picture(poisoned(load(), PAYLOADS[-1])).data[:4] == b"\x89PNG"


def test_the_module_never_makes_markup_of_data() -> None:
    text = bundle()
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "fetch(",
        "XMLHttpRequest",
        "http://",
        "https://",
    ):
        found = text.replace("http://www.w3.org/2000/svg", "")
        assert word not in found, word
