"""Every name that verify asks of a file is one that a writer writes: arithmetic is independent, names are not."""

import ast
import csv
import json
import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from scaleproof.conclude.analysis import ranking
from scaleproof.conclude.analysis.run_tables import MEASURED, TIMED
from scaleproof.ground.columns import COLUMNS, combined_columns
from scaleproof.ground.findings.finding import Correction, Finding, Findings
from scaleproof.ground.records import census, claims, metrics, open_sections, scaling_report
from scaleproof.verify import advice, reports, tables
from scaleproof.verify.raw import Step, read_runs
from scaleproof.verify.recompute import FROM_METRICS, run_quantities
from scaleproof.verify.stated import OF_RUN

ROOT = Path(__file__).parents[2]
VERIFY = sorted((ROOT / "src/scaleproof/verify").glob("*.py"))
PUBLISHED = sorted((ROOT / "results/published").glob("demo_*"))[-1]
# Of things that are no file of results: patterns, HTML, the sections of a campaign, RO-Crate.
OTHERS = {
    *("cell", "value", "low", "high"),  # groups of a pattern
    "warmup",  # a phase of steps.csv
    *("class", "data-cell", "data-file", "data-id", "data-sha", "title", "href", "id", "nth"),
    *("data-order", "speedup_in_answer"),  # the second of reports before schema 6
    *("d", "x", "y"),  # of a drawing
    *(
        "work.global_batch",
        "",
        "margin",
        "efficiency",
        "speed-up",
        "one-device",
        "rate",
        "name",
        "part",
    ),  # names that verify itself gives
    "workload",
    *("demands", "derive"),  # of a manifest, and of a target loss; the published demo is older
    *("author", "conformsTo", "mentions", "@graph", "@id", "contentSize"),  # of its metadata
    *("calibrated_on", "node_pairs", "sweeps"),  # of forecasts, which the published demo has not
}


def keys_of(content) -> set[str]:
    """All keys of a content of JSON."""
    if isinstance(content, dict):
        return {*content, *(key for value in content.values() for key in keys_of(value))}
    return {key for value in content for key in keys_of(value)} if isinstance(content, list) else set()


def fields_of(module) -> set[str]:
    """The names under which the models of a module are written."""
    names = set()
    for thing in vars(module).values():
        if isinstance(thing, type) and issubclass(thing, BaseModel):
            names |= {field.alias or name for name, field in thing.model_fields.items()}
        elif hasattr(thing, "__required_keys__"):
            names |= thing.__required_keys__ | thing.__optional_keys__
    return names


@pytest.fixture(scope="module")
def written() -> set[str]:
    """The names in the files of the published demo, and in the schemas of records and findings."""
    names = fields_of(metrics) | fields_of(census) | fields_of(open_sections)
    names |= fields_of(claims) | fields_of(scaling_report)
    names |= {name for model in (Correction, Finding, Findings) for name in model.model_fields}
    for path in PUBLISHED.rglob("*[!a].json"):  # but RO-Crate's metadata
        names |= keys_of(json.loads(path.read_bytes()))
    for path in PUBLISHED.rglob("*.csv"):
        with path.open(newline="") as file:
            names |= set(next(csv.reader(file)))
    page = (PUBLISHED / "report.html").read_text()
    names |= set(re.findall(r"<(?:dt|th)\b[^>]*>([^<]+)<", page))  # beside which it states something
    names |= {sentence["topic"] for sentence in json.loads((PUBLISHED / "claims.json").read_bytes())["sentences"]}
    return names | {"fastest_over"}  # where the published tables have relative_to_fastest


def asked(path: Path) -> set[str]:
    """The names that a file of code asks dictionaries for: x["name"] and x.get("name")."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            key = node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop"):
            key = node.args[0] if node.args else None
        else:
            continue
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            names.add(key.value)
    return names


@pytest.mark.parametrize("path", VERIFY, ids=lambda path: path.stem)
def test_every_name_that_is_asked_for_is_written(path, written):
    assert asked(path) - written - OTHERS == set()


def test_every_recomputed_column_is_one_of_the_tables(written):
    columns = [COLUMNS[name] for names in tables.COLUMNS_OF.values() for name in names]
    assert set(FROM_METRICS) | {column.figure or column.name for column in columns} <= written
    assert {part for _, path in FROM_METRICS.values() for part in path.split(".")} <= written
    assert {column.name for column in columns} | set(reports.POINT) <= written
    assert {"samples", "tokens", "loss", "data_wait_s"} <= set(Step.__dataclass_fields__) & written


def test_what_disturbs_a_run_is_the_same_for_the_recommendation_and_for_verify():
    assert ranking.DISTURBED == advice.DISTURBING
    assert ranking.DISTURBED_UNPAIRED == advice.DISTURBING | advice.DISTURBING_ROUNDS


def test_every_figure_of_a_run_is_recomputed():
    """A new column of runs.csv alone belongs in OF_RUN of verify/stated.py; of cells, too, in verify/recompute.py."""
    runs, _ = read_runs(PUBLISHED)
    recomputed = {name.rsplit("/", 1)[1] for name in run_quantities(runs)} | set(OF_RUN)
    not_of_the_demo = {"accuracy", "joules_per_token", "max_cuda_mem_allocated_bytes", "mfu", "step_time_p95_s"}
    assert {*TIMED, *MEASURED} - recomputed == not_of_the_demo


def test_figures_of_a_cell_are_combined_as_its_columns_say():
    combined = {name: how.removesuffix(" of") for name, (how, _) in FROM_METRICS.items()}
    stated = {name: by for by in ("largest", "mean") for name in combined_columns(by) if name in combined}
    assert stated == {name: combined[name] for name in stated}
    assert {"accuracy", "max_cuda_mem_allocated_bytes"} <= set(stated), "the demo has neither"
