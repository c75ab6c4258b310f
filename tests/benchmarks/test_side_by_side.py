"""What the benchmarks start: a command that fails is never measured, and its own words are shown."""

import sys

import pytest


def test_a_command_that_fails_ends_the_benchmark_with_its_words(repository, monkeypatch):
    monkeypatch.syspath_prepend(repository / "benchmarks")
    from side_by_side import quietly

    quietly([sys.executable, "-c", "print('well')"])
    with pytest.raises(SystemExit, match=r"exit code 1\n(?s:.*)ModuleNotFoundError: No module named 'nonesuch'"):
        quietly([sys.executable, "-c", "import nonesuch"])


def test_nothing_planted_is_no_success(repository, monkeypatch, capsys):
    """`--only` with a name that no fault has."""
    for folder in ("benchmarks", "tests/faults", "tests"):
        monkeypatch.syspath_prepend(repository / folder)
    import planted_faults

    monkeypatch.setattr(planted_faults, "tokens_in", lambda folder: folder)
    monkeypatch.setattr(planted_faults.ranks, "load", lambda: None)
    monkeypatch.setattr(sys, "argv", ["planted_faults.py", "--only", "nonesuch"])
    with pytest.raises(SystemExit) as ended:
        planted_faults.main()
    assert ended.value.code
    assert "0 faults, 0 sound runs" in capsys.readouterr().out
