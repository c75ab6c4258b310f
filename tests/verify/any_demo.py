"""The published demo with other times, failed runs, another question: a sound campaign with traces and A/B pairs."""

import contextlib
import hashlib
import io
import json
import math
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest
from verify.test_faults_after_analysis import FOLDER, PUBLISHED, run

from scaleproof.conclude.publication.made_again import compare_with_rewritten
from scaleproof.ground.files import sha256_of, write_json
from scaleproof.ground.records.metrics import Failed
from scaleproof.ground.records.run import LAUNCHER, METRICS, METRICS_SEAL, STEPS
from scaleproof.verify.campaign import verify

ALL_STAGES = ("collect", "findings", "analyse", "comparison", "trace_report", "waterfall", "tables", "charts")
HEADING = "phase,step,rank,step_time_s,data_wait_s,loss,samples,tokens\n"
OF_FAILED = {field.alias or name for name, field in Failed.model_fields.items() if field.annotation is not type(None)}


def differences_in(root: Path, seed: int, repeats: int = 6, pairs: int = 4) -> list[str]:
    """What `verify` says of a demo that is drawn by `seed`, in `root`, after all stages have run again.

    `repeats`, `pairs`: how many it has, the last ones left out.
    """
    chance = Random(seed)
    (root / FOLDER).parent.mkdir(parents=True)
    shutil.copytree(PUBLISHED.parents[2] / "config", root / "config")
    shutil.copytree(
        PUBLISHED, root / FOLDER, ignore=shutil.ignore_patterns("Snakefile", "workflow", "*.cff", "LICENSE")
    )
    text = (root / FOLDER / "campaign.yaml").read_text()
    a, b = chance.sample(["ddp", "fsdp", "zero1", "zero2", "zero3"], 2)
    further = [
        f"question: {{is: {a}, better_than: {b}, on: 1x2, by: {chance.choice([1, 2, 10])} %}}",
        f"margin: {chance.choice([1, 10, 20])} %",
        "title: Another title",
        "",
    ]
    key = chance.choice(further)
    lines = [line for line in text.splitlines() if not (key and line.startswith(key.partition(":")[0] + ":"))]
    changed = "\n".join([*lines, key, ""]).replace("repeats: 6", f"repeats: {repeats}")
    (root / "config/campaigns/demo.yaml").write_text(changed.replace("    pairs: 4", f"    pairs: {pairs}"))
    (root / FOLDER / "campaign.yaml").unlink()
    _leave_out(root / FOLDER, repeats, pairs)
    of_runs, of_cells = chance.choice([0, 0.01, 0.05, 0.2, 0.5, 1.0]), chance.choice([0, 0.05, 0.5])
    kept = chance.choice([1.0, 1.0, 0.9, 0.7, 0.4])
    slower: dict[Path, float] = {}  # than it was, each cell
    for metrics in sorted((root / FOLDER).rglob(METRICS)):
        folder = metrics.parent
        data = json.loads(metrics.read_text())
        if chance.random() > kept:
            data = _failed(folder, data)
        else:
            of_cell = slower.setdefault(folder.parent, math.exp(chance.gauss(0, of_cells)))
            _slow_down(folder, data, of_cell * math.exp(chance.gauss(0, of_runs)))
            if seed % 2:
                _count_energy(data)
        write_json(metrics, data)
        launcher = json.loads((folder / LAUNCHER).read_text())
        write_json(folder / LAUNCHER, launcher | {METRICS_SEAL: sha256_of(metrics)})
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()):
        patch.chdir(root)
        for stage in (*ALL_STAGES, "loss_charts", "report"):
            run(stage)
        return list(map(str, [*verify(FOLDER, with_manifest=False)[0], *compare_with_rewritten(FOLDER).differences]))


def _leave_out(folder: Path, repeats: int, pairs: int) -> None:
    """Delete the runs of later repeats, and those of later pairs of A and B."""
    for of_run in folder.glob("runs/*/rep*"):
        if int(of_run.name.removeprefix("rep")) > repeats:
            shutil.rmtree(of_run)
    for listed in folder.glob("compare/*/pairs.json"):
        content = json.loads(listed.read_text())
        kept = [pair for pair in content["pairs"] if pair["null"] or pair["pair"] <= pairs]
        for pair in content["pairs"]:
            if pair not in kept:
                shutil.rmtree(listed.parent / f"pair{pair['pair']}")
        write_json(listed, content | {"pairs": kept})


def _failed(folder: Path, data: dict[str, Any]) -> dict[str, Any]:
    """Return the metrics of a run that failed, in place of `data`; its series ends before it began."""
    (folder / STEPS).write_text(HEADING)
    failure = {"class": "oom", "reason": "out of memory", "rank": 1, "log_tail": ["last line"]}
    known = {name: value for name, value in data.items() if name in OF_FAILED}
    return known | {"status": "failed", "failure": failure, "files": {}}


def _count_energy(data: dict[str, Any]) -> None:
    """Have the devices of a run a counter of energy and a known peak, at 90 W each."""
    joules = 90 * len(data["ranks"]) * data["window"]["wall_time_sec"]
    per_token = joules / data["window"]["tokens_processed_global"]
    data["energy"] = {"joules": joules, "joules_per_token": per_token, "withheld": None}
    utilization = data["utilization"]
    mfu = utilization["flops_per_sec_per_device"] / 1e12
    data["utilization"] = utilization | {"peak_flops_per_sec": 1e12, "peak_source": "a data sheet", "mfu": mfu}


def _slow_down(folder: Path, data: dict[str, Any], factor: float) -> None:
    """Have a run take `factor` times as long, in its series and in its metrics, which are changed in place."""
    heading, *lines = (folder / STEPS).read_text().splitlines()
    column = heading.split(",").index("step_time_s")
    rows = [line.split(",") for line in lines]
    scaled = [",".join([*row[:column], f"{float(row[column]) * factor:.9g}", *row[column + 1 :]]) for row in rows]
    (folder / STEPS).write_text("\n".join([heading, *scaled, ""]))
    data["files"][STEPS] = hashlib.sha256((folder / STEPS).read_bytes()).hexdigest()
    window = data["window"]
    added_s = window["wall_time_sec"] * (factor - 1)
    for name, value in window.items():
        if value is not None and (name == "wall_time_sec" or (name.startswith("step_time_") and name.endswith("_sec"))):
            window[name] = value * factor
        elif value is not None and name.startswith("tokens_per_sec"):
            window[name] = value / factor
    data["total_wall_time_sec"] += added_s
    for rank in data["ranks"]:
        for clock in ("epoch", "monotonic"):
            rank[f"window_end_{clock}_s"] += added_s
            rank[f"closing_{clock}_s"] += added_s
    utilization = data.get("utilization") or {}
    for name in ("mfu", "flops_per_sec_per_device"):
        if utilization.get(name):
            utilization[name] /= factor
