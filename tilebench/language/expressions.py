"""Expressions of the tile program: walked node by node; what is known now is Python, the rest becomes IR."""

from __future__ import annotations

import ast
import dataclasses
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from tilebench.errors import SyntaxTileError, TileError, TypeTileError, nearest
from tilebench.ir import expr as ir
from tilebench.ir.expr import Const, Expr, Load, as_expr, const, int_value
from tilebench.ir.simplify import linear
from tilebench.ir.tile import Buffer, Region, Stmt
from tilebench.language.dtypes import SCALARS
from tilebench.language.markers import BoundMacro, ConstVar, LoopSpec, Macro, ThreadValue
from tilebench.language.scope import Frame
from tilebench.ops.base import Effect

if TYPE_CHECKING:
    from tilebench.language.walker import Walker

_BINARY: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("add", operator.add), ast.Sub: ("sub", operator.sub), ast.Mult: ("mul", operator.mul), ast.Div: ("div", operator.truediv),
    ast.FloorDiv: ("floordiv", operator.floordiv), ast.Mod: ("floormod", operator.mod), ast.Pow: ("pow", operator.pow),
    ast.BitAnd: ("bitand", operator.and_), ast.BitOr: ("bitor", operator.or_), ast.BitXor: ("bitxor", operator.xor),
    ast.LShift: ("shl", operator.lshift), ast.RShift: ("shr", operator.rshift), ast.MatMult: ("matmul", operator.matmul),
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Eq: ("eq", operator.eq), ast.NotEq: ("ne", operator.ne), ast.Lt: ("lt", operator.lt), ast.LtE: ("le", operator.le),
    ast.Gt: ("gt", operator.gt), ast.GtE: ("ge", operator.ge), ast.Is: ("is", operator.is_), ast.IsNot: ("is not", operator.is_not),
    ast.In: ("in", lambda a, b: a in b), ast.NotIn: ("not in", lambda a, b: a not in b),
}  # fmt: skip


def settle(value: Any) -> Any:
    """Integer and boolean constants as Python values, so that they fold on; everything else as it is."""
    if isinstance(value, Const) and value.dtype.name in ("int32", "bool"):
        return value.value
    return value


def is_ir(value: Any) -> bool:
    """Whether a value is known only when the kernel runs."""
    return isinstance(value, Expr) and not (isinstance(value, Const) and value.dtype.kind in ("bool", "int", "uint"))


class Expressions:
    """Evaluates expression nodes for a Walker in a Frame."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker

    def __call__(self, node: ast.expr, frame: Frame) -> Any:
        """The value of an expression. Errors get the node's place."""
        method: Callable[[Any, Frame], Any] | None = getattr(self, "_" + type(node).__name__, None)
        if method is None:
            raise SyntaxTileError("TB102", f"{type(node).__name__} is not part of the language", at=frame.loc(node), fix="compute it outside of the kernel")
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
                    "TB105", f"{node.id} is not defined here", why="it was bound inside a loop or branch that has ended",
                    fix=f"declare it before: {node.id} = T.alloc_var('float32')", notes=[(frame.gone[node.id], "bound here")],
                )  # fmt: skip
            raise SyntaxTileError(
                "TB101", f"unknown name {node.id}{nearest(node.id, frame.known())}", why="it is defined neither in the kernel nor around it",
                fix="define it before the kernel is compiled",
            )  # fmt: skip
        return self.read(value)

    def read(self, value: Any) -> Any:
        """What a name's value means in an expression: variables are loaded, T.const names and thread names resolved."""
        if isinstance(value, Buffer) and value.scope == "var":
            return Load(value, (const(0),), dtype=value.dtype)
        if isinstance(value, ConstVar):
            given = self.walker.given_consts.get(value.name)
            return self.walker.consts.get(value, value if given is None else given)
        return value

    def _NamedExpr(self, node: ast.NamedExpr, frame: Frame) -> Any:
        value = self(node.value, frame)
        frame.names[node.target.id] = value
        return value

    # -------------------------------------------------------------- operators

    def _native(self, node: ast.AST, frame: Frame, run: Callable[[], Any], what: str) -> Any:
        try:
            return run()
        except TileError as error:
            if error.at is None:
                error.at = frame.loc(node)
            raise
        except Exception as error:
            raise TypeTileError(
                "TB211", f"{what} failed: {type(error).__name__}: {error}", at=frame.loc(node), why="it is evaluated by Python while the kernel is compiled",
                fix="correct the values that it works on",
            ) from error  # fmt: skip

    def _BinOp(self, node: ast.BinOp, frame: Frame) -> Any:
        left, right = self(node.left, frame), self(node.right, frame)
        name, function = _BINARY[type(node.op)]
        if isinstance(left, Expr) or isinstance(right, Expr):
            if name == "matmul":
                raise TypeTileError("TB212", "@ between scalars", at=frame.loc(node), fix="T.gemm(A, B, C) multiplies tiles")
            self._scalar(left, node.left, frame)
            self._scalar(right, node.right, frame)
            return ir.binary(cast(Any, name), left, right, frame.loc(node))
        for side, n in ((left, node.left), (right, node.right)):
            if isinstance(side, Buffer | Region):
                self._scalar(side, n, frame)
            if isinstance(side, ConstVar):
                raise TypeTileError(
                    "TB213", f"{side.name} is not known yet", at=frame.loc(n), why="T.const names are determined by the shapes of the arguments",
                    fix=f"declare a tensor with the extent {side.name} before: A: T.Tensor[[{side.name}, ...], dtype]",
                )  # fmt: skip
        return self._native(node, frame, lambda: function(left, right), "this operation")

    def _scalar(self, value: Any, node: ast.AST, frame: Frame) -> None:
        if isinstance(value, Buffer | Region):
            name = value.name if isinstance(value, Buffer) else value.buffer.name
            raise TypeTileError(
                "TB202", f"{name} is a tile, and arithmetic is on elements", at=frame.loc(node), why="an operator works on one element at a time",
                fix=f"loop over it: for i, j in T.Parallel(...): ... {name}[i, j] ...",
            )  # fmt: skip
        if not isinstance(value, Expr | bool | int | float) and not hasattr(value, "item"):
            raise TypeTileError("TB202", f"{type(value).__name__} {str(value)[:40]!r} is not a number", at=frame.loc(node), fix="use numbers and elements of buffers")

    def _UnaryOp(self, node: ast.UnaryOp, frame: Frame) -> Any:
        value = self(node.operand, frame)
        if not isinstance(value, Expr):
            if isinstance(value, Buffer | Region):
                self._scalar(value, node.operand, frame)
            table: dict[type[ast.unaryop], Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert, ast.Not: operator.not_}
            return self._native(node, frame, lambda: table[type(node.op)](value), "this operation")
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
        total: Any = None
        for part in node.values:
            value = self(part, frame)
            if not isinstance(value, Expr):
                if total is None:
                    if bool(value) != is_and:
                        return value
                    last = value
                    if part is node.values[-1]:
                        return last
                    continue
                if bool(value) == is_and:
                    continue
                return value
            total = value if total is None else ir.binary("and" if is_and else "or", total, value, frame.loc(node))
        return is_and if total is None else ir.to_bool(total)

    def _Compare(self, node: ast.Compare, frame: Frame) -> Any:
        left = self(node.left, frame)
        total: Any = True
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self(right_node, frame)
            name, function = _COMPARE[type(op)]
            if (isinstance(left, Expr) or isinstance(right, Expr)) and name in ("eq", "ne", "lt", "le", "gt", "ge"):
                if left is None or right is None or isinstance(left, str) or isinstance(right, str):
                    value: Any = name == "ne"
                else:
                    self._scalar(left, node.left, frame)
                    self._scalar(right, right_node, frame)
                    value = settle(ir.binary(cast(Any, name), left, right, frame.loc(node)))
            else:
                value = self._native(node, frame, lambda f=function, a=left, b=right: f(a, b), "this comparison")
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
        then, orelse = self(node.body, frame), self(node.orelse, frame)
        self._scalar(then, node.body, frame)
        self._scalar(orelse, node.orelse, frame)
        return ir.select(condition, then, orelse, frame.loc(node))

    # -------------------------------------------------------------- containers and comprehensions

    def _Tuple(self, node: ast.Tuple, frame: Frame) -> Any:
        return tuple(self._items(node.elts, frame))

    def _List(self, node: ast.List, frame: Frame) -> Any:
        return self._items(node.elts, frame)

    def _Set(self, node: ast.Set, frame: Frame) -> Any:
        return set(self._items(node.elts, frame))

    def _items(self, nodes: Sequence[ast.expr], frame: Frame) -> list[Any]:
        out: list[Any] = []
        for n in nodes:
            if isinstance(n, ast.Starred):
                out.extend(self(n.value, frame))
            else:
                out.append(self(n, frame))
        return out

    def _Dict(self, node: ast.Dict, frame: Frame) -> Any:
        table: dict[Any, Any] = {}
        for k, v in zip(node.keys, node.values, strict=True):
            if k is None:
                table.update(self(v, frame))
            else:
                table[self(k, frame)] = self(v, frame)
        return table

    def _JoinedStr(self, node: ast.JoinedStr, frame: Frame) -> str:
        parts: list[str] = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                value = self(part.value, frame)
                spec = self(part.format_spec, frame) if part.format_spec is not None else ""
                shown = {115: str, 114: repr, 97: ascii}.get(part.conversion, lambda v: v)(value)
                parts.append(format(shown, spec) if spec else str(shown))
            else:
                parts.append(str(cast(ast.Constant, part).value))
        return "".join(parts)

    def _comprehension(self, node: Any, frame: Frame, element: Callable[[Frame], Any]) -> list[Any]:
        inner = dataclasses.replace(frame, names=dict(frame.names))
        out: list[Any] = []

        def run(level: int) -> None:
            if level == len(node.generators):
                out.append(element(inner))
                return
            generator = node.generators[level]
            values = self(generator.iter, inner)
            if isinstance(values, LoopSpec):
                if values.kind != "serial" or not all(isinstance(v, int) for v in (values.start, values.stop, values.step)):
                    raise SyntaxTileError("TB104", "a comprehension over a run-time loop", at=frame.loc(generator.iter), fix="use a for statement")
                values = range(values.start, values.stop, values.step)
            for value in values:
                self.walker.bind_target(generator.target, value, inner)
                if all(self(c, inner) for c in generator.ifs):
                    run(level + 1)

        run(0)
        return out

    def _ListComp(self, node: ast.ListComp, frame: Frame) -> list[Any]:
        return self._comprehension(node, frame, lambda f: self(node.elt, f))

    def _GeneratorExp(self, node: ast.GeneratorExp, frame: Frame) -> Any:
        return self._comprehension(node, frame, lambda f: self(node.elt, f))

    def _SetComp(self, node: ast.SetComp, frame: Frame) -> set[Any]:
        return set(self._comprehension(node, frame, lambda f: self(node.elt, f)))

    def _DictComp(self, node: ast.DictComp, frame: Frame) -> dict[Any, Any]:
        return dict(self._comprehension(node, frame, lambda f: (self(node.key, f), self(node.value, f))))

    def _Lambda(self, node: ast.Lambda, frame: Frame) -> Any:
        names = [a.arg for a in node.args.args]
        defaults = [self(d, frame) for d in node.args.defaults]

        def function(*values: Any) -> Any:
            full = list(values) + defaults[len(defaults) - (len(names) - len(values)) :] if len(values) < len(names) else list(values)
            inner = dataclasses.replace(frame, names={**frame.names, **dict(zip(names, full, strict=True))})
            return self(node.body, inner)

        return function

    def _Starred(self, node: ast.Starred, frame: Frame) -> Any:
        raise SyntaxTileError("TB102", "a starred expression stands in a call or a list", at=frame.loc(node))

    # -------------------------------------------------------------- attributes, indices, calls

    def _Attribute(self, node: ast.Attribute, frame: Frame) -> Any:
        base = self._base(node.value, frame)
        if isinstance(base, Buffer):
            if node.attr == "shape":
                return tuple(settle(s) for s in base.shape)
            if node.attr == "dtype":
                return SCALARS.get(base.dtype.name, base.dtype)
            if node.attr == "strides" and base.strides is not None:
                return tuple(settle(s) for s in base.strides)
            if node.attr == "scope":
                return lambda: {"fragment": "local.fragment", "shared": "shared.dyn", "var": "local.var"}.get(base.scope, base.scope)
        if isinstance(base, Expr) and node.attr == "dtype":
            return SCALARS.get(base.dtype.name, base.dtype)
        if isinstance(base, Expr) and node.attr == "astype":
            from tilebench.language.math import cast as cast_to

            return lambda dtype: cast_to(base, dtype)
        try:
            return self.read(getattr(base, node.attr))
        except AttributeError as error:
            if getattr(base, "__name__", "") == "tilebench.language":
                raise SyntaxTileError(
                    "TB120", f"unknown name T.{node.attr}{nearest(node.attr, dir(base))}", at=frame.loc(node), why="the language has no such name",
                    fix="`tilebench.compat` says what stands for a TileLang name" if node.attr[:1].islower() else "see dir(T)",
                ) from error  # fmt: skip
            raise TypeTileError(
                "TB214", f"{type(base).__name__} has no attribute {node.attr}{nearest(node.attr, dir(base))}", at=frame.loc(node),
                fix="buffers have .shape, .dtype and .scope()" if isinstance(base, Buffer) else "",
            ) from error  # fmt: skip
        except TileError:
            raise

    def _base(self, node: ast.expr, frame: Frame) -> Any:
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
        base = self._base(node.value, frame)
        index = self(node.slice, frame)
        if isinstance(base, Buffer | Region):
            return self.element_or_region(base, index, node, frame)
        if isinstance(base, ThreadValue):
            raise TypeTileError("TB214", "a thread index is a number", at=frame.loc(node))
        if isinstance(index, Expr) or (isinstance(index, tuple) and any(isinstance(i, Expr) for i in cast("tuple[Any, ...]", index))):
            raise TypeTileError(
                "TB215", f"a Python {type(base).__name__} indexed by a value that is known only at run time", at=frame.loc(node),
                why="the list exists only while the kernel is compiled", fix="unroll the loop in Python (for x in list: ...), or keep the values in a buffer",
            )  # fmt: skip
        return self.read(self._native(node, frame, lambda: base[index], "this index"))

    def element_or_region(self, base: Buffer | Region, index: Any, node: ast.AST, frame: Frame) -> Load | Region:
        """`buffer[...]`: an element when every dimension has a scalar index, else a region."""
        at = frame.loc(node)
        if isinstance(base, Region):
            return self._subregion(base, index, node, frame)
        items: list[Any] = list(cast("tuple[Any, ...]", index)) if isinstance(index, tuple) else [index]
        rank = len(base.shape)
        if Ellipsis in [i for i in items if not isinstance(i, Expr)]:
            k = next(n for n, i in enumerate(items) if i is Ellipsis)
            items[k : k + 1] = [slice(None)] * (rank - len(items) + 1)
        if len(items) > rank:
            shape = ", ".join(str(settle(s)) if not is_ir(s) else "?" for s in base.shape)
            raise TypeTileError("TB216", f"{base.name} has {rank} dimensions ({shape}), indexed with {len(items)}", at=at, fix=f"give {rank} indices")
        if len(items) == rank and not any(isinstance(i, slice) for i in items):
            return Load(base, tuple(self._index(base, d, i, at) for d, i in enumerate(items)), dtype=base.dtype, loc=at)
        items += [slice(None)] * (rank - len(items))
        offsets: list[Expr] = []
        extents: list[int] = []
        dropped: set[int] = set()
        for d, item in enumerate(items):
            if isinstance(item, slice):
                start, extent = self._slice(base, d, item, at)
                offsets.append(start)
                extents.append(extent)
            else:
                offsets.append(self._index(base, d, item, at))
                extents.append(1)
                dropped.add(d)
        return Region(base, tuple(offsets), tuple(extents), frozenset(dropped), loc=at)

    def _subregion(self, base: Region, index: Any, node: ast.AST, frame: Frame) -> Load | Region:
        at = frame.loc(node)
        items: list[Any] = list(cast("tuple[Any, ...]", index)) if isinstance(index, tuple) else [index]
        kept = [d for d in range(len(base.extents)) if d not in base.dropped]
        if len(items) > len(kept):
            raise TypeTileError("TB216", f"this slice of {base.buffer.name} has {len(kept)} dimensions, indexed with {len(items)}", at=at)
        offsets, extents, dropped = list(base.offsets), list(base.extents), set(base.dropped)
        for d, item in zip(kept, items, strict=False):
            if isinstance(item, slice):
                start, stop = item.start if item.start is not None else 0, item.stop if item.stop is not None else base.extents[d]
                offsets[d] = offsets[d] + start
                extents[d] = self._extent(start, stop, base.buffer.name, d, at)
            else:
                offsets[d] = offsets[d] + item
                extents[d] = 1
                dropped.add(d)
        if len(dropped) == len(extents):
            return Load(base.buffer, tuple(offsets), dtype=base.dtype, loc=at)
        return Region(base.buffer, tuple(offsets), tuple(extents), frozenset(dropped), loc=at)

    def _index(self, buffer: Buffer, d: int, item: Any, at: Any) -> Expr:
        if isinstance(item, Buffer | Region) or not isinstance(item, Expr | int) and not hasattr(item, "__index__"):
            raise TypeTileError("TB217", f"{buffer.name}: index {d} is a {type(item).__name__}", at=at, why="indices are whole numbers", fix="index with integers")
        e = as_expr(item if isinstance(item, Expr | int) else int(item))
        if e.dtype.is_float:
            raise TypeTileError("TB217", f"{buffer.name}: index {d} is a {e.dtype}", at=at, why="indices are whole numbers", fix="use // for division, or T.cast(x, 'int32')")
        number, size = int_value(e), int_value(buffer.shape[d])
        if number is not None and size is not None:
            if not -size <= number < size:
                raise TypeTileError(
                    "TB218", f"{buffer.name}: index {number} is outside of dimension {d}, which has {size} elements", at=at,
                    why=f"valid indices are 0 to {size - 1} (and -{size} to -1, from the end)", fix=f"the last element is {buffer.name}[{'..., ' if d else ''}{size - 1}]",
                )  # fmt: skip
            return const(number % size)
        if number is not None and number < 0:
            return buffer.shape[d] + number
        return e

    def _slice(self, buffer: Buffer, d: int, item: slice, at: Any) -> tuple[Expr, int]:
        if item.step not in (None, 1):
            raise TypeTileError("TB219", f"{buffer.name}: a slice with step {item.step}", at=at, why="tiles are boxes", fix="copy the box and pick the elements in a loop")
        size = settle(buffer.shape[d])
        start = 0 if item.start is None else item.start
        stop = size if item.stop is None else item.stop
        if isinstance(size, int):
            start = start + size if isinstance(start, int) and start < 0 else start
            stop = stop + size if isinstance(stop, int) and stop < 0 else stop
        return as_expr(start), self._extent(start, stop, buffer.name, d, at)

    def _extent(self, start: Any, stop: Any, name: str, d: int, at: Any) -> int:
        if isinstance(start, int) and isinstance(stop, int):
            extent: int | None = stop - start
        else:
            form = linear(as_expr(stop) - as_expr(start))
            extent = form.constant if not form.terms else None
            if extent is None:
                extent = self._cancel(as_expr(stop), as_expr(start))
        if extent is None:
            raise TypeTileError(
                "TB219", f"{name}: the extent of dimension {d} is not known when the kernel is compiled", at=at, why="tile shapes are fixed; only their place may vary",
                fix=f"write the slice as {name}[start : start + SIZE] with a Python number SIZE",
            )  # fmt: skip
        if extent < 1:
            raise TypeTileError("TB219", f"{name}: the slice of dimension {d} has {extent} elements", at=at, fix="stop must be greater than start")
        return extent

    def _cancel(self, stop: Expr, start: Expr) -> int | None:
        """stop - start when both are the same expression plus constants, compared by structure."""
        a, b = linear(stop), linear(start)
        left = list(b.terms)
        for term, factor in a.terms:
            match = next((t for t in left if t[1] == factor and ir.same(t[0], term)), None)
            if match is None:
                return None
            left.remove(match)
        return None if left else a.constant - b.constant

    def _Call(self, node: ast.Call, frame: Frame) -> Any:
        function = self._base(node.func, frame)
        positional: list[Any] = []
        for a in node.args:
            if isinstance(a, ast.Starred):
                positional.extend(self(a.value, frame))
            else:
                positional.append(self._argument(a, frame))
        named: dict[str, Any] = {}
        for k in node.keywords:
            if k.arg is None:
                named.update(self(k.value, frame))
            else:
                named[k.arg] = self._argument(k.value, frame)
        if isinstance(function, Macro | BoundMacro) or getattr(function, "is_local_function", False):
            return self.walker.inline(function, positional, named, node, frame)
        builtin = self._builtin(function, positional, node, frame)
        if builtin is not NotImplemented:
            return builtin
        if not callable(function):
            raise TypeTileError("TB214", f"{type(function).__name__} cannot be called", at=frame.loc(node.func))
        return self.walker.finish_call(self._call(function, positional, named, node, frame), node, frame)

    def _call(self, function: Any, positional: list[Any], named: dict[str, Any], node: ast.Call, frame: Frame) -> Any:
        try:
            return function(*positional, **named)
        except TileError as error:
            if error.at is None:
                error.at = frame.loc(node)
            raise
        except Exception as error:
            what = getattr(function, "__name__", type(function).__name__)
            raise TypeTileError(
                "TB211", f"{what}() failed: {type(error).__name__}: {error}", at=frame.loc(node),
                why="it is called by Python while the kernel is compiled", fix="correct its arguments",
            ) from error  # fmt: skip

    def _argument(self, node: ast.expr, frame: Frame) -> Any:
        """An argument: a variable is passed by value, as a load; a buffer as itself."""
        return self(node, frame)

    def _builtin(self, function: Any, values: list[Any], node: ast.Call, frame: Frame) -> Any:
        """Python built-ins that mean something on run-time values."""
        if function is range:
            return LoopSpec("serial", start=0 if len(values) == 1 else values[0], stop=values[0] if len(values) == 1 else values[1], step=values[2] if len(values) > 2 else 1)
        if not any(isinstance(v, Expr) for v in values):
            return NotImplemented
        if function in (min, max) and len(values) > 1:
            total = values[0]
            for v in values[1:]:
                total = ir.binary("min" if function is min else "max", total, v, frame.loc(node))
            return total
        if function is abs:
            return ir.call("abs", values, values[0].dtype, frame.loc(node))
        if function in (int, float, bool):
            kind = {int: "int32", float: "float32", bool: "bool"}[function]
            return ir.cast(values[0], SCALARS[kind], frame.loc(node))
        if function is pow and len(values) == 2:
            return ir.binary("pow", values[0], values[1], frame.loc(node))
        if function is sum or function is divmod or function is round:
            raise TypeTileError("TB215", f"{function.__name__}() of run-time values", at=frame.loc(node), fix="write the operators, or T.reduce_sum")
        return NotImplemented


def statement_of(value: Any) -> Stmt | None:
    """The statement in what a spelling returned, if it is one."""
    if isinstance(value, Stmt):
        return value
    return value.stmt if isinstance(value, Effect) else None
