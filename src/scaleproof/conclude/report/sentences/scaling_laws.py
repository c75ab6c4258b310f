"""The fitted laws of scaling in sentences."""

from typing import Any

from scaleproof.ground.number_format import interval_text, number

LAWS = {"amdahl": "Amdahl's law", "gustafson": "Gustafson's law"}


def law_sentences(report: dict[str, Any], kind: str) -> list[str]:
    """One sentence per series of `kind` (strong or weak): the fitted law, or why there is none."""
    return [_sentence(series) for series in report["series"] if series["kind"] == kind]


def _sentence(series: dict[str, Any]) -> str:
    law, name = series["law"], series["name"]
    if law["undefined"]:
        return f"{name}: no fit of {LAWS[law['law']]} ({law['undefined']})."
    fraction = law["fraction"]
    if fraction["low"] is None:
        interval = "(n=1)"
    else:
        interval = f"({interval_text(fraction['low'], fraction['high'], fraction['n'])})"
    text = f"{name}: serial fraction {number(fraction['value'])} {interval} by {LAWS[law['law']]}"
    lack = law.get("lack_of_fit")
    if lack:
        more = "faster" if lack["percent"] > 0 else "slower"
        misses = f"{number(abs(lack['percent']), 2)} % {more} on {lack['devices']} devices than it says"
        return f"{text}. It does not fit: {name} is {misses}, so it forecasts nothing."
    bounded = law["limit"] is not None and fraction["low"] is not None and fraction["low"] > 0
    return text + (f"; if it holds, no speed-up above {number(law['limit'])} at any size." if bounded else ".")
