"""Expressions of a thread program as Python source, computed as far out as their variables allow.

The source is generated from the IR alone: every name is made here, by number; nothing of the user's text is
pasted. A value has *loop axes* (loops that run as one vectorised operation) and may have the *thread* axis; a
value with neither is uniform and stays a Python int or bool, or a NumPy float scalar. A pure value is a
temporary in the outermost open scope that knows its variables (scope 0: the program, 1: a block, then loops),
and is made once for equal source.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilebench.backends.emulator import arithmetic, functions, warp
from tilebench.backends.emulator.counts import AccessKind
from tilebench.backends.emulator.memory import Place, Site
from tilebench.errors import Loc
from tilebench.ir.dtype import DType
from tilebench.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var, int_value
from tilebench.ir.rewrite import walk
from tilebench.ir.simplify import bounds, linear
from tilebench.ir.thread import Memory

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "bitand": "&", "bitor": "|", "bitxor": "^",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip
_COMPARE = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
_SYNC = {
    "syncthreads_and": "all", "syncthreads_or": "any", "syncthreads_count": "sum",
    "barrier_and": "all", "barrier_or": "any",
}  # fmt: skip
_VOTES = frozenset({"ballot", "any_sync", "all_sync", "activemask"})
_SHUFFLES = frozenset({"shfl_xor", "shfl_up", "shfl_down", "shfl"})


@dataclass(frozen=True)
class Value:
    """Source of a value.

    Level: the scope that it is valid in; axes: its loop axes; view: it shows a register array's own memory.
    """

    code: str
    level: int
    axes: frozenset[int] = frozenset()
    thread: bool = False
    view: bool = False

    @property
    def uniform(self) -> bool:
        """The same in all threads and all iterations of loops that run as one."""
        return not self.axes and not self.thread


@dataclass(eq=False)
class Scope:
    """A Python block under construction, and the pure temporaries made in it."""

    lines: list[str] = field(default_factory=list[str])
    memo: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class RegisterIndex:
    """Source of a register index; columns: 'None' or the thread columns; axes: of what it selects."""

    code: str
    columns: str
    axes: frozenset[int]


class Emitter:
    """Open scopes, names, and the translation of expressions."""

    def __init__(self, places: dict[Memory, Place], checks: bool) -> None:
        self.places, self.checks = places, checks
        self.scopes: list[Scope] = []
        self.env: dict[Var, Value] = {}
        self.ranges: dict[Var, tuple[int, int]] = {}
        self.constants: dict[str, Any] = {}
        self.constant_names: dict[Any, str] = {}
        self.sites: list[Site] = []
        self.registers: dict[Memory, int] = {}
        self.in_flight: frozenset[Memory] = frozenset()  # register arrays that products use
        self.mask: Value | None = None
        self.axis_count = 0
        self.at: Loc | None = None
        self._done: dict[tuple[int, str], Value] = {}
        self._counter = 0

    # -------------------------------------------------------------- names and scopes

    def name(self, prefix: str = "t") -> str:
        """A fresh name."""
        self._counter += 1
        return f"{prefix}{self._counter}"

    def put(self, text: str) -> None:
        """A line in the innermost scope."""
        self.scopes[-1].lines.append(text)

    @property
    def depth(self) -> int:
        """The innermost scope."""
        return len(self.scopes) - 1

    def constant(self, value: Any, key: Any = None) -> str:
        """The name of an object that the source may use."""
        key = ("id", id(value)) if key is None else key
        found = self.constant_names.get(key)
        if found is None:
            found = self.constant_names[key] = f"C{len(self.constants)}"
            self.constants[found] = value
        return found

    def pure(
        self, code: str, *parts: Value, axes: frozenset[int] | None = None, thread: bool | None = None
    ) -> Value:
        """A temporary for a pure value, in the outermost scope that has its parts."""
        level = max((p.level for p in parts), default=0)
        axes = frozenset[int]().union(*(p.axes for p in parts)) if axes is None else axes
        thread = any(p.thread for p in parts) if thread is None else thread
        for scope in self.scopes[: level + 1]:
            if code in scope.memo:
                return Value(scope.memo[code], level, axes, thread)
        if any(p.view for p in parts):
            level = self.depth
        fresh = self.name()
        self.scopes[level].lines.append(f"{fresh} = {code}")
        if not any(p.view for p in parts):
            self.scopes[level].memo[code] = fresh
        return Value(fresh, level, axes, thread)

    def effect(self, code: str, axes: frozenset[int], thread: bool) -> Value:
        """A temporary for a value that must be computed here and now."""
        fresh = self.name()
        self.put(f"{fresh} = {code}")
        return Value(fresh, self.depth, axes, thread)

    def begin(self, at: Loc | None) -> None:
        """Start a statement: what was loaded before may have changed."""
        self._done.clear()
        self.at = at

    def known(self, e: Expr) -> tuple[int, int] | None:
        """The interval of an integer expression, if no part of it can leave its type (and wrap)."""
        for node in walk(e):
            if isinstance(node, Binary | Unary | Cast) and node.dtype.is_int:
                part = bounds(node, self.ranges)
                if part is not None and not (node.dtype.min <= part[0] and part[1] <= node.dtype.max):
                    return None
        return bounds(e, self.ranges)

    # -------------------------------------------------------------- masks

    @property
    def mask_code(self) -> str:
        """Source of the current mask."""
        return "None" if self.mask is None else self.mask.code

    def with_mask(self, condition: Value) -> Value:
        """The current mask narrowed by a condition."""
        if condition.uniform:
            condition = self.pure(f"rs.uniform({condition.code})", Value("rs", 1), condition, thread=True)
        return (
            condition
            if self.mask is None
            else self.pure(f"{self.mask.code} & {condition.code}", self.mask, condition)
        )

    def under(self, condition: Value, e: Expr) -> Value:
        """`e` evaluated for the threads where the condition holds."""
        if not _touches_memory(e):
            return self.value(e)
        saved = self.mask
        self.mask = self.with_mask(condition)
        result = self.value(e)
        self.mask = saved
        return result

    # -------------------------------------------------------------- expressions

    def value(self, e: Expr) -> Value:
        """Translate an expression."""
        if isinstance(e, Const):
            return self._const(e)
        if isinstance(e, Var):
            return self.env[e]
        key = (id(e), self.mask_code)
        found = self._done.get(key)
        if found is None:
            found = self._node(e)
            self._done[key] = found
        return found

    def _const(self, e: Const) -> Value:
        if e.dtype.is_float:
            number = (
                arithmetic.rounded(
                    np.asarray(
                        float(e.value),
                        dtype=e.dtype.compute_dtype if e.dtype.compute_dtype.itemsize > 2 else np.float64,
                    ),
                    e.dtype,
                )
                if e.dtype.bits < 32
                else e.dtype.compute_dtype.type(e.value)
            )
            key = (e.dtype.name, repr(number))
            return Value(self.constant(e.dtype.compute_dtype.type(number), key), 0)
        return Value(
            str(bool(e.value))
            if e.dtype.kind == "bool"
            else f"({int(e.value)})"
            if int(e.value) < 0
            else str(int(e.value)),
            0,
        )

    def _node(self, e: Expr) -> Value:
        match e:
            case Load():
                return self._load(e)
            case Unary():
                return self._unary(e)
            case Binary():
                return self._binary(e)
            case Cast():
                return self._cast(self.value(e.value), e.value.dtype, e.dtype)
            case Select():
                return self._select(e)
            case Call():
                return self._call(e)
            case _:
                raise AssertionError(f"{type(e).__name__} is no expression of a thread program")

    def _load(self, e: Load) -> Value:
        memory = _memory(e)
        if memory.space == "register":
            index = self.register_index(memory, e.indices[0], 1, "read")
            self.check_written(memory, index, 1)
            code = f"R{self.register_number(memory)}[{index.code}" + (
                "]" if index.columns == "None" else f", {index.columns}]"
            )
            view = index.columns == "None" and not index.axes
            return (
                Value(code, self.depth, index.axes, True, True)
                if view
                else self.effect(code, index.axes, True)
            )
        index = self.index(e.indices[0])
        site = self.site(memory, 1, "load", e.loc)
        axes = index.axes | (self.mask.axes if self.mask is not None else frozenset[int]())
        return self.effect(f"{site}.load(rs, {index.code}, {self.mask_code})", axes, True)

    def _wrapped(self, code: str, dtype: DType, e: Expr) -> str:
        """Uniform integer arithmetic wrapped to its width, where it could leave it."""
        known = self.known(e)
        if known is not None and dtype.min <= known[0] and known[1] <= dtype.max:
            return code
        full = 1 << dtype.bits
        if dtype.kind == "int":
            return f"(({code}) + {full >> 1} & {full - 1}) - {full >> 1}"
        return f"({code}) & {full - 1}"

    def _narrow(self, code: str, dtype: DType) -> str:
        """Round the result of arithmetic on a float that is calculated in float32."""
        if dtype == "bfloat16":
            return f"round_bfloat16({code})"
        if (dtype.bits == 8 and dtype.is_float) or dtype == "tfloat32":
            return f"rounded({code}, {self.constant(dtype, ('dtype', dtype.name))})"
        if dtype.bits == 4:
            return f"wrap4({code}, {self.constant(dtype, ('dtype', dtype.name))})"
        return code

    def _unary(self, e: Unary) -> Value:
        v = self.value(e.value)
        if e.op == "neg":
            if v.uniform and not e.dtype.is_float:
                return self.pure(self._wrapped(f"-{v.code}", e.dtype, e), v)
            return self.pure(self._narrow(f"-{v.code}", e.dtype) if not e.dtype.is_float else f"-{v.code}", v)
        if e.op == "not":
            return self.pure(f"not {v.code}" if v.uniform else f"~{v.code}", v)
        if v.uniform:
            return self.pure(self._wrapped(f"~{v.code}", e.dtype, e), v)
        return self.pure(self._narrow(f"~{v.code}", e.dtype), v)

    def _binary(self, e: Binary) -> Value:
        if e.op in ("and", "or"):
            return self._logical(e)
        a, b = self.value(e.left), self.value(e.right)
        both_uniform = a.uniform and b.uniform
        kind = e.left.dtype
        if e.op in ("min", "max"):
            if both_uniform and not kind.is_float:
                return self.pure(f"{e.op}({a.code}, {b.code})", a, b)
            function = (
                {"min": "fmin", "max": "fmax"} if kind.is_float else {"min": "minimum", "max": "maximum"}
            )
            return self.pure(f"np.{function[e.op]}({a.code}, {b.code})", a, b)
        if e.op == "pow":
            return self._elementwise("pow", (e.left.dtype, e.right.dtype), e.dtype, a, b)
        if e.op in ("floordiv", "floormod", "truncdiv", "truncmod"):
            return self._division(e, a, b)
        if e.op in ("shl", "shr"):
            bits = kind.bits
            if both_uniform:
                code = f"{e.op}({a.code}, {b.code}, {bits})"
                return self.pure(self._wrapped(code, kind, e) if e.op == "shl" else code, a, b)
            function = "left_shift" if e.op == "shl" else "right_shift"
            typed = self._typed(a, kind)
            return self.pure(self._narrow(f"np.{function}({typed}, {b.code})", kind), a, b)
        code = f"{a.code} {_INFIX[e.op]} {b.code}"
        if e.op in _COMPARE or e.op.startswith("bit"):
            return self.pure(code, a, b)
        if both_uniform and not kind.is_float:
            return self.pure(self._wrapped(code, kind, e), a, b)
        return self.pure(self._narrow(code, kind), a, b)

    def _typed(self, v: Value, dtype: DType) -> str:
        """A uniform integer as a NumPy scalar of its type, so that the result has it."""
        return (
            f"{self.constant(dtype.storage_dtype.type, ('type', dtype.name))}({v.code})"
            if v.uniform
            else v.code
        )

    def _division(self, e: Binary, a: Value, b: Value) -> Value:
        known = int_value(e.right)
        if e.left.dtype.is_float:
            function = {"floordiv": "np.floor_divide", "floormod": "np.mod", "truncmod": "np.fmod"}.get(e.op)
            code = f"{function}({a.code}, {b.code})" if function else f"np.trunc({a.code} / {b.code})"
            return self.pure(self._narrow(code, e.dtype), a, b)
        if known is None or known == 0:
            self.put(f"rs.divisor({b.code}, {self.mask_code}, {self.constant(e.loc or self.at)})")
        if known and known > 0 and e.op.startswith("trunc"):
            low = self.known(e.left)
            op = "floor" + e.op[5:] if low is not None and low[0] >= 0 else e.op
        else:
            op = e.op
        if known and op == "floordiv" and known & (known - 1) == 0 and known > 0:
            return self.pure(f"{a.code} >> {known.bit_length() - 1}", a)
        if known and op == "floormod" and known & (known - 1) == 0 and known > 0:
            return self.pure(f"{a.code} & {known - 1}", a)
        if a.uniform and b.uniform:
            return self.pure(f"{op}({a.code}, {b.code})", a, b)
        if op in ("floordiv", "floormod"):
            return self.pure(f"{a.code} {'//' if op == 'floordiv' else '%'} {b.code}", a, b)
        return self.pure(f"{op}({a.code}, {b.code})", a, b)

    def _logical(self, e: Binary) -> Value:
        a = self.value(e.left)
        if _touches_memory(e.right):
            guard = a if e.op == "and" else self.pure(f"not {a.code}" if a.uniform else f"~{a.code}", a)
            b = self.under(guard, e.right)
        else:
            b = self.value(e.right)
        if a.uniform and b.uniform:
            return self.pure(f"{a.code} {e.op} {b.code}", a, b)
        return self.pure(f"{a.code} {'&' if e.op == 'and' else '|'} {b.code}", a, b)

    def _cast(self, v: Value, source: DType, target: DType) -> Value:
        kind = target.compute_dtype
        if (
            v.uniform
            or (source.is_float and not target.is_float)
            or target.kind == "bool"
            or target.bits == 4
        ):
            s, t = (self.constant(d, ("dtype", d.name)) for d in (source, target))
            return self.pure(f"convert({v.code}, {s}, {t})", v)
        if not source.is_float and target.bits < 32 and target.is_float:
            s, t = (self.constant(d, ("dtype", d.name)) for d in (source, target))
            return self.pure(f"convert({v.code}, {s}, {t})", v)
        code = v.code
        if source.compute_dtype != kind:
            code = f"{code}.astype({self.constant(kind, ('numpy', kind.str))})"
        if source.bits >= target.bits or source.kind != target.kind:
            code = self._narrow(code, target)
        return v if code == v.code else self.pure(code, v)

    def _select(self, e: Select) -> Value:
        c = self.value(e.condition)
        a = self.under(c, e.then)
        if _touches_memory(e.orelse):
            b = self.under(self.pure(f"not {c.code}" if c.uniform else f"~{c.code}", c), e.orelse)
        else:
            b = self.value(e.orelse)
        kind = self.constant(e.dtype.compute_dtype, ("numpy", e.dtype.compute_dtype.str))
        if c.uniform:
            x, y = (
                v.code if v.uniform == (a.uniform and b.uniform) else f"np.full(1, {v.code}, {kind})"
                for v in (a, b)
            )
            return self.pure(f"({x} if {c.code} else {y})", c, a, b)
        return self.pure(f"where({c.code}, {a.code}, {b.code}, {kind})", c, a, b)

    def _call(self, e: Call) -> Value:
        if e.name in _SYNC:
            p = self.value(e.args[0])
            at = self.constant(e.loc or self.at)
            number, threads = (int_value(a) for a in e.args[1:]) if len(e.args) > 1 else (0, None)
            meeting = f"barrier(rs, {number}, {threads}, {self.mask_code}, {at}, {p.code})"
            code = f"(yield from {meeting}).{_SYNC[e.name]}()"
            return self.effect(
                f"rs.uniform({code})" if e.dtype.kind == "bool" else f"np.full(rs.threads, {code}, np.int32)",
                frozenset(),
                True,
            )
        args = [self.value(a) for a in e.args]
        axes = frozenset[int]().union(*(a.axes for a in args))
        if e.name in _SHUFFLES:
            at = self.constant(e.loc or self.at)
            return self.effect(
                f"shuffle(rs, {e.name!r}, {args[0].code}, {args[1].code}, {self.mask_code}, {at})", axes, True
            )
        if e.name in _VOTES:
            axes |= self.mask.axes if self.mask is not None else frozenset[int]()
            return self.effect(
                f"vote(rs, {e.name!r}, {args[0].code if args else True}, {self.mask_code})", axes, True
            )
        return self._elementwise(e.name, tuple(a.dtype for a in e.args), e.dtype, *args)

    def _elementwise(self, name: str, dtypes: tuple[DType, ...], result: DType, *args: Value) -> Value:
        function = functions.intrinsic(name, dtypes, result)
        key = ("intrinsic", name, *(d.name for d in dtypes), result.name)
        inner = f"{self.constant(function, key)}({', '.join(a.code for a in args)})"
        if all(a.uniform for a in args):
            if result.kind == "bool":
                inner = f"bool({inner})"
            elif not result.is_float:
                inner = f"int({inner})"
        return self.pure(inner, *args)

    # -------------------------------------------------------------- indices

    def index(self, e: Expr) -> Value:
        """A memory index: intp arrays, each group of terms added in the scope that knows it."""
        form = linear(e) if e.dtype.kind != "uint" else None
        terms = [(self.value(t), c) for t, c in form.terms] if form is not None else [(self.value(e), 1)]
        groups: dict[tuple[int, bool, tuple[int, ...]], list[tuple[Value, int]]] = {}
        for v, c in terms:
            groups.setdefault((v.level, v.thread, tuple(sorted(v.axes))), []).append((v, c))
        total: Value | None = None
        constant = form.constant if form is not None else 0
        for key in sorted(groups):
            part = self._sum(groups[key])
            total = part if total is None else self.pure(f"{total.code} + {part.code}", total, part)
        if total is None:
            return Value(str(constant), 0)
        return total if constant == 0 else self.pure(f"{total.code} + {constant}", total)

    def _sum(self, terms: list[tuple[Value, int]]) -> Value:
        total: Value | None = None
        for v, c in terms:
            part = v if v.uniform else self.pure(f"{v.code}.astype(np.intp)", v)
            if c != 1:
                part = self.pure(f"{part.code} * {c}", part)
            total = part if total is None else self.pure(f"{total.code} + {part.code}", total, part)
        assert total is not None
        return total

    def register_number(self, memory: Memory) -> int:
        """The number of a register array."""
        return self.registers.setdefault(memory, len(self.registers))

    def register_index(self, memory: Memory, e: Expr, count: int, verb: str) -> RegisterIndex:
        """A register index, checked against the array unless its bounds are proven."""
        v = self.index(e)
        size = memory.static_shape[0]
        known = self.known(e)
        if known is None or known[0] < 0 or known[1] + count > size:
            m = self.constant(memory)
            code = f"rs.row({m}, {v.code}, {count}, {self.mask_code}, {self.constant(self.at)}, {verb!r})"
            v = self.effect(code, v.axes, v.thread)
        if v.thread:
            return RegisterIndex(v.code, "columns", v.axes)
        if v.axes:
            return RegisterIndex(self.pure(f"{v.code}[..., 0]", v).code, "None", v.axes)
        return RegisterIndex(v.code, "None", frozenset())

    def check_written(
        self, memory: Memory, index: RegisterIndex, count: int, *, product: bool = False, condition: str = ""
    ) -> None:
        """Code that reports registers read before they were written.

        product: by an asynchronous product, not by threads; condition: only where it holds.
        """
        if self.checks:
            n = self.register_number(memory)
            where = f"{index.code}, {index.columns}, {count}, {self.mask_code}, {self.constant(self.at)}"
            more = f" and {condition}" if condition else ""
            self.put(f"if not V{n}.complete{more}: rs.missing(V{n}, {self.constant(memory)}, {where})")
            if memory in self.in_flight and not product:
                self.put(f"F{n}.read({index.code}, {count}, {self.constant(self.at)})")

    def note_written(
        self, memory: Memory, index: RegisterIndex, count: int, *, product: bool = False
    ) -> None:
        """Code that notes a write of registers (product: by an asynchronous product)."""
        if self.checks:
            n = self.register_number(memory)
            self.put(
                f"if not V{n}.complete: V{n}.wrote({index.code}, {index.columns}, {count}, {self.mask_code})"
            )
            if memory in self.in_flight and not product:
                self.put(f"F{n}.write({index.code}, {count}, {self.constant(self.at)})")

    def flight(self, memory: Memory) -> str:
        """The state of a register array that asynchronous products use."""
        return f"F{self.register_number(memory)}" if self.checks else "None"

    def access(self, memory: Memory, lanes: int, kind: AccessKind, at: Loc | None = None) -> Site:
        """A new access statement."""
        site = Site(len(self.sites), self.places[memory], lanes, kind, at or self.at)
        self.sites.append(site)
        return site

    def site(self, memory: Memory, lanes: int, kind: AccessKind, at: Loc | None = None) -> str:
        """A new access statement; its name."""
        return self.constant(self.access(memory, lanes, kind, at))


def _memory(e: Load) -> Memory:
    assert isinstance(e.buffer, Memory), f"{e.buffer.name} is no memory of a thread program"
    return e.buffer


def _touches_memory(e: Expr) -> bool:
    return any(isinstance(n, Load) for n in walk(e))


HELPERS: dict[str, Any] = {
    "np": np, "convert": arithmetic.convert, "round_bfloat16": arithmetic.round_bfloat16,
    "rounded": arithmetic.rounded, "wrap4": arithmetic.wrap4, "floordiv": arithmetic.floordiv,
    "floormod": arithmetic.floormod, "truncdiv": arithmetic.truncdiv,
    "truncmod": arithmetic.truncmod, "shl": arithmetic.shl, "shr": arithmetic.shr, "where": arithmetic.where,
    "shuffle": warp.shuffle, "vote": warp.vote,
}  # fmt: skip
"""What generated source may call, besides numbered constants."""
