"""What valid IR is: a table of node, condition, sentence for each level, and a walk that applies it.

A pass that leaves something invalid is a bug of tilebench: InternalError TB902 shows the node and the broken
sentence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilebench.errors import InternalError, Loc
from tilebench.ir import hopper
from tilebench.ir.expr import (
    COMPARISONS,
    LOGICAL,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Unary,
    Var,
    int_value,
)
from tilebench.ir.folds import FOLDS, PAIRED, FoldPairs, LaneFold
from tilebench.ir.intrinsics import INTRINSICS
from tilebench.ir.rewrite import children, walk
from tilebench.ir.text import expr_text, print_stmt, region_text
from tilebench.ir.thread import (
    Barrier,
    CpAsync,
    CpAsyncCommit,
    CpAsyncWait,
    LdMatrix,
    Memory,
    Mma,
    Program,
    SyncWarp,
    Turn,
    VectorAtomic,
    VectorCopy,
)
from tilebench.ir.tile import (
    Acquire,
    Assert,
    AtomicRMW,
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
    Print,
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
)
from tilebench.ir.timers import ReadCounter, Timestamp

ATOMICS = ("add", "max", "min", "and", "or", "xor", "exch")
MMA_SHAPES = (
    (16, 8, 4),
    (16, 8, 8),
    (16, 8, 16),
    (16, 8, 32),
    (16, 8, 64),
    (8, 8, 4),
    (16, 8, 128),
    (16, 8, 256),
)


@dataclass(frozen=True)
class Rule:
    """Every node of type `kind` satisfies `holds`; `sentence` says so."""

    kind: type
    holds: Callable[[Any], bool]
    sentence: str


BOTH: tuple[Rule, ...] = (
    Rule(Load, lambda n: n.dtype == n.buffer.dtype, "a load has the dtype of its buffer"),
    Rule(Load, lambda n: all(_is_index(i) for i in n.indices), "indices are integers"),
    Rule(
        Binary, lambda n: n.left.dtype == n.right.dtype, "both operands of a binary operator have one dtype"
    ),
    Rule(
        Binary,
        lambda n: (
            n.dtype.kind == "bool" if n.op in COMPARISONS or n.op in LOGICAL else n.dtype == n.left.dtype
        ),
        "comparisons and logic give bool, other operators the dtype of their operands",
    ),
    Rule(Select, lambda n: n.condition.dtype.kind == "bool", "the condition of a select is a bool"),
    Rule(Select, lambda n: n.then.dtype == n.orelse.dtype == n.dtype, "both arms of a select have its dtype"),
    Rule(Call, lambda n: n.name in INTRINSICS, "a call names an intrinsic of ir/intrinsics.py"),
    Rule(
        Call,
        lambda n: n.name not in INTRINSICS or len(n.args) == INTRINSICS[n.name].arity,
        "an intrinsic gets its number of arguments",
    ),
    Rule(Store, lambda n: n.value.dtype == n.buffer.dtype, "a stored value has the dtype of its buffer"),
    Rule(Store, lambda n: all(_is_index(i) for i in n.indices), "indices are integers"),
    Rule(
        AtomicRMW, lambda n: n.value.dtype == n.buffer.dtype, "an atomic operand has the dtype of its buffer"
    ),
    Rule(AtomicRMW, lambda n: n.op in ATOMICS, f"an atomic is one of {', '.join(ATOMICS)}"),
    Rule(
        AtomicRMW,
        lambda n: n.result is None or n.result.dtype == n.buffer.dtype,
        "the old value has the dtype of its buffer",
    ),
    Rule(Bind, lambda n: n.var.dtype == n.value.dtype, "a bound variable has the dtype of its value"),
    Rule(If, lambda n: n.condition.dtype.kind == "bool", "the condition of an if is a bool"),
    Rule(While, lambda n: n.condition.dtype.kind == "bool", "the condition of a while is a bool"),
    Rule(Assert, lambda n: n.condition.dtype.kind == "bool", "the condition of an assertion is a bool"),
    Rule(
        For,
        lambda n: n.kind in ("serial", "unroll", "vectorized"),
        "a loop is serial, unrolled or vectorized",
    ),
    Rule(For, lambda n: int_value(n.step) != 0, "the step of a loop is not 0"),
    Rule(
        For,
        lambda n: n.start.dtype == n.stop.dtype == n.var.dtype,
        "a loop variable has the dtype of its bounds",
    ),
)
TILE: tuple[Rule, ...] = (
    *BOTH,
    Rule(
        Load, lambda n: len(n.indices) == len(n.buffer.shape), "an element has one index for each dimension"
    ),
    Rule(
        Store, lambda n: len(n.indices) == len(n.buffer.shape), "an element has one index for each dimension"
    ),
    Rule(
        AtomicRMW,
        lambda n: len(n.indices) == len(n.buffer.shape),
        "an element has one index for each dimension",
    ),
    Rule(Load, lambda n: not isinstance(n.buffer, Memory), "tile IR accesses buffers, not flat memories"),
    Rule(
        Region,
        lambda n: len(n.offsets) == len(n.extents) == len(n.buffer.shape),
        "a region has one offset and extent for each dimension",
    ),
    Rule(Region, lambda n: all(e >= 1 for e in n.extents), "the extents of a region are at least 1"),
    Rule(Region, lambda n: all(n.extents[d] == 1 for d in n.dropped), "a dropped dimension has extent 1"),
    Rule(
        Parallel,
        lambda n: len(n.vars) == len(n.extents) >= 1,
        "a parallel nest has one variable for each extent",
    ),
    Rule(
        Parallel, lambda n: all(e >= 0 for e in n.extents), "the extents of a parallel nest are not negative"
    ),
    Rule(
        Parallel,
        lambda n: not any(isinstance(x, TileOp) for x in walk(n.body)),
        "a parallel nest holds no tile op",
    ),
    Rule(
        Parallel,
        lambda n: not any(isinstance(x, SyncThreads) for x in walk(n.body)),
        "a parallel nest holds no barrier",
    ),
    Rule(Pipelined, lambda n: n.num_stages >= 0, "the number of stages is not negative"),
    Rule(Wait, lambda n: n.pending >= 0, "a wait leaves a number of groups pending"),
    Rule(
        Versioned, lambda n: all(b.scope == "shared" for b in n.versions), "only shared buffers have versions"
    ),
)
THREAD: tuple[Rule, ...] = (
    *BOTH,
    Rule(
        Load,
        lambda n: isinstance(n.buffer, Memory) and len(n.indices) == 1,
        "thread IR loads from a flat memory with one index",
    ),
    Rule(
        Store,
        lambda n: isinstance(n.buffer, Memory) and len(n.indices) == 1,
        "thread IR stores to a flat memory with one index",
    ),
    Rule(VectorCopy, lambda n: n.destination.dtype == n.source.dtype, "a vector copy does not convert"),
    Rule(
        VectorCopy, lambda n: 1 <= n.lanes * n.source.dtype.bytes <= 16, "a vector copy moves 1 to 16 bytes"
    ),
    Rule(
        VectorCopy,
        lambda n: "register" in (n.destination.space, n.source.space),
        "one side of a vector copy is a register array",
    ),
    Rule(
        VectorAtomic,
        lambda n: n.destination.dtype == n.source.dtype and n.destination.dtype.is_float,
        "a vector atomic adds floats of one dtype",
    ),
    Rule(
        VectorAtomic,
        lambda n: 4 <= n.lanes * n.source.dtype.bytes <= 16 and n.lanes in (2, 4, 8),
        "a vector atomic is of 2, 4 or 8 elements and at most 16 bytes",
    ),
    Rule(
        VectorAtomic,
        lambda n: (n.source.space, n.destination.space) == ("register", "global"),
        "a vector atomic goes from registers to global memory",
    ),
    Rule(
        VectorAtomic,
        lambda n: n.old is None or (n.old.space == "register" and n.old_index is not None),
        "the old values of a vector atomic go to registers",
    ),
    Rule(
        FoldPairs,
        lambda n: n.destination.dtype == n.source.dtype and n.source.dtype.name in PAIRED,
        "pairs that are folded are halves of one type",
    ),
    Rule(
        LaneFold,
        lambda n: n.destination.space == "register" and n.op in FOLDS,
        f"a fold is in registers, and one of {', '.join(FOLDS)}",
    ),
    Rule(
        FoldPairs,
        lambda n: (n.source.space, n.destination.space) == ("register", "register"),
        "a fold is in registers",
    ),
    Rule(LaneFold, lambda n: not n.nan or n.op in ("max", "min"), "NaN is kept by max and min"),
    Rule(FoldPairs, lambda n: n.op in ("max", "min"), "pairs of halves have a largest and a smallest"),
    Rule(
        LaneFold,
        lambda n: (
            n.destination.dtype.bits >= 32
            or (
                n.destination.dtype.name in PAIRED
                and n.op in ("max", "min")
                and (n.count == 1 or not n.count % 2)
            )
        ),
        "lanes exchange words, or halves two by two",
    ),
    Rule(
        LaneFold,
        lambda n: (
            1 <= n.scale < n.threads <= 32 and not n.scale & (n.scale - 1) and not n.threads & (n.threads - 1)
        ),
        "lanes that are folded are powers of two apart",
    ),
    Rule(CpAsync, lambda n: n.lanes * n.source.dtype.bytes in (4, 8, 16), "cp.async moves 4, 8 or 16 bytes"),
    Rule(
        CpAsync,
        lambda n: (n.source.space, n.destination.space) == ("global", "shared"),
        "cp.async goes from global to shared",
    ),
    Rule(CpAsyncWait, lambda n: n.pending >= 0, "a wait leaves a number of groups pending"),
    Rule(LdMatrix, lambda n: n.matrices in (1, 2, 4), "ldmatrix loads 1, 2 or 4 matrices"),
    Rule(
        LdMatrix,
        lambda n: (n.source.space, n.destination.space) == ("shared", "register"),
        "ldmatrix goes from shared to registers",
    ),
    Rule(Mma, lambda n: tuple(n.shape) in MMA_SHAPES, "mma has one of the shapes of the PTX ISA"),
    Rule(
        Mma,
        lambda n: all(m.space == "register" for m in (n.a, n.b, n.d)),
        "the operands of mma are register arrays",
    ),
    Rule(
        hopper.Wgmma,
        lambda n: n.n % 8 == 0 and 8 <= n.n <= 256 and len(n.a_steps) == len(n.b_steps) > 0,
        "wgmma has N in steps of 8 up to 256, and as many k steps of A as of B",
    ),
    Rule(
        hopper.Wgmma,
        lambda n: (n.a.space == "shared") == (n.a_descriptor is not None) and n.b.space == "shared",
        "a wgmma operand in shared memory has a descriptor",
    ),
    Rule(
        hopper.BulkLoad,
        lambda n: n.destination.space == "shared" and len(n.coordinates) == len(n.source.box),
        "a bulk load goes to shared memory, with one coordinate for each dimension of its map",
    ),
    Rule(
        hopper.BulkStore,
        lambda n: n.source.space == "shared" and len(n.coordinates) == len(n.destination.box),
        "a bulk store comes from shared memory, with one coordinate for each dimension of its map",
    ),
    Rule(
        hopper.SetMaxRegisters,
        lambda n: 24 <= n.count <= 256 and n.count % 8 == 0,
        "setmaxnreg takes a multiple of 8 from 24 to 256",
    ),
    Rule(Barrier, lambda n: 0 <= n.id < 16, "there are 16 named barriers"),
    Rule(Turn, lambda n: 0 < n.id < 16 and n.threads == 256, "two warpgroups take turns at a named barrier"),
    Rule(
        Barrier,
        lambda n: n.threads is None or (n.threads % 32 == 0 and n.threads > 0),
        "a barrier counts whole warps",
    ),
)

_EXPR = (Const, Var, Load, Unary, Binary, Cast, Select, Call)
_SHARED = (Seq, For, While, If, Break, Continue, Bind, Store, AtomicRMW, Evaluate, Assert, Print)
_TILE_ONLY = (
    Parallel, Pipelined, SyncThreads, TileOp, Issue, Wait, Versioned, SyncWarp, Produce, Acquire, Release,
)  # fmt: skip
_THREAD_ONLY = (
    VectorCopy, VectorAtomic, FoldPairs, LaneFold, CpAsync, CpAsyncCommit, CpAsyncWait, Barrier, Turn,
    SyncWarp, LdMatrix, Mma,
    *hopper.THREAD_STATEMENTS, Timestamp, ReadCounter,
)  # fmt: skip


def _is_index(e: Expr) -> bool:
    return e.dtype.is_int or e.dtype.kind == "bool"


def _text(node: Any) -> str:
    if isinstance(node, Stmt):
        lines = print_stmt(node).text.splitlines()
        return "\n".join(lines[:12] + ["..."] * (len(lines) > 12))
    return region_text(node) if isinstance(node, Region) else expr_text(node)


def _broken(node: Any, sentence: str, at: Loc | None) -> InternalError:
    return InternalError(
        "TB902",
        f"invalid IR: {sentence}, but there is\n{_text(node)}",
        at=getattr(node, "loc", None) or at,
        why="a pass of tilebench made this; it is not a fault of your program",
        fix="please report it with this cell",
    )


class _Walk:
    """One walk: the rules of a level, the node types that it knows, and the variables in force."""

    def __init__(self, rules: tuple[Rule, ...], known: tuple[type, ...]) -> None:
        self.rules, self.known = rules, known
        self.by_type: dict[type, list[Rule]] = {}

    def check(self, node: Any, scope: frozenset[Var], loops: int, at: Loc | None) -> None:
        """The node and what is below it."""
        here = getattr(node, "loc", None) or at
        if not isinstance(node, (*_EXPR, Region, *self.known)):
            raise _broken(node, f"{type(node).__name__} does not belong to this level", here)
        kind = node.__class__
        if kind not in self.by_type:
            self.by_type[kind] = [r for r in self.rules if issubclass(kind, r.kind)]
        for rule in self.by_type[kind]:
            if not rule.holds(node):
                raise _broken(node, rule.sentence, here)
        match node:
            case Var():
                if node not in scope:
                    raise _broken(node, "a variable is bound where it is used", here)
            case Seq():
                for part in node.body:
                    self.check(part, scope, loops, here)
                    if isinstance(part, Bind):
                        scope = scope | {part.var}
                    elif isinstance(part, AtomicRMW) and part.result is not None:
                        scope = scope | {part.result}
            case For() | Pipelined() | Parallel():
                self._loop(node, scope, loops, here)
            case While():
                self.check(node.condition, scope, loops, here)
                self.check(node.body, scope, loops + 1, here)
            case Break() | Continue():
                if not loops:
                    raise _broken(node, "break and continue stand in a serial or while loop", here)
            case Bind():
                if node.var in scope:
                    raise _broken(node, "a variable is bound once", here)
                self.check(node.value, scope, loops, here)
            case AtomicRMW():
                for part in (node.value, *node.indices):
                    self.check(part, scope, loops, here)
            case _:
                for part in children(node):
                    self.check(part, scope, loops, here)

    def _loop(
        self, node: For | Pipelined | Parallel, scope: frozenset[Var], loops: int, at: Loc | None
    ) -> None:
        own = frozenset(node.vars) if isinstance(node, Parallel) else frozenset((node.var,))
        if own & scope:
            raise _broken(node, "a loop variable is not bound outside", at)
        if not isinstance(node, Parallel):
            self.check(node.start, scope, loops, at)
            self.check(node.stop, scope, loops, at)
        self.check(node.body, scope | own, 0 if isinstance(node, Parallel) else loops + 1, at)


def verify_kernel(kernel: Kernel, body: Stmt | None = None) -> None:
    """Raise InternalError TB902 when the kernel (or `body` in place of its own, for later stages) is not
    valid tile IR."""
    scope = {
        *kernel.blocks,
        kernel.thread,
        *kernel.symbols,
        *(p.value for p in kernel.params if isinstance(p.value, Var)),
    }
    for param in kernel.params:
        if isinstance(param.value, Buffer):
            scope.update(s for s in (*param.value.shape, *(param.value.strides or ())) if isinstance(s, Var))
    if len(kernel.grid) != len(kernel.blocks) or not 1 <= len(kernel.grid) <= 3:
        raise _broken(
            kernel.body, "a kernel has one block variable for each of one to three grid axes", kernel.loc
        )
    tile = _Walk(TILE, (*_SHARED, *_TILE_ONLY))
    for extent in kernel.grid:
        tile.check(extent, frozenset(scope), 0, kernel.loc)
    tile.check(kernel.body if body is None else body, frozenset(scope), 0, kernel.loc)


def verify_program(program: Program) -> None:
    """Raise InternalError TB902 when a role's body is not valid thread IR, or roles and memories do not fit
    together."""
    scope = {*program.blocks, program.thread, *program.symbols}
    scope.update(p.value for p in program.params if isinstance(p.value, Var))
    known = {*program.registers, *program.shared, *program.globals.values()}
    covered: set[int] = set()
    if program.prologue is not None:
        _Walk(THREAD, (*_SHARED, *_THREAD_ONLY)).check(program.prologue, frozenset(scope), 0, None)
    for role in program.roles:
        threads = set(range(role.first_thread, role.first_thread + role.threads))
        if role.threads < 1 or threads & covered or max(threads) >= program.threads:
            raise _broken(
                role.body,
                f"role {role.name} has threads of its own within the block's {program.threads}",
                role.body.loc,
            )
        covered |= threads
        _Walk(THREAD, (*_SHARED, *_THREAD_ONLY)).check(role.body, frozenset(scope), 0, None)
        for node in walk(role.body):
            for value in vars(node).values():
                if isinstance(value, Memory) and value not in known:
                    raise _broken(node, f"the memory {value.name} is declared by the program", None)
    for memory in program.shared:
        count = int_value(memory.shape[0])
        if count is None or memory.byte_offset + count * memory.dtype.bytes > program.shared_bytes:
            raise InternalError(
                "TB902",
                f"invalid IR: {memory.name} ends past the {program.shared_bytes} bytes of shared memory",
            )
