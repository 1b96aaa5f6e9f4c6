"""PyTorch references of the programs in programs_gemm, programs_attention and programs_scan.

In float32 on the inputs' values (float64 where a shape is small), with the outputs as a list.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any


def gemm_int4(A: Any, W: Any, scale: Any) -> Any:
    """A @ (scale * (W - 8)).T with W's two halves of a byte side by side."""
    import torch

    halves = torch.stack([W & 15, W >> 4], dim=-1).reshape(W.shape[0], -1)
    weights = (halves.float() - 8) * scale.float()[:, None]
    return (A.float() @ weights.T).to(A.dtype)


def softmax_rows(q: Any, k: Any, v: Any, causal: bool = False, scale: float | None = None) -> Any:
    """Attention of one head, (rows, dim) each, in float32; causal is aligned at the end."""
    import torch

    s = q.float() @ k.float().T * (scale or q.shape[-1] ** -0.5)
    if causal:
        mask = torch.ones(s.shape, dtype=torch.bool, device=s.device).triu(s.shape[1] - s.shape[0] + 1)
        s = s.masked_fill(mask, -torch.inf)
    return s.softmax(-1) @ v.float()


def attention_varlen(Q: Any, K: Any, V: Any, cu: Any, causal: bool) -> Any:
    """Sequence by sequence, head by head; rows behind the last sequence are zero."""
    import torch

    out, ratio, ends = torch.zeros_like(Q), Q.shape[1] // K.shape[1], cu.tolist()
    for first, last in pairwise(ends):
        for h in range(Q.shape[1]):
            rows = slice(first, last)
            got = softmax_rows(Q[rows, h], K[rows, h // ratio], V[rows, h // ratio], causal)
            out[rows, h] = got.to(Q.dtype)
    return out


def decode(Q: Any, K: Any, V: Any) -> Any:
    """One query a head against the cache of its group."""
    ratio = Q.shape[1] // K.shape[1]
    q = Q.float().reshape(Q.shape[0], K.shape[1], ratio, Q.shape[2])
    s = q @ K.float().transpose(-1, -2) / Q.shape[-1] ** 0.5
    return (s.softmax(-1) @ V.float()).reshape(Q.shape).to(Q.dtype)


def mla_decode(Q: Any, R: Any, C: Any, E: Any) -> Any:
    """Batch by batch: scores from both parts of the keys, values are the first part."""
    import torch

    out = torch.empty_like(Q)
    scale = (Q.shape[-1] + R.shape[-1]) ** -0.5
    for b in range(Q.shape[0]):
        s = (Q[b].float() @ C[b].float().T + R[b].float() @ E[b].float().T) * scale
        out[b] = (s.softmax(-1) @ C[b].float()).to(Q.dtype)
    return out


def linear_attention(Q: Any, K: Any, V: Any, chunk: int = 256) -> Any:
    """Chunk by chunk in float32."""
    import torch

    batch, seq, heads, dim = Q.shape
    q, k, v = (t.float().transpose(1, 2) for t in (Q, K, V))
    q = q * dim**-0.5
    state = torch.zeros(batch, heads, dim, dim, device=Q.device)
    out = torch.empty_like(q)
    for t in range(0, seq, chunk):
        at = slice(t, t + chunk)
        out[:, :, at] = (q[:, :, at] @ k[:, :, at].mT).tril() @ v[:, :, at] + q[:, :, at] @ state
        state = state + k[:, :, at].mT @ v[:, :, at]
    return out.transpose(1, 2).to(Q.dtype).contiguous()


def chunk_scan(CB: Any, X: Any, dt: Any, A: Any, C: Any, S: Any, D: Any) -> Any:
    """Chunk by chunk in float32."""
    import torch

    _, chunks, groups, chunk, _ = CB.shape
    heads = X.shape[2]
    out = torch.empty_like(X)
    mask = torch.ones(chunk, chunk, dtype=torch.bool, device=X.device).tril()
    for c in range(chunks):
        at = slice(c * chunk, (c + 1) * chunk)
        cb = CB[:, c].float().repeat_interleave(heads // groups, 1)
        a, step = A[:, :, c].float(), dt[:, :, c].float()
        decay = torch.where(mask, (a[..., :, None] - a[..., None, :]).clamp(max=0).exp(), 0)
        x = X[:, at].float().transpose(1, 2)
        own = (cb * decay * step[..., None, :]) @ x
        left = C[:, at].float().transpose(1, 2).repeat_interleave(heads // groups, 1)
        before = left @ S[:, c].float().mT * a.exp()[..., None]
        got = own + before + D.float()[:, None, None] * x
        out[:, at] = got.transpose(1, 2).to(X.dtype)
    return out


def chunk_state(B: Any, X: Any, dt: Any, A: Any) -> Any:
    """All chunks at once in float32."""
    batch, heads, chunks, chunk = dt.shape
    a = A.float()
    weight = (a[..., -1:] - a).exp() * dt.float()
    x = X.float().reshape(batch, chunks, chunk, heads, -1).permute(0, 1, 3, 2, 4)
    b = B.float().reshape(batch, chunks, chunk, B.shape[2], -1).permute(0, 1, 3, 2, 4)
    b = b.repeat_interleave(heads // B.shape[2], 2)
    scaled = x * weight.permute(0, 2, 1, 3)[..., None]
    return (scaled.mT @ b).to(X.dtype)


def attention_gradients(Q: Any, K: Any, V: Any, G: Any, causal: bool) -> list[Any]:
    """dQ, dK, dV by autograd on float32 copies, head by head."""
    import torch

    grads = [torch.empty_like(t) for t in (Q, K, V)]
    for b in range(Q.shape[0]):
        for h in range(Q.shape[1]):
            q, k, v = (t[b, h].float().requires_grad_() for t in (Q, K, V))
            out = softmax_rows(q, k, v, causal)
            for into, got in zip(grads, torch.autograd.grad(out, (q, k, v), G[b, h].float()), strict=True):
                into[b, h] = got.to(into.dtype)
    return grads
