"""What the hand-made programs of sm_90a compute, in the emulator and on a GPU."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.backends import hopper_programs as hopper
from tilebench.backends.base import TensorArgument
from tilebench.ir.dtype import DType, bfloat16, decode, encode, float16
from tilebench.ir.thread import Program
from tilebench.store import Store
from tilebench.targets import parse

Arrays = dict[str, np.ndarray]
Run = Callable[..., Arrays]


def on_emulator(
    program: Program, arrays: Arrays, grid: tuple[int, ...] = (1,), sizes: tuple[int, ...] = ()
) -> Arrays:
    """Run copies of the arrays, in storage form; gives every tensor afterwards. Nothing may be found."""
    from tilebench.backends.emulator import run_program

    held = {name: np.array(x, order="C") for name, x in arrays.items()}
    result = run_program(program, list(held.values()), dict(zip(program.symbols, sizes, strict=True)))
    assert result.findings == ()
    return held


def on_gpu(
    program: Program, arrays: Arrays, grid: tuple[int, ...] = (1,), sizes: tuple[int, ...] = ()
) -> Arrays:
    """The same, launched."""
    import torch

    from tilebench.backends.cuda.build import build_program

    executable = build_program(program, parse("cuda:sm_90a"), None, Store(None))
    assert executable.built.warnings == ()
    held = {n: torch.from_numpy(np.array(x, order="C").view(np.uint8)).cuda() for n, x in arrays.items()}
    arguments = [TensorArgument(held[n].data_ptr(), x.shape, ()) for n, x in arrays.items()]
    symbols = dict(zip(program.symbols, sizes, strict=True))
    executable.launch(arguments, symbols, grid, torch.cuda.current_stream().cuda_stream)
    torch.cuda.synchronize()
    return {n: t.cpu().numpy().view(arrays[n].dtype).reshape(arrays[n].shape) for n, t in held.items()}


ON = pytest.mark.parametrize(
    "run",
    [pytest.param(on_emulator, id="emu"), pytest.param(on_gpu, id="gpu", marks=pytest.mark.gpu)],
)


@ON
@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("shape", [(64, 64), (200, 104), (3, 65, 72), (2, 1, 8)])
def test_copies_clip_tails(run: Run, shape: tuple[int, ...], swizzle: int) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float16)
    width = (swizzle or 128) // 2
    grid = (-(-shape[-1] // width), -(-shape[-2] // 64), *shape[:-2])
    got = run(hopper.copy(len(shape), swizzle), {"X": x, "Y": np.zeros_like(x)}, grid, shape)["Y"]
    assert np.array_equal(got, x * np.float16(2))


@ON
@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_boxes_outside_read_zeros(run: Run, rank: int) -> None:
    shape = tuple(reversed(hopper.MOVED[:rank]))
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    y = np.full(shape, -7, np.float32)
    got = run(hopper.moved(rank), {"X": x, "Y": y})["Y"]
    box, start = hopper.MOVED_BOX[:rank][::-1], hopper.MOVED_FROM[:rank][::-1]
    wide = np.pad(x, 16)
    want = y.copy()
    want[tuple(slice(0, b) for b in box)] = wide[
        tuple(slice(16 + s, 16 + s + b) for s, b in zip(start, box, strict=True))
    ]
    assert np.array_equal(got, want)


@ON
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("matrices", [1, 2, 4])
def test_stmatrix_is_the_inverse_of_ldmatrix(run: Run, matrices: int, transpose: bool) -> None:
    from tilebench.layouts.atoms import ldmatrix_result

    x = np.arange(64 * matrices, dtype=np.float16).reshape(32, 2 * matrices)
    y = np.zeros((8 * matrices, 8), np.float16)
    got = run(hopper.scattered(matrices, transpose), {"X": x, "Y": y})["Y"]  # type: ignore[arg-type]
    layout = ldmatrix_result(matrices, transpose)  # type: ignore[arg-type]
    for lane in range(32):
        for r in range(2 * matrices):
            assert got[layout.coordinate(lane, r)] == x[lane, r], (lane, r)


@ON
@pytest.mark.parametrize("case", hopper.PRODUCTS, ids=str)
def test_products_are_exact_on_small_integers(run: Run, case: hopper.Product) -> None:
    rng = np.random.default_rng(5)

    def operand(shape: tuple[int, int], dtype: DType) -> np.ndarray:
        return rng.integers(0 if dtype.kind == "uint" else -2, 3, shape).astype(np.float32)

    a, b = operand((64, case.k), case.a), operand((case.k, case.n), case.b)
    d = rng.integers(-9, 9, (64, case.n)).astype(np.float32)
    arrays = {
        "A": np.asarray(encode(a.T if case.a_from == "km" else a, case.a)),
        "B": np.asarray(encode(b.T if case.b_from == "nk" else b, case.b)),
        "D": np.asarray(encode(d, case.d)),
    }
    got = decode(run(hopper.product(case), arrays)["D"], case.d).astype(np.float64)
    want = a.astype(np.float64) @ b + (d if case.accumulate else 0)
    assert np.array_equal(got, want)


@ON
@pytest.mark.parametrize("dtype", [bfloat16, float16], ids=str)
@pytest.mark.parametrize("rows", [1, 64, 200])
def test_chained_products_are_exact_on_small_integers(run: Run, rows: int, dtype: DType) -> None:
    rng = np.random.default_rng(6)
    q, k, v = (rng.integers(-1, 2, (n, 128)).astype(np.float32) for n in (64, rows, rows))
    arrays = {n: np.asarray(encode(x, dtype)) for n, x in (("Q", q), ("K", k), ("V", v))}
    arrays["O"] = np.full((64, 128), np.nan, np.float32)
    got = run(hopper.chained(dtype), arrays, sizes=(rows,))["O"]
    assert np.array_equal(got, (q @ k.T) @ v)


@pytest.mark.gpu
@pytest.mark.parametrize(("stages", "n"), [(2, 128), (4, 128), (3, 256), (4, 192)])
@pytest.mark.parametrize("sizes", [(128, 128, 64), (128, 128, 512), (1000, 776, 1000), (1, 8, 8)])
def test_a_specialised_gemm_is_torchs(sizes: tuple[int, int, int], stages: int, n: int) -> None:
    import torch

    M, N, K = sizes
    torch.manual_seed(3)
    a, b = (torch.randn(s, K, dtype=torch.bfloat16) for s in (M, N))
    raw = {"A": a.view(torch.uint16).numpy(), "B": b.view(torch.uint16).numpy()}
    raw["C"] = np.full((M, N), 0x7FC0, np.uint16)  # NaN: every element must be written
    grid = (-(-N // n), -(-M // 128))
    got = on_gpu(hopper.gemm(bfloat16, stages, n), raw, grid, sizes)["C"]
    want = a.double() @ b.double().T
    found = torch.from_numpy(got.copy()).view(torch.bfloat16).double()
    # half an ulp of bfloat16 of the value, and float32 sums of K terms
    scale = a.double().abs() @ b.double().abs().T
    assert bool(((found - want).abs() <= 2.0**-8 * want.abs() + K * 2.0**-24 * scale + 1e-30).all())
