"""What the report says about accesses, reasons, slices and registers, for real kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilebench
from tests.kernels import programs
from tilebench.backends.cuda import nvrtc, sass
from tilebench.backends.cuda.live import live_registers, mix, opcode
from tilebench.codec import to_json
from tilebench.kernel import accesses
from tilebench.passes.stages import Lowered
from tilebench.report import Report, from_json
from tilebench.targets import parse

needs_nvrtc = pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC: pip install nvidia-cuda-nvrtc")


def report_of(prim: object, target: str = "emu:sm_80") -> Report:
    return tilebench.compile(prim, target=target).report()


@pytest.fixture(scope="module")
def gemm() -> Report:
    return report_of(programs.gemm(512, 512, 512))


def test_every_shared_access_of_a_gemm_is_predicted_free_of_conflicts(gemm: Report) -> None:
    shared = {(a.buffer, a.kind): a for a in gemm.accesses if a.buffer in ("A_s", "B_s")}
    assert set(shared) == {
        ("A_s", "cp.async.shared"),
        ("B_s", "cp.async.shared"),
        ("A_s", "ldmatrix"),
        ("B_s", "ldmatrix.trans"),
    }
    assert all(a.conflict_ways == 1 and a.provenance == "predicted" for a in shared.values())
    read = shared["A_s", "ldmatrix"]
    assert read.addresses[:4] == (0, 64, 144, 208), "rows of 64 bytes, 64-byte swizzle"
    assert read.op == next(o.id for o in gemm.ops if o.name == "gemm")
    copied = shared["A_s", "cp.async.shared"]
    assert copied.requests == 16 * 4 * 4, (
        "16 tiles, 4 pieces a thread, 4 warps: the guard of the last is seen"
    )
    assert next(a for a in gemm.accesses if a.buffer == "C").efficiency == 0.5, (
        "4-byte stores of half sectors"
    )


def test_predicted_conflicts_are_those_that_the_emulator_counts() -> None:
    for prim in (programs.transpose(64, 64), programs.gemm(128, 128, 64, dtype="float32", transpose_B=True)):
        kernel = tilebench.compile(prim, target="emu:sm_80")
        rng = np.random.default_rng(0)
        values = [
            np.asarray(
                rng.standard_normal([int(s.value) for s in p.value.shape]), p.value.dtype.storage_dtype
            )
            for p in kernel.params
        ]
        kernel.launch(values)
        report = kernel.report()
        simulated = {
            (a.line, a.buffer, a.kind): a.conflict_ways
            for a in report.accesses
            if a.provenance == "simulated"
        }
        predicted = {
            (a.line, a.buffer, a.kind): a.conflict_ways
            for a in report.accesses
            if a.provenance == "predicted" and ".global" not in a.kind
        }
        assert len(predicted) >= 4
        for key, ways in predicted.items():
            found = {w for k, w in simulated.items() if k[:2] == key[:2] and k[2][:2] == key[2][:2]}
            assert ways in found, (key, ways, found)


def test_conflicts_and_wasted_sectors_are_findings_at_the_line_of_the_op() -> None:
    report = report_of(programs.transpose(64, 64))
    conflict = next(f for f in report.findings if f.kind == "bank-conflict")
    assert conflict.text == "ld.shared of tile: 2-way bank conflict (predicted)"
    assert conflict.severity == "info"
    assert conflict.spans[0].line == next(a.line for a in report.accesses if a.conflict_ways == 2)
    clean = report_of(programs.gemm(512, 512, 512))
    assert not [f for f in clean.findings if f.kind in ("bank-conflict", "uncoalesced")]


def test_an_address_that_depends_on_data_is_said_to_be_unknown() -> None:
    report = report_of(programs.histogram(4096, 64))
    counted = next(a for a in report.accesses if a.kind == "atom.shared")
    assert counted.conflict_ways == 0
    assert counted.addresses == ()


def test_requests_count_what_a_guard_leaves() -> None:
    kernel = tilebench.compile(programs.gemm(512, 512, 512), target="emu:sm_80")
    found = accesses.predicted(kernel.stages().stage(Lowered).program)
    assert all(a.requests > 0 for a in found)


def test_the_chain_of_reasons_ends_at_the_product() -> None:
    report = report_of(programs.attention(1, 2, 256, 256, 64))
    m = next(i for i in report.layouts if i.buffer == "m")
    assert [c.text.split(":")[0] for c in m.chain] == ["m", "s", "mma.m16n8k16", "4x1 warps"]
    product = next(o for o in report.ops if o.name == "gemm" and "s" in o.writes)
    assert m.chain[1].op == product.id
    assert m.chain[1].line == product.span.line, "the product's line, not the allocation's"
    loop = next(i for i in report.layouts if i.buffer.startswith("loop@"))
    assert loop.chain[-1].line != loop.chain[0].line
    softmax = next(i for i in report_of(programs.softmax(64, 512)).layouts if i.buffer == "m")
    assert len(softmax.chain) == 2
    assert softmax.chain[-1].buffer == "x"


def test_a_product_names_its_operands_and_its_instruction(gemm: Report) -> None:
    product = next(o for o in gemm.ops if o.name == "gemm")
    assert product.operands == ("A_s", "B_s", "C_f")
    assert product.atom == (16, 8, 16)
    turned = report_of(programs.gemm(256, 256, 256, transpose_A=True))
    assert next(o for o in turned.ops if o.name == "gemm").transposed == (True, False)


def test_warpgroup_products_and_bulk_copies_are_named_and_are_no_lanes_accesses() -> None:
    report = report_of(programs.gemm(512, 512, 512), "emu:sm_90a")
    product = next(o for o in report.ops if o.name == "gemm")
    assert product.atom == (64, 128 // product.warp_grid[1], 16)
    kinds = {(a.buffer, a.kind) for a in report.accesses}
    assert {("A_s", "bulk.shared"), ("A", "bulk.global"), ("A_s", "wgmma"), ("B_s", "wgmma")} <= kinds
    for a in report.accesses:
        if a.kind.startswith(("bulk", "wgmma")):
            assert (a.addresses, a.conflict_ways) == ((), 1)
    c = next(i for i in report.layouts if i.buffer == "C_f")
    assert c.chain[0].text.startswith("C_f: the accumulator of wgmma")
    assert c.chain[1].text.startswith("wgmma: tensor cores of whole warpgroups")


def test_roles_have_the_ops_of_their_own_code() -> None:
    report = report_of(programs.gemm(512, 512, 512), "emu:sm_90a")
    names = {o.id: o.name for o in report.ops}
    by_role = {r.name: [names[i] for i in r.ops] for r in report.roles}
    if "producer" not in by_role:
        assert set(by_role) == {"all"}
        return
    assert "gemm" not in by_role["producer"]
    assert by_role["producer"].count("copy") == 2
    assert "gemm" in by_role["consumer0"]


def test_a_tile_that_a_pass_added_is_in_the_byte_map() -> None:
    report = report_of(programs.gemm(512, 512, 512), "emu:sm_90a")
    shared = {i.buffer for i in report.layouts if i.kind == "shared"}
    assert shared <= {b.name for b in report.buffers if b.offset is not None}


def test_slices_say_which_part_of_a_tensor_a_block_touches(gemm: Report) -> None:
    boxes = {s.buffer: s for o in gemm.ops for s in o.slices}
    a, b, c = (boxes[x] for x in "ABC")
    assert (a.extents, a.blocks, a.loop, a.trips) == ((128, 32), ((0, 128), (0, 0)), (0, 32), 16)
    assert (b.extents, b.blocks, b.loop) == ((32, 128), ((0, 0), (128, 0)), (32, 0))
    assert (c.mode, c.extents, c.blocks, c.trips) == ("write", (128, 128), ((0, 128), (128, 0)), 1)


def test_starts_that_are_not_affine_are_listed() -> None:
    report = report_of(programs.attention(1, 4, 256, 256, 64, kv_heads=2))
    keys = next(s for o in report.ops for s in o.slices if s.buffer == "K")
    assert keys.table is not None
    assert keys.table.shape == (2 * 4, 4)
    assert keys.table[:, 1].tolist() == [0, 0, 0, 0, 1, 1, 1, 1], "two heads of queries share one of keys"


def test_lifetimes_have_lines(gemm: Report) -> None:
    tile = next(b for b in gemm.buffers if b.name == "A_s")
    assert len(gemm.statement_lines) > tile.last
    copy = next(o for o in gemm.ops if "A_s" in o.writes)
    assert copy.span.line in gemm.statement_lines[tile.first : tile.last + 1]


def test_passes_have_lines(gemm: Report) -> None:
    for p in gemm.passes:
        assert len(p.lines) == len(p.text.splitlines())
    assert any(any(p.lines) for p in gemm.passes)


def test_the_report_goes_to_json_and_back(gemm: Report) -> None:
    back = from_json(Report, to_json(gemm))
    assert back.accesses == gemm.accesses
    assert back.layouts[0].chain == gemm.layouts[0].chain


PTX = """\
.visible .entry k(
{
ld.param.u64 %rd1, [a];
mov.u32 %r1, %tid.x;
mul.wide.s32 %rd2, %r1, 4;
add.s64 %rd3, %rd1, %rd2;
mov.f32 %f1, 0f00000000;
$L__BB0_1:
ld.global.f32 %f2, [%rd3];
add.f32 %f1, %f1, %f2;
setp.lt.s32 %p1, %r1, 8;
@%p1 bra $L__BB0_1;
st.global.f32 [%rd3], %f1;
ret;
}"""


def test_live_registers_of_ptx_are_counted_in_words_over_a_loop() -> None:
    live = live_registers(PTX)
    by_line = dict(zip(PTX.split("\n"), live, strict=True))
    assert by_line["ld.param.u64 %rd1, [a];"] == 2
    assert by_line["add.s64 %rd3, %rd1, %rd2;"] == 3, "the address, and the thread for the loop"
    assert by_line["ld.global.f32 %f2, [%rd3];"] == 5, "the sum is carried around the loop"
    assert by_line["st.global.f32 [%rd3], %f1;"] == 0
    assert by_line["$L__BB0_1:"] == 0


def test_opcodes_are_counted_without_labels_and_directives() -> None:
    assert mix(PTX) == {"mov": 2, "ld": 2, "add": 2, "mul": 1, "setp": 1, "bra": 1, "st": 1, "ret": 1}
    assert opcode("0040  @!P0 BRA `(.L_x_1)") == "BRA"
    assert opcode(".L_x_1:") == ""


@needs_nvrtc
def test_a_cuda_report_has_machine_code_with_live_registers() -> None:
    assert sass.find() is not None, "the tests need nvdisasm: pip install nvidia-cuda-nvdisasm"
    report = report_of(programs.gemm(256, 256, 256), "cuda:sm_80")
    code = next(c for c in report.code if c.level == "sass")
    product = next(o for o in report.ops if o.name == "gemm")
    lines = code.text.splitlines()
    assert len(lines) == len(code.lines) == len(code.live)
    multiplied = [k for k, t in enumerate(lines) if "HMMA" in t]
    assert code.mix["HMMA"] == len(multiplied) == 64
    assert {code.lines[k] for k in multiplied} == {product.span.line}
    assert 128 < max(code.live) <= report.resources.registers
    ptx = next(c for c in report.code if c.level == "ptx")
    assert len(ptx.live) == len(ptx.text.split("\n"))
    assert max(ptx.live) > 128
    assert (
        sass.listing(
            tilebench.compile(programs.gemm(256, 256, 256), target="cuda:sm_80").executable.built.binary
        )
        == code
    )


BIG = """
@T.prim_func
def big(X: T.Tensor((256, 512), "float32"), Y: T.Tensor((256, 512), "float32")):
    with T.Kernel(1, threads=128) as bx:
        s = T.alloc_fragment((256, 512), "float32")
        unused = T.alloc_fragment((256, 512), "float32")
        T.copy(X, s)
        T.copy(s, Y)
"""


def test_a_fragment_without_registers_is_said_before_the_compiler_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tilebench import compiler
    from tilebench.kernel.crowded import CrowdedWarning, crowded

    class Asked(Exception):
        pass

    asked: list[str] = []

    def never(stages: Any) -> Any:
        asked.append(stages.kernel.name)
        raise Asked

    prim = tilebench.compile(BIG, target="interp").prim
    monkeypatch.setattr(compiler, "with_executable", never)
    said = r"big \(line 5\): s \(256x512\) is 1024 values a thread, 1024 registers where a thread has 255"
    with pytest.warns(CrowdedWarning, match=said), pytest.raises(Asked):
        tilebench.run(BIG, target="cuda:sm_90a", launch=False)
    assert asked == ["big"]
    stages = compiler.analyse(prim, parse("cuda:sm_90a"))
    (finding,) = crowded(stages)
    assert finding.hint == (
        "use threads=1024 or a tile of 32x512, with 8 times the blocks: 128 registers a thread"
    )
    assert finding.spans[0].line == 5
