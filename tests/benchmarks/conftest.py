"""benchmarks/on_gpu.py as a module, and as a command."""

import os
import subprocess
import sys

import pytest

# Imported by every Python below: it hides the modules that HIDDEN names.
HIDING = """
import os, sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name in os.environ.get("HIDDEN", "").split():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
"""


@pytest.fixture(scope="module")
def benchmarks(pytestconfig):
    folder = pytestconfig.rootpath / "benchmarks"
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def on_gpu(benchmarks):
    import on_gpu

    return on_gpu


@pytest.fixture(scope="module")
def gpu_cells(benchmarks):
    import gpu_cells

    return gpu_cells


@pytest.fixture(scope="module")
def call(pytestconfig, tmp_path_factory):
    """`benchmarks/on_gpu.py OUT --stand-in ...`, without the modules of `hidden`."""
    folder = tmp_path_factory.mktemp("hiding")
    (folder / "sitecustomize.py").write_text(HIDING)

    def run(out, *words, hidden=()):
        environment = os.environ | {"PYTHONPATH": str(folder), "HIDDEN": " ".join(hidden)}
        command = [sys.executable, "benchmarks/on_gpu.py", str(out), "--stand-in", *words]
        return subprocess.run(command, cwd=pytestconfig.rootpath, env=environment, capture_output=True, text=True)

    return run
