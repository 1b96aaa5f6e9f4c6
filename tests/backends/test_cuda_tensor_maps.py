"""Tensor maps of a launch against a fake driver: what is encoded, how often, and what is refused."""

from __future__ import annotations

import pytest

from tests.backends import hopper_programs as hopper
from tests.backends.fake_cuda import FakeCuda
from tilebench.backends.base import Built, TensorArgument
from tilebench.backends.cuda.build import CudaExecutable
from tilebench.backends.cuda.driver import Gpu, GpuError
from tilebench.backends.cuda.emit import emit
from tilebench.errors import InternalError, LaunchError
from tilebench.ir.dtype import DTYPES, float16, float32
from tilebench.ir.thread import Program
from tilebench.ir.tile import Seq
from tilebench.targets import parse


def executable(api: FakeCuda, program: Program) -> CudaExecutable:
    gpu = Gpu(api)
    built = Built(parse("cuda:sm_90a"), binary=b"cubin", entry="tile_kernel")
    return CudaExecutable(built, program, lambda: gpu)


def launch(run: CudaExecutable, sizes: tuple[int, ...], pointers: tuple[int, ...]) -> None:
    """With the program's symbols as sizes; the shapes of the arguments are not looked at."""
    arguments = [TensorArgument(p, (), ()) for p in pointers]
    run.launch(arguments, dict(zip(run.program.symbols, sizes, strict=True)), (1, 1))


def one_map(dtype: str, box: tuple[int, ...], swizzle: int, shape: tuple[int, ...]) -> Program:
    """A program that does nothing, with a map of one contiguous tensor."""
    p = hopper.Parts()
    x = p.tensor("X", shape, DTYPES[dtype])
    p.map(x, box, swizzle)
    t = hopper.variable("t")
    return p.program("nothing", (1,), (hopper.variable("b"),), t, (hopper.Role("all", 0, 32, Seq(())),), None)


def test_maps_follow_the_arguments_and_say_how_the_tensors_lie() -> None:
    api = FakeCuda()
    api.argument_sizes = [8, 8, 8, 4, 4, 4, 128, 128, 128]
    run = executable(api, hopper.gemm())
    launch(run, (300, 200, 72), (0x1000, 0x2000, 0x3000))
    a, b, c = api.maps
    assert a == {
        "dtype": 9,
        "pointer": 0x1000,
        "sizes": (72, 300),
        "strides": (144,),
        "box": (64, 128),
        "swizzle": 3,
        "promotion": 2,
    }
    assert (b["pointer"], b["sizes"], b["strides"]) == (0x2000, (72, 200), (144,))
    assert (c["pointer"], c["sizes"], c["strides"], c["box"]) == (0x3000, (200, 300), (400,), (64, 64))
    assert api.launches[0][1] == (0x1000, 0x2000, 0x3000, 300, 200, 72, 1, 2, 3)


def test_a_map_has_three_dimensions_where_the_program_says_so() -> None:
    api = FakeCuda()
    launch(executable(api, hopper.copy(3, 64)), (5, 100, 48), (0x1000, 0x2000))
    assert (api.maps[0]["sizes"], api.maps[0]["strides"]) == ((48, 100, 5), (96, 9600))
    assert [m["swizzle"] for m in api.maps] == [2, 0]


def test_maps_are_encoded_once_for_each_address_and_size() -> None:
    api = FakeCuda()
    api.argument_sizes = [8, 8, 4, 4, 128, 128]
    run = executable(api, hopper.copy())
    for _ in range(3):
        launch(run, (64, 64), (0x1000, 0x2000))
    assert len(api.maps) == 2
    launch(run, (64, 128), (0x1000, 0x2000))
    launch(run, (64, 128), (0x4000, 0x2000))
    assert len(api.maps) == 6
    launch(run, (64, 64), (0x1000, 0x2000))
    assert len(api.maps) == 6
    assert [values[-2:] for _, values in api.launches] == [(1, 2)] * 3 + [(3, 4), (5, 6), (1, 2)]


@pytest.mark.parametrize(
    ("sizes", "pointers", "said"),
    [
        ((64, 64), (0x1008, 0x2000), r"cannot reach X .*\n.*0x1008, 8 bytes behind a multiple of 16"),
        ((64, 64), (0x1000, 0x2002), r"cannot reach Y"),
        ((64, 60), (0x1000, 0x2000), r"rows are 120 bytes \(60 elements of float16\) apart"),
    ],
)
def test_a_tensor_that_bulk_copies_cannot_reach_is_refused(
    sizes: tuple[int, ...], pointers: tuple[int, ...], said: str
) -> None:
    api = FakeCuda()
    with pytest.raises(LaunchError, match=rf"(?s)TB619.*{said}"):
        launch(executable(api, hopper.copy()), sizes, pointers)
    assert not api.launches


def test_the_stride_of_a_dimension_of_one_element_does_not_matter() -> None:
    api = FakeCuda()
    launch(executable(api, hopper.copy()), (1, 60), (0x1000, 0x2000))
    assert api.maps[0]["strides"] == (128,)


def test_an_empty_tensor_has_an_empty_map() -> None:
    api = FakeCuda()
    api.argument_sizes = [8, 8, 4, 4, 128, 128]
    launch(executable(api, hopper.copy()), (0, 64), (0, 0))
    assert not api.maps
    assert api.launches[0][1][-2:] == (0, 0)


def test_a_driver_that_refuses_a_map_says_which() -> None:
    api = FakeCuda()
    api.fail["cuTensorMapEncodeTiled"] = 1
    with pytest.raises(GpuError, match=r"(?s)TB612.*sizes \[64, 64\].*describe X to bulk copies"):
        launch(executable(api, hopper.copy()), (64, 64), (0x1000, 0x2000))
    del api.fail["cuTensorMapEncodeTiled"]
    launch(executable(api, hopper.copy()), (64, 64), (0x1000, 0x2000))


@pytest.mark.parametrize(
    ("dtype", "number", "promotion"),
    [
        ("uint8", 0, 3), ("int8", 0, 3), ("float8_e4m3", 0, 3), ("float16", 6, 3), ("bfloat16", 9, 3),
        ("float32", 7, 3), ("tfloat32", 11, 3), ("int32", 3, 3),
    ],
)  # fmt: skip
def test_every_type_has_a_map(dtype: str, number: int, promotion: int) -> None:
    api = FakeCuda()
    launch(executable(api, one_map(dtype, (256, 2), 0, (8, 256))), (), (0x100,))
    assert (api.maps[0]["dtype"], api.maps[0]["promotion"]) == (number, promotion)


@pytest.mark.parametrize(
    ("dtype", "box", "swizzle"),
    [
        ("float16", (128, 8), 128),
        ("float16", (4, 8), 0),
        ("float16", (64, 257), 128),
        ("float32", (32, 8), 48),
        ("float16", (64,) * 6, 128),
        ("float16", (64, 64), 32),
    ],
)
def test_a_box_that_no_map_can_have_is_our_bug(dtype: str, box: tuple[int, ...], swizzle: int) -> None:
    with pytest.raises(InternalError, match="TB902"):
        emit(one_map(dtype, box, swizzle, (64,) * len(box)))


def test_a_map_of_a_view_is_of_the_tensor_behind_it() -> None:
    from dataclasses import replace

    from tilebench.ir.expr import const
    from tilebench.ir.hopper import TensorMap
    from tilebench.ir.thread import global_memory
    from tilebench.ir.tile import Buffer

    program = one_map("float32", (32, 8), 128, (64, 64))
    [base] = program.globals
    view = Buffer("V", (const(64), const(128)), float16, "global", view_of=base)
    memory = global_memory(view, const(64 * 128))
    tensor = TensorMap("V_map", memory, (const(128), const(64)), (const(128),), (64, 8), 128)
    globals_ = {**program.globals, view: memory}
    program = replace(program, globals=globals_, tensor_maps=(tensor,))
    assert base.dtype == float32
    api = FakeCuda()
    launch(executable(api, program), (), (0x700,))
    assert (api.maps[0]["pointer"], api.maps[0]["dtype"]) == (0x700, 6)
