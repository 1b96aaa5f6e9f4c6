"""Random layouts: digits that tile a shape exactly, shuffled between registers and threads, with replicas."""

from __future__ import annotations

from hypothesis import strategies as st

from tilebench.layouts import Digit, FragmentLayout

SIZES = st.sampled_from([1, 2, 2, 2, 3, 4, 5])


@st.composite
def fragments(
    draw: st.DrawFn, sizes: st.SearchStrategy[int] = SIZES, ranks: tuple[int, int] = (1, 3)
) -> FragmentLayout:
    """A layout whose digits tile its shape; the last dimension's extent may be cut to make padding."""
    rank = draw(st.integers(*ranks))
    reg: list[Digit] = []
    thread: list[Digit] = []
    shape: list[int] = []
    for dim in range(rank):
        stride = 1
        for size in draw(st.lists(sizes, min_size=1, max_size=2)):
            (reg if draw(st.booleans()) else thread).append(Digit(size, dim, stride))
            stride *= size
        shape.append(stride)
    for _ in range(draw(st.integers(0, 2))):
        (reg if draw(st.integers(0, 4)) == 0 else thread).append(Digit(draw(sizes), None))
    if draw(st.booleans()) and shape[-1] > 1:
        shape[-1] = draw(st.integers(1, shape[-1]))
    layout = FragmentLayout(
        tuple(shape), tuple(draw(st.permutations(reg))), tuple(draw(st.permutations(thread)))
    )
    if layout.threads * layout.registers <= 128:
        return layout
    ones = (1,) * (rank - 1)
    return FragmentLayout((8, *ones), (Digit(2, 0, 1),), (Digit(4, 0, 2),))


def power_of_two_fragments() -> st.SearchStrategy[FragmentLayout]:
    """Layouts that have F2 columns, apart from ragged ones."""
    return fragments(sizes=st.sampled_from([1, 2, 4]))
