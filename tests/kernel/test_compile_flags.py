"""compile_flags: NVRTC gets what it knows, and what it does not know is said."""

from __future__ import annotations

import warnings

import pytest

import tilebench
import tilebench.language as T
from tilebench.backends.cuda import flags, nvrtc
from tilebench.errors import LaunchError
from tilebench.kernel import compile_flags

needs_nvrtc = pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC here")


@T.prim_func
def roots(X: T.Tensor((256,), "float32"), Y: T.Tensor((256,), "float32")):
    with T.Kernel(2, threads=128) as b:
        for i in T.Parallel(128):
            Y[b * 128 + i] = 1.0 / T.sqrt(X[b * 128 + i])


@T.prim_func
def annotated(X: T.Tensor((256,), "float32"), Y: T.Tensor((256,), "float32")):
    with T.Kernel(2, threads=128) as b:
        T.annotate_compile_flags("--use_fast_math")
        for i in T.Parallel(128):
            Y[b * 128 + i] = 1.0 / T.sqrt(X[b * 128 + i])


@pytest.fixture(autouse=True)
def unsaid() -> None:
    compile_flags._warn.cache_clear()


def ptx(kernel: tilebench.Kernel) -> str:
    return next(c.text for c in kernel.executable.built.code if c.level == "ptx")


@pytest.mark.parametrize(
    ("written", "single"),
    [
        (["-O3 -DNDEBUG"], ("-O3", "-DNDEBUG")),
        (["-D", "N=1", "-U", "M"], ("-DN=1", "-UM")),
        (["--define-macro", "N=1"], ("--define-macro=N=1",)),
        (["--ptxas-options=-v,--register-usage-level=10"],
         ("--ptxas-options=-v", "--ptxas-options=--register-usage-level=10")),
        (["-Xptxas", "-O1", "-Xptxas=-O2"], ("--ptxas-options=-O1", "--ptxas-options=-O2")),
        (["-maxrregcount", "64"], ("-maxrregcount=64",)),
        (['-DTEXT="two words"'], ("-DTEXT=two words",)),
        ([], ()),
    ],
)  # fmt: skip
def test_flags_are_taken_one_by_one(written: list[str], single: tuple[str, ...]) -> None:
    assert flags.words(written) == single


@needs_nvrtc
def test_nvrtc_says_which_flags_it_knows() -> None:
    found = flags.sort(
        ("-O3", "--use_fast_math", "--expt-relaxed-constexpr", "-gencode arch=compute_80,code=sm_80",
         "-Wno-deprecated-declarations", "-DNDEBUG", "--nonsense", "-rdc=true")
    )  # fmt: skip
    assert found.passed == ("--use_fast_math", "-DNDEBUG")
    assert found.unknown == ("-O3", "--expt-relaxed-constexpr", "-Wno-deprecated-declarations", "--nonsense")
    assert found.ours == ("-gencode=arch=compute_80,code=sm_80", "-rdc=true")
    assert len(flags.said(found)) == 2


@needs_nvrtc
def test_flags_act_on_what_is_compiled() -> None:
    plain = tilebench.compile(roots, target="cuda:sm_90a")
    fast = tilebench.compile(roots, target="cuda:sm_90a", compile_flags="--use_fast_math")
    assert "sqrt.rn" in ptx(plain)
    assert "sqrt.approx" in ptx(fast)
    assert plain.get_kernel_source() == fast.get_kernel_source()
    again = tilebench.compile(roots, target="cuda:sm_90a")  # another entry of the store
    assert again.executable.built.binary == plain.executable.built.binary


@needs_nvrtc
def test_flags_come_from_the_program_and_from_pass_configs_too() -> None:
    assert "sqrt.approx" in ptx(tilebench.compile(annotated, target="cuda:sm_90a"))
    both = tilebench.compile(annotated, target="cuda:sm_90a", compile_flags=["--ftz=false"])
    assert both.prim.compile_flags == ("--use_fast_math", "--ftz=false")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        configured = tilebench.compile(
            roots, target="cuda:sm_90a", pass_configs={"tl.device_compile_flags": ["--prec-sqrt=false"]}
        )
    assert "sqrt.approx" in ptx(configured)


@needs_nvrtc
def test_flags_that_do_nothing_are_said_once_and_in_the_report() -> None:
    with pytest.warns(UserWarning, match="compile_flags -O3: NVRTC has no such flag") as told:
        kernel = tilebench.compile(roots, target="cuda:sm_90a", compile_flags=["-O3", "-DNDEBUG"])
    assert len([w for w in told if "compile_flags" in str(w.message)]) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tilebench.compile(annotated, target="cuda:sm_90a", compile_flags=["-O3", "-DNDEBUG"])
    said = [f.text for f in kernel.report().findings if f.kind == "flags"]
    assert said == [
        "compile_flags -O3: NVRTC has no such flag (it is nvcc's, or misspelled)",
        "compile_flags: the CUDA compiler was given -DNDEBUG",
    ]


def test_on_the_cpu_flags_are_said_to_do_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel = tilebench.compile(roots, target="interp", compile_flags="-O3")
    said = [f for f in kernel.report().findings if f.kind == "flags"]
    assert [(f.severity, f.text) for f in said] == [
        ("info", "compile_flags -O3: they are the CUDA compiler's, and interp has none")
    ]
    plain = tilebench.compile(roots, target="interp").report()
    assert not [f for f in plain.findings if f.kind == "flags"]


@needs_nvrtc
def test_a_flag_that_the_compiler_cannot_use_is_the_users() -> None:
    with pytest.raises(LaunchError, match="TB617") as caught:
        tilebench.compile(roots, target="cuda:sm_90a", compile_flags=["--ptxas-options=--nonsense"])
    assert "compile_flags --ptxas-options=--nonsense" in caught.value.what
    assert "nonsense" in caught.value.why


@needs_nvrtc
def test_a_process_of_its_own_compiles_with_them_too() -> None:
    from tilebench.kernel.compiling import Compile

    text = 'extern "C" __global__ void f(float* x) { x[0] = sqrtf(x[N]); }'
    made, *_ = Compile(text, "sm_90a", ("-DN=3", "--use_fast_math")).wait()
    assert "sqrt.approx" in made
    assert "+12]" in made


@needs_nvrtc
def test_a_tuned_candidate_keeps_them() -> None:
    from tilebench.tuning.build import Binary, read_answer

    binary = Binary("text", ("-DN=1",), "ptx", b"\x00\xff", "log")
    import json

    assert read_answer(json.dumps({"binary": binary.portable()})).binary == binary
