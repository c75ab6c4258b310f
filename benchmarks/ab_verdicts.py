"""The verdicts of `scaleproof ab` on real processes whose truth is known: A against A, and against a B that is slower.

    python benchmarks/ab_verdicts.py --same 6 --slower 4 [--by 10] [--minutes 0.7]
    python benchmarks/ab_verdicts.py --series 200 --place FOLDER [--for 200] [--minutes 0.2]

Each comparison is made by `run_comparison` of `driver/ab.py`, its runs by the launcher, its verdict by checks and
analysis. In place of Snakemake this process calls the stages one after the other, and makes no page, which would take
most of the time. Prints a line for each comparison; wanted is that no two equal commands are told apart.

With `--series` all comparisons are of equal commands in one series of `ab`, whose file in FOLDER the next call goes on
with, `--for` so many seconds. Counted is what the series claimed, and what each comparison would have claimed by
itself, at 5 %: from the same runs, at the looks of its own.
"""

import argparse
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from scipy.stats import beta, t

from scaleproof.cli.commands import run as command
from scaleproof.cli.run import _read_log
from scaleproof.conclude.analysis.stopping import confidence_at, is_resolved, shown_in_scatters
from scaleproof.driver import ab
from scaleproof.driver.ab_campaign import FIRST_LOOK, AbRequest
from scaleproof.driver.series import read_series
from scaleproof.ground.campaign.loaded import LoadedCampaign, run_dir
from scaleproof.ground.campaign.repeats import RepeatUntil
from scaleproof.ground.records.metrics import Printed
from scaleproof.ground.records.run import METRICS, read_run
from scaleproof.ground.snakemake_command import RESULTS
from scaleproof.measure.launch.run import run_cell
from scaleproof.measure.trainer.request import PlannedRun

PROGRAM = """
import sys, time
steps, step_s, slower = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
for step in range(steps):
    began = time.perf_counter()
    time.sleep(step_s * 2 / 3)
    while time.perf_counter() - began < step_s:
        pass
    time.sleep(step_s * slower / 100)
    print(f"step {step} loss {5 - step / 100:.4f} step_ms {1000 * (time.perf_counter() - began):.3f}", flush=True)
"""
STEPS, STEP_S = 120, 0.012  # of a comparison by itself
SHORT, SHORT_S = 60, 0.005  # of one in a series
SERIES = "equal"


def make(campaign: Path, targets: Sequence[Path], options: Sequence[str] = ()) -> None:
    """Make the runs that `targets` need, and findings and analysis where the page is among them."""
    loaded = LoadedCampaign(campaign, RESULTS)
    rule = loaded.campaign.repeat_until
    looks = rule.looks() if rule else [loaded.campaign.most_repeats]
    for repeats in looks:
        for repeat in range(1, repeats + 1):
            for cell in loaded.cells if repeat % 2 else loaded.cells[::-1]:
                folder = run_dir(RESULTS, loaded.name, cell.slug, repeat)
                if not (folder / METRICS).is_file():
                    folder.mkdir(parents=True, exist_ok=True)
                    run_cell(PlannedRun(cell, loaded.name, Path(), loaded.time_limit_s, repeat), folder, read=_read_log)
        if rule and repeats < looks[-1]:
            out = RESULTS / loaded.name / "looks" / f"{repeats}.json"
            stage("look", str(campaign), "--repeats", str(repeats), "--out", str(out))
            if '"goes_on": true' not in out.read_text():
                break
    if targets[-1].name == "report.html":
        stage("findings", str(campaign))
        stage("analyse", str(campaign))


def stage(*words: str) -> None:
    """Run a stage of the workflow in this process, without what it prints."""
    sys.argv = ["scaleproof", "stage", *words]
    with open(os.devnull, "w") as nowhere:
        there, sys.stdout = sys.stdout, nowhere
        try:
            command()
        finally:
            sys.stdout = there


def request(steps: int, step_s: float, slower: float, minutes: float, series: str | None = None) -> AbRequest:
    """The program against itself, B by `slower` % slower."""
    words = [sys.executable, "-S", "train.py", str(steps), str(step_s)]
    b = [*words, f"{slower:g}"]
    return AbRequest([*words, "0"], b, per_step=("steps", [1]), minutes=minutes, series=series)


def one_by_one(args: argparse.Namespace) -> int:
    """Equal commands, then slower ones; return how many equal ones were told apart."""
    wrong = 0
    for number in range(args.same + args.slower):
        by = 0.0 if number < args.same else args.by
        began = time.monotonic()
        comparison = request(STEPS, STEP_S, by, args.minutes)
        _, verdict = ab.run_comparison(comparison, f"{'slower' if by else 'same'}-{number}")
        wrong += verdict.word in ("faster", "slower") and not by
        print(f"{by:g} % slower, {time.monotonic() - began:.0f} s, load {load()}: {verdict.sentence}", flush=True)
    print(f"{wrong} of {args.same} equal commands told apart")
    return wrong


def load() -> str:
    return Path("/proc/loadavg").read_text().split()[0]


def one_series(args: argparse.Namespace) -> int:
    """Equal commands in one series; return how many comparisons of all calls claimed a difference."""
    ends = time.monotonic() + args.seconds
    for number in range(args.series):
        name = f"equal-{number}"
        if (RESULTS / name / "scaling_report.json").is_file():
            continue
        if time.monotonic() > ends:
            break
        began = time.monotonic()
        _, verdict = ab.run_comparison(request(SHORT, SHORT_S, 0, args.minutes, SERIES), name)
        print(f"{name}, {time.monotonic() - began:.0f} s, load {load()}: {verdict.sentence}", flush=True)
    entries = read_series(RESULTS / ab.SERIES / f"{SERIES}.json")
    rounds = {name: _logs(name) for name in entries if (RESULTS / name / "scaling_report.json").is_file()}
    judged = {name: logs for name, logs in rounds.items() if len(logs) >= FIRST_LOOK}
    alone = [name for name, logs in judged.items() if _claimed_alone(logs)]
    median = statistics.median(map(len, judged.values())) if judged else 0
    print(f"{len(rounds)} comparisons, {len(judged)} with a look at the results; median of {median:g} rounds")
    claimed = [name for name in rounds if entries[name]["decided"]]
    for what, names in (("claimed in the series", claimed), ("claimed by themselves at 5 %", alone)):
        most = beta.ppf(0.975, len(names) + 1, len(judged) - len(names)) if judged else 1
        least = beta.ppf(0.025, len(names), len(judged) - len(names) + 1) if names else 0
        print(f"{what}: {len(names)} of {len(judged)} ({100 * least:.1f} to {100 * most:.1f} %) {' '.join(names)}")
    if judged:  # the same rates with B slower by what `ab` says that so many rounds show
        scatter = math.sqrt(statistics.fmean(statistics.variance(logs) / 2 for logs in judged.values()))
        difference = {name: shown_in_scatters(_rule(len(logs))) * scatter for name, logs in judged.items()}
        claims = sum(_claimed_alone([log - difference[name] for log in logs]) for name, logs in judged.items())
        least, most = math.expm1(min(difference.values())), math.expm1(max(difference.values()))
        print(f"runs scatter by {scatter:.1%}; planted {least:.1%} to {most:.1%}: {claims} of {len(judged)} found")
    return len(claimed)


def _logs(name: str) -> list[float]:
    """Return the logarithm of B's rate over A's in each round of a comparison."""
    loaded = LoadedCampaign(ab.CAMPAIGNS / f"{name}.yaml", RESULTS)
    rates: dict[int, list[float]] = {}
    for place in sorted(loaded.runs(RESULTS)):
        if (place / METRICS).is_file() and isinstance(run := read_run(place).metrics, Printed):
            rates.setdefault(run.repeat, []).append(run.window.tokens_per_s)
    return [math.log(b / a) for _, (a, b) in sorted(rates.items())]


def _rule(rounds: int) -> RepeatUntil:
    """The looks of a comparison by itself that has so many rounds."""
    return RepeatUntil(resolve=0.02, at_least=min(ab.FIRST_LOOK, rounds - 1), at_most=rounds)


def _claimed_alone(logs: Sequence[float]) -> bool:
    """Whether a comparison with these rounds, looked at as one by itself is, claims a difference."""
    rule = _rule(len(logs))
    for look in rule.looks():
        mean, error = statistics.mean(logs[:look]), statistics.stdev(logs[:look]) / math.sqrt(look)
        half = t.ppf((1 + confidence_at(rule, look)) / 2, look - 1) * error
        low, high = math.exp(mean - half), math.exp(mean + half)
        if is_resolved((low, high), rule.resolve):
            return low > 1 or high < 1
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--same", type=int, default=6, help="comparisons of equal commands")
    parser.add_argument("--slower", type=int, default=4, help="comparisons with a slower B")
    parser.add_argument("--by", type=float, default=10.0, help="how much slower, in %%")
    parser.add_argument("--minutes", type=float, default=0.7, help="of a comparison")
    parser.add_argument("--series", type=int, default=0, help="comparisons of equal commands in one series")
    parser.add_argument("--place", type=Path, help="of the series")
    parser.add_argument("--for", type=float, default=200.0, dest="seconds", help="of this call; the next one goes on")
    args = parser.parse_args()
    ab.run_snakemake = make
    with tempfile.TemporaryDirectory() as temporary:
        place = args.place or Path(temporary)
        place.mkdir(exist_ok=True)
        os.chdir(place)
        Path("train.py").write_text(PROGRAM)
        wrong = one_series(args) if args.series else one_by_one(args)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
