"""Mathematical functions. f32 exp, exp2, log, log2, tanh and sigmoid are vector code of our own (at most 2
ulp; polynomials are Chebyshev interpolants made when the module is loaded); the others call the C library
lane by lane (1 ulp or so).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from tilebench.backends.cpu.text import V, compute_type, suffix, vector
from tilebench.backends.cpu.values import Values
from tilebench.ir.dtype import DType, bool_, float32, float64, int32

_LIBRARY = {
    "exp": "exp", "exp2": "exp2", "exp10": "exp10", "log": "log", "log2": "log2", "log10": "log10",
    "sin": "sin", "cos": "cos", "tan": "tan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh",
    "asin": "asin", "acos": "acos", "atan": "atan", "pow": "pow", "log1p": "log1p", "asinh": "asinh",
    "acosh": "acosh", "atanh": "atanh", "erf": "erf", "atan2": "atan2", "hypot": "hypot",
    "nextafter": "nextafter",
    "fmod": "fmod",
}  # fmt: skip
_ROUNDING = {"floor": "floor", "ceil": "ceil", "round": "round", "trunc": "trunc", "nearbyint": "rint"}
MAGIC = 12582912.0  # 1.5 * 2**23: adding it rounds a small f32 to an integer in the low bits


@cache
def polynomial(name: str, low: float, high: float, degree: int) -> tuple[float, ...]:
    """Coefficients, lowest first, of the Chebyshev interpolant of one of _FUNCTIONS."""
    series = np.polynomial.Chebyshev.interpolate(_FUNCTIONS[name], degree, domain=[low, high])
    return tuple(float(c) for c in series.convert(kind=np.polynomial.Polynomial).coef)


def _log_rest(f: np.ndarray) -> np.ndarray:
    """(log(1 + f) - f + f*f/2) / f**3."""
    small = np.abs(f) < 1e-3
    safe = np.where(small, 0.5, f)
    return np.where(small, 1 / 3 - f / 4 + f * f / 5, (np.log1p(safe) - safe + safe * safe / 2) / safe**3)


def _tanh_rest(z: np.ndarray) -> np.ndarray:
    """(tanh(x) / x - 1) / z with z = x*x."""
    small = z < 1e-4
    x = np.sqrt(np.where(small, 0.25, np.maximum(z, 0)))
    return np.where(small, -1 / 3 + 2 * z / 15, (np.tanh(x) / x - 1) / (x * x))


_FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp2": np.exp2,
    "exp": np.exp,
    "log": _log_rest,
    "tanh": _tanh_rest,
}


class Math(Values):
    """Intrinsics of one value or more."""

    def intrinsic(self, name: str, args: list[V], result: DType) -> V:
        """The value of an elementwise intrinsic of ir/intrinsics.py."""
        args = list(self.together(*args))
        a, w = args[0], args[0].w
        dtype = a.dtype
        match name:
            case "abs":
                if dtype.is_float:
                    return self.unary("fabs", a)
                return a if dtype.kind != "int" else self.settle(self.unary("abs", a, ("i1", "false")))
            case "isnan":
                return self.compare("fcmp uno", a, a)
            case "isinf":
                return self.compare("fcmp oeq", self.unary("fabs", a), self.constant(math.inf, dtype))
            case "isfinite":
                return self.compare("fcmp one", self.unary("fabs", a), self.constant(math.inf, dtype))
            case "popcount" | "clz":
                return self._count(name, a)
            case "reinterpret":
                return self._reinterpret(a, result)
            case "dp4a":
                return self._dp4a(args)
            case "copysign":
                return V(self.several("copysign", *args).name, dtype, w)
            case "sqrt":
                return self.settle(self.unary("sqrt", a))
            case "rsqrt" | "rcp":
                below = self.unary("sqrt", a) if name == "rsqrt" else a
                return self.settle(V(self.raw("fdiv", self.constant(1.0, dtype, w), below).name, dtype, w))
            case "fma":
                return self.settle(V(self.several("fma", *args).name, dtype, w))
            case "ldexp":
                kind = self.type_of(a)
                power = self.convert(args[1], int32)
                full = f"llvm.ldexp.{suffix(compute_type(dtype), w)}.{suffix('i32', w)}"
                out = self.call(full, kind, [(kind, a.name), (self.type_of(power), power.name)])
                return self.settle(V(out, dtype, w))
            case "floor" | "ceil" | "round" | "trunc" | "nearbyint":
                return self.settle(self.unary(_ROUNDING[name], a))
            case _:
                pass
        if dtype.bits < 64:
            wide = [V(v.name, float32, w) for v in args]
            out = self._single(name, wide)
            return self.settle(V(out.name, dtype, w))
        if name == "sigmoid":
            one = self.constant(1.0, dtype, w)
            return self.raw("fdiv", one, self.raw("fadd", one, self.library("exp", [self.negate(a)])))
        return self.library(name, args)

    def library(self, name: str, args: list[V]) -> V:
        """A function of the C library, lane by lane."""
        dtype, w = args[0].dtype, args[0].w
        kind = compute_type(dtype)
        function = _LIBRARY[name] + ("f" if dtype.bits < 64 else "")
        if w == 1:
            return V(self.call(function, kind, [(kind, v.name) for v in args]), dtype)
        many = vector(kind, w)
        total = "poison"
        for lane in range(w):
            out = self.call(function, kind, [(kind, self.lane(v, lane).name) for v in args])
            total = self.op(f"insertelement {many} {total}, {kind} {out}, i64 {lane}")
        return V(total, dtype, w)

    # -------------------------------------------------------------- f32

    def _single(self, name: str, args: list[V]) -> V:
        match name:
            case "exp2":
                return self.exp2(args[0])
            case "exp":
                return self.exp(args[0])
            case "log":
                return self.log(args[0])
            case "log2":
                return self._log2(args[0])
            case "tanh":
                return self._tanh(args[0])
            case "sigmoid":
                one = self.constant(1.0, float32, args[0].w)
                return self.raw("fdiv", one, self.raw("fadd", one, self.exp(self.negate(args[0]))))
            case _:
                if name in ("pow", "exp10", "log10", "tan", "sinh", "cosh", "hypot"):
                    return self._through_double(name, args)
                return self.library(name, args)

    def _through_double(self, name: str, args: list[V]) -> V:
        wide = [self.convert(v, float64) for v in args]
        return self.convert(self.library(name, wide), float32)

    def _horner(self, x: V, coefficients: tuple[float, ...]) -> V:
        total = self.constant(coefficients[-1], float32, x.w)
        for c in reversed(coefficients[:-1]):
            total = self.several("fma", total, x, self.constant(c, float32, x.w))
        return total

    def _clamp(self, x: V, low: float, high: float) -> V:
        """Into [low, high]; NaN stays."""
        bottom, top = self.constant(low, float32, x.w), self.constant(high, float32, x.w)
        x = self.choose(self.compare("fcmp olt", top, x), top, x)
        return self.choose(self.compare("fcmp ogt", bottom, x), bottom, x)

    def _scaled(self, mantissa: V, rounded: V) -> V:
        """mantissa * 2**n, n being in the low bits of `rounded` (a number with MAGIC added), in two steps so
        that subnormal and infinite results come out right.
        """
        w = mantissa.w
        many = vector("i32", w)
        base = np.float32(MAGIC).view(np.int32)
        n = V(self.op(f"bitcast {vector('float', w)} {rounded.name} to {many}"), int32, w)
        n = self.raw("sub", n, self.constant(int(base), int32, w))
        half = self.raw("ashr", n, self.constant(1, int32, w))
        out = mantissa
        for part in (half, self.raw("sub", n, half)):
            field = self.raw(
                "shl", self.raw("add", part, self.constant(127, int32, w)), self.constant(23, int32, w)
            )
            factor = V(self.op(f"bitcast {many} {field.name} to {vector('float', w)}"), float32, w)
            out = self.raw("fmul", out, factor)
        return out

    def exp2(self, x: V) -> V:
        """2**x: x = n + r, |r| <= 1/2."""
        x = self._clamp(x, -151.0, 129.0)
        magic = self.constant(MAGIC, float32, x.w)
        rounded = self.raw("fadd", x, magic)
        r = self.raw("fsub", x, self.raw("fsub", rounded, magic))
        return self._scaled(self._horner(r, polynomial("exp2", -0.5, 0.5, 6)), rounded)

    def exp(self, x: V) -> V:
        """e**x: x = n log 2 + r, log 2 in two parts."""
        x = self._clamp(x, -105.0, 89.5)
        magic = self.constant(MAGIC, float32, x.w)
        rounded = self.several("fma", x, self.constant(math.log2(math.e), float32, x.w), magic)
        n = self.raw("fsub", rounded, magic)
        high = float(np.float32(math.log(2)))
        r = self.several("fma", n, self.constant(-high, float32, x.w), x)
        r = self.several("fma", n, self.constant(-(math.log(2) - high), float32, x.w), r)
        return self._scaled(self._horner(r, polynomial("exp", -0.35, 0.35, 6)), rounded)

    def _split(self, x: V) -> tuple[V, V, V]:
        """(f, n, x made normal): x = 2**n (1 + f), 1 + f in [sqrt 1/2, sqrt 2)."""
        w = x.w
        many = vector("i32", w)
        tiny = self.compare("fcmp olt", x, self.constant(2.0**-126, float32))
        scaled = self.choose(tiny, self.raw("fmul", x, self.constant(2.0**23, float32)), x)
        word = V(self.bits(scaled, "i32"), int32, w)
        # Counting exponents from sqrt 1/2 puts 1 + f into the wanted range.
        offset = int(np.float32(math.sqrt(0.5)).view(np.int32))
        moved = self.raw("sub", word, self.constant(offset, int32))
        n = self.raw("ashr", moved, self.constant(23, int32))
        whole = self.raw("sub", word, self.raw("shl", n, self.constant(23, int32)))
        m = V(self.op(f"bitcast {many} {whole.name} to {vector('float', w)}"), float32, w)
        number = self.convert(n, float32)
        number = self.raw(
            "fsub", number, self.choose(tiny, self.constant(23.0, float32), self.constant(0.0, float32))
        )
        return self.raw("fsub", m, self.constant(1.0, float32)), number, scaled

    def _log_parts(self, f: V) -> V:
        """log(1 + f) - f."""
        z = self.raw("fmul", f, f)
        p = self._horner(f, polynomial("log", math.sqrt(0.5) - 1, math.sqrt(2) - 1, 9))
        tail = self.raw("fmul", self.raw("fmul", z, f), p)
        return self.several("fma", z, self.constant(-0.5, float32, f.w), tail)

    def _log_ends(self, x: V, out: V) -> V:
        """0 gives -inf, negatives and NaN give NaN, inf gives inf."""
        out = self.choose(self.compare("fcmp oeq", x, self.constant(math.inf, float32)), x, out)
        out = self.choose(
            self.compare("fcmp oeq", x, self.constant(0.0, float32)), self.constant(-math.inf, float32), out
        )
        return self.choose(
            self.compare("fcmp ult", x, self.constant(0.0, float32)), self.constant(math.nan, float32), out
        )

    def log(self, x: V) -> V:
        """Natural logarithm."""
        f, n, _ = self._split(x)
        rest = self._log_parts(f)
        high = 0.693145751953125  # log 2 to 17 bits: n * high is exact
        rest = self.several("fma", n, self.constant(math.log(2) - high, float32, x.w), rest)
        total = self.raw("fadd", f, rest)
        return self._log_ends(x, self.several("fma", n, self.constant(high, float32, x.w), total))

    def _log2(self, x: V) -> V:
        f, n, _ = self._split(x)
        rest = self._log_parts(f)
        whole = math.log2(math.e)
        high = 1.4423828125  # 11 bits
        low = whole - high
        total = self.raw("fmul", rest, self.constant(whole, float32))
        total = self.several("fma", f, self.constant(low, float32, x.w), total)
        total = self.several("fma", f, self.constant(high, float32, x.w), total)
        return self._log_ends(x, self.raw("fadd", total, n))

    def _tanh(self, x: V) -> V:
        w = x.w
        a = self.unary("fabs", x)
        z = self.raw("fmul", x, x)
        near = self.raw("fmul", z, self._horner(z, polynomial("tanh", 0.0, 0.4, 6)))
        near = self.several("fma", near, x, x)
        one = self.constant(1.0, float32, w)
        grown = self.exp(self.raw("fadd", a, a))
        far = self.raw(
            "fsub", one, self.raw("fdiv", self.constant(2.0, float32, w), self.raw("fadd", grown, one))
        )
        far = self.several("copysign", far, x)
        return self.choose(self.compare("fcmp olt", a, self.constant(0.625, float32)), near, far)

    # -------------------------------------------------------------- integers

    def _count(self, name: str, a: V) -> V:
        if a.dtype.bits == 4:
            word = self.raw("and", a, self.constant(15, a.dtype))
            if name == "clz":
                word = self.raw("shl", word, self.constant(4, a.dtype))
                word = self.raw("or", word, self.constant(8, a.dtype))
        else:
            word = a
        out = self.unary("ctpop", word) if name == "popcount" else self.unary("ctlz", word, ("i1", "false"))
        plain = DType("uint8", "uint", 8) if a.dtype.bits <= 8 else a.dtype
        return self.convert(V(out.name, plain, a.w), int32)

    def _reinterpret(self, a: V, result: DType) -> V:
        from tilebench.backends.cpu.text import storage_type

        stored = self.to_storage(a)
        old, new = vector(storage_type(a.dtype), a.w), vector(storage_type(result), a.w)
        if old != new:
            stored = self.op(f"bitcast {old} {stored} to {new}")
        return self.from_storage(stored, result, a.w)

    def _dp4a(self, args: list[V]) -> V:
        a, b, total = (V(v.name, int32, v.w) for v in args)
        for byte in range(4):
            up, down = self.constant(24 - 8 * byte, int32), self.constant(24, int32)
            x = self.raw("ashr", self.raw("shl", a, up), down)
            y = self.raw("ashr", self.raw("shl", b, up), down)
            total = self.raw("add", total, self.raw("mul", x, y))
        return total


__all__ = ["Math", "bool_"]
