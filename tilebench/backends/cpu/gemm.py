"""The micro-kernel of a product: a register tile of C kept over all of K, operands read where they are.

    for each panel of NR columns            (B: K x NR, stays in L1)
      for each tile of MR rows              (A: MR x K)
        C[MR, NR] in registers; for k: broadcast A[r, k], load B[k, 0..NR), multiply and add

Rows are split evenly (128 = 18 * 6 + 4 * 5), so that no tile is too short to hide the latency of the
additions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tilebench.backends.cpu.text import suffix, vector

STEP = 32
"""Most multiplications in one round of the loop over k: enough to hide its counter; more only takes longer to
compile.
"""


@dataclass(frozen=True)
class Product:
    """c[m, n] += a @ b of one element type, K being an argument that `k` divides. am, ak: strides of A along
    m and k; bk: row stride of B; lanes of a vector; tile: rows and (f32) columns of C kept in registers;
    a_depth, b_depth: the K that an operand was packed with (`panels`), 0 where it has strides.
    """

    m: int
    n: int
    k: int
    am: int
    ak: int
    bk: int
    ldc: int
    kind: str
    lanes: int
    tile: tuple[int, int]
    clear: bool
    a_depth: int = 0
    b_depth: int = 0


@dataclass(frozen=True)
class Panels:
    """`count` panels of `width` rows (or columns) each, from `first` on.

    Packed with depth D, element k of row i is at start * D + k * width + i - start, start being the first row
    of i's panel.
    """

    first: int
    width: int
    count: int


def row_tiles(m: int, most: int) -> list[tuple[int, int, int]]:
    """(first row, rows of a tile, tiles) groups of equal tiles that cover m rows."""
    count = -(-m // most)
    small, extra = divmod(m, count)
    groups = [(0, small + 1, extra)] if extra else []
    if count - extra:
        groups.append((extra * (small + 1), small, count - extra))
    return groups


def column_panels(n: int, lanes: int, most: int) -> list[tuple[int, int, int, int]]:
    """(first column, vectors of a panel, lanes, panels) groups that cover n columns."""
    groups: list[tuple[int, int, int, int]] = []
    start = 0
    for vectors in range(most, 0, -1):
        count = (n - start) // (vectors * lanes)
        if count:
            groups.append((start, vectors, lanes, count))
            start += count * vectors * lanes
    width = lanes
    while start < n:
        width //= 2
        if n - start >= width:
            groups.append((start, 1, width, 1))
            start += width
    return groups


def most_vectors(lanes: int, tile: tuple[int, int], kind: str) -> int:
    """Vectors of a full panel of B."""
    return max(tile[1] * 4 // (lanes * (8 if kind == "double" else 4)), 1)


def panels(
    operand: Literal["A", "B"], size: int, lanes: int, tile: tuple[int, int], kind: str
) -> list[Panels]:
    """The panels that the micro-kernel reads an operand of M rows (N columns) in."""
    if operand == "A":
        return [Panels(*group) for group in row_tiles(size, tile[0])]
    columns = column_panels(size, lanes, most_vectors(lanes, tile, kind))
    return [Panels(first, vectors * w, count) for first, vectors, w, count in columns]


def micro_kernel(name: str, p: Product, declares: dict[str, str]) -> str:
    """The function `name(A, B, C, K)` as LLVM IR."""
    columns = column_panels(p.n, p.lanes, most_vectors(p.lanes, p.tile, p.kind))
    out = [
        f"define internal void @{name}(ptr noalias readonly %A, ptr noalias readonly %B, ptr noalias %C, "
        f"i64 %K) #0 {{",
        "entry:",
    ]
    serial = [0]
    current = "entry"
    for first, vectors, lanes, panels in columns:
        serial[0] += 1
        column = f"j{serial[0]}"
        out += [f"  br label %{column}", f"{column}:"]
        out.append(f"  %{column}v = phi i64 [ 0, %{current} ], [ %{column}n, %{column}e ]")
        out.append(f"  %{column}o = mul i64 %{column}v, {vectors * lanes}")
        out.append(f"  %{column}p = add i64 %{column}o, {first}")
        inner = column
        for row, rows, tiles in row_tiles(p.m, p.tile[0]):
            serial[0] += 1
            r = f"i{serial[0]}"
            out += [f"  br label %{r}", f"{r}:"]
            out.append(f"  %{r}v = phi i64 [ 0, %{inner} ], [ %{r}n, %{r}e ]")
            out.append(f"  %{r}o = mul i64 %{r}v, {rows}")
            out.append(f"  %{r}p = add i64 %{r}o, {row}")
            _tile(out, p, f"{r}", f"%{r}p", f"%{column}p", rows, vectors, lanes, declares)
            out += [f"  br label %{r}e", f"{r}e:", f"  %{r}n = add i64 %{r}v, 1"]
            out.append(f"  %{r}c = icmp slt i64 %{r}n, {tiles}")
            out += [f"  br i1 %{r}c, label %{r}, label %{r}x", f"{r}x:"]
            inner = f"{r}x"
        out += [f"  br label %{column}e", f"{column}e:", f"  %{column}n = add i64 %{column}v, 1"]
        out.append(f"  %{column}c = icmp slt i64 %{column}n, {panels}")
        out += [f"  br i1 %{column}c, label %{column}, label %{column}x", f"{column}x:"]
        current = f"{column}x"
    out += ["  ret void", "}"]
    return "\n".join(out)


def _tile(
    out: list[str],
    p: Product,
    t: str,
    row: str,
    column: str,
    rows: int,
    vectors: int,
    lanes: int,
    declares: dict[str, str],
) -> None:
    """One register tile, C += A @ B over all of K."""
    kind, many = p.kind, vector(p.kind, lanes)
    size = 8 if kind == "double" else 4
    integer = kind.startswith("i")
    fma = f"llvm.fma.{suffix(kind, lanes)}"
    if not integer:
        declares[fma] = f"declare {many} @{fma}({many}, {many}, {many})"
    # Where row r of A and vector v of B start, and their strides along k.
    a_start, am, ak = (p.a_depth, 1, rows) if p.a_depth else (p.am, p.am, p.ak)
    b_start, bk = (p.b_depth, vectors * lanes) if p.b_depth else (1, p.bk)
    unroll = next(u for u in (4, 2, 1) if p.k % u == 0 and (u == 1 or u * rows * vectors <= STEP))
    out += [
        f"  %{t}am = mul i64 {row}, {a_start}",
        f"  %{t}a = getelementptr {kind}, ptr %A, i64 %{t}am",
        f"  %{t}bm = mul i64 {column}, {b_start}",
        f"  %{t}b = getelementptr {kind}, ptr %B, i64 %{t}bm",
        f"  %{t}cm = mul i64 {row}, {p.ldc}",
        f"  %{t}cn = add i64 %{t}cm, {column}",
        f"  %{t}c0 = getelementptr {kind}, ptr %C, i64 %{t}cn",
    ]
    for r in range(rows):
        for v in range(vectors):
            out.append(f"  %{t}q{r}_{v} = getelementptr {kind}, ptr %{t}c0, i64 {r * p.ldc + v * lanes}")
            if not p.clear:
                out.append(f"  %{t}s{r}_{v} = load {many}, ptr %{t}q{r}_{v}, align {size}")
    out += [f"  br label %{t}h", f"{t}h:", f"  br label %{t}k", f"{t}k:"]
    out.append(f"  %{t}kk = phi i64 [ 0, %{t}h ], [ %{t}kn, %{t}k ]")
    for r in range(rows):
        for v in range(vectors):
            first = (
                "zeroinitializer"
                if p.clear and lanes > 1
                else ("0" if integer else "0.0")
                if p.clear
                else f"%{t}s{r}_{v}"
            )
            out.append(
                f"  %{t}x{r}_{v} = phi {many} [ {first}, %{t}h ], [ %{t}y{r}_{v}_{unroll - 1}, %{t}k ]"
            )
    out += [
        f"  %{t}ao = mul i64 %{t}kk, {ak}",
        f"  %{t}ap = getelementptr {kind}, ptr %{t}a, i64 %{t}ao",
        f"  %{t}bo = mul i64 %{t}kk, {bk}",
        f"  %{t}bp = getelementptr {kind}, ptr %{t}b, i64 %{t}bo",
    ]
    for u in range(unroll):
        for v in range(vectors):
            out.append(f"  %{t}g{u}_{v} = getelementptr {kind}, ptr %{t}bp, i64 {u * bk + v * lanes}")
            out.append(f"  %{t}l{u}_{v} = load {many}, ptr %{t}g{u}_{v}, align {size}")
        for r in range(rows):
            z = f"%{t}z{u}_{r}"
            out.append(f"  {z}p = getelementptr {kind}, ptr %{t}ap, i64 {r * am + u * ak}")
            out.append(f"  {z}s = load {kind}, ptr {z}p, align {size}")
            wide = f"{z}s"
            if lanes > 1:
                out.append(f"  {z}i = insertelement {many} poison, {kind} {z}s, i64 0")
                out.append(
                    f"  {z}w = shufflevector {many} {z}i, {many} poison, <{lanes} x i32> zeroinitializer"
                )
                wide = f"{z}w"
            for v in range(vectors):
                old = f"%{t}x{r}_{v}" if u == 0 else f"%{t}y{r}_{v}_{u - 1}"
                new = f"%{t}y{r}_{v}_{u}"
                if integer:
                    out.append(f"  {new}m = mul {many} {wide}, %{t}l{u}_{v}")
                    out.append(f"  {new} = add {many} {new}m, {old}")
                else:
                    out.append(
                        f"  {new} = call {many} @{fma}({many} {wide}, {many} %{t}l{u}_{v}, {many} {old})"
                    )
    out += [
        f"  %{t}kn = add i64 %{t}kk, {unroll}",
        f"  %{t}kc = icmp slt i64 %{t}kn, %K",
        f"  br i1 %{t}kc, label %{t}k, label %{t}f",
        f"{t}f:",
    ]
    for r in range(rows):
        for v in range(vectors):
            out.append(f"  store {many} %{t}y{r}_{v}_{unroll - 1}, ptr %{t}q{r}_{v}, align {size}")
