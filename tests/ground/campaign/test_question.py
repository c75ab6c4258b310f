"""The formal question of a campaign: its keys, and the cells that it means."""

import pytest
from synthetic import campaign

from scaleproof.ground.campaign.cells import expand_cells
from scaleproof.ground.campaign.question import Question
from scaleproof.ground.campaign.question_cells import cells_of_question
from scaleproof.ground.errors import UserError

SIZES = {"strategy": ["ddp", "zero2"], "geometry": ["1x1", "1x2"]}


def asked(**question):
    given = campaign(vary=SIZES, question=question)
    return cells_of_question(given.question, expand_cells(given))


def test_a_strategy_on_a_geometry_and_a_percentage():
    question = {"is": "zero2", "better_than": "ddp", "on": "1x2", "by": "2 %"}
    assert asked(**question) == {"is": "zero2-n1x2", "better_than": "ddp-n1x2", "by": 0.02}


def test_cells_by_their_names():
    assert asked(**{"is": "ddp-n1x2", "better_than": "ddp-n1x1"}) == {
        "is": "ddp-n1x2",
        "better_than": "ddp-n1x1",
        "by": 0,
    }


def test_whether_a_cell_is_not_slower():
    question = {"is": "zero2", "not_slower_than": "ddp", "on": "1x2", "by": "5 %"}
    assert asked(**question) == {"is": "zero2-n1x2", "not_slower_than": "ddp-n1x2", "by": 0.05}


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"is": "zero2", "better_than": "ddp", "not_slower_than": "ddp", "by": 0.1}, "not both"),
        ({"is": "zero2", "not_slower_than": "ddp"}, "not_slower_than needs by"),
    ],
)
def test_a_question_has_one_relation_and_what_it_needs(question, message):
    with pytest.raises(ValueError, match=message):
        asked(**question)


def test_names_of_cells_on_the_geometry_that_is_asked_for():
    question = {"is": "zero2-n1x2", "better_than": "ddp-n1x2", "on": "1x2"}
    assert asked(**question) == {"is": "zero2-n1x2", "better_than": "ddp-n1x2", "by": 0.0}


def test_no_question():
    assert cells_of_question(None, []) is None


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"is": "zero2", "on": "1x2"}, "zero2-n1x2 is compared with nothing; give better_than: CELL, or"),
        ({"is": "zero2", "better_than": "ddp"}, "means several cells"),
        ({"is": "zero4", "better_than": "ddp", "on": "1x2"}, 'question.is: "zero4" is no cell on 1x2'),
        (
            {"is": "zero2-n1x2", "better_than": "ddp-n1x2", "on": "1x1"},
            "question.on: no cell of zero2-n1x2 is on 1x1. Cells: zero2-n1x2",
        ),
        ({"is": "ddp-n1x2", "better_than": "ddp-n1x2"}, "is compared with itself"),
    ],
)
def test_a_question_about_no_cell_is_refused(question, message):
    with pytest.raises(UserError, match=message):
        asked(**question)


@pytest.mark.parametrize(
    ("workload", "vary", "message"),
    [
        ({}, {"tokenizer": ["bytes", "bpe-512"]}, "vocab_size 257 and 512, .*give both one: workload.vocab_size: 512"),
        ({"vocab_size": 512}, {"tokenizer": ["bytes", "bpe-512"]}, None),
        ({}, {"model": ["gpt2-tiny", "gpt2-small"]}, "different models, gpt2-tiny and gpt2-small"),
        ({}, {"seq_len": [16, 32]}, None),
    ],
)
def test_models_of_other_parameters_are_no_question(workload, vary, message):
    made = campaign(workload=workload, vary={"strategy": ["ddp"], **vary})
    subject, base = expand_cells(made)
    question = Question.model_validate({"is": subject.slug, "better_than": base.slug})
    if message is None:
        assert cells_of_question(question, [subject, base])
        return
    with pytest.raises(UserError, match=message):
        cells_of_question(question, [subject, base])
