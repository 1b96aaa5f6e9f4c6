"""Traces: how values are kept, what a saved notebook keeps, and the filmstrip."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.views.fixture import load
from tests.views.test_bundle import node
from tilebench.codec import to_json
from tilebench.report import Trace, TraceStep
from tilebench.views import step, whole
from tilebench.views import trace as codec

HERE = Path(__file__).resolve().parent
SPECIAL = [0.0, 1.0, -2.5, 3.14159, 6e4, 1e-5, np.nan, np.inf, -np.inf]


def text(x: float) -> str | float:
    return str(float(x)) if not np.isfinite(x) else float(x)


@pytest.mark.parametrize(
    ("values", "dtype", "code", "tolerance"),
    [
        (np.array(SPECIAL, np.float32), "float32", "f4", 0.0),
        (np.array([*SPECIAL, 1e300]), "float64", "f8", 0.0),
        (np.array(SPECIAL, np.float16), "float16", "f2", 0.0),
        (np.array([1, -(2**31), 2**31 - 1], np.int64), "int64", "i4", 0.0),
        (np.array([1, 2**40], np.int64), "int64", "f8", 0.0),
        (np.array([True, False, True]), "bool", "u1", 0.0),
        (np.array([1.0, -0.5, 2.0**100, np.nan, -np.inf], np.float32), "bfloat16", "b2", 0.0),
    ],
)
def test_values_come_back_exactly(values: np.ndarray, dtype: str, code: str, tolerance: float) -> None:
    assert codec.code_of(values, dtype, "exact") == code
    back = codec.unpack(codec.pack(values, code), 0, values.size, code)
    np.testing.assert_array_equal(back, values.astype(np.float64))


def test_less_room_means_fewer_bits_not_other_values() -> None:
    values = np.random.default_rng(1).standard_normal(4096).astype(np.float32)
    low, high = float(values.min()), float(values.max())
    for precision, bits in (("half", 11), ("byte", 7)):
        code = codec.code_of(values, "float32", precision)
        back = codec.unpack(codec.pack(values, code, low, high), 0, 4096, code, low, high)
        assert np.abs(back - values).max() <= 2.0**-bits * np.abs(values).max()
    large = np.array([1e30, -1e30, 5.0], np.float32)
    assert codec.code_of(large, "float32", "half") == "b2", "float16 has no such numbers"
    np.testing.assert_allclose(codec.unpack(codec.pack(large, "b2"), 0, 3, "b2"), large, rtol=2**-8)


def test_special_values_survive_one_byte() -> None:
    values = np.array([-1.0, 3.0, np.nan, np.inf, -np.inf])
    back = codec.unpack(codec.pack(values, "q1", -1.0, 3.0), 0, 5, "q1", -1.0, 3.0)
    np.testing.assert_allclose(back, values)


def test_differences_are_kept_within_a_fifth() -> None:
    error = np.array([0.0, 1e-12, 3e-4, 0.5, 1e8, np.inf])
    back = codec.unpack(codec.pack(error, "e1"), 0, error.size, "e1")
    assert back[0] == 0
    assert np.isinf(back[-1])
    np.testing.assert_allclose(back[1:-1], error[1:-1], rtol=0.2)


def test_the_same_array_is_kept_once() -> None:
    packer = codec.Packer()
    places = [packer.values(0, (0, 8), np.arange(8.0), "float64", "exact").at for _ in range(3)]
    assert len(set(places)) == 1


def test_the_browser_reads_what_python_wrote(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    codes: list[dict[str, object]] = []
    for code in ("f4", "f8", "f2", "b2", "q1", "e1", "i4", "u1"):
        values = np.array([*SPECIAL, *rng.standard_normal(20)], np.float32)
        if code in ("i4", "u1"):
            values = rng.integers(0, 200, 20) * (-1 if code == "i4" else 1)
        if code == "e1":
            values = np.abs(values)
        low, high = -3.0, 60000.0
        data = b"\x00\x00\x00" + codec.pack(values, code, low, high)
        codes.append(
            {
                "code": code, "at": 3, "low": low, "high": high, "base64": base64.b64encode(data).decode(),
                "values": [text(x) for x in codec.unpack(data, 3, len(values), code, low, high)],
                "exact": code not in ("q1", "e1"),
            }
        )  # fmt: skip
    report = load()
    (trace,) = report.traces
    replay = codec.Replay(trace)
    states = [[[text(x) for x in v.ravel()] for v in replay.to(k).values] for k in range(len(trace.steps))]
    vectors = tmp_path / "vectors.json"
    made = {"codes": codes, "trace": to_json(trace), "states": states, "report": to_json(report)}
    vectors.write_text(json.dumps(made))
    done = subprocess.run(
        [node(), "--test", str(HERE / "trace.test.mjs")],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "TRACE_VECTORS": str(vectors)},
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr


def test_key_steps_are_the_ends_of_iterations_what_is_wrong_and_the_end() -> None:
    (trace,) = load().traces
    assert codec.key_steps(trace) == [2, 4, 6]
    steps = (
        *trace.steps[:1],
        TraceStep(1, (0,), (replace(trace.steps[1].writes[0], nan=3),)),
        *trace.steps[2:],
    )
    assert codec.key_steps(replace(trace, steps=steps)) == [1, 2, 4, 6]
    assert len(codec.key_steps(replace(trace, steps=trace.steps * 40), 4)) <= 4


def test_a_saved_report_fits_and_says_that_it_is_cut() -> None:
    report = step.lean(load())
    assert len(json.dumps(to_json(report))) <= 256_000
    assert report.traces[0].kept == (2, 4, 6)
    assert "3 key steps kept" in step.sentence(report.traces[0])
    tight = codec.saved(load().traces[0], 2_500)
    assert len(json.dumps(to_json(tight))) <= 4_500
    assert tight.steps


def test_the_sentence_says_what_was_found() -> None:
    text_ = step.sentence(load().traces[0])
    assert text_.startswith("7 steps of block (1, 0) at tile level; follows C_local, row_max")
    assert "first wrong at step 6, line 14" in text_


def test_the_filmstrip_is_a_picture_with_a_table() -> None:
    still = step.still(load())
    assert still is not None
    assert still.data[:4] == b"\x89PNG"
    assert "first wrong" in still.alt
    table = step.html(load())
    assert table.count("<tr>") == 4
    assert "k = 1, step 4" in table
    assert "T.gemm(A_shared, B_shared, C_local)" in table
    assert "time travel" in whole.html(load())


def test_key_steps_look_at_each_step_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = load().traces[0]
    asked: list[int] = []
    looked = codec.loop_of

    def counted(trace: Trace) -> str:
        asked.append(1)
        return looked(trace)

    monkeypatch.setattr(codec, "loop_of", counted)
    codec.key_steps(trace)
    assert len(asked) == 1
