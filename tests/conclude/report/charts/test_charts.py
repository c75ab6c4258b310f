"""Charts: every word readable, nothing cut or overlapping, the same bytes from the same data."""

import inspect
import itertools
import re

import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from PIL import Image
from result_models import comparison, paired, point, series

from scaleproof.conclude.report.chart_catalog import CATALOG
from scaleproof.conclude.report.chart_style import ALARM, COLOURS, WIDTH, chart_style, places_side_by_side
from scaleproof.conclude.report.charts import CHARTS, draw, draw_comparison, draw_losses
from scaleproof.conclude.report.charts.sweeps import AGAINST, PRINTED, losses
from scaleproof.conclude.report.read_results import read_inputs, read_losses
from scaleproof.ground.chart_words import CHART_WORDS
from scaleproof.verify.charts import TIPS

WHITE, DARK_PAGE = "#ffffff", "#0f1419"
SEEN = 3.0  # WCAG 1.4.11: contrast of graphics to what is around them


def luminance(colour) -> float:
    channels = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), channels, strict=True))


def contrast(a, b) -> float:
    dark, light = sorted((luminance(a), luminance(b)))
    return (light + 0.05) / (dark + 0.05)


def inverted(colour) -> tuple[float, ...]:
    """As `filter: invert(1) hue-rotate(180deg)` shows it on the dark page."""
    red, green, blue = (1 - c for c in to_rgb(colour))
    twice = 2 * (0.213 * red + 0.715 * green + 0.072 * blue)
    return tuple(min(1.0, max(0.0, twice - c)) for c in (red, green, blue))


def is_seen(colour) -> bool:
    return contrast(colour, WHITE) >= SEEN and contrast(inverted(colour), DARK_PAGE) >= SEEN


def faint(axes) -> list[str]:
    """The bars of a chart that neither their colour nor their edge sets apart from the page, legend's included."""
    return [
        f"{to_hex(patch.get_facecolor())} {patch.get_label()}"
        for patch in axes.patches
        if not is_opaque_and_seen(patch.get_facecolor())
        and not (patch.get_linewidth() > 0 and is_opaque_and_seen(patch.get_edgecolor()))
    ]


def is_opaque_and_seen(rgba) -> bool:
    return rgba[3] == 1 and is_seen(rgba[:3])


def test_every_colour_is_seen_on_both_pages():
    assert [colour for colour in COLOURS if not is_seen(colour)] == []
    assert not is_seen("#E69F00"), "as Okabe and Ito have it"


@pytest.mark.parametrize("name", ["ranking", "step_time", "job_time", "memory", "utilization"])
def test_every_bar_is_seen_on_both_pages(figure, name):
    axes = figure(name).axes[0]
    assert axes.patches
    assert faint(axes) == []


def test_a_faint_bar_is_noticed():
    axes = Figure().subplots()
    axes.barh(0, 1, color="#E69F00", alpha=0.4)
    assert len(faint(axes)) == 1


def test_a_series_that_is_alone_at_a_size_stands_on_its_tick():
    def one(*devices):
        return series(runs={str(d): point("ddp", d) for d in devices})

    assert places_side_by_side([one(1, 2), one(2), one(2)]) == [{1: 0.0, 2: -1.0}, {2: 0.0}, {2: 1.0}]


def test_bars_of_a_job_end_at_its_wall_time(figure, results):
    axes = figure("job_time").axes[0]
    _, cells, _ = read_inputs(results.folder)
    ends = [
        max(p.get_x() + p.get_width() for p in axes.patches if round(p.get_y() + p.get_height() / 2) == i)
        for i in range(3)
    ]
    fastest_first = cells.sort_values("tokens_per_s", ascending=False, kind="stable")
    assert ends == pytest.approx(list(fastest_first["total_wall_time_s"][:3]))
    assert "timed window (coloured)" in axes.get_legend_handles_labels()[1]


@pytest.fixture
def figure(results):
    """Draw a chart and keep its figure."""

    def make(name):
        with chart_style():
            panels = CATALOG[name].panels
            drawn = Figure(figsize=(WIDTH, 4 * panels))
            FigureCanvasAgg(drawn)
            axes = drawn.subplots(panels, 1)
            CHARTS[name](axes if panels == 1 else list(axes), *read_inputs(results.folder))
            drawn.draw_without_rendering()
        return drawn

    return make


UNITS = {
    "ranking": "tokens/s",
    "throughput": "tokens/s",
    "speedup": "ratio",
    "efficiency": "part of",
    "step_time": "(ms)",
    "job_time": "(s)",
    "memory": "(MB)",
    "utilization": "(%)",
}


@pytest.mark.parametrize("name", UNITS)
def test_units_and_n_are_written(figure, name):
    axes = figure(name).axes[0]
    words = " ".join([axes.get_xlabel(), axes.get_ylabel(), axes.get_title()])
    assert UNITS[name] in words
    assert "n=3" in axes.get_title()


def test_step_times_are_milliseconds(figure, results):
    cells = read_inputs(results.folder)[1]
    strokes = [line.get_xdata()[0] for line in figure("step_time").axes[0].get_lines() if line.get_color() == "black"]
    medians = cells["step_time_p50_s"].dropna()
    assert len(medians) == 3
    assert [1 for median in medians if pytest.approx(1e3 * median) in strokes] == [1] * 3


def test_step_times_against_another_setting_are_milliseconds(results):
    runs, cells, report = read_inputs(results.folder)
    here = cells[cells["n"] > 0].head(1)
    longer = pd.concat([here, here.assign(seq_len=2 * here["seq_len"])])
    axes = Figure().subplots(2, 1)
    CHARTS["seq_len"](list(axes), runs, longer, report)
    assert axes[0].get_lines()[0].get_ydata() == pytest.approx(1e3 * longer["step_time_p50_s"].to_numpy())


@pytest.mark.parametrize("name", UNITS)
def test_no_two_labels_overlap_and_none_is_cut(figure, name):
    drawn = figure(name)
    axes = drawn.axes[0]
    texts = [axes.title, axes.xaxis.label, axes.yaxis.label]
    for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        ticks = zip(axis.get_majorticklocs(), axis.get_ticklabels(), strict=True)
        texts += [label for place, label in ticks if min(limits) <= place <= max(limits)]
    boxes = [t.get_window_extent() for t in texts if t.get_text() and t.get_visible()]
    assert len(boxes) > 5
    for a, b in itertools.combinations(boxes, 2):
        assert not a.overlaps(b)
    for box in boxes:
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= drawn.bbox.x1
        assert box.y1 <= drawn.bbox.y1


def test_speedup_has_the_ideal_line_and_the_intervals(figure):
    axes = figure("speedup").axes[0]
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert lines["ideal"].get_xydata().tolist() == [[1, 1], [2, 2], [4, 4]]
    bars = axes.containers[0]
    assert bars.has_yerr
    low, high = bars[2][0].get_segments()[1][:, 1]
    assert low < 100 / 60 < high


@pytest.mark.parametrize("name", CHARTS)
def test_the_same_data_make_the_same_bytes(results, name):
    for folder in ("a", "b"):
        draw(name, *read_inputs(results.folder), results.folder / folder)
    for kind in ("svg", "png"):
        files = [results.folder / folder / f"{name}.{kind}" for folder in ("a", "b")]
        assert files[0].read_bytes() == files[1].read_bytes()


def test_a_marked_number_is_marked_in_the_charts(broken):
    with chart_style():
        axes = Figure().subplots()
        CHARTS["speedup"](axes, *read_inputs(broken.folder))
    rings = [line for line in axes.get_lines() if line.get_markeredgecolor() == ALARM and len(line.get_xdata())]
    assert [line.get_xdata()[0] for line in rings] == [2]
    assert rings[0].get_xdata()[0] == axes.get_lines()[0].get_xdata()[1], "around its own mark"


@pytest.mark.parametrize("fixture", ["single", "nothing", "broken"])
def test_thin_results_are_drawn_too(fixture, request):
    charts = request.getfixturevalue(fixture).charts()
    for name in CHARTS:
        with Image.open(charts / f"{name}.png") as image:
            assert image.size[0] == 150 * WIDTH


@pytest.mark.parametrize("against", AGAINST)
def test_losses_have_a_line_a_cell(results, against):
    with chart_style():
        axes = Figure().subplots()
        losses(axes, against, *read_losses(results.folder))
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert {"ddp-n1x1", "ddp-n1x2", "ddp-n1x4"} <= set(lines)
    assert "ddp-n1x8" not in lines, "it has no numbers"
    ends = [lines[cell].get_xdata()[-1] for cell in ("ddp-n1x1", "ddp-n1x2", "ddp-n1x4")]
    assert ends == [34] * 3 if against == "step" else ends == sorted(ends, reverse=True)
    assert ("target" in lines) == (against == "seconds")
    assert "n=3" in axes.get_title()
    for folder in ("a", "b"):
        draw_losses(against, *read_losses(results.folder), results.folder / folder)
    assert len({(results.folder / f / f"loss_{against}.svg").read_bytes() for f in "ab"}) == 1


@pytest.mark.parametrize("name", CATALOG)
def test_an_entry_of_the_catalog_is_complete_and_drawn(name):
    chart = CATALOG[name]
    assert CHART_WORDS[name].title
    assert CHART_WORDS[name].caption.endswith(".")
    others = ("waterfall", "forecast", "loss_step", "loss_seconds")  # which have inputs of their own
    assert (name in CHARTS) != (name in others)
    no_hover = ("batch_size", "seq_len")
    assert name in TIPS or name not in CHARTS or name in no_hover, "verify reads no hover of it: TIPS"
    not_labelled = ("energy", *no_hover)  # of which these results have nothing
    assert name in UNITS or name not in CHARTS or name in not_labelled, "its labels are not looked at: UNITS here"
    assert name in CHARTS or (chart.inches_per_cell, chart.panels, chart.banded) == (0, 1, False), "nothing reads it"
    assert name not in CHARTS or ("forecasts" in inspect.signature(CHARTS[name]).parameters) == chart.banded


@pytest.mark.parametrize("name", ["loss_step", "loss_seconds"])
def test_losses_are_not_drawn_where_no_program_showed_any(results, name):
    _, cells, report = read_inputs(results.folder)
    assert CATALOG[name].has_content(cells, report)
    cells["loss_last"] = float("nan")
    assert not CATALOG[name].has_content(cells, report)


def test_no_steps_are_drawn_of_programs_that_are_timed_as_a_whole(results):
    _, cells, report = read_inputs(results.folder)
    assert CATALOG["step_time"].has_content(cells, report)
    cells["steps"] = 0
    assert not CATALOG["step_time"].has_content(cells, report)


@pytest.mark.parametrize(("evidence", "unit"), [("built", "optimizer step"), ("printed", "printed line")])
def test_lines_that_a_program_prints_are_not_called_steps(results, evidence, unit):
    """One line may stand for twenty steps: no axis of steps, and no chart of where the time of the run went."""
    runs, cells, report = read_inputs(results.folder)
    cells["evidence"] = evidence
    axes = Figure().subplots()
    CHARTS["step_time"](axes, runs, cells, report)
    texts = [axes.get_title(), *(label.get_text() for label in axes.get_yticklabels())]
    assert any(" printed lines" in text for text in texts) == (evidence == "printed")
    pattern, name, _ = TIPS["step_time"][-1]  # by which verify finds the number
    assert name == "steps"
    assert all(pattern.search(box.get_gid().removeprefix("tip:")) for box in axes.patches)
    assert CATALOG["job_time"].has_content(cells, report) == (evidence == "built")
    for against in AGAINST:
        axes = Figure().subplots()
        losses(axes, against, read_losses(results.folder)[0], cells)
        words = {"built": AGAINST, "printed": PRINTED}[evidence]
        assert axes.get_xlabel() == (f"{unit}, warm-up included" if against == "step" else words["seconds"])
    assert CATALOG["job_time"].has_content(cells.assign(steps=0), report), "a program that is timed as a whole"


def test_numbers_of_axes_have_no_power_of_ten_beside_them(tmp_path):
    """Two wild pairs, as of a machine that stood still in one of them."""
    wild = paired(ratios=[2e-5, 4_100_000.0], ratio=9.1, low=1e-6, high=8e7, n=2)
    draw_comparison([comparison(wild)], tmp_path)
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", (tmp_path / "comparison.svg").read_text())
    assert {"2e6", "1e6", "1e7"}.isdisjoint(texts)
    assert "20,000,000" in texts
