"""What to compile for: one grammar, `auto | interp | emu[:sm_XX] | cpu | cuda[:sm_XX]`, parsed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from tilebench.targets.nvidia import ARCHES, Arch, Feature

Kind = Literal["auto", "interp", "emu", "cpu", "cuda"]
KINDS: tuple[Kind, ...] = get_args(Kind)
DEFAULT_EMULATED_ARCH = "sm_90"
MEANT: dict[str, Kind] = {
    "gpu": "cuda", "nvidia": "cuda", "ptx": "cuda", "nvptx": "cuda", "h100": "cuda", "h200": "cuda",
    "host": "cpu", "llvm": "cpu", "x86": "cpu", "native": "cpu", "numpy": "interp", "python": "interp",
    "simulator": "emu", "sim": "emu", "emulator": "emu", "default": "auto",
}  # fmt: skip
"""What other words for a target most likely stand for."""


@dataclass(frozen=True)
class Target:
    """Where a kernel runs.

    arch is set for 'emu', and for 'cuda' when it was named; a plain 'cuda' takes the arch of the device
    found. 'auto' stands for the GPU if there is one, else the CPU; whoever can see drivers resolves it.
    """

    kind: Kind
    arch: str | None = None

    def __str__(self) -> str:
        return f"{self.kind}:{self.arch}" if self.arch else self.kind

    @property
    def is_gpu(self) -> bool:
        """True when kernels are lowered for an NVIDIA architecture (run or emulated)."""
        return self.kind in ("cuda", "emu")

    @property
    def facts(self) -> Arch | None:
        """The limits of the architecture, or None when none is named."""
        return ARCHES[self.arch] if self.arch else None

    @property
    def capability(self) -> int:
        """80 for sm_80, 90 for sm_90 and sm_90a; 0 without an architecture."""
        return self.facts.capability if self.facts else 0

    def supports(self, feature: Feature) -> bool:
        """Whether code for this target may use the instruction feature; False without an architecture."""
        return self.facts is not None and feature in self.facts.features

    def with_arch(self, arch: str) -> Target:
        """The same kind for a named architecture. Raises TargetError TB501 for an unknown one."""
        return parse({"kind": self.kind, "arch": arch})


def parse(target: str | Mapping[str, object] | Target) -> Target:
    """The target that a string, a {"kind": ..., "arch": ...} mapping or a Target names.

    Raises TargetError TB501 when it is none of auto, interp, emu[:sm_XX], cpu, cuda[:sm_XX].
    """
    if isinstance(target, Target):
        return target
    if isinstance(target, Mapping):
        kind = str(target.get("kind", ""))
        arch = target.get("arch")
        unknown = sorted(str(key) for key in target if key not in ("kind", "arch"))
        if unknown:
            raise _unknown(
                str(dict(target)), f"a target mapping has the keys kind and arch, not {', '.join(unknown)}"
            )
        return _make(kind, None if arch is None else str(arch), str(dict(target)))
    if not isinstance(target, str):  # pyright: ignore[reportUnnecessaryIsInstance]  (called with user values)
        raise _unknown(repr(target), "a target is a string, a mapping or a Target")
    # TileLang writes options after the kind: "cuda -arch=sm_90".
    kind, _, rest = target.strip().partition(" ")
    kind, _, arch = kind.partition(":")
    rest = rest.strip()
    if rest.startswith("-arch=") and not arch:
        arch, rest = rest.removeprefix("-arch="), ""
    if rest or (":" in target and not arch):
        raise _unknown(repr(target), "after the kind comes at most :sm_XX")
    return _make(kind, arch or None, repr(target))


def _make(kind: str, arch: str | None, written: str) -> Target:
    known: Kind | None = next((k for k in KINDS if k == kind), None)
    if known is None:
        raise _unknown(written, _suggestion(kind, KINDS))
    if arch is None:
        return Target(known, DEFAULT_EMULATED_ARCH if known == "emu" else None)
    if known not in ("emu", "cuda"):
        raise _unknown(written, f"{kind} takes no architecture")
    name = arch if arch.startswith("sm_") else f"sm_{arch}"
    if name not in ARCHES:
        raise _unknown(written, f"known architectures are {', '.join(ARCHES)}" + _closest_arch(name))
    return Target(known, name)


def _closest_arch(name: str) -> str:
    digits = "".join(c for c in name if c.isdigit())
    if not digits:
        return ""
    below = [a for a in ARCHES if ARCHES[a].capability <= int(digits) and not a.endswith("a")]
    return f"; the nearest to {name} is {below[-1]}" if below else f"; the oldest is {next(iter(ARCHES))}"


def _suggestion(kind: str, known: tuple[str, ...]) -> str:
    from tilebench.errors import nearest

    meant = MEANT.get(kind.lower())
    guess = f"; did you mean {meant}?" if meant else nearest(kind, known)
    return f"the kinds are {', '.join(known)}" + guess


def _unknown(written: str, why: str) -> Exception:
    from tilebench.errors import TargetError

    return TargetError(
        "TB501",
        f"unknown target {written}",
        why=why,
        fix="use one of auto, interp, emu, emu:sm_XX, cpu, cuda, cuda:sm_XX, with XX one of "
        + ", ".join(a.removeprefix("sm_") for a in ARCHES),
    )
