"""Emitted text with the program's own names, for people.

What is compiled names everything by number (emit.py), so that it depends on nothing that was built before and
no name of the program can mean something in it. Read, `A_shared[tx]` says more than `b2_[v1_]`. The two texts
differ in names alone, line by line; both compile.

    for (int v5_ = 0; v5_ < 2; ++v5_) {           for (int r = 0; r < 2; ++r) {
      b4_[v5_] = fmaxf(b4_[v5_], b6_[v5_]);         m[r] = fmaxf(m[r], fold[r]);

A name of the program is taken as it is, unless it is a word of C++ or of the text, or means something else
where it would stand; it then gets a number.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping

_RESERVED = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class
co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype
default delete do double dynamic_cast else enum explicit export extern false final float for friend goto if
import inline int long module mutable namespace new noexcept not not_eq nullptr operator or or_eq override
private protected public register reinterpret_cast requires return short signed sizeof static static_assert
static_cast struct switch template this thread_local throw true try typedef typeid typename union unsigned
using virtual void volatile wchar_t while xor xor_eq assert linux unix i386 NULL blockDim blockIdx gridDim
threadIdx warpSize float2 float4 uint2 uint4 printf
"""
"""Words of C++, and what a CUDA compiler defines as macros or variables."""
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")
_NUMBERED = re.compile(r"[vbm]\d+_")
_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|[{}]|\b[A-Za-z_]\w*\b')


def with_names(text: str, names: Mapping[str, str]) -> str:
    """The text with the numbered names replaced. names: of the program, by number ('b2_': 'A_shared')."""
    kernel = text[max(0, text.find('extern "C" __global__')) :]  # names inside of the prelude are its own
    tokens = {*_TOKEN.findall(kernel), *_RESERVED.split()}
    scopes: list[dict[str, str]] = [{}]
    """From the outermost in: what the variables of each block are called."""
    opened = False

    def choose(number: str) -> str:
        for scope in reversed(scopes):
            if number in scope:
                return scope[number]
        name = names.get(number, "")
        if not _PLAIN.fullmatch(name) or _NUMBERED.fullmatch(name):
            name = number  # as it is
        else:
            taken = tokens.union(*(scope.values() for scope in scopes))
            name = next(n for n in _variants(name) if n not in taken)
        scopes[-1][number] = name
        return name

    def replaced(found: re.Match[str]) -> str:
        nonlocal opened
        word = found[0]
        if word == "for":  # its variable belongs to its block
            scopes.append({})
            opened = True
        elif word == "{":
            if not opened:
                scopes.append({})
            opened = False
        elif word == "}":
            scopes.pop()
        elif _NUMBERED.fullmatch(word):
            return choose(word)
        return word

    return _TOKEN.sub(replaced, text)


def _variants(name: str) -> Generator[str]:
    """x, x_1, x_2, ..."""
    yield name
    count = 0
    while True:
        count += 1
        yield f"{name}_{count}"


__all__ = ["with_names"]
