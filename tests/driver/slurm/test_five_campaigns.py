"""The campaigns that repeat five published benchmarks, in small and on CPUs, from their files to their pages."""

import json
import re

import ag_news_like
import pytest
import yaml

NAMES = ("ag_news_ddp", "h100_zero_precision", "l4_dp_ddp_zero", "v100_fixed_work", "v100_two_node_buckets")
NEWS = (
    "\nnews: {source: csv, files: [news.csv], columns: [label, title, description], field: [title, description], "
    "label: label}\n"
)
# Of docs/reproduce.md, what is there for each campaign, and for each run that has numbers.
OF_CAMPAIGN = ("runs.csv", "scaling_report.json", "findings.json", "losses.csv", "report.html", "jobs.jsonl")
TABLES = ("tables/scaling.csv", "tables/scaling.md", "tables/scaling.tex", "tables/strong.tex")
CHARTS = ("charts/throughput.png", "charts/job_time.svg", "charts/memory.png", "charts/loss_step.png")
OF_RUN = ("training_metrics.json", "RUN_COMPLETE.txt", "launcher_metadata.json", "train.log", "steps.csv")


def on_cpus(text: str) -> str:
    """A campaign on tokens of the tests: what a CPU cannot do is a row that says so, but for fp16 alone."""
    campaign = yaml.safe_load(text)
    execution, workload = campaign["execution"], campaign["workload"]
    execution["device"] = "cpu"
    if execution.get("precision") == "fp16":
        execution["precision"] = "fp32"
    workload["corpus"] = "news" if workload.get("task") == "classification" else "prose"
    workload["tokenizer"] = "bpe-300"
    if cells := [cell for cell in campaign.pop("cells", []) if not cell.get("compile")]:
        campaign["cells"] = cells
    campaign["trace"] = {"cells": "all"} if execution.get("geometry") == "2x4" else {"cells": []}
    campaign["resources"] = {"memory_per_device": 2, "time_limit": 5, "minutes_per_job": 120}
    return yaml.safe_dump(campaign, sort_keys=False)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", NAMES)
def test_a_published_benchmark_is_rehearsed_with_all_that_it_left_behind(checkout, repository, name):
    root = checkout.root
    if not (root / "news.csv").exists():
        ag_news_like.write_csv(root / "news.csv", ag_news_like.rows(1000))
        with (root / "config/corpora.yaml").open("a") as table:
            table.write(NEWS)
    path = checkout.campaign(name, on_cpus((repository / f"config/campaigns/{name}.yaml").read_text()))
    done = checkout.run("scaleproof", "rehearse", str(path.relative_to(root)), "--profile", "slurm")
    assert done.returncode == 0, done.stdout + done.stderr
    folder = root / f"results/rehearsal-{name}"
    made = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert {*OF_CAMPAIGN, *TABLES, *CHARTS} <= made
    records = folder.glob("runs/*/*/training_metrics.json")
    runs = {record.parent: json.loads(record.read_text()) for record in records}
    assert {run["status"] for run in runs.values()} <= {"ok", "not_applicable"}
    measured = {place: run for place, run in runs.items() if run["status"] == "ok"}
    assert len(measured) >= 3
    for place, run in measured.items():
        assert [file for file in OF_RUN if not (place / file).is_file()] == []
        assert run["scheduler"]["type"] == "slurm"
        several = {rank["host"] for rank in run["ranks"]}
        nodes = int(re.search(r"-n(\d+)x", place.parent.name)[1]) if "-n" in place.parent.name else None
        assert nodes in (None, len(several))
        if len(run["ranks"]) > 1:
            assert {rank["backend"] for rank in run["ranks"]} == {"gloo"}
            assert {rank["interface"] for rank in run["ranks"]} == ({"eth0"} if len(several) > 1 else {None})
    if name == "v100_two_node_buckets":
        assert len(list(folder.glob("traces/*/profile_summary.json"))) == 3
