"""Loops: each spelling says how the iterations run; the front-end makes the statement."""

from __future__ import annotations

from typing import Any

from tilebench.errors import TypeTileError
from tilebench.ir.tile import Break
from tilebench.language.markers import LoopSpec


def _range(kind: Any, start: Any, stop: Any, step: Any, options: dict[str, Any]) -> LoopSpec:
    if stop is None:
        start, stop = 0, start
    return LoopSpec(kind, start=start, stop=stop, step=1 if step is None else step, options=options)


def serial(start: Any, stop: Any = None, step: Any = None, *, annotations: Any = None) -> LoopSpec:
    """One iteration after the other."""
    del annotations
    return _range("serial", start, stop, step, {})


def unroll(
    start: Any,
    stop: Any = None,
    step: Any = None,
    *,
    explicit: bool = False,
    unroll_factor: Any = None,
    annotations: Any = None,
) -> LoopSpec:
    """Serial, expanded by the target's compiler: all of it, or unroll_factor iterations at a time.

    Raises TypeTileError TB286 for a factor that is not a number from 1.
    """
    del explicit, annotations
    if unroll_factor is not None and (not isinstance(unroll_factor, int) or unroll_factor < 1):
        raise TypeTileError(
            "TB286",
            f"T.unroll: unroll_factor={unroll_factor!r}",
            why="it is the number of iterations that are written out",
            fix="unroll_factor=4, or leave it out to have all of them written out",
        )
    return _range("unroll", start, stop, step, {"factor": unroll_factor})


def vectorized(start: Any, stop: Any = None, *, annotations: Any = None) -> LoopSpec:
    """Serial, meant for one vector access."""
    del annotations
    return _range("vectorized", start, stop, None, {})


def Parallel(
    *extents: Any,
    coalesced_width: int | None = None,
    loop_layout: Any = None,
    prefer_async: Any = None,
    annotations: Any = None,
) -> LoopSpec:
    """Independent iterations over a box, spread over the threads of the block."""
    del prefer_async, annotations
    return LoopSpec(
        "parallel", extents=extents, options={"coalesced_width": coalesced_width, "layout": loop_layout}
    )


def Pipelined(
    start: Any,
    stop: Any = None,
    num_stages: int = 0,
    order: Any = None,
    stage: Any = None,
    sync: Any = None,
    group: Any = None,
    annotations: Any = None,
) -> LoopSpec:
    """Serial, with the copies of later iterations under way: num_stages versions of each tile."""
    del sync, annotations
    return _range(
        "pipelined",
        start,
        stop,
        None,
        {"num_stages": num_stages, "order": order, "stage": stage, "group": group},
    )


def grid(*extents: Any) -> LoopSpec:
    """Nested serial loops."""
    return LoopSpec("grid", extents=extents)


def Persistent(
    domain: Any,
    wave_size: Any,
    index: Any,
    group_size: int = 8,
    num_stages: Any = None,
    annotations: Any = None,
) -> LoopSpec:
    """Tiles of a domain, `index`, `index + wave_size`, ... in groups that share L2."""
    del num_stages, annotations
    return LoopSpec(
        "persistent",
        extents=tuple(domain),
        options={"wave_size": wave_size, "index": index, "group_size": group_size},
    )


def thread_binding(
    start: Any, stop: Any = None, thread: str = "threadIdx.x", *, annotations: Any = None
) -> LoopSpec:
    """`for t in T.thread_binding(128, "threadIdx.x")`: each thread takes the iteration of its own index."""
    del annotations
    if isinstance(stop, str):  # T.thread_binding(128, "threadIdx.x")
        stop, thread = None, stop
    axes = {
        f"{name}.{axis}": (kind, d)
        for name, kind in (("threadIdx", "thread"), ("blockIdx", "block"))
        for d, axis in enumerate("xyz")
    }
    if thread not in axes:
        raise TypeTileError(
            "TB209",
            f"T.thread_binding: no axis {thread!r}",
            why="the axes are " + ", ".join(axes),
            fix="use one of them",
        )
    kind, dim = axes[thread]
    return LoopSpec(
        "thread", stop=start if stop is None else stop - start, options={"kind": kind, "dim": dim}
    )


def loop_break() -> Break:
    """Leaves the innermost loop, as `break`."""
    return Break()


Serial, Unroll, Vectorized, parallel = serial, unroll, vectorized, Parallel
