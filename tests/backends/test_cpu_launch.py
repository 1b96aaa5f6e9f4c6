"""Launching on the CPU: interrupts, several callers, the store, the text of a build."""

from __future__ import annotations

import _thread
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.backends.cpu_running import CPU, run_native
from tilebench import config
from tilebench.backends.cpu.build import build
from tilebench.ir.expr import binary
from tilebench.ir.tile import Kernel
from tilebench.ops.examples import Draft
from tilebench.passes.check import check


@pytest.fixture(autouse=True)
def _memory_only() -> Any:
    with config.using(cache_dir=None):
        yield


def adding(blocks: int = 8) -> Kernel:
    """Y[i] = X[i] + 1."""
    d = Draft("adding", (blocks,))
    x, y = d.tensor("X", (blocks * 64,), "float32"), d.tensor("Y", (blocks * 64,), "float32", "out")
    (bx,) = d.blocks
    with d.parallel(64) as (i,):
        d.store(y, bx * 64 + i, x[bx * 64 + i] + 1.0)
    return d.kernel()


def spinning(kind: str) -> Kernel:
    """A kernel that never ends, or ends after hours."""
    d = Draft("spinning", (2,), threads=1)
    x = d.tensor("X", (1,), "int32", "inout")
    if kind == "while":
        with d.loop_while(binary("eq", x[0], 0)):
            d.atomic("add", x, 0, 0)
    else:
        with d.serial(2**31 - 1) as _, d.serial(2**31 - 1) as k, d.parallel(8) as (i,):
            d.atomic("add", x, 0, k * 0 + i * 0)
    return d.kernel()


@pytest.mark.parametrize("kind", ["while", "serial"])
def test_an_interrupt_ends_a_kernel_within_a_second(kind: str) -> None:
    executable = build(check(spinning(kind), CPU), CPU)
    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    start = time.process_time()  # one thread spins, so the process's own time is the kernel's
    with pytest.raises(KeyboardInterrupt):
        run_native(spinning(kind), np.zeros(1, np.int32), built=executable)
    assert time.process_time() - start < 1.3
    timer.join()
    out = np.zeros(512, np.float32)
    run_native(adding(), np.arange(512, dtype=np.float32), out)
    assert out[511] == 512


def test_callers_on_several_threads_share_a_kernel() -> None:
    kernel = adding(64)
    executable = build(check(kernel, CPU), CPU)
    wrong: list[int] = []

    def work(seed: int) -> None:
        for n in range(20):
            x, y = np.full(4096, seed * 100 + n, np.float32), np.zeros(4096, np.float32)
            run_native(kernel, x, y, built=executable)
            if not (y == x + 1).all():
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_number_of_threads_changes_nothing(threads: int) -> None:
    x, y = np.arange(512, dtype=np.float32), np.zeros(512, np.float32)
    with config.using(threads=threads):
        run_native(adding(), x, y)
    assert (y == x + 1).all()


def test_a_second_build_takes_object_code_from_the_store(tmp_path: Path) -> None:
    with config.using(cache_dir=tmp_path):
        first = build(check(adding(), CPU), CPU)
        second = build(check(adding(), CPU), CPU)
    assert not first.built.cached
    assert second.built.cached
    assert second.built.binary == first.built.binary
    x, y = np.arange(512, dtype=np.float32), np.zeros(512, np.float32)
    run_native(adding(), x, y, built=second)
    assert (y == x + 1).all()


def test_a_build_shows_its_text_and_its_times() -> None:
    built = build(check(adding(), CPU), CPU)
    (text,) = built.built.code
    assert text.level == "llvm"
    assert len(text.lines) == len(text.text.splitlines())
    assert "define void @worker" in text.text
    assert built.assembly.level == "asm"
    assert "worker:" in built.assembly.text
    assert {"emit", "load"} <= set(built.built.milliseconds)


def test_names_of_the_user_never_reach_the_text() -> None:
    d = Draft('x"; evil', (1,))
    a = d.tensor('A"}\n!', (8,), "float32", "out")
    with d.parallel(8) as (i,):
        d.store(a, i, 2.0)
    out = np.zeros(8, np.float32)
    executable = run_native(d.kernel(), out)
    assert (out == 2).all()
    assert "evil" not in executable.emitted.text
