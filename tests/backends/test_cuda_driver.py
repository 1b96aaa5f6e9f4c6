"""The driver layer against a fake driver: contexts, arguments, and which errors end a process."""

from __future__ import annotations

import struct
import threading

import numpy as np
import pytest

from tests.backends.fake_cuda import FakeCuda
from tests.compiles import programs
from tilebench.backends.base import Built, TensorArgument
from tilebench.backends.cuda.build import CudaExecutable
from tilebench.backends.cuda.driver import STICKY, ArgumentPack, Gpu, GpuError
from tilebench.errors import LaunchError
from tilebench.ir.dtype import DTYPES, float32, int32
from tilebench.ir.expr import const
from tilebench.ir.thread import Memory, Program, global_memory
from tilebench.ir.tile import Buffer
from tilebench.targets import parse


def executable(api: FakeCuda, program: Program | None = None, shared: int = 0) -> CudaExecutable:
    program = program or programs.elementwise([float32], lambda x: [x], 128)
    program = Program(
        **{**{f: getattr(program, f) for f in program.__dataclass_fields__}, "shared_bytes": shared}
    )
    gpu = Gpu(api)
    return CudaExecutable(
        Built(parse("cuda:sm_90a"), binary=b"cubin", entry="tile_kernel"), program, lambda: gpu
    )


def tensors(*pointers: int) -> list[TensorArgument]:
    return [TensorArgument(p, (128,), (1,)) for p in pointers]


def names(api: FakeCuda) -> list[str]:
    return [name for name, _ in api.calls]


def test_a_launch_passes_pointers_grid_threads_shared_memory_and_stream() -> None:
    api = FakeCuda()
    api.argument_sizes = [8, 8]
    run = executable(api, shared=1000)
    run.launch(tensors(0x1000, 0x2000), {}, (5, 3), stream=0xABC)
    assert api.launches == [((5, 3, 1, 128, 1, 1, 1000), (0x1000, 0x2000))]
    assert api.calls[-1][1][-1] == 0xABC


def test_the_kernel_is_loaded_once_and_the_context_entered_once() -> None:
    api = FakeCuda()
    run = executable(api)
    for _ in range(5):
        run.launch(tensors(1, 2), {}, (1,))
    assert names(api).count("cuModuleLoadData") == 1
    assert names(api).count("cuCtxSetCurrent") == 1
    assert names(api).count("cuLaunchKernel") == 5


def test_every_thread_enters_the_context() -> None:
    api = FakeCuda()
    run = executable(api)
    run.launch(tensors(1, 2), {}, (1,))
    api.context = 0  # a new thread has none
    worker = threading.Thread(target=lambda: run.launch(tensors(1, 2), {}, (1,)))
    worker.start()
    worker.join()
    assert names(api).count("cuCtxSetCurrent") == 2


def test_another_current_context_is_noticed() -> None:
    api = FakeCuda()
    run = executable(api)
    run.launch(tensors(1, 2), {}, (1,))
    api.context = 999
    answers = iter([400, 0])
    plain = api._answer

    def once_wrong(name: str, arguments: tuple[object, ...], *values: object) -> tuple[object, ...]:
        return (next(answers),) if name == "cuLaunchKernel" else plain(name, arguments, *values)

    api._answer = once_wrong  # type: ignore[method-assign]
    run.launch(tensors(1, 2), {}, (1,))
    assert api.context == 100


def test_tensors_name_the_device_where_there_are_several() -> None:
    api = FakeCuda(devices=2)
    run = executable(api)
    run.launch(tensors(1 << 32, 1 << 32), {}, (1,))
    run.launch(tensors(5, 6), {}, (1,))
    assert api.launched_in == [101, 100]
    assert names(api).count("cuModuleLoadData") == 2


@pytest.mark.parametrize("before", [0, 100, 101, 999])
def test_the_current_device_is_the_users_before_and_after_a_launch_elsewhere(before: int) -> None:
    api = FakeCuda(devices=2)
    api.context = before
    run = executable(api)
    for pointer in (1 << 32, 5):
        run.launch(tensors(pointer, pointer), {}, (1,))
        assert api.context == before
        with run.workspace(64, 0, tensors(pointer, pointer)):
            assert api.context == 100 + (pointer >> 32)
        assert api.context == before
    Gpu(api).synchronize(1)
    assert api.context == before
    assert api.launched_in == [101, 100]


def test_a_launch_that_fails_elsewhere_tells_why_and_goes_back() -> None:
    api = FakeCuda(devices=2)
    api.context = 100
    api.fail["cuLaunchKernel"] = 701
    with pytest.raises(GpuError, match="fewer threads"):
        executable(api).launch(tensors(1 << 32, 1 << 32), {}, (1,))
    assert api.context == 100


@pytest.mark.parametrize(("shared", "asked"), [(0, False), (48 * 1024, False), (48 * 1024 + 1, True)])
def test_shared_memory_above_48_kib_is_asked_for(shared: int, asked: bool) -> None:
    api = FakeCuda()
    executable(api, shared=shared).launch(tensors(1, 2), {}, (1,))
    assert ("cuFuncSetAttribute" in names(api)) == asked


def test_an_empty_grid_touches_nothing() -> None:
    api = FakeCuda()
    run = executable(api)
    before = len(api.calls)
    run.launch(tensors(0, 0), {}, (0,))
    assert len(api.calls) == before


@pytest.mark.parametrize(("grid", "axis"), [((1, 65536), 1), ((2**31,), 0), ((1, 1, 70000), 2)])
def test_a_grid_beyond_cudas_limits_is_refused(grid: tuple[int, ...], axis: int) -> None:
    with pytest.raises(LaunchError, match=f"TB613.*axis {axis}"):
        executable(FakeCuda()).launch(tensors(1, 2), {}, grid)


@pytest.mark.parametrize("code", sorted(STICKY))
def test_a_sticky_error_says_that_the_process_is_done(code: int) -> None:
    api = FakeCuda()
    run = executable(api)
    run.launch(tensors(1, 2), {}, (1,))
    api.fail["cuCtxSynchronize"] = code
    for _ in range(2):  # the second call fails too: that is what sticky means
        with pytest.raises(GpuError, match="TB610") as error:
            Gpu(api).synchronize() if not api.sticky else run.launch(tensors(1, 2), {}, (1,))
        assert error.value.sticky
        assert error.value.code_number == code
        assert "--isolate" in str(error.value)


@pytest.mark.parametrize(
    ("call", "code", "tb", "words"),
    [
        ("cuMemAllocAsync", 2, "TB611", "memory does not suffice"),
        ("cuLaunchKernel", 701, "TB612", "fewer threads"),
        ("cuModuleLoadData", 209, "TB612", "not for this GPU"),
        ("cuModuleLoadData", 200, "TB612", "not valid"),
        ("cuLaunchKernel", 1, "TB612", "grid (1, 1, 1), 32 threads"),
        ("cuDeviceTotalMem", 999, "TB612", "something of the driver"),
    ],
)
def test_an_error_that_is_not_sticky_leaves_the_next_call_working(
    call: str, code: int, tb: str, words: str
) -> None:
    api = FakeCuda()
    program, _ = with_workspace()
    run = executable(api, program)
    api.fail[call] = code

    def act() -> None:
        Gpu(api).properties(0) if call == "cuDeviceTotalMem" else run.launch(tensors(1, 2), {}, (1,))

    with pytest.raises(GpuError, match=tb) as error:
        act()
    assert words in str(error.value)
    assert not error.value.sticky
    del api.fail[call]
    act()


def with_workspace() -> tuple[Program, Memory]:
    m = programs.Maker()
    x, y = m.tensor("x", 32, float32), m.tensor("y", 32, float32, "out")
    buffer = Buffer("scratch", (const(1000),), float32, "global", workspace=True)
    memory = m.globals[buffer] = global_memory(buffer, const(1000))
    m.add(
        programs.store(memory, m.thread, programs.load(x, m.thread)),
        programs.store(y, m.thread, programs.load(memory, m.thread)),
    )
    return m.program(), memory


def test_a_workspace_is_allocated_on_the_stream_for_each_launch() -> None:
    api = FakeCuda()
    api.argument_sizes = [8, 8, 8]
    run = executable(api, with_workspace()[0])
    run.launch(tensors(1, 2), {}, (1,), stream=7)
    assert ("cuMemAllocAsync", (4000, 7)) in api.calls
    assert ("cuMemFreeAsync", (0x5000, 7)) in api.calls
    assert api.launches[0][1] == (1, 2, 0x5000)


def test_scalars_and_symbols_are_passed_in_their_own_width() -> None:
    m = programs.Maker()
    n = m.symbol("n")
    x = m.tensor("x", n, int32, "inout")
    values = {
        "bool": True,
        "int8": -3,
        "uint8": 250,
        "int16": -300,
        "int32": -70000,
        "int64": -(2**40),
        "uint64": 2**63,
        "float16": 1.5,
        "bfloat16": -2.0,
        "float32": 0.1,
        "float64": 0.1,
        "float8_e4m3": 1.0,
    }
    for name in values:
        m.scalar(name, DTYPES[name])
    m.add(programs.store(x, m.thread, n))
    api = FakeCuda()
    api.argument_sizes = [8, *(DTYPES[d].bytes for d in values), 4]
    executable(api, m.program()).launch([*tensors(16), *values.values()], {n: 77}, (1,))
    got = dict(zip(values, api.launches[0][1][1:], strict=False))
    assert got["bool"] == 1
    assert got["int8"] == 253
    assert got["uint8"] == 250
    assert got["int16"] == 2**16 - 300
    assert got["int32"] == 2**32 - 70000
    assert got["int64"] == 2**64 - 2**40
    assert got["uint64"] == 2**63
    assert got["float16"] == 0x3E00
    assert got["bfloat16"] == 0xC000
    assert got["float32"] == struct.unpack("<I", struct.pack("<f", 0.1))[0]
    assert got["float64"] == struct.unpack("<Q", struct.pack("<d", 0.1))[0]
    assert got["float8_e4m3"] == 0x38
    assert api.launches[0][1][-1] == 77


def test_a_pack_of_no_arguments_is_a_valid_address() -> None:
    assert ArgumentPack([]).address


def test_properties_of_a_device() -> None:
    properties = Gpu(FakeCuda()).properties(0)
    assert (properties.name, properties.capability, properties.sms) == ("Fake H200", (9, 0), 132)


def test_no_driver_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilebench.backends.cuda import driver
    from tilebench.errors import TargetError

    monkeypatch.setattr(
        driver, "Gpu", lambda api: (_ for _ in ()).throw(RuntimeError("libcuda.so.1 was not found"))
    )
    driver.gpu.cache_clear()
    driver.available.cache_clear()
    try:
        assert not driver.available()
        with pytest.raises(TargetError, match="TB512") as error:
            driver.gpu()
        assert "libcuda.so.1" in str(error.value)
        assert "target='cpu'" in str(error.value)
    finally:
        driver.gpu.cache_clear()
        driver.available.cache_clear()


def test_a_module_is_unloaded_with_its_kernel() -> None:
    api = FakeCuda()
    run = executable(api)
    run.launch(tensors(1, 2), {}, (1,))
    del run
    assert "cuModuleUnload" in names(api)


def test_numpy_scalars_are_numbers_too() -> None:
    pack = ArgumentPack([int32, float32])
    pack.fill([np.int32(5), np.float32(0.5)])
