"""The claims of a campaign, from the files of its analysis: all figures and words that sentences are written from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from scaleproof.ground.records.claims import Claim, word_of
from scaleproof.ground.records.comparison_report import AbComparison
from scaleproof.ground.records.result_file import Estimated
from scaleproof.ground.records.scaling_report import ScalingPoint, ScalingReport, ScalingSeries, SizeRanking
from scaleproof.ground.records.waterfall_report import WaterfallCell

Claims = Mapping[str, Claim]  # by their ids


@dataclass(frozen=True)
class GroupClaims:
    """The ranking that the answer is made from, with all claims. `index`: of the ranking in the report."""

    group: SizeRanking
    claims: Claims
    index: int

    @property
    def fastest(self) -> Claim:
        """The cell with the highest rate, and whether it is shown to be the fastest."""
        return self.claims[f"fastest/{self.index}"]

    @property
    def others(self) -> list[Claim]:
        """The ratios of all other comparable cells to the fastest, the largest first."""
        return [self.claims[f"ratio/{entry.cell}"] for entry in self.group.comparable[1:]]

    @property
    def near(self) -> list[Claim]:
        """The ratios of cells that may be as fast as the fastest; where none may, only the second fastest's."""
        if self.fastest.word == "shown":
            return self.others[:1]
        return [claim for claim in self.others if claim.word != "slower"]

    @property
    def has_intervals(self) -> bool:
        """Whether ratios have intervals; either all have one or none has, so the first tells."""
        return self.others[0].word != "unclaimed"


def claims_of(
    report: ScalingReport, comparisons: Sequence[AbComparison] = (), waterfall: Sequence[WaterfallCell] = ()
) -> dict[str, Claim]:
    """Return every claim of a campaign by its id, such as "ratio/zero2-n1x2"."""
    sizes = [(series, point) for series in report.series for point in series.points]
    claims = [claim for size in sizes for claim in _claims_on_point(*size)]
    for index, ranking in enumerate(report.ranking):
        claims += _claims_on_ranking(index, ranking)
    question = report.question
    if question and question.ratio:
        claims.append(_claim("question", question.subject, question.ratio, question.base, question.status))
    for comparison in comparisons:
        claims += claims_of_pairs(comparison)
    for cell in waterfall:
        claims += _claims_on_losses(cell)
    return {claim.id: claim for claim in claims}


def _claim(
    kind: str,
    subject: str,
    figure: Estimated | None,
    baseline: str | None = None,
    word: str | None = None,
    method: str | None = None,
    id_end: object = None,
) -> Claim:
    """Return a claim about a cell or a comparison (`subject`), whose id is its kind and the subject: "rate/ddp-n1x2".

    `baseline`: what a ratio is over. `word`: what is claimed, by default what the interval of a ratio supports.
    `id_end`: what the id has instead of the subject.
    """
    if word is None and baseline and figure:
        word = word_of(figure)
    return Claim(
        id=f"{kind}/{subject if id_end is None else id_end}",
        kind=kind,
        subject=subject,
        baseline=baseline,
        estimate=figure,
        word=word,
        method=method,
        inputs=[subject, baseline] if baseline else [subject],
    )


def _claims_on_point(series: ScalingSeries, point: ScalingPoint) -> Iterator[Claim]:
    """Yield the claims on a size of a series. Of its speed-up: if it is corrected, so that an answer may state it."""
    cell, baseline = point.cell, series.baseline
    yield _claim("rate", cell, point.tokens_per_sec_global)
    if point.speedup and point.speedup_corrected:
        yield _claim("speed-up", cell, point.speedup, baseline)
    if point.scaling_efficiency:
        yield _claim("efficiency", cell, point.scaling_efficiency, baseline, point.verdict or "unrated")
    if point.speedup_vs_best_single:
        yield _claim("one-device", cell, point.speedup_vs_best_single, point.best_single)


def _claims_on_ranking(index: int, ranking: SizeRanking) -> Iterator[Claim]:
    """Yield the claims on the cells of one size. `index`: of the ranking in the report."""
    if len(ranking.comparable) < 2:
        return

    method = f"{ranking.method}, {ranking.claims} comparisons" if ranking.method else None
    fastest = ranking.cells[0].cell
    for entry in ranking.comparable:
        if entry.relative_to_fastest:
            yield _claim("ratio", entry.cell, entry.relative_to_fastest, fastest, method=method)
        if entry.letters:  # cells that share a letter are not told apart
            yield _claim("letters", entry.cell, None, word=entry.letters, method=method)

    word = "shown" if ranking.fastest_shown else "not-shown"
    yield _claim("fastest", fastest, None, word=word, method=method, id_end=index)
    n = min(entry.tokens_per_sec_global.n for entry in ranking.comparable)
    if advice := ranking.recommendation:
        subject = advice.cell or advice.candidate or fastest
        # Its figure: how much slower than the best it may be, at worst. Its word: recommended, or why none is.
        loss = None if advice.worst is None else Estimated(value=advice.worst, low=None, high=None, n=n)
        outcome = "recommended" if advice.cell else advice.why
        yield _claim("recommended", subject, loss, word=outcome, id_end=index)
    if ranking.resolve:
        difference = Estimated(value=ranking.resolve.detectable, low=None, high=None, n=n)
        yield _claim("detectable", fastest, difference, id_end=index)


def claims_of_pairs(comparison: AbComparison) -> tuple[Claim, ...]:
    """Return the claims on an A/B comparison: its ratio, its noise, what it would show; none without an estimate."""
    name, estimate = comparison.name, comparison.estimate
    if not estimate:
        return ()
    ratio = Estimated(value=estimate.ratio, low=estimate.low, high=estimate.high, n=estimate.n)
    word = estimate.claim or ("undecided" if ratio.spans() else "within-noise")
    claim = _claim("pairs", comparison.b, ratio, comparison.a, word, method="paired", id_end=name)
    claim.inputs = [name]  # the runs of the pairs, not the runs of the cells A and B
    noise = Estimated(value=estimate.floor, low=None, high=None, n=len(estimate.null_ratios))
    low, high = estimate.detectable
    detectable = Estimated(value=low, low=low, high=high, n=estimate.n)
    return claim, _claim("noise", name, noise), _claim("detectable", name, detectable)


def _claims_on_losses(cell: WaterfallCell) -> Iterator[Claim]:
    """Yield the claims on where a cell loses time, in milliseconds of a step."""
    parts = {"measured": cell.measured_ms, "ideal": cell.ideal_ms, "unexplained": cell.unexplained_ms}
    parts |= {part.name: part.ms for part in cell.parts if part.ms is not None}
    for name, ms in parts.items():
        figure = Estimated(value=ms, low=None, high=None, n=cell.n or 0)
        # The word of such a claim is the part that it is on.
        yield _claim("lost", cell.cell, figure, cell.baseline, word=name, id_end=f"{cell.cell}/{name}")
