"""Hand-made thread programs: every node of thread IR and every function of the prelude, with no pass in
between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tilebench.errors import Loc, Source
from tilebench.ir.dtype import DTYPES, DType, bool_, float16, float32, int32, uint32
from tilebench.ir.expr import Expr, Load, Var, as_expr, binary, call, cast, const, select, unary
from tilebench.ir.folds import FOLDS, FoldPairs, LaneFold
from tilebench.ir.thread import (
    Barrier,
    CpAsync,
    CpAsyncCommit,
    CpAsyncWait,
    LdMatrix,
    Memory,
    Mma,
    Program,
    Role,
    SyncWarp,
    Turn,
    VectorAtomic,
    VectorCopy,
    global_memory,
    register_array,
    shared_memory,
)
from tilebench.ir.tile import (
    Assert,
    AtomicRMW,
    Bind,
    Break,
    Buffer,
    Continue,
    Evaluate,
    For,
    If,
    Param,
    Print,
    Seq,
    Stmt,
    Store,
    While,
)

CELL = Source("In[3]", "\n".join(f"line {i}" for i in range(1, 41)))
FLOATS = tuple(d for d in DTYPES.values() if d.is_float)
INTEGERS = tuple(d for d in DTYPES.values() if d.is_int)


def at(line: int) -> Loc:
    """A place in the made-up cell."""
    return Loc(CELL, line)


def load(memory: Memory, index: Expr | int) -> Load:
    """memory[index]."""
    return Load(memory, (as_expr(index),), dtype=memory.dtype)


def store(memory: Memory, index: Expr | int, value: Expr, line: int = 0) -> Store:
    """memory[index] = value."""
    return Store(memory, (as_expr(index),), value.astype(memory.dtype), loc=at(line) if line else None)


def unrolled(count: int, body: Callable[[Var], Stmt], line: int = 0) -> For:
    """An unrolled loop over 0..count-1."""
    var = Var("i", dtype=int32)
    return For(var, const(0), const(count), body(var), kind="unroll", loc=at(line) if line else None)


def serial(count: int | Expr, body: Callable[[Var], Stmt], line: int = 0) -> For:
    """A serial loop over 0..count-1."""
    var = Var("i", dtype=int32)
    return For(var, const(0), as_expr(count), body(var), loc=at(line) if line else None)


class Maker:
    """Collects the parts of a program of one role."""

    def __init__(self, threads: int = 32, grid: Sequence[int | Expr] = (1,), arch: str = "sm_90a") -> None:
        self.threads, self.arch = threads, arch
        self.grid = tuple(as_expr(g) for g in grid)
        self.blocks = tuple(Var(f"b{a}", dtype=int32) for a in range(len(grid)))
        self.thread = Var("t", dtype=int32)
        self.params: list[Param] = []
        self.globals: dict[Buffer, Memory] = {}
        self.registers: list[Memory] = []
        self.shared: list[Memory] = []
        self.symbols: list[Var] = []
        self.bytes = 0
        self.body: list[Stmt] = []
        self.facts: dict[str, object] = {}

    def tensor(self, name: str, count: int | Expr, dtype: DType, role: str = "in") -> Memory:
        """A flat tensor argument."""
        buffer = Buffer(name, (as_expr(count),), dtype, "global")
        self.params.append(Param(name, buffer, role))  # type: ignore[arg-type]
        self.globals[buffer] = global_memory(buffer, as_expr(count))
        return self.globals[buffer]

    def scalar(self, name: str, dtype: DType) -> Var:
        """A scalar argument."""
        var = Var(name, dtype=dtype)
        self.params.append(Param(name, var))
        return var

    def symbol(self, name: str) -> Var:
        """A dynamic extent."""
        self.symbols.append(Var(name, dtype=int32))
        return self.symbols[-1]

    def array(self, name: str, count: int, dtype: DType) -> Memory:
        """A register array."""
        self.registers.append(register_array(name, count, dtype))
        return self.registers[-1]

    def tile(self, name: str, count: int, dtype: DType) -> Memory:
        """A range of shared memory."""
        memory = shared_memory(name, count, dtype, self.bytes)
        self.bytes += -(-count * dtype.bytes // 128) * 128
        self.shared.append(memory)
        return memory

    def add(self, *statements: Stmt) -> None:
        """Append statements."""
        self.body += statements

    def program(self, name: str = "kernel") -> Program:
        """The whole."""
        role = Role("all", 0, self.threads, Seq(tuple(self.body)))
        return Program(
            name,
            tuple(self.params),
            dict(self.globals),
            tuple(self.symbols),
            self.grid,
            self.blocks,
            self.thread,
            self.threads,
            (role,),
            tuple(self.registers),
            tuple(self.shared),
            self.bytes,
            self.arch,
            dict(self.facts),
        )


def elementwise(
    inputs: Sequence[DType],
    make: Callable[..., Sequence[Expr]],
    count: int = 32,
    arch: str = "sm_90a",
    fast_math: bool = False,
) -> Program:
    """out_k[t] = make(in_0[t], in_1[t], ...)[k] in one block of `count` threads."""
    m = Maker(count, arch=arch)
    m.facts["fast_math"] = fast_math
    tensors = [m.tensor(f"x{i}", count, d) for i, d in enumerate(inputs)]
    results = make(*(load(x, m.thread) for x in tensors))
    for k, value in enumerate(results):
        m.add(store(m.tensor(f"y{k}", count, value.dtype, "out"), m.thread, value))
    return m.program("elementwise")


def conversions(arch: str) -> Program:
    """Every element type to every other."""
    types = [d for d in DTYPES.values() if d.name != "tfloat32"]
    return elementwise(
        types, lambda *xs: [cast(x, d) for x in xs for d in DTYPES.values() if d != x.dtype], arch=arch
    )


PAIRED = ("float32", "float16", "bfloat16", "float8_e4m3", "float8_e5m2", "float8_e8m0fnu")
"""Types whose neighbours are converted two at a time."""


def pair_casts(arch: str, count: int = 64) -> Program:
    """`y_A_B[i] = cast(x_A[i], B)` of every two PAIRED types, in registers; each thread has two elements."""
    m = Maker(count // 2, arch=arch)
    types = [DTYPES[name] for name in PAIRED]
    for source in types:
        x = m.tensor(f"x_{source}", count, source)
        held = m.array(f"held_{source}", 2, source)
        m.add(VectorCopy(held, const(0), x, m.thread * 2, 2))
        for target in types:
            if target == source:
                continue
            y = m.tensor(f"y_{source}_{target}", count, target, "out")
            made = m.array(f"made_{source}_{target}", 2, target)
            m.add(unrolled(2, lambda i, to=made, of=held: store(to, i, cast(load(of, i), to.dtype))))
            m.add(VectorCopy(y, m.thread * 2, made, const(0), 2))
    return m.program("pair_casts")


UNARY = [
    "exp",
    "exp2",
    "exp10",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "asin",
    "acos",
    "atan",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "sigmoid",
    "floor",
    "ceil",
    "round",
    "trunc",
    "nearbyint",
    "abs",
    "rcp",
]
BINARY = ["pow", "fmod", "atan2", "copysign", "hypot", "nextafter"]
ARITHMETIC = ("add", "sub", "mul", "div", "min", "max", "pow", "eq", "ne", "lt", "le", "gt", "ge")
INTEGER_OPS = (
    "add",
    "sub",
    "mul",
    "floordiv",
    "floormod",
    "truncdiv",
    "truncmod",
    "min",
    "max",
    "pow",
    "bitand",
    "bitor",
    "bitxor",
    "shl",
    "shr",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
)


def mathematics(arch: str, dtype: DType, fast_math: bool = False) -> Program:
    """Every math intrinsic of one float type."""

    def make(x: Expr, y: Expr, n: Expr) -> list[Expr]:
        found = [call(name, [x], dtype) for name in UNARY]
        found += [call(name, [x, y], dtype) for name in BINARY if name != "nextafter" or dtype.bits >= 32]
        found += [call("ldexp", [x, n], dtype), call("fma", [x, y, x], dtype)]
        found += [call(name, [x], bool_) for name in ("isnan", "isinf", "isfinite")]
        found += [binary(op, x, y) for op in ARITHMETIC]  # type: ignore[arg-type]
        found += [
            -x,
            x**2.0,
            select(x < y, x, y),
            select(x < y, const(float("inf"), dtype), const(-0.5, dtype)),
        ]
        return found

    return elementwise((dtype, dtype, int32), make, arch=arch, fast_math=fast_math)


def integers(arch: str, dtype: DType) -> Program:
    """Every operator and integer intrinsic of one integer type."""

    def make(x: Expr, y: Expr) -> list[Expr]:
        found = [binary(op, x, y) for op in INTEGER_OPS]  # type: ignore[arg-type]
        found += [binary(op, x, const(k, dtype)) for op in INTEGER_OPS for k in (3, 4)]  # type: ignore[arg-type]
        found += [
            -x,
            ~x,
            unary("not", x),
            call("abs", [x], dtype),
            call("popcount", [x], int32),
            call("clz", [x], int32),
        ]
        found += [const(dtype.min, dtype) + x, const(dtype.max, dtype) - x]
        return found

    return elementwise((dtype, dtype), make, arch=arch)


def bits(arch: str) -> Program:
    """Shuffles, votes and reinterpretations of every width."""
    types = [d for d in DTYPES.values() if d.name != "tfloat32"]

    def make(*xs: Expr) -> list[Expr]:
        found: list[Expr] = []
        for x in xs:
            found += [
                call(name, [x, const(1)], x.dtype) for name in ("shfl_xor", "shfl_up", "shfl_down", "shfl")
            ]
        p = xs[0] == xs[0]
        found += [call("ballot", [p], uint32), call("activemask", [], uint32)]
        found += [
            call(name, [p], bool_) for name in ("any_sync", "all_sync", "syncthreads_and", "syncthreads_or")
        ]
        found.append(call("syncthreads_count", [p], int32))
        by_name = {x.dtype.name: x for x in xs}
        pairs = (
            "float32 int32",
            "int32 float32",
            "float16 uint16",
            "uint16 bfloat16",
            "float64 int64",
            "uint8 float8_e4m3",
            "float8_e5m2 int8",
            "bfloat16 float16",
        )
        for pair in pairs:
            source, to = pair.split()
            found.append(call("reinterpret", [by_name[source]], DTYPES[to]))
        return [*found, call("dp4a", [by_name["int32"], by_name["int32"], by_name["int32"]], int32)]

    return elementwise(types, make, arch=arch)


def pairs(arch: str) -> Program:
    """Arithmetic of float16 two at a time."""

    def make(word: Expr, single: Expr) -> list[Expr]:
        return [
            *(call(f"f16x2_{name}", [word, word], uint32) for name in ("add", "sub", "mul")),
            call("f16x2_fma", [word, word, word], uint32),
            call("f16x2", [single, single], uint32),
            call("f16x2_finite", [single, single], uint32),
            call("in_register", [word], uint32),
        ]

    return elementwise([uint32, float32], make, arch=arch)


ATOMIC_OPS = ("add", "max", "min", "and", "or", "xor", "exch")


def atomic_types(op: str) -> list[DType]:
    """Element types that an atomic of this op is made for."""
    if op in ("and", "or", "xor"):
        return [d for d in INTEGERS if d.bits >= 8]
    return [d for d in DTYPES.values() if d.name not in ("bool", "tfloat32", "int4", "uint4")]


def atomics(arch: str) -> Program:
    """Every atomic of every type, on global memory (with its old value) and on shared memory."""
    m = Maker(arch=arch)
    for op in ATOMIC_OPS:
        for dtype in atomic_types(op):
            x, old = (
                m.tensor(f"x_{op}_{dtype}", 32, dtype, "inout"),
                m.tensor(f"o_{op}_{dtype}", 32, dtype, "out"),
            )
            tile, result = m.tile(f"s_{op}_{dtype}", 4, dtype), Var("old", dtype=dtype)
            value = cast(m.thread, dtype)
            m.add(AtomicRMW(op, x, (m.thread // 2,), value, result), store(old, m.thread, result))
            m.add(AtomicRMW(op, tile, (m.thread % 4,), value))
            m.add(AtomicRMW(op, tile, (m.thread % 4,), value, order="acquire"))
    return m.program("atomics")


def vector_atomics(arch: str) -> Program:
    """Additions of vectors: every type and width, with and without old values, in two memory orders.

    x_<type>_<lanes> is added to four times by each of 32 threads: 2 threads share a vector.
    """
    m = Maker(arch=arch)
    for dtype in (float32, float16, DTYPES["bfloat16"]):
        for lanes in (2, 4, 8):
            if lanes * dtype.bytes > 16:
                continue
            x = m.tensor(f"x_{dtype}_{lanes}", 16 * lanes, dtype, "inout")
            out = m.tensor(f"o_{dtype}_{lanes}", 32 * lanes, dtype, "out")
            value, old = (
                m.array(f"v_{dtype}_{lanes}", lanes, dtype),
                m.array(f"b_{dtype}_{lanes}", lanes, dtype),
            )
            m.add(*(store(value, const(k), cast(m.thread % 2 + k, dtype)) for k in range(lanes)))
            at = m.thread // 2 * lanes
            for order in ("relaxed", "acq_rel"):
                m.add(
                    VectorAtomic(x, at, value, const(0), lanes, order),
                    VectorAtomic(x, at, value, const(0), lanes, order, old, const(0)),
                )
            m.add(VectorCopy(out, m.thread * lanes, old, const(0), lanes))
    return m.program("vector_atomics")


def folds(arch: str) -> Program:
    """Folds between lanes of every type, several values at a time, and of pairs of halves.

    x_<type>: 32 values for each of 32 threads; y_<type>_<op>: their folds over groups of 8 lanes.
    """
    m = Maker(arch=arch)
    for dtype in (float32, int32, DTYPES["float64"], DTYPES["int64"], uint32, float16, DTYPES["bfloat16"]):
        x = m.tensor(f"x_{dtype}", 32 * 4, dtype)
        for op in FOLDS if dtype.is_int else ("max", "min") if dtype.bits == 16 else ("sum", "max", "min"):
            y = m.tensor(f"y_{dtype}_{op}", 32 * 4, dtype, "out")
            for nan, count in ((False, 4), (dtype.is_float and op != "sum", 1)):
                r = m.array(f"r_{dtype}_{op}_{count}", 4, dtype)
                m.add(VectorCopy(r, const(0), x, m.thread * 4, 4))
                if dtype.bits == 16:
                    m.add(FoldPairs(op, nan, count == 1, r, const(0), r, const(2)))
                    m.add(FoldPairs(op, nan, False, r, const(2), r, const(0)))
                for k in range(0, 4, count):
                    m.add(LaneFold(op, nan, r, const(k), count, 1, 8))
                m.add(VectorCopy(y, m.thread * 4, r, const(0), 4))
    return m.program("folds")


def memory_accesses(arch: str) -> Program:
    """Vector copies of every width with and without predicates, cp.async, ldmatrix, barriers."""
    m = Maker(64, arch=arch)
    n = m.symbol("n")
    for dtype in (DTYPES["int8"], float16, float32, DTYPES["float64"]):
        g, out = m.tensor(f"g_{dtype}", n, dtype), m.tensor(f"o_{dtype}", n, dtype, "out")
        tile, r = m.tile(f"s_{dtype}", 64 * 16, dtype), m.array(f"r_{dtype}", 16, dtype)
        for width in (1, 2, 4, 8, 16):
            lanes = width // dtype.bytes
            if lanes == 0:
                continue
            index = m.thread * lanes
            inside = binary("lt", index, n)
            m.add(
                VectorCopy(r, const(0), g, index, lanes),
                VectorCopy(r, const(0), g, index, lanes, inside, True),
            )
            m.add(
                VectorCopy(tile, index, r, const(0), lanes),
                VectorCopy(r, const(0), tile, index, lanes, inside, False),
            )
            m.add(VectorCopy(out, index, r, const(0), lanes, inside))
            if width >= 4:
                m.add(
                    CpAsync(tile, index, g, index, lanes),
                    CpAsync(tile, index, g, index, lanes, inside),
                    CpAsyncCommit(),
                )
        m.add(VectorCopy(r, const(0), g, m.thread * 3, 3))
    m.add(CpAsyncWait(1), CpAsyncWait(0), Barrier(), Barrier(1, 64), SyncWarp())
    tile, r = m.tile("matrices", 64 * 8, float16), m.array("fragment", 8, float16)
    result = m.tensor("matrices_out", 64 * 8, float16, "out")
    for count in (1, 2, 4):
        for transpose in (False, True):
            m.add(LdMatrix(r, const(0), tile, (m.thread % 32) * 8, count, transpose))
            m.add(VectorCopy(result, m.thread * 8, r, const(0), 8))
    return m.program("memory")


MMA = (
    ((16, 8, 16), "float32", "float16"),
    ((16, 8, 8), "float32", "float16"),
    ((16, 8, 16), "float16", "float16"),
    ((16, 8, 16), "float32", "bfloat16"),
    ((16, 8, 8), "float32", "bfloat16"),
    ((16, 8, 8), "float32", "tfloat32"),
    ((16, 8, 4), "float32", "tfloat32"),
    ((16, 8, 8), "float32", "float32"),
    ((16, 8, 32), "int32", "int8"),
    ((16, 8, 32), "int32", "uint8"),
    ((16, 8, 16), "int32", "int8"),
)
MMA_FP8 = (
    ((16, 8, 32), "float32", "float8_e4m3"),
    ((16, 8, 32), "float32", "float8_e5m2"),
)


def products(arch: str, fp8: bool = False) -> Program:
    """Every mma.sync, fragments straight from and to global memory."""
    m = Maker(arch=arch)
    for k, (shape, d_type, dtype) in enumerate(MMA_FP8 if fp8 else MMA):
        counts = (shape[0] * shape[2] // 32, shape[1] * shape[2] // 32, shape[0] * shape[1] // 32)
        types = (DTYPES[dtype], DTYPES[dtype], DTYPES[d_type])
        a, b, d = (m.array(f"{n}{k}", c, t) for n, c, t in zip("abd", counts, types, strict=True))
        ga, gb, gd = (m.tensor(f"{n}{k}", 32 * c, t) for n, c, t in zip("ABD", counts, types, strict=True))
        for register, memory, count in ((a, ga, counts[0]), (b, gb, counts[1]), (d, gd, counts[2])):
            m.add(
                unrolled(
                    count, lambda i, r=register, g=memory, c=count: store(r, i, load(g, m.thread * c + i))
                )
            )
        m.add(
            Mma(
                shape,
                d,
                const(0),
                a,
                const(0),
                b,
                const(0),
                "tf32" if dtype.endswith("float32") else "",
                loc=at(k + 1),
            )
        )
        m.add(unrolled(counts[2], lambda i, r=d, g=gd, c=counts[2]: store(g, m.thread * c + i, load(r, i))))
    return m.program("products")


def control(arch: str) -> Program:
    """Loops of every kind, branches, while, break, continue, asserts, prints, atomics on registers, two
    roles.
    """
    m = Maker(64, grid=(4, 3, 2), arch=arch)
    n, scale = m.symbol("n"), m.scalar("scale", float16)
    flag = m.scalar("flag", bool_)
    x, y = m.tensor("x", n * 64, int32), m.tensor("y", n * 64, int32, "out")
    r, i, j, k = m.array("r", 4, int32), Var("i", dtype=int32), Var("j", dtype=int32), Var("k", dtype=int32)
    bound, old = Var("bound", dtype=int32), Var("old", dtype=int32)
    t = m.thread
    m.add(
        unrolled(4, lambda v: store(r, v, load(x, t + v * 64)), line=2),
        serial(4, lambda v: store(r, v, load(r, v) + v), line=3),
        For(
            i,
            const(10),
            const(0),
            Seq((store(r, 0, load(r, 0) + i), If(i == 5, Break()))),
            step=const(-3),
            loc=at(4),
        ),
        For(j, n, n * 4, Seq((If(j % 3 == 1, Continue()), store(r, 1, load(r, 1) + j))), step=n, loc=at(5)),
        For(k, const(0), const(4), store(r, k, load(r, k) * 2), kind="vectorized", loc=at(6)),
        While(load(r, 2) > const(3), store(r, 2, load(r, 2) >> 1), loc=at(7)),
        Bind(bound, load(r, 0) * 3 + 1, loc=at(8)),
        If(
            binary("and", bound > 2, flag),
            store(r, 3, bound),
            Seq((Bind(bound, load(r, 1)), store(r, 3, bound + 1))),
            loc=at(9),
        ),
        Bind(bound, bound + 1, loc=at(10)),
        AtomicRMW("max", r, (const(1),), bound, old, loc=at(11)),
        Assert(load(r, 0) > -1000, 'never "this"; %d */ \\ ??/', loc=at(12)),
        If(
            t == 1000,
            Print('values {} "%s" \n', (load(r, 0), cast(scale, float32), cast(load(r, 0), DTYPES["int64"]))),
            loc=at(13),
        ),
        Evaluate(call("syncthreads_or", [flag], bool_)),
        store(y, t, load(r, 0) + load(r, 1) + load(r, 2) + load(r, 3) + old + cast(scale, int32), line=14),
    )
    return m.program("control")


def meetings(arch: str) -> Program:
    """Named barriers of some of the threads: that vote, and at which one passes on and another waits."""
    m = Maker(512, arch=arch)
    x = m.tensor("x", 512, int32, "inout")
    some = [const(2), const(256)]
    votes = [call(name, [load(x, m.thread) > 0, *some], bool_) for name in ("barrier_and", "barrier_or")]
    first = Seq((Turn(1, 512, False), *(store(x, m.thread, cast(v, int32)) for v in votes)))
    second = Seq((Turn(1, 512, True), store(x, m.thread, const(1))))
    whole = m.program("meetings")
    return replace(whole, roles=(Role("first", 0, 256, first), Role("second", 256, 256, second)))


def two_roles(arch: str) -> Program:
    """Two groups of warps, each with its body and a named barrier."""
    m = Maker(96, arch=arch)
    x, s = m.tensor("x", 96, float32, "inout"), m.tile("s", 96, float32)
    r, q = m.array("r", 2, float32), m.array("q", 2, float32)
    first = Seq((store(r, 0, load(x, m.thread)), store(s, m.thread, load(r, 0)), Barrier(1, 32)))
    second = Seq((store(q, 1, load(x, m.thread)), Barrier(2, 64), store(x, m.thread, load(q, 1) * 2.0)))
    whole = m.program("roles")
    roles = (Role("producer", 0, 32, first), Role("consumer", 32, 64, second))
    return Program(**{**{f: getattr(whole, f) for f in whole.__dataclass_fields__}, "roles": roles})
