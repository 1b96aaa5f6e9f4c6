"""What was measured, a JSON line each, so that a search can go on where it ended.

A line belongs to a key: the program's text and values, the arguments' shapes, the target, the device, and
what was asked of a candidate. Lines of other keys stand in the same file and are left alone; a last line
that was cut off while it was written is passed over.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast, get_args

from tilebench.tuning.portable import encode
from tilebench.tuning.search import State, Trial

FORMAT = 1


def key_of(facts: Mapping[str, Any]) -> str:
    """The key of a search: a digest of JSON data that says what was searched, for what, where."""
    return hashlib.sha256(json.dumps({"format": FORMAT, **facts}, sort_keys=True).encode()).hexdigest()[:32]


def config_key(config: Mapping[str, Any]) -> str:
    """A configuration as a text that is the same whenever its values are."""
    return json.dumps(encode(dict(sorted(config.items()))))


class Log:
    """The records of one key. path None: nothing is kept."""

    def __init__(self, path: Path | None, key: str) -> None:
        self.path, self.key = path, key

    def read(self) -> dict[str, Trial]:
        """The trials by config_key, the last record of each; those that were not tried are not there."""
        if self.path is None or not self.path.exists():
            return {}
        found: dict[str, Trial] = {}
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        damaged = 0
        for number, line in enumerate(lines, start=1):
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                damaged += number < len(lines)
                continue
            if isinstance(record, dict) and cast("dict[str, Any]", record).get("key") == self.key:
                trial = _trial(cast("dict[str, Any]", record))
                if trial is not None:
                    found[str(cast("dict[str, Any]", record)["config"])] = trial
        if damaged:
            warnings.warn(f"{self.path}: {damaged} lines are not JSON and were passed over", stacklevel=2)
        return found

    def write(self, trial: Trial) -> None:
        """Append a record. A disk that refuses costs the record, with a warning, and nothing else."""
        if self.path is None:
            return
        record = {
            "key": self.key, "config": config_key(trial.config), "state": trial.state,
            "latency_ms": trial.latency_ms, "spread": trial.spread, "rounds": trial.rounds,
            "reason": trial.reason, "predicted_us": trial.predicted_us, "registers": trial.registers,
            "spill_bytes": trial.spill_bytes,
        }  # fmt: skip
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a+b") as stream:
                if stream.tell() and not _ends_in_newline(self.path):
                    stream.write(b"\n")
                stream.write(json.dumps(record).encode() + b"\n")
        except OSError as error:
            warnings.warn(f"the tuning log {self.path} is not written: {error}", stacklevel=2)
            self.path = None


def _ends_in_newline(path: Path) -> bool:
    with path.open("rb") as stream:
        stream.seek(-1, 2)
        return stream.read(1) == b"\n"


def _trial(record: Mapping[str, Any]) -> Trial | None:
    """The trial of a record, None for one that no search of ours wrote."""
    state, latency, spread = record.get("state"), record.get("latency_ms"), record.get("spread")
    time = float(latency) if isinstance(latency, int | float) and latency > 0 else None
    if state not in get_args(State) or state == "untried" or (state in ("measured", "slow") and time is None):
        return None
    quartiles = cast("list[float]", spread) if isinstance(spread, list) else []
    return Trial(
        {},
        time,
        str(record.get("reason", "")),
        cast("State", state),
        (float(quartiles[0]), float(quartiles[1])) if len(quartiles) == 2 else None,
        int(record.get("rounds", 0)),
        record.get("predicted_us"),
        record.get("registers"),
        record.get("spill_bytes"),
        remembered=True,
    )
