"""Schedulers other than Slurm: their profiles, tried with commands that answer like those of PBS and Kubernetes."""

import json
import os
import runpy
import shlex
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import yaml
from patience import wait_until
from snakemake_interface_common.exceptions import ApiError
from workflow_texts import TINY

from scaleproof.driver.cluster import queue as queue_module
from scaleproof.driver.cluster.executor import ExecutorSettings, _make_scheduler
from scaleproof.driver.cluster.queue import Queue
from scaleproof.driver.cluster.request import JobRequest
from scaleproof.driver.cluster.scheduler import Refused, Submission
from scaleproof.driver.cluster.site import Site
from scaleproof.ground.records.jobs import read_ledger
from scaleproof.measure.machine.allocation import OF_QUEUES

SOON = ("--seconds-between-status-checks", "1")
PROFILES = Path(__file__).parents[2] / "profiles"
# Whose jobs a profile sends: runs record their numbers by OF_QUEUES in measure/machine/allocation.py.
SENT = {"cluster-generic": "pbs", "kubernetes": "kubernetes", "lsf": "lsf"}
# One script under three names. qsub starts the job's script in a session of its own, at once if nothing holds it.
QUEUE = """#!/bin/bash
case "${0##*/}" in
qsub)
    script="${@: -1}"; exec 9>> "$QUEUE/lock"; flock 9; echo "$*" >> "$QUEUE/submitted"
    n=$(wc -l < "$QUEUE/submitted"); cp "$script" "$QUEUE/$n.sh"; env > "$QUEUE/$n.env"
    setsid bash -c 'while [ -e "${0%/*}/held" ]; do sleep 0.1; done
        PBS_JOBID=$1 bash "$0" > "${0%.sh}.log" 2>&1; echo $? > "${0%.sh}.code"' "$QUEUE/$n.sh" "$n.box" \\
        > /dev/null 2>&1 9>&- &
    echo "$n.box" ;;
qstat)
    echo "q" >> "$QUEUE/looks"
    [ -e "$QUEUE/away" ] && { rm "$QUEUE/away"; echo "cannot connect to server" >&2; exit 1; }
    separator=; echo '{"Jobs": {'
    for job in "${@:5}"; do
        state=R exit=; code=$(cat "$QUEUE/${job%.box}.code" 2> /dev/null) && state=F exit=", \\"Exit_status\\": $code"
        printf '%s"%s": {"job_state": "%s"%s}' "$separator" "$job" $state "$exit"; separator=,
    done
    echo '}}' ;;
esac
"""


@pytest.fixture
def queue(tmp_path, built, monkeypatch):
    """The queue's commands, first on the path of the copy's Snakemake."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("qsub", "qstat", "qdel"):
        (commands / name).write_text(QUEUE)
        (commands / name).chmod(0o755)
    env = built.env | {
        "QUEUE": str(tmp_path),
        "HF_TOKEN": "secret",
        "MY_PASSWORD": "secret",
        "PATH": f"{commands}:{built.env['PATH']}",
    }
    monkeypatch.setattr(built, "env", env)
    return tmp_path


@pytest.mark.fault("a scheduler other than Slurm, secrets in the environment", "the run is made; secrets are not sent")
def test_a_run_by_way_of_another_scheduler(built, queue):
    text = (built.root / "config/campaigns/tiny.yaml").read_text().replace("[1x1, 1x2]", "[1x2]")
    built.campaign("queued", text.replace("Does it scale?", "Does a queue do?").replace("steps: 4", "steps: 5"))
    target = "results/queued/runs/ddp-n1x2/rep1/training_metrics.json"
    options = ("--profile", "profiles/cluster-generic", "--scaleproof-variables", "QUEUE", *SOON)
    (queue / "away").touch()
    done = built.command("snakemake", *options, target)
    assert done.returncode == 0, done.stderr[-3000:] + "".join(p.read_text() for p in queue.glob("*.log"))
    metrics = json.loads((built.root / target).read_text())
    assert metrics["status"] == "ok"
    assert metrics["scheduler"] == {"type": "pbs", "job_id": "1.box"}
    (job,) = read_ledger(built.root / "results/queued/jobs.jsonl")[1:]
    assert (job.id, job.state, len(job.fingerprint)) == ("1.box", "success", len(metrics["fingerprint"]))
    (line,) = (queue / "submitted").read_text().splitlines()
    assert "-l select=1:ncpus=8:mem=16000mb:ngpus=2 -l place=excl -l walltime=1020" in line
    assert "secret" not in (queue / "1.env").read_text()
    assert "not sent to compute nodes" in done.stdout + done.stderr
    again = built.command("scaleproof", "retry", "config/campaigns/queued.yaml", "--cell", "ddp-n1x2").stdout
    assert "repeated by: snakemake --profile profiles/cluster-generic results/queued/report.html" in again


@pytest.mark.fault("a profile gives jobs less time than their runs may take", "nothing is sent; both numbers are said")
def test_jobs_that_would_be_ended_before_their_runs_are_not_sent(built, queue):
    built.campaign("hasty", TINY.replace("steps: 4", "steps: 8"))
    options = ("--set-resources", "train:runtime=15", "--profile", "profiles/cluster-generic")
    done = built.command("snakemake", *options, "results/hasty/runs/ddp-n1x1/rep1/steps.csv")
    assert done.returncode == 2, done.stderr[-3000:]
    assert "hasty.yaml: set-resources gives a job of train 15 minutes, but a run may take 15" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (queue / "submitted").exists()


@pytest.mark.fault("a campaign is edited while its jobs wait in any queue", "they end, saying so; nothing is mixed")
def test_what_waits_in_a_queue_is_held_against_what_was_sent(built, queue):
    """A cell is taken away; another campaign, whose runs share a job, gets other work. The rest is made."""
    cells = "cells: [{geometry: 1x2, micro_batch: 2}, {geometry: 1x2, strategy: fsdp}]\n"
    text = TINY.replace("steps: 4", "steps: 6").replace("[1x1, 1x2]", "[1x1]")
    together = text.replace("[1x1]", "[1x2]") + "resources: {time_limit: 5, minutes_per_job: 30}\n"
    built.campaign("edited", text + cells)
    built.campaign("shared", together)
    runs = [f"results/edited/runs/{slug}/rep1/steps.csv" for slug in ("ddp-n1x1", "ddp-n1x2-mb2", "fsdp-n1x2")]
    (queue / "held").touch()
    options = ("--profile", "profiles/cluster-generic", "--scaleproof-variables", "QUEUE", *SOON, "--retries", "0")
    words = ["snakemake", *options, *runs, "results/shared/runs.csv"]
    driver = subprocess.Popen(
        words, cwd=built.root, env=built.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    sent = queue / "submitted"
    wait_until(lambda: sent.exists() and len(sent.read_text().splitlines()) == 4, driver)
    built.campaign("edited", text + cells.replace("{geometry: 1x2, micro_batch: 2}, ", ""))
    built.campaign("shared", together.replace("steps: 6", "steps: 7"))
    (queue / "held").unlink()
    said, _ = driver.communicate()
    said += "".join(log.read_text() for log in queue.glob("*.log"))
    assert driver.returncode == 1, said[-3000:]
    assert "edited.yaml: cell ddp-n1x2-mb2 was changed while the workflow ran; start snakemake again" in said
    assert "shared.yaml: job 1x2-rep1-1 was changed while the workflow ran; start snakemake again" in said
    steps = [path for name in ("edited", "shared") for path in built.root.glob(f"results/{name}/runs/*/rep1/steps.csv")]
    made = {str(path.relative_to(built.root)) for path in steps}
    assert made == {runs[0], runs[2]}
    built.campaign("edited", text + cells)
    assert built.planned(*runs) == Counter(train=1), "what was right is kept"


@pytest.mark.parametrize(
    ("job", "line"),
    [
        ({"job_state": "Q", "comment": "Not Running: no nodes"}, "7 waiting Not Running: no nodes"),
        ({"job_state": "R"}, "7 running"),
        ({"job_state": "F", "Exit_status": 0}, "7 success"),
        ({"job_state": "F", "Exit_status": -29, "comment": "walltime"}, "7 failed exit code -29 walltime"),
        ({"job_state": "F"}, "7 cancelled before it began"),
    ],
)
def test_the_states_of_pbs(job, line):
    assert runpy.run_path(str(PROFILES / "cluster-generic/pbs-status"))["line"]("7", job) == line


def test_what_a_queue_says_of_its_jobs(monkeypatch):
    answers = iter([(0, "1 running\n2 failed exit code 3\n9 success\n", ""), (1, "", "away")])
    monkeypatch.setattr(queue_module, "run_scheduler_command", lambda command, environment: next(answers))
    queue = Queue("submit", "status", "cancel", dict)
    states = queue.states({"1", "2"})
    assert {job: (state.phase, state.reason) for job, state in states.items()} == {
        "1": ("running", ""),
        "2": ("failed", "exit code 3"),
    }
    assert queue.states({"1"}) is None, "it does not answer: nothing has ended"


def test_a_name_that_no_job_has_is_not_sent_to_a_queue(tmp_path):
    paths = {"script": tmp_path / "job.sh", "log": tmp_path / "log", "folder": tmp_path}
    job = Submission(name="train", resources={"devices_per_node": 2}, **paths)
    with pytest.raises(Refused, match=r'has \{gpus_per_node\}\. Did you mean "devices_per_node"\? Allowed: '):
        Queue("echo {gpus_per_node}", "true", "true", dict).submit(job)
    of_others = ("${device_per_node}", "{print}")  # of the shell, and of any program
    for word in ("{devices_per_node}", *of_others):
        assert Queue(f"echo {word} 7; true", "true", "true", dict).submit(job) == "7"


@pytest.mark.parametrize("missing", ["submit", "status", "cancel"])
def test_the_command_of_a_queue_that_a_profile_lacks_is_named(missing):
    settings = ExecutorSettings(**{name: "true" for name in ("submit", "status", "cancel") if name != missing})
    with pytest.raises(ApiError, match=f"the profile has no scaleproof-{missing}; a queue needs three commands"):
        _make_scheduler(settings, set())


def test_a_command_of_a_queue_that_is_not_there_is_named(tmp_path):
    def made(status: str) -> object:
        return _make_scheduler(ExecutorSettings(submit="true", status=status, cancel="cd . && true"), set())

    (tmp_path / "status").touch(0o755)
    for status, word in ((f"{tmp_path}/stauts", f"{tmp_path}/stauts. Did you mean"), ("qstatt -f", "qstatt$")):
        with pytest.raises(ApiError, match=f"scaleproof-status: there is no program {word}"):
            made(status)
    for status in (f"{tmp_path}/status 7", "${PBS}/qstat", "A=1 qstat"):  # the shell makes other words of the last two
        assert isinstance(made(status), Queue)


def test_a_job_that_a_queue_has_forgotten_is_over(monkeypatch):
    monkeypatch.setattr(queue_module, "run_scheduler_command", lambda command, environment: (0, "", ""))
    queue = Queue("submit", "status", "cancel", dict)
    answers = [queue.states({"1"}) for _ in range(4)]
    assert answers[:3] == [{}, {}, {}], "the first looks may be too early"
    assert answers[3]["1"].phase == "unknown"


def test_a_job_of_kubernetes(tmp_path):
    """kubectl is a stand-in that keeps what it is given."""
    kubectl = tmp_path / "kubectl"
    condition = {"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "too long"}
    answer = json.dumps({"metadata": {"name": "x"}, "status": {"failed": 1, "conditions": [condition]}})
    kubectl.write_text(
        f"""#!/bin/sh
[ "$1" = create ] && cat > {tmp_path}/manifest.json && echo job.batch/scaleproof-x1
[ "$1" = get ] && echo {shlex.quote(answer)}
true
"""
    )
    kubectl.chmod(0o755)
    (tmp_path / "snakejob.sh").write_text("#!/bin/sh\ntrue\n")
    program = str(PROFILES / "kubernetes/job")
    env = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HF_TOKEN": "secret"}
    words = shlex.split(
        "submit --image i --claim c --mount /work --cpus 8 --mem-mb 16000 --gpus 2 --minutes 17"
        " --label team=ml --node-selector gpu=h100 --tolerate gpu=yes:NoSchedule --tolerate spot --user 1000:100"
    )
    done = subprocess.run(
        [program, *words, "snakejob.sh"], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "job.batch/scaleproof-x1"
    manifest = (tmp_path / "manifest.json").read_text()
    assert "secret" not in manifest
    spec = json.loads(manifest)["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    assert "activeDeadlineSeconds" not in spec, "waiting for a node is no part of it"
    assert spec["template"]["spec"]["activeDeadlineSeconds"] == 1020
    assert spec["template"]["metadata"]["labels"] == {"app": "scaleproof", "team": "ml"}
    assert spec["template"]["spec"]["nodeSelector"] == {"gpu": "h100"}
    assert spec["template"]["spec"]["securityContext"] == {"runAsUser": 1000, "runAsGroup": 100}
    assert spec["template"]["spec"]["tolerations"] == [
        {"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Exists"},
    ]
    assert container["resources"]["limits"] == {"cpu": "8", "memory": "16000M", "nvidia.com/gpu": "2"}
    assert container["command"] == ["sh", "-c", "#!/bin/sh\ntrue\n"]
    names = ("job.batch/x", "job.batch/gone")
    done = subprocess.run(
        [program, "status", *names], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "job.batch/x failed DeadlineExceeded too long",
        "job.batch/gone cancelled it does not exist any more",
    ]
    state = runpy.run_path(program)["state"]
    assert [state(job) for job in ({}, {"status": {"active": 1}}, {"status": {"succeeded": 1}})] == [
        "waiting",
        "running",
        "success",
    ]


@pytest.mark.fault("kubectl fails, or its answer is cut off", "no job has ended by that; the next look asks again")
@pytest.mark.parametrize(("code", "printed"), [(1, ""), (1, '{"items": []}'), (0, '{"status": {"succ')])
def test_kubernetes_does_not_answer(monkeypatch, capsys, code, printed):
    program = runpy.run_path(str(PROFILES / "kubernetes/job"))
    answer = subprocess.CompletedProcess([], code, printed, "The connection was refused" if code else "")
    monkeypatch.setattr(program["subprocess"], "run", lambda *command, **options: answer)
    assert program["states"](["job.batch/scaleproof-x1"]) == 1
    assert capsys.readouterr().out == ""


def test_resources_in_the_words_of_lsf():
    request = JobRequest(nodes=2, devices=4, cores=16, memory_mb=32000, minutes=17)
    sent = Site(scheduler="lsf", gpu_type="NVIDIAH100").resources(request)
    assert sent["lsf_extra"] == "-x -gpu num=4:gmodel=NVIDIAH100:mode=shared"
    assert (sent["cpus_per_task"], sent["mem_mb"], sent["runtime"], sent["nodes"]) == (16, 32000, 17, 1)
    assert Site(scheduler="lsf", exclusive=False).resources(JobRequest(1, 0, 4, 8000, 17))["lsf_extra"] == ""


def test_profiles_ask_only_for_resources_that_rules_have():
    """A name in a submit command that no rule has would stop Snakemake at the first job."""
    for path in sorted(PROFILES.glob("*/profile.v9+.yaml")):
        profile = yaml.safe_load(path.read_text())
        named = set(profile.get("scaleproof-submit", "").split("{")[1:])
        names = {text.partition("}")[0] for text in named}
        site = Site.from_config(profile.get("config"))
        assert names <= set(site.resource_names), path
        assert names <= set(profile.get("default-resources", {})), path


def test_each_profile_of_a_queue_is_described_and_its_jobs_are_recorded():
    folders = {path.parent.name for path in PROFILES.glob("*/profile.v9+.yaml")}
    assert folders - {"slurm"} == set(SENT)
    assert set(SENT.values()) == set(OF_QUEUES)
    for page in (PROFILES / "README.md", PROFILES.parent / "docs/cluster.md"):
        assert [name for name in SENT if f"| `profiles/{name}` |" not in page.read_text()] == [], page
