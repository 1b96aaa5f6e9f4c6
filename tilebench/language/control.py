"""Branches, loops and `with`: folded while compiling where the condition is known, else IR."""

from __future__ import annotations

import ast
import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import Any, Literal, cast

from tilebench.errors import Loc, SyncError, SyntaxTileError, TypeTileError
from tilebench.ir.dtype import DType, int32, int64
from tilebench.ir.expr import Expr, Var, as_expr, binary, const, int_value, to_bool, unary
from tilebench.ir.rewrite import seq, walk
from tilebench.ir.tile import (
    Bind,
    Break,
    Buffer,
    Continue,
    For,
    If,
    Parallel,
    Pipelined,
    Region,
    Seq,
    Stmt,
    While,
)
from tilebench.language import ownership, random, reducers
from tilebench.language.bound_launch import launch_of_loops
from tilebench.language.launching import enter_launch, resolve_thread_value, thread_range
from tilebench.language.markers import LaunchSpec, LoopSpec, ThreadRange, ThreadValue
from tilebench.language.scope import Frame, LoopMark
from tilebench.language.walker import MAX_UNROLLED, Control, Walker

Word = Literal["break", "continue"]


class Left(Control):
    """A break or continue of a loop that Python unrolls."""

    def __init__(self, word: Word) -> None:
        self.word = word


def break_(walker: Walker, node: ast.Break, frame: Frame) -> None:
    """`break`."""
    leave(walker, "break", frame.loc(node), frame)


def continue_(walker: Walker, node: ast.Continue, frame: Frame) -> None:
    """`continue`."""
    leave(walker, "continue", frame.loc(node), frame)


def leave(walker: Walker, word: Word, at: Loc, frame: Frame) -> None:
    """A break or continue of the innermost loop, whichever kind it is."""
    if not frame.loops:
        raise SyntaxTileError(
            "TB104",
            f"{word} outside of a loop",
            at=at,
            why="it leaves the innermost loop of the same function",
            fix="put it in a loop",
        )
    loop = frame.loops[-1]
    if loop.kind == "python":
        if frame.depth != loop.depth:
            raise SyntaxTileError(
                "TB104",
                f"{word} on a run-time condition in a loop that Python unrolls",
                at=at,
                why="how often the loop is unrolled must be known while the kernel is compiled",
                fix="use T.serial for the loop",
            )
        raise Left(word)
    if loop.kind == "parallel":
        raise SyntaxTileError(
            "TB104",
            f"{word} in a T.Parallel loop",
            at=at,
            why="its iterations run at once, in no order",
            fix="put the rest of the body under an if, or use T.serial",
        )
    if loop.kind == "grid" and word == "break":
        raise SyntaxTileError(
            "TB104",
            "break in a T.grid loop",
            at=at,
            why="T.grid is several loops in one, and break leaves one",
            fix="write the loops one by one with T.serial",
        )
    walker.emit(Break() if word == "break" else Continue(), at)


def if_(walker: Walker, node: ast.If, frame: Frame) -> None:
    """`if`: the branch taken alone when the condition is known now."""
    condition = walker.evaluate(node.test, frame)
    if not isinstance(condition, Expr):
        walker.evaluate.refuse_tile(condition, node.test, frame)
        walker.statements(node.body if condition else node.orelse, frame)
        return
    then = walker.body(node.body, frame)
    orelse = walker.body(node.orelse, frame) if node.orelse else None
    walker.emit(If(to_bool(condition), then, orelse), frame.loc(node.test))


def while_(walker: Walker, node: ast.While, frame: Frame) -> None:
    """`while`: unrolled while its condition is known now (`while True` is a run-time loop), else IR."""
    if node.orelse:
        raise SyntaxTileError(
            "TB102",
            "while ... else",
            at=frame.loc(node.orelse[0]),
            why="the language has no else of loops",
            fix="test the condition after the loop",
        )
    mark = walker.mark
    condition = walker.evaluate(node.test, frame)
    at = frame.loc(node.test)
    endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
    if not isinstance(condition, Expr) and not endless:
        _unrolled(walker, node, frame, _while_known(walker, node, condition, frame), lambda _: None)
        return
    before = walker.since(mark)
    frame.loops.append(LoopMark("serial", frame.depth))
    try:
        with random.counted(walker, (), None, parallel=False):
            body = walker.body(node.body, frame)
    finally:
        frame.loops.pop()
    test = const(True) if endless else to_bool(condition)
    if before:  # statements that the condition needs run before every test of it
        body = seq(*before, If(unary("not", test), Break(loc=at), loc=at), body)
        test = const(True)
    walker.emit(While(test, body), at)


def _while_known(walker: Walker, node: ast.While, condition: Any, frame: Frame) -> Iterable[Any]:
    while condition:
        yield condition
        condition = walker.evaluate(node.test, frame)
        if isinstance(condition, Expr):
            raise SyntaxTileError(
                "TB104",
                "the condition of this while becomes a run-time value",
                at=frame.loc(node.test),
                why="it was known at first, so Python unrolls the loop",
                fix="declare what changes as a variable before the loop: n = T.alloc_var('int32', ...)",
            )


def _unrolled(
    walker: Walker,
    node: ast.For | ast.While,
    frame: Frame,
    values: Iterable[Any],
    bind: Callable[[Any], None],
) -> None:
    frame.loops.append(LoopMark("python", frame.depth))
    try:
        for count, value in enumerate(values):
            if count >= MAX_UNROLLED:
                raise SyntaxTileError(
                    "TB107",
                    f"this loop is unrolled more than {MAX_UNROLLED} times",
                    at=frame.loc(node),
                    why="a loop over Python values is unrolled while the kernel is compiled",
                    fix="use T.serial(n)",
                )
            bind(value)
            try:
                walker.statements(node.body, frame)
            except Left as left:
                if left.word == "break":
                    break
    finally:
        frame.loops.pop()


def for_(walker: Walker, node: ast.For, frame: Frame) -> None:
    """`for`: a loop spelling or range is IR, any other iterable is unrolled."""
    if node.orelse:
        raise SyntaxTileError(
            "TB102",
            "for ... else",
            at=frame.loc(node.orelse[0]),
            why="the language has no else of loops",
            fix="put the else part after the loop",
        )
    values = walker.evaluate(node.iter, frame)
    if isinstance(values, range) and walker.inside:
        values = LoopSpec("serial", start=values.start, stop=values.stop, step=values.step)
    if isinstance(values, LoopSpec):
        _loop(walker, node, values, frame)
        return
    if isinstance(values, Expr | Buffer | Region) or not hasattr(values, "__iter__"):
        raise TypeTileError(
            "TB225",
            f"{ast.unparse(node.iter)} cannot be looped over",
            at=frame.loc(node.iter),
            why="a loop goes over a range, a loop spelling, or Python values",
            fix="for i in T.serial(n), or for i in range(n)",
        )
    _unrolled(
        walker,
        node,
        frame,
        values,
        lambda v: walker.bind_target(node.target, walker.bound("item", v, frame, node), frame),
    )


def _loop(walker: Walker, node: ast.For, loop: LoopSpec, frame: Frame) -> None:
    at = frame.loc(node.iter)
    if not walker.inside and loop.kind == "thread":
        launch_of_loops(walker, node, loop, frame, thread_bound)
        return
    if not walker.inside:
        raise SyntaxTileError(
            "TB108",
            "a loop outside of T.Kernel",
            at=at,
            why="only the blocks of a launch run loops",
            fix="put it under `with T.Kernel(...)`",
        )
    if loop.kind == "thread":
        walker.bind_target(node.target, thread_bound(walker, loop, at), frame)
        walker.statements(node.body, frame)
        return
    several = loop.kind in ("parallel", "grid", "persistent")
    if several and not loop.extents:
        raise TypeTileError(
            "TB222",
            "a loop without extents",
            at=at,
            why="each variable goes over an extent",
            fix="T.Parallel(M, N)",
        )
    names = _loop_names(node.target, len(loop.extents) if several else 1, frame)
    if loop.kind == "parallel" and any(_number(e) is None for e in loop.extents):
        loop = dataclasses.replace(loop, kind="persistent", options={"strided": True})
    if loop.kind == "parallel":
        for e in loop.extents:
            _fixed(e, at)
    bounds = (loop.start, loop.stop, loop.step) if not several else loop.extents
    dtype = _bound_dtype(walker, bounds, at)
    variables = tuple(Var(n, dtype=dtype) for n in names)
    saved = {n: (frame.names[n], frame.bound_at.get(n, 0)) for n in names if n in frame.names}
    for n, v in zip(names, variables, strict=True):
        frame.names[n], frame.bound_at[n] = v, frame.depth + 1
    kind = (
        "parallel"
        if loop.kind == "parallel" or "strided" in loop.options
        else "grid"
        if loop.kind == "grid" and len(names) > 1
        else "serial"
    )
    frame.loops.append(LoopMark(kind, frame.depth))
    try:
        if "strided" in loop.options:
            with random.counted(walker, variables, None):
                _strided(walker, node, loop, variables, frame, at)
        elif loop.kind == "persistent":
            with random.counted(walker, variables, None, parallel=False):
                _persistent(walker, node, loop, variables, frame, at)
        else:
            sizes = tuple(_fixed(e, at) for e in loop.extents) if loop.kind == "parallel" else None
            with random.counted(walker, variables, sizes, loop.kind == "parallel"):
                body, before, after = walker.body(node.body, frame), [], []
            if loop.kind == "parallel":
                extents = [_fixed(e, at) for e in loop.extents]
                before, body, after = reducers.split(walker, variables, extents, body, at)
            for statement in (*before, _loop_statement(walker, loop, variables, body, dtype, at), *after):
                walker.emit(statement, at)
            random.after_loop(walker, at)
    finally:
        frame.loops.pop()
    for n, v in zip(names, variables, strict=True):
        frame.names.pop(n, None)
        frame.gone[n] = v.loc or frame.loc(node.target)
        if n in saved:
            frame.names[n], frame.bound_at[n] = saved[n]


def _loop_names(target: ast.expr, count: int, frame: Frame) -> list[str]:
    parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    if not all(isinstance(p, ast.Name) for p in parts):
        raise SyntaxTileError(
            "TB102",
            f"{ast.unparse(target)} as a loop variable",
            at=frame.loc(target),
            why="it is a name, or names in a tuple",
            fix="for i, j in T.Parallel(M, N)",
        )
    if len(parts) != count:
        raise TypeTileError(
            "TB222",
            f"the loop has {count} extents and {len(parts)} variables",
            at=frame.loc(target),
            why="each variable goes over one extent",
            fix="use one variable for each extent",
        )
    return [cast("ast.Name", p).id for p in parts]


def _bound_dtype(walker: Walker, bounds: tuple[Any, ...], at: Loc) -> DType:
    wide = any(
        _int(walker, b, at).dtype.bits > 32 or _int(walker, b, at).dtype.name == "uint32"
        for b in bounds
        if b is not None
    )
    return int64 if wide else int32


def _int(walker: Walker, value: Any, at: Loc | None) -> Expr:
    e = as_expr(walker.known_extent(value, at))
    if e.dtype.is_float:
        raise TypeTileError(
            "TB217",
            f"a loop bound is a {e.dtype}",
            at=at,
            why="bounds are whole numbers",
            fix="use // for division, or T.ceildiv",
        )
    return e


def _number(value: Any) -> int | None:
    return int_value(value) if isinstance(value, Expr | int) else None


def _fixed(value: Any, at: Loc | None) -> int:
    number = _number(value)
    if number is None or number < 0:
        raise TypeTileError(
            "TB226",
            "an extent of T.Parallel is not known when the kernel is compiled"
            if number is None
            else f"an extent of T.Parallel is {number}",
            at=at,
            why="its iterations are laid out over the threads",
            fix="loop over the tile's size and guard with if",
        )
    return number


def _loop_statement(
    walker: Walker, loop: LoopSpec, variables: tuple[Var, ...], body: Stmt, dtype: DType, at: Loc | None
) -> Stmt:
    options = loop.options

    def bound(value: Any) -> Expr:
        return _int(walker, value, at).astype(dtype)

    match loop.kind:
        case "parallel":
            width, layout = options.get("coalesced_width"), options.get("layout")
            extents = tuple(_fixed(e, at) for e in loop.extents)
            ownership.refuse_private(variables, body, at)
            only = body.body[0] if isinstance(body, Seq) and len(body.body) == 1 else body
            if (
                isinstance(only, Parallel) and layout is None and only.layout is None
            ):  # one loop, spelled as two
                extents, variables = extents + only.extents, variables + only.vars
                width, body = width or only.coalesced_width, only.body
            inner = next((n for n in walk(body) if isinstance(n, Parallel)), None)
            if inner is not None:
                raise SyncError(
                    "TB412",
                    "a T.Parallel inside T.Parallel, with other statements around it",
                    at=inner.loc or at,
                    why="the iterations of a loop are spread over the threads once",
                    fix="make it T.serial or T.vectorized, or one loop: for i, j in T.Parallel(m, n)",
                    notes=[(at, "this T.Parallel is around it")],
                )
            return Parallel(variables, extents, body, width, layout)
        case "grid":
            for var, extent in reversed(list(zip(variables, loop.extents, strict=True))):
                body = For(var, const(0, dtype), bound(extent), body, const(1, dtype), loc=at)
            return body
        case "pipelined":
            stages = options["num_stages"]
            if not isinstance(stages, int) or stages < 0:
                shown = stages if isinstance(stages, int | float | str) else "a run-time value"
                raise TypeTileError(
                    "TB227",
                    f"num_stages is {shown}",
                    at=at,
                    why="it is the number of versions of each tile",
                    fix="num_stages=2, 3 or 4; 0 for a plain loop",
                )
            groups = options["group"]
            return Pipelined(
                variables[0],
                bound(loop.start),
                bound(loop.stop),
                body,
                int(stages) or _depth(_ints(options["stage"]) or ()),
                _ints(options["order"]),
                _ints(options["stage"]),
                tuple(tuple(int(i) for i in g) for g in groups) if groups else None,
            )
        case _:
            step = bound(loop.step)
            if int_value(step) == 0:
                raise TypeTileError(
                    "TB270",
                    "a loop with step 0",
                    at=at,
                    why="it would never end",
                    fix="use a positive or a negative step",
                )
            kind, factor = cast("Any", loop.kind), int(options.get("factor") or 0)
            return For(variables[0], bound(loop.start), bound(loop.stop), body, step, kind, factor=factor)


def _depth(stage: tuple[int, ...]) -> int:
    """Versions of a tile that a schedule by hand needs, without num_stages=; 0 where it has one stage."""
    placed = [s for s in stage if s >= 0]
    return max(placed) - min(placed) + 1 if len(set(placed)) > 1 else 0


def _ints(values: Any) -> tuple[int, ...] | None:
    return tuple(int(v) for v in values) if values else None


def thread_bound(walker: Walker, loop: LoopSpec, at: Loc) -> Any:
    """`for t in T.thread_binding(n, "threadIdx.x")`: the thread's own index, one of n."""
    kind, dim = loop.options["kind"], loop.options["dim"]
    extent = resolve_thread_value(
        walker, ThreadValue("thread_extent" if kind == "thread" else "block_extent", dim), at
    )
    wanted = int_value(as_expr(loop.stop))
    if wanted is not None and isinstance(extent, int) and extent != wanted:
        raise TypeTileError(
            "TB222",
            f"T.thread_binding goes over {wanted} threads, the launch has {extent}",
            at=at,
            why="each thread takes one iteration",
            fix=f"T.Kernel(..., threads={wanted})",
        )
    return resolve_thread_value(walker, ThreadValue(kind, dim), at)


def _strided(
    walker: Walker, node: ast.For, loop: LoopSpec, variables: tuple[Var, ...], frame: Frame, at: Loc
) -> None:
    """T.Parallel over extents that the run knows: the threads take iterations a block's worth at a time."""
    extents = [_int(walker, e, at) for e in loop.extents]
    total = extents[0]
    for e in extents[1:]:
        total = total * e
    count = math.prod(walker.threads)
    trip, lane = Var("turn", dtype=int32), Var("lane", dtype=int32)
    rest: Expr = trip * count + lane
    inside = rest < total
    coordinates: list[Expr] = []
    for e in reversed(extents[1:]):
        coordinates.insert(0, rest % e)
        rest = rest // e
    walker.bodies.append([])
    try:
        for var, value in zip(variables, [rest, *coordinates], strict=True):
            walker.emit(Bind(var, value), at)
        walker.emit(walker.body(node.body, frame), at)
    finally:
        inner = seq(*walker.bodies.pop())
    ownership.refuse_private(variables, inner, at)
    ownership.refuse_fragments(variables, inner, at)
    walker.emit(
        For(trip, const(0), (total + (count - 1)) // count,
            Parallel((lane,), (count,), If(inside, inner, loc=at), loc=at)), at,
    )  # fmt: skip


def _persistent(
    walker: Walker, node: ast.For, loop: LoopSpec, variables: tuple[Var, ...], frame: Frame, at: Loc
) -> None:
    """Tile number `index + wave * wave_size`, taken apart in groups of rows that share columns."""
    options = loop.options
    extents = [_int(walker, e, at) for e in loop.extents]
    total = extents[0]
    for e in extents[1:]:
        total = total * e
    wave, index = _int(walker, options["wave_size"], at), _int(walker, options["index"], at)
    trip = Var("wave", dtype=int32)
    flat = trip * wave + index
    coordinates: list[Expr] = []
    if len(extents) == 2:
        group = min(options["group_size"], int_value(extents[0]) or options["group_size"])
        span = extents[1] * group
        first = (flat // span) * group
        rows = binary("min", extents[0] - first, group)
        coordinates = [first + (flat % span) % rows, (flat % span) // rows]
    else:
        rest: Expr = flat
        for e in reversed(extents):
            coordinates.insert(0, rest % e)
            rest = rest // e
    walker.bodies.append([])
    try:
        for var, value in zip(variables, coordinates, strict=True):
            walker.emit(Bind(var, value), at)
        walker.emit(walker.body(node.body, frame), at)
    finally:
        inner = seq(*walker.bodies.pop())
    walker.emit(For(trip, const(0), (total + (wave - 1)) // wave, If(flat < total, inner, loc=at)), at)


def with_(walker: Walker, node: ast.With, frame: Frame) -> None:
    """`with T.Kernel(...) as (bx, by)`, `with T.ws(0)`, or a Python context manager while compiling."""
    _with_items(walker, node, list(node.items), frame)


def _with_items(walker: Walker, node: ast.With, items: list[ast.withitem], frame: Frame) -> None:
    if not items:
        walker.statements(node.body, frame)
        return
    item, rest = items[0], items[1:]
    value = walker.evaluate(item.context_expr, frame)
    at = frame.loc(item.context_expr)
    if isinstance(value, LaunchSpec):
        names = enter_launch(walker, value, at)
        target = item.optional_vars
        if isinstance(target, ast.Tuple | ast.List):
            if len(target.elts) != len(names):
                raise TypeTileError(
                    "TB222",
                    f"the grid has {len(names)} axes and {len(target.elts)} names",
                    at=frame.loc(target),
                    why="each axis has one block index",
                    fix="use one name for each axis",
                )
            walker.bind_target(target, names, frame)
        elif target is not None:
            walker.bind_target(target, names[0] if len(names) == 1 else names, frame)
        _with_items(walker, node, rest, frame)
        walker.inside = False
    elif isinstance(value, ThreadRange):
        inner = ast.copy_location(ast.With(rest, node.body), node) if rest else None
        condition = thread_range(walker, value, at)
        walker.emit(If(condition, walker.body([inner] if inner is not None else node.body, frame)), at)
    elif hasattr(value, "__enter__") and hasattr(value, "__exit__"):
        entered = value.__enter__()
        if item.optional_vars is not None:
            walker.bind_target(item.optional_vars, entered, frame)
        try:
            _with_items(walker, node, rest, frame)
        finally:
            value.__exit__(None, None, None)
    else:
        raise TypeTileError(
            "TB229",
            f"{type(value).__name__} does not work with `with`",
            at=at,
            why="with takes a launch or a Python context manager",
            fix="with T.Kernel(...) as bx:",
        )
