"""Real campaigns through `snakemake --profile slurm`: what is measured, what fails, what is lost."""

import json
import re
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from patience import wait_until
from slurm_tools import environment
from workflow_texts import TINY

# Looks at the queue every second, and everything is seen at once: no NFS here.
QUICK = ("--seconds-between-status-checks", "2", "--latency-wait", "5")
OWN = TINY.replace("bpe-512", "bpe-400")  # tokens that no other test has made: their jobs are looked at, too
BOTH = OWN.replace("geometry: [1x1, 1x2]", "geometry: [2x1, 1x2]") + "forecast: {launches: 1}\n"
PAIRED = (
    BOTH.replace("{start: forked}", "{strategy: zero2}").replace("repeats: 1", "repeats: 2")
    + "resources: {time_limit: 5, same_allocation: true, minutes_per_job: 30}\n"  # both repeats are one job
)
ENDLESS = OWN.replace("  steps: 4", "  steps: 1000000").replace("geometry: [1x1, 1x2]", "geometry: [2x1]")
SLOW = ENDLESS + "resources: {time_limit: 0.4}\n"
BROKEN = OWN.replace("geometry: [1x1, 1x2]", "geometry: [2x1]").replace(
    "  steps: 4", "  steps: 4\n  optimizer: {learning_rate: 1000, weight_decay: 1000, max_grad_norm: 0}"
)
GREEDY = (
    BOTH.replace("[2x1, 1x2]", "[1x2]") + "resources: {memory_per_device: 0.3}\n"
)  # less than torch's libraries take
PAIR = [f"results/paired/runs/zero2-n{geometry}/rep{k}" for k in (1, 2) for geometry in ("2x1", "1x2")]
RUNS = [*(f"results/both/runs/ddp-n{geometry}/rep1" for geometry in ("2x1", "1x2")), *PAIR]
SLOW_RUN, BROKEN_RUN, GREEDY_RUN = FAILING = [
    *("results/slow/runs/ddp-n2x1/rep1", "results/broken/runs/ddp-n2x1/rep1", "results/greedy/runs/ddp-n1x2/rep1"),
]


def metrics(checkout, run: str | Path) -> dict:
    return json.loads((checkout.root / run / "training_metrics.json").read_text())


@pytest.fixture(scope="module")
def made(checkout):
    """Sent at once: six runs that measure, four of them in one job, and one for each of three ways to fail."""
    texts = {"both": BOTH, "paired": PAIRED, "slow": SLOW, "broken": BROKEN, "greedy": GREEDY}
    for name, text in texts.items():
        checkout.campaign(name, text)
    targets = [f"{run}/training_metrics.json" for run in FAILING]
    targets += [
        "results/paired/runs.csv",
        "results/both/findings.json",
        "results/both/runs.csv",
        "results/both/sweep/2x1/sweep.json",
    ]
    done = checkout.snakemake(*targets, *QUICK)
    assert done.returncode == 3, done.stderr[-6000:]  # runs failed, and are rows
    checkout.said = done.stdout + done.stderr
    return checkout


@pytest.mark.parametrize("run", RUNS)
def test_a_run_has_numbers_and_says_where_it_ran(made, run):
    found = metrics(made, run)
    assert found["status"] == "ok", found["failure"]
    nodes = int("2x1" in run) + 1
    assert len(found["ranks"]) == 2
    assert len({rank["host"] for rank in found["ranks"]}) == nodes
    assert {rank["backend"] for rank in found["ranks"]} == {"gloo"}
    assert {rank["interface"] for rank in found["ranks"]} == {"eth0" if nodes == 2 else None}
    scheduler = found["scheduler"]
    assert scheduler["job_id"].isdigit()
    given = 2 if run in PAIR else nodes  # the job of a pair is as large as its larger cell
    assert scheduler["nodelist"] == ("n[1-2]" if given == 2 else scheduler["nodelist"])
    assert scheduler["nnodes"] == str(given)
    assert scheduler["partition"] == "gpu"
    assert not {"state", "reason"} & set(scheduler), "the job's end, which is after the record"
    assert re.fullmatch(r"00:[0-5]\d:[0-5]\d", scheduler["elapsed"])
    assert set(found["hardware"]["nodes"]) == {rank["host"] for rank in found["ranks"]}


def test_cells_that_are_compared_in_one_allocation_are_one_job(made):
    found = [metrics(made, run) for run in PAIR]
    assert [run["status"] for run in found] == ["ok"] * 4
    assert len({run["scheduler"]["job_id"] for run in found}) == 1
    nodes = [{rank["host"] for rank in run["ranks"]} for run in found]
    assert nodes[1] < nodes[0], "the smaller one is on a node of the larger one"
    begun = sorted((run["timestamp_utc"], run["repeat"]) for run in found)
    assert [repeat for _, repeat in begun] == [1, 1, 2, 2], "round by round"


def test_one_and_two_nodes_do_the_same_work(made):
    findings = json.loads((made.root / "results/both/findings.json").read_text())["findings"]
    assert [f for f in findings if f["severity"] == "invalid"] == []
    assert (pd.read_csv(made.root / "results/both/runs.csv")["status"] == "ok").all()


def test_a_sweep_across_nodes_measures_the_pair_of_them(made):
    folder = made.root / "results/both/sweep/2x1"
    (launch,) = json.loads((folder / "sweep.json").read_text())["launches"]
    (pair,) = launch["pairs"]
    assert pair["nodes"] == ["n1", "n2"]
    assert min(pair["seconds"]) > 0
    assert len(pd.read_csv(folder / "node_pairs.csv")) == 1
    assert (folder / "exclude.txt").read_text() == "\n", "of two nodes none is accused"


def test_nothing_of_this_machine_or_its_user_is_in_the_record(made):
    for run in RUNS:
        text = "".join(p.read_text() for p in (made.root / run).glob("*.json"))
        assert str(made.root) not in text
        assert str(Path.home()) + "/" not in text


@pytest.mark.fault("a run is slower than its limit", "a row `timeout`")
def test_a_run_that_is_too_slow_is_a_row(made):
    failure = metrics(made, SLOW_RUN)["failure"]
    assert failure["class"] == "timeout"
    assert "time limit of 0.4 minutes" in failure["reason"]


@pytest.mark.fault("a rank fails on another node", "a row with the rank's last lines")
def test_a_run_that_fails_on_a_node_is_a_row_with_the_rank_s_last_lines(made):
    failure = metrics(made, BROKEN_RUN)["failure"]
    assert failure["class"] == "nan"
    assert failure["rank"] in (0, 1)
    assert any("NotFinite" in line for line in failure["log_tail"])


@pytest.mark.fault("more memory is used than asked for", "a row `host_oom` with Slurm's reason")
def test_a_run_that_takes_more_memory_than_it_asked_for_is_a_row_with_slurm_s_reason(made):
    failure = metrics(made, GREEDY_RUN)["failure"]
    assert failure["class"] == "host_oom"
    assert "more memory than it had asked for" in failure["reason"]


def test_only_trainings_take_the_partition_of_the_gpus(made):
    ended = (made.cluster.folder / "log/jobcomp.log").read_text()
    partition = dict(re.findall(r"JobId=(\d+) .*?Partition=(\S+)", ended))
    sent = re.findall(r"Slurm job (\d+): scaleproof-(\w+)", made.said)
    found = {rule: partition[job] for job, rule in sent}
    trained = dict.fromkeys(("train", "shared_job", "reference", "sweep"), "gpu")
    assert found == {"corpus_tokenizer": "cpu", "corpus_tokenise": "cpu"} | trained


def test_nothing_is_left_running(made):
    assert made.cluster.run("squeue", "--noheader").stdout == ""


@pytest.mark.fault("a node is lost during a run", "a row `node_fail` with the node")
def test_a_node_that_is_lost_is_a_row(made):
    """Power cut of the second node in the middle of a run; it comes back afterwards."""
    made.campaign("lost", ENDLESS)
    run = made.root / "results/lost/runs/ddp-n2x1/rep1"
    target = str((run / "training_metrics.json").relative_to(made.root))
    driver = subprocess.Popen(
        made.command("snakemake", "--profile", "slurm", target, *QUICK),
        cwd=made.root,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        log = run / "train.log"
        wait_until(lambda: log.exists() and "window:" in log.read_text(), driver)
        made.cluster.crash("n2")
        said, _ = driver.communicate()  # the command has a limit of its own
    finally:
        made.cluster.boot("n2")
        driver.kill()
    assert driver.returncode == 3, said[-5000:]
    found = metrics(made, "results/lost/runs/ddp-n2x1/rep1")
    assert found["failure"]["class"] == "node_fail"
    assert "n2" in found["failure"]["reason"]
    assert found["failure"]["log_tail"]
