"""A thread program compiled: one Python generator function per role, made once and called for every block."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np

from tilebench.backends.emulator import registers, tensorcore
from tilebench.backends.emulator.barriers import Waiting, barrier
from tilebench.backends.emulator.expressions import HELPERS, Scope, Value
from tilebench.backends.emulator.mbarriers import init_fence
from tilebench.backends.emulator.memory import Place, Site, place_shared
from tilebench.backends.emulator.order import Columns
from tilebench.backends.emulator.statements import Statements
from tilebench.backends.emulator.timers import read_counter, stamp
from tilebench.backends.emulator.warpgroup import set_max_registers
from tilebench.errors import Loc
from tilebench.ir.expr import Load, Var, int_value
from tilebench.ir.hopper import (
    THREAD_STATEMENTS,
    BulkLoad,
    BulkStore,
    MBarrierArrive,
    MBarrierExpect,
    StMatrix,
    Wgmma,
)
from tilebench.ir.rewrite import walk
from tilebench.ir.thread import CpAsync, LdMatrix, Memory, Program, VectorCopy
from tilebench.ir.thread import Role as RoleSpec
from tilebench.ir.tile import AtomicRMW, Store

RoleFunction = Callable[..., Generator[Waiting, None, None]]


@dataclass(frozen=True)
class CompiledRole:
    """One role: its generator function (role state, block indices, symbols and scalars) and its source."""

    spec: RoleSpec
    run: RoleFunction
    source: str


@dataclass(frozen=True)
class CompiledProgram:
    """Roles, access statements by number, counted statements by number (kind), and the shadow's size."""

    program: Program
    roles: tuple[CompiledRole, ...]
    sites: tuple[Site, ...]
    counted: tuple[tuple[str, int], ...]
    granules: int
    slots: dict[Memory, int]
    columns: Columns
    prologue: CompiledRole | None = None


def _access_widths(program: Program) -> dict[Memory, int]:
    """The greatest common divisor of the widths of all accesses of each shared memory, in bytes."""
    widths: dict[Memory, int] = {}

    def see(memory: Any, width: int) -> None:
        if isinstance(memory, Memory) and memory.space == "shared":
            widths[memory] = gcd(widths.get(memory, 0), width)

    for role in _parts(program):
        for node in walk(role.body):
            match node:
                case Load() | Store() | AtomicRMW():
                    see(node.buffer, node.buffer.dtype.storage_dtype.itemsize)
                case VectorCopy() | CpAsync():
                    for memory in (node.destination, node.source):
                        see(memory, node.lanes * memory.dtype.storage_dtype.itemsize)
                case LdMatrix() | BulkStore():
                    see(node.source, 16)
                case StMatrix() | BulkLoad():
                    see(node.destination, 16)
                case Wgmma():
                    see(node.a, 16)
                    see(node.b, 16)
                case _:
                    pass
    return widths


def _parts(program: Program) -> tuple[RoleSpec, ...]:
    """The roles, and before them the prologue as a role of all threads."""
    if program.prologue is None:
        return program.roles
    return (RoleSpec("prologue", 0, program.threads, program.prologue), *program.roles)


def _columns(program: Program) -> Columns:
    """Columns of the clock: what the program runs beside its threads."""
    warps = -(-program.threads // 32)
    products, stores, used = set[int](), set[int](), set[type]()
    memories: dict[Memory, None] = {}
    for role in _parts(program):
        nodes = list(walk(role.body))
        kinds = {type(node) for node in nodes}
        memories |= dict.fromkeys(
            m for node in nodes if isinstance(m := getattr(node, "barrier", None), Memory)
        )
        used |= kinds
        first, end = role.first_thread // 32, (role.first_thread + role.threads + 31) // 32
        if Wgmma in kinds:
            products |= set(range(first // 4, (end + 3) // 4))
        if BulkStore in kinds:
            stores |= set(range(first, end))
    if not used & set(THREAD_STATEMENTS) - {StMatrix}:
        return Columns(warps)
    groups = {g: warps + i for i, g in enumerate(sorted(products))}
    writers = {w: warps + len(groups) + i for i, w in enumerate(sorted(stores))}
    end = warps + len(groups) + len(writers)
    barriers: dict[Memory, int] = {}
    for memory in memories:
        barriers[memory] = end
        end += memory.static_shape[0]
    return Columns(warps, groups, writers, barriers, end, end + warps)


def _suppliers(program: Program) -> dict[Memory, tuple[tuple[Loc | None, str], ...]]:
    """The statements that arrive at the barriers in each memory, with the roles that they are in."""
    found: dict[Memory, dict[Loc | None, list[str]]] = {}
    for role in _parts(program):
        for node in walk(role.body):
            if isinstance(node, MBarrierArrive | MBarrierExpect):
                names = found.setdefault(node.barrier, {}).setdefault(node.loc, [])
                if role.name not in names:
                    names.append(role.name)
    return {m: tuple((at, ", ".join(names)) for at, names in places.items()) for m, places in found.items()}


def compile_program(program: Program, checks: bool, recording: bool = False) -> CompiledProgram:
    """Translate and compile the prologue and every role; roles that share a body are translated once.

    recording: with a call of the machine's recorder after each statement.
    """
    shared = dict.fromkeys(program.shared)
    for role in _parts(program):
        for node in walk(role.body):
            for name in ("buffer", "source", "destination", "a", "b", "barrier"):
                memory = getattr(node, name, None)
                if isinstance(memory, Memory) and memory.space == "shared":
                    shared.setdefault(memory)
    places, granules = place_shared(tuple(shared), _access_widths(program))
    slots = {memory: i for i, memory in enumerate(program.globals.values())}
    for memory, slot in slots.items():
        places[memory] = Place(memory, slot)
    columns, suppliers = _columns(program), _suppliers(program)
    sites: list[Site] = []
    counted: list[tuple[str, int]] = []
    made: dict[tuple[int, int], tuple[Callable[..., RoleFunction], str]] = {}
    roles: list[CompiledRole] = []
    for role in _parts(program):
        threads = -(-role.threads // 32) * 32
        key = (id(role.body), threads)
        if key not in made:
            w = Statements(places, checks, threads, columns)
            w.sites, w.counted, w.suppliers = sites, counted, suppliers
            w.recording = recording
            alike = [r for r in _parts(program) if (id(r.body), -(-r.threads // 32) * 32) == key]
            made[key] = _compile_body(program, alike, w)
        make, source = made[key]
        thread = (role.first_thread + np.arange(threads)).astype(program.thread.dtype.storage_dtype)
        with np.errstate(all="ignore"):
            run = make(thread, np.arange(threads), np.ones(threads, dtype=bool))
        roles.append(CompiledRole(role, run, source))
    prologue = roles.pop(0) if program.prologue is not None else None
    return CompiledProgram(
        program, tuple(roles), tuple(sites), tuple(counted), granules, slots, columns, prologue
    )


def _compile_body(
    program: Program, roles: list[RoleSpec], w: Statements
) -> tuple[Callable[..., RoleFunction], str]:
    """The function that makes the generator function of a body for given threads, and its source."""
    role = roles[0]
    top, body = Scope(), Scope()
    w.scopes = [top, body]
    w.in_flight = frozenset(
        memory
        for node in walk(role.body)
        if isinstance(node, Wgmma)
        for memory in (node.a, node.d)
        if memory.space == "register"
    )
    w.env[program.thread] = Value("thread", 0, thread=True)
    firsts = [r.first_thread for r in roles]
    w.ranges[program.thread] = (min(firsts), max(firsts) + w.threads - 1)
    scalars = [p.value for p in program.params if isinstance(p.value, Var)]
    arguments: list[str] = []
    for prefix, variables in (("b", program.blocks), ("s", (*scalars, *program.symbols))):
        for i, var in enumerate(variables):
            arguments.append(f"{prefix}{i}")
            w.env[var] = Value(f"{prefix}{i}", 1)
    for var, extent in zip(program.blocks, program.grid, strict=True):
        w.ranges[var] = (0, (int_value(extent) or 2**31) - 1)
    w.statement(role.body)
    head = ["executed = rs.block.machine.executed"]
    for memory, n in w.registers.items():
        head.append(f"R{n} = rs.registers({w.constant(memory)})")
        if w.checks:
            head.append(f"V{n} = rs.validity({w.constant(memory)})")
            if memory in w.in_flight:
                head.append(f"F{n} = rs.products.flight({w.constant(memory)})")
    lines = [
        "def make(thread, columns, all_threads):",
        *("    " + text for text in top.lines),
        f"    def role({', '.join(['rs', *arguments])}):",
        *("        " + text for text in (*head, *body.lines)),
        "        rs.finish()",
        "        yield from ()",
        "    return role",
    ]
    source = "\n".join(lines)
    names: dict[str, Any] = {
        **HELPERS, **w.constants,
        "barrier": barrier, "mbarrier_init_fence": init_fence, "set_max_registers": set_max_registers,
        "ldmatrix": tensorcore.ldmatrix, "stmatrix": tensorcore.stmatrix, "write": registers.write,
        "stamp": stamp, "read_counter": read_counter,
        "write_rows": registers.write_rows, "read_rows": registers.read_rows,
    }  # fmt: skip
    exec(
        compile(source, f"<emulated role {len(role.name)}>", "exec"), names
    )  # made from the IR above, names by number
    return names["make"], source
