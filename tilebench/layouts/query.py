"""What a pair of layouts costs: vector width, bank conflicts, sectors, the way from fragment to fragment.

Where both layouts are linear over F2 the answer is a rank; enumeration answers every other case, and is what
the rank formulas are tested against.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tilebench.layouts import f2
from tilebench.layouts.fragment import FragmentLayout
from tilebench.layouts.shared import SharedLayout

if TYPE_CHECKING:
    from numpy.typing import NDArray

WARP = 32
BANKS = 32  # of 4 bytes each, since sm_20 (CUDA C++ programming guide, "Shared memory")
SECTOR = (
    32  # bytes of the smallest global-memory transfer (CUDA C++ best practices guide, "Coalesced access")
)
LINE = 128  # bytes of a cache line, four sectors

Strides = Sequence[int]


def fragment_offsets(fragment: FragmentLayout, memory: SharedLayout | Strides) -> NDArray[np.int64]:
    """Element offset in memory of every place: int64 [threads, registers]; meaningless where padding.

    memory: a shared layout, or the strides (in elements) of a global tile.
    """
    coords = np.where(fragment.valid()[..., None], fragment.coords(), 0).astype(np.int64)
    if isinstance(memory, SharedLayout):
        _same_tile(fragment, memory.shape)
        return np.asarray(memory.offsets()[tuple(coords[..., d] for d in range(fragment.rank))], np.int64)
    assert len(memory) == fragment.rank, f"{len(memory)} strides for a fragment of shape {fragment.shape}"
    return coords @ np.array(memory, np.int64)


def widest_vector(
    fragment: FragmentLayout, memory: SharedLayout | Strides, itemsize: int, max_bytes: int = 16
) -> int:
    """Most elements that every thread can move in one access: registers v*k .. v*k+v-1 in one place.

    They lie side by side and aligned, in every group of v registers. itemsize in bytes; the answer is a power
    of two with v * itemsize <= max_bytes that divides the register count. The tile's start must be aligned to
    max_bytes. For strides known only at run time give any multiple of what is known about them. Groups that
    are all padding do not matter; a group with some padding cannot be one access.
    """
    offsets = fragment_offsets(fragment, memory)
    valid = fragment.valid()
    best = 1
    v = 2
    while v * itemsize <= max_bytes and fragment.registers % v == 0:
        groups = offsets.reshape(fragment.threads, -1, v)
        whole = valid.reshape(fragment.threads, -1, v)
        full = whole.all(axis=2)
        run = (groups == groups[..., :1] + np.arange(v)).all(axis=2) & (groups[..., 0] % v == 0)
        if not ((run & full) | ~whole.any(axis=2)).all():
            break
        best = v
        v *= 2
    return best


# -- shared memory


def phases(width_bytes: int) -> int:
    """Into how many parts the hardware cuts a warp's access: 1 up to 4 bytes per lane, 2 for 8, 4 for 16."""
    return max(1, width_bytes // 4)


def _phase_degrees(addresses: Sequence[int] | NDArray[Any], width_bytes: int) -> list[int]:
    lanes = np.asarray(addresses, np.int64)
    degrees: list[int] = []
    for part in np.split(lanes, phases(width_bytes)):
        active = part[part >= 0]
        words: set[int] = set()
        for address in active:
            words.update(range(int(address) // 4, (int(address) + width_bytes - 1) // 4 + 1))
        banks = (
            np.bincount([w % BANKS for w in words], minlength=BANKS) if words else np.zeros(BANKS, np.int64)
        )
        degrees.append(int(banks.max()))
    return degrees


def bank_conflicts(addresses: Sequence[int] | NDArray[Any], width_bytes: int) -> int:
    """Conflict degree of one warp access: the most distinct words that fall in one bank within one phase.

    addresses: 32 byte addresses in lane order, negative for a lane that does not take part; width_bytes per
    lane. 1 is conflict-free, 0 means that no lane is active. Lanes that read the same word share it
    (broadcast).
    """
    return max(_phase_degrees(addresses, width_bytes))


def wavefronts(addresses: Sequence[int] | NDArray[Any], width_bytes: int) -> int:
    """Passes over shared memory that one warp access takes: the degrees of its phases added up."""
    return sum(_phase_degrees(addresses, width_bytes))


def conflict_ways(fragment: FragmentLayout, shared: SharedLayout, itemsize: int, vector: int) -> int:
    """Bank-conflict degree of one warp access: 1 is conflict-free, 32 is the worst.

    fragment: (thread, register) -> (i, j), 32 lanes a warp; shared: (i, j) -> offset; itemsize in bytes;
    vector: registers moved by one access. The worst warp and register counts.
    The degree is 2**(rank(words) - rank(banks)) over F2, words and banks being the images of a phase's lane
    bits, when both layouts are linear; otherwise it is counted.
    Raises LayoutError TB302 when the two layouts cover different tiles.
    Source: Linear Layouts, arXiv 2505.23819; CUDA C++ programming guide, shared-memory banks.
    """
    _same_tile(fragment, shared.shape)
    linear = conflict_ways_linear(fragment, shared, itemsize, vector)
    return conflict_ways_counted(fragment, shared, itemsize, vector) if linear is None else linear


def conflict_ways_linear(
    fragment: FragmentLayout, shared: SharedLayout, itemsize: int, vector: int
) -> int | None:
    """`conflict_ways` by ranks over F2, or None when a layout is not linear, is ragged, or has odd warps."""
    form = fragment.to_linear()
    columns = shared.linear
    if form is None or columns is None or len(form.thread) < 5 or any(fragment.padded_dims):
        return None
    packed = [
        column for dim in reversed(columns) for column in dim
    ]  # as the fragment packs: last dimension lowest
    if len(packed) < sum(form.dim_bits):
        return None
    width = vector * itemsize
    lane_bits = 5 - (phases(width).bit_length() - 1)
    unit = max(width, 4)
    chunks = [column * itemsize // unit for column in f2.compose(packed, form.thread[:lane_bits])]
    banks = [chunk & (BANKS * 4 // unit - 1) for chunk in chunks]
    return 1 << (f2.rank(chunks) - f2.rank(banks))


def conflict_ways_counted(fragment: FragmentLayout, shared: SharedLayout, itemsize: int, vector: int) -> int:
    """`conflict_ways` by enumeration of every warp and register group."""
    addresses = fragment_offsets(fragment, shared) * itemsize
    addresses = np.where(fragment.valid(), addresses, -1)[:, ::vector]
    missing = -len(addresses) % WARP
    addresses = np.pad(addresses, ((0, missing), (0, 0)), constant_values=-1)
    lanes = addresses.reshape(-1, WARP, addresses.shape[1]).transpose(0, 2, 1).reshape(-1, WARP)
    return max(1, max(bank_conflicts(row, vector * itemsize) for row in np.unique(lanes, axis=0)))


# -- global memory


@dataclass(frozen=True)
class Coalescing:
    """One warp access to global memory: sectors of 32 bytes touched, and useful bytes / bytes moved."""

    sectors: int
    efficiency: float


def coalescing(addresses: Sequence[int] | NDArray[Any], width_bytes: int) -> Coalescing:
    """Sectors that a warp access touches, and which part of their bytes it asked for.

    addresses: byte addresses in lane order, negative for an idle lane; the base is taken to be
    sector-aligned.
    """
    lanes = np.asarray(addresses, np.int64)
    lanes = lanes[lanes >= 0]
    touched = np.unique(lanes[:, None] + np.arange(width_bytes))
    sectors = len(np.unique(touched // SECTOR))
    return Coalescing(sectors, len(touched) / (sectors * SECTOR) if sectors else 1.0)


# -- between fragments


@dataclass(frozen=True)
class Conversion:
    """What it takes to bring a tile from one fragment layout to another.

    none: the same registers; registers: a renaming within each thread; shuffle: within each warp; shared:
    through shared memory. shuffles: instructions per thread (4 bytes each at most); bytes: written to and
    read from shared memory, by the block.
    """

    kind: Literal["none", "registers", "shuffle", "shared"]
    shuffles: int = 0
    bytes: int = 0


def conversion(
    source: FragmentLayout, target: FragmentLayout, itemsize: int = 4, max_shuffles: int = 32
) -> Conversion:
    """The cheapest kind of movement that fills `target` from `source`, with its cost.

    A shuffle sends one register of the lane that is asked, so a target register needs one shuffle for each
    source register that its lanes ask for. Above max_shuffles per thread shared memory is taken.
    Raises LayoutError TB302 when the layouts cover different tiles or different numbers of threads.
    """
    _same_tile(source, target.shape)
    if source.threads != target.threads:
        raise _different(f"{source.threads} threads and {target.threads} threads")
    thread = np.arange(target.threads)[:, None]
    wanted = target.elements()
    own = source.lookup(thread, wanted)
    local = (own >= 0) | ~target.valid()
    if local.all():
        same = (own == np.arange(target.registers)) | ~target.valid()
        return Conversion("none" if same.all() and source.registers >= target.registers else "registers")
    lanes = min(WARP, target.threads)
    found = own
    if target.threads % lanes == 0:
        # The first place of each element in each warp, as thread * registers + register.
        places = source.threads * source.registers
        first = np.full((source.threads // lanes, source.size), places, np.int64)
        held = np.flatnonzero(source.valid().ravel())[
            ::-1
        ]  # backwards, so that the first place is written last
        first[held // source.registers // lanes, source.elements().ravel()[held]] = held
        near = first[thread // lanes, np.maximum(wanted, 0)]
        near = np.where((near < places) & target.valid(), near % source.registers, -1)
        found = np.where(own >= 0, own, near)
    if ((found >= 0) | ~target.valid()).all():
        shuffles = 0
        for reg in range(target.registers):
            by_warp = np.where(local[:, reg], -1, found[:, reg]).reshape(-1, lanes)
            shuffles += max(len(np.unique(row[row >= 0])) for row in by_warp)
        shuffles *= -(-itemsize // 4)
        if shuffles <= max_shuffles:
            return Conversion("shuffle", shuffles=shuffles)
    written = int(source.owner().sum()) * itemsize
    return Conversion("shared", bytes=written + int(target.valid().sum()) * itemsize)


def _same_tile(fragment: FragmentLayout, shape: tuple[int, ...]) -> None:
    if fragment.shape != shape:
        raise _different(f"{'x'.join(map(str, fragment.shape))} and {'x'.join(map(str, shape))}")


def _different(what: str) -> Exception:
    from tilebench.errors import LayoutError

    return LayoutError(
        "TB302",
        f"the two layouts cover different tiles: {what}",
        why="a copy between them pairs elements of the same index",
        fix="take a slice of the larger one, or give both buffers the same shape",
    )
