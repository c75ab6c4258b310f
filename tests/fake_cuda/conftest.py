"""A machine with devices that are not there, for all tests of this folder."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import fake_cuda


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> Path:
    """The library of the devices, built once for each torch."""
    if not shutil.which("g++"):
        if os.environ.get("CI"):
            pytest.fail("CI must have g++")
        pytest.skip("g++ is not installed: it builds the devices that are not there")
    return fake_cuda.build(request.config.cache.mkdir("fake-cuda"))


@pytest.fixture(scope="session")
def machine(device: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[fake_cuda.Machine]:
    made = fake_cuda.Machine(device, tmp_path_factory.mktemp("machine"))
    yield made
    made.close()
