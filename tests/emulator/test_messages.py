"""What a user of target="emu" sees: the line, the element of the tile, the other access, the way out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilebench
import tilebench.language as T
from tilebench.errors import SyncError

NO_SYNC = {"tl.disable_thread_storage_sync": True}


def error_of(program: Any, *arrays: np.ndarray, **options: Any) -> SyncError:
    with pytest.raises(SyncError) as caught:
        tilebench.compile(program, target="emu", **options)(*arrays)
    return caught.value


def line_of(error: SyncError) -> str:
    assert error.at is not None
    return error.at.source.line(error.at.line).strip()


@T.prim_func
def transpose(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float16")):
    with T.Kernel(1, threads=128) as bx:
        s = T.alloc_shared((64, 64), "float16")
        T.annotate_layout({s: T.make_swizzled_layout(s)})
        T.copy(A, s)
        for i, j in T.Parallel(64, 64):
            C[i, j] = s[j, i]


def test_a_race_without_automatic_barriers_names_both_lines_and_the_element_of_the_tile() -> None:
    a, c = np.ones((64, 64), np.float16), np.zeros((64, 64), np.float16)
    error = error_of(transpose, a, c, pass_configs=NO_SYNC)
    assert error.code == "TB430"
    assert line_of(error) == "C[i, j] = s[j, i]"
    assert error.what.startswith("s[8, 0]: thread 64 writes it")
    assert "T.sync_threads()" in error.fix
    (note,) = error.notes
    assert note[0] is not None
    assert note[0].source.line(note[0].line).strip() == "T.copy(A, s)"


def test_the_same_program_with_automatic_barriers_is_right_and_silent() -> None:
    a, c = np.arange(4096).reshape(64, 64).astype(np.float16), np.zeros((64, 64), np.float16)
    tilebench.compile(transpose, target="emu")(a, c)
    assert (c == a.T).all()


@T.prim_func
def same_place(C: T.Tensor((8, 64), "int32")):
    with T.Kernel(4, threads=64) as bx:
        tx = T.get_thread_binding()
        C[3, tx] = bx


def test_blocks_that_write_one_element_are_named() -> None:
    error = error_of(same_place, np.zeros((8, 64), np.int32))
    assert error.code == "TB431"
    assert error.what.startswith("C[3, 0]: block 0 thread 0 writes it")
    assert "block 1 thread 0 writes it" in error.what
    assert line_of(error) == "C[3, tx] = bx"


@T.prim_func
def accumulate(C: T.Tensor((16, 64), "float32")):
    with T.Kernel(1, threads=64) as bx:
        f = T.alloc_fragment((16, 64), "float32")
        for i, j in T.Parallel(16, 64):
            f[i, j] = f[i, j] + 1.0
        T.copy(f, C)


def test_a_fragment_read_before_it_is_written_is_named_by_its_element() -> None:
    error = error_of(accumulate, np.zeros((16, 64), np.float32))
    assert error.code == "TB274"
    assert error.what.startswith("f[0, 0] is read")
    assert "clear or fill f first" in error.fix
    assert line_of(error) == "f[i, j] = f[i, j] + 1.0"


def test_a_launch_with_checks_off_runs_the_same_program() -> None:
    from tilebench.backends.emulator import build
    from tilebench.compiler import analyse
    from tilebench.kernel import args
    from tilebench.targets import parse

    kernel = tilebench.compile(transpose, target="interp").prim
    target = parse("emu:sm_80")
    executable = build(analyse(kernel, target).last, target, checks=False)  # type: ignore[arg-type]
    a, c = np.arange(4096).reshape(64, 64).astype(np.float16), np.zeros((64, 64), np.float16)
    call = args.bind(kernel, [a, c], "cpu", host_arrays=True)
    executable.launch(call.arguments, call.symbols, call.grid)
    assert (c == a.T).all()
    assert executable.result is not None
    assert all(x.requests == 0 for x in executable.result.counts.accesses)


@T.prim_func
def stepping(n: T.int32, C: T.Tensor((32,), "int32")):
    with T.Kernel(1, threads=32) as bx:
        for k in T.serial(0, 8, n):
            C[k] = k


@T.prim_func
def stepping_apart(S: T.Tensor((32,), "int32"), C: T.Tensor((32,), "int32")):
    with T.Kernel(1, threads=32) as bx:
        tx = T.get_thread_binding()
        if tx < 30:
            for k in T.serial(0, 8, S[tx]):
                C[tx] = k


@pytest.mark.parametrize("program", [stepping, stepping_apart])
def test_a_step_of_zero_stops_the_block_and_names_the_loop(program: Any) -> None:
    steps = np.ones(32, np.int32)
    steps[30:] = 0
    c = np.zeros(32, np.int32)
    kernel = tilebench.compile(program, target="emu")
    kernel(steps if program is stepping_apart else 1, c)
    assert c[7] == 7
    steps[3] = 0
    error = error_of(program, steps if program is stepping_apart else 0, c)  # type: ignore[arg-type]
    assert error.code == "TB270"
    assert "for k in T.serial" in line_of(error)
