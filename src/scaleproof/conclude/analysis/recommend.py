"""Which cell to use: the simplest that is shown to lose little, never one that merely was not shown to be slower.

A cell is one configuration: a strategy on a number of devices, its size. A Family holds the ratios of all pairs of
cells, with intervals that hold together.
"""

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
    None where none qualifies: then `candidate` is the simplest that further repeats may show to qualify. `worst`: the
    part by which the one or the other may be slower than another cell. `beats_single`: cell -> whether it is shown to
    beat one device; None where there is none.
    """
    if len(cells) < 2:
        return None
    count = len(cells)
    advice = Recommendation(fastest=cells[0].cell, margin=margin)
    if family is None:
        advice.why = "too-few-repeats"
        return advice
    matched = family.method == "tukey-blocks"
    codes = DISTURBED if matched else DISTURBED_UNPAIRED
    disturbed = [cell.cell for cell in cells if codes & set(codes_above_note(findings.of(cell.cell)))]
    advice.disturbed = disturbed
    promising = [cell.cell for cell in cells if beats_single.get(cell.cell) is not False]
    # Bounds of the ratio of each cell to the fastest of the others; the family may hold more cells than these.
    lows = family.worst(count)
    highs = np.exp((family.log_ratio + family.half)[:count, :count].min(axis=1))
    simplest_first = sorted(range(count), key=lambda i: (_simplicity(cells[i]), i))
    sound = [i for i in simplest_first if cells[i].cell in promising and cells[i].cell not in disturbed]
    qualified = [i for i in sound if lows[i] >= 1 - margin]
    possible = [i for i in sound if highs[i] >= 1 - margin]
    if qualified:
        chosen = qualified[0]
        simpler = [i for i in possible if _simplicity(cells[i]) < _simplicity(cells[chosen])]
        advice.cell = cells[chosen].cell
        advice.worst = 1 - min(float(lows[chosen]), 1.0)
        advice.simpler = cells[simpler[0]].cell if simpler else None
    elif possible:
        candidate = possible[0]
        advice.why = "undecided"
        advice.candidate = cells[candidate].cell
        advice.worst = 1 - float(lows[candidate])
    else:
        advice.why = "disturbed" if set(promising) & set(disturbed) else "none-beats-one-device"
    return advice


def _simplicity(cell: MeasuredCell) -> tuple[int, bool]:
    """Key that sorts cells from simple to involved: place in SIMPLICITY, and whether the cell offloads.

    A command, of whose settings nothing is known, comes last.
    """
    strategy = cell.values["strategy"]
    plain_strategy = strategy.removesuffix("-offload")
    place = SIMPLICITY.index(plain_strategy) if plain_strategy in SIMPLICITY else len(SIMPLICITY)
    return place, strategy.endswith("-offload")
