"""Where a figure of a report comes from, by the name that a click on it gives."""

import re
from pathlib import Path
from types import SimpleNamespace

from scaleproof.verify.campaign import why
from scaleproof.verify.contents import csv_of
from scaleproof.verify.explained import in_tokens, in_unit_of
from scaleproof.verify.recompute import RecomputedQuantity


def test_why_knows_each_figure_that_the_page_links():
    (published,) = (Path(__file__).parents[2] / "results/published").glob("demo_*")
    names = set(re.findall(r'data-id="([^"]+)"', (published / "report.html").read_text()))
    assert {"cells/ddp-n1x2/time_to_loss_s", "cells/ddp-n1x2/speedup"} <= names
    row = next(row for row in csv_of(published / "cells.csv") if row["cell"] == "ddp-n1x2")
    for name in names:
        assert f"{name}\n  value" in why(published, name)
    assert "sum of window tokens" in why(published, "cells/ddp-n1x2/tokens_per_s")
    assert f"  value    {float(row['time_to_loss_s']):.7g} " in why(published, "cells/ddp-n1x2/time_to_loss_s")


def test_a_formula_names_the_unit_of_the_runs() -> None:
    one = RecomputedQuantity(2.0, 1, "tokens/s of tokens-n1x1 / tokens/s of ddp-n1x1", ())
    runs = [SimpleNamespace(ok=True, metrics={"unit": "samples"})]
    assert in_unit_of(one, runs).formula == "samples/s of tokens-n1x1 / samples/s of ddp-n1x1"
    assert in_unit_of(one, []) == one


def test_a_rate_is_known_by_the_unit_of_the_runs_and_by_no_other() -> None:
    runs = [SimpleNamespace(ok=True, metrics={"unit": "samples"})]
    assert in_tokens("cells/a/samples_per_s_per_device", runs) == "cells/a/tokens_per_s_per_device"
    for name, of_runs in (("cells/a/steps_per_s", runs), ("cells/a/samples_per_s", []), ("samples_per_s/n", runs)):
        assert in_tokens(name, of_runs) == name
