"""Is the result right? Each output against the float64 oracle's running error bound, and against PyTorch when
asked.

Against the oracle: |got - value| <= bound, element by element; elements whose value hangs on a comparison
within its own error are ambiguous, left out and counted. Against a reference given by the user: |got -
reference| <= 2 * bound, since the reference, a right program for the same function in the same types, may be
off by its own bound; with atol/rtol the user's rule. NaN and infinities must stand at the same places.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tilebench.errors import TileError
from tilebench.ir.dtype import DType, decode
from tilebench.ir.tile import Buffer
from tilebench.kernel import args
from tilebench.kernel.pattern import guess
from tilebench.report import LARGEST_ERROR, LARGEST_RATIO, DiffInfo, WorstElement

if TYPE_CHECKING:
    from tilebench.kernel.compiled import Kernel

HEAT_CELLS = 64
"""The heat map has at most this many rows and columns."""
UNDEFINED = "the program's own value is NaN everywhere, which has no rounding error to allow for"
"""The rule where the oracle's bounds are 0 because it has no number: most often memory that nothing wrote."""
ORACLE_WORK = 3e8
"""Floating-point operations that the oracle may do before blocks are sampled."""


@dataclass(frozen=True)
class Reference:
    """What an output should be. bound None: unknown; covered and ambiguous: masks (None: all, none).

    complete: every block was evaluated, so what is not covered is never written; undefined: the program's own
    value is NaN everywhere, so that its bounds of 0 say nothing.
    """

    against: str
    value: np.ndarray
    bound: np.ndarray | None
    covered: np.ndarray | None = None
    ambiguous: np.ndarray | None = None
    complete: bool = False
    undefined: bool = False


def host_values(value: Any, name: str) -> tuple[np.ndarray, DType]:
    """A tensor's values on the host in compute form, contiguous, and its dtype."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    view = args.view(value, name)
    return np.array(decode(view.array(), view.dtype)), view.dtype


def snapshot(values: Sequence[Any]) -> list[Any]:
    """Copies of the tensor arguments (inputs may be overwritten by the run)."""
    return [
        v.clone() if hasattr(v, "clone") else v.copy() if isinstance(v, np.ndarray) else v for v in values
    ]


def against_oracle(
    kernel: Kernel, before: Sequence[Any], after: Sequence[Any], seed: int = 0
) -> list[DiffInfo]:
    """Each written tensor compared with the oracle.

    before: all parameter values ahead of the run; after: behind it.
    """
    references = oracle_references(kernel, before, seed)
    infos: list[DiffInfo] = []
    for param, value in zip(kernel.params, after, strict=True):
        if param.name in references:
            got, dtype = host_values(value, param.name)
            infos.append(compare(param.name, got, dtype, references[param.name], kernel=kernel))
    return infos


def oracle_references(
    kernel: Kernel, before: Sequence[Any], seed: int = 0, blocks: Sequence[tuple[int, ...]] | None = None
) -> dict[str, Reference]:
    """The oracle's references by output name, of `blocks` (None: all, or a sample when that is too much
    work).

    The dict is empty where a statement is one that the oracle does not know, and where blocks of several
    launches are asked for.
    """
    from tilebench.oracle import OracleUnsupported, evaluate
    from tilebench.profiling.work import count

    call = args.bind(kernel.prim, [_host(v) for v in before], "cpu", host_arrays=True)
    work = count(kernel.prim, call.grid, call.symbols)
    total = math.prod(call.grid)
    effort = work.flops + 4 * work.global_bytes
    if blocks is None and effort > ORACLE_WORK and total > 4:
        blocks = sample_blocks(call.grid, max(4, int(total * ORACLE_WORK / effort)), seed)
    try:
        results = evaluate(kernel.prim, call.arguments, call.symbols, call.grid, blocks)
    except OracleUnsupported:
        return {}
    return {
        name: Reference("oracle", r.value, r.bound, r.covered, r.ambiguous, blocks is None)
        for name, r in results.items()
    }


def _host(value: Any) -> Any:
    return value.detach().cpu() if hasattr(value, "detach") else value


def sample_blocks(grid: tuple[int, ...], number: int, seed: int = 0) -> list[tuple[int, ...]]:
    """First, last, the tails of each axis, and random blocks: at most `number` (at least 4) block indices."""
    last = tuple(g - 1 for g in grid)
    corners = {tuple(0 for _ in grid), last}
    for axis in range(len(grid)):
        corners.add(tuple(last[a] if a == axis else 0 for a in range(len(grid))))
    rng = np.random.default_rng(seed)
    total = math.prod(grid)
    wanted = min(number, total)
    for _ in range(4 * wanted):
        if len(corners) >= wanted:
            break
        corners.add(tuple(int(i) for i in np.unravel_index(int(rng.integers(total)), grid)))
    return sorted(corners)


def against_reference(
    kernel: Kernel,
    outputs: Mapping[str, Any],
    expected: Mapping[str, Any],
    oracle: Mapping[str, Reference],
    atol: float | None = None,
    rtol: float | None = None,
    covered: Mapping[str, np.ndarray] | None = None,
) -> list[DiffInfo]:
    """Outputs against the user's reference values, with the oracle's bounds where it has them.

    covered: the elements to compare, by output (None: all).
    """
    infos: list[DiffInfo] = []
    for name, want in expected.items():
        got, dtype = host_values(outputs[name], name)
        reference = users_reference(name, want, got.shape, oracle.get(name), atol, rtol)
        reference = replace(reference, covered=(covered or {}).get(name))
        nobodys = _unwritten(kernel, name, outputs[name])
        rule = rule_text(atol, rtol)
        infos.append(compare(name, got, dtype, reference, kernel=kernel, rule=rule, unwritten=nobodys))
    return infos


def _unwritten(kernel: Kernel, name: str, value: Any) -> np.ndarray | None:
    """Where an output still has what it was filled with before the launch."""
    from tilebench.kernel.outputs import standing

    param = next((p for p in kernel.params if p.name == name), None)
    return None if param is None else standing(param, value)


def users_reference(
    name: str,
    want: Any,
    shape: tuple[int, ...],
    known: Reference | None,
    atol: float | None = None,
    rtol: float | None = None,
) -> Reference:
    """A user's value for an output of this shape, with the difference that is allowed: by atol and rtol, else
    twice the oracle's bound. Raises TileError TB630 for another shape.
    """
    value = host_values(want, name)[0].astype(np.float64)
    if value.shape != shape:
        raise TileError(
            "TB630",
            f"the reference for {name} has shape {value.shape}, the kernel's output {shape}",
            fix="make --ref return the same shape",
        )
    bound = None
    if atol is not None or rtol is not None:
        bound = (atol or 0.0) + (rtol or 0.0) * np.abs(value)
    elif known is not None and known.bound is not None:
        bound = 2 * known.bound
        if known.covered is not None:
            top = float(np.max(bound[known.covered], initial=0.0))
            bound = np.where(known.covered, bound, top)
    lost = known is not None and atol is None and rtol is None and _all_nan(known.value, known.covered)
    return Reference("torch", value, bound, ambiguous=known.ambiguous if known else None, undefined=lost)


def _all_nan(value: np.ndarray, covered: np.ndarray | None) -> bool:
    looked = value if covered is None else value[covered]
    return bool(looked.size and np.isnan(looked).all())


def rule_text(atol: float | None, rtol: float | None) -> str:
    """The user's rule in words, '' without one."""
    return (
        f"|difference| <= {atol or 0:g} + {rtol or 0:g} * |reference|"
        if atol is not None or rtol is not None
        else ""
    )


def compare(
    name: str,
    got: np.ndarray,
    dtype: DType,
    reference: Reference,
    *,
    kernel: Kernel | None = None,
    rule: str = "",
    unwritten: np.ndarray | None = None,
) -> DiffInfo:
    """One output against a reference. got in compute form; unwritten: where nothing wrote it (None: not
    known).
    """
    want = reference.value
    covered = np.ones(got.shape, bool) if reference.covered is None else reference.covered
    ambiguous = np.zeros(got.shape, bool) if reference.ambiguous is None else reference.ambiguous
    checked = covered & ~ambiguous
    a, b = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        error = np.abs(a - b)
        special = np.isnan(a) | np.isnan(b) | np.isinf(a) | np.isinf(b)
        agree = (np.isnan(a) & np.isnan(b)) | (a == b)
        error = np.where(special, np.where(agree, 0.0, np.inf), error)
        bound = (
            np.zeros_like(error) if reference.bound is None else np.broadcast_to(reference.bound, error.shape)
        )
        ratio = np.where(error == 0, 0.0, error / np.where(bound > 0, bound, np.finfo(float).tiny))
        if reference.against == "torch":  # no bound, not even an infinite one, excuses a NaN of one side
            ratio = np.where(np.isnan(a) != np.isnan(b), np.inf, ratio)
        relative = np.where(error == 0, 0.0, error / np.where(b == 0, np.inf, np.abs(b)))
    shown = np.where(checked, ratio, 0.0)
    wrong = (shown > 1.0) & checked
    count, total = int(checked.sum()), got.size
    exact = reference.bound is not None and not np.any(bound)
    undefined = reference.undefined or (reference.against == "oracle" and _all_nan(b, checked))
    how = rule or (
        UNDEFINED
        if exact and undefined
        else "equal bit for bit"
        if exact
        else f"within {'twice ' if reference.against == 'torch' else ''}the running error bound of its "
        f"own {dtype} arithmetic"
    )
    if reference.bound is None:
        verdict, how = "unchecked", "no error bound is known for this program"
    else:
        verdict = "fail" if wrong.any() else "pass" if count else "unchecked"
    finite = np.where(checked & np.isfinite(error), error, 0.0)
    heat, step, worst_at = _heat(np.where(checked, np.minimum(shown, LARGEST_RATIO), 0.0))
    nobodys = wrong & unwritten if unwritten is not None else np.zeros_like(wrong)
    return DiffInfo(
        output=name, against=reference.against, verdict=verdict, how=how,
        max_abs=float(finite.max(initial=0.0)),
        max_rel=float(np.where(checked & np.isfinite(relative), relative, 0.0).max(initial=0.0)),
        max_ratio=float(min(shown.max(initial=0.0), LARGEST_RATIO)),
        wrong=int(wrong.sum()), ambiguous=int((covered & ambiguous).sum()), checked=count, total=total,
        heat=heat, heat_step=step, heat_at=worst_at,
        worst=_worst(a, b, error, shown, nobodys, _writer_line(kernel, name)),
        histograms=_histograms(b, error, checked, dtype),
        pattern=guess(wrong, a, b), unwritten=int(nobodys.sum()),
        special=int((wrong & special & ~nobodys).sum()),
        heat_unwritten=_heat(nobodys.astype(float))[0].astype(np.uint8) if nobodys.any() else None,
    )  # fmt: skip


def _as_matrix(x: np.ndarray) -> np.ndarray[tuple[int, int], np.dtype[Any]]:
    if x.ndim == 0:
        return x.reshape(1, 1)
    return x.reshape(-1, x.shape[-1]) if x.ndim != 1 else x.reshape(1, -1)


def _heat(ratio: np.ndarray) -> tuple[np.ndarray, tuple[int, ...], np.ndarray | None]:
    """The largest ratio of each box, the size of the boxes, and which element of its box that is (row-major;
    None where boxes are single elements, or too large for 16 bits).
    """
    matrix = _as_matrix(ratio)
    rows, columns = (max(1, -(-n // HEAT_CELLS)) for n in matrix.shape)
    if matrix.size == 0:
        return np.zeros((1, 1), np.float32), (1, 1), None
    row_count, column_count = matrix.shape
    row_starts, column_starts = np.arange(0, row_count, rows), np.arange(0, column_count, columns)
    folded = np.maximum.reduceat(np.maximum.reduceat(matrix, row_starts, axis=0), column_starts, axis=1)
    at = None
    if 1 < rows * columns < 1 << 16:
        whole = np.full((len(row_starts) * rows, len(column_starts) * columns), -1.0)
        whole[:row_count, :column_count] = matrix
        boxes = whole.reshape(len(row_starts), rows, len(column_starts), columns).swapaxes(1, 2)
        at = boxes.reshape(*folded.shape, rows * columns).argmax(axis=-1).astype(np.uint16)
    return folded.astype(np.float32), (rows, columns), at


def _worst(
    a: np.ndarray, b: np.ndarray, error: np.ndarray, ratio: np.ndarray, unwritten: np.ndarray, line: int
) -> tuple[WorstElement, ...]:
    """The ten worst; line: of the last statement that writes the output."""
    flat, nobodys = ratio.ravel(), unwritten.ravel()
    top = np.argsort(-flat, kind="stable")[:10]
    return tuple(
        WorstElement(
            tuple(int(i) for i in np.unravel_index(int(k), a.shape)), float(a.ravel()[k]),
            float(b.ravel()[k]),
            float(min(error.ravel()[k], LARGEST_ERROR)), float(min(flat[k], LARGEST_RATIO)),
            0 if nobodys[k] else line, written=not nobodys[k],
        )
        for k in top
        if flat[k] > 0
    )  # fmt: skip


def _writer_line(kernel: Kernel | None, name: str) -> int:
    """The cell line of the last statement that writes the output."""
    if kernel is None:
        return 0
    from tilebench.ir.rewrite import walk
    from tilebench.ir.tile import AtomicRMW, Store, TileOp

    line = 0
    for node in walk(kernel.prim.body):
        buffers: tuple[Buffer, ...] = ()
        if isinstance(node, TileOp):
            buffers = tuple(r.buffer for r in node.writes)
        elif isinstance(node, Store | AtomicRMW):
            buffers = (node.buffer,)
        if any(b.name == name and b.scope == "global" for b in buffers) and node.loc is not None:
            line = node.loc.line
    return line


def _histograms(b: np.ndarray, error: np.ndarray, checked: np.ndarray, dtype: DType) -> dict[str, Any]:
    """Counts of |error| and of ulps; b: the reference values."""
    finite = error[checked & np.isfinite(error)]
    if not finite.size:
        return {}
    top = float(finite.max())
    edges = np.linspace(0, top if top > 0 else 1.0, 21)
    result = {"abs": _bins(finite, edges)}
    u = dtype.unit_roundoff
    if u:
        magnitude = np.maximum(np.abs(b[checked & np.isfinite(error)]), np.finfo(np.float32).tiny)
        ulps = finite / (np.exp2(np.floor(np.log2(magnitude))) * 2 * u)
        result["ulp"] = _bins(np.minimum(ulps, 64), np.array([0, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64.0]))
    return result


def _bins(values: np.ndarray, edges: np.ndarray) -> tuple[tuple[float, ...], tuple[int, ...]]:
    counts, _ = np.histogram(values, edges)
    return tuple(float(e) for e in edges), tuple(int(c) for c in counts)
