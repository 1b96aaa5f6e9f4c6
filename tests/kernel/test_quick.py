"""A call of a known signature does what the full path does: same results, same errors, same launches."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tilebench
from tests.backends.fake_cuda import FakeCuda
from tilebench.backends.cuda.build import CudaExecutable
from tilebench.backends.cuda.driver import Gpu
from tilebench.errors import TileError
from tilebench.ir.dtype import float32
from tilebench.kernel import args, quick
from tilebench.kernel.compiled import Kernel
from tilebench.kernel.program import define

SCALE = """\
n = T.dynamic("n")

@T.prim_func
def scale(X: T.Tensor((n, 8), "float32"), s: T.float32, k: T.int32, Y: T.Tensor((n, 8), "float32")):
    with T.Kernel(T.ceildiv(n, 4), threads=32) as bx:
        for i, j in T.Parallel(4, 8):
            if bx * 4 + i < n:
                Y[bx * 4 + i, j] = X[bx * 4 + i, j] * s + k
"""
STRIDED = """\
a, b = T.dynamic("a"), T.dynamic("b")

@T.prim_func
def move(X: T.StridedTensor((8, 8), (a, b), "float32"), Y: T.StridedTensor((8, 8), (a, 1), "float32")):
    with T.Kernel(1, threads=64) as bx:
        for i, j in T.Parallel(8, 8):
            Y[i, j] = X[i, j] + 1
"""


def compiled(text: str = SCALE, target: str = "cpu", **options: Any) -> Kernel:
    return tilebench.compile(define(text, {}, cell="In[1]")[0], target=target, **options)


def on_fake(kernel: Kernel, devices: int = 1) -> FakeCuda:
    """The kernel's executable on a fake driver; tensors of the host stand for those of the GPU."""
    api = FakeCuda(devices)
    gpu = Gpu(api)
    executable = kernel.executable
    assert isinstance(executable, CudaExecutable)
    executable._gpu = lambda: gpu
    executable._loaded.clear()
    return api


@pytest.fixture(scope="module")
def scale() -> Kernel:
    return compiled()


@pytest.fixture(scope="module")
def move() -> Kernel:
    return compiled(STRIDED)


def again(kernel: Kernel) -> Kernel:
    """The same kernel, which knows no signature yet."""
    return Kernel(kernel.prim, kernel.target, compilation=kernel.compilation)


def warm(kernel: Kernel, *values: Any) -> Kernel:
    fresh = again(kernel)
    fresh(*values)
    assert len(fresh._calls) == 1
    return fresh


def quickly(kernel: Kernel, *values: Any) -> Any:
    """Call it; the full path must not be needed."""
    done = kernel._calls.run(values, None)
    assert done is not quick.UNUSUAL
    return done


def x(n: int = 6) -> torch.Tensor:
    return torch.arange(n * 8).reshape(n, 8).float()


def freed() -> torch.Tensor:
    tensor = x()
    tensor.untyped_storage().resize_(0)
    return tensor


def cut() -> torch.Tensor:
    tensor = x(12)[6:]
    tensor.untyped_storage().resize_(11 * 8 * 4)
    return tensor


def shared(first: int, second: int) -> tuple[Any, ...]:
    both = torch.zeros(20, 8)
    return both[first : first + 6], 2.0, 1, both[second : second + 6]


def lazy_negation() -> torch.Tensor:
    return torch._neg_view(x())


def off_by_a_byte() -> torch.Tensor:
    raw = torch.zeros(6 * 8 * 4 + 4, dtype=torch.uint8)
    return torch.from_numpy(raw.numpy()[1 : 1 + 6 * 8 * 4].view(np.float32).reshape(6, 8))


ODD: dict[str, Callable[[], tuple[Any, ...]]] = {
    "same": lambda: (x(), 2.0, 1, torch.zeros(6, 8)),
    "whole-number": lambda: (x(), 2, 1, torch.zeros(6, 8)),
    "nan": lambda: (x(), float("nan"), 1, torch.zeros(6, 8)),
    "infinite": lambda: (x(), float("inf"), 1, torch.zeros(6, 8)),
    "bool": lambda: (x(), True, True, torch.zeros(6, 8)),
    "too-large": lambda: (x(), 2.0, 1 << 31, torch.zeros(6, 8)),
    "too-small": lambda: (x(), 2.0, -(1 << 31) - 1, torch.zeros(6, 8)),
    "fraction": lambda: (x(), 2.0, 1.5, torch.zeros(6, 8)),
    "numpy-number": lambda: (x(), np.float32(3), np.int64(5), torch.zeros(6, 8)),
    "tensor-number": lambda: (x(), torch.tensor(3.0), torch.tensor(4), torch.zeros(6, 8)),
    "string": lambda: (x(), "two", 1, torch.zeros(6, 8)),
    "other-extent": lambda: (x(9), 2.0, 1, torch.zeros(9, 8)),
    "extents-disagree": lambda: (x(9), 2.0, 1, torch.zeros(6, 8)),
    "dtype": lambda: (x().double(), 2.0, 1, torch.zeros(6, 8)),
    "complex": lambda: (x().to(torch.complex64), 2.0, 1, torch.zeros(6, 8)),
    "rank": lambda: (x().reshape(-1), 2.0, 1, torch.zeros(6, 8)),
    "transposed": lambda: (torch.zeros(8, 6).T, 2.0, 1, torch.zeros(6, 8)),
    "every-second-row": lambda: (x(12)[::2], 2.0, 1, torch.zeros(6, 8)),
    "slice": lambda: (x(12)[5:11], 2.0, 1, torch.zeros(6, 8)),
    "meta": lambda: (x().to("meta"), 2.0, 1, torch.zeros(6, 8)),
    "sparse": lambda: (x().to_sparse(), 2.0, 1, torch.zeros(6, 8)),
    "negation": lambda: (lazy_negation(), 2.0, 1, torch.zeros(6, 8)),
    "freed-input": lambda: (freed(), 2.0, 1, torch.zeros(6, 8)),
    "freed-output": lambda: (x(), 2.0, 1, freed()),
    "cut": lambda: (cut(), 2.0, 1, torch.zeros(6, 8)),
    "same-memory": lambda: shared(3, 3),
    "overlap": lambda: shared(0, 5),
    "overlap-behind": lambda: shared(5, 0),
    "neighbours": lambda: shared(0, 6),
    "gradient": lambda: (x().requires_grad_(), 2.0, 1, torch.zeros(6, 8)),
    "parameter": lambda: (torch.nn.Parameter(x()), 2.0, 1, torch.zeros(6, 8)),
    "numpy": lambda: (x().numpy(), 2.0, 1, torch.zeros(6, 8)),
    "read-only": lambda: (x(), 2.0, 1, np.zeros((6, 8), np.float32)),
    "none": lambda: (None, 2.0, 1, torch.zeros(6, 8)),
    "too-few": lambda: (x(), 2.0, 1),
    "too-many": lambda: (x(), 2.0, 1, x(), x()),
    "number-for-a-tensor": lambda: (5, 2.0, 1, torch.zeros(6, 8)),
    "off-alignment": lambda: (off_by_a_byte(), 2.0, 1, torch.zeros(6, 8)),
    "empty": lambda: (torch.zeros(0, 8), 2.0, 1, torch.zeros(0, 8)),
}


def outcome(kernel: Kernel, values: tuple[Any, ...]) -> Any:
    """What a call gives: the error's text, or the output."""
    try:
        assert kernel(*values) is None
    except (TileError, OverflowError) as error:
        return error.render() if isinstance(error, TileError) else repr(error)
    return values[-1].clone() if isinstance(values[-1], torch.Tensor) else values[-1].copy()


@pytest.mark.parametrize("name", ODD)
def test_a_kernel_that_knows_the_signature_answers_as_one_that_does_not(scale: Kernel, name: str) -> None:
    known = warm(scale, x(), 2.0, 1, torch.zeros(6, 8))
    want = outcome(again(scale), ODD[name]())
    for _ in range(2):  # the second time, its own signature may be known
        got = outcome(known, ODD[name]())
        if isinstance(want, str):
            assert got == want
        else:
            np.testing.assert_array_equal(got, want)


def test_addresses_numbers_and_extents_are_read_anew(scale: Kernel) -> None:
    kernel = warm(scale, x(), 2.0, 1, torch.zeros(6, 8))
    for factor, add in ((3.0, 4), (-1.5, -7), (0.0, 2**20)):
        given, out = torch.randn(6, 8), torch.zeros(6, 8)
        assert quickly(kernel, given, factor, add, out) is None
        torch.testing.assert_close(out, given * factor + add)
    kernel(x(9), 2.0, 0, out := torch.zeros(9, 8))
    assert kernel.last_call is not None
    assert kernel.last_call.grid == (3,)
    quickly(kernel, x(6), 2.0, 0, torch.zeros(6, 8))
    assert kernel.last_call.grid == (2,)
    assert list(kernel.last_call.symbols.values()) == [6]
    assert torch.equal(out, x(9) * 2)


def test_strides_that_the_kernel_asks_for_are_part_of_the_signature(move: Kernel) -> None:
    wide = torch.zeros(8, 12)[:, :8]
    kernel = warm(move, x(8), torch.zeros(8, 8))
    for given in (x(8), x(8).T, torch.arange(96.0).reshape(8, 12)[:, :8], x(16)[::2]):
        out = torch.empty_strided((8, 8), (given.stride(0), 1)) if given.stride(0) >= 8 else None
        if out is None:
            continue
        for _ in range(2):
            kernel(given, out.fill_(-1))
            assert torch.equal(out, given + 1)
    with pytest.raises(TileError, match="TB608"):
        kernel(x(8), wide)


def test_views_that_interleave_are_still_told_from_views_that_share() -> None:
    kernel = compiled(
        """\
@T.prim_func
def move(X: T.StridedTensor((8, 8), (16, 1), "float32"), Y: T.StridedTensor((8, 8), (16, 1), "float32")):
    with T.Kernel(1, threads=64) as bx:
        for i, j in T.Parallel(8, 8):
            Y[i, j] = X[i, j] + 1
"""
    )
    both = torch.arange(128.0).reshape(8, 16)
    kernel(torch.zeros(8, 16)[:, :8], torch.zeros(8, 16)[:, 8:])
    for _ in range(2):
        kernel(both[:, :8], both[:, 8:])
        assert torch.equal(both[:, 8:], both[:, :8] + 1)
        with pytest.raises(TileError, match="TB615"):
            kernel(both[:, :8], both[:, 4:12])


def test_outputs_are_allocated_anew_in_their_places() -> None:
    text = """\
n = T.dynamic("n")

@T.prim_func
def split(P: T.Tensor((n,), "float16"), X: T.Tensor((n,), "float32"), Q: T.Tensor((n,), "int32")):
    with T.Kernel(1, threads=32) as bx:
        for i in T.Parallel(n):
            P[i] = X[i]
            Q[i] = X[i]
"""
    kernel = compiled(text.replace("T.Parallel(n)", "T.serial(n)"), out_idx=[2, 0])
    kernel(torch.arange(5.0))
    q, p = quickly(kernel, given := torch.arange(5.0) + 3)
    assert (q.dtype, p.dtype) == (torch.int32, torch.float16)
    assert torch.equal(q, given.int())
    assert torch.equal(p, given.half())
    r, _ = quickly(kernel, given)
    assert r.data_ptr() != q.data_ptr()
    first, second = torch.zeros(5).half(), torch.zeros(5).int()
    for _ in range(2):  # outputs may be passed too
        assert kernel(first, given, second)[0] is second
    assert torch.equal(second, given.int())


def test_the_table_of_signatures_is_bounded(scale: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick, "KNOWN_AT_MOST", 3)
    kernel = again(scale)
    for n in (1, 2, 3, 4, 5, 1):
        kernel(x(n), 2.0, 0, out := torch.zeros(n, 8))
        assert torch.equal(out, x(n) * 2)
        assert len(kernel._calls) <= 3
    quickly(kernel, x(5), 2.0, 0, torch.zeros(5, 8))
    assert kernel._calls.run((x(2), 2.0, 0, torch.zeros(2, 8)), None) is quick.UNUSUAL


def test_no_tensor_is_kept_alive_by_its_call(scale: Kernel) -> None:
    import gc
    import weakref

    kernel = again(scale)
    for _ in range(3):
        given, out = x(), torch.zeros(6, 8)
        kernel(given, 2.0, 1, out)
        seen = weakref.ref(given), weakref.ref(out)
        del given, out
        gc.collect()
        assert [s() for s in seen] == [None, None]


def test_threads_share_a_kernel(scale: Kernel) -> None:
    kernel = again(scale)
    wrong: list[object] = []

    def work(seed: int) -> None:
        for k in range(30):
            n = (seed + k) % 7 + 1
            given, out = torch.full((n, 8), float(seed)), torch.zeros(n, 8)
            kernel(given, 2.0, k, out)
            if not bool((out == seed * 2 + k).all()):
                wrong.append((seed, k))

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert len(kernel._calls) == 7


# ------------------------------------------------------------------ on a fake driver


@pytest.fixture(scope="module")
def device_scale() -> Kernel:
    return compiled(target="cuda:sm_90a")


def test_a_known_call_launches_what_the_full_path_launches(device_scale: Kernel) -> None:
    kernel = again(device_scale)
    api = on_fake(kernel)
    api.argument_sizes = [8, 4, 4, 8, 4]
    given, out = x(), torch.zeros(6, 8)
    kernel(given, 2.0, -3, out)
    kernel(given, 2.0, -3, out)
    kernel.bind(given, 2.0, -3, out)()
    assert len(api.launches) == 3
    assert api.launches[1] == api.launches[0]
    assert api.launches[2] == api.launches[0]
    other = x()
    quickly(kernel, other, 0.5, 7, out)
    (grid, values), before = api.launches[3], api.launches[0]
    assert grid == before[0]
    assert values[0] == other.data_ptr()
    assert values[1:3] == (0x3F000000, 7)
    assert values[3:] == before[1][3:]


def test_the_stream_of_the_call_is_used(device_scale: Kernel) -> None:
    kernel = again(device_scale)
    api = on_fake(kernel)
    for _ in range(2):
        kernel(x(), 2.0, 0, torch.zeros(6, 8), stream=0xABC)
        assert api.calls[-1][1][-1] == 0xABC
    kernel(x(), 2.0, 0, torch.zeros(6, 8))
    assert not api.calls[-1][1][-1]


def test_the_driver_refuses_a_known_call_as_it_refuses_the_first(device_scale: Kernel) -> None:
    kernel = again(device_scale)
    api = on_fake(kernel)
    arguments = (x(), 2.0, 0, torch.zeros(6, 8))
    api.fail["cuLaunchKernel"] = 701
    with pytest.raises(TileError) as first:
        kernel(*arguments)
    del api.fail["cuLaunchKernel"]
    kernel(*arguments)
    bound = kernel.bind(*arguments)
    api.fail["cuLaunchKernel"] = 701
    for call in (lambda: kernel(*arguments), bound):
        with pytest.raises(TileError) as later:
            call()
        assert later.value.render() == first.value.render()
    del api.fail["cuLaunchKernel"]
    kernel(*arguments)
    bound()


def test_a_bound_call_keeps_its_tensors_and_its_own_arguments(device_scale: Kernel) -> None:
    kernel = again(device_scale)
    api = on_fake(kernel)
    api.argument_sizes = [8, 4, 4, 8, 4]
    calls = [kernel.bind(torch.full((n, 8), 1.0), float(n), n, torch.zeros(n, 8)) for n in (4, 5, 9)]
    for call in (*calls, *reversed(calls)):
        call()
    assert api.launches[:3] == api.launches[:2:-1]
    assert [v[2] for _, v in api.launches[:3]] == [4, 5, 9]
    assert [g[0] for g, _ in api.launches[:3]] == [1, 2, 3]


def test_tensor_maps_follow_the_addresses() -> None:
    from tests.perf.launch import small_gemm
    from tilebench.passes.stages import Lowered

    kernel, (a, b, c) = small_gemm("cpu")
    api = on_fake(kernel)
    count = len(kernel.compilation.stage(Lowered).program.tensor_maps)
    assert count
    kernel(a, b, c)
    assert len(api.maps) == count
    quickly(kernel, a, b, c)
    assert len(api.maps) == count
    other = torch.zeros_like(a)
    quickly(kernel, other, b, c)
    assert len(api.maps) == 2 * count
    assert [m["pointer"] for m in api.maps[count:]].count(other.data_ptr()) == 1
    kernel.bind(other, b, c)()
    assert len(api.maps) == 2 * count
    assert len(api.launches) == 4


def test_addresses_off_16_bytes_are_unusual_on_a_gpu(device_scale: Kernel) -> None:
    kernel = again(device_scale)
    on_fake(kernel)
    values = [x(), 2.0, 0, torch.zeros(6, 8)]
    call = args.bind(kernel.prim, values, "cpu", host_arrays=False)
    calls = quick.Calls(kernel.prim)
    calls.learn(values, values, call, kernel.executable, "cuda")
    assert calls.run(values, None) is None
    shifted = torch.zeros(49)[1:].reshape(6, 8)
    assert shifted.data_ptr() % 16 == 4
    for odd in ([shifted, *values[1:]], [*values[:3], shifted]):
        assert calls.run(odd, None) is quick.UNUSUAL


def test_the_stream_is_torchs_of_the_tensors_device_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    now = {0: 10, 1: 20}
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", now.__getitem__, raising=False)

    def on(device: str, *shape: int) -> args.TensorView:
        return args.TensorView(shape, (1,) * len(shape), float32, device, 16, None)

    read = quick.stream_reader([None, on("cuda:0", 0), on("cuda:1", 4)])
    assert read() == 20
    now[1] = 30
    assert read() == 30
    assert quick.stream_reader([on("cpu", 4)])() == 0
    assert quick.stream_reader([on("cuda:0", 0), None])() == 0  # torch uses no GPU yet


def test_a_kernel_whose_grid_depends_on_a_number_reads_it() -> None:
    text = """\
@T.prim_func
def fill(n: T.int32, Y: T.Tensor((64,), "int32")):
    with T.Kernel(n, threads=32) as bx:
        Y[bx] = n
"""
    kernel = compiled(text)
    for n in (3, 5, 3, True, 1, 5):
        kernel(n, out := torch.zeros(64, dtype=torch.int32))
        assert out.tolist() == [int(n)] * int(n) + [0] * (64 - int(n))
    quickly(kernel, 5, out)
    assert kernel._calls.run((4, out), None) is quick.UNUSUAL


def test_threads_launch_with_their_own_arguments(device_scale: Kernel) -> None:
    kernel = again(device_scale)
    api = on_fake(kernel)
    api.argument_sizes = [8, 4, 4, 8, 4]
    mine = [(torch.zeros(6, 8), torch.zeros(6, 8)) for _ in range(4)]
    kernel(mine[0][0], 2.0, 0, mine[0][1])

    def work(seed: int) -> None:
        given, out = mine[seed]
        bound = kernel.bind(given, 1.0, seed, out)
        for _ in range(20):
            kernel(given, 1.0, seed, out)
            bound()

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(api.launches) == 161
    for _, (first, _, seed, last, n) in api.launches[1:]:
        assert (first, last, n) == (mine[seed][0].data_ptr(), mine[seed][1].data_ptr(), 6)


def test_a_kernel_that_was_run_without_its_output_can_be_called_without_it() -> None:
    text = """\
@T.prim_func
def doubled(X: T.Tensor((32,), "float32"), Y: T.Tensor((32,), "float32")):
    with T.Kernel(1, threads=32) as bx:
        for i in T.Parallel(32):
            Y[i] = X[i] * 2
"""
    x = torch.arange(32, dtype=torch.float32)
    kernel = tilebench.run(text, args=(x,), target="cpu").kernel
    for _ in range(2):
        assert kernel(x).equal(x * 2)
