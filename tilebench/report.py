"""`Report`: everything a view shows of one kernel, as plain frozen data that goes to JSON (plus typed
buffers) and back.

Every number is a `Figure` that says where it comes from: predicted (a model), simulated (the emulator counted
it) or measured (with the device's name). MIME type: `application/vnd.tilebench.report+json`; the field `view`
of the MIME payload names the view to show. Nothing here computes: kernel/ and profiling/ fill it, views/ draw
it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, cast

import numpy as np  # noqa: TC002 # from_json reads the fields' types

from tilebench.codec import converted

REPORT_MIME = "application/vnd.tilebench.report+json"
REPORT_VERSION = 1
VIEWS = (
    "summary", "layout", "smem", "code", "passes", "warps", "timeline", "step", "diff", "roofline", "compare",
    "whatif",
    "findings", "exercise", "board",
)  # fmt: skip
BUS_KEYS = ("kernel", "op", "line", "buffer", "coord", "thread", "reg", "byte", "bank", "instr", "step")
"""Fields of the selection that views share: a view ignores what it cannot map. Shapes: line is a cell line
from 1, coord a list of ints, the rest ints or strings. step: an iteration of `op` where `op` is given (the
timeline), else a step of the trace (time travel).
"""

Provenance = Literal["predicted", "simulated", "measured"]


@dataclass(frozen=True)
class Figure:
    """A number with its unit and where it comes from.

    device: the machine's name when measured; model when predicted. Of several rounds: value is their median,
    low and high their quartiles. note: what else must be known, as 'cached'.
    """

    value: float
    unit: str
    provenance: Provenance
    device: str = ""
    low: float | None = None
    high: float | None = None
    rounds: int = 0
    note: str = ""


@dataclass(frozen=True)
class Span:
    """A place in the cell: lines from 1, columns from 0, end exclusive."""

    line: int
    column: int = 0
    end_line: int = 0
    end_column: int = 0


@dataclass(frozen=True)
class BufferInfo:
    """A buffer of the kernel. offset: byte in shared memory; versions: copies made by pipelining."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    scope: str
    bytes: int
    span: Span | None = None
    offset: int | None = None
    versions: int = 1
    first: int = 0
    last: int = 0


@dataclass(frozen=True)
class DigitInfo:
    """One digit of a layout: `size` values, each step moves `stride` along `dim` (-1: replica)."""

    size: int
    dim: int
    stride: int


@dataclass(frozen=True)
class CauseInfo:
    """One link of the chain of reasons of a layout: what was decided, the cell line and the op or buffer that
    decided it.
    """

    text: str
    line: int = 0
    op: str = ""
    buffer: str = ""


@dataclass(frozen=True)
class LayoutInfo:
    """Where each element of a buffer (or of a parallel loop, name 'loop@LINE') is.

    kind fragment: reg and thread digits (layouts/fragment.py), or `table` = flat coordinates
    [threads*registers] in row-major element numbers, -1 for none. kind shared: strides in elements, panel,
    swizzle (bits, base, shift) on bytes, or `table` = element offset of each element. chain: why it is so,
    from the nearest reason to the first cause.
    """

    buffer: str
    kind: Literal["fragment", "shared"]
    shape: tuple[int, ...]
    itemsize_bits: int
    threads: int = 0
    registers: int = 0
    replication: int = 1
    reg: tuple[DigitInfo, ...] = ()
    thread: tuple[DigitInfo, ...] = ()
    strides: tuple[int, ...] = ()
    panel: int = 0
    panel_stride: int = 0
    swizzle: tuple[int, int, int] = (0, 0, 0)
    table: np.ndarray | None = None
    formula: str = ""
    reason: str = ""
    reason_line: int = 0
    atom: tuple[int, ...] = ()
    chain: tuple[CauseInfo, ...] = ()


@dataclass(frozen=True)
class SliceInfo:
    """The box of a tensor that one block touches in an op, by the block and by the iteration of the loop.

    Dimension d has extents[d] elements from base[d] + sum(blocks[d][axis] * block[axis]) + loop[d] *
    iteration on; trips: iterations of the loop (1: none). table: int32 [blocks, rank] starts for iteration
    0 instead, blocks counted with axis 0 fastest, where the start is not affine.
    """

    buffer: str
    mode: Literal["read", "write"]
    extents: tuple[int, ...]
    base: tuple[int, ...]
    blocks: tuple[tuple[int, ...], ...]
    loop: tuple[int, ...]
    trips: int = 1
    table: np.ndarray | None = None


@dataclass(frozen=True)
class OpInfo:
    """An op or parallel loop.

    id: 'op3'; instruction: what carries it out and why; cost per execution by a block. Of a matrix product:
    operands are the names of A, B and C, transposed whether A and B are, atom the M, N, K of one instruction.
    """

    id: str
    name: str
    text: str
    span: Span | None
    instruction: str = ""
    reason: str = ""
    declined: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    flops: float = 0.0
    bytes: float = 0.0
    role: str = "all"
    warp_grid: tuple[int, int] = (1, 1)
    operands: tuple[str, ...] = ()
    transposed: tuple[bool, ...] = ()
    atom: tuple[int, ...] = ()
    slices: tuple[SliceInfo, ...] = ()


@dataclass(frozen=True)
class Access:
    """A shared or global access of an op.

    kind: 'ld.shared', 'st.shared', 'ldmatrix', 'cp.async', 'atom.shared', 'ld.global', 'st.global' ...;
    requests: warp-level instructions of a block; conflict_ways: worst bank conflict (1: none, 0: not known,
    the addresses depend on data); efficiency: useful bytes over bytes of the 32-byte sectors moved (global).
    provenance: predicted from the addresses in the thread program, or simulated: counted by the emulator.
    addresses: of a predicted access, the byte that each lane of the worst warp asks for (-1: none), in the
    block's shared memory; empty for bulk copies and warpgroup products, which are no lane's accesses.
    """

    op: str
    buffer: str
    kind: str
    width_bytes: int
    conflict_ways: int = 1
    requests: int = 0
    efficiency: float = 1.0
    line: int = 0
    addresses: tuple[int, ...] = ()
    provenance: Provenance = "predicted"
    warp: int = 0


@dataclass(frozen=True)
class TimelineBar:
    """A bar: op on a lane (resource or role) from start to end, in microseconds, for loop iteration
    `iteration` (-1: none).

    kind: work; wait: nothing but waiting; issue: starting work that goes on behind the bar. warp: whose clock
    was read (measured timelines), -1 for none.
    """

    lane: str
    op: str
    label: str
    start_us: float
    end_us: float
    iteration: int = -1
    phase: Literal["prologue", "steady", "epilogue", ""] = ""
    line: int = 0
    kind: Literal["work", "wait", "issue"] = "work"
    warp: int = -1


@dataclass(frozen=True)
class TimelineTerm:
    """A term of the sum that a launch's time is: `count` times `each_us`."""

    text: str
    count: float
    each_us: float


@dataclass(frozen=True)
class TimelineInfo:
    """Bars with where they come from, and (from bar, to bar) dependences.

    cuts: (from, to) in microseconds of stretches that are left out of the picture, the same work going on in
    them; total_us: the time of the whole launch, the sum of `terms`, one of which is the block that is drawn;
    device: whose costs or clock they are; unit: of all times here: 'us', or 'steps' where a simulated counter
    says what ran before what and not how long it took; warps: those that were timed, of which bars are kept.
    """

    provenance: Provenance
    bars: tuple[TimelineBar, ...]
    arrows: tuple[tuple[int, int], ...] = ()
    note: str = ""
    cuts: tuple[tuple[float, float], ...] = ()
    terms: tuple[TimelineTerm, ...] = ()
    total_us: float = 0.0
    device: str = ""
    unit: Literal["us", "steps"] = "us"
    warps: tuple[int, ...] = ()


@dataclass(frozen=True)
class PassInfo:
    """A stage of the compiler: its text after it, microseconds, whether it changed anything.

    lines[i]: the cell line that line i+1 of the text came from, 0 for none.
    """

    name: str
    text: str
    microseconds: float
    changed: bool
    note: str = ""
    lines: tuple[int, ...] = ()


@dataclass(frozen=True)
class CodeText:
    """One level of code. lines[i]: the cell line that line i+1 came from, 0 for none.

    live[i]: 32-bit registers that are live there (of PTX: virtual ones, before allocation), empty when not
    known; mix: how often each opcode is in the whole text.
    """

    level: Literal["cell", "tile", "thread", "cuda", "llvm", "ptx", "sass", "asm"]
    text: str
    lines: tuple[int, ...] = ()
    live: tuple[int, ...] = ()
    mix: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True)
class Resources:
    """What the binary needs.

    registers and spills from the compiler's log; occupancy predicted from the target's table.
    """

    registers: int | None = None
    spill_bytes: int | None = None
    shared_bytes: int = 0
    threads: int = 0
    grid: tuple[int, ...] = ()
    blocks_per_sm: int | None = None
    occupancy: Figure | None = None
    limiter: str = ""


@dataclass(frozen=True)
class Roof:
    """A ceiling of the roofline: slope (bytes/s) or flat (FLOP/s). source: where the number is from."""

    name: str
    kind: Literal["bandwidth", "compute"]
    value: float
    source: str


@dataclass(frozen=True)
class RooflinePoint:
    """A kernel on the roofline. intensity in FLOP/byte; time is predicted, or measured with a device.

    id: the report that it is of; config: its tunables in words; occupancy as a share of the warps.
    """

    label: str
    flops: float
    bytes: float
    time_us: Figure | None
    id: str = ""
    config: str = ""
    occupancy: float | None = None


@dataclass(frozen=True)
class RooflineInfo:
    """Ceilings of one device and the points on it (the last is this compile; earlier ones are history)."""

    device: str
    roofs: tuple[Roof, ...]
    points: tuple[RooflinePoint, ...]
    predicted_us: float = 0.0
    limiter: str = ""
    bounds: dict[str, float] = field(default_factory=dict[str, float])
    """Microseconds that each unit of the device needs at least (predicted), by name."""


LARGEST_ERROR, LARGEST_RATIO = 1e300, 1e30
"""What stands for an error without a number (NaN against a number, never written) and for what it is of its
bound; views say it in words.
"""


@dataclass(frozen=True)
class WorstElement:
    """A wrong or worst element: where, both values, its error over its bound, who wrote it.

    error and ratio are LARGEST_ERROR and LARGEST_RATIO where they are not finite, or the bound is 0; written:
    whether anything wrote it (the value, the line and the thread say nothing if not).
    """

    coord: tuple[int, ...]
    value: float
    reference: float
    error: float
    ratio: float
    line: int = 0
    block: tuple[int, ...] = ()
    thread: int = -1
    written: bool = True


@dataclass(frozen=True)
class DiffInfo:
    """One output against a reference.

    against: 'torch' | 'oracle'; verdict 'pass' | 'fail' | 'unchecked'; how: the rule that was applied, with
    its numbers; heat: downsampled max |error| / bound, 2-D; heat_at: which element of its heat_step box each
    cell of the map stands for, row-major (None: the boxes are single elements); histograms: (edges, counts)
    by name; pattern: a guess at the cause; unwritten, special: of the wrong elements, those that nothing
    wrote, and others that are NaN or infinite on one side; heat_unwritten: 1 for each cell of the map that
    has one of the former (None: there is none).
    """

    output: str
    against: str
    verdict: Literal["pass", "fail", "unchecked"]
    how: str
    max_abs: float = 0.0
    max_rel: float = 0.0
    max_ratio: float = 0.0
    wrong: int = 0
    ambiguous: int = 0
    checked: int = 0
    total: int = 0
    heat: np.ndarray | None = None
    heat_step: tuple[int, ...] = ()
    heat_at: np.ndarray | None = None
    worst: tuple[WorstElement, ...] = ()
    histograms: dict[str, tuple[tuple[float, ...], tuple[int, ...]]] = field(default_factory=dict[str, Any])
    pattern: str = ""
    unwritten: int = 0
    special: int = 0
    heat_unwritten: np.ndarray | None = None


# ------------------------------------------------------------------ time travel

Box = tuple[int, ...]
"""Part of a buffer: its offsets, then its extents (2 x rank numbers)."""


@dataclass(frozen=True)
class TraceBuffer:
    """What a trace follows.

    scope: that of the buffer, or 'scalar' (a variable, shape ()), or 'register' (thread level: one row a
    register, one column a thread). origin: where the drawn box starts in a global tensor. holds: of
    registers and of shared memory at thread level, the buffer whose LayoutInfo says which element is where;
    first_thread: of the columns.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    scope: str
    origin: tuple[int, ...] = ()
    holds: str = ""
    versions: int = 1
    first_thread: int = 0
    line: int = 0


@dataclass(frozen=True)
class TraceSite:
    """A statement that steps are made of. op: its OpInfo id, '' for none; vars: loop variables around it,
    outermost first; text: the statement in one line (of a parallel loop its body's); end_line: its last line.
    """

    name: str
    line: int
    text: str
    op: str = ""
    vars: tuple[str, ...] = ()
    end_line: int = 0


@dataclass(frozen=True)
class TraceWrite:
    """What a step left in a box of a buffer.

    at: first byte of its values in the trace's data (inflated), -1 when they were not kept; code: how they
    are kept (views/trace.py); mask_at: first byte of the bits (row-major, least significant first) of the
    elements that were written, -1 for all; nan, inf: how many there are; low, high: range of the finite ones.
    """

    buffer: int
    box: Box
    at: int
    code: str
    mask_at: int = -1
    nan: int = 0
    inf: int = 0
    low: float = 0.0
    high: float = 0.0


@dataclass(frozen=True)
class TraceRead:
    """A box of a buffer that a step read."""

    buffer: int
    box: Box


@dataclass(frozen=True)
class TraceCheck:
    """A buffer compared with the reference after a step. error: the largest |difference|; ratio: the largest
    |difference| over what is allowed; wrong: elements beyond it; at: first byte of the map of differences
    (code 'e1' of views/trace.py), -1 for none.
    """

    buffer: int
    box: Box
    error: float
    ratio: float
    wrong: int
    at: int = -1


@dataclass(frozen=True)
class TraceStep:
    """One execution of a statement. at: values of the site's loop variables."""

    site: int
    at: tuple[int, ...]
    writes: tuple[TraceWrite, ...] = ()
    reads: tuple[TraceRead, ...] = ()
    checks: tuple[TraceCheck, ...] = ()


@dataclass(frozen=True)
class Trace:
    """What one block did, step by step: at tile level (the specification's order) or at thread level (the
    emulated thread program).

    data: values, one zlib stream; total: steps that there were; kept: their numbers where only key steps are
    here (empty: all are here); reference: what the checks compare with and how; stopped: the error that ended
    the run.
    """

    level: Literal["tile", "thread"]
    block: tuple[int, ...]
    grid: tuple[int, ...]
    buffers: tuple[TraceBuffer, ...]
    sites: tuple[TraceSite, ...]
    steps: tuple[TraceStep, ...]
    data: np.ndarray | None = None
    total: int = 0
    kept: tuple[int, ...] = ()
    reference: str = ""
    note: str = ""
    stopped: str = ""


@dataclass(frozen=True)
class Finding:
    """Something worth knowing: kind ('race', 'bank-conflict', 'spill', 'unwritten', ...), where (one or two
    places), a hint.
    """

    kind: str
    severity: Literal["error", "warning", "info"]
    text: str
    spans: tuple[Span, ...] = ()
    hint: str = ""
    code: str = ""


@dataclass(frozen=True)
class Tunable:
    """A parameter of a kernel that can be changed: its values as text, in order; value: the one in force."""

    name: str
    values: tuple[str, ...]
    value: str


@dataclass(frozen=True)
class TriedPoint:
    """One choice of the tunables and what is known of it.

    state: 'predicted' (from the stages, nothing compiled: registers are an estimate), 'compiled' (registers
    and spills from the compiler's log), 'illegal' (reason says why); point: on the roofline, its time
    predicted; milliseconds: what finding this out took; kept: pinned by the user; id: of the report, once
    compiled. measured: the time of a launch, where it was run; ok and verdict: whether its result was right;
    problem: why running it failed. program_threads: of a block, as the program says, where the compiler adds
    more (0: not known).
    """

    config: dict[str, str]
    state: Literal["predicted", "compiled", "illegal"]
    reason: str = ""
    resources: Resources = field(default_factory=Resources)
    point: RooflinePoint | None = None
    limiter: str = ""
    milliseconds: float = 0.0
    kept: bool = False
    id: str = ""
    measured: Figure | None = None
    ok: bool | None = None
    verdict: str = ""
    problem: str = ""
    program_threads: int = 0


@dataclass(frozen=True)
class WhatIfInfo:
    """The tunables of a kernel, the points tried so far, and the device that predictions are for."""

    tunables: tuple[Tunable, ...]
    tried: tuple[TriedPoint, ...]
    device: str = ""
    base: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Delta:
    """Something that differs between two compiles. verdict: whether the change is for the better, where that
    can be said.
    """

    group: Literal["setting", "resource", "time", "instruction", "result"]
    what: str
    before: str
    after: str
    change: str = ""
    verdict: Literal["better", "worse", ""] = ""


@dataclass(frozen=True)
class LayoutDelta:
    """A buffer whose layout differs.

    moved of total elements are in another place; map: uint8 [rows, columns], the share of each part of the
    tile that moved (255: all), None when there is nothing to map.
    """

    buffer: str
    before: str
    after: str
    moved: int = 0
    total: int = 0
    map: np.ndarray | None = None


@dataclass(frozen=True)
class TextDelta:
    """One level of code that differs: a unified difference, at most so many lines.

    lines: (mark, text) with mark ' ', '+', '-' or '@'.
    """

    level: str
    added: int
    removed: int
    lines: tuple[tuple[str, str], ...] = ()
    cut: int = 0


@dataclass(frozen=True)
class CompareInfo:
    """What changed from an earlier compile to this one."""

    before: str
    before_id: str
    after: str
    deltas: tuple[Delta, ...] = ()
    layouts: tuple[LayoutDelta, ...] = ()
    texts: tuple[TextDelta, ...] = ()


@dataclass(frozen=True)
class RoleInfo:
    """A group of warps and what it does. note: what else is to say, as its registers."""

    name: str
    first_thread: int
    threads: int
    ops: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class ClaimInfo:
    """One thing that an exercise looked at. passed: None where it was not looked at.

    saw, means, where, look: what was seen, what that means, the place in words, what to look at next; line,
    step, element: the place as numbers (0, None, () where there is none).
    """

    claim: str
    passed: bool | None
    saw: str = ""
    means: str = ""
    where: str = ""
    look: str = ""
    line: int = 0
    step: int | None = None
    element: tuple[int, ...] = ()


@dataclass(frozen=True)
class ExerciseInfo:
    """An exercise with what was found in an answer. hints: from a nudge to nearly the answer."""

    name: str
    title: str
    claims: tuple[ClaimInfo, ...] = ()
    hints: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """All of it. id: the kernel's identity on the selection bus (hash of its source and configuration)."""

    id: str
    name: str
    target: str
    source: str
    first_line: int = 1
    version: int = REPORT_VERSION
    device: str = ""
    config: dict[str, str] = field(default_factory=dict[str, str])
    verdict: str = ""
    ok: bool | None = None
    params: tuple[BufferInfo, ...] = ()
    buffers: tuple[BufferInfo, ...] = ()
    scratch: BufferInfo | None = None
    statement_lines: tuple[int, ...] = ()
    """The cell line of each statement, by the preorder number that `first` and `last` of buffers count in."""
    layouts: tuple[LayoutInfo, ...] = ()
    ops: tuple[OpInfo, ...] = ()
    accesses: tuple[Access, ...] = ()
    roles: tuple[RoleInfo, ...] = ()
    timelines: tuple[TimelineInfo, ...] = ()
    passes: tuple[PassInfo, ...] = ()
    code: tuple[CodeText, ...] = ()
    resources: Resources = field(default_factory=Resources)
    roofline: RooflineInfo | None = None
    diffs: tuple[DiffInfo, ...] = ()
    findings: tuple[Finding, ...] = ()
    compare: CompareInfo | None = None
    whatif: WhatIfInfo | None = None
    figures: dict[str, Figure] = field(default_factory=dict[str, Figure])
    """compile_ms, run_ms, flops, bytes, nvrtc_ms ... by name."""
    traces: tuple[Trace, ...] = ()
    """Recorded runs of a block, for time travel."""
    exercise: ExerciseInfo | None = None
    schedule: tuple[str, ...] = ()
    """What the compiler chose for the kernel as a whole, a sentence each: who copies, what overlaps ..."""


T = TypeVar("T")


def from_json(kind: type[T], data: Any) -> T:
    """The dataclass `kind` from what `codec.to_json` made.

    Unknown fields are ignored; raises ValueError on a newer version.
    """
    if (
        kind is Report
        and isinstance(data, dict)
        and cast("dict[str, Any]", data).get("version", 0) > REPORT_VERSION
    ):
        raise ValueError(
            f"report version {data['version']} is newer than {REPORT_VERSION}: update tilebench to open it"
        )
    return cast("T", converted(kind, data))
