"""What the variables of a T.Parallel loop may index: not a thread's own array, and a tile in registers only
where the compiler knows the loop's extent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tilebench.errors import Loc, SyncError, TypeTileError
from tilebench.ir.expr import Load, Var
from tilebench.ir.rewrite import variables as named
from tilebench.ir.rewrite import walk
from tilebench.ir.tile import AtomicRMW, Bind, Buffer, Stmt, Store


def refuse_private(variables: Iterable[Var], body: Stmt, at: Loc | None) -> None:
    """Raise SyncError TB415 for a T.alloc_local array that a variable of the loop indexes."""
    for var, buffer, place in _indexed(variables, body):
        if buffer.scope == "local":
            raise SyncError(
                "TB415",
                f"Local buffer {buffer.name} is indexed by T.Parallel loop variable {var.name}",
                at=place or at,
                why="each thread has the whole array for itself, and the loop gives a thread some of its "
                "iterations only",
                fix="loop with T.serial, T.unroll or T.vectorized, or allocate it by T.alloc_fragment, which "
                "spreads the elements over the threads",
                notes=[(at, "the parallel loop")],
            )


def refuse_fragments(variables: Iterable[Var], body: Stmt, at: Loc | None) -> None:
    """Raise TypeTileError TB226 for a fragment that a variable of a loop of unknown extent indexes."""
    for var, buffer, place in _indexed(variables, body):
        if buffer.scope == "fragment":
            raise TypeTileError(
                "TB226",
                f"{buffer.name} is indexed by {var.name}, whose range is known only at run time",
                at=place or at,
                why="the elements of a fragment are spread over the threads when the kernel is compiled, and "
                "a loop over them with it",
                fix=f"loop over the fragment's extent and guard the body: if {var.name} < n",
                notes=[(at, "the parallel loop")],
            )


def _indexed(variables: Iterable[Var], body: Stmt) -> Iterator[tuple[Var, Buffer, Loc | None]]:
    """Accesses that a variable, or a value bound from one, indexes: the variable, the buffer, the place."""
    source = {v: v for v in variables}
    for node in walk(body):
        if isinstance(node, Bind):
            found = next((source[v] for v in named(node.value) if v in source), None)
            if found is not None and not any(isinstance(n, Load) for n in walk(node.value)):
                source[node.var] = found
        elif isinstance(node, Load | Store | AtomicRMW):
            used = next((source[v] for i in node.indices for v in named(i) if v in source), None)
            if used is not None:
                yield used, node.buffer.data, node.loc


__all__ = ["refuse_fragments", "refuse_private"]
