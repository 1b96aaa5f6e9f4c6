"""Targets: the grammar of `target=`, and facts about the hardware, each with its source."""

from tilebench.targets.cpu import CpuFacts
from tilebench.targets.nvidia import (
    ARCHES,
    DEVICES,
    Arch,
    Device,
    Feature,
    Occupancy,
    arch_of,
    find_device,
    occupancy,
)
from tilebench.targets.target import DEFAULT_EMULATED_ARCH, KINDS, Kind, Target, parse

__all__ = [
    "ARCHES",
    "DEFAULT_EMULATED_ARCH",
    "DEVICES",
    "KINDS",
    "Arch",
    "CpuFacts",
    "Device",
    "Feature",
    "Kind",
    "Occupancy",
    "Target",
    "arch_of",
    "find_device",
    "occupancy",
    "parse",
]
