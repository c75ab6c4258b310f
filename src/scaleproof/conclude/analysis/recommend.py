"""Which cell to use: the simplest that is shown to lose little, never one that merely was not shown to be slower."""

from collections.abc import Mapping, Sequence

import numpy as np

from scaleproof.conclude.analysis.measured_cells import MeasuredCell
from scaleproof.conclude.analysis.simultaneous import Family
from scaleproof.ground.findings.finding import Findings, codes_above_note
from scaleproof.ground.records.scaling_report import Recommendation

# From simple to involved: what must be understood, configured and debugged before it runs.
SIMPLICITY = ("single", "dp", "ddp", "fsdp", "hsdp", "zero0", "zero1", "zero2", "zero3")
# Findings about what disturbed a run: its rate is not that of the cell.
DISTURBED = {"run-stands-out", "device-throttled", "cores-shared"}
# What changes from round to round; ratios cancel it where the repeats of the cells match.
DISTURBED_UNPAIRED = DISTURBED | {"two-clock-states", "drift-over-repeats", "repeats-correlated"}


def recommend(
    cells: Sequence[MeasuredCell],
    family: Family | None,
    findings: Findings,
    beats_single: Mapping[str, bool | None],
    margin: float,
) -> Recommendation | None:
    """The recommendation among comparable cells of one size, fastest first; None for a single cell.

    `family`: of these cells, the first of it. A cell qualifies if no other is shown to be possibly faster by more than
    `margin` (non-inferiority, by Hsu's comparisons with the best), it is shown to beat one device where there is one,
    and nothing disturbed its runs. The simplest of these is recommended; of equally simple ones the faster. `cell` is
    None where none qualifies: then `candidate` is the simplest that still may, `worst` the part by which it may be
    slower than another.
    """
    if len(cells) < 2:
        return None
    advice = Recommendation(fastest=cells[0].cell, margin=margin)
    if family is None:
        advice.why = "too-few-repeats"
        return advice
    codes = DISTURBED if family.method == "tukey-blocks" else DISTURBED_UNPAIRED
    disturbed = [c.cell for c in cells if codes & set(codes_above_note(findings.of(c.cell)))]
    advice.disturbed = disturbed
    sound = [c.cell not in disturbed and beats_single.get(c.cell) is not False for c in cells]
    # Bounds of the ratio of each cell to the fastest of the others.
    lows = family.worst(len(cells))
    highs = np.exp((family.log_ratio + family.half)[: len(cells), : len(cells)].min(axis=1))
    simplest_first = sorted(range(len(cells)), key=lambda i: (_simplicity(cells[i]), i))
    qualified = [i for i in simplest_first if sound[i] and lows[i] >= 1 - margin]
    possible = [i for i in simplest_first if sound[i] and highs[i] >= 1 - margin]
    if not qualified:
        if not possible:
            promising = [c.cell for c in cells if beats_single.get(c.cell) is not False]
            advice.why = "disturbed" if set(promising) & set(disturbed) else "none-beats-one-device"
            return advice
        candidate = possible[0]
        advice.why = "undecided"
        advice.candidate = cells[candidate].cell
        advice.worst = 1 - float(lows[candidate])
        return advice
    chosen = qualified[0]
    simpler = [i for i in possible if i != chosen and _simplicity(cells[i]) < _simplicity(cells[chosen])]
    advice.cell, advice.worst = cells[chosen].cell, 1 - min(float(lows[chosen]), 1.0)
    advice.simpler = cells[simpler[0]].cell if simpler else None
    return advice


def _simplicity(cell: MeasuredCell) -> tuple[int, bool]:
    """Key that sorts cells from simple to involved: place in SIMPLICITY, and whether the cell offloads.

    Nothing is known of a command's settings: these come last.
    """
    strategy = cell.values["strategy"]
    plain = strategy.removesuffix("-offload")
    place = SIMPLICITY.index(plain) if plain in SIMPLICITY else len(SIMPLICITY)
    return place, strategy.endswith("-offload")
