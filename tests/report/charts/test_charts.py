"""Charts: every word readable, nothing cut or overlapping, the same bytes from the same data."""

import itertools

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from scalebench.report.charts import CHARTS, PANELS, draw, draw_losses
from scalebench.report.charts.losses import AGAINST, losses
from scalebench.report.charts.style import ALARM, style
from scalebench.report.read_results import read_inputs, read_losses


@pytest.fixture
def figure(results):
    """Draw a chart and keep its figure."""

    def make(name):
        with style():
            drawn = Figure(figsize=(6.4, 4))
            FigureCanvasAgg(drawn)
            panels = PANELS.get(name, 1)
            axes = drawn.subplots(1, panels)
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
    with style():
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
            assert image.size[0] == {1: 960, 2: 1260}[PANELS.get(name, 1)]


@pytest.mark.parametrize("against", AGAINST)
def test_losses_have_a_line_a_cell(results, against):
    with style():
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
