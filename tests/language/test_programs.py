"""Whole programs: the IR that they become, and that it computes what they say."""

# ruff: noqa: E501 -- programs and what they become stand side by side

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import tilebench
from tests.kernels.programs import attention, gemm
from tests.language import programs
from tests.language.reading import whole
from tilebench.ir.dtype import float16
from tilebench.ir.tile import Kernel
from tilebench.ir.verify import verify_kernel
from tilebench.language.parse import TensorSpec, parse_eager, parse_prim_func

Golden = Callable[[str, str], None]


def spec(*shape: int) -> TensorSpec:
    strides = [1]
    for n in reversed(shape[1:]):
        strides.insert(0, strides[0] * n)
    return TensorSpec(shape, tuple(strides), float16)


def quickstart() -> Kernel:
    arguments = {
        "A": spec(64, 48),
        "B": spec(48, 96),
        "block_M": 32,
        "block_N": 32,
        "block_K": 16,
        "dtype": float16,
    }
    return parse_eager(programs.quickstart, arguments)


PROGRAMS: dict[str, Callable[[], Kernel]] = {
    "quickstart": quickstart,
    "elementwise": lambda: parse_prim_func(programs.elementwise()),
    "gemm": lambda: parse_prim_func(gemm(256, 256, 64, transpose_B=True)),
    "attention": lambda: parse_prim_func(attention(1, 4, 128, 256, 64, causal=True, kv_heads=2)),
    "linear_attention": lambda: parse_prim_func(programs.linear_attention(1, 2, 64, 32)),
    "chunk_scan": lambda: parse_prim_func(programs.chunk_scan(1, 4, 2, 64, 32, 32, 16)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_becomes_this_ir(name: str, golden: Golden) -> None:
    kernel = PROGRAMS[name]()
    verify_kernel(kernel)
    golden(f"language/{name}.txt", whole(kernel))


def test_every_statement_of_a_program_has_its_line() -> None:
    from tilebench.ir.rewrite import walk
    from tilebench.ir.tile import Seq, Stmt

    kernel = PROGRAMS["attention"]()
    for node in walk(kernel.body):
        if isinstance(node, Stmt) and not isinstance(node, Seq):
            assert node.loc is not None
            assert node.loc.source.line(node.loc.line).strip()


def test_outputs_of_an_eager_function_are_allocated_by_the_call() -> None:
    kernel = quickstart()
    assert [(p.name, p.role) for p in kernel.params] == [("A", "in"), ("B", "in"), ("C", "out")]
    assert kernel.out_idx == (2,)
    assert kernel.params[2].value.static_shape == (64, 96)


def test_dynamic_extents_are_symbols_of_the_kernel() -> None:
    kernel = PROGRAMS["elementwise"]()
    assert [v.name for v in kernel.symbols] == ["n"]
    assert kernel.params[0].value.shape[0] is kernel.params[1].value.shape[0] is kernel.symbols[0]
    assert kernel.params[3].value.dtype == "float32"


def random(*shape: int) -> torch.Tensor:
    return (torch.rand(*shape) - 0.5).half()


def test_quickstart_is_right() -> None:
    a, b = random(64, 48), random(48, 96)
    c = tilebench.jit(programs.quickstart, target="interp")(a, b)
    torch.testing.assert_close(c, (a.float() @ b.float()).relu().half())


def test_elementwise_is_right_for_any_length() -> None:
    kernel = tilebench.compile(programs.elementwise(), target="interp")
    for n in (1, 255, 700):
        x, y, z = torch.rand(n), torch.rand(n), torch.full((n,), torch.nan)
        kernel(x, y, z, 2.5)
        torch.testing.assert_close(z, 2.5 * x + y)


def test_linear_attention_is_right() -> None:
    q, k, v = (random(1, 64, 2, 32) for _ in range(3))
    o = torch.full_like(q, torch.nan)
    tilebench.compile(programs.linear_attention(1, 2, 64, 32), target="interp")(q, k, v, o)
    scores = torch.einsum("bihd,bjhd->bhij", q.float(), k.float()).tril()
    expected = torch.einsum("bhij,bjhd->bihd", scores, v.float())
    # two roundings to float16 of values below 8, of 64 terms: 64 * 8 * 2**-11 at most, and far less in the mean
    torch.testing.assert_close(o.float(), expected, atol=0.02, rtol=0.01)


def test_chunk_scan_is_right() -> None:
    batch, heads, groups, length, chunk, dim, state = 1, 4, 2, 64, 32, 32, 16
    chunks = length // chunk
    cb, x, dt = (
        random(batch, chunks, groups, chunk, chunk),
        random(batch, length, heads, dim),
        random(batch, heads, chunks, chunk),
    )
    a = -torch.rand(batch, heads, chunks, chunk).cumsum(-1) / 8
    c, s, d = random(batch, length, groups, state), random(batch, chunks, heads, dim, state), random(heads)
    o = torch.full_like(x, torch.nan)
    tilebench.compile(programs.chunk_scan(batch, heads, groups, length, chunk, dim, state), target="interp")(
        cb, x, dt, a, c, s, d, o
    )
    ratio = heads // groups
    xs, cs = (
        x.float().view(batch, chunks, chunk, heads, dim),
        c.float().view(batch, chunks, chunk, groups, state),
    )
    weights = (
        cb.float().repeat_interleave(ratio, 2).permute(0, 2, 1, 3, 4)
        * (a[..., :, None] - a[..., None, :]).exp()
        * dt.float()[..., None, :]
    )
    within = torch.einsum("bhcij,bcjhd->bcihd", weights.tril(), xs)
    before = (
        torch.einsum("bcihn,bchdn->bcihd", cs.repeat_interleave(ratio, 3), s.float())
        * a.exp().permute(0, 2, 3, 1)[..., None]
    )
    expected = (within + before + d.float()[:, None] * xs).reshape(x.shape)
    # the weights are rounded to float16 once: 32 terms below 0.25 times 2**-11
    torch.testing.assert_close(o.float(), expected, atol=0.01, rtol=0.01)
