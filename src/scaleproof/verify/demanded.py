"""What report.html must have because other files of the campaign have it: rows, findings, charts, sentences."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scaleproof.ground.columns import INTERVAL
from scaleproof.ground.number_format import in_unit, integer, is_useless
from scaleproof.verify.campaign_file import are_of_this_version
from scaleproof.verify.contents import csv_of, entries_of, json_of, text_of
from scaleproof.verify.demand import Demand, element_of, facts_by_name
from scaleproof.verify.demanded_facts import facts_due, is_traced
from scaleproof.verify.html_tree import Element, answer_of
from scaleproof.verify.printed import rounded_up_percent
from scaleproof.verify.raw import Difference, RawRun
from scaleproof.verify.raw_cells import comparable, largest_comparison
from scaleproof.verify.recompute import Quantities
from scaleproof.verify.tables import HEADINGS, markdown_table

FILE = "report.html"
# Table -> where the page has it: the element, and its id.
TABLES = {"scaling": "table-cells", "strong": "table-strong", "weak": "table-weak"}
PLAIN_TABLES = {"comparison": "pairs", "forecast": "forecast"}  # table -> section, whose first table it is
FILES_ONLY = ("series", "perplexity", "start-up (s)")  # headings that the page does not have
CELLS_BEHIND = re.compile(r" \(see [^)]*\)")  # a sentence that does not name them
LITTLE, OFTEN = 0.02, 0.8  # of a step, of the steps: a rank that costs less, or is last more rarely, is not named
MOST_NAMED = 4  # cells named below a table
# Heading of the table of traces -> entry of traces.json.
TRACED = {
    "step (ms)": "wall_ms",
    "computing (ms)": "compute_ms",
    "exposed communication (ms)": "exposed_ms",
    "exposed waiting (ms)": "exposed_wait_ms",
    "idle (ms)": "idle_ms",
    "all communication (ms)": "communication_ms",
    "all waiting (ms)": "wait_ms",
}


def check_demanded(page: Element, folder: Path, quantities: Quantities, runs: Sequence[RawRun]) -> Iterator[Difference]:
    """Yield the rows, charts, texts and figures that the page leaves out.

    Fixed texts are demanded of pages of this version alone.
    """
    report, findings = json_of(folder / "scaling_report.json"), json_of(folder / "findings.json")
    yield from _check_tables(page, folder)
    yield from _check_charts(page, folder, report, quantities)
    demands = [
        *_demand_counts_of_columns(page),
        *_demand_trust(page, findings, report),
        *_demand_findings(page, findings),
        *_demand_series(page, folder, report, quantities),
        *_demand_pairs(page, folder),
        *_demand_traces(page, folder),
        *_demand_sentences(page, json_of(folder / "claims.json")["sentences"]),
        *(_demand_definitions(page, report["unit"]) if are_of_this_version(runs) else ()),
        *facts_due(page, folder, report, runs),
    ]
    for demand in demands:
        yield from demand.missing()


def _demand_counts_of_columns(page: Element) -> Iterator[Demand]:
    """Yield how many columns each table shows only when all are asked for."""
    hidden = [
        sum(heading.attributes.get("class", "").endswith(" more") for heading in table.all("th", scope="col"))
        for table in page.all("table")
    ]
    switches = page.all("label", kind="switch")
    yield from (Demand("all columns", next(switches, None), [f"({count} more)"]) for count in hidden if count)


def _tables_by_file(page: Element) -> dict[str, Element | None]:
    """Return the tables of the page that are files as well, by the names of these."""
    elements = {name: next(page.all("table", id=identity), None) for name, identity in TABLES.items()}
    return elements | {name: element_of(page, "section", section, "table") for name, section in PLAIN_TABLES.items()}


def _check_tables(page: Element, folder: Path) -> Iterator[Difference]:
    """Yield entries of tables/*.md that the table of the page does not have."""
    for name, table in _tables_by_file(page).items():
        file = folder / f"tables/{name}.md"
        if not file.is_file():
            continue
        header, rows = markdown_table(text_of(file))
        in_files = csv_of(file.with_suffix(".csv")) if name in TABLES else ()
        keys = [row["cell"] for row in in_files] or [row[0] for row in rows]
        printed = _rows_of_table(table) if table else []
        for key, row in zip(keys, rows, strict=True):
            entries = {a: _entry_text(text) for a, text in zip(header, row, strict=True) if a not in FILES_ONLY}
            candidates = [texts for name, texts in printed if name == key]
            if not any(entries.items() <= texts.items() for texts in candidates):
                other = next((a for texts in candidates for a, text in entries.items() if texts.get(a) != text), "")
                problem = f'has not what tables/{name}.md has, "{entries[other]}"' if other else "has no such row"
                yield Difference(FILE, f"{name}, {key}{', ' if other else ''}{other}", problem)


def _demand_definitions(page: Element, unit: str) -> Iterator[Demand]:
    """Yield the definition of each column of the page. `unit`: of the work, which all rates are in."""
    facts = facts_by_name(page)
    definitions = {heading: in_unit(column.definition, unit) for heading, column in HEADINGS.items()}
    definitions |= {in_unit(heading, unit): text for heading, text in definitions.items()}
    headings = {heading for table in _tables_by_file(page).values() if table for heading in _column_headings(table)}
    for heading in headings - {"findings"}:
        definition = definitions.get(heading.removesuffix(INTERVAL))
        if definition:
            yield Demand(heading, facts.get(heading), [definition])


def _rows_of_table(table: Element) -> list[tuple[str, dict[str, str]]]:
    """Return the rows of a table: the heading of each, and heading of the column -> text."""
    headings = _column_headings(table)
    rows = [[_entry_text(part.text) for part in row.children if isinstance(part, Element)] for row in table.all("tr")]
    whole = [row for row in rows if len(row) == len(headings)]
    return [(row[0].removesuffix("†"), dict(zip(headings, row, strict=True))) for row in whole]


def _column_headings(table: Element) -> list[str]:
    return [heading.text.replace(" %]", " %]") for heading in table.all("th", scope="col")]


def _entry_text(text: str) -> str:
    """Return an entry of a table without marks: of undecided ratios, notes, and that there are no findings."""
    without_marks = " ".join(text.replace("\u00a0", " ").replace(" (note)", "").removeprefix("~ ").split())
    return "" if without_marks in ("none", "–") else without_marks


def _demand_trust(page: Element, content: Mapping[str, Any], report: Mapping[str, Any]) -> Iterator[Demand]:
    """Yield the texts on whether the answer can be trusted, by the findings on its runs."""
    findings, checks = content["findings"], content["checks"]
    ranking = largest_comparison(report)
    scaled = next((series for series in report["series"] if len(series["runs"]) > 1), None)
    several = ranking or scaled
    concerns = {"runs", "scaling"} if several else {"runs", "scaling", "comparison"}
    used = [one for one in findings if one["severity"] != "note" and one.get("concerns", "runs") in concerns]
    invalid = [finding for finding in used if finding["severity"] == "invalid"]
    word = "no" if invalid else "with reservations" if used else "yes"
    element = next(page.all("p", kind="trust"), None)
    if not checks:
        yield Demand("trust", element, ["No run has numbers"])
        return
    codes = [finding["code"] for finding in invalid or used]
    compared = sum(len(point["repeats"]) for series in report["series"] for point in series["runs"].values())
    texts = [f"Can I trust it? {word}:", *codes, f"the {integer(compared)} run" if compared else None]
    yield Demand("trust", element, texts, [] if used else [float(len(checks))])
    answer = answer_of(page)
    yield Demand("trust", answer, [finding["code"] for finding in findings])
    resolve = (report["question"] or ranking or scaled or {"resolve": None})["resolve"]
    if resolve and not invalid:
        texts = [f"{resolve['n']} repeat", f"differences of {rounded_up_percent(resolve['detectable'])} "]
        yield Demand("trust, which differences show", answer, texts)
    for severity in {finding["severity"] for finding in findings}:
        number = sum(finding["severity"] == severity for finding in findings)
        yield Demand("trust", next(answer.all("span", kind=severity), None), [severity], [float(number)])


def _demand_findings(page: Element, content: Mapping[str, Any]) -> Iterator[Demand]:
    """Yield every finding with its advice; below the table of cells, each above a note."""
    section, notes = element_of(page, "section", "findings"), element_of(page, "ul", "footnotes")
    if content["checks"]:
        yield Demand("findings", section, figures=[float(len(content["checks"]))])
    first: dict[tuple[str, str], Mapping[str, Any]] = {}
    for finding in content["findings"]:
        yield Demand(finding["code"], section, [finding["evidence"], finding["advice"], *finding["cells"][:1]])
        first.setdefault((finding["code"], finding["severity"]), finding)
    for (code, severity), finding in first.items():
        if severity != "note":
            yield Demand(code, notes, [f"{code} ({severity})", finding["evidence"]])


def _demand_series(page: Element, folder: Path, report: Mapping[str, Any], quantities: Quantities) -> Iterator[Demand]:
    """Yield the notes below the table of cells, and the speed-up of the whole job beside the verdict."""
    facts = facts_by_name(page)
    for line in text_of(folder / "tables/scaling.md").splitlines():
        if line.startswith("In all rows: "):
            constant = line.removeprefix("In all rows: ").removesuffix(".")
            yield Demand("In all rows", facts.get("In all rows"), [constant])
    yield from _demand_baselines(report, facts)
    if _reach_loss_in_equal_steps(csv_of(folder / "cells.csv")):
        yield Demand("Time to loss", facts.get("Time to loss"), ["about the same number of steps"])
    yield from _demand_whole_jobs(page, facts, report, quantities)


def _demand_baselines(report: Mapping[str, Any], facts: Mapping[str, Element]) -> Iterator[Demand]:
    """Yield what the speed-ups of each series are over, which series have none, and the best cells of one device."""
    for series in report["series"]:
        if series["kind"]:
            text = f"{series['name']}: {series['kind']} scaling from {series['baseline']}"
            yield Demand("Speed-up", facts.get("Speed-up"), [text])
    without = [series["name"] for series in report["series"] if not series["kind"]]
    if without and len(without) < len(report["series"]):
        yield Demand("Speed-up", facts.get("Speed-up"), [f"no speed-up: {', '.join(without)}."])
    points = [point for series in report["series"] for point in series["runs"].values()]
    singles = {point["best_single"] for point in points if point["speedup_vs_best_single"]} - {None}
    for single in singles if len(singles) <= MOST_NAMED else ():
        yield Demand("1-device", facts.get("1-device"), [single])


def _demand_whole_jobs(
    page: Element, facts: Mapping[str, Element], report: Mapping[str, Any], quantities: Quantities
) -> Iterator[Demand]:
    """Yield the speed-up by the wall time of jobs: of each series among the facts, and one beside the verdict.

    That is of the series whose largest size the answer is about, where its speed-up is over the best single device.
    """
    ranking = largest_comparison(report)
    group = comparable(ranking) if ranking else []
    advice = (ranking["recommendation"] if ranking else None) or {}
    is_answered = report["status"] == "ok" and not report["question"]  # by a verdict about sizes or cells
    scaled = [series for series in report["series"] if series["kind"]]
    for series in scaled:
        last = list(series["runs"].values())[-1]
        job = quantities.get(f"cells/{last['cell']}/speedup_by_job_wall_time")
        if job is None or not last["speedup_by_job_wall_time"]:
            continue
        figures = _printed_figures(job.value, job.low, job.high, job.n)
        if len(scaled) <= MOST_NAMED:
            yield Demand("Whole job", facts.get("Whole job"), [last["cell"]], figures)
        is_meant = last["cell"] == (advice.get("cell") or (group or [last["cell"]])[0])
        if is_meant and (not group or last["best_single"] == series["baseline"]) and is_answered:
            element = next(answer_of(page).all("p", kind="soft"), None)
            yield Demand("whole job", element, ["The whole job", f"the rate of {series['baseline']}"], figures)
            return


def _reach_loss_in_equal_steps(rows: Sequence[Mapping[str, str]]) -> bool:
    """Return whether all cells reach their target loss after about the same number of steps. `rows`: of cells.csv."""
    steps: dict[tuple[str, ...], list[float]] = {}
    for row in rows:
        if row.get("steps_to_loss"):
            key = (row["target_loss"], row["global_batch"], row["seq_len"])
            steps.setdefault(key, []).append(float(row["steps_to_loss"]))
    known = steps and all(all(key) for key in steps)
    return bool(known) and all(len(group) > 1 and max(group) - min(group) <= 1 for group in steps.values())


def _demand_pairs(page: Element, folder: Path) -> Iterator[Demand]:
    """Yield the ratio of every pair of A/B comparisons."""
    section = element_of(page, "section", "pairs", "details")
    rows = list(section.all("tr")) if section else []
    for entry in entries_of(folder / "comparison.json", "comparisons"):
        for label, key in (("B / A", "ratios"), ("A / A, noise", "null_ratios")) if entry["estimate"] else ():
            row = next((row for row in rows if row.text.startswith(f"{entry['name']} {label}")), None)
            yield Demand(f"{entry['name']}, pairs", row, figures=entry["estimate"][key])


def _demand_traces(page: Element, folder: Path) -> Iterator[Demand]:
    """Yield the texts and figures on each trace: parts of a step, collectives, the rank that others wait for."""
    section = element_of(page, "section", "step")
    blocks = [part for part in section.children if isinstance(part, Element)] if section else []
    table = element_of(page, "section", "step", "table")
    rows = dict(_rows_of_table(table)) if table else {}
    for trace in entries_of(folder / "traces.json", "traces"):
        cell = trace["cell"]
        where = f"trace of {cell}"
        if trace["status"] != "ok":
            yield Demand(where, section, [trace["reason"]])
            continue
        yield from _demand_row_of_trace(where, rows.get(cell, {}), trace)
        head = next((k for k, block in enumerate(blocks) if block.tag == "p" and block.text.startswith(f"{cell},")), -1)
        yield Demand(where, blocks[head] if head >= 0 else None, [cell, trace["tool"]], [trace["steps"]])
        items = list(blocks[head + 1].all("li")) if 0 <= head < len(blocks) - 1 else []
        yield from _demand_sentences_on_trace(where, items, trace)
        for why in trace["unknown"].values():
            yield Demand(where, section, [why])


def _demand_row_of_trace(where: str, row: Mapping[str, str], trace: Mapping[str, Any]) -> Iterator[Demand]:
    """Yield what the entries of a trace's `row` have to state: tool, steps, parts of a step, cost of tracing."""
    entries = {heading: Element("td", children=[text]) for heading, text in row.items()}
    for heading, text in (("traced with", trace["tool"]), ("steps", trace["steps"])):
        yield Demand(f"{where}, {heading}", entries.get(heading), [str(text)] if text else [])
    for heading, name in TRACED.items():
        yield Demand(f"{where}, {heading}", entries.get(heading), [], [trace[name]])
    overhead = [(trace["overhead"] or {}).get(name) for name in ("value", "low", "high", "n")]
    yield Demand(f"{where}, traced / untraced", entries.get("traced / untraced"), [], _printed_figures(*overhead))


def _demand_sentences_on_trace(where: str, items: Sequence[Element], trace: Mapping[str, Any]) -> Iterator[Demand]:
    """Yield what the list below a trace has to state: parts of a step, communication, the rank that others wait for."""

    def item(start: str) -> Element | None:
        return next((item for item in items if item.text.startswith(start)), None)

    if None not in (trace["wall_ms"], trace["compute_ms"], trace["exposed_ms"]):
        parts = [trace[name] for name in ("wall_ms", "compute_ms", "exposed_ms", "idle_ms")]
        yield Demand(where, item("A step of"), [], [*parts, trace["exposed_wait_ms"] or None])
    total = trace["communication_ms"]
    if total:
        yield Demand(where, item("Communication takes"), [], [total, 100 * trace["exposed_ms"] / total])
    elif total == 0:
        yield Demand(where, item("There is no communication"), ["no communication"])
    for name, one in trace["collectives"].items():
        figures = [one[key] for key in ("calls", "total_ms", "transfer_ms", "bus_gb_per_s")]
        yield Demand(where, item(f"{name}: "), [name], [*figures, one["wait_ms"]])
    slowest = trace["slowest"]
    costs_much = slowest and slowest["caused_ms"] >= LITTLE * (trace["wall_ms"] or math.inf)
    if costs_much and slowest["steps_last"] >= OFTEN * slowest["of_steps"]:
        counts = f"{slowest['steps_last']} of {slowest['of_steps']}"
        yield Demand(where, item(f"Rank {slowest['rank']} "), [counts], [slowest["caused_ms"]])


def _printed_figures(value: float | None, low: float | None, high: float | None, n: float | None) -> list[float | None]:
    """Return the figures of an estimate over `n` runs that a page prints: without bounds that say nothing."""
    is_too_wide = low is not None and high is not None and is_useless(low, high, n or 0)
    return [value] if is_too_wide else [value, low, high]


def _check_charts(
    page: Element, folder: Path, report: Mapping[str, Any], quantities: Quantities
) -> Iterator[Difference]:
    """Yield the charts that the page lacks, though there are figures and a file, and those drawn without figures."""
    known = {name.rsplit("/", 1)[1] for name in quantities if name.startswith("cells/")}
    sizes = max((len(series["runs"]) for series in report["series"] if series["kind"]), default=0)
    due: dict[str, bool] = {
        **dict.fromkeys(("ranking", "step_time", "job_time"), "tokens_per_s" in known),
        "throughput": sizes > 1,
        **dict.fromkeys(("speedup", "efficiency"), sizes > 2),
        **dict.fromkeys(("loss_step", "loss_seconds"), "loss_last" in known),
        "memory": "state_bytes" in known,
        "waterfall": bool(list(page.all("section", id="lost"))),
        "comparison": any(entry["estimate"] for entry in entries_of(folder / "comparison.json", "comparisons")),
        **dict.fromkeys(("trace-timeline", "trace-steps", "trace-kernels"), is_traced(folder)),
    }
    figures = {figure.attributes.get("id"): figure for figure in page.all("figure")}
    for name, is_due in due.items():
        figure = figures.get(f"chart-{name}")
        is_there = figure is not None and bool(list(figure.all("svg")))
        if is_due and not is_there and (folder / f"charts/{name}.svg").is_file():
            yield Difference(FILE, f"chart {name}", "is not there")
        if is_there and not is_due:
            yield Difference(FILE, f"chart {name}", "is drawn, and there are no figures for it")


def _demand_sentences(page: Element, sentences: Sequence[Mapping[str, Any]]) -> Iterator[Demand]:
    """Yield every sentence of claims.json, the verdict in its own place."""
    verdict = next(answer_of(page).all("p", kind="verdict"), None)
    whole = Element("body", children=[CELLS_BEHIND.sub("", page.text)])
    for sentence in sentences:
        is_verdict = sentence["topic"] == "verdict"
        text = CELLS_BEHIND.sub("", sentence["text"])
        yield Demand(sentence["topic"], verdict if is_verdict else whole, [text], alone=is_verdict)
