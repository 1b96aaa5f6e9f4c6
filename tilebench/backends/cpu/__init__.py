"""Typed tile IR on the CPU: LLVM IR text, compiled in the process through llvmlite."""

from tilebench.backends.cpu.build import build

__all__ = ["build"]
