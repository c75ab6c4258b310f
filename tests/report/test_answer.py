"""The one-sentence answer claims what the intervals carry and no more."""

from scalebench.report.answer import answer


def series(speedup, low, high, n=3):
    shown = {"value": speedup, "low": low, "high": high, "n": n}
    efficiency = {"value": speedup / 2, "low": None, "high": None, "n": n}
    base = {"cell": "a", "devices": 1, "n": n, "speedup": None, "scaling_efficiency": None}
    return {
        "status": "ok",
        "mismatches": [],
        "series": [
            {
                "name": "ddp fp32",
                "runs": {
                    "1x1": base,
                    "1x2": base | {"cell": "b", "devices": 2, "speedup": shown, "scaling_efficiency": efficiency},
                },
            }
        ],
    }


def test_faster():
    text = answer(series(1.7, 1.6, 1.8))
    assert text.startswith("Yes. ddp fp32: 2 devices make 1.70 times the tokens/s of 1 device")
    assert "95 % interval 1.60 to 1.80, n = 3 and 3 runs" in text
    assert "efficiency of 85.0 %" in text


def test_slower():
    assert answer(series(0.46, 0.44, 0.48)).startswith("No. ddp fp32: 2 devices make 0.460 times")


def test_not_distinguishable():
    text = answer(series(1.02, 0.97, 1.07))
    assert "are not distinguishable from 1 device" in text
    assert "Yes" not in text


def test_one_run_claims_nothing():
    text = answer(series(1.7, None, None, n=1))
    assert "nothing is claimed" in text
    assert "Yes" not in text


def test_invalid_numbers_answer_nothing():
    report = series(1.7, 1.6, 1.8) | {"status": "invalid_comparison", "mismatches": [{"code": "losses-differ"}]}
    text = answer(report)
    assert text.startswith("No answer")
    assert "losses-differ" in text
    assert "1.7" not in text


def test_nothing_to_compare():
    assert answer({"status": "ok", "mismatches": [], "series": []}).startswith("No answer yet")
