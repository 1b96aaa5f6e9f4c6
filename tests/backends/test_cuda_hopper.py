"""Thread programs of sm_90a as CUDA C++: what the text says, and that ptxas keeps the schedule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.backends import hopper_programs as hopper
from tilebench.backends.base import Built
from tilebench.backends.cuda import nvrtc, sass
from tilebench.backends.cuda.build import build_program
from tilebench.backends.cuda.emit import emit
from tilebench.backends.cuda.prelude_wgmma import layout_bits
from tilebench.backends.cuda.sass_order import order
from tilebench.errors import InternalError, TargetError
from tilebench.ir.dtype import DType, bfloat16, float16, float32
from tilebench.ir.expr import Expr, Load, const
from tilebench.ir.hopper import Descriptor, Wgmma, WgmmaWait
from tilebench.ir.rewrite import seq, transform
from tilebench.ir.thread import Program, Role
from tilebench.ir.tile import Stmt, Store
from tilebench.store import Store as Kept
from tilebench.targets import parse

TARGET = parse("cuda:sm_90a")
MEMORY = Kept(None)
needs_nvrtc = pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC on this machine")


def body(program: Program) -> str:
    """The text from the kernel's first line on."""
    text = emit(program).text
    return text[text.index('extern "C" __global__') :]


def built(program: Program) -> Built:
    """Compiled, with everything in registers and no complaint of ptxas."""
    found = build_program(program, TARGET, None, MEMORY).built
    assert found.warnings == (), "ptxas says what costs speed"
    assert found.spill_bytes == 0
    assert ".local" not in found.code[1].text, "register arrays are registers"
    return found


def machine(found: Built) -> tuple[str, ...]:
    """The order of what runs beside the threads."""
    return order(sass.disassemble(found.binary).text)


def changed(program: Program, rule: object) -> Program:
    """The program with a rewriting rule applied to its only role."""
    [role] = program.roles
    return replace(program, roles=(replace(role, body=transform(role.body, rule)),))  # type: ignore[arg-type]


# ------------------------------------------------------------------ the text


def test_maps_follow_all_other_parameters() -> None:
    [head] = [line for line in body(hopper.gemm()).split("\n") if "__global__" in line]
    assert head.endswith(
        "bf16* __restrict__ b2_, int v0_, int v1_, int v2_, const __grid_constant__ TensorMap m0_, "
        "const __grid_constant__ TensorMap m1_, const __grid_constant__ TensorMap m2_) {"
    )
    assert "__launch_bounds__(384, 1)" in head, "without a number of blocks setmaxnreg is ignored"


def test_roles_that_share_a_body_are_printed_once_behind_the_prologue() -> None:
    text = body(hopper.gemm())
    assert text.count("wgmma_fence()") == 1
    assert text.index("mbarrier_init_fence();") < text.index("__syncthreads();") < text.index("< 128) {")
    assert text.index("give_registers<24>") < text.index("} else {") < text.index("take_registers<240>")
    assert text.index("float b8_[64]") > text.index("} else {"), "registers belong to the role that uses them"


def test_ranges_that_do_not_touch_share_a_body_too() -> None:
    program = hopper.gemm()
    producer, one, two = program.roles
    roles = (replace(one, first_thread=0), replace(producer, first_thread=128), two)
    text = body(replace(program, roles=roles))
    assert "if (v5_ < 128 || v5_ >= 256) {" in text
    assert text.count("wgmma_fence()") == 1
    last = replace(producer, first_thread=384, threads=32)
    text = body(replace(program, roles=(*roles, last), threads=416))
    assert "if (v5_ < 128 || (v5_ >= 256 && v5_ < 384)) {" in text
    assert text.count("give_registers<24>") == 1


def test_loops_with_products_stay_loops() -> None:
    lines = body(hopper.gemm()).split("\n")
    loops = [i for i, line in enumerate(lines) if "for (" in line and ">> 6" in line]
    assert len(loops) == 2
    assert all("#pragma unroll 1" in lines[i - 1] for i in loops)


def test_registers_are_pinned_before_a_fence_and_behind_a_wait() -> None:
    text = body(hopper.product(hopper.Product(a_from="registers", accumulate=True)))
    assert "pin_f32(b5_);\n  pin_r16(b6_);\n  wgmma_fence();" in text
    assert "wgmma_wait<0>();\n  pin_f32(b5_);" in text


@pytest.mark.parametrize(
    ("descriptor", "bits"),
    [
        (Descriptor(16, 1024, 128), 0x4000004000010000),
        (Descriptor(16384, 1024, 128, transposed=True), 0x4000004004000000),
        (Descriptor(8192, 1024, 128, transposed=True), 0x4000004002000000),
        (Descriptor(16, 512, 64), 0x8000002000010000),
        (Descriptor(16, 256, 32), 0xC000001000010000),
        (Descriptor(1152, 128, 0), 0x0000000800480000),
    ],
)
def test_descriptors_have_the_bits_of_the_ptx_isa(descriptor: Descriptor, bits: int) -> None:
    assert layout_bits(descriptor) == bits


def test_a_product_advances_its_descriptors_in_units_of_16_bytes() -> None:
    text = emit(hopper.gemm()).text
    assert "wgmma_m64n128k16_f32_bf16_bf16_s00_4x2_4x2(b8_, matrix_descriptor(" in text
    assert [line.strip()[1:-4] for line in text.split("\n") if "add.s32" in line] == [
        f"add.s32 {x}_at, {x}_low, {2 * k}" for k in (1, 2, 3) for x in "ab"
    ]


@pytest.mark.parametrize(
    "case",
    [
        hopper.Product(n=12),
        hopper.Product(d=float16),
        hopper.Product(b=float16),
        hopper.Product(float32, float32, b_from="kn"),
        hopper.Product(hopper.DTYPES["int8"], hopper.DTYPES["int8"], hopper.DTYPES["int32"], n=40),
        hopper.Product(hopper.DTYPES["int8"], hopper.DTYPES["float8_e4m3"], hopper.DTYPES["int32"]),
    ],
    ids=str,
)
def test_what_the_hardware_does_not_multiply_is_our_bug(case: hopper.Product) -> None:
    with pytest.raises(InternalError, match=r"TB902.*wgmma"):
        emit(hopper.product(case))


def test_a_step_inside_of_16_bytes_is_our_bug() -> None:
    def shift(node: object) -> Stmt | None:
        return replace(node, b_steps=(0, 4, 8, 12)) if isinstance(node, Wgmma) else None

    with pytest.raises(InternalError, match=r"TB902.*k step"):
        emit(changed(hopper.product(hopper.Product()), shift))


def test_an_older_gpu_has_none_of_it() -> None:
    with pytest.raises(TargetError, match=r"TB508.*sm_80"):
        emit(replace(hopper.copy(), arch="sm_80"))


def test_a_newer_gpu_has_bulk_copies_and_no_warpgroup_products() -> None:
    assert "bulk_load_2d" in emit(replace(hopper.copy(), arch="sm_100a")).text
    with pytest.raises(TargetError, match=r"(?s)TB508.*of sm_90a alone, not of sm_100a"):
        emit(replace(hopper.gemm(), arch="sm_100a"))


# ------------------------------------------------------------------ the machine code


@needs_nvrtc
@pytest.mark.parametrize(("dtype", "stages", "n"), [(bfloat16, 4, 128), (float16, 3, 256)], ids=str)
def test_a_specialised_gemm_has_the_schedule_that_it_names(dtype: DType, stages: int, n: int) -> None:
    found = built(hopper.gemm(dtype, stages, n))
    print(f"\nNVRTC {nvrtc.version()}: {found.milliseconds['nvrtc']:.0f} ms for the 128 x {n} product")
    assert found.registers == 168, "384 threads share 65536 registers until setmaxnreg"
    text = sass.disassemble(found.binary).text
    assert order(text) == (
        f"SYNCS.EXCH x{2 * stages}",
        "USETMAXREG", "SYNCS.PHASECHK", "WARPGROUP.ARRIVE", "HGMMA x4", "WARPGROUP.DEPBAR 1", "SYNCS.ARRIVE",
        "WARPGROUP.DEPBAR 0", f"UTMASTG x{n // 64}",
        "USETMAXREG", "SYNCS.PHASECHK", "SYNCS.ARRIVE", "UTMALDG x2",
        "SYNCS.PHASECHK x2",
    )  # fmt: skip
    kind = "BF16" if dtype == bfloat16 else "F16"
    assert text.count(f"F2FP.{kind}.F32.PACK_AB") == n // 4, "two elements are converted at once"
    assert text.count("STSM.16.M88.4") == n // 16


_INSTRUCTION = {32: "HGMMA", 16: "HGMMA", 8: "QGMMA"}


@needs_nvrtc
@pytest.mark.parametrize("case", hopper.PRODUCTS, ids=str)
def test_every_product_compiles_to_registers_alone(case: hopper.Product) -> None:
    ptx = built(hopper.product(case)).code[1].text
    assert ptx.count("wgmma.mma_async") == case.k * case.a.bits // 256


@needs_nvrtc
@pytest.mark.parametrize("case", [hopper.PRODUCTS[i] for i in (7, 15, 18, 23)], ids=str)
def test_a_product_is_one_run_of_instructions(case: hopper.Product) -> None:
    found = machine(built(hopper.product(case)))
    name = "IGMMA" if case.a.is_int else _INSTRUCTION[case.a.bits]
    steps = case.k * case.a.bits // 256
    loads = next(x for x in found if x.startswith("UTMALDG"))
    run = f"{name} x{steps}" if steps > 1 else name
    assert [x for x in found if not x.startswith("SYNCS") and x != loads] == [
        "WARPGROUP.ARRIVE",
        run,
        "WARPGROUP.DEPBAR 0",
    ]


@needs_nvrtc
@pytest.mark.parametrize("dtype", [bfloat16, float16], ids=str)
def test_accumulators_become_an_operand_without_leaving_their_registers(dtype: DType) -> None:
    text = sass.disassemble(built(hopper.chained(dtype)).binary).text
    watched = ("HGMMA", "WARPGROUP.ARRIVE", "WARPGROUP.DEPBAR", "F2FP", "PRMT", "LDS", "STS")
    assert order(text, watched) == (
        "WARPGROUP.ARRIVE", "HGMMA x8", "WARPGROUP.DEPBAR 0", "F2FP x16",
        "WARPGROUP.ARRIVE", "HGMMA x4", "WARPGROUP.DEPBAR 0",
    )  # fmt: skip


@needs_nvrtc
def test_a_bulk_copy_is_one_instruction_each_way() -> None:
    found = machine(built(hopper.copy()))
    assert found == ("SYNCS.EXCH", "SYNCS.ARRIVE", "UTMALDG", "SYNCS.PHASECHK", "UTMASTG")


@needs_nvrtc
@pytest.mark.parametrize(("rank", "swizzle"), [(2, 0), (2, 32), (3, 64), (3, 128)])
def test_copies_of_every_swizzle_compile(rank: int, swizzle: int) -> None:
    ptx = built(hopper.copy(rank, swizzle)).code[1].text
    assert f"cp.async.bulk.tensor.{rank}d.shared::cluster.global" in ptx
    assert f"cp.async.bulk.tensor.{rank}d.global.shared::cta" in ptx


@needs_nvrtc
@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_boxes_have_one_to_five_dimensions(rank: int) -> None:
    ptx = built(hopper.moved(rank)).code[1].text
    assert f"cp.async.bulk.tensor.{rank}d.shared::cluster.global" in ptx
    assert f"cp.async.bulk.tensor.{rank}d.global.shared::cta" in ptx


@needs_nvrtc
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("matrices", [1, 2, 4])
def test_stmatrix_takes_one_to_four_registers(matrices: int, transpose: bool) -> None:
    ptx = built(hopper.scattered(matrices, transpose)).code[1].text  # type: ignore[arg-type]
    assert ptx.count(f"stmatrix.sync.aligned.m8n8.x{matrices}{'.trans' * transpose}.shared.b16") == 1


def _touched_early() -> Program:
    """A product whose accumulators are changed between issue and wait."""
    program = hopper.product(hopper.Product(n=64))
    [acc] = program.registers

    def touch(node: object) -> Stmt | None:
        if not isinstance(node, WgmmaWait):
            return None
        e: Expr = Load(acc, (const(0),), dtype=float32) * 2.0
        return seq(Store(acc, (const(0),), e), replace(node, registers=()))

    return changed(program, touch)


@needs_nvrtc
def test_serialised_products_are_warnings_of_the_build() -> None:
    store = Kept(None)
    for _ in range(2):  # the second may come from the store
        found = build_program(_touched_early(), TARGET, None, store).built
        assert found.warnings
        assert all("C75" in line for line in found.warnings)


@needs_nvrtc
def test_setmaxnreg_that_ptxas_ignores_is_a_warning() -> None:
    text = emit(hopper.gemm()).text.replace("__launch_bounds__(384, 1) ", "")
    assert any("setmaxnreg" in line for line in nvrtc.compile_text(text, "sm_90a").warnings)


def test_the_order_of_machine_code_is_read_from_its_listing() -> None:
    text = """.L_x_5:
0480  @!P0 BRA `(.L_x_5)
0490  WARPGROUP.ARRIVE
04f0  HGMMA.64x128x16.F32.BF16 R24, gdesc[UR12], R24, UP0
0500  R2UR UR12, R8
05e0  @P1 HGMMA.64x128x16.F32.BF16 R24, gdesc[UR12], R24, gsb0
06c0  WARPGROUP.DEPBAR.LE gsb0, 0x1
06d0  @!P0 SYNCS.ARRIVE.TRANS64.A1T0 RZ, [R2+UR10+0x28400], RZ
06e0  MUFU.EX2 R3, R4"""
    assert order(text) == ("WARPGROUP.ARRIVE", "HGMMA x2", "WARPGROUP.DEPBAR 1", "SYNCS.ARRIVE")
    assert order(text, ("MUFU.EX2", "R2UR")) == ("R2UR", "MUFU.EX2")


def test_the_programs_are_roles_of_whole_warpgroups() -> None:
    roles: tuple[Role, ...] = hopper.gemm().roles
    assert [(r.first_thread, r.threads) for r in roles] == [(0, 128), (128, 128), (256, 128)]
    assert roles[1].body is roles[2].body
