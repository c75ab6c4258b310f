"""Which script a command starts: an absent one is named before anything runs."""

import pytest

from scaleproof.measure.command.program import absent_program


@pytest.mark.parametrize(
    ("line", "absent"),
    [
        ("python gone.py -m 5", "gone.py: there is no such file in"),
        ("python -u gone.py", "gone.py: there is no such file in"),
        ("torchrun --nproc_per_node=2 gone.py", "gone.py: there is no such file in"),
        ("torchrun --standalone train.py -o out.py", None),
        ("torchrun --nproc_per_node=2 train.py export.py", None),
        ("torchrun --no-python tool out.py", None),
        ("python tool out.py", None),
        ("python -m tool out.py", None),
    ],
)
def test_an_absent_script_is_named(tmp_path, monkeypatch, line, absent):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    problem = absent_program(line.split())
    assert problem is None if absent is None else problem is not None and problem.startswith(absent)
