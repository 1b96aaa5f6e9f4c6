"""`import tilebench` needs NumPy alone; every heavy package waits for the module that uses it."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "llvmlite", "cuda", "matplotlib", "anywidget", "ipywidgets", "IPython", "jupyterlab")


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_loads_no_heavy_package() -> None:
    code = f"import sys, tilebench; print([name for name in {HEAVY!r} if name in sys.modules])"
    assert run(code) == "[]"


@pytest.mark.parametrize("package", ["errors", "config", "report", "layouts", "targets", "ir", "ops"])
def test_core_works_without_heavy_packages(package: str) -> None:
    # None in sys.modules makes an import fail as if the package were not installed.
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({HEAVY!r})); import tilebench.{package}; print('ok')"
    )
    assert run(code) == "ok"
