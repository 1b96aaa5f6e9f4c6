"""Random tile programs for warpgroup products and a producer: small integers, so that interp and the emulated
GPU agree bit for bit.

A program is one to three parts. Each brings tiles in a pipelined loop, multiplies them in one of several
ways, works on the results by elements and sends them out; parts stand alone, in a serial loop, or under a
condition, and may share tiles.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

FLAGS = (
    {},
    {"TB_PERSISTENT": True},
    {"TB_PERSISTENT": True, "TB_LONGEST_FIRST": True},
    {"TB_LONGEST_FIRST": True},
    {"TB_DISABLE_PRODUCT_OVERLAP": True},
    {"TB_PIN_PRODUCT_WAIT": True},
    {"TB_DISABLE_RESULT_STAGING": True},
)


@dataclass(frozen=True)
class Tensor:
    """A parameter: inputs hold integers from low to high, outputs start as zeros."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    low: int = 0
    high: int = 0
    output: bool = False


@dataclass(frozen=True)
class Generated:
    """A program's text, its tensors in order, and its pass configs."""

    text: str
    tensors: tuple[Tensor, ...]
    configs: dict[str, bool]


def generate(seed: int) -> Generated:
    """The program of a seed."""
    return _Writer(seed).write()


def _inside(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


class _Writer:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.r = r = random.Random(seed)
        self.threads = r.choice([128, 128, 128, 256, 256, 384])
        rows = {128: [64, 64, 64, 128], 256: [64, 128, 128, 256], 384: [64, 192]}[self.threads]
        self.M = r.choice(rows)
        self.dtype = r.choice(["float16", "float16", "bfloat16", "int8", "float8_e4m3"])
        self.bits = 8 if self.dtype in ("int8", "float8_e4m3") else 16
        self.acc = "int32" if self.dtype == "int8" else "float32"
        if self.dtype == "float16" and r.random() < 0.15:
            self.acc = "float16"
        self.grid = r.choice([(1,), (2,), (3, 1), (2, 2), (3, 2)])
        self.names = ("bx", "by")[: len(self.grid)]
        self.tensors: list[Tensor] = []
        self.allocations: list[str] = []
        self.count = 0
        self.shared: dict[tuple[tuple[int, ...], str], list[str]] = {}
        self.budget = 200 * 1024

    # -- names

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def tensor(self, stem: str, shape: tuple[int, ...], dtype: str, output: bool = False) -> str:
        name = self.fresh(stem)
        self.tensors.append(Tensor(name, shape, dtype, -1, 1, output))
        return name

    def tile(self, stem: str, shape: tuple[int, ...], dtype: str, stages: int = 1) -> str:
        """A shared tile, perhaps one that another part uses too."""
        known = self.shared.setdefault((shape, dtype), [])
        if known and self.r.random() < 0.4:
            return known.pop()
        size = shape[0] * shape[1] * {"int8": 1, "float8_e4m3": 1, "float16": 2, "bfloat16": 2}.get(dtype, 4)
        self.budget -= size * stages
        name = self.fresh(stem)
        self.allocations.append(f"{name} = T.alloc_shared({shape}, '{dtype}')")
        self.spare.append(((shape, dtype), name))
        return name

    def fragment(self, stem: str, shape: tuple[int, ...], dtype: str) -> str:
        name = self.fresh(stem)
        self.allocations.append(f"{name} = T.alloc_fragment({shape}, '{dtype}')")
        return name

    # -- pieces

    def clipped(self, value: str, dtype: str, limit: int = 9) -> str:
        return f"T.max(T.min({value}, T.cast({limit}, '{dtype}')), T.cast(-{limit}, '{dtype}'))"

    def each(self, shape: tuple[int, ...], target: str, value: str) -> list[str]:
        i = ", ".join("ij"[: len(shape)])
        return [f"for {i} in T.Parallel({', '.join(map(str, shape))}):", f"    {target}[{i}] = {value}"]

    def trips(self) -> tuple[str, int]:
        """The number of iterations, and its largest value."""
        r = self.r
        block = r.choice(self.names)
        most = self.grid[self.names.index(block)]
        forms = [
            (str(r.randint(1, 4)), 4), (str(r.randint(0, 3)), 3), (block, most), (f"{block} + 1", most + 1),
            (f"T.max({block} - 1, 0)", most), (f"T.min({block} * 2, 3)", 3), ("trips[0]", 3),
            (f"trips[{block}]", 3),
        ]  # fmt: skip
        return r.choice(forms)

    def place(self, extent: int, total: int, by: str) -> str:
        """An offset along a dimension."""
        r = self.r
        block = r.choice(self.names)
        return r.choice([
            f"{by} * {extent}", f"{block} * {extent}", "0", f"{block} * 8", f"({by} + {block}) * {extent}",
            f"{by} * {extent} + 8", f"where[{by}] * {extent}", f"{by} // 2 * {extent}",
        ])  # fmt: skip

    def out(self, c: str, shape: tuple[int, int], dtype: str) -> list[str]:
        """Statements that send a fragment out, at any offset, with tails; every block to its own place."""
        r = self.r
        m, n = shape
        store = r.choice([dtype, dtype, "float16" if dtype != "int32" else "int32"])
        lines: list[str] = []
        if store == "float16" and dtype != "float16":
            lines += self.each(shape, c, self.clipped(f"{c}[i, j]", dtype, 1000))
        dims = len(self.grid)
        extra = r.choice([0, 0, 0, 8, 3, 1])
        down = r.choice([0, 0, 5])
        cut = r.choice([0, 0, 8, 3]) if n > 8 else 0
        short = r.choice([0, 0, 7])
        columns = self.grid[0] * n + extra - cut
        rows = (self.grid[1] if dims > 1 else 1) * m + down - short
        if self.around is not None:
            name = self.tensor("O", (2, rows, columns), store, True)
            front = f"{self.around}, "
        else:
            name = self.tensor("O", (rows, columns), store, True)
            front = ""
        row = f"by * {m}" if dims > 1 else "0"
        there = f"{name}[{front}{row} + {down}, bx * {n} + {extra}]"
        if r.random() < 0.35:
            tile = self.tile("R", shape, store)
            self.last_writes.add(tile)
            return [*lines, f"T.copy({c}, {tile})", f"T.copy({tile}, {there})"]
        return [*lines, f"T.copy({c}, {there})"]

    def operand(self, name: str, shape: tuple[int, int], rows_by: str, columns_by: str) -> tuple[str, str]:
        """(copy of a tile out of a new tensor, its tile): the tensor has tails."""
        r = self.r
        m, n = shape
        step = 16 * 8 // self.bits
        rows = m * r.choice([1, 2, 3]) + r.choice([0, 0, 5])
        columns = n * r.choice([1, 2, 3]) + r.choice([0, 0, step])
        lead = r.choice([(), (), (2,)])
        tensor = self.tensor(name.upper(), (*lead, rows, columns), self.dtype)
        front = (
            f"{r.choice(['0', self.names[0] + ' % 2', *([self.around] if self.around else [])])}, "
            if lead
            else ""
        )
        at = f"{front}{self.place(m, rows, rows_by)}, {self.place(n, columns, columns_by)}"
        tile = self.tile(name, shape, self.dtype, 4)
        return f"T.copy({tensor}[{at}], {tile})", tile

    # -- parts

    def part(self) -> list[str]:
        self.spare: list[tuple[tuple[tuple[int, ...], str], str]] = []
        self.last_writes: set[str] = set()
        r = self.r
        nested = r.choice(["", "", "", "serial", "if", "serial-if", "if-loop"])
        self.around = "t" if "serial" in nested else None
        lines = (
            self.attention()
            if self.bits == 16 and self.acc == "float32" and r.random() < 0.4
            else self.products()
        )
        for key, name in self.spare:
            self.shared.setdefault(key, []).append(name)
        condition = r.choice(["bx > 0", "bx == 0", "bx % 2 == 1", "trips[0] > 1"])
        if nested == "if":
            return [f"if {condition}:", *_inside(lines)]
        if nested == "serial":
            return ["for t in T.serial(2):", *_inside(lines)]
        if nested == "serial-if":
            return [
                "for t in T.serial(2):",
                f"    if {r.choice(['t == 0', 't > 0', condition])}:",
                *_inside(_inside(lines)),
            ]
        return lines

    def shapes(self) -> tuple[int, int]:
        r = self.r
        n = r.choice([8, 16, 16, 24, 32, 32, 40, 64, 64, 72, 96, 128, 256])
        if self.M >= 192:
            n = min(n, 64)
        if self.threads > 128 and self.threads // 128 * 64 > self.M:
            n = max(16, n // 16 * 16)
        k = r.choice([16, 32, 32, 64, 128])
        return n, (max(32, k) if self.bits == 8 else k)

    def mask(self, s: str, shape: tuple[int, int], k: str) -> list[str]:
        r = self.r
        m, n = shape
        zero, low = f"T.cast(0, '{self.acc}')", f"T.cast(-3, '{self.acc}')"
        row, column = f"(bx * {m} + i)", f"({k} * {n} + j)"
        condition = r.choice([
            f"{row} >= {column}", f"{row} > {column}", f"{column} < {m + 5}", f"{column} <= {row}",
            f"({row} >= {column}) and ({column} + 40 > {row})", f"{column} < trips[bx] * {n} - 3", f"i + 3 < {k} * 40",  # noqa: E501
            f"{k} > 0", "i % 2 == 0", f"not ({row} < {column})", f"j >= {k} * 8 + 4", f"T.max(i, j) >= {k} * 16",  # noqa: E501
            f"({row} >= {column}) or ({k} == 0)",
        ])  # fmt: skip
        pair = (zero, low) if r.random() < 0.7 else (low, zero)
        if r.random() < 0.15:
            return [f"for i, j in T.Parallel({m}, {n}):", f"    if {condition}:", f"        {s}[i, j] = {pair[0]}",  # noqa: E501
                    "    else:", f"        {s}[i, j] = {pair[1]}"]  # fmt: skip
        return self.each(shape, s, f"T.if_then_else({condition}, {pair[0]}, {pair[1]})")

    def products(self) -> list[str]:
        """One to three products of tiles of a pipelined loop."""
        r = self.r
        M, acc = self.M, self.acc
        n, k = self.shapes()
        ta = self.bits == 16 and r.random() < 0.2
        tb = self.bits == 8 or r.random() < 0.5
        before: list[str] = []
        body: list[str] = []
        stages = r.choice([2, 2, 3, 4, 4, 1])
        trips, _ = self.trips()
        a_copy, a = self.operand(
            "a", (k, M) if ta else (M, k), "ko" if ta else self.names[-1], self.names[-1] if ta else "ko"
        )
        b_copy, b = self.operand("b", (n, k) if tb else (k, n), "bx" if tb else "ko", "ko" if tb else "bx")
        c = self.fragment("c", (M, n), acc)
        before.append(f"T.clear({c})")
        outs = [(c, (M, n))]
        if r.random() < 0.15:
            before.append(a_copy.replace("ko", "0"))
        else:
            body.append(a_copy)
        if r.random() < 0.1:
            before.append(b_copy.replace("ko", "0"))
        else:
            body.append(b_copy)
        left, transposed = a, f"transpose_A={ta}, transpose_B={tb}"
        form = r.choice(["plain", "plain", "fragment", "threads", "read", "cleared", "two", "shared-left", "if", "masked",  # noqa: E501
                         "changed", "chain"])  # fmt: skip
        if form == "fragment" and not ta:
            left = self.fragment("f", (M, k), self.dtype)
            body.append(f"T.copy({a}, {left})")
        elif form == "threads":
            left = self.tile("w", (k, M) if ta else (M, k), self.dtype)
            shape = (k, M) if ta else (M, k)
            body += r.choice(
                [
                    [f"T.copy({a}, {left})"],
                    self.each(shape, left, f"T.max({a}[i, j], T.cast(0, '{self.dtype}'))"),
                ]
            )
        elif form == "changed":
            shape = (k, M) if ta else (M, k)
            body += self.each(shape, a, f"T.max({a}[i, j], T.cast(0, '{self.dtype}'))")
        gemm = f"T.gemm({left}, {b}, {c}, {transposed})"
        if form == "read":
            shape = (k, M) if ta else (M, k)
            e = self.fragment("e", shape, "float32")
            before.append(f"T.clear({e})")
            read = self.each(shape, e, f"{e}[i, j] + T.cast({a}[i, j], 'float32')")
            body += [*read, gemm] if r.random() < 0.5 else [gemm, *read]
            outs.append((e, shape))
        elif form in ("cleared", "masked"):
            s = self.fragment("s", (M, n), acc)
            if form == "masked":
                body += self.mask(s, (M, n), "ko")
                body.append(f"T.gemm({left}, {b}, {s}, {transposed})")
            elif r.random() < 0.5:
                body += [f"T.clear({s})", f"T.gemm({left}, {b}, {s}, {transposed})"]
            else:
                body.append(f"T.gemm({left}, {b}, {s}, {transposed}, clear_accum=True)")
            body += self.each((M, n), c, self.clipped(f"{c}[i, j] + {s}[i, j]", acc, 50))
            if r.random() < 0.5:
                row = self.fragment("row", (M,), acc)
                before.append(f"T.fill({row}, 0)")
                kind = r.choice(["sum", "max", "absmax"])
                clear = r.random() < 0.5
                body.append(f"T.reduce_{kind}({s}, {row}, dim=1, clear={clear})")
                body += self.each((M,), row, self.clipped(f"{row}[i]", acc))
                body += self.each((M, n), c, f"{c}[i, j] + {row}[i]")
                body += self.each((M, n), c, self.clipped(f"{c}[i, j]", acc, 50))
        elif form in ("two", "shared-left"):
            d_copy, d = self.operand(
                "d", (n, k) if tb else (k, n), "bx" if tb else "ko", "ko" if tb else "bx"
            )
            c2 = self.fragment("c", (M, n), acc) if r.random() < 0.6 else c
            second = f"T.gemm({left}, {d}, {c2}, {transposed})"
            if c2 is not c:
                before.append(f"T.clear({c2})")
                outs.append((c2, (M, n)))
            body += r.choice([[gemm, d_copy, second], [d_copy, gemm, second], [d_copy, second, gemm]])
            if r.random() < 0.3:
                third = f"T.gemm({left}, {b}, {c2}, {transposed})"
                body.append(third)
        elif form == "if":
            test = r.choice(["ko % 2 == 0", "ko > 0", "bx > 0", "trips[ko] > 1"])
            if r.random() < 0.5:
                body.append(f"if {test}:")
                body.append(f"    {gemm}")
            else:
                body = [f"if {test}:", *_inside([*body, gemm])]
        elif form == "chain":
            body.append(gemm)
            body += self.each((M, n), c, self.clipped(f"{c}[i, j]", acc, 20))
        else:
            body.append(gemm)
        if r.random() < 0.2 and form != "if":
            idx = self.fresh("idx")
            body = [
                f"{idx} = where[ko]",
                *(line.replace("where[ko]", idx) if "T.copy" in line else line for line in body),
            ]
        elif r.random() < 0.2 and form != "if":
            at = self.fresh("at")
            body = [
                f"{at} = ko * {k}",
                *(line.replace(f"ko * {k}", at) if "T.copy" in line else line for line in body),
            ]
        loop = [f"for ko in T.Pipelined({trips}, num_stages={stages}):", *_inside(body)]
        if r.random() < 0.12:
            loop = [f"if {r.choice(['bx > 0', 'trips[0] > 1', 'bx == 0'])}:", *_inside(loop)]
        lines = [*before, *loop]
        for name, shape in outs:
            lines += self.out(name, shape, "float32" if name.startswith("e") else acc)
        return lines

    def attention(self) -> list[str]:
        """Two products with work between them."""
        r = self.r
        M, acc, dtype = self.M, self.acc, self.dtype
        keys, size = r.choice([16, 32, 32, 64, 80]), r.choice([16, 32, 64, 64, 72, 128])
        n = r.choice([size, 8, 32, 64])
        q_copy, q = self.operand("q", (M, size), "bx", "0 * bx")
        k_copy, k = self.operand("k", (keys, size), "ko", "0 * bx")
        v_copy, v = self.operand("v", (keys, n), "ko", "0 * bx")
        s, o = self.fragment("s", (M, keys), acc), self.fragment("o", (M, n), acc)
        p = self.fragment("p", (M, keys), dtype)
        m, before_, total = (self.fragment(x, (M,), acc) for x in ("m", "mb", "l"))
        policy = r.choice(["", ", policy=T.GemmWarpPolicy.FullRow"])
        head = [q_copy, f"T.clear({o})", f"T.fill({m}, -4)", f"T.clear({total})"]
        left = q
        if r.random() < 0.25:
            left = self.fragment("qf", (M, size), dtype)
            head.append(f"T.copy({q}, {left})")
        scale = self.each((M, n), o, self.clipped(f"{o}[i, j] - {m}[i] + {before_}[i]", acc, 30))
        scores = r.choice([[f"T.clear({s})"], self.mask(s, (M, keys), "ko"), self.mask(s, (M, keys), "ko")])
        work = [
            f"T.copy({m}, {before_})",
            f"T.reduce_max({s}, {m}, dim=1, clear=False)",
            *self.each((M,), m, self.clipped(f"{m}[i]", acc)),
            *self.each((M, keys), s, self.clipped(f"{s}[i, j] - {m}[i]", acc, 3)),
        ]
        summed = [
            f"T.reduce_sum({s}, {before_ if r.random() < 0.1 else total}, dim=1, clear={r.random() < 0.5})",
            *self.each((M,), total, self.clipped(f"{total}[i]", acc)),
        ]
        cast = [f"T.copy({s}, {p})"]
        parts = r.choice(
            [[scale, summed, cast], [summed, cast, scale], [cast, summed, scale], [cast, scale, summed]]
        )
        body = [
            *r.choice([[k_copy, *scores], [*scores, k_copy], [k_copy, v_copy, *scores]]),
            f"T.gemm({left}, {k}, {s}, transpose_B=True{policy})",
            *work,
            *(line for part in parts for line in part),
        ]
        if v_copy not in body:
            body.append(v_copy)
        body.append(f"T.gemm({p}, {v}, {o}{policy})")
        if r.random() < 0.15:
            body += self.each((M, n), o, self.clipped(f"{o}[i, j]", acc, 30))
        if r.random() < 0.3:
            idx = self.fresh("idx")
            body = [
                f"{idx} = where[ko]",
                *(
                    x.replace("where[ko]", idx).replace(f"ko * {keys}", f"{idx} * {keys}")
                    if "T.copy" in x
                    else x
                    for x in body
                ),
            ]
        elif r.random() < 0.2:
            at = self.fresh("at")
            body = [f"{at} = ko * {keys}", *(x.replace(f"ko * {keys}", at) for x in body)]
        trips, _ = self.trips()
        loop = [f"for ko in T.Pipelined({trips}, num_stages={r.choice([2, 2, 3, 4])}):", *_inside(body)]
        if r.random() < 0.2:
            loop = [
                f"for ko in T.Pipelined({r.choice([1, 'bx'])}, {trips} + 1, num_stages={r.choice([2, 3])}):",
                *_inside(body),
            ]
        tail = (
            self.each((M, n), o, self.clipped(f"{o}[i, j] + {total}[i]", acc, 50)) if r.random() < 0.7 else []
        )
        return [*head, *loop, *tail, *self.out(o, (M, n), acc)]

    def write(self) -> Generated:
        r = self.r
        parts: list[str] = []
        if r.random() < 0.2 and len(self.grid) > 1:
            parts.append(f"T.use_swizzle({r.choice([2, 3, 10])})")
        for _ in range(r.choice([1, 1, 1, 2, 2, 3])):
            parts += self.part()
        self.tensors += [Tensor("trips", (8,), "int32", 0, 3), Tensor("where", (8,), "int32", 0, 2)]
        params = ", ".join(f"{t.name}: T.Tensor({t.shape}, '{t.dtype}')" for t in self.tensors)
        names = ", ".join(self.names)
        head = f"@T.prim_func\ndef k{self.seed}({params}):\n    with T.Kernel({', '.join(map(str, self.grid))}, threads={self.threads}) as "  # noqa: E501
        head += f"({names}):\n" if len(self.names) > 1 else f"{names}:\n"
        body = "".join(f"        {line}\n" for line in (*self.allocations, *parts))
        return Generated(head + body, tuple(self.tensors), dict(r.choice(FLAGS)))
