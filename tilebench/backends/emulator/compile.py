"""A thread program compiled: one Python generator function per role, made once and called for every block."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np

from tilebench.backends.emulator import registers, tensorcore
from tilebench.backends.emulator.barriers import Meeting, barrier
from tilebench.backends.emulator.expressions import HELPERS, Scope, Value
from tilebench.backends.emulator.memory import Place, Site, place_shared
from tilebench.backends.emulator.statements import Statements
from tilebench.ir.expr import Load, Var, int_value
from tilebench.ir.rewrite import walk
from tilebench.ir.thread import CpAsync, LdMatrix, Memory, Program, VectorCopy
from tilebench.ir.thread import Role as RoleSpec
from tilebench.ir.tile import AtomicRMW, Store

RoleFunction = Callable[..., Generator[Meeting, None, None]]


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


def _access_widths(program: Program) -> dict[Memory, int]:
    """The greatest common divisor of the widths of all accesses of each shared memory, in bytes."""
    widths: dict[Memory, int] = {}

    def see(memory: Any, width: int) -> None:
        if isinstance(memory, Memory) and memory.space == "shared":
            widths[memory] = gcd(widths.get(memory, 0), width)

    for role in program.roles:
        for node in walk(role.body):
            match node:
                case Load() | Store() | AtomicRMW():
                    see(node.buffer, node.buffer.dtype.storage_dtype.itemsize)
                case VectorCopy() | CpAsync():
                    for memory in (node.destination, node.source):
                        see(memory, node.lanes * memory.dtype.storage_dtype.itemsize)
                case LdMatrix():
                    see(node.source, 16)
                case _:
                    pass
    return widths


def compile_program(program: Program, checks: bool) -> CompiledProgram:
    """Translate and compile every role."""
    shared = dict.fromkeys(program.shared)
    for role in program.roles:
        for node in walk(role.body):
            for name in ("buffer", "source", "destination"):
                memory = getattr(node, name, None)
                if isinstance(memory, Memory) and memory.space == "shared":
                    shared.setdefault(memory)
    places, granules = place_shared(tuple(shared), _access_widths(program))
    slots = {memory: i for i, memory in enumerate(program.globals.values())}
    for memory, slot in slots.items():
        places[memory] = Place(memory, slot)
    roles: list[CompiledRole] = []
    emitter_sites: list[Site] = []
    counted: list[tuple[str, int]] = []
    for role in program.roles:
        threads = -(-role.threads // 32) * 32
        w = Statements(places, checks, threads)
        w.sites, w.counted = emitter_sites, counted
        roles.append(_compile_role(program, role, w))
    return CompiledProgram(program, tuple(roles), tuple(emitter_sites), tuple(counted), granules, slots)


def _compile_role(program: Program, role: RoleSpec, w: Statements) -> CompiledRole:
    thread = (role.first_thread + np.arange(w.threads)).astype(program.thread.dtype.storage_dtype)
    top, body = Scope(), Scope()
    w.scopes = [top, body]
    w.env[program.thread] = Value("thread", 0, thread=True)
    w.ranges[program.thread] = (role.first_thread, role.first_thread + w.threads - 1)
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
    lines = [
        "def make(thread, columns, all_threads):",
        *("    " + text for text in top.lines),
        f"    def role({', '.join(['rs', *arguments])}):",
        *("        " + text for text in (*head, *body.lines)),
        "        rs.copies.finish()",
        "        yield from ()",
        "    return role",
    ]
    source = "\n".join(lines)
    names: dict[str, Any] = {
        **HELPERS, **w.constants,
        "barrier": barrier, "ldmatrix": tensorcore.ldmatrix, "write": registers.write,
        "write_rows": registers.write_rows, "read_rows": registers.read_rows,
    }  # fmt: skip
    exec(
        compile(source, f"<emulated role {len(role.name)}>", "exec"), names
    )  # made from the IR above, names by number
    with np.errstate(all="ignore"):
        run = names["make"](thread, np.arange(w.threads), np.ones(w.threads, dtype=bool))
    return CompiledRole(role, run, source)
