"""Figures and their way back to the raw files: `scaleproof verify`, `why`, `publish`, `gate`, `index`."""

import argparse
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from scaleproof.cli.arguments import Group, add_command
from scaleproof.cli.values import Number, chart_to_write, file_to_read, folder_to_write, path, results_folder, text
from scaleproof.ground.errors import UserError, path_fault, plural, shortened
from scaleproof.ground.json_faults import NEWER, UNREADABLE
from scaleproof.ground.number_format import integer, span_text
from scaleproof.ground.records.grouping import group_by
from scaleproof.ground.snakemake_command import RESULTS, derive_again_command

if TYPE_CHECKING:
    from scaleproof.conclude.publication.history import History
    from scaleproof.verify.raw import Difference

# Packages are imported inside the commands: others must not wait for them.

REPEAT = re.compile(r"rep[1-9][0-9]*")  # a folder of a run in that of its cell
# Problems of whole files.
MISSING = "is missing"
CHANGES = "changed since"
CHANGED = f"{CHANGES} the report was written"
COPIED = "is the record of"  # of a run in the folder of another
USUAL_LOSS = 5.0  # %, what a rate may fall by in a gate without --difference
UNDECIDED = 5  # exit code, as of scaleproof ab
# First part of a file's path -> those of files whose content is held against its content.
WRITTEN = ("claims.json", "report.html", "charts", "tables")
HELD_AGAINST = {
    "runs": (
        *("findings.json", "scaling_report.json", "runs.csv", "cells.csv", "losses.csv", "waterfall.json"),
        *("traces.json", "campaign.yaml", "environment.json", *WRITTEN),
    ),
    "compare": ("findings.json", "comparison.json", *WRITTEN),
    "traces": ("findings.json", "traces.json", "waterfall.json", *WRITTEN),
    "reference": ("findings.json", *WRITTEN),
    "findings.json": ("scaling_report.json", "cells.csv", *WRITTEN),
    "traces.json": ("waterfall.json", *WRITTEN),
    "scaling_report.json": ("cells.csv", "waterfall.json", *WRITTEN),
    "losses.csv": ("cells.csv", *WRITTEN),
    **dict.fromkeys(("comparison.json", "waterfall.json", "runs.csv", "cells.csv"), WRITTEN),
    "claims.json": ("report.html",),
}
OF_ITSELF = ("it is empty", "it is not UTF-8 text", "no JSON")  # what makes a file unreadable, whatever others say
SHOWN = 5  # differences of a file, or of a folder of results: many have one cause


def verify(args: argparse.Namespace) -> None:
    """Recompute a campaign, make its checks again and print the differences. Raises SystemExit(1) if there are any.

    Where a package of the checks is not installed, only files are compared, and a line says so. Rules of the checks may
    be younger than the report: findings that only these rules make are printed, and do not count.
    """
    from scaleproof.verify.campaign import folder_of, verify
    from scaleproof.verify.raw import logs_are_gone
    from scaleproof.verify.signature import signer_of

    folder = folder_of(args.results)
    try:
        from scaleproof.conclude.publication.gate import findings_left_out, verify_and_audit, why_rules_differ
    except ModuleNotFoundError as error:
        print(f"findings are not looked for again: {error.name} is not installed")
        differences, runs, figures = verify(folder)
    else:
        differences, runs, figures = verify_and_audit(folder, say=print)
        if not differences and (reason := why_rules_differ(folder)):
            for difference in findings_left_out(folder):
                print(f"not counted, because {reason}: {difference}")

    lines, count, following_count = _sort_differences(folder, differences)
    for line in lines:
        print(line)
    work = f"{integer(figures)} figures recomputed from {plural(runs, 'run')}"
    is_published = (folder / "campaign.yaml").exists()
    if differences:
        more = f"; {following_count} more may follow from it" if following_count else ""
        again = "publish the results anew: scaleproof publish RESULTS --author NAME"
        advice = f". A publication is not edited: put the files back as they were published, or {again}" * is_published
        print(f"FAIL  {plural(count, 'difference')}{more}; {work}{advice}")
        for cure in () if advice else _cures(folder, differences):
            print(cure)
        raise SystemExit(1)
    gone = ["logs that are gone"] * (not is_published and logs_are_gone(folder))
    left_out = ["raw profiles"] * any(folder.glob("traces/*/raw")) + gone  # large, and summarised beside; no evidence
    but = f" but {' and '.join(left_out)}" * bool(left_out)
    of_folder = f" of {folder}" if folder != args.results else ""  # the user has given a page, not its folder
    print(f"PASS  {work}; every file{but}{of_folder} is the one that the report was made from")
    if key := signer_of(folder)[0]:
        print(f"signed by {key}")


def _cures(folder: Path, differences: Sequence["Difference"]) -> list[str]:
    """Return what makes files of a campaign's results again, in a line for runs, what is derived, and the rest."""
    from scaleproof.ground.campaign.campaign_paths import CAMPAIGNS
    from scaleproof.ground.records.run import COMPLETE, beside_again, retry_command
    from scaleproof.verify.manifest import LATER_FILE, LATER_FILES, LATER_RUN, OTHER_ENDS

    newer_files = {difference.file for difference in differences if NEWER in difference.problem}
    no_cure = newer_files | {one.file for one in differences if one.problem in (LATER_FILE, LATER_FILES)}
    no_cure |= {one.file for one in differences if one.problem.endswith((OTHER_ENDS, "report.html"))}  # they say theirs
    parts = [difference.file.split("/") for difference in differences if difference.file not in no_cure]
    folders = [names[1:3] for names in parts if names[0] == "runs" and len(names) > 3]
    # What is no repeat, and copies of runs that came after the report, are of no use where they are.
    copies = {os.path.dirname(difference.file) for difference in differences if difference.problem.startswith(COPIED)}
    later = {os.path.dirname(difference.file) for difference in differences if difference.problem == LATER_RUN}
    later_copies = copies & later
    stray = [names for names in folders if not REPEAT.fullmatch(names[1]) or f"runs/{'/'.join(names)}" in later_copies]
    others = dict.fromkeys("/".join(names) for names in stray)
    runs = _words_of_retry(folder, ["/".join(names) for names in folders if names not in stray])
    is_derived = any((names[0] != "runs" and len(names) == 1) or names[0] in ("tables", "charts") for names in parts)
    campaign = CAMPAIGNS / f"{folder.name}.yaml"
    cures = ["Update scaleproof, and verify again"] * bool(newer_files)
    renamed = [one for one in differences if one.former_name]
    cures += [f"Name it as it was: mv {folder / one.file} {folder / one.former_name}" for one in renamed]
    if others:
        cures.append(f"Move out of {folder / 'runs'} what is no run: {', '.join(others)}")
    if runs:
        again = f", or measure again: {retry_command(campaign, runs, folder.parent)}" if campaign.is_file() else ""
        if any(one.file.endswith(COMPLETE) and one.problem.startswith(CHANGES) for one in differences):
            again += f"; if they were measured since the report: {derive_again_command(folder / 'report.html')}"
        cures.append(f"Restore the files of runs{again}")
    elif is_derived and not renamed:  # a retry makes these again, too
        cures.append(f"What is derived is made again by: {derive_again_command(folder / 'report.html')}")
    if campaign.is_file():
        cures += beside_again(folder, [d.file for d in differences if d.file not in no_cure])
    return cures


def _words_of_retry(folder: Path, runs: Sequence[str]) -> list[str]:
    """Return the fewest words by which `retry` names `runs` (CELL/repK): CELL, or "all", where no others are there."""
    sound = {f"{place.parent.name}/{place.name}" for place in folder.glob("runs/*/rep*")} - set(runs)
    words = []
    for cell, of_cell in group_by(dict.fromkeys(runs), lambda run: run.partition("/")[0]).items():
        words += of_cell if len(of_cell) < 2 or any(run.startswith(f"{cell}/") for run in sound) else [cell]
    return words if sound or len(words) < 2 else ["all"]


def _sort_differences(folder: Path, differences: Sequence["Difference"]) -> tuple[list[str], int, int]:
    """Separate the differences to print from those that may follow from them.

    Returns the lines to print, how many differences they are, and how many may follow from them. Files that are
    missing, changed or renamed are at fault. The differences that may follow are in other files, or in the folder of a
    copied run: they are printed once the files at fault are back. At most SHOWN lines are on one file or folder.
    """
    from scaleproof.verify.manifest import LATER_FILE

    missing_files = [d.file for d in differences if _is_missing_file(d)]
    at_fault = {d.file for d in differences if d.where == "sha256" or d.problem == CHANGED or d.former_name}
    at_fault |= set(missing_files)
    copies = tuple(f"{os.path.dirname(d.file)}/" for d in differences if d.problem.startswith(COPIED))
    first_parts = {d: d.file.partition("/")[0] for d in differences}
    following = {part for source in first_parts.values() for part in HELD_AGAINST.get(source, ())}
    damages = tuple(f"{UNREADABLE}: {fault}" for fault in OF_ITSELF)
    damaged = {d for d in differences if d.problem.startswith(damages)}
    may_follow = {d for d in differences if first_parts[d] in following and d.problem != LATER_FILE} - damaged
    to_print = [d for d in differences if d.file in at_fault or d not in may_follow]
    if at_fault:  # what a check did not find, "scaling.md is missing", is named by the manifest's "is missing"
        to_print = [d for d in to_print if not d.problem.endswith(f" {MISSING}") or UNREADABLE in d.problem]
    to_print = [d for d in to_print if d.problem.startswith(COPIED) or not d.file.startswith(copies)]
    following_count = len(differences) - len(to_print)
    unknown = {d.file for d in to_print if d.where == "schema_version"}  # what else is said of these follows from it
    to_print = [d for d in to_print if d.file not in unknown or d.where == "schema_version"]
    of_files = [d for d in to_print if d.where == "sha256" or d.problem.startswith((MISSING, CHANGES))]
    edited = {d.file for d in of_files} & {d.file for d in to_print if d not in of_files}  # more is said of these
    to_print = [d for d in to_print if d not in of_files or d.file not in edited]

    line_of_file = _lines_on_missing(folder, missing_files)
    changed_files = [
        d.file for d in to_print if d in of_files and d.problem.startswith(CHANGES) and d.file.count("/") > 1
    ]
    line_of_file |= _lines_on_folders(changed_files, os.path.dirname, CHANGED)
    lines = []
    # By the first part of the path: a file, or a folder of results.
    for first_part, of_part in group_by(to_print, lambda difference: difference.file.partition("/")[0]).items():
        own_lines: dict[str, None] = {}  # each line once: one line may be on many missing files
        for difference in of_part:
            line = f"{difference}; {CHANGED}" if difference.file in edited else str(difference)
            is_of_whole_file = _is_missing_file(difference) or difference in of_files
            own_lines[line_of_file.get(difference.file, line) if is_of_whole_file else line] = None
        lines += list(own_lines)[:SHOWN]
        if len(own_lines) > SHOWN:
            lines.append(f"{first_part}: and {len(own_lines) - SHOWN} more")
    return list(dict.fromkeys(lines)), len(to_print), following_count  # one line may be on files of several groups


def _lines_on_missing(folder: Path, files: list[str]) -> dict[str, str]:
    """Return missing file -> one line on all missing files of its folder, for folders with several of them."""
    parents = {file: _folder_of_missing(folder, file) for file in files}
    lost_links = {file: parent for file, parent in parents.items() if parent and (folder / parent).is_symlink()}
    lines = _lines_on_folders(files, parents.__getitem__, "are missing")
    return lines | {file: f"{link}{path_fault(folder / link)}" for file, link in lost_links.items()}


def _lines_on_folders(files: Sequence[str], folder_of: Callable[[str], str], what: str) -> dict[str, str]:
    """Return file -> one line that all `files` of its folder are or did `what`, for folders with several of them."""
    line_of_file: dict[str, str] = {}
    for parent, of_parent in group_by(files, folder_of).items():
        if len(of_parent) > 1:
            names = ", ".join(os.path.relpath(file, parent) for file in of_parent[:SHOWN])
            more = ", ..." if len(of_parent) > SHOWN else ""
            line = f"{parent or 'results'}: {len(of_parent)} files {what}: {names}{more}"
            line_of_file |= dict.fromkeys(of_parent, line)
    return line_of_file


def _is_missing_file(difference: "Difference") -> bool:
    return difference.problem.startswith(MISSING) and not difference.where


def _folder_of_missing(folder: Path, file: str) -> str:
    """Return the topmost folder around a missing file that is missing too; where none is, the file's own folder."""
    parents = [str(parent) for parent in Path(file).parents if parent != Path()]  # from the file upwards
    return next(
        (parent for parent in reversed(parents) if not (folder / parent).is_dir()), parents[0] if parents else ""
    )


def why(args: argparse.Namespace) -> None:
    """Print where one figure of a report comes from: value, formula, files. Raises UserError for an unknown figure."""
    from scaleproof.verify.campaign import why

    print(why(args.results, args.figure.rpartition("#")[2]))  # of an address, report.html#cells/...


def publish(args: argparse.Namespace) -> None:
    """Pack a verified campaign as a folder that can be cited, and print where it is."""
    from scaleproof import __version__
    from scaleproof.conclude.publication.publish import Publication, publish

    request = Publication(tuple(args.author), args.licence, args.notes, args.anonymous, args.sign)
    out = publish(args.results, args.out, request, __version__)
    print(f"{out}: verified; start with {out}/report.html")


def gate(args: argparse.Namespace) -> None:
    """Compare throughput with earlier results, or over a history.

    Raises SystemExit(1) where throughput has become worse. Raises SystemExit(5) where that is undecided: a rate fell by
    more than is allowed, perhaps by chance, or a loss as large as --difference would not be detected.
    """
    if args.history:
        _history(args)
        return
    if not args.results or not args.baseline:
        options = "--baseline with at least three earlier results, or --history with all of them"
        raise UserError(f"give RESULTS and {options}")
    from scaleproof.conclude.publication.gate import compare_with_baselines, what_is_seen

    result = compare_with_baselines(args.results, args.baseline)
    for cell in result.new:
        print(f"new   {cell}: no earlier result has it")
    for line in result.left_out:
        print(f"not compared  {line}")
    # The first verdict is that on all cells together; `seen` is the loss that it would probably show.
    loss = (args.difference or USUAL_LOSS) / 100
    for verdict in result.verdicts:
        print(verdict.line(loss))
    for fault in result.faults:
        print(f"FAIL  {fault}")

    # Whether a loss as large as --difference would not be detected.
    is_blind = bool(args.difference and result.verdicts and result.verdicts[0].seen > loss)
    if result.verdicts:
        word = "cannot tell  " if is_blind and not result.worse else ""
        print(f"{word}{what_is_seen(result.verdicts[0], loss)}")
    if result.worse:
        raise SystemExit(1)
    if is_blind or any(verdict.hides(loss) for verdict in result.verdicts):
        raise SystemExit(UNDECIDED)


def _history(args: argparse.Namespace) -> None:
    """Print and draw the shifts in a history of results.

    Raises SystemExit(1) where the latest shift of a series is a loss, or cells are gone or changed.
    """
    from scaleproof.conclude.publication.history import find_history_shifts

    if args.chart and args.chart.suffix != ".svg":
        raise UserError(f"--chart {args.chart}: the name must end in .svg; a .png is written beside it")
    if args.results or args.baseline:
        raise UserError("--history takes all results, the newest too; RESULTS and --baseline are for one new result")
    series = find_history_shifts(args.history, args.cell)
    for line in series.left_out:
        print(f"left out  {line}")
    for shift in series.shifts:
        word = "FAIL" if shift in series.alarms else "shift"
        since = series.sessions[shift.session]
        interval = f"95 % CI {span_text(f'{100 * shift.low:+.2f}', f'{100 * shift.high:+.2f}')} %"
        change = f"{100 * shift.change:+.2f} % ({interval})"
        print(f"{word}  {shift.series}: {change} since {since.folder}, {since.date[:10]}")
    for cell in series.gone:
        newest = series.sessions[-1].folder
        print(f"FAIL  {cell}: the newest result, {newest}, has no numbers of it; the one before has")
    for cell, keys in series.changed.items():
        print(f"FAIL  {cell}: its configuration is not that of the result before the newest: {keys}")
    cells, shifts = plural(len(series.cells), "cell"), plural(len(series.shifts), "shift")
    has_failed = series.alarms or series.gone or series.changed
    word = "FAIL" if has_failed else "PASS"
    print(f"{word}  {len(series.sessions)} results, {cells}, {shifts}")
    if args.chart:
        _draw_history(series, args.chart)
    if has_failed:
        raise SystemExit(1)


def _draw_history(series: "History", out: Path) -> None:
    """Write the chart of a history to `out`, an .svg, and a .png beside it."""
    from scaleproof.conclude.report.charts.history import draw_history

    rates = [session.rates for session in series.sessions]
    # Cell -> number of the session -> rate.
    tracks = {cell: {n: of[cell] for n, of in enumerate(rates) if cell in of} for cell in series.cells}
    labels = [f"{session.commit[:7]} {session.date[:10]}" for session in series.sessions]
    shifts = group_by(series.shifts, lambda shift: shift.series)
    # Series -> number of the first session after each of its shifts.
    first_after = {name: [shift.session for shift in of_series] for name, of_series in shifts.items()}
    draw_history(tracks, labels, first_after, out.with_suffix(""))
    print(f"{out}: tokens/s over commits")


def index(args: argparse.Namespace) -> None:
    """Write index.html of all campaigns in a folder of results. Raises UserError where that folder has no report."""
    from scaleproof.conclude.report.compare_page import write_index
    from scaleproof.ground.campaign.campaign_paths import other_folder_hint

    if not args.results.exists():
        raise UserError(f"{args.results}: no such folder{other_folder_hint()}")
    if not any(args.results.glob("*/report.html")) and not any(args.results.glob("published/*/report.html")):
        raise UserError(f"{args.results}: no folder there has a report.html; give the folder of all results")
    entries = write_index(args.results)
    unread = [f"{entry.campaign}/{name}" for entry in entries for name in entry.unread]
    halves = [runs.parent for runs in sorted(args.results.glob("*/runs")) if not (runs.parent / "report.html").exists()]
    unread += [f"{folder.name}/report.html" for folder in halves]
    unread += [f"{place.name}/" for place in sorted(args.results.iterdir()) if not os.access(place, os.R_OK)]
    texts = [f"{name} ({_why_unread(args.results / name)})" for name in unread]
    more = (
        f"; not in it: {shortened(', '.join(texts), 300)}; scaleproof verify {args.results}/NAME says how it is made"
        if unread
        else ""
    )
    print(f"{args.results}/index.html: {plural(len(entries), 'campaign')}{more}")


def _why_unread(place: Path) -> str:
    if not os.path.lexists(place):
        return "missing"
    return "damaged" if os.access(place, os.R_OK) else "closed to this user"


def add(commands: Group) -> None:
    """Add `verify`, `why`, `publish`, `gate` and `index` to `commands`."""
    doc = "recompute every figure of a campaign from its raw files; exit code 1 where something differs"
    parser = add_command(commands, "verify", verify, doc, "scaleproof verify results/demo")
    parser.add_argument("results", type=path, metavar="RESULTS", help="results/<campaign>, or its report.html")
    example = "scaleproof why results/demo cells/ddp-n1x2/speedup"
    doc = "where a figure of the report comes from: value, formula, files, hashes"
    parser = add_command(commands, "why", why, doc, example)
    parser.add_argument("results", type=path, metavar="RESULTS", help="results/<campaign>, or its report.html")
    help_text = "the figure's id, as a click on it shows: cells/<cell>/<column>"
    parser.add_argument("figure", metavar="FIGURE", help=help_text)
    doc = "pack a verified campaign as a folder that can be cited: figures, series, tables, page, licence, RO-Crate"
    example = 'scaleproof publish results/demo --author "Jane Doe"'
    parser = add_command(commands, "publish", publish, doc, example)
    parser.add_argument("results", type=path, metavar="RESULTS", help="results/<campaign>")
    help_text = "who measured; repeat it for several"
    parser.add_argument("--author", type=text, action="append", required=True, help=help_text)
    parser.add_argument("--licence", choices=("CC-BY-4.0", "CC0-1.0"), default="CC-BY-4.0", help="of the results")
    parser.add_argument("--notes", default="", help="what a reader must know: interconnect, clocks, what is special")
    help_text = "sign the manifest with this SSH key (ssh-keygen -Y sign)"
    parser.add_argument("--sign", type=file_to_read, metavar="KEY", help=help_text)
    parser.add_argument("--anonymous", action="store_true", help="without host names; authors stay as they are given")
    help_text = (
        "make the publication's folder, CAMPAIGN_DEVICE_DATE, here, made if missing (default: results/published)"
    )
    parser.add_argument("--out", type=folder_to_write, default=RESULTS / "published", metavar="DIR", help=help_text)
    doc = "has throughput become worse than in earlier results, or shifted in their history? exit code 1 if so"
    example = (
        "scaleproof gate results/demo --baseline results/published/demo_*\n"
        "scaleproof gate --history results/published/demo_* --chart history.svg"
    )
    parser = add_command(commands, "gate", gate, doc, example)
    parser.add_argument("results", type=path, nargs="?", metavar="RESULTS", help="results/<campaign>, the new one")
    parser.add_argument("--baseline", type=path, nargs="+", metavar="DIR", help="at least three earlier results")
    parser.add_argument("--history", type=path, nargs="+", metavar="DIR", help="at least five results, the newest too")
    parser.add_argument("--cell", needs="--history", type=text, metavar="CELL", help="of a history: this cell alone")
    help_text = "a loss that is not allowed (5) and is to be seen 8 times in 10; else exit code 5"
    number = Number("%", most=99)
    parser.add_argument("--difference", needs="--baseline", type=number, metavar="PERCENT", help=help_text)
    help_text = "of a history: draw it over commits"
    parser.add_argument("--chart", needs="--history", type=chart_to_write, metavar="FILE.svg", help=help_text)
    doc = "write results/index.html: all campaigns with verdict, date, machine and findings"
    parser = add_command(commands, "index", index, doc, "scaleproof index")
    parser.add_argument("results", type=results_folder, nargs="?", default=str(RESULTS), help="default: results")
