"""Registers that belong to products under way: who touches them too early, and which fence is missing.

From its issue to the wait that ends its group a product owns its accumulators and its A registers. Before the
first product, and after threads touched such registers, `wgmma.fence` must stand. Products on the same
accumulators need nothing between them: they apply in order. Source: PTX ISA, "wgmma.fence",
"wgmma.mma_async", "wgmma.wait_group".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tilebench.backends.emulator.findings import line
from tilebench.backends.emulator.names import base

if TYPE_CHECKING:
    from tilebench.backends.emulator.role import Role
    from tilebench.errors import Loc
    from tilebench.ir.thread import Memory

FENCED, READ, WRITTEN, UNNAMED = 0, 1, 2, 3


@dataclass
class _Product:
    """One product's registers low..high of an array; sums: they are its accumulators, not its A."""

    group: int
    low: int
    high: int
    sums: bool
    at: Loc | None
    unnamed: Loc | None = None  # the wait that ended its group and did not name the array
    ended: bool = False


class Flight:
    """One register array of a role: the products on it, and how threads touched it since the fence."""

    def __init__(self, role: Role, memory: Memory) -> None:
        self.role, self.memory = role, memory
        self.busy: list[_Product] = []
        self.touched = np.zeros(memory.static_shape[0], dtype=np.int8)
        self.where: Any = np.full(memory.static_shape[0], None, dtype=object)  # Loc

    # -------------------------------------------------------------- threads

    def read(self, index: Any, count: int, at: Loc | None) -> None:
        """Threads read registers."""
        self._touch(index, count, at, write=False)

    def write(self, index: Any, count: int, at: Loc | None) -> None:
        """Threads write registers."""
        self._touch(index, count, at, write=True)

    def _touch(self, index: Any, count: int, at: Loc | None, *, write: bool) -> None:
        if isinstance(index, int):
            low, high = index, index + count
            rows: Any = slice(low, high)
        else:
            low, high = int(np.min(index)), int(np.max(index)) + count
            rows = (np.unique(index)[:, None] + np.arange(count)).reshape(-1)
        if self.busy:
            self._collide(low, high, rows, at, write=write)
        if write:
            self.touched[rows] = WRITTEN
        else:
            self.touched[rows] = np.maximum(self.touched[rows], READ)
        self.where[rows] = at

    def _collide(self, low: int, high: int, rows: Any, at: Loc | None, *, write: bool) -> None:
        for product in self.busy:
            if product.high <= low or high <= product.low or not (product.sums or write):
                continue
            if not isinstance(rows, slice) and not ((rows >= product.low) & (rows < product.high)).any():
                continue
            name, verb = base(self.memory), "written" if write else "read"
            key = ("in-flight", name, at, product.at)
            if product.ended:
                text = (
                    f"{name} is {verb} at {line(at)} after the product of {line(product.at)}, and the wait at"
                )
                text += f" {line(product.unnamed)} that ends it does not name {name}"
                hint = f"name {name} in that wait: the compiler may move this use before it"
            else:
                text = f"{name} is {verb} at {line(at)} while the product of {line(product.at)} "
                text += "still writes it" if product.sums else "still reads it"
                hint = f"wait for the product's group (wgmma.wait_group) before {line(at)}"
            self._report(key, text, (product.at, at), hint, "TB438")

    # -------------------------------------------------------------- products

    def issue(
        self, group: int, low: int, count: int, at: Loc | None, *, sums: bool, kept: bool = True
    ) -> None:
        """A product takes registers low..low + count; kept: it uses what is in them."""
        high, name = low + count, base(self.memory)
        for other in self.busy:
            if other.high <= low or high <= other.low or other.ended:
                continue
            if (sums and other.sums and (other.low, other.high) == (low, high)) or not (sums or other.sums):
                continue
            text = f"{name} is used by the product of {line(at)} while the product of {line(other.at)} "
            text += f"still {'writes' if other.sums else 'reads'} it"
            self._report(
                ("in-flight", name, at, other.at), text, (other.at, at),
                f"wait for the first product (wgmma.wait_group) before {line(at)}", "TB438",
            )  # fmt: skip
        touched = self.touched[low:high]
        if not kept:  # the fence need not name what is overwritten
            touched = np.where(touched == UNNAMED, FENCED, touched)
        if touched.any():
            row = low + int(np.argmax(touched))
            before = self.where[row]
            verb = "read" if touched[row - low] == READ else "written"
            text = f"{name} is {verb} at {line(before)} and used by the product of {line(at)}, "
            text += (
                f"and the wgmma.fence between does not name {name}"
                if touched[row - low] == UNNAMED
                else "with no wgmma.fence between"
            )
            self._report(
                ("no-fence", name, at, before), text, (before, at),
                f"put wgmma.fence (naming {name}) between {line(before)} and {line(at)}", "TB439",
            )  # fmt: skip
        self.touched[low:high] = FENCED
        self.busy.append(_Product(group, low, high, sums, at))

    def fence(self, named: bool) -> None:
        """wgmma.fence: registers that were only read, and with `named` all, may be used by products."""
        self.touched[self.touched == READ] = FENCED
        self.touched[self.touched == WRITTEN] = FENCED if named else UNNAMED
        if named:
            self.touched[self.touched == UNNAMED] = FENCED

    def finish(self, done: int, named: bool, at: Loc | None) -> None:
        """Groups up to `done` are over, by a wait that names the array or does not."""
        left: list[_Product] = []
        for product in self.busy:
            if product.group > done:
                left.append(product)
            elif not named:
                if not product.ended:
                    product.ended, product.unnamed = True, at
                left.append(product)
        self.busy = _newest(left)

    def _report(
        self, key: tuple[object, ...], text: str, places: Sequence[Loc | None], hint: str, code: str
    ) -> None:
        findings = self.role.block.machine.findings
        if not findings.known(*key):
            findings.add(
                key, "registers", "error", f"{text} (block {self.role.block.name})", tuple(places), hint, code
            )


def _newest(products: list[_Product]) -> list[_Product]:
    """One product for each range that is over but not named: more say nothing new."""
    seen: dict[tuple[int, int, bool], _Product] = {}
    left = [p for p in products if not p.ended]
    for p in products:
        if p.ended:
            seen[p.low, p.high, p.sums] = p
    return [*seen.values(), *left]
