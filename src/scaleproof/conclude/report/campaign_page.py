"""report.html of a campaign; of a rehearsal, a page without figures: which cells ran, and why others did not."""

from pathlib import Path

import pandas as pd

from scaleproof.conclude.report import HOUSE
from scaleproof.conclude.report.page import write_page
from scaleproof.conclude.report.page_facts import PageInputs
from scaleproof.conclude.report.sentences.answer import answer_campaign
from scaleproof.conclude.report.sentences.next_step import command
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.campaign.rehearsal import PREFIX, is_rehearsal
from scaleproof.ground.errors import UserError
from scaleproof.ground.files import sha256_of, write_atomic
from scaleproof.ground.html import jinja_environment
from scaleproof.ground.number_format import in_unit
from scaleproof.ground.records.run import METRICS, read_run
from scaleproof.ground.snakemake_command import derive_again_command


def check_records(folder: Path, runs: pd.DataFrame) -> None:
    """Raise UserError where a record in `folder` is not the one that a row of `runs`, runs.csv, was made from."""
    for cell, repeat, sha256 in zip(runs["cell"], runs["repeat"], runs["sha256"], strict=True):
        record = folder / "runs" / cell / f"rep{repeat}" / METRICS
        if record.is_file() and sha256_of(record) != sha256:
            again = derive_again_command(folder / "report.html")
            fault = f"{record} changed since {folder / 'runs.csv'} was made from it"
            raise UserError(f"{fault}; restore it, or make all tables again: {again}")


def write_campaign_page(inputs: PageInputs, loaded: LoadedCampaign, results: Path, out: Path) -> str:
    """Write the page of a campaign, whose runs are in `results`, to `out`; return its answer as the console prints it.

    The answer of a rehearsal is its title.
    """
    if not is_rehearsal(loaded.name):
        write_page(inputs, out)
        answer = answer_campaign(inputs.report, inputs.comparisons, inputs.forecast, inputs.remarks)
        return in_unit(answer.text, inputs.report.unit)
    runs = [read_run(folder).metrics for folder in loaded.runs(results)]
    template = jinja_environment(HOUSE).get_template("rehearsal.html.j2")
    of_campaign = inputs.report.model_copy(update={"campaign": loaded.name.removeprefix(PREFIX)})
    write_atomic(out, template.render(title=loaded.campaign.title, runs=runs, command=command(of_campaign)))
    return loaded.campaign.title
