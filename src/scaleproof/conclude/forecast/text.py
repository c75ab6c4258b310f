"""Sweeps (collectives timed over message sizes), forecasts and plans of a campaign's cells as text for a terminal."""

from collections import defaultdict
from collections.abc import Sequence

from tabulate import tabulate

from scaleproof.conclude.analysis.design import Split
from scaleproof.conclude.analysis.simultaneous import POWER_IN_WORDS
from scaleproof.conclude.forecast.collective import FEWEST_NODES, judge_node_pairs
from scaleproof.conclude.forecast.findings import of_sweeps
from scaleproof.conclude.forecast.frontier import FrontierResult
from scaleproof.conclude.forecast.interval import WITHOUT_POINT, Interval
from scaleproof.conclude.forecast.ledger import Forecasts
from scaleproof.conclude.forecast.plan import PILOT_STEPS, Plan, PlanRow
from scaleproof.conclude.forecast.planner import CellPlan
from scaleproof.conclude.forecast.requirements import host_memory_note
from scaleproof.conclude.forecast.spent import Spent
from scaleproof.conclude.forecast.sweep_file import Sweep, pair_rows, sweep_rows
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.forecast_report import NodePair
from scaleproof.ground.number_format import (
    about,
    bytes_text,
    duration_text,
    fixed,
    integer,
    rounded_up_percent,
    significant,
    span_text,
)
from scaleproof.ground.records.grouping import group_by
from scaleproof.ground.records.scaling_report import Resolution
from scaleproof.measure.machine.gpus import cuda_devices, usable_gpus


def sweep_text(sweep: Sweep) -> str:
    """Return a table of all sizes of a sweep, then its findings, and the pairs of nodes."""
    head = f"{sweep.group} {sweep.backend} on {sweep.device}, {len(sweep.launches)} launches, {sweep.tool}"
    if sweep.link:
        head += f"; the link: {significant(sweep.link.bytes_per_s / 1e9, 6)} GB/s ({sweep.link.source})"
    headers = ["collective", "bytes", "us", "launches", "bus GB/s", "of link"]
    rows = []
    for row in sweep_rows(sweep):
        launches = span_text(integer(row.low * 1e6), integer(row.high * 1e6))
        bandwidth = significant(row.bus_bytes_per_s / 1e9)
        of_link = "" if row.of_link is None else f"{fixed(100 * row.of_link, 0)} %"
        rows.append([row.collective, integer(row.nbytes), integer(row.seconds * 1e6), launches, bandwidth, of_link])
    table = tabulate(rows, headers, disable_numparse=True, colalign=("left", *["right"] * 5))
    findings = [f"{finding.code}: {finding.evidence}" for finding in of_sweeps.findings([sweep])]
    lines = [head, "", table, *findings]
    if pairs := pair_rows(sweep):
        lines += ["", *_pairs_text(pairs)]
    return "\n".join(lines)


def _pairs_text(pairs: list[NodePair]) -> list[str]:
    """Return lines on pairs of nodes, at least one pair: bus bandwidths as a square, then slow pairs without a finding.

    With fewer than FEWEST_NODES nodes the last line says that no node is called slow yet.
    """
    gb_per_s: dict[str, dict[str, str]] = defaultdict(dict)  # node -> other node -> bus bandwidth
    for row in pairs:
        gb_per_s[row.first][row.second] = gb_per_s[row.second][row.first] = significant(row.bus_bytes_per_s / 1e9)
    nodes = sorted(gb_per_s)
    square = [[node, *(gb_per_s[node].get(other, "") for other in nodes)] for node in nodes]
    lines = [
        f"all_reduce of {integer(pairs[0].nbytes)} bytes between two nodes, bus GB/s",
        tabulate(square, ["", *nodes], disable_numparse=True, colalign=("left", *["right"] * len(nodes))),
    ]

    verdict = judge_node_pairs(pairs)
    if verdict.bound is None:  # too few nodes to call one slow
        lines.append(f"{plural(len(nodes), 'node')}: from {FEWEST_NODES} on, slow nodes and links are named")
    elif verdict.unexplained:
        examples = [f"{row.first}-{row.second}" for row in verdict.unexplained[:3]]
        if len(verdict.unexplained) > len(examples):
            examples.append("...")
        slow_pairs = f"{plural(len(verdict.unexplained), 'more slow pair')} ({', '.join(examples)})"
        lines.append(f"{slow_pairs}: neither one node nor one link; look at the switches between them")
    return lines


def forecasts_text(forecasts: Forecasts) -> str:
    """Return a row for each cell: its step in ms with intervals; then why others have no forecast, and what helps."""
    rows, refusals = [], []
    has_wide_forecast = False
    for entry in forecasts.entries:
        interval = entry.interval
        if interval is None:
            refusals.append(f"{entry.cell}: no forecast ({entry.refusal}). {entry.reason}. To lift it: {entry.measure}")
            continue
        has_wide_forecast = has_wide_forecast or interval.wide
        value = "" if interval.wide else fixed(1e3 * interval.value, 1, grouped=True)
        likely = _ms_range(interval.likely) if interval.likely else ""
        nearly_all = _ms_range((interval.low, interval.high))
        rows.append([entry.cell, value, likely, nearly_all, _basis_text(interval)])
    lines = []
    if rows:
        lines.append(tabulate(rows, ["cell", "ms/step", "80 %", "95 %", "from"], disable_numparse=True))
    if has_wide_forecast:
        lines.append(WITHOUT_POINT)
    return "\n".join([*lines, *refusals])


def pilots_text(pilots: Sequence[CellPlan]) -> str:
    """Return a line for each pilot, a short run of one cell, with what it takes."""
    return "\n".join(
        f"{pilot.cell}: its links were swept here; a pilot, this cell alone with steps: {PILOT_STEPS}, takes about "
        f"{duration_text(pilot.run_seconds, 2)} ({significant(pilot.device_hours)} device hours) and says more than a "
        "forecast"
        for pilot in pilots
    )


def plan_text(loaded: LoadedCampaign, plan: Plan) -> str:
    """Return the plan: a row a cell, totals, what is not known and why, and what to do next."""
    total = f"all timed runs: {significant(plan.device_hours)} device hours"
    if plan.price and plan.cost is not None:
        amount = f"{significant(plan.price.amount, 6)} an hour ({plan.price.date})"
        total += f", {significant(plan.cost)} {plan.price.currency} at {amount}"
        nodes = plan.whole_nodes
        if nodes and nodes.device_hours > 1.001 * plan.device_hours:
            cost = significant(nodes.device_hours * plan.price.amount)
            held = f"whole nodes of {nodes.per_node} devices, which a run has to itself (resources.exclusive)"
            total += f"; {significant(nodes.device_hours)} and {cost} {plan.price.currency} for {held}"
    left = f"those that remain take {duration_text(plan.remaining_s, 2)}, without queues and starts of jobs"
    lines = [loaded.campaign.title, "", _plan_table(plan), "", f"{total}; {left}", _energy_text(plan)]
    # "" or a line that begins with its line break.
    here = host_memory_note(loaded, has_gpus=bool(usable_gpus(cuda_devices)[0]))
    return "\n".join(lines + _unknown_lines(plan) + _advice_lines(plan)) + here


def held_text(plan: Plan, seconds: float) -> str:
    """Return what `seconds`, those of all that a campaign makes, come to where its devices are paid for to the end."""
    devices = max((row.devices for row in plan.rows if row.is_counted), default=0)
    hours = devices * seconds / 3600
    cost = f", {significant(hours * plan.price.amount)} {plan.price.currency}" if plan.price else ""
    return f"paid for from beginning to end, {plural(devices, 'device')}: {significant(hours)} device hours{cost}"


def _plan_table(plan: Plan) -> str:
    """Return the plan's table in plain text: a row a cell, with its cost where there is a price."""
    headers = ["cell", "ms/step", "tokens/s", "memory", "run", "runs", "device hours", "from"]
    rows = [_plan_row(row) for row in plan.rows]
    if plan.price:  # the cost stands before the last column
        headers.insert(-1, plan.price.currency)
        for row, texts in zip(plan.rows, rows, strict=True):
            texts.insert(-1, significant(row.plan.cost(plan.price)) if row.plan else "")
    alignments = ("left", *["right"] * (len(headers) - 2), "left")
    return tabulate(rows, headers, disable_numparse=True, colalign=alignments)


def _unknown_lines(plan: Plan) -> list[str]:
    """Return a line for each thing that the plan does not know, and the cells that it is about."""
    lines = []
    if left_out := [row.cell for row in plan.rows if not row.is_counted]:
        lines.append(f"not in these totals: {', '.join(left_out)}")
    if plan.estimate:
        estimated_rows = [row for row in plan.rows if row.basis == "estimated"]
        lines.append(f"time of {_cells_text(estimated_rows, plan)}: {plan.estimate}")

    # Cells with the same reason share a line.
    refused_rows = [row for row in plan.rows if row.refusal]
    for (refusal, measure), rows in group_by(refused_rows, lambda row: (row.refusal, row.measure)).items():
        remedy = f". To lift it: {measure}" if measure else ""
        lines.append(f"step time of {_cells_text(rows, plan)}: unknown, {refusal}{remedy}")
    rows_without_memory = [row for row in plan.rows if row.memory_bytes is None]
    for reason, rows in group_by(rows_without_memory, lambda row: row.no_memory).items():
        lines.append(f"memory of {_cells_text(rows, plan)}: unknown, {reason}")
    if any(row.memory_bytes is not None and row.fits == "unknown" for row in plan.rows):
        known_from = "before a run on them, or by --device with their memory ('H100 80GB')"
        lines.append(f"memory without a verdict: that of the devices is not known {known_from}")
    return lines


def _advice_lines(plan: Plan) -> list[str]:
    """Return the lines on what follows from the plan: what is too large, what to leave out, what to measure next."""
    lines = []
    if too_large := [row.cell for row in plan.rows if row.fits == "does not fit"]:
        lines.append(f"does not fit: {', '.join(too_large)}")
    if plan.leave_out:
        lines.append(f"a forecast decides already that these are not the fastest: {', '.join(plan.leave_out)}")
    if plan.measure_next:
        lines.append(f"the measurement that narrows the answer most per device hour: {plan.measure_next}")
    if plan.resolve:
        lines.append(_resolution_text(plan.resolve))
    if plan.budget:
        outcome = "is enough for all cells that need runs, at the device hours of the table"
        if plan.beyond_budget:
            outcome = f"leaves these cells undecided: {', '.join(plan.beyond_budget)}"
        lines.append(f"the budget of {significant(plan.budget)} device hours {outcome}")
    return lines


def _resolution_text(resolve: Resolution) -> str:
    """Return a sentence with the numbers of the report's "Next": what further repeats would show."""
    repeats_text = f"{about(resolve.repeats)} repeats of each cell" if resolve.repeats else "more than 1,000 repeats"
    return (
        f"{repeats_text} would show differences of {rounded_up_percent(resolve.effect)} ({POWER_IN_WORDS}, by the "
        f"spread of the runs so far); the {resolve.n} so far show {rounded_up_percent(resolve.detectable)}"
    )


def _percent_text(share: float) -> str:
    """Return a difference in percent with two significant digits; "more than 100 %" from there on, as on the page."""
    return f"{significant(100 * share, 2)} %" if share < 0.995 else "more than 100 %"  # 99.5 % rounds to 100 %


def split_text(unit: str, now: Split, better: Split) -> str:
    """Return a sentence on a `better` split of the time into repeats or pairs (`unit`) and steps than the one `now`."""
    return (
        f"in the same time {better.repeats} {unit} of {better.steps} steps would show "
        f"{_percent_text(better.difference)}, the {now.repeats} of {now.steps} steps show "
        f"{_percent_text(now.difference)} (by how much whole runs and single steps scatter)"
    )


def _cells_text(rows: list[PlanRow], plan: Plan) -> str:
    """Return the cells of `rows` by their names; "all cells" where these are all of the plan."""
    return "all cells" if len(rows) == len(plan.rows) > 1 else ", ".join(row.cell for row in rows)


def frontier_text(cell: str, frontier: FrontierResult) -> str:
    """Return the answer of a search for the largest micro-batch of `cell`, then a table of its trials."""
    rows = []
    for trial in frontier.trials:
        peak = "out of memory" if trial.nbytes is None else bytes_text(trial.nbytes)
        rate = "" if trial.tokens_per_s is None else integer(trial.tokens_per_s)
        rows.append([trial.micro_batch, peak, rate, trial.retries])
    table = tabulate(rows, ["micro-batch", "peak", "tokens/s", "retries"], disable_numparse=True)
    return f"{cell}: {_frontier_sentence(frontier)}\n\n{table}"


def _frontier_sentence(frontier: FrontierResult) -> str:
    """Return which micro-batch is the largest, why no larger one is, and which is the fastest."""
    limit = bytes_text(frontier.limit)
    if frontier.largest is None:
        sentence = f"not even the smallest micro-batch fits into {limit}"
        if frontier.needed:
            sentence += f": with it a process takes {bytes_text(frontier.needed)}"
    else:
        reasons = {
            "ran out of memory": "the next one ran out of memory",
            "largest allowed": "the batch or the corpus allows no larger one",
            "a larger one ran out of memory": f"{frontier.failed} ran out of memory, those between were not tried",
            "none": "the search ended before a larger one failed",
        }
        sentence = f"micro-batch {frontier.largest} is the largest that fits into {limit}"
        sentence += f"; {reasons[frontier.certificate]}"
    if frontier.fastest is not None:
        sentence += f"; micro-batch {frontier.fastest} is the fastest"
    if frontier.near_full:
        sentence += ". Memory is nearly full there: a smaller micro-batch may be faster"
    return sentence


def _plan_row(row: PlanRow) -> list[str]:
    """Return a row of the plan's table, without the column of costs."""
    step, plan = row.step, row.plan
    rate = row.tokens_per_s
    memory = "unknown" if row.memory_bytes is None else bytes_text(row.memory_bytes)
    if row.counted:
        memory += " (counted)"
    if row.memory_bytes is not None and row.fits != "unknown":
        memory += f", {row.fits}"
    return [
        row.cell,
        _ms_range((step.low, step.high)) if step else "",
        integer(rate.value) if rate and not rate.wide else "",
        memory,
        duration_text(plan.run_seconds, 2) if plan else "",
        f"{row.repeats_done} of {plan.repeats}" if plan else str(row.repeats_done),
        significant(plan.device_hours) if plan else "",
        row.basis,
    ]


def _energy_text(plan: Plan) -> str:
    """Return the line about energy: kWh, watts of a device and their source, or why it is unknown."""
    if plan.kwh is None:
        return "energy: unknown, no energy counter was read; --watts gives the power of a device"
    powers = [row.power for row in plan.rows if row.plan and row.power]
    sources = ", ".join(sorted({power.basis for power in powers}))
    watts = [power.watts for power in powers]
    watts_text = fixed(min(watts), 0)
    if max(watts) - min(watts) >= 0.5:
        watts_text += f" to {fixed(max(watts), 0)}"
    return f"energy: {significant(plan.kwh)} kWh of the devices ({watts_text} W each, {sources})"


def spent_text(result: Spent) -> str:
    """Return how the plan turned out: "planned on ...: 12 runs in 85 s, ...; they took 91 s, ... (... by -6.6 %)"."""
    return (
        f"planned on {result.made_utc}: {plural(result.runs, 'run')} in {duration_text(result.planned_s, 2)}, "
        f"{significant(result.planned_device_hours)} device hours; they took {duration_text(result.spent_s, 2)}, "
        f"{significant(result.spent_device_hours)} device hours (the plan was off by "
        f"{fixed(100 * result.error, 1, signed=True)} %)"
    )


def _ms_range(bounds_s: tuple[float, float]) -> str:
    """Return bounds in seconds as milliseconds: "12.3-14.5"."""
    return span_text(*(significant(1e3 * bound, 4, grouped=True) for bound in bounds_s))


def _basis_text(interval: Interval) -> str:
    """Return the source of an interval and its number of campaigns, tables or series: "conformal, 21 campaigns"."""
    if interval.construction == "conformal":
        return f"conformal, {plural(interval.n, 'campaign')}"
    if interval.construction == "public series":
        return f"public series, {interval.n} tables"
    return f"{interval.construction}, {plural(interval.n, 'series', 'series')}"
