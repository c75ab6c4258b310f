"""A cluster that keeps accounts: jobs are followed by sacct."""

import os
import shutil

import pytest
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
    sacct = ("--slurm-status-command", "sacct", "--slurm-init-seconds-before-status-checks", "2", "--latency-wait", "5")
    done = with_accounts.snakemake("results/corpora/prose/bpe-300/tokenizer.json", *sacct)
    assert done.returncode == 0, done.stderr[-4000:]
    kept = with_accounts.cluster.run("sacct", "--noheader", "--allocations", "--format=partition,state").stdout.split()
    assert kept[-2:] == ["cpu", "COMPLETED"]
