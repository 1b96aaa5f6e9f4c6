"""PyTorch references of the programs, in float32 on the inputs' values, returned in the program's output
type.
"""

from __future__ import annotations

from typing import Any


def gemm(transpose_A: bool = False, transpose_B: bool = False, out_dtype: str = "float16") -> Any:
    import torch

    def reference(A: Any, B: Any) -> Any:
        a, b = A.double(), B.double()
        a, b = (a.T if transpose_A else a), (b.T if transpose_B else b)
        return (a @ b).to(getattr(torch, out_dtype))

    return reference


def softmax(X: Any) -> Any:
    return X.float().softmax(dim=1).to(X.dtype)


def rms_norm(X: Any, W: Any) -> Any:
    x = X.float()
    return (x * (x.pow(2).mean(dim=1, keepdim=True) + 1e-5).rsqrt() * W.float()).to(X.dtype)


def attention(causal: bool = False) -> Any:
    import torch

    def reference(Q: Any, K: Any, V: Any) -> Any:
        q, k, v = Q.float(), K.float(), V.float()
        ratio = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(ratio, dim=1), v.repeat_interleave(ratio, dim=1)
        s = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        if causal:
            past = k.shape[2] - q.shape[2]
            mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril(past)
            s = s.masked_fill(~mask, -torch.inf)
        return (s.softmax(-1) @ v).to(Q.dtype)

    return reference


def mlp(X: Any, W: Any, bias: Any) -> Any:
    import torch

    return torch.nn.functional.gelu(X.float() @ W.float() + bias.float(), approximate="tanh").to(X.dtype)


def transpose(X: Any) -> Any:
    return X.T.contiguous()


def histogram(X: Any, H: Any) -> Any:
    import torch

    return H + torch.bincount(X.long(), minlength=H.numel()).to(torch.int32)
