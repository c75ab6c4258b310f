"""`snakemake --executor scaleproof` with a Slurm that is a few lines of shell: any workflow, no campaign."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

# sbatch runs its script on the spot, once for each task of an array. Jobs whose script says so fail, or wait for ever.
SBATCH = """#!/bin/bash
echo "$@" >> "$STUB/calls"
[ -e "$STUB/refusal" ] && { cat "$STUB/refusal" >&2; exit 1; }
script=$(cat "${@: -1}") number=$((40 + $(wc -l < "$STUB/calls")))
export SLURM_JOB_ID=$number SLURM_NTASKS=3
words="$* " last=${words##*--array=1-}
tasks=; [ "$last" = "$words" ] || tasks=$(seq "${last%% *}")
for task in ${tasks:-alone}; do
    SLURM_ARRAY_TASK_ID=$task bash -c "$script" >> "$STUB/log" 2>&1 && state=COMPLETED || state=FAILED
    [ -e "$STUB/held" ] && state=PENDING
    job=$number; [ "$task" = alone ] || job=${number}_$task
    echo "$job|$state|$(cat "$STUB/held" 2> /dev/null || echo None)" >> "$STUB/queue"
done
echo "a site's own line"; echo "$number;box"
"""
SQUEUE = """#!/bin/bash
case "$*" in
*%Z*) cat "$STUB/left" 2> /dev/null ;;
*--states=COMPLETED*) ;;
*) echo "JOBID|STATE|REASON"; cat "$STUB/queue" 2> /dev/null
    if [ -e "$STUB/held" ] && [ -e "$STUB/looked" ]; then sed -i 's/PENDING.*/COMPLETED|None/' "$STUB/queue"; fi
    touch "$STUB/looked" ;;
esac
"""
SCONTROL = """#!/bin/bash
echo "JobId=${@: -1} JobState=FAILED Reason=NonZeroExitCode ExitCode=1:0 NodeList=n1 EndTime=2026-11-23T12:00:00"
"""
WORKFLOW = """
rule all:
    input: expand("out/{{k}}", k=[1, 2])
rule make:
    output: "out/{{k}}"
    resources: nodes=2, tasks=2, slurm_extra="--exclusive", gres="gpu:1", mem_mb=100, runtime=5
    shell: "{command}"
"""

RECORD = "env | grep ^SLURM_NTASKS > {output} || echo $SLURM_JOB_ID > {output}"


@pytest.fixture
def stub(tmp_path):
    folder = tmp_path / "stub"
    folder.mkdir()
    commands = {"sbatch": SBATCH, "squeue": SQUEUE, "scontrol": SCONTROL}
    for name, text in (commands | dict.fromkeys(("scancel", "sacct"), "#!/bin/sh\n")).items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "calls").touch()
    return folder


def snakemake(stub: Path, *options: str, command: str = RECORD):
    """A workflow of two jobs; what Snakemake says."""
    folder = stub.parent
    (folder / "Snakefile").write_text(WORKFLOW.format(command=command))
    quick = ("--jobs", "5", "--seconds-between-status-checks", "1", "--latency-wait", "1")
    words = [
        sys.executable,
        "-m",
        "snakemake",
        "--executor",
        "scaleproof",
        "--scaleproof-variables",
        "STUB",
        *quick,
        *options,
    ]
    environment = os.environ | {"PATH": f"{stub}:{os.environ['PATH']}", "STUB": str(stub)}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)


def test_each_job_is_an_sbatch(stub):
    done = snakemake(stub, "--default-resources", "slurm_partition=gpu", "--scaleproof-exclude-nodes", "n7,n3")
    assert done.returncode == 0, done.stderr
    calls = (stub / "calls").read_text().splitlines()
    log = f"{stub.parent}/results/job-logs/scaleproof-make-1-%j.log"
    options = "--parsable --partition=gpu --nodes=2 --ntasks=2 --cpus-per-task=1 --mem=100 --time=5 --gres=gpu:1"
    options += (
        f" --exclusive --job-name=scaleproof-make-1 --output={log} --chdir={stub.parent} --no-requeue --export=ALL"
    )
    assert f"{options} --exclude=n3,n7 {stub.parent}/results/job-logs/scaleproof-make-1.sh" in calls
    assert len(calls) == 2
    assert {(stub.parent / f"out/{k}").read_text() for k in (1, 2)} == {"41\n", "42\n"}, "without SLURM_NTASKS"
    assert "Slurm job 41: scaleproof-make-" in done.stderr


def test_an_array_is_one_sbatch(stub):
    done = snakemake(stub, "--scaleproof-array-jobs", "make")
    assert done.returncode == 0, done.stderr
    (call,) = (stub / "calls").read_text().splitlines()
    assert "--array=1-2" in call.split()
    assert "Slurm job 41: scaleproof-make, 2 tasks" in done.stderr


@pytest.mark.fault("sbatch refuses a job", "the console has all of Slurm's words; other jobs go on")
def test_a_refusal_is_told_in_slurm_s_words(stub):
    (stub / "refusal").write_text("sbatch: error: ask hpc@site\nsbatch: error: Batch job submission failed: no\n")
    done = snakemake(stub, "out/1")
    assert done.returncode == 1
    assert "Slurm refuses it: ask hpc@site; Batch job submission failed: no." in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.fault("a job fails before its run", "the console has Slurm's own words, and the path of the log")
def test_a_failed_job_is_told_in_slurm_s_words(stub):
    done = snakemake(stub, "out/1", command="exit 1")
    assert done.returncode == 1
    assert "Slurm says of job 41: FAILED on n1, NonZeroExitCode, exit code 1" in done.stderr
    assert "results/job-logs/scaleproof-make-1-4" in done.stderr


@pytest.mark.fault("a job waits for a reason that may never end", "the console says which")
def test_a_held_job_is_told(stub):
    (stub / "held").write_text("JobHeldUser")
    done = snakemake(stub, "out/1")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Slurm does not start job 4") == 1
    assert ": JobHeldUser" in done.stderr


@pytest.mark.fault("jobs of an earlier snakemake here are in the queue", "nothing is submitted; says which to end")
def test_jobs_of_an_earlier_snakemake_here_are_ended_first(stub):
    """They would start, or publish, behind the back of this one's."""
    rows = (
        f"12|{stub.parent}|scaleproof-train-x",
        "13|/elsewhere|scaleproof-train",
        f"14|{stub.parent}|the user's own",
    )
    (stub / "left").write_text("\n".join(rows))
    done = snakemake(stub)
    assert done.returncode == 1
    assert "end them with `scancel 12`" in done.stderr
    assert (stub / "calls").read_text() == ""
