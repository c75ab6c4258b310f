"""Raw series that are read together are those that each run reads for itself."""

import numpy as np
import pytest
from synthetic import cells, rewrite, write_run

from scaleproof.ground.errors import UserError
from scaleproof.ground.records import series
from scaleproof.ground.records.run import read_run
from scaleproof.ground.records.series import parse_series, read_series
from scaleproof.ground.records.steps import read_steps


def series_of(run):
    """What has been read of the raw series so far."""
    return set(vars(run)) - {"folder", "metrics", "label"}


def test_a_series_is_the_same_read_at_once_or_line_by_line(tmp_path):
    text = (write_run(tmp_path, cells()[1]).folder / "steps.csv").read_text()
    diverged = text.replace(text.splitlines()[5].split(",")[5], "nan")
    rows, ends = parse_series([text.encode(), diverged.encode()])
    first, second = np.split(rows, ends[:-1])
    assert np.array_equal(first, read_steps(text))
    assert np.array_equal(read_steps(text), read_steps(text.replace("\n", "\r\n")))
    assert np.isnan(second["loss"]).any()
    assert second.tobytes() == read_steps(diverged).tobytes()


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [*lines[:4], "window,1,x,0.1,0.1,7,1,1"],
        lambda lines: [*lines[:2], lines[2].rpartition(",")[0], f"{lines[3]},1", *lines[4:]],
        lambda lines: [*lines[:2], "window,1.5,0,0.1,0.1,7,1,1", *lines[3:]],
        lambda lines: [*lines[:2], "window,1,0,fast,0.1,7,1,1", *lines[3:]],
        lambda lines: [*lines[:2], "window,1,0,0.1,0.1,7,1,inf", *lines[3:]],
        lambda lines: [*lines[:2], 'window,1,0,"0.1",0.1,7,1,1', *lines[3:]],
        lambda lines: [*lines[:2], f"window,1,0,0.1,0.1,7,1,1{400 * '0'}", *lines[3:]],
    ],
    ids=["rank", "columns", "step", "time", "tokens", "quoted", "huge"],
)
def test_what_is_no_series_is_refused(tmp_path, change):
    lines = (write_run(tmp_path, cells()[1]).folder / "steps.csv").read_text().splitlines()
    text = "\n".join([*change(lines), ""])
    with pytest.raises(ValueError, match=r"could not convert|invalid|columns|usecols"):
        read_steps(text)
    with pytest.raises(ValueError, match=r"not as written|CSV"):
        parse_series([text.encode()])


@pytest.mark.parametrize(("bytes_together", "block"), [(1 << 20, 1 << 26), (3000, 1 << 26), (1 << 20, 500)])
def test_series_that_are_read_together_are_those_of_each_run(tmp_path, monkeypatch, bytes_together, block):
    monkeypatch.setattr(series, "TOGETHER", bytes_together)
    monkeypatch.setattr(series, "BLOCK", block)
    together = [write_run(tmp_path, cell, k) for cell in cells() for k in (1, 2, 3)]
    together[-1] = rewrite(together[-1], change_steps=lambda frame: frame[::-1])  # in another order
    read_series(together)
    for run in together:
        alone = read_run(run.folder)
        assert series_of(run) == {"steps", "window", "losses"}
        assert np.array_equal(run.steps, alone.steps)
        assert np.array_equal(run.losses, alone.losses)
        assert all(np.array_equal(run.window[name], alone.window[name]) for name in alone.window)


def test_a_series_that_cannot_be_read_disturbs_no_other(tmp_path):
    runs = [write_run(tmp_path, cell, k) for cell in cells() for k in (1, 2)]
    steps = runs[2].folder / "steps.csv"
    steps.write_text(steps.read_text().replace("window,9", "window,8"))
    (runs[3].folder / "steps.csv").unlink()
    read_series(runs)
    assert [bool(series_of(run)) for run in runs] == [True, True, False, False]
    with pytest.raises(UserError, match="sha256"):
        _ = runs[2].steps
