"""What users write, call or read by its name is in a document for them."""

import argparse
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

import scaleproof
from scaleproof.cli.audit import FORMATS
from scaleproof.cli.commands import parser
from scaleproof.conclude.report.chart_catalog import CATALOG
from scaleproof.driver.cluster.executor import ExecutorSettings
from scaleproof.driver.cluster.site import Site
from scaleproof.driver.cluster.slurm import OPTIONS
from scaleproof.ground.campaign.command import Reader
from scaleproof.ground.campaign.config import ENTRIES, Campaign, Comparison, Resources, Work, Workload
from scaleproof.ground.campaign.corpora import PACKED, Corpus
from scaleproof.ground.campaign.execution import Execution
from scaleproof.ground.campaign.optimizer import Optimizer, Schedule
from scaleproof.ground.campaign.unmeasured import Forecasting, Frontier, Tracing
from scaleproof.ground.campaign.yaml_loader import load_corpora
from scaleproof.ground.records.evidence import LEVELS
from scaleproof.ground.records.run_sections import FailureClass

ROOT = Path(__file__).parents[2]
SECTIONS = (
    Campaign,
    Workload,
    Work,
    Execution,
    Resources,
    Comparison,
    Tracing,
    Forecasting,
    Frontier,
    Optimizer,
    Schedule,
)
NOT_WRITTEN = {"fewer_steps"}  # `steps: [50, 150]` gives it
OF_RULES = {"scaleproof trace capture"}  # which the workflow calls
NO_PROGRAMS = {"HuggingFaceConsole", "KeyValues", "RankBlocks"}  # forms of a log that several programs write
FOR_USERS = [
    ROOT / "README.md",
    *(page for page in (ROOT / "docs").glob("*.md") if page.name not in ("architecture.md", "map.md")),
    *(ROOT / "profiles").rglob("*.md"),
    *(ROOT / "config").glob("*.md"),
]


def commands(of: argparse.ArgumentParser, name: str) -> Iterator[str]:
    """Every command that is typed, but for those that rules of the workflow call."""
    below = [action for action in of._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        yield name
    for word, part in below[0].choices.items() if below else ():
        if word != "stage":
            yield from commands(part, f"{name} {word}")


def squeezed(text: str) -> str:
    return re.sub(r"[^a-z]", "", text.lower())


@pytest.fixture(scope="module")
def text() -> str:
    return "\n".join(page.read_text() for page in FOR_USERS)


@pytest.mark.parametrize("section", [*SECTIONS, Corpus], ids=lambda section: section.__name__)
def test_every_key_is_in_a_document(section, text):
    """docs/reference.md; of commands measure-mine.md, of a cluster cluster.md, of texts corpora.md."""
    keys = {field.alias or name for name, field in section.model_fields.items()} - NOT_WRITTEN
    assert [key for key in keys if not re.search(rf"\b{key}\b", text)] == []


def test_every_command_is_in_a_document(text):
    assert [name for name in commands(parser(), "scaleproof") if name not in text and name not in OF_RULES] == []


def test_every_class_of_failure_and_level_of_evidence_is_in_a_document(text):
    """Classes: troubleshooting.md, cluster.md, reliability.md; levels: measure-mine.md."""
    assert [name for name in (*get_args(FailureClass), *LEVELS) if f"`{name}`" not in text] == []


def test_every_word_of_a_profile_is_in_a_document(text):
    options = [f"scaleproof-{field.name.replace('_', '-')}" for field in fields(ExecutorSettings)]
    words = [*options, *OPTIONS, *(field.name for field in fields(Site))]
    assert [word for word in words if not re.search(rf"\b{word}\b", text)] == []


def test_every_program_whose_log_is_known_is_in_the_document_on_audits():
    known = squeezed((ROOT / "docs/audit.md").read_text())
    programs = {name.removesuffix("Benchmarks") for name in get_args(Reader)} - NO_PROGRAMS
    assert [name for name in programs if squeezed(name) not in known] == []


def test_every_form_function_and_notebook_has_its_document():
    pages = {page.stem: page.read_text() for page in FOR_USERS if page.parent.name == "docs"}
    assert [suffix for suffix in PACKED if suffix not in pages["corpora"]] == []
    assert [name for name in ENTRIES if f"| `{name}` |" not in pages["corpora"]] == []
    table = load_corpora(ROOT / "config/corpora.yaml")[0]
    assert [name for name in table if f"`{name}`" not in pages["corpora"]] == []
    assert [form for form in FORMATS if not re.search(rf"\b{form}\b", pages["ci"] + pages["audit"])] == []
    for_snakefiles = {"workflow_file"}  # which `scaleproof init` writes
    assert [name for name in scaleproof.__all__ if f"{name}(" not in pages["python"]] == sorted(for_snakefiles)
    notebooks = [path.name for path in (ROOT / "docs/notebooks").glob("*.ipynb")]
    assert [name for name in notebooks if f"(notebooks/{name})" not in pages["python"]] == []


def test_every_chart_is_among_the_files():
    listed = (ROOT / "docs/files.md").read_text()
    assert [name for name in CATALOG if not re.search(rf"[`/{{,]{name}[`.,}}]", listed)] == []
