"""Facts about the CPU that runs kernels. Data only: detection and measuring are done where they are used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

VectorIsa = Literal["avx512", "avx2", "sse4", "neon", "sve", "scalar"]

VECTOR_BYTES: dict[VectorIsa, int] = {
    "avx512": 64,  # Intel SDM vol. 1, chapter 15
    "avx2": 32,  # Intel SDM vol. 1, chapter 14
    "sse4": 16,
    "neon": 16,  # Arm ARM, A64 SIMD&FP registers
    "sve": 16,  # the architecture's least width; real machines say more
    "scalar": 8,
}

VECTOR_REGISTERS: dict[VectorIsa, int] = {
    "avx512": 32, "avx2": 16, "sse4": 16, "neon": 32, "sve": 32, "scalar": 16
}  # fmt: skip


@dataclass(frozen=True)
class CpuFacts:
    """One machine. Peaks are measured (0 until they are), caches in bytes per core (l3: shared by all)."""

    name: str
    isa: VectorIsa
    cores: int
    l1_bytes: int = 32 * 1024
    l2_bytes: int = 512 * 1024
    l3_bytes: int = 0
    has_f16: bool = False
    has_bf16: bool = False
    f32_gflops: float = 0.0
    memory_gb_s: float = 0.0

    @property
    def f32_lanes(self) -> int:
        """f32 values in one vector register."""
        return VECTOR_BYTES[self.isa] // 4

    @property
    def gemm_tile(self) -> tuple[int, int]:
        """(rows, columns) of C that a f32 micro-kernel keeps in registers, two or so being left for A and B.

        AVX-512 14x32, AVX2 6x16, NEON 8x12: the register counts divided by the vectors per row.
        """
        tiles: dict[VectorIsa, tuple[int, int]] = {
            "avx512": (14, 32), "avx2": (6, 16), "sse4": (6, 8),
            "neon": (8, 12), "sve": (8, 12), "scalar": (2, 2),
        }  # fmt: skip
        return tiles[self.isa]
