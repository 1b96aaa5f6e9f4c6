"""Split-K, int4, ragged and decoding attention, its gradients, linear attention, Mamba-2: on the interpreter,
the CPU and, as sm_90a threads, the emulator; within the bound of their own arithmetic, and beside PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from tests.kernels import programs, programs_attention, programs_gemm, programs_scan, references_more
from tests.kernels.running import checked, run
from tilebench.kernel.decorator import compile
from tilebench.passes.stages import Selected

TARGETS = ("interp", "cpu", "emu:sm_90a")
HALF, SINGLE = torch.float16, torch.float32


@dataclass(frozen=True)
class Case:
    """A program, its inputs from a generator, the shapes of its outputs, and what PyTorch gives for them."""

    make: Callable[[], Any]
    inputs: Callable[[torch.Generator], list[torch.Tensor]]
    outputs: tuple[tuple[tuple[int, ...], torch.dtype], ...]
    want: Callable[..., list[torch.Tensor]]


def normal(generator: torch.Generator, *shape: int) -> torch.Tensor:
    """Standard normal float16."""
    return torch.randn(shape, generator=generator).to(HALF)


def whole(generator: torch.Generator, *shape: int) -> torch.Tensor:
    """-3 to 3."""
    return torch.randint(-3, 4, shape, generator=generator).to(HALF)


def int4_inputs(generator: torch.Generator) -> list[torch.Tensor]:
    """Whole numbers and scales that are powers of two: every sum is exact."""
    packed = torch.randint(0, 256, (128, 64), dtype=torch.uint8, generator=generator)
    scale = 2.0 ** -torch.randint(0, 3, (128,), generator=generator)
    return [whole(generator, 16, 128), packed, scale.to(HALF)]


ENDS = (0, 50, 67, 130)


def varlen(causal: bool) -> Case:
    """Three ragged sequences, two heads on one of keys."""
    return Case(
        lambda: programs_attention.attention_varlen(
            3, 130, 63, 2, 1, 64, causal, block_M=64, block_N=64, threads=128
        ),
        lambda g: [
            normal(g, 130, 2, 64), normal(g, 130, 1, 64), normal(g, 130, 1, 64),
            torch.tensor(ENDS, dtype=torch.int32),
        ],
        (((130, 2, 64), HALF),),
        lambda q, k, v, cu: [references_more.attention_varlen(q, k, v, cu, causal)],
    )  # fmt: skip


def mamba_inputs(g: torch.Generator, heads: int = 1) -> dict[str, torch.Tensor]:
    """Two chunks of 64."""
    return {
        "CB": normal(g, 1, 2, 1, 64, 64),
        "X": normal(g, 1, 128, heads, 64),
        "dt": torch.rand(1, heads, 2, 64, generator=g).to(HALF),
        "A": -(torch.rand(1, heads, 2, 64, generator=g) * 0.1).cumsum(-1).to(HALF),
        "C": normal(g, 1, 128, 1, 64),
        "S": normal(g, 1, 2, heads, 64, 64),
        "D": normal(g, heads),
    }


HALVES = (slice(0, 128), slice(128, 256))
MAMBA: dict[str, Any] = {"chunk": 64, "dim": 64, "state": 64}
CASES: dict[str, Case] = {
    "gemm_parts": Case(
        lambda: programs_gemm.gemm_parts(64, 128, 256, 2, block_N=64, num_stages=2),
        lambda g: [whole(g, 64, 256), whole(g, 128, 256)],
        (((2, 64, 128), SINGLE),),
        lambda a, b: [torch.stack([a[:, k].float() @ b[:, k].float().T for k in HALVES])],
    ),
    "add_parts": Case(
        lambda: programs_gemm.add_parts(8, 256, 3, block=256),
        lambda g: [whole(g, 3, 8, 256).float()],
        (((8, 256), HALF),),
        lambda w: [w.sum(0).to(HALF)],
    ),
    "gemm_int4": Case(
        lambda: programs_gemm.gemm_int4(16, 128, 128, block_K=64, num_stages=2),
        int4_inputs,
        (((16, 128), HALF),),
        lambda a, w, scale: [references_more.gemm_int4(a, w, scale)],
    ),
    "gemm_int4_parts": Case(
        lambda: programs_gemm.gemm_int4_parts(16, 128, 128, 2, block_K=64, num_stages=2),
        int4_inputs,
        (((2, 16, 128), SINGLE),),
        lambda a, w, scale: [
            torch.stack([
                references_more.gemm_int4(x.float(), y, scale)
                for x, y in zip(a.chunk(2, 1), w.chunk(2, 1), strict=True)
            ])
        ],
    ),
    "varlen": varlen(False),
    "varlen-causal": varlen(True),
    "mla_decode": Case(
        lambda: programs_attention.mla_decode(1, 64, 128, 128, 64, held=64),
        lambda g: [
            normal(g, 1, 64, 128), normal(g, 1, 64, 64), normal(g, 1, 128, 128), normal(g, 1, 128, 64),
        ],
        (((1, 64, 128), HALF),),
        lambda *values: [references_more.mla_decode(*values)],
    ),
    "mla_decode-growing": Case(  # the point that scores are taken from moves again and again
        lambda: programs_attention.mla_decode(1, 64, 256, 128, 64, held=64),
        lambda g: [
            normal(g, 1, 64, 128), normal(g, 1, 64, 64),
            normal(g, 1, 256, 128) * torch.linspace(0.1, 8, 256)[None, :, None].half(), normal(g, 1, 256, 64),
        ],
        (((1, 64, 128), HALF),),
        lambda *values: [references_more.mla_decode(*values)],
    ),
    "linear_attention": Case(
        lambda: programs_scan.linear_attention(1, 128, 1, 64, block_V=64),
        lambda g: [normal(g, 1, 128, 1, 64) for _ in range(3)],
        (((1, 128, 1, 64), HALF),),
        lambda *values: [references_more.linear_attention(*values)],
    ),
    "chunk_scan": Case(
        lambda: programs_scan.chunk_scan(1, 128, 1, **MAMBA),
        lambda g: list(mamba_inputs(g).values()),
        (((1, 128, 1, 64), HALF),),
        lambda *values: [references_more.chunk_scan(*values)],
    ),
    "chunk_scan_heads": Case(
        lambda: programs_scan.chunk_scan_heads(1, 128, 2, block_M=64, block_H=2, threads=128, **MAMBA),
        lambda g: list(mamba_inputs(g, 2).values()),
        (((1, 128, 2, 64), HALF),),
        lambda *values: [references_more.chunk_scan(*values)],
    ),
    "chunk_state": Case(
        lambda: programs_scan.chunk_state(1, 128, 1, num_stages=2, block_N=64, block_K=32, **MAMBA),
        lambda g: [mamba_inputs(g)[name] for name in ("C", "X", "dt", "A")],
        (((1, 2, 1, 64, 64), HALF),),
        lambda *values: [references_more.chunk_state(*values)],
    ),
}  # fmt: skip
EXACT = ("gemm_parts", "add_parts", "gemm_int4", "gemm_int4_parts")
"""On whole numbers every operation of these is exact."""
PRODUCED = [name for name in CASES if name != "add_parts"]


def poisoned(case: Case, seed: int) -> list[torch.Tensor]:
    """Inputs, and outputs full of NaN."""
    inputs = case.inputs(torch.Generator().manual_seed(seed))
    return [*inputs, *(torch.full(shape, torch.nan, dtype=dtype) for shape, dtype in case.outputs)]


def error(got: torch.Tensor, want: torch.Tensor) -> float:
    """|got - want| / |want|."""
    return float((got.double() - want.double()).norm() / want.double().norm())


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_results_stay_within_the_bound_of_their_arithmetic_and_agree_with_pytorch(
    name: str, target: str
) -> None:
    case = CASES[name]
    values = poisoned(case, 11)
    for diff in checked(case.make(), target, values):
        assert diff.verdict == "pass", f"{diff.wrong} of {diff.checked} wrong; {diff.pattern}"
        assert name not in EXACT or diff.how == "equal bit for bit"
    _, after = run(case.make(), target, values)
    inputs = values[: len(values) - len(case.outputs)]
    for got, want in zip(after[len(inputs) :], case.want(*inputs), strict=True):
        assert error(got, want) < 2e-3


@pytest.mark.parametrize("name", PRODUCED)
def test_a_producer_brings_their_tiles_on_hopper(name: str) -> None:
    selected = compile(CASES[name].make(), target="emu:sm_90a").stages().stage(Selected)
    assert selected.specialised
    products = [i.name for op, i in selected.instructions.items() if type(op).__name__ == "Gemm"]
    assert products
    assert set(products) == {"wgmma"}


@pytest.mark.parametrize("target", TARGETS)
def test_decoding_in_parts_gives_attention(target: str) -> None:
    generator = torch.Generator().manual_seed(5)
    q, k, v = normal(generator, 1, 8, 64), normal(generator, 1, 2, 256, 64), normal(generator, 1, 2, 256, 64)
    p, l = torch.full((1, 8, 2, 64), torch.nan), torch.full((1, 8, 2), torch.nan)
    o = torch.full_like(q, torch.nan)
    compile(programs_attention.decode_parts(1, 8, 2, 256, 64, 2, block_N=64), target=target)(q, k, v, p, l)
    compile(programs_attention.join_parts(1, 8, 2, 64), target=target)(p, l, o)
    assert error(o, references_more.decode(q, k, v)) < 2e-3


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("target", TARGETS)
def test_gradients_of_attention_agree_with_autograd(target: str, causal: bool) -> None:
    shape, generator = (1, 1, 128, 64), torch.Generator().manual_seed(6)
    q, k, v, g = (normal(generator, *shape) for _ in range(4))
    o, dq, dk, dv = (torch.full_like(q, torch.nan) for _ in range(4))
    logs, sums, z = (
        torch.full(shape[:3], torch.nan),
        torch.full(shape[:3], torch.nan),
        torch.full(programs_attention.query_gradient_shape(*shape), torch.nan),
    )
    small: dict[str, Any] = {"block_M": 64, "block_N": 64, "threads": 128}
    logged = programs_attention.attention_logs(*shape, causal, **small)
    compile(logged, target="cpu")(q, k, v, o, logs)
    compile(programs_attention.backward_sums(*shape), target=target)(o, g, sums, z)
    backward = programs_attention.attention_backward(*shape, causal, **small)
    compile(backward, target=target)(q, k, v, g, logs, sums, z, dk, dv)
    compile(programs_attention.backward_scaled(*shape), target=target)(z, dq)
    wanted = references_more.attention_gradients(q, k, v, g, causal)
    for got, want in zip((dq, dk, dv), wanted, strict=True):
        assert error(got, want) < 3e-3


@pytest.mark.parametrize("target", TARGETS)
def test_products_of_eight_bits_are_exact_on_small_whole_numbers(target: str) -> None:
    generator = torch.Generator().manual_seed(7)
    a, b = (
        torch.randint(-2, 3, (64, 128), generator=generator).float().to(torch.float8_e4m3fn) for _ in range(2)
    )
    c = torch.full((64, 64), torch.nan, dtype=torch.bfloat16)
    program = programs.gemm(
        64,
        64,
        128,
        "float8_e4m3",
        "bfloat16",
        transpose_B=True,
        block_M=64,
        block_N=64,
        block_K=64,
        num_stages=2,
    )
    compile(program, target=target)(a, b, c)
    assert torch.equal(c, (a.float() @ b.float().T).to(torch.bfloat16))


FULL_SIZE: dict[str, Callable[[], Any]] = {
    "gemm_parts": lambda: programs_gemm.gemm_parts(64, 8192, 8192, 4, block_N=256, num_stages=5),
    "gemm_int4": lambda: programs_gemm.gemm_int4(4096, 8192, 8192, block_M=256, block_K=64),
    "gemm_int4_parts": lambda: programs_gemm.gemm_int4_parts(16, 8192, 8192, 2),
    "varlen": lambda: programs_attention.attention_varlen(8, 16384, 4096, 16, 16, 128, True),
    "decode_parts": lambda: programs_attention.decode_parts(
        16, 32, 8, 8192, 128, 4, block_N=64, num_stages=3
    ),
    "mla_decode": lambda: programs_attention.mla_decode(66, 128, 8192),
    "attention_backward": lambda: programs_attention.attention_backward(4, 16, 4096, 128),
    "linear_attention": lambda: programs_scan.linear_attention(8, 4096, 16, 128, block_V=64),
    "chunk_scan_heads": lambda: programs_scan.chunk_scan_heads(8, 4096, 80),
    "chunk_state": lambda: programs_scan.chunk_state(8, 4096, 80),
}


@pytest.mark.parametrize("name", FULL_SIZE)
def test_at_full_size_nothing_spills_and_products_stay_asynchronous(name: str) -> None:
    built = compile(FULL_SIZE[name](), target="cuda:sm_90a").executable.built
    assert not built.spill_bytes
    assert not built.warnings, built.warnings
