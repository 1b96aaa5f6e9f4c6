"""`%load_ext tilebench`: registers the magics and completion, puts `T` in reach, and warms the compiler."""

from __future__ import annotations

import threading
from typing import Any


def load_ipython_extension(shell: Any) -> None:
    """Called by IPython. Loading twice changes nothing; what was made before an unloading is still known."""
    from tilebench.notebook import linter
    from tilebench.notebook.completion import install
    from tilebench.notebook.magic import TileMagics

    if getattr(shell, "tilebench_magics", None) is not None:
        return
    magics = shell.tilebench_magics = TileMagics(shell)
    if (before := getattr(shell, "tilebench_unloaded", None)) is not None:
        magics.results, magics.names, magics.changes = before.results, before.names, before.changes
    shell.register_magics(magics)
    install(shell)
    linter.install(shell)
    if "T" not in shell.user_ns:
        import tilebench.language as language

        shell.user_ns["T"] = language
    threading.Thread(target=warm, name="tilebench-warm", daemon=True).start()


def unload_ipython_extension(shell: Any) -> None:
    """Called by IPython: removes what loading put there."""
    from tilebench.notebook import linter
    from tilebench.notebook.completion import remove

    if getattr(shell, "tilebench_magics", None) is None:
        return
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("tile", None)
    remove(shell)
    linter.remove(shell)
    shell.tilebench_unloaded, shell.tilebench_magics = shell.tilebench_magics, None


def warm() -> None:
    """Import the compiler and let NVRTC and LLVM do their first, slow compile, so that the first cell does
    not wait.
    """
    import tilebench.compiler as compiler
    from tilebench import views

    compiler.passes()
    views.warm()
    try:
        from tilebench.backends.cuda.build import warm as warm_nvrtc

        warm_nvrtc()
    except ImportError:
        return  # no NVRTC on this machine: nothing to warm
