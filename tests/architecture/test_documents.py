"""What documents name exists."""

import importlib
import re

import pytest
from documents import REPOSITORY, pages, titled
from typed_commands import fault

from scaleproof.ground.findings import forecast_report
from scaleproof.ground.records import (
    claims,
    comparison_report,
    metrics,
    profile_schema,
    scaling_report,
    traces_report,
    waterfall_report,
)

TYPED = re.compile(r"^ *(?:\$ )?((?:scaleproof|snakemake|make) .*)$")
QUOTED = re.compile(r"`((?:scaleproof|snakemake|make) [^`]+)`")


def test_the_tests_of_the_fault_table_exist(repository):
    rows = re.findall(r"`(tests/\S+\.py)::(test_\w+)`", (repository / "docs/reliability.md").read_text())
    assert len(rows) > 20
    for path, name in rows:
        assert re.search(rf"^def {name}\(", (repository / path).read_text(), re.MULTILINE), f"{path}::{name}"


def typed_in(text: str) -> list[str]:
    """Commands in blocks of shell, and those that stand in a sentence as code."""
    blocks = re.findall(r"^```(?:sh|bash|console)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [match[1] for block in blocks for match in map(TYPED.match, block.splitlines()) if match] + QUOTED.findall(
        text
    )


def test_commands_in_documents_exist(repository):
    """Their first words, options and targets."""
    commands = [(titled(path), command) for path in pages() for command in typed_in(path.read_text())]
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


def test_names_of_the_python_interface_exist(repository):
    names = re.findall(r"\bscaleproof((?:\.\w+)+)", (repository / "docs/python.md").read_text())
    assert len(names) > 8
    for name in names:
        parts = name.split(".")[1:]
        module = parts[:-1] if parts[-1][0].isupper() else []
        thing = importlib.import_module(".".join(["scaleproof", *module]))
        assert hasattr(thing, parts[-1] if module else parts[0]), name


def test_documents_state_the_schemas_that_the_code_writes(repository):
    versions = {
        "training_metrics.json": metrics.SCHEMA_VERSION,
        "claims.json": claims.SCHEMA_VERSION,
        "profile_summary.json": profile_schema.SCHEMA_VERSION,
        "scaling_report.json": scaling_report.SCHEMA_VERSION,
        "comparison.json": comparison_report.SCHEMA_VERSION,
        "traces.json": traces_report.SCHEMA_VERSION,
        "waterfall.json": waterfall_report.SCHEMA_VERSION,
        "forecast.json": forecast_report.SCHEMA_VERSION,
    }
    texts = "\n".join(path.read_text() for path in pages())
    stated = re.findall(r"`(\w+\.json)`,? \(?schema (\d+\.\d+)", texts)
    assert {name for name, _ in stated} == set(versions)
    assert [(name, version) for name, version in stated if versions[name] != version] == []


def test_links_between_documents_lead_somewhere(repository):
    for path in pages():
        for target, anchor in re.findall(r"\]\(([^)#:]*\.\w+)?(?:#([\w-]+))?\)", path.read_text()):
            page = path.parent / target if target else path
            assert page.is_file(), f"{path}: {target}"
            if anchor and page.suffix == ".md":
                headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
                anchors = {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}
                assert anchor in anchors, f"{path}: {target}#{anchor}"


PART = r"[\w<>*.-]+"
NAMED = re.compile(rf"`((?:{PART}/)+{PART}\.\w+|(?:{PART}/)+)`")  # a file, or a folder with its slash
ABOUT_CODE = ("CONTRIBUTING.md", "docs/architecture.md")  # every path in them is one of the repository
OLD = ("CHANGELOG.md", "docs/five-benchmarks.md")  # of editions before, and of other people
READERS_OWN = ("config/campaigns/mine.yaml", "config/campaigns/nodes.yaml")  # what a reader is told to write
PACKAGE = REPOSITORY / "src/scaleproof"


def missing(name: str, strict: bool) -> bool:
    """Whether a path leads nowhere from the top of the repository, the package or a room of it.

    Not `strict`: one that begins in a folder of none of them is of results, or of other people's.
    `<name>` and `NAME` stand for any.
    """
    rooms = [path.parent for path in PACKAGE.glob("*/__init__.py")]
    roots = [REPOSITORY, PACKAGE, *(rooms if strict else ())]
    first = name.partition("/")[0]
    if not strict and (first in ("results", "envs") or not any((root / first).is_dir() for root in roots)):
        return False
    pattern = re.sub(r"<\w+>|\bNAME\b", "*", name)
    return not any(any(root.glob(pattern)) for root in roots)


def test_paths_that_documents_name_exist():
    read = [path for path in pages() if titled(path) not in OLD]
    named = [(titled(path), name) for path in read for name in NAMED.findall(path.read_text())]
    assert len(named) > 200
    faults = [(page, name) for page, name in named if missing(name, page in ABOUT_CODE) and name not in READERS_OWN]
    assert faults == []


IN_FILE = re.compile(r"((?:`\w+`(?:,| and|) )+)in `((?:[\w.]+/)*\w+\.(?:py|smk|j2))`")  # `NAME` in `file.py`


def names_gone(text: str) -> list[tuple[str, str]]:
    """Names that a document finds in a file of code, where no file of this path (or name) has them."""
    roots = (PACKAGE, REPOSITORY / "tests", REPOSITORY / "workflow", REPOSITORY / "envs")
    files, gone = [file for root in roots for file in root.rglob("*.*")], []
    for names, path in IN_FILE.findall(re.sub(r"\s+", " ", text)):
        contents = [file.read_text() for file in files if str(file).endswith(f"/{path}")]
        found = {word for content in contents for word in re.findall(r"\w+", content)}
        gone += [(name, path) for name in re.findall(r"`(\w+)`", names) if name not in found]
    return gone


def test_names_that_documents_find_in_files_are_there():
    assert [fault for page in ABOUT_CODE for fault in names_gone((REPOSITORY / page).read_text())] == []
    assert names_gone("`STAGES`, `nothing`\n in `ground/campaign/strategies.py`") == [
        ("nothing", "ground/campaign/strategies.py")
    ]


@pytest.mark.parametrize("name", ["ground/findings/registery.py", "docs/nope.md", "measure/nope/", "trainer/nope.py"])
def test_a_path_that_does_not_exist_is_named(name):
    assert missing(name, strict=True)
    assert missing(name, strict=False) or name.startswith("trainer")


def test_findings_that_documents_name_have_a_page(repository):
    """In backticks, as `losses-differ`: where the code is described, and where symptoms are."""
    titles = set(re.findall(r"^## (.+)$", (repository / "docs/findings.md").read_text(), re.MULTILINE))
    for name in ("architecture.md", "troubleshooting.md"):
        codes = re.findall(r"`([a-z]+(?:-[a-z]+)+)`", (repository / "docs" / name).read_text())
        assert [code for code in codes if code not in titles] == []


# Tables of published figures, written by `scaleproof stage case_studies`: a row is as long as what was published.
LONG_ROWS = ("docs/five-benchmarks.md",)


@pytest.mark.parametrize("page", [page for page in pages() if titled(page) not in LONG_ROWS], ids=titled)
def test_lines_are_short_enough_for_a_diff(page):
    assert [f"{i}: {line}" for i, line in enumerate(page.read_text().splitlines(), 1) if len(line) > 160] == []
