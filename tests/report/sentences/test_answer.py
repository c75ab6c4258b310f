"""The answer claims what the intervals carry and no more."""

import pytest

from scalebench.report.sentences.answer import answer, compared


def shown(value, low=None, high=None, n=3):
    return {"value": value, "low": low, "high": high, "n": n}


def report(speedup=None, relative=None, single=None):
    """ddp on 1 and 2 devices, and fsdp on 2: `speedup` of ddp, `relative` of fsdp to ddp, ddp's two against `single`."""
    run = {"n": 3, "speedup": None, "scaling_efficiency": None, "best_single": None, "speedup_vs_best_single": None}
    run |= {"findings": [], "tokens_per_sec_global": shown(1000.0, n=speedup["n"] if speedup else 3)}
    efficiency = speedup and shown(speedup["value"] / 2)
    base = run | {"cell": "ddp-n1x1", "devices": 1}
    two = run | {"cell": "ddp-n1x2", "devices": 2, "speedup": speedup, "scaling_efficiency": efficiency}
    if single:
        two |= {"best_single": "ddp-n1x1-t2", "speedup_vs_best_single": single}
    first = {
        "cell": "ddp-n1x2",
        "tokens_per_sec_global": shown(1000.0, n=3),
        "relative_to_fastest": None,
        "incomparable": [],
    }
    second = {
        "cell": "fsdp-n1x2",
        "tokens_per_sec_global": shown(500.0, n=relative["n"] if relative else 3),
        "relative_to_fastest": relative,
        "incomparable": [],
    }
    return {
        "status": "ok",
        "mismatches": [],
        "series": [{"name": "ddp", "baseline": "ddp-n1x1", "runs": {"1x1": base, "1x2": two}}],
        "ranking": [{"devices": 2, "cells": [first, second] if relative else [first], "recommendation": None}],
    }


@pytest.mark.parametrize(
    ("speedup", "sentence"),
    [
        (shown(1.7, 1.6, 1.8), "ddp: 2 devices make more than 1 device: 1.70 times the tokens/s (95 % interval 1.60 to 1.80, "
         "3 runs each), an efficiency of 85.0 %."),
        (shown(0.46, 0.44, 0.48), "ddp: 2 devices make less than 1 device: 0.460 times"),
        (shown(1.02, 0.97, 1.07), "ddp: 2 devices and 1 device are not distinguishable: 1.02 times"),
        (shown(1.7, n=1), "ddp: 2 devices made 1.70 times the tokens/s of 1 device, but without an interval nothing is claimed"),
    ],
)  # fmt: skip
def test_scaling(speedup, sentence):
    assert answer(report(speedup)).startswith(sentence)


@pytest.mark.parametrize(
    ("relative", "sentence"),
    [
        (shown(0.5, 0.45, 0.55), "On 2 devices, ddp-n1x2 is fastest with 1,000 tokens/s; the next is fsdp-n1x2 with 0.500 times the tokens/s of ddp-n1x2 "
         "(95 % interval 0.450 to 0.550, 3 runs each)."),
        (shown(0.98, 0.9, 1.06), "On 2 devices, ddp-n1x2 with 1,000 tokens/s and fsdp-n1x2 are not distinguishable: 0.980 times the tokens/s of ddp-n1x2"),
        (shown(0.5, n=1), "On 2 devices, ddp-n1x2 made the most, 1,000 tokens/s, but without an interval nothing is claimed (1 and 3 runs)"),
    ],
)  # fmt: skip
def test_the_fastest(relative, sentence):
    assert answer(report(shown(1.7, 1.6, 1.8), relative)).startswith(sentence)


def test_the_fastest_is_held_against_the_best_single_device():
    text = answer(report(shown(1.7, 1.6, 1.8), shown(0.5, 0.45, 0.55), shown(1.02, 0.95, 1.1)))
    assert "ddp-n1x2 is not distinguishable from the best single device, ddp-n1x1-t2: 1.02 times" in text
    near = answer(report(shown(1.7, 1.6, 1.8), shown(0.98, 0.9, 1.06), shown(1.5, 1.4, 1.6)))
    assert "The best single device is ddp-n1x1-t2; ddp-n1x2 makes 1.50 times its tokens/s" in near


def test_the_slowest_is_told_and_findings_are_reservations():
    given = report(shown(1.7, 1.6, 1.8), shown(0.98, 0.9, 1.06))
    last = {
        "cell": "zero3-n1x2",
        "tokens_per_sec_global": shown(400.0),
        "relative_to_fastest": shown(0.4, 0.35, 0.45),
        "incomparable": [],
    }
    given["ranking"][0]["cells"].append(last)
    given["series"][0]["runs"]["1x2"]["findings"] = ["machine-busy"]
    text = answer(given)
    assert "The slowest is zero3-n1x2 with 0.400 times that (95 % interval 0.350 to 0.450)." in text
    assert text.endswith("With reservations, see the findings: machine-busy in ddp-n1x2.")


def test_invalid_numbers_answer_nothing():
    broken = report(shown(1.7, 1.6, 1.8)) | {"status": "invalid_comparison", "mismatches": ["losses-differ"]}
    text = answer(broken)
    assert text.startswith("No answer")
    assert "losses-differ" in text
    assert "1.7" not in text


def test_nothing_measured_and_nothing_to_compare():
    nothing = {"status": "ok", "mismatches": [], "series": [], "ranking": []}
    assert answer(nothing) == "No answer: no run has numbers. See the runs without numbers."
    alone = report()
    alone["series"][0]["runs"].pop("1x2")
    assert answer(alone).startswith("No answer yet")


def ab(claim=None, more=12, **changes):
    estimate = {"ratio": 1.05, "low": 1.03, "high": 1.07, "n": 8, "floor": 0.01, "detectable": 0.03, "claim": claim}
    found = {
        "name": "fused",
        "a": "x",
        "b": "y",
        "status": "ok",
        "why": None,
        "estimate": estimate | {"more_pairs": more},
    }
    return found | changes


def test_a_comparison_claims_what_its_pairs_carry():
    assert compared(ab("faster")) == (
        "fused: y is 5.00 % faster than x (95 % interval 3.00 to 7.00 %, 8 pairs; pairs of A against A differ by 1.0 %)."
    )
    text = compared(ab())
    assert "y and x are not distinguishable" in text
    assert "An effect of 3.0 % would have been seen four times out of five; 12 more pairs would resolve 2 %" in text
    assert "these pairs resolve 2 %" in compared(ab(more=0))
    assert "more than 1,000 pairs" in compared(ab(more=None))


def test_a_comparison_that_failed_answers_nothing():
    text = compared(ab(status="incomparable", why="os: a | b", estimate=None))
    assert text == "fused: no answer, incomparable (os: a | b)."


def test_where_there_is_nothing_but_a_comparison_it_is_the_answer():
    alone = report()
    alone["series"][0]["runs"].pop("1x2")
    assert answer(alone, [ab("faster")]).startswith("fused: y is 5.00 % faster")


def test_the_simpler_of_two_that_nothing_tells_apart_is_recommended():
    found = report(shown(1.7, 1.6, 1.8), shown(0.98, 0.9, 1.06))
    advice = {"cell": "fsdp-n1x2", "fastest": "ddp-n1x2", "within_noise": ["ddp-n1x2"], "runner_up": "ddp-n1x2"}
    found["ranking"][0]["recommendation"] = advice
    assert "Recommended: fsdp-n1x2, the simplest of those" in answer(found)
    advice |= {"cell": "ddp-n1x2", "within_noise": ["fsdp-n1x2"], "runner_up": "fsdp-n1x2"}
    assert "Recommended: ddp-n1x2, the fastest, and the simplest" in answer(found)
    advice |= {"within_noise": []}
    assert "Recommended: ddp-n1x2, the fastest; runner-up: fsdp-n1x2." in answer(found)


def test_an_incomparable_cell_is_named_and_never_ranked():
    found = report(shown(1.7, 1.6, 1.8), shown(0.5, 0.4, 0.6))
    third = {"cell": "zero2-n1x2", "tokens_per_sec_global": shown(900.0), "relative_to_fastest": None}
    found["ranking"][0]["cells"].insert(1, third | {"incomparable": ["torch_version"]})
    text = answer(found)
    assert "the next is fsdp-n1x2" in text
    assert "zero2-n1x2 is incomparable with it: torch_version differs." in text


def test_all_that_nothing_tells_from_the_fastest_are_named():
    found = report(shown(1.7, 1.6, 1.8), shown(0.98, 0.9, 1.06))
    third = {"cell": "zero2-n1x2", "tokens_per_sec_global": shown(900.0), "relative_to_fastest": shown(0.9, 0.8, 1.01)}
    found["ranking"][0]["cells"].append(third | {"incomparable": []})
    assert "Nor is zero2-n1x2 distinguishable from it." in answer(found)
