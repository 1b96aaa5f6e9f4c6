"""Arguments of a call: what was passed, checked against the kernel's parameters, with symbolic extents
solved.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from tilebench.backends.base import Argument, TensorArgument
from tilebench.errors import LaunchError
from tilebench.ir.dtype import DType, as_dtype
from tilebench.ir.expr import Binary, Cast, Const, Expr, Var
from tilebench.ir.launches import grid_of
from tilebench.ir.solve import unknown
from tilebench.ir.tile import Buffer, Kernel, Param
from tilebench.kernel.alias import refuse_aliases

ALIGNMENT = 16
"""Bytes that addresses on a GPU are a multiple of: the widest move of a thread."""


@dataclass(frozen=True)
class TensorView:
    """A user's tensor as we need it.

    strides in elements; device 'cpu' or 'cuda:0'; owner keeps the memory alive.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType
    device: str
    pointer: int
    owner: Any
    writable: bool = True

    @property
    def is_numpy(self) -> bool:
        """Whether the user gave a NumPy array."""
        return isinstance(self.owner, np.ndarray)

    def array(self) -> np.ndarray:
        """The memory as NumPy in storage form (host tensors only), shape and strides kept."""
        host = cast("np.ndarray[Any, np.dtype[Any]] | None", self.owner if self.is_numpy else None)
        if host is not None:
            return host.view(self.dtype.storage_dtype)
        import torch

        plain = self.owner.detach()
        if self.dtype.storage_dtype == np.uint16 and self.dtype == "bfloat16":
            return plain.view(torch.int16).numpy().view(np.uint16)
        if self.dtype.bits == 8 and self.dtype.is_float:
            return plain.view(torch.uint8).numpy()
        return plain.numpy()


def is_tensor(value: Any) -> bool:
    """Whether `value` can be a tensor argument: NumPy, torch, or anything with DLPack or CUDA's array
    interface.
    """
    if isinstance(value, np.ndarray):
        return True
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return True
    return hasattr(value, "__dlpack__") or hasattr(value, "__cuda_array_interface__")


def view(value: Any, name: str) -> TensorView:
    """The TensorView of a user's tensor.

    Raises LaunchError TB603 for what cannot be one; name: the parameter.
    """
    if isinstance(value, np.ndarray):
        return _numpy_view(cast("np.ndarray[Any, np.dtype[Any]]", value), name)
    torch = sys.modules.get("torch")
    if torch is None and is_tensor(value):
        import torch  # anything with DLPack goes through torch
    if torch is not None and is_tensor(value):
        if not isinstance(value, torch.Tensor):
            try:
                value = torch.from_dlpack(value)
            except (BufferError, RuntimeError, TypeError) as error:
                raise LaunchError(
                    "TB603",
                    f"{name} cannot be read: {error}",
                    why="its DLPack export failed",
                    fix="pass a torch tensor or a NumPy array",
                ) from error
        if value.layout is not torch.strided:
            raise LaunchError(
                "TB603",
                f"{name} is a {value.layout} tensor",
                why="kernels take dense tensors",
                fix="pass x.to_dense()",
            )
        try:
            dtype = as_dtype(value.dtype)
        except KeyError:
            raise _no_dtype(name, str(value.dtype)) from None
        if value.requires_grad and value.grad_fn is None and not value.is_leaf:
            value = value.detach()
        if value.is_neg() or value.is_conj():
            raise LaunchError(
                "TB603",
                f"{name} is a lazy negation",
                why="its memory holds the values before the negation",
                fix="pass x.resolve_neg()",
            )
        _refuse_freed(value, name)
        device = "cpu" if value.device.type == "cpu" else f"{value.device.type}:{value.device.index or 0}"
        return TensorView(tuple(value.shape), tuple(value.stride()), dtype, device, value.data_ptr(), value)
    raise LaunchError(
        "TB603",
        f"{name} must be a tensor, got {type(value).__name__}",
        why="it is declared as a T.Tensor",
        fix="pass a torch tensor or a NumPy array",
    )


def view_param(param: Param, value: Any) -> TensorView:
    """`view` of the value of a parameter; its errors show where the parameter is declared."""
    try:
        return view(value, param.name)
    except LaunchError as error:
        error.at = error.at or param.loc
        raise


def _refuse_freed(value: Any, name: str) -> None:
    """Raises LaunchError TB603 for a torch tensor with elements and no memory for them."""
    if value.device.type == "meta":
        raise LaunchError(
            "TB603",
            f"{name} is a meta tensor",
            why="it has a shape and no data",
            fix=f"make it on a device: torch.empty_like({name}, device='cpu')",
        )
    last = sum((n - 1) * s for n, s in zip(value.shape, value.stride(), strict=True))
    needed = (value.storage_offset() + last + 1) * value.element_size() if value.numel() else 0
    there = value.untyped_storage().nbytes()
    if needed > there:
        raise LaunchError(
            "TB603",
            f"{name} has {value.numel()} elements, and its memory was freed or cut: {there} bytes of the "
            f"{needed} that it needs",
            why="its storage was resized after the tensor was made",
            fix="keep the storage, or make the tensor again",
        )


def _no_dtype(name: str, dtype: str) -> LaunchError:
    return LaunchError(
        "TB603",
        f"{name} has dtype {dtype}, which kernels do not have",
        fix="convert it, e.g. x.to(torch.float32)",
    )


def _numpy_view(value: np.ndarray, name: str) -> TensorView:
    if value.dtype.hasobject or value.dtype.kind not in "biuf":
        raise _no_dtype(name, str(value.dtype))
    if not value.dtype.isnative:
        raise LaunchError(
            "TB603",
            f"{name} is big-endian",
            why="kernels read native bytes",
            fix="x.astype(x.dtype.newbyteorder('='))",
        )
    try:
        dtype = as_dtype(value.dtype.name)
    except KeyError:
        raise _no_dtype(name, str(value.dtype)) from None
    size = value.itemsize
    if any(s % size for s in value.strides):
        raise LaunchError(
            "TB603",
            f"{name} has strides of {value.strides} bytes, not whole elements of {size}",
            fix="pass x.copy()",
        )
    strides = tuple(s // size for s in value.strides)
    return TensorView(value.shape, strides, dtype, "cpu", value.ctypes.data, value, value.flags.writeable)


def evaluate(e: Expr, symbols: Mapping[Var, int]) -> int | None:
    """The integer value of a shape expression, None while a symbol in it is unknown."""
    match e:
        case Const():
            return int(e.value)
        case Var():
            return symbols.get(e)
        case Cast():
            return evaluate(e.value, symbols)
        case Binary():
            a, b = evaluate(e.left, symbols), evaluate(e.right, symbols)
            if a is None or b is None:
                return None
            operations = {
                "add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b, "floordiv": lambda: a // b,
                "floormod": lambda: a % b, "truncdiv": lambda: int(a / b),
                "truncmod": lambda: a - b * int(a / b), "min": lambda: min(a, b), "max": lambda: max(a, b),
                "shl": lambda: a << b, "shr": lambda: a >> b,
            }  # fmt: skip
            return operations[e.op]() if e.op in operations else None
        case _:
            return None


@dataclass(frozen=True)
class Call:
    """A checked call: arguments in the order of Kernel.params, values of the symbols, the grid; device: of
    the tensors, 'cpu' or 'cuda:1', '' without any.
    """

    arguments: tuple[Argument, ...]
    symbols: Mapping[Var, int]
    grid: tuple[int, ...]
    views: tuple[TensorView | None, ...]
    device: str = ""

    def without_tensors(self) -> Call:
        """Its symbols, grid and device alone, which keep no memory alive."""
        return replace(self, arguments=(), views=())


def solve_symbols(kernel: Kernel, values: Sequence[TensorView | Any | None]) -> dict[Var, int]:
    """Values of the kernel's symbols from the tensors that are there; outputs not yet allocated are None.

    Raises LaunchError TB604 when two tensors disagree on one symbol, or an extent is not the declared one.
    """
    symbols: dict[Var, int] = {}
    said: dict[Var, str] = {}
    for _ in range(2):  # a second round settles extents that are expressions of symbols bound later
        for param, value in zip(kernel.params, values, strict=True):
            if isinstance(param.value, Var):
                if value is not None and any(param.value is s for s in kernel.symbols):
                    symbols[param.value] = int(cast("Any", value))
                continue
            if value is None:
                continue
            _solve_tensor(param, param.value, value, symbols, said)
    missing = [v.name for v in kernel.symbols if v not in symbols]
    if missing:
        raise LaunchError(
            "TB604",
            f"the extent {missing[0]} is not determined by the arguments",
            why="no input tensor has it as one of its dimensions",
            fix=f"declare an input with the extent {missing[0]}, or pass it as a scalar",
        )
    return symbols


def _solve_tensor(
    param: Param, buffer: Buffer, value: TensorView, symbols: dict[Var, int], said: dict[Var, str]
) -> None:
    for d, extent in enumerate(buffer.shape):
        actual = value.shape[d]
        if isinstance(extent, Var) and extent not in symbols:
            symbols[extent] = actual
            said[extent] = f"{param.name}.shape[{d}]"
        else:
            expected = evaluate(extent, symbols)
            if expected is None:
                _solve_extent(param, d, extent, actual, symbols, said)
            if expected is not None and expected != actual:
                from tilebench.ir.text import expr_text

                name = expr_text(extent)
                known = said[extent] if isinstance(extent, Var) and extent in said else ""
                declared = f"{name} = {expected}" if name != str(expected) else name
                raise LaunchError(
                    "TB604",
                    f"{param.name}.shape[{d}] is {actual}, expected {declared}",
                    at=param.loc,
                    why=f"{name} was set to {expected} by {known}"
                    if known
                    else f"{param.name} is declared with that extent",
                    fix="pass tensors whose shapes fit together, or make the extent T.dynamic",
                )
    for d, stride in enumerate(buffer.strides or ()):
        if isinstance(stride, Var) and stride not in symbols:
            symbols[stride] = value.strides[d]


def _solve_extent(
    param: Param, d: int, extent: Expr, actual: int, symbols: dict[Var, int], said: dict[Var, str]
) -> None:
    """The symbol that is alone unknown in an extent such as 4 * n + 1. Raises LaunchError TB604 when no whole
    number fits.
    """
    found = unknown(extent, symbols)
    if found is None:
        return
    var, factor = found
    rest = evaluate(extent, {**symbols, var: 0})
    assert rest is not None, "its other terms are known"
    value, left = divmod(actual - rest, factor)
    if left or value < 0:
        from tilebench.ir.text import expr_text

        raise LaunchError(
            "TB604",
            f"{param.name}.shape[{d}] is {actual}, expected {expr_text(extent)}",
            at=param.loc,
            why=f"there is no whole number {var.name} that gives {actual}",
            fix="pass a tensor of a shape that the declaration allows",
        )
    symbols[var] = value
    said[var] = f"{param.name}.shape[{d}]"


def _check_tensor(
    param: Param, buffer: Buffer, value: TensorView, symbols: Mapping[Var, int], device: str
) -> None:
    if value.dtype != buffer.dtype and (value.dtype.name, buffer.dtype.name) != ("float32", "tfloat32"):
        raise LaunchError(
            "TB605",
            f"{param.name} has dtype {value.dtype}, expected {buffer.dtype}",
            at=param.loc,
            why=f"it is declared T.Tensor(..., {buffer.dtype})",
            fix=f"pass {param.name}.to(torch.{buffer.dtype})"
            if not buffer.dtype.name.startswith("t")
            else "pass float32 data",
        )
    if value.device.split(":")[0] != device:
        raise LaunchError(
            "TB606",
            f"{param.name} is on {value.device}, and this kernel runs on {device}",
            why=f"the target reads {device} memory",
            fix=f"pass {param.name}.{'cuda()' if device == 'cuda' else 'cpu()'}, or choose the target "
            "that matches",
        )
    if param.role != "in" and not value.writable:
        raise LaunchError(
            "TB607", f"{param.name} is read-only", why="the kernel writes it", fix=f"pass {param.name}.copy()"
        )
    if any(s == 0 and n > 1 for s, n in zip(value.strides, value.shape, strict=True)) and param.role != "in":
        raise LaunchError(
            "TB607",
            f"{param.name} is broadcast (stride 0)",
            why="the kernel writes it",
            fix="pass a contiguous tensor",
        )
    if 0 in value.shape:
        return
    if buffer.strides is None:
        expected = 1
        for d in reversed(range(len(value.shape))):
            if value.shape[d] != 1 and value.strides[d] != expected:
                raise LaunchError(
                    "TB608",
                    f"{param.name} is not contiguous: stride[{d}] is {value.strides[d]}, expected {expected}",
                    at=param.loc,
                    why="T.Tensor is row-major",
                    fix=f"pass {param.name}.contiguous(), or declare it T.StridedTensor(shape, strides, "
                    "dtype)",
                )
            expected *= value.shape[d]
    else:
        for d, stride in enumerate(buffer.strides):
            expected_stride = evaluate(stride, symbols)
            if value.shape[d] != 1 and expected_stride != value.strides[d]:
                raise LaunchError(
                    "TB608",
                    f"{param.name}.stride({d}) is {value.strides[d]}, expected {expected_stride}",
                    at=param.loc,
                    why="it is declared with these strides",
                    fix="pass a tensor with the declared strides, or make the stride T.dynamic",
                )
    if value.pointer % max(1, min(16, buffer.dtype.bytes)):
        raise LaunchError(
            "TB609",
            f"{param.name} is not aligned to its {buffer.dtype.bytes}-byte elements",
            fix="pass a fresh copy",
        )


def _scalar(param: Param, var: Var, value: Any) -> Argument:
    item = getattr(value, "item", None)
    if item is not None and getattr(value, "numel", lambda: getattr(value, "size", 1))() == 1:
        value = item()
    if not isinstance(value, bool | int | float):
        raise LaunchError(
            "TB603",
            f"{param.name} must be a number, got {type(value).__name__}",
            at=param.loc,
            why=f"it is declared {var.dtype}",
            fix="pass a Python number",
        )
    if var.dtype.is_float:
        return float(value)
    if isinstance(value, float) and not value.is_integer():
        raise LaunchError(
            "TB605", f"{param.name} is {value}, expected {var.dtype}", at=param.loc, fix="pass a whole number"
        )
    if var.dtype.kind != "bool" and not var.dtype.min <= value <= var.dtype.max:
        raise LaunchError("TB605", f"{param.name} = {value} does not fit in {var.dtype}", at=param.loc)
    return int(value)


def bind(
    kernel: Kernel, values: Sequence[Any], device: str, *, host_arrays: bool, alignment: int = ALIGNMENT
) -> Call:
    """Check values (one for each parameter, outputs included) and make the launch arguments.

    device: 'cpu' or 'cuda'; host_arrays: give NumPy arrays too; alignment: bytes that the code relies on.
    Raises LaunchError naming the parameter, what was expected and what came.
    """
    views: list[TensorView | None] = []
    for param, value in zip(kernel.params, values, strict=True):
        if isinstance(param.value, Var):
            views.append(None)
            continue
        if value is None:
            raise LaunchError(
                "TB603",
                f"{param.name} is None",
                at=param.loc,
                why="it is declared as a tensor",
                fix="pass a tensor",
            )
        tensor = view_param(param, value)
        if len(tensor.shape) != len(param.value.shape):
            raise LaunchError(
                "TB604",
                f"{param.name} has {len(tensor.shape)} dimensions {tensor.shape}, expected "
                f"{len(param.value.shape)}",
                at=param.loc,
                why=f"{param.name} is declared with {len(param.value.shape)} extents",
                fix="reshape the tensor to the declared rank",
            )
        views.append(tensor)
    refuse_aliases(kernel, views)
    known = [v if v is not None else value for v, value in zip(views, values, strict=True)]
    symbols = solve_symbols(kernel, known)
    arguments: list[Argument] = []
    for param, value, tensor in zip(kernel.params, values, views, strict=True):
        if isinstance(param.value, Var) or tensor is None:
            assert isinstance(param.value, Var)
            arguments.append(_scalar(param, param.value, value))
            continue
        _check_tensor(param, param.value, tensor, symbols, device)
        if device == "cuda" and tensor.pointer % alignment and 0 not in tensor.shape:
            raise LaunchError(
                "TB609",
                f"{param.name} starts at an address that is not a multiple of {alignment} bytes (off by "
                f"{tensor.pointer % alignment})",
                why="the kernel moves 16 bytes at a time",
                fix=f"pass {param.name}.clone(): a slice of a tensor keeps the offset of its first element",
            )
        array = tensor.array() if host_arrays else None
        arguments.append(TensorArgument(tensor.pointer, tensor.shape, tensor.strides, array))
    scalars = {
        p.value: int(a)
        for p, a in zip(kernel.params, arguments, strict=True)
        if isinstance(p.value, Var) and not p.value.dtype.is_float and not isinstance(a, TensorArgument)
    }
    grid = grid_of(kernel, {**symbols, **scalars})
    device = next((v.device for v in views if v is not None and 0 not in v.shape), "")
    return Call(tuple(arguments), symbols, grid, tuple(views), device)
