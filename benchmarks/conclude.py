"""Conclusions from 10,000 runs: csv, findings, tables, charts and report, stage by stage as the workflow calls them.

The runs are synthetic (30 timed steps on 1 to 8 ranks), 1,000 cells with ten repeats. Wanted: under 30 s in all on two
cores; stages that do not depend on each other run side by side, as Snakemake runs them. Then `scaleproof verify` of
them all, whose time is printed.

Virtual machines change their speed, so the time is also given over that in which Python's json and csv parse the same
files in one process, before and after.
"""

import csv
import json
import os
import resource
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from side_by_side import quietly

REPOSITORY = Path(__file__).parents[1]
sys.path.append(str(REPOSITORY / "tests"))

from synthetic import write_run  # noqa: E402  (from tests, whose folder is on the path now)

from scaleproof.ground.campaign.loaded import LoadedCampaign, run_dir  # noqa: E402

WANTED, CORES = 30.0, 2
CAMPAIGN = """title: What do ten thousand runs say?
work: {{global_batch: 16, steps: 30, warmup_steps: 5}}
vary:
  strategy: [ddp, fsdp, zero1, zero2, zero3]
  geometry: [1x1, 1x2, 1x4, 1x8]
  seed: {seeds}
repeats: {repeats}
"""


def main(seeds: int = 50, repeats: int = 10) -> int:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("config/campaigns").mkdir(parents=True)
        Path("config/corpora.yaml").write_bytes((REPOSITORY / "config/corpora.yaml").read_bytes())
        path = Path("config/campaigns/large.yaml")
        path.write_text(CAMPAIGN.format(seeds=list(range(1, seeds + 1)), repeats=repeats))
        loaded, results = LoadedCampaign(path), Path("results")
        for i, (_, cell, k) in enumerate(loaded.planned(results)):
            write_run(
                run_dir(results, loaded.name, cell.slug, k).parents[1], cell, k, 0.5 / cell.batch.n_devices**0.9, i
            )
        before = parse(results)
        seconds = conclude(loaded, path)
        parsing = (before + parse(results)) / 2
        began, before = time.perf_counter(), cpu_seconds()
        quietly(["scaleproof", "verify", f"results/{loaded.name}"])
        verifying = f"{time.perf_counter() - began:.1f} s, {cpu_seconds() - before:.1f} s of CPU time"
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    runs = len(loaded.cells) * repeats
    print(f"{runs:,} runs: {seconds:.1f} s in all; the largest process had {peak:,.0f} MiB")
    print(f"verify: {verifying}")
    print(f"{seconds / parsing:.1f} times the {parsing:.1f} s in which json and csv parse the same files")
    return 0 if seconds <= WANTED else 1


def cpu_seconds() -> float:
    """CPU time of all processes that were started so far, and have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def parse(results: Path) -> float:
    """Seconds in which this process parses all records and series, with nothing but the standard library."""
    began = time.perf_counter()
    for path in results.glob("*/runs/*/*/training_metrics.json"):
        json.loads(path.read_bytes())
        with path.with_name("steps.csv").open(newline="") as file:
            list(csv.reader(file))
    return time.perf_counter() - began


def conclude(loaded: LoadedCampaign, path: Path) -> float:
    """Seconds from the runs to the report."""
    began = time.perf_counter()
    folder = f"results/{loaded.name}"
    each(["findings", str(path)], ["collect", str(path)])
    each(["analyse", str(path)])
    each(["charts", folder], ["waterfall", str(path)], ["loss_charts", folder], ["tables", folder])
    each(["report", str(path)])
    return time.perf_counter() - began


def each(*commands: list[str]) -> None:
    """Run some stages, two at a time."""

    def stage(arguments: list[str]) -> None:
        began = time.perf_counter()
        quietly(["scaleproof", "stage", *arguments])
        print(f"  {' '.join(arguments[:2]):40} {time.perf_counter() - began:6.1f} s", flush=True)

    with ThreadPoolExecutor(CORES) as pool:
        list(pool.map(stage, commands))


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
