"""The sentences of a page, and the tables of its cells, written again from the figures that they state.

`verify` recomputes figures by code of its own; which words follow from them, the code that wrote them knows best. It
is asked again by whoever has the same code: so a word that it would not have written is a difference.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from scaleproof.conclude.report.claims_report import CODE, claims_report
from scaleproof.conclude.report.page_facts import PageInputs, collect_run_facts
from scaleproof.conclude.report.read_results import read_inputs
from scaleproof.conclude.report.tables.cells import write_tables
from scaleproof.conclude.report.tables.scaling import KINDS, write_series
from scaleproof.ground.code_dependencies import code_sha256
from scaleproof.ground.files import read_record
from scaleproof.ground.findings.finding import read_findings
from scaleproof.ground.findings.forecast_report import read_forecast
from scaleproof.ground.number_format import in_unit
from scaleproof.ground.records.claims import CLAIMS, ClaimsReport
from scaleproof.ground.records.comparison_report import read_comparison
from scaleproof.ground.records.profile_schema import read_profile
from scaleproof.ground.records.run import read_run
from scaleproof.ground.records.traces_report import read_traces_report
from scaleproof.ground.records.waterfall_report import read_waterfall
from scaleproof.verify.raw import Difference, read_runs

Sentences = Counter[tuple[str, ...]]  # topic, text and claims of each


def other_sentences(folder: Path) -> Iterator[Difference]:
    """Yield a sentence of claims.json that is not written from the other files in `folder`, one that is left out, and
    a table that has other entries.

    None where other code has written them.
    """
    stated = _claims(folder)
    if stated is not None and stated.schema_version != "1.0" and stated.code_sha256 is None:
        yield Difference(CLAIMS, "code_sha256", "is missing: nobody knows which code wrote the sentences")
    if stated is None or stated.code_sha256 != code_sha256(*CODE):
        return
    yield from _other_tables(folder)
    known = _sentences(stated)
    differing = min((_differing(known, again) for again in _made_again(folder)), key=lambda sides: sum(map(len, sides)))
    for sentences, problem in zip(differing, ("is not what its files give", "is left out"), strict=True):
        for topic, text, *_ in sentences:
            yield Difference(CLAIMS, f'{topic}: "{text[:80]}"', problem)


def other_code(folder: Path) -> str:
    """Say that the sentences in `folder` are of other code than this.

    Return nothing where they are of this code, where there are none, and where they are of before files said so.
    """
    stated = _claims(folder)
    own = code_sha256(*CODE)
    if stated is None or stated.schema_version == "1.0" or stated.code_sha256 == own:
        return ""
    return f"claims.json is of code {str(stated.code_sha256)[:12]}, this version has {own[:12]}"


def _claims(folder: Path) -> ClaimsReport | None:
    """Return the content of claims.json; None where a campaign has none."""
    path = folder / CLAIMS
    return read_record(path, ClaimsReport.model_validate_json) if path.exists() else None


def _other_tables(folder: Path) -> Iterator[Difference]:
    """Yield the tables of cells and series in `folder` that its reports do not give."""
    _, cells, report = read_inputs(folder)
    with TemporaryDirectory() as place:
        write_tables(cells, report, Path(place))
        for kind in KINDS:
            write_series(report, kind, Path(place))
        for again in sorted(Path(place).iterdir()):
            path = folder / "tables" / again.name
            if path.exists() and in_unit(again.read_text(), report.unit) != in_unit(path.read_text(), report.unit):
                yield Difference(f"tables/{again.name}", "", "is not what scaling_report.json and cells.csv give")


def _differing(stated: Sentences, again: Sentences) -> tuple[Sentences, Sentences]:
    """Return the sentences that one side has and the other has not: those that are too many, and those left out."""
    return stated - again, again - stated


def _made_again(folder: Path) -> Iterator[Sentences]:
    """Yield the sentences that the files in `folder` give: with and without forecast, which a campaign may not show;
    with names of hosts, and with pseudonyms.
    """
    raw_runs, _ = read_runs(folder)
    runs_table, cells, report = read_inputs(folder)
    traces, compared = folder / "traces.json", folder / "comparison.json"
    waterfall, forecast = folder / "waterfall.json", folder / "forecast.json"
    facts = collect_run_facts([read_run((folder / run.path).parent) for run in raw_runs])
    traced = [trace.cell for trace in read_traces_report(traces).traces] if traces.exists() else []
    for with_forecast, anonymous in product({forecast.exists(), False}, (False, True)):
        inputs = PageInputs(
            facts=facts,
            runs_table=runs_table,
            cells=cells,
            report=report,
            findings=read_findings(folder / "findings.json"),
            charts=folder / "charts",
            drawn=[],
            comparisons=read_comparison(compared).comparisons if compared.exists() else [],
            profiles=[read_profile(folder / "traces" / cell) for cell in traced],
            waterfall=read_waterfall(waterfall).cells if waterfall.exists() else [],
            forecast=read_forecast(forecast) if with_forecast else None,
            anonymous=anonymous,
        )
        text = inputs.without_hosts(claims_report(inputs).model_dump_json(by_alias=True))
        yield _sentences(ClaimsReport.model_validate_json(in_unit(text, report.unit)))


def _sentences(content: ClaimsReport) -> Sentences:
    """Return the sentences of claims.json, in whatever order."""
    return Counter((sentence.topic, sentence.text, *sentence.claims) for sentence in content.sentences)
