"""Random tile programs as text, right by construction: small integers, so that all targets agree bit for bit.

A program loads a tile of A, changes two fragments, a row and a column vector and shared tiles by 2 to 6
random statements, and stores both fragments. Values are clipped after each step: nothing overflows or rounds.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

WIDTHS = (1, 2, 3, 7, 8, 15, 16, 17, 32, 33, 48)
"""Extents of tiles: powers of two, their neighbours, and odd ones."""


@dataclass(frozen=True)
class Generated:
    """A program's text and the shape of its tensors: A (dtype), B and D (float32 or int32)."""

    text: str
    shape: tuple[int, int]
    dtype: str
    result: str


def generate(seed: int) -> Generated:
    """The program of a seed."""
    r = random.Random(seed)
    M, N = r.choice(WIDTHS), r.choice(WIDTHS)
    rows, columns = r.choice([M, 2 * M - 1, 2 * M, M + 1]), r.choice([N, 2 * N - 1, N + 3])
    dtype = r.choice(["float32", "float16", "bfloat16", "int32", "int8"])
    result = "int32" if dtype.startswith("int") else "float32"
    lines = [
        f"X = T.alloc_fragment(({M}, {N}), '{result}')",
        f"Y = T.alloc_fragment(({M}, {N}), '{result}')",
        f"row = T.alloc_fragment(({M},), '{result}')",
        f"column = T.alloc_fragment(({N},), '{result}')",
        f"S = T.alloc_shared(({M}, {N}), '{dtype}')",
        f"W = T.alloc_shared(({M}, {N}), '{result}')",
        f"T.copy(A[by * {M}, bx * {N}], S)",
        "T.copy(S, X)",
        "T.copy(S, W)",
        "T.fill(Y, 1)",
        "T.fill(row, 2)",
        "T.fill(column, -1)",
    ]
    for _ in range(r.randint(2, 6)):
        lines += _statement(r, M, N, rows, result, 0)
    lines += [f"T.copy(X, B[by * {M}, bx * {N}])", f"T.copy(Y, D[by * {M}, bx * {N}])"]
    shape = f"({rows}, {columns})"
    grid = f"{-(-columns // N)}, {-(-rows // M)}"
    head = (
        "@T.prim_func\n"
        f"def k{seed}(A: T.Tensor({shape}, '{dtype}'), B: T.Tensor({shape}, '{result}'), "
        f"D: T.Tensor({shape}, '{result}')):\n"
        f"    with T.Kernel({grid}, threads={r.choice([32, 33, 64, 96, 128, 160, 256])}) as (bx, by):\n"
    )
    body = "".join(f"        {line}\n" for line in lines)
    return Generated(head + body, (rows, columns), dtype, result)


def _clipped(value: str, result: str) -> str:
    return f"T.max(T.min({value}, T.cast(9, '{result}')), T.cast(-9, '{result}'))"


def _value(r: random.Random, atoms: list[str], depth: int = 2) -> str:
    if depth == 0 or r.random() < 0.3:
        return r.choice(atoms)
    form = r.choice(
        [
            "({a} + {b})",
            "({a} - {b})",
            "T.max({a}, {b})",
            "T.if_then_else({a} > {b}, {a}, {b} - 1)",
            "T.abs({a})",
        ]
    )
    return form.format(a=_value(r, atoms, depth - 1), b=_value(r, atoms, depth - 1))


def _nest(M: int, N: int, target: str, value: str, result: str) -> list[str]:
    return [f"for i, j in T.Parallel({M}, {N}):", f"    {target}[i, j] = {_clipped(value, result)}"]


def _statement(r: random.Random, M: int, N: int, rows: int, result: str, depth: int) -> list[str]:
    one, other = r.sample(["X", "Y"], 2)
    i, j = f"T.cast(i, '{result}')", f"T.cast(j - i, '{result}')"
    match r.randrange(11):
        case 0 | 1:
            shifted = r.choice([f"{other}[{M - 1} - i, j]", f"{other}[i, (j + 1) % {N}]", f"{other}[i, 0]"])
            atoms = [f"{one}[i, j]", shifted, "row[i]", "column[j]", i, j]
            return _nest(M, N, one, _value(r, atoms), result)
        case 2:
            dim = r.choice([0, 1])
            vector, extent, index = ("row", M, "i") if dim else ("column", N, "j")
            kind = r.choice(["sum", "max", "min", "absmax"])
            return [
                f"T.reduce_{kind}({r.choice([one, 'W'])}, {vector}, dim={dim}, clear={r.random() < 0.5})",
                f"for {index} in T.Parallel({extent}):",
                f"    {vector}[{index}] = {_clipped(f'{vector}[{index}]', result)}",
            ]
        case 3:
            return [f"T.copy({one}, W)", f"T.copy(W, {other})"]
        case 4:
            height = r.randint(1, M)
            a, b = r.randint(0, M - height), r.randint(0, M - height)
            return [f"T.copy(W[{a}:{a + height}, :], {one}[{b}:{b + height}, :])"]
        case 5:
            width = r.randint(1, N)
            a, b = r.randint(0, N - width), r.randint(0, N - width)
            return [f"T.copy({one}[:, {a}:{a + width}], W[:, {b}:{b + width}])"]
        case 6:
            scan = f"T.cumsum({one}, dim={r.choice([0, 1])}, reverse={r.random() < 0.5})"
            return [scan, *_nest(M, N, one, f"{one}[i, j]", result)]
        case 7 if depth < 2:
            test = r.choice(["bx == 0", "by % 2 == 1", "bx + by > 1"])
            return [f"if {test}:", *_inside(_statement(r, M, N, rows, result, depth + 1))]
        case 8 if depth == 0:
            stages, trips = r.randint(0, 4), r.randint(0, 4)
            step = max(1, rows // max(1, trips))
            return [
                f"for k in T.Pipelined({trips}, num_stages={stages}):",
                f"    T.copy(A[k * {step}, bx * {N}], S)",
                *_inside(_nest(M, N, one, f"{one}[i, j] + T.cast(S[i, j], '{result}')", result)),
            ]
        case 9:
            return [f"T.copy(S, {one})"]
        case _:
            return [
                f"for i, j in T.Parallel({M}, {N}):",
                f"    if {r.choice(['i < j', '(i + j) % 3 == 0', f'{other}[i, j] > 2'])}:",
                f"        {one}[i, j] = {_clipped(f'{other}[i, j] - row[i]', result)}",
            ]


def _inside(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
