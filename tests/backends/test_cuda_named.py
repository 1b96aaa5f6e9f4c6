"""Emitted text with the program's names: the same text by other names, which compiles to the same."""

from __future__ import annotations

import re

import pytest

import tilebench
import tilebench.language as T
from tests.kernels import programs
from tilebench.backends.cuda import nvrtc
from tilebench.backends.cuda.named import with_names
from tilebench.kernel.program import define

NUMBERED = re.compile(r"\b[vbm]\d+_\b")


def numbered_and_named(program: object, target: str = "cuda:sm_90a") -> tuple[str, str]:
    kernel = tilebench.compile(program, target=target)
    built = next(c.text for c in kernel.executable.built.code if c.level == "cuda")
    return built, kernel.get_kernel_source()


def test_the_programs_names_are_in_the_text_that_is_read():
    @T.prim_func
    def scale(rows: T.Tensor((256, 128), "float32"), factors: T.Tensor((256,), "float32")):
        with T.Kernel(256, threads=128) as row:
            for column in T.Parallel(128):
                scaled = rows[row, column] * factors[row]
                rows[row, column] = scaled

    built, named = numbered_and_named(scale)
    assert "const float scaled = rows[" in named
    assert "* factors[bx]" in named
    assert NUMBERED.search(named[named.index("__global__") :]) is None
    assert "rows" not in built


def test_maps_of_bulk_copies_are_called_after_their_tensor():
    program = programs.gemm(256, 256, 256, threads=128)
    _, named = numbered_and_named(program)
    assert "TensorMap A_map" in named
    assert re.search(r"bulk_load_\w+\(A_s.*, &A_map, ", named)
    assert NUMBERED.search(named[named.index("__global__") :]) is None


def test_names_are_all_that_differs():
    built, named = numbered_and_named(
        programs.attention(1, 1, 128, 128, 64, block_M=64, block_N=64, threads=128)
    )
    assert built.count("\n") == named.count("\n")
    for one, other in zip(built.split("\n"), named.split("\n"), strict=True):
        pattern = re.sub(r"\\?\b[vbm]\d+_\b", r"\\w+", re.escape(one))
        assert re.fullmatch(pattern, other), (one, other)


@pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC on this machine")
@pytest.mark.parametrize("causal", [False, True])
def test_both_texts_compile_to_the_same(causal: bool):
    program = programs.attention(1, 1, 128, 128, 64, causal=causal, block_M=64, block_N=64, threads=128)
    built, named = (nvrtc.compile_text(t, "sm_80").ptx for t in numbered_and_named(program, "cuda:sm_80"))

    def instructions(ptx: str) -> list[str]:
        return re.findall(r"^\s+(@?[%!\w]*\s?[a-z]\w*\.[\w.:]+)", ptx, re.MULTILINE)

    assert instructions(built) == instructions(named)
    assert len(instructions(built)) > 100


HOSTILE = [
    "int",
    "template",
    "threadIdx",
    "to_f16",
    "tile_kernel",
    "float2",
    "linux",
    "v0_",
    "b1_",
    "f16",
    "ß",
]


@pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC on this machine")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_means_something_in_the_text_is_numbered(name: str):
    text = f"""@T.prim_func
def f({name}: T.Tensor((64,), 'float16')):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            {name}[i] = {name}[i] * 2
"""
    _, named = numbered_and_named(define(text, cell="In[1]")[0])
    assert nvrtc.compile_text(named, "sm_90a").cubin
    assert f" {name}[" not in named


def test_a_name_is_used_again_where_the_first_has_ended():
    text = """
extern "C" __global__ void k(float* b0_) {
  for (int v0_ = 0; v0_ < 2; ++v0_) {
    b0_[v0_] = 1.0f; // of "b0_"
  }
  for (int v1_ = 0; v1_ < 2; ++v1_) {
    const float v2_ = b0_[v1_];
    printf("b0_ %g }", v2_);
  }
  const float v3_ = 2.0f;
}"""
    named = with_names(text, {"b0_": "A", "v0_": "i", "v1_": "i", "v2_": "i", "v3_": "i"})
    assert "for (int i = 0; i < 2; ++i) {\n    A[i] = 1.0f; // of" in named
    assert 'const float i_1 = A[i];\n    printf("b0_ %g }", i_1);' in named
    assert "const float i = 2.0f;" in named
