"""Contents page. What is measured is in config/campaigns/; how, in workflow/rules/ and src/scaleproof/."""

import atexit
import contextlib
import inspect
import io
import logging
import os
import re
import shutil
import sys
from functools import cache, lru_cache
from pathlib import Path

from snakemake.cli import parse_args
from snakemake.common import overwrite_function_params
from snakemake.utils import min_version

from scaleproof.driver.as_sent import VARIABLE, CampaignsAsSent
from scaleproof.ground.campaign.corpora import local_files
from scaleproof.ground.campaign.loaded import corpus_in, frontier_file, goes_on, tokens_dir
from scaleproof.driver.job_environment import withhold_secrets
from scaleproof.driver.site import Site
from scaleproof.driver.slurm_request import job, job_of_replay, job_together
from scaleproof.ground.code_dependencies import MEASURING, sources
from scaleproof.driver.targets import check_targets
from scaleproof.ground.campaign.yaml_loader import CAMPAIGNS
from scaleproof.ground.errors import UserError, nearest, plural, printable
from scaleproof.ground.files import disk_is_full, full_disk_text, write_json
from scaleproof.driver import stage_server
from scaleproof.driver.job_minutes import too_short
from scaleproof.driver.keep import unrecorded_text
from scaleproof.measure.reference.schema import FOLDER, workload_name
from scaleproof.ground.records.failed_runs import EXIT_CODE as FAILED_RUNS
from scaleproof.ground.records.failed_runs import failed_runs_text
from scaleproof.ground.records.lost_results import lost_results, lost_text, records_without_runs
from scaleproof.conclude.report.chart_catalog import CATALOG, charts_of, tables_of, unknown_chart
from scaleproof.ground.snakemake_command import NOTE, STARTED_AS, started_as

min_version("9.27")

RESULTS = Path("results")
# What a job in a queue was planned for, whatever becomes of the campaign's file meanwhile.
CAMPAIGNS_AS_SENT = CampaignsAsSent(workflow.is_main_process)
load_named = CAMPAIGNS_AS_SENT.load_named


envvars:
    VARIABLE,


# Where environments and containers find this package: envs/*.post-deploy.sh, envs/apptainer.def.
os.environ["SCALEPROOF_ROOT"] = str(Path(workflow.basedir).resolve())
if not shutil.which("scaleproof"):  # .venv/bin/snakemake was called without activating its environment
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


report: "workflow/report/workflow.rst"


if "container" in config:  # only used with `--sdm apptainer`

    container: config["container"]


wildcard_constraints:
    campaign=r"[a-z0-9][a-z0-9_-]*",
    cell=r"[a-z0-9][a-z0-9.-]*",
    group=r"[1-9][0-9]*x[1-9][0-9]*",
    rep=r"[1-9][0-9]*",
    job=r"(?:[1-9][0-9]*x[1-9][0-9]*-)?rep[1-9][0-9]*-[a-z0-9]+",
    repeats=r"[1-9][0-9]*",
    workload=r"[a-z0-9][a-z0-9.-]*",
    comparison=r"[a-z0-9][a-z0-9-]*",
    corpus=r"[a-z0-9][a-z0-9._-]*(@[A-Za-z0-9._-]+)?",
    tokenizer=r"gpt2|bytes|bpe-[0-9]+",


# Short work, and what needs the network: compute nodes may have no access.
localrules:
    corpus_fetch,
    gpt2_tokenizer,
    look,
    collect,
    findings,
    analyse,
    waterfall,
    comparison,
    table,
    chart,
    loss_chart,
    trace_summary,
    trace_report,
    trace_chart,
    forecast,
    forecast_report,
    report,
    pdf,


include: "workflow/rules/common.smk"


if workflow.is_main_process:
    stop_on_full_disk()  # rules note the checksums of their code there
    atexit.register(say_unrecorded)


include: "workflow/rules/data.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/reference.smk"
include: "workflow/rules/shared_job.smk"
include: "workflow/rules/analysis.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/compare.smk"
include: "workflow/rules/trace.smk"
include: "workflow/rules/forecast.smk"


onstart:
    withhold_secrets(workflow.executor_settings)
    or_exit(refuse_short_jobs)
    if command_line().executor:
        or_exit(CAMPAIGNS_AS_SENT.send)
        note_profile()
    or_exit(stop_on_unrecorded)
    fork_short_stages()


rule all:
    default_target: True
    localrule: True
    message:
        "The report of the demo: {input}"
    input:
        "results/demo/report.html",


onsuccess:
    atexit.unregister(say_full_disk)
    exit_code = say_failed_runs()
    if exit_code:
        sys.exit(exit_code)


onerror:
    say_failed_runs()


# A target that no rule makes is answered with the nearest one, instead of Snakemake's MissingRuleException. And what is
# missing behind a report that is there becomes a target, too: Snakemake alone would not look for it.
if workflow.is_main_process:
    TARGETS = demanded()
    or_exit(
        check_targets,
        {target: any(r.is_producer(target) for r in workflow.rules) for target in TARGETS},
        [str(output) for r in workflow.rules for output in r.output],
        {"chart": [*CATALOG, *TRACE_CHARTS], "table": ["scaling", "strong", "weak"], "against": ["step", "seconds"]},
    )
    demand_lost(TARGETS)
