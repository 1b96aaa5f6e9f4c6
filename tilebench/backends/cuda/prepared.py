"""Launches that are prepared: grid and kernel are put into C's form once, a call fills the pack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilebench.backends.cuda.driver import ArgumentPack, LoadedKernel
from tilebench.backends.cuda.tensor_maps import TensorMaps


class PreparedLaunch:
    """A launch of one kernel on one device with a settled grid. Threads may share it.

    pack: shared by the launches of a kernel, under its lock; extra: values of symbols that are no parameters;
    workspaces: their sizes in bytes, allocated on the stream of each launch.
    """

    def __init__(
        self,
        kernel: LoadedKernel,
        shape: tuple[tuple[int, int, int], int, int],
        pack: ArgumentPack,
        maps: TensorMaps | None,
        extra: Sequence[int],
        workspaces: Sequence[int],
        overlap: bool = False,
    ) -> None:
        """shape: grid, threads, bytes of shared memory; overlap: with the launch before it (it waits)."""
        self._kernel, self._pack, self._maps = kernel, pack, maps
        self._extra, self._workspaces = tuple(extra), tuple(workspaces)
        self._run = kernel.launcher(*shape, overlap=overlap)

    def launch(self, values: list[Any], stream: int) -> None:
        """Queue it with these addresses and numbers (the list is used up)."""
        if self._extra:
            values += self._extra
        if self._workspaces:
            self._with_workspaces(values, stream)
            return
        maps, pack = self._maps, self._pack
        encoded = b"" if maps is None else maps.encoded(self._kernel.gpu, self._kernel.device, values)
        with pack.lock:
            pack.fill(values, encoded)
            self._run(stream, pack.address)

    def _with_workspaces(self, values: list[Any], stream: int) -> None:
        with self._kernel.gpu.on(self._kernel.device):
            self._queued_with_workspaces(values, stream)

    def _queued_with_workspaces(self, values: list[Any], stream: int) -> None:
        kernel, pack = self._kernel, self._pack
        gpu = kernel.gpu
        found: list[int] = []
        try:
            for size in self._workspaces:
                made = gpu.api.cuMemAllocAsync(size, stream)
                found.append(int(gpu.check(made, "allocate a workspace", f"{size} bytes")))
            values += found
            encoded = b"" if self._maps is None else self._maps.encoded(gpu, kernel.device, values)
            with pack.lock:
                pack.fill(values, encoded)
                self._run(stream, pack.address)
        finally:
            for pointer in found:
                gpu.api.cuMemFreeAsync(pointer, stream)

    def bound(self, values: Sequence[Any], pack: ArgumentPack) -> Callable[[int], None]:
        """The launch of exactly these values, a function of the stream; `pack` serves nothing else."""
        if self._workspaces:
            return lambda stream: self.launch([*values], stream)
        full = [*values, *self._extra]
        kernel, run, address = self._kernel, self._run, pack.address
        encoded = b"" if self._maps is None else self._maps.encoded(kernel.gpu, kernel.device, full)
        pack.fill(full, encoded)

        def launch(stream: int, _memory: ArgumentPack = pack) -> None:
            run(stream, address)

        return launch
