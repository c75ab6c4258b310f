"""One cluster and one copy of the repository for all tests of a session."""

import os
from pathlib import Path

import pytest
from slurm_tools import Checkout, Cluster, reason_against_a_cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    reason = reason_against_a_cluster()
    if reason:
        # CI is root and installs the packages, so that this cannot hide there.
        assert not os.environ.get("CI"), reason
        pytest.skip(reason)
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.stop()


@pytest.fixture(scope="session")
def checkout(tmp_path_factory, cluster, sentences):
    return Checkout(tmp_path_factory.mktemp("checkout"), cluster, Path(__file__).parents[3], sentences)
