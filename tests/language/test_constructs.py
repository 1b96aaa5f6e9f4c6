"""What each Python construct means in a tile program, run on interp: the table of the language's front-end,
row by row.
"""

import pytest
import torch

import tilebench
import tilebench.language as T
from tilebench import TileError

N = 8
FACTOR = 3


def ran(program, *tensors, out=None):
    """Run on interp; gives the last tensor."""
    kernel = tilebench.compile(program, target="interp")
    out = torch.zeros(N, dtype=torch.float32) if out is None else out
    kernel(*tensors, out)
    return out


def values(*numbers):
    return torch.tensor(numbers, dtype=torch.float32)


def test_a_python_condition_is_decided_while_compiling():
    use_double = False

    @T.prim_func
    def f(Y: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                if use_double:
                    Y[i] = undefined_name  # noqa: F821  (never looked at)
                else:
                    Y[i] = i

    assert torch.equal(ran(f), torch.arange(N).float())


def test_a_run_time_condition_becomes_a_branch():
    @T.prim_func
    def f(Y: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                if i % 2 == 0:
                    Y[i] = 1
                elif i == 3:
                    Y[i] = 2
                else:
                    Y[i] = 3

    assert torch.equal(ran(f), values(1, 3, 1, 2, 1, 3, 1, 3))


def test_ternary_and_chained_comparison_and_boolean_operators():
    @T.prim_func
    def f(Y: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                Y[i] = 1.0 if (2 <= i < 5 and not i == 3) or i == 7 else 0.0  # noqa: SIM201 # `not` is tested

    assert torch.equal(ran(f), values(0, 0, 1, 0, 1, 0, 0, 1))


def test_range_is_a_serial_loop_with_steps_both_ways():
    @T.prim_func
    def f(Y: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            for i in range(0, N, 2):
                Y[i] = i
            for i in range(N - 1, 0, -2):
                Y[i] = -i

    assert torch.equal(ran(f), values(0, -1, 2, -3, 4, -5, 6, -7))


def test_a_python_iterable_is_unrolled():
    @T.prim_func
    def f(Y: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            for place, number in [(0, 5), (3, 6)]:
                Y[place] = number
            for k, v in {"a": 1}.items():
                Y[v] = len(k) + 8

    assert torch.equal(ran(f), values(5, 9, 0, 6, 0, 0, 0, 0))


def test_while_break_and_continue():
    @T.prim_func
    def f(Y: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            i = T.alloc_var("int32", 0)
            while i < 100:
                i = i + 1
                if i == 2:
                    continue
                if i == 5:
                    break
                Y[i] = i

    assert torch.equal(ran(f), values(0, 1, 0, 3, 4, 0, 0, 0))


def test_variables_are_stored_and_values_are_not():
    @T.prim_func
    def f(Y: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            total: T.int32 = 0
            half = N // 2
            for i in T.serial(half):
                total += i
            Y[0] = total
            a, b = 1, 2
            a, b = b, a
            Y[1] = a * 10 + b
            c = d = 4
            Y[2] = c + d

    assert torch.equal(ran(f), values(6, 21, 8, 0, 0, 0, 0, 0))


def test_a_swap_of_elements_reads_both_sides_first():
    @T.prim_func
    def f(Y: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((2,), "float32")
            s[0] = 1.0
            s[1] = 2.0
            s[0], s[1] = s[1], s[0]
            Y[0] = s[0]
            Y[1] = s[1]

    assert torch.equal(ran(f)[:2], values(2, 1))


def test_closures_globals_comprehensions_and_helpers():
    offsets = [k * 2 for k in range(3)]

    def weighted(x, w=FACTOR):
        return x * w + 1

    @T.prim_func
    def f(Y: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                Y[i] = weighted(i) + sum(o for o in offsets)

    assert torch.equal(ran(f), torch.arange(N).float() * 3 + 1 + 6)


def test_macros_are_inlined_by_value_and_by_reference():
    @T.macro
    def bump(x: T.Ref, amount):
        x = x + amount

    @T.macro
    def doubled(x):
        return x * 2

    @T.prim_func
    def f(Y: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            v = T.alloc_var("float32", 1.0)
            bump(v, 4.0)
            Y[0] = v
            Y[1] = doubled(v) + 1

    assert torch.equal(ran(f)[:2], values(5, 11))


def test_slices_are_regions_and_negative_indices_count_from_the_end():
    @T.prim_func
    def f(X: T.Tensor((4, N), "float32"), Y: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            row = T.alloc_shared((N,), "float32")
            T.copy(X[-1, :], row)
            T.copy(row[0 : N // 2], Y[0 : N // 2])
            T.copy(X[0, N // 2 : N], Y[N // 2 : N])
            Y[-1] = 100.0

    x = torch.randn(4, N)
    want = torch.cat([x[-1, :4], x[0, 4:]])
    want[-1] = 100
    assert torch.equal(ran(f, x), want)


def test_a_slice_is_assigned_as_a_whole():
    @T.prim_func
    def f(Y: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            Y[2:5] = 7.0

    assert torch.equal(ran(f), values(0, 0, 7, 7, 7, 0, 0, 0))


def test_augmented_assignment_of_elements():
    @T.prim_func
    def f(Y: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            acc = T.alloc_fragment((N,), "float32")
            T.clear(acc)
            for k in T.serial(4):
                for i in T.Parallel(N):
                    acc[i] += i * k
            T.copy(acc, Y)

    assert torch.equal(ran(f), torch.arange(N).float() * 6)


def test_integer_division_is_floor_and_true_division_gives_float32():
    @T.prim_func
    def f(Y: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                Y[i] = (i - 4) // 3 * 100 + (i - 4) % 3 * 10 + (i - 4) / 4

    i = torch.arange(N) - 4
    assert torch.equal(
        ran(f), (torch.div(i, 3, rounding_mode="floor") * 100 + i.remainder(3) * 10).float() + i / 4
    )


def test_kernels_unpack_one_to_three_axes_and_one_as_a_tuple():
    @T.prim_func
    def f(Y: T.Tensor((2, 2, 2), "float32")):
        with T.Kernel(2, 2, 2, threads=32) as (bx, by, bz):
            Y[bz, by, bx] = bx + 2 * by + 4 * bz

    assert torch.equal(ran(f, out=torch.zeros(2, 2, 2)).ravel(), torch.arange(8).float())

    @T.prim_func
    def g(Y: T.Tensor((N,), "float32")):
        with T.Kernel(N, threads=32) as (bx,):
            Y[bx] = bx

    assert torch.equal(ran(g), torch.arange(N).float())


def test_string_annotations_see_the_factory():
    def factory(n: int):
        @T.prim_func
        def f(Y: "T.Tensor((n,), 'float32')"):
            with T.Kernel(1, threads=32):
                T.fill(Y, 2.0)

        return f

    assert torch.equal(ran(factory(N)), torch.full((N,), 2.0))


def test_the_eager_surface_takes_shapes_from_tensors():
    @tilebench.jit(target="interp")
    def scaled(X, factor: float = 2.0):
        M, K = T.const("M, K")
        X: T.Tensor[[M, K], T.float32]
        Y = T.empty((M, K), T.float32)
        with T.Kernel(M, threads=32) as row:
            for j in T.Parallel(K):
                Y[row, j] = X[row, j] * factor
        return Y

    x = torch.randn(3, 5)
    assert torch.equal(scaled(x), x * 2)
    assert torch.equal(scaled(x, factor=3.0), x * 3)
    assert torch.equal(scaled(torch.randn(2, 7) * 0 + 1), torch.full((2, 7), 2.0))
    assert len(scaled.kernels) == 3


def test_the_lazy_surface_caches_by_values_and_by_what_it_captures():
    scale = 2.0

    @tilebench.jit(out_idx=[-1], target="interp")
    def factory(n: int):
        @T.prim_func
        def f(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(n):
                    Y[i] = X[i] * scale

        return f

    x = torch.randn(N)
    assert factory(N) is factory(N)
    assert torch.equal(factory(N)(x), x * 2)
    scale = 5.0
    assert torch.equal(factory(N)(x), x * 5)


def test_dynamic_extents_are_bound_at_the_call():
    n = T.dynamic("n")

    @T.prim_func
    def f(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 4), threads=32) as bx:
            for i in T.Parallel(4):
                if bx * 4 + i < n:
                    Y[bx * 4 + i] = X[bx * 4 + i] + n

    kernel = tilebench.compile(f, target="interp", out_idx=[-1])
    for size in (1, 4, 11):
        x = torch.randn(size)
        assert torch.equal(kernel(x), x + size)
    with pytest.raises(TileError, match="TB604"):
        kernel(torch.randn(3), torch.randn(4))


def test_persistent_loops_visit_every_tile_once():
    @T.prim_func
    def f(Y: T.Tensor((6, 5), "float32")):
        with T.Kernel(4, threads=32) as block:
            for i, j in T.Persistent([6, 5], 4, block, group_size=2):
                T.atomic_add(Y[i, j], 1.0)

    assert torch.equal(ran(f, out=torch.zeros(6, 5)), torch.ones(6, 5))


def test_thread_names_and_shuffles():
    @T.prim_func
    def f(Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=(32, 2)):
            tx = T.get_thread_binding(0)
            ty = T.get_thread_binding(1)
            v = T.alloc_local((1,), "float32")
            v[0] = tx
            v[0] = T.shfl_xor(v[0], 1)
            Y[ty * 32 + tx] = v[0] + 100 * ty

    lanes = torch.arange(32)
    want = torch.cat([lanes ^ 1, (lanes ^ 1) + 100]).float()
    assert torch.equal(ran(f, out=torch.zeros(64)), want)
