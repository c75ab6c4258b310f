"""comparison.json: every A/B comparison of a campaign, from its pairs of runs.

Its arms are two cells (configurations), A and B, run side by side in pairs; an A/A pair, of A twice, shows the noise.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from scaleproof.conclude.analysis.paired_test import compare_ratios
from scaleproof.conclude.analysis.run_tables import cell_rate
from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.config import Comparison
from scaleproof.ground.confidence import CONFIDENCE
from scaleproof.ground.configurations import changed_keys, configuration_differences
from scaleproof.ground.errors import UserError
from scaleproof.ground.files import read_record
from scaleproof.ground.findings.finding import Finding, Findings, codes_above_note
from scaleproof.ground.records.comparison_report import AbComparison, ArmRate, ComparisonArms, ComparisonReport
from scaleproof.ground.records.result_file import Estimated
from scaleproof.ground.records.run import METRICS, DamagedMetrics, MeasuredRun, Run, pairs_again_command, read_run
from scaleproof.ground.records.unreadable import is_readable, unreadable_run

Status = Literal["ok", "incomplete", "invalid", "incomparable"]


@dataclass(frozen=True)
class Pair:
    """Two runs side by side: A and B, or A twice (`null`), whose difference is noise."""

    null: bool
    a: Run
    b: Run

    @property
    def runs(self) -> tuple[Run, Run]:
        return self.a, self.b

    @property
    def ratio(self) -> float | None:
        """Tokens/s of the second over the first; None where a run has no numbers."""
        if isinstance(self.a, MeasuredRun) and isinstance(self.b, MeasuredRun):
            return self.b.metrics.window.tokens_per_s / self.a.metrics.window.tokens_per_s
        return None


def read_comparisons(folder: Path, comparisons: Mapping[str, tuple[Comparison, Cell, Cell]]) -> dict[str, list[Pair]]:
    """Return the pairs of each comparison of a campaign, whose results are in `folder`. Raises as `read_pairs`."""
    return {name: read_pairs(folder / "compare" / name / "pairs.json", a, b) for name, (_, a, b) in comparisons.items()}


def read_pairs(path: Path, a: Cell, b: Cell) -> list[Pair]:
    """Return the pairs of the cells `a` and `b` that the pairs.json at `path` lists.

    An arm whose metrics are damaged is a run without numbers. Raises UserError where pairs.json is damaged, or a run is
    of another configuration than its cell, or of the other one.
    """

    def pair_of_entry(entry: dict[str, Any]) -> Pair:  # keys: null, pair (its number), a and b (folders)
        null, number = entry["null"], int(entry["pair"])
        first = _read_labelled_run(Path(entry["a"]), a, number)
        second = _read_labelled_run(Path(entry["b"]), a if null else b, number)  # an A/A pair has two runs of A
        kind = "a null pair, of A twice" if null else "a pair of A and B"
        for run, letter in ((first, "A"), (second, "A" if null else "B")):
            if fault := _fault_of_arm(run, letter, {"A": a, "B": b}, f"{path} calls pair {number} {kind}"):
                raise UserError(f"{fault}: {pairs_again_command(path.parent)}")
        return Pair(null, first, second)

    return read_record(path, lambda data: [pair_of_entry(entry) for entry in json.loads(data)["pairs"]])


def runs_with_ratio(pairs: list[Pair]) -> list[Run]:
    """Return the runs of the pairs in which both runs have numbers; ratios are made of these."""
    return list(chain.from_iterable(pair.runs for pair in pairs if pair.ratio is not None))


def unreadable_runs(pairs: list[Pair]) -> list[Run]:
    return [run for run in _runs_of(pairs) if not is_readable(run)]


def _runs_of(pairs: list[Pair]) -> list[Run]:
    return list(chain.from_iterable(pair.runs for pair in pairs))


def _read_labelled_run(folder: Path, cell: Cell, pair: int) -> Run:
    """Return the run of `cell` in `folder`, labelled by its place; unreadable where its metrics are damaged."""
    label = "/".join(folder.parts[-3:])  # NAME/pair1/a
    try:
        run = read_run(folder)
    except DamagedMetrics as error:
        run = unreadable_run(folder, campaign="", cell=cell, repeat=pair, problem=str(error))
    return replace(run, label=label)


def _fault_of_arm(run: Run, letter: str, cells: Mapping[str, Cell], stated: str) -> str:
    """Return that a run is not of the arm `letter` of `cells`, and before a command what to do; "" where it is.

    `stated`: what pairs.json says of its pair.
    """
    others = [other for other, cell in cells.items() if run.metrics.fingerprint == cell.fingerprint]
    if letter in others:
        return ""
    if others:
        return f"{stated}, but {run.folder} is a run of {others[0]}. Restore what was changed, or make the pairs again"
    keys = changed_keys(run.metrics.config, cells[letter].config)
    fault = f"{run.folder / METRICS} is a run of another configuration{keys and f' ({keys})'} than the campaign plans"
    return f"{fault}. Measure the pairs again"


def comparison_report(
    campaign: str, comparisons: dict[str, tuple[Cell, Cell, list[Pair]]], findings: Findings, cells: Sequence[Cell] = ()
) -> ComparisonReport:
    """Return a campaign's A/B comparisons, estimated. `comparisons`: name -> (A, B, pairs); `cells`: all its cells."""
    entries = [_comparison_entry(name, a, b, pairs, findings, cells) for name, (a, b, pairs) in comparisons.items()]
    return ComparisonReport(campaign=campaign, confidence=CONFIDENCE, comparisons=entries)


def _comparison_entry(
    name: str, a: Cell, b: Cell, pairs: list[Pair], findings: Findings, cells: Sequence[Cell]
) -> AbComparison:
    """Return the comparison of cells A and B from its pairs. `findings`, `cells`: those of the campaign.

    Only a comparison whose status is ok (`_comparison_status`) has an estimate and arms.
    """
    ratios = [pair.ratio for pair in pairs if pair.ratio is not None and not pair.null]
    null_ratios = [pair.ratio for pair in pairs if pair.ratio is not None and pair.null]
    own_findings = findings.of_comparison(name)
    status, why = _comparison_status(min(len(ratios), len(null_ratios)), pairs, own_findings)
    estimate = arms = None
    if status == "ok":
        estimate = compare_ratios(ratios, null_ratios)
        arms = ComparisonArms(a=_arm_rate(a, pairs, cells), b=_arm_rate(b, pairs, cells))

    return AbComparison(
        name=name,
        a=a.slug,
        b=b.slug,
        declared=configuration_differences(a.config, b.config),
        status=status,
        why=why,
        pairs=len(pairs),
        estimate=estimate,
        arms=arms,
        # What differs on purpose is in `declared`; what differs otherwise is in the status.
        findings=[code for code in codes_above_note(own_findings) if code != "provenance-differs"],
        metrics_paths=[str(run.folder / METRICS) for run in _runs_of(pairs)],
    )


def _arm_rate(cell: Cell, pairs: list[Pair], cells: Sequence[Cell]) -> ArmRate:
    """Return the tokens/s of the arm `cell` over all of its runs, and which of the campaign's `cells` do the same work.

    If their rate differs from that of the arm, the machine was in another state in the pairs than in the other runs.
    """
    runs = [run for run in runs_with_ratio(pairs) if isinstance(run, MeasuredRun) and run.metrics.cell == cell.slug]
    cells_alike = [other.slug for other in cells if do_same_work(cell, other)]
    return ArmRate(tokens_per_s=Estimated.of(cell_rate(runs)), same_work=cells_alike)


def do_same_work(a: Cell, b: Cell) -> bool:
    """Return whether two cells do the same work in the same way; on one device all strategies count as the same."""
    differing = set(configuration_differences(a.config, b.config))
    return not differing or (differing == {"execution.strategy"} and a.batch.n_devices == 1)


def _comparison_status(
    fewest_ratios: int, pairs: list[Pair], own_findings: Sequence[Finding]
) -> tuple[Status, str | None]:
    """Return the status of a comparison, and why it is not ok; None where it is.

    incomplete: fewer than two whole pairs, of A and B or of A twice; invalid: a check found its numbers wrong;
    incomparable: A and B differ in what was not meant to differ. `fewest_ratios`: the number of whole pairs of the kind
    that has fewer; `own_findings`: the findings about this comparison.
    """
    if fewest_ratios < 2:
        failures = [run.metrics.failure for run in _runs_of(pairs) if run.metrics.failure]
        reasons = dict.fromkeys(f"{failure.failure_class}: {failure.reason}" for failure in failures)
        return "incomplete", "; ".join(reasons) or "fewer than two pairs"
    invalid_codes = sorted({finding.code for finding in own_findings if finding.severity == "invalid"})
    if invalid_codes:
        return "invalid", ", ".join(invalid_codes)
    differences = [finding.evidence for finding in own_findings if finding.code == "provenance-differs"]
    if differences:
        return "incomparable", "; ".join(differences)
    return "ok", None
