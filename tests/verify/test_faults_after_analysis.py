"""Faults between analysis and page: each alone, and 22 at once, are named by `verify`, though all hashes fit."""

import argparse
import dataclasses
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from verify.edits import EDITS
from verify.page_edits import moved

from scaleproof.cli import analyse as stages
from scaleproof.cli import trace as trace_stages
from scaleproof.conclude.analysis import (
    ab_comparison,
    loss_curves,
    measured_cells,
    ranking,
    run_tables,
    scaling,
    traces,
    waterfall,
)
from scaleproof.conclude.analysis.simultaneous import Family
from scaleproof.conclude.publication.gate import verify_and_audit
from scaleproof.conclude.publication.made_again import compare_with_rewritten
from scaleproof.conclude.report import page_facts
from scaleproof.conclude.report.sentences import answer
from scaleproof.ground import confidence
from scaleproof.ground.errors import UserError
from scaleproof.ground.records.lost_results import OF_KEYS
from scaleproof.verify.campaign import verify
from scaleproof.verify.manifest import demands_in, write_manifest

PUBLISHED = sorted((Path(__file__).parents[2] / "results/published").glob("demo_*"))[-1]
RESULTS = Path("results")
FOLDER = RESULTS / "demo"
ANALYSIS = ("analyse", "waterfall", "tables", "report")  # what follows from the runs of the cells


def run(stage: str) -> None:
    """Run a stage of the copied campaign as the workflow does."""
    campaign = argparse.Namespace(campaign=Path("config/campaigns/demo.yaml"), results=RESULTS, anonymous=False)
    in_folder = argparse.Namespace(folder=FOLDER, forecast=None)
    functions = {"trace_report": trace_stages.trace_report}
    function = functions.get(stage) or getattr(stages, stage)
    function(in_folder if stage in ("tables", "charts", "loss_charts") else campaign)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The published demo with all of its stages run again by the code of today."""
    root = tmp_path_factory.mktemp("project")
    shutil.copytree(PUBLISHED.parents[2] / "config", root / "config")
    shutil.copytree(PUBLISHED, root / FOLDER)
    for name in ("Snakefile", "workflow", "ro-crate-metadata.json", "CITATION.cff", "README.md", "LICENSE"):
        place = root / FOLDER / name
        shutil.rmtree(place) if place.is_dir() else place.unlink()
    (root / FOLDER / "campaign.yaml").replace(root / "config/campaigns/demo.yaml")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        for stage in ("collect", "findings", "analyse", "comparison", "trace_report", "waterfall", "tables", "charts"):
            run(stage)
        run("report")
        yield root


@pytest.fixture
def copy(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, which is the working directory."""
    shutil.copytree(project, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("stage", "written"), [("findings", "findings.json"), ("report", "manifest.json")])
def test_a_stage_without_the_replay_of_a_workload_writes_nothing(copy: Path, stage: str, written: str) -> None:
    """The checks against it would find nothing, and the page would say that losses are replayed."""
    (reference,) = FOLDER.glob("reference/*.json")
    before = reference.read_text()
    reference.unlink()
    (FOLDER / written).unlink()
    with pytest.raises(UserError) as refusal:
        run(stage)
    assert str(refusal.value) == f"{reference}: no such file; build it with: snakemake --cores 2 {reference}"
    assert not (FOLDER / written).exists()
    reference.write_text(before)
    run("findings")
    run("report")
    assert list(map(str, verify(FOLDER)[0])) == []


@dataclass(frozen=True)
class Fault:
    """A fault in the code between analysis and page.

    `plant`: into the code, or (`edit`) into the files that it has written; `named`: what a difference says of it.
    """

    named: str
    stages: tuple[str, ...]
    plant: Callable[[pytest.MonkeyPatch], None] = lambda patch: None
    edit: Callable[[], None] = lambda: None


def wrap(module: Any, name: str, change: Callable[..., Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """Plant `change(result, ...)` behind a function of a module."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        original = getattr(module, name)  # maybe with another fault in it
        patch.setattr(module, name, lambda *args, **keys: change(original(*args, **keys)))

    return plant


def shifted_pairs(patch: pytest.MonkeyPatch) -> None:
    original = measured_cells.paired_ratio

    def shifted(top: dict[int, float], bottom: dict[int, float], *more: Any) -> Any:
        values = list(bottom.values())
        return original(top, dict(zip(bottom, values[1:] + values[:1], strict=True)), *more)

    patch.setattr(measured_cells, "paired_ratio", shifted)


def changed_waterfall(**change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def of_report(report: Any) -> Any:
        for cell in report.cells:
            for name, function in change.items():
                setattr(cell, name, function(getattr(cell, name)))
            cell.unexplained_ms = cell.measured_ms - cell.ideal_ms - sum(part.ms or 0 for part in cell.parts)
        return report

    return of_report


def exchanged(parts: list[Any]) -> list[Any]:
    first, second, *rest = parts
    return [first.model_copy(update={"ms": second.ms}), second.model_copy(update={"ms": first.ms}), *rest]


def estimate(**change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what changes fields of the estimate of an A/B comparison, each from the whole of it."""
    return lambda paired: paired.model_copy(update={name: function(paired) for name, function in change.items()})


def rewritten(file: str, pattern: str, by: str | Callable[[re.Match[str]], str]) -> Callable[[], None]:
    def edit() -> None:
        path = FOLDER / file
        before = path.read_text()
        after = re.sub(pattern, by, before, flags=re.DOTALL)
        assert after != before, "the edit must be one"
        path.write_text(after)

    return edit


def other_word(group: answer.GroupClaims) -> Any:
    claim = group.claims[f"fastest/{group.index}"]
    return claim.model_copy(update={"word": "not-shown" if claim.word == "shown" else "shown"})


def by_one_letter(groups: dict[str, str]) -> dict[str, str]:
    return dict.fromkeys(groups, "a")


def another_processor(facts: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, "Intel Xeon, 2 logical CPUs" if name == "Processor" else text) for name, text in facts]


def narrowed(family: Family | None) -> Family | None:
    return family and dataclasses.replace(family, half=0.2 * family.half)


FAULTS = {
    "A02 normal quantiles": Fault(
        "speedup_by_job_wall_time, low",
        ANALYSIS,
        lambda patch: patch.setattr(confidence, "stdtrit", lambda freedom, p: 1.96),
    ),
    "A03 repeat k against k+1": Fault("ddp, resolve, detectable", ANALYSIS, shifted_pairs),
    "A04 intervals of the ranking": Fault("relative_to_fastest, low", ANALYSIS, wrap(ranking, "compare_all", narrowed)),
    "A07 another cell is recommended": Fault(
        "recommendation, cell",
        ANALYSIS,
        wrap(
            ranking, "choose_recommendation", lambda advice: advice and advice.model_copy(update={"cell": "zero2-n1x2"})
        ),
    ),
    "A09 fastest is not what is shown": Fault(
        'does not say "ddp-n1x2 ...',
        ("report",),
        lambda patch: patch.setattr(answer.GroupClaims, "fastest", property(other_word)),
    ),
    "A10 letters": Fault("share a letter, but are told apart", ANALYSIS, wrap(ranking, "letter_groups", by_one_letter)),
    "A11 marks of an efficiency": Fault(
        "verdict: is excellent",
        ANALYSIS,
        lambda patch: patch.setattr(scaling, "_efficiency_word", lambda part: "excellent"),
    ),
    "A13 load of devices": Fault("device_load", ANALYSIS, wrap(run_tables, "_device_load", lambda load: 2 * load)),
    "A14 time to loss": Fault(
        "time_to_loss_s",
        ANALYSIS,
        wrap(loss_curves, "mean_time", lambda time: dataclasses.replace(time, value=time.value / 2)),
    ),
    "A15 losses shifted": Fault(
        "losses.csv",
        ANALYSIS,
        wrap(loss_curves, "losses_table", lambda table: table.assign(loss=table["loss"].shift(1, fill_value=7.0))),
    ),
    "A16 waiting for data": Fault(
        "data_wait_share",
        ANALYSIS,
        lambda patch: patch.setitem(run_tables.MEASURED, "data_wait_share", lambda metrics: 0.0),
    ),
    "A17 transfer and waiting exchanged": Fault(
        "exposed transfer", ("waterfall", "report"), wrap(waterfall, "_communication_parts", exchanged)
    ),
    "A18 ideal halved": Fault(
        "ideal_ms",
        ("waterfall", "report"),
        wrap(waterfall, "waterfall_report", changed_waterfall(ideal_ms=lambda ms: ms / 2)),
    ),
    "A19 interval of A/B": Fault(
        "accumulation, low",
        ("comparison", "report"),
        wrap(ab_comparison, "compare_ratios", estimate(low=lambda p: p.ratio * 0.99, high=lambda p: p.ratio * 1.01)),
    ),
    "A20 claim of A/B inverted": Fault(
        "accumulation, claim",
        ("comparison", "report"),
        wrap(ab_comparison, "compare_ratios", estimate(claim=lambda p: "faster")),
    ),
    "A21 detectable effect": Fault(
        "detectable_low",
        ("comparison", "report"),
        wrap(ab_comparison, "compare_ratios", estimate(detectable_low=lambda p: p.detectable_low / 10)),
    ),
    "A26 inverse ratio": Fault(
        "-n1x2 is at 0.",
        ("report",),
        lambda patch: patch.setattr(answer, "number", lambda value, digits=3: f"{1 / value:.{digits}g}"),
    ),
    "A39 cost": Fault("seconds_per_repeat", ANALYSIS, wrap(scaling, "_seconds_per_repeat", lambda s: s / 2)),
    "A40 ranks of a trace": Fault(
        "rank 0",
        ("trace_report", "report"),
        wrap(
            traces,
            "_rank_means",
            lambda parts: [one.model_copy(update={"rank": 1 - one.rank}) for one in parts],
        ),
    ),
    "A43 processor": Fault(
        'says "Intel Xeon, 2', ("report",), wrap(page_facts, "environment_facts", another_processor)
    ),
    "A45 dots of a chart": Fault(
        "the mark stands at",
        ("report",),
        edit=rewritten("charts/ranking.svg", r'(run \d of \d[^<]*</title>.*?<use [^>]*?)\bx="([\d.]+)"', moved),
    ),
    "A46 wider intervals": Fault(
        "tokens_per_s",
        ANALYSIS,
        wrap(run_tables, "pooled_rate", lambda one: dataclasses.replace(one, low=one.low / 1.2, high=one.high * 1.2)),
    ),
}


def differences() -> list[str]:
    return list(map(str, [*verify(FOLDER)[0], *compare_with_rewritten(FOLDER).differences]))


def test_nothing_differs_where_nothing_is_planted(copy: Path) -> None:
    assert differences() == []


@pytest.mark.parametrize("key", OF_KEYS)
def test_nothing_derived_is_left_of_a_key_that_was_taken_out(copy: Path, key: str) -> None:
    """Its traces or pairs stay, which were measured."""
    path = Path("config/campaigns/demo.yaml")
    text, count = re.subn(rf"^{key}:.*?\n(?=\S)", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert count == 1
    path.write_text(text)
    left_over = [file for pattern in OF_KEYS[key] for file in FOLDER.glob(pattern)]
    assert len(left_over) > 1
    for stage in ("findings", "analyse", "waterfall", "tables", "report"):
        run(stage)
    assert not any(file.exists() for file in left_over)
    assert [*FOLDER.glob({"compare": "compare/*/pairs.json", "trace": "traces/*/capture.json"}[key])]
    assert differences() == []


def test_a_cell_that_was_taken_out_is_moved_away_and_that_is_all(copy: Path) -> None:
    path = Path("config/campaigns/demo.yaml")
    path.write_text(path.read_text().replace(", zero3]", "]"))
    for stage in (
        "collect",
        "findings",
        "analyse",
        "comparison",
        "waterfall",
        "tables",
        "charts",
        "loss_charts",
        "report",
    ):
        run(stage)
    (one,), runs, _ = verify_and_audit(FOLDER)
    assert (str(one)[:40], runs) == ("runs: 6 runs (zero3-n1x2/rep1, zero3-n1x", 30)
    shutil.rmtree(FOLDER / "runs/zero3-n1x2")
    assert differences() == []


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_named(copy: Path, name: str) -> None:
    fault = FAULTS[name]
    with pytest.MonkeyPatch.context() as patch:
        fault.plant(patch)
        for stage in fault.stages:
            run(stage)
    fault.edit()
    write_manifest(FOLDER, "0", demands_in(FOLDER))
    assert [text for text in differences() if fault.named in text], differences()


def test_22_faults_at_once_are_named(copy: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for fault in FAULTS.values():
            fault.plant(patch)
        for stage in ("analyse", "comparison", "trace_report", "waterfall", "tables", "charts", "report"):
            run(stage)
    for fault in FAULTS.values():
        fault.edit()
    write_manifest(FOLDER, "0", demands_in(FOLDER))
    text = "\n".join(differences())
    assert len(FAULTS) == 22
    assert [name for name, fault in FAULTS.items() if fault.named not in text] == []


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_sentence_or_link_is_named(copy: Path, name: str) -> None:
    file, pattern, by, named = EDITS[name]
    rewritten(file, pattern, by)()
    write_manifest(FOLDER, "0", demands_in(FOLDER))
    assert [text for text in differences() if named in text], differences()
