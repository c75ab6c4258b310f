"""A campaign as a table for people, before anything runs."""

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
    gpus = cuda_devices()
    against = {cell.slug: reason for cell in study.cells if (reason := reason_against(cell, gpus))}
    here = "".join(f"\n  {slug}: {reason}" for slug, reason in against.items())
    here = f"\n\nNot applicable on this machine (each is a row that says so):{here}" if here else ""
    return (
        f"{campaign.title}\n\n{table}\n\n{len(study.cells)} cells x {campaign.repeats} repeats = {runs} runs, "
        f"{total * campaign.repeats:,} timed tokens; at most {campaign.resources.time_limit:g} minutes a run{here}"
    )
