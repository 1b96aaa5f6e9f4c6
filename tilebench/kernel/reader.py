"""Reading the arguments of a call: a function written out for one row of kinds, so that no step is a loop's.

For (tensor of float32, number, tensor of float32) on a GPU the function is

    def read(v0, v1, v2):
        p0, p2 = v0.data_ptr(), v2.data_ptr()
        return (
            (0, v0.dtype, v0.shape, v0.stride(), v0.device, v0.is_neg(), v2.dtype, ...),
            [p0, v1, p2],
            (v0.untyped_storage().nbytes() - v0.storage_offset() * 4, ...),
            p0 & 15 | p2 & 15,
        )

which takes half the time of the same in a loop. Torch's attributes are what a call costs: each is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Read = Callable[..., tuple[tuple[Any, ...], list[Any], tuple[int, ...], int]]
"""Arguments -> (signature, addresses and numbers, bytes from each tensor to the end of its memory, bits of
the addresses that should be 0). Raises RuntimeError for a tensor without strides or without one memory.
"""

_FACTS = "v{0}.dtype, v{0}.shape, v{0}.stride(), v{0}.device, v{0}.is_neg(), "
_ROOM = "v{0}.untyped_storage().nbytes() - v{0}.storage_offset() * {1}, "


def make_reader(row: int, tensors: Sequence[tuple[int, int] | None], with_numbers: bool) -> Read:
    """The reader of calls with these arguments.

    row: begins the signature, another one for other kinds; tensors: (bytes of an element, bytes that the
    address is a multiple of) of each argument, None for a number; with_numbers: numbers are in the signature.
    """
    signature, values, rooms, bits = f"{row}, ", "", "", ""
    for i, tensor in enumerate(tensors):
        if tensor is None:
            signature += f"v{i}, " if with_numbers else ""
            values += f"v{i}, "
            continue
        size, multiple = tensor
        signature += _FACTS.format(i)
        values += f"p{i}, "
        rooms += _ROOM.format(i, size)
        bits += f" | p{i} & {multiple - 1}"
    addresses = "".join(f"    p{i} = v{i}.data_ptr()\n" for i, t in enumerate(tensors) if t is not None)
    text = (
        f"def read({', '.join(f'v{i}' for i in range(len(tensors)))}):\n{addresses}"
        f"    return ({signature}), [{values}], ({rooms}), 0{bits}\n"
    )
    made: dict[str, Any] = {}
    exec(compile(text, "<reader of arguments>", "exec"), {}, made)
    return made["read"]
