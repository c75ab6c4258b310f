"""A campaign of synthetic runs, whose answer the tests read."""

import pytest
from synthetic import cells, rewrite, write_run

from scaleproof.conclude.analysis.campaign_findings import campaign_findings
from scaleproof.conclude.analysis.scaling import scaling_report

STEADY = (1.0, 1.01, 0.99, 1.005, 0.995)  # a cell's step times relative to their mean, repeat by repeat


@pytest.fixture
def campaign(tmp_path):
    """Runs of cells, (strategy, geometry) -> step time in seconds, or one for each repeat."""

    def make(times, repeats=5, question=None, change=None, repeat_until=None):
        runs = []
        for k, ((strategy, geometry), given) in enumerate(times.items()):
            (cell,) = cells(vary={"strategy": [strategy], "geometry": [geometry]})
            per_repeat = (
                given if isinstance(given, tuple) else tuple(given * s for s in STEADY[k % 2 :] + STEADY[: k % 2])
            )
            for repeat, seconds in enumerate(per_repeat[:repeats], start=1):
                run = write_run(tmp_path / "runs", cell, repeat, seconds, spread=1e-4)
                runs.append(rewrite(run, change) if change and (strategy, geometry) == list(times)[-1] else run)
        findings = campaign_findings("demo", runs)
        sound = [f for f in findings.findings if f.code != "traffic-differs"]  # synthetic traffic is ddp's
        findings = findings.model_copy(update={"findings": sound})
        return scaling_report("demo", "Does it pay off?", runs, findings, question=question, repeat_until=repeat_until)

    return make
