"""Element types: names, sizes, promotion, and their storage in NumPy (which has no bfloat16 and no fp8).

A value of a narrow float lives in two forms: *storage*, the bytes in memory (`storage_dtype`: uint16 for
bfloat16, uint8 for fp8), and *compute*, what NumPy can calculate with (`compute_dtype`: float32 holding
values that are exactly representable). `decode` and `encode` go between the two.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, cast

import numpy as np

Kind = Literal["bool", "int", "uint", "float"]


@dataclass(frozen=True, eq=False)
class DType:
    """An element type. Equal to its name, so `buffer.dtype == "float16"` holds. `lanes` > 1 is a vector."""

    name: str
    kind: Kind
    bits: int
    lanes: int = 1

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DType):
            return self.name == other.name
        if isinstance(other, str):
            return self.name == ALIASES.get(other, other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name

    @property
    def bytes(self) -> int:
        """Bytes of one element (4-bit types are stored one to a byte)."""
        return max(1, self.bits * self.lanes // 8)

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type of any width."""
        return self.kind == "float"

    @property
    def is_int(self) -> bool:
        """Signed or unsigned integer, not bool."""
        return self.kind in ("int", "uint")

    @property
    def storage_dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the bytes in memory."""
        return np.dtype(_STORAGE[self.name])

    @property
    def compute_dtype(self) -> np.dtype[Any]:
        """The NumPy dtype that holds this type's values exactly and can calculate."""
        return np.dtype(_COMPUTE.get(self.name, _STORAGE[self.name]))

    @property
    def unit_roundoff(self) -> float:
        """u: half the distance from 1 to the next value (0 for integers)."""
        return _ROUNDOFF.get(self.name, 0.0)

    @property
    def min(self) -> float | int:
        """Lowest finite value."""
        if self.name == "float8_e8m0fnu":
            return 2.0**-127
        if self.is_float:
            return -_LARGEST[self.name]
        return 0 if self.kind != "int" else -(1 << (self.bits - 1))

    @property
    def max(self) -> float | int:
        """Largest finite value."""
        if self.is_float:
            return _LARGEST[self.name]
        return (1 << (self.bits - (self.kind == "int"))) - 1


def _make(name: str, kind: Kind, bits: int) -> DType:
    return DType(name, kind, bits)


bool_ = _make("bool", "bool", 8)
int4, int8, int16, int32, int64 = (_make(f"int{b}", "int", b) for b in (4, 8, 16, 32, 64))
uint4, uint8, uint16, uint32, uint64 = (_make(f"uint{b}", "uint", b) for b in (4, 8, 16, 32, 64))
float16, float32, float64 = (_make(f"float{b}", "float", b) for b in (16, 32, 64))
bfloat16 = _make("bfloat16", "float", 16)
tfloat32 = _make("tfloat32", "float", 32)
float8_e4m3 = _make("float8_e4m3", "float", 8)
float8_e5m2 = _make("float8_e5m2", "float", 8)
float8_e8m0fnu = _make("float8_e8m0fnu", "float", 8)

DTYPES: dict[str, DType] = {
    d.name: d
    for d in (
        bool_, int4, int8, int16, int32, int64, uint4, uint8, uint16, uint32, uint64,
        float16, bfloat16, float32, tfloat32, float64, float8_e4m3, float8_e5m2, float8_e8m0fnu,
    )
}  # fmt: skip
ALIASES = {
    "float": "float32", "half": "float16", "double": "float64", "int": "int32", "uint": "uint32",
    "short": "int16", "long": "int64", "float8_e4m3fn": "float8_e4m3", "bool_": "bool", "e4m3": "float8_e4m3",
    "e5m2": "float8_e5m2", "bf16": "bfloat16", "f16": "float16", "f32": "float32", "tf32": "tfloat32",
    "fp16": "float16", "fp32": "float32",
}  # fmt: skip
_STORAGE = {
    "bool": "bool", "int4": "int8", "uint4": "uint8", "bfloat16": "uint16", "tfloat32": "float32",
    "float8_e4m3": "uint8", "float8_e5m2": "uint8", "float8_e8m0fnu": "uint8",
    **{n: n for n in DTYPES if re.fullmatch(r"u?int(8|16|32|64)|float(16|32|64)", n)},
}  # fmt: skip
_COMPUTE = {
    "bfloat16": "float32",
    "float8_e4m3": "float32",
    "float8_e5m2": "float32",
    "float8_e8m0fnu": "float32",
}
_ROUNDOFF = {
    "float64": 2.0**-53, "float32": 2.0**-24, "tfloat32": 2.0**-11, "float16": 2.0**-11, "bfloat16": 2.0**-8,
    "float8_e4m3": 2.0**-4, "float8_e5m2": 2.0**-3,
    "float8_e8m0fnu": 1.0,
}  # fmt: skip
_LARGEST = {
    "float64": float(np.finfo(np.float64).max), "float32": float(np.finfo(np.float32).max),
    "tfloat32": float(np.finfo(np.float32).max), "float16": 65504.0, "bfloat16": 3.3895313892515355e38,
    "float8_e4m3": 448.0, "float8_e5m2": 57344.0, "float8_e8m0fnu": 2.0**127,
}  # fmt: skip


@cache
def parse_dtype(name: str) -> DType:
    """The DType called `name` ('float16', 'half', 'torch.float16', 'float16x4'). Raises KeyError."""
    plain = name.removeprefix("torch.").removeprefix("numpy.")
    plain = ALIASES.get(plain, plain)
    if plain in DTYPES:
        return DTYPES[plain]
    vector = re.fullmatch(r"(\w+?)x(\d+)", plain)
    if vector and ALIASES.get(vector[1], vector[1]) in DTYPES:
        base = DTYPES[ALIASES.get(vector[1], vector[1])]
        return DType(f"{base.name}x{vector[2]}", base.kind, base.bits, int(vector[2]))
    raise KeyError(name)


def as_dtype(value: Any) -> DType:
    """A DType from a DType, a name, a torch or NumPy dtype, or a Python type. Raises KeyError."""
    if isinstance(value, DType):
        return value
    if value is bool:
        return bool_
    if value is int:
        return int32
    if value is float:
        return float32
    if isinstance(value, str):
        return parse_dtype(value)
    if isinstance(value, type) and issubclass(value, np.generic):
        return parse_dtype(np.dtype(cast("type[np.generic[Any]]", value)).name)
    named = cast("Any", value)
    return parse_dtype(str(getattr(named, "name", None) or named))


def promote(a: DType, b: DType) -> DType:
    """The common type of `a op b`: float beats integer, then more bits, then signed loses to unsigned."""
    if a == b:
        return a
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if a.bits != b.bits or a.kind == "bool" or b.kind == "bool":
        if a.kind == "bool" or b.kind == "bool":
            return b if a.kind == "bool" else a
        return a if a.bits > b.bits else b
    if a.is_float:  # float16 with bfloat16, the two fp8s: no exact common 16-bit type
        return float32
    return a if a.kind == "uint" else b


# ------------------------------------------------------------------ storage <-> compute


def _minifloat_table(exponent_bits: int, mantissa_bits: int, finite_only: bool) -> np.ndarray:
    """Value of every 8-bit code. finite_only: e4m3fn, whose only special is NaN at 0x7f."""
    codes = np.arange(256)
    sign = np.where(codes & 0x80, -1.0, 1.0)
    exponent = (codes >> mantissa_bits) & ((1 << exponent_bits) - 1)
    mantissa = (codes & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
    bias = (1 << (exponent_bits - 1)) - 1
    value = np.where(exponent == 0, mantissa * 2.0 ** (1 - bias), (1 + mantissa) * 2.0 ** (exponent - bias))
    if finite_only:
        value = np.where((codes & 0x7F) == 0x7F, np.nan, value)
    else:
        top = exponent == (1 << exponent_bits) - 1
        value = np.where(top, np.where(mantissa == 0, np.inf, np.nan), value)
    return (sign * value).astype(np.float32)


_POWERS = np.append(2.0 ** np.arange(-127, 128), np.nan).astype(np.float32)
_FP8 = {
    "float8_e4m3": _minifloat_table(4, 3, True), "float8_e5m2": _minifloat_table(5, 2, False),
    "float8_e8m0fnu": _POWERS,
}  # fmt: skip


def decode(stored: np.ndarray, dtype: DType) -> np.ndarray:
    """Values (compute form) of bytes in storage form; same shape."""
    if dtype == "bfloat16":
        return (stored.astype(np.uint32) << 16).view(np.float32)
    if dtype.name in _FP8:
        return _FP8[dtype.name][stored]
    return stored


CANONICAL_NAN = 0x7FFF
"""The NaN that instructions on float16 and bfloat16 give (PTX ISA); conversions to bfloat16 keep it."""


def encode(values: np.ndarray, dtype: DType) -> np.ndarray:
    """Bytes (storage form) of values; rounds to nearest even; finite values saturate in fp8.

    An infinity is one in float8_e5m2 too, and the largest finite value in float8_e4m3, which has none.
    float8_e8m0fnu has powers of two alone, neither zero nor sign: magnitudes are rounded up, so that what is
    divided by such a scale never overflows (as CUDA's cudaRoundPosInf does).
    """
    if dtype == "bfloat16":
        bits = np.asarray(values, dtype=np.float32).view(np.uint32)
        rounded = ((bits + np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1))) >> 16).astype(np.uint16)
        nan = np.where(bits == CANONICAL_NAN << 16, np.uint16(CANONICAL_NAN), np.uint16(0x7FC0))
        return np.where(np.isnan(values), nan, rounded)
    if dtype == "float8_e8m0fnu":
        powers = np.asarray(values)
        code = np.searchsorted(_POWERS[:-1], np.abs(powers)).clip(0, 254)
        return np.where(np.isnan(powers), 255, code).astype(np.uint8)
    if dtype.name in _FP8:
        return _encode_fp8(np.asarray(values, dtype=np.float32), dtype)
    if dtype == "tfloat32":
        return round_tf32(np.asarray(values, dtype=np.float32))
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(dtype.storage_dtype)


def _encode_fp8(values: np.ndarray, dtype: DType) -> np.ndarray:
    table = _FP8[dtype.name]
    positive = table[:0x7F] if dtype == "float8_e4m3" else table[:0x7C]  # finite codes, ascending
    magnitude = np.minimum(np.abs(values), positive[-1])
    high = np.clip(np.searchsorted(positive, magnitude), 0, len(positive) - 1)
    low = np.maximum(high - 1, 0)
    up, down = positive[high] - magnitude, magnitude - positive[low]
    code = np.where((down < up) | ((down == up) & (low % 2 == 0)), low, high).astype(np.uint8)
    if dtype == "float8_e5m2":
        code = np.where(np.isinf(values), np.uint8(0x7C), code)
    code = np.where(np.isnan(values), np.uint8(0x7F), code)
    return (code | (np.signbit(values).astype(np.uint8) << 7)).astype(np.uint8)


def round_tf32(values: np.ndarray) -> np.ndarray:
    """float32 values rounded to tf32's 10 mantissa bits, ties away from zero (PTX cvt.rna.tf32.f32)."""
    bits = np.asarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def round_to(values: np.ndarray, dtype: DType) -> np.ndarray:
    """`values` rounded to `dtype`, in compute form (what a store followed by a load gives)."""
    return decode(encode(values, dtype), dtype)
