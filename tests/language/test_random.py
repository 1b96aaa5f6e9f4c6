"""T.rng_*: Philox4x32-10's published vectors, places in loops, floats, and what is refused."""

import numpy as np
import pytest

import tilebench
import tilebench.language as T
from tilebench import TileError
from tilebench.kernel.emulate import emulate

# Random123's kat_vectors for philox4x32-10: counter and key all zeros.
ZEROS = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def philox(seed, sequence, number):
    """Number `number` in plain integers."""
    mask = 0xFFFFFFFF
    block = number >> 2
    key = [seed & mask, seed >> 32]
    c = [block & mask, block >> 32, sequence & mask, sequence >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ key[0], b & mask, (a >> 32) ^ c[3] ^ key[1], a & mask]
        key = [(key[0] + 0x9E3779B9) & mask, (key[1] + 0xBB67AE85) & mask]
    return c[number & 3]


def test_the_plain_form_gives_the_published_vector():
    assert [philox(0, 0, n) for n in range(4)] == ZEROS


def run(program, target, *arrays):
    if target.startswith("emu"):
        emulate(tilebench.compile(program, target="interp"), *arrays, target=target)
    else:
        tilebench.compile(program, target=target)(*arrays)


@pytest.mark.parametrize("target", ["interp", "cpu", "emu:sm_80"])
def test_a_thread_takes_one_number_after_the_other(target):
    @T.prim_func
    def f(A: T.Tensor((2, 8), "uint32"), B: T.Tensor((64,), "uint32")):
        with T.Kernel(2, threads=32) as bx:
            tx = T.get_thread_binding()
            T.rng_init(0, 0, 0)
            if bx == 0:
                for i in T.serial(8):
                    A[0, i] = T.rng_rand()
            if bx == 1:
                T.rng_init(0x123456789ABCDEF, 7, 2)
                for i in T.serial(8):
                    A[1, i] = T.rng_rand()
            T.rng_init(42, bx, tx)
            B[bx * 32 + tx] = T.rng_rand()

    a, b = np.zeros((2, 8), np.uint32), np.zeros(64, np.uint32)
    run(f, target, a, b)
    assert a[0, :4].tolist() == ZEROS
    assert a[0].tolist() == [philox(0, 0, n) for n in range(8)]
    assert a[1].tolist() == [philox(0x123456789ABCDEF, 7, 2 + n) for n in range(8)]
    assert b.tolist() == [philox(42, bx, tx) for bx in range(2) for tx in range(32)]


@pytest.mark.parametrize("target", ["interp", "cpu", "emu:sm_80"])
def test_an_iteration_takes_the_number_of_its_place(target):
    @T.prim_func
    def f(A: T.Tensor((4, 24), "uint32"), B: T.Tensor((4, 24), "uint32"), last: T.Tensor((4,), "uint32")):
        with T.Kernel(4, threads=32) as bx:
            T.rng_init(9, bx, 5)
            for i, j in T.Parallel(4, 6):
                A[bx, i * 6 + j] = T.rng_rand()
                B[bx, i * 6 + j] = T.rng_rand()
            last[bx] = T.rng_rand()

    a, b, last = np.zeros((4, 24), np.uint32), np.zeros((4, 24), np.uint32), np.zeros(4, np.uint32)
    run(f, target, a, b, last)
    for bx in range(4):
        numbers = [philox(9, bx, 5 + n) for n in range(49)]
        assert a[bx].tolist() == numbers[:24]
        assert b[bx].tolist() == numbers[24:48]
        assert last[bx] == numbers[48]


@pytest.mark.parametrize("target", ["interp", "cpu"])
def test_floats_are_uniform_or_normal(target):
    count = 4096

    @T.prim_func
    def f(
        A: T.Tensor((count,), "float32"), B: T.Tensor((count,), "float64"),
        C: T.Tensor((count,), "float32"), D: T.Tensor((count,), "float64"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            T.rng_init(3)
            for i in T.Parallel(count):
                A[i] = T.rng_rand_float()
                B[i] = T.rng_rand_float(bit=64)
                C[i] = T.rng_rand_float(dist="normal")
                D[i] = T.rng_rand_float(bit=64, dist="normal")

    a, b = np.zeros(count, np.float32), np.zeros(count, np.float64)
    c, d = np.zeros(count, np.float32), np.zeros(count, np.float64)
    run(f, target, a, b, c, d)
    np.testing.assert_array_equal(
        a,
        np.array([philox(3, 0, n) for n in range(count)], np.float32) * np.float32(2**-32)
        + np.float32(2**-33),
    )
    for u in (a, b):
        assert u.min() > 0
        assert u.max() <= 1
        assert abs(u.mean() - 0.5) < 5 * np.sqrt(1 / 12 / count)
    for z in (c, d):
        assert abs(z.mean()) < 5 / np.sqrt(count)
        assert abs(z.var() - 1) < 5 * np.sqrt(2 / count)
        assert abs((z > 1).mean() - 0.1587) < 0.03


@pytest.mark.parametrize("target", ["interp", "cpu", "emu:sm_80"])
def test_the_only_thread_of_a_block_may_be_named(target):
    @T.prim_func
    def f(A: T.Tensor((3, 4), "uint32")):
        with T.Kernel(3, threads=1) as bx:
            tx = T.get_thread_binding()
            T.rng_init(5, bx, tx * 100)
            for i in T.Parallel(4):
                A[bx + tx, i] = T.rng_rand()

    a = np.zeros((3, 4), np.uint32)
    run(f, target, a)
    assert a.tolist() == [[philox(5, bx, n) for n in range(4)] for bx in range(3)]


def refused(program, code, words):
    with pytest.raises(TileError, match=words) as caught:
        tilebench.compile(program, target="cpu")
    assert caught.value.code == code
    assert caught.value.at is not None


def test_what_would_depend_on_the_compilers_choice_is_refused():
    @T.prim_func
    def before(A: T.Tensor((8,), "uint32")):
        with T.Kernel(1, threads=32):
            A[0] = T.rng_rand()

    @T.prim_func
    def threads(A: T.Tensor((64,), "uint32")):
        with T.Kernel(1, threads=32):
            T.rng_init(1, 0, T.get_thread_binding())
            for i in T.Parallel(64):
                A[i] = T.rng_rand()

    @T.prim_func
    def inner(A: T.Tensor((64,), "uint32")):
        with T.Kernel(1, threads=32):
            T.rng_init(1)
            for i in T.Parallel(16):
                for j in T.serial(4):
                    A[i * 4 + j] = T.rng_rand()

    @T.prim_func
    def unknown(A: T.Tensor((64,), "uint32"), n: T.int32):
        with T.Kernel(1, threads=32):
            T.rng_init(1)
            for i in T.Parallel(n):
                A[i] = T.rng_rand()

    refused(before, "TB209", "before T.rng_init")
    refused(threads, "TB413", "of each thread")
    refused(inner, "TB308", "a loop inside T.Parallel")
    refused(unknown, "TB308", "unknown extent")
    with pytest.raises(ValueError, match="generator"):
        T.rng_init(1, generator="mt19937")
    with pytest.raises(ValueError, match="dist"):
        T.rng_rand_float(dist="cauchy")
    with pytest.warns(UserWarning, match="Philox"):
        T.rng_init(1, generator="curandStateXORWOW_t")
