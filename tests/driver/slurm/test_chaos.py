"""Jobs without end, and everything that happens on clusters at random: nothing is lost, nothing is made twice.

`CHAOS_MINUTES=60 pytest -m fault tests/driver/slurm/test_chaos.py` goes on for an hour each, with 900 jobs, and with
2,400 runs of a campaign; so does `make faults CHAOS=60`.
"""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from patience import wait_until
from slurm_tools import Checkout, Cluster, environment

from scaleproof.ground.records.jobs import read_ledger

MINUTES = float(os.environ.get("CHAOS_MINUTES", "5"))
PER_MINUTE = 15  # jobs, each with a Snakemake of its own: two cores make about twice as many where nothing fails
CALLS = 10  # of Snakemake, once all is quiet
# A job locks its own file, so that a second one at the same time shows.
WORKFLOW = """
rule all:
    input: expand("out/{{k}}", k=range({runs}))
rule make:
    output: "out/{{k}}"
    resources: nodes=1, tasks=1, cpus_per_task=1, mem_mb=300, runtime=10, slurm_extra="--no-kill"
    params: lambda wildcards: int(wildcards.k) % 5
    shell: "flock --nonblock --conflict-exit-code 99 lock/{{wildcards.k}} sh -c 'sleep {{params}} && touch {{output}}'"
        "|| {{{{ [ $? != 99 ] || echo {{output}} >> at-the-same-time; exit 1; }}}}"
"""

RUNS_PER_MINUTE = 40  # of a campaign, in shared jobs: about one in a second and a half
CELLS = 8
# What is begun is written down: a run may begin again only where a fault has ended it.
PROGRAM = """
import sys, time
with open("begun", "a") as begun:
    begun.write(sys.argv[1] + "\\n")
for k in range(1, 13):
    time.sleep(0.004)
    print(f"step: {k} loss: {9 / (k + 1):.3f} step_ms: {4.2 + k % 3 / 10} tokens/s: {1000 + k}")
"""
CAMPAIGN = """title: runs of shared jobs
workload: {command: "python -S program.py {x}", per_step: {tokens: 64}}
vary: {x: [%s], geometry: [1x1]}
repeats: %d
resources: {time_limit: 1, minutes_per_job: 20}
"""


class Chaos:
    """A Snakemake that sends jobs to a cluster, and what befalls both."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.seed = random.randrange(10**6)
        self.cluster, self.folder, self.random = cluster, folder, random.Random(self.seed)
        self.happened: Counter[str] = Counter()

    def command(self, *words: str) -> list[str]:
        options = ("--executor", "scaleproof", "--jobs", "40", "--keep-going", "--retries", "1")
        options += ("--seconds-between-status-checks", "2", "--latency-wait", "5", "--scaleproof-array-jobs", "make")
        options += (
            "--scaleproof-same-failures",
            "0",
            "--default-resources",
            "slurm_partition=cpu",
            "--rerun-incomplete",
        )
        return self.cluster.command("snakemake", *options, *words)

    def call(self) -> subprocess.Popen:
        """Begin where the last Snakemake has left off."""
        subprocess.run(self.command("--unlock"), cwd=self.folder, env=environment(), capture_output=True)
        with (self.folder / "driver.log").open("a") as log:
            return subprocess.Popen(
                self.command(), cwd=self.folder, env=environment(), stdout=log, stderr=subprocess.STDOUT
            )

    def jobs(self, state: str) -> list[str]:
        return self.cluster.run("squeue", "--noheader", "--array", f"--states={state}", "--format=%i").stdout.split()

    def cancel(self) -> None:
        """A person cancels a job."""
        if jobs := self.jobs(self.random.choice(("RUNNING", "PENDING"))):
            self.cluster.run("scancel", self.random.choice(jobs))

    def rename(self) -> None:
        """A site's billing writes names and comments of its own."""
        for job in self.jobs("PENDING,RUNNING")[:3]:
            self.cluster.run("scontrol", "update", f"JobId={job}", "JobName=billed", "Comment=billed")

    def power_cut(self) -> None:
        self.cluster.crash("n2")
        time.sleep(self.random.uniform(1, 5))
        self.cluster.boot("n2")

    def absent_controller(self) -> None:
        self.cluster.run("bash", "-c", "kill $(cat /run/slurmctld.pid)")
        time.sleep(self.random.uniform(1, 15))
        self.cluster.run("slurmctld")

    def drain(self) -> None:
        self.cluster.run("scontrol", "update", "NodeName=n1,n2", "State=DRAIN", "Reason=chaos")
        time.sleep(self.random.uniform(1, 5))
        self.cluster.run("scontrol", "update", "NodeName=n1,n2", "State=RESUME")

    def kill_driver(self) -> None:
        """As a login node that dies; `psutil` sees it from outside of the box."""
        for process in psutil.process_iter(["cmdline", "cwd"]):
            words = process.info["cmdline"] or []
            if process.info["cwd"] == str(self.folder) and "--rerun-incomplete" in words and "remote" not in words:
                process.kill()

    def befall(self) -> None:
        """One fault, some of them more often than others."""
        often: dict[Callable[[], None], int] = {self.cancel: 4, self.rename: 3, self.drain: 2}
        often |= {self.power_cut: 1, self.absent_controller: 1, self.kill_driver: 2}
        (fault,) = self.random.choices(list(often), list(often.values()))
        self.happened[fault.__name__] += 1
        fault()

    def quiet(self) -> None:
        """Wait until no job is left, whoever sent it."""
        wait_until(lambda: self.cluster.run("squeue").returncode == 0 and not self.jobs("PENDING,RUNNING,COMPLETING"))

    def survive(self) -> str:
        """Faults for as long as Snakemake has work, or the minutes are over; then calls of it until all is made.

        Returns what happened.
        """
        until = time.monotonic() + 60 * MINUTES
        driver = self.call()
        try:
            while time.monotonic() < until and driver.poll() != 0:
                time.sleep(self.random.uniform(1, 8))
                if driver.poll() is None:
                    self.befall()
                else:
                    self.quiet()
                    driver = self.call()
            if driver.poll() is None:
                driver.wait()
            for _ in range(CALLS):
                self.quiet()
                driver = self.call()
                if driver.wait() == 0:
                    break
        finally:
            driver.send_signal(signal.SIGKILL)
        return f"seed {self.seed}, {dict(self.happened)}\n{(self.folder / 'driver.log').read_text()[-5000:]}"


class OfACampaign(Chaos):
    """The same of a campaign's Snakemake, whose jobs make several runs each."""

    def __init__(self, cluster: Cluster, folder: Path, sentences: list[str]) -> None:
        super().__init__(cluster, folder)
        self.runs = round(RUNS_PER_MINUTE * MINUTES / CELLS) * CELLS
        self.checkout = Checkout(folder, cluster, Path(__file__).parents[3], sentences)
        self.checkout.campaign("many", CAMPAIGN % (", ".join(map(str, range(CELLS))), self.runs // CELLS))
        (folder / "program.py").write_text(PROGRAM)

    def command(self, *words: str) -> list[str]:
        options = ("--profile", "slurm", "--seconds-between-status-checks", "5", "--latency-wait", "5")
        target = () if "--unlock" in words else ("results/many/report.html",)
        return self.checkout.command("snakemake", *options, "--rerun-incomplete", *target, *words)


@pytest.mark.long
@pytest.mark.timeout(60 * (2 * MINUTES + 15))
@pytest.mark.fault("anything, at random, for five minutes or an hour", "no job is lost, and none is made twice")
def test_nothing_is_lost_and_nothing_is_made_twice(cluster, tmp_path):
    (tmp_path / "lock").mkdir()
    (tmp_path / "Snakefile").write_text(WORKFLOW.format(runs=round(PER_MINUTE * MINUTES)))
    chaos = Chaos(cluster, tmp_path)
    story = chaos.survive()
    runs = {f"out/{k}" for k in range(round(PER_MINUTE * MINUTES))}
    assert {f"out/{path.name}" for path in (tmp_path / "out").iterdir()} == runs, story
    assert not (tmp_path / "at-the-same-time").exists(), story
    entries = {entry.id: entry for entry in read_ledger(tmp_path / "results/job-logs/jobs.jsonl")}.values()
    assert {entry.makes for entry in entries} == runs, story
    assert [entry.id for entry in entries if entry.ended is None] == [], story
    well = Counter(entry.makes for entry in entries if entry.state == "COMPLETED")
    assert set(well.values()) == {1}, story


@pytest.mark.long
@pytest.mark.timeout(60 * (2 * MINUTES + 15))
@pytest.mark.fault(
    "anything, at random, to jobs of several runs each", "no run is lost; one begins again where a fault has ended it"
)
def test_no_run_of_a_campaign_is_lost(cluster, tmp_path, sentences):
    chaos = OfACampaign(cluster, tmp_path, sentences)
    story = chaos.survive()
    results = tmp_path / "results/many"
    assert (results / "report.html").exists(), story
    assert len(list(results.glob("runs/*/rep*/RUN_COMPLETE.txt"))) == chaos.runs, story
    begun = Counter((tmp_path / "begun").read_text().split())
    assert set(begun) == {str(x) for x in range(CELLS)}, story
    ended = 2 * (chaos.happened["cancel"] + chaos.happened["power_cut"])  # a run on each node at most
    assert chaos.runs <= begun.total() <= chaos.runs + ended, story
