"""Set-up of the tests of corpora."""

from collections.abc import Iterator

import pytest
from webserver import Server, serving

from scalebench.corpus.transfer import RetryPolicy


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as started:
        yield started


@pytest.fixture
def waits() -> list[float]:
    """The seconds that a patient download would have waited."""
    return []


@pytest.fixture
def policy(waits) -> RetryPolicy:
    return RetryPolicy(tries=3, connect=5, stall=0.3, least=1000, wait=waits.append)
