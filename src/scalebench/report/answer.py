"""The answer to the campaign's question, made from the results and from nothing else."""

from typing import Any

from scalebench.report.figures import number


def answer(report: dict[str, Any]) -> str:
    """One sentence for each series that has two world sizes or more; what the intervals do not carry is not claimed."""
    if report["status"] == "invalid_comparison":
        codes = ", ".join(sorted({m["code"] for m in report["mismatches"]}))
        return f"No answer: the numbers did not pass their own checks ({codes}). See the findings."
    sentences = [s for series in report["series"] if (s := _sentence(series))]
    return " ".join(sentences) or "No answer yet: there are no runs at two world sizes to compare."


def _sentence(series: dict[str, Any]) -> str | None:
    points = list(series["runs"].values())
    last = points[-1]
    if len(points) < 2 or not last["speedup"]:
        return None
    speedup, base = last["speedup"], points[0]
    who = f"{series['name']}: {last['devices']} devices"
    against = f"{base['devices']} device{'s' if base['devices'] > 1 else ''}"
    basis = f"n = {last['n']} and {base['n']} runs"
    if speedup["low"] is None:
        return f"{who} made {number(speedup['value'])} times the tokens/s of {against}, but with {basis} there is no interval, so nothing is claimed."
    interval = f"95 % interval {number(speedup['low'])} to {number(speedup['high'])}, {basis}"
    if speedup["low"] <= 1 <= speedup["high"]:
        return (
            f"{who} are not distinguishable from {against}: {number(speedup['value'])} times the tokens/s ({interval})."
        )
    verdict = "Yes" if speedup["low"] > 1 else "No"
    return (
        f"{verdict}. {who} make {number(speedup['value'])} times the tokens/s of {against} ({interval}), "
        f"an efficiency of {number(100 * last['scaling_efficiency']['value'])} %."
    )
