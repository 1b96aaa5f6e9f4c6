"""Small kernels that use T.copy: tails, slices of more dimensions, conversions, every scope."""

from __future__ import annotations

from tilebench.ir.tile import Kernel
from tilebench.ops.copy.spec import copy
from tilebench.ops.examples import Draft, tile


def tails_in_two_dimensions() -> Kernel:
    """A tile that hangs over both edges."""
    d = Draft("copy_tails", (2, 3))
    bx, by = d.blocks
    a, b = d.tensor("A", (100, 70), "float16"), d.tensor("B", (100, 70), "float16", "out")
    shared = d.shared("A_shared", (64, 32), "float16")
    d.add(copy(a[bx * 64, by * 32], shared), copy(shared, b[bx * 64, by * 32]))
    return d.kernel()


def conversion_through_a_fragment() -> Kernel:
    """float32 -> float16 -> bfloat16."""
    d = Draft("copy_converts", (1,))
    a, b = d.tensor("A", (48, 33), "float32"), d.tensor("B", (48, 33), "bfloat16", "out")
    fragment = d.fragment("A_local", (48, 33), "float16")
    d.add(copy(a, fragment), copy(fragment, b))
    return d.kernel()


def one_head_of_a_tensor_of_four_dimensions() -> Kernel:
    """Slices with scalar indices: batch and head."""
    d = Draft("copy_head", (3, 2))
    block, head = d.blocks
    a, b = d.tensor("K", (2, 50, 2, 24), "float16"), d.tensor("V", (2, 2, 50, 24), "float32", "out")
    shared = d.shared("K_shared", (20, 24), "float16")
    for batch in range(2):
        d.add(
            copy(tile(a, batch, (block * 20, 20), head, (0, 24)), shared),
            copy(shared, tile(b, batch, head, (block * 20, 20), (0, 24))),
        )
    return d.kernel()


def narrow_types() -> Kernel:
    """fp8 and 8-bit integers."""
    d = Draft("copy_narrow", (1,))
    a, b = d.tensor("A", (40,), "float32"), d.tensor("B", (40,), "float8_e4m3", "out")
    c, e = d.tensor("C", (7, 5), "int32"), d.tensor("E", (7, 5), "int8", "out")
    one, two = d.shared("one", (40,), "float8_e5m2"), d.fragment("two", (7, 5), "int16")
    d.add(copy(a, one), copy(one, b), copy(c, two), copy(two, e))
    return d.kernel()


def a_symbolic_tensor_with_strides() -> Kernel:
    """A tensor whose rows are known at the call."""
    from tilebench.ir.dtype import int32
    from tilebench.ir.expr import Var

    d = Draft("copy_symbolic", (4,))
    n = Var("n", dtype=int32)
    a, b = d.tensor("A", (n, 8), "float32"), d.tensor("B", (n, 8), "float32", "out")
    rows = d.shared("rows", (16, 8), "float32")
    (bx,) = d.blocks
    d.add(copy(a[bx * 16, 0], rows), copy(rows, b[bx * 16, 0]))
    return d.kernel()


EXAMPLES = (
    tails_in_two_dimensions,
    conversion_through_a_fragment,
    one_head_of_a_tensor_of_four_dimensions,
    narrow_types,
    a_symbolic_tensor_with_strides,
)
