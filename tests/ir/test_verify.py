"""verify: what the ops expand to is valid tile IR, and each kind of fault is named."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from tests.ops.test_examples import EXAMPLES, expanded
from tilebench.errors import InternalError
from tilebench.ir.dtype import bool_, float16, float32, int32
from tilebench.ir.expr import Binary, Call, Load, Select, Var, as_expr, const
from tilebench.ir.thread import (
    Barrier,
    CpAsync,
    LdMatrix,
    Mma,
    Program,
    Role,
    VectorCopy,
    register_array,
    shared_memory,
)
from tilebench.ir.tile import (
    Break,
    Buffer,
    Evaluate,
    For,
    If,
    Kernel,
    Parallel,
    Seq,
    Stmt,
    Store,
    SyncThreads,
    Token,
    Wait,
)
from tilebench.ir.verify import verify_kernel, verify_program
from tilebench.ops.copy import copy
from tilebench.ops.examples import Draft


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_and_their_expansions_are_valid(example: Callable[[], Kernel]) -> None:
    verify_kernel(example())
    verify_kernel(expanded(example()))


def shared(name: str, *shape: int, dtype: Any = float32) -> Buffer:
    return Buffer(name, tuple(const(s) for s in shape), dtype, "shared")


S = shared("S", 8, 8)
X, K = Var("x", dtype=int32), Var("k", dtype=int32)
ZERO, HALF = const(0), const(1.0, float16)


def body_of(*stmts: Stmt) -> Kernel:
    return dataclasses.replace(Draft("k").kernel(), body=Seq(stmts))


BAD_TILE: list[tuple[str, Stmt]] = [
    ("one index for each dimension", Store(S, (ZERO,), const(0.0))),
    ("the dtype of its buffer", Store(S, (ZERO, ZERO), HALF)),
    ("bound where it is used", Store(S, (X, ZERO), const(0.0))),
    ("indices are integers", Store(S, (const(0.5), ZERO), const(0.0))),
    ("one dtype", Evaluate(Binary("add", ZERO, HALF, dtype=int32))),
    ("comparisons and logic give bool", Evaluate(Binary("lt", ZERO, ZERO, dtype=int32))),
    ("condition of a select", Evaluate(Select(ZERO, ZERO, ZERO, dtype=int32))),
    ("both arms of a select", Evaluate(Select(as_expr(True), ZERO, HALF, dtype=int32))),
    ("names an intrinsic", Evaluate(Call("launch_missiles", (), dtype=int32))),
    ("number of arguments", Evaluate(Call("exp", (), dtype=float32))),
    ("condition of an if", If(ZERO, Seq(()))),
    ("step of a loop", For(K, ZERO, const(4), Seq(()), const(0))),
    ("in a serial or while loop", Break()),
    ("not bound outside", For(K, ZERO, const(4), For(K, ZERO, const(4), Seq(())))),
    ("one variable for each extent", Parallel((X,), (4, 4), Seq(()))),
    ("holds no tile op", Parallel((X,), (4,), copy(S, shared("T", 8, 8)))),
    ("holds no barrier", Parallel((X,), (4,), SyncThreads())),
    ("number of groups pending", Wait(Token("t", "cp_async"), -1)),
    ("does not belong to this level", Barrier()),
]


@pytest.mark.parametrize(("sentence", "stmt"), BAD_TILE, ids=[s for s, _ in BAD_TILE])
def test_invalid_tile_ir_is_named(sentence: str, stmt: Stmt) -> None:
    with pytest.raises(InternalError) as caught:
        verify_kernel(body_of(stmt))
    assert caught.value.code == "TB902"
    assert sentence in caught.value.what


R, H = register_array("r", 8, float32), register_array("h", 8, float16)
M = shared_memory("m", 64, float16, 0)


def program_of(stmt: Stmt, threads: int = 32, bytes_: int = 128) -> Program:
    thread = Var("tx", dtype=int32)
    return Program(
        "p",
        (),
        {},
        (),
        (const(1),),
        (Var("bx", dtype=int32),),
        thread,
        32,
        (Role("all", 0, threads, Seq((stmt,))),),
        (R, H),
        (M,),
        bytes_,
        "sm_80",
    )


GOOD = Store(H, (ZERO,), Load(M, (ZERO,), dtype=float16))
BAD_THREAD: list[tuple[str, Program]] = [
    ("does not convert", program_of(VectorCopy(R, ZERO, M, ZERO, 4))),
    ("moves 1 to 16 bytes", program_of(VectorCopy(H, ZERO, M, ZERO, 16))),
    ("one side of a vector copy", program_of(VectorCopy(M, ZERO, M, ZERO, 4))),
    ("cp.async goes from global", program_of(CpAsync(M, ZERO, M, ZERO, 8))),
    ("1, 2 or 4 matrices", program_of(LdMatrix(H, ZERO, M, ZERO, 3))),  # type: ignore[arg-type]
    ("one of the shapes", program_of(Mma((8, 16, 16), R, ZERO, H, ZERO, H, ZERO))),
    ("whole warps", program_of(Barrier(1, 48))),
    ("does not belong to this level", program_of(SyncThreads())),
    ("flat memory", program_of(Store(S, (ZERO, ZERO), const(0.0)))),
    ("declared by the program", program_of(Store(register_array("q", 1, float32), (ZERO,), const(0.0)))),
    ("threads of its own", program_of(GOOD, threads=64)),
    ("ends past", program_of(GOOD, bytes_=100)),
]


@pytest.mark.parametrize(("sentence", "program"), BAD_THREAD, ids=[s for s, _ in BAD_THREAD])
def test_invalid_thread_ir_is_named(sentence: str, program: Program) -> None:
    with pytest.raises(InternalError) as caught:
        verify_program(program)
    assert sentence in caught.value.what


def test_a_valid_program_passes() -> None:
    verify_program(program_of(GOOD))
    verify_program(program_of(If(Binary("lt", ZERO, const(3), dtype=bool_), Barrier())))
