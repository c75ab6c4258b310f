"""Are the tokens those of the corpus, and does the corpus have something to learn?"""

from collections.abc import Iterator

from scaleproof.conclude.checks.replayed import reference_for
from scaleproof.ground.findings.registry import Flag, of_runs
from scaleproof.ground.number_format import percent
from scaleproof.ground.records.run import MeasuredRun
from scaleproof.measure.reference.schema import CorpusReading

MOST_SHARED = 0.25  # of the validation documents: of the corpora that this package knows, none has as many
MOST_REPEATED = 0.5  # of the training documents
LEAST_BITS = 1.0  # a token; text has 6 and more, even cut into bytes 4


@of_runs.finds("tokens-differ-from-documents", "invalid")
def tokens_are_those_of_the_documents(runs: list[MeasuredRun]) -> Iterator[Flag]:
    """The token files are not the documents of the corpus as its tokenizer writes them.

    Detected: Documents taken at random are tokenised again by the tokenizer's own library and compared with what stands
    in their place; ends of text are counted, and ids held against the tokenizer's table.
    Seen: A validation split of training text; documents written several times; no end-of-text; a table of another size.
    The replay reads the same token files and sees none of that.
    Repair: Remove the folder of the tokenizer below results/corpora, and run the workflow again.
    """
    for reading, readers in _readings(runs):
        if reading.differences:
            first, others = reading.differences[0], len(reading.differences) - 1
            more = f"; {others} more such differences" if others else ""
            yield Flag(f"{first}{more}; {reading.read} documents were read again", about=readers)


@of_runs.finds("corpus-repeats", "suspect")
def the_corpus_is_not_one_thing_many_times(runs: list[MeasuredRun]) -> Iterator[Flag]:
    """The corpus holds little that is new, so that losses say little about learning. Rates are not concerned.

    Detected: Documents of 64 tokens and more, compared by their length and first tokens: more than half of the training
    documents stand there twice, or a quarter of the validation documents are training documents. Or the training tokens
    have less than 1 bit of entropy each.
    Seen: Files gathered twice; a validation set drawn from the training text.
    Repair: Remove what is there twice from the source. Do not quote validation losses.
    """
    for reading, readers in _readings(runs):
        shared = reading.validation_in_training or 0.0
        if shared > MOST_SHARED:
            yield Flag(f"{percent(shared)} of the validation documents are training documents as well", about=readers)
        repeated = reading.repeated_documents or 0.0
        if repeated > MOST_REPEATED:
            yield Flag(f"{percent(repeated)} of the training documents stand there already", about=readers)
        if reading.entropy_bits < LEAST_BITS:
            yield Flag(
                f"a training token has {reading.entropy_bits:.2f} bits of entropy, over {reading.distinct_tokens} "
                "different tokens",
                about=readers,
            )


def _readings(runs: list[MeasuredRun]) -> Iterator[tuple[CorpusReading, list[MeasuredRun]]]:
    """Yield each second reading of a corpus once, with the runs that trained on this corpus."""
    readers: dict[str, list[MeasuredRun]] = {}
    readings: dict[str, CorpusReading] = {}
    for run in runs:
        reference = reference_for(run)
        if reference is not None and reference.corpus is not None:
            readings[reference.train_sha256] = reference.corpus
            readers.setdefault(reference.train_sha256, []).append(run)
    for sha256, reading in readings.items():
        yield reading, readers[sha256]
