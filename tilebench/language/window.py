"""`T.im2col`: the windows of a convolution, as rows of a matrix tile."""

from __future__ import annotations

from typing import Any

from tilebench.errors import TypeTileError
from tilebench.ir import expr as ir
from tilebench.ir.dtype import int32
from tilebench.ir.expr import Expr, Load, Var, as_expr, const, int_value
from tilebench.ir.tile import Buffer, Parallel, Region, Stmt, Store
from tilebench.ops.base import as_region


def im2col(
    img: Any,
    col: Any,
    nhw_step: Any,
    c_step: Any,
    kernel: int,
    stride: int,
    dilation: int,
    pad: int,
    eviction_policy: Any = None,
    annotations: Any = None,
) -> Stmt:
    """A tile of the matrix whose product with the flattened weights is a 2-D convolution.

    img: (batch, height, width, channels), global; col: the tile (rows, columns), whose first row is output
    position nhw_step * rows of (batch, out height, out width), and first column place c_step * columns
    of (kernel, kernel, channels). What lies outside of the image, or behind the last row or column, is 0.
    """
    del eviction_policy, annotations
    if not isinstance(img, Buffer) or len(img.shape) != 4 or img.scope != "global":
        raise TypeTileError(
            "TB252",
            "im2col: the image is a whole tensor of four dimensions",
            why="its windows are found by batch, height, width and channel",
            fix="declare it as T.Tensor((N, H, W, C), dtype)",
        )
    tile = as_region(col, "the columns")
    wide = [d for d, n in enumerate(tile.shape) if n != 1]
    places = wide if len(wide) == 2 else list(range(len(tile.shape)))[-2:]
    if len(tile.shape) < 2 or not set(wide) <= set(places):
        raise TypeTileError(
            "TB252",
            f"im2col: {tile.buffer.name} is not a matrix",
            why="a row is a window, a column a place in it",
            fix="pass a 2-D tile, or a 2-D slice of one",
        )
    numbers = {"kernel": kernel, "stride": stride, "dilation": dilation, "pad": pad}
    fixed = {k: int_value(v) if isinstance(v, Expr) else v for k, v in numbers.items()}
    for name, value in fixed.items():
        if not isinstance(value, int) or value < (0 if name == "pad" else 1):
            raise TypeTileError(
                "TB209",
                f"im2col: {name}={numbers[name]}",
                why="the window is known when the kernel is compiled",
                fix=f"pass a whole number, as in {name}=1",
            )
    return _nest(
        img, tile, places, as_expr(nhw_step), as_expr(c_step), *(int(v or 0) for v in fixed.values())
    )


def _nest(
    img: Buffer,
    tile: Region,
    places: list[int],
    nhw_step: Expr,
    c_step: Expr,
    kernel: int,
    stride: int,
    dilation: int,
    pad: int,
) -> Stmt:
    batch, height, width, channels = img.shape
    reach = dilation * (kernel - 1) + 1
    out_h, out_w = ((n + (2 * pad - reach)) // stride + 1 for n in (height, width))
    rows, columns = (tile.shape[d] for d in places)
    i, j = Var("i", dtype=int32), Var("j", dtype=int32)
    m, k = nhw_step * rows + i, c_step * columns + j
    n, oh, ow = m // (out_h * out_w), m // out_w % out_h, m % out_w
    kh, kw, c = k // (channels * kernel), k // channels % kernel, k % channels
    y, x = oh * stride + kh * dilation - pad, ow * stride + kw * dilation - pad
    inside: Any = True
    for condition in (n < batch, kh < kernel, y >= 0, y < height, x >= 0, x < width):
        inside = ir.binary("and", inside, condition)
    value = ir.select(inside, Load(img, (n, y, x, c), dtype=img.dtype), const(0, img.dtype))
    at = list(tile.offsets)
    for d, v in zip(places, (i, j), strict=True):
        at[d] = at[d] + v
    return Parallel((i, j), (rows, columns), Store(tile.buffer, tuple(at), value.astype(tile.buffer.dtype)))


c2d_im2col = im2col

__all__ = ["c2d_im2col", "im2col"]
