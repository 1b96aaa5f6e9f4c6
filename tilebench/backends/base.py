"""What every back end gives: an `Executable` built from a stage, and the arguments that it is launched with.

| target | takes      | module                     | argument form                              |
|--------|------------|----------------------------|--------------------------------------------|
| interp | Typed      | backends.interp            | array: NumPy, storage form, strided view   |
| emu    | Lowered    | backends.emulator          | array: NumPy, storage form                 |
| cpu    | Typed      | backends.cpu               | pointer: host address                      |
| cuda   | Lowered    | backends.cuda              | pointer: device address                    |

Each module has `build(stage, target) -> Executable`; heavy imports happen inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tilebench.ir.expr import Var
from tilebench.report import CodeText
from tilebench.targets import Target

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class TensorArgument:
    """One tensor of a call, checked against its parameter. strides in elements.

    pointer: address on the target's device (0 for an empty tensor); array: the same memory as NumPy in
    storage form, for targets that run in NumPy (None on a GPU).
    """

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    array: np.ndarray | None = None


Argument = TensorArgument | int | float | bool


@dataclass(frozen=True)
class Built:
    """What a build made.

    code: the texts it went through; registers and spill_bytes from the compiler's log, None if there is none;
    warnings: lines of the log that cost speed (on CUDA C75xx: warpgroup products or setmaxnreg not as asked).
    """

    target: Target
    code: tuple[CodeText, ...] = ()
    registers: int | None = None
    spill_bytes: int | None = None
    shared_bytes: int = 0
    log: str = ""
    warnings: tuple[str, ...] = ()
    binary: bytes = b""
    entry: str = ""
    milliseconds: Mapping[str, float] = field(default_factory=dict[str, float])
    cached: bool = False


class Executable(Protocol):
    """A built kernel, ready to launch."""

    built: Built

    def launch(
        self,
        arguments: Sequence[Argument],
        symbols: Mapping[Var, int],
        grid: tuple[int, ...],
        stream: int = 0,
    ) -> None:
        """Run it: arguments in the order of Kernel.params; symbols: values of the dynamic extents; grid in
        blocks.

        Returns when the work is queued (cuda) or done (others). Raises LaunchError.
        """
        ...


class Prepared(Protocol):
    """A launch of which all but the addresses and the numbers is settled: grid, symbols, device."""

    def launch(self, values: list[Any], stream: int) -> None:
        """Run it with an address or number for every parameter (the list is used up). Raises LaunchError."""
        ...


@runtime_checkable
class Prepares(Protocol):
    """An executable whose launches can be prepared, so that the next one of the same shapes costs less."""

    def prepare(
        self, arguments: Sequence[Argument], symbols: Mapping[Var, int], grid: tuple[int, ...]
    ) -> Prepared:
        """The launch of these arguments, with other addresses and numbers. Raises what `launch` raises."""
        ...

    def bound(
        self, arguments: Sequence[Argument], symbols: Mapping[Var, int], grid: tuple[int, ...]
    ) -> Callable[[int], None]:
        """The launch of exactly these arguments: a function of the stream. Raises what `launch` raises."""
        ...
