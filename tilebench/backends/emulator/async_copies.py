"""cp.async: copies that become visible when their thread has waited for the group they are in.

The data is read when the copy is issued and written when it is waited for, the latest moment that the
hardware may choose, so a program that forgets the wait also gets the old values. Copies that are never waited
for land when the role ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tilebench.backends.emulator.race import flat
from tilebench.backends.emulator.registers import extent, spread

if TYPE_CHECKING:
    from tilebench.backends.emulator.memory import Site
    from tilebench.backends.emulator.role import Role


@dataclass(eq=False)
class _Pending:
    """One execution of a statement, flat: element index, thread column, group, data [n, lanes] of each."""

    site: Site
    index: np.ndarray
    column: np.ndarray
    group: np.ndarray
    data: np.ndarray
    granules: np.ndarray | None
    owners: np.ndarray | None


class CopyQueue:
    """The asynchronous copies of a role's threads, in order of issue."""

    def __init__(self, role: Role) -> None:
        self.role = role
        self.closed = np.zeros(role.threads, dtype=np.int64)  # groups committed by each thread
        self.pending: list[_Pending] = []
        self.columns = np.arange(role.threads)

    def issue(self, destination: Site, source: Site, to: Any, start: Any, mask: Any, predicate: Any) -> None:
        """One cp.async a thread; where the predicate is false zeros are written."""
        rs = self.role
        use = mask
        if predicate is not None:
            p = rs.uniform(predicate) if np.ndim(predicate) == 0 else np.asarray(predicate)
            use = p if mask is None else p & mask
        shape = extent(rs.threads, to, start, use, mask)
        data = source.raw(rs, spread(start, shape), use)
        index, on = destination.check(rs, spread(to, shape), mask, write=True, values=data, pending=True)
        columns = spread(self.columns, shape)
        if on is not None:
            on = spread(on, shape)
            index, columns, data = index[on], columns[on], data[on]
        else:
            index, columns, data = index.reshape(-1), columns.reshape(-1), data.reshape(-1, destination.lanes)
        granules = owners = None
        if rs.block.machine.checks:
            place = destination.place
            each = destination.width // place.granule
            first = (
                index * destination.itemsize + place.start - place.region_start
            ) // place.granule + place.shadow
            granules = flat(first[:, None] + np.arange(each))
            owners = np.repeat(rs.tid[columns], each)
        self.pending.append(
            _Pending(destination, index, columns, self.closed[columns], data, granules, owners)
        )

    def commit(self, mask: Any) -> None:
        """Close the current group of each active thread."""
        active = self.role.active(mask)
        if active is None:
            self.closed += 1
        else:
            self.closed[active] += 1

    def wait(self, groups: int, mask: Any) -> None:
        """Complete all but the last `groups` committed groups of each active thread."""
        if not self.pending:
            return
        active = self.role.active(mask)
        limit = self.closed - groups
        if active is not None:
            limit = np.where(active, limit, 0)
        self._complete(limit)

    def finish(self) -> None:
        """The role ends: everything lands."""
        self._complete(np.full(self.role.threads, np.iinfo(np.int64).max))

    def _complete(self, limit: np.ndarray) -> None:
        left: list[_Pending] = []
        for copy in self.pending:
            done = copy.group < limit[copy.column]
            if not done.any():
                left.append(copy)
                continue
            if done.all():
                self._land(copy)
                continue
            each = 0 if copy.granules is None else len(copy.granules) // len(copy.index)
            for part, chosen in ((True, done), (False, ~done)):
                wide = np.repeat(chosen, each) if each else None
                piece = _Pending(
                    copy.site, copy.index[chosen], copy.column[chosen], copy.group[chosen], copy.data[chosen],
                    None if wide is None or copy.granules is None else copy.granules[wide],
                    None if wide is None or copy.owners is None else copy.owners[wide],
                )  # fmt: skip
                if part:
                    self._land(piece)
                else:
                    left.append(piece)
        self.pending = left

    def _land(self, copy: _Pending) -> None:
        copy.site.deferred_put(self.role, copy.index, copy.data)
        if copy.granules is not None and copy.owners is not None:
            self.role.block.shadow.complete(copy.granules, copy.owners)
