"""Launches that overlap: in the text, and as they are launched."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

import tilebench.language as T
from tests.backends.fake_cuda import FakeCuda
from tests.backends.test_cuda_driver import tensors
from tests.compiles import programs as made
from tests.kernels import programs
from tests.passes.test_handover import configured, stage
from tilebench.backends.base import Built
from tilebench.backends.cuda import nvrtc
from tilebench.backends.cuda.build import CudaExecutable
from tilebench.backends.cuda.driver import PROGRAMMATIC, Gpu
from tilebench.backends.cuda.emit import compiled_text, emit
from tilebench.ir.dtype import float32
from tilebench.kernel.roles import with_roles
from tilebench.language.parse import parse_prim_func
from tilebench.passes.stages import Lowered
from tilebench.targets import parse

OVERLAP = {"TB_OVERLAP_LAUNCHES": True}
needs_nvrtc = pytest.mark.skipif(not nvrtc.available(), reason="NVRTC is not installed")
KERNELS = {
    "rms_norm": lambda: programs.rms_norm(64, 4096, block_M=1, threads=256),
    "softmax": lambda: programs.softmax(64, 4096, block_M=1, threads=256),
    "gemm": lambda: programs.gemm(256, 256, 256, threads=256, block_K=64, transpose_B=True),
    "attention": lambda: programs.attention(1, 2, 256, 256, 64, block_M=64, block_N=64, threads=128),
}


def text_of(program: Any, target: str = "cuda:sm_90a", **configs: bool) -> str:
    kernel = with_roles(parse_prim_func(program))
    return compiled_text(emit(stage(configured(kernel, **configs), Lowered, target).program))


# ------------------------------------------------------------------ launches that overlap


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_waits_before_it_touches_memory(name: str) -> None:
    text = text_of(KERNELS[name](), **OVERLAP)
    body = text[text.index('extern "C"') :]
    wait = body.index("wait_for_launches();")
    assert body.index("launch_dependents();") < wait
    tensors = re.findall(r"\b([bm]\d+_)[,)]", body[: body.index("{")])
    touched = [m.start() for t in tensors for m in re.finditer(rf"\b{t}\b", body[body.index("{") :])]
    assert touched
    assert min(touched) + body.index("{") > wait


@needs_nvrtc
@pytest.mark.parametrize("name", KERNELS)
def test_the_compiler_moves_no_access_ahead_of_the_wait(name: str) -> None:
    ptx = nvrtc.compile_text(text_of(KERNELS[name](), **OVERLAP), "sm_90a").ptx
    before = ptx[: ptx.index("griddepcontrol.wait")]
    assert "griddepcontrol.launch_dependents" in before
    assert not re.search(r"\b(ld|st|red|atom)\.(volatile\.)?global|cp\.async", before)
    assert "ld.global.nc" not in ptx


@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_89", "emu:sm_90a"])
def test_what_has_no_such_launches_has_none(target: str) -> None:
    assert "launch_dependents" not in text_of(KERNELS["rms_norm"](), target, **OVERLAP)


@pytest.mark.parametrize(
    ("name", "overlaps"), [("rms_norm", True), ("softmax", True), ("gemm", False), ("attention", False)]
)
def test_the_default_is_for_kernels_without_products(name: str, overlaps: bool) -> None:
    text = text_of(KERNELS[name]())
    assert ("griddepcontrol" in text) == overlaps
    assert ("__restrict__" in text) != overlaps


def test_it_can_be_turned_off() -> None:
    assert "griddepcontrol" not in text_of(KERNELS["softmax"](), TB_OVERLAP_LAUNCHES=False)


def test_a_loop_keeps_its_loads_ahead_of_its_stores() -> None:
    @T.prim_func
    def sums(X: T.Tensor((256, 1024), "float32"), Y: T.Tensor((256, 1024), "float32")):
        with T.Kernel(256, threads=128) as i:
            for k in T.serial(4):
                for j in T.Parallel(256):
                    Y[i, k * 256 + j] = X[i, k * 256 + j] + 1.0

    assert "griddepcontrol" not in text_of(sums)
    assert "griddepcontrol" in text_of(sums, **OVERLAP)


def executable(api: FakeCuda, **facts: bool) -> CudaExecutable:
    program = made.elementwise([float32], lambda x: [x], 128)
    program = dataclasses.replace(program, facts={**program.facts, **facts})
    built = Built(parse("cuda:sm_90a"), binary=b"cubin", entry="tile_kernel")
    return CudaExecutable(built, program, lambda: Gpu(api))


def test_the_launch_asks_for_it() -> None:
    api = FakeCuda()
    api.argument_sizes = [8, 8]
    run = executable(api, overlap_launches=True)
    for stream in (0xABC, 0xDEF, 0xABC):
        run.launch(tensors(0x1000, 0x2000), {}, (5, 3), stream=stream)
    assert api.launches == [((5, 3, 1, 128, 1, 1, 0), (0x1000, 0x2000))] * 3
    assert api.attributes == [(PROGRAMMATIC, 1)] * 3
    assert [arguments[-1] for name, arguments in api.calls if name == "cuLaunchKernel"] == [
        0xABC, 0xDEF, 0xABC,
    ]  # fmt: skip


def test_others_are_launched_as_ever() -> None:
    api = FakeCuda()
    api.argument_sizes = [8, 8]
    executable(api).launch(tensors(0x1000, 0x2000), {}, (5,))
    assert not api.attributes


@pytest.mark.parametrize("before", [0, 100, 101, 999])
def test_the_current_device_is_the_users_before_and_after_a_launch_elsewhere(before: int) -> None:
    api = FakeCuda(devices=2)
    api.argument_sizes = [8, 8]
    api.context = before
    run = executable(api, overlap_launches=True)
    for pointer in (1 << 32, 5):
        run.launch(tensors(pointer, pointer), {}, (1,))
        assert api.context == before
    assert api.launched_in == [101, 100]
    assert api.attributes == [(PROGRAMMATIC, 1)] * 2


def test_a_driver_that_refuses_the_attribute_is_asked_without_it() -> None:
    api = FakeCuda()
    api.argument_sizes = [8, 8]
    run = executable(api, overlap_launches=True)
    answer = api._answer

    def once_refused(name: str, arguments: tuple[object, ...], *values: object) -> tuple[object, ...]:
        if name == "cuLaunchKernel" and len(api.attributes) == 1 and not api.launches:
            api.attributes.append((0, 0))
            api.calls.append((name, arguments))
            return (1, *(None for _ in values))
        return answer(name, arguments, *values)

    api._answer = once_refused  # type: ignore[method-assign]
    run.launch(tensors(0x1000, 0x2000), {}, (5,))
    assert api.launches == [((5, 1, 1, 128, 1, 1, 0), (0x1000, 0x2000))]
