"""Peers that PyTorch brings, those of other packages when they are there, and the reference kernels."""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from tests.perf.cases import TILELANG_EXAMPLES, NotHere, Run


def sdpa(q: Any, k: Any, v: Any, causal: bool, backend: str) -> Run:
    """scaled_dot_product_attention with one backend ('CUDNN_ATTENTION', 'FLASH_ATTENTION')."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    which = getattr(SDPBackend, backend)
    grouped = q.shape[1] != k.shape[1]

    def run() -> Any:
        with sdpa_kernel(which):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)

    try:
        run()
    except RuntimeError as error:
        raise NotHere(str(error).splitlines()[0]) from None
    return run


def module(name: str) -> Any:
    """A module of another package. Raises NotHere."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise NotHere(f"{name} is not here: {error}") from None


def tilelang_example(path: str) -> Any:
    """One of TileLang's examples as a module; path within their folder. Raises NotHere."""
    module("tilelang")
    folder = os.environ.get(TILELANG_EXAMPLES)
    if not folder:
        raise NotHere("TileLang is here, its examples are not: see --tilelang")
    spec = importlib.util.spec_from_file_location(Path(path).stem, Path(folder) / path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(found)
    except (ImportError, OSError) as error:
        raise NotHere(f"{path} does not load: {error}") from None
    return found


def compiled(function: Any, *arguments: Any) -> Any:
    """The function as inductor compiles it. Raises NotHere where it does not work."""
    try:
        fast = torch.compile(function, dynamic=False)
        fast(*arguments)
        torch.cuda.synchronize()
    except Exception as error:
        raise NotHere(f"inductor: {str(error).splitlines()[0]}") from None
    return fast


@cache
def _reference_module(folder: Path) -> Any:
    spec = importlib.util.spec_from_file_location("reference_kernels", folder / "run_sm90.py")
    if spec is None or spec.loader is None:
        raise NotHere(f"{folder} has no run_sm90.py")
    loaded = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(loaded)
    except OSError as error:
        raise NotHere(str(error)) from None
    return loaded


@cache
def _driver(folder: Path) -> Any:
    return _reference_module(folder).Driver()


def _short(dtype: torch.dtype) -> str:
    return {torch.bfloat16: "bf16", torch.float16: "f16"}.get(dtype, "e4m3")


def reference_gemm(folder: Path | None, a: Any, b: Any, **options: Any) -> Run:
    """The reference GEMM on these tensors; b (N, K), or (K, N) with tb=1. Gives its C."""
    if folder is None:
        raise NotHere("no folder of reference kernels was given")
    run_sm90, driver = _reference_module(folder), _driver(folder)
    m, k = a.shape
    n = b.shape[1] if options.get("tb") else b.shape[0]
    short = _short(a.dtype)
    g = run_sm90.Gemm(driver, torch, m, n, k, dt=short, **options)
    size, number = a.element_size(), run_sm90.DT_ENUM[short]
    wide, tall = 128 // size, options.get("BN", 256)
    g.A, g.B = a, b
    g.args[0] = driver.tmap(a.data_ptr(), number, [k, m], [k * size], [wide, 128])
    if options.get("tb"):
        g.args[1] = driver.tmap(b.data_ptr(), number, [n, k], [n * size], [64, 64])
    else:
        g.args[1] = driver.tmap(b.data_ptr(), number, [k, n], [k * size], [wide, tall])
    return g.run


def reference_attention(folder: Path | None, q: Any, k: Any, v: Any, causal: bool, **options: Any) -> Run:
    """The reference attention on these (B, H, S, D) tensors. Gives its O."""
    if folder is None:
        raise NotHere("no folder of reference kernels was given")
    run_sm90, driver = _reference_module(folder), _driver(folder)
    batch, heads, s_q, d = q.shape
    groups, s_kv = k.shape[1:3]
    short = _short(q.dtype)
    f = run_sm90.FA(driver, torch, batch, heads, groups, s_q, s_kv, d, causal, dt=short, **options)
    number, tile = run_sm90.DT_ENUM[short], options.get("BN", 128)

    def mapped(t: Any, s: int, rows: int, box: int) -> Any:
        return driver.tmap(t.data_ptr(), number, [d, s, rows], [d * 2, s * d * 2], [64, box, 1])

    f.q, f.k, f.v = q, k, v
    f.args[0] = mapped(q, s_q, batch * heads, 128)
    f.args[1] = mapped(k, s_kv, batch * groups, tile)
    f.args[2] = mapped(v, s_kv, batch * groups, tile)
    return f.run


def attention_reference(q: Any, k: Any, v: Any, causal: bool) -> Any:
    """softmax(q k^T / sqrt(d)) v in float32, head by head, in q's type."""
    out = torch.empty_like(q)
    ratio, past = q.shape[1] // k.shape[1], k.shape[2] - q.shape[2]
    mask = (
        torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).triu(past + 1)
        if causal
        else None
    )
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            s = q[b, h].float() @ k[b, h // ratio].float().T / math.sqrt(q.shape[-1])
            if mask is not None:
                s.masked_fill_(mask, -math.inf)
            out[b, h] = (s.softmax(-1) @ v[b, h // ratio].float()).to(q.dtype)
    return out
