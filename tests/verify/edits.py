"""Edits of files of results, behind the code that writes them, with what `verify` says of each."""

import re
from collections.abc import Callable


def moved(match: re.Match[str]) -> str:
    return f'{match[1]}x="{1.2 * float(match[2])}"'


# Of the page alone: what would have to be edited there, or in the sentences.
EDITS: dict[str, tuple[str, str, str | Callable[[re.Match[str]], str], str]] = {
    "A25 the answer names another cell": ("report.html", r'(<p class="verdict">)ddp-n1x2', r"\1zero1-n1x2", "answer"),
    "E1 files of two cells exchanged": (
        "report.html",
        r'data-cell="ddp-n1x2" data-file="runs/ddp-n1x2/rep1',
        'data-cell="ddp-n1x2" data-file="runs/zero2-n1x2/rep1',
        "another file",
    ),
    "E2 a figure links to another cell": (
        "report.html",
        r'href="#from-ddp-n1x2" data-id="cells/ddp-n1x2/speedup"',
        'href="#from-ddp-n1x1" data-id="cells/ddp-n1x2/speedup"',
        "cells/ddp-n1x2/speedup",
    ),
    "E3 a ratio in words": ("claims.json", r"\d\.\d+x zero2", "9.87x zero2", "is at 9.87x"),
    "E4 an interval": ("report.html", r'title="(1\.\d+) \[[01]\.\d+', r'title="\1 [1.111111', "1.111111"),
    "a sentence is dropped": ("report.html", r"<li><strong>Slower.*?</li>", "", "sentences"),
    "a figure is dropped": (
        "claims.json",
        r"fsdp-n1x2 at [\d.]+x \([\d.-]+\)",
        "fsdp-n1x2",
        "does not say the figure",
    ),
    "a word is turned": (
        "claims.json",
        r"(zero3-n1x2 at [\d.]+x \([\d.-]+\)) is slower",
        r"\1 is faster",
        "says faster of zero3-n1x2",
    ),
    "pairs are turned": (
        "claims.json",
        r"ga4 (?:cannot be told apart from|is slower than)",
        "ga4 is faster than",
        "does not say that single-n1x1-ga4 ",
    ),
    "another cell is recommended": (
        "claims.json",
        r"Recommended: ddp-n1x2, the",
        "Recommended: fsdp-n1x2, the",
        "is not what recommended",
    ),
    "a claim is changed": (
        "claims.json",
        r'("id": "ratio/zero2-n1x2".*?"word": )"(?:undecided|slower)"',
        r'\1"faster"',
        "ratio/zero2-n1x2, word",
    ),
    "a loss of time": ("claims.json", r"exposed transfer [\d.]+ ms", "exposed transfer 0.05 ms", "0.05 is no figure"),
    "a drawing of the page": (
        "report.html",
        r'(run \d of \d[^<]*</title>.*?<use [^>]*?)\bx="([\d.]+)"',
        moved,
        "chart ranking: is not the drawing of charts/ranking.svg",
    ),
    "a finding is hidden": (
        "report.html",
        r"<li><b>[^<]*</b>: ([^<]*stage 3 of DeepSpeed[^<]*)</li>",
        "",
        'state-differs: does not have "',
    ),
    "a run has no findings": (
        "report.html",
        r'<a class="chip note" href="#state-differs">state-differs \(note\)</a>\s*</div>\s*</td><td>ok',
        "none</div></td><td>ok",
        "its findings are others than those of findings.json: state-differs",
    ),
    "a loss of a run": (
        "report.html",
        r'(data-file="runs/ddp-n1x2/rep2.*?<td class="number"[^<]*</td>\s*<td class="number"[^<]*</td>\s*'
        r'<td class="number" data-order=")[^"]*',
        r"\g<1>5.0",
        "ddp-n1x2/rep2, loss_last: is 5.0",
    ),
    "a claim in a table": ("tables/comparison.md", r"\| (?:none|slower) ", "| faster ", "accumulation, claim"),
    "a bound in a table": ("tables/comparison.csv", r"(,ok,,\d,\d,[\d.]+,)[\d.]+", r"\g<1>0.1", "accumulation, low"),
    "a bound in LaTeX": ("tables/comparison.tex", r"(?<= \[)[\d.]+(?=,~)", "0.1", "tables/comparison.tex"),
    "a lost part in a table": (
        "tables/waterfall.md",
        r"(\| –  +\| )[\d.]+",
        r"\g<1>0.05",
        "ddp-n1x2, exposed transfer",
    ),
    "a lost part in a CSV file": ("tables/waterfall.csv", r"transfer,[\d.]+", "transfer,0.05", "exposed transfer"),
    "a setting of a run": ("runs.csv", r"(?<=,gpt2-tiny,)2048", "4096", "vocab_size: is 4096"),
    "a commit": ("runs.csv", r"[0-9a-f]{40}", "f" * 40, "git_commit"),
    "a count of runs": ("tables/scaling.csv", r"(?<=,bpe-2048,128,8,1,8,1,1,1,)\d(?=,)", "9", "ddp-n1x1, runs"),
    "a setting of a series": ("scaling_report.json", r'"tokenizer": "bpe-2048"', '"tokenizer": "gpt2"', "tokenizer"),
    "a setting of all rows": ("tables/scaling.md", "seq len 128", "seq len 256", "In all rows, seq len"),
    "no next step": ("claims.json", r'(?<="topic": )"next"', '"later"', "no sentence says what to do next"),
    "a part of what is unknown": ("claims.json", "batch, host gaps", "batch", "host gaps, by waterfall.json"),
    "a claim of a recommendation": (
        "claims.json",
        r'("recommended/1",\s*)"ratio/zero1-n1x2",(\s*"ratio/zero2-n1x2"\s*\]\s*\},\s*\{\s*"topic": "slower")',
        r"\1\2",
        "does not list ratio/zero1-n1x2",
    ),
    "a run of a finding": ("report.html", r"(rep1, rep2[^<]*), rep\d</b>", r"\1</b>", "its runs are others"),
    "a number of runs": ("report.html", r"zero3-n1x2 \(\d runs\)", "zero3-n1x2 (3 runs)", "is said of 3 runs"),
    "a cell alone is recommended": (
        "scaling_report.json",
        r'("devices": 1,(?:(?!"recommendation").)*"recommendation": )null',
        r'\1{"cell": "ddp-n1x1"}',
        "recommendation: is one",
    ),
    "n of an estimate": ("scaling_report.json", r'("speedup": \{[^}]*"n": )\d', r"\g<1>9", "speedup, n"),
    "n of a claim": ("claims.json", r'("id": "rate/ddp-n1x2".*?"n": )\d', r"\g<1>9", "rate/ddp-n1x2, n"),
    "n of a chart": ("charts/speedup.svg", r"n=\d\)(?=</title>)", "n=9)", "shows 9"),
    "a number at an axis": ("charts/ranking.svg", r">5,000<", ">6,000<", "do not stand where they belong"),
    "devices at an axis": ("charts/speedup.svg", r">2</text>", ">3</text>", "axis of devices"),
    "a run is hidden": ("report.html", r'<tr[^>]*data-file="[^"]*zero1-n1x2/rep3[^"]*".*?</tr>', "", "table of runs"),
    "another campaign": ("claims.json", r'"campaign": "demo"', '"campaign": "other"', "claims.json: campaign"),
    "a sentence on collectives": ("report.html", r"<li>all_reduce: .*?</li>", "", "trace of ddp-n1x2: is not there"),
    "n of a waterfall": ("waterfall.json", r'"n": \d', '"n": 9', "ddp-n1x2, n: is 9"),
    "pairs that would show it": ("comparison.json", r'"pairs_low": \d+', '"pairs_low": 7', "pairs_low: is 7"),
    "a chart is hidden": ("report.html", r'<figure id="chart-throughput">.*?</figure>', "", "throughput: is not there"),
    "a slower cell beside a recommended one": (
        "claims.json",
        r'("recommended/1",\s*)("ratio/zero1-n1x2")',
        r'\1"ratio/fsdp-n1x2", \2',
        "lists ratio/fsdp-n1x2",
    ),
    "a size is not ranked": (
        "scaling_report.json",
        r'("ranking": \[).*?(?=\{\s*"devices": 2)',
        r"\1",
        "has none of ddp-n1x1 alone",
    ),
    "transfers that can be hidden": (
        "claims.json",
        "long enough to hide them",
        "too short to hide them",
        "long enough",
    ),
    "a step under the profiler": (
        "traces.json",
        r'("overhead": \{\s*"value": )[\d.]+',
        r"\g<1>9.9",
        "overhead, value",
    ),
    "a part of a step twice": (
        "waterfall.json",
        r'(\{\s*"name": "waiting for data".*?\})',
        r"\1, \1",
        "ddp-n1x2: has a part twice",
    ),
    "a word in place of a figure": (
        "tables/strong.md",
        r"1\.\d+ \[[\d.]+,\s*[\d.]+\]",
        "1 (baseline)",
        "ddp-n1x2, speed-up",
    ),
    "no baseline": ("tables/scaling.md", r"1 \(baseline\)( +\| –)", r"–\1", "raw files give 1 (baseline)"),
    "all runs of two kinds": ("tables/scaling.md", r"(\] +\| )(\d) ", r"\1\2 of 9 ", "n: is"),
    "a setting is left out": ("tables/scaling.md", "seq len 128, ", "", "does not have seq len"),
    "a column is left out": ("tables/scaling.tex", r"\{tokens/s", "{rate", "is not there, and is in scaling.md"),
    "other machines": (
        "scaling_report.json",
        r'("cell": "zero1-n1x2".*?"incomparable": \[)\]',
        r'\1"torch_version"]',
        "does not differ from",
    ),
    "the fastest alone": (
        "claims.json",
        r'("rate/ddp-n1x2",\s*)"ratio/zero1-n1x2",',
        r"\1",
        "fastest: does not list ratio/zero1-n1x2",
    ),
    "trust": ("report.html", r"(Can I trust it\?</b> <strong>)yes", r"\1no", "trust: does not have"),
    "the whole job": ("report.html", r'<p class="soft">In the timed window.*?</p>', "", "whole job: is not there"),
    "a cell is hidden": (
        "report.html",
        r'<tr><th scope="row" id="row-zero1-n1x2".*?</tr>',
        "",
        "zero1-n1x2: has no such",
    ),
    "a claim that nobody makes": (
        "claims.json",
        r'(?<="claims": \[\n        )"fastest/1"',
        '"fastest/9"',
        "is no claim",
    ),
    "a version": ("report.html", r'(<th scope="row">torch</th>\s*<td>)[^<]*', r"\g<1>1.0", "torch"),
}
