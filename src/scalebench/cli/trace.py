"""Traces: take one, summarise one, compare two."""

import argparse
import sys
from pathlib import Path

from scalebench.cli.arguments import Group, command, on_campaign
from scalebench.cli.run import stoppable
from scalebench.errors import UserError, nearest

# Rooms are imported inside the commands: `campaign show` must not wait for pandas, nor a chart for torch.


def trace_capture(args: argparse.Namespace) -> None:
    from scalebench.campaign.loaded import LoadedCampaign, tokens_dir
    from scalebench.files import write_atomic
    from scalebench.trace.capture.capture import LOG, capture

    loaded = LoadedCampaign(args.campaign)
    cell = loaded.cell(args.cell)
    if args.fingerprint and args.fingerprint != cell.fingerprint:
        raise UserError(f"{args.campaign}: cell {args.cell} was changed while the workflow ran; start snakemake again")
    chosen = {name: getattr(args, name) for name in ("steps", "tool", "nodes") if getattr(args, name) is not None}
    settings = loaded.campaign.trace.model_copy(update=chosen)
    tokens = args.tokens or tokens_dir(args.results, cell)
    out = args.out or args.results / loaded.name / "traces" / cell.slug
    try:
        with stoppable("this trace will be taken again"):
            captured = capture(cell, loaded.name, tokens, out, settings, loaded.campaign.resources.time_limit * 60)
    except UserError as error:
        write_atomic(out / LOG, f"scalebench: {error}\n")  # Snakemake shows the log that it finds there
        raise
    if captured.status != "ok":
        print(f"{cell.slug}: {captured.status}: {captured.reason}", file=sys.stderr)
    else:
        why = f" ({captured.tool_reason})" if captured.tool_reason else ""
        print(f"{cell.slug}: {captured.steps} steps traced with {captured.tool}{why}")


def trace_summary(args: argparse.Namespace) -> None:
    from scalebench.files import write_json
    from scalebench.record.run import CAPTURE
    from scalebench.report.sentences.trace import sentences
    from scalebench.trace.profile_schema import PROFILE
    from scalebench.trace.summarise import summarise_capture, summarise_files

    if len(args.trace) == 1 and (args.trace[0] / CAPTURE).is_file():
        profile = summarise_capture(args.trace[0])
    else:
        profile = summarise_files(args.trace, args.ranks, args.steps)
        if args.out:
            write_json(args.out / PROFILE, profile.model_dump(mode="json"))
    for sentence in sentences(profile):
        print(sentence)


def trace_interconnect(args: argparse.Namespace) -> None:
    from scalebench.trace.readers.interconnect import read_interconnect

    for path in args.files:
        kind, content = read_interconnect(path)
        print(f"{path} ({kind}): {content}")


def trace_diff(args: argparse.Namespace) -> None:
    from scalebench.record.run import CAPTURE
    from scalebench.trace.diff import diff, summarise_diff, table
    from scalebench.trace.profile_schema import PROFILE, read_profile
    from scalebench.trace.summarise import summarise_files

    profiles = []
    for path in (args.a, args.b):
        ours = (path / CAPTURE).is_file() or path.name == PROFILE or (path / PROFILE).is_file()
        files = sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() and not ours else [path]
        profiles.append(read_profile(path) if ours else summarise_files(files, args.ranks, args.steps))
    rows = diff(*profiles)
    print(table(rows))
    print(summarise_diff(rows))


def trace_report(args: argparse.Namespace) -> None:
    from scalebench.analysis.traces import traces_report
    from scalebench.campaign.loaded import LoadedCampaign
    from scalebench.files import write_json
    from scalebench.record.run import read_planned
    from scalebench.trace.profile_schema import PROFILE, read_profile

    loaded = LoadedCampaign(args.campaign)
    folder = args.results / loaded.name
    runs = [read_planned(place, cell.slug, k, cell.fingerprint) for place, cell, k in loaded.planned(args.results)]
    paths = [folder / "traces" / cell.slug / PROFILE for cell in loaded.traced]
    profiles = {path: read_profile(path) for path in paths}
    write_json(folder / "traces.json", traces_report(loaded.name, profiles, runs))


def trace_chart(args: argparse.Namespace) -> None:
    from scalebench.report.charts.traces import CHARTS, draw_trace
    from scalebench.report.read_results import read_traces

    if args.chart not in CHARTS:
        raise UserError(f'there is no chart "{args.chart}".{nearest(args.chart, CHARTS)} Charts: {", ".join(CHARTS)}')
    draw_trace(args.chart, *read_traces(args.folder), args.folder / "charts")


def add(stages: Group) -> None:
    traces = stages.add_parser("trace", help="where the time of a step goes").add_subparsers(
        required=True, metavar="WHAT"
    )
    taken = on_campaign(traces, "capture", trace_capture, "trace some steps of one cell, in a run of its own")
    taken.add_argument("cell", help="slug of the cell, as `campaign show` lists it")
    taken.add_argument("--tokens", type=Path, help="folder of train.bin and tokens.json; default: the cell's own")
    taken.add_argument("--out", type=Path, help="default: results/<campaign>/traces/<cell>")
    taken.add_argument("--results", type=Path, default=Path("results"))
    taken.add_argument("--fingerprint", help="refuse to run if the cell is not this one any more")
    taken.add_argument("--steps", type=int, help="default: trace.steps of the campaign")
    taken.add_argument("--tool", choices=("auto", "nsys", "torch.profiler"), help="default: trace.tool of the campaign")
    taken.add_argument("--nodes", choices=("first", "all"), help="default: trace.nodes of the campaign")

    summary = command(traces, "summary", trace_summary, "where the time went, as sentences and as profile_summary.json")
    summary.add_argument(
        "trace", type=Path, nargs="+",
        help="folder of a capture; or files: .sqlite of nsys export (one a node), .json(.gz) of torch's profiler (one a rank), "
        "text or CSV of nsys stats",
    )  # fmt: skip
    summary.add_argument("--ranks", type=int, help="of files: how many ranks they should hold")
    summary.add_argument("--steps", type=int, help="of text reports: optimizer steps of the run")
    summary.add_argument("--out", type=Path, help="of files: folder to write profile_summary.json into")

    all_of = on_campaign(traces, "report", trace_report, "traces.json: all traces of a campaign beside its timed runs")
    all_of.add_argument("--results", type=Path, default=Path("results"))
    charts = command(traces, "chart", trace_chart, "draw one chart of a campaign's traces as SVG and PNG")
    charts.add_argument("chart", help="trace-timeline, trace-communication, trace-steps or trace-kernels")
    charts.add_argument("folder", type=Path, help="results/<campaign>")
    two = command(traces, "diff", trace_diff, "compare two traces: per step and rank, which parts moved")
    for name in ("a", "b"):
        two.add_argument(
            name, type=Path, help="folder of a summarised capture, a profile_summary.json, or a trace file"
        )
    two.add_argument("--ranks", type=int, help="of text reports: how many ranks they are of")
    two.add_argument("--steps", type=int, help="of text reports: optimizer steps of each run")
    links = command(traces, "interconnect", trace_interconnect, "by which links a run really communicated")
    links.add_argument("files", type=Path, nargs="+", help="NCCL log, nccl_topo.xml, nvidia-smi topo -m, ibstat")
