"""`tilebench.tvm`: the few names of TVM that programs use beside the language. TVM itself is not here.

`DataType("float16").bits`; `target.Target(...)`, as a value and as a context in which it is the target;
`transform.PassContext(config=...)`, a context in which its pass configs hold;
`tirx.decl_buffer(...)`, a buffer outside of any program, to look at; `tirx.stmt_functor.post_order_visit`,
which shows the nodes of a program's tile IR, with `tirx.FloatImm` and `tirx.IntImm` for the constants among
them, and the few that build an expression (`const`, `Cast`, `reinterpret`, `Select`, `Min`, `Max`, `PrimExpr`
for their type); `IRModule({"main": program})`, what the passes of `tilebench.transform` take, and
`ir.assert_structural_equal`, which compares programs; and `error`, whose names are those of tilebench's
errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import SimpleNamespace, TracebackType
from typing import Any

from tilebench import config
from tilebench.errors import TileError
from tilebench.ir.equal import difference
from tilebench.ir.expr import Const, Expr, as_expr
from tilebench.ir.rewrite import children
from tilebench.ir.tile import Buffer, Kernel, Region, Stmt
from tilebench.language.alloc import as_shape
from tilebench.language.dtypes import NAMED
from tilebench.language.dtypes import dtype as DataType
from tilebench.language.markers import PrimFunc
from tilebench.language.math import Cast, Select, reinterpret
from tilebench.language.math import max as maximum
from tilebench.language.math import min as minimum
from tilebench.language.parse import parse_to_look_at
from tilebench.language.script import script

__all__ = ["DataType", "IRModule", "error", "ir", "target", "tirx", "transform"]


class Target(str):
    """A target by its name, or by TVM's dict {"kind": "cuda", "arch": "sm_90"}: its name, which any `target=`
    takes, and a context in which it is the target.
    """

    _entered: list[AbstractContextManager[Any]]

    def __new__(cls, target: Any, host: Any = None) -> Target:
        """The target's name. host is accepted for TVM's sake."""
        del host
        if isinstance(target, dict):
            kind, arch = str(target.get("kind", "cuda")), target.get("arch")  # pyright: ignore
            target = f"{kind}:{arch}" if arch else kind
        made = super().__new__(cls, str(target))
        made._entered = []
        return made

    def __enter__(self) -> Target:
        context = config.using(target=str(self))
        context.__enter__()
        self._entered.append(context)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.pop().__exit__(kind, value, trace)

    def __repr__(self) -> str:
        return f"Target({str(self)!r})"


def decl_buffer(shape: Any, dtype: Any = "float32", name: str = "buffer") -> Buffer:
    """A global buffer that belongs to no program. T.view and T.reshape take it."""
    kind = NAMED[dtype] if isinstance(dtype, str) and dtype in NAMED else DataType(dtype)
    return Buffer(name, tuple(as_expr(s) for s in as_shape(shape)), kind, "global")


def constant(value: Any, dtype: Any = "int32") -> Expr:
    """`tirx.const(6, "uint16")`."""
    return Cast(dtype, value)


def reinterpreted(dtype: Any, value: Any) -> Expr:
    """`tirx.reinterpret("uint32", x)`: T.reinterpret with its arguments the other way round."""
    return reinterpret(value, dtype)


class _Constants(type):
    """The type of FloatImm and IntImm: their instances are the tile IR's constants of one kind."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Const) and instance.dtype.is_float == (cls.__name__ == "FloatImm")


class FloatImm(metaclass=_Constants):
    """A constant of a float type, with `dtype` and `value`."""


class IntImm(metaclass=_Constants):
    """A constant of an integer type or bool, with `dtype` and `value`."""


def post_order_visit(node: Stmt | Expr | Region, visit: Callable[[Any], Any]) -> None:
    """Call `visit` on every node of a program (`program.body`), what is inside of a node before it."""
    for child in children(node):
        post_order_visit(child, visit)
    visit(node)


@dataclass(frozen=True)
class Function:
    """A program in a module: its parameters and statements, to look at."""

    kernel: Kernel

    @property
    def body(self) -> Stmt:
        """The statements of the first launch, as tile IR."""
        return self.kernel.body

    @property
    def params(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return tuple(p.name for p in self.kernel.params)

    def script(self) -> str:
        """The program as text in its own language."""
        return script(self.kernel)

    def show(self) -> None:
        """Print `script()`."""
        print(self.script())


class IRModule(Mapping[str, Function]):
    """Programs by name: `IRModule({"main": program})["main"].script()`."""

    def __init__(self, functions: Mapping[str, PrimFunc | Function]) -> None:
        self.functions: dict[str, Function] = {
            name: f if isinstance(f, Function) else Function(parse_to_look_at(f))
            for name, f in functions.items()
        }

    def __getitem__(self, name: str) -> Function:
        return self.functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def script(self) -> str:
        """The programs' texts, one after the other."""
        return "\n\n".join(f.script() for f in self.functions.values())

    def show(self) -> None:
        """Print `script()`."""
        print(self.script())


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = True) -> None:
    """Raise ValueError, with the first two places that differ, unless programs or their parts are the same up
    to the names of variables and buffers. map_free_vars is accepted for TVM's sake.
    """
    del map_free_vars
    found = difference(*(x.body if isinstance(x, PrimFunc | Function) else x for x in (lhs, rhs)))
    if found is not None:
        raise ValueError(f"these differ:\n{found[0]}\nand\n{found[1]}")


class PassContext:
    """A context whose pass configs hold for what is compiled in it."""

    def __init__(self, opt_level: int = 2, config: Any = None) -> None:
        del opt_level
        self.config: dict[Any, Any] = dict(config or {})
        self._entered: list[AbstractContextManager[Any]] = []

    def __enter__(self) -> PassContext:
        here = (*config.current().pass_configs, *self.config.items())
        context = config.using(pass_configs=here)
        context.__enter__()
        self._entered.append(context)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.pop().__exit__(kind, value, trace)


ir = SimpleNamespace(assert_structural_equal=assert_structural_equal)
target = SimpleNamespace(Target=Target)
transform = SimpleNamespace(PassContext=PassContext)
tirx = SimpleNamespace(
    decl_buffer=decl_buffer, FloatImm=FloatImm, IntImm=IntImm, PrimExpr=Expr, const=constant, Cast=Cast,
    reinterpret=reinterpreted, Select=Select, Min=minimum, Max=maximum,
    stmt_functor=SimpleNamespace(post_order_visit=post_order_visit),
)  # fmt: skip
error = SimpleNamespace(TVMError=TileError, InternalError=TileError)
