"""What a call of a `@jit` function says, however it is spelled: `f.func.parse_args(...)`.

The names are TileLang's. tilebench's own keys hold more (what the function reads from around it, the types of
the values); this is for programs that compare calls.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from tilebench.kernel import args


class CallForms:
    """Calls of one function, by its signature."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    @property
    def signature(self) -> inspect.Signature:
        """Of the function."""
        return inspect.signature(self.function)

    def parse_args(self, *values: Any, **named: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The key of a call, ((values of the parameters in order, defaults too), None), and its tensors.

        Names that are no parameters (T.const values) come last, as pairs. Raises TypeError for a call that
        Python refuses, and for a value that has no hash and is no list, dict or set.
        """
        key, tensors, _ = self._parse_phase1_key(*values, **named)
        return (key, None), tensors

    def _parse_phase1_key(
        self, *values: Any, **named: Any
    ) -> tuple[tuple[Any, ...], dict[str, Any], dict[str, Any]]:
        """What a call says beside its tensors, as a key; its tensors, and the rest, by name."""
        signature = self.signature
        rest = [p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD]
        known = named if rest else {k: v for k, v in named.items() if k in signature.parameters}
        bound = signature.bind(*values, **known)
        bound.apply_defaults()
        more = {**{k: v for k, v in named.items() if k not in known}}
        for name in rest:
            more.update(bound.arguments.pop(name))
        tensors = {k: v for k, v in bound.arguments.items() if args.is_tensor(v)}
        plain = {k: v for k, v in bound.arguments.items() if k not in tensors}
        key = tuple(hashable(v) for v in plain.values())
        if more:
            key = (*key, tuple((k, hashable(v)) for k, v in sorted(more.items())))
        return key, tensors, {**plain, **more}


def hashable(value: Any) -> Any:
    """The value, with tuples in place of the lists, dicts and sets in it. Raises TypeError where that gives
    nothing that has a hash.
    """
    if isinstance(value, Mapping):
        return tuple((k, hashable(v)) for k, v in cast("Mapping[Any, Any]", value).items())
    if isinstance(value, list | tuple):
        return tuple(hashable(v) for v in cast("Sequence[Any]", value))
    if isinstance(value, set):
        return frozenset(cast("set[Any]", value))
    try:
        hash(value)
    except TypeError:
        raise TypeError(
            f"Unsupported unhashable JIT compile-time cache key value of type {type(value).__name__}"
        ) from None
    return value


__all__ = ["CallForms", "hashable"]
