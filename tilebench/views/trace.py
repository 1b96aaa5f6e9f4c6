"""How a trace keeps values, and what a buffer held at a step.

A value array is bytes in planes (all first bytes, then all second bytes ...), which deflate well. Codes:

    f4 f8 i4 u1   as they are (float32, float64, int32, uint8)
    f2            float16: exact for float16 and fp8, 11 bits of a float32
    b2            the upper half of a float32: exact for bfloat16 and powers of two, 8 bits of a float32
    q1            0..252 from `low` to `high` of the write, then 253 -inf, 254 inf, 255 NaN
    e1            sizes of differences: 0 is 0, else 2**((c - 1) / 2.5 - 50) for c up to 253; 254 inf, 255 NaN
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field, replace

import numpy as np

from tilebench.codec import to_json
from tilebench.report import Trace, TraceSite, TraceStep, TraceWrite

Precision = str
"""'exact', 'half' (2 bytes for a float32) or 'byte'."""
PRECISIONS: tuple[Precision, ...] = ("exact", "half", "byte")
PER_OCTAVE, LOWEST = 2.5, -50
_WIDTH = {"f4": 4, "f8": 8, "i4": 4, "u1": 1, "f2": 2, "b2": 2, "q1": 1, "e1": 1}


def code_of(values: np.ndarray, dtype: str, precision: Precision) -> str:
    """The code that keeps these values of a buffer's dtype."""
    if values.dtype == np.bool_ or dtype == "bool":
        return "u1"
    if not np.issubdtype(values.dtype, np.floating):
        fits = values.size == 0 or (int(values.min()) >= -(2**31) and int(values.max()) < 2**31)
        return "i4" if fits else "f8"
    if dtype in ("bfloat16", "float8_e8m0fnu"):
        return "b2"
    if dtype == "float16" or dtype in ("float8_e4m3", "float8_e5m2"):
        return "f2"
    if precision == "exact":
        return "f8" if values.dtype == np.float64 else "f4"
    if precision == "byte":
        return "q1"
    size = np.abs(values[np.isfinite(values) & (values != 0)])
    inside = size.size == 0 or (float(size.max()) < 65000 and float(size.max()) > 1e-3)
    return "f2" if inside else "b2"


def pack(values: np.ndarray, code: str, low: float = 0.0, high: float = 0.0) -> bytes:
    """Values in the bytes of a code."""
    with np.errstate(all="ignore"):
        if code == "e1":
            exponent = (np.log2(values) - LOWEST) * PER_OCTAVE + 1
            number = np.where(values > 0, np.clip(np.round(np.nan_to_num(exponent)), 1, 253), 0)
            number = np.where(np.isinf(values), 254, np.where(np.isnan(values), 255, number))
            return number.astype(np.uint8).tobytes()
        if code == "q1":
            span = high - low
            number = np.round(
                (np.nan_to_num(values.astype(np.float64)) - low) * (252 / span if span > 0 else 0)
            )
            number = np.clip(number, 0, 252)
            number = np.where(np.isnan(values), 255, np.where(values == np.inf, 254, number))
            return np.where(values == -np.inf, 253, number).astype(np.uint8).tobytes()
        if code == "b2":
            bits = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64)
            nan = np.isnan(values)
            near = np.where(nan, 0x7FC0, (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)
            array = near.astype("<u2")
        else:
            kind = {"f4": "<f4", "f8": "<f8", "i4": "<i4", "u1": "|u1", "f2": "<f2"}[code]
            array = np.ascontiguousarray(values).astype(kind)
    return np.ascontiguousarray(array.reshape(-1).view(np.uint8).reshape(-1, _WIDTH[code]).T).tobytes()


def unpack(data: bytes, at: int, count: int, code: str, low: float = 0.0, high: float = 0.0) -> np.ndarray:
    """`count` values from byte `at` of inflated data, in float64 (exact for every code)."""
    width = _WIDTH[code]
    raw = np.frombuffer(data, np.uint8, count * width, at)
    if code in ("q1", "e1"):
        number = raw.astype(np.float64)
        if code == "e1":
            value = np.where(number > 0, np.exp2((number - 1) / PER_OCTAVE + LOWEST), 0.0)
            return np.where(raw == 255, np.nan, np.where(raw == 254, np.inf, value))
        value = low + number * ((high - low) / 252)
        value = np.where(raw == 255, np.nan, np.where(raw == 254, np.inf, value))
        return np.where(raw == 253, -np.inf, value)
    planes = np.ascontiguousarray(raw.reshape(width, count).T)
    if code == "b2":
        bits = planes.view("<u2").reshape(-1).astype(np.uint32) << 16
        return bits.view(np.float32).astype(np.float64)
    kind = {"f4": "<f4", "f8": "<f8", "i4": "<i4", "u1": "|u1", "f2": "<f2"}[code]
    return planes.view(kind).reshape(-1).astype(np.float64)


@dataclass
class Packer:
    """Collects bytes, each distinct array once."""

    parts: list[bytes] = field(default_factory=list[bytes])
    places: dict[bytes, int] = field(default_factory=dict[bytes, int])
    size: int = 0

    def add(self, data: bytes) -> int:
        """The place of some bytes in the data."""
        found = self.places.get(data)
        if found is None:
            found = self.places[data] = self.size
            self.parts.append(data)
            self.size += len(data)
        return found

    def values(
        self,
        buffer: int,
        box: tuple[int, ...],
        values: np.ndarray,
        dtype: str,
        precision: Precision,
        mask: np.ndarray | None = None,
    ) -> TraceWrite:
        """A write with its values put away."""
        finite = values[np.isfinite(values)] if np.issubdtype(values.dtype, np.floating) else values
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
        code = code_of(values, dtype, precision)
        is_float = np.issubdtype(values.dtype, np.floating)
        return TraceWrite(
            buffer, box, self.add(pack(values, code, low, high)), code,
            -1 if mask is None else self.add(np.packbits(mask.reshape(-1), bitorder="little").tobytes()),
            int(np.isnan(values).sum()) if is_float else 0, int(np.isinf(values).sum()) if is_float else 0,
            low, high,
        )  # fmt: skip

    def stream(self) -> np.ndarray:
        """Everything, deflated."""
        return np.frombuffer(zlib.compress(b"".join(self.parts), 6), np.uint8)


def inflated(trace: Trace) -> bytes:
    """The data of a trace."""
    return b"" if trace.data is None else zlib.decompress(trace.data.tobytes())


def split(box: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(offsets, extents) of a box."""
    rank = len(box) // 2
    return box[:rank], box[rank:]


@dataclass
class Replay:
    """What the buffers of a trace held, step after step. at: the step that was replayed last."""

    trace: Trace
    data: bytes = b""
    values: list[np.ndarray] = field(default_factory=list[np.ndarray])
    written: list[np.ndarray] = field(default_factory=list[np.ndarray])
    at: int = -1

    def __post_init__(self) -> None:
        self.data = self.data or inflated(self.trace)
        self.values = [np.full(b.shape, np.nan) for b in self.trace.buffers]
        self.written = [np.zeros(b.shape, bool) for b in self.trace.buffers]

    def to(self, step: int) -> Replay:
        """Forward to after `step` (earlier steps start again)."""
        if step < self.at:
            self.values = [np.full(b.shape, np.nan) for b in self.trace.buffers]
            self.written = [np.zeros(b.shape, bool) for b in self.trace.buffers]
            self.at = -1
        while self.at < step:
            self.at += 1
            for w in self.trace.steps[self.at].writes:
                self._apply(w)
        return self

    def _apply(self, w: TraceWrite) -> None:
        offsets, extents = split(w.box)
        place = tuple(slice(o, o + n) for o, n in zip(offsets, extents, strict=True))
        mask = mask_of(self.data, w)
        if mask is None:
            self.written[w.buffer][place] = True
        else:
            self.written[w.buffer][place] |= mask
        if w.at >= 0:
            count = int(np.prod(extents, dtype=np.int64))
            new = unpack(self.data, w.at, count, w.code, w.low, w.high).reshape(extents)
            self.values[w.buffer][place] = new


def mask_of(data: bytes, w: TraceWrite) -> np.ndarray | None:
    """Which elements of its box a write wrote, None for all."""
    if w.mask_at < 0:
        return None
    extents = split(w.box)[1]
    count = int(np.prod(extents, dtype=np.int64))
    raw = np.frombuffer(data, np.uint8, -(-count // 8), w.mask_at)
    return np.unpackbits(raw, bitorder="little")[:count].reshape(extents).astype(bool)


def number_of(trace: Trace, step: int) -> int:
    """The number that a step has in the whole run."""
    return trace.kept[step] if trace.kept else step


def loop_of(trace: Trace) -> str:
    """The variable of the outermost loop that most steps are in, '' for none."""
    counts: dict[str, int] = {}
    for s in trace.steps:
        names = trace.sites[s.site].vars
        if names:
            counts[names[0]] = counts.get(names[0], 0) + 1
    return max(counts, key=lambda name: counts[name]) if counts else ""


def iteration(trace: Trace, step: int, loop: str | None = None) -> int | None:
    """The iteration of the outermost loop that a step is in, None outside. loop: what loop_of gives."""
    s = trace.steps[step]
    names = trace.sites[s.site].vars
    loop = loop_of(trace) if loop is None else loop
    return s.at[0] if names and names[0] == loop and s.at else None


def key_steps(trace: Trace, limit: int = 8) -> list[int]:
    """The steps to keep when not all can be: the last of each iteration (evenly chosen when there are many),
    the first that is wrong or has a NaN, and the last of all.
    """
    if not trace.steps:
        return []
    ends: dict[int, int] = {}
    loop = loop_of(trace)
    for k in range(len(trace.steps)):
        i = iteration(trace, k, loop)
        if i is not None:
            ends[i] = k
    chosen = list(ends.values()) or list(range(len(trace.steps)))
    last = len(trace.steps) - 1
    extra = {last}
    wrong = next((k for k, s in enumerate(trace.steps) if any(c.ratio > 1 for c in s.checks)), None)
    nan = next((k for k, s in enumerate(trace.steps) if any(w.nan for w in s.writes)), None)
    extra.update(k for k in (wrong, nan) if k is not None)
    room = max(1, limit - len(extra))
    if len(chosen) > room:
        chosen = [chosen[round(i * (len(chosen) - 1) / max(1, room - 1))] for i in range(room)]
    return sorted({*chosen, *extra})


def thinned(trace: Trace, steps: list[int], scopes: frozenset[str]) -> Trace:
    """The trace with these steps alone; each holds all that changed since the one before, tiles in one byte
    an element. scopes: of the buffers whose values are kept.
    """
    replay, packer = Replay(trace), Packer()
    before = [np.zeros(b.shape, bool) for b in trace.buffers]
    kept: list[TraceStep] = []
    previous: list[np.ndarray | None] = [None] * len(trace.buffers)
    for k in steps:
        replay.to(k)
        writes: list[TraceWrite] = []
        for i, b in enumerate(trace.buffers):
            now, seen = replay.values[i], replay.written[i]
            old = previous[i]
            same = old is not None and np.array_equal(now, old, equal_nan=True) and (seen == before[i]).all()
            if b.scope not in scopes or not seen.any() or same:
                continue
            box = (*(0 for _ in b.shape), *b.shape)
            precision = "byte" if len(b.shape) > 1 else "half"
            writes.append(packer.values(i, box, now, "float32", precision, None if seen.all() else seen))
            previous[i], before[i] = now.copy(), seen.copy()
        kept.append(
            replace(
                trace.steps[k],
                writes=tuple(writes),
                checks=tuple(replace(c, at=-1) for c in trace.steps[k].checks),
            )
        )
    numbers = tuple(number_of(trace, k) for k in steps)
    used = sorted({s.site for s in kept})
    sites: tuple[TraceSite, ...] = tuple(trace.sites[i] for i in used)
    kept = [replace(s, site=used.index(s.site)) for s in kept]
    return replace(trace, steps=tuple(kept), sites=sites, data=packer.stream(), kept=numbers)


def saved(trace: Trace, limit: int) -> Trace:
    """Key steps in at most `limit` bytes of JSON: fewer steps, then no shared tiles, until it fits."""
    everything = frozenset({b.scope for b in trace.buffers})
    rows = frozenset({"scalar", "fragment", "local", "var", "register"})
    none = frozenset[str]()
    plans = [(8, everything), (8, rows | {"global"}), (6, rows), (4, rows), (2, rows), (1, rows), (1, none)]
    made = trace
    for count, scopes in plans:
        made = thinned(trace, key_steps(trace, count), scopes)
        if len(json.dumps(to_json(made))) <= limit:
            break
    return made
