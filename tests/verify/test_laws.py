"""Laws of scaling, changes of the machine, slower pairs: wrong ones, and wrong sentences on them, are named."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conclude.report.conftest import Results
from result_models import comparison, comparisons, paired
from synthetic import cells, write_run
from verify.test_any_answer import SIZES, Times, finished

from scaleproof.conclude.analysis import scaling, scaling_laws
from scaleproof.conclude.analysis.paired_test import compare_ratios
from scaleproof.conclude.report import claims_report
from scaleproof.conclude.report.claims import claims_of_pairs
from scaleproof.conclude.report.page import write_page
from scaleproof.conclude.report.sentences.ab import drift_sentences
from scaleproof.conclude.report.sentences.ratios import ab_sentence
from scaleproof.ground.confidence import mean_rate
from scaleproof.ground.files import write_json
from scaleproof.ground.records.result_file import Estimated
from scaleproof.ground.records.scaling_report import Kind
from scaleproof.verify.campaign import verify
from scaleproof.verify.claim_sentences import check_sentence
from scaleproof.verify.claims import check_claims
from scaleproof.verify.laws import check_further_sentences, refit_law
from scaleproof.verify.recompute import RecomputedQuantity

MISSED: Times = {("ddp", "1x1"): 0.1, ("ddp", "1x2"): 0.051, ("ddp", "1x4"): 0.048}


def named(folder: Path) -> list[str]:
    return [str(difference) for difference in verify(folder, with_manifest=False)[0]]


@pytest.mark.parametrize("kind", ["strong", "weak"])
@pytest.mark.parametrize("seed", range(8))
def test_both_ways_of_fitting_agree(kind: Kind, seed: int) -> None:
    chance = np.random.default_rng(seed)
    sizes = [1, 2, 4, 8][: 2 + seed % 3]
    efficiency = {n: float(chance.uniform(0.4, 1.05)) if n > 1 else 1.0 for n in sizes}
    runs = 1 + seed % 5
    rates = {n: [100 * n * efficiency[n] * float(chance.lognormal(0, 0.01)) for _ in range(runs)] for n in sizes}
    law, own = (
        scaling_laws.fit_scaling_law(kind, {n: dict(enumerate(values)) for n, values in rates.items()}),
        refit_law(kind, rates),
    )
    assert (law.fraction is None) == (own == {})
    if law.fraction:
        lack = law.lack_of_fit
        expected = [law.fraction.value, law.fraction.low, law.fraction.high, law.limit, lack and lack.log_miss]
        names = ("fraction", "low", "high", "limit", "log_miss")
        assert [own.get(name) for name in names] == [value and pytest.approx(value) for value in expected]
        assert own.get("devices") == (lack and lack.devices)


FAULTS: dict[str, tuple[Any, str, Callable[..., Any], str]] = {
    "the slope": (scaling_laws, "_serial_fraction", lambda slope: 0.8 * slope, "law, fraction"),
    "a law that misses": (scaling_laws, "_largest_misfit", lambda lack: None, "law, devices"),
    "two sizes are enough": (
        scaling,
        "fit_scaling_law",
        lambda law: replace_law(law, undefined="2 sizes; a fit needs 3"),
        "law",
    ),
    "no sentence on the law": (claims_report, "law_sentences", lambda texts: [], "law: has 0 sentences, not 1"),
    "a law is said to hold": (
        claims_report,
        "law_sentences",
        lambda texts: [text.partition(" It does not fit")[0] for text in texts],
        "does not say does not fit",
    ),
    "another part": (
        claims_report,
        "law_sentences",
        lambda texts: [text.replace("serial fraction 0.", "serial fraction 0.0") for text in texts],
        "is none of its figures",
    ),
}


def replace_law(law: Any, **change: Any) -> Any:
    return law.model_copy(update={"fraction": None, "limit": None, "lack_of_fit": None, **change})


@pytest.mark.parametrize("times", [SIZES, MISSED], ids=["a law", "a law that misses"])
def test_nothing_differs_in_a_sound_campaign(tmp_path: Path, times: Times) -> None:
    finished(tmp_path, times, repeats=4, spread=0.003)
    assert named(tmp_path) == []


@pytest.mark.parametrize("lost", [1, 3])
def test_a_lost_run_leaves_the_other_repeats_in_their_pairs(tmp_path: Path, lost: int) -> None:
    """Two devices are no faster than one in the repeats that all sizes have, and faster with the third."""
    rates = {"1x1": [100.0, 100.0, 100.0], "1x2": [99.0, 99.0, 150.0], "1x4": [190.0, 190.0, 190.0]}
    runs = [
        write_run(tmp_path / "runs", cells(vary={"geometry": [size]})[0], repeat, 10 / rate)
        for size, of_size in rates.items()
        for repeat, rate in enumerate(of_size, start=1)
        if (size, repeat) != ("1x4", lost)
    ]
    results = Results(tmp_path, runs)
    results.findings_json()
    results.tables()
    write_page(results.inputs(names=("ranking", "speedup")), tmp_path / "report.html")
    (series,) = results.report.series
    assert (series.law.undefined is None) == (lost == 1)
    assert [text for text in named(tmp_path) if "law" in text] == []


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_a_law_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    module, function, change, expected = FAULTS[name]
    original = getattr(module, function)
    monkeypatch.setattr(module, function, lambda *args, **keys: change(original(*args, **keys)))
    finished(tmp_path, MISSED, repeats=4, spread=0.003)
    texts = named(tmp_path)
    assert any(expected in text for text in texts), texts


def drift(cell_rates: list[float], change: Callable[[str], str] = str, said: bool = True) -> list[str]:
    """What differs in the sentences on A of a comparison, at 131 tokens/s in its pairs, and a cell that does the same.

    `change`: of each sentence; `said`: whether there are any.
    """
    here = Estimated.of(mean_rate([130, 131, 129, 134]))
    there = mean_rate(cell_rates)
    other = {"tokens_per_s": here, "same_work": []}
    entry = comparison(None, a="ddp-n1x2", b="zero1-n1x2", arms={"a": {**other, "same_work": ["ddp-n1x2"]}, "b": other})
    row = {"cell": "ddp-n1x2", "n": there.n, "tokens_per_s": there.value}
    table = pd.DataFrame([row | {"tokens_per_s_low": there.low, "tokens_per_s_high": there.high}])
    texts = drift_sentences(entry, table) if said else []
    sentences = [{"topic": "drift", "text": change(text), "claims": []} for text in texts]
    quantity = RecomputedQuantity(there.value, there.n, "", (), there.low, there.high)
    quantities = {"cells/ddp-n1x2/tokens_per_s": quantity}
    entries = {"pairs": entry.model_dump(mode="json")}
    return [str(one) for one in check_further_sentences(sentences, {"series": []}, entries, quantities)]


def test_what_changed_on_the_machine_is_read() -> None:
    assert drift([96, 97, 95]) == []
    assert drift([125, 131, 137]) == []
    assert "has 0 sentences, not 1" in drift([96, 97, 95], said=False)[0]
    assert "none of its figures" in drift([96, 97, 95], lambda text: text.replace("1.36x", "1.06x"))[0]
    assert "none of its figures" in drift([96, 97, 95], lambda text: text.replace("n=4 and 3", "n=4 and 9"))[0]
    assert "does not say ddp-n1x2" in drift([96, 97, 95], lambda text: text.replace("ddp-n1x2", "fsdp-n1x2"))[0]


@pytest.mark.parametrize("claim", ["slower", None])
@pytest.mark.parametrize("printed", ["1.49x", "1.59x"])
def test_slower_pairs_are_stated_by_the_inverse(claim: str | None, printed: str) -> None:
    """Whether they claim it, or are within the noise of A against A."""
    estimate = paired(ratio=0.67, low=0.58, high=0.76, claim=claim)
    entry = comparison(estimate, a="ddp-n1x1", b="zero1-n1x1")
    text = ab_sentence(entry).replace("1.49x", printed)
    figure = (estimate.ratio, estimate.low, estimate.high)
    stated = {"id": "pairs/fused", "kind": "pairs", "subject": entry.b, "baseline": entry.a, "figure": figure}
    expected = {**stated, "word": claim or "within-noise"}
    further = [
        2.0,
        4.0,
        5.0,
        6.0,
        95.0,
        100 * estimate.floor,
        100 * estimate.detectable_low,
        100 * estimate.detectable_high,
    ]
    sentence = {"topic": "pairs", "text": text, "claims": ["pairs/fused"]}
    problems = [*check_sentence(sentence, [expected], [entry.a, entry.b, entry.name], {"": further, "pairs": []})]
    assert bool(problems) == (printed == "1.59x"), problems


@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_no_sentence_on_sound_pairs_differs(n: int, tmp_path: Path) -> None:
    """Whatever the noise: two pairs have no useful interval where its bounds are more than twice apart."""
    chance = np.random.default_rng(n)
    differences, without_interval = [], 0
    for seed in range(60):
        logarithms = chance.normal(0, 0.01 * (1 + seed), size=(2, n))
        estimate = compare_ratios(*(np.exp(row).tolist() for row in logarithms))
        entry = comparison(estimate, a="ddp-n1x1-nofused", b="ddp-n1x1-fused")
        without_interval += "interval too wide to print" in ab_sentence(entry)
        claims = claims_of_pairs(entry)
        sentence = {"topic": "pairs", "text": ab_sentence(entry), "claims": [claim.id for claim in claims]}
        write_json(tmp_path / "claims.json", {"claims": [c.model_dump() for c in claims], "sentences": [sentence]})
        write_json(tmp_path / "comparison.json", comparisons(entry))
        nothing = {"series": [], "ranking": [], "question": None, "repeats": None}
        differences += [str(one) for one in check_claims(tmp_path, {}, nothing)]
    assert differences == []
    assert without_interval or n > 2
