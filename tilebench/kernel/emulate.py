"""`emulate`: run a kernel's thread IR on this machine, with every check on, and see what it found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilebench import compiler
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

    chosen = _target(kernel, target)
    lowered: Lowered = compiler.analyse(kernel.prim, chosen, thread_ir=True).stage(Lowered)
    full = kernel.complete(values)
    call = args.bind(kernel.prim, full, "cpu", host_arrays=True)
    result = run_program(
        lowered, call.arguments, call.symbols, grid=call.grid, blocks=blocks, schedule=schedule
    )
    outputs = [full[i] for i in kernel.out_idx]
    return EmulatedRun(result, outputs)


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
