"""chunk_scan with its decay in factors: right everywhere, and what the compiler makes of it for sm_90a."""

from __future__ import annotations

import pytest
import torch

from tests.kernels import programs_mamba, programs_scan, references_more
from tests.kernels.programs_mamba import LOG2E
from tests.kernels.running import checked, run
from tilebench.ir.hopper import BulkStore
from tilebench.ir.rewrite import walk
from tilebench.ir.tile import Acquire, If, Issue, Wait
from tilebench.kernel.decorator import compile
from tilebench.passes.stages import Lowered, Scheduled


def inputs(seed: int, decay: float, heads: int = 2, chunks: int = 1, chunk: int = 256) -> list[torch.Tensor]:
    """decay: the most that A falls from one place to the next."""
    g = torch.Generator().manual_seed(seed)
    a = -(torch.rand(1, heads, chunks, chunk, generator=g) * decay).cumsum(-1)
    shapes = ((1, chunks, 1, chunk, chunk), (1, chunks * chunk, heads, 64))
    cb, x = (torch.randn(*s, generator=g).half() for s in shapes)
    dt = torch.rand(1, heads, chunks, chunk, generator=g).half()
    c = torch.randn(1, chunks * chunk, 1, 64, generator=g).half()
    s = torch.randn(1, chunks, heads, 64, 64, generator=g).half()
    d = torch.randn(heads, generator=g).half()
    return [cb, x, dt, a.half(), c, s, d, torch.zeros_like(x)]


def split(values: list[torch.Tensor]) -> list[torch.Tensor]:
    """The arguments of `chunk_scan_split`: U and W, as `chunk_scan_weights` makes them, in place of dt."""
    cb, x, dt, a, *rest = values
    tile = a.shape[-1] // 4
    u = a.float() * LOG2E - dt.float().log2()
    last = a[..., tile - 1 :: tile].float().repeat_interleave(tile, -1) * LOG2E
    w = (last - u).exp2().half()
    return [cb, x, u, w, a, *rest]


def program() -> object:
    return programs_mamba.chunk_scan_split(1, 256, 2, state=64, block_H=2)


@pytest.mark.parametrize("decay", [0.05, 2.0])
@pytest.mark.parametrize("target", ["interp", "cpu", "emu:sm_90a"])
def test_it_is_right_for_slow_and_fast_decay(target: str, decay: float) -> None:
    values = inputs(5, decay)
    _, after = run(program(), target, split(values))
    want = references_more.chunk_scan(*values[:7]).float()
    assert float((after[8].float() - want).norm() / want.norm()) < 2e-3
    if target == "interp":
        (diff,) = checked(program(), target, split(values))
        assert diff.verdict == "pass", f"{diff.wrong} of {diff.checked} wrong; {diff.pattern}"


def test_what_lies_above_the_diagonal_of_a_tile_does_not_count() -> None:
    values = inputs(6, 0.05, heads=1)
    rows, columns = torch.triu_indices(256, 256, 1)
    values[0][0, 0, 0, rows, columns] = torch.inf
    made = programs_mamba.chunk_scan_split(1, 256, 1, state=64, block_H=1)
    _, after = run(made, "emu:sm_90a", split(values))
    assert bool(after[8].isfinite().all())


@pytest.mark.parametrize("name", ["scan", "linear"])
def test_results_of_every_iteration_leave_through_shared_memory(name: str) -> None:
    if name == "scan":
        values, made = inputs(7, 0.05), program()
        want = references_more.chunk_scan(*values[:7])
        values = split(values)
    else:
        g = torch.Generator().manual_seed(8)
        values = [torch.randn(1, 192, 1, 64, generator=g).half() for _ in range(4)]
        made = programs_scan.linear_attention(1, 192, 1, 64, block_V=64)
        want = references_more.linear_attention(*values[:3])
    kernel = compile(made, target="emu:sm_90a")
    assert any(isinstance(n, BulkStore) for n in walk(kernel.stages().stage(Lowered).program.roles[0].body))
    kernel(*values)
    error = (values[-1].float() - want.float()).norm() / want.float().norm()
    assert float(error) < 2e-3


def test_few_exponentials_and_products_of_pairs() -> None:
    from tilebench.backends.cuda.sass import disassemble

    kernel = compile(programs_mamba.chunk_scan_split(8, 4096, 80), target="cuda:sm_90a")
    built = kernel.executable.built
    assert not built.spill_bytes
    assert not built.warnings
    lines = disassemble(built.binary).text.splitlines()
    exponentials = sum("MUFU.EX2" in line for line in lines)
    assert exponentials <= 2 * 32 + 8, "of a square tile for each warpgroup"
    assert sum("HMUL2" in line for line in lines) >= 3 * 32 + 2 * 16
    assert sum("HFMA2" in line for line in lines) >= 2 * 16, "D, where the diagonal is"
    assert sum("F2FP.SATFINITE" in line for line in lines) >= 2 * 16, "weights above the diagonal are finite"


def test_a_block_waits_once_for_all_vectors_and_skips_what_is_not_there() -> None:
    stages = compile(program(), target="emu:sm_90a").stages()
    found = [*walk(stages.stage(Scheduled).body)]
    rings = {n.channel.name for n in found if isinstance(n, Acquire)}
    assert "A_s_u_s_w_s" in rings
    (left,) = (n for n in found if isinstance(n, If) and any(isinstance(m, Issue) for m in walk(n)))
    assert sum(isinstance(n, Issue) and bool(n.ops) for n in walk(left)) == 2
    assert not any(isinstance(n, Wait) for n in walk(left))
