"""How long a cell takes from its text to an sm_90a binary, and where the time goes.

    python tests/perf/compile_time.py

Each cell is compiled cold (nothing stored, nothing remembered) in a process that has compiled one other
kernel, then run again unchanged. Wall and CPU time stand side by side: on a machine with other work the wall
clock measures the others too, so the bars are judged by CPU time of this process.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

import tilebench  # noqa: E402
from tests.kernels import programs  # noqa: E402
from tilebench import compiler, config  # noqa: E402
from tilebench.backends.cuda import build, nvrtc  # noqa: E402
from tilebench.kernel import recall  # noqa: E402
from tilebench.kernel.program import define  # noqa: E402
from tilebench.store import current_store  # noqa: E402

TARGET = "cuda:sm_90a"
AGAIN_MS, IMPORT_MS = 10, 300


@dataclass(frozen=True)
class Case:
    """A kernel of tests/kernels/programs.py as the text of a cell, and its bar in milliseconds."""

    name: str
    factory: Callable[..., Any]
    call: str
    bar_ms: int

    @property
    def text(self) -> str:
        """The cell: the factory and one call of it."""
        head = "from typing import Any\n\nimport tilebench.language as T\n\n"
        return f"{head}{inspect.getsource(self.factory)}\nkernel = {self.call}\n"


CASES = (
    Case("softmax", programs.softmax, "softmax(4096, 1024)", 250),
    Case("gemm", programs.gemm, "gemm(4096, 4096, 4096)", 500),
    Case("attention", programs.attention, "attention(1, 32, 4096, 4096, 128, threads=256)", 800),
    Case("causal", programs.attention, "attention(1, 32, 4096, 4096, 128, causal=True, threads=256)", 1200),
)

REFERENCE = """
extern "C" __global__ void reference(const float* __restrict__ x, float* __restrict__ y) {
  float sums[8][8] = {}, a[8], b[8];
  #pragma unroll 1
  for (int k = 0; k < 256; ++k) {
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      a[i] = x[threadIdx.x * 8 + i + k * 4096];
      b[i] = x[blockIdx.x * 8 + i + k * 512];
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      #pragma unroll
      for (int j = 0; j < 8; ++j) sums[i][j] += a[i] * b[j];
    }
  }
  #pragma unroll
  for (int i = 0; i < 8; ++i) {
    #pragma unroll
    for (int j = 0; j < 8; ++j) y[(threadIdx.x * 8 + i) * 1024 + blockIdx.x * 8 + j] = expf(sums[i][j]);
  }
}
"""
"""A fixed text: what this machine's NVRTC takes for it is the unit of the ratios that CI asserts."""


@dataclass
class Times:
    """Wall and CPU milliseconds of named steps; `cpu` is that of the whole process, NVRTC's included."""

    wall: dict[str, float] = field(default_factory=dict[str, float])
    cpu: dict[str, float] = field(default_factory=dict[str, float])

    @contextmanager
    def step(self, name: str) -> Any:
        """Add the time of a block under `name`."""
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.wall[name] = self.wall.get(name, 0.0) + (time.perf_counter() - wall) * 1e3
        self.cpu[name] = self.cpu.get(name, 0.0) + (time.process_time() - cpu) * 1e3

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, its calls counted under `name`."""

        def run(*values: Any, **named: Any) -> Any:
            with self.step(name):
                return function(*values, **named)

        return run

    @property
    def python(self) -> float:
        """CPU milliseconds outside NVRTC."""
        return self.cpu["total"] - self.cpu["nvrtc"]


@contextmanager
def replaced(module: Any, **values: Any) -> Any:
    """Attributes of a module exchanged inside the block."""
    before = {name: getattr(module, name) for name in values}
    try:
        for name, value in values.items():
            setattr(module, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


def cold(case: Case) -> tuple[Times, Any]:
    """Compile the cell with nothing stored and nothing remembered: (times of the steps, the kernel)."""
    times, text = Times(), case.text
    passes = tuple((name, times.timed(name, step)) for name, step in compiler.passes())
    from tilebench.language import parse
    from tilebench.passes import check

    with (
        config.using(cache_dir=None),
        replaced(compiler, passes=lambda: passes),
        replaced(check, check=times.timed("check", check.check)),
        replaced(parse, parse_prim_func=times.timed("parse", parse.parse_prim_func)),
        replaced(
            build, emit=times.timed("emit", build.emit), ptx_text=times.timed("read PTX", build.ptx_text)
        ),
        replaced(nvrtc, compile_text=times.timed("nvrtc", nvrtc.compile_text)),
    ):
        current_store().clear()
        recall.memory().clear()
        with times.step("total"):
            with times.step("define"):
                program, _ = define(text, {}, "kernel")
            kernel = tilebench.compile(program, target=TARGET)
    inside = sum(ms for name, ms in times.cpu.items() if name != "total")
    times.cpu["rest"] = times.cpu["total"] - inside
    times.wall["rest"] = times.wall["total"] - sum(ms for n, ms in times.wall.items() if n != "total")
    return times, kernel


def again(case: Case) -> Times:
    """The second run of the cell: `define` executes its text, `compile` is the compile step."""
    times, scope, text = Times(), dict[str, Any](), case.text
    with config.using(cache_dir=None):
        for name in ("first", "second"):
            with times.step(f"{name} define"):
                program, _ = define(text, scope, "kernel")
            with times.step(f"{name} compile"):
                tilebench.compile(program, target=TARGET)
    return times


def best(run: Callable[[], Times], count: int = 3) -> Times:
    """Of several runs the one that took the least CPU time."""
    return min((run() for _ in range(count)), key=lambda t: t.cpu["total"])


def reference() -> Times:
    """NVRTC's time for REFERENCE."""
    times = Times()
    with times.step("total"):
        nvrtc.compile_text(REFERENCE, "sm_90a")
    return times


def split(text: str) -> dict[str, float]:
    """NVRTC's own account of a compilation, in wall milliseconds: front end, optimiser, assembler."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "time.csv"
        nvrtc.compile_text(text, "sm_90a", None, (f"--time={file}",))
        rows = [line.split(",") for line in file.read_text().splitlines() if line.strip()]
    return read_split(rows)


def read_split(rows: list[list[str]]) -> dict[str, float]:
    """Milliseconds by phase from the rows of `--time`; {} where this NVRTC writes something else."""
    found: dict[str, float] = {}
    for row in rows:
        words = [w.strip() for w in row]
        for at, word in enumerate(words[:-1]):
            try:
                number = float(words[at + 1])
            except ValueError:
                continue
            if word and not word.replace(".", "").isdigit():
                found[word] = found.get(word, 0.0) + number
    return found


def import_times(what: str = "import tilebench", count: int = 3) -> Times:
    """The least time of an import in a fresh process."""
    script = (
        f"import time; w, c = time.perf_counter(), time.process_time(); {what}; "
        "print((time.perf_counter() - w) * 1e3, (time.process_time() - c) * 1e3)"
    )

    def once() -> Times:
        command = [sys.executable, "-c", script]
        out = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
        return Times({"total": float(out[0])}, {"total": float(out[1])})

    return best(once, count)


def mark(value: float, bar: float) -> str:
    """'<= 250 ms: pass'."""
    return f"<= {bar} ms: {'pass' if value <= bar else 'FAIL'}"


def line(name: str, wall: float, cpu: float, total: float = 0.0, note: str = "") -> str:
    """One row of the table."""
    share = f"{cpu / total:6.0%}" if total else " " * 6
    return f"  {name:<22}{wall:9.1f}{cpu:9.1f}{share}   {note}".rstrip()


def table(case: Case, times: Times, second: Times, phases: Mapping[str, float]) -> str:
    """What one case took."""
    total = times.cpu["total"]
    lines = [f"{case.name}: {case.call}", f"  {'':<22}{'wall ms':>9}{'CPU ms':>9}{'share':>6}"]
    lines.append(line("cold", times.wall["total"], total, total, mark(total, case.bar_ms)))
    steps = [
        "define",
        "parse",
        "check",
        *(n for n, _ in compiler.passes()),
        "emit",
        "nvrtc",
        "read PTX",
        "rest",
    ]
    lines += [line(f"  {name}", times.wall[name], times.cpu[name], total) for name in steps]
    lines += [f"      {name:<32}{ms:9.1f} ms wall" for name, ms in phases.items()]
    lines.append(line("Python, all of it", times.wall["total"] - times.wall["nvrtc"], times.python, total))
    compile_ms = second.cpu["second compile"]
    lines.append(line("again: define", second.wall["second define"], second.cpu["second define"]))
    lines.append(
        line("again: compile", second.wall["second compile"], compile_ms, 0.0, mark(compile_ms, AGAIN_MS))
    )
    return "\n".join(lines)


def warm_up() -> None:
    """Compile one other kernel, as a notebook has after `%load_ext`."""
    with config.using(cache_dir=None):
        tilebench.compile(programs.rms_norm(1024, 1024), target=TARGET)


@dataclass(frozen=True)
class Measured:
    """One case: its cold and its second run, and the share of NVRTC's phases."""

    case: Case
    times: Times
    second: Times
    phases: Mapping[str, float]

    def __str__(self) -> str:
        return table(self.case, self.times, self.second, self.phases)


def measure(case: Case, count: int = 3) -> Measured:
    """Best of `count` cold runs, then the rest."""
    kernels: list[Any] = []

    def once() -> Times:
        times, kernel = cold(case)
        kernels.append(kernel)
        return times

    return Measured(case, best(once, count), again(case), split(kernels[0].get_kernel_source()))


def main() -> int:
    """Print the bars."""
    warm_up()
    for case in CASES:
        print(measure(case), end="\n\n")
    unit, fresh = best(reference), import_times()
    print(line("NVRTC, reference text", unit.wall["total"], unit.cpu["total"]))
    imported = fresh.cpu["total"]
    print(line("import tilebench", fresh.wall["total"], imported, 0.0, mark(imported, IMPORT_MS)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
