"""Lists that stand twice, since `verify` shares no code with others, and the workflow is in another language."""

import re
from pathlib import Path

from scaleproof.conclude.analysis import loss_curves
from scaleproof.ground.campaign.config import ENTRIES, Workload
from scaleproof.ground.records.configuration import SAME_WORK
from scaleproof.verify import losses
from scaleproof.verify.manifest import CAMPAIGN, DESCRIPTIONS, FILES, WORKFLOW
from scaleproof.verify.raw import folder_before
from scaleproof.verify.raw_cells import BATCHLESS

RULES = Path(__file__).parents[2] / "workflow/rules"
OF_COMMANDS = {"command", "figures", "per_step", "rate_of"}
DERIVED = {"vocab_multiple"}  # vocab_size has it in it


def test_cells_that_differ_in_a_key_of_the_workload_do_other_work():
    """A new key: into SAME_WORK and BATCHLESS (as a column, too), and into both SAME_LOSS where losses differ by it."""
    keys = set(Workload.model_fields) - OF_COMMANDS - DERIVED
    assert set(SAME_WORK) == keys - {"task"}  # a model has one task
    assert set(loss_curves.SAME_LOSS) == keys - {"model"}
    assert BATCHLESS == SAME_WORK
    assert (*loss_curves.SAME_LOSS, "command") == losses.SAME_LOSS


def test_the_workflow_makes_every_tokenizer():
    """A new one: the wildcard in workflow/Snakefile, and a rule of workflow/rules/data.smk."""
    (allowed,) = re.findall(r"tokenizer=r\"(.+)\",", (RULES.parent / "Snakefile").read_text())
    made = re.findall(
        r"corpora/\{corpus\}/(?:\{tokenizer,(.+)\}|(\w+))/tokenizer\.json\",\n +log", (RULES / "data.smk").read_text()
    )
    patterns = [trained or name for trained, name in made]
    for name in (*ENTRIES, "bpe-512"):
        assert re.fullmatch(allowed, name), name
        assert len([pattern for pattern in patterns if re.fullmatch(pattern, name)]) == 1, name


def test_every_file_that_a_rule_writes_into_a_campaign_is_sealed():
    """A new file beside runs.csv: into FILES of verify/manifest.py, and into docs/files.md."""
    rules = "".join(path.read_text() for path in RULES.glob("*.smk"))
    written = set(re.findall(r"results/\{campaign\}/([a-z_]+\.\w+)\"", rules))
    unsealed = {"manifest.json", "report.pdf"}  # the seal itself; the paper comes after it
    of_publication = {CAMPAIGN, WORKFLOW, *DESCRIPTIONS}
    beside = {*of_publication, "claims.json"}  # the page's rule writes claims.json with it
    assert written - unsealed == set(FILES) - beside
    listed = (RULES.parents[1] / "docs/files.md").read_text()
    assert [name for name in {*written, *FILES} - unsealed - of_publication if f"`{name}`" not in listed] == []


def test_names_that_end_in_runs_are_no_folder_of_runs():
    path = "results/long-runs/runs/a-runs/rep1/training_metrics.json"
    assert folder_before(path, "runs/a/rep1/training_metrics.json") == "results/long-runs/"
    assert folder_before("runs/a/rep1/training_metrics.json", "runs/a/rep1/training_metrics.json") == ""
