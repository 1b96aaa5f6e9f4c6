"""`%%tile` and `%tile`: parse the line, call kernel/session.py, display its report.

Errors show as text, never as a stack.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from IPython.core.error import UsageError
from IPython.core.magic import (
    Magics,
    line_cell_magic,
    magics_class,
    needs_local_scope,
    no_var_expand,
)
from IPython.core.magic_arguments import argument, magic_arguments

from tilebench import config
from tilebench.errors import InternalError, LaunchError, SyntaxTileError, TileError, nearest
from tilebench.kernel.checks import LEVELS
from tilebench.kernel.export import ENDINGS
from tilebench.kernel.history import continued
from tilebench.kernel.progress import shown_by
from tilebench.kernel.session import Result, run
from tilebench.notebook.commands import save
from tilebench.notebook.completion import COMMANDS, SHOWN
from tilebench.notebook.progress import bar
from tilebench.notebook.words import is_quiet, split_line, suggest, triple
from tilebench.report import VIEWS

OVERRIDES = ("cuda",)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, or a notebook's stop button, while a cell ran; shown as one line."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in place of a stack."""
        return [f"KeyboardInterrupt: {self}"]


@magics_class
class TileMagics(Magics):
    """Holds the kernels of this notebook by name, in the order in which they were made.

    names: the variable that each is bound to; changes: what `%tile config` changed.
    """

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)  # type: ignore[no-untyped-call]
        self.results: dict[str, Result] = {}
        self.names: dict[str, str] = {}
        self.changes: dict[str, Any] = {}

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
        "-s", "--set", action="append", default=[], metavar="K=V",
        help="value of a name that the program reads (repeatable)",
    )  # fmt: skip
    @argument(
        "--sweep", action="append", default=[], metavar="K=V,V",
        help="compile, check and time every value (repeatable: all combinations); the best is kept",
    )  # fmt: skip
    @argument("--show", nargs="+", default=None, choices=SHOWN, help="views to show; default: all that apply")
    @argument("--bench", nargs="?", type=int, const=20, default=0, metavar="N", help="time N rounds (20)")
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
    @argument("--run", dest="launch", action="store_true", default=True, help="compile and run (the default)")
    @argument("--no-run", dest="launch", action="store_false", help="compile only")
    @argument(
        "--check", choices=LEVELS, default="static",
        help="none; static: compare the outputs, and find the cause of a wrong one; sim: also emulate a few "
        "blocks thread by thread; full: all blocks, in two orders",
    )  # fmt: skip
    @argument("--no-check", dest="check", action="store_const", const="none", help="the same as --check none")
    @argument(
        "--steps", nargs="?", const="", default=None, metavar="BUF,BUF",
        help="record every step of one block for time travel: these buffers, or all",
    )  # fmt: skip
    @argument(
        "--cta", default=None, metavar="X,Y,Z",
        help="the block that --steps records (default: the one of the worst element, else the first) "
        "and that --trace-warps times",
    )  # fmt: skip
    @argument(
        "--trace-warps", nargs="?", const="parts", default="", choices=("parts", "statements"),
        help="time the warps of a block with timers in the kernel: what they compute between waits as one, "
        "or each statement; in the emulator their order alone",
    )  # fmt: skip
    @argument(
        "--compare", nargs="?", const="", default=None, metavar="NAME",
        help="what changed since another kernel, or since this one's last run",
    )  # fmt: skip
    @argument(
        "--override", default="", metavar="cuda",
        help="compile the CUDA text in NAME.cu, which the first run writes and you edit",
    )  # fmt: skip
    @argument("--save", default=None, metavar="FILE", help="write the report: .tbz, .json or .html")
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

        As a line: %tile list | show NAME [VIEW...] | diff A B | device | doctor | export NAME FILE |
        clear [NAME...] | config [KEY=VALUE...]. `k = %tile NAME` gives the Kernel. Each option is also an
        argument of tilebench.run, tilebench.sweep or tilebench.show. A `;` at the end shows nothing.
        """
        quiet = is_quiet(line)
        if cell is not None and is_quiet(cell):
            quiet, cell = True, cell.rstrip()[:-1]
        words = split_line(line.rstrip(" ;"))
        if cell is None and words[:1] == ["config"]:
            return self.command(words)
        with config.using(**self.changes), shown_by(bar()):
            if cell is None:
                made = self.command(words)
                return None if quiet else made
            try:
                parser = cast("Any", self.tile).parser
                if {"-h", "--help"} & set(words):
                    print(parser.format_help())
                    return None
                options = parser.parse_args(words)
                options.quiet |= quiet
                self.cell(options, cell, local_ns)
            except TileError as error:
                self.complain(error)
                if "--traceback" in words or config.current().traceback:
                    traceback.print_exception(error)
                error.is_shown = True
                raise
            except UsageError as error:
                raise UsageError(suggest(str(error), line, self.results)) from None
            except KeyboardInterrupt:
                if "--traceback" in words or config.current().traceback:
                    raise
                raise Interrupted("the cell was interrupted") from None
        return None

    def cell(self, options: Any, text: str, local_ns: dict[str, Any] | None) -> Any:
        """One `%%tile` cell with parsed options; returns the Kernel. Raises TileError."""
        from tilebench.notebook.display import show_result

        namespace = self._namespace()
        scope = {**namespace, **(local_ns or {})}
        self._check_names(options)
        arguments = self._evaluate("--args", options.args, scope)
        if isinstance(arguments, tuple | list):
            arguments = cast("Sequence[Any]", arguments)
        elif arguments is not None:
            arguments = (arguments,)
        steps = options.steps
        if steps is None and (
            "step" in (options.show or ()) or (options.cta is not None and not options.trace_warps)
        ):
            steps = ""
        count = cast("Any", self.shell).execution_count
        key = options.variable or options.name
        before = self.results.get(key) if key else None
        given: dict[str, Any] = {
            "args": arguments, "ref": self._evaluate("--ref", options.ref, scope), "target": options.target,
            "settings": dict(self._setting(item, scope) for item in options.set), "namespace": namespace,
            "name": options.name, "launch": options.launch, "check": options.check, "bench": options.bench,
            "atol": options.atol, "rtol": options.rtol, "seed": options.seed,
            "steps": None if steps is None else tuple(s.strip() for s in steps.split(",") if s.strip()),
            "cta": None if options.cta is None else triple(options.cta),
            "trace_warps": options.trace_warps, "override": options.override,
            "cell": f"In[{count}]", "first_line": 2,
        }  # fmt: skip
        table = None
        if options.sweep:
            table, result = self._sweep(text, options, scope, given)
        else:
            runner = run
            if options.isolate:
                from tilebench.kernel.isolate import run_isolated

                runner = run_isolated
            result = runner(text, **given)
        key = key or result.kernel.name
        before = before or self.results.get(key)
        other = None if options.compare is None else self.results.get(options.compare) or before
        result = Result(result.kernel, continued(result.report, before and before.report), result.values)
        self.results.pop(key, None)
        self.results[key] = result
        self.names[key] = options.variable or options.name or result.kernel.name
        namespace[self.names[key]] = result.kernel
        if options.save:
            save(result.report, Path(options.save), "argument --save")
        if not (options.quiet and result.report.ok):
            show_result(
                result, options.show, static=options.static, other=other and other.report, table=table,
                asked=options.compare,
            )  # fmt: skip
        if options.save:
            print(f"wrote {options.save}")
        return result.kernel

    def _sweep(
        self, text: str, options: Any, scope: dict[str, Any], given: dict[str, Any]
    ) -> tuple[Any, Result]:
        """The table of a sweep and the result of its best point."""
        from tilebench.kernel.sweep import sweep

        if options.isolate:
            raise UsageError("--sweep runs in this process: leave out --isolate")
        over = dict(self._values(item, scope) for item in options.sweep)
        table = sweep(text, over, **given)
        best = table.best
        chosen = best.result if best is not None else None
        if chosen is None:
            chosen = next((p.result for p in table.points if p.result is not None), None)
        if chosen is None:
            raise LaunchError(
                "TB617",
                f"none of the {len(table.points)} combinations works",
                why="\n       ".join(f"{dict(p.settings)}: {p.reason}" for p in table.points[:8]),
                fix="give other values to --sweep",
            )
        return table, chosen

    def _check_names(self, options: Any) -> None:
        """Wrong values of options that argparse does not know of. Raises UsageError."""
        if options.variable is not None and (
            not options.variable.isidentifier() or keyword.iskeyword(options.variable)
        ):
            raise UsageError(f"argument --as: {options.variable!r} is not a name that Python can bind")
        if options.compare and options.compare not in self.results:
            known = ", ".join(self.results) or "none yet"
            raise UsageError(
                f"argument --compare: no kernel called {options.compare!r}"
                f"{nearest(options.compare, self.results)}; there are {known}"
            )
        path = options.override
        if path and path not in OVERRIDES and not path.endswith(".cu"):
            raise UsageError(
                f"argument --override: {path!r} is neither cuda nor a .cu file{nearest(path, OVERRIDES)}"
            )
        if options.save and Path(options.save).suffix not in ENDINGS:
            raise UsageError(f"argument --save: {options.save!r} does not end in {', '.join(ENDINGS)}")
        if options.isolate and not options.launch:
            raise UsageError(
                "--isolate runs the kernel in a worker, and --no-run runs nothing: leave one out"
            )
        if options.bench < 0:
            raise UsageError("argument --bench: a number of rounds is not negative")

    def command(self, words: list[str]) -> Any:
        """`%tile ...` without a cell."""
        from tilebench.notebook import commands

        if not words:
            if not self.results:
                raise UsageError("%tile: no kernel yet; a cell that starts with %%tile makes one")
            return list(self.results.values())[-1].kernel
        if words[0] in ("-h", "--help"):
            raise UsageError(f"%tile: commands are {', '.join(COMMANDS)}; %%tile? lists the cell's options")
        head, rest = words[0], words[1:]
        if head in self.results and not rest:
            return self.results[head].kernel
        if head not in COMMANDS:
            known = (*COMMANDS, *self.results)
            raise UsageError(
                f"%tile: unknown command {head!r}{nearest(head, known)}; commands are {', '.join(COMMANDS)}"
            )
        return commands.run(head, rest, self)

    def _namespace(self) -> dict[str, Any]:
        """The user's variables."""
        shell = cast("Any", self.shell)
        return cast("dict[str, Any]", shell.user_ns)

    def _evaluate(self, option: str, text: str | None, scope: dict[str, Any]) -> Any:
        """The user's own expression, in the user's own namespace."""
        if text is None:
            return None
        text = text.strip()
        try:
            return eval(compile(text, f"<%%tile {option}>", "eval"), scope)
        except SyntaxError as error:
            example = "NAME=64" if option in ("--set", "--sweep") else "'A, B'"
            raise SyntaxTileError(
                "TB111",
                f"{option} {text!r} is not a Python expression ({error.msg})",
                fix=f"write {option} {example}; names of this notebook may stand in it",
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
        return key, self._evaluate("--set", _unquoted(value, scope), scope)

    def _values(self, item: str, scope: dict[str, Any]) -> tuple[str, tuple[Any, ...]]:
        """('BLOCK_M', (64, 128)) of 'BLOCK_M=64,128'."""
        key, equals, value = item.partition("=")
        if not equals or not key.isidentifier() or not value.strip():
            raise UsageError(f"argument --sweep: expected NAME=VALUE,VALUE, got {item!r}")
        made = self._evaluate("--sweep", _unquoted(value, scope), scope)
        return key, tuple(cast("Sequence[Any]", made)) if isinstance(made, tuple | list | range) else (made,)

    def complain(self, error: TileError) -> None:
        """Show an error as text: a bug of ours asks for a report, the rest teaches."""
        from IPython.display import display  # pyright: ignore[reportUnknownVariableType] # untyped arguments

        from tilebench.notebook.display import ErrorCard

        display(ErrorCard(error))  # type: ignore[no-untyped-call]
        self._namespace()["_tile_error"] = error
        if isinstance(error, InternalError):
            print("the Python stack: %%tile --traceback ...", file=sys.stderr)


def _unquoted(value: str, scope: dict[str, Any]) -> str:
    """The expression in a value's quotes; a word that is no name here is meant as text: dtype="float16"."""
    match = re.fullmatch(r"""\s*(['"])(.*)\1\s*""", value, re.DOTALL)
    if match is None or match[1] in match[2]:
        return value
    inner = match[2]
    if inner.isidentifier():
        return inner if inner in scope or hasattr(builtins, inner) else value
    try:
        ast.parse(inner.strip(), mode="eval")
    except (SyntaxError, ValueError):
        return value
    return inner


assert set(SHOWN) - {"none"} <= set(VIEWS), "every --show name is a view"
