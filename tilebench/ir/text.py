"""One printer for both IR levels: readable text, one statement a line, and which line came from where."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, cast

from tilebench.errors import Loc
from tilebench.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
from tilebench.ir.hopper import TensorMap
from tilebench.ir.thread import Program
from tilebench.ir.tile import (
    Acquire,
    Bind,
    Break,
    Buffer,
    Continue,
    Evaluate,
    For,
    If,
    Issue,
    Kernel,
    Parallel,
    Pipelined,
    Produce,
    Region,
    Release,
    Seq,
    Stmt,
    Store,
    SyncThreads,
    TileOp,
    Versioned,
    Wait,
    While,
)  # fmt: skip

SYMBOL = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "floormod": "%", "and": "and",
    "or": "or",
    "bitand": "&", "bitor": "|", "bitxor": "^", "shl": "<<", "shr": ">>", "eq": "==", "ne": "!=", "lt": "<",
    "le": "<=",
    "gt": ">", "ge": ">=", "pow": "**",
}  # fmt: skip
RANK = {
    "or": 1, "and": 2, "eq": 4, "ne": 4, "lt": 4, "le": 4, "gt": 4, "ge": 4, "bitor": 5, "bitxor": 6,
    "bitand": 7, "shl": 8,
    "shr": 8, "add": 9, "sub": 9, "mul": 10, "div": 10, "floordiv": 10, "floormod": 10, "pow": 12,
}  # fmt: skip


@dataclass(frozen=True)
class Printed:
    """text, and for each line (from 0) the place in the source that it came from."""

    text: str
    locs: tuple[Loc | None, ...]


def expr_text(e: Expr, rank: int = 0) -> str:
    """An expression as Python-like text."""
    match e:
        case Const():
            return str(e.value)
        case Var():
            return e.name
        case Load():
            return f"{e.buffer.name}[{', '.join(expr_text(i) for i in e.indices)}]"
        case Binary(op="min" | "max" | "truncdiv" | "truncmod"):
            return f"{e.op}({expr_text(e.left)}, {expr_text(e.right)})"
        case Binary():
            own = RANK[e.op]
            text = f"{expr_text(e.left, own)} {SYMBOL[e.op]} {expr_text(e.right, own + 1)}"
            return f"({text})" if own < rank else text
        case Unary():
            return {"neg": "-", "not": "not ", "bitnot": "~"}[e.op] + expr_text(e.value, 11)
        case Cast():
            return f"{e.dtype}({expr_text(e.value)})"
        case Select():
            return f"select({expr_text(e.condition)}, {expr_text(e.then)}, {expr_text(e.orelse)})"
        case Call():
            return f"{e.name}({', '.join(expr_text(a) for a in e.args)})"
        case _:
            return repr(e)


def region_text(r: Region) -> str:
    """`name[offset:+extent, ...]`, or the bare name for a whole buffer."""
    if r.is_whole and not r.dropped:
        return r.buffer.name
    parts = [
        expr_text(o) if d in r.dropped else f"{expr_text(o)}:+{n}"
        for d, (o, n) in enumerate(zip(r.offsets, r.extents, strict=True))
    ]
    return f"{r.buffer.name}[{', '.join(parts)}]"


def _value_text(value: Any) -> str:
    match value:
        case Expr():
            return expr_text(value)
        case Region():
            return region_text(value)
        case Buffer() | TensorMap():
            return value.name
        case tuple():
            return "(" + ", ".join(_value_text(v) for v in cast("tuple[Any, ...]", value)) + ")"
        case _:
            return str(value)


def print_stmt(stmt: Stmt) -> Printed:
    """A statement of either level."""
    lines: list[str] = []
    locs: list[Loc | None] = []

    def put(depth: int, text: str, at: Loc | None) -> None:
        lines.append("  " * depth + text)
        locs.append(at)

    def visit(s: Stmt, depth: int) -> None:
        match s:
            case Seq():
                for part in s.body:
                    visit(part, depth)
            case For():
                step = f", {expr_text(s.step)}" if expr_text(s.step) != "1" else ""
                kind = "range" if s.kind == "serial" else s.kind
                factor = f", factor={s.factor}" if s.factor else ""
                put(
                    depth,
                    f"for {s.var.name} in {kind}({expr_text(s.start)}, {expr_text(s.stop)}{step}{factor}):",
                    s.loc,
                )
                visit(s.body, depth + 1)
            case Parallel():
                put(depth, f"for {', '.join(v.name for v in s.vars)} in parallel{s.extents}:", s.loc)
                visit(s.body, depth + 1)
            case Pipelined():
                put(
                    depth,
                    f"for {s.var.name} in pipelined({expr_text(s.start)}, {expr_text(s.stop)}, "
                    f"stages={s.num_stages}):",
                    s.loc,
                )
                visit(s.body, depth + 1)
            case While():
                put(depth, f"while {expr_text(s.condition)}:", s.loc)
                visit(s.body, depth + 1)
            case If():
                put(depth, f"if {expr_text(s.condition)}:", s.loc)
                visit(s.then, depth + 1)
                if s.orelse is not None:
                    put(depth, "else:", s.loc)
                    visit(s.orelse, depth + 1)
            case Bind():
                put(depth, f"{s.var.name}: {s.var.dtype} = {expr_text(s.value)}", s.loc)
            case Store():
                put(
                    depth,
                    f"{s.buffer.name}[{', '.join(expr_text(i) for i in s.indices)}] = {expr_text(s.value)}",
                    s.loc,
                )
            case Evaluate():
                put(depth, expr_text(s.value), s.loc)
            case Break() | Continue():
                put(depth, type(s).__name__.lower(), s.loc)
            case SyncThreads():
                put(depth, "sync_warpgroup()" if s.group else "sync_threads()", s.loc)
            case Issue():
                put(depth, f"issue {s.token.name}:", s.loc)
                for op in s.ops:
                    visit(op, depth + 1)
            case Wait():
                put(depth, f"wait {s.token.name} pending={s.pending}", s.loc)
            case Produce():
                put(depth, f"produce {s.channel.name}:", s.loc)
                for op in s.copies:
                    visit(op, depth + 1)
            case Acquire():
                put(depth, f"acquire {s.channel.name}" + (" again" if s.again else ""), s.loc)
            case Release():
                what = (
                    f"release {s.channel.name}"
                    + {"own": "", "previous": "'s slot before", "none": ": nothing"}[s.give]
                )
                what += "" if s.condition is None else f" if {expr_text(s.condition)}"
                put(depth, what + (", next slot" if s.advance else ""), s.loc)
            case Versioned():
                table = ", ".join(f"{b.name}#{expr_text(v)}" for b, v in s.versions.items())
                put(depth, f"with {table}:", s.loc)
                visit(s.body, depth + 1)
            case _:
                name = type(s).__name__
                name = "".join("_" + c.lower() if c.isupper() else c for c in name).strip("_")
                parts: list[str] = []
                for f in dataclasses.fields(s):
                    value = getattr(s, f.name)
                    if f.name in ("loc", "id") or (
                        f.default is not dataclasses.MISSING
                        and not isinstance(value, Expr)
                        and value == f.default
                    ):
                        continue
                    parts.append(
                        _value_text(value)
                        if isinstance(value, Region | Expr) and isinstance(s, TileOp)
                        else f"{f.name}={_value_text(value)}"
                    )
                put(depth, f"{name}({', '.join(parts)})", s.loc)

    visit(stmt, 0)
    return Printed("\n".join(lines), tuple(locs))


def _indent(printed: Printed, head: list[str]) -> Printed:
    text = "\n".join(head + ["  " + line for line in printed.text.splitlines()])
    return Printed(text, tuple([None] * len(head)) + printed.locs)


def print_kernel(kernel: Kernel) -> Printed:
    """A tile program: signature, launch, allocations, body; then the launches behind it."""
    params = ", ".join(
        f"{p.name}: {p.value.dtype}[{', '.join(expr_text(s) for s in p.value.shape)}]"
        if isinstance(p.value, Buffer)
        else f"{p.name}: {p.value.dtype}"
        for p in kernel.params
    )
    grid = ", ".join(f"{v.name} < {expr_text(g)}" for v, g in zip(kernel.blocks, kernel.grid, strict=True))
    head = [f"kernel {kernel.name}({params})", f"  grid {grid}; threads {kernel.threads}"]
    head += [
        f"  {b.scope} {b.name}: {b.dtype}[{', '.join(expr_text(s) for s in b.shape)}]" for b in kernel.buffers
    ]
    out = _indent(print_stmt(kernel.body), head)
    if kernel.then is not None:
        rest = print_kernel(kernel.then)
        out = Printed(f"{out.text}\nthen {rest.text}", out.locs + rest.locs)
    return out


def print_program(program: Program) -> Printed:
    """A thread program: shared memory, registers, and each role's body."""
    head = [
        f"program {program.name} for {program.arch}: {program.threads} threads, {program.shared_bytes} "
        "bytes shared"
    ]
    head += [
        f"  shared {m.name}: {m.dtype}[{expr_text(m.shape[0])}] at {m.byte_offset}" for m in program.shared
    ]
    head += [f"  register {m.name}: {m.dtype}[{expr_text(m.shape[0])}]" for m in program.registers]
    head += [
        f"  tensor map {m.name}: {m.memory.name}, boxes of {'x'.join(map(str, m.box))}, "
        f"{m.swizzle}-byte swizzle"
        for m in program.tensor_maps
    ]
    out = Printed("\n".join(head), tuple([None] * len(head)))
    if program.prologue is not None:
        first = _indent(print_stmt(program.prologue), ["all threads first"])
        out = Printed(out.text + "\n" + first.text, out.locs + first.locs)
    for role in program.roles:
        body = _indent(
            print_stmt(role.body),
            [f"role {role.name}: threads {role.first_thread} to {role.first_thread + role.threads - 1}"],
        )
        out = Printed(out.text + "\n" + body.text, out.locs + body.locs)
    return out
