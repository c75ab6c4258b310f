"""`snakemake --executor scaleproof` with a Slurm that is a few lines of shell: any workflow, no campaign."""

import itertools
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from scaleproof.driver.cluster.scheduler import Submission
from scaleproof.driver.cluster.slurm import Slurm
from scaleproof.ground.records.jobs import read_ledger

# sbatch runs its script on the spot, once for each task of an array. Jobs whose script says so fail, or wait for ever.
SBATCH = """#!/bin/bash
echo "$@" >> "$STUB/calls"
[ -e "$STUB/refusal" ] && { cat "$STUB/refusal" >&2; exit 1; }
[ -e "$STUB/full" ] && { cat "$STUB/full" >&2; rm "$STUB/full"; exit 1; }
script=$(cat "${@: -1}") number=$((40 + $(wc -l < "$STUB/calls")))
export SLURM_JOB_ID=$number SLURM_NTASKS=3
words="$* " last=${words##*--array=1-}
tasks=; [ "$last" = "$words" ] || tasks=$(seq "${last%% *}")
for task in ${tasks:-alone}; do
    SLURM_ARRAY_TASK_ID=$task bash -c "$script" >> "$STUB/log" 2>&1 && state=COMPLETED || state=FAILED
    [ -e "$STUB/held" ] && state=PENDING
    job=$number; [ "$task" = alone ] || job=${number}_$task
    echo "$job|$state|n1|n1|$(cat "$STUB/held" 2> /dev/null || echo None)" >> "$STUB/queue"
done
echo "a site's own line"; echo "$number;box"
"""
SQUEUE = """#!/bin/bash
case "$*" in
*%Z*) cat "$STUB/left" 2> /dev/null ;;
*--states=COMPLETED*) ;;
*) echo "JOBID|STATE|EXEC_HOST|NODELIST|REASON"; cat "$STUB/queue" 2> /dev/null
    if [ -e "$STUB/held" ] && [ -e "$STUB/looked" ]; then sed -i 's/PENDING.*/COMPLETED|n1|n1|None/' "$STUB/queue"; fi
    touch "$STUB/looked" ;;
esac
"""
SCONTROL = """#!/bin/bash
echo "JobId=${@: -1} JobState=FAILED Reason=NonZeroExitCode ExitCode=1:0 NodeList=n1 EndTime=2026-11-23T12:00:00"
"""
SCANCEL = '#!/bin/sh\necho "$@" >> "$STUB/ended"\n'
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
    commands = {"sbatch": SBATCH, "squeue": SQUEUE, "scontrol": SCONTROL, "scancel": SCANCEL, "sacct": "#!/bin/sh\n"}
    for name, text in commands.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "calls").touch()
    return folder


def snakemake(stub: Path, *options: str, command: str = RECORD, program: tuple[str, str] = ("-m", "snakemake")):
    """A workflow of two jobs; what Snakemake says. `program`: how Python starts it."""
    folder = stub.parent
    (folder / "Snakefile").write_text(WORKFLOW.format(command=command))
    quick = ("--jobs", "5", "--seconds-between-status-checks", "1", "--latency-wait", "1")
    own = ("--executor", "scaleproof", "--scaleproof-variables", "STUB")
    words = [sys.executable, *program, *own, *quick, *options]
    environment = os.environ | {"PATH": f"{stub}:{os.environ['PATH']}", "STUB": str(stub)}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


def test_each_job_is_an_sbatch(stub):
    done = snakemake(stub, "--default-resources", "slurm_partition=gpu", "--scaleproof-exclude-nodes", "n7,n3")
    assert done.returncode == 0, done.stderr
    calls = (stub / "calls").read_text().splitlines()
    log = f"{stub.parent}/results/job-logs/scaleproof-make-1-%j.log"
    options = "--parsable --partition=gpu --nodes=2 --ntasks=2 --cpus-per-task=1 --mem=100 --time=5 --gres=gpu:1"
    options += f" --exclusive --job-name=scaleproof-make-1 --output={log} --chdir={stub.parent} --no-requeue"
    options += " --signal=TERM@20 --export=ALL"
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


LIMIT = "sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed: job submit limit\n"


def sent(stub: Path) -> int:
    """How often sbatch was called."""
    return len((stub / "calls").read_text().splitlines())


@pytest.mark.fault("the site lets a user submit no more jobs", "they wait in the driver, which says so")
def test_a_submission_limit_is_waited_for(stub):
    (stub / "full").write_text(LIMIT)
    done = snakemake(stub)
    assert done.returncode == 0, done.stderr
    assert "Slurm takes no more jobs now, others wait here: QOSMaxSubmitJobPerUserLimit" in done.stderr
    assert sent(stub) == 3, "one was refused; the other was not asked for meanwhile"


@pytest.mark.parametrize(
    "words", [LIMIT, "sbatch: error: Batch job submission failed: Invalid job array specification\n"]
)
def test_an_array_that_is_larger_than_a_limit_is_halved(stub, words):
    """A limit on jobs, or MaxArraySize."""
    (stub / "full").write_text(words)
    done = snakemake(stub, "--scaleproof-array-jobs", "make")
    assert done.returncode == 0, done.stderr
    calls = (stub / "calls").read_text().splitlines()
    assert ["--array" in call for call in calls] == [True, False, False]


@pytest.mark.fault(
    "a job is beyond a limit for each job, which sbatch enforces", "it is refused; others go on", cluster=True
)
def test_a_limit_for_each_job_is_not_waited_for(stub):
    words = "sbatch: error: QOSMaxWallDurationPerJobLimit\nsbatch: error: job submit limit, user's size\n"
    (stub / "full").write_text(words)
    done = snakemake(stub, "--keep-going", "--retries", "3")
    assert done.returncode == 1
    assert done.stderr.count("Slurm refuses it: QOSMaxWallDurationPerJobLimit") == 1
    assert sent(stub) == 2, "the refused one is not asked for again"


@pytest.mark.fault("a job waits for what cannot end by itself", "given up after a stated time, not sent again")
def test_a_job_that_would_wait_for_ever_is_given_up(stub):
    (stub / "held").write_text("PartitionTimeLimit")
    (stub / "squeue").write_text(SQUEUE.replace("sed -i", "true"))  # it never starts
    done = snakemake(stub, "out/1", "--scaleproof-give-up-after", "0", "--retries", "3")
    assert done.returncode == 1
    assert "did not start job 41 in 0 minutes: PartitionTimeLimit; it was cancelled" in done.stderr
    assert sent(stub) == 1
    assert "41" in (stub / "ended").read_text()


@pytest.fixture
def cancelled(stub):
    """Jobs that fail were cancelled."""
    (stub / "scontrol").write_text(SCONTROL.replace("FAILED", "CANCELLED"))
    (stub / "sbatch").write_text(SBATCH.replace("state=FAILED", "state=CANCELLED"))
    return stub


@pytest.mark.fault("a job is cancelled by hand", "it is not sent again")
def test_scancel_means_it(cancelled):
    done = snakemake(cancelled, "out/1", "--retries", "3", command="exit 1")
    assert done.returncode == 1
    assert done.stderr.count("it was cancelled, and this snakemake does not send it again") == 1
    assert sent(cancelled) == 1


def test_a_job_that_ends_itself_because_its_first_node_is_gone_is_sent_again(cancelled):
    (cancelled / "scontrol").write_text(SCONTROL.replace("FAILED", "CANCELLED Comment=scaleproof-lost-first-node"))
    snakemake(cancelled, "out/1", "--retries", "1", command="exit 1")
    assert sent(cancelled) == 2


@pytest.mark.fault("jobs in turn fail alike", "the campaign stops after a stated number, and says how they ended")
def test_what_fails_everywhere_stops_the_campaign(stub):
    options = ("--keep-going", "--scaleproof-same-failures", "2", "--retries", "9")
    done = snakemake(stub, *options, command="exit 1")
    assert done.returncode == 1
    assert "stopped: 2 jobs in turn have ended alike (FAILED, NonZeroExitCode, exit code 1)" in done.stderr
    assert sent(stub) <= 4
    assert "Traceback" not in done.stderr
    entries = {entry.id: entry for entry in read_ledger(stub.parent / "results/job-logs/jobs.jsonl")}
    assert all(entry.ended for entry in entries.values()), "nothing is sent after that, or all of it is cancelled"


@pytest.mark.fault("jobs are preempted, all alike", "each is sent again, and the campaign does not stop")
def test_what_is_preempted_everywhere_stops_nothing(stub):
    (stub / "sbatch").write_text(SBATCH.replace("state=FAILED", "state=PREEMPTED"))
    (stub / "scontrol").write_text(SCONTROL.replace("FAILED", "PREEMPTED"))
    options = ("--keep-going", "--scaleproof-same-failures", "2", "--retries", "1")
    done = snakemake(stub, *options, command="exit 1")
    assert done.returncode == 1
    assert "Slurm says of job 41: PREEMPTED on n1" in done.stderr
    assert "stopped:" not in done.stderr
    assert sent(stub) == 4


@pytest.mark.fault("a look at the queue fails as nobody expected", "snakemake says so and ends")
@pytest.mark.parametrize("broken", ["executor.Executor._running_jobs", "slurm.Slurm.states"])
def test_no_failure_of_a_look_holds_snakemake(stub, broken):
    """The first look comes before Snakemake's scheduler is there to be told."""
    module, _, name = broken.partition(".")
    program = f"from scaleproof.driver.cluster.{module} import *; {name} = None; from snakemake.cli import main; main()"
    done = snakemake(stub, "--keep-going", "--retries", "1", "--scaleproof-array-jobs", "make", program=("-c", program))
    assert done.returncode == 1
    assert "stopped: a look at the jobs failed (TypeError: 'NoneType' object is not callable)" in done.stderr
    assert sent(stub) == (0 if "_running_jobs" in broken else 1)


def test_a_line_of_the_site_in_the_queue_is_passed_over(stub):
    (stub / "squeue").write_text(SQUEUE.replace("cat ", "echo 'maintenance on Monday'; cat "))
    assert snakemake(stub, "out/1").returncode == 0


def test_what_is_refused_alike_stops_the_campaign(stub):
    (stub / "refusal").write_text("sbatch: error: Invalid qos specification\n")
    done = snakemake(stub, "--keep-going", "--scaleproof-same-failures", "2", "--retries", "9")
    assert done.returncode == 1
    assert "stopped: 2 jobs in turn have ended alike (Invalid qos specification)" in done.stderr
    assert sent(stub) == 2


def test_the_ledger_has_what_was_sent_and_how_it_ended(stub):
    snakemake(stub, "out/1")
    snakemake(stub, "out/2", command="exit 1")
    entries = {entry.makes: entry for entry in read_ledger(stub.parent / "results/job-logs/jobs.jsonl")}
    assert (entries["out/1"].id, entries["out/1"].state, entries["out/1"].reason) == ("41", "COMPLETED", "")
    assert entries["out/2"].reason == "FAILED on n1, NonZeroExitCode, exit code 1"
    assert all(entry.ended for entry in entries.values())


@pytest.mark.fault("Snakemake is killed, and the site rewrites what jobs carry", "the ledger knows them: none twice")
def test_a_job_of_a_killed_snakemake_is_known_from_the_ledger(stub):
    """squeue shows it under another name and folder."""
    snakemake(stub, "out/1")
    ledger = stub.parent / "results/job-logs/jobs.jsonl"
    ledger.write_text(ledger.read_text().splitlines()[0] + "\n" + '{"id": "cut o')
    (stub / "queue").write_text("41|RUNNING|n1|n1|None\n")
    done = snakemake(stub, "out/2")
    assert done.returncode == 1
    assert "end them with `scancel 41`" in done.stderr
    (stub / "queue").write_text("41|COMPLETED|n1|n1|None\n")
    assert snakemake(stub, "out/2").returncode == 0


def test_what_was_sent_can_be_read_and_sent_by_hand(stub):
    snakemake(stub, "out/1")
    text = (stub.parent / "results/job-logs/scaleproof-make-1.sh").read_text()
    assert text.startswith("#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks=2\n")
    given = (stub / "calls").read_text().split()[1:-1]  # without --parsable and the script
    assert [line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH")] == given
    script, in_job = stub.parent / "results/job-logs/scaleproof-make-1.sh", os.environ | {"SLURM_JOB_ID": "7"}
    subprocess.run(["bash", script], cwd=stub.parent, env=in_job, check=True)
    assert (stub.parent / "out/1").read_text() == "7\n", "though the Snakemake that has written it is gone"
    assert "--mode 'remote'" in text


def test_jobs_on_shared_nodes_are_a_chain(tmp_path):
    """Else they would wait for each other's devices inside of their allocations."""
    calls = []
    slurm = Slurm(dict)
    number = itertools.count(7)

    def sbatch(command, environment):
        calls.append([word for word in command if word.startswith(("--dependency", "--array"))])
        return 0, str(next(number)), ""

    with mock.patch("scaleproof.driver.cluster.slurm.run_scheduler_command", sbatch):
        for devices, options in ((1, ""), (1, ""), (0, "--exclusive"), (0, "")):
            resources = {"devices_per_node": devices, "slurm_extra": options}
            (tmp_path / "x.sh").touch()
            slurm.submit(Submission("scaleproof-x", tmp_path / "x.sh", tmp_path / "x.log", tmp_path, resources))
        for resources in ({}, {"devices_per_node": 1}):  # tokens, and trainings
            several = Submission("scaleproof-x", tmp_path / "x.sh", tmp_path / "x.log", tmp_path, resources, tasks=3)
            slurm.submit(several)
    assert calls[:4] == [[], ["--dependency=afterany:7"], [], ["--dependency=afterany:8"]]
    assert calls[4:] == [["--array=1-3"], ["--array=1-3%1", "--dependency=afterany:10"]]


NO_CONFIGURATION = "squeue: fatal: Could not establish a configuration source"
AWAY = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"


@pytest.mark.fault("there is no Slurm on this machine", "nothing is sent, and it is said at once")
@pytest.mark.parametrize(
    ("squeue", "reason"),
    [(f"#!/bin/sh\necho '{NO_CONFIGURATION}' >&2; exit 1", "Could not establish"), (None, "squeue: No such file")],
)
def test_without_slurm_nothing_is_sent(stub, monkeypatch, squeue, reason):
    if squeue is None:
        (stub / "squeue").unlink()
        monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    else:
        (stub / "squeue").write_text(squeue)
    done = snakemake(stub)
    assert done.returncode == 1
    assert f"Error: nothing was submitted: there is no Slurm here ({reason}" in done.stderr
    assert "executor.py" not in done.stderr, "the message alone, without a place in our code"
    assert not (stub / "calls").read_text()


def test_a_controller_that_does_not_answer_now_may_later(stub):
    (stub / "squeue").write_text(SQUEUE.replace("*%Z*)", f"--me) echo '{AWAY}' >&2; exit 1 ;;\n*%Z*)", 1))
    done = snakemake(stub)
    assert done.returncode == 0, done.stderr


@pytest.mark.fault(
    "the status command of a queue fails each time", "the console says which and why; jobs are waited for"
)
@pytest.mark.parametrize("failures", [2, 3, 5])
def test_a_queue_that_stays_silent_is_told_once(stub, failures):
    looks = 'echo >> "$STUB/looks"; n=$(wc -l < "$STUB/looks")'
    status = (
        f'#!/bin/sh\n{looks}; [ $n -gt {failures} ] || {{ echo "no server\n now" >&2; exit 7; }}\necho "$1 success"\n'
    )
    (stub / "status").write_text(status)
    (stub / "status").chmod(0o755)
    queue = ("--scaleproof-submit", "sbatch", "--scaleproof-status", "status", "--scaleproof-cancel", "scancel")
    done = snakemake(stub, *queue, "out/1")
    assert done.returncode == 0, done.stderr
    fault = "`status` of scaleproof-status ends with exit code 7: no server now"
    told = f"the queue did not answer 3 times in turn ({fault}); its jobs are still waited for, and it is asked again"
    assert done.stderr.count(told) == (failures > 2)


def test_a_snakemake_that_starts_imports_no_schema_of_records():
    """Each job of a campaign is one that starts, and imports all executors."""
    code = "import snakemake_executor_plugin_scaleproof, sys; sys.exit('scaleproof.ground.records.run' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
