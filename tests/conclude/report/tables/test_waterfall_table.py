"""Where scaling is lost: rows, sentences and a chart."""

import pytest
from PIL import Image

from scaleproof.conclude.report.chart_style import WIDTH
from scaleproof.conclude.report.charts import draw_waterfall
from scaleproof.conclude.report.charts.waterfall import drawn_cells
from scaleproof.conclude.report.sentences.scaling import loss_sentence
from scaleproof.conclude.report.tables.waterfall import waterfall_rows, write_waterfall
from scaleproof.ground.records.waterfall_report import WaterfallCell, WaterfallPart


def part(name, ms, source="trace"):
    return WaterfallPart(name=name, ms=ms, source=source)


@pytest.fixture
def cell():
    parts = [
        part("exposed transfer", 8.0),
        part("waiting for data", -0.3),
        part("host gaps", None, "needs traces"),
    ]
    return WaterfallCell(
        cell="ddp-n1x2",
        strategy="ddp",
        baseline="ddp-n1x1",
        kind="strong",
        measured_ms=70.0,
        ideal_ms=50.0,
        parts=parts,
        unexplained_ms=12.3,
        n=3,
        compute_to_communication=5.0,
        transfer_exposed=0.34,
    )


def test_rows_sum_to_the_step(cell):
    rows = waterfall_rows([cell])
    assert rows["part"].tolist() == [
        "ideal",
        "exposed transfer",
        "waiting for data",
        "host gaps",
        "unexplained",
        "measured",
    ]
    assert rows["ms"][:-1].sum() == pytest.approx(70)


def test_the_sentence_says_what_is_known_and_what_is_not(cell):
    text = loss_sentence(cell)
    assert text.startswith(
        "ddp-n1x2 (n=3): a step takes 70.0 ms, 20.0 ms more than the ideal 50.0 ms: unexplained 12.3 ms, "
    )
    assert "12.3 ms, exposed transfer 8.00 ms, waiting for data -0.300 ms." in text, "largest first, adding up to 20 ms"
    assert " Not measured: host gaps." in text
    assert "computing takes 5.00 times as long as the transfers, without waiting, long enough to hide them" in text
    assert "34 % of the transfer time is exposed" in text
    assert "too short to hide" in loss_sentence(cell.model_copy(update={"compute_to_communication": 1.2}))
    assert "transfers" not in loss_sentence(cell.model_copy(update={"compute_to_communication": None}))
    assert "no loss" in loss_sentence(cell.model_copy(update={"measured_ms": 49.0}))
    assert "together 0.400 ms more than the loss" in loss_sentence(cell.model_copy(update={"unexplained_ms": -0.4}))


@pytest.mark.parametrize("found", [True, False])
def test_files(cell, tmp_path, found):
    entries = [cell] if found else []
    write_waterfall(entries, "synthetic", tmp_path)
    draw_waterfall(entries, tmp_path)
    assert ("host gaps" in (tmp_path / "waterfall.md").read_text()) is found
    assert ("No cell" in (tmp_path / "waterfall.tex").read_text()) is not found
    with Image.open(tmp_path / "waterfall.png") as image:
        assert image.size[0] == 150 * WIDTH


def test_cells_without_a_sentence_are_drawn_only_where_there_are_no_others(cell):
    unknown = cell.model_copy(update={"parts": [part(p.name, None) for p in cell.parts]})
    assert drawn_cells([unknown, cell, unknown]) == [cell]
    assert drawn_cells([unknown]) == [unknown]
