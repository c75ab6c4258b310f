"""Published claims, checked against the files beside them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations
from statistics import fmean
from typing import Any

from scaleproof.auditor.checks.baselines import epoch_seconds
from scaleproof.auditor.checks.context import AuditContext, listed, near, of_evidence
from scaleproof.auditor.read.reported import PublishedClaim
from scaleproof.ground.campaign.model_shapes import ModelShape
from scaleproof.ground.facts.counts import count_gpt2
from scaleproof.ground.findings.finding import Correction
from scaleproof.ground.findings.registry import Code, Flag

PRINTED_RATIO_RESOLUTION = 0.006  # of a ratio that is printed with two decimals
SAME_SHAPE_TOLERANCE = 0.005  # relative difference of counts of parameters that are of one shape
CLAIM_UNITS = {"speedup": "x", "change": "", "throughput": "tokens/s", "mfu": ""}


def recomputed(context: AuditContext, claim: PublishedClaim) -> float | None:
    """Compute the figure of a claim from the files. Returns None where they do not have what it takes."""
    compute = _COMPUTED.get(claim.kind)
    return compute(context, claim.values) if compute else None


def _speedup(context: AuditContext, values: dict[str, Any]) -> float | None:
    fast, slow = context.total_rate_of(values["of"]), context.total_rate_of(values["over"])
    return fast.value / slow.value if fast and slow and fast.unit == slow.unit else None


def _change(context: AuditContext, values: dict[str, Any]) -> float | None:
    speedup = _speedup(context, values)
    return None if speedup is None else speedup - 1


def _tokens_per_s(context: AuditContext, values: dict[str, Any]) -> float | None:
    rate = context.total_rate_of(values["of"])
    return rate.value if rate and rate.unit == "tokens/s" else None


def _own_time(context: AuditContext, values: dict[str, Any]) -> float | None:
    own_times = [table.self_s for table in context.evidence.operator_tables if values["of"] in table.name]
    return own_times[0] if len(own_times) == 1 else None


def _step_time(context: AuditContext, values: dict[str, Any]) -> float | None:
    epoch_times = [seconds for run in context.runs_named(values["of"]) if (seconds := epoch_seconds(run))]
    steps = values["steps_per_epoch"]
    return fmean(epoch_times) / steps if epoch_times and steps > 0 else None


def _parallel_fraction(context: AuditContext, values: dict[str, Any]) -> float | None:
    """Return P of Amdahl's law, S = 1 / (1 - P + P / N)."""
    speedup, devices = values["speedup"], values["devices"]
    return (1 - 1 / speedup) / (1 - 1 / devices) if speedup > 0 and devices > 1 else None


def _mfu(context: AuditContext, values: dict[str, Any]) -> float | None:
    return values["flops"] / values["peak"] if values["peak"] > 0 else None


_COMPUTED: dict[str, Callable[[AuditContext, dict[str, Any]], float | None]] = {
    "speedup": _speedup,
    "change": _change,
    "throughput": _tokens_per_s,
    "total_time": _own_time,
    "step_parts": _step_time,
    "amdahl": _parallel_fraction,
    "mfu": _mfu,
}


def claims_follow(context: AuditContext) -> Iterator[Flag]:
    """Flag published figures where the files or the claim itself give others: 4.2 for runs of 390 and 100 tokens/s."""
    for claim in context.claims("speedup", "change", "throughput", "mfu"):
        computed, stated = recomputed(context, claim), claim.values.get("value")
        if computed is None or stated is None:
            continue
        if abs(computed - stated) <= max(PRINTED_RATIO_RESOLUTION, 0.005 * abs(stated)):
            continue  # equal but for rounding
        names = "".join(f" {key} {claim.values[key]}" for key in ("of", "over") if key in claim.values)
        basis = "flops / peak" if claim.kind == "mfu" else "files"
        evidence = f"{claim.source} says {stated:g} for the {claim.kind}{names}; its {basis} give {computed:.4g}"
        right = Correction(value=computed, unit=CLAIM_UNITS[claim.kind], derivation=f"recomputed from the {basis}")
        yield Flag(evidence, [claim.values.get("of", claim.kind)], corrected=right)


@of_evidence.finds("difference-of-single-runs", "suspect")
def differences_are_repeated(context: AuditContext) -> Iterator[Flag]:
    """Two runs always differ. Without repeats nobody knows whether they differ by more than two runs of one arm.

    Detected: A claimed change with n=1 in an arm.
    Seen: GPT-2 on two nodes of V100: +19.5 %.
    Repair: Run both arms in turn, several times, and give an interval.
    """
    for claim in context.claims("change"):
        arms = [context.runs_named(claim.values[key]) for key in ("of", "over")]
        if all(arms) and any(len(arm) == 1 for arm in arms):
            sizes = f"n={len(arms[0])} and n={len(arms[1])}"
            evidence = f"{claim.source} claims {claim.values['value']:+.1%} from {sizes}: no spread to compare it with"
            yield Flag(evidence, [run for arm in arms for run in arm])


@of_evidence.finds("communication-negative", "invalid")
def communication_is_not_negative(context: AuditContext) -> Iterator[Flag]:
    """Communication as “time at N minus time at 1” comes out below zero: it is a difference of two programs, not of
    communication.

    Detected: A communication time below zero.
    Seen: GPT-2 on L4: -0.115 and -0.133 s.
    Repair: Measure the collectives' kernels in a trace, overlapped and exposed time apart.
    """
    for claim in context.claims("communication_time"):
        if claim.values["value"] < 0:
            how = f" ({claim.values['how']})" if "how" in claim.values else ""
            evidence = f"{claim.source} gives {claim.values['value']:g} s for {claim.values['of']}{how}"
            yield Flag(f"{evidence}: a difference of two runs is no communication", [claim.values["of"]])


@of_evidence.finds("amdahl-below-one", "invalid")
def amdahl_needs_a_speedup(context: AuditContext) -> Iterator[Flag]:
    """A parallel fraction that Amdahl's law does not give. From a speed-up below 1 it gives none.

    Detected: P from S < 1, or a P that the formula does not give.
    Seen: a text classifier with DDP on 4 GPUs: P = 0.43 from 0.46x; the formula gives -1.57.
    Repair: Fit only where S > 1, from three sizes or more; otherwise look for the fault.
    """
    for claim in context.claims("amdahl"):
        fraction, speedup = recomputed(context, claim), claim.values["speedup"]
        if fraction is None:
            continue
        stated = claim.values["parallel_fraction"]
        if speedup >= 1 and abs(fraction - stated) <= 0.02:
            continue
        evidence = f"P = {stated:g} for {speedup:g} times with {claim.values['devices']:g} devices"
        evidence += f"; the formula gives {fraction:.3g}"
        if speedup < 1:
            yield Flag(f"{evidence}, and Amdahl's law has no S below 1", [claim.source])
        else:
            correction = Correction(value=round(fraction, 3), unit="", derivation="P = (1 - 1/S) / (1 - 1/N)")
            yield Flag(evidence, [claim.source], corrected=correction)


SHARES_CONTRADICT = Code(
    "shares-contradict",
    "invalid",
    what="Two shares of the same thing in the same run cannot both describe it.",
    detected="More than 1.5 times apart.",
    seen="GPT-2 on two nodes of V100: all-reduce 16.8 % of ranges, 87.9 % of kernel time.",
    repair="Name the total, and take kernel time for communication.",
)


@of_evidence.check(
    SHARES_CONTRADICT,
    Code(
        "shares-of-different-totals",
        "invalid",
        what="Percentages of different totals are compared as if they were of one.",
        detected="Two shares of the same thing in two runs, of totals that are named differently.",
        seen="GPT-2 on two nodes of V100: 40.8 % and 16.8 % are of sums of different nested ranges; of all kernel time "
        "both are above 85 %.",
        repair="Compare seconds per step, or shares of one total.",
    ),
)
def shares_have_one_total(context: AuditContext) -> Iterator[Flag]:
    """Flag two shares of one thing in one run that contradict each other, and those of two runs of two totals."""
    shares = list(context.claims("share"))
    for claim, other in combinations(shares, 2):
        a, b = claim.values, other.values
        if a["what"] != b["what"]:
            continue
        evidence = f"{a['what']}: {_share_in_words(a)} and {_share_in_words(b)}"
        smaller, larger = sorted((a["percent"], b["percent"]))
        if a["run"] == b["run"] and smaller * 1.5 < larger:
            yield Flag(evidence, [a["run"]], SHARES_CONTRADICT.name)
        elif a["run"] != b["run"] and claim.source == other.source and a["of_total"] != b["of_total"]:
            # One source sets them side by side, as if they were of one total.
            alike = [share.values for share in shares if share.values["what"] == a["what"]]
            of_common_totals = _shares_of_common_totals(alike, a["run"], b["run"])
            evidence += "".join(f"; {text}" for text in of_common_totals)
            yield Flag(evidence, [a["run"], b["run"]], "shares-of-different-totals")


def _share_in_words(values: dict[str, Any]) -> str:
    """Return a share in words: "16.8 % of all ranges (run-b)"."""
    return f"{values['percent']:g} % of {values['of_total']} ({values['run']})"


def _shares_of_common_totals(shares: Iterable[dict[str, Any]], run_a: str, run_b: str) -> list[str]:
    """Return both runs' shares, for each total of which both have one: ["of kernel time: 85.6 % and 87.9 %"]."""
    percents: dict[str, dict[str, float]] = defaultdict(dict)  # run -> total -> per cent
    for share in shares:
        percents[share["run"]][share["of_total"]] = share["percent"]
    of_a, of_b = percents[run_a], percents[run_b]
    return [f"of {total}: {of_a[total]:g} % and {of_b[total]:g} %" for total in of_a if total in of_b]


@of_evidence.finds("parts-exceed-step", "invalid")
def parts_fit_the_step(context: AuditContext) -> Iterator[Flag]:
    """The parts of a step take longer than the step: they were assumed, not measured.

    Detected: Computing plus communicating exceeds the measured step by more than 10 %.
    Seen: a text classifier with DDP on 4 GPUs: 17.5 + 32.5 ms in steps of 11.3 ms.
    Repair: Measure the parts in a trace, or leave them out.
    """
    for claim in context.claims("step_parts"):
        step_s = recomputed(context, claim)
        compute_s, communication_s = claim.values["compute"], claim.values["communication"]
        if step_s is None or compute_s + communication_s <= 1.1 * step_s:
            continue
        parts = f"{compute_s * 1e3:g} ms of computing and {communication_s * 1e3:g} ms of communication in a step"
        evidence = f"{claim.source} has {parts}; the whole step is {step_s * 1e3:.1f} ms"
        right = Correction(value=round(step_s * 1e3, 1), unit="ms", derivation="both together")
        yield Flag(evidence, context.runs_named(claim.values["of"]), corrected=right)


@of_evidence.finds("parameter-count", "suspect")
def parameters_are_counted(context: AuditContext) -> Iterator[Flag]:
    """FLOPs and MFU follow from the parameters; a head that is not tied to the token table adds a third to GPT-2 small.

    Detected: Stated parameters against those of the shape.
    Seen: GPT-2 on 1, 2 and 4 V100: “124M” is 163,037,184 with its untied head.
    Repair: Count the parameters of the model that is built.
    """
    for claim in context.claims("parameters"):
        values = claim.values
        if not all(0 < values[key] < 1e7 for key in ("layers", "width", "vocab", "context")):
            continue  # no shape of a model
        layers, width = int(values["layers"]), int(values["width"])
        vocab, positions = int(values["vocab"]), int(values["context"])
        shape = ModelShape(layers=layers, width=width, heads=1, context=positions)
        parameters = count_gpt2(shape, vocab, positions).parameters + (0 if values["tied"] else vocab * width)
        if near(values["value"], parameters, SAME_SHAPE_TOLERANCE):
            continue

        kind = "tied" if values["tied"] else "untied"
        model = f"{layers} layers of {width} with a vocabulary of {vocab:,} and a head that is {kind}"
        evidence = f"{claim.source} says {values['value'] / 1e6:.1f}M; {model} have {parameters:,}"
        right = Correction(value=parameters, unit="parameters", derivation=f"counted, head {kind}")
        yield Flag(evidence, [claim.source], corrected=right)


@of_evidence.finds("claim-without-files", "note")
def named_runs_exist(context: AuditContext) -> Iterator[Flag]:
    """A claim about a run whose files are not here.

    Detected: The name of the run occurs in no file.
    Seen: ZeRO stages and precisions on one H100: no step log was published.
    Repair: Publish the raw series beside the table.
    """
    profiles = [table.name for table in context.evidence.operator_tables]
    claims = context.evidence.published_claims
    names = {claim.values[key] for claim in claims for key in ("of", "over") if key in claim.values}
    without_run = (name for name in names if not context.runs_named(name))
    absent = sorted(name for name in without_run if not any(name in profile for profile in profiles))
    if absent:
        runs = listed([run.name for run in context.runs]) or "none"
        yield Flag(f"published, but no file here: {listed(absent)}; runs here: {runs}", absent)
