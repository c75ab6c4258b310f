"""`scaleproof rehearse`: a whole campaign in small, before the night."""

import argparse

from scaleproof.cli.arguments import Group, add_campaign_command
from scaleproof.cli.values import text
from scaleproof.ground.errors import plural
from scaleproof.ground.snakemake_command import PROFILE


def rehearse(args: argparse.Namespace) -> None:
    """Run a small version of a campaign, and print what failed and what this machine cannot run.

    Raises SystemExit(1) where a run failed, and UserError where a stage of the workflow failed.
    """
    from scaleproof.cli.prepare import load_checked_campaign
    from scaleproof.driver import rehearse as rehearsal
    from scaleproof.driver.cluster.profile import check_profile
    from scaleproof.driver.snakemake_view import HERE
    from scaleproof.ground.records.failed_runs import failed_runs_text
    from scaleproof.ground.records.run import read_run
    from scaleproof.ground.snakemake_command import RESULTS
    from scaleproof.measure.machine.gpus import cuda_devices

    if args.profile:
        check_profile(args.profile)
    # The campaign itself is checked: its small version runs even with a text that is too small for the campaign.
    load_checked_campaign(args.campaign, RESULTS)
    options = ("--profile", args.profile) if args.profile else HERE
    loaded = rehearsal.run_rehearsal(args.campaign, options, without_gpu=not args.profile and not cuda_devices())

    records = [read_run(folder).metrics for folder in loaded.runs(RESULTS)]
    for record in records:
        if record.status == "not_applicable" and record.failure:
            print(f"not rehearsed: {record.cell}: {record.failure.reason}")
    failures_text = failed_runs_text(loaded, RESULTS)
    measured_count = sum(record.failure is None for record in records)
    print(failures_text or f"{plural(measured_count, 'cell')} of {len(records)} ran from start to page")
    print(RESULTS / loaded.name / "report.html")
    if failures_text:
        raise SystemExit(1)


def add(commands: Group) -> None:
    doc = "run a whole campaign in small: tiny shapes, three steps, each cell once; says what would fail"
    example = (
        "scaleproof rehearse config/campaigns/demo.yaml\n"
        f"scaleproof rehearse config/campaigns/any_gpu.yaml --profile {PROFILE}\n\n"
        "Exit codes: 0 all runs that can be made here ended well; 1 a run failed; 2 wrong input, or a stage failed."
    )
    parser = add_campaign_command(commands, "rehearse", rehearse, doc, example)
    parser.add_argument("--profile", type=text, metavar="PROFILE", help="of Snakemake, by which the jobs are sent")
