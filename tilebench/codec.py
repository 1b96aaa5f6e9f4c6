"""Frozen dataclasses to plain JSON data and back: the data names no classes, and nothing in it is executed.

An array becomes {"dtype", "shape", "base64"}; NaN and infinity become strings, since JSON has neither.
"""

from __future__ import annotations

import base64
import dataclasses
import types
import typing
from typing import Any, Literal, cast

import numpy as np


def to_json(value: Any) -> Any:
    """Plain JSON data: dataclasses as objects, arrays as {"dtype", "shape", "base64"}; NaN and infinity as
    strings.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, np.ndarray):
        data = np.ascontiguousarray(cast("np.ndarray[Any, np.dtype[Any]]", value))
        return {
            "dtype": data.dtype.str,
            "shape": list(data.shape),
            "base64": base64.b64encode(data.tobytes()).decode(),
        }
    if isinstance(value, dict):
        return {str(k): to_json(v) for k, v in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [to_json(v) for v in cast("list[Any]", value)]
    if isinstance(value, np.generic):
        return to_json(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value


def converted(kind: Any, data: Any) -> Any:
    """The value of type `kind` (a dataclass, tuple, dict, union, array or plain type) that `data` stands for.

    Fields that the dataclass does not have are ignored. Raises ValueError for a value outside of a Literal
    and for arrays of objects, KeyError or TypeError for data of another shape.
    """
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if data is None:
            return None
        return converted(next(a for a in args if a is not type(None)), data)
    if origin is tuple:
        items = list(data)
        if len(args) == 2 and args[1] is Ellipsis:
            return tuple(converted(args[0], item) for item in items)
        return tuple(converted(a, item) for a, item in zip(args, items, strict=True))
    if origin is dict:
        return {k: converted(args[1], v) for k, v in data.items()}
    if origin is Literal:
        if data not in args:
            raise ValueError(f"{data!r} is none of {args}")
        return data
    if kind is np.ndarray:
        dtype = np.dtype(str(data["dtype"]))
        if dtype.hasobject:
            raise ValueError("arrays of objects are not accepted")
        return np.frombuffer(base64.b64decode(data["base64"]), dtype).reshape(data["shape"])
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        known = {f.name for f in dataclasses.fields(kind)}
        return cast("Any", kind)(**{k: converted(hints[k], v) for k, v in data.items() if k in known})
    if kind is float:
        return float(data)
    return data
