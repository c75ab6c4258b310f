"""What a ratio with its interval supports, in one sentence: the only place that says "cannot be told apart"."""

from scalebench.analysis.compare_runs import Compared
from scalebench.report.number_format import number


def interval_text(low: float, high: float, n: str, digits: int = 3) -> str:
    """ "95 % CI 1.45-1.82, n=3" """
    return f"95 % CI {number(low, digits)}-{number(high, digits)}, n={n}"


def runs_text(*counts: int) -> str:
    """How many runs stand behind compared figures: "3", or "3 and 5"."""
    return str(counts[0]) if len(set(counts)) == 1 else " and ".join(map(str, counts))


def ratio_sentence(
    subject: str, base: str, value: float, low: float | None, high: float | None, n: str, unit: str = "tokens/s"
) -> str:
    """`subject` relative to `base`: ratio of their `unit`, with its 95 % interval where there is one."""
    if low is None or high is None:
        return (
            f"{subject} runs at {number(value)}x the {unit} of {base}; without an interval nothing is claimed (n={n})."
        )
    interval = interval_text(low, high, n)
    if low <= 1 <= high:
        return f"{subject} and {base} cannot be told apart: {number(value)}x the {unit} ({interval})."
    if value > 1:
        return f"{subject} is {number(value)}x faster than {base} in {unit} ({interval})."
    return f"{subject} is slower than {base}: {number(value)}x its {unit} ({interval})."


def compared_sentence(compared: Compared) -> str:
    """What `scalebench compare` prints of two results."""
    if compared.why or compared.ratio is None:
        text = f"{compared.b} and {compared.a}: no ratio; {compared.why}."
    else:
        n = runs_text(*compared.runs)
        text = ratio_sentence(
            compared.b, compared.a, compared.ratio, compared.low, compared.high, n, unit=compared.unit
        )
    if compared.unstated:
        text += f" Not stated by both, so not compared: {', '.join(compared.unstated)}."
    if compared.suspect:
        text += f" With reservations: {', '.join(compared.suspect)}."
    return text
