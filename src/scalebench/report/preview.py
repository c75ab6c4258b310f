"""A campaign as a table for people, before anything runs."""

from collections import defaultdict

from tabulate import tabulate

from scalebench.campaign.dag import Study
from scalebench.launch.applicable import reason_against
from scalebench.launch.devices import cuda_devices


def show(study: Study) -> str:
    """Cells with their slugs, batch arithmetic, tokens and processes, and the totals."""
    campaign, rows, total = study.campaign, [], 0
    for cell in study.cells:
        batch, seq_len = cell.batch, cell.workload.seq_len
        tokens = batch.global_ * seq_len * cell.work.steps
        total += tokens
        rows.append(
            [
                cell.slug,
                str(batch),
                batch.global_ * seq_len,
                cell.work.warmup_steps,
                cell.work.steps,
                tokens,
                batch.world,
            ]
        )
    runs = len(study.cells) * campaign.repeats
    headers = ["cell", "global = micro x accum. x world", "tokens/step", "warm-up", "steps", "tokens/run", "processes"]
    table = tabulate(rows, headers, intfmt=",", disable_numparse=[0, 1])
    return (
        f"{campaign.title}\n\n{table}\n\n{len(study.cells)} cells x {campaign.repeats} repeats = {runs} runs, "
        f"{total * campaign.repeats:,} timed tokens; at most {campaign.resources.time_limit:g} minutes a run"
        f"{_comparisons(study)}{_not_here(study)}"
    )


def _not_here(study: Study) -> str:
    """The cells that this machine cannot run, by reason."""
    gpus, against = cuda_devices(), defaultdict(list)
    for cell in study.cells:
        if reason := reason_against(cell, gpus):
            against[reason].append(cell.slug)
    if not against:
        return ""
    lines = [f"  {reason}: {', '.join(slugs)}" for reason, slugs in against.items()]
    return "\n\nNot applicable on this machine (each is a row that says so):\n" + "\n".join(lines)


def _comparisons(study: Study) -> str:
    lines = [
        f"\nA/B {c.name}: {b.slug} against {a.slug}; {c.pairs} pairs, {c.null_pairs} of A against A"
        for c, a, b in study.comparisons.values()
    ]
    return "\n" + "".join(lines) if lines else ""
