"""Generated kernels on a Hopper GPU beside cuBLAS, cuDNN, FA2, Triton, inductor and hand-written kernels.

    python tests/perf/h200.py [--rows gemm,attention-D128] [--reference FOLDER] [--json FILE] [--minutes 9]

Each case is checked first: fresh random inputs, poisoned outputs, float32 arithmetic. Then the configurations
of ours are timed roughly, and the fastest races its peers: interleaved there and back, 15 rounds, medians,
and intervals of the ratios (above 1: ours is faster). A row passes when the geometric mean over its shapes
reaches its bar (tests/perf/rows.py). `--rows list` names the rows, `attention` stands for all that begin so;
`--rows check` runs the small kernels of tests/kernels on this GPU.

All candidates are compiled first, in parallel. Everything that touches the GPU runs in a child process under
a watchdog; one that hangs or crashes is started again without the configuration that did it. FILE is merged:
rows of earlier calls stay.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.perf.cases import REFERENCE, TILELANG_EXAMPLES, Bar, Case  # noqa: E402
from tests.perf.racing import geometric_mean  # noqa: E402
from tests.perf.rows import BARS, cases  # noqa: E402

TARGET = "cuda:sm_90a"
SPECIAL = ("check", "launch", "compile")
"""Rows that the worker makes in one go."""


# ------------------------------------------------------------------ compiling, in parallel


def compile_one(at: tuple[str, int, int]) -> tuple[tuple[str, int, int], dict[str, Any]]:
    """Build one candidate into the store; what the compiler said of it."""
    from tilebench import compile as tb_compile
    from tilebench.errors import TileError

    row, k, c = at
    candidate = cases()[row][k].candidates[c]
    start = time.perf_counter()
    kernels: list[dict[str, Any]] = []
    try:
        for make in candidate.programs:
            built = tb_compile(make(), target=TARGET, pass_configs=dict(candidate.configs)).executable.built
            kernels.append(
                {
                    "registers": built.registers,
                    "spill": built.spill_bytes,
                    "shared": built.shared_bytes,
                    "warnings": list(built.warnings),
                }
            )
    except TileError as error:
        return at, {"error": f"{error.code}: {error.what}"}
    except Exception as error:  # a row that fails is reported and does not stop the others
        return at, {"error": f"{type(error).__name__}: {error}"}
    return at, {"kernels": kernels, "seconds": time.perf_counter() - start}


def compile_all(
    wanted: Mapping[str, Sequence[Case]], seconds: float = 200
) -> dict[tuple[str, int, int], dict[str, Any]]:
    """Every candidate of the rows, several at a time, for so long."""
    jobs = [
        (row, k, c)
        for row, rest in wanted.items()
        for k, case in enumerate(rest)
        for c in range(len(case.candidates))
    ]
    if not jobs:
        return {}
    start = time.perf_counter()
    found: dict[tuple[str, int, int], dict[str, Any]] = {}
    pool = ProcessPoolExecutor(max(1, min(len(jobs), (os.cpu_count() or 2) - 1)))
    try:
        for done in as_completed([pool.submit(compile_one, job) for job in jobs], timeout=seconds):
            at, said = done.result()
            found[at] = said
    except (TimeoutError, BrokenProcessPool) as error:
        print(f"compiling ahead stopped: {type(error).__name__}", flush=True)
        for process in list((pool._processes or {}).values()):
            process.kill()
    pool.shutdown(wait=False, cancel_futures=True)
    print(f"compiled {len(found)} configurations in {time.perf_counter() - start:.0f} s", flush=True)
    for (row, k, c), said in found.items():
        name = f"{row} {wanted[row][k].label} [{wanted[row][k].candidates[c].label}]"
        if "error" in said:
            print(f"  not compiled: {name}: {said['error'][:160]}", flush=True)
            continue
        for kernel in said["kernels"]:
            if kernel["spill"] or kernel["warnings"]:
                print(f"  {name}: spills {kernel['spill']} bytes, {kernel['warnings']}", flush=True)
    return found


# ------------------------------------------------------------------ the worker


def step(seconds: float, what: str) -> None:
    """Tell the watchdog what comes and how long it may take."""
    print(f"@step {seconds:.0f} {what}", flush=True)


def relative_error(got: Any, want: Any) -> float:
    """|got - want| / |want| in float32, infinite when anything is not finite."""
    a, b = got.float(), want.float()
    if not bool(a.isfinite().all()):
        return float("inf")
    return float((a - b).norm() / b.norm())


def run_case(case: Case, folder: Path | None, skip: frozenset[str]) -> dict[str, Any]:
    """Check and race one case."""
    import torch

    from tests.perf import racing
    from tests.perf.cases import NotHere
    from tilebench import compile as tb_compile
    from tilebench.errors import TileError

    step(60, "inputs and float32 result")
    torch.manual_seed(time.time_ns() % 2**31)
    setup = case.prepare(folder)
    want = list(setup.want())
    torch.cuda.synchronize()
    found: dict[str, Any] = {"label": case.label, "unit": case.unit, "work": case.work}
    tried: dict[str, str] = {}
    right: dict[str, Any] = {}
    built: dict[str, Any] = {}
    errors: dict[str, float] = {}
    for candidate in case.candidates:
        if candidate.label in skip:
            tried[candidate.label] = "hung or crashed"
            continue
        step(45, candidate.label)
        try:
            kernels = [
                tb_compile(make(), target=TARGET, pass_configs=dict(candidate.configs))
                for make in candidate.programs
            ]
            run = setup.bind(kernels, candidate)
        except TileError as error:
            tried[candidate.label] = f"{error.code}: {error.what}"
            continue
        for output in setup.outputs:
            output.fill_(float("nan") if setup.poison and output.is_floating_point() else 0)
        try:
            run()
        except TileError as error:
            torch.cuda.synchronize()  # ends this process when the context is lost
            tried[candidate.label] = f"{error.code}: {error.what}"
            continue
        torch.cuda.synchronize()
        error = max(relative_error(o, w) for o, w in zip(setup.outputs, want, strict=True))
        if not error <= case.bound:
            tried[candidate.label] = f"wrong: relative error {error:.1e}, bound {case.bound:.0e}"
            continue
        right[candidate.label], errors[candidate.label] = run, error
        built[candidate.label] = [k.executable.built for k in kernels]
    found["tried"] = tried
    if not right:
        return {**found, "ok": False, "why": "; ".join(f"{k}: {v}" for k, v in tried.items())}
    step(30, "choosing")
    rough = racing.quick(right)
    best = min(rough, key=lambda name: rough[name])
    runs: dict[str, Any] = {"ours": right[best]}
    absent: dict[str, str] = {}
    references: dict[str, Any] = {}
    for name, make in setup.peers.items():
        if name in skip:
            absent[name] = "hung or crashed"
            continue
        step(120, name)
        try:
            run = make()
            got = run()
            torch.cuda.synchronize()
        except (NotHere, RuntimeError, TypeError, AttributeError) as error:
            absent[name] = str(error).splitlines()[0][:160]
            continue
        if isinstance(got, torch.Tensor) and got.numel() == want[0].numel():
            error = relative_error(got.reshape(want[0].shape), want[0])
            if not error <= case.bound:
                absent[name] = f"wrong: relative error {error:.1e}"
                continue
        if name.startswith(REFERENCE):
            references[name] = run
        else:
            runs[name] = run
    del want
    if references:
        step(30, "choosing among the reference kernels")
        rough_references = racing.quick(references)
        found["reference_config"] = min(rough_references, key=lambda name: rough_references[name])
        runs[REFERENCE] = references[found["reference_config"]]
    step(90, "race")
    times = racing.race(runs)
    medians = {name: racing.interval(t) for name, t in times.items()}
    return {
        **found,
        "ok": True,
        "config": best,
        "rough_ms": rough,
        "error": errors[best],
        "registers": [b.registers for b in built[best]],
        "spill": [b.spill_bytes for b in built[best]],
        "warnings": [w for b in built[best] for w in b.warnings],
        "ms": {name: list(m) for name, m in medians.items()},
        "ratio": {
            **{name: list(r) for name, r in racing.ratios(times, "ours").items()},
            **{name: [ms / medians["ours"][0]] * 3 for name, ms in case.given.items()},
        },
        "rounds": racing.ROUNDS,
        "absent": absent,
    }


def work(options: argparse.Namespace) -> int:
    """The child: the cases named on its input, each answered by a line of JSON."""
    jobs = json.loads(sys.stdin.readline())
    step(90, "start")
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.zeros(1, device="cuda")
    print(
        "@device " + json.dumps([torch.cuda.get_device_name(), torch.__version__, torch.version.cuda]),
        flush=True,
    )
    rows = cases()
    for row, k, skip in jobs:
        print("@begin " + json.dumps([row, k]), flush=True)
        if row in SPECIAL:
            from tests.perf import extra_rows

            found = getattr(extra_rows, f"{row}_row")(step)
        else:
            found = run_case(rows[row][k], options.reference, frozenset(skip))
        print("@case " + json.dumps([row, k, found]), flush=True)
        torch.cuda.empty_cache()
    return 0


# ------------------------------------------------------------------ the watchdog


@dataclass
class Watch:
    """What the parent knows: results so far, configurations to leave out, clocks and power by time."""

    deadline: float
    keep: Callable[[], Any] = lambda: None
    results: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    skip: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    device: list[str] = field(default_factory=list)
    sensors: list[tuple[float, float, float]] = field(default_factory=list)


def lines_of(child: subprocess.Popen[str]) -> Iterator[str | None]:
    """Lines of the child's output; None each quarter of a second without one."""
    lines: queue.Queue[str | None] = queue.Queue()
    assert child.stdout is not None

    def pump() -> None:
        for line in child.stdout or ():
            lines.put(line.rstrip("\n"))
        lines.put(None)

    thread = threading.Thread(target=pump, daemon=True)
    thread.start()
    while thread.is_alive() or not lines.empty():
        try:
            line = lines.get(timeout=0.25)
        except queue.Empty:
            yield None
            continue
        if line is not None:
            yield line


def supervise(
    jobs: list[tuple[str, int]], options: argparse.Namespace, watch: Watch
) -> list[tuple[str, int]]:
    """One child over these jobs; the jobs that are still to do when it ended."""
    command = [sys.executable, "-u", str(Path(__file__).resolve()), "--worker"]
    if options.tilelang:
        os.environ[TILELANG_EXAMPLES] = str(options.tilelang.resolve())
    if options.reference:
        command += ["--reference", str(options.reference)]
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT,
        env={**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1"},
    )  # fmt: skip
    assert child.stdin is not None
    child.stdin.write(json.dumps([[row, k, watch.skip.get((row, k), [])] for row, k in jobs]) + "\n")
    child.stdin.close()
    current: tuple[str, int] | None = None
    what, until, begun = "start", time.monotonic() + 90, time.monotonic()
    why = ""
    said: list[str] = []
    for line in lines_of(child):
        if time.monotonic() > min(until, watch.deadline):
            late = time.monotonic() > watch.deadline
            why = "the time of this call was over" if late else f"no end of '{what}'"
            child.kill()
            break
        if line is None:
            if child.poll() is not None:
                break
            continue
        if line.startswith("@step "):
            _, seconds, what = line.split(" ", 2)
            until = time.monotonic() + float(seconds)
        elif line.startswith("@device "):
            watch.device = json.loads(line[8:])
        elif line.startswith("@begin "):
            row, k = json.loads(line[7:])
            current, begun = (row, k), time.monotonic()
        elif line.startswith("@case "):
            row, k, found = json.loads(line[6:])
            seen = [s for s in watch.sensors if begun <= s[0]]
            if seen:
                found["MHz"], found["W"] = (sorted(s[j] for s in seen)[len(seen) // 2] for j in (1, 2))
            watch.results[row, k] = found
            show(row, found)
            watch.keep()
            current = None
        else:
            said.append(line)
            if options.verbose:
                print("   | " + line, flush=True)
    child.wait(10)
    left = [j for j in jobs if j not in watch.results]
    if not left:
        return []
    why = why or f"the process ended with {child.returncode} at '{what}': {' / '.join(said[-3:])[-400:]}"
    if time.monotonic() > watch.deadline:
        for j in left:
            watch.results[j] = {"ok": False, "why": "not run: the time of this call was over", "unrun": True}
        return []
    failed = current or left[0]
    print(f"  {failed[0]}: {why}", flush=True)
    known = watch.skip.setdefault(failed, [])
    if current is None or what in known or len(known) >= 4 or failed[0] in SPECIAL:
        watch.results[failed] = {"ok": False, "why": why}
        left.remove(failed)
    else:
        known.append(what)
    return left


def bus_address() -> str | None:
    """Where the first GPU that CUDA sees is: nvidia-smi numbers them all, CUDA those that are visible."""
    from tilebench.backends.cuda import driver

    if not driver.available():
        return None
    gpu = driver.gpu()
    device = gpu.check(gpu.api.cuDeviceGet(0), "open the device")
    where = gpu.check(gpu.api.cuDeviceGetPCIBusId(32, device), "find the device")
    return where.split(b"\0")[0].decode()


def sense(watch: Watch) -> subprocess.Popen[str] | None:
    """nvidia-smi twice a second into watch.sensors; None where there is none."""
    where = bus_address()
    if where is None:
        return None
    query = [
        "nvidia-smi",
        "--query-gpu=clocks.sm,power.draw",
        "--format=csv,noheader,nounits",
        "-lms",
        "500",
        "-i",
        where,
    ]
    try:
        child = subprocess.Popen(query, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except OSError:
        return None

    def pump() -> None:
        for line in child.stdout or ():
            try:
                clock, power = (float(x) for x in line.split(","))
            except ValueError:
                continue
            watch.sensors.append((time.monotonic(), clock, power))

    threading.Thread(target=pump, daemon=True).start()
    return child


# ------------------------------------------------------------------ the table


def show(row: str, found: Mapping[str, Any]) -> None:
    """Print one case."""
    if "lines" in found:
        for line in found["lines"]:
            print(f"{'ok  ' if found['ok'] else 'BAD '}{row:22s} {line}", flush=True)
        return
    head = f"{row:22s} {found.get('label', ''):34s}"
    if not found["ok"]:
        print(f"BAD {head} {found['why'][:400]}", flush=True)
        return
    rates = "  ".join(f"{name} {found['work'] / m[0]:.4g}" for name, m in found["ms"].items())
    against = "  ".join(f"{name} {r[0]:.3f} ({r[1]:.3f}-{r[2]:.3f})" for name, r in found["ratio"].items())
    print(f"ok  {head} {found['unit']}: {rates} | ratio: {against} | [{found['config']}]", flush=True)
    bad = [f"{k}: {v}" for k, v in {**found["tried"], **found["absent"]}.items()]
    for line in bad:
        print(f"       {line[:180]}", flush=True)


def ratio_to(found: Mapping[str, Any], peer: str) -> float | None:
    """The case's ratio to a peer, or to the fastest of several; None when none of them ran."""
    seen = [found["ratio"][p][0] for p in peer.split("|") if p in found.get("ratio", {})]
    return min(seen) if seen else None


def judge(row: str, found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The row's geometric means against every peer, and whether it meets its bars."""
    names = {p for f in found for p in f.get("ratio", {})}
    means = {
        p: geometric_mean([f["ratio"][p][0] for f in found if p in f.get("ratio", {})]) for p in sorted(names)
    }
    met: dict[str, Any] = {}
    for bar in BARS.get(row, ()):
        seen = [r for f in found if (r := ratio_to(f, bar.peer)) is not None]
        mean = geometric_mean(seen) if seen else None
        met[f"{bar.peer} >= {bar.ratio}"] = None if mean is None else mean >= bar.ratio
        if mean is not None:
            means[bar.peer] = mean
    right = all(f["ok"] for f in found)
    return {
        "means": means,
        "bars": met,
        "right": right,
        "pass": right and all(v is not False for v in met.values()) and (not met or any(met.values())),
    }


def summary(rows: Mapping[str, Any]) -> None:
    """Print a line for each row."""
    print("\nrow, geometric mean of the ratio to each peer, bars")
    for row, kept in rows.items():
        verdict = judge(row, list(kept["cases"].values()))
        means = "  ".join(f"{p} {m:.3f}" for p, m in verdict["means"].items())
        bars = ", ".join(
            f"{b}: {'not here' if v is None else 'yes' if v else 'NO'}" for b, v in verdict["bars"].items()
        )
        state = "pass" if verdict["pass"] else "fail" if verdict["right"] else "WRONG"
        print(f"{state:6s}{row:22s} {len(kept['cases'])} cases  {means}  | {bars}")


def merged(path: Path | None, fresh: Mapping[str, Any]) -> dict[str, Any]:
    """The file's rows with the fresh cases in their places."""
    kept: dict[str, Any] = (
        json.loads(path.read_text()) if path is not None and path.exists() else {"rows": {}}
    )
    kept.update({k: v for k, v in fresh.items() if k != "rows"})
    for row, found in fresh["rows"].items():
        into = kept["rows"].setdefault(row, {"cases": {}})
        for label, case in found["cases"].items():
            if not case.get("unrun") or label not in into["cases"]:
                into["cases"][label] = case
        into.update(judge(row, list(into["cases"].values())))
    return kept


def save(path: Path | None, rows: Mapping[str, Sequence[Case]], watch: Watch) -> dict[str, Any]:
    """The whole table with what is known now, written to the file."""
    table: dict[str, Any] = {}
    for (row, k), found in watch.results.items():
        label = rows[row][k].label if row in rows else row
        table.setdefault(row, {"cases": {}})["cases"][label] = found
    device, torch, cuda = watch.device or ["", "", ""]
    whole = merged(path, {"device": device, "torch": torch, "cuda": cuda, "rows": table})
    if path:
        path.write_text(json.dumps(whole, indent=1))
    return whole


def main() -> int:
    """Run the chosen rows; 1 when a result is wrong or missing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", default="", help="names, or their beginnings, with commas between")
    parser.add_argument("--tilelang", type=Path, help="TileLang's folder of examples, for its figures")
    parser.add_argument("--reference", type=Path, help="folder with gemm_sm90.cu, fa_sm90.cu, run_sm90.py")
    parser.add_argument("--json", type=Path, help="merged into this file")
    parser.add_argument("--minutes", type=float, default=8.7, help="the call ends by then")
    parser.add_argument("--verbose", action="store_true", help="show all that the kernels' process prints")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options)
    rows = cases()
    if options.rows == "list":
        print("\n".join([*(f"{name}: {len(found)} cases" for name, found in rows.items()), *SPECIAL]))
        return 0
    asked = [n for n in options.rows.split(",") if n]
    every = (*rows, *SPECIAL)
    meant = {a: [a] if a in every else [n for n in every if n.startswith(f"{a}-")] for a in asked}
    names = [n for n in every if not asked or any(n in found for found in meant.values())]
    unknown = [a for a, found in meant.items() if not found]
    if unknown:
        parser.error(f"no row is called {', '.join(unknown)}; --rows list names them")
    watch = Watch(time.monotonic() + options.minutes * 60 - 10)
    wanted = {n: rows[n] for n in names if n in rows}
    compile_all(wanted)
    sensors = sense(watch)
    watch.keep = lambda: save(options.json, rows, watch)
    jobs = [(n, k) for n in names for k in range(len(rows.get(n, [None])))]
    while jobs:
        jobs = supervise(jobs, options, watch)
    if sensors is not None:
        sensors.kill()
    whole = save(options.json, rows, watch)
    print(*watch.device)
    summary({r: whole["rows"][r] for r in names})
    return 0 if all(f["ok"] for f in watch.results.values()) else 1


__all__ = ["Bar", "judge", "main", "merged"]

if __name__ == "__main__":
    sys.exit(main())
