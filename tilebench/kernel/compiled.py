"""`Kernel`: a compiled kernel that is called with tensors, and answers questions about itself."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np

from tilebench import compiler
from tilebench.backends.base import Executable, Prepares
from tilebench.errors import LaunchError
from tilebench.ir import tile
from tilebench.ir.expr import Var
from tilebench.ir.launches import each_launch, launches_nothing, separate
from tilebench.ir.tile import Buffer
from tilebench.kernel import addresses, args, crowded, quick
from tilebench.kernel.patient import patiently
from tilebench.kernel.target import device_of
from tilebench.layouts import FragmentLayout, SharedLayout
from tilebench.passes.room import widened
from tilebench.passes.stages import Placed, Typed
from tilebench.report import Report
from tilebench.targets import Target

R = TypeVar("R")
UNREACHABLE = "TB619"
"""A tensor that lies in memory as bulk copies cannot reach it (codes.py)."""


@dataclass(frozen=True)
class Origin:
    """What a kernel was made of: a factory or program, and the values that it was given by name."""

    program: Any
    named: Mapping[str, Any]


class Kernel:
    """A tile program compiled for one target.

    Call it with its tensors: `kernel(A, B, C)` writes C; with out_idx the outputs are left out, allocated and
    returned. Built on first need: `kernel.report()`, `kernel.get_kernel_source()` and calling build it.
    """

    def __init__(
        self,
        prim: tile.Kernel,
        target: Target,
        *,
        config: Mapping[str, Any] | None = None,
        compilation: compiler.Compilation | None = None,
    ) -> None:
        if compilation is not None:
            self.compilation = compilation
        self.prim = prim
        self.target = target
        self.config: Any = dict(config or {})
        self.latency: float | None = None
        self.ref_latency: float | None = None
        self.tuning: Any = None
        self._calls = quick.Calls(prim)
        self.recalled_ms: float | None = None  # set when it was compiled before and only had to be found
        self.origin: Origin | None = None
        self.last_values: dict[str, Any] = {}  # of a call: numbers, and weak references to tensors
        self._general: Executable | None = None

    # -------------------------------------------------------------- building

    @cached_property
    def compilation(self) -> compiler.Compilation:
        """The stages and the binary.

        Raises TileError when the program is wrong or the target cannot do it.
        """
        stages = compiler.analyse(self.prim, self.target)
        if self.target.kind == "cuda":
            crowded.warn(stages)
        for buffer, text in widened(stages.stage(Typed).kernel):
            at = f" (line {buffer.loc.line})" if buffer.loc is not None else ""
            warnings.warn(f"{self.name}: {text}{at}", stacklevel=5)
        return patiently(f"compiling {self.name}", lambda: compiler.with_executable(stages))

    @property
    def executable(self) -> Executable:
        """The built kernel."""
        executable = self.compilation.executable
        assert executable is not None, "compiler.build always gives an executable"
        return executable

    @property
    def name(self) -> str:
        """The kernel's name in the source."""
        return self.prim.name

    @property
    def params(self) -> tuple[tile.Param, ...]:
        """Parameters in call order."""
        return self.prim.params

    @property
    def out_idx(self) -> tuple[int, ...]:
        """Positions of the parameters that a call allocates and returns."""
        return self.prim.out_idx

    # -------------------------------------------------------------- calling

    def return_outputs(self, positions: tuple[int, ...]) -> None:
        """From now on a call allocates the parameters at these positions and returns them."""
        self.prim = replace(self.prim, out_idx=positions)
        self._calls = quick.Calls(self.prim)

    def __call__(self, *values: Any, stream: int | None = None) -> Any:
        """Run it.

        Returns the outputs of out_idx (one, or a list), None when there are none. Raises LaunchError.
        """
        done = self._calls.run(values, stream)
        if done is not quick.UNUSUAL:
            return done
        if self._stand_in is not None:
            return self._stand_in(*values, stream=stream)
        given, put_back = addresses.resolve(self.prim, values, device_of(self.target))
        full = self.complete(given)
        self._launch_checked(given, full, stream)
        put_back()
        return self._results(full)

    @cached_property
    def _stand_in(self) -> Kernel | None:
        """What runs in place of a CUDA kernel where there is no GPU and the configuration names the CPU."""
        from tilebench.config import current
        from tilebench.kernel.target import gpu_arch, resolve

        if self.target.kind != "cuda" or current().target in ("auto", "") or gpu_arch() is not None:
            return None
        target = resolve(None)
        if target.kind not in ("cpu", "interp"):
            return None
        warnings.warn(f"{self.name} names {self.target}; without a GPU it runs on {target}", stacklevel=4)
        return Kernel(self.prim, target)

    def _results(self, full: Sequence[Any]) -> Any:
        outputs = [full[i] for i in self.out_idx]
        return None if not outputs else outputs[0] if len(outputs) == 1 else outputs

    @property
    def last_call(self) -> args.Call | None:
        """Grid and symbols of the last call (without its tensors), None before the first."""
        return self._calls.last

    @last_call.setter
    def last_call(self, call: args.Call | None) -> None:
        self._calls.last = call

    def complete(self, values: Sequence[Any]) -> list[Any]:
        """The values of all parameters: `values` with fresh tensors at the positions of out_idx."""
        params, outs = self.prim.params, set(self.prim.out_idx)
        if len(values) == len(params):
            return list(values)
        if len(values) != len(params) - len(outs):
            names = ", ".join(p.name for i, p in enumerate(params) if i not in outs)
            raise LaunchError(
                "TB602",
                f"{self.name} takes {len(params) - len(outs)} arguments ({names}), got {len(values)}",
                at=self.prim.loc,
                why="outputs are allocated by the call" if outs else "every parameter is passed",
                fix="pass one value for each name",
            )
        rest = iter(values)
        full: list[Any] = [None if i in outs else next(rest) for i in range(len(params))]
        known = [
            None if v is None else v if isinstance(p.value, Var) else args.view_param(p, v)
            for p, v in zip(params, full, strict=True)
        ]
        for p, v in zip(params, known, strict=True):
            if (
                isinstance(v, args.TensorView)
                and isinstance(p.value, Buffer)
                and len(v.shape) != len(p.value.shape)
            ):
                args.bind(self.prim, [x if x is not None else 0 for x in full], "cpu", host_arrays=False)
        symbols = args.solve_symbols(self.prim, known)
        like = next((v for v in full if args.is_tensor(v)), None)
        for i in outs:
            buffer = params[i].value
            assert isinstance(buffer, Buffer), "outputs are tensors"
            shape = tuple(cast("int", args.evaluate(e, symbols)) for e in buffer.shape)
            full[i] = self._allocate(shape, buffer, like)
        return full

    def _allocate(self, shape: tuple[int, ...], buffer: Buffer, like: Any) -> Any:
        if isinstance(like, np.ndarray) and buffer.dtype.storage_dtype == buffer.dtype.compute_dtype:
            return np.empty(shape, buffer.dtype.storage_dtype)
        import torch

        device = like.device if isinstance(like, torch.Tensor) else device_of(self.target)
        return torch.empty(shape, dtype=torch_dtype(buffer.dtype.name), device=device)

    def launch(self, values: Sequence[Any], stream: int | None = None) -> None:
        """Run with a value for every parameter."""
        if len(values) != len(self.prim.params):
            raise LaunchError(
                "TB602",
                f"{self.name} takes {len(self.prim.params)} arguments, got {len(values)}",
                at=self.prim.loc,
            )
        if self._calls.run(values, stream) is quick.UNUSUAL:
            given, put_back = addresses.resolve(self.prim, values, device_of(self.target))
            self._launch_checked(given, given, stream)
            put_back()

    def _launch_checked(self, given: Sequence[Any], full: Sequence[Any], stream: int | None) -> None:
        """Check everything and run; calls like this one need less from now on.

        given: as the user passed them; full: with outputs.
        """
        device, executable = device_of(self.target), self.executable
        call = args.bind(self.prim, full, device, host_arrays=self._takes_arrays)
        self.last_call = call.without_tensors()
        self.last_values = {p.name: _weakly(v) for p, v in zip(self.prim.params, full, strict=True)}
        if not launches_nothing(self.prim, call.grid):
            queue = quick.stream_reader(call.views)() if stream is None else stream

            def launch(candidate: Executable) -> Executable:
                candidate.launch(call.arguments, call.symbols, call.grid, queue)
                return candidate

            executable = self._reachable(launch)
        if not self._takes_arrays:
            self._calls.learn(given, full, call, executable, device)

    def _reachable(self, act: Callable[[Executable], R]) -> R:
        """`act` on the executable, or on the general one where bulk copies cannot reach a tensor."""
        try:
            return act(self.executable)
        except LaunchError as error:
            if error.code != UNREACHABLE:
                raise
            return act(self._without_bulk_copies(error))

    @property
    def _takes_arrays(self) -> bool:
        return self.target.kind in ("interp", "emu")

    def _without_bulk_copies(self, error: LaunchError) -> Executable:
        """The kernel for tensors that bulk copies cannot reach, compiled when the first such call comes."""
        if self._general is None:
            warnings.warn(
                f"{self.name}: {error.what}; such calls run without bulk copies, more slowly", stacklevel=5
            )
            self._general = compiler.build(each_launch(self.prim, _bulkless), self.target).executable
        assert self._general is not None, "compiler.build always gives an executable"
        return self._general

    def bind(self, *values: Any) -> Callable[[], Any]:
        """A function of no arguments that launches with these tensors, checked once."""
        if self._stand_in is not None:
            return self._stand_in.bind(*values)
        full = self.complete(values)
        call = args.bind(self.prim, full, device_of(self.target), host_arrays=self._takes_arrays)
        result = self._results(full)
        if launches_nothing(self.prim, call.grid):
            return lambda: result
        launch, stream = self._bound(call), quick.stream_reader(call.views)

        def run(_alive: object = (full, call)) -> Any:
            launch(stream())
            return result

        return run

    def _bound(self, call: args.Call) -> Callable[[int], None]:
        """The launch of a checked call, a function of the stream."""
        if isinstance(self.executable, Prepares):
            return self._reachable(
                lambda e: cast("Prepares", e).bound(call.arguments, call.symbols, call.grid)
            )
        return lambda stream: self._reachable(
            lambda e: e.launch(call.arguments, call.symbols, call.grid, stream)
        )

    # -------------------------------------------------------------- questions

    @property
    def parts(self) -> tuple[Kernel, ...]:
        """The launches of the program, each a kernel by itself; the workspaces that several of them name are
        parameters, behind the program's.
        """
        if self.prim.then is None:
            return (self,)
        return tuple(Kernel(replace(p, out_idx=()), self.target) for p in separate(self.prim)[0])

    def get_kernel_source(self, kernel_only: bool = True) -> str:
        """CUDA C++, on every target: one that is no GPU shows what it would be on one (kernel/sources.py).

        It has the program's names, where what is compiled has numbers (backends/cuda/named.py).
        kernel_only: accepted for TileLang's sake. Raises TileError where a GPU cannot do it.
        """
        from tilebench.kernel.sources import compiled_text

        del kernel_only
        return compiled_text(self) if self.target.kind == "cuda" else self._lowered_text

    def show_source(self, which: str = "kernel") -> None:
        """Print the CUDA C++. which: 'kernel', 'both' for TileLang's sake; 'host' is LaunchError TB617."""
        from tilebench.kernel.sources import device_text

        print(device_text(self, which))

    def export_sources(self, kernel_path: str | None = None, host_path: str | None = None) -> None:
        """Write the CUDA C++ to a file, whose folder is made. Raises LaunchError TB617 for a host_path."""
        from tilebench.kernel.sources import export

        export(self, kernel_path, host_path)

    @cached_property
    def _lowered_text(self) -> str:
        from tilebench.kernel.sources import lowered_text

        return lowered_text(self)

    def get_source(self, level: str = "cuda") -> str:
        """The text of one level: 'cuda', 'tile' (tile IR), and what the target went through: 'ptx' on a GPU,
        'llvm' on the CPU.

        Raises KeyError with the levels that there are.
        """
        from tilebench.kernel.sources import text_of

        return text_of(self, level)

    @property
    def kernel_source(self) -> str:
        """Same as get_kernel_source()."""
        return self.get_kernel_source()

    def layout(self, name: str) -> FragmentLayout | SharedLayout:
        """The layout of the buffer called `name`. Raises KeyError with the names there are."""
        placed: Placed = self.stages().stage(Placed)
        for buffer, layout in placed.layouts.items():
            if buffer.name == name:
                return layout
        raise KeyError(f"{name}: buffers with a layout are {sorted(b.name for b in placed.layouts)}")

    @cached_property
    def _stages(self) -> compiler.Compilation:
        if compiler.BACKENDS[self.target.kind][1]:
            return self.compilation
        from tilebench.targets import parse

        return compiler.analyse(self.prim, parse("cuda:sm_90a"), thread_ir=True)

    def stages(self) -> compiler.Compilation:
        """The stages down to thread IR: the target's own, or sm_90a's when it has none (cpu, interp)."""
        return self._stages

    def report(self, **options: Any) -> Report:
        """The Report of this kernel (options: see kernel/reporting.py)."""
        from tilebench.kernel.reporting import make_report

        return make_report(self, **options)

    def get_profiler(self, tensor_supply_type: Any = None) -> Any:
        """A Profiler: assert_allclose against a reference, do_bench."""
        from tilebench.kernel.profiler import Profiler

        return Profiler(self, tensor_supply_type)

    def __repr__(self) -> str:
        shapes = ", ".join(p.name for p in self.prim.params)
        return f"<tilebench kernel {self.name}({shapes}) for {self.target}>"


def _bulkless(part: tile.Kernel) -> tile.Kernel:
    configs = {**part.configs, "TL_DISABLE_TMA_LOWER": True}
    return replace(part, attributes={**part.attributes, "pass_configs": configs})


def _weakly(value: Any) -> Any:
    """A weak reference to a tensor, so that it does not live longer for it (None: it can have none); a number
    as it is.
    """
    try:
        return weakref.ref(value)
    except TypeError:
        return value if isinstance(value, int | float) else None


def torch_dtype(name: str) -> Any:
    """torch's dtype for one of ours. Raises LaunchError TB605 when torch has none."""
    import torch

    spelled = {"float8_e4m3": "float8_e4m3fn", "tfloat32": "float32"}.get(name, name)
    dtype = getattr(torch, spelled, None)
    if dtype is None:
        raise LaunchError(
            "TB605", f"torch has no dtype {name}", fix="allocate the output yourself and pass it"
        )
    return dtype
