"""Wrong arguments of a call name the parameter, what was expected and what came, and launch nothing (F01,
F03, F21 to F23).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tilebench
from tilebench.errors import TileError
from tilebench.kernel.compiled import Kernel
from tilebench.kernel.program import define

TEXT = """\
n = T.dynamic("n")

@T.prim_func
def scale(X: T.Tensor((n, 8), "float32"), s: T.float32, Y: T.Tensor((n, 8), "float32")):
    with T.Kernel(T.ceildiv(n, 4), threads=32) as bx:
        for i, j in T.Parallel(4, 8):
            if bx * 4 + i < n:
                Y[bx * 4 + i, j] = X[bx * 4 + i, j] * s
"""
OUTSIDE = """\
@T.prim_func
def outside(A: T.Tensor((1000,), "float32"), C: T.Tensor((1024,), "float32")):
    with T.Kernel(8, threads=128) as bx:
        for i in T.Parallel(128):
            C[bx * 128 + i] = A[bx * 128 + i + OFFSET]
"""


def kernel(target: str = "interp", text: str = TEXT, **names: Any) -> Kernel:
    return tilebench.compile(define(text, dict(names), cell="In[1]")[0], target=target)


def x(n: int = 6) -> torch.Tensor:
    return torch.arange(n * 8).reshape(n, 8).float()


@pytest.mark.parametrize("out_idx", ["Y", ["Y"], [1.0], 3, [-4]])
def test_an_out_idx_that_is_no_tensor_of_the_program_is_refused(out_idx: Any) -> None:
    with pytest.raises(TileError, match=r"out_idx .* is not a tensor parameter of scale") as caught:
        tilebench.compile(define(TEXT, {}, cell="In[1]")[0], target="interp", out_idx=out_idx)
    assert caught.value.code == "TB220"


def test_an_out_idx_of_a_function_that_makes_no_program_is_told_where_the_function_stands() -> None:
    @tilebench.jit(out_idx=[1], target="interp")
    def factory(size: int) -> None:
        raise KeyError(size)

    with pytest.raises(TileError, match="factory has an out_idx") as caught:
        factory(3)
    assert caught.value.code == "TB220"
    assert caught.value.at is not None
    at = caught.value.at
    assert at.source.line(at.line).strip().startswith("@tilebench.jit(out_idx=[1]")


WRONG: dict[str, Callable[[], tuple[Any, ...]]] = {
    "too-few": lambda: (x(), 2.0),
    "too-many": lambda: (x(), 2.0, x(), x()),
    "none": lambda: (None, 2.0, x()),
    "list": lambda: ([1.0], 2.0, x()),
    "wrong-dtype": lambda: (x().double(), 2.0, x()),
    "half": lambda: (x().half(), 2.0, x()),
    "complex": lambda: (x().to(torch.complex64), 2.0, x()),
    "rank": lambda: (x()[0], 2.0, x()),
    "extent": lambda: (x()[:, :7].contiguous(), 2.0, x()),
    "extents-disagree": lambda: (x(6), 2.0, x(5)),
    "transposed": lambda: (torch.zeros(8, 6).T, 2.0, x()),
    "every-second-row": lambda: (x(12)[::2], 2.0, x()),
    "broadcast": lambda: (x(1).expand(6, 8), 2.0, x()),
    "string-scalar": lambda: (x(), "two", x()),
    "tensor-scalar": lambda: (x(), x(), x()),
    "sparse": lambda: (x().to_sparse(), 2.0, x()),
    "object-array": lambda: (np.array([[None] * 8] * 6), 2.0, x()),
    "big-endian": lambda: (x().numpy().astype(">f4"), 2.0, x()),
    "reversed": lambda: (x().numpy()[::-1], 2.0, x()),
    "fortran": lambda: (np.asfortranarray(x().numpy()), 2.0, x()),
    "read-only-output": lambda: (x(), 2.0, np.frombuffer(bytes(6 * 8 * 4), np.float32).reshape(6, 8)),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call_is_explained_and_changes_nothing(name: str, golden: Callable[[str, str], None]) -> None:
    arguments = WRONG[name]()
    kept = [a.clone() if isinstance(a, torch.Tensor) and not a.is_sparse else None for a in arguments]
    with pytest.raises(TileError) as caught:
        kernel()(*arguments)
    text = caught.value.render()
    assert "fix:" in text or "expected" in text
    assert all(k is None or torch.equal(k, a) for k, a in zip(kept, arguments, strict=True))
    golden(f"errors/{caught.value.code}-call-{name}.txt", text + "\n")


@pytest.mark.parametrize("target", ["interp", "cpu", "emu:sm_80"])
def test_odd_but_right_arguments_give_right_results(target: str) -> None:
    k = kernel(target)
    out = torch.zeros(6, 8)
    k(x(), np.float32(2), out)
    assert torch.equal(out, x() * 2)
    k(x().numpy(), 3, out.numpy())
    assert torch.equal(out, x() * 3)
    k(x().requires_grad_(), torch.tensor(2.0), out)
    assert torch.equal(out, x() * 2)
    big = x(20)
    k(big[7:13], 2.0, out)
    assert torch.equal(out, big[7:13] * 2)
    one = torch.zeros(1, 8)
    k(x(2)[1:], 2.0, one)
    assert torch.equal(one, x(2)[1:] * 2)


@pytest.mark.parametrize("target", ["interp", "cpu", "emu:sm_80"])
def test_nothing_is_launched_for_an_empty_tensor(target: str) -> None:
    empty = torch.zeros(0, 8)
    assert kernel(target)(empty, 2.0, empty.clone()) is None


def test_an_access_outside_is_found_before_or_during_the_run(golden: Callable[[str, str], None]) -> None:
    a, c = torch.zeros(1000), torch.zeros(1024)
    with pytest.raises(TileError) as caught:
        kernel(text=OUTSIDE, OFFSET=0)(a, c)
    golden(f"errors/{caught.value.code}-access-beyond-the-end.txt", caught.value.render() + "\n")
    with pytest.raises(TileError) as caught:
        kernel(text=OUTSIDE, OFFSET=-1)(a, c)
    golden(f"errors/{caught.value.code}-access-before-the-start.txt", caught.value.render() + "\n")


def test_a_gpu_that_is_not_there_is_said_at_the_call() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(TileError) as caught:
        kernel("cuda:sm_90a")(x(), 2.0, x())
    assert "driver" in caught.value.render().lower() or "gpu" in caught.value.render().lower()
    assert caught.value.fix


class Broken:
    """An object whose DLPack export fails."""

    def __dlpack__(self, **_: object) -> object:
        raise BufferError("exported elsewhere")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


@pytest.mark.parametrize("target", ["interp", "cpu"])
@pytest.mark.parametrize("wrong", [Broken(), torch._neg_view(x())], ids=["dlpack", "negation"])
def test_what_cannot_be_read_as_it_lies_in_memory_is_refused(target: str, wrong: Any) -> None:
    with pytest.raises(TileError) as caught:
        kernel(target)(wrong, 2.0, x())
    assert caught.value.code == "TB603"
    assert caught.value.fix


def test_a_tensor_that_bulk_copies_cannot_reach_takes_the_general_kernel() -> None:
    from tests.kernels import programs
    from tilebench.errors import LaunchError
    from tilebench.passes.stages import Lowered

    kernel = tilebench.compile(
        programs.gemm(64, 64, 64, block_M=64, block_N=64, num_stages=2), target="emu:sm_90a"
    )
    general = tilebench.compile(
        programs.gemm(64, 64, 64, block_M=64, block_N=64, num_stages=2), target="emu:sm_90a",
        pass_configs={"TL_DISABLE_TMA_LOWER": True},
    )  # fmt: skip
    assert kernel.stages().stage(Lowered).program.tensor_maps
    assert not general.stages().stage(Lowered).program.tensor_maps

    def refuse(*_: object) -> None:
        raise LaunchError("TB619", "bulk copies cannot reach A as it lies in memory")

    kernel.executable.launch = refuse  # type: ignore[method-assign]
    a, b = (torch.randint(-2, 3, (64, 64)).half() for _ in range(2))
    c, d, e = (torch.zeros(64, 64, dtype=torch.float16) for _ in range(3))
    with pytest.warns(UserWarning, match="run without bulk copies"):
        kernel(a, b, c)
    kernel.bind(a, b, e)()
    general(a, b, d)
    assert torch.equal(c, d)
    assert torch.equal(e, d)
