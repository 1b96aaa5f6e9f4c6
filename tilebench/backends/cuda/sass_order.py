"""The order in which machine code issues and awaits what runs beside the threads: whether ptxas kept the
schedule that was asked for can be seen there only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

WATCHED = (
    "HGMMA", "QGMMA", "IGMMA", "WARPGROUP.ARRIVE", "WARPGROUP.DEPBAR", "SYNCS", "UTMALDG", "UTMASTG",
    "USETMAXREG",
)  # fmt: skip
"""Products of 16, 8-bit float and integer operands; wgmma.fence; wgmma.wait_group; mbarrier operations; bulk
loads and stores; setmaxnreg. Mnemonics as nvdisasm prints them for sm_90a.
"""
_LINE = re.compile(r"^(?:[0-9a-f]{4,}\s+)?(?:@!?U?P\w+\s+)?([A-Z][\w.]*)(?:\s+(.*))?$")
_DETAIL = re.compile(r"(?:gsb0, )?(0x[0-9a-f]+)$")


def order(sass: str, watched: Sequence[str] = WATCHED) -> tuple[str, ...]:
    """The watched instructions in the order of the text, runs as one: 'HGMMA x4', 'WARPGROUP.DEPBAR 1'.

    sass: of `sass.disassemble`; watched: beginnings of mnemonics, e.g. 'MUFU.EX2'. mbarrier operations read
    'SYNCS.EXCH' (init), 'SYNCS.ARRIVE' and 'SYNCS.PHASECHK' (wait). WARPGROUP.DEPBAR has its number.
    """
    found: list[list[str | int]] = []
    for line in sass.splitlines():
        instruction = _LINE.match(line.strip())
        if instruction is None:
            continue
        name = next((w for w in watched if (instruction[1] + ".").startswith(w + ".")), None)
        if name is None:
            continue
        if name == "SYNCS":
            name = ".".join(instruction[1].split(".")[:2])
        elif name == "WARPGROUP.DEPBAR":
            pending = _DETAIL.search(instruction[2] or "")
            name += f" {int(pending[1], 16)}" if pending is not None else ""
        if found and found[-1][0] == name:
            found[-1][1] = int(found[-1][1]) + 1
        else:
            found.append([name, 1])
    return tuple(f"{name} x{count}" if int(count) > 1 else str(name) for name, count in found)
