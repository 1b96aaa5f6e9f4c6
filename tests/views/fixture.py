"""A report made by hand: the compile of a GEMM whose result has a stripe of wrong columns. It exercises every
view.

python -m tests.views.fixture        rewrites tests/golden/report_fixture.json
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np

from tilebench.codec import to_json
from tilebench.layouts import atoms
from tilebench.layouts.fragment import FragmentLayout
from tilebench.layouts.shared import SharedLayout, swizzled
from tilebench.report import (
    Access,
    BufferInfo,
    CauseInfo,
    CodeText,
    DiffInfo,
    DigitInfo,
    Figure,
    Finding,
    LayoutInfo,
    OpInfo,
    PassInfo,
    Report,
    Resources,
    RoleInfo,
    Roof,
    RooflineInfo,
    RooflinePoint,
    SliceInfo,
    Span,
    TimelineBar,
    TimelineInfo,
    Trace,
    TraceBuffer,
    TraceCheck,
    TraceRead,
    TraceSite,
    TraceStep,
    TraceWrite,
    WorstElement,
    from_json,
)
from tilebench.views import trace as codec

PATH = Path(__file__).resolve().parent.parent / "golden" / "report_fixture.json"

CELL = """\
@T.prim_func
def matmul(A: T.Tensor(S, "float16"), B: T.Tensor(S, "float16"), C: T.Tensor(S, "float32")):
    with T.Kernel(4, 4, threads=128) as (bx, by):
        A_shared = T.alloc_shared((128, 32), "float16")
        B_shared = T.alloc_shared((32, 128), "float16")
        C_local = T.alloc_fragment((128, 128), "float32")
        row_max = T.alloc_fragment((128,), "float32")
        T.clear(C_local)
        for k in T.Pipelined(16, num_stages=3):
            T.copy(A[by * 128, k * 32], A_shared)
            T.copy(B[k * 32, bx * 128], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.reduce_max(C_local, row_max, dim=1)
        T.copy(C_local, C[by * 128, bx * 128])
"""
H200 = "NVIDIA H200"


def fragment_info(
    name: str,
    layout: FragmentLayout,
    bits: int,
    reason: str,
    line: int,
    chain: tuple[CauseInfo, ...] = (),
) -> LayoutInfo:
    """The LayoutInfo of a fragment made of digits."""

    def digits(side: str) -> tuple[DigitInfo, ...]:
        return tuple(
            DigitInfo(d.size, -1 if d.dim is None else d.dim, d.stride) for d in getattr(layout, side)
        )

    return LayoutInfo(
        name,
        "fragment",
        layout.shape,
        bits,
        layout.threads,
        layout.registers,
        layout.replication,
        digits("reg"),
        digits("thread"),
        formula=layout.describe(grid=False),
        reason=reason,
        reason_line=line,
        atom=(16, 8),
        chain=chain,
    )


def shared_info(name: str, layout: SharedLayout, reason: str, line: int) -> LayoutInfo:
    """The LayoutInfo of a shared tile."""
    s = layout.swizzle
    return LayoutInfo(
        name,
        "shared",
        layout.shape,
        layout.itemsize_bits,
        strides=layout.strides,
        panel=layout.panel or 0,
        panel_stride=layout.panel_stride,
        swizzle=(s.bits, s.base, s.shift),
        formula=layout.describe(),
        reason=reason,
        reason_line=line,
    )


def timeline() -> TimelineInfo:
    """Sixteen steps shown as eight: copies two steps ahead of the products."""
    bars: list[TimelineBar] = []
    arrows: list[tuple[int, int]] = []
    copies: dict[int, int] = {}
    at = 0.0
    for k in range(8):
        phase = "prologue" if k < 2 else "steady"
        start = 0.45 * k if k < 2 else 1.2 + 0.6 * (k - 2)
        bars.append(TimelineBar("copy", "op1", "copy A", start, start + 0.2, k, phase, 10))
        bars.append(TimelineBar("copy", "op2", "copy B", start + 0.2, start + 0.4, k, phase, 11))
        copies[k] = len(bars) - 1
    for k in range(8):
        at = max(at, bars[copies[k]].end_us + 0.35)
        bars.append(
            TimelineBar("tensor cores", "op3", "gemm", at, at + 0.5, k, "steady" if k < 6 else "epilogue", 12)
        )
        arrows.append((copies[k], len(bars) - 1))
        at += 0.5
    bars.append(TimelineBar("ALU", "op4", "reduce_max", at, at + 0.3, -1, "epilogue", 13))
    return TimelineInfo(
        "predicted", tuple(bars), tuple(arrows), "3 stages, 2 blocks on an SM; costs from the data sheet"
    )


def difference() -> DiffInfo:
    """A 512 x 512 output in which columns 64..79 are wrong by up to 40 times the bound."""
    rng = np.random.default_rng(7)
    ratio = rng.random((64, 64)) * 0.4
    ratio[:, 8:10] = 2 + 40 * rng.random((64, 2))
    worst = tuple(
        WorstElement((37 + k, 64 + k % 16), 1.5 + k, 1.0, 0.5 + k, 41.5 - k, 14, (0, 0), 37 + k)
        for k in range(5)
    )
    edges = tuple(float(x) for x in np.linspace(0, 2, 21))
    counts = (
        250000,
        3000,
        900,
        400,
        200,
        120,
        80,
        500,
        900,
        1400,
        1700,
        1500,
        1000,
        600,
        300,
        100,
        40,
        10,
        2,
        1,
    )
    return DiffInfo(
        "C",
        "torch",
        "fail",
        "within twice the running error bound of its own float32 arithmetic",
        4.5,
        2.25,
        41.5,
        8192,
        12,
        262132,
        262144,
        ratio.astype(np.float32),
        (8, 8),
        worst=worst,
        histograms={"abs": (edges, counts), "ulp": ((0, 1, 2, 4, 8, 16), (250000, 4000, 800, 300, 100))},
        pattern="columns 64..79 of every row",
    )


SASS = (
    "0000  LDC R1, c[0x0][0x28]",
    "0010  S2R R22, SR_TID.X",
    "0020  LDGSTS.E.BYPASS.128 [R5], desc[UR8][R20.64]",
    "0030  LDGDEPBAR",
    ".L_x_1:",
    "0040  DEPBAR.LE SB0, 0x1",
    "0050  BAR.SYNC.DEFER_BLOCKING 0x0",
    "0060  LDSM.16.M88.4 R8, [R7]",
    *(f"{0x70 + 16 * k:04x}  HMMA.16816.F32 R{24 + 4 * k}, R8, R16, R{24 + 4 * k}" for k in range(4)),
    "00b0  STL [R1+0x4], R24",
    "00c0  @P0 BRA `(.L_x_1)",
    "00d0  LDL R24, [R1+0x4]",
    "00e0  STG.E.128 desc[UR8][R2.64], R24",
    "00f0  EXIT",
    "0100  NOP",
    "0110  NOP",
    "0120  NOP",
)
SASS_LINES = (0, 0, 10, 10, 0, 9, 9, 12, 12, 12, 12, 12, 12, 9, 14, 14, 0, 0, 0, 0)
SASS_MIX = {"HMMA": 4, "NOP": 3, "LDC": 1, "S2R": 1, "LDGSTS": 1, "LDGDEPBAR": 1, "DEPBAR": 1, "BAR": 1,
            "LDSM": 1, "STL": 1, "BRA": 1, "LDL": 1, "STG": 1, "EXIT": 1}  # fmt: skip


def ldmatrix_addresses(layout: SharedLayout, start: int, transpose: bool) -> tuple[int, ...]:
    """The byte of each lane's row of a 16x16 corner: lane % 16 along rows, lane // 16 eight columns on."""
    offsets = layout.offsets() * layout.itemsize_bits // 8 + start
    return tuple(int(offsets[lane % 16, lane // 16 * 8]) for lane in range(32))


def accesses() -> tuple[Access, ...]:
    """Copies and reads of both operands, the store of the result; the emulator's counts of two of them."""
    a, b = swizzled((128, 32), 16), swizzled((32, 128), 16)
    copied = tuple(int(x) for x in (a.offsets()[:8, ::8] * 2).ravel())
    return (
        Access("op1", "A_shared", "cp.async.shared", 16, 1, 256, 1.0, 10, copied),
        Access("op3", "A_shared", "ldmatrix", 16, 1, 512, 1.0, 12, ldmatrix_addresses(a, 0, False)),
        Access("op3", "B_shared", "ldmatrix.trans", 16, 1, 512, 1.0, 12, ldmatrix_addresses(b, 24576, True)),
        Access("op5", "C", "st.global", 8, 1, 128, 0.5, 14),
        Access("op3", "A_shared", "ldmatrix", 16, 1, 64, 1.0, 12, (), "simulated"),
        Access("op3", "B_shared", "ldmatrix", 16, 1, 64, 1.0, 12, (), "simulated"),
    )


WHY = (
    CauseInfo("C_local: the accumulator of mma.m16n8k16, 2x2 warps", 12, "op3", "C_local"),
    CauseInfo("mma.m16n8k16: tensor cores: float16 x float16 -> float32 in steps of 16x8x16", 12, "op3"),
    CauseInfo("2x2 warps: the least to read from shared memory (64x64 for each)", 12, "op3"),
)


def texts() -> tuple[CodeText, ...]:
    """Short texts of each level with their line maps."""
    tile = """\
alloc C_local
clear(C_local)
for k in 16:
  copy(A, A_shared)
  copy(B, B_shared)
  gemm(A_shared, B_shared, C_local)
reduce_max(C_local, row_max)
copy(C_local, C)"""
    thread = """\
C_local: f32[128]
for r in 128: C_local[r] = 0
cp_async A_shared
cp_async B_shared
for k in 16:
  wait 1
  barrier
  ldmatrix a
  ldmatrix b
  mma C_local, a, b
shfl row_max
store C"""
    cuda = [
        'extern "C" __global__ void __launch_bounds__(128) matmul(const half* A, const half* B, float* C) {',
        "  float C_local[128];",
        "  #pragma unroll",
        "  for (int r = 0; r < 128; ++r) C_local[r] = 0.0f;",
        "  cp_async<16>(A_shared, A);",
        "  cp_async<16>(B_shared, B);",
        "  for (int k = 0; k < 16; ++k) {",
        "    cp_async_wait<1>();",
        "    __syncthreads();",
        "    ldmatrix_x4(a, A_shared);",
        "    ldmatrix_x4_trans(b, B_shared);",
        "    mma_m16n8k16(C_local, a, b);",
        "  }",
        "  row_max = fmaxf(row_max, __shfl_xor_sync(~0u, row_max, 1));",
        "  C[threadIdx.x] = C_local[0];",
        "}",
    ]
    ptx = [
        "// target sm_90a",
        "ld.param.u64 %rd1, [A];",
        "cp.async.cg.shared.global [%r1], [%rd1], 16;",
        "cp.async.cg.shared.global [%r2], [%rd2], 16;",
    ]
    ptx += [
        "cp.async.wait_group 1;",
        "bar.sync 0;",
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r3, %r4, %r5, %r6}, [%r1];",
    ]
    ptx += [f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%f{4 * i}, ...}};" for i in range(40)]
    ptx += ["st.global.v4.f32 [%rd3], {%f0, %f1, %f2, %f3};", "ret;"]
    return (
        CodeText("tile", tile, (6, 8, 9, 10, 11, 12, 13, 14)),
        CodeText("thread", thread, (6, 8, 10, 11, 9, 9, 12, 12, 12, 12, 13, 14)),
        CodeText("cuda", "\n".join(cuda), (2, 6, 8, 8, 10, 11, 9, 9, 9, 12, 12, 12, 9, 13, 14, 0)),
        CodeText(
            "ptx",
            "\n".join(ptx),
            (0, 2, 10, 11, 9, 9, 12, *[12] * 40, 14, 0),
            (0, 2, 4, 6, 6, 6, 10, *range(16, 136, 3), 140, 0),
            {"mma": 40, "cp": 3, "ldmatrix": 1, "ld": 1, "bar": 1, "st": 1, "ret": 1},
        ),
        CodeText("sass", "\n".join(SASS), SASS_LINES, tuple(range(20, 20 + len(SASS))), SASS_MIX),
    )


def trace() -> Trace:
    """Two steps of the loop and the end of it, on tiles of 16 x 16; the last step is wrong in column 3."""
    rng = np.random.default_rng(5)
    packer = codec.Packer()
    names = (("A_shared", (16, 16), "float16", "shared"), ("C_local", (16, 16), "float32", "fragment"))
    buffers = (
        *(TraceBuffer(n, shape, dtype, scope, line=4) for n, shape, dtype, scope in names),
        TraceBuffer("row_max", (16,), "float32", "fragment", line=7),
        TraceBuffer("C", (16, 16), "float32", "global", (0, 64), line=2),
    )
    sites = (
        TraceSite("clear", 8, "T.clear(C_local)", "op0", (), 8),
        TraceSite("copy", 10, "T.copy(A[by * 128, k * 32], A_shared)", "op1", ("k",), 10),
        TraceSite("gemm", 12, "T.gemm(A_shared, B_shared, C_local)", "op3", ("k",), 12),
        TraceSite("reduce", 13, "T.reduce_max(C_local, row_max, dim=1)", "op4", (), 13),
        TraceSite("copy", 14, "T.copy(C_local, C[by * 128, bx * 128])", "op5", (), 14),
    )
    square = (0, 0, 16, 16)
    held = np.zeros((16, 16), np.float32)

    def write(buffer: int, values: np.ndarray, box: tuple[int, ...] = square) -> TraceWrite:
        return packer.values(buffer, box, values, buffers[buffer].dtype, "exact")

    steps = [TraceStep(0, (), (write(1, held),))]
    for k in range(2):
        tile = rng.standard_normal((16, 16)).astype(np.float16)
        held = held + tile.astype(np.float32) @ tile.T.astype(np.float32)
        steps.append(TraceStep(1, (k,), (write(0, tile),)))
        steps.append(TraceStep(2, (k,), (write(1, held),), (TraceRead(0, square), TraceRead(1, square))))
    steps.append(TraceStep(3, (), (write(2, held.max(axis=1), (0, 16)),), (TraceRead(1, square),)))
    error = np.zeros((16, 16))
    error[:, 3] = 0.5
    check = TraceCheck(3, square, 0.5, 41.5, 16, packer.add(codec.pack(error, "e1")))
    steps.append(TraceStep(4, (), (write(3, held),), (TraceRead(1, square),), (check,)))
    return Trace(
        "tile", (1, 0), (4, 4), buffers, sites, tuple(steps), packer.stream(), len(steps), (),
        "a function of yours; allowed is 0.01",
    )  # fmt: skip


def make() -> Report:
    """The report."""
    accumulator = atoms.mma_accumulator((128, 128), (2, 2))
    layouts = (
        fragment_info("C_local", accumulator, 32, "accumulator of mma.m16n8k16 over 2 x 2 warps", 12, WHY),
        fragment_info(
            "row_max",
            accumulator.project(1),
            32,
            "rows of C_local",
            13,
            (CauseInfo("row_max: projected on its dimensions from C_local", 13, "op4", "row_max"), *WHY),
        ),
        shared_info("A_shared", swizzled((128, 32), 16), "read by ldmatrix: 64-byte rows are swizzled", 12),
        shared_info(
            "B_shared", swizzled((32, 128), 16), "read by ldmatrix.trans: 128-byte panels are swizzled", 12
        ),
    )
    ops = (
        OpInfo("op0", "clear", "clear(C_local)", Span(8, 8, 8, 24), "registers", "", (), (), ("C_local",)),
        OpInfo(
            "op1",
            "copy",
            "copy(A[by*128, k*32], A_shared)",
            Span(10, 12, 10, 49),
            "cp.async 16 B",
            "16-byte pieces, aligned",
            ("bulk copy: not in this build",),
            ("A",),
            ("A_shared",),
            0,
            8192,
            slices=(SliceInfo("A", "read", (128, 32), (0, 0), ((0, 128), (0, 0)), (0, 32), 16),),
        ),
        OpInfo(
            "op2",
            "copy",
            "copy(B[k*32, bx*128], B_shared)",
            Span(11, 12, 11, 49),
            "cp.async 16 B",
            "16-byte pieces, aligned",
            (),
            ("B",),
            ("B_shared",),
            0,
            8192,
            slices=(SliceInfo("B", "read", (32, 128), (0, 0), ((0, 0), (128, 0)), (32, 0), 16),),
        ),
        OpInfo(
            "op3",
            "gemm",
            "gemm(A_shared, B_shared, C_local)",
            Span(12, 12, 12, 47),
            "mma.m16n8k16",
            "f16 operands in shared memory",
            ("wgmma: needs 4 warps along M",),
            ("A_shared", "B_shared", "C_local"),
            ("C_local",),
            1048576,
            0,
            "all",
            (2, 2),
            ("A_shared", "B_shared", "C_local"),
            (False, False),
            (16, 8, 16),
        ),
        OpInfo(
            "op4",
            "reduce",
            "reduce_max(C_local, row_max, dim=1)",
            Span(13, 8, 13, 45),
            "shuffles",
            "a row is in four lanes",
            (),
            ("C_local",),
            ("row_max",),
        ),
        OpInfo(
            "op5",
            "copy",
            "copy(C_local, C[by*128, bx*128])",
            Span(14, 8, 14, 46),
            "st.global 8 B",
            "two neighbours a thread",
            (),
            ("C_local",),
            ("C",),
            0,
            65536,
            slices=(SliceInfo("C", "write", (128, 128), (0, 0), ((0, 128), (128, 0)), (0, 0)),),
        ),
    )
    time = Figure(21.5, "us", "predicted", f"model of {H200}")
    flops, moved = 2.0 * 512**3, 512 * 512 * (2 + 2 + 4.0)
    roof = RooflineInfo(
        H200,
        (
            Roof("memory 4800 GB/s", "bandwidth", 4.8e12, "data sheet"),
            Roof("f16 tensor 989 TFLOP/s", "compute", 989e12, "data sheet"),
            Roof("FP32 67 TFLOP/s", "compute", 67e12, "data sheet"),
        ),
        (
            RooflinePoint("matmul, 2 stages", flops, moved, Figure(30.0, "us", "measured", H200)),
            RooflinePoint("matmul", flops, moved, time),
        ),
        21.5,
        "memory",
    )
    return Report(
        id="f1x7ure00001",
        name="matmul",
        target="cuda:sm_90a",
        source=CELL,
        device=H200,
        config={"num_stages": "3"},
        verdict="C is wrong: 8192 of 262132 elements differ from torch "
        "(within twice the running error bound)",
        ok=False,
        params=(
            BufferInfo("A", (512, 512), "float16", "global", 524288, Span(2, 11)),
            BufferInfo("B", (512, 512), "float16", "global", 524288, Span(2, 46)),
            BufferInfo("C", (512, 512), "float32", "global", 1048576, Span(2, 81)),
        ),
        buffers=(
            BufferInfo("A_shared", (128, 32), "float16", "shared", 8192, Span(4, 8), 0, 3, 1, 12),
            BufferInfo("B_shared", (32, 128), "float16", "shared", 8192, Span(5, 8), 24576, 3, 1, 12),
            BufferInfo("C_local", (128, 128), "float32", "fragment", 65536, Span(6, 8)),
            BufferInfo("row_max", (128,), "float32", "fragment", 512, Span(7, 8)),
        ),
        layouts=layouts,
        ops=ops,
        accesses=accesses(),
        statement_lines=(0, 8, 9, 9, 10, 11, 9, 9, 12, 9, 10, 11, 12, 13, 14),
        roles=(RoleInfo("all", 0, 128, tuple(o.id for o in ops)),),
        timelines=(timeline(),),
        passes=(
            PassInfo("parse", CELL, 900.0, True),
            PassInfo("check", CELL, 300.0, False),
            PassInfo("select", "gemm -> mma.m16n8k16\ncopy -> cp.async 16 B", 120.0, True, lines=(12, 10)),
            PassInfo(
                "sync",
                texts()[1].text.replace("  barrier\n", ""),
                90.0,
                True,
                lines=(6, 8, 10, 11, 9, 9, 12, 12, 12, 13, 14),
            ),
            PassInfo(
                "lower",
                texts()[1].text.replace("r in 128", "r in unroll 128"),
                2500.0,
                True,
                lines=texts()[1].lines,
            ),
        ),
        code=texts(),
        resources=Resources(
            168,
            0,
            49152,
            128,
            (4, 4),
            3,
            Figure(0.1875, "of warps", "predicted", "occupancy table of sm_90a"),
            "registers",
        ),
        roofline=roof,
        diffs=(difference(),),
        findings=(
            Finding(
                "wrong",
                "error",
                "columns 64..79 differ from torch",
                (Span(14, 8, 14, 46),),
                "is the tile's last column written twice?",
            ),
            Finding(
                "uncoalesced",
                "warning",
                "8-byte stores use half of each sector",
                (Span(14, 8, 14, 46),),
                "copy through shared memory",
            ),
            Finding("conversion", "info", "row_max is used as it is: no data moves", (Span(13, 8, 13, 45),)),
        ),
        figures={
            "compile_ms": Figure(212.0, "ms", "measured", "this machine"),
            "flops": Figure(flops, "FLOP", "predicted", "counted from the program"),
            "bytes": Figure(moved, "B", "predicted", "each tensor once"),
            "predicted_us": time,
        },
        traces=(trace(),),
    )


@cache
def load() -> Report:
    """The report in the file."""
    return from_json(Report, json.loads(PATH.read_text()))


if __name__ == "__main__":
    PATH.write_text(json.dumps(to_json(make()), indent=None) + "\n")
    print(f"{PATH}: {PATH.stat().st_size} bytes")
