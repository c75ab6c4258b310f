"""What Snakemake hears of its jobs while the controller is away, and of one that is preempted, from a real queue."""

import json
import sys

import pytest

# On the login node: a job that runs, the controller away, the controller back, the job preempted by one of partition
# "urgent"; then one that Slurm holds.
STORY = """
import json, subprocess, time
from scaleproof.driver.cluster.slurm import FAILED, Slurm

sh = lambda command: subprocess.run(command, shell=True, check=True, capture_output=True, text=True).stdout.strip()

def look(job):
    states = Slurm(dict).states({job})
    return states and states[job].name

def until(job, state):
    while look(job) != state:
        time.sleep(0.1)
    return state

def begun():
    job = sh("sbatch --parsable --no-requeue -p gpu -N2 --exclusive -o /dev/null --wrap 'sleep infinity'")
    heard.append(until(job, "RUNNING"))
    return job

def preempted(job):
    sh("sbatch -p urgent -N2 --exclusive -o /dev/null --wrap true")
    return until(job, "PREEMPTED") in FAILED

heard = []
job = begun()
sh("kill $(cat /run/slurmctld.pid)")
while subprocess.run("squeue", capture_output=True).returncode == 0:
    time.sleep(0.1)
heard.append(look(job))
sh("slurmctld")
heard.append(preempted(job))
sh("scontrol update PartitionName=gpu PreemptMode=CANCEL")  # sites have either
heard.append(preempted(begun()))
sh("scontrol update PartitionName=gpu PreemptMode=REQUEUE")
held = sh("sbatch --parsable --hold -p gpu -o /dev/null --wrap true")
heard.append(Slurm(dict).states({held})[held].reason)
sh(f"scancel {held}")
heard.append(look("999999"))
print(json.dumps(heard))
"""


@pytest.mark.fault("the controller is away; a job is preempted", "jobs go on; a preempted one is sent again")
def test_an_absent_controller_a_preemption_and_a_held_job(checkout):
    done = checkout.run(sys.executable, "-c", STORY)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["RUNNING", None, True, "RUNNING", True, "JobHeldUser", "UNKNOWN"]
