"""What Snakemake hears of its jobs while the controller is away, and of one that is preempted, from a real queue."""

import json
import sys

import pytest

# On the login node: a job that runs, the controller away, the controller back, the job preempted by one of partition
# "urgent".
STORY = """
import asyncio, json, subprocess, sys, time
from snakemake_executor_plugin_slurm.job_status_query import query_job_status, query_job_status_squeue
from scaleproof.driver.slurm_plugin_guard import Listener

NAME = "the-run-of-a-workflow"
sh = lambda command: subprocess.run(command, shell=True, check=True, capture_output=True, text=True).stdout.strip()
logger = type("Logger", (), {"debug": lambda self, text: None})()

async def main():
    listener, heard = Listener(query_job_status, requeue=False), []
    async def look():
        states, _ = await listener(query_job_status_squeue(NAME), logger)
        return states.get(job)
    async def until(state):
        while await look() != state:
            time.sleep(0.1)
        return state
    job = sh(f"sbatch --parsable --no-requeue -J {NAME} -p gpu -N2 --exclusive -o /dev/null --wrap 'sleep infinity'")
    heard.append(await until("RUNNING"))
    sh("kill $(cat /run/slurmctld.pid)")
    while subprocess.run("squeue", capture_output=True).returncode == 0:
        time.sleep(0.1)
    heard.append(await look())
    sh("slurmctld")
    urgent = sh("sbatch --parsable -p urgent -N2 --exclusive -o /dev/null --wrap true")
    heard.append(await until("CANCELLED"))
    heard.append(sh(f"scontrol show job {job} | grep -o 'JobState=[A-Z]*'"))
    print(json.dumps(heard))

asyncio.run(main())
"""


@pytest.mark.fault("the controller is away; a job is preempted", "jobs go on; a preempted one is sent again")
def test_an_absent_controller_and_a_preemption(checkout):
    done = checkout.run(sys.executable, "-c", STORY)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["RUNNING", "RUNNING", "CANCELLED", "JobState=PREEMPTED"]
