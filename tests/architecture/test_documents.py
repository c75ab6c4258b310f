"""What documents name exists."""

import re
from pathlib import Path

import pytest
from typed_commands import fault

from scaleproof.ground.records import metrics, profile_schema, scaling_report

DOCUMENTS = ("README.md", "CONTRIBUTING.md", "docs/*.md", "config/README.md", "profiles/*/README.md")
TYPED = re.compile(r"^ *((?:scaleproof|snakemake|make) .*)$")
QUOTED = re.compile(r"`((?:scaleproof|snakemake|make) [^`]+)`")


def test_the_tests_of_the_fault_table_exist(repository):
    rows = re.findall(r"`(tests/\S+\.py)::(test_\w+)`", (repository / "docs/reliability.md").read_text())
    assert len(rows) > 20
    for path, name in rows:
        assert re.search(rf"^def {name}\(", (repository / path).read_text(), re.MULTILINE), f"{path}::{name}"


def pages(repository: Path) -> list[Path]:
    """All documents that people write."""
    return [path for pattern in DOCUMENTS for path in sorted(repository.glob(pattern))]


def typed_in(text: str) -> list[str]:
    """Commands in blocks of shell, and those that stand in a sentence as code."""
    blocks = re.findall(r"^```(?:sh|bash|console)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [match[1] for block in blocks for match in map(TYPED.match, block.splitlines()) if match] + QUOTED.findall(
        text
    )


def test_commands_in_documents_exist(repository):
    """Their first words, options and targets."""
    commands = [(path.name, command) for path in pages(repository) for command in typed_in(path.read_text())]
    assert len(commands) > 60
    faults = {f"{name}: {command}": why for name, command in commands if (why := fault(command, repository))}
    assert not faults


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("scaleproof plot results/demo", 'no command "plot"'),
        ("scaleproof retry config/campaigns/demo.yaml --all", "no option --all"),
        ("scaleproof trace summarise FILES", 'no command "summarise"'),
        ("snakemake --cores 2 results/scaling_report.json", "no rule makes results/scaling_report.json"),
        ("snakemake --core-dump results/demo/report.html", "no option --core-dump"),
        ("snakemake results/demo/report.html", "needs --cores"),
        ("snakemake --cores 1 --config a=b results/demo/report.html", "taken for more of it"),
        ("make everything", "no target everything"),
    ],
)
def test_commands_that_do_not_exist_are_named(repository, command, why):
    assert why in (fault(command, repository) or "")


def test_documents_state_the_schemas_that_the_code_writes(repository):
    versions = {
        "training_metrics.json": metrics.SCHEMA_VERSION,
        "profile_summary.json": profile_schema.SCHEMA_VERSION,
        "scaling_report.json": scaling_report.SCHEMA_VERSION,
    }
    texts = "\n".join(path.read_text() for path in pages(repository))
    stated = re.findall(r"`(\w+\.json)`,? \(?schema (\d+\.\d+)", texts)
    assert {name for name, _ in stated} == set(versions)
    assert [(name, version) for name, version in stated if versions[name] != version] == []


def test_links_between_documents_lead_somewhere(repository):
    for path in pages(repository):
        for target, anchor in re.findall(r"\]\(([^)#:]*\.\w+)?(?:#([\w-]+))?\)", path.read_text()):
            page = path.parent / target if target else path
            assert page.is_file(), f"{path}: {target}"
            if anchor and page.suffix == ".md":
                headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
                anchors = {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}
                assert anchor in anchors, f"{path}: {target}#{anchor}"


def test_files_of_the_package_that_documents_name_exist(repository):
    """Such as `measure/launch/run.py`, from the package's folder or from one in it."""
    package = repository / "src/scaleproof"
    rooms = "|".join(path.name for path in package.iterdir() if (path / "__init__.py").is_file())
    for path in pages(repository):
        for name in re.findall(
            rf"`(?:src/scaleproof/)?((?:{rooms})/[\w./]+?\.(?:py|css|j2|js|typ))`", path.read_text()
        ):
            assert any(package.glob(f"**/{name}")), f"{path}: {name}"
