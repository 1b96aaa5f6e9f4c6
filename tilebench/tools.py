"""`tilebench.tools`: pictures of layouts, under TileLang's names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilebench.layouts import FragmentLayout, SharedLayout

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["plot_layout"]


def plot_layout(
    layout: Any,
    save_directory: str = "./tmp",
    name: str = "layout",
    colormap: str | None = None,
    verbose: bool = False,
    formats: str | Sequence[str] = "pdf",
    view: str = "input",
    grid_shape: tuple[int, int] | None = None,
) -> list[Path]:
    """Draw where a layout puts each element, one file a format ('all': pdf, png, svg); gives the paths.

    A fragment's cells say thread and register and are coloured by thread; a memory layout's cells say the
    offset. view='output' draws the target's places with the element that each holds. grid_shape: rows and
    columns to draw a layout of another rank on. Needs matplotlib.
    """
    texts, colours = _cells(layout, view)
    if grid_shape is not None or texts.ndim != 2:
        shape = grid_shape or (int(np.prod(texts.shape[:-1], dtype=int)), texts.shape[-1])
        texts, colours = texts.reshape(shape), colours.reshape(shape)
    from matplotlib.figure import Figure

    rows, columns = texts.shape
    figure = Figure(figsize=(max(2.0, columns * 0.6), max(1.5, rows * 0.45 + 0.5)))
    axes: Any = figure.subplots()  # pyright: ignore[reportUnknownMemberType]
    axes.imshow(colours, cmap=colormap or ("tab20" if isinstance(layout, FragmentLayout) else "viridis"),
                alpha=0.45, aspect="auto")  # fmt: skip
    for i in range(rows):
        for j in range(columns):
            axes.text(j, i, str(texts[i, j]), ha="center", va="center", fontsize=6)
    axes.set_title(name)
    axes.set_xticks(range(columns))
    axes.set_yticks(range(rows))
    axes.tick_params(labelsize=5)
    folder = Path(save_directory)
    folder.mkdir(parents=True, exist_ok=True)
    wanted = ["pdf", "png", "svg"] if formats == "all" else formats
    wanted = [f.strip() for f in wanted.split(",")] if isinstance(wanted, str) else list(wanted)
    paths = [folder / f"{name}.{suffix}" for suffix in wanted]
    for path in paths:
        figure.savefig(path)  # pyright: ignore[reportUnknownMemberType]
        if verbose:
            print(f"layout drawn in {path}")
    return paths


def _cells(layout: Any, view: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """What each cell says, and the number that colours it."""
    if view not in ("input", "output"):
        raise ValueError(f"view is 'input' or 'output', not {view!r}")
    if isinstance(layout, FragmentLayout):
        if view == "output":
            texts = np.full((layout.threads, layout.registers), "", object)
            for t in range(layout.threads):
                for r in range(layout.registers):
                    if layout.valid()[t, r]:
                        texts[t, r] = ",".join(str(int(x)) for x in layout.coords()[t, r])
            return texts, np.repeat(np.arange(layout.threads)[:, None], layout.registers, 1)
        texts, colours = np.full(layout.shape, "", object), np.zeros(layout.shape, int)
        for index in np.ndindex(*layout.shape):
            holders = layout.holders(*index)
            texts[index] = "\n".join(f"T{t} L{r}" for t, r in holders[:4])
            colours[index] = holders[0][0] if holders else -1
        return texts, colours
    if isinstance(layout, SharedLayout):
        places = layout.offsets()
        texts = places.astype(object)
    else:
        table = np.asarray(layout.table())
        extents = layout.get_output_shape()
        places = np.asarray(np.ravel_multi_index(tuple(np.moveaxis(table, -1, 0)), tuple(extents)))
        texts = np.empty(places.shape, object)
        for index in np.ndindex(*places.shape):
            texts[index] = ",".join(str(int(x)) for x in table[index])
    if view == "input":
        return texts, places
    size = int(places.max(initial=0)) + 1
    held = np.full(size, "", object)
    for index in np.ndindex(*places.shape):
        held[places[index]] = ",".join(str(i) for i in index)
    columns = places.shape[-1] if size % places.shape[-1] == 0 else size
    return held.reshape(-1, columns), np.arange(size).reshape(-1, columns)
