"""The emulator as a back end: `build` compiles the program, `launch` runs it and raises what it found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilebench.backends.base import Argument, Built
from tilebench.backends.emulator.compile import CompiledProgram, compile_program
from tilebench.backends.emulator.schedule import EmulationResult, Schedule, run_program
from tilebench.errors import LaunchError, Loc, SyncError
from tilebench.ir.expr import Var
from tilebench.passes.stages import Lowered
from tilebench.report import Finding
from tilebench.targets import Target

_WHY = {
    "race": "two threads touch the same memory, one of them writes, and nothing orders them",
    "TB431": "blocks run in no order, some at the same time",
    "async-race": "asynchronous copies and products run beside the threads until waited for",
    "proxy-fence": "bulk copies and products see shared memory through the async proxy, which writes "
    "of threads reach by a fence",
    "mbarrier": "a phase completes with the arrivals that the barrier counts and the bytes it was told of",
    "TB438": "from its issue to the wait for its group a product owns its registers",
    "TB439": "a product may read registers before writes that no wgmma.fence closes",
    "TB536": "warpgroups can only share out the registers that the block was launched with",
    "uninitialised": "memory holds whatever an earlier kernel left there",
    "out-of-bounds": "on a GPU this reads or corrupts other data, or ends the process's context",
    "deadlock": "a barrier opens when all the threads that it counts have arrived",
    "divergence": "the instruction is executed by a warp as one",
    "misaligned": "a vector access needs an address that is a multiple of its width",
}


def error_of(finding: Finding, places: tuple[Loc | None, ...]) -> LaunchError | SyncError:
    """The exception that a finding of severity 'error' becomes when a launch must not pass."""
    known = [at for at in places if at is not None]
    kind = (
        LaunchError
        if finding.kind in ("out-of-bounds", "misaligned", "assert", "endless-loop", "division-by-zero")
        else SyncError
    )
    return kind(
        finding.code or "TB430", finding.text,
        at=known[-1] if known else None, fix=finding.hint,
        why=_WHY.get(finding.code) or _WHY.get(finding.kind, ""),
        notes=[(at, "the other access") for at in known[:-1] if at.line != known[-1].line],
    )  # fmt: skip


@dataclass
class EmulatedKernel:
    """A built kernel for `target="emu"`. result: what the last launch found and counted."""

    built: Built
    lowered: Lowered
    compiled: CompiledProgram
    checks: bool = True
    result: EmulationResult | None = field(default=None, repr=False)

    def launch(
        self,
        arguments: Sequence[Argument],
        symbols: Mapping[Var, int],
        grid: tuple[int, ...],
        stream: int = 0,
    ) -> None:
        """Run all blocks in place. Raises LaunchError or SyncError for the first finding that is an error."""
        if 0 in grid:
            return
        self.result = self.run(arguments, symbols, grid)
        for line in self.result.printed:
            print(line)
        if self.result.first_error is not None:
            raise error_of(*self.result.first_error)

    def run(
        self,
        arguments: Sequence[Argument],
        symbols: Mapping[Var, int],
        grid: tuple[int, ...],
        blocks: Sequence[int] | None = None,
        schedule: Schedule = "forward",
    ) -> EmulationResult:
        """Run blocks (None: all) and give what was found and counted, without raising."""
        return run_program(
            self.lowered, arguments, symbols, grid, blocks, schedule, self.checks, self.compiled
        )


def build(lowered: Lowered, target: Target, checks: bool = True) -> EmulatedKernel:
    """A kernel that runs in NumPy from its thread program."""
    program = lowered.program
    compiled = compile_program(program, checks)
    built = Built(target, shared_bytes=program.shared_bytes, entry=program.name)
    return EmulatedKernel(built, lowered, compiled, checks)
