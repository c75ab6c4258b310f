"""Traces: take one, summarise one, compare two."""

import argparse
import sys
from typing import Any

from scaleproof.cli.arguments import (
    Group,
    add_campaign_command,
    add_command,
    add_fingerprints_option,
    add_results_option,
    add_subcommands,
)
from scaleproof.cli.libraries import import_torch
from scaleproof.cli.run import check_before_run, look_up_planned, stoppable
from scaleproof.cli.values import Number, count, file_to_read, folder, folder_to_write, path, trace_folder
from scaleproof.ground.errors import UserError
from scaleproof.ground.files import write_atomic, write_json

# Packages are imported inside the commands: `campaign show` must not wait for pandas, nor a chart for torch.


def trace_capture(args: argparse.Namespace) -> None:
    """Take a trace of one cell and print the result.

    Without a trace, a command typed by hand ends with SystemExit(1), but a stage ends well: the report has the reason.
    Raises UserError. With `args.fingerprints`, which the workflow gives to a stage, its message is also in the log in
    the folder of the trace.
    """
    from scaleproof.ground.campaign.loaded import LoadedCampaign, tokens_dir
    from scaleproof.ground.records.corpus_files import TOKENS
    from scaleproof.ground.records.run import CAPTURE_LOG
    from scaleproof.measure.trace.capture.capture import capture_trace

    loaded = LoadedCampaign(args.campaign, args.results)
    # Raises UserError if the cell was edited since the workflow planned it.
    (cell,) = look_up_planned(args.campaign, f"cell {args.cell}", args.fingerprints, lambda: [loaded.cell(args.cell)])
    options = {name: getattr(args, name) for name in ("steps", "tool", "nodes") if getattr(args, name) is not None}
    settings = loaded.campaign.trace.model_copy(update=options)
    tokens = args.tokens or tokens_dir(args.results, cell)
    out = args.out or args.results / loaded.name / "traces" / cell.slug
    try:
        if args.tokens and not (args.tokens / TOKENS).is_file():
            own_tokens = tokens_dir(args.results, cell)
            raise UserError(f"{args.tokens / TOKENS}: no such file; --tokens is a folder such as {own_tokens}")
        check_before_run(cell, tokens)
        with stoppable("this trace will be repeated"):
            result = capture_trace(cell, loaded.name, tokens, out, settings, loaded.time_limit_s)
    except UserError as error:
        if args.fingerprints:  # a stage of the workflow: Snakemake shows the log that it finds there
            write_atomic(out / CAPTURE_LOG, f"scaleproof: {error}\n")
        raise
    if result.status != "ok":
        if cell.command is None and result.status == "failed" and not args.is_stage:
            import_torch()  # raises ImportError, with the cure, where that is the reason
        print(f"{cell.slug}: {result.status}: {result.reason}", file=sys.stderr)
    else:
        reason = f" ({result.tool_reason})" if result.tool_reason else ""
        print(f"{cell.slug}: {result.steps} steps traced with {result.tool}{reason}")
    _fail_by_hand(args, result.status)


def _fail_by_hand(args: argparse.Namespace, status: str) -> None:
    """Raise SystemExit(1) where there is no trace and the command was typed by hand. A stage goes on."""
    if status != "ok" and not args.is_stage:
        raise SystemExit(1)


def trace_summary(args: argparse.Namespace) -> None:
    """Print the shares of time in a trace, or why a capture failed, and write profile_summary.json.

    `args.trace`: the folder of a capture, into which it is written, or a profiler's files: then it is written into
    `--out`, if that is given. Without a trace, a command typed by hand ends with SystemExit(1).
    """
    from scaleproof.conclude.report.sentences.trace import trace_sentences
    from scaleproof.ground.records.profile_schema import PROFILE
    from scaleproof.ground.records.run import CAPTURE
    from scaleproof.measure.trace.summarise import summarise_capture, summarise_files

    if len(args.trace) == 1 and (args.trace[0] / CAPTURE).is_file():
        _refuse_unused(args, ("out", "ranks", "steps"), f"{args.trace[0]} is a capture, which says them itself")
        profile = summarise_capture(args.trace[0])
    else:
        profile = summarise_files(args.trace, args.ranks, args.steps)
        if args.out:
            write_json(args.out / PROFILE, profile.model_dump(mode="json"))
    for sentence in trace_sentences(profile):
        print(sentence)
    _fail_by_hand(args, profile.status)


def _refuse_unused(args: argparse.Namespace, names: tuple[str, ...], why: str) -> None:
    """Raise UserError for options of a profiler's files that were given where there is none."""
    if given := [f"--{name}" for name in names if getattr(args, name) is not None]:
        raise UserError(f"{', '.join(given)}: for a profiler's files alone; {why}")


def trace_interconnect(args: argparse.Namespace) -> None:
    from scaleproof.measure.trace.readers.interconnect import read_interconnect

    for file in args.files:
        kind, evidence = read_interconnect(file)
        print(f"{file} ({kind}): {_in_words(evidence)}")


def _in_words(facts: Any) -> str:
    """Return facts about links in one line: {"channels": 2, "nics": ["mlx5_0"]} -> "channels: 2, nics: mlx5_0"."""
    if isinstance(facts, dict):
        return ", ".join(f"{name}: {_in_words(fact)}" for name, fact in facts.items())
    return " + ".join(map(_in_words, facts)) if isinstance(facts, list) else str(facts)


def trace_diff(args: argparse.Namespace) -> None:
    """Print which parts of a step changed between two traces, as a table and in words.

    `args.a`, `args.b`: each a capture's folder or a summary, which is read, or traces, which are summarised here.
    """
    from scaleproof.ground.records.profile_schema import PROFILE, read_profile
    from scaleproof.ground.records.run import CAPTURE
    from scaleproof.measure.trace.diff import diff_rows, diff_table, summarise_diff
    from scaleproof.measure.trace.summarise import summarise_files

    traces = (args.a, args.b)
    # A capture should have a summary: without one `read_profile` says how to make it.
    folders = [trace.parent if trace.name == PROFILE else trace for trace in traces]
    are_own = [(folder / PROFILE).is_file() or (folder / CAPTURE).is_file() for folder in folders]
    if all(are_own):
        _refuse_unused(args, ("ranks", "steps"), f"{args.a} and {args.b} are captures, which say them themselves")
    profiles = [
        read_profile(trace) if is_own else summarise_files([trace], args.ranks, args.steps)
        for trace, is_own in zip(traces, are_own, strict=True)
    ]
    sources = {"generated_at_utc", "run_dir", "inputs", "nsys_report", "per_file"}
    one, other = (profile.model_dump(exclude=sources) for profile in profiles)
    if one == other:
        raise UserError(f"{args.a} and {args.b} are the same trace, or copies of it; compare two")
    rows = diff_rows(profiles[0], profiles[1], names=(f"A ({args.a})", f"B ({args.b})"))
    print(diff_table(rows))
    print(summarise_diff(rows))


def trace_report(args: argparse.Namespace) -> None:
    """Write traces.json: all traces of a campaign beside its timed runs."""
    from scaleproof.conclude.analysis.traces import traces_report
    from scaleproof.ground.campaign.loaded import LoadedCampaign
    from scaleproof.ground.records.profile_schema import PROFILE, read_profile
    from scaleproof.ground.records.unreadable import read_or_mark_unreadable

    loaded = LoadedCampaign(args.campaign, args.results)
    folder = args.results / loaded.name
    planned = loaded.planned(args.results)
    runs = [read_or_mark_unreadable(place, loaded.name, cell, repeat) for place, cell, repeat in planned]
    files = [folder / "traces" / cell.slug / PROFILE for cell in loaded.traced]
    profiles = {file: read_profile(file) for file in files}
    write_json(folder / "traces.json", traces_report(loaded.name, profiles, runs))


def trace_charts(args: argparse.Namespace) -> None:
    from scaleproof.conclude.report.charts.traces import CHARTS, draw_trace
    from scaleproof.conclude.report.read_results import read_traces

    inputs = read_traces(args.folder)  # the content of traces.json, and {cell: table of its timeline}
    for name in CHARTS:
        draw_trace(name, *inputs, args.folder / "charts")


def add(commands: Group) -> None:
    traces = add_subcommands(commands, "trace", "where the time of a step goes")
    doc = "trace some steps of one cell, in a run of its own; exit code 1 where that fails"
    example = "scaleproof trace capture config/campaigns/demo.yaml ddp-n1x2 --steps 5"
    _add_capture_arguments(add_campaign_command(traces, "capture", trace_capture, doc, example))
    doc = "say where the time went, in sentences and as profile_summary.json"
    example = (
        "scaleproof trace summary results/demo/traces/ddp-n1x2\n"
        "scaleproof trace summary node1.sqlite node2.sqlite   # anybody's: nsys exports, torch.profiler, nsys stats"
    )
    _add_summary_arguments(add_command(traces, "summary", trace_summary, doc, example))

    doc = "compare two traces: per step and rank, which parts moved"
    example = "scaleproof trace diff results/demo/traces/ddp-n1x2 results/demo/traces/zero2-n1x2"
    parser = add_command(traces, "diff", trace_diff, doc, example)
    for name in ("a", "b"):
        help_text = "folder of a summarised capture, a profile_summary.json, or a trace file"
        parser.add_argument(name, type=path, help=help_text)
    parser.add_argument("--ranks", type=count, metavar="N", help="of text reports: how many ranks they are of")
    parser.add_argument("--steps", type=count, metavar="N", help="of text reports: optimizer steps of each run")

    doc = "say over which links a run really communicated"
    example = "scaleproof trace interconnect nccl.log topo.xml"
    parser = add_command(traces, "interconnect", trace_interconnect, doc, example)
    help_text = "NCCL log, nccl_topo.xml, nvidia-smi topo -m, ibstat"
    parser.add_argument("files", type=file_to_read, nargs="+", metavar="FILE", help=help_text)


def add_stages(stages: Group) -> None:
    doc = "a trace of one cell, in a run of its own"
    _add_capture_arguments(add_campaign_command(stages, "trace_capture", trace_capture, doc), is_stage=True)
    doc = "profile_summary.json of a trace"
    _add_summary_arguments(add_command(stages, "trace_summary", trace_summary, doc), is_stage=True)
    doc = "traces.json: all traces of a campaign beside its timed runs"
    add_results_option(add_campaign_command(stages, "trace_report", trace_report, doc))
    parser = add_command(stages, "trace_charts", trace_charts, "the charts of a campaign's traces as SVG and PNG")
    parser.add_argument("folder", type=folder, help="results/<campaign>")


def _add_capture_arguments(sub: argparse.ArgumentParser, is_stage: bool = False) -> None:
    sub.set_defaults(is_stage=is_stage)
    sub.add_argument("cell", help="slug of the cell, as `campaign show` lists it")
    help_text = "folder of train.bin and tokens.json (default: the cell's own)"
    sub.add_argument("--tokens", type=path, metavar="DIR", help=help_text)
    help_text = "default: results/<campaign>/traces/<cell>"
    sub.add_argument("--out", type=path if is_stage else trace_folder, metavar="DIR", help=help_text)
    add_results_option(sub)
    add_fingerprints_option(sub)
    steps = Number(least=1, most=1000, whole=True)  # as trace.steps
    sub.add_argument("--steps", type=steps, metavar="N", help="steps to trace (default: trace.steps of the campaign)")
    tools = ("auto", "nsys", "torch.profiler")
    sub.add_argument("--tool", choices=tools, help="profiler (default: trace.tool of the campaign)")
    help_text = "nodes to trace (default: trace.nodes of the campaign)"
    sub.add_argument("--nodes", choices=("first", "all"), help=help_text)


def _add_summary_arguments(sub: argparse.ArgumentParser, is_stage: bool = False) -> None:
    sub.set_defaults(is_stage=is_stage)
    help_text = (
        "folder of a capture; or files, or a folder of them: .sqlite of nsys export (one per node), .json(.gz) of "
        "torch.profiler (one per rank), text or CSV of nsys stats"
    )
    sub.add_argument("trace", type=path, nargs="+", metavar="TRACE", help=help_text)
    sub.add_argument("--ranks", type=count, metavar="N", help="of files: how many ranks they should hold")
    sub.add_argument("--steps", type=count, metavar="N", help="of text reports: optimizer steps of the run")
    help_text = "of files: folder to write profile_summary.json into"
    sub.add_argument("--out", type=folder_to_write, metavar="DIR", help=help_text)
