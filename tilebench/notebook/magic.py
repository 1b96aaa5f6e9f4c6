"""`%%tile` and `%tile`: parse the line, call kernel/session.py, display its report.

Errors show as text, never as a stack.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, cast

from IPython.core.error import UsageError
from IPython.core.magic import (
    Magics,
    line_cell_magic,
    magics_class,
    needs_local_scope,
    no_var_expand,
    output_can_be_silenced,
)
from IPython.core.magic_arguments import (
    argument,
    magic_arguments,
    parse_argstring,  # pyright: ignore[reportUnknownVariableType] # untyped
)

from tilebench import config
from tilebench.errors import InternalError, LaunchError, SyntaxTileError, TileError, nearest
from tilebench.kernel.session import Result, run
from tilebench.notebook.completion import COMMANDS, SHOWN
from tilebench.report import VIEWS


@magics_class
class TileMagics(Magics):
    """Holds the kernels of this notebook by name, in the order in which they were made."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)  # type: ignore[no-untyped-call]
        self.results: dict[str, Result] = {}

    @output_can_be_silenced
    @no_var_expand
    @needs_local_scope
    @magic_arguments()
    @argument(
        "name",
        nargs="?",
        default="",
        help="the kernel to take when the cell defines several; default: the last",
    )
    @argument("-t", "--target", default=None, help="auto, interp, emu[:sm_90a], cpu or cuda[:sm_90a]")
    @argument(
        "-a", "--args", default=None, metavar="EXPR", help="the inputs, as a Python expression: --args 'A, B'"
    )
    @argument(
        "-r", "--ref", default=None, metavar="EXPR", help="a PyTorch function of the inputs to compare with"
    )
    @argument(
        "-s", "--set", action="append", default=[], metavar="K=V", help="value of a tunable (repeatable)"
    )
    @argument("--show", nargs="+", default=None, choices=SHOWN, help="views to show; default: all that apply")
    @argument("--bench", nargs="?", type=int, const=20, default=0, metavar="N", help="time N runs (20)")
    @argument("--as", dest="variable", default=None, metavar="VAR", help="bind the kernel to this name")
    @argument(
        "--atol",
        type=float,
        default=None,
        help="absolute tolerance against --ref, instead of the error bound",
    )
    @argument(
        "--rtol",
        type=float,
        default=None,
        help="relative tolerance against --ref, instead of the error bound",
    )
    @argument("--no-run", dest="launch", action="store_false", help="compile only")
    @argument("--no-check", dest="check", action="store_false", help="run without comparing")
    @argument(
        "--isolate",
        action="store_true",
        help="run in a worker process: a fault there leaves this kernel alive",
    )
    @argument("--static", action="store_true", help="still pictures only")
    @argument("--seed", type=int, default=0, help="seed of made-up inputs")
    @argument("-q", "--quiet", action="store_true", help="show nothing when all is well")
    @argument("--traceback", action="store_true", help="show the Python stack of an error")  # pyright: ignore[reportUntypedFunctionDecorator] # untyped
    @line_cell_magic
    def tile(self, line: str, cell: str | None = None, local_ns: dict[str, Any] | None = None) -> Any:
        """Compile, run, check and show the tile program in this cell.

        As a line: %tile list | show NAME [VIEW...] | doctor | clear. Gives the Kernel, so `k = %tile NAME`
        works.
        """
        if cell is None:
            return self.command(line.split())
        wants_stack = "--traceback" in line
        try:
            options = cast("Any", parse_argstring(self.tile, line))
            return self.cell(options, cell, local_ns)
        except TileError as error:
            if wants_stack or config.current().traceback:
                raise
            self.complain(error)
        except UsageError:
            raise
        return None

    def cell(self, options: Any, text: str, local_ns: dict[str, Any] | None) -> Any:
        """One `%%tile` cell with parsed options; returns the Kernel. Raises TileError."""
        from tilebench.notebook.display import show_result

        namespace = self._namespace()
        scope = {**namespace, **(local_ns or {})}
        settings = dict(self._setting(item, scope) for item in options.set)
        arguments = self._evaluate("--args", options.args, scope)
        if isinstance(arguments, tuple | list):
            arguments = cast("Sequence[Any]", arguments)
        elif arguments is not None:
            arguments = (arguments,)
        reference = self._evaluate("--ref", options.ref, scope)
        count = cast("Any", self.shell).execution_count
        runner = run
        if options.isolate:
            from tilebench.kernel.isolate import run_isolated

            runner = run_isolated
        result = runner(
            text, args=arguments, ref=reference, target=options.target, settings=settings,
            namespace=namespace, name=options.name, launch=options.launch, check=options.check,
            bench=options.bench, atol=options.atol, rtol=options.rtol, seed=options.seed,
            cell=f"In[{count}]", first_line=2,
        )  # fmt: skip
        name = options.name or result.kernel.name
        previous = self.results.get(name)
        self.results[name] = result
        namespace[options.variable or name] = result.kernel
        if not (options.quiet and result.report.ok):
            show_result(result, options.show, static=options.static, previous=previous)
        return None

    def command(self, words: list[str]) -> Any:
        """`%tile ...` without a cell."""
        from tilebench.notebook import commands

        if not words:
            if not self.results:
                raise UsageError("%tile: no kernel yet; a cell that starts with %%tile makes one")
            return list(self.results.values())[-1].kernel
        head, rest = words[0], words[1:]
        if head in self.results and not rest:
            return self.results[head].kernel
        if head not in COMMANDS:
            known = (*COMMANDS, *self.results)
            raise UsageError(
                f"%tile: unknown command {head!r}{nearest(head, known)}; commands are {', '.join(COMMANDS)}"
            )
        return commands.run(head, rest, self.results)

    def _namespace(self) -> dict[str, Any]:
        """The user's variables."""
        shell = cast("Any", self.shell)
        return cast("dict[str, Any]", shell.user_ns)

    def _evaluate(self, option: str, text: str | None, scope: dict[str, Any]) -> Any:
        """The user's own expression, in the user's own namespace."""
        if text is None:
            return None
        text = text.strip()
        if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
            text = text[1:-1]
        try:
            return eval(compile(text, f"<%%tile {option}>", "eval"), scope)
        except SyntaxError as error:
            raise SyntaxTileError(
                "TB111",
                f"{option} {text!r} is not a Python expression ({error.msg})",
                fix=f"write {option} 'A, B' with names of this notebook",
            ) from None
        except Exception as error:
            known = nearest(getattr(error, "name", "") or "", scope) if isinstance(error, NameError) else ""
            raise LaunchError(
                "TB601",
                f"{option} {text!r} failed: {type(error).__name__}: {error}{known}",
                fix="run the cell that defines it first",
            ) from error

    def _setting(self, item: str, scope: dict[str, Any]) -> tuple[str, Any]:
        key, equals, value = item.partition("=")
        if not equals or not key.isidentifier():
            raise UsageError(f"argument --set: expected NAME=VALUE, got {item!r}")
        return key, self._evaluate("--set", value, scope)

    def complain(self, error: TileError) -> None:
        """Show an error as text: a bug of ours asks for a report, the rest teaches."""
        from IPython.display import display  # pyright: ignore[reportUnknownVariableType] # untyped arguments

        from tilebench.notebook.display import ErrorCard

        display(ErrorCard(error))  # type: ignore[no-untyped-call]
        self._namespace()["_tile_error"] = error
        if isinstance(error, InternalError):
            print("the Python stack: %%tile --traceback ...", file=sys.stderr)


assert set(SHOWN) - {"none"} <= set(VIEWS), "every --show name is a view"
