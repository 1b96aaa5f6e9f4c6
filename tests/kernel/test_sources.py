"""The texts of a kernel: CUDA C++ on every target, and what the target went through under its own name."""

import pytest

import tilebench
import tilebench.language as T
from tilebench.errors import TileError


def doubled(dtype: str = "float32"):
    @T.prim_func
    def double(A: T.Tensor((256,), dtype), B: T.Tensor((256,), dtype)):
        with T.Kernel(2, threads=128) as block:
            for i in T.Parallel(128):
                B[block * 128 + i] = A[block * 128 + i] * 2

    return double


@pytest.mark.parametrize("target", ["interp", "cpu", "emu:sm_80", "cuda:sm_90a"])
def test_every_target_shows_cuda_text(target):
    kernel = tilebench.compile(doubled(), target=target)
    assert "__global__ void" in kernel.get_kernel_source()
    assert kernel.kernel_source == kernel.get_kernel_source(kernel_only=True) == kernel.get_source()


def test_without_a_gpu_the_text_is_that_of_a_gpu():
    on_gpu = tilebench.compile(doubled(), target="cuda:sm_90a").get_kernel_source()
    assert tilebench.compile(doubled(), target="cpu").get_kernel_source() == on_gpu
    assert tilebench.lower(doubled(), target="cuda:sm_90a").kernel_source == on_gpu


def test_other_texts_have_names():
    on_cpu = tilebench.compile(doubled(), target="cpu")
    assert "define void @" in on_cpu.get_source("llvm")
    assert on_cpu.get_source("tile").startswith("kernel double")
    with pytest.raises(KeyError, match=r"ptx: double for cpu has \['cuda', 'llvm', 'tile'\]"):
        on_cpu.get_source("ptx")


def test_a_program_that_a_gpu_cannot_run_says_where():
    @T.prim_func
    def large(A: T.Tensor((65536,), "float64")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((65536,), "float64")
            T.copy(A, S)
            T.copy(S, A)

    kernel = tilebench.compile(large, target="cpu")  # half a megabyte is no matter there
    with pytest.raises(TileError) as caught:
        kernel.get_kernel_source()
    assert caught.value.at is not None
    assert "shared" in str(caught.value)


def test_lower_takes_targets_as_tilelang_writes_them():
    artifact = tilebench.lower(doubled("float16"), target={"kind": "cuda", "arch": "sm_80"})
    assert [p.name for p in artifact.params] == ["A", "B"]
    assert "__global__ void" in artifact.kernel_source
    assert str(artifact.kernel.target) == "cuda:sm_80"


def test_texts_are_printed_and_written(tmp_path, capsys):
    kernel = tilebench.compile(doubled(), target="cpu")
    kernel.show_source()
    kernel.show_source("both")
    assert capsys.readouterr().out == 2 * (kernel.get_kernel_source() + "\n")
    path = tmp_path / "new" / "kernel.cu"
    kernel.export_sources(str(path))
    assert path.read_text() == kernel.get_kernel_source()
    program = doubled()
    program.show()
    assert capsys.readouterr().out == program.script() + "\n"


def test_there_is_no_code_for_the_host(tmp_path):
    kernel = tilebench.compile(doubled(), target="cpu")
    for act in (
        lambda: kernel.show_source("host"),
        lambda: kernel.show_source("device"),
        lambda: kernel.export_sources(str(tmp_path / "a.cu"), str(tmp_path / "a.cc")),
        lambda: kernel.export_sources(),
    ):
        with pytest.raises(TileError, match="TB617"):
            act()
    assert not list(tmp_path.iterdir())
