"""Values that the spellings hand to the front-end: annotations, launches, loops, macros."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal

from tilebench.ir.dtype import DType
from tilebench.ir.tile import Buffer, Kernel, Stmt

_ids = count()


@dataclass(frozen=True)
class TensorType:
    """`T.Tensor(shape, dtype)` as an annotation. strides None: row-major."""

    shape: tuple[Any, ...]
    dtype: DType
    strides: tuple[Any, ...] | None = None
    scope: str = "global"


@dataclass(frozen=True, eq=False)
class ConstVar:
    """One name of `T.const("M, N")`: an integer that the shapes of the arguments determine."""

    name: str
    id: int = field(default_factory=lambda: next(_ids))

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Storage:
    """`A.data`: the memory of a buffer, for `T.Tensor(shape, dtype, A.data)`, a view of it."""

    buffer: Buffer


@dataclass(frozen=True)
class LaunchSpec:
    """`T.Kernel(...)`: the grid, the threads of a block."""

    grid: tuple[Any, ...]
    threads: tuple[int, ...]
    prelude: str | None = None


@dataclass(frozen=True)
class LoopSpec:
    """What a loop spelling returns; kind says how the loop runs, options are its keyword arguments."""

    kind: Literal["serial", "unroll", "vectorized", "parallel", "pipelined", "grid", "persistent", "thread"]
    extents: tuple[Any, ...] = ()
    start: Any = 0
    stop: Any = None
    step: Any = 1
    options: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class VarSpec:
    """`T.alloc_var(dtype, init)`: a variable with its first value."""

    buffer: Buffer
    init: Any = None


@dataclass(frozen=True)
class EmptySpec:
    """`T.empty(shape, dtype)`: an output of an eager function."""

    shape: tuple[Any, ...]
    dtype: DType


@dataclass(frozen=True)
class Annotation:
    """A fact for Kernel.attributes: T.annotate_layout, T.use_swizzle, ... merged by name."""

    name: str
    value: Any


@dataclass(frozen=True)
class ThreadValue:
    """`T.get_thread_binding(dim)` and relatives, resolved against the launch in force."""

    kind: Literal[
        "thread",
        "block",
        "thread_extent",
        "block_extent",
        "lane",
        "warp",
        "warp_group",
        "threads",
        "blocks",
        "flat",
        "thread_extents",
        "block_extents",
    ]
    dim: int = 0


class Pointer:
    """`T.ptr` as an annotation: a tensor whose shape the program gives, by T.make_tensor."""

    def __call__(self, dtype: Any = None, storage_scope: str = "global") -> Pointer:
        """`T.ptr()`: the same; stands for a tensor when an eager function is compiled without one."""
        del dtype, storage_scope
        return self

    def __repr__(self) -> str:
        return "T.ptr"


@dataclass(frozen=True)
class Address:
    """A parameter declared T.ptr, until T.make_tensor gives it a shape."""

    name: str


@dataclass(frozen=True)
class Deferred:
    """What a spelling does with the front-end at hand: run(walker, place) gives the call's value."""

    run: Callable[[Any, Any], Any]


@dataclass(frozen=True)
class ThreadRange:
    """`with T.ws(0, 1):` the warp groups that run the body."""

    groups: tuple[int, ...]


class PrimFunc:
    """A `@T.prim_func`: the function, parsed where it is defined, and again when what it reads has changed.

    scope: the locals of the factory around it, for annotations that Python keeps as text (in no closure).
    parsed: the kernel, by what the function read from around it (language/parse.py).
    """

    def __init__(self, function: Callable[..., Any], scope: dict[str, Any] | None = None) -> None:
        self.function = function
        self.scope = scope or {}
        self.__name__ = getattr(function, "__name__", "kernel")
        self.attrs: dict[str, Any] = {}
        self.parsed: dict[Any, Any] = {}

    @property
    def params(self) -> tuple[str, ...]:
        """The names of the parameters, which are the keys of `buffer_map`."""
        return tuple(p.name for p in self._parsed.params)

    @property
    def buffer_map(self) -> dict[str, Buffer]:
        """The tensors as declared, by parameter; a table of addresses is one of int64."""
        found = {p.name: p.value for p in self._parsed.params if isinstance(p.value, Buffer)}
        return {**found, **self._parsed.attributes.get("tables", {})}

    @property
    def body(self) -> Stmt:
        """The statements of the first launch, as tile IR."""
        return self._parsed.body

    def script(self) -> str:
        """The program as text in its own language: macros inlined, sizes and slices as numbers."""
        from tilebench.language.script import script

        return script(self._parsed)

    def show(self) -> None:
        """Print `script()`."""
        print(self.script())

    @property
    def _parsed(self) -> Kernel:
        from tilebench.language.parse import parse_to_look_at

        return parse_to_look_at(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Not from Python."""
        raise TypeError(
            f"{self.__name__} is a @T.prim_func: compile it first, k = tilebench.compile({self.__name__})"
        )

    def __repr__(self) -> str:
        return f"<prim_func {self.__name__}>"


class Macro:
    """A `@T.macro`: inlined where it is called, arguments by value (T.Ref ones by reference)."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__name__ = getattr(function, "__name__", "macro")

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else BoundMacro(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Not from Python."""
        raise TypeError(f"{self.__name__} is a @T.macro: it can be called inside a tile program only")


@dataclass(frozen=True)
class BoundMacro:
    """A macro that is a method, with its object."""

    macro: Macro
    instance: Any


class Ref:
    """`T.Ref`: annotation of a macro parameter that is passed by reference."""

    def __class_getitem__(cls, item: Any) -> Any:
        return cls
