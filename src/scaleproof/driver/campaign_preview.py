"""A campaign as a table for people, before anything runs."""

import shlex
from collections import defaultdict
from typing import Any

from tabulate import tabulate

from scaleproof.conclude.forecast import requirements
from scaleproof.driver.cells_here import reason_here, shares_cores
from scaleproof.driver.doubtful_keys import doubts_text
from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.campaign.question import Question
from scaleproof.ground.campaign.question_cells import cells_of_question
from scaleproof.ground.campaign.repeats import repeats_text
from scaleproof.ground.configurations import configuration_differences
from scaleproof.ground.cores import available_cores
from scaleproof.ground.errors import UserError, plural, shortened
from scaleproof.ground.number_format import bytes_text, integer
from scaleproof.ground.records.configuration import columns_of_config, size_of
from scaleproof.ground.records.evidence import MEANING
from scaleproof.measure.corpus.downloads import describe_corpora
from scaleproof.measure.machine.applicable import reason_anywhere
from scaleproof.measure.machine.gpus import Gpu, cuda_devices, usable_gpus

# Value of workload.figures -> where the figures of a command come from; of others, from its log alone.
TIMED_BY = {
    "auto": "times of steps or rates of work in the log; where it has steps alone, or rates of steps (12.3 it/s), its "
    "lines are timed by the launcher's clock",
    "whole": "the launcher's clock, from start to end",
}


def preview_campaign(loaded: LoadedCampaign) -> str:
    """Return the preview of a campaign: a table of its cells, totals, what they need, and what cannot run here."""
    if loaded.campaign.workload.command is not None:
        return _preview_commands(loaded)
    campaign = loaded.campaign
    rows = [_training_row(cell) for cell in loaded.cells]
    # Columns 0, 1 and 7 (cell, batch, state) are text; the other five are numbers.
    table = tabulate(rows, "keys", intfmt=",", disable_numparse=[0, 1, 7], colalign=("left", "left", *["right"] * 6))
    tokens = sum(row["tokens/run"] for row in rows)
    tokens_text = _range_text(tokens * campaign.fewest_repeats, tokens * campaign.most_repeats)
    most_runs = len(rows) * campaign.most_repeats
    runs_in_pairs = sum(2 * (comparison.pairs + comparison.null_pairs) for comparison in campaign.compare)
    gpus, why_no_gpu = usable_gpus(cuda_devices)
    return (
        f"{campaign.title}\n\n{table}\n\n{cells_text(campaign, len(rows))}, {tokens_text} timed tokens; "
        f"{_time_limit_text(campaign, most_runs, runs_in_pairs)}"
        f"{_jobs_line(loaded)}{_padding_line(loaded)}{_comparison_lines(loaded)}"
        f"{requirements.describe_models(loaded)}{requirements.memory_note(loaded, gpus)}"
        f"{describe_corpora(loaded)}"
        f"{_cpu_paragraph(loaded, gpus, why_no_gpu)}{remarks(loaded, gpus)}"
    )


def _training_row(cell: Cell) -> dict[str, Any]:
    """Return heading -> entry of a cell's row in the table."""
    state_bytes = requirements.device_state_bytes(cell)
    tokens = cell.batch.global_ * cell.workload.seq_len  # of a step
    return {
        "cell": cell.slug,
        "global = micro x accum. x devices": cell.planned_batch if cell.is_open else str(cell.batch),
        "tokens/step": tokens,
        "warm-up": cell.work.warmup_steps,
        "steps": cell.work.steps,
        "tokens/run": tokens * cell.work.steps,
        "processes": cell.world_size,
        "state/device": bytes_text(state_bytes) if state_bytes else "unknown",
    }


def _preview_commands(loaded: LoadedCampaign) -> str:
    """Return the preview of a campaign of commands: the command of each cell, and the source of its figures."""
    campaign = loaded.campaign
    cells = loaded.cells
    rows = [[c.slug, c.execution.geometry.n_devices, c.per_step, shlex.join(c.words)] for c in cells]
    unit = campaign.workload.per_step.unit if campaign.workload.per_step else "work"
    headings = ["cell", "devices", f"{unit}/step", "command"]
    # Without `per_step` (None), the log of a run says how much work a step is.
    table = tabulate(rows, headings, missingval="by its log", disable_numparse=True)
    gpus, _ = usable_gpus(cuda_devices)
    return (
        f"{campaign.title}\n\n{table}\n\n{cells_text(campaign, len(rows))}; "
        f"{command_text(campaign, len(rows))}\nEvidence: printed: {MEANING['printed']}."
        f"{remarks(loaded, gpus)}"
    )


def command_text(campaign: Campaign, n_cells: int) -> str:
    """Return what is known of a campaign of commands before its first run: its longest time, and which clock it has."""
    figures = campaign.workload.figures
    reader = figures if isinstance(figures, str) else "patterns"
    clock = TIMED_BY.get(reader, "what the log prints")
    return f"{_time_limit_text(campaign, n_cells * campaign.most_repeats)}\nFigures: {reader}: {clock}."


def _time_limit_text(campaign: Campaign, runs: int, runs_in_pairs: int = 0) -> str:
    """Describe the time limit of `runs`: "time limit 10 minutes per run, so at most 3 hours in all".

    `runs_in_pairs`: further runs, in the pairs of A/B comparisons.
    """
    minutes = campaign.resources.time_limit
    hours = _amount_text((runs + runs_in_pairs) * minutes / 60, "hour")
    with_pairs = f" with the {runs_in_pairs} of A/B pairs" if runs_in_pairs else " in all"
    return f"time limit {_amount_text(minutes, 'minute')} per run, so at most {hours}{with_pairs}"


def _amount_text(number: float, noun: str) -> str:
    """Return a number with its noun: "1 hour", "0.333 hours"."""
    digits = f"{number:.3g}"
    return f"{digits} {noun if digits == '1' else noun + 's'}"


def cells_text(campaign: Campaign, n_cells: int) -> str:
    """Return "2 cells x 3 repeats = 6 runs"."""
    runs = _runs_text(n_cells * campaign.fewest_repeats, n_cells * campaign.most_repeats)
    return f"{plural(n_cells, 'cell')} x {repeats_text(campaign.repeats)} = {runs}"


def _runs_text(fewest: int, most: int) -> str:
    """Return "1 run", or "6 to 24 runs" where results decide how many."""
    return f"{_range_text(fewest, most)} run{'s' if most > 1 else ''}"


def _range_text(fewest: int, most: int) -> str:
    """Return "6", or "6 to 24" where results decide how many."""
    return integer(most) if fewest == most else f"{integer(fewest)} to {integer(most)}"


def _jobs_line(loaded: LoadedCampaign) -> str:
    """Return a line on the jobs with several runs that a cluster is asked for. Returns "" where there are none."""
    sizes = [len(job.runs) for job in loaded.shared_jobs.values()]
    return f"\nOn a cluster {plural(len(sizes), 'job')} of {_range_text(min(sizes), max(sizes))} runs." if sizes else ""


def _padding_line(loaded: LoadedCampaign) -> str:
    """Return a line that the token counts of a classification are upper bounds. Returns "" for other tasks."""
    if all(cell.workload.task == "language-modelling" for cell in loaded.cells):
        return ""
    return "\nClassification: a document has at most seq_len tokens; fewer are counted where it is shorter."


def _cpu_paragraph(loaded: LoadedCampaign, gpus: list[Gpu], why_no_gpu: str) -> str:
    """Return a paragraph on why no GPU works, or that devices are processes on CPU cores; "" with GPUs."""
    if why_no_gpu:
        return f"\n\nNo CUDA device can be used, because {why_no_gpu}."
    if gpus or all(cell.execution.device == "cuda" for cell in loaded.cells):
        return ""
    return f"\n\nNo CUDA device is visible: devices are processes on the {available_cores()} cores of this machine."


def remarks(loaded: LoadedCampaign, gpus: list[Gpu], elsewhere: bool = False) -> str:
    """Return paragraphs on what a valid campaign may not have meant: doubtful keys, cells that nothing ranks, ...

    Returns "" where there are none. `elsewhere`: it is to run on another machine; nothing is said of this one then.
    """
    unsupported = "" if elsewhere else unsupported_cells_text(loaded, gpus)
    return f"{doubts_text(loaded, gpus)}{unranked_text(loaded)}{unsupported}"


def unranked_text(loaded: LoadedCampaign) -> str:
    """Return a paragraph on cells that the report will compare with nothing, with the key that compares two of them.

    Returns "" where some are ranked or make a series, where they are asked about, and where no question can be.
    """
    campaign, cells = loaded.campaign, loaded.cells
    is_work_unknown = any(cell.command is not None and cell.per_step is None for cell in cells)
    if len(cells) < 2 or campaign.question or campaign.compare or is_work_unknown:
        return ""
    sizes = set(map(_size, cells))
    series = {cell.slug.replace(f"n{cell.execution.geometry}", "") for cell in cells}
    if min(len(sizes), len(series)) < len(cells):
        return ""

    first, *_, last = cells
    question = {"is": last.slug, "better_than": first.slug}
    try:
        cells_of_question(Question.model_validate(question), cells)
    except UserError:  # their models have other parameters
        return ""
    differing = configuration_differences(first.config, last.config)
    keys = ", ".join(dict.fromkeys(field.rpartition(".")[2] for field in differing))
    advice = f"question: {{is: {last.slug}, better_than: {first.slug}}}"
    return f"\n\nNo ranking: cells differ in {shortened(keys)}. To compare two of them, write {advice}"


def _size(cell: Cell) -> tuple:
    """Return what the cells of one ranking have in common; the global batch of a command is the work of its step."""
    values = columns_of_config(cell.config)
    return size_of(values if cell.command is None else values | {"global_batch": cell.per_step})


def unsupported_cells_text(loaded: LoadedCampaign, gpus: list[Gpu]) -> str:
    """Return paragraphs on the cells whose ranks share cores, on searches without a limit, and on unsupported cells."""
    sharing: list[Cell] = []
    here = "These cannot run here"
    anywhere = "These can run on no machine; leave them out (exclude, or the entry of cells)"
    slugs_by_reason: dict[str, dict[str, list[str]]] = {anywhere: defaultdict(list), here: defaultdict(list)}
    for cell in loaded.cells:
        if reason := reason_here(cell, gpus):
            is_anywhere = cell.command is None and reason_anywhere(cell)
            slugs_by_reason[anywhere if is_anywhere else here][reason].append(cell.slug)
        elif shares_cores(cell, gpus):
            sharing.append(cell)

    text = ""
    if sharing:
        names = ", ".join(cell.slug for cell in sharing)
        text = f"\n\nThese share {available_cores()} cores, which is no scaling: {names}"
        if any(map(loaded.held_out, sharing)):
            reason = "no forecast from cells with cores of their own holds there"
            text += f"\nSome of them are in forecast.hold_out: {reason}"
    searched = ", ".join(cell.slug for cell in loaded.cells if cell.searched)
    is_on_cpu = not gpus and loaded.campaign.execution.device != "cuda"
    if searched and is_on_cpu and loaded.campaign.frontier.limit_gb is None:
        advice = "write frontier: {limit_gb: 4}, or what one process may use"
        fault = f"On a CPU the micro-batch of {searched} cannot be searched without a limit"
        text += f"\n\n{fault}, so that Snakemake refuses it here; {advice}"
    for heading, reasons in slugs_by_reason.items():
        if reasons:
            text += f"\n\n{heading} (each is a row that says why):\n"
            text += "\n".join(f"  {reason}: {', '.join(slugs)}" for reason, slugs in reasons.items())
    return text


def _comparison_lines(loaded: LoadedCampaign) -> str:
    """Return an empty line and a line for each A/B comparison. Returns "" where there is none."""
    lines = [
        f"\nA/B {c.name}: {b.slug} against {a.slug}; {c.pairs} pairs, {c.null_pairs} of A against A"
        for c, a, b in loaded.comparisons.values()
    ]
    return "\n" + "".join(lines) if lines else ""
