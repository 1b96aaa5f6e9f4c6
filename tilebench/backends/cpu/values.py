"""Arithmetic on values: what interp/arithmetic.py says, in LLVM instructions, for one lane or many.

Narrow floats are kept as f32 and rounded after every operation; integers wrap around; a float becomes an
integer by truncation, clamped, NaN to 0; min and max of floats pass over NaN.
"""

from __future__ import annotations

from tilebench.backends.cpu.text import Text, V, compute_type, literal, storage_type, suffix, vector
from tilebench.ir.dtype import DType, bool_, float32, float64

_INT = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "bitand": "and",
    "bitor": "or",
    "bitxor": "xor",
    "and": "and",
    "or": "or",
}
_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_COMPARE = {"eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}


class Values(Text):
    """Operations on values."""

    def type_of(self, v: V) -> str:
        """The LLVM type of a value."""
        return vector(compute_type(v.dtype), v.w)

    def constant(self, value: int | float | bool, dtype: DType, w: int = 1) -> V:
        """A literal, in every lane."""
        kind = compute_type(dtype)
        text = literal(value, kind)
        return V(text if w == 1 else f"splat ({kind} {text})", dtype, w)

    def splat(self, v: V, w: int) -> V:
        """The value in w lanes."""
        if v.w == w:
            return v
        assert v.w == 1, f"{v.w} lanes widened to {w}"
        kind = compute_type(v.dtype)
        if v.literal:
            return V(f"splat ({kind} {v.name})", v.dtype, w)
        many = vector(kind, w)
        first = self.op(f"insertelement {many} poison, {kind} {v.name}, i64 0")
        return V(
            self.op(f"shufflevector {many} {first}, {many} poison, <{w} x i32> zeroinitializer"), v.dtype, w
        )

    def together(self, *values: V) -> tuple[V, ...]:
        """All with the most lanes among them."""
        w = max(v.w for v in values)
        return tuple(self.splat(v, w) for v in values)

    def raw(self, instruction: str, a: V, b: V) -> V:
        """`instruction a, b` as it stands."""
        a, b = self.together(a, b)
        return V(self.op(f"{instruction} {self.type_of(a)} {a.name}, {b.name}"), a.dtype, a.w)

    def compare(self, predicate: str, a: V, b: V) -> V:
        """icmp or fcmp with a full predicate such as 'icmp slt'."""
        a, b = self.together(a, b)
        return V(self.op(f"{predicate} {self.type_of(a)} {a.name}, {b.name}"), bool_, a.w)

    def choose(self, condition: V, a: V, b: V) -> V:
        """a where the condition holds, else b."""
        w = max(condition.w, a.w, b.w)
        if condition.w != 1 or w == 1:
            condition = self.splat(condition, w)
        a, b = self.splat(a, w), self.splat(b, w)
        kind = self.type_of(a)
        return V(
            self.op(f"select {vector('i1', condition.w)} {condition.name}, {kind} {a.name}, {kind} {b.name}"),
            a.dtype,
            w,
        )

    def unary(self, name: str, a: V, *extra: tuple[str, str]) -> V:
        """An LLVM intrinsic of one value: 'sqrt', 'fabs', 'ctpop' ..."""
        kind = self.type_of(a)
        full = f"llvm.{name}.{suffix(compute_type(a.dtype), a.w)}"
        return V(self.call(full, kind, [(kind, a.name), *extra]), a.dtype, a.w)

    def several(self, name: str, *values: V) -> V:
        """An LLVM intrinsic of values of one type: 'minnum', 'fma' ..."""
        many = self.together(*values)
        kind = self.type_of(many[0])
        full = f"llvm.{name}.{suffix(compute_type(many[0].dtype), many[0].w)}"
        return V(self.call(full, kind, [(kind, v.name) for v in many]), many[0].dtype, many[0].w)

    def bits(self, v: V, to: str) -> str:
        """A bitcast to lanes of another scalar type of the same width."""
        return self.op(f"bitcast {self.type_of(v)} {v.name} to {vector(to, v.w)}")

    # -------------------------------------------------------------- rounding

    def settle(self, v: V) -> V:
        """A fresh result rounded to its dtype."""
        dtype = v.dtype
        if dtype == "float16":
            half, wide = vector("half", v.w), vector("float", v.w)
            name = self.op(f"fptrunc {wide} {v.name} to {half}")
            return V(self.op(f"fpext {half} {name} to {wide}"), dtype, v.w)
        if dtype == "bfloat16" or (dtype.is_float and dtype.bits == 8):
            return self.from_storage(self.to_storage(v, settled=False), dtype, v.w)
        if dtype == "tfloat32":
            many = vector("i32", v.w)
            word = self.bits(v, "i32")
            up = self.op(f"add {many} {word}, {self._int(0x1000, 'i32', v.w)}")
            cut = self.op(f"and {many} {up}, {self._int(-8192, 'i32', v.w)}")
            return V(self.op(f"bitcast {many} {cut} to {vector('float', v.w)}"), dtype, v.w)
        if dtype.is_int and dtype.bits == 4:
            many = vector("i8", v.w)
            four = self._int(4, "i8", v.w)
            up = self.op(f"shl {many} {v.name}, {four}")
            return V(self.op(f"{'ashr' if dtype.kind == 'int' else 'lshr'} {many} {up}, {four}"), dtype, v.w)
        return v

    def _int(self, value: int, kind: str, w: int) -> str:
        return str(value) if w == 1 else f"splat ({kind} {value})"

    def to_storage(self, v: V, settled: bool = True) -> str:
        """The value as memory holds it, of type vector(storage_type, w)."""
        dtype, w = v.dtype, v.w
        if dtype.kind == "bool":
            return self.op(f"zext {vector('i1', w)} {v.name} to {vector('i8', w)}")
        if dtype == "float16":
            return self.op(f"fptrunc {vector('float', w)} {v.name} to {vector('half', w)}")
        if dtype == "bfloat16":
            many = vector("i32", w)
            word = self.bits(v, "i32")
            sixteen = self._int(16, "i32", w)
            high = self.op(f"lshr {many} {word}, {sixteen}")
            if not settled:
                odd = self.op(f"and {many} {high}, {self._int(1, 'i32', w)}")
                step = self.op(f"add {many} {odd}, {self._int(0x7FFF, 'i32', w)}")
                up = self.op(f"add {many} {word}, {step}")
                rounded = self.op(f"lshr {many} {up}, {sixteen}")
                kind = vector("float", w)
                nan = self.op(
                    f"fcmp uno {kind} {v.name}, zeroinitializer"
                    if w > 1
                    else f"fcmp uno {kind} {v.name}, 0.0"
                )
                high = self.op(
                    f"select {vector('i1', w)} {nan}, {many} {self._int(0x7FC0, 'i32', w)}, {many} {rounded}"
                )
            return self.op(f"trunc {many} {high} to {vector('i16', w)}")
        if dtype.is_float and dtype.bits == 8:
            return self._to_fp8(v)
        return v.name

    def from_storage(self, name: str, dtype: DType, w: int) -> V:
        """A value from what memory holds."""
        if dtype.kind == "bool":
            zero = "0" if w == 1 else "zeroinitializer"
            return V(self.op(f"icmp ne {vector('i8', w)} {name}, {zero}"), dtype, w)
        if dtype == "float16":
            return V(self.op(f"fpext {vector('half', w)} {name} to {vector('float', w)}"), dtype, w)
        if dtype == "bfloat16":
            many = vector("i32", w)
            wide = self.op(f"zext {vector('i16', w)} {name} to {many}")
            up = self.op(f"shl {many} {wide}, {self._int(16, 'i32', w)}")
            return V(self.op(f"bitcast {many} {up} to {vector('float', w)}"), dtype, w)
        if dtype.is_float and dtype.bits == 8:
            return self._from_fp8(name, dtype, w)
        return V(name, dtype, w)

    def _from_fp8(self, name: str, dtype: DType, w: int) -> V:
        """e5m2 is the high byte of a half; e4m3 moves to a half's fields and is scaled by 2**8 (exact)."""
        wide, half, single = vector("i16", w), vector("half", w), vector("float", w)
        if dtype == "float8_e8m0fnu":
            return self._from_e8m0(name, dtype, w)
        word = self.op(f"zext {vector('i8', w)} {name} to {wide}")
        if dtype == "float8_e5m2":
            up = self.op(f"shl {wide} {word}, {self._int(8, 'i16', w)}")
            value = self.op(f"bitcast {wide} {up} to {half}")
            return V(self.op(f"fpext {half} {value} to {single}"), dtype, w)
        magnitude = self.op(f"and {wide} {word}, {self._int(127, 'i16', w)}")
        sign = self.op(f"and {wide} {word}, {self._int(128, 'i16', w)}")
        moved = self.op(f"shl {wide} {magnitude}, {self._int(7, 'i16', w)}")
        top = self.op(f"shl {wide} {sign}, {self._int(8, 'i16', w)}")
        both = self.op(f"or {wide} {moved}, {top}")
        value = self.op(f"bitcast {wide} {both} to {half}")
        scaled = V(self.op(f"fpext {half} {value} to {single}"), float32, w)
        scaled = self.raw("fmul", scaled, self.constant(256.0, float32))
        nan = self.op(f"icmp eq {wide} {magnitude}, {self._int(127, 'i16', w)}")
        out = self.choose(V(nan, bool_, w), self.constant(float("nan"), float32, w), scaled)
        return V(out.name, dtype, w)

    def _from_e8m0(self, name: str, dtype: DType, w: int) -> V:
        """The code is a float's exponent field; 0 is 2**-127, 255 is NaN."""
        many, flags = vector("i32", w), vector("i1", w)
        word = self.op(f"zext {vector('i8', w)} {name} to {many}")
        bits = self.op(f"shl {many} {word}, {self._int(23, 'i32', w)}")
        for code, pattern in ((0, 0x400000), (255, 0x7FFFFFFF)):
            is_code = self.op(f"icmp eq {many} {word}, {self._int(code, 'i32', w)}")
            bits = self.op(f"select {flags} {is_code}, {many} {self._int(pattern, 'i32', w)}, {many} {bits}")
        return V(self.op(f"bitcast {many} {bits} to {vector('float', w)}"), dtype, w)

    def _to_e8m0(self, v: V) -> str:
        """The magnitude, rounded up to a power of two."""
        many, flags, w = vector("i32", v.w), vector("i1", v.w), v.w
        word = self.bits(V(v.name, float32, w), "i32")
        a = self.op(f"and {many} {word}, {self._int(0x7FFFFFFF, 'i32', w)}")
        up = self.op(f"add {many} {a}, {self._int(0x7FFFFF, 'i32', w)}")
        code = self.op(f"lshr {many} {up}, {self._int(23, 'i32', w)}")
        for test, at, value in (("ule", 0x400000, 0), ("ugt", 0x7F000000, 254), ("ugt", 0x7F800000, 255)):
            found = self.op(f"icmp {test} {many} {a}, {self._int(at, 'i32', w)}")
            code = self.op(f"select {flags} {found}, {many} {self._int(value, 'i32', w)}, {many} {code}")
        return self.op(f"trunc {many} {code} to {vector('i8', w)}")

    def _to_fp8(self, v: V) -> str:
        """Nearest even, saturating: the magnitude is rounded to a multiple of the step of its binade."""
        w, dtype = v.w, v.dtype
        if dtype == "float8_e8m0fnu":
            return self._to_e8m0(v)
        mantissa, least, top, bias = (3, -6, 448.0, 7) if dtype == "float8_e4m3" else (2, -14, 57344.0, 15)
        many, single = vector("i32", w), vector("float", w)
        x = V(v.name, float32, w)
        word = self.bits(x, "i32")
        sign = self.op(f"lshr {many} {word}, {self._int(24, 'i32', w)}")
        sign = self.op(f"and {many} {sign}, {self._int(128, 'i32', w)}")
        a = self.unary("fabs", x)
        a = self.choose(
            self.compare("fcmp olt", a, self.constant(top, float32)), a, self.constant(top, float32)
        )
        # Adding 2**(e + 23 - mantissa) makes f32 round to a multiple of 2**(e - mantissa).
        exponent = self.op(f"and {many} {self.bits(a, 'i32')}, {self._int(0x7F800000, 'i32', w)}")
        low = self._int((least + 127) << 23, "i32", w)
        below = self.op(f"icmp ult {many} {exponent}, {low}")
        exponent = self.op(f"select {vector('i1', w)} {below}, {many} {low}, {many} {exponent}")
        magic = self.op(f"add {many} {exponent}, {self._int((23 - mantissa) << 23, 'i32', w)}")
        big = V(self.op(f"bitcast {many} {magic} to {single}"), float32, w)
        rounded = self.raw("fsub", self.raw("fadd", a, big), big)
        # As code: exponent and mantissa fields; subnormals by scaling.
        code = self.bits(rounded, "i32")
        code = self.op(f"lshr {many} {code}, {self._int(23 - mantissa, 'i32', w)}")
        code = self.op(f"sub {many} {code}, {self._int((127 - bias) << mantissa, 'i32', w)}")
        tiny = self.compare("fcmp olt", rounded, self.constant(2.0**least, float32))
        steps = self.raw("fmul", rounded, self.constant(2.0 ** (mantissa - least), float32))
        count = self.op(f"fptosi {single} {steps.name} to {many}")
        code = self.op(f"select {vector('i1', w)} {tiny.name}, {many} {count}, {many} {code}")
        if dtype == "float8_e5m2":  # an infinity is no number that is too large
            endless = self.compare("fcmp oeq", self.unary("fabs", x), self.constant(float("inf"), float32))
            code = self.op(
                f"select {vector('i1', w)} {endless.name}, {many} {self._int(0x7C, 'i32', w)}, {many} {code}"
            )
        nan = self.compare("fcmp uno", x, x)
        code = self.op(
            f"select {vector('i1', w)} {nan.name}, {many} {self._int(127, 'i32', w)}, {many} {code}"
        )
        code = self.op(f"or {many} {code}, {sign}")
        return self.op(f"trunc {many} {code} to {vector('i8', w)}")

    # -------------------------------------------------------------- casts

    def convert(self, v: V, dtype: DType) -> V:
        """The value cast to dtype."""
        source = v.dtype
        if source == dtype:
            return v
        w, old, new = v.w, self.type_of(v), vector(compute_type(dtype), v.w)
        if dtype.kind == "bool":
            zero = self.constant(0, source, w)
            return self.compare("fcmp une" if source.is_float else "icmp ne", v, zero)
        if source.is_float and dtype.is_float:
            name = v.name
            if old != new:
                name = self.op(f"{'fpext' if dtype.bits == 64 else 'fptrunc'} {old} {v.name} to {new}")
            exact = source.is_float and dtype == float32 and source.bits <= 32
            return V(name, dtype, w) if exact or dtype == float64 else self.settle(V(name, dtype, w))
        if source.is_float:
            signed = "s" if dtype.kind == "int" else "u"
            if dtype.bits == 4:
                low, high = self.constant(dtype.min, source), self.constant(dtype.max, source)
                v = self.several("minnum", self.several("maxnum", v, low), high)
            full = (
                f"llvm.fpto{signed}i.sat.{suffix(compute_type(dtype), w)}.{suffix(compute_type(source), w)}"
            )
            return V(self.call(full, new, [(old, v.name)]), dtype, w)
        signed = source.kind == "int"
        if dtype.is_float:
            name = self.op(f"{'sitofp' if signed else 'uitofp'} {old} {v.name} to {new}")
            return self.settle(V(name, dtype, w))
        if old == new:
            return self.settle(V(v.name, dtype, w))
        wider = source.kind == "bool" or max(source.bits, 8) < max(dtype.bits, 8)
        name = self.op(f"{('sext' if signed else 'zext') if wider else 'trunc'} {old} {v.name} to {new}")
        return self.settle(V(name, dtype, w))

    def index(self, v: V) -> V:
        """An integer as i64."""
        from tilebench.ir.dtype import int64

        if v.literal and v.w == 1:
            return V({"true": "1", "false": "0"}.get(v.name, v.name), int64)
        return self.convert(v, int64)

    # -------------------------------------------------------------- arithmetic

    def arithmetic(self, op: str, a: V, b: V) -> V:
        """A binary operator without divisions of integers, shifts and powers (which need checks)."""
        a, b = self.together(a, b)
        dtype = a.dtype
        if op in _COMPARE:
            if dtype.is_float:
                predicate = "fcmp une" if op == "ne" else f"fcmp o{op}"
            elif op in ("eq", "ne"):
                predicate = f"icmp {op}"
            else:
                predicate = f"icmp {'s' if dtype.kind == 'int' else 'u'}{op}"
            return self.compare(predicate, a, b)
        if dtype.is_float:
            if op in ("min", "max"):
                return V(self.several(f"{op}num", a, b).name, dtype, a.w)
            if op in ("floordiv", "floormod", "truncdiv", "truncmod"):
                return self.settle(self._float_division(op, a, b))
            return self.settle(self.raw(_FLOAT[op], a, b))
        if op in ("min", "max"):
            return self.several(("s" if dtype.kind == "int" else "u") + op, a, b)
        return self.settle(self.raw(_INT[op], a, b))

    def _float_division(self, op: str, a: V, b: V) -> V:
        if op == "truncdiv":
            return self.unary("trunc", self.raw("fdiv", a, b))
        rest = self.raw("frem", a, b)
        if op == "truncmod":
            return rest
        zero = self.constant(0.0, a.dtype, a.w)
        other_side = self.raw("xor", self.compare("fcmp olt", rest, zero), self.compare("fcmp olt", b, zero))
        wrong = self.raw("and", other_side, self.compare("fcmp une", rest, zero))
        if op == "floormod":
            fixed = self.choose(wrong, self.raw("fadd", rest, b), rest)
            return self.choose(
                self.compare("fcmp oeq", fixed, zero), self.several("copysign", zero, b), fixed
            )
        whole = self.raw("fdiv", self.raw("fsub", a, rest), b)
        whole = self.choose(wrong, self.raw("fsub", whole, self.constant(1.0, a.dtype, a.w)), whole)
        plain = self.raw("fdiv", a, b)
        rounded = self.unary("round", whole)
        rounded = self.choose(
            self.compare("fcmp oeq", rounded, zero), self.several("copysign", zero, plain), rounded
        )
        return self.choose(self.compare("fcmp oeq", b, zero), plain, rounded)

    def negate(self, v: V) -> V:
        """-v."""
        if v.dtype.is_float:
            return V(self.op(f"fneg {self.type_of(v)} {v.name}"), v.dtype, v.w)
        return self.settle(self.raw("sub", self.constant(0, v.dtype, v.w), v))

    def invert(self, v: V) -> V:
        """Bits (or truth) inverted."""
        ones = self.constant(True if v.dtype.kind == "bool" else -1, v.dtype, v.w)
        return self.settle(self.raw("xor", v, ones))

    def any_lane(self, v: V) -> str:
        """Whether the condition holds in some lane, as an i1."""
        if v.w == 1:
            return v.name
        return self.call(f"llvm.vector.reduce.or.v{v.w}i1", "i1", [(f"<{v.w} x i1>", v.name)])

    def lane(self, v: V, number: int) -> V:
        """One lane of a value."""
        if v.w == 1:
            return v
        return V(self.op(f"extractelement {self.type_of(v)} {v.name}, i64 {number}"), v.dtype)


__all__ = ["Values", "storage_type"]
