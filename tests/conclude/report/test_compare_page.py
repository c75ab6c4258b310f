"""`scaleproof compare --html`: two results, what may be claimed of them, and how their machines differ."""

import json
import re

import matplotlib.pyplot as plt
import pytest
from synthetic import cells, rewrite, write_run

from scaleproof.cli import parser
from scaleproof.conclude.report.charts.pairs import _draw_ratios
from scaleproof.conclude.report.sentences.next_step import step_of_comparison
from scaleproof.conclude.report.sentences.ratios import compared_sentences
from scaleproof.ground.comparison import (
    FASTER,
    NO_INTERVAL,
    SLOWER,
    UNDECIDED,
    Compared,
    claim_on,
    with_simultaneous_intervals,
)
from scaleproof.ground.number_format import digits_beside_one, number
from scaleproof.ground.records.result_file import Estimated
from scaleproof.ground.records.run import read_run


def results(root, step_time, seed, torch="1"):
    """One and two devices, three runs each."""
    for cell in cells():
        for repeat in (1, 2, 3):
            run = write_run(root / "runs", cell, repeat, step_time / cell.batch.n_devices, seed=seed)
            if torch != "1":
                rewrite(run, lambda d: d["env"].update(torch_version=torch))
    return root


def page_of(a, b, out, *words):
    args = parser().parse_args(["compare", str(a), str(b), *words, "--html", str(out)])
    args.run(args)
    return out.read_text()


def test_two_campaigns_on_one_page(tmp_path, capsys):
    a, b = results(tmp_path / "a", 0.1, 1), results(tmp_path / "b", 0.12, 2)
    text = page_of(a, b, tmp_path / "out.html")
    head = f"Of 2 common cells: 2 faster in {a} (1.20x)."
    assert f'<p class="verdict">{head}</p>' in text, "no reservations"
    assert text.count('<td class="text">slower</td>') == 2
    assert "B / A 0.83" in text, "the chart's values appear on hover"
    assert '<th scope="row">torch</th>\n<td colspan="2">1</td>' in text
    assert "<h1>b against a</h1>" in text
    assert f"scaleproof compare {a} {b} --html {tmp_path}/out.html" in text
    console = capsys.readouterr().out
    assert console.startswith(f"{head}\n"), "the verdict comes first"
    assert "ddp-n1x2 is slower than" in console


def test_what_differs_is_marked_and_forbids_a_ratio(tmp_path, capsys):
    a, b = results(tmp_path / "a", 0.1, 1), results(tmp_path / "b", 0.12, 2, torch="2")
    with pytest.raises(SystemExit):
        page_of(a, b, tmp_path / "out.html")
    text = (tmp_path / "out.html").read_text()
    assert "No answer: none of the 2 common cells is comparable." in text
    assert text.count("incomparable: torch_version") == 1, "one reason, one line"
    assert "<strong>ddp-n1x1, ddp-n1x2</strong>: incomparable: torch_version" in text
    printed = capsys.readouterr().out
    assert f"{b} ddp-n1x1 and {a} ddp-n1x1, and 1 further cell: no ratio; incomparable: torch_version" in printed
    assert '<td class="differs">2</td>' in text
    assert re.search(r"\.differs {[^}]*font-weight: bold", text), "a colour alone is lost in print"
    text = page_of(a, b, tmp_path / "out.html", "--vary", "torch_version")
    assert f"Of 2 common cells: 2 faster in {a} (1.20x)." in text
    assert "named with <code>--vary</code>: torch_version." in text, "once, as all cells differ in it"
    for repeat in (1, 2, 3):
        rewrite(read_run(b / f"runs/ddp-n1x1/rep{repeat}"), lambda d: d["env"].update(torch_version="1"))
    text = page_of(a, b, tmp_path / "out.html", "--vary", "torch_version")
    assert text.count('<td class="text">torch_version</td>') == 1


def test_the_head_says_by_how_much_and_whose_reservations(tmp_path, capsys):
    a, b = results(tmp_path / "a", 0.1, 1), results(tmp_path / "b", 0.12, 2)
    for name in ("ddp-n1x1", "ddp-n1x2"):
        for repeat in (1, 2, 3):
            rewrite(read_run(b / f"runs/{name}/rep{repeat}"), lambda d: d["host"].update(cpu_busy_before=0.5))
    rewrite(read_run(a / "runs/ddp-n1x2/rep1"), lambda d: d["host"].update(cpu_busy_before=0.5))
    text = page_of(a, b, tmp_path / "out.html")
    busy = "machine-busy (B) in ddp-n1x1; machine-busy (A and B) in ddp-n1x2"
    verdict = f"Of 2 common cells: 2 faster in {a} (1.20x)."
    folded = '<details class="trust-more"><summary><span class="suspect">With reservations</span></summary>'
    assert f'<p class="verdict">{verdict}</p>\n{folded}\n<p>{busy}.</p></details>' in text
    assert "beforeprint" in text, "on paper it is open"
    assert '<span class="chip suspect">machine-busy (B)</span>' in text
    assert "sessions" not in text, "both are of one day"
    console = capsys.readouterr().out
    assert console.startswith(f"{verdict} With reservations: {busy}.")
    assert console.count("machine-busy") == 2, "the head has all of them"
    for run in map(read_run, sorted(b.glob("runs/*/rep*"))):
        rewrite(run, lambda d: d.update(timestamp_utc=d["timestamp_utc"].replace("2026", "2027")))
    text = page_of(a, b, tmp_path / "out.html")
    assert re.search(rf"{re.escape(busy)}; A is of 2026-[\d-]+, B of 2027-[\d-]+: two sessions differ", text)


def test_the_chart_withholds_what_the_table_withholds():
    figure, axes = plt.subplots()
    ratios = [Estimated(value=0.4, low=low, high=1.2, n=3) for low in (0.05, 0.2)]
    _draw_ratios(axes, [("wide", ratios[0]), ("narrow", ratios[1])], 2)
    assert [list(line.get_xdata()) for line in axes.lines if line.get_marker() == "|"] == [[0.2, 1.2]]
    tips = [line.get_gid() or "" for line in axes.lines]
    assert any(tip.endswith("wide: B / A 0.4000 (n=3: interval too wide to print)") for tip in tips)
    assert any(tip.endswith("narrow: B / A 0.4000 (95 % CI 0.2000-1.200, n=3)") for tip in tips)
    plt.close(figure)


@pytest.mark.parametrize(
    ("ratio", "half", "suspect", "step"),
    [
        (1.03, 1.05, [], "more runs of both sides: with 5 times the runs and the same ratios, 1 of 1 undecided"),
        (1.03, 1.20, [], "further runs are not worth their time: with 5 times the runs and the same ratios, nothing"),
        (1.00, 1.05, [], "further runs are not worth their time"),
        (1.063, 1.20, [], "more runs of both sides"),  # with 28 degrees of freedom the quantile is smaller, too
        (1.057, 1.20, [], "further runs are not worth their time"),
        (1.20, 1.05, [], "nothing is left to decide here"),
        (1.20, 1.05, ["machine-busy"], "measure both sides again on a quiet machine"),
        (1.20, 1.05, ["state-differs"], "nothing is left to decide here"),  # a quiet machine does not help
        (None, None, [], "remove what forbids a ratio"),
    ],
)
def test_what_would_decide_a_comparison(ratio, half, suspect, step):
    bounds = {"low": ratio / half, "high": ratio * half} if half else {}
    compared = Compared("a", "b", (3, 3), (1, 1), [], None, ratio, suspect=suspect, freedom=4, **bounds)
    assert step_of_comparison([compared]).startswith(step)


@pytest.mark.parametrize(
    ("sides", "which"),
    [
        ([{"machine-busy": "B"}], "B"),
        ([{"machine-busy": "A", "process-starved": "A", "state-differs": "B"}], "A"),  # repeats do not mend the last
        ([{"machine-busy": "A and B"}], "both sides"),
        ([{"machine-busy": "B"}, {"process-starved": "A"}], "both sides"),
    ],
)
def test_the_side_that_a_quiet_machine_would_mend_is_said(sides, which):
    compared = [
        Compared("a", "b", (3, 3), (1, 1), [], None, 1.2, suspect=[*of_cell], suspect_sides=of_cell, low=1.1, high=1.3)
        for of_cell in sides
    ]
    assert step_of_comparison(compared) == f"measure {which} again on a quiet machine"


@pytest.mark.parametrize(
    ("runs", "half", "suspect", "step"),
    [
        ((1, 1), None, [], "make 3 runs or more on each side: A has 1, B 1"),
        ((3, 2), 1.5, [], "make 3 runs or more on each side: A has 3, B 2"),
        ((3, 2), 1.5, ["machine-busy"], "measure both sides again on a quiet machine, 3 runs or more on each side: A"),
        ((1, 1), None, ["run-copied"], "make 3 runs or more on each side: A has 1, B 1, since copies of one run count"),
        ((3, 2), 1.05, [], "nothing is left to decide here"),  # two runs that are enough
        ((3, 3), 1.5, [], "further runs are not worth their time"),
    ],
)
def test_an_open_comparison_of_fewer_than_three_runs_asks_for_three(runs, half, suspect, step):
    bounds = {"low": 1.1 / half, "high": 1.1 * half} if half else {}
    decided = Compared("a", "b", (2, 2), (1, 1), [], None, 1.5, low=1.4, high=1.6)  # needs no third run
    compared = Compared("a", "b", runs, (1, 1), [], None, 1.1, suspect=suspect, freedom=4, **bounds)
    assert step_of_comparison([decided, compared]).startswith(step)


def log_of(path, ms):
    path.write_text("".join(f"step: {step} step_time_ms: {ms}\n" for step in range(9)))
    return path


def test_the_first_screen_says_what_is_next_and_the_machine_once(tmp_path, capsys):
    a, b = results(tmp_path / "a", 0.1, 1), results(tmp_path / "b", 0.12, 2)
    head, _, rest = page_of(a, b, tmp_path / "out.html").partition("<nav")
    assert '<p class="next"><strong>Next:</strong> nothing is left to decide here;' in head
    assert head.count("bound to cores of its own") == 1
    assert "Next:" not in rest
    assert "Next:" not in capsys.readouterr().out, "nothing is left to decide"
    main(["compare", log_of(tmp_path / "a.log", 20), log_of(tmp_path / "b.log", 21)])
    assert capsys.readouterr().out.endswith("\nNext: make 3 runs or more on each side: A has 1, B 1.\n")
    single = page_of(a / "runs/ddp-n1x1", b / "runs/ddp-n1x1", tmp_path / "out.html")
    assert '<p class="verdict">B is slower than A, which has 1.20x its tokens/s' in single, "no paths in the heading"


def test_a_title_is_text(tmp_path):
    folder = tmp_path / "<script>x"
    text = page_of(results(folder, 0.1, 1), results(tmp_path / "b", 0.1, 2), tmp_path / "out.html")
    assert "<script>x" not in text


@pytest.mark.parametrize(
    ("ratio", "half", "claims", "expected"),
    [
        (1.10, 0.05, 1, FASTER),
        (0.90, 0.05, 1, SLOWER),
        (1.03, 0.05, 1, UNDECIDED),
        (1.06, 0.05, 1, FASTER),
        (1.06, 0.05, 20, UNDECIDED),  # one of 20 equal cells is expected to have such an interval
        (1.30, 0.05, 20, FASTER),
    ],
)
def test_a_claim_holds_for_all_cells_at_once(ratio, half, claims, expected):
    bounds = {"low": ratio / (1 + half), "high": ratio * (1 + half)}
    compared = Compared("a", "b", (3, 3), (1, 1), [], None, ratio, **bounds, freedom=4.0)
    assert {claim_on(one) for one in with_simultaneous_intervals([compared] * claims)} == {expected}


def test_console_page_chart_and_json_make_one_claim(tmp_path, capsys):
    """Of many cells with some noise: an interval of one cell that leaves out 1 is no claim where there are many."""
    members = cells(vary={"geometry": ["1x1", "1x2"], "micro_batch": [1, 2, 4], "fused_optimizer": [True, False]})
    for side, seed in (("a", 1), ("b", 2)):
        for nth, cell in enumerate(members):
            for repeat in (1, 2, 3):
                factor = 1 + 0.03 * ((7 * nth + 5 * repeat + 3 * seed) % 11) / 11 + 0.012 * nth * (side == "b")
                write_run(tmp_path / side / "runs", cell, repeat, 0.1 * factor, seed=seed, spread=0.0001)
    text = page_of(tmp_path / "a", tmp_path / "b", tmp_path / "out.html")
    console = capsys.readouterr().out
    words = {
        "slower": "is slower than",
        "cannot be told apart": "cannot be told apart from",
        "faster": "is faster than",
    }
    counts = {}
    for word, phrase in words.items():
        counts[word] = text.count(f'<td class="text">{word}</td>')
        assert console.count(phrase) == counts[word], word
    assert min(counts["slower"], counts["cannot be told apart"]) > 0, counts
    (verdict,) = re.findall(r'<p class="verdict">(.*?)</p>', text)
    assert verdict in console.splitlines()
    assert f"The intervals hold for all {len(members)} cells at once with 95 % (Bonferroni)." in console
    spaced = text.replace("\u00a0", " ")
    assert f"The intervals hold for all {len(members)} cells at once with 95 % (Bonferroni)." in spaced
    main(["compare", tmp_path / "a", tmp_path / "b", "--json"])
    compared = json.loads(capsys.readouterr().out)["compared"]
    outside = [one for one in compared if not one["low"] <= 1 <= one["high"]]
    assert len(outside) == counts["slower"] + counts["faster"]
    for one in compared:
        low, ratio, high = one["low"], one["ratio"], one["high"]
        if high < 1:  # slower: said by how much A is faster
            low, ratio, high = 1 / high, 1 / ratio, 1 / low
        digits = digits_beside_one(low, ratio, high) if low > 1 else 3
        assert f"95 % CI {number(low, digits)}-{number(high, digits)}" in console, (
            "the interval that is printed is the one that decides"
        )


def main(words):
    args = parser().parse_args([str(word) for word in words])
    args.run(args)


def test_cells_share_a_sentence_for_one_reason_alone():
    sides = [(f"a {cell}", f"b {cell}", (3, 3), (1, 1), []) for cell in ("x", "y", "z")]
    reasons = ["incomparable: torch_version", "invalid: clock-differs", None]
    compared = [Compared(*side, why, None if why else 2.0) for side, why in zip(sides, reasons, strict=True)]
    assert [sentence.count("further cell") for sentence in compared_sentences(compared)] == [0, 0, 0]


def test_single_runs_support_no_claim():
    assert claim_on(Compared("a", "b", (1, 1), (1, 1), [], None, 2.0)) == NO_INTERVAL
