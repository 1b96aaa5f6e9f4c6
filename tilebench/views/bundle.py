"""One ES module from the files in static/: what anywidget can load from a Blob, where relative imports fail.

The convention of the files: imports are single statements at the start of a line,
`import { a, b as c } from "./x.js";` or `import * as x from "./x.js";`; exports are
`export function|async function|const|class NAME` at the start of a line; only the entry has `export default`.
Each file becomes a function that gives its exports, so names are private to files.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

STATIC = Path(__file__).resolve().parent / "static"
ENTRY = "widget"

_IMPORT = re.compile(
    r'^import (?:\* as (?P<all>\w+)|\{(?P<some>[^}]*)\}) from "\./(?P<file>\w+)\.js";[ \t]*\n', re.MULTILINE
)
_EXPORT = re.compile(r"^export (?=(?:async function|function|const|class) (\w+))", re.MULTILINE)
_DEFAULT = re.compile(r"^export default ", re.MULTILINE)


def imports_of(text: str) -> list[str]:
    """The files that a module imports, in order."""
    return [m["file"] for m in _IMPORT.finditer(text)]


def wrapped(name: str, text: str, entry: bool) -> str:
    """A module as a constant `$name` that holds its exports. Raises ValueError where the convention is
    broken.
    """

    def bound(m: re.Match[str]) -> str:
        if m["all"]:
            return f"const {m['all']} = ${m['file']};\n"
        names = ", ".join(part.strip().replace(" as ", ": ") for part in m["some"].split(",") if part.strip())
        return f"const {{ {names} }} = ${m['file']};\n"

    exports = [m.group(1) for m in _EXPORT.finditer(text)]
    body = _EXPORT.sub("", _IMPORT.sub(bound, text))
    if entry:
        body, count = _DEFAULT.subn("const $default = ", body)
        if count != 1:
            raise ValueError(f"{name}.js: the entry has one `export default`, not {count}")
        exports.append("$default")
    if re.search(r"^\s*(import|export)\b[\s{*]", body, re.MULTILINE):
        raise ValueError(f"{name}.js: an import or export that is not as views/bundle.py wants it")
    return f"// {name}.js\nconst ${name} = (() => {{\n{body}\nreturn {{ {', '.join(exports)} }};\n}})();\n"


@cache
def bundle(entry: str = ENTRY, folder: Path = STATIC) -> str:
    """The entry and all that it imports, each file once, imported files first. Raises ValueError on a circle
    of imports.
    """
    done: dict[str, str] = {}
    path: list[str] = []

    def visit(name: str) -> None:
        if name in done:
            return
        if name in path:
            raise ValueError(f"a circle of imports: {' -> '.join([*path, name])}")
        path.append(name)
        text = (folder / f"{name}.js").read_text(encoding="utf-8")
        for other in imports_of(text):
            visit(other)
        path.pop()
        done[name] = wrapped(name, text, entry == name)

    visit(entry)
    return "\n".join(done.values()) + f"\nexport default ${entry}.$default;\n"


@cache
def styles() -> str:
    """The style sheets: the board's, then those of single views."""
    return "".join((STATIC / name).read_text(encoding="utf-8") for name in ("board.css", "step.css"))
