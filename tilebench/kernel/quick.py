"""Calls that look like an earlier one: what was checked then is not checked again, and no object is made.

A call costs CPU time that the GPU may wait for. So the full path (`kernel/args.py`) is taken once for each
*signature*: dtype, shape, strides and device of every tensor, and the type of every number. Its outcome
depends on nothing else but addresses, memory that was freed, and the values of numbers; those are looked at
again in every call, as integers. Whatever is unusual (another type, a tensor off alignment, spans that
overlap, a number out of range) is left to the full path, whose errors are the only ones.

    signature (read from the arguments) -> Known: steps of each tensor, spans to compare, the prepared launch
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from tilebench.backends.base import Executable, Prepared, Prepares, TensorArgument
from tilebench.ir import tile
from tilebench.ir.expr import Var
from tilebench.ir.rewrite import variables
from tilebench.kernel import args

KNOWN_AT_MOST = 256
"""Signatures kept for one kernel; the oldest makes room."""


class Unusual:
    """What `Calls.run` gives for a call that the full path has to take; nothing was launched."""


UNUSUAL: Final = Unusual()
_NUMBERS = frozenset((int, float, bool))


@dataclass(frozen=True, slots=True)
class Known:
    """What is the same in every call of one signature.

    outputs: (position, shape, torch dtype, torch device) of each tensor that the call allocates, in order;
    tensors: (position, bits of the address that must be 0, bytes of an element, bytes from the first to the
    end of the last); pairs: (position, bytes, other position, bytes) of two tensors that may not overlap;
    numbers: (position, conversion, least, greatest); launch: None for an empty grid; stream: torch's now.
    """

    call: args.Call
    outputs: tuple[tuple[int, tuple[int, ...], Any, Any], ...]
    tensors: tuple[tuple[int, int, int, int], ...]
    pairs: tuple[tuple[int, int, int, int], ...]
    numbers: tuple[tuple[int, Callable[[Any], int | float], float, float], ...]
    launch: Callable[[list[Any], int], None] | None
    stream: Callable[[], int]


class Calls:
    """The known signatures of one kernel. Threads may share it."""

    def __init__(self, kernel: tile.Kernel) -> None:
        self._kernel = kernel
        self._table: dict[tuple[Any, ...], Known] = {}
        self._lock = threading.Lock()
        self._tensor_types: frozenset[Any] = frozenset()
        numbers = {p.value for p in kernel.params if isinstance(p.value, Var)}
        shaping = {*kernel.symbols, *(v for e in kernel.grid for v in variables(e))}
        self._values_shape = not numbers.isdisjoint(shaping)
        self._returned = kernel.out_idx
        self.last: args.Call | None = None

    def __len__(self) -> int:
        return len(self._table)

    def run(self, values: Sequence[Any], stream: int | None) -> Any:
        """Launch where the signature is known and the addresses are fine; else UNUSUAL, nothing launched.

        Returns what the kernel returns. Raises LaunchError for what the driver refuses.
        """
        if not self._table:
            return UNUSUAL
        signature, full = self._read(values)
        known = self._table.get(signature)
        if known is None:
            return UNUSUAL
        given: Sequence[Any] = values
        if known.outputs:
            given = list(values)
            empty = sys.modules["torch"].empty
            for position, shape, dtype, device in known.outputs:
                made = empty(shape, dtype=dtype, device=device)
                given.insert(position, made)
                full.insert(position, made.data_ptr())
        for i, mask, size, extent in known.tensors:
            tensor = given[i]
            if full[i] & mask or tensor.storage_offset() * size + extent > tensor.untyped_storage().nbytes():
                return UNUSUAL
        for i, extent, j, other in known.pairs:
            if full[i] < full[j] + other and full[j] < full[i] + extent:
                return UNUSUAL
        for i, convert, least, greatest in known.numbers:
            if not least <= full[i] <= greatest:
                return UNUSUAL
            full[i] = convert(full[i])
        self.last = known.call
        if known.launch is not None:
            known.launch(full, known.stream() if stream is None else stream)
        if not self._returned:
            return None
        outputs = [given[i] for i in self._returned]
        return outputs[0] if len(outputs) == 1 else outputs

    def _read(self, values: Sequence[Any]) -> tuple[tuple[Any, ...], list[Any]]:
        """(signature, addresses and numbers); (), which is never known, when a value is of another kind."""
        tensor_types, with_values = self._tensor_types, self._values_shape
        signature: list[Any] = []
        full: list[Any] = []
        try:
            for value, kind in zip(values, map(type, values), strict=True):
                if kind in tensor_types:
                    signature += (value.dtype, value.shape, value.stride(), value.device, value.is_neg())
                    full.append(value.data_ptr())
                elif kind in _NUMBERS:
                    signature.append(kind)
                    if with_values:
                        signature.append(value)
                    full.append(value)
                else:
                    return (), []
        except RuntimeError:  # a layout without strides or without one memory: the full path says so
            return (), []
        return tuple(signature), full

    def learn(
        self, values: Sequence[Any], full: Sequence[Any], call: args.Call, executable: Executable, device: str
    ) -> None:
        """Keep the signature of a call that the full path has checked and run; some are never kept.

        values: as passed; full: with outputs; device: 'cpu' or 'cuda', the memory that the kernel reads.
        """
        torch = sys.modules.get("torch")
        if torch is None:
            return
        if not self._tensor_types:
            self._tensor_types = frozenset((torch.Tensor, torch.nn.Parameter))
        signature, _ = self._read(values)
        if not any(type(v) in self._tensor_types for v in values) or not signature:
            return
        known = describe(self._kernel, values, full, call, executable, device)
        if known is None:
            return
        with self._lock:
            if len(self._table) >= KNOWN_AT_MOST:
                del self._table[next(iter(self._table))]
            self._table[signature] = known


def describe(
    kernel: tile.Kernel,
    values: Sequence[Any],
    full: Sequence[Any],
    call: args.Call,
    executable: Executable,
    device: str,
) -> Known | None:
    """What the calls like this one share; None when there is more to a call than `Calls.run` looks at."""
    tensors: list[tuple[int, int, int, int]] = []
    numbers: list[tuple[int, Callable[[Any], int | float], float, float]] = []
    ends: dict[int, int] = {}
    for i, (param, value, seen) in enumerate(zip(kernel.params, full, call.views, strict=True)):
        if isinstance(param.value, Var):
            dtype = param.value.dtype
            if type(value) not in _NUMBERS or (not dtype.is_float and isinstance(value, float)):
                return None
            bounded = not dtype.is_float and dtype.kind != "bool"
            least, greatest = (dtype.min, dtype.max) if bounded else (-float("inf"), float("inf"))
            numbers.append((i, float if dtype.is_float else int, least, greatest))
            continue
        assert seen is not None, "a tensor parameter has a view"
        if 0 in seen.shape:
            tensors.append((i, 0, 0, 0))
            continue
        size = seen.dtype.bytes
        least_multiple = args.ALIGNMENT if device == "cuda" else max(1, min(args.ALIGNMENT, size))
        ends[i] = sum((n - 1) * s for n, s in zip(seen.shape, seen.strides, strict=True)) * size + size
        tensors.append((i, least_multiple - 1, size, ends[i]))
    if not ends:  # only empty tensors: no address says which GPU it is
        return None
    pairs = tuple(
        (i, ends[i], j, ends[j])
        for i in ends
        for j in ends
        if i < j and not kernel.params[i].role == kernel.params[j].role == "in"
    )
    made = sorted(set(kernel.out_idx)) if len(values) != len(full) else ()
    outputs = tuple((i, tuple(full[i].shape), full[i].dtype, full[i].device) for i in made)
    launch = None if 0 in call.grid else prepare(executable, call).launch
    return Known(
        call.without_tensors(),
        outputs,
        tuple(tensors),
        pairs,
        tuple(numbers),
        launch,
        stream_reader(call.views),
    )


def prepare(executable: Executable, call: args.Call) -> Prepared:
    """The launch of this call with other addresses and numbers."""
    if isinstance(executable, Prepares):
        return executable.prepare(call.arguments, call.symbols, call.grid)
    return _Plain(executable, call)


class _Plain:
    """A prepared launch of an executable that prepares nothing."""

    def __init__(self, executable: Executable, call: args.Call) -> None:
        self._executable = executable
        self._symbols, self._grid = call.symbols, call.grid
        self._shapes = tuple(
            (i, a.shape, a.strides) for i, a in enumerate(call.arguments) if isinstance(a, TensorArgument)
        )

    def launch(self, values: list[Any], stream: int) -> None:
        for i, shape, strides in self._shapes:
            values[i] = TensorArgument(values[i], shape, strides)
        self._executable.launch(values, self._symbols, self._grid, stream)


def stream_reader(views: Sequence[args.TensorView | None]) -> Callable[[], int]:
    """A function that says which stream torch works on now, on the GPU of these tensors; 0 without a GPU."""
    devices = [v.device for v in views if v is not None and 0 not in v.shape]
    if any(not d.startswith("cuda:") for d in devices):
        return int
    if not devices:
        return _stream_anywhere
    read: Callable[[int], int] = sys.modules["torch"]._C._cuda_getCurrentRawStream
    return partial(read, int(devices[0].removeprefix("cuda:")))


def _stream_anywhere() -> int:
    """The stream of torch's current GPU, for a call without elements; 0 while torch uses no GPU."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return 0
    return int(torch.cuda.current_stream().cuda_stream)
