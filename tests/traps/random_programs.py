"""Random mixtures of the themes of this folder: a program as text, its inputs, and NumPy's answer.

The generator keeps the answer itself, statement by statement, in small integers: exact on every target.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.traps.running import Array

EXTENTS = (1, 2, 3, 5, 7, 9, 12, 17, 24, 31, 33, 40)
THREADS = (32, 33, 64, 96, 128, 160)
LIMIT = 50


@dataclass(frozen=True)
class Mixture:
    """A program over A (steps, m, n), H (8,) and C (m, n), with what H and C are after it."""

    text: str
    inputs: tuple[Array, ...]
    start: tuple[Array, ...]
    want: tuple[Array, ...]


def mixture(seed: int) -> Mixture:
    """The program of a seed."""
    return _Maker(seed).made()


class _Maker:
    def __init__(self, seed: int) -> None:
        self.r = r = random.Random(seed)
        self.seed = seed
        self.m, self.n = r.choice(EXTENTS), r.choice(EXTENTS)
        self.steps = r.randint(0, 5)
        self.dtype = r.choice(["float32", "float16", "int32", "int16"])
        self.out = "int32" if self.dtype.startswith("int") else "float32"
        self.values: dict[str, Array] = {}
        self.lines: list[str] = []
        rng = np.random.default_rng(seed)
        self.a = rng.integers(-3, 4, (max(self.steps, 1), self.m, self.n)).astype(self.dtype)
        self.h = np.zeros(8, np.int32)

    def made(self) -> Mixture:
        r, m, n = self.r, self.m, self.n
        self.values = {k: np.zeros((m, n), self.out) for k in "XYSR"}
        for _ in range(r.randint(3, 6)):
            self.statement()
        text = (
            "@T.prim_func\n"
            f"def mix{self.seed}(A: T.Tensor({self.a.shape}, '{self.dtype}'), H: T.Tensor((8,), 'int32'), "
            f"C: T.Tensor(({m}, {n}), '{self.out}')):\n"
            f"    with T.Kernel(1, threads={r.choice(THREADS)}):\n"
        )
        head = [f"L = T.alloc_shared(({m}, {n}), '{self.dtype}')"]
        for name, make in (("X", "fragment"), ("Y", "fragment"), ("S", "shared"), ("R", "shared")):
            head += [f"{name} = T.alloc_{make}(({m}, {n}), '{self.out}')", f"T.clear({name})"]
        body = [*head, *self.lines, "T.copy(X, C)"]
        text += "".join(f"        {line}\n" for line in body)
        start = (np.zeros(8, np.int32), np.full((m, n), 77, self.out))
        return Mixture(text, (self.a,), start, (self.h, self.values["X"]))

    # ---------------------------------------------------------------------------------------- statements

    def statement(self) -> None:
        choices: list[Callable[[], None]] = [
            self.pipeline, self.shifted, self.part, self.reduction, self.scan, self.division, self.turned,
            self.two_extents, self.atomics,
        ]  # fmt: skip
        self.r.choice(choices)()
        self.clip()

    def say(self, *lines: str) -> None:
        self.lines += lines

    def clip(self) -> None:
        """X stays small."""
        low, high = f"T.cast({-LIMIT}, '{self.out}')", f"T.cast({LIMIT}, '{self.out}')"
        self.say(
            f"for i, j in T.Parallel({self.m}, {self.n}):",
            f"    X[i, j] = T.max(T.min(X[i, j], {high}), {low})",
        )
        self.values["X"] = np.clip(self.values["X"], -LIMIT, LIMIT)

    def pipeline(self) -> None:
        """A tile that is loaded, read at a shifted place and changed, in any number of stages."""
        r, m, n = self.r, self.m, self.n
        shift = r.randrange(n)
        stages = r.randint(0, 4)
        twice = r.random() < 0.4
        self.say(f"for k in T.Pipelined({self.steps}, num_stages={stages}):", "    T.copy(A[k, :, :], L)")
        read = f"T.cast(L[i, (j + {shift}) % {n}], '{self.out}')"
        self.say(f"    for i, j in T.Parallel({m}, {n}):", f"        X[i, j] = X[i, j] - {read}")
        if twice:
            self.say(f"    T.copy(A[{max(self.steps, 1) - 1} - k, :, :], L)")
            self.say(f"    for i, j in T.Parallel({m}, {n}):")
            self.say(f"        X[i, j] = X[i, j] + T.cast(L[{m - 1} - i, j], '{self.out}') * 2")
        for k in range(self.steps):
            self.values["X"] = self.values["X"] - np.roll(self.a[k].astype(self.out), -shift, 1)
            if twice:
                self.values["X"] = self.values["X"] + self.a[self.steps - 1 - k][::-1].astype(self.out) * 2

    def shifted(self) -> None:
        m, n, r = self.m, self.n, self.r
        d, e = r.randrange(m), r.randrange(n)
        self.say(
            "T.copy(X, Y)",
            f"for i, j in T.Parallel({m}, {n}):",
            f"    X[i, j] = Y[(i + {d}) % {m}, (j + {n - e}) % {n}] + Y[i, {e}]",
        )
        x = self.values["X"]
        self.values["Y"] = x.copy()
        self.values["X"] = np.roll(np.roll(x, -d, 0), e, 1) + x[:, e : e + 1]

    def part(self) -> None:
        """A part of X to another place of S, and all of S back."""
        m, n, r = self.m, self.n, self.r
        h, w = r.randint(1, m), r.randint(1, n)
        a, b, c, d = r.randint(0, m - h), r.randint(0, n - w), r.randint(0, m - h), r.randint(0, n - w)
        self.say(f"T.copy(X[{a}:{a + h}, {b}:{b + w}], S[{c}:{c + h}, {d}:{d + w}])", "T.copy(S, X)")
        s = self.values["S"].copy()
        s[c : c + h, d : d + w] = self.values["X"][a : a + h, b : b + w]
        self.values["S"], self.values["X"] = s, s.copy()

    def reduction(self) -> None:
        m, n, r = self.m, self.n, self.r
        dim, kind = r.choice([0, 1]), r.choice(["sum", "max", "min", "absmax"])
        low, high = sorted(r.sample(range((n if dim else m) + 1), 2))
        source = r.choice("XS")
        region = f"{source}[:, {low}:{high}]" if dim else f"{source}[{low}:{high}, :]"
        at, count = ("i", m) if dim else ("j", n)
        name = f"v{len(self.lines)}"
        self.say(
            f"{name} = T.alloc_fragment(({count},), '{self.out}')",
            f"T.fill({name}, 1)",
            f"T.reduce_{kind}({region}, {name}, dim={dim}, clear={r.random() < 0.5})",
        )
        clear = "clear=True" in self.lines[-1]
        self.say(f"for i, j in T.Parallel({m}, {n}):", f"    X[i, j] = X[i, j] - {name}[{at}]")
        piece = self.values[source][:, low:high] if dim else self.values[source][low:high]
        piece = np.abs(piece) if kind == "absmax" else piece
        folded = {"sum": np.sum, "max": np.max, "min": np.min, "absmax": np.max}[kind](piece, axis=dim)
        if not clear:
            folded = folded + 1 if kind == "sum" else (np.minimum if kind == "min" else np.maximum)(folded, 1)
        self.values["X"] = (self.values["X"] - np.expand_dims(folded, dim)).astype(self.out)

    def scan(self) -> None:
        m, n, r = self.m, self.n, self.r
        dim, reverse = r.choice([0, 1]), r.random() < 0.5
        a, b = sorted(r.sample(range(m + 1), 2))
        c, d = sorted(r.sample(range(n + 1), 2))
        self.say(
            "T.copy(X, R)", f"T.cumsum(R[{a}:{b}, {c}:{d}], dim={dim}, reverse={reverse})", "T.copy(R, X)"
        )
        x = self.values["X"].copy()
        piece = np.flip(x[a:b, c:d], dim) if reverse else x[a:b, c:d]
        total = np.cumsum(piece, dim)
        x[a:b, c:d] = np.flip(total, dim) if reverse else total
        self.values["X"], self.values["R"] = x, x.copy()

    def division(self) -> None:
        by = self.r.choice([-5, -4, -3, 2, 3, 7, 8])
        as_int = "T.cast(X[i, j], 'int32')"
        self.say(
            f"for i, j in T.Parallel({self.m}, {self.n}):",
            f"    X[i, j] = T.cast({as_int} // {by} + {as_int} % {by}, '{self.out}')",
        )
        x = self.values["X"].astype(np.int32)
        self.values["X"] = (x // by + x % by).astype(self.out)

    def turned(self) -> None:
        m, n = self.m, self.n
        name = f"t{len(self.lines)}"
        self.say(
            f"{name} = T.alloc_fragment(({n}, {m}), '{self.out}')",
            f"for j, i in T.Parallel({n}, {m}):",
            f"    {name}[j, i] = X[i, j] * 2",
            f"for i, j in T.Parallel({m}, {n}):",
            f"    X[i, j] = {name}[j, {m - 1} - i] - X[i, j]",
        )
        x = self.values["X"]
        self.values["X"] = x[::-1] * 2 - x

    def two_extents(self) -> None:
        m, n, r = self.m, self.n, self.r
        h, w = r.randint(1, m), r.randint(1, n)
        self.say(
            f"for i, j in T.Parallel({h}, {w}):",
            f"    X[i + {m - h}, j] = X[i + {m - h}, j] + i - j",
            f"for q in T.Parallel({m * n}):",
            f"    X[q // {n}, q % {n}] = X[q // {n}, q % {n}] + q % 3",
        )
        x = self.values["X"].copy()
        i, j = np.indices((h, w))
        x[m - h :, :w] += (i - j).astype(self.out)
        x += (np.arange(m * n).reshape(m, n) % 3).astype(self.out)
        self.values["X"] = x

    def atomics(self) -> None:
        stages = self.r.randint(0, 3)
        at = "T.cast(L[i, j], 'int32') % 8"
        self.say(
            f"for k in T.Pipelined({self.steps}, num_stages={stages}):",
            "    T.copy(A[k, :, :], L)",
            f"    for i, j in T.Parallel({self.m}, {self.n}):",
            f"        T.atomic_add(H[{at}], i - k)",
        )
        i = np.indices((self.m, self.n))[0]
        for k in range(self.steps):
            np.add.at(self.h, self.a[k].astype(np.int32) % 8, (i - k).astype(np.int32))
