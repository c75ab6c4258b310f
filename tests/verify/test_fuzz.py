"""Whatever stands in a file of results or of a publication: a difference or one message, never a traceback."""

import csv
import io
import json
import os
import random
import shutil
import signal
from pathlib import Path

import pytest
from command_line import scaleproof

PUBLISHED = sorted((Path(__file__).parents[2] / "results/published").glob("demo_*"))[-1]
VALUES = (None, "x", "", -1, 0, 1e308, 10**400, float("nan"), float("inf"), True, [], {}, [[1]], "12")
CELLS = ("", "x", "-1", "0", "1e308", "nan", "inf", "[]", "9" * 400, "1;2", "\0", "ä", '"')
CONTENTS = (b"", b"\xff\xfe\x00", b"[" * 100_000, b"null", b"[]", b"{}", b"3", b'"', b"\n\n", b"a,b\n1\n", b'{"a": 1}{')
KINDS = ("cut", "folder", "link to a device", "dangling link", "link to itself", "missing", *CONTENTS)
SEEDS, SAMPLE = range(7, 11), 6


def leaves(content, place=()):
    """The places of all values in a content of JSON, those that hold others among them."""
    yield place
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in items:
        yield from leaves(value, (*place, key))


def with_value(content, place, value):
    if not place:
        return value
    inner = content
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return content


def without(content, place):
    inner = content
    for key in place[:-1]:
        inner = inner[key]
    if place:
        del inner[place[-1]]
    return content


def mutated(path: Path, chance: random.Random) -> str:
    """Change a value of a file, or what it is; what was done, in words."""
    if chance.random() < 0.2 or path.suffix not in (".json", ".csv"):
        return of_another_kind(path, chance.choice(KINDS))
    if path.suffix == ".json":
        content = json.loads(path.read_bytes())
        place = chance.choice(list(leaves(content)))
        value = chance.choice(VALUES)
        changed = without(content, place) if chance.random() < 0.1 else with_value(content, place, value)
        path.write_text(json.dumps(changed))
        return f"{place} = {str(value)[:20]}"
    rows = list(csv.reader(io.StringIO(path.read_text())))
    row = chance.choice(rows)
    column = chance.randrange(len(row))
    row[column] = chance.choice(CELLS)
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    path.write_text(out.getvalue())
    return f"column {column} = {row[column][:20]!r}"


def of_another_kind(path: Path, kind: str | bytes) -> str:
    before = path.read_bytes()
    path.unlink()
    if kind == "cut":
        path.write_bytes(before[: len(before) // 2])
    elif kind == "folder":
        path.mkdir()
    elif kind == "link to a device":
        path.symlink_to("/dev/zero")
    elif kind == "dangling link":
        path.symlink_to("nowhere")
    elif kind == "link to itself":
        path.symlink_to(path.name)
    elif isinstance(kind, bytes):
        path.write_bytes(kind)
    return str(kind)[:20]


def restore(path: Path, content: bytes) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
    path.write_bytes(content)


def commands(folder: Path, file: str) -> list[tuple[str, ...]]:
    """What is asked of a folder with a file that was changed."""
    name = folder.name
    asked = [("verify", name), ("why", name, "cells/ddp-n1x2/speedup"), ("index", ".")]
    if file.startswith("runs/"):
        asked += [
            ("gate", name, "--baseline", "a", "b", "c"),
            ("gate", "a", "--baseline", "b", "c", name),
            ("gate", "--history", "a", "b", "c", "d", name),
            ("compare", name, "a"),
            ("publish", name, "--author", "x", "--out", "out"),
        ]
    return asked


def ask(folder: Path, file: str) -> list[str]:
    """What is wrong with the answers: a traceback is an exception; else one message for exit code 2."""
    wrong = []
    for words in commands(folder, file):
        try:
            done = scaleproof(*words, cwd=folder.parent)
        except Exception as error:
            wrong.append(f"{' '.join(words)}: {type(error).__name__}: {error}")
            continue
        if done.returncode not in (0, 1, 2) or (done.returncode == 2) != bool(done.stderr):
            wrong.append(f"{' '.join(words)}: {done}")
    return wrong


def small(place: Path, n_repeats: int = 1) -> Path:
    """The published demo with one run of each cell; and the names under which it stands once more, for a gate."""
    folder = place / "changed"
    shutil.copytree(PUBLISHED, folder)
    for run in folder.glob("runs/*/rep*"):
        if int(run.name[3:]) > n_repeats:
            shutil.rmtree(run)
    for name in "abcd":
        shutil.copytree(folder / "runs", place / name / "runs")
        for k, path in enumerate(sorted((place / name).rglob("training_metrics.json"))):
            data = json.loads(path.read_bytes())
            data["window"]["wall_time_sec"] *= 1 + (ord(name) + k) * 1e-9
            path.write_text(json.dumps(data))
    return folder


def fuzz(folder: Path, seed: int, times: int) -> list[str]:
    chance = random.Random(seed)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    raw = [path for path in files if path.is_relative_to(folder / "runs")]
    wrong = []
    for _ in range(times):
        path = chance.choice(raw if chance.random() < 0.5 else files)
        before = path.read_bytes()
        what = mutated(path, chance)
        file = str(path.relative_to(folder))
        wrong += [f"{file}: {what}: {problem}" for problem in ask(folder, file)]
        shutil.rmtree(folder.parent / "out", ignore_errors=True)
        restore(path, before)
    return wrong


@pytest.mark.fault("any value of any file of results is another one, or the file is of another kind", "one message")
@pytest.mark.parametrize("seed", SEEDS)
def test_no_value_and_no_kind_of_file_ends_in_a_traceback(tmp_path, seed):
    assert fuzz(small(tmp_path), seed, SAMPLE) == []


def test_a_signal_to_the_tests_is_no_answer_of_a_command(tmp_path, monkeypatch):
    """What ends the tests, such as a time limit around them, is not taken for what a command says."""
    monkeypatch.setattr("scaleproof.verify.campaign.read_runs", lambda _: signal.raise_signal(signal.SIGINT))
    (tmp_path / "demo/runs").mkdir(parents=True)
    with pytest.raises(KeyboardInterrupt):
        scaleproof("verify", "demo", cwd=tmp_path)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if isinstance(kind, str)])
@pytest.mark.parametrize("name", ["training_metrics.json", "steps.csv"])
def test_a_run_whose_file_is_of_another_kind_is_named_first_and_alone(tmp_path, kind, name):
    folder = small(tmp_path)
    file = f"runs/ddp-n1x2/rep1/{name}"
    of_another_kind(folder / file, kind)
    done = scaleproof("verify", folder, cwd=tmp_path)
    assert done.returncode in (1, 2)
    first = (done.stdout if done.returncode == 1 else done.stderr).splitlines()[0]
    assert file in first


@pytest.mark.parametrize(
    ("column", "value"),
    [("tokens", "-5"), ("tokens", "25.600"), ("step_time_s", "nan"), ("step_time_s", "-1"), ("phase", "cold")],
)
def test_a_wrong_value_of_steps_is_named_with_its_line_and_nothing_else(tmp_path, column, value):
    shutil.copytree(PUBLISHED, tmp_path / "demo")
    path = tmp_path / "demo/runs/ddp-n1x2/rep1/steps.csv"
    heading, *lines = path.read_text().splitlines()
    row = lines[20].split(",")
    row[heading.split(",").index(column)] = value
    path.write_text("\n".join([heading, *lines[:20], ",".join(row), *lines[21:]]) + "\n")
    done = scaleproof("verify", "demo", cwd=tmp_path)
    first, *others, last = done.stdout.splitlines()
    assert done.returncode == 1
    assert first.startswith(f"runs/ddp-n1x2/rep1/steps.csv: not readable: steps.csv, line 22: {','.join(row[:1])}")
    assert len(others) <= 1, "that the manifest knows it otherwise; no consequences"
    assert last.startswith("FAIL  ")


def test_a_file_larger_than_any_that_is_written_is_not_read(tmp_path):
    shutil.copytree(PUBLISHED, tmp_path / "demo")
    with (tmp_path / "demo/runs/ddp-n1x2/rep1/steps.csv").open("ab") as file:
        os.truncate(file.fileno(), 3 << 30)
    done = scaleproof("verify", "demo", cwd=tmp_path)
    assert done.stdout.startswith(
        "runs/ddp-n1x2/rep1/steps.csv: not readable: has 3,221,225,472 bytes; no file of results"
    )
