"""Scaling in sentences: the fitted laws, and where the time of a step is lost."""

from scaleproof.ground.number_format import interval_text, number
from scaleproof.ground.records.scaling_report import Law, ScalingLaw, ScalingReport
from scaleproof.ground.records.waterfall_report import WaterfallCell

LAWS: dict[Law, str] = {"amdahl": "Amdahl's law", "gustafson": "Gustafson's law"}


def law_sentences(report: ScalingReport, kind: str) -> list[str]:
    """Return one sentence per series of `kind` (strong or weak): the fitted law, or why no law is fitted."""
    return [_law_sentence(series.subject, series.law) for series in report.series if series.kind == kind and series.law]


def _law_sentence(name: str, law: ScalingLaw) -> str:
    """Return what the law that was fitted to the series `name` says, or why it says nothing."""
    fraction = law.fraction
    if fraction is None:
        return f"{name}: no fit of {LAWS[law.law]} ({law.undefined})."
    interval = "n=1" if fraction.low is None else interval_text(fraction.low, fraction.high, fraction.n)
    text = f"{name}: serial fraction {number(fraction.value)} ({interval}) by {LAWS[law.law]}"
    if misfit := law.lack_of_fit:
        direction = "faster" if misfit.percent > 0 else "slower"
        miss = f"{number(abs(misfit.percent), 2)} % {direction} on {misfit.devices} devices than it says"
        return f"{text}. It does not fit: {name} is {miss}, so it forecasts nothing."
    if law.limit is None or not fraction.above(0):  # a fraction that may be 0 sets no limit
        return f"{text}."
    return f"{text}; if it holds, no speed-up above {number(law.limit)} at any size."


HIDING_RATIO = 3.0  # computing over transfers that usually hides them


def is_half_known(cell: WaterfallCell) -> bool:
    """Return whether at least half of a waterfall's parts were measured, so that it says something."""
    return 2 * sum(part.ms is not None for part in cell.parts) >= len(cell.parts)


def loss_sentence(cell: WaterfallCell) -> str:
    """Return a sentence on the parts of the difference between the ideal and the measured step."""
    measured_text, ideal_text = number(cell.measured_ms), number(cell.ideal_ms)
    name = f"{cell.cell} (n={cell.n})" if cell.n else cell.cell
    if cell.measured_ms <= cell.ideal_ms:
        return f"{name}: no loss; a step takes {measured_text} ms, the ideal is {ideal_text} ms."
    loss = f"{number(cell.measured_ms - cell.ideal_ms)} ms more than the ideal {ideal_text} ms"
    text = f"{name}: a step takes {measured_text} ms, {loss}: {_known_parts(cell)}."
    return text + _unmeasured_sentence(cell) + _transfers_sentence(cell)


def _known_parts(cell: WaterfallCell) -> str:
    """Return the parts of the loss and the rest in words, the largest first; with what shortens the step."""
    parts = {part.name: part.ms for part in cell.parts if part.ms}  # neither unknown nor 0
    rest_ms = cell.unexplained_ms  # negative where the parts are more than the loss
    if rest_ms > 0:
        parts["unexplained"] = rest_ms
    largest_first = sorted(parts, key=lambda name: -parts[name])
    text = ", ".join(f"{name} {number(parts[name])} ms" for name in largest_first)
    return text if rest_ms > 0 else f"{text}, together {number(-rest_ms)} ms more than the loss"


def _unmeasured_sentence(cell: WaterfallCell) -> str:
    """Return a sentence on the parts that were not measured; "" where all parts were."""
    unknown = [part.name for part in cell.parts if part.ms is None]
    return f" Not measured: {', '.join(unknown)}." if unknown else ""


def _transfers_sentence(cell: WaterfallCell) -> str:
    """Return a sentence: whether computing is long enough to hide the transfers, and how much of them is exposed."""
    ratio = cell.compute_to_communication
    if ratio is None:
        return ""
    text = f" In the trace, computing takes {number(ratio)} times as long as the transfers, without waiting"
    exposed_share = cell.transfer_exposed
    if exposed_share is None:
        return f"{text}; from {HIDING_RATIO:g} times on, transfers can usually be hidden behind it."
    exposed_text = f"{100 * exposed_share:.0f} % of the transfer time is exposed"
    enough = f"({HIDING_RATIO:g} times usually suffice)"
    if ratio < HIDING_RATIO:
        return f"{text}, too short to hide all of them {enough}: {exposed_text}."
    link = "; yet" if exposed_share > 0.5 else ":"
    return f"{text}, long enough to hide them {enough}{link} {exposed_text}."
