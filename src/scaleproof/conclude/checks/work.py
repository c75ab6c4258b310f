"""Was the work that was planned done, once, by the ranks together, and on a corpus that has something to learn?"""

import math
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache

from scaleproof.conclude.checks.replayed import reference_for
from scaleproof.ground.findings.registry import Flag, of_run, of_runs
from scaleproof.ground.findings.shared_codes import TOKENS_DIFFER_FROM_BATCHES
from scaleproof.ground.number_format import integer, percent
from scaleproof.ground.records.grouping import group_by
from scaleproof.ground.records.run import MeasuredRun
from scaleproof.measure.corpus.reader import SamplePlan, digest_of_ids
from scaleproof.measure.reference.schema import CorpusReading


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
    planned = integer(ledger.samples_planned)
    evidence = f"{consumed} samples were consumed and {planned} planned, but not the same ones"
    if ledger.samples_shared:
        shared = integer(ledger.samples_shared)
        evidence = f"{shared} of {consumed} samples were consumed more often in their step than planned"
    yield Flag(f"{evidence}; by rank: {ledger.samples_by_rank}")


def _planned_digest(run: MeasuredRun) -> str:
    """Return the digest of the samples that a run's configuration plans for its window."""
    work = run.metrics.config["work"]
    samples = run.metrics.training_config.dataset_subset_sizes["train"]
    return _digest_of_plan(samples, work["global_batch"], work["seed"], work["warmup_steps"], work["steps"])


@lru_cache  # most runs of a campaign have the same plan
def _digest_of_plan(samples: int, global_batch: int, seed: int, first: int, steps: int) -> str:
    """Return the digest of the planned samples of `steps` steps from `first` on, out of a corpus of `samples`."""
    plan = SamplePlan(samples, global_batch, seed)
    return digest_of_ids([plan.step(step) for step in range(first, first + steps)])


@of_run.check(TOKENS_DIFFER_FROM_BATCHES)
def tokens_are_the_batches(run: MeasuredRun) -> Iterator[Flag]:
    """Flag a run unless tokens in the ledger = micro-batch x accumulation x devices x seq_len x steps.

    A classifier's documents differ in length: `padding_is_no_work` looks at them.
    """
    if run.is_classifier:
        return
    config = run.metrics.training_config
    window = run.metrics.window
    factors = (config.micro_batch, config.accumulation, run.n_devices, config.seq_len, window.step_time_n)
    configured_tokens = math.prod(factors)
    if configured_tokens != window.tokens:
        product_text = " x ".join(map(integer, factors))
        yield Flag(
            f"{product_text} = {integer(configured_tokens)} tokens by the configuration, {integer(window.tokens)} "
            "counted",
            advice="The batches that the ranks read are not those of the configuration; believe the ledger, fix the "
            "reader.",
        )


@of_run.check(TOKENS_DIFFER_FROM_BATCHES)
def padding_is_no_work(run: MeasuredRun) -> Iterator[Flag]:
    """Flag a classifier's run unless samples = global batch x steps, and tokens are those of the planned documents."""
    if not run.is_classifier:
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
    damaged_runs = [run for run in runs if run.metrics.data["replaced_characters"]]
    for corpus, readers in group_by(damaged_runs, lambda run: str(run.metrics.data["corpus"])).items():
        count = integer(readers[0].metrics.data["replaced_characters"])
        yield Flag(f"{count} places of corpus {corpus} are not UTF-8 and hold U+FFFD", about=readers)


# So large a share of the validation documents may be training documents: no corpus that this package knows has as many.
MOST_SHARED = 0.25
MOST_REPEATED = 0.5  # and so large a share of the training documents may stand there twice
LEAST_BITS = 1.0  # the least entropy of a token; text has 6 and more, even cut into bytes 4


@of_runs.finds("tokens-differ-from-documents", "invalid")
def tokens_are_those_of_the_documents(runs: list[MeasuredRun]) -> Iterator[Flag]:
    """The token files are not the documents that the campaign names, as the tokenizer writes them.

    Detected: The source is read again and compared with the documents that were gathered. Documents taken at random are
    tokenised again by the tokenizer's own library and compared with what stands in their place; ends of text are
    counted, and ids held against the tokenizer's table.
    Seen: Documents of another source; a validation split of training text; documents written several times; no
    end-of-text; a table of another size. The replay reads the same token files and sees none of that.
    Repair: Remove the folder of the corpus below results/corpora, and run the workflow again.
    """
    for reading, readers in _second_readings(runs):  # made by measure/reference/corpus_reader.py
        if reading.differences:
            first, *others = reading.differences
            others_text = f"; {len(others)} more such differences" if others else ""
            yield Flag(f"{first}{others_text}; {reading.read} documents were read again", about=readers)


@of_runs.finds("source-unread", "note")
def documents_were_held_against_their_source(runs: list[MeasuredRun]) -> Iterator[Flag]:
    """Not all documents were compared with the source that the campaign names: nobody else says that they are its own.

    Detected: The source is read again by code of its own, where it is on this machine as it was, and up to 64 MB.
    Seen: Data sets that are streamed from the hub; files that were edited, moved or deleted after they were gathered.
    Repair: None is needed. To have them compared, keep the files, and remove the folder of the corpus below
    results/corpora.
    """
    for reading, readers in _second_readings(runs):  # made by measure/reference/source_reader.py
        if reading.unread:
            count = f"{integer(reading.compared or 0)} of {integer(reading.documents)} documents"
            yield Flag(f"{count} were compared with their source: {reading.unread}", about=readers)


@of_runs.finds("corpus-repeats", "suspect")
def the_corpus_is_not_one_thing_many_times(runs: list[MeasuredRun]) -> Iterator[Flag]:
    """The corpus holds little that is new, so that losses say little about learning. Rates are not concerned.

    Detected: Documents of 64 tokens and more, compared by their length and first tokens: more than half of the training
    documents stand there twice, or a quarter of the validation documents are training documents. Or the training tokens
    have less than 1 bit of entropy each.
    Seen: Files gathered twice; a validation set drawn from the training text.
    Repair: Remove what is there twice from the source. Do not quote validation losses.
    """
    for reading, readers in _second_readings(runs):  # made by measure/reference/corpus_reader.py
        shared_part = reading.validation_in_training or 0.0
        if shared_part > MOST_SHARED:
            evidence = f"{percent(shared_part)} of the validation documents are training documents as well"
            yield Flag(evidence, about=readers)
        repeated_part = reading.repeated_documents or 0.0
        if repeated_part > MOST_REPEATED:
            yield Flag(f"{percent(repeated_part)} of the training documents stand there already", about=readers)
        if reading.entropy_bits < LEAST_BITS:
            yield Flag(
                f"a training token has {reading.entropy_bits:.2f} bits of entropy, over {reading.distinct_tokens} "
                "different tokens",
                about=readers,
            )


def _second_readings(runs: list[MeasuredRun]) -> Iterator[tuple[CorpusReading, list[MeasuredRun]]]:
    """Yield what the replay's own reader found in each corpus, with the runs that trained on this corpus."""
    readings: dict[str, CorpusReading] = {}  # sha256 of the training tokens -> what was found in their corpus
    readers: dict[str, list[MeasuredRun]] = defaultdict(list)  # the same -> the runs that trained on them
    for run in runs:
        reference = reference_for(run)
        if reference is not None and reference.corpus is not None:
            readings[reference.train_sha256] = reference.corpus
            readers[reference.train_sha256].append(run)
    for sha256, reading in readings.items():
        yield reading, readers[sha256]
