"""Edits of a page, with what `verify` says of each: where it is not what its files give."""

import re
from collections.abc import Callable


def moved(match: re.Match[str]) -> str:
    return f'{match[1]}x="{1.2 * float(match[2])}"'


PAGE_EDITS: dict[str, tuple[str, str, str | Callable[[re.Match[str]], str], str]] = {
    "A25 the answer names another cell": (
        "report.html",
        r'(<p class="verdict">)ddp-n1x2',
        r"\1zero1-n1x2",
        'report.html: "zero1-n1x2 pays off:',
    ),
    "E1 files of two cells exchanged": (
        "report.html",
        r'data-cell="ddp-n1x2" data-file="runs/ddp-n1x2/rep1',
        'data-cell="ddp-n1x2" data-file="runs/zero2-n1x2/rep1',
        'report.html: "',
    ),
    "E2 a figure links to another cell": (
        "report.html",
        r'href="#from-ddp-n1x2" data-id="cells/ddp-n1x2/speedup"',
        'href="#from-ddp-n1x1" data-id="cells/ddp-n1x2/speedup"',
        "cells/ddp-n1x2/speedup",
    ),
    "E4 an interval": ("report.html", r'title="(1\.\d+) \([01]\.\d+', r'title="\1 (1.111111', "1.111111"),
    "a sentence is dropped": (
        "report.html",
        r"<li><strong>(?:Lead|Clearly faster):.*?</li>",
        "",
        'report.html: "',
    ),
    "a drawing of the page": (
        "report.html",
        r'(run \d of \d[^<]*</title>.*?<use [^>]*?)\bx="([\d.]+)"',
        moved,
        'report.html: "chart Throughput of all cells',
    ),
    "a finding is hidden": (
        "report.html",
        r"<li><b>[^<]*</b>: ([^<]*stage 3 of DeepSpeed[^<]*)</li>",
        "",
        'report.html: "zero3-n1x2/rep1, rep2, rep3, rep4, rep5, rep6',
    ),
    "a run has no findings": (
        "report.html",
        r'<a class="chip note" href="#state-differs">state-differs \(note\)</a>\s*</div>\s*</td><td>ok',
        "none</div></td><td>ok",
        'report.html: "none',
    ),
    "a loss of a run": (
        "report.html",
        r'(data-file="runs/ddp-n1x2/rep2.*?<td class="number"[^<]*</td>\s*<td class="number"[^<]*</td>\s*'
        r'<td class="number" data-order=")[^"]*',
        r"\g<1>5.0",
        'report.html: "6.76080',
    ),
    "a run of a finding": (
        "report.html",
        r"(rep1, rep2[^<]*), rep\d</b>",
        r"\1</b>",
        'report.html: "zero3-n1x2/rep1, rep2, rep3, rep4, rep5:',
    ),
    "a number of runs": (
        "report.html",
        r"zero3-n1x2 \(\d runs\)",
        "zero3-n1x2 (3 runs)",
        'report.html: "note state-differs in zero3-n1x2',
    ),
    "a run is hidden": (
        "report.html",
        r'<tr[^>]*data-file="[^"]*zero1-n1x2/rep3[^"]*".*?</tr>',
        "",
        'report.html: "<tr data-cell=',
    ),
    "a sentence on collectives": ("report.html", r"<li>all_reduce: .*?</li>", "", 'report.html: "all_reduce:'),
    "a chart is hidden": (
        "report.html",
        r'<figure id="chart-throughput">.*?</figure>',
        "",
        'report.html: "<figure id=',
    ),
    "trust": ("report.html", r"(Can I trust it\?</b> <strong>)yes", r"\1no", 'report.html: "Can I trust it? no:'),
    "the whole job": (
        "report.html",
        r'<p class="soft">In the timed window.*?</p>',
        "",
        'report.html: "In the timed window. The whole job of ddp-n1x',
    ),
    "a cell is hidden": (
        "report.html",
        r'<tr><th scope="row" id="row-zero1-n1x2".*?</tr>',
        "",
        'report.html: "zero1-n1x2": is left out',
    ),
    "a version": ("report.html", r'(<th scope="row">torch</th>\s*<td>)[^<]*', r"\g<1>1.0", 'report.html: "1.0'),
    "a hash that is shown": (
        "report.html",
        r'(data-file="runs/ddp-n1x2/rep1.*?<code>)[0-9a-f]{12}',
        r"\g<1>000000000000",
        'report.html: "000000000000',
    ),
    "a cell of a finding": (
        "report.html",
        r'(<span class="where">in )zero3-n1x2',
        r"\1zero2-n1x2",
        'report.html: "note state-differs in zero2-n1x2',
    ),
    "a threshold": ("report.html", "below 0.7 is low", "below 0.3 is low", 'report.html: "An efficiency below'),
    "hidden columns are shown": ("report.html", r'(<th scope="col" class="number) more"', r'\1"', 'report.html: "'),
    "no switch for hidden columns": (
        "report.html",
        r'<label class="switch">.*?</label>',
        "",
        'report.html: "all columns',
    ),
    "hidden columns": ("report.html", "all columns \\(10 more", "all columns (11 more", 'report.html: "all columns'),
    "clipping": ("report.html", "clipping at 1,", "no clipping,", 'report.html: "adamw, learning rate'),
    "a title": ("report.html", "<h1>Which way", "<h1>No way", 'report.html: "No way of sharing the training of a tiny'),
    "traced steps": (
        "report.html",
        r'(torch\.profiler</td>\s*<td class="number">)\d+',
        r"\g<1>9",
        'report.html: "9',
    ),
    "series of one size": (
        "report.html",
        "no speed-up: fsdp",
        "no speed-up: ddp",
        'report.html: "In the timed window, relative to the sam',
    ),
    "a revision": ("report.html", r"python-docs \(", "python-docs (x", 'report.html: "python-docs'),
    "a figure whose digits a name has": (
        "report.html",
        r"(start-up, warm-up and validation, runs at\s*(?:~ )?)[\d.]+",
        r"\g<1>4.06",
        'report.html: "In the timed window. The whole job of ',
    ),
    "a level that is defined": (
        "report.html",
        r'(<th scope="row">)95(\s% CI)',
        r"\g<1>99\2",
        'report.html: "99 % CI',
    ),
    "a method of intervals": ("report.html", "; interval: Student[^<]*", "", 'report.html: "n'),
    "a caption": (
        "report.html",
        "<figcaption>Median over runs",
        "<figcaption>Least of all runs",
        'report.html: "Least of all runs. Rates are of the time',
    ),
    "the caption of another chart": (
        "report.html",
        r"<figcaption>Median over runs\. Rates are of the timed window alone\.",
        "<figcaption>In the window. Busy is not fast: a GPU that waits inside a kernel counts as busy.",
        'report.html: "In the window. Busy is not fast: a GPU t',
    ),
    "the title of a chart": (
        "report.html",
        r'(<figure id="chart-job_time"><h3 class="unseen">)[^<]*',
        r"\1Speed-up",
        'report.html: "Speed-up',
    ),
    "a sentence of the page": (
        "report.html",
        "a difference is undecided",
        "a difference is shown",
        'report.html: "The interval contains',
    ),
    "a sentence more": (
        "report.html",
        r'(<section id="charts">)',
        r"\1<p>DDP is best.</p>",
        'report.html: "DDP is best.',
    ),
    "a command": (
        "report.html",
        "snakemake --cores 2 results/demo",
        "snakemake --cores 9 results/demo",
        'report.html: "config/campaigns/demo.yaml; rebuild this',
    ),
    "runs that were compared": (
        "report.html",
        r"in the \d+ runs compared",
        "in the 99 runs compared",
        'report.html: "Can I trust it? yes:',
    ),
}
