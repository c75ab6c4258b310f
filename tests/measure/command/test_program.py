"""Which script a command starts: an absent one is named before anything runs."""

import shlex

import pytest

from scaleproof.measure.command.program import absent_program, describe_program


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
        ("python -m json.tool out.py", None),
        ("python -m train --fast", None),
        ("python -m package.train", None),
        ("python -m trian", 'trian: python has no such module. Did you mean "train"?'),
        ("python -u -m gone", None),  # unsure
        ("python tol", "tol: there is no such file in"),
        ("bash go.sh 5", None),
        ("sh gone.sh 5", "gone.sh: there is no such file in"),
        ("bash ls", None),  # a shell looks on PATH, too
        ("bash -o pipefail go.sh", None),
        ("bash -c gone.sh", None),
    ],
)
def test_an_absent_script_is_named(tmp_path, monkeypatch, line, absent):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "package").mkdir()
    for name in ("train.py", "go.sh", "tool"):
        (tmp_path / name).touch()
    problem = absent_program(line.split())
    assert problem is None if absent is None else problem is not None and problem.startswith(absent)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("./go.sh", "bash ./go.sh, or chmod +x"),
        ("./train.py", "python ./train.py, or chmod +x"),
        ("./a.yaml", "the program that reads it comes first, or chmod +x"),
    ],
)
def test_a_file_that_may_not_be_executed_has_the_program_that_reads_it(tmp_path, monkeypatch, name, advice):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).touch()
    assert (absent_program([name]) or "").endswith(f"the file may not be executed: {advice}")


@pytest.mark.parametrize(
    ("first_line", "fault"),
    [
        (b"#!/bin/sh\r\n", "./go ends its lines as Windows does, and so cannot be started: sed -i 's/\\r$//' ./go"),
        (b"#!/usr/bin/env python\r\n", "./go ends its lines as Windows does"),
        (b"#!/opt/gone/python\n", "./go names an interpreter in its first line that is not here: /opt/gone/python"),
        (b"#!/usr/bin/env pythno3\n", "./go names an interpreter in its first line that is not here: pythno3"),
        (b"#!/usr/bin/env -S sh -e\n", None),
        (b"#!/bin/sh\n", None),
        (b"#! /bin/sh -e\n", None),
        (b"#!\n", None),
        (b"\x7fELF\r\n", None),
    ],
)
def test_a_script_whose_interpreter_is_not_here_is_named(tmp_path, monkeypatch, first_line, fault):
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "go"
    script.write_bytes(first_line)
    script.chmod(0o755)
    problem = absent_program(["./go", "--fast"])
    assert problem is None if fault is None else (problem or "").startswith(fault)


def test_the_command_of_a_record_can_be_pasted_into_a_shell():
    words = ["true", "--note", "a b", "--x=$HOME", "plain/path.py"]
    assert shlex.split(describe_program(words).command) == words
    assert describe_program(["true", "plain/path.py"]).command == "true plain/path.py", "no quotes without need"


def test_a_program_called_like_a_pattern_is_no_pattern(tmp_path, monkeypatch):
    (tmp_path / "[").touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert absent_program(["no-such-program"]) == "no-such-program: there is no such program here"
