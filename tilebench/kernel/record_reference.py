"""What a recorded step should have left: by the oracle, or by a function of the user's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tilebench.backends.recording import Step, inside_nests, slices
from tilebench.errors import TileError
from tilebench.ir.dtype import DType
from tilebench.ir.tile import AtomicRMW, Bind, Buffer, Kernel, Parallel, Stmt, Store, TileOp
from tilebench.kernel.args import Call
from tilebench.kernel.tracing import Check, Followed
from tilebench.oracle import OracleUnsupported
from tilebench.oracle.evaluate import Frame, Machine
from tilebench.report import Trace
from tilebench.views import trace as codec

if TYPE_CHECKING:
    from tilebench.kernel.record import Moment
    from tilebench.kernel.verify import Reference


MOMENTS = (
    "reference= takes a Moment and gives {buffer name: array}, or None; a function of the inputs, as for "
    "run, is given as ref="
)


class _Watched(Machine):
    """The oracle, compared with recorded steps as it goes."""

    def __init__(self, kernel: Kernel, call: Call, steps: Sequence[Step]) -> None:
        super().__init__(kernel, call.arguments, call.symbols)
        self.steps, self.next = steps, 0
        self.inside = inside_nests(kernel.body)
        self.checks: dict[int, list[Check]] = {}

    def run(self, s: Stmt, f: Frame) -> None:
        """One statement, and its step compared."""
        super().run(s, f)
        if s in self.inside or not isinstance(s, TileOp | Store | AtomicRMW | Bind | Parallel):
            return
        if self.next < len(self.steps):
            step = self.steps[self.next]
            if step.stmt is not s:
                raise OracleUnsupported("another order of steps")
            self.checks[self.next] = list(self._compare(step))
            self.next += 1

    def _compare(self, step: Step) -> Iterable[Check]:
        for w in step.writes:
            memory = self.memory.get(w.key) if isinstance(w.key, Buffer) else None  # type: ignore[arg-type]
            if memory is None or memory.value.ndim != len(w.box[0]):
                continue
            place = slices(w.box)
            yield Check(
                w.key,
                w.box,
                difference(w.values, memory.value[place], memory.ambiguous[place], w.mask),
                np.array(memory.bound[place]),
            )


def difference(
    got: np.ndarray, want: np.ndarray, skip: Any = False, mask: np.ndarray | None = None
) -> np.ndarray:
    """|got - want|; 0 where both are the same special value, where `skip` holds and outside the mask."""
    with np.errstate(all="ignore"):
        a, b = got.astype(np.float64), np.asarray(want).astype(np.float64)
        error = np.abs(a - b)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        error = np.where(same, 0.0, np.where(np.isfinite(a) & np.isfinite(b), error, np.inf))
    error = np.where(skip, 0.0, error)
    return error if mask is None else np.where(mask, error, 0.0)


def oracle_checks(
    kernel: Kernel, call: Call, block: tuple[int, ...], steps: Sequence[Step]
) -> tuple[dict[int, list[Check]], str]:
    """Checks of each step against float64 with error bounds, and what they compare with."""
    machine = _Watched(kernel, call, steps)
    text = "the same program in float64; allowed is the running error bound of its own arithmetic"
    try:
        with np.errstate(all="ignore"):
            machine.block(block)
    except OracleUnsupported as error:
        text += f", up to step {machine.next}: the oracle does not know {error}"
    return machine.checks, text


def function_checks(
    function: Callable[[Moment], Mapping[str, Any] | None],
    moments: Iterable[Moment],
    followed: Sequence[Followed],
    tolerance: tuple[float | None, float | None],
) -> tuple[dict[int, list[Check]], str]:
    """Checks wherever the function has something to say. Raises TileError TB630 when it fails, names what is
    not there, or gives another shape.
    """
    known = {f.info.name: f for f in followed}
    rtol, atol = tolerance
    unit = max(
        (d.unit_roundoff for f in followed if (d := _dtype(f)) is not None and d.is_float), default=0.0
    )
    checks: dict[int, list[Check]] = {}
    for moment in moments:
        try:
            expected: Any = function(moment)
        except Exception as error:
            raise TileError(
                "TB630",
                f"the reference failed at step {moment.step} (line {moment.line}): "
                f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}",
                fix=MOMENTS,
            ) from error
        if not isinstance(expected, Mapping | None):
            raise TileError(
                "TB630",
                f"the reference gave a {type(expected).__name__} at step {moment.step}",
                fix=MOMENTS,
            )
        for name, want in cast("Mapping[str, Any]", expected or {}).items():
            f = known.get(name)
            if f is None:
                raise TileError("TB630", f"the reference speaks of {name}; the trace has {', '.join(known)}")
            array = np.asarray(want, np.float64)
            if array.shape != f.info.shape:
                raise TileError(
                    "TB630",
                    f"the reference for {name} has shape {array.shape}, the trace shows {f.info.shape}",
                )
            got = moment.values[name]
            r, a = tolerance_of(unit, array, rtol, atol)
            checks.setdefault(moment.step, []).append(
                Check(
                    f.key,
                    f.box,
                    difference(got, array),
                    a + r * np.abs(np.nan_to_num(array, posinf=0.0, neginf=0.0)),
                )
            )
    rule = (
        f"{rtol or 0:g} * |reference| + {atol or 0:g}"
        if rtol is not None or atol is not None
        else "16 units of the coarsest type"
    )
    return checks, f"a function of yours; allowed is {rule}"


def output_checks(
    trace: Trace, expected: Mapping[str, Reference], followed: Sequence[Followed]
) -> tuple[dict[int, list[Check]], str]:
    """Checks of each output at the last step that writes it, where the block wrote it; and what is compared.

    trace: with every step and no checks. The text ends where the rule is to be named.
    """
    last = {w.buffer: k for k, step in enumerate(trace.steps) for w in step.writes}
    replay = codec.Replay(trace)
    checks: dict[int, list[Check]] = {}
    for number, step in sorted(last.items(), key=lambda item: item[1]):
        f = followed[number]
        reference = expected.get(f.info.name)
        if reference is None or f.info.scope != "global":
            continue
        replay.to(step)
        place = slices(f.box)
        skip = False if reference.ambiguous is None else reference.ambiguous[place]
        want = reference.value[place]
        unit = getattr(_dtype(f), "unit_roundoff", 0.0)
        rtol, atol = tolerance_of(unit, want, None, None)
        allowed = atol + rtol * np.abs(want) if reference.bound is None else reference.bound[place]
        error = difference(replay.values[number], want, skip, replay.written[number])
        checks.setdefault(step, []).append(Check(f.key, f.box, error, np.array(allowed)))
    return checks, "your function of the inputs, at the last write of each output; allowed is "


def _dtype(f: Followed) -> DType | None:
    return getattr(f.key, "dtype", None)


def tolerance_of(
    unit: float, want: np.ndarray, rtol: float | None, atol: float | None
) -> tuple[float, float]:
    """(rtol, atol): the user's, else 16 units of rounding, of the element and of the largest one."""
    if rtol is not None or atol is not None:
        return rtol or 0.0, atol or 0.0
    finite = np.abs(want[np.isfinite(want)])
    return 16 * unit, 16 * unit * float(finite.max(initial=0.0))
