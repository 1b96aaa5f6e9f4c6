"""Golden vectors of layout arithmetic that Python and JavaScript both read: python -m tests.views.vectors
rewrites them.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from tests.views.fixture import fragment_info, shared_info
from tilebench.codec import to_json
from tilebench.layouts import atoms
from tilebench.layouts.digits import Digit
from tilebench.layouts.fragment import FragmentLayout
from tilebench.layouts.shared import (
    SharedLayout,
    column_major,
    padded,
    row_major,
    swizzled,
    swizzled_transposed,
)
from tilebench.report import LayoutInfo
from tilebench.views import layout

PATH = Path(__file__).resolve().parent.parent / "golden" / "layout_vectors.json"

FRAGMENTS: dict[str, FragmentLayout] = {
    "the 4x4 example": FragmentLayout(
        (4, 4), (Digit(2, 1, 1), Digit(2, 0, 2)), (Digit(2, 1, 2), Digit(2, 0, 1))
    ),
    "mma accumulator": atoms.mma_accumulator((64, 32), (2, 2)),
    "row of an accumulator": atoms.mma_accumulator((64, 32), (2, 2)).project(1),
    "wgmma accumulator": atoms.wgmma_accumulator((64, 24), 1),
    "operand A, replicated": atoms.mma_operand_a((32, 32), (2, 2), 16),
    "padding": FragmentLayout((5, 6), (Digit(2, 1, 1), Digit(4, 1, 2)), (Digit(8, 0, 1),)),
    "rank 3": FragmentLayout((2, 4, 8), (Digit(2, 0, 1), Digit(4, 2, 1)), (Digit(2, 2, 4), Digit(4, 1, 1))),
    "size 3": FragmentLayout((3, 4), (Digit(3, 0, 1),), (Digit(4, 1, 1),)),
}
SHARED: dict[str, SharedLayout] = {
    "row-major": row_major((16, 24), 16),
    "padded": padded((16, 32), 32, 4),
    "128-byte rows": swizzled((16, 64), 16),
    "two panels": swizzled((16, 128), 16),
    "64-byte rows": swizzled((32, 32), 16),
    "32-byte rows": swizzled((32, 16), 16),
    "transposed": swizzled_transposed((64, 32), 16),
    "stages": swizzled((3, 8, 64), 16),
    "bytes": swizzled((8, 128), 8),
    "4 bits": row_major((8, 32), 4),
}


def table_info() -> LayoutInfo:
    """A fragment that no digits describe: a triangle over four threads, with gaps."""
    table = np.array([0, 1, 5, -1, 2, 3, 6, 7, 4, -1, -1, -1, 8, 9, 10, 11], np.int32)
    return LayoutInfo("triangle", "fragment", (3, 4), 32, 4, 4, 1, table=table)


def cases() -> list[dict[str, Any]]:
    """name, info, and what Python says: elements and holders of a fragment, byte offsets of a shared tile."""
    found: list[dict[str, Any]] = []
    infos = [(name, fragment_info(name, f, 32, "", 0)) for name, f in FRAGMENTS.items()] + [
        ("table", table_info())
    ]
    for name, info in infos:
        held = layout.holders(info)
        elements = layout.fragment(info).elements().ravel()
        found.append(
            {
                "name": name,
                "info": to_json(info),
                "elements_crc": crc(elements),
                "thread": held.thread.tolist() if held.thread.size <= 256 else None,
                "thread_crc": crc(held.thread),
                "register_crc": crc(held.register),
                "count_crc": crc(held.count),
            }
        )
    for name, tile in SHARED.items():
        info = shared_info(name, tile, "", 0)
        found.append(
            {
                "name": name,
                "info": to_json(info),
                "bytes_crc": crc((tile.offsets() * tile.itemsize_bits // 8).ravel()),
                "swizzled_crc": {str(span): otherwise(name, tile, span) for span in (0, 32, 64, 128)},
            }
        )
    return found


def otherwise(name: str, tile: SharedLayout, span: int) -> int | None:
    """The bytes of the same tile with another swizzle; None where a row is no multiple of the span."""
    shape, bits = tile.shape, tile.itemsize_bits
    turned = name == "transposed"
    row = shape[0] if turned else shape[-1]
    if span and row * bits % (span * 8):
        return None
    if not span:
        made = column_major(shape, bits) if turned else row_major(shape, bits)
    else:
        made = swizzled_transposed(shape, bits, span) if turned else swizzled(shape, bits, span)
    return crc((made.offsets() * bits // 8).ravel())


def crc(values: np.ndarray) -> int:
    """CRC-32 of the values as little-endian int32."""
    return zlib.crc32(np.ascontiguousarray(values, "<i4").tobytes())


if __name__ == "__main__":
    PATH.write_text(json.dumps(cases()) + "\n")
    print(PATH, PATH.stat().st_size)
