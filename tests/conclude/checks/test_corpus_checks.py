"""Checks on what the second reading of a corpus found."""

import pytest
from sound_records import write_reference

from scaleproof.conclude.checks.all_checks import audit
from scaleproof.conclude.checks.replayed import reference_for
from scaleproof.ground.records.run import MeasuredRun
from scaleproof.measure.reference.schema import CorpusReading

SOUND = CorpusReading(
    documents=585,
    read=61,
    differences=[],
    distinct_tokens=1893,
    entropy_bits=9.1,
    repeated_documents=0.002,
    validation_in_training=0.01,
)


def with_reading(run: MeasuredRun, **changes) -> dict[str, tuple[str, str]]:
    """Findings on a run whose corpus was read again with these fields."""
    write_reference(run, corpus=SOUND.model_copy(update=changes))
    reference_for.cache_clear()  # of a run; a test writes several references of one
    return {f.code: (f.severity, f.evidence) for f in audit("x", [run]).findings if f.code != "single-run"}


def test_a_sound_corpus_is_not_accused(sound):
    assert with_reading(sound[0]) == {}
    assert with_reading(sound[0], repeated_documents=None, validation_in_training=None, entropy_bits=4.4) == {}


def test_other_tokens_than_those_of_the_documents_are_invalid(sound):
    sentences = ["train.bin has 0 ends of text, the corpus has 285 documents for it", "another"]
    severity, evidence = with_reading(sound[0], differences=sentences)["tokens-differ-from-documents"]
    assert severity == "invalid"
    assert evidence == f"{sentences[0]}; 1 more such differences; 61 documents were read again"


@pytest.mark.parametrize(
    ("field", "sentence"),
    [
        ({"validation_in_training": 0.5}, "50% of the validation documents are training documents as well"),
        ({"repeated_documents": 0.9}, "90% of the training documents stand there already"),
        ({"entropy_bits": 0.4, "distinct_tokens": 2}, "a training token has 0.40 bits of entropy, over 2 different"),
    ],
)
def test_a_corpus_that_repeats_itself_is_suspect(sound, field, sentence):
    severity, evidence = with_reading(sound[0], **field)["corpus-repeats"]
    assert severity == "suspect"
    assert evidence.startswith(sentence)


def test_documents_that_were_not_compared_with_their_source_are_a_note(sound):
    assert with_reading(sound[0], compared=585) == {}
    findings = with_reading(sound[0], compared=12, unread="notes.txt has changed since")
    sentence = "12 of 585 documents were compared with their source: notes.txt has changed since"
    assert findings == {"source-unread": ("note", sentence)}


def test_each_damaged_corpus_is_named(sound):
    """A campaign may vary its corpus: the places of one must not be told of the other."""
    runs = []
    for run, (corpus, places) in zip(sound, {"letters": 3, "diaries": 40, "numbers": 0}.items(), strict=False):
        data = run.metrics.data | {"corpus": corpus, "replaced_characters": places}
        runs.append(MeasuredRun(run.folder, run.metrics.model_copy(update={"data": data})))
    texts = [f.evidence for f in audit("x", runs).findings if f.code == "text-damaged"]
    assert texts == [
        "3 places of corpus letters are not UTF-8 and hold U+FFFD",
        "40 places of corpus diaries are not UTF-8 and hold U+FFFD",
    ]
