"""Lines of a log from which the patterns of a campaign take figures."""

import math
import re
from collections.abc import Mapping, Sequence

from scaleproof.ground.campaign.command import Patterns
from scaleproof.ground.records.printed_log import PrintedLog, PrintedStep

SENTENCE_ENDS = ",."  # may follow a figure at the end of a sentence


def read_by_patterns(lines: Sequence[str], patterns: Patterns) -> PrintedLog:
    """Return a log with a step for each line in which `patterns` find a time, a rate or a number of a step.

    Losses may stand on lines of their own: each step has the last loss up to its line.
    """
    expressions = {name: re.compile(text) for name, text in patterns.model_dump(exclude_none=True).items()}
    steps: list[PrintedStep] = []
    loss: float | None = None
    for number, line in enumerate(lines, start=1):
        figures = _figures_in_line(line, expressions)
        loss = figures.get("loss", loss)
        milliseconds, seconds = figures.get("step_ms"), figures.get("step_s")
        step_number = figures.get("step")
        step = PrintedStep(
            step=len(steps) if step_number is None else int(step_number),
            line=number,
            seconds=seconds if milliseconds is None else milliseconds / 1e3,
            tokens_per_s=figures.get("tokens_per_s"),
            samples_per_s=figures.get("samples_per_s"),
            loss=loss,
        )
        has_figure = step.seconds or step.tokens_per_s or step.samples_per_s
        if has_figure or "step" in figures:
            steps.append(step)

    return PrintedLog("patterns", steps=steps)


def _figures_in_line(line: str, expressions: Mapping[str, re.Pattern[str]]) -> dict[str, float | None]:
    """Return the figures that `expressions` find in a line: name -> figure, None where the text is no number."""
    matches = {name: expression.search(line) for name, expression in expressions.items()}
    figures = {name: _printed_number(match[1]) for name, match in matches.items() if match}
    if not math.isfinite(figures.get("step") or 0.0):  # a pattern that found "nan" found no number of a step
        figures["step"] = None
    return figures


def _printed_number(text: str) -> float | None:
    """Return the number in `text`, which may have commas between thousands. Returns None for any other text."""
    try:
        return float(text.strip().rstrip(SENTENCE_ENDS).replace(",", ""))
    except ValueError:
        return None
