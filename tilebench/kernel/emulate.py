"""`emulate`: run a kernel's thread IR on this machine, with every check on, and see what it found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilebench import compiler
from tilebench.errors import LaunchError
from tilebench.ir.launches import launches
from tilebench.kernel import args
from tilebench.kernel.compiled import Kernel
from tilebench.passes.stages import Lowered
from tilebench.targets import Target, parse


def emulate(
    kernel: Kernel,
    *values: Any,
    blocks: Sequence[tuple[int, ...]] | None = None,
    target: str | None = None,
    schedule: Any = "forward",
) -> Any:
    """Emulate `kernel` on host tensors; returns the emulator's result (findings, counts) with `outputs`.

    blocks: block indices to run (None: all); target: 'emu:sm_XX' (the kernel's own architecture, else
    sm_90a); schedule: 'forward', 'reverse' or a seed. Outputs not covered by `blocks` keep what they held.
    """
    from tilebench.backends.emulator import run_program

    refuse_several(kernel, "emulate()")
    chosen = _target(kernel, target)
    lowered: Lowered = compiler.analyse(kernel.prim, chosen, thread_ir=True).stage(Lowered)
    full = kernel.complete(values)
    call = args.bind(kernel.prim, full, "cpu", host_arrays=True)
    result = run_program(
        lowered, call.arguments, call.symbols, grid=call.grid, blocks=blocks, schedule=schedule
    )
    outputs = [full[i] for i in kernel.out_idx]
    return EmulatedRun(result, outputs)


def refuse_several(kernel: Kernel, what: str) -> None:
    """Raise LaunchError TB277 for a program of several launches: `what` looks at one."""
    if kernel.prim.then is not None:
        raise LaunchError(
            "TB277",
            f"{what} takes a program of one launch, and {kernel.name} makes {len(launches(kernel.prim))}",
            at=kernel.prim.then.loc,
            why="a later launch reads what all blocks of the one before wrote",
            fix="kernel.parts[0] is the first launch, a kernel by itself; target='emu' runs all, with "
            "every check on",
        )


class EmulatedRun:
    """What `emulate` gives: `findings`, everything else of the emulator's result, and the output tensors."""

    def __init__(self, result: Any, outputs: list[Any]) -> None:
        self.result = result
        self.outputs = outputs

    @property
    def findings(self) -> tuple[Any, ...]:
        """Races, uninitialised reads, out-of-bounds accesses, deadlocks: report.Finding."""
        return tuple(self.result.findings)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.result, name)

    def __repr__(self) -> str:
        lines = [f"<emulated: {len(self.findings)} findings>"] + [
            f"  {f.severity}: {f.text}" for f in self.findings
        ]
        return "\n".join(lines)


def _target(kernel: Kernel, target: str | None) -> Target:
    if target is not None:
        return parse(target)
    return parse(f"emu:{kernel.target.arch or 'sm_90a'}")
