"""Is it true? The audit of any results, ours or anybody's, and what its findings mean."""

import argparse
import glob
import json
import os
import re
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaleproof import __version__
from scaleproof.cli.arguments import Group, add_command
from scaleproof.cli.values import page_to_write, path, url
from scaleproof.cli.values import text as text_type
from scaleproof.ground.errors import UserError, did_you_mean, nearest_path, path_fault
from scaleproof.ground.files import write_atomic

if TYPE_CHECKING:
    from scaleproof.auditor.audit import Audit

# Packages are imported inside the commands, as in analyse.py.

STANDARD_INPUT = Path("-")
MOST_PIPED = 256 << 20  # bytes of standard input, which is kept in memory
NARROWEST = 40  # characters of a console that texts are written for
FORMATS = ("text", "json", "markdown", "sarif", "github")
SEVERITIES = ("invalid", "suspect", "note")  # the most severe first


def audit_results(args: argparse.Namespace) -> None:
    """Audit files and folders, and print the findings.

    Ends with SystemExit: 1 for findings of the severity of `--fail-on` or above, 0 without them, 2 if no file could be
    read, this user may not open one, or a claims file has a mistake.
    """
    from scaleproof.auditor.audit import NoResult, audit_paths
    from scaleproof.auditor.waivers import WAIVER_FILE, read_waivers, without_waived
    from scaleproof.ground.records.watched import watched_folder

    args.paths = [match for given in args.paths for match in _matches_of(given)]
    stated = _stated_of_runs(args)  # part of a run's name, "" for all runs -> {"world_size": 8}
    for folder in dict.fromkeys(filter(None, map(watched_folder, args.paths))):
        remark = f"scaleproof.watch recorded {folder}; its checks: scaleproof watched {folder}"
        print(f"scaleproof: {remark}", file=sys.stderr)
    for place in args.paths:
        if place != STANDARD_INPUT and place.exists() and (fault := path_fault(place)):
            raise UserError(f"{place}{fault}; what a program prints is read like this: PROGRAM | scaleproof audit -")
    waivers = read_waivers(WAIVER_FILE) if WAIVER_FILE.exists() else []
    with _standard_input_as_file(args.paths) as paths:
        try:
            result = audit_paths(paths, stated)
        except NoResult as error:
            if not args.allow_empty:
                raise
            print(f"scaleproof: {error}", file=sys.stderr)
            raise SystemExit(0) from None
    waived = without_waived(result, waivers, args.paths, date.today())
    for remark in waived.remarks:
        print(f"{WAIVER_FILE}: {remark}", file=sys.stderr)
    _output_audit(args, waived.audit, len(waived.findings))
    if not result.formats:  # no file could be read
        raise SystemExit(2)
    failing_severities = SEVERITIES[: SEVERITIES.index(args.fail_on) + 1]
    if any(waived.audit.count(severity) for severity in failing_severities):
        raise SystemExit(1)
    # What this user may not open may hold the fault; a claims file with a mistake was meant to be part of the audit.
    raise SystemExit(2 if {"permission", "claims file"} & set(result.not_read) else 0)


def _matches_of(given: Path) -> list[Path]:
    """Return the files that a pattern matches, which quotes or the YAML of a CI keep from the shell; else the path.

    Raises UserError where it matches none.
    """
    if given.exists() or not glob.has_magic(str(given)):
        return [given]
    matches = [Path(match) for match in sorted(glob.glob(str(given), recursive=True))]
    if not matches:
        raise UserError(f"{given}: the pattern matches no file or folder here.{nearest_path(given)}")
    return matches


def _output_audit(args: argparse.Namespace, result: "Audit", waived: int) -> None:
    """Print the audit in the format of `--format`, and write its page if `--html` names one."""
    if args.html:
        from scaleproof.auditor.audit_page import audit_page

        write_atomic(args.html, audit_page(result, datetime.now().date().isoformat(), args.link or ""))
    if args.format == "json":
        print(result.model_dump_json(indent=2))
    elif args.format in ("sarif", "github"):
        from scaleproof.auditor.annotations import github, sarif

        text = sarif(result, args.paths, __version__) if args.format == "sarif" else github(result, args.paths)
        print(text, end="\n" if text else "")
    else:
        from scaleproof.auditor.audit_text import WIDTH, audit_markdown, audit_text

        width = max(shutil.get_terminal_size((WIDTH, 24)).columns, NARROWEST)
        print(audit_markdown(result, waived) if args.format == "markdown" else audit_text(result, width, waived))


@contextmanager
def _standard_input_as_file(paths: list[Path]) -> Iterator[list[Path]]:
    """Yield `paths`, with "-" replaced by a file that has the text of standard input.

    The file's name has no ending, so that it does not say what it is. Raises UserError where the text is empty,
    or has no end.
    """
    if STANDARD_INPUT not in paths:
        yield paths
        return
    from scaleproof.auditor.read.file_names import PIPED

    text = sys.stdin.buffer.read(MOST_PIPED + 1) if sys.stdin else b""  # None: it is closed
    if len(text) > MOST_PIPED:
        raise UserError(f"standard input has more than {MOST_PIPED >> 20} MiB; write it to a file, and name that")
    if not text.strip():
        raise UserError("standard input is empty; a table, a log or a record of results is expected (docs/audit.md)")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / PIPED
        file.write_bytes(text)
        yield [file if path == STANDARD_INPUT else path for path in paths]


def explain(args: argparse.Namespace) -> None:
    """Print the page of a finding, the meaning of a word or a column, the index, or all pages.

    Raises UserError where there is no such finding or word.
    """
    from scaleproof.ground.words import all_words, bare_word, meaning_of_word

    # As UTF-8, whatever the locale says: † is a word of its own.
    args.code = [os.fsencode(word).decode("utf-8", "replace") for word in args.code]
    phrase = " ".join(args.code)
    text = meaning_of_word(phrase) or (phrase and _definition(phrase))
    if text and not args.all:
        print(textwrap.fill(text, 120))
        return

    from scaleproof.ground.columns import COLUMNS
    from scaleproof.ground.findings.pages import index, written_pages

    if args.all:
        from scaleproof.auditor.audit_text import explained  # of the checks themselves: it writes what is read below

        if args.code:
            raise UserError(f"--all explains every finding; leave it out for {phrase} alone")
        print(explained(), end="")
        return
    pages = written_pages()
    code = "-".join(bare_word(phrase).split())  # `explain machine busy`, "state-differs (note)" are clear as well
    if not code:
        print(index())
        print(textwrap.fill(f"Words of reports: {', '.join(all_words())}.", 120))
    elif code in pages:
        print(pages[code].rstrip())
    else:
        known = {*pages, *filter(meaning_of_word, args.code), *filter(_definition, args.code)}
        if unknown := "-".join(word for word in args.code if word not in known):
            columns = [name for column in COLUMNS.values() for name in (column.name, bare_word(column.heading or ""))]
            words = [*pages, *all_words(), *filter(_definition, columns)]
            hint = did_you_mean(unknown, words)
            if len(args.code) > 1:  # "machine bussy": machine-busy, not bus GB/s
                hint = did_you_mean(unknown, pages) or did_you_mean(code, pages) or hint
            raise UserError(f'there is no finding or word "{unknown}".{hint} `scaleproof explain` lists them.')
        for number, word in enumerate(args.code):
            print("\n" * (number > 0), end="")
            explain(argparse.Namespace(code=[word], all=False))


def _definition(text: str) -> str | None:
    """Return the meaning of a column (by its name or heading), of a key of campaigns or of a chart (by its title).

    Returns None for any other text.
    """
    from scaleproof.ground.chart_words import CHART_WORDS
    from scaleproof.ground.columns import COLUMNS
    from scaleproof.ground.words import bare_word

    spellings = {bare_word(text), bare_word(text.replace(" ", "_"))}  # "scaling efficiency" is scaling_efficiency
    for column in COLUMNS.values():
        headings = filter(None, map(bare_word, (column.name, column.heading, column.in_series)))
        if not spellings.isdisjoint(headings) and column.definition:
            return f"{column.definition} ({column.unit})" if column.unit else column.definition
    key = _key_of_campaign(re.sub(r"\W", "_", text.lower().rpartition(".")[2]))  # "work.seq-len" -> "seq_len"
    captions = (chart.caption for chart in CHART_WORDS.values() if chart.title.lower() == bare_word(text))
    return key or next(captions, None)


def _key_of_campaign(name: str) -> str | None:
    """Return the meaning of a key of campaign files, such as margin.

    Returns None where there is no such key.

    It is read from the file of the JSON schema: generating the schema from its classes would take a second.
    """
    schema = json.loads((Path(__file__).parents[1] / "workflow_files/config/campaign.schema.json").read_text())
    keys = [section.get("properties", {}) for section in (schema, *schema["$defs"].values())]
    entry: dict[str, Any] = next((of_section[name] for of_section in keys if name in of_section), {})
    return f"Key of a campaign: {entry['description']}" if "description" in entry else None


def _stated_of_runs(args: argparse.Namespace) -> dict[str, dict[str, int]]:
    """Return what --world-size and --global-batch state: part of a run's name -> {"world_size": 8}.

    Each is given as "NAME=8", for the runs with NAME in their names, or as "8", for all runs: their part is "". Raises
    UserError for any other text, and for two numbers of the same runs.
    """
    stated: dict[str, dict[str, int]] = {}
    for key, texts in (("world_size", args.world_size), ("global_batch", args.global_batch)):
        for text in texts:
            name, number = _parse_number(key, text)
            facts = stated.setdefault(name, {})
            if facts.get(key, number) != number:
                option = key.replace("_", "-")
                runs = f"runs with {name} in their name" if name else "all runs"
                raise UserError(f"--{option} is {facts[key]} and {number} for {runs}; give one of them")
            facts[key] = number
    return stated


def _parse_number(key: str, text: str) -> tuple[str, int]:
    """Split "NAME=8", for runs whose name contains NAME, into ("NAME", 8); "8", for all runs, into ("", 8).

    `key`: the option, for the message. Raises UserError where the text has no such number.
    """
    name, _, number = text.rpartition("=")
    if not number.isdecimal() or not 0 < int(number) < 10**9 or text.startswith("="):
        option = key.replace("_", "-")
        raise UserError(f'--{option} is "{text}"; allowed: a number from 1 to 999,999,999, or NAME=NUMBER')
    return name, int(number)


def add(commands: Group) -> None:
    doc = (
        "name what is wrong with a benchmark, ours or anybody's; "
        "exit code 0 (nothing above note), 1 (findings) or 2 (unreadable)"
    )
    example = (
        "scaleproof audit results/demo\n"
        "scaleproof audit ../somebody/logs --world-size 8 --html audit.html\n"
        "scaleproof audit logs --global-batch run2=64   # for runs with run2 in their path\n"
        "pbpaste | scaleproof audit -                   # a table from the clipboard\n\n"
        "Waivers: scaleproof.toml in this folder names findings that are known (docs/ci.md)."
    )
    parser = add_command(commands, "audit", audit_results, doc, example)
    help_text = "files and folders, their formats recognised by their contents; -: a table or log on standard input"
    parser.add_argument("paths", type=path, nargs="+", metavar="PATH", help=help_text)
    help_text = (
        "how to print it: text, json, markdown (for an issue), sarif, github (notes beside the lines of a change)"
    )
    formats = parser.add_mutually_exclusive_group()
    formats.add_argument("--format", choices=FORMATS, default="text", help=help_text)
    for name in ("json", "markdown"):
        help_text = f"the same as --format {name}"
        formats.add_argument(f"--{name}", dest="format", action="store_const", const=name, help=help_text)
    help_text = "the least severity for which the exit code is 1 (default: suspect)"
    parser.add_argument("--fail-on", choices=SEVERITIES, default="suspect", help=help_text)
    help_text = "exit code 0 where no file has a result, as of a change that touches none"
    parser.add_argument("--allow-empty", action="store_true", help=help_text)
    parser.add_argument("--html", type=page_to_write, metavar="FILE", help="write a page as well")
    help_text = "where the files can be seen, for links of the page: https://github.com/OWNER/NAME/blob/main"
    parser.add_argument("--link", needs="--html", type=url, metavar="URL", help=help_text)
    for name, what in (("world-size", "world size"), ("global-batch", "global batch")):
        help_text = f"{what}, where a file does not state it; NAME: part of its path"
        parser.add_argument(f"--{name}", action="append", default=[], metavar="[NAME=]N", help=help_text)

    doc = (
        "what a finding means, how it is detected, how to fix it; what a word of a report means; without CODE, an index"
    )
    example = "scaleproof explain\nscaleproof explain super-linear\nscaleproof explain undecided"
    parser = add_command(commands, "explain", explain, doc, example)
    help_text = "code of a finding, a word, or a column"
    parser.add_argument("code", nargs="*", type=text_type, metavar="CODE", help=help_text)
    parser.add_argument("--all", action="store_true", help="print all pages as Markdown (docs/findings.md)")
