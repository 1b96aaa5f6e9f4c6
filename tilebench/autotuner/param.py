"""What an AutoTuner is told about compiling and measuring, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tilebench.kernel.compiled import Kernel
from tilebench.kernel.profiler import TensorSupplyType


@dataclass(frozen=True)
class CompileArgs:
    """Options of `tilebench.compile`."""

    out_idx: Any = None
    execution_backend: str = "auto"
    target: Any = "auto"
    target_host: Any = None
    verbose: bool = False
    pass_configs: Mapping[Any, Any] | None = None


@dataclass(frozen=True)
class ProfileArgs:
    """How candidates are measured (warmup and rep in ms) and compared with a reference."""

    warmup: float = 25
    rep: float = 100
    timeout: float = 30
    backend: str = "event"
    supply_type: TensorSupplyType = TensorSupplyType.Auto
    ref_prog: Callable[..., Any] | None = None
    supply_prog: Callable[..., Any] | None = None
    rtol: float = 1e-2
    atol: float = 1e-2
    max_mismatched_ratio: float = 0.01
    skip_check: bool = False
    manual_check_prog: Callable[..., Any] | None = None
    cache_input_tensors: bool = False


@dataclass(frozen=True)
class AutotuneResult:
    """The best candidate: milliseconds of a call, its values, the Kernel; the reference's milliseconds."""

    latency: float | None
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    ref_latency: float | None = None
    libcode: str | None = None
    func: Any = None
    kernel: Kernel | None = None
