"""Pages beside the report that need nothing but themselves: two results compared, and all campaigns of a folder."""

import html
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from scaleproof.conclude.report import HOUSE
from scaleproof.conclude.report.charts.pairs import draw_ratios
from scaleproof.conclude.report.inline_svg import inline_svg
from scaleproof.conclude.report.page_facts import dates_and_duration, environment_facts, machine_text, protocol_facts
from scaleproof.conclude.report.sentences.next_step import step_of_comparison
from scaleproof.conclude.report.sentences.ratios import compared_sentence, compared_verdict, intervals_note
from scaleproof.ground.comparison import Compared, claim_on
from scaleproof.ground.errors import UserError
from scaleproof.ground.files import read_regular, write_atomic
from scaleproof.ground.findings.finding import SEVERITIES, read_findings
from scaleproof.ground.html import jinja_environment
from scaleproof.ground.number_format import estimate, number
from scaleproof.ground.records.grouping import group_by
from scaleproof.ground.records.metrics import Failed, Measured, Printed, parse_metrics
from scaleproof.ground.records.result_file import Estimated
from scaleproof.ground.records.run import METRICS, Run
from scaleproof.ground.records.scaling_report import read_scaling_report


@dataclass(frozen=True)
class Side:
    """One of the two results. `runs`: [] where they are not of scaleproof."""

    path: str
    runs: list[Run]

    @property
    def about(self) -> str:
        """When it was measured, with a leading separator; "" where that is not known."""
        return f", {dates_and_duration(self.runs)}" if self.runs else ""


def compare_page(compared: Sequence[Compared], alone: Sequence[str], a: Side, b: Side, command: str) -> str:
    """Return the page of a comparison of `a` with `b`, as HTML.

    `compared`: cells of both sides. `alone`: cells of one side. `command`: the command that makes the page.
    """
    named_cells = [(_compared_cell(cell, a, b), cell) for cell in compared]
    comparable = [(name, cell) for name, cell in named_cells if cell.ratio is not None]
    refused = group_by((named for named in named_cells if named[1].ratio is None), lambda named: named[1].why or "")
    name_a, name_b = Path(a.path).name, Path(b.path).name
    intended_of_cells = {tuple(cell.intended) for _, cell in comparable}
    title = f"{name_b} against {name_a}" if name_a != name_b else f"{b.path} against {a.path}"
    template = jinja_environment(HOUSE).get_template("compare.html.j2")
    return template.render(
        title=title,
        machine=machine_text([*a.runs, *b.runs]),
        step=step_of_comparison(compared),
        a=a,
        b=b,
        verdict=compared_verdict(compared) or compared_sentence(replace(compared[0], a="A", b="B")),
        rows=[_comparison_row(cell, name, len(intended_of_cells) > 1) for name, cell in comparable],
        intended=intended_of_cells.pop() if len(intended_of_cells) == 1 else (),
        intervals=intervals_note(compared),
        unstated=sorted({name for cell in compared for name in cell.unstated}),
        refused=refused,
        alone=alone,
        chart=_ratio_chart(comparable),
        facts=_side_facts(a, b),
        command=command,
    )


def _compared_cell(compared: Compared, a: Side, b: Side) -> str:
    """Return the name of a compared cell; "B against A" where its names on the two sides differ."""
    return " against ".join(dict.fromkeys([_cell_of(compared.b, b), _cell_of(compared.a, a)]))


def _cell_of(text: str, side: Side) -> str:
    """Return the name of the cell in `text`: "PATH CELL", or the path alone, whose last part is the name."""
    return text.removeprefix(side.path).strip() or Path(text).name


def _ratio_of(cell: Compared) -> Estimated:
    """Return the ratio of a comparable cell."""
    assert cell.ratio is not None
    return Estimated(value=cell.ratio, low=cell.low, high=cell.high, n=min(cell.runs))


def _comparison_row(cell: Compared, name: str, with_intended: bool) -> dict[str, object]:
    """Return the row of a comparable cell, called `name`: heading -> text, or all findings.

    `with_intended`: whether what differs on purpose has a column, as it is not the same in all cells.
    """
    rate_a, rate_b = cell.rates
    runs_a, runs_b = cell.runs
    row: dict[str, object] = {
        "cell": name,
        "findings": cell.reservations,
        "B over A (95 %)": estimate(_ratio_of(cell)),
        "claim": claim_on(cell),
        f"A ({cell.unit})": number(rate_a, 4),
        f"B ({cell.unit})": number(rate_b, 4),
        "runs": f"{runs_a} and {runs_b}",
    }
    return row | ({"differs on purpose": ", ".join(cell.intended) or "–"} if with_intended else {})


def _ratio_chart(comparable: Sequence[tuple[str, Compared]]) -> str:
    """Return the chart of ratios as SVG; "" where there are fewer than two. `comparable`: names with results."""
    if len(comparable) < 2:
        return ""
    ratios = [(name, _ratio_of(cell)) for name, cell in comparable]
    with tempfile.TemporaryDirectory() as folder:
        draw_ratios(ratios, Path(folder) / "ratios")
        return inline_svg(Path(folder) / "ratios.svg", "ratios", "B over A of every cell")


def _side_facts(a: Side, b: Side) -> list[tuple[str, str, str]]:
    """Return protocol and environment, (name, of a, of b); [] where a side is not of scaleproof."""
    if not a.runs or not b.runs:
        return []
    of_a, of_b = (dict([*protocol_facts(side.runs), *environment_facts(side.runs)]) for side in (a, b))
    return [(name, of_a.get(name, "–"), of_b.get(name, "–")) for name in dict.fromkeys([*of_a, *of_b])]


VERDICT = re.compile(r'<p class="verdict">(.*?)</p>', re.DOTALL)
NEXT = re.compile(r"<strong>Next:</strong> (.*?)</(?:p|li)>", re.DOTALL)  # an item of a list in older publications
SIDE = re.compile(r"<dt>([AB])</dt><dd>[^<]*: <code>([^<]*)</code></dd>")
Content = TypeVar("Content")


@dataclass(frozen=True)
class IndexedCampaign:
    """A finished campaign. `findings`: severity -> number of findings."""

    campaign: str
    title: str
    verdict: str
    step: str  # what the page says is to be done next
    date: str
    machine: str
    findings: dict[str, int]
    has_numbers: bool
    sides: list[tuple[str, str]]  # "A" and "B" with their commands, of a campaign that compares two
    link: str
    unread: tuple[str, ...]  # its files that could not be read


def write_index(results: Path) -> list[IndexedCampaign]:
    """Write index.html into `results` from the reports below it, the latest first, and return its entries."""
    pages = [*results.glob("*/report.html"), *results.glob("published/*/report.html")]
    # A hidden folder is a publication that was not finished.
    entries = [_index_entry(page.parent, results) for page in sorted(pages) if page.parent.name[0] != "."]
    entries.sort(key=lambda entry: entry.date, reverse=True)
    index = jinja_environment(HOUSE).get_template("index.html.j2").render(entries=entries)
    write_atomic(results / "index.html", index)
    return entries


def _index_entry(folder: Path, results: Path) -> IndexedCampaign:
    """Return the entry of a campaign, from its own files; what a missing or damaged file would say is unknown."""
    report = _read_or_none(lambda: read_scaling_report(folder / "scaling_report.json"))
    findings = _read_or_none(lambda: read_findings(folder / "findings.json"))
    first_run = min(folder.glob(f"runs/*/rep*/{METRICS}"), default=folder / METRICS)  # without runs: no file, so None
    metrics = _read_or_none(lambda: parse_metrics(read_regular(first_run)))
    page = _read_or_none(lambda: read_regular(folder / "report.html").decode(errors="replace"))
    # File -> its content; None where it could not be read.
    contents = {
        "report.html": page,
        "scaling_report.json": report,
        "findings.json": findings,
        str(first_run.relative_to(folder)): metrics,
    }

    match = VERDICT.search(page or "")
    step = NEXT.search(page or "")
    finding_counts = Counter[str](finding.severity for finding in findings.findings) if findings else Counter[str]()
    return IndexedCampaign(
        campaign=folder.name,
        title=report.title if report else folder.name,
        verdict=html.unescape(match[1]).strip() if match else "unknown",
        step=html.unescape(re.sub("<[^>]*>", "", step[1])).strip() if step else "",
        date=metrics.timestamp_utc[:16].replace("T", " ") if metrics else "unknown",
        machine=_machine_of(metrics) if metrics else "unknown",
        findings={severity: finding_counts[severity] for severity in SEVERITIES if finding_counts[severity]},
        has_numbers=report is None or bool(report.points),
        sides=[(side, html.unescape(command)) for side, command in SIDE.findall(page or "")],
        link=quote(f"{folder.relative_to(results)}/report.html"),  # also for a folder "javascript:..."
        unread=tuple(name for name, content in contents.items() if content is None),
    )


def _machine_of(metrics: Measured | Printed | Failed) -> str:
    """Return the names of the devices of a run, as "NVIDIA H200"; on CPUs the processor and its logical CPUs."""
    devices = {rank["device_name"] for rank in metrics.ranks or []} - {"cpu"}
    hardware = metrics.hardware
    return ", ".join(sorted(devices)) or f"{hardware['cpu_model']}, {hardware['cpu_allowed']} logical CPUs"


def _read_or_none(read: Callable[[], Content]) -> Content | None:
    """Return what `read` gives; None where its file is missing or damaged."""
    try:
        return read()
    except (OSError, ValueError, RecursionError, UserError):
        return None
