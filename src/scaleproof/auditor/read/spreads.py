"""Whether a table says how far its measurements scatter, or how often they were made, in whatever form."""

import re

from scaleproof.auditor.read.grids import Grid

_WORDS = (
    r"std(?:ev|err|dev)?|st\.? ?dev|std\.? (?:dev\w*|err\w*)|standard (?:deviations?|errors?)|s\.?d\.?|s\.?e\.?m\.?|σ|"
    r"sigma|variances?|var|cv|rsd|coefficient of variation|iqr|inter-?quartile(?: range)?|quartiles?|mad|"
    r"ci ?\d*|\d+ ?%? ?ci|confidence(?: interval)?|credible interval|error bars?|jitter|spread|dispersion"
)
# A heading or the name of a row: "Std. Dev", "step_time_std_ms", "95% CI", "p95 (ms)", "tokens_per_s_low", "runs".
NAMED = re.compile(
    rf"(?i)±|\+/-|(?:^|[^a-z])(?:{_WORDS}|p ?\d\d?(?:\.\d+)?|\d+th|percentiles?|min(?:imum)?|low(?:er)?|upper|range|"
    r"repeats|repetitions|replicates|trials|seeds|n_?runs|num_?runs|(?:number|no\.?) of (?:runs|trials|seeds))"
    r"(?:$|[^a-z])"
)
# A cell: "100 ± 3", "8,859 [7,217, 10,874]", "1.51 (1.05-2.10)", "12 (σ 0.3)".
SCATTERED = re.compile(r"±|\+/-|\\pm|\d ?[(\[]\s*[-\d.,]+\s*(?:,|;|–|-|to|\.\.)\s*[-\d.,]+\s*%?\s*[)\]]")
# What stands around a table: "averaged over 5 runs", "n = 10", "mean of three seeds".
AROUND = re.compile(
    rf"(?i)±|\b(?:{_WORDS})\b|\bn ?= ?\d|(?:\d+|two|three|four|five|six|ten|several|multiple) "
    r"(?:\w+ )?(?:runs|repeats|repetitions|replicates|trials|seeds|measurements)\b"
)
ORDINAL = re.compile(
    r"(?i)(?:run|rep|repeat|repetition|replicate|trial|seed|attempt)s?(?:[ _](?:id|idx|no|number|nr))?"
)
REPEATED = re.compile(r"(?i)\b(?:rep(?:eat)?|run|seed|trial)[ _-]?(\d+)\b")  # "ddp-n1x2/rep1"


def states_spread(grid: Grid) -> bool:
    """Whether a heading, the name of a row, a cell or the text around states a spread or a number of repeats; or
    each repeat has a row of its own.
    """
    row_names = [row[0] for _, row in grid.rows if row]
    if any(NAMED.search(name) for name in (*grid.header, *row_names)):
        return True
    if any(SCATTERED.search(cell) for _, row in grid.rows for cell in row):
        return True
    if any(AROUND.search(text) for text in (grid.caption, grid.above, *grid.before)):
        return True
    repeats = [m for name in row_names if (m := REPEATED.search(name))]
    if len({m[0] for m in repeats}) < len(repeats) and len({m[1] for m in repeats}) > 1:
        return True
    return any(_are_repeats(grid, k) for k, heading in enumerate(grid.header) if ORDINAL.fullmatch(heading.strip()))


def _are_repeats(grid: Grid, k: int) -> bool:
    """Whether the figures of column `k` count the rows of one configuration: 1, 2, 3, 1, 2, 3."""
    ordinals = [row[k].strip() for _, row in grid.rows if k < len(row)]
    return len(set(ordinals)) > 1 and all(re.fullmatch(r"\D{0,6}\d{1,6}", ordinal) for ordinal in ordinals)
