"""Messages between this process and its workers: a JSON header with its length before it, raw buffers after
it.

No pickle, no port.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import IO, Any

LARGEST_FRAME = 1 << 34


def write_frame(stream: IO[bytes], header: Mapping[str, Any], buffers: Sequence[bytes] = ()) -> None:
    """One message: header (plus the buffers' sizes), then the buffers."""
    head = json.dumps({**header, "sizes": [len(b) for b in buffers]}).encode()
    stream.write(struct.pack("<Q", len(head)) + head)
    for buffer in buffers:
        stream.write(buffer)
    stream.flush()


def read_frame(stream: IO[bytes]) -> tuple[dict[str, Any], list[bytes]]:
    """The next message. Raises EOFError when the other side ended before it was complete."""
    header = json.loads(_exactly(stream, struct.unpack("<Q", _exactly(stream, 8))[0]))
    return header, [_exactly(stream, n) for n in header["sizes"]]


def _exactly(stream: IO[bytes], count: int) -> bytes:
    if not 0 <= count < LARGEST_FRAME:
        raise EOFError("a frame of impossible size")
    parts: list[bytes] = []
    while count:
        part = stream.read(count)
        if not part:
            raise EOFError("the other side ended")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
