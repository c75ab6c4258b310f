"""Where the time of a step is lost, in a sentence per cell."""

from typing import Any

from scalebench.report.number_format import number

# Computation over communication from which the latter is usually hidden.
HIDES = 3.0


def loss_sentence(cell: dict[str, Any]) -> str:
    """The largest known part of the difference between the ideal and the measured step; `cell` of waterfall.json."""
    measured, ideal = number(cell["measured_ms"]), number(cell["ideal_ms"])
    if cell["measured_ms"] <= cell["ideal_ms"]:
        return f"{cell['cell']}: no loss; a step takes {measured} ms, the ideal is {ideal} ms."
    sentences = [f"{cell['cell']}: a step takes {measured} ms, the ideal is {ideal} ms{_largest(cell)}"]
    if cell["unexplained_ms"] > 0:
        sentences.append(f"{number(cell['unexplained_ms'])} ms are unexplained{_unmeasured(cell)}")
    else:
        over = number(-cell["unexplained_ms"])
        sentences.append(f"the parts add up to {over} ms more than the loss{_unmeasured(cell)}")
    ratio = cell["compute_to_communication"]
    text = "; ".join(sentences) + "."
    if ratio is None:
        return text
    return text + f" Compute / communication is {number(ratio)}; {HIDES:g} is usually enough to hide communication."


def _largest(cell: dict[str, Any]) -> str:
    known = [part for part in cell["parts"] if part["ms"] is not None and part["ms"] > 0]
    if not known:
        return ""
    most = max(known, key=lambda part: part["ms"])
    return f"; the largest known loss is {most['name']} ({number(most['ms'])} ms)"


def _unmeasured(cell: dict[str, Any]) -> str:
    unknown = [part["name"] for part in cell["parts"] if part["ms"] is None]
    return f" (not measured: {', '.join(unknown)})" if unknown else ""
