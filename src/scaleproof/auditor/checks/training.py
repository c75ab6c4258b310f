"""Did the runs train at all, and undisturbed? What losses, gradients, updates and conditions of a log say."""

import math
import re
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from scaleproof.auditor.checks.context import AuditContext, digits_of, listed, of_evidence
from scaleproof.auditor.read.reported import ReportedRun
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.registry import Code, Flag

FEWEST_LOGGED = 10  # logged losses or norms that are equal
FEWEST_LOST = 3  # losses that are no numbers, the last one among them
FEWEST_LOSS_DIGITS = 4  # of a loss that does not repeat by rounding alone
GPT2_VOCABULARY = 50_304  # the vocabulary of GPT-2, padded: the largest that its programs use
GUESSING_FACTOR = 1.02  # times the loss of random guessing: an untrained network may be 1.5 % above
STEPS_TO_LEARN = 100  # steps after which a network that trains is below
LEARNED_FACTOR = 0.8  # times the loss of random guessing: what learned is below
VOCABULARY = re.compile(
    r"(?i)vocab(?:ulary)?(?:[ _]size)?(?: of|:|=)? ?(?:(\d{1,3}(?:,\d{3})+)|(\d+)(?:[.]\d+)?(k)?)\b"
)
OF_GPT2 = re.compile(r"(?i)nanogpt|llm\.c|gpt-?2\b")

NOT_FINITE = Code(
    "not-finite",
    "invalid",
    what="NaN or infinity in the figures of a run.",
    detected="Values that are not finite.",
    seen="",
    repair="Find the step at which it began; a run without finite losses did not do the work.",
)


@of_evidence.finds("did-not-train", "suspect")
def runs_trained(context: AuditContext) -> Iterator[Flag]:
    """The weights did not learn, or nobody knows what they did: no rate of such a run is one of training.

    Detected: The same loss, to four digits or more, in all of ten logged steps or more; a gradient norm of 0 in all;
    after 100 steps a loss above that of random guessing (GPT-2's vocabulary, or a stated one in a table whose other
    rows are far below); `invalid`: losses that are NaN or infinite from some step to the last.
    Seen: 277 logs of one public collection, whose losses are NaN from the first step to the last.
    Repair: Look at learning rate, precision and loss scale; run again, and publish the losses beside the rate.
    """
    for run in context.runs:
        if (lost := _lost_since(run)) is not None:
            start, lines = lost
            evidence = f"the loss is NaN or infinite from step {start:,} to the last one, in {plural(lines, 'line')}"
            yield Flag(evidence, [run], severity="invalid")
        yield from (Flag(evidence, [run]) for evidence in _signs_of_no_training(run))
    yield from _rows_above_guessing(context)


def _rows_above_guessing(context: AuditContext) -> Iterator[Flag]:
    """Flag training losses above random guessing, where another row is far below: 11.2 and 3.1 with 50,304 words."""
    for table in context.tables:
        tokens = _vocabulary_size(" . ".join((*table.section, table.caption, table.grid.above if table.grid else "")))
        losses = [(row, loss) for row in table.rows if row.measured and (loss := row.known("loss"))]
        if not tokens or "step" in table.kinds() | {column.kind for column in table.columns}:
            continue  # no vocabulary; or rows of steps, the first of which have the loss of guessing anyway
        guessing = math.log(tokens)
        if not any(loss.interval.high < LEARNED_FACTOR * guessing for _, loss in losses):
            continue
        for row, loss in losses:
            if loss.interval.low > GUESSING_FACTOR * guessing:
                evidence = f"{loss.heading} {loss.printed}; random guessing among {tokens:,} tokens has {guessing:.2f}"
                yield Flag(f"{row.description}: {evidence}", [row.place])


def _vocabulary_size(text: str) -> int:
    """Return the size of the vocabulary that a text states, else GPT-2's where it names that model; else 0."""
    if match := VOCABULARY.search(text):
        return int(re.sub(r"\D", "", match[1] or match[2])) * (1000 if match[3] else 1)  # "50.3k" is about 50,000
    return GPT2_VOCABULARY if OF_GPT2.search(text) else 0


def _lost_since(run: ReportedRun) -> tuple[int, int] | None:
    """Return (first step, count), (120, 40), of NaN losses after the last finite one; None if below FEWEST_LOST."""
    losses = run.logged_steps.figures("loss")  # NaN also where a line has no loss; `nan_steps`: a NaN was printed
    steps_with_number = np.array(run.logged_steps.step_numbers)[~np.isnan(losses)]
    last_with_number = int(steps_with_number.max()) if steps_with_number.size else -1
    lost = sorted({step for step in run.nan_steps if step > last_with_number})
    return (lost[0], len(lost)) if len(lost) >= FEWEST_LOST else None


def _signs_of_no_training(run: ReportedRun) -> Iterator[str]:
    """Yield sentences on losses that never change or stay above random guessing, and on gradients that are all 0."""
    losses = run.logged_steps.values("loss")
    is_gpt2 = OF_GPT2.search(f"{run.format} {run.model}")
    are_many = len(losses) >= FEWEST_LOGGED
    if are_many and (losses == losses[0]).all() and digits_of(losses[0]) >= FEWEST_LOSS_DIGITS:
        yield f"the loss is {losses[0]:.10g} in all of {plural(len(losses), 'logged step')}"
    elif are_many and run.logged_steps.step_numbers[-1] >= STEPS_TO_LEARN and is_gpt2:
        lowest = float(losses[len(losses) // 2 :].min())
        guessing = math.log(GPT2_VOCABULARY)
        if lowest > GUESSING_FACTOR * guessing:
            still = f"the loss is still {lowest:.2f} or more in the second half of {len(losses):,} logged steps"
            yield f"{still}; random guessing among {GPT2_VOCABULARY:,} tokens has {guessing:.2f}"
    if run.gradient_norms >= FEWEST_LOGGED and run.zero_gradient_norms == run.gradient_norms:
        yield f"the norm of the gradients is 0 in all of {plural(run.gradient_norms, 'logged step')}"


@of_evidence.finds("profiled-run", "suspect")
def nothing_disturbed(context: AuditContext) -> Iterator[Flag]:
    """Profilers, collective logs, synchronising timers and debugging slow runs down, and not all runs alike.

    Detected: Command lines, environments and configurations that are recorded: nsys, --profile, NCCL_DEBUG=INFO,
    TORCH_DISTRIBUTED_DEBUG, wall_clock_breakdown, ...
    Seen: GPT-2 on two nodes of V100: 24,091 tokens/s under a profiler, 35,807 without.
    Repair: Take throughput from a run without any of them.
    """
    by_settings: dict[str, list[ReportedRun]] = defaultdict(list)
    for run in context.runs:
        if run.debug_settings:
            settings = sorted(run.debug_settings.items())
            by_settings[listed(f"{name}={value}" if value != "on" else name for name, value in settings)].append(run)
    for settings_text, runs in by_settings.items():
        yield Flag(f"on during {plural(len(runs), 'run')}: {settings_text}", runs)


@of_evidence.finds("validation-zero", "invalid")
def validation_was_made(context: AuditContext) -> Iterator[Flag]:
    """A validation loss of 0.0 is the sum of nothing; as a best loss it beats every model.

    Detected: Exactly 0.
    Seen: GPT-2 on two nodes of V100: best_val_loss 0.0 with no validation steps.
    Repair: Write null where nothing was validated.
    """
    for run in context.runs:
        zeros = ["best_val_loss"] if run.best_val_loss == 0 else []
        zeros += [f"epoch {span.index}" for span in run.timed_spans if span.val_loss == 0]
        if zeros:
            yield Flag(f"validation loss is 0.0 ({listed(zeros)}): nothing was validated", [run])


UPDATES_SKIPPED = Code(
    "updates-skipped",
    "suspect",
    what="fp16 overflow skips updates: such steps are cheaper and the work is not done.",
    detected="Skipped iterations in the log; fewer all-gathers in the trace of a ZeRO run than optimizer steps.",
    seen="GPT-2 on two nodes of V100: 38 updates in 40 steps; DeepSpeed issue 2879.",
    repair="Warm up until the loss scale is stable; count updates; prefer bf16.",
)


@of_evidence.check(UPDATES_SKIPPED)
def updates_were_made(context: AuditContext) -> Iterator[Flag]:
    """Flag runs with steps that the loss scaler skipped: they cost less and teach nothing."""
    for run in context.runs:
        if run.skipped_steps:
            verb = "was" if run.skipped_steps == 1 else "were"
            evidence = f"{plural(run.skipped_steps, 'step')} {verb} skipped by the loss scaler"
            yield Flag(evidence, [run])


@of_evidence.check(
    NOT_FINITE,
    Code(
        "field-unusable",
        "suspect",
        what="A field does not hold what its name says; it was left out of all checks.",
        detected="Text where a number belongs, times and rates of 0 or below, broken rows.",
        seen="",
        repair="Write null for unknown, and numbers as numbers; copy a file again that is cut off.",
    ),
    Code(
        "field-missing",
        "note",
        what="A field of the file's schema is missing; what it would say is derived, or unknown.",
        detected="Fields that other files of the schema have.",
        seen="GPT-2 on V100: deepspeed_enabled.",
        repair="Raise the schema's version when fields change.",
    ),
)
def fields_are_usable(context: AuditContext) -> Iterator[Flag]:
    """Flag fields that do not hold what their name says (text for a number, a time below zero) or are missing."""
    for run in context.runs:
        if run.nan_steps and _lost_since(run) is None:  # else the run did not train: `runs_trained`
            evidence = f"the loss of {plural(len(run.nan_steps), 'iteration')} is not a number"
            yield Flag(f"{evidence}, first in step {min(run.nan_steps)}", [run], NOT_FINITE.name)
        if run.problems:  # sentences on what the reader of its file left out: no check uses it, so only "suspect"
            yield Flag(listed(run.problems), [run], "field-unusable", severity="suspect")
    if missing := [run for run in context.runs if run.details.get("missing")]:
        names = sorted({name for run in missing for name in run.details["missing"]})
        verb = "is" if len(names) == 1 else "are"
        yield Flag(f"{listed(names)} {verb} missing", missing, "field-missing")
