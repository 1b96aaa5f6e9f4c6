"""What a run is checked for: its outputs against the oracle and the user's reference, and blocks of it in the
emulator, where races, reads before writes and barriers that part of the threads reach are found.

| level  | what is done                                                                            |
|--------|-----------------------------------------------------------------------------------------|
| none   | nothing                                                                                 |
| static | outputs compared; after a wrong result a few blocks are emulated to find the cause      |
| sim    | and a few blocks are emulated even when the result is right                             |
| full   | and all blocks are, in two orders, as far as the time goes; interp looks for races too  |
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from tilebench.errors import LaunchError, TileError, nearest
from tilebench.kernel import outputs, verify
from tilebench.kernel.args import bind
from tilebench.kernel.emulate import emulate
from tilebench.kernel.facts import span
from tilebench.kernel.progress import Progress
from tilebench.kernel.verdict import NOT_RUN, UNSEEN
from tilebench.kernel.writers import block_writing
from tilebench.profiling.work import count
from tilebench.report import DiffInfo, Finding

if TYPE_CHECKING:
    from tilebench.kernel.compiled import Kernel

UNSEEN_TEXT = "races between threads were not looked at: no block was run thread by thread"
UNSEEN_HINT = (
    "--check sim emulates a few blocks, --check full or --target emu all of them (in a call: check='sim')"
)

Level = Literal["none", "static", "sim", "full"]
LEVELS: tuple[Level, ...] = ("none", "static", "sim", "full")
EXAMINED_BLOCKS, EXAMINE_SECONDS = 4, 3.0
"""Blocks emulated to find a cause, and the seconds after which no further block is begun."""
FULL_SECONDS = 60.0
BLOCK_FLOPS = 2e9
"""A block with more work than this is not emulated on the side: it would take tens of seconds."""


def level_of(check: bool | str) -> Level:
    """The level that `check=` names: True is static, False none. Raises LaunchError TB617 for other words."""
    if isinstance(check, bool):
        return "static" if check else "none"
    if check not in LEVELS:
        raise LaunchError(
            "TB617",
            f"check={check!r} is no level of checking{nearest(check, LEVELS)}",
            fix=f"use one of {', '.join(LEVELS)}",
        )
    return check


@dataclass(frozen=True)
class Checked:
    """What was compared and found. counts: what the emulator counted, None when it did not run."""

    diffs: list[DiffInfo] = field(default_factory=list[DiffInfo])
    findings: list[Finding] = field(default_factory=list[Finding])
    counts: Any = None


@dataclass(frozen=True)
class Rule:
    """How to compare: the user's reference and tolerances, and the seed of samples."""

    ref: Callable[..., Any] | None = None
    atol: float | None = None
    rtol: float | None = None
    seed: int = 0


def check_run(
    kernel: Kernel, before: Sequence[Any], after: Sequence[Any], rule: Rule, level: Level
) -> Checked:
    """Compare a run's outputs, and emulate blocks as the level says.

    Elements that nothing wrote get back what they held.
    """
    oracle = verify.oracle_references(kernel, before, rule.seed)
    masks = outputs.missing(kernel, after, oracle)
    diffs = _compared(kernel, before, after, rule, oracle)
    found = outputs.findings(kernel, after, masks)
    outputs.put_back(kernel, after, before, masks)
    wrong = any(d.verdict == "fail" for d in diffs)
    as_written = [d.output for d in diffs if d.against == "oracle" and d.verdict == "pass"]
    if wrong and as_written and not any(d.verdict == "fail" for d in diffs if d.against == "oracle"):
        text = (
            f"the kernel computes what its program says ({', '.join(as_written)} agrees with the oracle): "
            "the program is not the reference's function"
        )
        found.append(Finding("reference", "info", text, hint="look at the formula, not at the machine"))
        wrong = False
    if kernel.target.kind == "emu" and level != "full":
        return Checked(diffs, found)  # every block ran with every check on, in one order
    counts = None
    if level in ("sim", "full") or (wrong and kernel.target.kind in ("cpu", "cuda")):
        looked = examine(kernel, before, rule.seed, all_blocks=level == "full", wrong=diffs)
        found += looked.findings
        counts = looked.counts
        if wrong and looked.blocks and not any(f.severity == "error" for f in looked.findings):
            found += _elsewhere(kernel, before, looked, rule.seed)
    else:
        found.append(Finding(UNSEEN, "info", UNSEEN_TEXT, hint=UNSEEN_HINT))
    return Checked(diffs, found, counts)


def _elsewhere(kernel: Kernel, before: Sequence[Any], looked: Examined, seed: int) -> list[Finding]:
    """Of a wrong result for which the emulator finds no cause: whether the emulator's own is right."""
    oracle = verify.oracle_references(kernel, before, seed, looked.blocks)
    diffs = [
        verify.compare(p.name, *verify.host_values(v, p.name), oracle[p.name])
        for p, v in zip(kernel.params, looked.values, strict=True)
        if p.name in oracle
    ]
    if not diffs or any(d.verdict != "pass" for d in diffs):
        return []
    text = (
        f"the emulator runs the same program right on {len(looked.blocks)} blocks: if one of them is wrong "
        f"here, the fault is the {kernel.target.kind} target's own"
    )
    return [Finding("target", "warning", text, hint="please report it with this cell")]


def _compared(
    kernel: Kernel,
    before: Sequence[Any],
    after: Sequence[Any],
    rule: Rule,
    oracle: Mapping[str, verify.Reference],
    covered: Mapping[str, np.ndarray] | None = None,
) -> list[DiffInfo]:
    diffs: list[DiffInfo] = []
    written = {p.name: v for p, v in zip(kernel.params, after, strict=True) if p.role != "in"}
    if rule.ref is not None:
        expected = reference_values(kernel, before, rule.ref, list(written))
        diffs += verify.against_reference(kernel, written, expected, oracle, rule.atol, rule.rtol, covered)
    for name, value in written.items():
        if name in oracle:
            got, dtype = verify.host_values(value, name)
            diffs.append(verify.compare(name, got, dtype, oracle[name], kernel=kernel))
    return diffs


def reference_values(
    kernel: Kernel, before: Sequence[Any], ref: Callable[..., Any], names: Sequence[str]
) -> dict[str, Any]:
    """The reference's outputs by name.

    It is called with the values of the parameters that the kernel reads.
    """
    inputs = [v for p, v in zip(kernel.params, before, strict=True) if p.role != "out"]
    try:
        made = ref(*[x.clone() if hasattr(x, "clone") else x for x in inputs])
    except Exception as error:
        raise TileError(
            "TB630",
            f"the reference failed: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}",
            why=f"it was called with the {len(inputs)} inputs of {kernel.name}",
            fix="--ref takes a function of the kernel's inputs that returns its outputs",
        ) from error
    values = list(cast("Sequence[Any]", made)) if isinstance(made, list | tuple) else [made]
    if len(values) != len(names):
        raise TileError(
            "TB630",
            f"the reference returns {len(values)} values, "
            f"the kernel writes {len(names)} ({', '.join(names)})",
        )
    odd = next((n for n, v in zip(names, values, strict=True) if not hasattr(v, "shape")), None)
    if odd is not None:
        kind = type(values[list(names).index(odd)]).__name__
        raise TileError(
            "TB630",
            f"the reference gives {kind} for {odd}, which is a tensor",
            why="its result is compared with what the kernel wrote, element by element",
            fix="return the tensor (a lambda does so by itself, a function with return)",
        )
    return dict(zip(names, values, strict=True))


# ------------------------------------------------------------------ blocks in the emulator


def _host(values: Sequence[Any]) -> list[Any]:
    """Copies of the arguments in this machine's memory."""
    return verify.snapshot([v.detach().cpu() if hasattr(v, "detach") else v for v in values])


@dataclass(frozen=True)
class Examined:
    """Blocks that were emulated: their findings and counts, the arguments after them, and which they were."""

    findings: list[Finding]
    counts: Any = None
    values: tuple[Any, ...] = ()
    blocks: tuple[tuple[int, ...], ...] = ()


def examine(
    kernel: Kernel,
    before: Sequence[Any],
    seed: int,
    *,
    all_blocks: bool = False,
    wrong: Sequence[DiffInfo] = (),
) -> Examined:
    """Emulate a few blocks (or all, in two orders, as far as FULL_SECONDS goes), with every check on.

    wrong: comparisons whose worst elements lie in the blocks to look at first. What is found becomes
    findings; what was not looked at is said.
    """
    values = _host(before)
    outputs.poison(kernel, values)
    call = bind(kernel.prim, values, "cpu", host_arrays=True)
    total = math.prod(call.grid)
    if not total:
        return Examined([])
    effort = count(kernel.prim, call.grid, call.symbols).flops / total
    if effort > BLOCK_FLOPS:
        text = f"not emulated: a block has {effort:.1e} operations; smaller sizes show the same faults"
        return Examined([Finding("emulated", "info", text)])
    chosen = (
        [tuple(int(i) for i in place) for place in np.ndindex(*call.grid)]
        if all_blocks
        else _suspects(kernel, call.grid, wrong) + verify.sample_blocks(call.grid, EXAMINED_BLOCKS, seed)
    )
    chosen = list(dict.fromkeys(chosen))
    limit = FULL_SECONDS if all_blocks else EXAMINE_SECONDS
    found: dict[tuple[Any, ...], Finding] = {}
    done: list[tuple[int, ...]] = []
    counts: Any = None
    start = time.monotonic()
    fresh, together = verify.snapshot(values), len(chosen) == 1
    schedules = ("forward", "reverse") if all_blocks else ("forward",)
    try:
        with Progress(f"emulating {kernel.name}", len(schedules) * len(chosen)) as progress:
            for schedule in schedules:
                step = max(1, len(chosen) // 50) if all_blocks else 1
                for k in range(0, len(chosen), step):
                    if done and time.monotonic() - start > limit:
                        break
                    part = chosen[k : k + step]
                    result = emulate(kernel, *values, blocks=part, schedule=schedule)
                    if schedule == "forward":
                        done += part
                    counts = counts or result.counts
                    for f in result.findings:
                        if f.kind != "unwritten":
                            found.setdefault((f.kind, f.spans, f.code), f)
                    progress.advance(len(part))
            if not together and (time.monotonic() - start) * 2 < limit:
                # Once more in one run: what one block does to another's elements shows only there.
                for f in emulate(kernel, *fresh, blocks=done).findings:
                    if f.kind != "unwritten":
                        found.setdefault((f.kind, f.spans, f.code), f)
                together = True
    except TileError as error:
        text = f"not emulated: {error.what}"
        return Examined([Finding("emulated", "info", text, hint=error.fix)])
    return Examined(
        [*found.values(), _said(kernel, found.values(), done, total, together)],
        counts,
        tuple(values),
        tuple(done),
    )


def _suspects(kernel: Kernel, grid: tuple[int, ...], wrong: Sequence[DiffInfo]) -> list[tuple[int, ...]]:
    """The blocks that write the worst elements of wrong outputs."""
    worst = [(d.output, d.worst[0].coord) for d in wrong if d.verdict == "fail" and d.worst]
    found = (block_writing(kernel.prim, grid, output, coord) for output, coord in worst)
    return [b for b in found if b is not None]


def _said(kernel: Kernel, found: Any, done: Sequence[tuple[int, ...]], total: int, together: bool) -> Finding:
    """How much was looked at, and that nothing was found when nothing was."""
    clean = not any(f.severity == "error" for f in found)
    share = "all" if len(done) == total else f"{len(done)} of"
    arch = kernel.target.arch or "sm_90a"
    text = f"{share} {total} blocks run by the emulator for {arch}"
    if clean:
        where = "" if together else " within a block"
        text += f": no race{where}, no read before a write, nothing out of bounds"
    return Finding("emulated", "info", text)


def check_emulated(
    kernel: Kernel, values: Sequence[Any], before: Sequence[Any], rule: Rule, level: Level
) -> Checked:
    """For a kernel whose GPU is not here: blocks are emulated, and what they wrote is compared.

    values: get what the emulated blocks wrote; elements of other blocks keep what they held.
    """
    kernel.last_call = bind(kernel.prim, values, "cpu", host_arrays=True)
    looked = examine(kernel, before, rule.seed, all_blocks=level == "full")
    if level == "none" or not looked.blocks:
        if not looked.blocks:
            text = "no block was run: there is no GPU here, and the emulator could not stand in for it"
            looked.findings.append(Finding(NOT_RUN, "warning", text))
        if rule.ref is not None:
            looked.findings.append(
                Finding(
                    "reference",
                    "warning",
                    "--ref was not compared: no block was run, since there is no GPU here",
                )
            )
        return Checked([], looked.findings, looked.counts)
    oracle = verify.oracle_references(kernel, before, rule.seed, looked.blocks)
    covered = _covered(kernel, looked.values, oracle)
    if rule.ref is not None and len(covered) < sum(p.role != "in" for p in kernel.params):
        text = "--ref was not compared: which elements the emulated blocks wrote is not known"
        looked.findings.append(
            Finding("reference", "warning", text, hint="use float outputs, or --target emu")
        )
        rule = Rule(None, rule.atol, rule.rtol, rule.seed)
    diffs = _compared(kernel, before, looked.values, rule, oracle, covered)
    findings = list(looked.findings)
    if len(looked.blocks) == math.prod(kernel.last_call.grid):
        masks = {n: ~m for n, m in covered.items() if not m.all()}
        findings += outputs.findings(kernel, looked.values, masks)
    for param, value, made in zip(kernel.params, values, looked.values, strict=True):
        mask = covered.get(param.name)
        if mask is not None:
            outputs.assign(value, made, mask)
    return Checked(diffs, findings, looked.counts)


def _covered(
    kernel: Kernel, values: Sequence[Any], oracle: Mapping[str, verify.Reference]
) -> dict[str, np.ndarray]:
    """The elements of each output that the emulated blocks wrote, where that is known."""
    found: dict[str, np.ndarray] = {}
    for param, value in zip(kernel.params, values, strict=True):
        if param.role == "in":
            continue
        mark = outputs.standing(param, value)
        known = oracle.get(param.name)
        if known is not None and known.covered is not None:
            found[param.name] = known.covered
        elif mark is not None:
            found[param.name] = ~mark
    return found


def error_finding(error: TileError) -> Finding:
    """An error of a run as a finding, for a report that is made all the same."""
    place = span(error.at)
    return Finding("stopped", "error", error.what, (place,) if place else (), error.fix, error.code)
