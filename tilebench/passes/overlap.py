"""Launches that overlap: the next kernel of the stream is brought in while the last blocks of this one run.

Between two kernels of a stream the GPU is not at work for two microseconds: the last blocks drain, the next
grid is set up. From sm_90 on a kernel may say that its successor can be set up already
(griddepcontrol.launch_dependents), and the successor waits, before it touches memory, until all that was
launched before it is over and visible (griddepcontrol.wait). It takes both, and the launch asks for it;
kernels of others in the stream are waited for as ever. Sources: PTX ISA, "griddepcontrol"; CUDA C++
programming guide, "Programmatic Dependent Launch and Synchronization".
"""

from __future__ import annotations

from tilebench.ir.rewrite import walk
from tilebench.ir.tile import For, Kernel, Pipelined, While
from tilebench.ops.gemm import Gemm
from tilebench.targets import Target

OVERLAP = "TB_OVERLAP_LAUNCHES"
"""Pass config: True or False; left out, kernels without products whose blocks do their work once. Measured on
an H200 (tests/perf/NOTES.md) that is 1 to 4 % of what takes up to 140 us, and nothing of longer kernels."""
CAPABILITY = 90


def overlaps_launches(kernel: Kernel, target: Target) -> bool:
    """Whether launches of the kernel may overlap with those before and behind them.

    Pointers then lose `__restrict__`, so that no load moves ahead of the wait: loops, in which loads move
    ahead of the stores of an iteration, keep it unless they ask.
    """
    if target.kind != "cuda" or target.capability < CAPABILITY:
        return False
    asked = kernel.configs.get(OVERLAP)
    if asked is not None:
        return bool(asked)
    return not any(isinstance(n, Gemm | For | Pipelined | While) for n in walk(kernel.body))
