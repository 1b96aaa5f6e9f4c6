"""Several launches as one executable: each starts when the blocks of the one before have ended.

Workspaces that more than one launch names are allocated for the call and passed to each as an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Protocol, runtime_checkable

import numpy as np

from tilebench.backends.base import Argument, Built, Executable, Prepares, TensorArgument
from tilebench.errors import LaunchError
from tilebench.ir.expr import Expr, Var
from tilebench.ir.launches import extent_of, grid_of
from tilebench.ir.tile import Buffer, Kernel
from tilebench.report import CodeText


@runtime_checkable
class Allocates(Protocol):
    """An executable whose memory is not the host's."""

    @contextmanager
    def workspace(self, size: int, stream: int, arguments: Sequence[Argument]) -> Generator[int]:
        """The address of `size` bytes on the arguments' device, from here to the end of the block on the
        stream.
        """
        ...


class Launches:
    """The launches of one program (ir/launches.py `separate`), ready to run in order."""

    def __init__(
        self, kernels: Sequence[Kernel], executables: Sequence[Executable], shared: Sequence[Buffer]
    ) -> None:
        self.kernels, self.executables, self.shared = tuple(kernels), tuple(executables), tuple(shared)
        self.built = _joined([e.built for e in self.executables])

    def launch(
        self,
        arguments: Sequence[Argument],
        symbols: Mapping[Var, int],
        grid: tuple[int, ...],
        stream: int = 0,
    ) -> None:
        """Run every launch; `grid` is the first one's. Raises what a launch of one kernel raises."""
        params = self.kernels[0].params
        known = {**symbols}
        for param, argument in zip(params, arguments, strict=False):
            if isinstance(param.value, Var) and not isinstance(argument, TensorArgument | float):
                known[param.value] = int(argument)
        with ExitStack() as held:
            spaces = [self._workspace(b, known, stream, arguments) for b in self.shared]
            full = [*arguments, *(held.enter_context(space) for space in spaces)]
            runs: list[Callable[[int], None]] = []
            for i, (kernel, executable) in enumerate(zip(self.kernels, self.executables, strict=True)):
                blocks = grid if i == 0 else grid_of(kernel, known)
                if 0 not in blocks:
                    runs.append(_ready(executable, full, symbols, blocks))
            for run in runs:  # all of them are ready: none begins that another's arguments forbid
                run(stream)

    def prepare(
        self, arguments: Sequence[Argument], symbols: Mapping[Var, int], grid: tuple[int, ...]
    ) -> _PreparedLaunches:
        """The launches of these arguments with other addresses and numbers."""
        return _PreparedLaunches(self, arguments, symbols, grid)

    def bound(
        self, arguments: Sequence[Argument], symbols: Mapping[Var, int], grid: tuple[int, ...]
    ) -> Callable[[int], None]:
        """The launches of exactly these arguments, a function of the stream."""
        return lambda stream: self.launch(arguments, symbols, grid, stream)

    @contextmanager
    def _workspace(
        self, buffer: Buffer, known: Mapping[Var, int], stream: int, arguments: Sequence[Argument]
    ) -> Generator[TensorArgument]:
        shape = tuple(_extent(e, known, buffer) for e in buffer.shape)
        strides = tuple(int(np.prod(shape[d + 1 :], dtype=np.int64)) for d in range(len(shape)))
        executable = self.executables[0]
        if isinstance(executable, Allocates):
            size = max(1, int(np.prod(shape, dtype=np.int64)) * buffer.dtype.bits // 8)
            with executable.workspace(size, stream, arguments) as pointer:
                yield TensorArgument(pointer, shape, strides)
            return
        size = int(np.prod(shape, dtype=np.int64)) * buffer.dtype.storage_dtype.itemsize
        room = np.zeros(size + 64, np.uint8)
        start = -room.ctypes.data % 64
        array = room[start : start + size].view(buffer.dtype.storage_dtype).reshape(shape)
        yield TensorArgument(array.ctypes.data, shape, strides, array)


class _PreparedLaunches:
    def __init__(
        self,
        program: Launches,
        arguments: Sequence[Argument],
        symbols: Mapping[Var, int],
        grid: tuple[int, ...],
    ) -> None:
        self._program, self._symbols, self._grid = program, dict(symbols), grid
        self._shapes = tuple(
            (i, a.shape, a.strides) for i, a in enumerate(arguments) if isinstance(a, TensorArgument)
        )

    def launch(self, values: list[Argument], stream: int) -> None:
        """Run it with these addresses and numbers (the list is used up)."""
        for i, shape, strides in self._shapes:
            pointer = values[i]
            assert isinstance(pointer, int), "a tensor comes as its address"
            values[i] = TensorArgument(pointer, shape, strides)
        self._program.launch(values, self._symbols, self._grid, stream)


def _ready(
    executable: Executable, arguments: Sequence[Argument], symbols: Mapping[Var, int], grid: tuple[int, ...]
) -> Callable[[int], None]:
    if isinstance(executable, Prepares):
        return executable.bound(arguments, symbols, grid)
    return lambda stream: executable.launch(arguments, symbols, grid, stream)


def _extent(e: Expr, known: Mapping[Var, int], buffer: Buffer) -> int:
    value = extent_of(e, known)
    if value is None:
        raise LaunchError(
            "TB604",
            f"the size of the workspace {buffer.name} is not determined by the arguments",
            at=buffer.loc,
        )
    return value


def _joined(built: Sequence[Built]) -> Built:
    """The texts of a level one after the other; of the resources the greatest."""
    texts = [code for one in built for code in one.code]
    levels = list(dict.fromkeys(code.level for code in texts))
    registers = [one.registers for one in built if one.registers is not None]
    spills = [one.spill_bytes for one in built if one.spill_bytes is not None]
    milliseconds: dict[str, float] = {}
    for one in built:
        for name, ms in one.milliseconds.items():
            milliseconds[name] = milliseconds.get(name, 0.0) + ms
    return Built(
        built[0].target,
        tuple(_text([code for code in texts if code.level == level]) for level in levels),
        max(registers) if registers else None,
        sum(spills) if spills else None,
        max(one.shared_bytes for one in built),
        "\n".join(one.log for one in built if one.log),
        tuple(w for one in built for w in one.warnings),
        built[0].binary,
        built[0].entry,
        milliseconds,
        all(one.cached for one in built),
    )


def _text(parts: Sequence[CodeText]) -> CodeText:
    lines: list[int] = []
    for code in parts:
        count = code.text.count("\n") + 1
        lines += [*code.lines, *[0] * (count - len(code.lines))][:count]
    return CodeText(parts[0].level, "\n".join(code.text for code in parts), tuple(lines))


__all__ = ["Allocates", "Launches"]
