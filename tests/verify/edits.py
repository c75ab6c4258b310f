"""Edits of files of results, behind the code that writes them, with what `verify` says of each."""

import re
from collections.abc import Callable

from verify.page_edits import PAGE_EDITS


def figure_of_no_run(match: re.Match[str]) -> str:
    """The first row of a table with joules, which no run on CPUs has."""
    place = match[1].strip().split(",").index("joules_per_token")
    row, *others = match[2].split("\n")
    values = row.split(",")
    return "\n".join([f"{match[1]}{','.join([*values[:place], '0.5', *values[place + 1 :]])}", *others])


EDITS: dict[str, tuple[str, str, str | Callable[[re.Match[str]], str], str]] = PAGE_EDITS | {
    "a detectable effect, within what draws decide": (
        "comparison.json",
        r'("detectable_high": )([\d.]+)',
        lambda match: f"{match[1]}{1.006 * float(match[2])}",
        "does not follow from detectable_low",
    ),
    "a detectable effect, beyond what draws decide": (
        "scaling_report.json",
        r'("detectable": )([\d.]+)',
        lambda match: f"{match[1]}{1.012 * float(match[2])}",
        "resolve, detectable",
    ),
    "E3 a ratio in words": ("claims.json", r"\d\.\d+x (as fast as )?zero2", r"9.87x \1zero2", "is at 9.87x"),
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
    "a claim in a table": (
        "tables/comparison.md",
        r"\| (?:none|slower) ",
        "| faster ",
        'tables/comparison.md: "| accumulation | single-n1x1-ga1 | singl',
    ),
    "a bound in a table": (
        "tables/comparison.csv",
        r"(,ok,,\d,\d,[\d.]+,)[\d.]+",
        r"\g<1>0.1",
        'tables/comparison.csv: "accumulation,single-n1x1-ga1,single-n1x1',
    ),
    "a bound in LaTeX": ("tables/comparison.tex", r"(?<=\{\} \()[\d.]+(?=-)", "0.1", "tables/comparison.tex"),
    "a lost part in a table": (
        "tables/waterfall.md",
        r"(\| –  +\| )[\d.]+",
        r"\g<1>0.05",
        'tables/waterfall.md: "| ddp-n1x2 | strong    |',
    ),
    "a lost part in a CSV file": ("tables/waterfall.csv", r"transfer,[\d.]+", "transfer,0.05", "exposed transfer"),
    "a setting of a run": ("runs.csv", r"(?<=,gpt2-tiny,)2048", "4096", "vocab_size: is 4096"),
    "a commit": ("runs.csv", r"[0-9a-f]{40}", "f" * 40, "git_commit"),
    "a count of runs": ("tables/scaling.csv", r"(?<=,bpe-2048,128,8,1,8,1,1,1,)\d(?=,)", "9", "ddp-n1x1, runs"),
    "a series in a table": ("tables/scaling.csv", ",ddp,strong,", ",,strong,", "ddp-n1x1, series: is empty"),
    "a setting of a series": ("scaling_report.json", r'"tokenizer": "bpe-2048"', '"tokenizer": "gpt2"', "tokenizer"),
    "a setting of all rows": (
        "tables/scaling.md",
        "seq len 128",
        "seq len 256",
        'tables/scaling.md: "In all rows: evidence built, task langua',
    ),
    "no next step": (
        "claims.json",
        r'(?<="topic": )"next"',
        '"later"',
        'claims.json: "later: Next: more devices, a larger mode',
    ),
    "an invented part of what was lost": (
        "claims.json",
        r'(\{[^{}]*"lost/ddp-n1x2/)measured("[^{}]*\{[^{}]*\}[^{}]*\},)',
        lambda match: f"{match[0]} {match[1]}luck{match[2]}",
        "lost/ddp-n1x2/luck: is a claim that the raw files do not support",
    ),
    "a known part called unknown": (
        *("claims.json", "Not measured: ", "Not measured: exposed transfer, ", 'claims.json: "lost: ddp-n1x2'),
    ),
    "a part of what is unknown": ("claims.json", "batch, host gaps", "batch", 'claims.json: "lost: ddp-n1x2'),
    "a claim of a recommendation": (
        "claims.json",
        r'("recommended/1",\s*)"ratio/zero1-n1x2",(\s*"ratio/zero2-n1x2"\s*\]\s*\},\s*\{\s*"topic": "slower")',
        r"\1\2",
        'claims.json: "recommended: Recommended: ddp-n1x2, the',
    ),
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
    "another campaign": ("claims.json", r'"campaign": "demo"', '"campaign": "other"', "claims.json: campaign"),
    "a figure as a text": (
        "scaling_report.json",
        r'"confidence": ([\d.]+)',
        r'"confidence": "\1"',
        "is 0.95 (a text), the",
    ),
    "a word in a table of losses": ("losses.csv", r"\d+\.\d+", "abc", "not readable: no number: 'abc'"),
    "a waterfall of texts": ("waterfall.json", r": (\d+\.\d+)", r': "\1"', "or not what this version writes"),
    "n of a waterfall": ("waterfall.json", r'"n": \d', '"n": 9', "ddp-n1x2, n: is 9"),
    "pairs that would show it": ("comparison.json", r'"pairs_low": \d+', '"pairs_low": 7', "pairs_low: is 7"),
    "a slower cell beside a recommended one": (
        "claims.json",
        r'("recommended/1",\s*)("ratio/zero1-n1x2")',
        r'\1"ratio/fsdp-n1x2", \2',
        'claims.json: "recommended: Recommended: ddp-n1x2, the',
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
    "a part of a step left out": (
        "waterfall.json",
        r'\{\s*"name": "smaller local batch"[^}]*\},\s*',
        "",
        'ddp-n1x2: has no part "smaller local batch"',
    ),
    "a word in place of a figure": (
        "tables/strong.md",
        r"1\.\d+ \([\d.]+-[\d.]+\)",
        "1 (baseline)",
        'tables/strong.md: "| ddp      |',
    ),
    "no baseline": ("tables/scaling.md", r"1 \(baseline\)( +\| –)", r"–\1", 'tables/scaling.md: "| ddp        |'),
    "all runs of two kinds": (
        "tables/scaling.md",
        r"(\) +\| )(\d) ",
        r"\1\2 of 9 ",
        'tables/scaling.md: "| ddp        |',
    ),
    "a setting is left out": (
        "tables/scaling.md",
        "seq len 128, ",
        "",
        'tables/scaling.md: "In all rows: evidence built, task langua',
    ),
    "a column is left out": (
        "tables/scaling.tex",
        r"\{tokens/s",
        "{rate",
        'tables/scaling.tex: "strategy & \\shortstack[l]{nodes x \\\\{} d',
    ),
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
        'claims.json: "fastest: Fastest: ddp-n1x2 has the highe',
    ),
    "a claim that nobody makes": (
        "claims.json",
        r'(?<="claims": \[\n        )"fastest/1"',
        '"fastest/9"',
        "is no claim",
    ),
    "a chart of no cell": ("charts/memory.svg", "zero1-n1x2: state", "zero9-n1x2: state", "zero9-n1x2: is no cell"),
    "a baseline of a chart": ("charts/speedup.svg", r"ddp-n1x1: 1\.000", "ddp-n1x1: 1.400", "and is a baseline"),
    "quartiles": ("charts/step_time.svg", r"(zero1-n1x2: .*?25-75 %: )[\d.]+", r"\g<1>1.00", "zero1-n1x2: shows 1.00"),
    "another pair": ("charts/comparison.svg", "pair 1: B / A", "pair 2: B / A", "accumulation, pair 2: shows"),
    "a number beside a bar": ("charts/waterfall.svg", r">\d\d\.\d</text>", ">1.11</text>", "has 1.11 beside a bar"),
    "a part of a chart": ("charts/trace-steps.svg", r"computing [\d.]+ ms", "computing 9.99 ms", "shows 9.99"),
    "a cell twice": (
        "claims.json",
        r"fsdp-n1x2 at [^;]* is undecided;",
        r"\g<0> \g<0>",
        'claims.json: "one-device: Against one device: ddp-n1x2',
    ),
    "no efficiency": (
        "claims.json",
        r'; scaling efficiency of ddp-n1x2: [^)]*\)(.*?),\s*"efficiency/ddp-n1x2"',
        r"\1",
        'claims.json: "one-device: Against one device: ddp-n1x2',
    ),
    "a level": ("comparison.json", r'"confidence": 0\.95', '"confidence": 0.99', "confidence: is 0.99"),
    "a file of a pair": ("comparison.json", "pair1/a/training", "pair9/a/training", "metrics_paths"),
    "a phase": ("losses.csv", r"(ddp-n1x2,\d,)window", r"\1warmup", "phase: is warmup"),
    "a cell of a series": (
        "tables/strong.csv",
        "ddp-n1x1",
        "ddp-n2x1",
        'tables/strong.csv: "ddp,ddp-n2x1,1,6,11543.345727684871,1072',
    ),
    "an older schema": ("scaling_report.json", r'(?<="schema_version": ")6\.\d+', "5.0", "before there were claims"),
    "a later schema": ("waterfall.json", r'(?<="schema_version": ")1', "9", "is the latest known"),
    "a setting in LaTeX": (
        "tables/scaling.tex",
        r"accum\. 1,",
        "accum. 4,",
        'tables/scaling.tex: "4, global batch 8, scaling strong, targe',
    ),
    "a law below a table": (
        "tables/strong.md",
        "a fit needs 3",
        "a fit needs 4",
        "tables/strong.md: \"ddp: no fit of Amdahl's law",
    ),
    "a folder of results": ("scaling_report.json", r'(?<="results": )"results"', '"others"', "results: is others"),
    "a number at an axis, a little": ("charts/ranking.svg", r">5,000<", ">5,020<", "do not stand where they belong"),
    "a mark, a little": (
        "charts/ranking.svg",
        r'(<title>ddp-n1x2, run 1.*?<use [^>]*?x=")([\d.]+)',
        lambda match: f"{match[1]}{1.004 * float(match[2])}",
        "ddp-n1x2, run 1 of 6: the mark stands at",
    ),
    "repeats of what is decided": (
        "claims.json",
        r"Next: more devices[^\"]*",
        "Next: further repeats are not worth their time",
        'claims.json: "next: Next: further repeats are not wort',
    ),
    "an interval of a sentence": (
        "claims.json",
        r"(\d\.\d+x (?:as fast as )?fsdp-n1x2) \([\d.]+-[\d.]+\)",
        r"\1",
        "does not say the figure of ratio/fsdp-n1x2",
    ),
    "a sign": ("claims.json", r"unexplained ([\d.]+) ms", r"unexplained -\1 ms", 'claims.json: "lost: ddp-n1x2'),
    "a figure that no run has": (
        "cells.csv",
        r"(?s)^(.*?joules_per_token.*?\n)(.*)$",
        figure_of_no_run,
        "joules_per_token: is 0.5, and no run has recorded any",
    ),
    "a series without a baseline": (
        "tables/scaling.md",
        "ddp: ddp-n1x1\\)",
        "ddp: ddp-n1x1, fsdp: fsdp-n1x2)",
        'tables/scaling.md: "Speed-up is relative to the same series',
    ),
    "letters by another order": (
        "scaling_report.json",
        r'"letters": "([ab])"',
        lambda match: f'"letters": "{"ba"["ab".index(match[1])]}"',
        "are not in the order of the cells",
    ),
}
