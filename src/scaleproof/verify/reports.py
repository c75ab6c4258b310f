"""The JSON files, charts and the page of a campaign, held against recomputed figures."""

import hashlib
import html
import json
import math
import re
import statistics
from collections.abc import Collection, Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from scipy import stats

from scaleproof.ground.columns import COLUMNS, SERIES_FIGURES
from scaleproof.ground.number_format import significant
from scaleproof.verify.contents import json_of, text_of
from scaleproof.verify.printed import numbers, stands_for
from scaleproof.verify.raw import Difference, RawRun, close, read_runs
from scaleproof.verify.recompute import Quantities

# The figures of a size in scaling_report.json.
POINT = (*SERIES_FIGURES, "speedup_vs_best_single")
UNKNOWN = "cannot be recomputed from the raw files"
TIP = re.compile(r"<title>([^<]*)</title>")
# "(95 % CI 14,130-17,397, n=3)"; in charts of earlier versions ", 95 % CI 14,130 to 17,397, n=3".
BOUNDS = r"(?:,? \(?95 % CI (?P<low>[\d,.]+)(?:-| to )(?P<high>[\d,.]+), n=)?"
UNITS = "tokens|samples|steps|runs"
RATE = re.compile(rf"^(?P<cell>[a-z0-9.-]+): (?P<value>[\d,.e+]+) (?:{UNITS})/s{BOUNDS}")


def check_scaling_report(
    report: dict[str, Any], quantities: Quantities, at_fault: Collection[str] = ()
) -> Iterator[Difference]:
    """Values, numbers of runs and the intervals of rates in scaling_report.json, its ranking included.

    Where cells are `at_fault`, a figure that cannot be recomputed may be for their sake.
    """
    for difference in _scaling_report(report, quantities):
        if not at_fault or difference.problem != UNKNOWN:
            yield difference


def _scaling_report(report: dict[str, Any], quantities: Quantities) -> Iterator[Difference]:
    """Sizes of the series, then the ranking."""
    file = "scaling_report.json"
    for series in report["series"]:
        for point in series["runs"].values():
            for name in POINT:
                quantity = quantities.get(f"cells/{point['cell']}/{COLUMNS[name].figure or name}")
                yield from _interval(file, f"{point['cell']}, {name}", point[name], quantity)
    for group in report["ranking"]:
        rates = [entry["tokens_per_sec_global"]["value"] for entry in group["cells"]]
        if rates != sorted(rates, reverse=True):
            yield Difference(file, f"ranking on {group['devices']} devices", "is not in the order of its rates")
        for entry in group["cells"]:
            rate = quantities.get(f"cells/{entry['cell']}/tokens_per_s")
            fastest = quantities.get(f"cells/{group['cells'][0]['cell']}/tokens_per_s")
            yield from _interval(file, f"ranking, {entry['cell']}", entry["tokens_per_sec_global"], rate)
            relative = entry["relative_to_fastest"]
            if relative and rate and fastest and not close(relative["value"], rate.value / fastest.value):
                where = f"ranking, {entry['cell']}, relative_to_fastest"
                yield Difference(
                    file, where, f"is {relative['value']}, rates give {significant(rate.value / fastest.value, 10)}"
                )


def _interval(file: str, where: str, stated: dict[str, Any] | None, quantity: Any) -> Iterator[Difference]:
    """A stated value with its bounds against the recomputed one; both may be missing."""
    if (stated is None) != (quantity is None):
        yield Difference(file, where, "has no value" if stated is None else UNKNOWN)
        return
    if stated is None:
        return
    if not close(stated["value"], quantity.value):
        yield Difference(file, where, f"is {stated['value']}, the raw files give {significant(quantity.value, 10)}")
    for bound in ("low", "high"):
        expected = getattr(quantity, bound)
        if expected is not None and not close(stated[bound], expected, 1e-7):
            yield Difference(
                file, f"{where}, {bound}", f"is {stated[bound]}, the raw files give {significant(expected, 10)}"
            )


def check_finding_codes(folder: Path, cells: list[dict[str, str]]) -> Iterator[Difference]:
    """Codes beside a figure are those of findings.json, and none above a note is left out."""
    findings = json_of(folder / "findings.json")["findings"]
    for row in cells:
        codes = {f["code"] for f in findings if row["cell"] in f["cells"]}
        above_note = {f["code"] for f in findings if row["cell"] in f["cells"] and f["severity"] != "note"}
        own = {f["code"] for f in findings if row["cell"] in f["cells"] and not _of_pairs(f)}
        stated = set(row["findings"].split())
        if unknown := stated - codes:
            yield Difference("cells.csv", row["cell"], f"findings.json has no {', '.join(sorted(unknown))} for it")
        if left_out := (above_note & own) - stated:
            yield Difference("cells.csv", row["cell"], f"leaves out the finding {', '.join(sorted(left_out))}")


def _of_pairs(finding: dict[str, Any]) -> bool:
    """Whether a finding is on A/B pairs or traces, and so not about the campaign's own runs of a cell."""
    return finding.get("concerns", "runs") not in ("runs", "scaling")


def check_comparison(folder: Path) -> Iterator[Difference]:
    """comparison.json: ratios of every pair, their mean and interval, from the pairs' own files."""
    file = "comparison.json"
    for entry in json_of(folder / file)["comparisons"]:
        if not entry["estimate"]:
            continue
        runs, differences = read_runs(folder, f"compare/{entry['name']}/pair*/[ab]")
        if differences:  # and what follows from them is not said besides
            yield from differences
            continue
        pairs = json_of(folder / "compare" / entry["name"] / "pairs.json")["pairs"]
        ratios: dict[bool, list[float]] = {False: [], True: []}
        arms = {tuple(Path(run.path).parts[-3:-1]): run for run in runs if run.ok}
        whole: list[RawRun] = []
        for pair in pairs:
            a, b = (arms.get((f"pair{pair['pair']}", arm)) for arm in "ab")
            if a and b:
                ratios[pair["null"]].append(_rate(b) / _rate(a))
                whole += [a, b]
        estimate, logs = entry["estimate"], [math.log(r) for r in ratios[False]]
        expected = {
            "ratio": math.exp(statistics.fmean(logs)),
            "n": len(logs),
            "floor": _noise_floor(logs, [math.log(r) for r in ratios[True]]),
        }
        for name, value in expected.items():
            if not close(estimate[name], value, 1e-7):
                yield Difference(
                    file, f"{entry['name']}, {name}", f"is {estimate[name]}, the pairs give {significant(value, 10)}"
                )
        for arm, stated in (entry.get("arms") or {}).items():
            value = _rate_of([run for run in whole if run.cell == entry[arm]])
            if not close(stated["tokens_per_s"]["value"], value, 1e-7):
                where = f"{entry['name']}, tokens/s of {arm.upper()}"
                yield Difference(
                    file, where, f"is {stated['tokens_per_s']['value']}, the runs give {significant(value, 10)}"
                )
        for name, values in (("ratios", ratios[False]), ("null_ratios", ratios[True])):
            same = len(values) == len(estimate[name])
            if not same or not all(close(x, y) for x, y in zip(values, estimate[name], strict=True)):
                yield Difference(file, f"{entry['name']}, {name}", "are not those of the pairs")


def _rate(run: RawRun) -> float:
    return _rate_of([run])


def _rate_of(runs: list[RawRun]) -> float:
    """All tokens over all time."""
    windows = [run.metrics["window"] for run in runs]
    seconds = math.fsum(window["wall_time_sec"] for window in windows)
    return float(sum(window["tokens_processed_global"] for window in windows) / seconds)


def check_forecasts(folder: Path) -> Iterator[Difference]:
    """forecasts/*.json: each is what was sealed before the runs that it predicts."""
    for path in sorted(folder.glob("forecasts/*.json")):
        file = path.relative_to(folder).as_posix()
        data = json_of(path)
        if forecast_seal(data) != data["sha256"]:
            yield Difference(
                file, "sha256", f"is {str(data['sha256'])[:12]}, its content gives {forecast_seal(data)[:12]}"
            )


def forecast_seal(data: Mapping[str, object]) -> str:
    """The sha256 over a file of forecasts, its own field apart."""
    content = {key: value for key, value in data.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def check_waterfall(folder: Path, quantities: Quantities) -> Iterator[Difference]:
    """waterfall.json: the parts of a cell sum to its measured step."""
    file = "waterfall.json"
    for cell in json_of(folder / file)["cells"]:
        total = cell["ideal_ms"] + cell["unexplained_ms"] + math.fsum(p["ms"] or 0.0 for p in cell["parts"])
        if not close(total, cell["measured_ms"], 1e-7):
            yield Difference(
                file,
                cell["cell"],
                f"parts sum to {significant(total, 7)} ms, the step is {significant(cell['measured_ms'], 7)}",
            )


def check_charts(folder: Path, quantities: Quantities) -> Iterator[Difference]:
    """The values that charts show on hover: rates of cells, with their intervals."""
    for path in sorted(folder.glob("charts/*.svg")):
        file = path.relative_to(folder).as_posix()
        for tip in TIP.findall(text_of(path)):
            match = RATE.match(html.unescape(tip))
            quantity = match and quantities.get(f"cells/{match['cell']}/tokens_per_s")
            if not match or not quantity:
                continue
            values = {"value": quantity.value, "low": quantity.low, "high": quantity.high}
            for name, value in values.items():
                if match[name] and value is not None and not stands_for(match[name], value):
                    yield Difference(
                        file,
                        match["cell"],
                        f"shows {match[name]}, the raw files give {significant(value, 6, grouped=True)}",
                    )


class _Page(HTMLParser):
    """Figures with their ids, rows of the table of sources, and the verdict."""

    def __init__(self) -> None:
        super().__init__()
        self.figures: list[tuple[str, str, str]] = []  # id, exact text of the title, printed text
        self.sources: list[tuple[str, str, str]] = []  # cell, file, start of the sha256
        self.answer = ""
        self._open: list[str] = []
        self._inside = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "a" and attributes.get("class") == "figure":
            self.figures.append((attributes["data-id"], attributes["title"], ""))
            self._open.append("figure")
        if tag == "tr" and "data-sha" in attributes:
            self.sources.append((attributes["data-cell"], attributes["data-file"], attributes["data-sha"]))
        if tag == "div" and (self._inside or attributes.get("class", "").startswith("answer")):
            self._inside += 1

    def handle_endtag(self, tag: str) -> None:
        if tag == "a" and self._open:
            self._open.pop()
        if tag == "div" and self._inside:
            self._inside -= 1

    def handle_data(self, data: str) -> None:
        if self._open:
            identity, title, text = self.figures[-1]
            self.figures[-1] = (identity, title, text + data)
        if self._inside:
            self.answer += data


def check_page(
    folder: Path, quantities: Quantities, runs: list[RawRun], at_fault: Collection[str] = ()
) -> Iterator[Difference]:
    """report.html: every figure that has an id, the hashes of its sources, the rates in the answer.

    Where cells are `at_fault`, their sources and the answer are not looked at.
    """
    file = "report.html"
    page = _Page()
    page.feed(text_of(folder / file))
    for identity, title, text in page.figures:
        quantity = quantities.get(identity)
        if quantity is None:
            continue
        name = identity.rsplit("/", 1)[1]
        factor = COLUMNS[name].factor if name in COLUMNS else 1.0
        for printed in (numbers(title)[:1], numbers(text)[:1]):
            if printed and not stands_for(printed[0], quantity.value * factor):
                yield Difference(
                    file, identity, f"is {printed[0]}, the raw files give {significant(quantity.value * factor, 7)}"
                )
    hashes = {run.path: run.sha256[:12] for run in runs}
    for cell, path, sha in page.sources:
        if cell in at_fault:
            continue
        inside = path.split("runs/", 1)[-1]
        if hashes.get(f"runs/{inside}") != sha:
            yield Difference(file, path, "the page was made from another file")
    rates = [q.value for name, q in quantities.items() if name.endswith("/tokens_per_s")]
    for printed in re.findall(rf"([\d,]+(?:\.\d+)?) (?:{UNITS})/s", "" if at_fault else page.answer):
        if not any(stands_for(printed, rate) for rate in rates):
            yield Difference(file, "answer", f"no cell or run has a rate of {printed}/s")


def _noise_floor(logs: list[float], null_logs: list[float]) -> float:
    """Ratio - 1 that the mean of as many A/A pairs stays below with 95 %: t of the pooled scatter."""
    mean = statistics.fmean(logs)
    freedom = len(logs) - 1 + len(null_logs)
    squares = sum((x - mean) ** 2 for x in logs) + sum(x**2 for x in null_logs)
    return math.expm1(float(stats.t.ppf(0.975, freedom)) * math.sqrt(squares / freedom / len(logs)))
