"""The fitted laws of scaling in sentences."""

from scaleproof.ground.number_format import interval_text, number
from scaleproof.ground.records.scaling_report import Law, ScalingLaw, ScalingReport

LAWS: dict[Law, str] = {"amdahl": "Amdahl's law", "gustafson": "Gustafson's law"}


def law_sentences(report: ScalingReport, kind: str) -> list[str]:
    """One sentence per series of `kind` (strong or weak): the fitted law, or why there is none."""
    return [_sentence(series.name, series.law) for series in report.series if series.kind == kind and series.law]


def _sentence(name: str, law: ScalingLaw) -> str:
    """Return what the law that was fitted to the series `name` says, or why it says nothing."""
    fraction = law.fraction
    if fraction is None:
        return f"{name}: no fit of {LAWS[law.law]} ({law.undefined})."
    interval = "n=1" if fraction.low is None else interval_text(fraction.low, fraction.high, fraction.n)
    text = f"{name}: serial fraction {number(fraction.value)} ({interval}) by {LAWS[law.law]}"
    lack = law.lack_of_fit
    if lack:
        more = "faster" if lack.percent > 0 else "slower"
        misses = f"{number(abs(lack.percent), 2)} % {more} on {lack.devices} devices than it says"
        return f"{text}. It does not fit: {name} is {misses}, so it forecasts nothing."
    bounded = law.limit is not None and fraction.above(0)
    return text + (f"; if it holds, no speed-up above {number(law.limit)} at any size." if bounded else ".")
