"""A campaign of 2,000 jobs on a Slurm that answers at once, against a flat DAG of 2,000 jobs on the same one.

The commands of Slurm are stubs: what is measured is the driver (submissions, time, memory), with a job for each run,
with job arrays, and with `minutes_per_job` for 100 runs in a job; then the start of one job on its node, which reads
the Snakefile again before it trains.
"""

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from side_by_side import in_turn, ratios, show

REPOSITORY = Path(__file__).parents[1]
SECONDS_WANTED = 2.0
TIME_WANTED = 3.0
SHARED_WANTED = 1 / 3  # of the time with a job for each run
MEMORY_WANTED = 2.0
CAMPAIGN = """title: What do many jobs cost?
work: {{global_batch: 16}}
vary:
  geometry: [1x1, 1x2]
  seed: {seeds}
repeats: 10
{resources}
"""
SHARED = "resources: {time_limit: 1, minutes_per_job: 300}"  # 3 minutes a run
FLAT = """
rule all:
    input: [f"out/{{i}}.txt" for i in range({jobs})]
rule train:
    output: "out/{{i}}.txt"
    shell: "scaleproof {{output}}"
"""
RUN = """mkdir -p "results/large/runs/$1/rep$2"
for f in training_metrics.json steps.csv launcher_metadata.json; do : > "results/large/runs/$1/rep$2/$f"; done"""
# One script under all names. sbatch finishes its jobs on the spot, knowing them by the wildcards in the commands.
STUB = """#!/bin/bash
case "${0##*/}" in
sbatch)
    echo >> "$STUB/calls"
    n=$(wc -l < "$STUB/jobs") script=$(cat) task=0
    [ "$n" = 1 ] && echo "$script" > "$STUB/first"
    while read -r command; do
        job=$n; [[ "$*" == *" --array="* ]] && job=${n}_$((++task))
        if [[ "$command" =~ cell=([^,\\'\\ ]+),rep=([0-9]+) ]]; then set -- "${BASH_REMATCH[@]:1}" "$@"; RUN; shift 2
        elif [[ "$command" =~ ,job=([^,\\'\\ ]+) ]]; then mkdir -p results/large/together
            echo '{}' > "results/large/together/${BASH_REMATCH[1]}.json"
        elif [[ "$command" =~ i=([0-9]+) ]]; then mkdir -p out; : > "out/${BASH_REMATCH[1]}.txt"; fi
        echo "$job|COMPLETED|None" >> "$STUB/jobs"
    done < <(grep -- ' -m snakemake ' <<< "$script")
    echo "$n" ;;
squeue) [[ "$*" == *%Z* ]] || cat "$STUB/jobs" ;;
scontrol) echo "MinJobAge = 300 sec" ;;
srun) while [ "${1#-}" != "$1" ]; do shift; done; exec "$@" ;;
scaleproof) : > "$STUB/started"; exit 1 ;;
esac
""".replace("RUN", RUN)
NAMES = ("sbatch", "squeue", "sacct", "scontrol", "srun", "scaleproof", "sinfo", "sacctmgr", "sshare", "scancel")


class Side:
    """A workflow with a Slurm of its own."""

    def __init__(self, root: Path, targets: list[str], options: str = "") -> None:
        self.root = root
        self.targets = targets
        self.options = options
        self.peaks: list[float] = []  # MiB
        self.cpu: list[float] = []  # seconds of the driver and its commands
        self.stub = root / "stub"
        self.stub.mkdir(parents=True)
        for name in NAMES:
            (self.stub / name).write_text(STUB)
            (self.stub / name).chmod(0o755)
        self.env = os.environ | {
            "PATH": f"{self.stub}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(root / "src"),
            "STUB": str(self.stub),
        }

    def drive(self) -> float:
        """Seconds from the start of Snakemake to its end, when all jobs have been submitted and seen to end."""
        for name in ("results/large", "out", ".snakemake"):
            shutil.rmtree(self.root / name, ignore_errors=True)
        (self.stub / "jobs").write_text("JOBID|STATE|REASON\n")
        (self.stub / "calls").write_text("")
        # --cores sizes nothing here; a rule may ask for it.
        options = "--executor scaleproof --cores 2 --jobs 100 --seconds-between-status-checks 1 --latency-wait 0"
        options += f" --default-resources slurm_partition=gpu {self.options}"
        began = time.perf_counter()
        code, used = self._run("snakemake", *options.split(), *self.targets)
        seconds = time.perf_counter() - began
        if code not in (0, 3):  # 3: the runs, which are empty files here, have no numbers
            sys.exit(f"the driver failed:\n{self._said()}")
        self.peaks.append(used.ru_maxrss / 1024)
        self.cpu.append(used.ru_utime + used.ru_stime)
        return seconds

    def _run(self, *command: str) -> tuple[int, resource.struct_rusage]:
        """The exit code of a command, and what it and its own commands have used."""
        with (self.root / "log").open("w") as log:
            process = subprocess.Popen(command, cwd=self.root, env=self.env, stdout=log, stderr=log)
            _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode, used

    def _said(self) -> str:
        return (self.root / "log").read_text()[-2000:]

    @property
    def submissions(self) -> int:
        """How often sbatch was called in the last drive."""
        return len((self.stub / "calls").read_text().splitlines())

    def start(self) -> float:
        """CPU seconds of the first job's script, whose own command ends as soon as it is called."""
        # The driver that would tell it which files to wait for has ended.
        script = re.sub(r"--wait-for-files(-file)?( (?!-)\S+)+", "", (self.stub / "first").read_text())
        (self.stub / "started").unlink(missing_ok=True)
        _, used = self._run("env", "SLURM_JOB_ID=1", "bash", "-c", script)
        if not (self.stub / "started").exists():
            sys.exit(f"the job did not start:\n{self._said()}")
        return used.ru_utime + used.ru_stime


def campaign(root: Path, runs: int, options: str = "", resources: str = "", rule: str = "train") -> Side:
    """A copy of this repository with a campaign of so many runs, whose corpus is there already.

    `resources`: a section of the campaign; `rule`: by which its runs are made.
    """
    for name in ("src", "workflow", "config", "profiles", "envs"):
        shutil.copytree(REPOSITORY / name, root / name)
    shutil.copy(REPOSITORY / "Snakefile", root)
    (root / "config/campaigns/large.yaml").write_text(
        CAMPAIGN.format(seeds=list(range(1, runs // 20 + 1)), resources=resources)
    )
    tokens = root / "results/corpora/python-docs/bpe-2048"
    tokens.mkdir(parents=True)
    for name in ("../corpus.json", "../documents.parquet", "tokenizer.json", "train.bin", "val.bin", "tokens.json"):
        (tokens / name).write_text("there already")
    return Side(root, ["--until", rule, "--", "results/large/runs.csv"], options)


def flat(root: Path, runs: int) -> Side:
    """As many jobs with nothing to read and nothing to ask."""
    (root / "out").mkdir(parents=True)
    (root / "Snakefile").write_text(FLAT.format(jobs=runs))
    return Side(root, ["--", "all"])


def compare_sides(what: str, seconds: dict[str, list[float]]) -> tuple[float, float]:
    """Show the ratios of seconds; returns those of campaign to flat and of shared jobs to a job for each run."""
    time_ratio = show(f"{what}, campaign / flat", ratios(seconds["campaign"], seconds["flat"]))
    show(f"{what}, arrays / campaign", ratios(seconds["arrays"], seconds["campaign"]))
    return time_ratio, show(f"{what}, shared jobs / campaign", ratios(seconds["shared"], seconds["campaign"]))


def main() -> int:
    """Drive the sides in turn, then start a job of two of them in turn; exit code 1 where a wanted ratio is missed.

    CPU time decides: other work on the machine does not count in it.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2000, help="a multiple of 20")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.jobs < 20 or arguments.jobs % 20:
        parser.error(f"--jobs {arguments.jobs} is not a multiple of 20, the runs of one seed")
    with tempfile.TemporaryDirectory() as folder:
        sides = {
            "campaign": campaign(Path(folder) / "ours", arguments.jobs),
            "arrays": campaign(Path(folder) / "arrays", arguments.jobs, "--scaleproof-array-jobs train"),
            "shared": campaign(Path(folder) / "shared", arguments.jobs, resources=SHARED, rule="shared_job"),
            "flat": flat(Path(folder) / "flat", arguments.jobs),
        }
        seconds = in_turn({name: side.drive for name, side in sides.items()}, arguments.rounds)
        for name, side in sides.items():
            print(f"{name}: {side.submissions:,} submissions; driver's peak memory {max(side.peaks):.0f} MiB")
            if name in ("campaign", "flat") and side.submissions != arguments.jobs:
                sys.exit(f"{arguments.jobs:,} submissions were expected")
        for name, side in sides.items():
            show(f"{name}: CPU seconds of the driver and its commands", side.cpu)
        cpu = {name: side.cpu for name, side in sides.items()}
        compare_sides("driver's time", seconds)
        time_ratio, shared = compare_sides("driver's CPU time", cpu)
        memory_ratio = show("driver's memory, campaign / flat", ratios(sides["campaign"].peaks, sides["flat"].peaks))
        single = {name: sides[name].start for name in ("campaign", "flat")}
        starts = in_turn(single, 3 * arguments.rounds)
        show("CPU time of a job's start, campaign / flat", ratios(starts["campaign"], starts["flat"]))
        ours = show(
            "CPU seconds of a job's start that are the Snakefile's",
            [a - b for a, b in zip(starts["campaign"], starts["flat"], strict=True)],
        )
    fast = time_ratio <= TIME_WANTED and shared <= SHARED_WANTED
    return 0 if fast and memory_ratio <= MEMORY_WANTED and ours <= SECONDS_WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
