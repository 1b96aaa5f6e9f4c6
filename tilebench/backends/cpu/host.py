"""The machine that kernels are compiled for, and LLVM's way from IR text to object code."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

from tilebench.targets.cpu import CpuFacts, VectorIsa


@dataclass(frozen=True)
class Host:
    """The CPU at hand: LLVM's name for it, its feature string, and what code generation asks about."""

    name: str
    features: str
    facts: CpuFacts

    @property
    def lanes(self) -> int:
        """f32 values in one vector register."""
        return max(self.facts.f32_lanes, 1)


@cache
def host() -> Host:
    """This machine, from LLVM's feature detection."""
    import llvmlite.binding as llvm

    name, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features()
    triple = llvm.get_default_triple()
    isa: VectorIsa = "scalar"
    if features.get("avx512f") and features.get("avx512vl") and features.get("avx512bw"):
        isa = "avx512"
    elif features.get("avx2") and features.get("fma"):
        isa = "avx2"
    elif features.get("sse4.1"):
        isa = "sse4"
    elif triple.startswith(("aarch64", "arm64")):
        isa = "neon"
    wide = ",-prefer-256-bit" if isa == "avx512" else ""
    facts = CpuFacts(name, isa, os.cpu_count() or 1, has_f16=bool(features.get("f16c")))
    return Host(name, features.flatten() + wide, facts)


@cache
def machine() -> Any:
    """LLVM's target machine for this host."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    here = host()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=here.name, features=here.features, opt=2, jit=True)


def optimise(module: Any) -> None:
    """Scratch variables to registers, common subexpressions, short branches. The whole of -O2 takes six times
    as long and gives code no faster, since vectors, unrolling and register tiles are explicit in the text.
    """
    import llvmlite.binding as llvm

    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.add_new_gvn_pass()
    passes.add_loop_rotate_pass()
    passes.add_simplify_cfg_pass()
    passes.run(
        module, llvm.create_pass_builder(machine(), llvm.create_pipeline_tuning_options(speed_level=1))
    )


def compile_text(text: str) -> tuple[bytes, dict[str, float]]:
    """Object code of an LLVM module, and the milliseconds of each step. Vector code is explicit in the text,
    so the vectorising passes stay off.
    """
    import llvmlite.binding as llvm

    times: dict[str, float] = {}
    start = time.perf_counter()

    def lap(name: str) -> None:
        nonlocal start
        now = time.perf_counter()
        times[name] = (now - start) * 1e3
        start = now

    target = machine()
    module = llvm.parse_assembly(text)
    module.verify()
    lap("parse")
    optimise(module)
    lap("optimise")
    code = target.emit_object(module)
    lap("code")
    return code, times


def assembly(text: str) -> str:
    """The machine code of an LLVM module as text."""
    import llvmlite.binding as llvm

    target = machine()
    module = llvm.parse_assembly(text)
    optimise(module)
    return str(target.emit_assembly(module))


class Loaded:
    """Object code in memory; holds it as long as its functions may be called."""

    def __init__(self, code: bytes) -> None:
        import llvmlite.binding as llvm

        machine()
        empty = llvm.parse_assembly("")
        # An engine takes its target machine over, so it gets one of its own.
        here = host()
        own = llvm.Target.from_default_triple().create_target_machine(
            cpu=here.name, features=here.features, opt=2, jit=True
        )
        self._engine = llvm.create_mcjit_compiler(empty, own)
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()

    def address(self, name: str) -> int:
        """The address of a function."""
        found = int(self._engine.get_function_address(name))
        assert found, f"{name} is not in the object code"
        return found
