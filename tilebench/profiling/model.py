"""The performance model: a predicted time from the work, the resources and the device's data sheet; the
roofline.

A launch takes at least as long as its slowest resource: tensor cores, FP32 pipes, special functions, L2,
memory. Waves that do not fill the device and what blocks cannot overlap lower each rate; the factors are the
model's only free numbers and stand together below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilebench.profiling.work import Work
from tilebench.report import Figure, Roof, RooflineInfo, RooflinePoint
from tilebench.targets import Device, Occupancy, find_device

DEFAULT_DEVICE = {
    "sm_80": "A100 80GB SXM", "sm_86": "RTX 3090", "sm_89": "RTX 4090", "sm_90": "H200 SXM",
    "sm_90a": "H200 SXM",
    "sm_100": "B200 SXM", "sm_120": "RTX 5090",
}  # fmt: skip
"""The product whose data sheet stands in for an architecture when no GPU is there."""

MMA_SYNC_SHARE = 0.62
"""mma.sync reaches about this share of the wgmma rate on sm_90 (arXiv 2402.13499)."""
MEMORY_SHARE = 0.9
"""Share of the data sheet's bandwidth that a plain copy reaches (measured: 4.3 of 4.8 TB/s on an H200)."""
ALU_SHARE = 0.5
"""Share of the FP32 rate for other arithmetic: the data sheet counts an FMA as two operations."""
L2_RATIO = 2.0
"""Bandwidth of L2 over that of memory (order of magnitude on the listed devices)."""
OVERLAP_LOST = 1 / 3
"""Part of the second slowest resource that is not hidden behind the slowest, as blocks alternate."""
SPECIAL_PER_CLOCK = 16
"""Special-function results per SM and clock (CUDA programming guide, arithmetic instructions)."""
LAUNCH_US = 2.5
"""What an empty kernel takes on the device, in microseconds (order of magnitude; measured values are 2 to 3).
"""


@dataclass(frozen=True)
class Prediction:
    """microseconds for each resource, the total, and which resource limits."""

    total_us: float
    parts: tuple[tuple[str, float], ...]
    limiter: str


def device_for(arch: str, name: str = "") -> Device | None:
    """The data sheet of the named device, or of the architecture's stand-in."""
    return (find_device(name) if name else None) or find_device(DEFAULT_DEVICE.get(arch, ""))


def predict(work: Work, device: Device, occupancy: Occupancy) -> Prediction:
    """The predicted time of a launch. Pure arithmetic on the data sheet; nothing is measured."""
    slots = max(1, occupancy.blocks) * device.sm_count
    waves = math.ceil(work.blocks / slots) if work.blocks else 0
    fill = work.blocks / (waves * slots) if waves else 1.0
    fill = max(fill, min(1.0, work.blocks / device.sm_count) / max(waves, 1)) if waves else 1.0
    busy_sms = min(1.0, work.blocks / device.sm_count) if work.blocks else 1.0
    share = MMA_SYNC_SHARE if device.arch == "sm_90a" else 0.9
    exact = work.tensor_flops.get("float32", 0.0)  # such a gemm is multiply-adds, not tensor cores
    tensor = sum(
        flops / (max(device.tensor_tflops(dtype), 1e-9) * share * 1e6)
        for dtype, flops in work.tensor_flops.items()
        if dtype != "float32"
    )
    rest = work.flops - sum(work.tensor_flops.values())
    alu = (rest / ALU_SHARE + exact) / (device.f32_tflops * 1e6)
    special = work.transcendentals / (SPECIAL_PER_CLOCK * device.sm_count * device.boost_mhz)
    memory = work.tensor_bytes / (device.memory_gb_s * MEMORY_SHARE * 1e3)
    l2 = work.global_bytes / (device.memory_gb_s * L2_RATIO * 1e3)
    parts = (
        ("tensor cores", tensor / fill if fill else tensor),
        ("FP32 pipes", alu / busy_sms),
        ("special functions", special / busy_sms),
        ("L2", l2),
        ("memory", memory),
    )
    slowest, longest = max(parts, key=lambda p: p[1])
    second = sorted((t for _, t in parts), reverse=True)[1]
    return Prediction(LAUNCH_US + longest + second * OVERLAP_LOST, parts, slowest)


def gpu_roofline(
    work: Work, device: Device, prediction: Prediction, measured: Figure | None, label: str
) -> RooflineInfo:
    """The roofline of a device's data sheet with this kernel on it."""
    roofs = [
        Roof(
            f"memory {device.memory_gb_s:g} GB/s",
            "bandwidth",
            device.memory_gb_s * 1e9,
            f"data sheet of {device.name}",
        )
    ]
    for name, rate in (
        ("f16 tensor", device.f16_tflops),
        ("tf32 tensor", device.tf32_tflops),
        ("f8 tensor", device.f8_tflops),
        ("FP32", device.f32_tflops),
    ):
        if rate:
            roofs.append(
                Roof(f"{name} {rate:g} TFLOP/s", "compute", rate * 1e12, f"data sheet of {device.name}")
            )
    time = measured or Figure(prediction.total_us, "us", "predicted", f"model of {device.name}")
    point = RooflinePoint(label, work.flops, work.tensor_bytes, time)
    return RooflineInfo(device.name, tuple(roofs), (point,), prediction.total_us, prediction.limiter)


def cpu_roofline(
    work: Work, name: str, gflops: float, gb_s: float, measured: Figure | None, label: str
) -> RooflineInfo:
    """The roofline of this machine's CPU; its peaks are measured once a machine (profiling/cpu_peaks.py)."""
    roofs = (
        Roof(f"memory {gb_s:.0f} GB/s", "bandwidth", gb_s * 1e9, "measured on this machine"),
        Roof(f"f32 {gflops:.0f} GFLOP/s", "compute", gflops * 1e9, "measured on this machine"),
    )
    predicted = max(work.flops / (gflops * 1e3), work.tensor_bytes / (gb_s * 1e3))
    limiter = "FP32 units" if work.flops / gflops > work.tensor_bytes / gb_s else "memory"
    time = measured or Figure(predicted, "us", "predicted", f"model of {name}")
    return RooflineInfo(
        name, roofs, (RooflinePoint(label, work.flops, work.tensor_bytes, time),), predicted, limiter
    )
