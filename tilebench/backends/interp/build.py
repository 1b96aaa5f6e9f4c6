"""`build`: Typed -> an executable that runs every block in NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tilebench.backends.base import Argument, Built, TensorArgument
from tilebench.backends.interp.arithmetic import Value, constant, convert
from tilebench.backends.interp.block import Block
from tilebench.backends.interp.nests import Facts
from tilebench.backends.interp.run import Observer, Runner
from tilebench.backends.interp.sharing import Sharing
from tilebench.backends.interp.storage import Cell, poison, raw_roots
from tilebench.errors import LaunchError
from tilebench.ir.expr import Const, Var, as_expr
from tilebench.ir.text import print_kernel
from tilebench.ir.tile import Buffer
from tilebench.passes.stages import Typed
from tilebench.report import CodeText, Finding
from tilebench.targets import Target


class Interpreted:
    """A kernel ready to run in NumPy.

    check_init: an element of the block's memory that is read before it is written is an error (TB274).

    check_races: two blocks (TB431) or two iterations of one T.Parallel (TB430) that touch one element, one of
    them writing, are an error; elements of outputs that no block wrote are in `findings` after a launch.

    observer: called after each statement with the block, the statement and the buffers that it wrote.
    """

    def __init__(
        self,
        typed: Typed,
        built: Built,
        check_init: bool = False,
        observer: Observer | None = None,
        check_races: bool = False,
    ) -> None:
        self.typed, self.built = typed, built
        self.check_init, self.check_races, self.observer = check_init, check_races, observer
        self.findings: tuple[Finding, ...] = ()
        self.watch: Callable[[Buffer, tuple[int, ...]], Any] | None = None  # a recorder's (record.py)
        kernel = typed.kernel
        self._raw = raw_roots(kernel.buffers)
        self._facts = Facts()
        self._plans: dict[int, Any] = {}

    def launch(
        self,
        arguments: Sequence[Argument],
        symbols: Mapping[Var, int],
        grid: tuple[int, ...],
        stream: int = 0,
        blocks: Sequence[tuple[int, ...]] | None = None,
    ) -> None:
        """Run the blocks in order (x fastest), or only those listed.

        Tensors are NumPy arrays in storage form. Raises TileError at the statement that goes outside
        a buffer, divides by zero, or lets two iterations write one element.
        """
        kernel = self.typed.kernel
        env: dict[Var, Value] = {v: constant(n, v.dtype) for v, n in symbols.items()}
        cells: dict[Buffer, Cell] = {}
        for param, argument in zip(kernel.params, arguments, strict=True):
            if isinstance(param.value, Var):
                assert not isinstance(argument, TensorArgument)
                env[param.value] = constant(argument, param.value.dtype)
                continue
            array = _array(param.name, param.value, argument)
            sharing = Sharing(param.value, array.shape, self._unit(param.value)) if self.check_races else None
            if self.watch is not None:
                sharing = self.watch(param.value, array.shape)
            cells[param.value] = Cell(array, param.value.dtype, True, sharing=sharing)
        sizes = Block(kernel.thread_count, dict(cells), env, (), self._raw, {}, False, {})
        for buffer in kernel.buffers:
            if buffer.scope == "global" and buffer not in cells and buffer.view_of is None:
                shape = tuple(int(sizes.evaluate(s)) for s in buffer.shape)
                cells[buffer] = Cell(poison(shape, buffer.dtype, True), buffer.dtype, True)
        safe = self._safe_values()
        chosen = blocks if blocks is not None else [
            place[::-1] for place in itertools.product(*(range(n) for n in reversed(grid)))
        ]  # fmt: skip
        with np.errstate(all="ignore"):
            for place in chosen:
                self._run_block(place, cells, env, safe)
        if self.check_races and blocks is None:
            self.findings = tuple(self._unwritten(cells))

    def _unit(self, tensor: Buffer) -> int:
        """Bytes of the smallest element that a view of the tensor has."""
        seen = (b for b in (tensor, *self.typed.kernel.buffers) if b.data is tensor)
        return min(b.dtype.storage_dtype.itemsize for b in seen)

    def _run_block(
        self,
        place: tuple[int, ...],
        cells: dict[Buffer, Cell],
        env: dict[Var, Value],
        safe: dict[Buffer, Value],
    ) -> None:
        kernel = self.typed.kernel
        here = dict(env)
        for var, number in zip(kernel.blocks, place, strict=True):
            here[var] = constant(number, var.dtype)
        coordinates = (*place, *([0] * (3 - len(place))))
        block = Block(
            kernel.thread_count, dict(cells), here, coordinates, self._raw, safe, self.check_init, self._plans
        )
        block.watch = self.watch
        block.bind(kernel.thread, np.arange(kernel.thread_count, dtype=kernel.thread.dtype.compute_dtype))
        Runner(block, self.observer, self._facts, self.check_races).run(kernel.body)

    def _unwritten(self, cells: dict[Buffer, Cell]) -> Iterator[Finding]:
        for param in self.typed.kernel.params:
            if not isinstance(param.value, Buffer) or param.role != "out":
                continue
            sharing = cells[param.value].sharing
            missing = sharing.first_unwritten() if sharing is not None else None
            if missing is not None:
                index, count = missing
                yield Finding(
                    "unwritten",
                    "warning",
                    f"{count} of {cells[param.value].data.size} elements of {param.name} are never "
                    "written, the first is "
                    f"{param.name}[{', '.join(map(str, index))}]",
                    hint="check the grid (T.ceildiv) and the guards of the last blocks",
                    code="TB278",
                )

    def _safe_values(self) -> dict[Buffer, Value]:
        values: Mapping[Buffer, Any] = self.typed.kernel.attributes.get("safe_values") or {}
        out: dict[Buffer, Value] = {}
        for buffer, value in values.items():
            e = as_expr(value)
            assert isinstance(e, Const), "a safe value is a constant"
            out[buffer] = convert(constant(e.value, e.dtype), e.dtype, buffer.dtype)
        return out


def _array(name: str, buffer: Buffer, argument: Argument) -> np.ndarray:
    if not isinstance(argument, TensorArgument) or argument.array is None:
        raise LaunchError(
            "TB606",
            f"{name} is not a tensor in this machine's memory",
            fix="pass a NumPy array or a CPU tensor",
        )
    array = argument.array
    if array.dtype != buffer.dtype.storage_dtype:
        array = array.view(buffer.dtype.storage_dtype)
    return array


def build(
    typed: Typed,
    target: Target,
    check_init: bool = False,
    observer: Observer | None = None,
    check_races: bool = False,
) -> Interpreted:
    """The kernel as a NumPy program. Raises nothing: Typed is legal."""
    text = print_kernel(typed.kernel)
    code = CodeText("tile", text.text, tuple(0 if at is None else at.line for at in text.locs))
    return Interpreted(typed, Built(target, (code,)), check_init, observer, check_races)
