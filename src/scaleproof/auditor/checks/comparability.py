"""Are the runs that stand side by side the same but for what is compared, and were there enough of them?"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain, combinations
from typing import Any

import numpy as np

from scaleproof.auditor.checks.baselines import CONDITIONS, MOST_CONFIGURATIONS, Scaling, configuration
from scaleproof.auditor.checks.context import AuditContext, differences, digits_of, grouped_by, listed, of_evidence
from scaleproof.auditor.read.logged_steps import Figures
from scaleproof.auditor.read.reported import PART_OF_REPEAT, ReportedRun
from scaleproof.auditor.read.words import describe
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.finding import Severity
from scaleproof.ground.findings.registry import Code, Flag
from scaleproof.ground.findings.shared_codes import RUN_COPIED, SINGLE_RUN
from scaleproof.ground.records.grouping import group_by

PROGRAM = ("engine", "precision")
ENVIRONMENT = ("commit", "launcher", "device")
STATUS_WITHOUT_NUMBERS = ("failed", "not_applicable")


@of_evidence.finds("baseline-other-program", "note")
def baseline_is_the_same_program(context: AuditContext) -> Iterator[Flag]:
    """The run with the fewest devices used another engine or precision, so that a speed-up over it is of the program
    and of the devices at once. `invalid` where such a speed-up was published.

    Detected: Engine or precision differ between a run and the most similar baseline among the files.
    Seen: GPT-2 on 1, 2 and 4 V100: autocast on one device, fp16 DeepSpeed on two and four; 0.97 and 0.85 mix both.
    Repair: Run the same program at every number of devices; show the best single-device program in a column of its own.
    """
    for scaling in context.scalings:
        different = differences(scaling.base, scaling.run, PROGRAM)
        yield from _other_conditions(context, scaling, different, if_published="invalid")


@of_evidence.finds("baseline-other-surroundings", "note")
def baseline_has_the_same_environment(context: AuditContext) -> Iterator[Flag]:
    """Baseline and run come from different commits, versions, launchers or devices. `suspect` where a speed-up over it
    was published.

    Detected: These fields differ between a run and its baseline.
    Seen: GPT-2 on 1, 2 and 4 V100: one commit for 1 GPU, another for 2 and 4.
    Repair: Run all sizes from one commit in one environment.
    """
    for scaling in context.scalings:
        different = differences(scaling.base, scaling.run, ENVIRONMENT)
        base_versions, versions = scaling.base.versions, scaling.run.versions
        for package in sorted(base_versions.keys() & versions.keys()):
            if base_versions[package] != versions[package]:
                different[package] = (base_versions[package], versions[package])
        yield from _other_conditions(context, scaling, different, if_published="suspect")


Differences = dict[str, tuple[Any, Any]]  # field -> its values in two runs


def _other_conditions(
    context: AuditContext, scaling: Scaling, different: Differences, if_published: Severity
) -> Iterator[Flag]:
    """Flag a run and its baseline: "1 device (a) and 4 (b) differ in precision: bf16 | fp16".

    `if_published`: the severity where somebody published a comparison of the two.
    """
    base, run = scaling.base, scaling.run
    if different:
        sizes = f"{plural(base.world_size or 0, 'device')} ({base.name}) and {run.world_size} ({run.name})"
        severity: Severity = if_published if context.is_published(base, run) else "note"
        yield Flag(f"{sizes} differ in {_pairs_of_values(different)}", [base, run], severity=severity)


def _pairs_of_values(different: Differences) -> str:
    """Return a list in words: "precision: bf16 | fp16; commit: 1a2b3c | 4d5e6f"."""
    return "; ".join(f"{name}: {_shortened(a)} | {_shortened(b)}" for name, (a, b) in different.items())


@of_evidence.finds("arms-differ", "note")
def arms_differ_in_one_thing(context: AuditContext) -> Iterator[Flag]:
    """Two arms of a comparison that differ in more than one thing: the difference has no one cause. `suspect` where the
    comparison was published.

    Detected: Runs of equal work on equally many devices, where no other run differs in one recorded condition only.
    Seen: GPT-2 on two nodes of V100: commit and configuration; the profile also in accumulation, logs and nodes.
    Repair: Change one thing; run both arms from one commit, in turn, several times.
    """
    sized = (run for run in context.runs if run.world_size and run.seq_len and run.tokens)
    # Of runs with fewer than three known conditions too little is known to say in what they differ.
    recorded = (run for run in sized if sum(getattr(run, name) is not None for name in CONDITIONS) >= 3)
    groups = grouped_by(recorded, "format", "world_size", "model", "dataset", "seq_len", "tokens")
    for group in groups.values():
        # The first run of each configuration: going backwards, earlier runs replace later ones.
        distinct = {repr((run.debug_settings, configuration(run))): run for run in reversed(group)}
        arms = list(distinct.values())[::-1]
        if 2 <= len(arms) <= MOST_CONFIGURATIONS:
            yield from _flag_arms_without_near_twin(context, arms)


def _flag_arms_without_near_twin(context: AuditContext, arms: list[ReportedRun]) -> Iterator[Flag]:
    """Flag each arm that differs in two conditions or more, commit and engine, even from its nearest, once a pair."""
    reported: set[frozenset[str]] = set()
    for arm in arms:
        others = [(other, _arm_differences(arm, other)) for other in arms if other is not arm]
        nearest, different = min(others, key=lambda other: _number_of_causes(other[1]))
        names = frozenset((arm.name, nearest.name))
        if _number_of_causes(different) <= 1 or names in reported:
            continue
        reported.add(names)
        severity: Severity = "suspect" if context.is_published(arm, nearest) else "note"
        yield Flag(f"they differ in {_pairs_of_values(different)}", [arm, nearest], severity=severity)


def _number_of_causes(different: Differences) -> int:
    """Count the differences that may change a rate: all but other nodes of the same cluster."""
    return len(different.keys() - {"hosts"})


def _arm_differences(a: ReportedRun, b: ReportedRun) -> Differences:
    """Return the fields in which two arms differ. Where one field follows from another, it is left out."""
    different = differences(a, b, (*CONDITIONS, "micro_batch", "accumulation"))
    if a.debug_settings != b.debug_settings:
        different["debugging"] = (listed(a.debug_settings) or "none", listed(b.debug_settings) or "none")
    if {"micro_batch", "accumulation"} <= set(different) and a.global_batch == b.global_batch:
        del different["micro_batch"]  # of one global batch, it follows from the accumulation
    if {"zero_stage", "strategy"} <= set(different):
        del different["zero_stage"]  # the strategy, "zero2", says the stage
    return different


def _shortened(value: Any) -> str:
    """Return a value as text: the first 12 characters of a hash, 60 of anything else."""
    text = str(value)
    return text[:12] if len(text) >= 40 and " " not in text else text[:60]


@of_evidence.check(SINGLE_RUN)
def repeated_enough(context: AuditContext) -> Iterator[Flag]:
    """Flag configurations that were measured once: one run says nothing about its own spread."""
    runs = (run for run in context.runs if run.is_timed and not run.copy_of)
    measured = (run for run in runs if run.details.get("status") not in STATUS_WITHOUT_NUMBERS)
    configuration_of = ("name_without_repeat", "world_size", "precision", "micro_batch", "accumulation")
    configurations = grouped_by(measured, *configuration_of)
    if alone := [repeats[0] for repeats in configurations.values() if len(repeats) == 1]:
        yield Flag(f"n=1 in {plural(len(alone), 'configuration')}: there is no interval", alone)


@of_evidence.finds("offload-undisclosed", "suspect")
def offload_is_disclosed(context: AuditContext) -> Iterator[Flag]:
    """With the optimizer on the CPU a run measures the bus and the CPU's Adam, beside runs that do not.

    Detected: offload_optimizer in a log's configuration, and no word of it in the run's name.
    Seen: GPT-2 on L4: ZeRO-2 and ZeRO-3.
    Repair: Name it in the row, or switch it off.
    """
    for run in context.runs:
        if run.offload and "offload" not in f"{run.name} {run.strategy}".lower():
            evidence = f"the log's configuration has offload_optimizer on {run.offload}; the name of the run does not"
            yield Flag(evidence, [run])


@of_evidence.finds("engine-batch-differs", "suspect")
def engine_has_the_batch(context: AuditContext) -> Iterator[Flag]:
    """The engine scales losses and counts steps by a batch that it does not get.

    Detected: train_micro_batch_size_per_gpu in a log differs from the program's own micro-batch.
    Seen: GPT-2 on L4: configured 4 and 2, fed 8; ZeRO on one H100: configured 4, fed 32.
    Repair: Let one number feed both.
    """
    for run in context.runs:
        if run.engine_batch and run.micro_batch and run.engine_batch != run.micro_batch:
            configured = f"the engine is configured for {plural(run.engine_batch, 'sample')}"
            yield Flag(f"{configured}, the program's own argument is {run.micro_batch}", [run])


@of_evidence.finds("hash-of-the-file", "note")
def hash_is_of_what_ran(context: AuditContext) -> Iterator[Flag]:
    """A hash of the configuration file does not change when the command line overrides it.

    Detected: One hash beside different batches.
    Seen: GPT-2 on V100: one sha256 for accumulation 2 and 1.
    Repair: Hash the configuration that the engine reports after start.
    """
    hashed = (run for run in context.runs if run.config_sha256)
    for (sha,), runs in grouped_by(hashed, "config_sha256").items():
        batches = {(run.micro_batch, run.accumulation) for run in runs if run.micro_batch and run.accumulation}
        if len(batches) > 1:
            pairs = listed(f"micro-batch {micro} x accumulation {steps}" for micro, steps in sorted(batches))
            yield Flag(f"sha256 {sha[:12]} stands for {pairs}", runs)


@of_evidence.check(
    Code(
        "spread-of-one-run",
        "suspect",
        what="A standard deviation of 0.0 from one run reads as perfect repeatability.",
        detected="Spread 0.0 beside one file of metrics.",
        seen="GPT-2 on 1, 2 and 4 V100, its scaling report.",
        repair="Print n=1 and no spread.",
    ),
    Code(
        "comparison-refused",
        "suspect",
        what="The program that made this table found that its runs are not comparable.",
        detected="Status invalid_comparison, or a list of mismatches.",
        seen="GPT-2 on V100: its own check rejects the table in its README.",
        repair="Run the sizes with equal settings.",
    ),
)
def report_is_its_runs(context: AuditContext) -> Iterator[Flag]:
    """Flag scaling reports with a spread of one run, and those that their own program calls invalid."""
    for report in context.evidence.scaling_reports:
        sizes = [size for size, row in sorted(report.rows.items()) if row["spread"] == 0 and (row["runs"] or 0) <= 1]
        if sizes:
            evidence = f"a standard deviation of 0.0 from one run at {listed(sizes)} devices: n=1, unknown"
            yield Flag(evidence, [report], "spread-of-one-run")
        if report.status == "invalid_comparison" or report.mismatches:
            evidence = f"its own program marks it {report.status}: {listed(report.mismatches)}"
            yield Flag(evidence, [report], "comparison-refused")


FEWEST_TIME_DIGITS = 8  # significant ones of one time, from which two measurements never agree by chance
FEWEST_STEPS = 10  # of a series of step times that is as telling
FEWEST_DISTINCT_TIMES = 5  # of that series
MOST_STEPS = 0.8  # share of the steps that a copy has in common with its original
TRIED_STEPS = 5  # of which one must be equal in two runs before all are compared


@of_evidence.check(RUN_COPIED)
def repeats_are_no_copies(context: AuditContext) -> Iterator[Flag]:
    """Flag runs whose names differ only by their repeat, and whose measurements are the same, so that one is a copy.

    A copy, byte for byte, under a name of another configuration is one, too.
    """

    def configuration(run: ReportedRun) -> tuple[str, str]:
        # Where a folder of repeats is audited by itself, the whole name is a repeat.
        return "" if PART_OF_REPEAT.fullmatch(run.name.lower()) else run.name_without_repeat, run.format

    for repeats in group_by(context.runs, configuration).values():
        for first, second in combinations(repeats, 2):
            what_agrees = same_measurement(first, second)
            if what_agrees and first.name != second.name:
                yield Flag(f"{first.name} and {second.name} have the same {what_agrees}", [first, second])
    runs_by_file = {run.files[0]: run for run in reversed(context.runs) if run.files}
    copies = [(runs_by_file[run.copy_of], run) for run in context.runs if run.copy_of in runs_by_file]
    for first, second in copies:
        if differing := [
            name for name in NAMED_FIELDS if len({getattr(first, name), getattr(second, name)} - {None}) > 1
        ]:
            evidence = f"{second.name} is a copy of {first.name}, byte for byte; the names differ in "
            yield Flag(evidence + listed([name.replace("_", " ") for name in differing]), [first, second])
    yield from _copies_at_other_sizes(run for run in context.runs if not run.copy_of)


NAMED_FIELDS = ("strategy", "world_size", "precision", "zero_stage", "model")  # that a name may state


def _copies_at_other_sizes(runs: Iterable[ReportedRun]) -> Iterator[Flag]:
    """Flag runs on different numbers of devices that took the same time, to all digits, in nearly all steps."""
    # (number of steps, index of a step, seconds of that step) -> runs that have it
    alike: dict[tuple[int, int, float], list[ReportedRun]] = defaultdict(list)
    sized = {run.name: (run, devices) for run in runs if (devices := _stated_devices(run))}
    times_of = {name: _telling_figures(run) for name, (run, _) in sized.items()}
    for name, times in times_of.items():
        for step in np.linspace(0, len(times) - 1, TRIED_STEPS, dtype=int) if len(times) else ():
            alike[len(times), int(step), float(times[step])].append(sized[name][0])

    pairs = chain.from_iterable(combinations(group, 2) for group in alike.values())
    for first, second in {(first.name, second.name): (first, second) for first, second in pairs}.values():
        times = times_of[first.name]
        devices, other_devices = (sized[run.name][1] for run in (first, second))
        equal = 0 if devices == other_devices else int((times == times_of[second.name]).sum())
        if equal >= MOST_STEPS * len(times):
            names = f"{first.name} on {devices} and {second.name} on {other_devices} devices"
            yield Flag(f"{names} have the same times in {equal} of {len(times)} steps", [first, second])


def _stated_devices(run: ReportedRun) -> int | None:
    """Return how many devices a run used, by its file or else by its name: 4 of "ddp_4gpus/train.log"."""
    words_of_name = re.sub("[/_.-]", " ", run.name)
    return run.world_size or describe(words_of_name).numbers.get("devices")


def same_measurement(a: ReportedRun, b: ReportedRun) -> str | None:
    """Return what shows that two runs are one measurement ("times of 40 steps"). Returns None where nothing does."""
    if a.run_id and a.run_id == b.run_id and a.tokens_per_s is not None and a.tokens_per_s == b.tokens_per_s:
        return f"run id and rate: {str(a.run_id)[:60]}"
    for name, what in (("seconds", "times"), ("tokens_per_s", "tokens/s"), ("samples_per_s", "samples/s")):
        figures = _telling_figures(a, name)
        if len(figures) and np.array_equal(figures, _telling_figures(b, name)):
            return f"{what} of {len(figures)} steps"
    seconds = [span.seconds for span in a.timed_spans]
    is_precise = any(digits_of(time) >= FEWEST_TIME_DIGITS for time in seconds)
    if is_precise and seconds == [span.seconds for span in b.timed_spans]:
        return f"time, {a.seconds:g} s to all digits"
    return None


def _telling_figures(run: ReportedRun, name: str = "seconds") -> Figures:
    """Return the figures of each logged step; none where they are too few, or too coarse, to tell a run by them."""
    figures = run.logged_steps.nonzero(name)
    are_telling = len(figures) >= FEWEST_STEPS and len(np.unique(figures)) >= FEWEST_DISTINCT_TIMES
    return figures if are_telling else figures[:0]
