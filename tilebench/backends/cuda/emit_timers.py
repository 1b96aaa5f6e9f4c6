"""Stamps of the time (ir/timers.py) -> CUDA C++.

A stamp is one asm block, predicated and without a branch, of 32-bit words: with 64-bit records, or a branch,
attention on sm_90a spills. Sources: PTX ISA, "%clock" (the lower half of %clock64), "%globaltimer", "%smid".
"""

from __future__ import annotations

from tilebench.backends.cuda.prelude import Piece
from tilebench.backends.cuda.values import Values
from tilebench.ir.tile import Stmt
from tilebench.ir.timers import ReadCounter, Timestamp, clock_bits


def _stamp(bits: int) -> Piece:
    text = f"""
DEVICE void stamp(int* buffer, int* at, const int* end, unsigned tag) {{
  asm volatile("{{\\n.reg .pred on;\\n.reg .u32 n;\\n.reg .u64 p;\\n"
    "setp.lt.s32 on, %0, %1;\\ncvta.to.global.u64 p, %2;\\nmad.wide.s32 p, %0, 4, p;\\n"
    "@on mov.u32 n, %%clock;\\nand.b32 n, n, {(1 << bits) - 1:#x};\\nor.b32 n, n, %3;\\n"
    "@on st.global.u32 [p], n;\\n}}"
    :: "r"(*at), "r"(*end), "l"(buffer), "r"(tag << {bits}) : "memory");
  *at += 1;
}}"""
    return Piece(f"stamp_{bits}", ((0, text),))


def _counter(name: str, read: str) -> Piece:
    text = f"""
DEVICE void read_{name}(int* words) {{
  unsigned long long n;
  asm volatile("{read}" : "=l"(n) :: "memory");
  words[0] = (int)n;
  words[1] = (int)(n >> 32);
}}"""
    return Piece(f"read_{name}", ((0, text),))


_COUNTERS = {
    "clock": _counter("clock", "mov.u64 %0, %%clock64;"),
    "time": _counter("time", "mov.u64 %0, %%globaltimer;"),
    "sm": _counter("sm", "{.reg .u32 n;mov.u32 n, %%smid;cvt.u64.u32 %0, n;}"),
}


def timer_lines(s: Stmt, values: Values, sites: int) -> list[str] | None:
    """The text of a stamp or of a counter's reading, None for any other statement. sites: of the program."""
    match s:
        case Timestamp():
            values.use(_stamp(clock_bits(sites)))
            buffer, at, end = (values.memories[m] for m in (s.buffer, s.at, s.end))
            return [f"stamp({buffer}, {at}, {end}, {s.tag});"]
        case ReadCounter():
            piece = _COUNTERS[s.counter]
            values.use(piece)
            return [f"{piece.name}({values.address(s.buffer, s.index)});"]
        case _:
            return None
