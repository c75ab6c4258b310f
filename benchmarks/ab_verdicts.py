"""The verdicts of `scaleproof ab` on real processes whose truth is known: A against A, and against a B that is slower.

    python benchmarks/ab_verdicts.py --same 6 --slower 4 [--by 10] [--minutes 0.7]

Each comparison is made by `compare` of `driver/ab.py`, its runs by the launcher, its verdict by checks and analysis. In
place of Snakemake this process calls the stages one after the other, and makes no page, which would take most of the
time. Prints a line for each comparison; wanted is that no two equal commands are told apart.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from scaleproof.cli.commands import run as command
from scaleproof.cli.run import _read_log
from scaleproof.driver import ab
from scaleproof.ground.campaign.loaded import LoadedCampaign, run_dir
from scaleproof.ground.records.run import METRICS
from scaleproof.ground.snakemake_command import RESULTS
from scaleproof.measure.launch.run import run_cell
from scaleproof.measure.trainer.request import PlannedRun

STEPS, STEP_S = 120, 0.012
PROGRAM = f"""
import sys, time
for step in range({STEPS}):
    began = time.perf_counter()
    time.sleep({STEP_S} * 2 / 3)
    while time.perf_counter() - began < {STEP_S}:
        pass
    time.sleep({STEP_S} * float(sys.argv[1]) / 100)
    print(f"step {{step}} loss {{5 - step / 100:.4f}} step_ms {{1000 * (time.perf_counter() - began):.3f}}", flush=True)
"""


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--same", type=int, default=6, help="comparisons of equal commands")
    parser.add_argument("--slower", type=int, default=4, help="comparisons with a slower B")
    parser.add_argument("--by", type=float, default=10.0, help="how much slower, in %%")
    parser.add_argument("--minutes", type=float, default=0.7, help="of a comparison")
    args = parser.parse_args()
    ab.run_snakemake = make
    wrong = 0
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        Path("train.py").write_text(PROGRAM)
        for number in range(args.same + args.slower):
            by = 0.0 if number < args.same else args.by
            request = ab.AbRequest(
                [sys.executable, "-S", "train.py", "0"],
                [sys.executable, "-S", "train.py", f"{by:g}"],
                per_step=("steps", [1]),
                minutes=args.minutes,
            )
            began = time.monotonic()
            _, verdict = ab.compare(request, f"{'slower' if by else 'same'}-{number}")
            wrong += verdict.word in ("faster", "slower") and not by
            load = Path("/proc/loadavg").read_text().split()[0]
            print(f"{by:g} % slower, {time.monotonic() - began:.0f} s, load {load}: {verdict.sentence}", flush=True)
    print(f"{wrong} of {args.same} equal commands told apart")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
