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
from operator import lt
from typing import Any, Final

from tilebench.backends.base import Executable, Prepared, Prepares, TensorArgument
from tilebench.ir import tile
from tilebench.ir.expr import Var
from tilebench.ir.launches import launches_nothing
from tilebench.ir.rewrite import variables
from tilebench.kernel import args
from tilebench.kernel.reader import Read, make_reader

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
    extents: bytes from the first element to the end of the last, of each tensor that was passed;
    pairs: (position, bytes, other position, bytes) of two tensors that may not overlap;
    numbers: (position, conversion, least, greatest); launch: None for an empty grid; stream: torch's now.
    """

    call: args.Call
    outputs: tuple[tuple[int, tuple[int, ...], Any, Any], ...]
    extents: tuple[int, ...]
    pairs: tuple[tuple[int, int, int, int], ...]
    numbers: tuple[tuple[int, Callable[[Any], int | float], float, float], ...]
    launch: Callable[[list[Any], int], None] | None
    stream: Callable[[], int]


class Calls:
    """The known signatures of one kernel. Threads may share it."""

    def __init__(self, kernel: tile.Kernel) -> None:
        self._kernel = kernel
        self._readers: dict[tuple[type, ...], Read] = {}
        self._table: dict[tuple[Any, ...], Known] = {}
        self._lock = threading.Lock()
        self._returned = kernel.out_idx
        self.last: args.Call | None = None

    def __len__(self) -> int:
        return len(self._table)

    def run(self, values: Sequence[Any], stream: int | None) -> Any:
        """Launch where the signature is known and the addresses are fine; else UNUSUAL, nothing launched.

        Returns what the kernel returns. Raises LaunchError for what the driver refuses.
        """
        read = self._readers.get((*map(type, values),))
        if read is None:
            return UNUSUAL
        try:
            signature, full, rooms, odd = read(*values)
        except RuntimeError:  # a layout without strides or without one memory: the full path says so
            return UNUSUAL
        known = self._table.get(signature)
        if known is None or odd or any(map(lt, rooms, known.extents)):
            return UNUSUAL
        given: Sequence[Any] = values
        if known.outputs:
            given = list(values)
            empty = sys.modules["torch"].empty
            for position, shape, dtype, device in known.outputs:
                made = empty(shape, dtype=dtype, device=device)
                given.insert(position, made)
                full.insert(position, made.data_ptr())
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

    def learn(
        self, values: Sequence[Any], full: Sequence[Any], call: args.Call, executable: Executable, device: str
    ) -> None:
        """Keep the signature of a call that the full path has checked and run; some are never kept.

        values: as passed; full: with outputs; device: 'cpu' or 'cuda', the memory that the kernel reads.
        """
        kinds = (*map(type, values),)
        with self._lock:
            read = self._readers.get(kinds)
            if read is None:
                read = self._reader(kinds, device)
                if read is None or len(self._readers) >= KNOWN_AT_MOST:
                    return
                self._readers[kinds] = read
        signature, *_ = read(*values)
        known = describe(self._kernel, values, full, call, executable)
        if known is None:
            return
        with self._lock:
            if len(self._table) >= KNOWN_AT_MOST:
                del self._table[next(iter(self._table))]
            self._table[signature] = known

    def _reader(self, kinds: Sequence[type], device: str) -> Read | None:
        """The reader of arguments of these kinds; None when one is no plain tensor or number."""
        torch = sys.modules.get("torch")
        if torch is None:
            return None
        kernel = self._kernel
        everything = len(kinds) == len(kernel.params)
        params = [p for i, p in enumerate(kernel.params) if everything or i not in kernel.out_idx]
        tensors: list[tuple[int, int] | None] = []
        for param, kind in zip(params, kinds, strict=True):
            if isinstance(param.value, Var):
                if kind not in _NUMBERS or (kind is float and not param.value.dtype.is_float):
                    return None
                tensors.append(None)
            elif kind is torch.Tensor or kind is torch.nn.Parameter:
                size = param.value.dtype.bytes
                multiple = args.ALIGNMENT if device == "cuda" else max(1, min(args.ALIGNMENT, size))
                tensors.append((size, multiple))
            else:
                return None
        numbers = {p.value for p in kernel.params if isinstance(p.value, Var)}
        shaping = {*kernel.symbols, *(v for e in kernel.grid for v in variables(e))}
        return make_reader(len(self._readers), tensors, not numbers.isdisjoint(shaping))


def describe(
    kernel: tile.Kernel, values: Sequence[Any], full: Sequence[Any], call: args.Call, executable: Executable
) -> Known | None:
    """What the calls like this one share; None when no address of theirs says which GPU it is.

    values: plain tensors and numbers, as passed; full: with outputs.
    """
    numbers: list[tuple[int, Callable[[Any], int | float], float, float]] = []
    ends: dict[int, int] = {}
    for i, (param, seen) in enumerate(zip(kernel.params, call.views, strict=True)):
        if isinstance(param.value, Var):
            dtype = param.value.dtype
            bounded = not dtype.is_float and dtype.kind != "bool"
            least, greatest = (dtype.min, dtype.max) if bounded else (-float("inf"), float("inf"))
            numbers.append((i, float if dtype.is_float else int, least, greatest))
            continue
        assert seen is not None, "a tensor parameter has a view"
        steps = sum((n - 1) * s for n, s in zip(seen.shape, seen.strides, strict=True))
        ends[i] = 0 if 0 in seen.shape else (steps + 1) * seen.dtype.bytes
    if not any(ends.values()):
        return None
    pairs = tuple(
        (i, ends[i], j, ends[j])
        for i in ends
        for j in ends
        if i < j and ends[i] and ends[j] and not kernel.params[i].role == kernel.params[j].role == "in"
    )
    made = sorted(set(kernel.out_idx)) if len(values) != len(full) else ()
    return Known(
        call.without_tensors(),
        tuple((i, tuple(full[i].shape), full[i].dtype, full[i].device) for i in made),
        tuple(n for i, n in ends.items() if i not in made),
        pairs,
        tuple(numbers),
        None if launches_nothing(kernel, call.grid) else prepare(executable, call).launch,
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
