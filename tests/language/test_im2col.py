"""T.im2col: a convolution as a product of matrices."""

import numpy as np
import pytest

import tilebench
import tilebench.language as T
from tilebench.errors import TypeTileError


def convolution(shape, filters, kernel, stride, dilation, pad, block=(32, 32, 16)):
    batch, height, width, channels = shape
    reach = dilation * (kernel - 1) + 1
    out_h, out_w = ((n + 2 * pad - reach) // stride + 1 for n in (height, width))
    rows, depth = batch * out_h * out_w, kernel * kernel * channels
    block_m, block_n, block_k = block

    @T.prim_func
    def program(
        X: T.Tensor(shape, "float32"),
        W: T.Tensor((depth, filters), "float32"),
        Y: T.Tensor((rows, filters), "float32"),
    ):
        with T.Kernel(T.ceildiv(rows, block_m), T.ceildiv(filters, block_n), threads=64) as (bm, bn):
            windows = T.alloc_shared((block_m, block_k), "float32")
            weights = T.alloc_shared((block_k, block_n), "float32")
            sums = T.alloc_fragment((block_m, block_n), "float32")
            T.clear(sums)
            for step in T.Pipelined(T.ceildiv(depth, block_k), num_stages=2):
                T.im2col(X, windows, bm, step, kernel, stride, dilation, pad)
                T.copy(W[step * block_k, bn * block_n], weights)
                T.gemm(windows, weights, sums)
            T.copy(sums, Y[bm * block_m, bn * block_n])

    return program, (out_h, out_w)


def expected(x, w, kernel, stride, dilation, pad, out):
    padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    weights = w.reshape(kernel, kernel, x.shape[3], -1)
    y = np.zeros((x.shape[0], *out, w.shape[1]))
    for kh in range(kernel):
        for kw in range(kernel):
            rows = slice(kh * dilation, kh * dilation + stride * (out[0] - 1) + 1, stride)
            columns = slice(kw * dilation, kw * dilation + stride * (out[1] - 1) + 1, stride)
            y += padded[:, rows, columns].astype(np.float64) @ weights[kh, kw]
    return y.reshape(-1, w.shape[1])


@pytest.mark.parametrize("target", ["interp", "cpu", "emu:sm_80"])
@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "dilation", "pad"),
    [
        ((2, 5, 6, 8), 3, 1, 1, 1),
        ((1, 9, 7, 3), 3, 2, 2, 2),
        ((3, 4, 4, 16), 1, 1, 1, 0),
        ((1, 6, 6, 5), 2, 2, 1, 0),
    ],
)
def test_a_convolution_is_a_product_of_windows_and_weights(target, shape, kernel, stride, dilation, pad):
    torch = pytest.importorskip("torch")
    program, out = convolution(shape, 20, kernel, stride, dilation, pad)
    random = np.random.default_rng(0)
    x = random.integers(-4, 5, shape).astype(np.float32)
    w = random.integers(-4, 5, (kernel * kernel * shape[3], 20)).astype(np.float32)
    y = torch.zeros(shape[0] * out[0] * out[1], 20)
    tilebench.compile(program, target=target)(torch.from_numpy(x), torch.from_numpy(w), y)
    np.testing.assert_array_equal(y.numpy(), expected(x, w, kernel, stride, dilation, pad, out))


def test_what_is_no_image_or_no_window_is_refused():
    def compiled(build):
        with pytest.raises(TypeTileError) as caught:
            tilebench.compile(build, target="interp")
        assert caught.value.at is not None
        return caught.value

    @T.prim_func
    def flat(X: T.Tensor((8, 8), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8, 8), "float32")
            T.im2col(X, tile, 0, 0, 3, 1, 1, 1)

    @T.prim_func
    def no_stride(X: T.Tensor((1, 8, 8, 4), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8, 8), "float32")
            T.im2col(X, tile, 0, 0, 3, 0, 1, 1)

    assert "four dimensions" in compiled(flat).what
    assert "stride=0" in compiled(no_stride).what


def test_the_older_name_is_the_same():
    assert T.c2d_im2col is T.im2col
