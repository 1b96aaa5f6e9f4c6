"""Tensors and allocation: annotations of parameters, and buffers, which the front-end names."""

from __future__ import annotations

from math import prod
from typing import Any, cast

from tilebench.errors import ArgumentError, TypeTileError
from tilebench.ir.dtype import int32
from tilebench.ir.expr import Expr, Load, Var, as_expr, int_value
from tilebench.ir.tile import Bind, Buffer, Region, Scope
from tilebench.language.dtypes import dtype as as_scalar
from tilebench.language.markers import (
    Address,
    ConstVar,
    Deferred,
    EmptySpec,
    Pointer,
    Storage,
    TensorType,
    VarSpec,
)


def as_shape(shape: Any) -> tuple[Any, ...]:
    """A shape as a tuple of ints, expressions or const names, from an int, a list, a tuple, a torch.Size."""
    if isinstance(shape, int | Expr | ConstVar):
        return (shape,)
    return tuple(n if isinstance(s, Expr) and (n := int_value(s)) is not None else s for s in shape)


class SizeError(ArgumentError, AssertionError):
    """A view of another number of bytes."""


class _TensorSpelling:
    """`T.Tensor(shape, dtype)` or `T.Tensor[shape, dtype]`."""

    def __init__(self, scope: str = "global") -> None:
        self.scope = scope

    def __call__(self, shape: Any = (), dtype: Any = "float32", data: Any = None, strides: Any = None) -> Any:
        """An annotation: shape, element type, strides in elements; or a view, when given `buffer.data`."""
        if isinstance(data, Storage):
            return view(data.buffer, shape, dtype)
        if data is not None:
            raise TypeTileError(
                "TB205",
                f"T.Tensor: data is a {type(data).__name__}",
                why="it is the memory of another buffer",
                fix="T.Tensor(shape, dtype, A.data), or T.StridedTensor(shape, strides, dtype)",
            )
        return _declared(shape, dtype, strides, self.scope)

    def __getitem__(self, item: Any) -> Any:
        """The same, spelled with brackets."""
        parts: tuple[Any, ...] = cast("tuple[Any, ...]", item) if isinstance(item, tuple) else ()
        if len(parts) == 2 and isinstance(parts[0], list | tuple):
            return self(cast("Any", parts[0]), parts[1])
        if len(parts) >= 2:
            return self(parts[:-1], parts[-1])
        raise TypeTileError(
            "TB205",
            "T.Tensor[...] takes a shape and a dtype",
            why="it declares both",
            fix="T.Tensor[[M, N], T.float16]",
        )


class _StridedSpelling:
    """`T.StridedTensor(shape, strides, dtype)` or `T.StridedTensor[shape, strides, dtype]`."""

    def __call__(self, shape: Any = (), strides: Any = None, dtype: Any = "float32") -> TensorType:
        """An annotation with strides in elements."""
        return _declared(shape, dtype, strides, "global")

    def __getitem__(self, item: Any) -> TensorType:
        """The same, spelled with brackets."""
        return self(*item)


def _declared(shape: Any, dtype: Any, strides: Any, scope: str) -> TensorType:
    sizes, steps = as_shape(shape), None if strides is None else as_shape(strides)
    if steps is not None and len(steps) != len(sizes):
        raise TypeTileError(
            "TB205",
            f"{len(steps)} strides for {len(sizes)} dimensions",
            why="each dimension has one stride",
            fix="give a stride, in elements, for each dimension",
        )
    return TensorType(sizes, as_scalar("int64" if isinstance(dtype, Pointer) else dtype), steps, scope)


Tensor = _TensorSpelling()
StridedTensor = _StridedSpelling()
FragmentBuffer = _TensorSpelling("fragment")
SharedBuffer = _TensorSpelling("shared")
LocalBuffer = _TensorSpelling("local")


def dynamic_free(sizes: tuple[Any, ...], what: str) -> tuple[Expr, ...]:
    """The extents of a tile. Raises TypeTileError TB206 for one that is not known now, or below 1."""
    fixed: list[int] = []
    for size in sizes:
        number = int_value(size) if isinstance(size, Expr | int) else None
        if number is None:
            raise TypeTileError(
                "TB206",
                f"{what}: an extent is not known when the kernel is compiled",
                why="shared memory and registers are laid out by the compiler",
                fix="use Python numbers (a parameter of the factory, T.const) for tile shapes",
            )
        if number < 1:
            raise TypeTileError(
                "TB206",
                f"{what}: an extent is {number}",
                why="a tile has at least one element",
                fix="use extents of 1 or more",
            )
        fixed.append(number)
    return tuple(as_expr(n) for n in fixed)


def _alloc(shape: Any, dtype: Any, scope: Scope, what: str) -> Buffer:
    return Buffer("", dynamic_free(as_shape(shape), what), as_scalar(dtype), scope)


def alloc_buffer(shape: Any, dtype: Any = "float32", scope: str = "shared", **accepted: Any) -> Buffer:
    """A tile by its scope: shared, local.fragment (or fragment), local. Other options change no value."""
    del accepted
    kind = {"local.fragment": "fragment", "shared.dyn": "shared"}.get(scope, scope)
    if kind not in ("shared", "fragment", "local"):
        raise TypeTileError(
            "TB206", f"alloc_buffer: scope {scope!r}", why="tiles are shared, fragment or local",
            fix='scope="shared"',
        )  # fmt: skip
    return _alloc(shape, dtype, cast("Scope", kind), "T.alloc_buffer")


def alloc_shared(shape: Any, dtype: Any = "float32", scope: str = "shared.dyn") -> Buffer:
    """A tile in the block's shared memory. scope is accepted for TileLang's sake."""
    del scope
    return _alloc(shape, dtype, "shared", "T.alloc_shared")


def alloc_fragment(shape: Any, dtype: Any = "float32", scope: str = "local.fragment") -> Buffer:
    """A tile spread over the registers of the block's threads; its layout is inferred."""
    del scope
    return _alloc(shape, dtype, "fragment", "T.alloc_fragment")


def alloc_local(shape: Any, dtype: Any = "float32", scope: str = "local") -> Buffer:
    """An array of each thread."""
    del scope
    return _alloc(shape, dtype, "local", "T.alloc_local")


def alloc_var(dtype: Any, *args: Any, init: Any = None, scope: str = "local.var") -> VarSpec:
    """A scalar variable: `v = T.alloc_var("int32", 0)`; plain assignment stores to it."""
    del scope
    for arg in args:
        if not isinstance(arg, str):
            init = arg
    return VarSpec(Buffer("", (as_expr(1),), as_scalar(dtype), "var"), init)


def alloc_global(shape: Any, dtype: Any = "float32") -> Buffer:
    """A workspace in global memory, allocated for each launch."""
    return Buffer("", tuple(as_expr(s) for s in as_shape(shape)), as_scalar(dtype), "global", workspace=True)


def empty(*shape: Any, dtype: Any = "float32") -> EmptySpec:
    """An output of an eager function: `C = T.empty((M, N), dtype)`, then `return C`."""
    sizes: list[Any] = list(shape)
    if sizes and isinstance(sizes[0], list | tuple):
        if len(sizes) > 1:
            dtype = sizes[1]
        sizes = list(cast("list[Any]", sizes[0]))
    elif len(sizes) > 1 and not isinstance(sizes[-1], int | Expr | ConstVar):
        dtype = sizes.pop()
    return EmptySpec(as_shape(sizes), as_scalar(dtype))


ptr = Pointer()
handle = ptr
"""What `T.match_buffer` makes a tensor of."""


def make_tensor(ptr: Any, shape: Any, dtype: Any = "float32", strides: Any = None) -> Any:
    """The tensor behind an address, of the shape and type that the program says.

    `A = T.make_tensor(a, (M, N), dtype)` of a parameter that is declared T.ptr, or
    `T.make_tensor(table[i], (M, N), dtype)` of an entry of `table: T.Tensor((G,), T.ptr)`.

    The call takes a tensor of that shape, or its address; a table holds the addresses of G tensors of that
    shape, which are gathered before the launch, and put back after it when the kernel writes them.
    Raises TypeTileError TB205 for any other address.
    """
    kind = _declared(shape, dtype, strides, "global")
    if isinstance(ptr, Load):
        return Deferred(lambda walker, at: _of_table(walker, ptr, kind, at))
    if not isinstance(ptr, Address):
        raise TypeTileError(
            "TB205",
            f"make_tensor of a {type(ptr).__name__}",
            why="an address is a parameter declared T.ptr, or an entry of one declared T.Tensor((G,), T.ptr)",
            fix="T.make_tensor(table[i], shape, dtype) as one expression, or pass the tensors as parameters",
        )

    def run(walker: Any, at: Any) -> Buffer:
        walker.attributes["pointers"] = (*walker.attributes.get("pointers", ()), ptr.name)
        return _tensor_at(walker, ptr, kind, at)

    return Deferred(run)


def _tensor_at(walker: Any, address: Address, kind: TensorType, at: Any) -> Buffer:
    """The parameter, as the tensor that the program says it is."""
    from tilebench.language.tensors import as_buffer

    shape = tuple(walker.evaluate.read(s) for s in kind.shape)
    made = as_buffer(address.name, TensorType(shape, kind.dtype, kind.strides, kind.scope), at)
    walker.parameters[address.name] = made
    return made


def match_buffer(
    param: Any,
    shape: Any,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "default",
    axis_separators: Any = None,
) -> Any:
    """`A = T.match_buffer(a, (M, N), dtype)`: the parameter `a: T.handle` is a tensor of that shape and type.

    align, offset_factor, buffer_type and axis_separators are accepted: every tensor of a call is checked.
    Raises TypeTileError TB205 for what is no parameter, or a tensor that begins elsewhere.
    """
    del align, offset_factor, buffer_type, axis_separators
    kind = _declared(shape, dtype, strides, "global")
    if not isinstance(param, Address) or data is not None or elem_offset is not None or scope != "global":
        raise TypeTileError(
            "TB205",
            f"match_buffer of a {type(param).__name__}"
            if not isinstance(param, Address)
            else "match_buffer of a part of a tensor",
            why="it says what a parameter declared T.handle is, as a whole",
            fix="A: T.Tensor(shape, dtype) as the parameter's type",
        )
    return Deferred(lambda walker, at: _tensor_at(walker, param, kind, at))


def _of_table(walker: Any, entry: Load, kind: TensorType, at: Any) -> Region:
    """An entry of a table of addresses: a row of the tensor that the call gathers."""
    table = entry.buffer
    name, rows = table.name, int_value(table.shape[0])
    sizes = [int_value(as_expr(walker.evaluate.read(s))) for s in kind.shape]
    known = walker.parameters.get(name)
    if known is table and table.dtype == "int64" and len(table.shape) == 1 and rows is not None:
        if None in sizes or kind.strides is not None:
            raise TypeTileError(
                "TB205", f"the tensors of {name} have a shape that is not known when the kernel is compiled",
                at=at, why="the tensors of a table are gathered into one", fix="use numbers for the shape",
            )  # fmt: skip
        known = Buffer(name, tuple(as_expr(n) for n in (rows, *sizes)), kind.dtype, "global", loc=at)
        walker.parameters[name] = known
        walker.attributes["tables"] = {**walker.attributes.get("tables", {}), name: table}
    if walker.attributes.get("tables", {}).get(name) is not table:
        raise TypeTileError(
            "TB205", f"make_tensor of an element of {name}", at=at, why="it is no table of addresses",
            fix=f"declare {name}: T.Tensor((G,), T.ptr), with a number G",
        )  # fmt: skip
    if list(known.static_shape[1:]) != sizes or known.dtype != kind.dtype:
        raise TypeTileError(
            "TB205", f"the tensors of {name} are given another shape or type than before", at=at,
            why="all tensors of a table have one shape and one type", fix="use another table",
        )  # fmt: skip
    row = Var("entry", dtype=entry.indices[0].dtype)
    walker.emit(Bind(row, entry.indices[0]), at)
    offsets = (row, *(as_expr(0) for _ in sizes))
    return Region(known, offsets, (1, *known.static_shape[1:]), frozenset({0}), loc=at)


def const(name: str, dtype: Any = "int32") -> Any:
    """`M, N = T.const("M, N")`: integers taken from the shapes of the tensors (eager functions)."""
    del dtype
    made = tuple(ConstVar(n) for n in name.replace(",", " ").split())
    return made[0] if len(made) == 1 else made


def dynamic(name: str, dtype: Any = "int32") -> Any:
    """`m = T.dynamic("m")`: an extent known only at the call. Several names give a tuple."""
    kind = as_scalar(dtype) if dtype != "int32" else int32
    made = tuple(Var(n, dtype=kind) for n in name.replace(",", " ").split())
    return made[0] if len(made) == 1 else made


def symbolic(name: str, dtype: Any = "int32") -> Any:
    """Old spelling of T.dynamic."""
    return dynamic(name, dtype)


def view(src: Buffer, shape: Any = None, dtype: Any = None, strides: Any = None) -> Buffer:
    """The same storage with another shape and dtype; the number of bytes must agree. Given strides must
    be those of rows that lie one behind the other.
    """
    if any(int_value(s) is None for s in src.shape):
        raise TypeTileError(
            "TB207",
            f"view: the size of {src.name} is not known when the kernel is compiled",
            why="a view shows the same bytes, which are counted now",
            fix="view a tile, or declare the tensor with numbers",
        )
    kind = as_scalar(dtype) if dtype is not None else src.dtype
    sizes = src.static_shape if shape is None else tuple(int(s) for s in as_shape(shape))
    have, want = 1, 1
    for n in src.static_shape:
        have *= n
    for n in sizes:
        want *= n
    if shape is None and kind.bits != src.dtype.bits:
        sizes = (*sizes[:-1], sizes[-1] * src.dtype.bits // kind.bits)
        want = have * src.dtype.bits // kind.bits
    if have * src.dtype.bits != want * kind.bits:
        raise SizeError(
            "TB207",
            f"view: {src.name} has {have * src.dtype.bits // 8} bytes, {'x'.join(map(str, sizes))} of "
            f"{kind} has {want * kind.bits // 8}",
            why="a view shows the same bytes",
            fix="choose a shape with the same number of bytes",
        )
    given = None if strides is None else [int_value(as_expr(s)) for s in strides]
    if given is not None and given != [prod(sizes[d + 1 :]) for d in range(len(sizes))]:
        raise TypeTileError(
            "TB209",
            f"view: strides of {', '.join(map(str, given))} elements for {'x'.join(map(str, sizes))}",
            why="the rows of a view lie one behind the other, as those of its buffer do",
            fix="leave strides out and exchange the indices, or T.transpose the tile",
        )
    return Buffer("", tuple(as_expr(s) for s in sizes), kind, src.scope, view_of=src)


def reshape(src: Buffer, shape: Any) -> Buffer:
    """The same elements with another shape."""
    return view(src, shape)
