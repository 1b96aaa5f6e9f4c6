"""Errors that teach: what, where, why, how to fix, for every wrong cell, as golden text; and no input gives
anything else.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.language.bad_cells import COMPILE, inside
from tilebench.errors import InternalError, TileError
from tilebench.kernel.decorator import compile
from tilebench.kernel.program import define


def error_of(text: str, target: str = "cuda:sm_90a") -> TileError:
    with pytest.raises(TileError) as caught:
        compile(define(text, cell="In[1]")[0], target=target)
    return caught.value


@pytest.mark.parametrize("name", COMPILE)
def test_a_wrong_cell_is_explained(name: str, golden: Callable[[str, str], None]) -> None:
    error = error_of(COMPILE[name])
    assert not isinstance(error, InternalError)
    text = error.render()
    assert error.at is not None or name == "no-program"
    assert "fix:" in text
    golden(f"errors/{error.code}-{name}.txt", text + "\n")


HOSTILE = {
    "empty": "",
    "blank": "   \n\n",
    "deep parentheses": "x = " + "(" * 2000 + ")" * 2000,
    "deep attributes": "x = a" + ".b" * 20000,
    "long sum": inside("C[0, 0] = " + " + ".join(["1.0"] * 20000)),
    "huge literal": "x = " + "9" * 10000,
    "null byte": "x = 1\0",
    "tabs and spaces": "def f():\n\tx = 1\n        y = 2\n",
    "windows lines": inside("T.clear(C)").replace("\n", "\r\n"),
    "emoji identifier": "🙂 = 1\n",
    "self recursion": "@T.macro\ndef f(x):\n    f(x)\n\n" + inside("f(C)"),
    "import trick": inside("__import__('os').abort"),
    "lone surrogate": "x = '\ud800'\n",
    "decorator": "@undefined\ndef f(): pass\n",
    "async": "async def f():\n    with T.Kernel(1):\n        pass\n",
    "nested functions": "\n".join("    " * k + f"def f{k}():" for k in range(60))
    + "\n"
    + "    " * 60
    + "pass\n",
    "unicode lookalike": inside("T.сlear(C)"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_gives_one_diagnostic_or_a_kernel(name: str) -> None:
    try:
        compile(define(HOSTILE[name], cell="In[1]")[0], target="interp")
    except TileError as error:
        assert not isinstance(error, InternalError), error.render()  # noqa: PT017 # or no error at all
        assert len(error.render()) < 4000  # noqa: PT017


@pytest.mark.parametrize("identifier", ["template", "int", "__global__", "a_b_", "ß", "float16_t", "__asm__"])
def test_names_never_reach_the_text_that_is_compiled(identifier: str) -> None:
    text = f"""@T.prim_func
def f({identifier}: T.Tensor((64,), 'float32')):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            {identifier}[i] = 1
"""
    kernel = compile(define(text, cell='In[1]"; evil')[0], target="cuda:sm_80")
    source = next(code.text for code in kernel.executable.built.code if code.level == "cuda")
    if identifier not in ("int", "float16_t"):
        assert f"{identifier}[" not in source
    assert "evil" not in source.replace('evil"', "evil") or '"; evil' not in source


LINES = [line for text in COMPILE.values() for line in text.splitlines()] + inside(
    "T.clear(C)", "x = A[0, 0]", "C[0, 1] = x"
).splitlines()


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(LINES), min_size=1, max_size=6), st.integers(0, 10**6))
def test_shuffled_lines_never_raise_anything_but_a_tile_error(lines: list[str], seed: int) -> None:
    good = inside("s = T.alloc_shared((64, 64), 'float16')", "T.copy(A, s)", "T.copy(s, C)").splitlines()
    for k, line in enumerate(lines):
        good.insert((seed + 7 * k) % (len(good) + 1), line)
    try:
        compile(define("\n".join(good) + "\n", cell="In[1]")[0], target="interp")
    except TileError as error:
        assert not isinstance(error, InternalError), error.render()  # noqa: PT017 # or no error at all
