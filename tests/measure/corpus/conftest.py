"""Set-up of the tests of corpora."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from webserver import Server, serving

from scaleproof.measure.corpus.transfer import RetryPolicy


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
    """Patient enough for a machine whose cores are taken away for seconds."""
    return RetryPolicy(tries=3, connect=30, stall=30, least=1000, wait=waits.append)


@pytest.fixture
def killed(server) -> Callable[[str, Path], None]:
    """Runs code that downloads a file, kills it (-9) while bytes come in, and takes the server's faults away."""

    def kill(code: str, target: Path) -> None:
        process = subprocess.Popen([sys.executable, "-c", code])
        while not sum(part.stat().st_size for part in target.parent.glob("*.part")):
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
        process.wait()
        assert not target.exists()
        server.faults.clear()

    return kill
