"""Updates of single elements, and values handed out for printing."""

from __future__ import annotations

from tilebench.backends.cpu.loops import Loops
from tilebench.backends.cpu.text import V, compute_type, storage_type
from tilebench.ir.tile import AtomicRMW, Print, Stmt

_RMW = {"add": "add", "and": "and", "or": "or", "xor": "xor", "exch": "xchg"}


class Updates(Loops):
    """Writes atomics and prints."""

    prints: list[Print]
    per_thread: frozenset[Stmt] = frozenset()

    # -------------------------------------------------------------- atomics

    def atomic(self, s: AtomicRMW) -> None:
        """An update of one element, lane by lane; memory that only this block sees needs no atomic
        instruction.
        """
        value = self.evaluate(s.value)
        base, flat, step, place = self.address(s.buffer, s.indices, s.loc)
        if step is not None and self.lanes > 1:
            flat = self.raw("add nsw", flat, self.ramp(step, self.lanes)) if step else flat
        active = self.mask
        for lane in range(self.lanes):
            one, at = self.lane(value, lane), self.lane(flat, lane)
            end = ""
            if active is not None:
                do, end = self.fresh("lane"), self.fresh("next")
                self.branch(self.lane(self.splat(active, self.lanes), lane).name, do, end)
                self.start(do)
            p = self.pointer(base, s.buffer.dtype, at)
            old = self.update(p, s.op, one, place.scope)
            if end:
                self.start(end)
            if s.result is not None:
                self.env[s.result] = old

    def update(self, p: str, op: str, value: V, scope: int) -> V:
        """*p op= value; gives the old value."""
        dtype = value.dtype
        kind = storage_type(dtype)
        if scope != 0:  # only this block sees it, and a block runs on one thread
            note = self.note(scope)
            old = self.from_storage(self.op(f"load {kind}, ptr {p}, align {dtype.bytes}{note}"), dtype, 1)
            new = (
                value
                if op == "exch"
                else self.arithmetic(
                    {"and": "bitand", "or": "bitor", "xor": "bitxor"}.get(op, op), old, value
                )
            )
            self.put(f"store {kind} {self.to_storage(new)}, ptr {p}, align {dtype.bytes}{note}")
            return old
        if dtype.is_int and dtype.bits > 4:
            name = _RMW.get(op) or (op if dtype.kind == "int" else f"u{op}")
            return V(self.op(f"atomicrmw {name} ptr {p}, {kind} {value.name} monotonic"), dtype)
        whole = f"i{dtype.bytes * 8}"
        first = self.op(f"load atomic {whole}, ptr {p} monotonic, align {dtype.bytes}")
        slot = self.alloca(whole)
        self.put(f"store {whole} {first}, ptr {slot}")
        again, done = self.fresh("again"), self.fresh("done")
        self.start(again)
        seen = self.op(f"load {whole}, ptr {slot}")
        stored = self.op(f"bitcast {whole} {seen} to {kind}") if whole != kind else seen
        old = self.from_storage(stored, dtype, 1)
        new = value if op == "exch" else self.arithmetic(op, old, value)
        word = self.to_storage(new)
        if whole != kind:
            word = self.op(f"bitcast {kind} {word} to {whole}")
        pair = self.op(f"cmpxchg ptr {p}, {whole} {seen}, {whole} {word} monotonic monotonic")
        now = self.op(f"extractvalue {{ {whole}, i1 }} {pair}, 0")
        self.put(f"store {whole} {now}, ptr {slot}")
        good = self.op(f"extractvalue {{ {whole}, i1 }} {pair}, 1")
        self.branch(good, done, again)
        self.start(done)
        return old

    # -------------------------------------------------------------- printing

    def print_values(self, s: Print) -> None:
        """Hand the values to Python, which prints them (launch.py)."""
        self.prints.append(s)
        number = len(self.prints) - 1
        thread = (
            self.index(self.thread_value).name
            if self.thread_value is not None and s in self.per_thread
            else "-1"
        )
        if s.buffer is not None:
            base = self.place(s.buffer).base
            self.put(f"call void %print(i64 {number}, i64 %n, i64 {thread}, ptr {base})")
            return
        slots = self.alloca("i64", max(len(s.values), 1))
        for k, e in enumerate(s.values):
            value = self.evaluate(e)
            p = self.op(f"getelementptr i64, ptr {slots}, i64 {k}")
            if value.dtype.is_float:
                kind = compute_type(value.dtype)
                wide = value.name if kind == "double" else self.op(f"fpext float {value.name} to double")
                self.put(f"store double {wide}, ptr {p}")
            else:
                self.put(f"store i64 {self.index(value).name}, ptr {p}")
        self.put(f"call void %print(i64 {number}, i64 %n, i64 {thread}, ptr {slots})")
