"""T.ptr: tensors by their address, and tables of addresses."""

import numpy as np
import pytest
import torch

import tilebench
import tilebench.language as T
from tilebench import TileError

ROWS = 3


def doubled():
    @T.prim_func
    def f(x: T.ptr, y: T.ptr, n: T.int32):
        X = T.make_tensor(x, (n, 4), "bfloat16")
        Y = T.make_tensor(y, (n, 4), "float32")
        with T.Kernel(n, threads=32) as bx:
            for j in T.Parallel(4):
                Y[bx, j] = X[bx, j] * 2

    return f


def gathered(written):
    @T.prim_func
    def f(table: T.Tensor((ROWS,), T.ptr), which: T.Tensor((2,), "int32"), Out: T.Tensor((2, 8), "float16")):
        with T.Kernel(2, threads=32) as bx:
            Row = T.make_tensor(table[which[bx]], (8,), "float16")
            tile = T.alloc_shared((8,), "float16")
            T.copy(Row, tile)
            T.copy(tile[4:8], Out[bx, 0:4])
            for i in T.Parallel(4):
                Out[bx, 4 + i] = Row[i] + 1
            if written:
                for i in T.Parallel(8):
                    Row[i] = tile[i] * 10

    return f


@pytest.mark.parametrize("target", ["interp", "cpu"])
def test_a_tensor_is_given_by_itself_or_by_its_address(target):
    kernel = tilebench.compile(doubled(), target=target)
    x = torch.arange(20, dtype=torch.float32).to(torch.bfloat16).reshape(5, 4)
    for give in (lambda t: t, lambda t: t.data_ptr()):
        y = torch.zeros(5, 4)
        kernel(give(x), give(y), 5)
        assert torch.equal(y, x.float() * 2)
    with pytest.raises(TileError, match="address of a tensor is 0") as caught:
        kernel(0, 0, 5)
    assert caught.value.code == "TB603"
    kernel(0, 0, 0)


@pytest.mark.parametrize("target", ["interp", "cpu"])
@pytest.mark.parametrize("written", [False, True])
def test_a_table_of_addresses_is_read_and_written(target, written):
    tensors = [torch.arange(8, dtype=torch.float16) + 10 * n for n in range(ROWS)]
    before = [t.clone() for t in tensors]
    table = torch.tensor([t.data_ptr() for t in tensors])
    out = torch.zeros(2, 8, dtype=torch.float16)
    which = torch.tensor([2, 0], dtype=torch.int32)
    tilebench.compile(gathered(written), target=target)(table, which, out)
    for bx, n in enumerate((2, 0)):
        assert torch.equal(out[bx, :4], before[n][4:])
        assert torch.equal(out[bx, 4:], before[n][:4] + 1)
        assert torch.equal(tensors[n], before[n] * 10 if written else before[n])
    assert torch.equal(tensors[1], before[1])


def test_tables_are_checked():
    kernel = tilebench.compile(gathered(True), target="cpu")
    which, out = torch.tensor([2, 0], dtype=torch.int32), torch.zeros(2, 8, dtype=torch.float16)
    row = torch.zeros(8, dtype=torch.float16)
    for table, code in (([row.data_ptr()] * 3, "TB615"), ([row.data_ptr()], "TB604")):
        with pytest.raises(TileError) as caught:
            kernel(torch.tensor(table), which, out)
        assert caught.value.code == code


def test_a_table_holds_addresses_alone():
    @T.prim_func
    def counted(table: T.Tensor((2,), T.ptr), Y: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            X = T.make_tensor(table[0], (8,), "float32")
            T.copy(X, Y)
            Y[0] = table[1]

    @T.prim_func
    def no_table(A: T.Tensor((2,), "float32"), Y: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            T.copy(T.make_tensor(A[0], (8,), "float32"), Y)

    @T.prim_func
    def two_shapes(table: T.Tensor((2,), T.ptr), Y: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            X = T.make_tensor(table[0], (8,), "float32")
            Z = T.make_tensor(table[1], (4,), "float32")
            Y[0] = X[0] + Z[0]

    for program in (counted, no_table, two_shapes):
        with pytest.raises(TileError) as caught:
            tilebench.compile(program, target="cpu")
        assert caught.value.code == "TB205"
        assert caught.value.at is not None


def test_a_program_says_what_it_declares():
    program = gathered(False)
    assert program.params == ("table", "which", "Out")
    table = program.buffer_map[program.params[0]]
    assert table.dtype == "int64"
    assert [int(n) for n in table.shape] == [ROWS]
    assert np.dtype(program.buffer_map["Out"].dtype.storage_dtype) == np.float16
