"""LLVM IR as text: types, constants, and a writer of one function's instructions."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import NamedTuple

from tilebench.ir.dtype import DType, bool_, int64


class V(NamedTuple):
    """A value: an SSA name or a literal, its dtype, and its lanes (1: the same for all lanes)."""

    name: str
    dtype: DType
    w: int = 1

    @property
    def literal(self) -> bool:
        """Whether it is a constant."""
        return not self.name.startswith("%")


def compute_type(dtype: DType) -> str:
    """What LLVM calculates with: narrow floats are kept as float, int4 as i8, bool as i1."""
    if dtype.kind == "bool":
        return "i1"
    if dtype.is_float:
        return "double" if dtype.bits == 64 else "float"
    return f"i{max(dtype.bits, 8)}"


def storage_type(dtype: DType) -> str:
    """What stands in memory."""
    if dtype.kind == "bool":
        return "i8"
    if dtype == "float16":
        return "half"
    if dtype == "bfloat16":
        return "i16"
    if dtype.is_float and dtype.bits == 8:
        return "i8"
    return compute_type(dtype)


def vector(scalar: str, w: int) -> str:
    """`<w x scalar>`, or the scalar for one lane."""
    return scalar if w == 1 else f"<{w} x {scalar}>"


def suffix(scalar: str, w: int) -> str:
    """The type part of an overloaded intrinsic's name: 'v8f32', 'i64'."""
    name = {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}.get(scalar, scalar)
    return name if w == 1 else f"v{w}{name}"


def literal(value: int | float | bool, scalar: str) -> str:
    """A constant of a scalar LLVM type."""
    if scalar in ("float", "double"):
        number = float(value)
        if scalar == "float" and number == number and abs(number) != float("inf"):
            try:
                number = struct.unpack("f", struct.pack("f", number))[0]
            except OverflowError:
                number = float("inf") if number > 0 else float("-inf")
        return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
    if scalar == "i1":
        return "true" if value else "false"
    return str(int(value))


def i64(value: int) -> V:
    """An i64 constant."""
    return V(str(value), int64)


@dataclass
class Loop:
    """A loop being written: where `break` and `continue` go."""

    leave: str
    again: str


@dataclass
class Text:
    """The instructions of one function. `line` is the user's line that is being translated."""

    lines: list[str] = field(default_factory=list[str])
    places: list[int] = field(default_factory=list[int])
    allocas: list[str] = field(default_factory=list[str])
    declares: dict[str, str] = field(default_factory=dict[str, str])
    serial: int = 0
    line: int = 0
    block: str = "entry"
    closed: bool = False

    def put(self, text: str) -> None:
        """One line; nothing after a terminator until the next label."""
        if self.closed:
            return
        self.lines.append("  " + text)
        self.places.append(self.line)

    def op(self, text: str) -> str:
        """An instruction with a result; gives the result's name."""
        self.serial += 1
        name = f"%t{self.serial}"
        self.put(f"{name} = {text}")
        return name

    def fresh(self, hint: str) -> str:
        """A label nobody has."""
        self.serial += 1
        return f"{hint}{self.serial}"

    def start(self, label: str) -> None:
        """Begin a basic block (falling into it from the one before)."""
        if not self.closed:
            self.put(f"br label %{label}")
        self.closed = False
        self.lines.append(f"{label}:")
        self.places.append(self.line)
        self.block = label

    def jump(self, label: str) -> None:
        """End the block."""
        self.put(f"br label %{label}")
        self.closed = True

    def branch(self, condition: str, yes: str, no: str, unlikely: bool = False) -> None:
        """End the block on a condition. unlikely: `yes` is the way out on errors."""
        note = ", !prof !0" if unlikely else ""
        self.put(f"br i1 {condition}, label %{yes}, label %{no}{note}")
        self.closed = True

    def finish(self) -> None:
        """Return from the function."""
        self.put("ret void")
        self.closed = True

    def alloca(self, type_: str, count: int = 1, align: int = 64) -> str:
        """Stack memory, made at the function's entry."""
        self.serial += 1
        name = f"%s{self.serial}"
        many = f", i64 {count}" if count != 1 else ""
        self.allocas.append(f"  {name} = alloca {type_}{many}, align {align}")
        return name

    def call(self, name: str, result: str, arguments: list[tuple[str, str]], flags: str = "") -> str:
        """A call of an external function, declared on first use."""
        types = ", ".join(t for t, _ in arguments)
        self.declares[name] = f"declare {result} @{name}({types})"
        given = ", ".join(f"{t} {v}" for t, v in arguments)
        text = f"call {flags}{result} @{name}({given})"
        if result == "void":
            self.put(text)
            return ""
        return self.op(text)


def mask(name: str, w: int) -> V:
    """A condition."""
    return V(name, bool_, w)
