"""The page, its sentences and the tables of a campaign, written again from the files that they are made from.

`verify` recomputes what these files state by code of its own. The code that writes pages knows best what a page makes
of them: it writes the page again, and whatever it does not write is a difference. Where other code of the same version
wrote the page, words may differ; figures, names, and words that decide something may not.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from scaleproof import __version__
from scaleproof.conclude.publication import statements
from scaleproof.conclude.publication.statements import Statement
from scaleproof.conclude.report.chart_catalog import CATALOG
from scaleproof.conclude.report.claims_report import CODE
from scaleproof.conclude.report.page import claims_text, page_text, with_signature
from scaleproof.conclude.report.page_facts import PageInputs, collect_run_facts
from scaleproof.conclude.report.read_results import read_inputs, row_dicts
from scaleproof.conclude.report.tables.cells import write_tables
from scaleproof.conclude.report.tables.comparison import write_comparison
from scaleproof.conclude.report.tables.forecast import write_forecast
from scaleproof.conclude.report.tables.scaling import KINDS, write_series
from scaleproof.conclude.report.tables.waterfall import write_waterfall
from scaleproof.ground.code_dependencies import code_sha256
from scaleproof.ground.columns import COLUMNS
from scaleproof.ground.errors import describe_first_fault, plural
from scaleproof.ground.files import read_record
from scaleproof.ground.number_format import in_unit
from scaleproof.ground.records.claims import CLAIMS, SCHEMA_VERSION, ClaimsReport
from scaleproof.ground.records.comparison_report import read_comparison
from scaleproof.ground.records.host_names import Pseudonyms
from scaleproof.ground.records.metrics import VERSION
from scaleproof.ground.records.run import Run, read_run
from scaleproof.ground.records.scaling_report import ScalingReport, read_scaling_report
from scaleproof.ground.snakemake_command import derive_again_command
from scaleproof.verify.campaign_file import campaign_beside
from scaleproof.verify.contents import DAMAGES, text_of
from scaleproof.verify.html_tree import Element, tree_of
from scaleproof.verify.manifest import CAMPAIGN, Demands, demands_in
from scaleproof.verify.raw import PLACES, Difference
from scaleproof.verify.signature import SIGNATURE, signer_of

PAGE = "report.html"
BY_SETTINGS = {"energy", "batch_size", "seq_len"}  # charts that settings of a campaign ask for
OF_TRAINER = {"memory", "utilization"}  # charts that the page of a command has not, though the workflow draws them
REBUILT = "; rebuild this page with"  # behind the name of the campaign file
SIDES = "lines sides"  # class of what a page says of A and B
PARTS = ("comparison", "traces", "waterfall", "forecast")  # files of which a page may have parts
REPORTS = ("scaling_report.json", CLAIMS, "findings.json", "comparison.json", "waterfall.json", "traces.json")


@dataclass(frozen=True)
class Rewritten:
    """The differences. `reservation`: why nothing or only figures were compared; "" where everything was."""

    differences: list[Difference]
    reservation: str = ""

    def added_to(self, found_before: Sequence[Difference]) -> list[Difference]:
        """Return what verify() has found, and these differences.

        Of a file that is faulted already, by more than its hash, they add nothing, unless it differs as a whole and
        only parts of it are faulted: these faults follow from that, and are left out.
        """
        unread = {one.file for one in found_before if not one.where}
        as_a_whole = {one.file for one in self.differences if not one.where} - unread
        kept_before = [one for one in found_before if one.file not in as_a_whole or one.where == "sha256"]
        explained = {one.file for one in kept_before if one.where != "sha256"}
        return kept_before + [one for one in self.differences if one.file not in explained]


def records_in(folder: Path) -> list[Run]:
    """Return all runs of a campaign, from its folder. Raises UserError where one is damaged."""
    return [read_run(place) for place in sorted(folder.glob(PLACES))]


def compare_with_rewritten(folder: Path, records: Sequence[Run] = ()) -> Rewritten:
    """Make page, claims.json and tables of `folder` anew; return where the stored ones differ. `records`: its runs."""
    if not (folder / CLAIMS).exists() or not (folder / PAGE).exists():  # also a rehearsal, or older than claims.json
        return Rewritten([])
    try:
        records = records or records_in(folder)
        if {run.metrics.env.get(VERSION) for run in records} != {__version__}:
            return Rewritten([], "page and tables were not written again: they are of another version")
        return _compare(folder, records)
    except DAMAGES as error:
        return Rewritten([Difference(PAGE, "", f"cannot be written again: {describe_first_fault(error)}")])


def is_written_again(file: str) -> bool:
    """Return whether a file of results, by its name in their folder, is one that `compare_with_rewritten` compares."""
    return file in (PAGE, CLAIMS) or file.startswith("tables/")


def _compare(folder: Path, records: Sequence[Run]) -> Rewritten:
    """Return where stored files differ from files made anew: in anything, where this code wrote the page.

    Where other code wrote it, only figures, names and deciding words are compared.
    """
    stated = read_record(folder / CLAIMS, ClaimsReport.model_validate_json)
    # File -> pairs of differing statements: the stated one, and the one made anew.
    sides_of_file = {file: sides for file, *sides in _both_versions(folder, records)}
    pairs_of_file = {file: list(statements.differing(*sides)) for file, sides in sides_of_file.items()}
    is_of_today = stated.schema_version == SCHEMA_VERSION  # whether claims.json has today's form
    if not is_of_today:  # such a file has fewer sentences, and names no code; the page has all sentences
        del pairs_of_file[CLAIMS]
    elif stated.code_sha256 is None:
        problem = "is missing: nobody knows which code wrote the sentences"
        return Rewritten([Difference(CLAIMS, "code_sha256", problem)])

    reservation = ""
    pair_count = sum(map(len, pairs_of_file.values()))
    if pair_count and stated.code_sha256 != code_sha256(*CODE):
        names = _names_of_results(folder)
        for file, pairs in pairs_of_file.items():
            pairs_of_file[file] = statements.differing_contents(pairs, names, is_of_before=not is_of_today)
        count_in_words_alone = pair_count - sum(map(len, pairs_of_file.values()))
        if is_of_today:
            statements_text = plural(count_in_words_alone, "statement")
            reservation = f"{statements_text} with other words and the same figures: other code wrote the page"

    faults: dict[str, str] = {}  # file -> how it differs as a whole
    if not reservation:
        faults = {
            file: statements.fault_of_whole(*sides_of_file[file], count=len(pairs))
            for file, pairs in pairs_of_file.items()
            if pairs
        }
    # A bare tag, as "<tr>", is named only where nothing else differs.
    shown_pairs = {file: [*filter(statements.is_telling, pairs)] or pairs for file, pairs in pairs_of_file.items()}
    all_pairs = [(file, pair) for file, pairs in shown_pairs.items() for pair in pairs if not faults.get(file)]
    if reservation and all_pairs:
        cure = f"this code writes it again by: {derive_again_command(folder / PAGE)}"
        if (folder / CAMPAIGN).exists():  # a publication, which no rule makes
            cure = "verify it with the code of its commit"
        reservation = f"other code wrote the page; if nobody edited it, {cure}"
    differences = [Difference(file, "", problem) for file, problem in faults.items() if problem]
    return Rewritten(
        differences + [Difference(file, *statements.in_words(pair)) for file, pair in all_pairs], reservation
    )


def _names_of_results(folder: Path) -> set[str]:
    """Return the words, in lower case, that are names in the reports of a campaign, or headings of its tables."""
    contents: list[object] = [json.loads(text_of(folder / file)) for file in REPORTS if (folder / file).exists()]
    contents += [column.heading for column in COLUMNS.values()]
    return set(statements.names_in(contents))


def _both_versions(folder: Path, records: Sequence[Run]) -> Iterator[tuple[str, list[Statement], list[Statement]]]:
    """Yield (name, stated statements, expected statements) of each file that is made anew."""
    stated_page = text_of(folder / PAGE)
    page = _without_machine_check(tree_of(stated_page))
    inputs = _page_inputs(folder, page, records)
    # A page in which no host is named is that of an anonymous publication.
    names_no_host = Pseudonyms(inputs.facts.hosts).in_text(stated_page) == stated_page
    if names_no_host:
        inputs = replace(inputs, anonymous=True)
    if SIDES not in stated_page:  # a page of before
        inputs = replace(inputs, facts=replace(inputs.facts, commands={}))

    # Links are relative to the folder of results, as runs.csv states it: X in X/runs/<cell>/rep1/training_metrics.json.
    page_again = page_text(inputs)
    signer, _ = signer_of(folder)
    if signer:
        page_again = with_signature(page_again, signer, SIGNATURE)
    if page_again == stated_page:  # the common case, without parsing the page again
        yield PAGE, [], []
    else:
        yield PAGE, statements.blocks_of(page), statements.blocks_of(tree_of(page_again))

    yield CLAIMS, statements.entries_of(text_of(folder / CLAIMS)), statements.entries_of(claims_text(inputs))
    unit = inputs.report.unit
    for file, text in _tables(folder, inputs):
        path = folder / file
        if path.exists() or path.with_suffix(".csv").exists():
            try:
                stated = text_of(path) if path.exists() else ""
            except ValueError:  # the check of this file, or its hash, says so
                continue
            yield file, statements.lines_of(in_unit(stated, unit)), statements.lines_of(in_unit(text, unit))


def _without_machine_check(part: Element) -> Element:
    """Return a page without what `scaleproof doctor` said of the machine, as its report is not among the results."""
    children = [_without_machine_check(child) if isinstance(child, Element) else child for child in part.children]
    if part.attributes.get("id") == "environment":
        ids = [child.attributes.get("id") if isinstance(child, Element) else "" for child in children]
        if "machine-check" in ids:
            del children[ids.index("machine-check") :]  # its heading, and all that follows
    return replace(part, children=children)


def _tables(folder: Path, inputs: PageInputs) -> Iterator[tuple[str, str]]:
    """Yield name and text of each table, made anew from the reports in `folder`."""
    with TemporaryDirectory() as place:
        out = Path(place)
        report = read_scaling_report(folder / "scaling_report.json")  # with its own title, as tables have it
        write_tables(inputs.cells, report, out)
        for kind in KINDS:
            write_series(report, kind, out)
        if inputs.comparisons:
            write_comparison(read_comparison(folder / "comparison.json"), out)
        if inputs.waterfall:
            write_waterfall(inputs.waterfall, report.campaign, out)
        if inputs.forecast:
            write_forecast(inputs.forecast.forecasts, report.campaign, out)
        yield from ((f"tables/{path.name}", path.read_text()) for path in sorted(out.iterdir()))


def _title(folder: Path, page: Element, report: ScalingReport, demands: Demands | None) -> str:
    """Return the title that a page should have: that of its campaign, which may have changed after the report.

    The manifest decides (`demands`: what it demands of the page). Without it, the title of the report or of today's
    campaign file is right if the page has it; without a campaign file any title on the page is taken as right.
    """
    if demands:
        return in_unit(demands.title, report.unit)
    stated_title = next(page.all("title"), Element("title")).text
    campaign = campaign_beside(folder)
    allowed_titles = [report.title, in_unit(campaign.title, report.unit)] if campaign else [stated_title]
    return next((title for title in allowed_titles if " ".join(title.split()) == stated_title), report.title)


def _charts_due(folder: Path, page: Element, report: ScalingReport) -> list[str]:
    """Return the charts of a page whose manifest does not list them: those on it, and those that have been drawn.

    A drawn chart must be on the page, unless only settings ask for it (BY_SETTINGS): then the page itself decides.
    """
    on_page = {figure.attributes.get("id", "").removeprefix("chart-") for figure in page.all("figure")}
    due = {path.stem for path in folder.glob("charts/*.svg")} - BY_SETTINGS
    if report.evidence != "built":
        due -= OF_TRAINER
    return [name for name in CATALOG if name in on_page | due]


def _not_asked_for(cells: pd.DataFrame) -> set[str]:
    """Return the charts of a setting that has one value in all cells of cells.csv: nobody has asked for them."""
    size_count = cells["devices"].nunique()
    batches = ("global_batch", "micro_batch", "accumulation")
    # Cells whose batch was searched for are told apart by their names: a search may find the batch of another cell.
    is_searched = cells["cell"].str.contains("largest|fastest").any()
    # Several batches on the same number of devices.
    has_batches = any(len(cells[[batch, "devices"]].drop_duplicates()) > size_count for batch in batches)
    charts = set()
    if not is_searched and not has_batches:
        charts.add("batch_size")
    if cells["seq_len"].nunique() <= 1:
        charts.add("seq_len")
    return charts


def _page_inputs(folder: Path, page: Element, records: Sequence[Run]) -> PageInputs:
    """Return what a page is made from; the page itself gives its campaign file, title and charts by settings."""
    tables = runs_table, cells, report = read_inputs(folder)
    records_by_name = {run.name: run for run in records}
    names_of_runs = [f"{row['cell']}/rep{row['repeat']}" for row in row_dicts(runs_table)]  # in the campaign's order
    facts = collect_run_facts([records_by_name[name] for name in names_of_runs])

    demands = demands_in(folder)  # title and charts of the page by its manifest; None where that has neither
    listed_charts = demands.charts if demands else _charts_due(folder, page, report)
    drawn = [name for name in listed_charts if name not in _not_asked_for(cells)]
    rebuilt_facts = [fact.text for fact in page.all("dd") if REBUILT in fact.text]
    campaign_file = rebuilt_facts[0].partition(REBUILT)[0] if rebuilt_facts else ""

    files = {name for name in PARTS if (folder / f"{name}.json").exists()}
    if "waterfall" not in drawn:
        files.discard("waterfall")
    if not any(page.all("section", id="forecast")):  # forecast.json may have been written after the page
        files.discard("forecast")
    title = _title(folder, page, report, demands)
    return PageInputs.read(folder, tables, title, files, facts=facts, drawn=drawn, campaign_file=campaign_file)
