"""A tile program as text in its own language: what the front-end made of the user's function.

Macros are inlined, Python values are in place, every slice has its extents. Written to be read: a program
without `annotations` is Python that gives the same text again; an annotation's name may be none of Python's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from tilebench.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var, int_value
from tilebench.ir.rewrite import walk
from tilebench.ir.text import RANK, SYMBOL
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
    Kernel,
    Parallel,
    Pipelined,
    Print,
    Region,
    Seq,
    Stmt,
    Store,
    SyncThreads,
    TileOp,
    While,
)  # fmt: skip
from tilebench.ops.atomic import AtomicTile
from tilebench.ops.copy.spec import Copy
from tilebench.ops.elementwise import Fill
from tilebench.ops.gemm.spec import Gemm, GemmWarpPolicy
from tilebench.ops.reduce import Reduce
from tilebench.ops.scan import Scan
from tilebench.ops.transpose import Transpose

_ALLOCATED = {"shared": "alloc_shared", "fragment": "alloc_fragment", "local": "alloc_local"}
_LOOPS = {"unroll": "T.unroll", "vectorized": "T.vectorized"}
_ATOMICS = {"exch": "atomic_store"}


def script(kernel: Kernel) -> str:
    """The program's text, one launch after the other; sizes that the call gives stand before it."""
    lines = [f'{s.name} = T.dynamic("{s.name}")' for s in kernel.symbols]
    params = ", ".join(_parameter(p.name, p.value) for p in kernel.params)
    lines += ["@T.prim_func", f"def {kernel.name}({params}):"]
    declared: set[Buffer] = set()
    launch: Kernel | None = kernel
    while launch is not None:
        shared = [b for b in launch.buffers if b.workspace and b not in declared]
        lines += [f"    {_allocation(b)}" for b in shared]
        declared |= set(shared)
        lines += [f"    {line}" for line in _launch(launch)]
        launch = launch.then
    return "\n".join(lines)


def _parameter(name: str, value: Buffer | Var) -> str:
    if isinstance(value, Var):
        return f"{name}: T.{value.dtype}"
    shape = _tuple(value.shape)
    if value.strides is None:
        return f'{name}: T.Tensor({shape}, "{value.dtype}")'
    return f'{name}: T.StridedTensor({shape}, {_tuple(value.strides)}, "{value.dtype}")'


def _launch(kernel: Kernel) -> list[str]:
    grid = ", ".join(text(g) for g in kernel.grid)
    threads = str(kernel.threads[0]) if len(kernel.threads) == 1 else str(kernel.threads)
    blocks = ", ".join(b.name for b in kernel.blocks)
    names = f"({blocks})" if len(kernel.blocks) > 1 else blocks
    lines = [f"with T.Kernel({grid}, threads={threads})" + (f" as {names}:" if names else ":")]
    if kernel.attributes.get("alone"):
        return list(statement(kernel.body, 0)) or ["pass"]
    inside = [_allocation(b) for b in kernel.buffers if not b.workspace]
    if any(node is kernel.thread for node in walk(kernel.body)):
        inside.append(f"{kernel.thread.name} = {_thread(kernel.threads)}")
    inside += list(_attributes(kernel))
    inside += list(statement(kernel.body, 0))
    return lines + [f"    {line}" for line in inside or ["pass"]]


def _thread(threads: tuple[int, ...]) -> str:
    parts, stride = list[str](), 1
    for dim, extent in enumerate(threads):
        parts.append(f"T.get_thread_binding({dim})" + (f" * {stride}" if stride > 1 else ""))
        stride *= extent
    return " + ".join(parts)


def _allocation(b: Buffer) -> str:
    if b.view_of is not None:
        return f'{b.name} = T.view({b.view_of.name}, {_tuple(b.shape)}, "{b.dtype}")'
    if b.scope == "var":
        return f'{b.name} = T.alloc_var("{b.dtype}")'
    made = "alloc_global" if b.workspace else _ALLOCATED[b.scope]
    return f'{b.name} = T.{made}({_tuple(b.shape)}, "{b.dtype}")'


def _attributes(kernel: Kernel) -> Iterator[str]:
    found = kernel.attributes
    if found.get("swizzle_panel"):
        size, order = found["swizzle_panel"]
        yield f"T.use_swizzle({size}" + (")" if order == "row" else f', order="{order}")')
    layouts = cast("dict[Buffer, Any]", found.get("layouts") or {})
    if layouts:
        yield f"T.annotate_layout({{{', '.join(f'{b.name}: {v}' for b, v in layouts.items())}}})"
    safe = cast("dict[Buffer, Any]", found.get("safe_values") or {})
    if safe:
        yield f"T.annotate_safe_value({{{', '.join(f'{b.name}: {_plain(v)}' for b, v in safe.items())}}})"
    if found.get("min_blocks"):
        yield f"T.annotate_min_blocks_per_sm({found['min_blocks']})"


def statement(s: Stmt, depth: int) -> Iterator[str]:
    """The lines of a statement, indented by four blanks a level."""
    pad = "    " * depth
    match s:
        case Seq():
            for part in s.body:
                yield from statement(part, depth)
        case For() | Parallel() | Pipelined() | While():
            yield pad + _head(s)
            yield from _body(s.body, depth)
        case If():
            yield f"{pad}if {text(s.condition)}:"
            yield from _body(s.then, depth)
            if s.orelse is not None:
                yield f"{pad}else:"
                yield from _body(s.orelse, depth)
        case _:
            yield pad + _simple(s)


def _body(s: Stmt, depth: int) -> Iterator[str]:
    lines = list(statement(s, depth + 1))
    yield from lines or ["    " * (depth + 1) + "pass"]


def _head(s: For | Parallel | Pipelined | While) -> str:
    if isinstance(s, While):
        return f"while {text(s.condition)}:"
    if isinstance(s, Parallel):
        given = list(map(str, s.extents)) + _options(coalesced_width=s.coalesced_width, loop_layout=s.layout)
        return f"for {', '.join(v.name for v in s.vars)} in T.Parallel({', '.join(given)}):"
    start, stop = text(s.start), text(s.stop)
    bounds = [stop] if start == "0" else [start, stop]
    if isinstance(s, Pipelined):
        given = [
            *bounds,
            f"num_stages={s.num_stages}",
            *_options(order=s.order, stage=s.stage, group=s.group),
        ]
        return f"for {s.var.name} in T.Pipelined({', '.join(given)}):"
    step = text(s.step)
    given = bounds if step == "1" else [start, stop, step]
    loop = _LOOPS.get(s.kind, "range")
    return f"for {s.var.name} in {loop}({', '.join(given + _options(unroll_factor=s.factor or None))}):"


def _simple(s: Stmt) -> str:
    match s:
        case Bind():
            return f"{s.var.name} = {text(s.value)}"
        case Store():
            return f"{_element(s.buffer, s.indices)} = {text(s.value)}"
        case AtomicRMW():
            order = s.order if s.order != "relaxed" else None
            given = [_element(s.buffer, s.indices), text(s.value), *_options(memory_order=order)]
            name = _ATOMICS.get(s.op, f"atomic_{s.op}")
            if s.result is None:
                return f"T.{name}({', '.join(given)})"
            return f"{s.result.name} = T.{name}({', '.join([*given, 'return_prev=True'])})"
        case Evaluate():
            return text(s.value)
        case Break() | Continue():
            return type(s).__name__.lower()
        case SyncThreads():
            return "T.sync_threads()"
        case Assert():
            return f"T.device_assert({text(s.condition)}, {_plain(s.message)})"
        case Print():
            shown = s.buffer.name if s.buffer is not None else text(s.values[0]) if s.values else ""
            message = (f"msg={_plain(s.message)}",) if s.message and shown else ()
            return f"T.print({', '.join([shown or _plain(s.message), *message])})"
        case TileOp():
            name, given = _op(s)
            given += [f"{k}={_plain(v)}" for k, v in s.annotations]
            return f"T.{name}({', '.join(given)})"
        case _:
            return f"# {type(s).__name__}"


def _op(s: TileOp) -> tuple[str, list[str]]:
    """(name of the op's spelling, its arguments)."""
    match s:
        case Copy():
            sides = [region(s.source), region(s.destination)]
            width = _options(coalesced_width=s.coalesced_width)
            if s.asynchronous:
                return "async_copy", sides + width
            return "copy", sides + width + _options(
                disable_tma=s.disable_tma or None, prefer_instruction=s.prefer
            )
        case Gemm():
            policy = None if s.policy is GemmWarpPolicy.Square else f"T.GemmWarpPolicy.{s.policy.name}"
            options = _options(
                transpose_A=s.transpose_a or None, transpose_B=s.transpose_b or None,
                clear_accum=s.clear_accum or None,
            )  # fmt: skip
            tiles = [region(s.a), region(s.b), region(s.c)]
            return "gemm", tiles + options + ([f"policy={policy}"] if policy else [])
        case Reduce():
            options = _options(
                dim=s.dim,
                clear=None if s.clear else False, nan_propagate=s.nan_propagate or None,
                batch=s.batch if s.batch != 1 else None,
            )  # fmt: skip
            return f"reduce_{s.kind}", [region(s.source), region(s.destination), *options]
        case Scan():
            same = region(s.source) == region(s.destination)
            sides = [region(s.source)] + ([] if same else [region(s.destination)])
            return f"cum{s.kind}", [*sides, f"dim={s.dim}", *_options(reverse=s.reverse or None)]
        case Fill():
            if isinstance(s.value, Const) and s.value.value == 0:
                return "clear", [region(s.destination)]
            return "fill", [region(s.destination), text(s.value)]
        case Transpose():
            return "transpose", [region(s.source), region(s.destination)]
        case AtomicTile():
            value = region(s.value) if isinstance(s.value, Region) else text(s.value)
            order = s.order if s.order != "relaxed" else None
            options = _options(memory_order=order, use_tma=s.bulk or None)
            return f"atomic_{s.op}", [region(s.destination), value, *options]
        case _:
            return type(s).__name__.lower(), [region(r) for r in (*s.reads, *s.writes)]


def _options(**given: Any) -> list[str]:
    """`name=value` of each that is not None."""
    return [f"{k}={_plain(v)}" for k, v in given.items() if v is not None]


def _plain(value: Any) -> str:
    if isinstance(value, Expr):
        return text(value)
    return (
        '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' if isinstance(value, str) else str(value)
    )


def _tuple(parts: tuple[Expr, ...]) -> str:
    return "(" + ", ".join(text(p) for p in parts) + ("," if len(parts) == 1 else "") + ")"


def region(r: Region) -> str:
    """`A`, or `A[i, j : j + 32]`."""
    if r.is_whole and not r.dropped:
        return r.buffer.name
    parts: list[str] = []
    for dim, (offset, extent) in enumerate(zip(r.offsets, r.extents, strict=True)):
        start = text(offset)
        if dim in r.dropped:
            parts.append(start)
        elif int_value(offset) is not None:
            parts.append(f"{start}:{int(cast('Const', offset).value) + extent}")
        else:
            parts.append(f"{start} : {text(offset, RANK['add'])} + {extent}")
    return f"{r.buffer.name}[{', '.join(parts)}]"


def _element(buffer: Buffer, indices: tuple[Expr, ...]) -> str:
    if buffer.scope == "var":
        return buffer.name
    return f"{buffer.name}[{', '.join(text(i) for i in indices)}]"


def text(e: Expr, rank: int = 0) -> str:
    """An expression, in parentheses where what is around it binds more tightly than `rank` says."""
    match e:
        case Const():
            return _number(e)
        case Var():
            return e.name
        case Load():
            return _element(e.buffer, e.indices)
        case Binary(op="min" | "max" | "truncdiv" | "truncmod"):
            return f"T.{e.op}({text(e.left)}, {text(e.right)})"
        case Binary():
            own = RANK[e.op]
            made = f"{text(e.left, own)} {SYMBOL[e.op]} {text(e.right, own + 1)}"
            return f"({made})" if own < rank else made
        case Unary():
            made = {"neg": "-", "not": "not ", "bitnot": "~"}[e.op] + text(e.value, 11)
            return f"({made})" if rank > RANK["add"] or (e.op == "not" and rank) else made
        case Cast():
            return f'T.cast({text(e.value)}, "{e.dtype}")'
        case Select():
            return f"T.if_then_else({text(e.condition)}, {text(e.then)}, {text(e.orelse)})"
        case Call():
            return f"T.{e.name}({', '.join(text(a) for a in e.args)})"
        case _:
            return repr(e)


def _number(e: Const) -> str:
    if e.dtype.is_float and e.value in (float("inf"), float("-inf")):
        return f'{"-" if e.value < 0 else ""}T.infinity("{e.dtype}")'
    return str(e.value)


__all__ = ["script"]
