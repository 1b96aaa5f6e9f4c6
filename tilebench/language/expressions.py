"""Expressions of the tile program: walked node by node; what is known now is Python, the rest becomes IR."""

from __future__ import annotations

import ast
import dataclasses
import functools
import operator
from collections.abc import Callable
from typing import Any, cast

from tilebench.errors import SyntaxTileError, TileError, TypeTileError, nearest
from tilebench.ir import expr as ir
from tilebench.ir.expr import Const, Expr, Load, const
from tilebench.ir.tile import Buffer, Region
from tilebench.language.calls import call
from tilebench.language.containers import Containers
from tilebench.language.dtypes import SCALARS
from tilebench.language.indexing import element_or_region
from tilebench.language.markers import ConstVar, Storage
from tilebench.language.methods import instead_of_method
from tilebench.language.names import unknown_spelling
from tilebench.language.scope import Frame

_operator: Any = operator
_BINARY: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("add", _operator.add),
    ast.Sub: ("sub", _operator.sub),
    ast.Mult: ("mul", _operator.mul),
    ast.Div: ("div", _operator.truediv),
    ast.FloorDiv: ("floordiv", _operator.floordiv),
    ast.Mod: ("floormod", _operator.mod),
    ast.Pow: ("pow", _operator.pow),
    ast.BitAnd: ("bitand", _operator.and_),
    ast.BitOr: ("bitor", _operator.or_),
    ast.BitXor: ("bitxor", _operator.xor),
    ast.LShift: ("shl", _operator.lshift),
    ast.RShift: ("shr", _operator.rshift),
    ast.MatMult: ("matmul", _operator.matmul),
}
_COMPARE: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Eq: ("eq", operator.eq),
    ast.NotEq: ("ne", operator.ne),
    ast.Lt: ("lt", operator.lt),
    ast.LtE: ("le", operator.le),
    ast.Gt: ("gt", operator.gt),
    ast.GtE: ("ge", operator.ge),
    ast.Is: ("is", operator.is_),
    ast.IsNot: ("is not", operator.is_not),
    ast.In: ("in", lambda a, b: a in b),
    ast.NotIn: ("not in", lambda a, b: a not in b),
}


def settle(value: Any) -> Any:
    """Integer and boolean constants as Python values, so that they fold on; everything else as it is."""
    if isinstance(value, Const) and value.dtype.name in ("int32", "bool"):
        return value.value
    return value


def _items_of(index: Any) -> tuple[Any, ...]:
    return cast("tuple[Any, ...]", index) if isinstance(index, tuple) else (index,)


class Expressions(Containers):
    """Evaluates expression nodes for a Walker in a Frame."""

    def __call__(self, node: ast.expr, frame: Frame) -> Any:
        """The value of an expression. Errors get the node's place."""
        method: Callable[[Any, Frame], Any] | None = getattr(self, "_" + type(node).__name__, None)
        if method is None:
            word = {"Yield": "yield", "YieldFrom": "yield from", "Await": "await"}.get(
                type(node).__name__, type(node).__name__
            )
            raise SyntaxTileError(
                "TB102",
                f"{word} is not part of the language",
                at=frame.loc(node),
                why="a tile program is compiled; it has arithmetic, indexing and calls",
                fix="compute it outside of the kernel",
            )
        try:
            value = settle(method(node, frame))
        except TileError as error:
            if error.at is None:
                error.at = frame.loc(node)
            raise
        if isinstance(value, Expr) and value.loc is None and not isinstance(value, ir.Var):
            value = dataclasses.replace(value, loc=frame.loc(node))
        return value

    # -------------------------------------------------------------- names and constants

    def _Constant(self, node: ast.Constant, frame: Frame) -> Any:
        return node.value

    def _Name(self, node: ast.Name, frame: Frame) -> Any:
        known, value = frame.find(node.id)
        if not known:
            if node.id in frame.gone:
                raise SyntaxTileError(
                    "TB105",
                    f"{node.id} is not defined here",
                    why="it was bound inside a loop or branch that has ended",
                    fix=f"declare it before: {node.id} = T.alloc_var('float32')",
                    notes=[(frame.gone[node.id], "bound here")],
                )
            raise SyntaxTileError(
                "TB101",
                f"unknown name {node.id}{nearest(node.id, frame.known())}",
                why="it is defined neither in the kernel nor around it",
                fix="define it before the kernel is compiled",
            )
        return self.read(value)

    def read(self, value: Any) -> Any:
        """What a name's value means in an expression: variables are loaded, T.const names resolved."""
        if isinstance(value, Buffer) and value.scope == "var":
            return Load(value, (const(0),), dtype=value.dtype)
        if isinstance(value, ConstVar):
            given = self.walker.given_consts.get(value.name, self.walker.foreseen.get(value.name))
            return self.walker.consts.get(value, value if given is None else given)
        return value

    def _NamedExpr(self, node: ast.NamedExpr, frame: Frame) -> Any:
        value = self.walker.named(self(node.value, frame), node.target.id, frame, node)
        frame.names[node.target.id], frame.bound_at[node.target.id] = value, frame.depth
        return self.read(value)

    # -------------------------------------------------------------- operators

    def native(
        self, node: ast.AST, frame: Frame, run: Callable[[], Any], what: str, why: str = "", fix: str = ""
    ) -> Any:
        """What Python computes, its errors located (TB211); why, fix: better than the usual ones."""
        try:
            return run()
        except TileError as error:
            if error.at is None:
                error.at = frame.loc(node)
            raise
        except Exception as error:
            raise TypeTileError(
                "TB211",
                f"{what} failed: {type(error).__name__}: {error}",
                at=frame.loc(node),
                why=why or "it is evaluated by Python while the kernel is compiled",
                fix=fix or "correct the values that it works on",
            ) from error

    def _BinOp(self, node: ast.BinOp, frame: Frame) -> Any:
        left, right = self(node.left, frame), self(node.right, frame)
        return self.operate(node.op, left, right, node.left, node.right, node, frame)

    def operate(
        self,
        op: ast.operator,
        left: Any,
        right: Any,
        left_node: ast.AST,
        right_node: ast.AST,
        node: ast.AST,
        frame: Frame,
    ) -> Any:
        """`left op right`: IR when one is, else Python's."""
        name, function = _BINARY[type(op)]
        for side, n in ((left, left_node), (right, right_node)):
            self.refuse_tile(side, n, frame)
            if isinstance(side, ConstVar):
                raise TypeTileError(
                    "TB213",
                    f"{side.name} is not known yet",
                    at=frame.loc(n),
                    why="T.const names are determined by the shapes of the arguments",
                    fix=(
                        f"declare a tensor with the extent {side.name} before: A: T.Tensor[[{side.name}, "
                        "...], dtype]"
                    ),
                )
        if isinstance(left, Expr) or isinstance(right, Expr):
            if name == "matmul":
                raise TypeTileError(
                    "TB212",
                    "@ between scalars",
                    at=frame.loc(node),
                    why="@ has no meaning for elements",
                    fix="T.gemm(A, B, C) multiplies tiles",
                )
            self._scalar(left, left_node, frame)
            self._scalar(right, right_node, frame)
            return ir.binary(cast("Any", name), left, right, frame.loc(node))
        return self.native(node, frame, lambda: function(left, right), "this operation")

    def refuse_tile(self, value: Any, node: ast.AST, frame: Frame) -> None:
        """Raise TB202 for a tile where a number is wanted."""
        if isinstance(value, Buffer | Region):
            name = value.name if isinstance(value, Buffer) else value.buffer.name
            raise TypeTileError(
                "TB202",
                f"{name} is a tile, and arithmetic is on elements",
                at=frame.loc(node),
                why="an operator works on one element at a time",
                fix=f"loop over it: for i, j in T.Parallel(...): ... {name}[i, j] ...",
            )

    def _scalar(self, value: Any, node: ast.AST, frame: Frame) -> None:
        self.refuse_tile(value, node, frame)
        if not isinstance(value, Expr | bool | int | float) and not (
            hasattr(value, "item") and getattr(value, "ndim", 0) == 0
        ):
            raise TypeTileError(
                "TB202",
                f"{type(value).__name__} {str(value)[:40]!r} is not a number",
                at=frame.loc(node),
                why="arithmetic is on numbers and elements",
                fix="use numbers and elements of buffers",
            )

    def quiet(self, node: ast.expr, frame: Frame, what: str) -> Any:
        """An expression that may be skipped at run time: it must not do anything. Raises TB114."""
        mark = self.walker.mark
        value = self(node, frame)
        if self.walker.mark > mark:
            raise SyntaxTileError(
                "TB114",
                f"an operation with an effect in {what}",
                at=frame.loc(node),
                why="it would run whether the condition holds or not",
                fix="use an if statement, and keep the result in a T.alloc_var",
            )
        return value

    def _UnaryOp(self, node: ast.UnaryOp, frame: Frame) -> Any:
        value = self(node.operand, frame)
        if not isinstance(value, Expr):
            self.refuse_tile(value, node.operand, frame)
            table: dict[type[ast.unaryop], Callable[[Any], Any]] = {
                ast.USub: operator.neg,
                ast.UAdd: operator.pos,
                ast.Invert: operator.invert,
                ast.Not: operator.not_,
            }
            return self.native(node, frame, lambda: table[type(node.op)](value), "this operation")
        match node.op:
            case ast.USub():
                return ir.unary("neg", value, frame.loc(node))
            case ast.Not():
                return ir.unary("not", value, frame.loc(node))
            case ast.Invert():
                return ir.unary("bitnot", value, frame.loc(node))
            case _:
                return value

    def _BoolOp(self, node: ast.BoolOp, frame: Frame) -> Any:
        is_and = isinstance(node.op, ast.And)
        total: Expr | None = None
        value: Any = is_and
        for part in node.values:
            value = (
                self(part, frame) if total is None else self.quiet(part, frame, "the right side of and/or")
            )
            if isinstance(value, Expr):
                total = (
                    ir.to_bool(value)
                    if total is None
                    else ir.binary("and" if is_and else "or", total, value, frame.loc(node))
                )
                continue
            self.refuse_tile(value, part, frame)
            if bool(value) != is_and:
                return value if total is None else not is_and  # decided now, whatever the run-time parts are
        return value if total is None else total

    def _Compare(self, node: ast.Compare, frame: Frame) -> Any:
        left = self(node.left, frame)
        total: Any = True
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self(right_node, frame)
            name, function = _COMPARE[type(op)]
            if (isinstance(left, Expr) or isinstance(right, Expr)) and name in (
                "eq",
                "ne",
                "lt",
                "le",
                "gt",
                "ge",
            ):
                if left is None or right is None or isinstance(left, str) or isinstance(right, str):
                    value: Any = name == "ne"
                else:
                    self._scalar(left, node.left, frame)
                    self._scalar(right, right_node, frame)
                    value = settle(ir.binary(cast("Any", name), left, right, frame.loc(node)))
            else:
                value = self.native(
                    node, frame, lambda f=function, a=left, b=right: f(a, b), "this comparison"
                )
            if isinstance(value, Expr) or isinstance(total, Expr):
                total = value if total is True else ir.binary("and", total, value, frame.loc(node))
            elif not value:
                return False if isinstance(value, bool) else value
            elif total is True:
                total = value
            left = right
        return total

    def _IfExp(self, node: ast.IfExp, frame: Frame) -> Any:
        condition = self(node.test, frame)
        if not isinstance(condition, Expr):
            return self(node.body if condition else node.orelse, frame)
        then, orelse = (
            self.quiet(node.body, frame, "a conditional expression"),
            self.quiet(node.orelse, frame, "a conditional expression"),
        )
        self._scalar(then, node.body, frame)
        self._scalar(orelse, node.orelse, frame)
        return ir.select(condition, then, orelse, frame.loc(node))

    # -------------------------------------------------------------- attributes, indices, calls

    def _Attribute(self, node: ast.Attribute, frame: Frame) -> Any:
        base = self.base(node.value, frame)
        if isinstance(base, Buffer):
            if node.attr == "shape":
                return tuple(settle(s) for s in base.shape)
            if node.attr == "dtype":
                return SCALARS.get(base.dtype.name, base.dtype)
            if node.attr == "data":
                return Storage(base)
            if node.attr == "strides" and base.strides is not None:
                return tuple(settle(s) for s in base.strides)
            if node.attr == "scope":
                return lambda: {"fragment": "local.fragment", "shared": "shared.dyn", "var": "local.var"}.get(
                    base.scope, base.scope
                )
        if isinstance(base, Expr) and node.attr == "dtype":
            return SCALARS.get(base.dtype.name, base.dtype)
        if isinstance(base, Expr) and node.attr == "astype":
            from tilebench.language.math import cast as cast_to

            return functools.partial(cast_to, base)
        if getattr(base, "__name__", "") == "tilebench.language" and not hasattr(base, node.attr):
            raise unknown_spelling(node.attr, ast.unparse(node.value), frame.loc(node))
        try:
            return self.read(getattr(base, node.attr))
        except AttributeError as error:
            raise TypeTileError(
                "TB214",
                f"{type(base).__name__} has no attribute {node.attr}{nearest(node.attr, dir(base))}",
                at=frame.loc(node),
                why="it is looked up while the kernel is compiled",
                fix=instead_of_method(base, node.attr),
            ) from error

    def base(self, node: ast.expr, frame: Frame) -> Any:
        """A value whose buffer identity is wanted: variables are not loaded."""
        if isinstance(node, ast.Name):
            known, value = frame.find(node.id)
            if known and isinstance(value, Buffer):
                return value
        return self(node, frame)

    def _Slice(self, node: ast.Slice, frame: Frame) -> Any:
        parts = [None if n is None else self(n, frame) for n in (node.lower, node.upper, node.step)]
        return slice(*parts)

    def _Subscript(self, node: ast.Subscript, frame: Frame) -> Any:
        return self.item(self.base(node.value, frame), self(node.slice, frame), node, frame)

    def item(self, base: Any, index: Any, node: ast.AST, frame: Frame) -> Any:
        """`base[index]`: an element, a slice of a buffer, or an item of a Python value."""
        if isinstance(base, Buffer | Region):
            return element_or_region(base, index, frame.loc(node))
        run_time = any(isinstance(i, Expr) for i in _items_of(index))
        if run_time and isinstance(base, list | tuple | dict | str | range):
            raise TypeTileError(
                "TB215",
                f"a Python {type(cast('Any', base)).__name__} indexed by a run-time value",
                at=frame.loc(node),
                why="it exists only while the kernel is compiled",
                fix="unroll the loop in Python (for x in list: ...), or keep the values in a buffer",
            )
        return self.read(self.native(node, frame, lambda: base[index], "this index"))

    def _Call(self, node: ast.Call, frame: Frame) -> Any:
        return call(self, node, frame)

    def iterated(self, value: Any, node: ast.AST, frame: Frame) -> list[Any]:
        """The values of `*value`."""
        if isinstance(value, Expr | Buffer | Region):
            raise TypeTileError(
                "TB225",
                f"* of a {type(value).__name__}",
                at=frame.loc(node),
                why="it spreads a list or tuple",
                fix="use a tuple",
            )
        return self.native(node, frame, lambda: list(value), "this")


def operate(
    evaluate: Expressions, op: ast.operator, left: Any, right: Any, node: ast.AugAssign, frame: Frame
) -> Any:
    """The new value of an augmented assignment."""
    return evaluate.operate(op, left, right, node.target, node.value, node, frame)
