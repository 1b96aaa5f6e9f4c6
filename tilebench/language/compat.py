"""What becomes of a name of TileLang's here: supported, translated, accepted, refused or unknown, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Literal

from tilebench.errors import nearest
from tilebench.ir.dtype import DType

Status = Literal["supported", "translated", "accepted", "refused", "unknown"]


@dataclass(frozen=True)
class Verdict:
    """status of a name, why, and what to write instead where it is refused."""

    name: str
    status: Status
    why: str
    fix: str = ""

    def __str__(self) -> str:
        text = f"{self.name}: {self.status}: {self.why}"
        return f"{text}; instead: {self.fix}" if self.fix else text


_TRANSLATED = {
    "alloc_reducer": "a fragment; T.Parallel loops that fold into it fill a fragment of terms, then T.reduce",
    "finalize_reducer": "the folds are finished where they stand; copies to dst",
    "reducer_init": "T.fill with the value that folding leaves as it is",
    "reducer_update": "a fold into one element",
    "tvm_thread_allreduce": "an exchange through shared memory over an axis of the threads",
    "comm_reducer": "how T.tvm_thread_allreduce folds",
    "attr": "the scope of T.comm_reducer; other attributes change no value",
    "alloc_buffer": "T.alloc_shared, T.alloc_fragment or T.alloc_local, by its scope",
    "inline": "the same as T.macro",
    "symbolic": "T.dynamic",
    "Buffer": "T.Tensor",
    "WarpSpecialize": "T.ws",
    "atomic_addx2": "additions of the elements",
    "atomic_addx4": "additions of the elements",
    "ieee_add": "arithmetic to nearest, moved to its neighbour for the other roundings; all ieee_* are",
}
_ACCEPTED = {
    "annotate_l2_hit_ratio": "a hint that changes no value",
    "func_attr": "attributes of a function change no value",
    "annotate_restrict_buffers": "tensors never overlap here",
    "disable_warp_group_reg_alloc": "a hint that changes no value",
    "no_set_max_nreg": "a hint that changes no value",
    "assume": "a promise that changes no value",
    "evaluate": "a call for its effect, as a statement",
}
_ONCE = "one that names no thread is done once by the block, where every thread of TileLang's does it"
_DIFFERENT: dict[str, str] = {
    "atomic_add": _ONCE, "atomic_max": _ONCE, "atomic_min": _ONCE, "atomic_or": _ONCE,
    "atomic_addx2": _ONCE, "atomic_addx4": _ONCE,
}  # fmt: skip
"""Where the same program gives another result."""


_MOVED = {
    "jit.jit": "jit",
    "jit.compile": "compile",
    "jit.par_compile": "par_compile",
    "jit.JITKernel": "JITKernel",
    "jit.Kernel": "JITKernel",
    "dtypes": "language.dtypes",
    "jit.kernel": "JITKernel",
    "cuda.language": "language",
    "language.common": "language",
    "autotuner.capture": "autotuner",
    "layout.fragment": "layout",
    "layout.gemm_sp": "layout",
    "layout.layout": "layout",
    "layout.swizzle": "layout",
    "layout.swizzle_mode": "layout",
    "profiler.bench": "profiler",
    "Layout": "layout.Layout",
    "Fragment": "layout.Fragment",
}
"""Names of TileLang's modules that are elsewhere here (`tilebench.jit` is the decorator itself)."""


def compat(name: str) -> Verdict:
    """The verdict on a name: `T.copy`, `tilelang.autotune`, `PassConfigKey.TL_ENABLE_FAST_MATH`, or bare."""
    plain = re.sub(r"^(T|tl|tilelang|tilebench|language|PassConfigKey)\.", "", name.strip())
    plain = re.sub(r"^(language|PassConfigKey)\.", "", plain)
    key = _key(name.strip(), plain)
    if key is not None:
        return _pass_config(name, key)
    import tilebench.language as language
    from tilebench.language.dtypes import NAMED
    from tilebench.language.names import refusal

    top_level = name.strip().startswith(("tilelang.", "tilebench.", "tl.")) and ".language." not in name
    if top_level:
        return _of_module(name, plain)
    if plain in _TRANSLATED:
        return Verdict(
            name, "translated", "; ".join(filter(None, (_TRANSLATED[plain], _DIFFERENT.get(plain))))
        )
    if plain in _ACCEPTED:
        return Verdict(name, "accepted", _ACCEPTED[plain])
    if plain in NAMED:
        error = NAMED[plain].refusal()
        return Verdict(name, "refused", error.why, error.fix)
    if plain in language.__all__:
        doc = (getattr(language, plain).__doc__ or "").strip().partition("\n")[0]
        known = doc or "part of the language"
        return Verdict(name, "supported", "; ".join(filter(None, (known, _DIFFERENT.get(plain)))))
    if isinstance(getattr(language, plain, None), DType):
        return Verdict(name, "accepted", "it can be named and compared; a buffer or value of it is refused")
    refused = refusal(plain)
    if refused is not None:
        return Verdict(name, "refused", *refused)
    dialect = re.match(r"(cpu|cuda|metal|rocm|webgpu)\.(language\.)?", plain)
    if dialect is not None:  # a module of a dialect, or a name of the language in it
        rest = plain[dialect.end() :]
        return replace(compat(rest), name=name) if rest in language.__all__ else _of_module(name, plain)
    if ".language." in name:  # a module of the language, or a name in one
        return _of_module(name, f"language.{plain}")
    return Verdict(name, "unknown", f"the language has no such name{nearest(plain, language.__all__)}")


def _of_module(name: str, path: str) -> Verdict:
    from tilebench.language import modules

    if path in _MOVED:
        return Verdict(name, "translated", f"tilebench.{_MOVED[path]}")
    try:
        found = modules.resolve(path)
    except AttributeError:
        refused = modules.refusal(path)
        if refused is not None:
            return Verdict(name, "refused", *refused)
        import tilebench

        close = nearest(path.split(".")[0], [n for n in dir(tilebench) if not n.startswith("_")])
        return Verdict(name, "unknown", f"tilebench has no such name{close}")
    doc = (getattr(found, "__doc__", None) or "").strip().partition("\n")[0]
    return Verdict(name, "supported", f"tilebench.{path}" + (f": {doc}" if doc else ""))


def _key(name: str, plain: str) -> str | None:
    """The member of PassConfigKey that a name or its text ("tl.enable_fast_math") means, if one."""
    if "PassConfigKey." in name or plain.startswith(("TL_", "TIR_")):
        return plain
    keys = _options().PassConfigKey
    return next((k for k, member in keys.__members__.items() if name in (k, member.value)), None)


def _pass_config(name: str, key: str) -> Verdict:
    options = _options()
    if key not in options.PassConfigKey.__members__:
        return Verdict(name, "accepted", "an unknown key: it changes nothing, and one warning says so")
    if options.PassConfigKey[key] in options.ACTING:
        return Verdict(name, "supported", "changes what is compiled")
    return Verdict(name, "accepted", "has no effect here, and one warning says so")


def _options() -> Any:
    from importlib import import_module

    return import_module("tilebench.kernel.options")  # a layer above: asked for when a user asks
