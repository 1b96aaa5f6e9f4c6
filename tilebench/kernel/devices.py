"""`devices`: the GPUs and the CPU of this machine, as far as they say what they are."""

from __future__ import annotations

import os
from dataclasses import dataclass

from tilebench.kernel.target import resolve


@dataclass(frozen=True)
class Device:
    """One processor. target: what to write after --target; facts: what is known of it, in words."""

    name: str
    target: str
    facts: tuple[str, ...]


def devices() -> list[Device]:
    """The GPUs that the driver sees, then the CPU."""
    return [*_gpus(), _cpu()]


def _gpus() -> list[Device]:
    try:
        from tilebench.backends.cuda import driver
    except ImportError:
        return []
    if not driver.available():
        return []
    found: list[Device] = []
    for index in range(driver.gpu().devices):
        p = driver.properties(index)
        facts = (
            f"compute capability {p.capability[0]}.{p.capability[1]}",
            f"{p.sms} SMs",
            f"{p.memory_bytes / 2**30:.0f} GiB",
            f"{p.shared_per_block / 1024:.0f} KiB shared memory a block",
            f"{p.l2_bytes / 2**20:.0f} MiB L2",
        )
        found.append(Device(p.name, f"cuda:{driver.arch(index)}", facts))
    return found


def _cpu() -> Device:
    from tilebench.profiling.cpu_peaks import cpu_name

    return Device(cpu_name(), "cpu", (f"{os.cpu_count()} cores",))


def devices_text() -> str:
    """One line a device, and which of them `auto` means."""
    found = devices()
    lines = [f"{d.target:14s} {d.name}: {', '.join(d.facts)}" for d in found]
    if len(found) == 1:
        lines.append("no GPU: --target cuda:sm_XX compiles for one, and runs a few blocks in the emulator")
    lines.append(f"auto means {resolve('auto')}")
    return "\n".join(lines)
