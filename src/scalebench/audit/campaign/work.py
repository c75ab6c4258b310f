"""Was the work that was planned done, once, by the ranks together?"""

from functools import lru_cache

from scalebench.audit.finding import Finding, about
from scalebench.corpus.plan import SamplePlan, digest
from scalebench.record.run import MeasuredRun
from scalebench.trainer.world import world_mismatch


def ledger_equals_plan(runs: list[MeasuredRun]) -> list[Finding]:
    """The samples that the ranks consumed are those of the plan, which is made anew here from the configuration."""
    found = []
    for run in runs:
        ledger = run.metrics.ledger
        if ledger.consumed_sha256 == _planned(run):
            continue
        if ledger.samples_shared:
            cause = f"{ledger.samples_shared:,} of {ledger.samples_consumed:,} samples were consumed more often in their step than planned"
        else:
            cause = f"{ledger.samples_consumed:,} samples were consumed and {ledger.samples_planned:,} planned, but not the same ones"
        found.append(
            about(
                run,
                "ledger-differs-from-plan",
                "invalid",
                f"{cause}; by rank: {ledger.samples_by_rank}",
                "The ranks must take disjoint shares of each global batch (a sampler is missing or wrong); "
                "the throughput counts repeated work.",
            )
        )
    return found


def _planned(run: MeasuredRun) -> str:
    work, config = run.metrics.config["work"], run.metrics.training_config
    samples = config.dataset_subset_sizes["train"]
    return _digest_of_plan(samples, work["global_batch"], work["seed"], work["warmup_steps"], work["steps"])


@lru_cache  # most runs of a campaign have the same plan
def _digest_of_plan(samples: int, global_batch: int, seed: int, first: int, steps: int) -> str:
    plan = SamplePlan(samples, global_batch, seed)
    return digest([plan.step(s) for s in range(first, first + steps)])


def tokens_are_the_batches(runs: list[MeasuredRun]) -> list[Finding]:
    """Tokens in the ledger = micro-batch x accumulation x devices x seq_len x steps."""
    found = []
    for run in runs:
        config, window, n_devices = run.metrics.training_config, run.metrics.window, run.n_devices
        factors = [config.micro_batch, config.accumulation, n_devices, config.seq_len, window.step_time_n]
        if run.metrics.config["workload"].get("task") == "classification":
            continue  # documents have as many tokens as they have; `padding_is_no_work` looks at them
        expected = 1
        for factor in factors:
            expected *= factor
        if expected != window.tokens:
            product = " x ".join(f"{f:,}" for f in factors)
            found.append(
                about(
                    run,
                    "tokens-differ-from-batches",
                    "invalid",
                    f"{product} = {expected:,} tokens by the configuration, {window.tokens:,} counted",
                    "The batches that the ranks read are not those of the configuration; believe the ledger, mend the reader.",
                )
            )
    return found


def padding_is_no_work(runs: list[MeasuredRun]) -> list[Finding]:
    """Of documents, samples are micro-batch x accumulation x devices x steps, and tokens those of the plan's documents."""
    found = []
    for run in runs:
        if run.metrics.config["workload"].get("task") != "classification":
            continue
        config, window, ledger = run.metrics.training_config, run.metrics.window, run.metrics.ledger
        samples = config.global_batch * window.step_time_n
        if ledger.samples_consumed != samples or ledger.tokens_consumed != ledger.tokens_planned:
            found.append(
                about(
                    run,
                    "tokens-differ-from-batches",
                    "invalid",
                    f"{samples:,} samples with {ledger.tokens_planned:,} tokens by the configuration, "
                    f"{ledger.samples_consumed:,} with {ledger.tokens_consumed:,} counted",
                    "The batches that the ranks read are not those of the configuration, or padding was counted as work.",
                )
            )
    return found


def batch_arithmetic(runs: list[MeasuredRun]) -> list[Finding]:
    """global batch = micro-batch x accumulation x devices, with the devices that came up."""
    found = []
    for run in runs:
        config, n_devices = run.metrics.training_config, run.n_devices
        product = config.micro_batch * config.accumulation * n_devices
        if product != config.global_batch:
            found.append(
                about(
                    run,
                    "batch-arithmetic",
                    "invalid",
                    f"{config.micro_batch} x {config.accumulation} x {n_devices} = {product}, "
                    f"but the global batch is {config.global_batch}",
                    "Each number of this run that depends on the batch is wrong; run the cell again.",
                )
            )
    return found


def text_was_whole(runs: list[MeasuredRun]) -> list[Finding]:
    """Bytes of the corpus that were not UTF-8 stand as U+FFFD in what was trained on."""
    damaged = [run for run in runs if run.metrics.data["replaced_characters"]]
    if not damaged:
        return []
    data = damaged[0].metrics.data
    return [
        Finding(
            code="text-damaged",
            severity="note",
            cells=sorted({run.metrics.cell for run in damaged}),
            runs=[run.name for run in damaged],
            evidence=f"{data['replaced_characters']:,} places of corpus {data['corpus']} are not UTF-8 and hold U+FFFD",
            advice="Times are not touched by it; convert the files for a corpus that you want to learn from.",
        )
    ]


def world_is_the_geometry(runs: list[MeasuredRun]) -> list[Finding]:
    """The ranks ran on as many nodes and devices as the cell has, each device once."""
    found = []
    for run in runs:
        execution = run.metrics.config["execution"]
        nodes, devices = map(int, execution["geometry"].split("x"))
        per_node = 1 if execution["strategy"] == "dp" else devices
        reason = world_mismatch(nodes, per_node, run.metrics.ranks)
        if reason:
            found.append(
                about(
                    run,
                    "wrong-world",
                    "invalid",
                    reason,
                    "The figures are those of another geometry; run the cell again on the nodes that it asks for.",
                )
            )
    return found
