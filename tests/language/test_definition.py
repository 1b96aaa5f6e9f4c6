"""What happens where a program is defined: it is parsed once, and wrong arguments are told there."""

from __future__ import annotations

import numpy as np
import pytest

import tilebench
import tilebench.language as T
from tilebench.errors import ArgumentError, TileError

ADDED = 1.0


@pytest.mark.parametrize(("name", "order"), [("load", "release"), ("store", "acquire"), ("load", "late")])
def test_a_memory_order_that_there_is_not_is_told_where_the_program_is_defined(name: str, order: str) -> None:
    with pytest.raises(ArgumentError, match=f"TB249.*atomic_{name} does not support memory_order='{order}'"):

        @T.prim_func
        def program(A: T.Tensor((2,), "int32")):
            with T.Kernel(1, threads=1):
                if name == "load":
                    A[1] = T.atomic_load(A[0], memory_order=order)
                else:
                    T.atomic_store(A[0], 1, memory_order=order)


def test_other_faults_are_told_when_the_program_is_compiled() -> None:
    @T.prim_func
    def program(A: T.Tensor((2,), "int32")):
        with T.Kernel(1, threads=1):
            A[0] = no_such_name  # noqa: F821

    with pytest.raises(TileError, match="TB101"):
        tilebench.compile(program, target="interp")


def test_a_program_is_walked_once_and_again_when_what_it_reads_changes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @T.prim_func
    def program(A: T.Tensor((2,), "float32")):
        with T.Kernel(1, threads=1):
            print("walked")
            A[0] = A[0] + ADDED

    A = np.zeros(2, np.float32)
    tilebench.compile(program, target="interp")(A)
    assert (capsys.readouterr().out.count("walked"), A[0]) == (1, 1)
    monkeypatch.setitem(globals(), "ADDED", 5.0)
    tilebench.compile(program, target="interp")(A)
    assert (capsys.readouterr().out.count("walked"), A[0]) == (1, 6)


def test_what_a_program_does_not_use_is_not_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    class Busy:
        def __init__(self) -> None:
            self.calls = [0]

    busy = Busy()

    @T.prim_func
    def program(A: T.Tensor((2,), "float32")):
        """A text about busy and ADDED."""
        with T.Kernel(1, threads=1):
            print("walked")
            A[0] = 1

    for calls in range(3):
        busy.calls.append(calls)
        tilebench.compile(program, target="interp")(np.zeros(2, np.float32))
    assert capsys.readouterr().out.count("walked") == 1


@T.prim_func
def neighbours(
    A: T.Tensor((8, 16), "float16"), B: T.Tensor((8, 16), "float32"), D: T.Tensor((4, 4), "float32")
):
    with T.Kernel(1, threads=32):
        for i, j in T.Parallel(8, 4):
            T.atomic_addx2(B[i, j * 4], A[i, j * 4])
            if i < 4:
                T.atomic_addx4(D[i, 0:4], A[i, j * 4 : j * 4 + 4])
        t = T.get_thread_binding()
        T.atomic_addx2(B[t % 8, 14], A[t % 8, 14])


@pytest.mark.parametrize("target", ["interp", "cpu", "emu:sm_80"])
def test_neighbours_are_added_by_loops_and_by_threads(target: str) -> None:
    A = np.random.default_rng(3).integers(-8, 8, (8, 16)).astype(np.float16)
    B, D = np.zeros((8, 16), np.float32), np.zeros((4, 4), np.float32)
    tilebench.compile(neighbours, target=target)(A, B, D)
    want = np.where(np.arange(16) % 4 < 2, A, 0).astype(np.float32)
    want[:, 14:] += 4 * A[:, 14:]
    np.testing.assert_array_equal(B, want)
    np.testing.assert_array_equal(D, A[:4].astype(np.float32).reshape(4, 4, 4).sum(1))


@pytest.mark.parametrize("target", ["interp", "cpu", "emu:sm_80"])
def test_the_old_values_of_neighbours_fill_a_slice(target: str) -> None:
    @T.prim_func
    def program(A: T.Tensor((8,), "int32"), P: T.Tensor((8,), "int32"), Q: T.Tensor((32, 2), "int32")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            P[0:4] = T.atomic_addx4(A[0:4], A[4:8], return_prev=True)
            low, high = T.atomic_addx2(A[4], A[6], return_prev=True)
            P[4] = low
            P[5] = high
            T.sync_threads()
            if t % 2 == 0:
                Q[t // 2, 0:2] = T.atomic_addx2(P[6:8], A[0:2], return_prev=True)

    A, P, Q = np.arange(1, 9, dtype=np.int32), np.zeros(8, np.int32), np.zeros((32, 2), np.int32)
    tilebench.compile(program, target=target)(A, P, Q)
    assert A.tolist() == [6, 8, 10, 12, 12, 14, 7, 8]
    assert P.tolist() == [1, 2, 3, 4, 5, 6, 32 * 6, 32 * 8]
    assert sorted(Q[:, 0].tolist()) == list(range(0, 32 * 6, 6))
    assert sorted(Q[:, 1].tolist()) == list(range(0, 32 * 8, 8))


def test_a_slice_of_another_width_is_refused() -> None:
    @T.prim_func
    def program(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=1):
            T.atomic_addx4(A[0:4], A[4:6])

    with pytest.raises(TileError, match="TB259"):
        tilebench.compile(program, target="interp")


def test_a_buffer_of_no_program_can_be_viewed() -> None:
    from tilebench.tvm import tirx

    nibbles = tirx.decl_buffer((4, 6), "float4_e2m1fn", name="nibbles")
    octets = T.view(nibbles, (4, 3), dtype=T.uint8)
    assert (str(octets.dtype), tuple(int(n) for n in octets.shape)) == ("uint8", (4, 3))
    assert octets.data.same_as(nibbles.data)
    assert not octets.same_as(nibbles)
    with pytest.raises(AssertionError):
        T.view(nibbles, (4, 4), dtype=T.uint8)


def test_a_factory_is_to_be_called() -> None:
    def copies(rows: int, columns, dtype="float32"):
        @T.prim_func
        def copy(X: T.Tensor((rows, columns), dtype), Y: T.Tensor((rows, columns), dtype)):
            with T.Kernel(1, threads=32):
                T.copy(X, Y)

        return copy

    for use in (tilebench.compile, tilebench.run):
        with pytest.raises(
            TileError, match=r"TB110.*a factory[\s\S]*call it: copies\(rows=..., columns=...\)"
        ):
            use(copies)
    assert tilebench.run(copies(8, 8), target="interp").report.ok
