"""One candidate compiled, in whichever process: a request and an answer as JSON text.

`build` is what an executor is given. Its argument and its result are strings, so any executor that reaches a
Python with tilebench will do: processes, threads, Dask, ipyparallel.
"""

from __future__ import annotations

import base64
import functools
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

from tilebench import compiler, config
from tilebench.errors import TileError
from tilebench.ir.dtype import as_dtype
from tilebench.kernel.compiled import Kernel
from tilebench.kernel.decorator import with_options
from tilebench.language.parse import parse_eager, parse_prim_func
from tilebench.language.tensors import TensorSpec
from tilebench.passes.stages import Lowered
from tilebench.targets import parse
from tilebench.tuning.cost import cost
from tilebench.tuning.portable import Data, decode, restore
from tilebench.tuning.space import PASS_CONFIGS

LONGEST_REASON = 300


class Binary(NamedTuple):
    """CUDA text and the user's flags, and what NVRTC made of them, for the store of another process."""

    text: str
    flags: tuple[str, ...]
    ptx: str
    cubin: bytes
    log: str

    def portable(self) -> list[Any]:
        """As JSON has it."""
        return [self.text, self.flags, self.ptx, base64.b64encode(self.cubin).decode(), self.log]


@dataclass(frozen=True)
class Compiled:
    """What is known of a candidate after its compile. reason: why there is none; milliseconds: the compile's.

    binary: where it was made by this compile.
    """

    reason: str = ""
    order: float = float("inf")
    predicted_us: float | None = None
    registers: int | None = None
    spill_bytes: int | None = None
    milliseconds: float = 0.0
    binary: Binary | None = None


def reason_of(error: BaseException) -> str:
    """An error in a line: what, then why."""
    if isinstance(error, TileError):
        why = error.why.splitlines()[0] if error.why else ""
        return f"[{error.code}] {error.what}{f': {why}' if why else ''}"[:LONGEST_REASON]
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}"[:LONGEST_REASON] if lines else type(error).__name__


def build(text: str) -> str:
    """Compile the candidate of a request. One that cannot be compiled is an answer with its reason."""
    request = json.loads(text)
    start = time.perf_counter()
    try:
        with config.using(**settings(request)):
            kernel, binary = compiled(request)
            answer = facts(kernel, request, (time.perf_counter() - start) * 1e3)
    except Exception as error:  # the factory is the user's: whatever it raises is the candidate's reason
        return json.dumps({"reason": reason_of(error)})
    if binary is not None:
        answer["binary"] = binary.portable()
    return json.dumps(answer)


def facts(kernel: Kernel, request: Mapping[str, Any], milliseconds: float) -> Data:
    """The answer for a compiled kernel, without its binary."""
    known = cost(kernel, request.get("extents"), request.get("device", ""))
    built = kernel.executable.built
    return {
        "order": known.order, "predicted_us": known.predicted_us, "registers": built.registers,
        "spill_bytes": built.spill_bytes, "milliseconds": milliseconds,
    }  # fmt: skip


def read_answer(text: str) -> Compiled:
    """The Compiled that `build` wrote."""
    data: Data = json.loads(text)
    binary = data.pop("binary", None)
    if binary is not None:
        text, flags, ptx, cubin, log = binary
        binary = Binary(text, tuple(flags), ptx, base64.b64decode(cubin), log)
    return Compiled(**data, binary=binary)


def settings(request: Mapping[str, Any]) -> Data:
    """The fields of the configuration that the request carries."""
    carried = dict(request.get("config", {}))
    if "cache_dir" in carried:
        carried["cache_dir"] = Path(carried["cache_dir"]) if carried["cache_dir"] else None
    return carried


@functools.lru_cache(maxsize=4)
def _program(text: str) -> Any:
    return restore(json.loads(text))


def compiled(request: Mapping[str, Any]) -> tuple[Kernel, Binary | None]:
    """The kernel of a request, and what NVRTC made if it ran for it.

    Raises what the factory raises, and TileError.
    """
    prim = _parsed(request)
    target = parse(request["target"])
    stages = compiler.analyse(prim, target, as_asked=True)
    binary = _with_nvrtc(stages) if target.kind == "cuda" else None
    kernel = Kernel(
        prim, target, config=decode(request["chosen"]), compilation=compiler.with_executable(stages)
    )
    return kernel, binary


def _parsed(request: Mapping[str, Any]) -> Any:
    function = _program(json.dumps(request["program"]))
    chosen: dict[str, Any] = decode(request["chosen"])
    own = chosen.pop(PASS_CONFIGS, None)
    named: dict[str, Any] = {**decode(request["named"]), **chosen}
    options: dict[str, Any] = decode(request["options"])
    pass_configs: dict[Any, Any] = {**(options.get("pass_configs") or {}), **(own or {})}
    if request["lazy"]:
        prim = parse_prim_func(function(*decode(request["values"]), **named))
    else:
        tensors = {
            name: TensorSpec(tuple(t["shape"]), tuple(t["strides"]), as_dtype(t["dtype"]))
            for name, t in cast("Data", request["tensors"]).items()
        }
        consts: dict[str, Any] = decode(request["consts"])
        prim = parse_eager(function, {**named, **tensors}, consts=consts or None)
    return with_options(prim, options.get("out_idx"), pass_configs, options.get("compile_flags"))


def _with_nvrtc(stages: compiler.Compilation) -> Binary | None:
    """Compile the CUDA text unless the store has it; what was made goes into this process's store."""
    from tilebench.backends.cuda import nvrtc
    from tilebench.backends.cuda.build import is_kept, keep, passed
    from tilebench.backends.cuda.emit import compiled_text, emit
    from tilebench.store import current_store

    if not nvrtc.available():
        return None
    program = stages.stage(Lowered).program
    text, arch, flags = compiled_text(emit(program)), stages.target.arch or program.arch, passed(program)
    store = current_store()
    if is_kept(store, text, arch, flags):
        return None
    made = nvrtc.compile_text(text, arch, flags=flags)
    keep(store, text, arch, made.ptx, made.cubin, made.log, flags)
    return Binary(text, flags, made.ptx, made.cubin, made.log)


def keep_binary(made: Compiled, arch: str) -> None:
    """Put what another process compiled into this process's store."""
    if made.binary is None:
        return
    from tilebench.backends.cuda.build import is_kept, keep
    from tilebench.store import current_store

    text, flags, ptx, cubin, log = made.binary
    if not is_kept(current_store(), text, arch, flags):
        keep(current_store(), text, arch, ptx, cubin, log, flags)
