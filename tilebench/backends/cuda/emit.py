"""Thread IR -> CUDA C++ text. A printer: nothing is in the text that is not a node, and no name of the
user's is.

Variables are v0_, v1_, ..., memories b0_, b1_, ..., the kernel `tile_kernel`; numbers count uses in this
text, so it depends on nothing that was built before. Every line knows the cell line that it came from;
`compiled_text` adds the `#line` marks with which NVRTC's messages and the line tables of the binary name the
user's lines.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tilebench.backends.cuda.accesses import (
    indexes_registers,
    memories,
    range_of,
    read_variables,
    trips,
    written,
)
from tilebench.backends.cuda.emit_folds import folding_lines
from tilebench.backends.cuda.emit_hopper import TENSOR_MAP, hopper_lines
from tilebench.backends.cuda.emit_moves import moving_lines
from tilebench.backends.cuda.emit_timers import timer_lines
from tilebench.backends.cuda.literals import LESS, TERNARY
from tilebench.backends.cuda.pair_casts import PairCast, pair_cast
from tilebench.backends.cuda.pairs import written_word
from tilebench.backends.cuda.prelude import NARROW_FLOATS, c_name, prelude
from tilebench.backends.cuda.prelude_atomics import RELAXED, atomic_name, atomic_piece
from tilebench.backends.cuda.tensor_maps import check_map
from tilebench.backends.cuda.values import Values
from tilebench.errors import InternalError, Loc, TargetError
from tilebench.ir.dtype import DType
from tilebench.ir.expr import Expr, Load, Var, int_value
from tilebench.ir.hopper import SetMaxRegisters, TensorMap, Wgmma
from tilebench.ir.rewrite import walk
from tilebench.ir.thread import (
    Barrier,
    Memory,
    Mma,
    Program,
    Role,
    SyncWarp,
    Turn,
)  # fmt: skip
from tilebench.ir.tile import (
    MEMORY_ORDERS,
    Assert,
    AtomicRMW,
    Bind,
    Break,
    Buffer,
    Continue,
    Evaluate,
    For,
    If,
    Print,
    Seq,
    Stmt,
    Store,
    While,
)  # fmt: skip

ENTRY = "tile_kernel"
FILE = "/tilebench/cell"
"""The file name in `#line`: one for all, so that the same program gives the same text wherever it was
written; absolute, so that NVRTC puts no working directory before it.
"""
UNROLL_LIMIT = 64
"""A serial loop that indexes a register array is unrolled up to this many iterations: registers have no
addresses.
"""


@dataclass(frozen=True)
class Emitted:
    """CUDA C++. lines[i]: the cell line that line i+1 of `text` came from, 0 for none (the prelude, the
    frame); names: what the program calls a variable or memory, by its number ('v0_': 'bx').
    """

    text: str
    lines: tuple[int, ...]
    entry: str = ENTRY
    names: Mapping[str, str] = field(default_factory=dict[str, str])


def compiled_text(emitted: Emitted) -> str:
    """The text with `#line N` wherever the cell line is not the one that the compiler would count."""
    parts: list[str] = []
    counted = last = 0
    for text, own in zip(emitted.text.split("\n"), emitted.lines, strict=True):
        line = last = own or last
        if line and line != counted:
            parts.append(f'#line {line} "{FILE}"')
            counted = line
        parts.append(text)
        counted += 1 if counted else 0
    return "\n".join(parts)


def emit(program: Program, *, fast_math: bool | None = None) -> Emitted:
    """The program as CUDA C++.

    fast_math: approximate exp, log, sin, 1/x ... (None: the program's fact 'fast_math', else exact).
    Raises TargetError TB507 for what the back end or the architecture does not have.
    """
    fast = bool(program.facts.get("fast_math", False)) if fast_math is None else fast_math
    return _Printer(program, fast).run()


def cell_line(at: Loc | None) -> int:
    """The line in the kernel's own cell: of the call for code that came from a macro; 0 for none."""
    while at is not None and at.call_site is not None:
        at = at.call_site
    return at.line if at is not None else 0


def kernel_parameters(program: Program) -> tuple[tuple[Memory | Var, ...], tuple[Memory, ...]]:
    """The kernel's arguments in order (params, then symbols), and the workspaces appended behind them."""
    arguments: list[Memory | Var] = []
    for param in program.params:
        value = param.value
        arguments.append(program.globals[value] if isinstance(value, Buffer) else value)
    arguments += [s for s in program.symbols if all(s is not a for a in arguments)]
    listed = {id(a) for a in arguments}
    rest = [m for b, m in program.globals.items() if id(m) not in listed and b.view_of is None]
    return tuple(arguments), tuple(dict.fromkeys(rest))


class _Printer:
    """Lines of one kernel, with the scopes of names."""

    def __init__(self, program: Program, fast_math: bool) -> None:
        self.program = program
        self.values = Values(fast_math)
        self.lines: list[tuple[str, int]] = []
        self.depth = 1
        self.line = 0
        self.variable_count = 0
        self.memory_count = 0
        self.maps: dict[TensorMap, str] = {}
        self.called: dict[str, str] = {}
        self.groups = _by_body(program.roles)
        self.bodies = [group[0].body for group in self.groups]
        everything = [*self.bodies, *([program.prologue] if program.prologue is not None else [])]
        self.everything = everything
        self.written, self.read = written(everything), read_variables(everything)

    # ---------------------------------------------------------------- the frame

    def run(self) -> Emitted:
        """Print everything."""
        program, values = self.program, self.values
        head = self._signature()
        self._grid_variables()
        self._shared_memories()
        common, in_role = self._registers_by_role()
        self._declare_registers(common)
        if overlaps := bool(program.facts.get("overlap_launches")):
            self._call("launch_dependents", "launch_dependents()")
        if program.prologue is not None:
            self.stmt(program.prologue)
        if overlaps:
            self._call("wait_for_launches", "wait_for_launches()")
        if len(self.groups) == 1 and _covers(self.groups[0], program.threads):
            self.stmt(self.bodies[0])
        else:
            self._roles(in_role)
        try:
            pieces = prelude(values.used.values(), program.arch)
        except KeyError as error:
            raise TargetError(
                "TB508",
                f"{program.arch} does not have an instruction that the kernel needs: {error.args[0]}",
                why="it came with a later architecture, or left with one",
                fix="compile for another one, as in target='cuda:sm_90a', or use another element type",
            ) from None
        frame = [*pieces.split("\n"), ""] if pieces else []
        frame += head
        lines = [(text, 0) for text in frame] + self.lines + [("}", 0)]
        text = "\n".join(text for text, _ in lines)
        return Emitted(text, tuple(line for _, line in lines), names=self.called)

    def _signature(self) -> list[str]:
        program, values = self.program, self.values
        arguments, workspaces = kernel_parameters(program)
        views = any(b.view_of is not None for b in program.globals)
        texts: list[str] = []
        for argument in (*arguments, *workspaces):
            if isinstance(argument, Memory):
                name = self._memory_name(argument)
                self._note_type(argument.dtype)
                c = c_name(argument.dtype)
                # Loads of what nobody writes may be moved ahead of the wait for the launches before.
                alone = "" if views or program.facts.get("overlap_launches") else "__restrict__ "
                const = "" if argument in self.written or views else "const "
                texts.append(f"{const}{c}* {alone}{name}")
            else:
                self._note_type(argument.dtype)
                texts.append(f"{c_name(argument.dtype)} {self._new_variable(argument)}")
                if any(argument is s for s in program.symbols):
                    values.ranges[argument] = (0, 2**31 - 1 if argument.dtype.bits == 32 else 2**63 - 1)
                else:
                    values.data.add(argument)
        for buffer, memory in program.globals.items():
            if memory in values.memories:
                continue
            self._note_type(memory.dtype)
            c = c_name(memory.dtype)
            source = values.memories[program.globals[buffer.data]]
            self._put(f"{c}* const {self._memory_name(memory)} = ({c}*){source};")
        for tensor in program.tensor_maps:
            check_map(tensor)
            self.maps[tensor] = f"m{len(self.maps)}_"
            self.called[self.maps[tensor]] = f"{tensor.memory.name}_map"
            values.use(TENSOR_MAP)
            texts.append(f"const __grid_constant__ TensorMap {self.maps[tensor]}")
        head: list[str] = []
        if program.shared_bytes:
            head.append("extern __shared__ __align__(1024) unsigned char shared_memory[];")
        blocks = program.facts.get("min_blocks") or self._least_blocks()
        bounds = f"{program.threads}, {int(blocks)}" if blocks else f"{program.threads}"
        head.append(f'extern "C" __global__ void __launch_bounds__({bounds}) {ENTRY}({", ".join(texts)}) {{')
        return head

    def _least_blocks(self) -> int:
        """1 where accumulators live in registers: without a number ptxas spills them to fit more blocks on
        an SM, and ignores setmaxnreg.
        """
        return int(self.has_products)

    @cached_property
    def has_products(self) -> bool:
        """Whether tensor cores multiply, or registers are handed from warp to warp."""
        kinds = Mma | Wgmma | SetMaxRegisters
        return any(isinstance(node, kinds) for body in self.everything for node in walk(body))

    def _grid_variables(self) -> None:
        program, values = self.program, self.values
        for axis, (var, extent) in enumerate(zip(program.blocks, program.grid, strict=True)):
            sizes = values.interval(extent)
            values.ranges[var] = (0, max(0, min(sizes[1], 2**31 - 1) - 1) if sizes else 2**31 - 2)
            if var in self.read:
                self._put(f"const int {self._new_variable(var)} = (int)blockIdx.{'xyz'[axis]};")
        values.ranges[program.thread] = (0, program.threads - 1)
        if program.thread in self.read or len(self.groups) > 1:
            self._put(f"const int {self._new_variable(program.thread)} = (int)threadIdx.x;")

    def _shared_memories(self) -> None:
        for memory in self.program.shared:
            self._note_type(memory.dtype)
            c = c_name(memory.dtype)
            at = f" + {memory.byte_offset}" if memory.byte_offset else ""
            self._put(f"{c}* const {self._memory_name(memory)} = ({c}*)(shared_memory{at});")

    def _registers_by_role(self) -> tuple[tuple[Memory, ...], list[tuple[Memory, ...]]]:
        """(register arrays to declare before the roles, those of each body)."""
        registers, prologue = self.program.registers, self.program.prologue
        if len(self.bodies) == 1:
            return registers, [()]
        early = memories(prologue) if prologue is not None else set[Buffer]()
        common = tuple(m for m in registers if m in early)
        own = [tuple(m for m in registers if m in used - early) for used in map(memories, self.bodies)]
        return common, own

    def _declare_registers(self, registers: tuple[Memory, ...]) -> None:
        for memory in registers:
            self._note_type(memory.dtype)
            count = int_value(memory.shape[0])
            assert count is not None, f"{memory.name}: a register array of unknown size"
            bytes_ = count * memory.dtype.bytes
            align = next((a for a in (16, 8, 4, 2) if bytes_ % a == 0), 0)
            prefix = f"alignas({align}) " if align > memory.dtype.bytes else ""
            self._put(f"{prefix}{c_name(memory.dtype)} {self._memory_name(memory)}[{count}];")

    def _roles(self, in_role: list[tuple[Memory, ...]]) -> None:
        """One chain of if and else over the thread's range: with it ptxas sees one path for each warp."""
        thread = self.values.names[self.program.thread]
        total = sum(r.threads for r in self.program.roles)
        for i, (group, registers) in enumerate(zip(self.groups, in_role, strict=True)):
            last = i == len(self.groups) - 1 and total == self.program.threads
            condition = _condition(thread, group, self.program.threads)
            self._put(("} else " if i else "") + ("{" if last and i else f"if ({condition}) {{"))
            with self._scope():
                self._declare_registers(registers)
                self.stmt(group[0].body)
        self._put("}")

    # ---------------------------------------------------------------- names and lines

    def _put(self, text: str) -> None:
        self.lines.append(("  " * self.depth + text, self.line))

    @contextmanager
    def _scope(self) -> Generator[None]:
        """An indented block; names bound inside end with it."""
        names = dict(self.values.names)
        self.depth += 1
        yield
        self.depth -= 1
        self.values.names = names

    def _new_variable(self, var: Var) -> str:
        name = f"v{self.variable_count}_"
        self.variable_count += 1
        self.values.names[var] = name
        self.called[name] = var.name
        return name

    def _memory_name(self, memory: Memory) -> str:
        name = f"b{self.memory_count}_"
        self.memory_count += 1
        self.values.memories[memory] = name
        self.called[name] = memory.name
        return name

    def _note_type(self, dtype: DType) -> None:
        if dtype.lanes > 1:
            raise TargetError(
                "TB507",
                f"the CUDA back end has no memory of {dtype}",
                why="vector element types are a matter of the access, not of the memory",
                fix="use the scalar element type; accesses are made as wide as they can be",
            )
        if dtype.name in NARROW_FLOATS:
            self.values.use(c_name(dtype))

    # ---------------------------------------------------------------- statements

    def stmt(self, s: Stmt) -> None:
        """Print one statement."""
        before = self.line
        self.line = cell_line(s.loc) or self.line
        try:
            self._stmt(s)
        except (TargetError, InternalError) as error:
            if error.at is None:
                error.at = s.loc
            raise
        self.line = before

    def _stmt(self, s: Stmt) -> None:
        text = self.values.text
        match s:
            case Seq():
                self._sequence(s)
            case For():
                self._for(s)
            case While():
                self._block(f"while ({text(s.condition)})", s.body)
            case If():
                self._if(s)
            case Break():
                self._put("break;")
            case Continue():
                self._put("continue;")
            case Bind():
                self._bind(s)
            case Store():
                self._store(s)
            case AtomicRMW():
                self._atomic(s)
            case Evaluate():
                self._put(f"{text(s.value)};")
            case Assert():
                where = f'"{FILE}", {self.line}, "{ENTRY}", 1'
                self._put(f"if (!({text(s.condition)})) __assertfail({c_string(s.message)}, {where});")
            case Print():
                self._print(s)
            case Barrier():
                self._barrier(s)
            case Turn():
                self._call(
                    "barrier" if s.take else "barrier_arrive",
                    f"barrier{'' if s.take else '_arrive'}<{s.id}, {s.threads}>()",
                )
            case SyncWarp():
                self._put("__syncwarp();")
            case _:
                lines = moving_lines(s, self.values)
                lines = hopper_lines(s, self.values, self.maps) if lines is None else lines
                lines = folding_lines(s, self.values) if lines is None else lines
                lines = timer_lines(s, self.values, len(self.program.timers)) if lines is None else lines
                if lines is None:
                    raise InternalError("TB902", f"{type(s).__name__} has no CUDA C++ form", at=s.loc)
                for line in lines:
                    self._put(line)

    def _call(self, piece: str, text: str) -> None:
        self.values.use(piece)
        self._put(text + ";")

    def _at(self, memory: Memory, index: Expr) -> str:
        return self.values.address(memory, index)

    def _block(self, head: str, body: Stmt) -> None:
        self._put(head + " {")
        with self._scope():
            self.stmt(body)
        self._put("}")

    def _if(self, s: If) -> None:
        self._put(f"if ({self.values.text(s.condition)}) {{")
        with self._scope():
            self.stmt(s.then)
        if s.orelse is not None:
            self._put("} else {")
            with self._scope():
                self.stmt(s.orelse)
        self._put("}")

    def _bind(self, s: Bind) -> None:
        values = self.values
        self._note_type(s.var.dtype)
        c = c_name(s.var.dtype)
        if s.var.dtype == "int32" and (values.outgrows(s.value) or values.is_long(s.value)):
            text, c = values.wide(s.value)[0], "long long"
            values.long.add(s.var)
        else:
            text = values.stored(s.value) if s.var.dtype.name in NARROW_FLOATS else values.text(s.value)
        self._know(s.var, s.value)
        self._put(f"const {c} {self._new_variable(s.var)} = {text};")

    def _know(self, var: Var, value: Expr) -> None:
        values = self.values
        if var.dtype.is_int and (found := values.interval(value)) is not None:
            values.ranges[var] = found
        if values.is_data(value):
            values.data.add(var)

    def _for(self, s: For) -> None:
        values, var = self.values, s.var
        start, stop, step = (values.text(e, TERNARY) for e in (s.start, s.stop, s.step))
        low, high, by = values.interval(s.start), values.interval(s.stop), int_value(s.step)
        if low and high and by is not None:
            values.ranges[var] = range_of(low, high, by)
        count = trips(s)
        name = self._new_variable(var)
        if s.kind == "serial" and not (count is not None and count <= UNROLL_LIMIT and indexes_registers(s)):
            self._put("#pragma unroll 1")
        elif s.factor and not indexes_registers(s):  # registers have no addresses
            self._put(f"#pragma unroll {s.factor}")
        else:
            self._put("#pragma unroll")
        if by is not None:
            test = f"{name} {'<' if by > 0 else '>'} {values.text(s.stop, LESS + 1)}"
        else:
            test = f"({step}) > 0 ? {name} < ({stop}) : {name} > ({stop})"
        # Beside products, where accumulators fill the registers, ptxas pairs well by itself: as measured.
        unrolled = self.lines[-1][0].endswith("unroll")
        pair = pair_cast(s, self.program.arch) if unrolled and not self.has_products else None
        advance = f"{name} += 2" if pair else f"++{name}" if by == 1 else f"{name} += {step}"
        self._put(f"for ({c_name(var.dtype)} {name} = {start}; {test}; {advance}) {{")
        with self._scope():
            if pair is not None:
                self._pair_cast(pair)
            else:
                self.stmt(s.body)
        self._put("}")

    def _pair_cast(self, pair: PairCast) -> None:
        into, source = pair.words
        call, pieces = pair.conversion
        for piece in pieces:
            self.values.use(piece)
        value = f"*(const {source}*)({self.values.address(pair.source, pair.at)})"
        target = self.values.address(pair.destination, pair.into)
        self._put(f"*({into}*)({target}) = {call.format(value)};")

    def _sequence(self, s: Seq) -> None:
        done = -1
        for k, part in enumerate(s.body):
            word = written_word(part, s.body[k + 1]) if k + 1 < len(s.body) else None
            if word is not None:
                assert isinstance(part, Store)
                assert isinstance(part.buffer, Memory)
                target = self.values.address(part.buffer, part.indices[0])
                self._put(f"*(unsigned*)({target}) = {self.values.text(word)};")
                done = k + 1
            elif k != done:
                self.stmt(part)

    def _store(self, s: Store) -> None:
        memory = s.buffer
        assert isinstance(memory, Memory), f"{memory.name}: a tile-level buffer in thread IR"
        target = f"{self.values.memories[memory]}[{self.values.index_text(memory, s.indices[0])}]"
        self._put(f"{target} = {self.values.stored(s.value)};")

    def _atomic(self, s: AtomicRMW) -> None:
        memory = s.buffer
        assert isinstance(memory, Memory), f"{memory.name}: a tile-level buffer in thread IR"
        values = self.values
        index, value = s.indices[0], values.stored(s.value)
        if memory.space == "register":
            self._own_update(s, memory, index, value)
            return
        returns, ordered = s.result is not None, s.order != RELAXED
        values.use(atomic_piece(s.op, memory.dtype, returns, ordered))
        if memory.dtype.name not in NARROW_FLOATS:
            value = f"({c_name(memory.dtype)})({value})"
        order = f", {MEMORY_ORDERS.index(s.order)}" if ordered else ""
        call = f"{atomic_name(s.op, returns)}({self._at(memory, index)}, {value}{order})"
        if s.result is None:
            self._put(call + ";")
            return
        values.data.add(s.result)
        self._put(f"const {c_name(memory.dtype)} {self._new_variable(s.result)} = {call};")

    def _own_update(self, s: AtomicRMW, memory: Memory, index: Expr, value: str) -> None:
        """A register belongs to one thread: its atomic is a load, an operation and a store."""
        from tilebench.ir.expr import binary

        old = Load(memory, (index,), dtype=memory.dtype)
        if s.result is not None:
            self.values.data.add(s.result)
            text = self.values.stored(old)
            self._put(f"const {c_name(memory.dtype)} {self._new_variable(s.result)} = {text};")
        names = {"and": "bitand", "or": "bitor", "xor": "bitxor"}
        op: Any = names.get(s.op, s.op)
        new = s.value if s.op == "exch" else binary(op, old, s.value)
        self._store(Store(memory, (index,), new))

    def _barrier(self, s: Barrier) -> None:
        if s.id == 0 and s.threads in (None, self.program.threads):
            self._put("__syncthreads();")
            return
        self._call("barrier", f"barrier<{s.id}, {s.threads or self.program.threads}>()")

    def _print(self, s: Print) -> None:
        words = [s.message.replace("%", "%%")] if s.message else []
        arguments: list[str] = []
        for value in s.values:
            word, c = _PRINTED[value.dtype.kind]
            if value.dtype.is_int and value.dtype.bits == 64:
                word, c = f"%ll{word[1:]}", ("unsigned " if value.dtype.kind == "uint" else "") + "long long"
            words.append(word)
            arguments.append(f"({c})({self.values.text(value)})")
        text = c_string(" ".join(words) + "\n")
        self._put(f"printf({', '.join([text, *arguments])});")


_PRINTED = {
    "bool": ("%d", "int"),
    "int": ("%d", "int"),
    "uint": ("%u", "unsigned"),
    "float": ("%g", "double"),
}


def c_string(text: str) -> str:
    """A C string literal of any text: all but plain letters, digits and a few signs become octal escapes
    of UTF-8.
    """
    plain = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,:;=+-*/()[]<>_%")
    return (
        '"'
        + "".join(chr(b) if chr(b) in plain else f"\\{b:03o}" for b in text.encode("utf-8", "replace"))
        + '"'
    )


def _by_body(roles: tuple[Role, ...]) -> list[list[Role]]:
    """The roles in groups that share one body object, in order of the first of each; ranges that touch are
    one.
    """
    groups: dict[int, list[Role]] = {}
    for role in roles:
        group = groups.setdefault(id(role.body), [])
        before = group[-1] if group else None
        if before is not None and before.first_thread + before.threads == role.first_thread:
            group[-1] = replace(before, threads=before.threads + role.threads)
        else:
            group.append(role)
    return list(groups.values())


def _covers(group: list[Role], threads: int) -> bool:
    return sum(role.threads for role in group) == threads


def _condition(thread: str, group: list[Role], threads: int) -> str:
    """Whether the thread is in one of the ranges."""
    ranges: list[str] = []
    for role in group:
        first, last = role.first_thread, role.first_thread + role.threads
        parts = [f"{thread} >= {first}"] if first else []
        parts += [f"{thread} < {last}"] if last < threads else []
        text = " && ".join(parts) or "true"
        ranges.append(f"({text})" if len(group) > 1 and len(parts) > 1 else text)
    return " || ".join(ranges)
