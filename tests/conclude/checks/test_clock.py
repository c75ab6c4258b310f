"""What the clock of the other phases says of a window: nothing of one shorter than a delay of the machine."""

import pytest
from explained_findings import codes
from sound_records import complete, sealed
from synthetic import cells, write_run

from scaleproof.conclude.checks.clock import BUDGET_S, BUDGET_SHARE


@pytest.mark.parametrize(("step_s", "named"), [(0.06, True), (0.0003, False)])
def test_a_window_of_milliseconds_is_only_too_short(tmp_path, step_s, named):
    def later(data):
        for rank in data["ranks"]:
            rank["closing_monotonic_s"] += BUDGET_SHARE * data["window"]["wall_time_sec"] + 2.3 * BUDGET_S

    run = complete(write_run(tmp_path / "results/x/runs", cells()[0], 1, step_s))
    found = codes([sealed(run, later)])
    assert ("clock-differs" in found) == named
    assert ("window-short" in found) != named
