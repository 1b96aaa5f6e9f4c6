"""check: illegal programs are refused with the user's numbers; per-thread statements are told from uniform
ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tilebench.errors import TileError
from tilebench.ir.dtype import bool_, float32, int32
from tilebench.ir.expr import Var, as_expr, binary, call, const, select
from tilebench.ir.rewrite import walk
from tilebench.ir.tile import Break, Buffer, Parallel, Store, SyncThreads
from tilebench.ops.atomic import atomic_add
from tilebench.ops.copy import copy
from tilebench.ops.elementwise import clear, fill
from tilebench.ops.examples import Draft, tile
from tilebench.ops.gemm import gemm
from tilebench.ops.reduce import any_of, reduce_max, reduce_sum
from tilebench.ops.scan import cumsum
from tilebench.ops.sync import sync_threads
from tilebench.ops.transpose import transpose
from tilebench.passes.check import check
from tilebench.targets import parse

INTERP = parse("interp")
FAULTS: dict[str, Callable[[Draft], Any]] = {}


def fault(code: str) -> Callable[[Callable[[Draft], Any]], Callable[[Draft], Any]]:
    """Registers a wrong program; its error must have this code, and its text is a golden file."""

    def keep(build: Callable[[Draft], Any]) -> Callable[[Draft], Any]:
        FAULTS[f"{code}-{build.__name__}"] = build
        return build

    return keep


@fault("TB280")
def copy_of_unequal_tiles(d: Draft) -> None:
    d.add(copy(d.shared("A_shared", (128, 32), "float16"), d.fragment("C_local", (128, 64), "float32")))


@fault("TB281")
def copy_of_a_matrix_to_a_vector(d: Draft) -> None:
    d.add(copy(d.shared("A_shared", (128, 32), "float16"), d.tensor("C", (4096,), "float16")[0]))


@fault("TB283")
def copy_past_the_end_of_shared_memory(d: Draft) -> None:
    s = d.shared("A_shared", (128, 32), "float16")
    d.add(copy(tile(s, (96, 64), (0, 32)), d.fragment("C_local", (64, 32), "float16")))


@fault("TB291")
def gemm_of_global_tensors(d: Draft) -> None:
    a = d.tensor("A", (64, 64), "float16")
    d.add(gemm(a, a, d.fragment("C_local", (64, 64), "float32")))


@fault("TB292")
def gemm_with_unequal_K(d: Draft) -> None:
    a, b = d.shared("A_shared", (128, 32), "float16"), d.shared("B_shared", (128, 32), "float16")
    d.add(gemm(a, b, d.fragment("C_local", (128, 128), "float32")))


@fault("TB292")
def gemm_with_unequal_K_that_no_transposition_mends(d: Draft) -> None:
    a, b = d.shared("A_shared", (128, 32), "float16"), d.shared("B_shared", (128, 32), "float16")
    d.add(gemm(a, b, d.fragment("C_local", (128, 32), "float32")))


@fault("TB293")
def gemm_with_a_wrong_accumulator_shape(d: Draft) -> None:
    a, b = d.shared("A_shared", (128, 32), "float16"), d.shared("B_shared", (32, 64), "float16")
    d.add(gemm(a, b, d.fragment("C_local", (128, 128), "float32")))


@fault("TB294")
def gemm_of_two_types(d: Draft) -> None:
    a, b = d.shared("A_shared", (64, 32), "float16"), d.shared("B_shared", (32, 64), "bfloat16")
    d.add(gemm(a, b, d.fragment("C_local", (64, 64), "float32")))


@fault("TB296")
def gemm_of_bfloat16_in_float16(d: Draft) -> None:
    a, b = d.shared("A_shared", (64, 32), "bfloat16"), d.shared("B_shared", (32, 64), "bfloat16")
    d.add(gemm(a, b, d.fragment("C_local", (64, 64), "float16")))


@fault("TB240")
def reduce_along_no_dimension(d: Draft) -> None:
    d.add(reduce_sum(d.fragment("s", (64, 64), "float32"), d.fragment("m", (64,), "float32"), dim=2))


@fault("TB241")
def reduce_into_a_wrong_shape(d: Draft) -> None:
    d.add(reduce_max(d.fragment("s", (64, 32), "float32"), d.fragment("m", (32,), "float32"), dim=1))


@fault("TB242")
def reduce_of_floats_into_integers(d: Draft) -> None:
    d.add(reduce_sum(d.fragment("s", (64, 32), "float32"), d.fragment("m", (64,), "int32"), dim=1))


@fault("TB244")
def reduce_into_a_global_tensor(d: Draft) -> None:
    d.add(reduce_max(d.fragment("s", (64, 32), "float32"), d.tensor("M", (64,), "float32"), dim=1))


@fault("TB246")
def any_of_a_matrix(d: Draft) -> None:
    d.add(any_of(d.shared("flags", (8, 8), "bool")))


@fault("TB247")
def cumsum_into_a_wrong_shape(d: Draft) -> None:
    d.add(cumsum(d.shared("s", (64, 32), "float32"), d.fragment("t", (32, 64), "float32")))


@fault("TB251")
def fill_with_too_large_a_number(d: Draft) -> None:
    d.add(fill(d.fragment("q", (32,), "int8"), 300))


@fault("TB253")
def transpose_into_the_same_shape(d: Draft) -> None:
    d.add(transpose(d.shared("s", (64, 32), "float16"), d.shared("t", (64, 32), "float16")))


@fault("TB256")
def atomic_on_a_fragment(d: Draft) -> None:
    d.add(atomic_add(d.fragment("m", (32,), "float32"), 1))


@fault("TB258")
def atomic_on_a_tile_with_the_old_value(d: Draft) -> None:
    d.add(atomic_add(d.tensor("H", (32,), "int32"), 1, return_prev=True))


@fault("TB260")
def store_past_a_fragment(d: Draft) -> None:
    s = d.fragment("C_local", (64, 64), "float32")
    with d.parallel(64, 65) as (i, j):
        d.store(s, (i, j), 0)


@fault("TB260")
def load_of_a_constant_index_past_shared_memory(d: Draft) -> None:
    s, y = d.shared("A_shared", (128, 32), "float16"), d.tensor("Y", (1,), "float16")
    d.store(y, 0, s[128, 0])


@fault("TB260")
def tail_without_a_guard(d: Draft) -> None:
    x = d.tensor("X", (100,), "float32")
    with d.parallel(128) as (i,):
        d.store(x, i, 0)


@fault("TB260")
def further_from_the_end_than_there_are(d: Draft) -> None:
    x = d.tensor("X", (100,), "float32")
    with d.parallel(128) as (i,):
        d.store(x, i - 128, 0)


@fault("TB260")
def from_both_ends(d: Draft) -> None:
    x = d.tensor("X", (100,), "float32")
    with d.parallel(16) as (i,):
        d.store(x, i - 8, 0)


@fault("TB261")
def one_index_for_a_matrix(d: Draft) -> None:
    d.add(Store(d.shared("s", (4, 4), "float32"), (const(0),), const(0.0)))


@fault("TB262")
def store_of_another_type(d: Draft) -> None:
    d.add(Store(d.shared("s", (4,), "float16"), (const(0),), const(0.0)))


@fault("TB263")
def division_by_zero(d: Draft) -> None:
    d.store(d.tensor("Y", (1,), "int32"), 0, d.scalar("n") // as_expr(0))


@fault("TB264")
def shift_by_the_width(d: Draft) -> None:
    d.store(d.tensor("Y", (1,), "int32"), 0, d.scalar("n") << 32)


@fault("TB265")
def size_that_no_argument_has(d: Draft) -> None:
    n = Var("n", dtype=int32)
    x = d.tensor("X", (n * n,), "float32")
    d.symbols.append(n)
    d.store(x, 0, 0)


@fault("TB267")
def view_of_another_size(d: Draft) -> None:
    s = d.shared("s", (8, 4), "float32")
    d.buffers.append(Buffer("v", (const(31),), float32, "shared", view_of=s))


@fault("TB276")
def shared_memory_of_gigabytes(d: Draft) -> None:
    d.shared("s", (1 << 20, 1 << 10), "float32")


@fault("TB401")
def barrier_of_some_threads(d: Draft) -> None:
    d.add(sync_threads(1, 64))


@fault("TB410")
def barrier_in_a_divergent_if(d: Draft) -> None:
    with d.when(binary("lt", d.thread, 16)):
        d.add(SyncThreads())


@fault("TB410")
def barrier_in_a_loop_of_each_thread(d: Draft) -> None:
    with d.serial(d.thread % 4):
        d.add(SyncThreads())


@fault("TB410")
def barrier_after_a_break_of_some_threads(d: Draft) -> None:
    with d.serial(4) as k:
        with d.when(binary("eq", d.thread, k)):
            d.add(Break())
        d.add(SyncThreads())


@fault("TB411")
def copy_in_a_divergent_if(d: Draft) -> None:
    with d.when(binary("lt", d.thread, d.scalar("n"))):
        d.add(clear(d.shared("s", (32,), "float32")))


@fault("TB412")
def gemm_in_parallel(d: Draft) -> None:
    s, c = d.shared("s", (32, 32), "float16"), d.fragment("c", (32, 32), "float32")
    with d.parallel(4):
        d.add(gemm(s, s, c))


@fault("TB420")
def negative_stages(d: Draft) -> None:
    with d.pipelined(4, -1):
        d.add(clear(d.shared("s", (32,), "float32")))


@fault("TB531")
def too_many_threads(d: Draft) -> None:
    d.threads = 2048


@fault("TB531")
def no_threads(d: Draft) -> None:
    d.threads = 0


@fault("TB533")
def a_negative_grid(d: Draft) -> None:
    d.grid = (as_expr(-1),)


@pytest.mark.parametrize("name", FAULTS)
def test_the_fault_is_refused_with_a_text_that_teaches(name: str, golden: Callable[[str, str], None]) -> None:
    d = Draft("kernel")

    def attempt() -> None:
        FAULTS[name](d)
        check(d.kernel(), INTERP)

    with pytest.raises(TileError) as caught:
        attempt()
    assert caught.value.code == name.split("-")[0]
    golden(f"errors/{name}.txt", caught.value.render())


# ------------------------------------------------------------------ what is legal


def test_a_guarded_index_is_legal() -> None:
    d = Draft("guarded", (8,))
    x, y = d.tensor("X", (1000,), "float32"), d.tensor("Y", (1000,), "float32")
    (bx,) = d.blocks
    with d.parallel(128) as (i,):
        n = bx * 128 + i
        with d.when(binary("lt", n, 1000)):
            d.store(y, n, select(binary("ge", n, 1), x[n - 1], 0.0))
    check(d.kernel(), INTERP)


def test_a_loop_that_never_runs_is_legal() -> None:
    d = Draft("never")
    x = d.tensor("X", (4,), "float32")
    with d.serial(0) as k:
        d.store(x, k + 100, 0)
    with d.serial(1) as k, d.when(binary("gt", k, 0)):
        d.store(x, k - 1, 0)
    check(d.kernel(), INTERP)


def test_buffers_that_ops_make_are_added_to_the_kernel() -> None:
    d = Draft("any")
    flags = d.shared("flags", (8,), "bool")
    with d.when(d.add(any_of(flags))):
        d.add(SyncThreads())
    typed = check(d.kernel(), INTERP)
    assert [b.name for b in typed.kernel.buffers] == ["flags", "any_of_flags"]
    assert not typed.per_thread


def test_safe_values_reach_the_copies() -> None:
    d = Draft("safe")
    x, s = d.tensor("X", (10,), "float16"), d.shared("s", (16,), "float16")
    d.attributes["safe_values"] = {x: 2.0}
    d.add(copy(x[0], s))
    op: Any = check(d.kernel(), INTERP).kernel.body
    assert op.outside.value == 2.0
    assert op.outside.dtype == "float16"


# ------------------------------------------------------------------ per-thread statements


def kinds(d: Draft) -> list[str]:
    typed = check(d.kernel(), INTERP)
    return [type(n).__name__ for n in walk(typed.kernel.body) if n in typed.per_thread]


def test_statements_that_depend_on_a_thread_are_per_thread() -> None:
    d = Draft("per_thread")
    x, s = d.tensor("X", (128,), "float32"), d.shared("s", (128,), "float32")
    v, w = d.var("v", "float32"), d.var("w", "float32")
    lane = d.bind("lane", d.thread % 32)
    d.store(w, 0, 1.0)
    d.store(v, 0, x[d.thread])
    with d.when(binary("eq", lane, 0)):
        d.store(s, 0, 2.0)
    d.store(s, 1, w[0])
    with d.serial(4) as k:
        d.store(s, k, v[0])
    # the bind, the store of v, the if and its store, the store of v's value; not w, not the loop
    assert kinds(d) == ["Bind", "Store", "If", "Store", "Store"]


def test_a_variable_fed_later_in_a_loop_is_per_thread_from_the_start() -> None:
    d = Draft("fed")
    v, y = d.var("v", "int32"), d.tensor("Y", (8,), "int32")
    with d.serial(4):
        d.store(y, 0, v[0])
        d.store(v, 0, v[0] + d.thread)
    assert kinds(d) == ["Store", "Store"]


def test_votes_of_the_block_are_uniform_values() -> None:
    d = Draft("vote")
    y = d.tensor("Y", (8,), "int32")
    with d.when(call("syncthreads_or", (binary("eq", d.thread, 3),), bool_)):
        d.store(y, 0, 1)
    typed = check(d.kernel(), INTERP)
    inside = [n for n in walk(typed.kernel.body) if isinstance(n, Store)]
    assert not set(inside) & typed.per_thread


def test_a_loop_with_one_number_of_iterations_for_all_threads_may_hold_a_barrier() -> None:
    d = Draft("strided")
    s = d.shared("s", (1024,), "float32")
    with d.serial(1024, start=d.thread, step=128) as k:
        d.store(s, k, 0)
        d.add(SyncThreads())
    with d.when(binary("lt", d.thread, 128)):
        d.add(SyncThreads())
    check(d.kernel(), INTERP)
    with d.serial(1000, start=d.thread, step=128) as k:
        d.add(SyncThreads())
    with pytest.raises(TileError, match="a barrier inside a loop"):
        check(d.kernel(), INTERP)


def test_a_parallel_nest_over_private_buffers_belongs_to_each_thread() -> None:
    d = Draft("private")
    own, s = d.local("own", (8,), "float32"), d.shared("s", (8,), "float32")
    with d.parallel(8) as (i,):
        d.store(own, i, 0)
    with d.parallel(8) as (i,):
        d.store(s, i, 0)
    typed = check(d.kernel(), INTERP)
    nests = [n for n in walk(typed.kernel.body) if isinstance(n, Parallel)]
    assert [n in typed.per_thread for n in nests] == [True, False]
