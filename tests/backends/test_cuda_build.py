"""From a program to an executable: the log is read, lines reach PTX and machine code, errors name the
user's line.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compiles import kernels, programs
from tilebench.backends.cuda import nvrtc, sass
from tilebench.backends.cuda.build import build_program, ptx_text
from tilebench.backends.cuda.emit import FILE
from tilebench.errors import InternalError, TargetError
from tilebench.ir.dtype import float32
from tilebench.store import Store
from tilebench.targets import parse

TARGET = parse("cuda:sm_90a")
needs_nvrtc = pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC on this machine")


@needs_nvrtc
def test_what_is_built_says_what_it_needs() -> None:
    built = build_program(kernels.softmax(), TARGET, programs.CELL, Store(None)).built
    assert [c.level for c in built.code] == ["cuda", "ptx"]
    assert built.registers is not None
    assert 20 < built.registers < 80
    assert built.spill_bytes == 0
    assert built.shared_bytes == 32
    assert built.binary.startswith(b"\x7fELF")
    assert built.milliseconds["nvrtc"] > 0
    assert "tile_kernel" in built.log


@needs_nvrtc
def test_spills_are_read_from_the_log() -> None:
    m = programs.Maker(1024)
    x, r = m.tensor("x", 1 << 20, float32, "inout"), m.array("r", 200, float32)
    m.facts["min_blocks"] = 2
    m.add(programs.unrolled(200, lambda i: programs.store(r, i, programs.load(x, m.thread + i * 1024))))
    m.add(
        programs.unrolled(
            200, lambda i: programs.store(x, m.thread * 200 + i, programs.load(r, 199 - i) * 2.0)
        )
    )
    built = build_program(m.program(), TARGET, programs.CELL, Store(None)).built
    assert built.registers == 32
    assert built.spill_bytes
    assert built.spill_bytes > 100


def test_the_log_is_read_line_by_line() -> None:
    log = """ptxas info    : 0 bytes gmem
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized
ptxas info    : Compiling entry function 'tile_kernel' for 'sm_90a'
ptxas         .     16 bytes stack frame, 24 bytes spill stores, 40 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers, 16 bytes cumulative stack size"""
    registers, spills, stack, warnings = nvrtc.read_log(log)
    assert (registers, spills, stack) == (168, 64, 16)
    assert len(warnings) == 1
    assert "C7510" in warnings[0]
    assert nvrtc.read_log("") == (None, None, 0, ())


@needs_nvrtc
def test_ptx_lines_name_the_cell() -> None:
    built = build_program(kernels.softmax(), TARGET, programs.CELL, Store(None)).built
    code = built.code[1]
    lines = code.text.split("\n")
    assert len(lines) == len(code.lines)
    assert not any(word in code.text for word in (".loc", ".section", "/tilebench", ".file"))
    first_load = next(i for i, t in enumerate(lines) if "ld.global.nc" in t)
    assert code.lines[first_load] == 5
    conversions = {k for t, k in zip(lines, code.lines, strict=True) if "cvt.f32.f16" in t}
    assert conversions == {7}, "code of a device function belongs to the line that uses it"
    assert {k for t, k in zip(lines, code.lines, strict=True) if "ex2.approx" in t} == {10}


@needs_nvrtc
def test_machine_code_lines_name_the_cell() -> None:
    built = build_program(kernels.softmax(), TARGET, programs.CELL, Store(None)).built
    code = sass.disassemble(built.binary)
    lines = code.text.split("\n")
    assert len(lines) == len(code.lines)
    loads = [k for t, k in zip(lines, code.lines, strict=True) if "LDG.E.128" in t]
    assert loads == [5, 5], "two 16-byte loads a thread"
    assert {k for t, k in zip(lines, code.lines, strict=True) if "MUFU.EX2" in t} == {10}
    assert {k for t, k in zip(lines, code.lines, strict=True) if "STG.E.128" in t} == {13}


@needs_nvrtc
def test_a_gemm_is_tensor_core_instructions_and_wide_copies_only() -> None:
    built = build_program(kernels.gemm(), TARGET, programs.CELL, Store(None)).built
    text = sass.disassemble(built.binary).text
    assert text.count("HMMA.16816.F32") == 64
    assert text.count("LDSM.16.M88.4") == 16
    assert "LDGSTS.E.BYPASS.128" in text
    assert "LDL" not in text, "register arrays are registers"
    assert "STL" not in text
    assert built.spill_bytes == 0


def test_a_binary_without_nvdisasm_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sass, "find", lambda: None)
    with pytest.raises(TargetError, match="TB514"):
        sass.disassemble(b"")


def test_nvdisasm_that_fails_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sass, "find", lambda: Path("/bin/false"))
    with pytest.raises(TargetError, match=r"(?s)TB514.*gave 1"):
        sass.disassemble(b"no cubin")


@needs_nvrtc
def test_refused_text_is_our_bug_at_the_users_line() -> None:
    text = f'extern "C" __global__ void k(int* x) {{\n#line 17 "{FILE}"\n  x[0] = undeclared;\n}}'
    with pytest.raises(InternalError, match="TB903") as error:
        nvrtc.compile_text(text, "sm_90a", programs.CELL)
    assert error.value.at is not None
    assert error.value.at.line == 17
    shown = str(error.value)
    assert "line 17" in shown
    assert "undeclared" in shown
    assert "sm_90a" in shown


@needs_nvrtc
def test_ptxas_refusals_are_our_bug_too() -> None:
    text = 'extern "C" __global__ void k(int* x) { asm volatile("no.such.instruction;"); }'
    with pytest.raises(InternalError, match="TB903"):
        nvrtc.compile_text(text, "sm_90a", programs.CELL)


@needs_nvrtc
def test_an_unknown_architecture_is_named() -> None:
    with pytest.raises(TargetError, match=r"TB511.*sm_35"):
        nvrtc.compile_text("", "sm_35")


def test_without_nvrtc_there_is_text_and_the_launch_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing() -> None:
        raise TargetError(
            "TB510", "there is no CUDA compiler (NVRTC) on this machine", why="no library", fix="pip install"
        )

    monkeypatch.setattr(nvrtc, "_nvrtc", missing)
    nvrtc.version.cache_clear()
    try:
        executable = build_program(kernels.softmax(), TARGET, programs.CELL, Store(None))
        assert [c.level for c in executable.built.code] == ["cuda"]
        assert executable.built.binary == b""
        assert executable.built.registers is None
        with pytest.raises(TargetError, match="TB510"):
            executable.load(0)
    finally:
        nvrtc.version.cache_clear()


@needs_nvrtc
def test_the_store_is_asked_first_and_damage_is_built_again(tmp_path: Path) -> None:
    program = programs.elementwise([float32], lambda x: [x + 1.0])
    first = build_program(program, TARGET, programs.CELL, Store(tmp_path)).built
    second = build_program(program, TARGET, programs.CELL, Store(tmp_path)).built
    assert (first.cached, second.cached) == (False, True)
    assert (second.binary, second.registers, second.code) == (first.binary, first.registers, first.code)
    [cubin] = tmp_path.glob("v1/*/kernel.cubin")
    cubin.write_bytes(cubin.read_bytes()[:-1] + b"?")
    with pytest.warns(UserWarning, match="damaged"):
        third = build_program(program, TARGET, programs.CELL, Store(tmp_path)).built
    assert not third.cached
    assert third.binary == first.binary


@needs_nvrtc
def test_the_key_changes_with_text_line_arch_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.compiles.programs import Maker, load, store

    def build(
        line: int = 3,
        factor: float = 2.0,
        arch: str = "sm_90a",
        name: str = "x",
        directory: Path | None = None,
    ) -> bool:
        if directory is not None:
            monkeypatch.chdir(directory)
        m = Maker(arch=arch)
        x = m.tensor(name, 32, float32, "inout")
        m.add(store(x, m.thread, load(x, m.thread) * factor, line))
        return build_program(
            m.program(name), parse(f"cuda:{arch}"), programs.CELL, Store(tmp_path)
        ).built.cached

    assert not build()
    assert build()
    assert build(name="renamed")
    assert build(directory=tmp_path)
    assert not build(line=4), "line tables name lines"
    assert not build(factor=3.0)
    assert not build(arch="sm_80")


def test_the_text_does_not_depend_on_the_hash_seed() -> None:
    code = (
        "from tests.compiles import kernels; from tilebench.backends.cuda.emit import compiled_text, emit; "
        "import hashlib; print(hashlib.sha256(compiled_text(emit(kernels.gemm())).encode()).hexdigest())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.getcwd()},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "12345")
    }
    assert len(found) == 1


@needs_nvrtc
def test_the_binary_does_not_depend_on_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = programs.elementwise([float32], lambda x: [x + 1.0])
    first = build_program(program, TARGET, programs.CELL, Store(None)).built
    monkeypatch.chdir(tmp_path)
    assert build_program(program, TARGET, programs.CELL, Store(None)).built.binary == first.binary


@needs_nvrtc
def test_warming_never_raises_and_ends() -> None:
    thread = nvrtc.warm()
    thread.join(60)
    assert not thread.is_alive()


def test_ptx_without_marks_has_no_lines() -> None:
    code = ptx_text(".version 8.0\n.visible .entry k()\n{\n\tret;\n}\n")
    assert code.lines == (0, 0, 0, 0, 0)
