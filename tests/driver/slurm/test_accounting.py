"""A cluster that keeps accounts, in which jobs are that the controller has forgotten."""

import ast
import os
import shutil
import sys

import pytest
from patience import wait_until
from slurm_tools import Checkout, Cluster, reason_against_a_cluster

PACKAGES = ("slurmdbd", "mariadbd", "mariadb-install-db")


@pytest.fixture(scope="module")
def with_accounts(tmp_path_factory, sentences, request):
    """A checkout on a cluster of its own; it is ended before that of the other tests is started."""
    missing = [name for name in PACKAGES if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None]
    reason = reason_against_a_cluster() or (
        f"{', '.join(missing)} not installed (slurmdbd, mariadb-server)" if missing else None
    )
    if reason:
        assert not os.environ.get("CI"), reason
        pytest.skip(reason)
    cluster = Cluster(tmp_path_factory.mktemp("cluster"), "accounts")
    yield Checkout(tmp_path_factory.mktemp("checkout"), cluster, request.config.rootpath, sentences)
    cluster.stop()


def test_it_is_found_fit(with_accounts):
    done = with_accounts.run("scaleproof", "cluster", "check")
    assert "OK    sacct answers" in done.stdout
    failed = sorted(line for line in done.stdout.splitlines() if line.startswith("FAIL"))
    # The devices of this cluster are names in its configuration: that no node shows one is all there is to find.
    assert failed == [f"FAIL  {node}: no GPU is visible, although one was asked for" for node in ("n1", "n2")]


def test_a_job_is_followed_to_its_end(with_accounts):
    with_accounts.campaign("kept")
    quick = ("--seconds-between-status-checks", "2", "--latency-wait", "5")
    done = with_accounts.snakemake("results/corpora/prose/bpe-300/tokenizer.json", *quick)
    assert done.returncode == 0, done.stderr[-4000:]
    kept = with_accounts.cluster.run("sacct", "--noheader", "--allocations", "--format=partition,state").stdout.split()
    assert kept[-2:] == ["cpu", "COMPLETED"]


ASK = """
import sys
from scaleproof.driver.cluster.slurm import states_by_accounting
print({job: state.name for job, state in states_by_accounting(set(sys.argv[1:])).items()})
"""


def test_the_accounts_know_how_jobs_ended(with_accounts):
    """The tasks of an array, and a job that was cancelled."""
    sbatch = ("sbatch", "--parsable", "--output=/dev/null")
    array = with_accounts.run(*sbatch, "--array=1-2", "--wrap", "exit $((SLURM_ARRAY_TASK_ID - 1))").stdout.strip()
    cancelled = with_accounts.run(*sbatch, "--hold", "--wrap", "true").stdout.strip()
    with_accounts.run("scancel", cancelled)
    ended = {f"{array}_1": "COMPLETED", f"{array}_2": "FAILED", cancelled: "CANCELLED"}
    wait_until(lambda: ast.literal_eval(with_accounts.run(sys.executable, "-c", ASK, *ended).stdout) == ended)
