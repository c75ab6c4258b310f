"""No column of a table, and no field of a report, can be left out, emptied or set to null: `verify` misses it."""

import csv
import io
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scaleproof.ground.errors import UserError
from scaleproof.verify import campaign
from scaleproof.verify.contents import json_of
from scaleproof.verify.raw import read_runs

PUBLISHED = sorted((Path(__file__).parents[2] / "results/published").glob("demo_*"))[-1]
TABLES = ("runs.csv", "cells.csv")  # from which all others are written again
WRITTEN_BESIDE = {"repeat", "cell"}  # columns without which no row is known: the file is not readable
# Fields of which no raw file says anything: what the campaign is called and how it goes on.
FREE = {"title", "snakemake"}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shutil.copytree(PUBLISHED, tmp_path_factory.mktemp("left-out") / "demo")


@pytest.fixture(scope="module")
def checked(demo: Path) -> Callable[[str], list[str]]:
    """What the checks of a file say, by its name."""
    runs, _ = read_runs(demo)

    def differences(file: str) -> list[str]:
        quantities, _ = campaign.quantities_of(demo, runs)
        checks = campaign._checks(demo, runs, quantities, set())
        names = [name for name in checks if name.startswith(file) or name in ("fields", "findings.json")]
        return [str(difference) for name in names for difference in campaign._run_check(name, checks[name])]

    return differences


def edited(path: Path, texts: Iterator[tuple[str, str]], differences: Callable[[], list[str]]) -> list[str]:
    """The names of the edits of a file that nothing is said of. `texts`: name and whole text of each."""
    before, passed = path.read_text(), []
    for name, text in texts:
        path.write_text(text)
        if not differences():
            passed.append(name)
    path.write_text(before)
    assert differences() == []
    return passed


def without_columns(path: Path) -> Iterator[tuple[str, str]]:
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for column in rows[0].keys() - WRITTEN_BESIDE:
        emptied = [row | {column: ""} for row in rows]
        dropped = [{name: text for name, text in row.items() if name != column} for row in rows]
        for kind, changed in (("emptied", emptied), ("dropped", dropped)):
            if changed != rows:
                file = io.StringIO()
                writer = csv.DictWriter(file, list(changed[0]))
                writer.writeheader()
                writer.writerows(changed)
                yield f"{column} {kind}", file.getvalue()


@pytest.mark.parametrize("file", TABLES)
def test_no_column_of_a_csv_file(demo: Path, checked: Callable[[str], list[str]], file: str) -> None:
    assert edited(demo / file, without_columns(demo / file), lambda: checked(file)) == []


def places(content: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of every field in a content of JSON."""
    pairs = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in pairs:
        if isinstance(content, dict):
            yield (*at, key)
        yield from places(value, (*at, key))


def without_fields(path: Path) -> Iterator[tuple[str, str]]:
    """Every kind of field set to null, and left out, once."""
    content = json_of(path)
    seen = set()
    for place in places(content):
        kind = ".".join("*" if isinstance(key, int) else re.sub(r"^\d+x\d+$", "*", key) for key in place)
        for way in ("null", "left out"):
            copy = json.loads(json.dumps(content))
            *inner, key = place
            section = copy
            for name in inner:
                section = section[name]
            is_empty = section[key] in (None, [], "", {})
            if key in FREE or (way == "null" and is_empty) or (kind, way) in seen:
                continue
            seen.add((kind, way))
            if way == "null":
                section[key] = None
            else:
                del section[key]
            yield f"{kind} {way}", json.dumps(copy)


@pytest.mark.parametrize("file", ["scaling_report.json", "comparison.json", "waterfall.json", "traces.json"])
def test_no_field_of_a_report(demo: Path, checked: Callable[[str], list[str]], file: str) -> None:
    assert edited(demo / file, without_fields(demo / file), lambda: checked(file)) == []


@pytest.mark.parametrize(
    "ask", [campaign.verify, lambda folder: campaign.why(folder, "cells/ddp-n1x2/speedup")], ids=["verify", "why"]
)
def test_runs_that_are_gone_are_not_called_a_missing_report(tmp_path, ask):
    (tmp_path / "demo").mkdir()
    for name in ("report.html", "manifest.json"):
        (tmp_path / "demo" / name).write_text("{}")
    with pytest.raises(UserError, match=r"demo was made from runs, and .*demo/runs is gone: restore it, or measure"):
        ask(tmp_path / "demo")
    (tmp_path / "demo/manifest.json").unlink()
    with pytest.raises(UserError, match="is no campaign's results: there is no folder"):
        ask(tmp_path / "demo")


def test_results_that_are_a_lost_link_or_in_a_file_are_not_built_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("results/demo").mkdir(parents=True)
    with pytest.raises(UserError, match=r"results/demo/report.html: no such file; build it with"):
        campaign.verify(Path("results/demo"))
    Path("results/demo").rmdir()
    Path("results/demo").symlink_to("/no/where")
    with pytest.raises(UserError, match="results: it is a link to /no/where, which leads nowhere; give results/"):
        campaign.verify(Path("results/demo"))
    Path("results/demo").unlink()
    Path("results").rmdir()
    Path("results").touch()
    with pytest.raises(UserError, match="results: results is a file, not a folder; give results/"):
        campaign.verify(Path("results/demo"))
