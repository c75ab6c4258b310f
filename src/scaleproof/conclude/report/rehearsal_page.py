"""report.html of a rehearsal: which cells ran, and why others did not. No figure of it is a measurement."""

from pathlib import Path

from scaleproof.conclude.report import HOUSE
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.files import write_atomic
from scaleproof.ground.html import environment
from scaleproof.ground.records.run import read_run


def write_rehearsal_page(loaded: LoadedCampaign, results: Path, out: Path) -> None:
    """Write the page of a rehearsal, all of whose runs are in `results`, to `out`."""
    runs = [read_run(folder).metrics for folder in loaded.runs(results)]
    template = environment(HOUSE).get_template("rehearsal.html.j2")
    write_atomic(out, template.render(title=loaded.campaign.title, runs=runs))
