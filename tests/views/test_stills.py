"""The still forms: pictures that are pictures, sizes that a notebook can keep, alt texts, text with
provenance.
"""

from __future__ import annotations

import base64
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from tests.views.fixture import load, make
from tests.views.more import compared, everything, predicted, sliding, with_history
from tilebench.codec import to_json
from tilebench.report import REPORT_MIME, CodeText, Delta, Figure, Report, from_json
from tilebench.views import Board, Comparison, exercise, page, smem, timeline, warps, whatif, whole
from tilebench.views.base import Still, figure_text
from tilebench.views.board import WIDGET_MIME
from tilebench.views.code import shortened
from tilebench.views.differences import compare, mix, text_delta

PICTURE_BYTES = 120_000


def assert_picture(still: Still) -> None:
    from PIL import Image

    assert still.mime == "image/png"
    assert len(still.data) <= PICTURE_BYTES
    with Image.open(io.BytesIO(still.data)) as image:
        image.load()
        assert image.width >= 300
        assert image.height >= 90, "three lines at least"
        assert len(image.convert("RGB").getcolors(1 << 16) or range(99)) > 8, "not one flat colour"
    assert len(still.alt) > 40


def test_the_fixture_file_is_what_its_script_makes() -> None:
    assert to_json(load()) == json.loads(json.dumps(to_json(make())))


@pytest.mark.parametrize("view", list(whole.STILLS))
def test_every_view_has_a_picture_and_words_for_it(view: str) -> None:
    still = whole.STILLS[view](everything())
    assert still is not None
    assert_picture(still)


def test_the_whole_board_is_one_picture() -> None:
    still = whole.picture(load())
    assert_picture(still)
    assert "FAIL" in still.alt
    assert "C_local" in still.alt
    assert "predicted" in still.alt


@pytest.mark.parametrize(
    "views", [("layout",), ("timeline",), ("diff",), ("smem", "roofline"), ("warps",), ("findings",)]
)
def test_chosen_views_make_a_smaller_picture(views: tuple[str, ...]) -> None:
    assert_picture(whole.picture(load(), views))


def bare() -> Report:
    """A report with nothing in it, as of a kernel that was not run on a machine without a GPU."""
    return Report("id", "empty", "interp", "")


def test_a_report_with_nothing_in_it_still_shows() -> None:
    data, _ = Board(bare(), static=True)._repr_mimebundle_()
    assert data["text/plain"].startswith("empty on interp: not run")
    assert base64.b64decode(data["image/png"])[:4] == b"\x89PNG"
    assert all(view(bare()) is None for view in whole.STILLS.values())


def test_the_bundle_is_data_picture_and_text() -> None:
    data, metadata = Board(load(), static=True)._repr_mimebundle_()
    assert set(data) == {"text/plain", "image/png", REPORT_MIME}
    assert metadata["image/png"]["alt"]
    payload = data[REPORT_MIME]
    assert payload["version"] == 1
    assert payload["view"] == "board"
    assert len(json.dumps(payload)) <= 256_000
    assert from_json(Report, json.loads(json.dumps(payload["report"]))).verdict == load().verdict


def test_the_live_bundle_has_a_widget_and_the_same_still_forms() -> None:
    data, _ = Board(load())._repr_mimebundle_()
    assert set(data[WIDGET_MIME]) == {"model_id", "version_major", "version_minor"}
    assert {"text/plain", "image/png", REPORT_MIME} < set(data)


def test_text_says_the_verdict_and_where_every_figure_comes_from() -> None:
    text = repr(Board(load(), static=True))
    assert text.splitlines()[0].startswith("matmul on cuda:sm_90a: FAIL, C is wrong: 8192")
    for line in text.splitlines()[1:]:
        if line.startswith(("  compile", "  arithmetic", "  bytes to move", "  predicted", "  occupancy")):
            assert any(word in line for word in ("predicted", "measured", "simulated")), line


def test_the_parts_of_tensors_are_those_of_the_browser() -> None:
    report = load()
    grid = report.resources.grid
    parts = {s.buffer: (s, p) for s, p in warps.tensors(report)}
    a, tensor = parts["A"]
    assert warps.box(a, (2, 1), grid, tensor.shape) == ((128, 128), (0, 512))
    assert warps.reuse(a, grid, tensor.shape) == 4
    assert warps.reuse(a, (), tensor.shape) is None
    c, _ = parts["C"]
    assert warps.box(c, (3, 3), grid, (500, 500)) == ((384, 116), (384, 116)), "cut to the tensor"
    assert "each byte of A is read by 4 blocks (predicted)" in warps.sentence(report)


def test_shared_memory_says_who_lives_when_and_where_conflicts_come_from() -> None:
    report = load()
    still = smem.still(report)
    assert still is not None
    assert "A_shared: bytes 0 to 24575, 3 copies, used from line 8 to line 12" in still.alt
    assert smem.conflicts(report, "A_shared") == "worst access 1-way (simulated)"
    kept = tuple(a for a in report.accesses if a.provenance == "predicted")
    assert smem.conflicts(replace(report, accesses=kept), "A_shared") == "worst access 1-way (predicted)"
    assert smem.conflicts(report, "C_local") == ""


def test_a_figure_is_never_bare() -> None:
    assert figure_text(Figure(2.5e12, "FLOP", "predicted", "counted")) == "2.5 TFLOP (predicted: counted)"
    assert figure_text(Figure(12.34, "us", "measured", "NVIDIA H200")) == "12.3 us (measured on NVIDIA H200)"
    assert figure_text(Figure(3, "ways", "simulated")) == "3 ways (simulated)"


def test_an_unknown_view_is_refused() -> None:
    with pytest.raises(ValueError, match="no view called 'layot'"):
        Board(load(), ("layot",))


def test_long_texts_are_cut_with_a_note_and_short_ones_are_not() -> None:
    report = load()
    long = replace(
        report, code=tuple(replace(c, text=(c.text + "\n") * 400, lines=c.lines * 400) for c in report.code)
    )
    saved = shortened(long)
    cuda = next(c for c in saved.code if c.level == "cuda")
    assert cuda.text.splitlines()[-1].endswith("more lines: kernel.get_kernel_source()")
    assert len(cuda.lines) <= cuda.text.count("\n") + 1
    assert len(json.dumps(to_json(saved))) <= 256_000
    assert shortened(report).code == report.code


def test_what_a_notebook_keeps_of_a_heat_map_is_half_as_long_and_reads_the_same() -> None:
    kept = from_json(Report, Board(load(), static=True)._repr_mimebundle_()[0][REPORT_MIME]["report"])
    heat, whole_heat = kept.diffs[0].heat, load().diffs[0].heat
    assert heat is not None
    assert whole_heat is not None
    assert heat.dtype == np.float16
    np.testing.assert_allclose(heat, whole_heat, rtol=2**-11, atol=2**-24)


def test_a_page_has_every_picture_and_no_script() -> None:
    text = page([load(), replace(load(), name="second")])
    assert text.count('src="data:image/png;base64,') >= 2
    assert "<script" not in text.lower()
    assert "http://" not in text
    assert "https://" not in text
    assert "second" in text
    assert text.count("alt=") == text.count("<img")


def test_a_comparison_says_what_changed_and_does_not_mix_sources() -> None:
    before, after = (
        load(),
        replace(
            load(),
            config={"num_stages": "4"},
            resources=replace(load().resources, registers=200),
            figures={**load().figures, "predicted_us": Figure(19.0, "us", "measured", "NVIDIA H200")},
            layouts=load().layouts[1:],
        ),
    )
    text = repr(Comparison(before, after))
    assert "setting num_stages: 3 -> 4" in text
    assert "registers a thread: 168 -> 200 +32" in text
    assert "not comparable" in text
    assert "layout of C_local" in text
    assert repr(Comparison(before, before)) == "nothing changed"
    assert Comparison(before, before).html() == "<p>nothing changed</p>"
    data, _ = Comparison(before, after)._repr_mimebundle_()
    assert "<table>" in data["text/html"]
    assert data["text/plain"] == text
    assert "image/png" in data


def test_the_card_says_what_is_better_and_what_is_worse_and_which_elements_moved() -> None:
    info = compared().compare
    assert info is not None
    verdicts = {d.what: d.verdict for d in info.deltas}
    assert verdicts["registers a thread"] == verdicts["spilled bytes"] == verdicts["occupancy"] == "worse"
    assert verdicts["verdict"] == verdicts["predicted time"] == "better"
    assert verdicts["num_stages"] == ""
    moved = {m.buffer: m for m in info.layouts}
    assert set(moved) == {"C_local", "A_shared"}
    assert 0 < moved["C_local"].moved < moved["C_local"].total == 128 * 128
    assert moved["A_shared"].map is not None
    assert moved["A_shared"].map.shape == (32, 32)
    texts = {t.level: t for t in info.texts}
    assert (texts["cell"].added, texts["cell"].removed) == (1, 1)
    assert ("+", "cp.async.wait_group 2;") in texts["ptx"].lines


def test_a_report_with_a_comparison_or_tried_points_is_small_and_comes_back_whole() -> None:
    for report in (compared(), sliding(), with_history(), everything()):
        payload = json.dumps(to_json(report))
        assert len(payload) <= 256_000
        back = from_json(Report, json.loads(payload))
        assert to_json(back) == to_json(report)


def test_the_points_that_were_tried_are_a_table_with_reasons() -> None:
    text = whatif.text(sliding())
    assert "num_stages=8: illegal, the block needs 256 KiB of shared memory" in text
    assert "as it is: compiled, 21.5 us (predicted: model of H200 SXM)" in text
    assert "163 (compiler's log)" in text
    assert "164 (compiler's log)" in text
    assert "(estimate)" in text
    assert text.splitlines()[1].strip().startswith("as it is")
    assert "<table>" in whatif.html(sliding())


def test_the_launch_is_a_sum_that_is_said() -> None:
    info = predicted()
    said = timeline.sum_text(info)
    assert said.startswith("2.5 (launch) + 2 x ")
    assert said.endswith(f"= {info.total_us:.3g} us")
    assert "the whole launch" in timeline.html(everything())


def test_a_trace_for_perfetto_has_every_bar_and_every_dependence() -> None:
    report = everything()
    trace = timeline.chrome_trace(report)
    assert json.loads(json.dumps(trace)) == trace
    bars = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert len(bars) == sum(len(t.bars) for t in report.timelines)
    assert {e["pid"] for e in bars} == {0, 1}
    assert all(e["dur"] >= 0 for e in bars)
    flows = [e for e in trace["traceEvents"] if e["ph"] in "sf"]
    assert len(flows) == 2 * sum(len(t.arrows) for t in report.timelines)
    names = {e["args"]["name"] for e in trace["traceEvents"] if e["ph"] == "M"}
    assert {"copy", "tensor cores", "matmul: measured, NVIDIA H200"} <= names


def test_nbconvert_without_widget_state_shows_the_picture_with_its_words() -> None:
    import nbformat
    from nbconvert import HTMLExporter

    data, metadata = Board(load())._repr_mimebundle_()
    output = nbformat.v4.new_output("display_data", data=data, metadata=metadata)
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("%%tile", outputs=[output])])
    for template in ("lab", "classic"):
        html, _ = HTMLExporter(template_name=template).from_notebook_node(book)
        assert data["image/png"][:80] in html
    assert "C_local: 128x128" in html, "the classic template takes the words from the output's metadata"


def test_instructions_are_counted_by_kind_in_machine_code_and_in_ptx() -> None:
    lines = ("LDC R1, c[0x0][0x28]", "@P1 BRA `(.L_x_1)", "HGMMA.64x64x16.F32 R24, R4", "LDS R0, [R1]")
    sass = "\n".join(f"{16 * k:04x}  {line}" for k, line in enumerate(lines))
    ptx = "// text\n\tmma.sync.aligned.m16n8k16.row {%f0};\n@%p1 bra $L;\nfma.rn.f32 %f1, %f2;\n$L:\n"
    report = replace(load(), code=(CodeText("ptx", ptx), CodeText("sass", sass)))
    assert mix(report) == (
        "sass",
        {"tensor products": 1, "shared loads": 1, "branches": 1, "integer and other": 1},
    )
    report = replace(report, code=report.code[:1])
    assert mix(report) == ("ptx", {"tensor products": 1, "float arithmetic": 1, "branches": 1})
    assert mix(replace(report, code=())) == ("", {})


def test_register_numbers_and_addresses_alone_are_no_difference() -> None:
    old = "0010  FADD R1, R2, R3\n0020  STG [R4], R1"
    new = "0030  FADD R7, R8, R9\n0040  STG [R2], R7"
    assert text_delta("sass", old, new).lines == ()
    assert text_delta("sass", old, new + "\n0050  EXIT").added == 1
    assert text_delta("cuda", "int a = 0x10;", "int a = 0x20;").added == 1


def test_times_are_judged_only_as_medians_that_lie_apart() -> None:
    def delta(old: Figure, new: Figure) -> Delta:
        reports = [replace(load(), figures={"run_ms": f}) for f in (old, new)]
        return next(d for d in compare(*reports).deltas if d.what == "time of a run")

    def timed(value: float, rounds: int, spread: float = 0.1) -> Figure:
        ends = (value - spread, value + spread) if rounds else (None, None)
        return Figure(value, "ms", "measured", "a CPU", *ends, rounds)

    assert delta(timed(3.0, 0), timed(1.0, 20)).change.startswith("not comparable: a single run and a median")
    assert delta(timed(3.0, 0), timed(1.0, 20)).verdict == ""
    assert delta(timed(3.0, 0), timed(1.0, 0)).change == "−66.7%, single runs: --bench gives medians"
    assert delta(timed(3.0, 0), timed(1.0, 0)).verdict == ""
    apart = delta(timed(3.0, 20), timed(1.0, 20))
    assert (apart.change, apart.verdict) == ("−66.7%", "better")
    assert delta(timed(1.0, 20), timed(1.05, 20)).change == "+5%, within the spread"
    assert delta(timed(1.0, 20), timed(1.05, 20)).verdict == ""


def test_an_exercise_reads_without_a_page() -> None:
    report = everything()
    still = exercise.still(report)
    assert still is not None
    assert_picture(still)
    assert still.alt.startswith("t00.q1 The product of two matrices: 1 of 3 claims hold; every element of C")
    table = exercise.html(report)
    assert "✖ does not hold" in table
    assert "that means: the accumulator kept what was in it" in table
    assert exercise.html(load()) == ""
    assert exercise.still(load()) is None
    assert "t00.q1" in whole.html(report)


@pytest.mark.parametrize("view", ["passes", "warps", "compare", "findings", "exercise"])
def test_a_still_reads_alone_and_in_the_board(view: str) -> None:
    still = whole.STILLS[view](everything())
    assert still is not None
    assert_picture(still)
    assert len(still.alt) >= 40
    alone = whole.picture(everything(), (view,))
    assert len(alone.data) <= PICTURE_BYTES
    with Image.open(io.BytesIO(alone.data)) as both, Image.open(io.BytesIO(still.data)) as own:
        assert both.height >= own.height, "nothing is squeezed"
        assert np.asarray(own.convert("L")).min() < 60, "there is ink"


def test_views_without_a_picture_are_text_on_a_page_without_scripts() -> None:
    data, _ = Board(everything(), ("code",), static=True).bundle()
    assert data["text/html"].count("<details open>") >= 1
    assert "color:light-dark(" in data["text/html"]
    assert "text/html" not in Board(everything(), ("layout",), static=True).bundle()[0]
    assert "registers a thread" in Board(everything(), ("summary",), static=True).bundle()[0]["text/html"]
