"""Commands whose program, script or module is absent: `validate` says so."""

import pytest
from command_line import scaleproof


@pytest.mark.parametrize(
    ("command", "absent"),
    [
        ("./mine.sh", "./mine.sh: there is no such program here: n1x1, n1x2"),
        ("python mine.py", "mine.py: there is no such file in"),
        ("python mine.ipynb", "mine.ipynb is a notebook, which python does not run"),
        ("pyhton mine.py", 'pyhton: there is no such program here. Did you mean "python'),
        ("python tests/conftset.py", 'Did you mean "tests/conftest.py"?'),
        ("python -c pass", ""),
        ("torchrun --nproc-per-node {devices} mine.py", "mine.py: there is no such file in"),
        ("torchrun -m mine", ""),
        ("bash mine.sh", "mine.sh: there is no such file in"),
        ("python -m scaleprof", "scaleprof: python has no such module"),
        ("python -m scaleproof", ""),
        ("python tests/conftest.py --out new.py", ""),
    ],
)
def test_a_program_that_is_not_there_is_said_by_validate(tmp_path, repository, command, absent):
    path = tmp_path / "mine.yaml"
    work = "work: {steps: 8, warmup_steps: 3, global_batch: 8}\nvary: {geometry: [1x1, 1x2]}\n"
    path.write_text(f"title: T\nworkload:\n  command: {command} {{steps}}\n{work}")
    done = scaleproof("campaign", "validate", path, cwd=repository)
    assert done.returncode == 0, done.stderr
    assert absent in done.stdout
    assert ("These cannot run here" in done.stdout) == bool(absent)
