"""Facts that must stand beside a name on a page: title, runs, machines, explanations."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scaleproof.ground.number_format import in_unit
from scaleproof.ground.words import LEARNT, MEASURED, PAIRS, TRACED
from scaleproof.verify.campaign_file import are_of_this_version, campaign_beside
from scaleproof.verify.contents import csv_of, json_of
from scaleproof.verify.demand import Demand, element_of, facts_by_name
from scaleproof.verify.html_tree import Element
from scaleproof.verify.raw import RawRun

# Section -> what it explains, where the page has it; "": at the top of every page.
EXPLAINED = {
    "": ("Signature", "Intervals", "Campaign", "Order", "~", "–", "Names, columns"),
    "strong": ("Batch", "Rating", "Job"),
    "pairs": ("Pair", "Claim", "Detectable"),
    "step": ("From", "Step", "Waiting", "Traced / untraced"),
}
# What the page says of the environment -> where a run has it.
ENVIRONMENT = {
    "Machine": ("host", "hostname"),
    "Operating system": ("host", "os"),
    "Python": ("env", "python_version"),
    "torch": ("env", "torch_version"),
    "transformers": ("env", "transformers_version"),
    "deepspeed": ("env", "deepspeed_version"),
    "scaleproof": ("env", "scaleproof_version"),
}


def facts_due(page: Element, folder: Path, report: Mapping[str, Any], runs: Sequence[RawRun]) -> Iterator[Demand]:
    """Yield title, runs, environment, and the explanations of a page of this version. `report`: scaling_report.json."""
    yield from _demand_title(page, folder, report)
    yield from _demand_runs(page, report, runs)
    yield from _demand_environment(page, runs)
    if are_of_this_version(runs):
        yield from _demand_words(page, folder)


def _demand_title(page: Element, folder: Path, report: Mapping[str, Any]) -> Iterator[Demand]:
    """Yield one title in both elements; of a publication that of its campaign file, or of its analysis."""
    campaign, elements = campaign_beside(folder), [next(page.all(tag), None) for tag in ("title", "h1")]
    stated = elements[0].text if elements[0] else None
    titles = {report["title"], in_unit(campaign.title, report["unit"])} if campaign else {stated}
    title = stated if stated in {" ".join(text.split()) for text in titles if text} else report["title"]
    yield from (Demand("title", element, [title]) for element in elements)


def _demand_runs(page: Element, report: Mapping[str, Any], runs: Sequence[RawRun]) -> Iterator[Demand]:
    """Yield time, settings, corpus and code of all runs, and the reason of each that failed."""
    facts = facts_by_name(page)
    starts = [datetime.fromisoformat(run.metrics["timestamp_utc"]).astimezone(UTC) for run in runs]
    for name in ("Measured", "Date"):
        yield Demand(name, facts.get(name), [f"{min(starts):%Y-%m-%d %H:%M}", f"{len(runs)} run"])
    yield Demand("Evidence", facts.get("Evidence"), [report["evidence"]])
    for run in runs:
        metrics = run.metrics
        memory = round(metrics["hardware"]["memory_bytes"] / 2**30, 1)
        yield Demand("Memory", facts.get("Memory"), ["GiB"], [memory])
        yield Demand("Measuring code", facts.get("Measuring code"), [metrics["code_sha256"][:12]])
        if metrics.get("failure"):
            failed = element_of(page, "section", "failed")
            yield Demand(run.name, failed, [run.cell, metrics["failure"]["class"], metrics["failure"]["reason"]])
        data, workload = metrics.get("data"), metrics["config"]["workload"]
        work = metrics["config"].get("work", {})
        if not metrics.get("model") or not data:
            continue
        model, optimizer = metrics["model"], work["optimizer"]
        yield Demand("Model", facts.get("Model"), [workload["model"]] if isinstance(workload["model"], str) else [])
        yield Demand("Parameters", facts.get("Parameters"), [], [model["parameters"], model["flops_per_token"]])
        revision = data["revision"] or data["corpus_sha256"][:12]
        texts = [f"{data['corpus']} ({revision})", data["tokenizer"], data["licence"]]
        yield Demand("Corpus", facts.get("Corpus"), texts)
        yield Demand("Samples", facts.get("Samples"), [], [workload["seq_len"], work["global_batch"]])
        yield Demand("Steps", facts.get("Steps"), [], [work["warmup_steps"], work["steps"]])
        figures = [optimizer["learning_rate"], optimizer["max_grad_norm"] or None, work["seed"]]
        clipping = "clipping at" if optimizer["max_grad_norm"] else "no clipping"
        yield Demand("Optimizer", facts.get("Optimizer"), [optimizer["name"], clipping], figures)


def _demand_environment(page: Element, runs: Sequence[RawRun]) -> Iterator[Demand]:
    """Yield machine, versions, processor and devices of the runs and no others; of On and Commit, at least theirs."""
    facts = facts_by_name(page)
    values = {name: [run.metrics[section].get(key) for run in runs] for name, (section, key) in ENVIRONMENT.items()}
    hardware = [run.metrics["hardware"] for run in runs]
    values["Processor"] = [f"{of_run['cpu_model']}, {of_run['cpu_allowed']} logical CPUs" for of_run in hardware]
    if "Devices" in facts:
        devices = [rank["device_name"] for run in runs for rank in run.metrics.get("ranks") or []]
        values["Devices"] = devices or ["none came up"]
    for name, of_runs in values.items():
        texts = {str("unknown" if value is None else value) for value in of_runs}
        yield Demand(name, facts.get(name), sorted(texts), alone=True)
    # The machine at the head of the page, which may say more.
    yield Demand("On", facts.get("On"), sorted(set(values["Processor"])))
    commits = {run.metrics["git_commit"][:12] for run in runs if run.metrics["git_commit"]}
    yield Demand("Commit", facts.get("Commit"), sorted(commits))


def _demand_words(page: Element, folder: Path) -> Iterator[Demand]:
    """Yield the explanations of each section that the page has, and the definitions of its words."""
    facts, definitions = facts_by_name(page), element_of(page, "div", "definitions")
    sections = {element.attributes.get("id") for tag in ("section", "div") for element in page.all(tag)}
    sections = (sections - {"step"}) | ({"step"} if is_traced(folder) else set())
    for section, names in EXPLAINED.items():
        for name in names if not section or section in sections else ():
            yield Demand(name, facts.get(name))
    words = MEASURED | (PAIRS if "pairs" in sections else {}) | (TRACED if "step" in sections else {})
    words |= LEARNT if any(row["validation_loss"] for row in csv_of(folder / "cells.csv")) else {}
    defined = facts_by_name(definitions) if definitions else {}
    for word, meaning in words.items():
        yield Demand(f"definition of {word}", defined.get(word), [meaning])
    yield Demand("sources", element_of(page, "div", "sources"), ["scaleproof verify"])


def is_traced(folder: Path) -> bool:
    """Return whether a cell has a readable trace."""
    return any(json_of(path)["status"] == "ok" for path in folder.glob("traces/*/profile_summary.json"))
