"""What the CUDA text says: names, types, precedence, wrapping, 64-bit addresses, loops, and nothing of the
user's.
"""

from __future__ import annotations

import re

import pytest

from tests.compiles import kernels, programs
from tests.compiles.programs import Maker, at, load, store
from tilebench.backends.cuda.emit import FILE, c_string, cell_line, compiled_text, emit
from tilebench.errors import Loc, Source, TargetError
from tilebench.ir.dtype import DTYPES, bool_, float16, float32, float64, int8, int32, int64
from tilebench.ir.expr import Expr, Var, binary, call, cast, const, select, unary
from tilebench.ir.thread import CpAsync, Program, VectorCopy
from tilebench.ir.tile import Assert, Bind, For, If, Print, Seq


def body(program: Program) -> str:
    """The text from the kernel's first line on."""
    text = emit(program).text
    return text[text.index('extern "C" __global__') :]


def value_of(e: Expr, *parts: object) -> str:
    """The right side of `out[0] = e`."""
    m = Maker()
    out = m.tensor("out", 4, e.dtype, "out")
    for x in parts:
        if isinstance(x, Var):
            from tilebench.ir.tile import Param

            m.params.append(Param(x.name, x))
    m.add(store(out, 0, e))
    found = re.search(r"b0_\[0\] = (.*);", body(m.program()))
    assert found is not None
    return found[1]


def var(name: str, dtype: object = int32) -> Var:
    return Var(name, dtype=dtype)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (1.0, float32, "1.0f"),
        (0.1, float32, "0.1f"),
        (1e-30, float32, "1.0e-30f"),
        (float("inf"), float32, "__uint_as_float(0x7f800000u)"),
        (float("-inf"), float32, "__uint_as_float(0xff800000u)"),
        (0.1, float64, "0.1"),
        (1.5, float16, "f16{0x3e00}"),
        (-(2**31), int32, "(-2147483647 - 1)"),
        (2**40, int64, "1099511627776ll"),
        (-(2**63), int64, "(-9223372036854775807ll - 1)"),
        (5, DTYPES["uint32"], "5u"),
        (2**63, DTYPES["uint64"], "9223372036854775808ull"),
        (True, bool_, "true"),
        (-3, int8, "-3"),
        (1.0, DTYPES["float8_e4m3"], "e4m3{0x38}"),
        (1e9, DTYPES["float8_e4m3"], "e4m3{0x7e}"),
    ],
)
def test_literals_are_exact(value: float, dtype: object, text: str) -> None:
    assert value_of(const(value, dtype)) == text  # type: ignore[arg-type]


def test_float_literals_are_the_nearest_float32() -> None:
    import numpy as np

    for x in (1.4426950408889634, 1 / 3, 16777217.0, 3.4e38, 1.17549435e-38, 1e-45, 123456.789):
        text = value_of(const(x, float32))
        assert np.float32(float(text.rstrip("f"))) == np.float32(x), text


def test_parentheses_keep_the_tree() -> None:
    a, b, c = (var(n, float32) for n in "abc")
    assert value_of((a - b) - c, a, b, c) == "v0_ - v1_ - v2_"
    assert value_of(a - (b - c), a, b, c) == "v0_ - (v1_ - v2_)"
    assert value_of((a + b) * c, a, b, c) == "(v0_ + v1_) * v2_"
    assert value_of(a / (b * c), a, b, c) == "divide(v0_, v1_ * v2_)"
    assert value_of(a / 8.0, a) == "v0_ * 0.125f"
    assert value_of(a / 3.0, a) == "divide(v0_, 3.0f)"
    assert value_of(unary("neg", -a), a) == "-(-v0_)"
    assert value_of(select(a < b, a, b) + c, a, b, c) == "(v0_ < v1_ ? v0_ : v1_) + v2_"
    assert (
        value_of(binary("or", binary("and", a < b, b < c), a < c), a, b, c)
        == "(v0_ < v1_ && v1_ < v2_) || v0_ < v2_"
    )


def test_arithmetic_on_data_wraps_and_on_indices_is_plain() -> None:
    a, b = var("a"), var("b")
    assert value_of(a * b, a, b) == "(int)((unsigned)v0_ * (unsigned)v1_)"
    m = Maker(grid=(8,))
    out = m.tensor("out", 4096, int32, "out")
    m.add(store(out, m.blocks[0] * 32 + m.thread, m.thread * 3))
    assert "b0_[v0_ * 32 + v1_] = v1_ * 3;" in body(m.program())


def test_narrow_integers_come_back_to_their_width() -> None:
    a, b = var("a", int8), var("b", int8)
    assert value_of(a + b, a, b) == "(signed char)(v0_ + v1_)"


def test_division_by_a_power_of_two_is_a_shift_for_any_sign() -> None:
    a = var("a")
    assert value_of(a // 8, a) == "v0_ >> 3"
    assert value_of(a % 8, a) == "v0_ & 7"
    assert value_of(a // 3, a) == "floordiv<int>(v0_, 3)"


def test_division_of_what_is_not_negative_is_plain() -> None:
    m = Maker(96)
    out = m.tensor("out", 96, int32, "out")
    m.add(store(out, 0, m.thread // 3), store(out, 1, m.thread % 3))
    text = body(m.program())
    assert "v0_ / 3" in text
    assert "v0_ % 3" in text


def test_narrow_floats_calculate_in_float_and_round_once() -> None:
    a, b = var("a", float16), var("b", float16)
    assert value_of(a + b, a, b) == "to_f16(to_f32(v0_) + to_f32(v1_))"
    assert value_of(cast(a, float32), a) == "to_f32(v0_)"
    assert value_of((a + b) * a, a, b) == "to_f16(to_f32(to_f16(to_f32(v0_) + to_f32(v1_))) * to_f32(v0_))"
    assert value_of(binary("max", a, b), a, b) == "to_f16(fmaxf(to_f32(v0_), to_f32(v1_)))"
    assert value_of(select(a < b, a, b), a, b) == "(to_f32(v0_) < to_f32(v1_) ? v0_ : v1_)"
    assert value_of(cast(a, DTYPES["bfloat16"]), a) == "to_bf16(to_f32(v0_))"


@pytest.mark.parametrize(("count", "wide"), [(2**31 - 1, False), (2**31, True)])
def test_addresses_are_64_bit_where_the_tensor_may_be_large(count: int, wide: bool) -> None:
    m = Maker(grid=(2**20,))
    x = m.tensor("x", const(count, int64), float32, "inout")
    m.add(store(x, m.blocks[0] * 5000 + m.thread, const(0.0)))
    assert ("b0_[(long long)v0_ * 5000 + v1_]" in body(m.program())) == wide


def test_a_symbolic_extent_may_be_large() -> None:
    m = Maker(grid=(4,))
    n = m.symbol("n")
    x = m.tensor("x", n.astype(int64) * n.astype(int64), float32, "inout")
    m.add(store(x, m.blocks[0] * n + m.thread, const(0.0)))
    assert "b0_[(long long)v1_ * v0_ + v2_]" in body(m.program())


def test_a_bound_index_that_may_not_fit_is_kept_in_64_bits() -> None:
    m = Maker(grid=(2**20,))
    x = m.tensor("x", const(2**33, int64), float32, "inout")
    base, row = var("base"), var("row")
    m.add(Bind(row, m.blocks[0] * 8), Bind(base, row * 1024 + m.thread))
    m.add(store(x, base + 5, const(0.0)), store(x, binary("min", base, 7), const(0.0)))
    text = body(m.program())
    assert "const int v2_ = v0_ * 8;" in text
    assert "const long long v3_ = (long long)v2_ * 1024 + v1_;" in text
    assert "b0_[v3_ + 5]" in text
    assert "min((long long)v3_, (long long)7)" in text


def test_data_that_overflows_wraps_though_it_is_bound() -> None:
    m = Maker()
    x, hashed = m.tensor("x", 32, int32, "inout"), var("h")
    m.add(Bind(hashed, load(x, m.thread) * 1664525), store(x, m.thread, hashed))
    assert "const int v1_ = (int)((unsigned)b0_[v0_] * (unsigned)1664525);" in body(m.program())


def test_read_only_tensors_are_const_and_nothing_aliases() -> None:
    m = Maker()
    x, y = m.tensor("x", 32, float16), m.tensor("y", 32, float16, "out")
    m.add(store(y, m.thread, load(x, m.thread)))
    assert "tile_kernel(const f16* __restrict__ b0_, f16* __restrict__ b1_)" in body(m.program())


def test_launch_bounds_have_the_threads_and_the_blocks() -> None:
    m = Maker(96)
    assert "__launch_bounds__(96) tile_kernel()" in body(m.program())
    m.facts["min_blocks"] = 3
    assert "__launch_bounds__(96, 3)" in body(m.program())


def test_serial_loops_stay_rolled_and_unrolled_ones_do_not() -> None:
    m = Maker()
    x = m.tensor("x", 1000, float32, "inout")
    m.add(
        programs.serial(100, lambda i: store(x, i, const(1.0))),
        programs.unrolled(4, lambda i: store(x, i, const(1.0))),
    )
    lines = [line.strip() for line in body(m.program()).split("\n")]
    assert lines[lines.index("#pragma unroll 1") + 1] == "for (int v0_ = 0; v0_ < 100; ++v0_) {"
    assert lines[lines.index("#pragma unroll") + 1] == "for (int v1_ = 0; v1_ < 4; ++v1_) {"


def test_a_serial_loop_over_registers_is_unrolled() -> None:
    m = Maker()
    r = m.array("r", 8, float32)
    index = var("k")
    m.add(programs.serial(8, lambda i: Seq((Bind(index, i * 1), store(r, index, const(1.0))))))
    assert "#pragma unroll\n" in body(m.program())
    m = Maker()
    r = m.array("r", 1024, float32)
    m.add(programs.serial(1024, lambda i: store(r, i, const(1.0))))
    assert "#pragma unroll 1\n" in body(m.program())


def test_loops_count_down_and_by_unknown_steps() -> None:
    m = Maker()
    n = m.symbol("n")
    x = m.tensor("x", 100, int32, "inout")
    i, j = var("i"), var("j")
    m.add(
        For(i, const(9), const(-1), store(x, i, i), step=const(-2)),
        For(j, const(0), n, store(x, j, j), step=n),
    )
    text = body(m.program())
    assert "for (int v1_ = 9; v1_ > -1; v1_ += -2) {" in text
    assert "for (int v2_ = 0; (v0_) > 0 ? v2_ < (v0_) : v2_ > (v0_); v2_ += v0_) {" in text


def test_a_name_bound_twice_is_two_names() -> None:
    m = Maker()
    x, k = m.tensor("x", 100, int32, "inout"), var("k")
    m.add(
        Bind(k, m.thread + 1),
        store(x, 0, k),
        If(m.thread < 3, Seq((Bind(k, m.thread + 2), store(x, 1, k)))),
        store(x, 2, k),
    )
    m.add(Bind(k, m.thread + 3), store(x, 3, k))
    text = body(m.program())
    assert [re.search(rf"b0_\[{i}\] = (v\d+_);", text)[1] for i in range(4)] == ["v1_", "v2_", "v1_", "v3_"]  # type: ignore[index]


def test_vector_accesses_are_one_builtin_word() -> None:
    m = Maker()
    g, r = m.tensor("g", 4096, float16), m.array("r", 8, float16)
    for lanes in (1, 2, 4, 8):
        m.add(VectorCopy(r, const(0), g, m.thread * 8, lanes))
    text = body(m.program())
    for word in ("unsigned", "uint2", "uint4"):
        assert f"*({word}*)(b1_) = *(const {word}*)(b0_ + v0_ * 8);" in text
    assert "b1_[0] = b0_[v0_ * 8];" in text


def test_a_predicate_fills_zeros_or_leaves_the_registers() -> None:
    m = Maker()
    n = m.symbol("n")
    g, r = m.tensor("g", 4096, float16), m.array("r", 8, float16)
    m.add(
        VectorCopy(r, const(0), g, m.thread, 8, m.thread < n, True),
        VectorCopy(r, const(0), g, m.thread, 8, m.thread < n),
    )
    text = body(m.program())
    assert "*(uint4*)(b1_) = v1_ < v0_ ? *(const uint4*)(b0_ + v1_) : uint4{};" in text
    assert "if (v1_ < v0_) *(uint4*)(b1_) = *(const uint4*)(b0_ + v1_);" in text


HOSTILE = ["a;}//", "template", "int", "x\ny", "кириллица", '"', "*/", "#define", "v0_", "${x}", "%s%n", "\\"]


def test_no_name_of_the_users_reaches_the_text() -> None:
    m = Maker(grid=(4,))
    marks = [f"MARK{i}{h}" for i, h in enumerate(HOSTILE)]
    x = m.tensor(marks[0], 4096, float32, "inout")
    r, s = m.array(marks[1], 4, float32), m.tile(marks[2], 64, float32)
    scalar, k = m.scalar(marks[3], float32), Var(marks[4], dtype=int32)
    index = Var(marks[5], dtype=int32)
    m.add(Bind(k, m.thread * 2), store(x, k, scalar), store(s, 0, scalar))
    m.add(
        For(
            index,
            const(0),
            const(4),
            store(r, index, load(s, index)),
            kind="unroll",
            loc=Loc(Source("MARK6\n#error", "x"), 1),
        )
    )
    emitted = emit(m.program("MARK7"))
    assert "MARK" not in emitted.text
    assert "MARK" not in compiled_text(emitted)
    assert emitted.text.isascii()


def test_renaming_changes_nothing() -> None:
    def make(prefix: str) -> str:
        m = Maker()
        x, k = m.tensor(prefix + "x", 64, float32, "inout"), Var(prefix + "k", dtype=int32)
        m.add(Bind(k, m.thread * 2), store(x, k, load(x, k) + 1.0, 3))
        return compiled_text(emit(m.program(prefix + "kernel")))

    assert make("a") == make("zzz")


def test_messages_are_escaped_to_plain_ascii() -> None:
    assert c_string('a"b\\c\n%d??/é') == '"a\\042b\\134c\\012%d\\077\\077/\\303\\251"'
    m = Maker()
    x = m.tensor("x", 32, float32)
    m.add(Assert(load(x, 0) > 0.0, 'no "; }\n#error', loc=at(4)), Print("100% {}", (load(x, 0),), loc=at(5)))
    text = emit(m.program()).text
    assert "#error" not in text
    assert "100%% \\173\\175 %g\\012" in text


def test_lines_name_the_cell() -> None:
    emitted = emit(kernels.softmax())
    lines = emitted.text.split("\n")
    assert len(lines) == len(emitted.lines)
    by_line = {
        n: [t for t, k in zip(lines, emitted.lines, strict=True) if k == n] for n in set(emitted.lines)
    }
    assert any("*(const uint4*)" in t for t in by_line[5])
    assert any("exp2_fast" in t for t in by_line[10])


def test_line_marks_agree_with_the_table() -> None:
    emitted = emit(kernels.softmax())
    number, seen = 0, []
    for text in compiled_text(emitted).split("\n"):
        mark = re.fullmatch(rf'#line (\d+) "{FILE}"', text)
        if mark:
            number = int(mark[1])
            continue
        seen.append((text, number))
        number += 1 if number else 0
    for (text, got), (want_text, want) in zip(
        seen, zip(emitted.text.split("\n"), emitted.lines, strict=True), strict=True
    ):
        assert text == want_text
        assert want in (0, got)


def test_a_macro_line_is_the_line_of_the_call() -> None:
    cell, library = Source("In[4]", "a\nb\nc"), Source("lib.py", "x\ny")
    assert cell_line(Loc(library, 2, call_site=Loc(library, 1, call_site=Loc(cell, 3)))) == 3
    assert cell_line(None) == 0


def test_fast_math_is_said_in_the_text() -> None:
    def text(fast: bool) -> str:
        m = Maker()
        m.facts["fast_math"] = fast
        x = m.tensor("x", 32, float32, "inout")
        for name in ("exp", "exp2", "log", "rsqrt", "rcp", "tanh"):
            m.add(store(x, 0, call(name, [load(x, 0)], float32)))
        return body(m.program())

    assert "expf(" in text(False)
    assert "__expf(" not in text(False)
    for name in ("__expf(", "exp2_fast(", "__logf(", "rsqrt_fast(", "rcp_fast(", "tanh_fast("):
        assert name in text(True)


def test_vector_memories_are_refused() -> None:
    m = Maker()
    from tilebench.ir.dtype import parse_dtype

    m.array("r", 4, parse_dtype("float16x4"))
    with pytest.raises(TargetError, match="TB507"):
        emit(m.program())


def test_cp_async_of_an_odd_width_is_our_bug() -> None:
    from tilebench.errors import InternalError

    m = Maker()
    g, s = m.tensor("g", 64, float16), m.tile("s", 64, float16)
    m.add(CpAsync(s, const(0), g, const(0), 1, loc=at(7)))
    with pytest.raises(InternalError, match="TB902") as error:
        emit(m.program())
    assert error.value.at is not None
    assert error.value.at.line == 7


def test_roles_are_ranges_of_threads() -> None:
    text = body(programs.two_roles("sm_90a"))
    assert "if (v0_ < 32) {" in text
    assert "} else {" in text
    assert "barrier<1, 32>();" in text
    assert text.index("b2_[2]") > text.index("if (v0_ < 32)"), "each role declares its own registers"
