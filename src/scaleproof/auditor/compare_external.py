"""`scaleproof compare` where a side is an external result: what its files state is compared, the rest is named."""

import math
import re
from collections.abc import Mapping, Sequence
from itertools import chain, product
from pathlib import Path

from scaleproof.auditor.audit import audit_gathered
from scaleproof.auditor.checks.baselines import high_median, samples_rate, steps_rate, total_rate
from scaleproof.auditor.checks.comparability import same_measurement
from scaleproof.auditor.overview import rate_of_run
from scaleproof.auditor.read.discover import gather
from scaleproof.auditor.read.logs import LEAST_LINES
from scaleproof.auditor.read.reported import Evidence, ReportedRun, TimedSpan
from scaleproof.auditor.read.text_files import is_archive
from scaleproof.ground.comparison import Compared, field_error, why_incomparable
from scaleproof.ground.confidence import claimed_ratio, mean_rate
from scaleproof.ground.errors import UserError, plural
from scaleproof.ground.files import content_fault, sha256_of
from scaleproof.ground.findings.shared_codes import RUN_COPIED
from scaleproof.ground.losses import compare_losses
from scaleproof.ground.records.run import CAPTURE, MeasuredRun, read_run
from scaleproof.ground.records.watched import watched_folder
from scaleproof.ground.snakemake_command import RESULTS

# What two results must have in common; those that a file does not state are named beside the ratio.
COMPARED_FIELDS = (
    *("world_size", "global_batch", "seq_len", "strategy", "zero_stage", "offload", "engine"),
    *("precision", "model", "parameters", "dataset", "device", "commit", "launcher"),
)
# All of run.log, seed3 and rep_2; "-run1.log" of ddp-run1.log.
NAME_OF_REPEAT = re.compile(
    r"(^(run|rep|repeat|seed)|[ _.-](run|rep|repeat|seed)[ _.=-]*\d)[ _.=-]*\d*(\.[a-z]+)?$", re.IGNORECASE
)
# Stated by few, and nothing is missing where they are not.
OPTIONAL_FIELDS = ("zero_stage", "offload", "batch_size", "tokens_per_step")
# Units of rates, the one first that says most of the work; and what may not differ for a ratio of such rates.
FIXED_BY_UNIT = {
    "tokens/s": (),
    "FLOP/s": (),
    "tokens/s of a device": ("world_size",),
    "samples/s": ("world_size",),  # whose samples is often unsaid: of one device or of all
    "epochs/s": ("dataset",),
    "steps/s": ("world_size", "global_batch", "batch_size", "seq_len", "tokens_per_step"),
}


def compare_external(a: Path, b: Path, vary: list[str]) -> Compared:
    """Return the ratio of the mean rate of all runs below `b` to that of all runs below `a`. Repeats give an interval.

    `vary`: fields that are meant to differ; where others differ, the result says why there is no ratio.
    Raises UserError where a side has no rate, several kinds of runs, or no unit in common with the other.
    """
    evidence = [gather([path]) for path in (a, b)]  # for the runs, and for the audit in `_why_invalid`
    for path, gathered in zip((a, b), evidence, strict=True):
        if not gathered.runs and not gathered.own_runs:
            raise _no_speed(path, gathered)
        for file in gathered.unread:
            if file.kind == "claims file":  # of no use as it stands, such as for a name that means no run
                raise UserError(f"{path / file.name}: {file.reason}")
    runs_a, runs_b = (_runs_with_rate(path, gathered) for path, gathered in zip((a, b), evidence, strict=True))
    if a == b or (a.is_file() and b.is_file() and sha256_of(a) == sha256_of(b)):
        raise UserError(f"{a} and {b} are the same {'folder' if a.is_dir() else 'file'}; compare two")
    unit, remark, rates = _rates_in_common_unit({a: runs_a, b: runs_b})
    rates_a, rates_b = rates
    stated_a, stated_b = _stated_fields(runs_a), _stated_fields(runs_b)
    for name in vary:
        if name not in stated_a:  # nor in `stated_b`: both have the same fields
            raise field_error(name, stated_a)

    unstated = [name for name in stated_a if None in (stated_a[name], stated_b[name])]
    differing = [name for name in stated_a if name not in unstated and stated_a[name] != stated_b[name]]
    # `why`: why there is no ratio, None where there is one.
    why = _why_unequal(unit, differing, vary, runs_a + runs_b)
    why = why or _why_copied(runs_a, runs_b) or _why_invalid(a, b, evidence)  # the first reason counts

    rate_a, rate_b = (mean_rate(rates) for rates in (rates_a, rates_b))
    b_over_a = claimed_ratio(rate_b, rate_a)
    losses_text = compare_losses(str(a), str(b), *(list(map(_losses_by_step, runs)) for runs in (runs_a, runs_b)))[1]
    days = [[str(run.details.get("day") or "") for run in runs] for runs in (runs_a, runs_b)]
    # Unless each log says its day, each side may be a session of its own.
    other = [*["day"] * ("" in chain(*days)), *["losses"] * (not losses_text)]
    unstated = [*(name for name in unstated if name not in OPTIONAL_FIELDS), *other]
    sides_with_copies = [side for side, of in zip("AB", evidence, strict=True) if any(run.copy_of for run in of.runs)]
    are_two_sessions = "" not in chain(*days) and set(days[0]).isdisjoint(days[1])
    return Compared(
        a=str(a),
        b=str(b),
        runs=(len(runs_a), len(runs_b)),
        rates=(rate_a.value, rate_b.value),
        intended=sorted(set(differing) & set(vary)),
        why=why,
        ratio=None if why else b_over_a.value,
        low=None if why else b_over_a.low,
        high=None if why else b_over_a.high,
        unit=unit + remark,
        unstated=unstated,
        losses=losses_text,
        suspect=[RUN_COPIED.name] * bool(sides_with_copies),
        suspect_sides={RUN_COPIED.name: " and ".join(sides_with_copies)} if sides_with_copies else {},
        freedom=b_over_a.freedom,
        sessions=[" to ".join(dict.fromkeys([min(side), max(side)])) for side in days] if are_two_sessions else [],
    )


def _rates_in_common_unit(sides: Mapping[Path, list[ReportedRun]]) -> tuple[str, str, list[list[float]]]:
    """Return the first unit of FIXED_BY_UNIT in which all runs of both sides state a rate, and the rates of each side.

    Where there is none, rates are converted by the batch and the length that the files state: a remark says so, which
    stands between unit and rates. Raises UserError where these are missing.
    """
    for rates_of, remark in ((_rates_by_unit, ""), (_converted_rates, " (by batch and length)")):
        rates = {side: list(map(rates_of, runs)) for side, runs in sides.items()}
        for unit in FIXED_BY_UNIT:
            if all(unit in of_run for of_side in rates.values() for of_run in of_side):
                return unit, remark, [[of_run[unit] for of_run in of_side] for of_side in rates.values()]
    printed = {side: set[str]().union(*map(_rates_by_unit, runs)) for side, runs in sides.items()}
    units = [f"{side} has {', '.join(sorted(of_side))}" for side, of_side in printed.items()]
    of_samples = (
        ". For samples/s of one device world_size: 1 and seq_len are enough; of several, the log must say that "
        "they are of all, or print step times"
    ) * any("samples/s" in of_side and "steps/s" not in of_side for of_side in printed.values())
    raise UserError(
        f"rates are in different units: {'; '.join(units)}. Let both print the same one, or "
        "compare folders, each with a claims file in it that states the work of a step (docs/audit.md), in two lines: "
        f'scaleproof_claims: "1.0", and runs: {{NAME: {{world_size: 1, global_batch: 8, seq_len: 512}}}}{of_samples}'
    )


def _why_unequal(unit: str, differing: list[str], vary: list[str], runs: list[ReportedRun]) -> str | None:
    """Return why there is no ratio of runs that differ in these fields; None where all may differ in this unit."""
    if unintended := [name for name in differing if name not in vary]:
        return why_incomparable(unintended, vary)
    fixed = sorted(set(differing) & _fixed_fields(unit, runs))  # meant to differ, but not comparable in this unit
    what = f"{unit} do not say how much was done where {', '.join(fixed)} differs"
    return f"{what}; let both print tokens/s" if fixed else None


def _why_copied(runs_a: list[ReportedRun], runs_b: list[ReportedRun]) -> str | None:
    """Return why there is no ratio where a run of one side is also on the other. None where no run is."""
    for first, second in product(runs_a, runs_b):
        if what_agrees := same_measurement(first, second) or ("bytes" if _have_same_bytes(first, second) else None):
            return f"invalid: {RUN_COPIED.name} ({first.name} and {second.name} have the same {what_agrees})"
    return None


def _have_same_bytes(first: ReportedRun, second: ReportedRun) -> bool:
    """Whether the files of two runs are copies. False for files out of archives, which are gone."""
    files = [Path(run.details["folder"], Path(name).name) for run in (first, second) for name in run.files[:1]]
    return len(files) == 2 and all(file.is_file() for file in files) and len({*map(sha256_of, files)}) == 1


def _why_invalid(a: Path, b: Path, evidence: Sequence[Evidence]) -> str | None:
    """Return why the audit of the two sides forbids a ratio. None where it has no finding that is `invalid`."""
    audits = [audit_gathered(gathered, str(path)) for path, gathered in zip((a, b), evidence, strict=True)]
    findings = [finding for audit in audits for finding in audit.findings]
    codes = sorted({finding.code for finding in findings if finding.severity == "invalid"})
    return f"invalid: {', '.join(codes)} (scaleproof audit {a} {b})" if codes else None


def _losses_by_step(run: ReportedRun) -> dict[int, float]:
    """Return the loss of each step of a log, NaN where it printed no number.

    {} where numbers of steps begin anew, as with each epoch or rank.
    """
    series = run.logged_steps
    steps = zip(series.step_numbers, series.figures("loss").tolist(), strict=True)
    losses = {step: loss for step, loss in steps if not math.isnan(loss)}
    return dict.fromkeys(run.nan_steps, math.nan) | losses if len(losses) == len(series.values("loss")) else {}


def _rates_by_unit(run: ReportedRun) -> dict[str, float]:
    """Return how fast a run says it was, by unit, {"tokens/s": 390.0, "steps/s": 2.1}; its step times as steps/s."""
    rates = {}
    if total := total_rate(run):
        rates[total.unit] = total.value
    of_device = run.logged_steps.nonzero("tokens_per_s")
    if run.rate_scope == "rank" and of_device.size:  # the only rate where nobody says how many devices there were
        rates["tokens/s of a device"] = high_median(of_device)
    if samples := samples_rate(run):
        rates["samples/s"] = samples
    if steps := steps_rate(run):
        rates["steps/s"] = steps
    return rates


def _converted_rates(run: ReportedRun) -> dict[str, float]:
    """Return the rates of all devices of a run as by `_rates_by_unit`, and those that follow from batch and length.

    Samples/s of which nobody knows whether they are of one device or of all are left out.
    """
    rates = _rates_by_unit(run)
    if run.rate_scope != "global" and run.world_size != 1:
        rates.pop("samples/s", None)
    if run.global_batch and "steps/s" in rates:
        rates.setdefault("samples/s", rates["steps/s"] * run.global_batch)
    if run.seq_len and "samples/s" in rates:
        rates.setdefault("tokens/s", rates["samples/s"] * run.seq_len)
    return rates


def _fixed_fields(unit: str, runs: list[ReportedRun]) -> set[str]:
    """Return the fields that may not differ for a ratio of rates in `unit`; none for samples/s of all devices."""
    of_all = unit == "samples/s" and all(run.rate_scope == "global" for run in runs)
    return set() if of_all else set(FIXED_BY_UNIT[unit])


def _runs_with_rate(path: Path, evidence: Evidence) -> list[ReportedRun]:
    """Return the runs of one side that state a rate: all repeats of one configuration; of copies the first alone.

    Raises UserError where there are none, or where names differ by more than a repeat.
    """
    ours = [run for folder in evidence.own_runs if isinstance(run := read_run(Path(folder)), MeasuredRun)]
    # A log that a document quotes may lack lines, and a copy would count twice.
    complete = [run for run in evidence.runs if not run.quoted and not run.copy_of and not _lines_if_too_few(run)]
    runs = [run for run in [*complete, *map(_as_reported, ours)] if _rates_by_unit(run)]
    if not runs:
        raise _no_speed(path, evidence)
    first_runs = {_name_without_repeat(run, len(runs)): run for run in reversed(runs)}
    if len(first_runs) > 1:
        # Nothing but its repeat is in a name like run1.log.
        kinds = sorted(kind or first.name for kind, first in first_runs.items())
        listed = ", ".join(kinds[:5])
        unpacked = "unpack it, and " if is_archive(path) else ""
        advice = f"{unpacked}name one, or rename repeats of one: run1, run2, ..."
        raise UserError(f"{path}: several kinds of runs ({listed}); {advice}")
    return runs


def _lines_if_too_few(run: ReportedRun) -> str:
    """Return how many lines of steps a log has, where they are too few to say how fast it was; "" for others.

    The first holds the start-up. A result of the whole run is enough by itself.
    """
    lines = len(run.logged_steps) + len(run.steps_per_s)
    return plural(lines, "line") + " of steps" if 0 < lines < LEAST_LINES and not run.timed_spans else ""


def _no_speed(path: Path, evidence: Evidence) -> UserError:
    """Return the error for a path without a run whose rate can be compared: what was seen, and what it takes."""
    seen = [f"{file.name}: {file.reason}" for file in evidence.unread[:3]]
    for run in evidence.runs[:3]:
        what = "lines of a log in a document" if run.quoted else _lines_if_too_few(run)
        seen.append(f"{run.name}: {what or rate_of_run(run) or '; '.join(run.problems) or 'no known time or rate'}")
    if evidence.tables:
        seen.append(f"{evidence.tables[0].name}: a table, which scaleproof audit checks")
    reasons = f" ({'; '.join(seen)})" if seen else ""

    # A reason that lies in the path itself replaces what was seen in its files.
    if path.is_dir() and not any(path.iterdir()):
        reasons = " (it is empty)"
    if any(path.parent.glob("runs/*/rep*")):
        reasons = f" (a part of {path.parent}; give that folder)"
    if path.suffix == ".yaml":
        reasons = f" (a campaign file; give its results{f', {RESULTS / path.stem}' * (RESULTS / path.stem).is_dir()})"
    if fault := content_fault(path):
        return UserError(f"{path}{fault}")
    if (path / CAPTURE).exists():
        reasons = f" (a trace, which is compared by: scaleproof trace diff {path} OTHER)"
    if folder := watched_folder(path):
        reasons = f" (recorded by scaleproof.watch, which is compared by: scaleproof watched {folder} OTHER)"
    return UserError(
        f"{path}: no run below whose rate can be compared{reasons}; it takes tokens/s, samples/s or the time of each "
        'step: three lines or more such as "step: 7 tokens/s: 4567" or "step: 7 step_time_ms: 12.3"'
    )


def _name_without_repeat(run: ReportedRun, runs: int) -> str:
    """Return a run's name without its repeat: "ddp" of "ddp/run_2" and, beside other runs, of "ddp-run2.log"."""
    return NAME_OF_REPEAT.sub("", run.name_without_repeat) if runs > 1 else run.name_without_repeat


def _as_reported(run: MeasuredRun) -> ReportedRun:
    """Return a run of our own in the form of other programs' runs."""
    metrics = run.metrics
    config, window = metrics.training_config, metrics.window
    return ReportedRun(
        name=metrics.cell,
        format="metrics JSON 3.0",
        world_size=run.n_devices,
        global_batch=config.global_batch,
        seq_len=config.seq_len,
        strategy=config.strategy,
        zero_stage=config.zero_stage,
        precision=config.precision,
        model=config.model_name,
        parameters=metrics.model.parameters,
        dataset=config.dataset_name,
        device=metrics.ranks[0]["device_name"],
        commit=metrics.git_commit,
        timed_spans=[TimedSpan(seconds=window.wall_time_s, tokens=window.tokens, tokens_per_s=window.tokens_per_s)],
        rate_scope="global",
    )


def _stated_fields(runs: list[ReportedRun]) -> dict[str, str | None]:
    """Return field -> its values in the runs of a side: {"precision": "bf16 | fp32"}; None where a run does not say."""
    stated: dict[str, str | None] = {}
    for name in (*COMPARED_FIELDS, "batch_size", "tokens_per_step"):
        values = {getattr(run, name, run.details.get(name)) for run in runs}
        stated[name] = None if None in values else " | ".join(sorted(map(str, values)))
    if stated["global_batch"] and stated["seq_len"]:
        stated["tokens_per_step"] = None  # they say it
    settings = {str(sorted(run.debug_settings.items())) for run in runs}
    return stated | {"profilers and debugging": " | ".join(sorted(settings))}
