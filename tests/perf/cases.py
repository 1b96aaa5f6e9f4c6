"""What a row of the table is made of: cases, the configurations of ours to choose from, inputs and peers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Run = Callable[[], Any]


TILELANG_EXAMPLES = "TILELANG_EXAMPLES"
"""The environment variable that names the folder of TileLang's examples."""


class NotHere(Exception):
    """A peer that this machine does not have, or that cannot do the case; the text says why."""


@dataclass(frozen=True)
class Candidate:
    """One configuration of ours: programs (several run one after the other) and pass configs."""

    label: str
    programs: tuple[Callable[[], Any], ...]
    configs: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass
class Setup:
    """A case on the GPU.

    bind: from the kernels of a candidate to a launch of them all; outputs: tensors that a launch writes,
    poisoned before the check; want: their values, from float32 arithmetic; peers: makers of launches, which
    raise NotHere; check_peer: what a peer's launch gave is compared with want()[0] when it gives a tensor;
    setup: refill what a launch of ours adds to.
    """

    bind: Callable[[Sequence[Any], Candidate], Run]
    outputs: Sequence[Any]
    want: Callable[[], Sequence[Any]]
    peers: Mapping[str, Callable[[], Run]]
    poison: bool = True


@dataclass(frozen=True)
class Case:
    """One shape of a row.

    work / ms gives the rate in `unit`; bound: of the relative error; given: milliseconds of peers that
    somebody measured elsewhere on the same kind of GPU, by name.
    """

    row: str
    label: str
    candidates: tuple[Candidate, ...]
    prepare: Callable[[Path | None], Setup]
    work: float
    unit: str
    bound: float
    given: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True)
class Bar:
    """`ours` at least `ratio` times as fast as `peer`, as a geometric mean over the row's shapes."""

    peer: str
    ratio: float


REFERENCE = "reference"
"""Names of the reference kernels' launches start with this."""


def one(label: str, program: Callable[[], Any], **configs: Any) -> Candidate:
    """A candidate of one kernel."""
    return Candidate(label, (program,), configs)


def both(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Each of them as it is, and with one block for each tile instead of persistent blocks."""
    off = {"TB_PERSISTENT": False}
    return tuple(
        c
        for one_of in candidates
        for c in (
            one_of,
            Candidate(f"{one_of.label} one block a tile", one_of.programs, {**one_of.configs, **off}),
        )
    )


def same_arguments(*tensors: Any) -> Callable[[Sequence[Any], Candidate], Run]:
    """The bind of a single kernel that takes these tensors."""

    def bind(kernels: Sequence[Any], candidate: Candidate) -> Run:
        del candidate
        return kernels[0].bind(*tensors)

    return bind


def in_turn(*runs: Run) -> Run:
    """One launch after the other."""

    def run() -> Any:
        for launch in runs:
            launch()

    return run


def shape_of(kernel: Any, position: int) -> tuple[int, ...]:
    """The shape of a kernel's parameter."""
    return kernel.params[position].value.static_shape
