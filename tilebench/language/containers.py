"""Python's containers, comprehensions, f-strings and lambdas: evaluated while the program is compiled."""

from __future__ import annotations

import ast
import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from tilebench.errors import SyntaxTileError
from tilebench.ir.expr import Expr
from tilebench.ir.tile import Buffer, Region
from tilebench.language.markers import LoopSpec
from tilebench.language.scope import Frame

if TYPE_CHECKING:
    from tilebench.language.walker import Walker


class Containers:
    """The part of Expressions that makes Python values."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker

    @abstractmethod
    def __call__(self, node: ast.expr, frame: Frame) -> Any:
        """The value of an expression."""

    @abstractmethod
    def native(self, node: ast.AST, frame: Frame, run: Callable[[], Any], what: str) -> Any:
        """What Python computes, its errors located."""

    @abstractmethod
    def iterated(self, value: Any, node: ast.AST, frame: Frame) -> list[Any]:
        """The values of `*value`."""

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
                out.extend(self.iterated(self(n.value, frame), n, frame))
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
                convert: dict[int, Callable[[Any], str]] = {115: str, 114: repr, 97: ascii}
                shown: Any = convert[part.conversion](value) if part.conversion in convert else value
                parts.append(
                    self.native(
                        part, frame, lambda s=shown, f=spec: format(s, f) if f else str(s), "this format"
                    )
                )
            else:
                parts.append(str(cast("ast.Constant", part).value))
        return "".join(parts)

    def _comprehension(self, node: Any, frame: Frame, element: Callable[[Frame], Any]) -> list[Any]:
        inner = dataclasses.replace(frame, names=dict(frame.names), bound_at=dict(frame.bound_at))
        out: list[Any] = []

        def run(level: int) -> None:
            if level == len(node.generators):
                out.append(element(inner))
                return
            generator = node.generators[level]
            values = self(generator.iter, inner)
            if isinstance(values, LoopSpec | Expr | Buffer | Region) or not hasattr(values, "__iter__"):
                raise SyntaxTileError(
                    "TB104",
                    "a comprehension over "
                    f"{'a run-time loop' if isinstance(values, LoopSpec) else type(values).__name__}",
                    at=frame.loc(generator.iter),
                    why="its values must be known while the kernel is compiled",
                    fix="use a for statement",
                )
            for value in values:
                self.walker.bind_target(generator.target, value, inner)
                if all(self._known(c, inner) for c in generator.ifs):
                    run(level + 1)

        run(0)
        return out

    def _known(self, node: ast.expr, frame: Frame) -> bool:
        value = self(node, frame)
        if isinstance(value, Expr):
            raise SyntaxTileError(
                "TB104",
                "a comprehension filtered by a run-time value",
                at=frame.loc(node),
                why="how many values it has must be known while the kernel is compiled",
                fix="use a for statement with an if",
            )
        return bool(value)

    def _ListComp(self, node: ast.ListComp, frame: Frame) -> list[Any]:
        return self._comprehension(node, frame, lambda f: self(node.elt, f))

    def _GeneratorExp(self, node: ast.GeneratorExp, frame: Frame) -> Any:
        return self._comprehension(node, frame, lambda f: self(node.elt, f))

    def _SetComp(self, node: ast.SetComp, frame: Frame) -> set[Any]:
        return set(self._comprehension(node, frame, lambda f: self(node.elt, f)))

    def _DictComp(self, node: ast.DictComp, frame: Frame) -> dict[Any, Any]:
        return dict(self._comprehension(node, frame, lambda f: (self(node.key, f), self(node.value, f))))

    def _Lambda(self, node: ast.Lambda, frame: Frame) -> Any:
        names = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
        defaults = dict(
            zip(
                names[len(names) - len(node.args.defaults) :],
                [self(d, frame) for d in node.args.defaults],
                strict=True,
            )
        )
        defaults |= {
            a.arg: self(d, frame)
            for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            if d is not None
        }
        rest, known = node.args.vararg, {*names, *(a.arg for a in node.args.kwonlyargs)}

        def function(*values: Any, **named: Any) -> Any:
            given = {**defaults, **dict(zip(names, values, strict=False)), **named}
            if rest is not None:
                given[rest.arg] = values[len(names) :]
            elif len(values) > len(names):
                raise TypeError(f"this lambda takes {len(names)} values, got {len(values)}")
            if known - set(given):
                raise TypeError(f"this lambda needs a value for {', '.join(sorted(known - set(given)))}")
            return self(node.body, dataclasses.replace(frame, names={**frame.names, **given}))

        return function

    def _Starred(self, node: ast.Starred, frame: Frame) -> Any:
        raise SyntaxTileError(
            "TB102",
            "a starred expression on its own",
            at=frame.loc(node),
            why="* spreads values in a call, a tuple or a list",
            fix="leave the * out",
        )
