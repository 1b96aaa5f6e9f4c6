"""Facts about NVIDIA GPUs: what an architecture allows, what a device can do, and the occupancy that follows.

Data only, each row with its source. KiB and MiB are powers of two; GB/s and TFLOP/s powers of ten.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Feature = Literal[
    "cp_async",
    "ldmatrix",
    "stmatrix",
    "f16_mma",
    "bf16_mma",
    "tf32_mma",
    "i8_mma",
    "fp8_mma",
    "mbarrier",
    "tma",
    "cluster",
    "wgmma",
    "setmaxnreg",
    "vector_atomics",
]


@dataclass(frozen=True)
class Arch:
    """Limits of one compute capability. shared_* in bytes, registers in 32-bit registers."""

    name: str
    capability: int
    shared_per_block: int
    shared_per_sm: int
    warps_per_sm: int
    blocks_per_sm: int
    features: frozenset[Feature]
    shared_static: int = 48 * 1024  # above this a kernel must opt in to dynamic shared memory
    shared_reserved: int = 1024  # per block, by the system; CUDA programming guide, footnote of the table
    shared_unit: int = 128  # allocation granularity; CUDA occupancy calculator
    registers_per_sm: int = 65536
    registers_per_block: int = 65536
    registers_per_thread: int = 255
    register_unit: int = 256  # per warp; CUDA occupancy calculator
    threads_per_block: int = 1024
    warp_unit: int = 4  # warps are handed out to the four schedulers in turn; CUDA occupancy calculator

    @property
    def threads_per_sm(self) -> int:
        """Resident threads of one SM."""
        return self.warps_per_sm * 32


# Instruction requirements: PTX ISA, "Target ISA Notes" of each instruction.
#   ldmatrix sm_75; cp.async, mma .bf16 .tf32, mbarrier sm_80; mma .e4m3 .e5m2 sm_89; stmatrix, clusters and
#   cp.async.bulk.tensor sm_90; wgmma and setmaxnreg the architecture-specific sm_90a.
_AMPERE: frozenset[Feature] = frozenset[Feature](
    {"cp_async", "ldmatrix", "f16_mma", "bf16_mma", "tf32_mma", "i8_mma", "mbarrier"}
)
_ADA: frozenset[Feature] = _AMPERE | frozenset[Feature]({"fp8_mma"})
_HOPPER: frozenset[Feature] = _ADA | frozenset[Feature]({"stmatrix", "tma", "cluster", "vector_atomics"})
_HOPPER_A: frozenset[Feature] = _HOPPER | frozenset[Feature]({"wgmma", "setmaxnreg"})

# CUDA C++ programming guide, "Compute Capabilities", table "Technical Specifications per Compute Capability".
ARCHES: dict[str, Arch] = {
    a.name: a
    for a in (
        Arch("sm_80", 80, 163 * 1024, 164 * 1024, 64, 32, _AMPERE),
        Arch("sm_86", 86, 99 * 1024, 100 * 1024, 48, 16, _AMPERE),
        Arch("sm_89", 89, 99 * 1024, 100 * 1024, 48, 24, _ADA),
        Arch("sm_90", 90, 227 * 1024, 228 * 1024, 64, 32, _HOPPER),
        Arch("sm_90a", 90, 227 * 1024, 228 * 1024, 64, 32, _HOPPER_A),
        Arch("sm_100", 100, 227 * 1024, 228 * 1024, 64, 32, _HOPPER),
        Arch("sm_120", 120, 99 * 1024, 100 * 1024, 48, 24, _HOPPER),
    )
}


def arch_of(major: int, minor: int) -> str:
    """The architecture to compile for on a device of this compute capability: the newest not above it.

    A cubin runs on devices of the same major version and an equal or later minor one (sm_86 code on 8.7), so
    the major must agree; sm_90a is taken on 9.0, where it always runs.
    Raises TargetError TB502 for a device that no architecture here fits.
    """
    if (major, minor) == (9, 0):
        return "sm_90a"
    fitting = [a for a in ARCHES.values() if a.capability // 10 == major and a.capability % 10 <= minor]
    if not fitting:
        from tilebench.errors import TargetError

        raise TargetError(
            "TB502",
            f"no code can be made for a GPU of compute capability {major}.{minor}",
            why=f"cubins are built for {', '.join(ARCHES)}, and run on the same major version only",
            fix="use target='cpu' on this machine, or target='cuda:sm_90a' to compile without running",
        )
    return fitting[-1].name


# -- occupancy


@dataclass(frozen=True)
class Occupancy:
    """How many blocks of a kernel share an SM. limiter says in words what allows no more."""

    blocks: int
    warps: int
    fraction: float
    limiter: str


def occupancy(arch: str, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """Resident blocks per SM for blocks of `threads`, with `registers` per thread and `shared_bytes` each.

    shared_bytes counts static and dynamic memory. 0 blocks when one alone does not fit; the limiter then says
    what is too large. Method: CUDA occupancy calculator.
    """
    facts = ARCHES[arch]
    warps = -(-threads // 32)
    register_limit = facts.blocks_per_sm
    per_warp = _round_up(max(registers, 1) * 32, facts.register_unit)
    if registers > facts.registers_per_thread:
        return Occupancy(0, 0, 0.0, f"{registers} registers per thread; at most {facts.registers_per_thread}")
    if threads > facts.threads_per_block:
        return Occupancy(0, 0, 0.0, f"{threads} threads per block; at most {facts.threads_per_block}")
    if shared_bytes > facts.shared_per_block:
        need, most = shared_bytes / 1024, facts.shared_per_block // 1024
        return Occupancy(
            0, 0, 0.0, f"{need:.1f} KiB of shared memory per block; at most {most} KiB on {arch}"
        )
    if registers:
        warps_by_registers = facts.registers_per_block // per_warp // facts.warp_unit * facts.warp_unit
        register_limit = warps_by_registers // warps * (facts.registers_per_sm // facts.registers_per_block)
    shared = _round_up(shared_bytes + facts.shared_reserved, facts.shared_unit)
    limits = (
        (register_limit, f"registers ({registers} per thread)"),
        (facts.shared_per_sm // shared, f"shared memory ({shared_bytes / 1024:.1f} KiB per block)"),
        (facts.warps_per_sm // warps, f"warps ({facts.warps_per_sm} per SM)"),
        (facts.blocks_per_sm, f"blocks ({facts.blocks_per_sm} per SM)"),
    )
    blocks = min(limit for limit, _ in limits)
    limiter = " and ".join(text for limit, text in limits if limit == blocks)
    return Occupancy(blocks, blocks * warps, blocks * warps / facts.warps_per_sm, limiter)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


# -- devices


@dataclass(frozen=True)
class Device:
    """What a roofline needs to know of a product. Rates are dense (no sparsity), at the boost clock.

    f16 also stands for bf16, with f32 accumulation; f8 with f32 accumulation; 0 where the device has no such
    unit.
    """

    name: str
    arch: str
    sm_count: int
    boost_mhz: int
    memory_gb_s: float
    l2_mib: int
    f32_tflops: float
    f16_tflops: float
    tf32_tflops: float
    f8_tflops: float
    i8_tops: float
    driver_names: tuple[str, ...]

    def tensor_tflops(self, dtype: str) -> float:
        """Dense tensor rate in TFLOP/s (TOP/s) for operands of a dtype by name; 0 when there is none."""
        rates = {"float16": self.f16_tflops, "bfloat16": self.f16_tflops, "float32": self.tf32_tflops}
        rates |= {"tfloat32": self.tf32_tflops, "int8": self.i8_tops, "uint8": self.i8_tops}
        return self.f8_tflops if dtype.startswith("float8_e") else rates.get(dtype, 0.0)

    @property
    def ridge_flops_per_byte(self) -> float:
        """Arithmetic intensity at which f16 tensor work and memory take the same time."""
        return self.f16_tflops * 1e3 / self.memory_gb_s


def _geforce(
    name: str, arch: str, sms: int, mhz: int, gb_s: float, l2: int, driver: tuple[str, ...]
) -> Device:
    """A GeForce row: per SM and clock 256 f32, 512 f16, 256 tf32, 1024 f8 FLOP and 2048 i8 operations.

    Half the f16 rate with f32 accumulation is the GeForce rule since GA102; source: the whitepapers' appendix
    tables.
    """
    unit = sms * mhz * 1e-6
    f8 = 0.0 if arch == "sm_86" else unit * 1024
    return Device(name, arch, sms, mhz, gb_s, l2, unit * 256, unit * 512, unit * 256, f8, unit * 2048, driver)


DEVICES: tuple[Device, ...] = (
    # NVIDIA A100 Tensor Core GPU Architecture whitepaper, tables 1-3; A100 80GB datasheet (2,039 GB/s SXM).
    Device(
        "A100 40GB SXM",
        "sm_80",
        108,
        1410,
        1555,
        40,
        19.5,
        312,
        156,
        0,
        624,
        ("A100-SXM4-40GB", "A100-PCIE-40GB"),
    ),
    Device("A100 80GB SXM", "sm_80", 108, 1410, 2039, 40, 19.5, 312, 156, 0, 624, ("A100-SXM4-80GB",)),
    # A30 datasheet: 165 / 82 TFLOPS, 330 TOPS, 933 GB/s; whitepaper of GA100 for the L2.
    Device("A30", "sm_80", 56, 1440, 933, 24, 10.3, 165, 82, 0, 330, ("A30",)),
    # A10 datasheet: 31.2 / 125 / 62.5 TFLOPS, 250 TOPS, 600 GB/s.
    Device("A10", "sm_86", 72, 1695, 600, 6, 31.2, 125, 62.5, 0, 250, ("A10",)),
    # L4 datasheet (its tensor figures are with sparsity; halved): 30.3 / 121 / 60 / 242.5, 300 GB/s.
    Device("L4", "sm_89", 58, 2040, 300, 48, 30.3, 121, 60, 242.5, 242.5, ("L4",)),
    # L40S datasheet: 91.6 / 362 / 183 / 733, 864 GB/s; Ada whitepaper for the L2.
    Device("L40S", "sm_89", 142, 2520, 864, 96, 91.6, 362, 183, 733, 733, ("L40S",)),
    # H100 whitepaper, table 3 (boost of the tensor rates: 1830 MHz SXM5, 1620 PCIe) and H100 datasheet.
    Device(
        "H100 SXM", "sm_90a", 132, 1830, 3352, 50, 66.9, 989.4, 494.7, 1978.9, 1978.9, ("H100 80GB HBM3",)
    ),
    Device("H100 PCIe", "sm_90a", 114, 1620, 2039, 50, 51.2, 756, 378, 1513, 1513, ("H100 PCIe",)),
    # H200 datasheet: H100's chip with 4.8 TB/s; L2 as the driver reports it.
    Device("H200 SXM", "sm_90a", 132, 1830, 4800, 60, 66.9, 989.4, 494.7, 1978.9, 1978.9, ("H200",)),
    # HGX B200 datasheet divided by eight (dense): 75 / 2250 / 1125 / 4500, 7.7 TB/s; L2 as the driver reports
    # it.
    Device("B200 SXM", "sm_100", 148, 1965, 7700, 126, 75, 2250, 1125, 4500, 4500, ("B200",)),
    # NVIDIA Ampere GA102 whitepaper, tables 2 and appendix; GA104 and GA106 by the same rule and their
    # product pages.
    _geforce("RTX 3060", "sm_86", 28, 1777, 360, 3, ("GeForce RTX 3060",)),
    _geforce("RTX 3070", "sm_86", 46, 1725, 448, 4, ("GeForce RTX 3070",)),
    _geforce("RTX 3080", "sm_86", 68, 1710, 760, 5, ("GeForce RTX 3080",)),
    _geforce("RTX 3090", "sm_86", 82, 1695, 936, 6, ("GeForce RTX 3090",)),
    # NVIDIA Ada GPU architecture whitepaper, appendix tables (AD102, AD103, AD104, AD107).
    _geforce("RTX 4060", "sm_89", 24, 2460, 272, 24, ("GeForce RTX 4060",)),
    _geforce("RTX 4070", "sm_89", 46, 2475, 504, 36, ("GeForce RTX 4070",)),
    _geforce("RTX 4080", "sm_89", 76, 2505, 716.8, 64, ("GeForce RTX 4080",)),
    _geforce("RTX 4090", "sm_89", 128, 2520, 1008, 72, ("GeForce RTX 4090",)),
    # NVIDIA RTX Blackwell GPU architecture whitepaper, appendix tables (GB202, GB203, GB205).
    _geforce("RTX 5070", "sm_120", 48, 2512, 672, 48, ("GeForce RTX 5070",)),
    _geforce("RTX 5080", "sm_120", 84, 2617, 960, 64, ("GeForce RTX 5080",)),
    _geforce("RTX 5090", "sm_120", 170, 2407, 1792, 96, ("GeForce RTX 5090",)),
)


def find_device(name: str) -> Device | None:
    """The product that a driver's device name or a short name means ("NVIDIA H200", "RTX 4090"), or None.

    Names must agree whole: a laptop, Ti, SUPER or NVL variant is another product with other rates.
    """
    wanted = name.strip().removeprefix("NVIDIA ").casefold()
    for device in DEVICES:
        if wanted in {n.casefold() for n in (device.name, *device.driver_names)}:
            return device
    return None


def multiprocessors(arch: str) -> int:
    """Multiprocessors of the largest product of an architecture (132 when none is known)."""
    return max((d.sm_count for d in DEVICES if d.arch == arch), default=132)
