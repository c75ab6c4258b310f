"""Is it true? The audit of any results, ours or anybody's, and what its findings mean."""

import argparse
from pathlib import Path

from scalebench.cli.arguments import Group, command
from scalebench.errors import UserError, nearest

# Rooms are imported inside the commands, as in conclude.py.


def audit_results(args: argparse.Namespace) -> None:
    from scalebench.audit.audit_paths import audit_paths

    given: dict[str, dict[str, int]] = {}
    for key, texts in (("world_size", args.world_size), ("global_batch", args.global_batch)):
        for text in texts:
            name, number = _given(key, text)
            given.setdefault(name, {})[key] = number
    result = audit_paths(args.paths, given)
    for name in filter(None, given):
        if not any(name in run for run in result.runs):
            raise UserError(
                f'"{name}={next(iter(given[name].values()))}": no run has "{name}" in its name.{nearest(name, result.runs)} '
                f"Runs: {', '.join(result.runs[:10]) or 'none'}"
            )
    if args.html:
        from scalebench.files import write_atomic
        from scalebench.report.audit_page import audit_page

        write_atomic(args.html, audit_page(result))
    if args.json:
        print(result.model_dump_json(indent=2))
    else:
        from scalebench.report.audit_text import audit_text

        print(audit_text(result))
    raise SystemExit(2 if not result.formats else 0 if result.clean else 1)


def explain(args: argparse.Namespace) -> None:
    from scalebench.report.audit_text import PAGES, explained, page_text

    if args.code is None:
        print(explained(), end="")
    elif args.code in PAGES:
        print(page_text(args.code))
    else:
        raise UserError(f'there is no page "{args.code}".{nearest(args.code, PAGES)} Pages: {", ".join(PAGES)}')


def rebuild(args: argparse.Namespace) -> None:
    from scalebench.importers.case_studies import write_benchmark

    write_benchmark(args.source, args.folder)


def five(args: argparse.Namespace) -> None:
    from scalebench.files import write_atomic
    from scalebench.report.case_studies import five_html, five_markdown, read_benchmark

    benchmarks = [read_benchmark(source, args.folder / "files" / source.stem) for source in args.sources]
    write_atomic(args.folder / "five-benchmarks.html", five_html(benchmarks))
    write_atomic(args.folder / "five-benchmarks.md", five_markdown(benchmarks))


def _given(key: str, text: str) -> tuple[str, int]:
    """`8`, or `NAME=8` for runs whose name contains NAME."""
    name, _, number = text.rpartition("=")
    if not number.isdecimal() or not 0 < int(number) < 10**9:
        raise UserError(f'--{key.replace("_", "-")} is "{text}"; allowed: a number above 0, or NAME=NUMBER')
    return name, int(number)


def _place(text: str) -> Path:
    if not text:  # which would be the working folder
        raise argparse.ArgumentTypeError("a path is empty")
    return Path(text)


def add(stages: Group) -> None:
    sub = command(
        stages, "audit", audit_results, "name what is wrong with a benchmark, ours or anybody's: exit code 0 or 1"
    )
    sub.add_argument(
        "paths",
        type=_place,
        nargs="+",
        metavar="PATH",
        help="files and folders; what they are is told by their contents",
    )
    sub.add_argument("--json", action="store_true", help="print JSON")
    sub.add_argument("--html", type=Path, metavar="FILE", help="write a page too")
    for name, what in (("world-size", "world size"), ("global-batch", "global batch")):
        sub.add_argument(
            f"--{name}",
            action="append",
            default=[],
            metavar="[NAME=]N",
            help=f"{what} that a file does not carry; NAME: part of its path",
        )
    page = command(stages, "explain", explain, "what a finding means, how it is detected, how to repair it")
    page.add_argument("code", nargs="?", help="code of a finding; all pages without it (docs/audit.md)")
    made = command(stages, "rebuild", rebuild, "write the files of a published benchmark from its figures")
    made.add_argument("source", type=Path, help="config/five/<name>.yaml")
    made.add_argument("folder", type=Path, help="where to write; emptied by the rule")
    page = command(stages, "five", five, "the page of five published benchmarks, audited")
    page.add_argument("folder", type=Path, help="results/five-benchmarks, with the rebuilt files in it")
    page.add_argument("sources", type=Path, nargs="+", help="config/five/*.yaml, in the order of the page")
