"""The candidates: dictionaries of the tunables' values, from what the user gave as `configs`."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, cast

from tilebench.errors import LaunchError

Candidate = dict[str, Any]
PASS_CONFIGS = "pass_configs"
"""A key of a configuration that goes to the compiler and not to the function."""


def candidates(
    configs: Any, values: Sequence[Any] = (), named: Mapping[str, Any] | None = None
) -> list[Candidate]:
    """The configurations in order, each once.

    configs: dictionaries; or one dictionary of lists, every combination of which is a candidate; or a
    function that gives either, called with the values when it takes parameters. Raises LaunchError TB643
    when there are none.
    """
    if callable(configs):
        takes = inspect.signature(configs).parameters
        configs = configs(*values, **(named or {})) if takes else configs()
    if isinstance(configs, Mapping):
        lists = cast("Mapping[str, Sequence[Any]]", configs)
        configs = [dict(zip(lists, c, strict=True)) for c in itertools.product(*lists.values())]
    found: list[Candidate] = []
    for config in cast("Sequence[Any]", configs):
        if not isinstance(config, Mapping):
            raise LaunchError(
                "TB643",
                f"a configuration is a dictionary, got {type(config).__name__}",
                fix='configs=[{"block_M": 64}, {"block_M": 128}], or configs={"block_M": [64, 128]}',
            )
        one: Candidate = dict(cast("Mapping[str, Any]", config))
        if one not in found:
            found.append(one)
    if not found:
        raise LaunchError(
            "TB643",
            "there is no configuration to choose from",
            fix='give some: configs={"block_M": [64, 128]}',
        )
    return found


def label(candidate: Mapping[str, Any]) -> str:
    """'block_M=64 block_N=128'."""
    return " ".join(f"{k}={v}" for k, v in candidate.items())
