"""Dry run of a campaign of 1,000 runs against a flat DAG of 1,000 jobs, Snakemake's own floor for that many.

Wall time and CPU time; the latter decides, as other work on the machine does not count in it. With an argument (10000),
one dry run of a campaign of so many runs: seconds and memory.
"""

import os
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

from side_by_side import in_turn, quietly, ratios, show

RUNS = 1000
ROUNDS = 5
WANTED = 2.0
LARGE_SECONDS, LARGE_MIB = 60.0, 1000.0  # of 10,000 runs
REPOSITORY = Path(__file__).parents[1]
CAMPAIGN = """title: How long does planning take?
work: {{global_batch: 16}}
vary:
  geometry: [1x1, 1x2, 1x4, 1x8]
  seed: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25]
repeats: {repeats}
"""
FLAT = f"""
rule all:
    input: [f"out/{{i}}.txt" for i in range({RUNS})]
rule job:
    output: "out/{{i}}.txt"
    shell: "touch {{output}}"
"""


def main(runs: int = RUNS) -> int:
    with tempfile.TemporaryDirectory() as folder:
        ours, flat = Path(folder) / "ours", Path(folder) / "flat"
        flat.mkdir()
        (flat / "Snakefile").write_text(FLAT)
        for name in ("src", "workflow", "config", "profiles"):
            shutil.copytree(REPOSITORY / name, ours / name)
        shutil.copy(REPOSITORY / "Snakefile", ours)
        (ours / "config/campaigns/large.yaml").write_text(CAMPAIGN.format(repeats=runs // 100))
        if runs != RUNS:
            seconds, cpu_seconds = plan(ours, "results/large/report.html")
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            print(f"{runs:,} runs: {seconds:.1f} s, {cpu_seconds:.1f} s of CPU time, {peak:,.0f} MiB")
            return 0 if cpu_seconds <= LARGE_SECONDS and peak <= LARGE_MIB else 1
        cpu: dict[str, list[float]] = {"campaign": [], "flat": []}

        def timed(name: str, folder: Path, target: str) -> float:
            seconds, cpu_seconds = plan(folder, target)
            cpu[name].append(cpu_seconds)
            return seconds

        sides = {
            "campaign": lambda: timed("campaign", ours, "results/large/report.html"),
            "flat": lambda: timed("flat", flat, "all"),
        }
        seconds = in_turn(sides, ROUNDS)
        show("wall time, campaign / flat", ratios(seconds["campaign"], seconds["flat"]))
        show("CPU time of the campaign, seconds", cpu["campaign"])
        return 0 if show("CPU time, campaign / flat", ratios(cpu["campaign"], cpu["flat"])) <= WANTED else 1


def plan(folder: Path, target: str) -> tuple[float, float]:
    """Wall and CPU seconds of a dry run."""
    env = os.environ | {"PYTHONPATH": str(folder / "src")}
    began = time.perf_counter()
    command = ["snakemake", "--cores", "2", "--dry-run", "--quiet", "all", "--", target]
    before = cpu_of_children()
    quietly(command, cwd=folder, env=env)
    return time.perf_counter() - began, cpu_of_children() - before


def cpu_of_children() -> float:
    """CPU seconds of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
