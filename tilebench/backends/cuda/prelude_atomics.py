"""The device functions of atomics by operation and element type: `T atomic_<op>(T*, T)` gives the old value.

What the hardware lacks is a compare-and-swap loop on the word around it. Source: PTX ISA, "atom".
"""

from __future__ import annotations

from functools import cache

from tilebench.backends.cuda.prelude import PIECES, Piece, c_name, conversions, decode_text, encode_text
from tilebench.ir.dtype import DType


@cache
def atomic_piece(op: str, dtype: DType) -> Piece:
    """The piece that holds `T atomic_<op>(T*, T)` for an element type."""
    name = f"atomic_{op}_{c_name(dtype).replace(' ', '_')}"
    return PIECES.get(name) or _make_atomic(name, op, dtype)


_NATIVE = {
    "add": ("int32", "uint32", "uint64", "float32", "float64"),
    "min": ("int32", "uint32", "int64", "uint64"), "max": ("int32", "uint32", "int64", "uint64"),
    "and": ("int32", "uint32", "int64", "uint64"), "or": ("int32", "uint32", "int64", "uint64"),
    "xor": ("int32", "uint32", "int64", "uint64"), "exch": ("int32", "uint32", "uint64", "float32"),
}  # fmt: skip
_BUILTIN = {"add": "Add", "min": "Min", "max": "Max", "and": "And", "or": "Or", "xor": "Xor", "exch": "Exch"}


def _make_atomic(name: str, op: str, dtype: DType) -> Piece:
    c = c_name(dtype)
    head = f"DEVICE {c} atomic_{op}({c}* p, {c} v) "
    if dtype.name in _NATIVE[op]:
        return Piece(name, ((0, head + f"{{ return atomic{_BUILTIN[op]}(p, v); }}"),))
    if op == "add" and dtype.name == "int64":
        u = "unsigned long long"
        return Piece(name, ((0, head + f"{{ return ({c})atomicAdd(({u}*)p, ({u})v); }}"),))
    needs = ["atomic_loop", *conversions(dtype)]
    a, b = decode_text(dtype, "x"), decode_text(dtype, "v")
    kind = "f" if dtype.bits < 64 else ""
    changed = {
        "add": f"{a} + {b}",
        "min": f"fmin{kind}({a}, {b})" if dtype.is_float else f"min({a}, {b})",
        "max": f"fmax{kind}({a}, {b})" if dtype.is_float else f"max({a}, {b})",
        "and": f"{a} & {b}", "or": f"{a} | {b}", "xor": f"{a} ^ {b}", "exch": "v",
    }[op]  # fmt: skip
    if op != "exch":
        changed = encode_text(dtype, changed)
    needs.append("bit_cast")
    word = {8: "unsigned char", 16: "unsigned short", 32: "unsigned", 64: "unsigned long long"}[
        dtype.bytes * 8
    ]
    wide = "unsigned long long" if dtype.bytes == 8 else "unsigned"
    change = (
        f"  auto change = [=]({wide} w) {{\n    {c} x = bit_cast<{c}>(({word})w), r = {changed};\n"
        f"    return ({wide})bit_cast<{word}>(r);\n  }};\n"
    )
    loop = f"atomic_loop(({wide}*)p, change)"
    if dtype.bytes < 4:
        loop = f"({word})atomic_loop_narrow<{dtype.bytes * 8}>(p, change)"
    text = head + f"{{\n{change}  return bit_cast<{c}>({loop});\n}}"
    return Piece(name, ((0, text),), tuple(needs))
