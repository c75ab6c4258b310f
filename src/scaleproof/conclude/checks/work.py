"""Was the work that was planned done, once, by the ranks together?"""

import math
from collections.abc import Iterator
from functools import lru_cache

from scaleproof.ground.findings.registry import Flag, of_run, of_runs
from scaleproof.ground.findings.shared_codes import TOKENS_DIFFER_FROM_BATCHES
from scaleproof.ground.number_format import integer
from scaleproof.ground.records.run import MeasuredRun
from scaleproof.measure.corpus.plan import SamplePlan, digest


@of_run.finds("ledger-differs-from-plan", "invalid")
def ledger_equals_plan(run: MeasuredRun) -> Iterator[Flag]:
    """The ranks consumed other samples than planned: some twice, some never, so that throughput counts repeated work.

    Detected: Sample ids that every rank wrote down, against the plan computed again from the configuration.
    Seen: Every benchmark without a sampler; openvla issue 125, voxceleb_trainer issue 98.
    Repair: Give the ranks disjoint shares of each global batch: a sampler is missing or wrong.
    """
    ledger = run.metrics.ledger
    if ledger.consumed_sha256 == _planned_digest(run):
        return
    consumed = integer(ledger.samples_consumed)
    if ledger.samples_shared:
        shared = integer(ledger.samples_shared)
        cause = f"{shared} of {consumed} samples were consumed more often in their step than planned"
    else:
        cause = f"{consumed} samples were consumed and {integer(ledger.samples_planned)} planned, but not the same ones"
    yield Flag(f"{cause}; by rank: {ledger.samples_by_rank}")


def _planned_digest(run: MeasuredRun) -> str:
    """Return the digest of the samples that a run's configuration plans for its window."""
    work = run.metrics.config["work"]
    samples = run.metrics.training_config.dataset_subset_sizes["train"]
    return _digest_of_plan(samples, work["global_batch"], work["seed"], work["warmup_steps"], work["steps"])


@lru_cache  # most runs of a campaign have the same plan
def _digest_of_plan(samples: int, global_batch: int, seed: int, first: int, steps: int) -> str:
    """Return the digest of the planned samples of `steps` steps from `first` on, out of a corpus of `samples`."""
    plan = SamplePlan(samples, global_batch, seed)
    return digest([plan.step(step) for step in range(first, first + steps)])


def _classifies(run: MeasuredRun) -> bool:
    """Return whether the run trains a classifier of documents rather than a model of language."""
    return run.metrics.config["workload"].get("task") == "classification"


@of_run.check(TOKENS_DIFFER_FROM_BATCHES)
def tokens_are_the_batches(run: MeasuredRun) -> Iterator[Flag]:
    """Flag a run unless tokens in the ledger = micro-batch x accumulation x devices x seq_len x steps.

    Not of documents, whose lengths differ: `padding_is_no_work` looks at them.
    """
    if _classifies(run):
        return
    config = run.metrics.training_config
    window = run.metrics.window
    factors = (
        config.micro_batch,
        config.accumulation,
        run.n_devices,
        config.seq_len,
        window.step_time_n,
    )
    expected = math.prod(factors)
    counted = window.tokens
    if expected != counted:
        product = " x ".join(integer(factor) for factor in factors)
        yield Flag(
            f"{product} = {integer(expected)} tokens by the configuration, {integer(counted)} counted",
            advice="The batches that the ranks read are not those of the configuration; believe the ledger, fix the "
            "reader.",
        )


@of_run.check(TOKENS_DIFFER_FROM_BATCHES)
def padding_is_no_work(run: MeasuredRun) -> Iterator[Flag]:
    """Flag a classifier's run unless samples = global batch x steps, and tokens are those of the planned documents."""
    if not _classifies(run):
        return
    ledger = run.metrics.ledger
    samples = run.metrics.training_config.global_batch * run.metrics.window.step_time_n
    if ledger.samples_consumed != samples or ledger.tokens_consumed != ledger.tokens_planned:
        yield Flag(
            f"{integer(samples)} samples with {integer(ledger.tokens_planned)} tokens by the configuration, "
            f"{integer(ledger.samples_consumed)} with {integer(ledger.tokens_consumed)} counted",
            advice="The batches that the ranks read are not those of the configuration, or padding was counted as "
            "work.",
        )


@of_runs.finds("text-damaged", "note")
def text_was_whole(runs: list[MeasuredRun]) -> Iterator[Flag]:
    """Bytes of the corpus that were not UTF-8 stand as U+FFFD in what was trained on. Times are not affected.

    Detected: Replacements counted when the corpus was read.
    Seen: Old text collections in Latin-1.
    Repair: Convert the files before the corpus is built, if the model is to learn from it.
    """
    damaged = [run for run in runs if run.metrics.data["replaced_characters"]]
    if damaged:
        data = damaged[0].metrics.data
        count = data["replaced_characters"]
        yield Flag(f"{integer(count)} places of corpus {data['corpus']} are not UTF-8 and hold U+FFFD", about=damaged)
