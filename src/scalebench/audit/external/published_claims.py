"""Published sentences, held against the files beside them."""

from statistics import fmean
from typing import Any

from scalebench.audit.external.context import AuditContext, epoch_seconds, listed, named, near
from scalebench.audit.external.execution import known_peaks
from scalebench.audit.finding import Finding
from scalebench.campaign.model_shapes import ModelShape
from scalebench.importers.reported import PublishedClaim
from scalebench.model.counts import count
from scalebench.model.peaks import TERA, peak

PRINTED = 0.006  # of a ratio that is printed with two digits
SAME_SHAPE = 0.005


def data_say(context: AuditContext, statement: PublishedClaim) -> float | None:
    """The figure of a statement, computed anew from the files; None where they do not carry it."""
    values = statement.values
    if statement.kind in ("speedup", "change"):
        fast, slow = context.speed_of(values["of"]), context.speed_of(values["over"])
        if not (fast and slow) or fast.unit != slow.unit:
            return None
        return fast.value / slow.value - (statement.kind == "change")
    if statement.kind == "throughput":
        found = context.speed_of(values["of"])
        return found.value if found and found.unit == "tokens/s" else None
    if statement.kind == "total_time":
        owns = [p.self_s for p in context.evidence.operator_tables if values["of"] in p.name]
        return owns[0] if len(owns) == 1 else None
    if statement.kind == "step_parts":
        times = [t for c in context.of(values["of"]) if (t := epoch_seconds(c))]
        return fmean(times) / values["steps_per_epoch"] if times and values["steps_per_epoch"] > 0 else None
    if statement.kind == "amdahl":
        s, n = values["speedup"], values["devices"]
        return (1 - 1 / s) / (1 - 1 / n) if s > 0 and n > 1 else None
    return None


def statements_follow(context: AuditContext) -> list[Finding]:
    """A published ratio or rate follows from the files that it is said to come from."""
    found = []
    for s in context.evidence.published_claims:
        if s.kind not in ("speedup", "change", "throughput"):
            continue
        here, value = data_say(context, s), s.values["value"]
        if here is not None and abs(here - value) > max(PRINTED, 0.005 * abs(value)):
            over = f" over {s.values['over']}" if "over" in s.values else ""
            evidence = (
                f"{s.source} says {value:g} for the {s.kind} of {s.values['of']}{over}; its files give {here:.4g}"
            )
            found.append(named("claim-not-in-data", "suspect", [s.values["of"]], evidence, f"{here:.4g}"))
    return found


def differences_are_repeated(context: AuditContext) -> list[Finding]:
    """A difference between two single runs may be the difference between any two runs."""
    found = []
    for s in context.evidence.published_claims:
        if s.kind == "change":
            arms = [context.of(s.values[k]) for k in ("of", "over")]
            if all(arms) and any(len(arm) == 1 for arm in arms):
                evidence = f"{s.source} claims {s.values['value']:+.1%} from n={len(arms[0])} and n={len(arms[1])}"
                found.append(
                    named(
                        "difference-of-single-runs",
                        "suspect",
                        [c for arm in arms for c in arm],
                        evidence,
                        "unknown: no spread to hold it against",
                    )
                )
    return found


def communication_is_not_negative(context: AuditContext) -> list[Finding]:
    """A time that is a difference can come out below zero; then it is no time."""
    found = []
    for s in context.evidence.published_claims:
        if s.kind == "communication_time" and s.values["value"] < 0:
            evidence = f"{s.source} gives {s.values['value']:g} s for {s.values['of']}" + (
                f" ({s.values['how']})" if "how" in s.values else ""
            )
            found.append(
                named(
                    "communication-negative",
                    "invalid",
                    [s.values["of"]],
                    evidence,
                    "unknown: a difference of two runs is no communication",
                )
            )
    return found


def amdahl_needs_a_speedup(context: AuditContext) -> list[Finding]:
    """P = (1 - 1/S) / (1 - 1/N) is a fraction only where S is 1 or more."""
    found = []
    for s in context.evidence.published_claims:
        if s.kind != "amdahl":
            continue
        fraction, speedup = data_say(context, s), s.values["speedup"]
        if fraction is not None and (speedup < 1 or abs(fraction - s.values["parallel_fraction"]) > 0.02):
            evidence = f"{s.source} has P = {s.values['parallel_fraction']:g} for {speedup:g} times with {s.values['devices']:g} devices; the formula gives {fraction:.2f}"
            corrected = "none: Amdahl's law has no S below 1" if speedup < 1 else f"P = {fraction:.3f}"
            found.append(named("amdahl-below-one", "invalid", [s.source], evidence, corrected))
    return found


def shares_have_one_total(context: AuditContext) -> list[Finding]:
    """Percentages of different totals are not compared; two shares of one run that contradict each other are not both right."""
    shares = [(s.source, s.values) for s in context.evidence.published_claims if s.kind == "share"]
    found = []
    for i, (source, a) in enumerate(shares):
        for other, b in shares[i + 1 :]:
            if a["what"] != b["what"]:
                continue
            both = f"{a['percent']:g} % of {a['of_total']} ({a['run']}) and {b['percent']:g} % of {b['of_total']} ({b['run']})"
            if a["run"] == b["run"] and min(a["percent"], b["percent"]) * 1.5 < max(a["percent"], b["percent"]):
                found.append(named("shares-contradict", "invalid", [a["run"]], f"{a['what']}: {both}"))
            elif a["run"] != b["run"] and source == other and a["of_total"] != b["of_total"]:
                common = _common([values for _, values in shares], a, b)
                found.append(
                    named("shares-of-different-totals", "invalid", [a["run"], b["run"]], f"{a['what']}: {both}", common)
                )
    return found


def _common(shares: list[dict], a: dict, b: dict) -> str:
    """The same quantity of both runs under one total, where it was published."""
    mine = {s["of_total"]: s["percent"] for s in shares if s["run"] == a["run"] and s["what"] == a["what"]}
    theirs = {s["of_total"]: s["percent"] for s in shares if s["run"] == b["run"] and s["what"] == a["what"]}
    return "; ".join(f"of {total}: {mine[total]:g} % and {theirs[total]:g} %" for total in mine if total in theirs)


def parts_fit_the_step(context: AuditContext) -> list[Finding]:
    """Computing and communicating take no longer than the step that they are parts of."""
    found = []
    for s in context.evidence.published_claims:
        if s.kind == "step_parts":
            step, claimed = data_say(context, s), s.values["compute"] + s.values["communication"]
            if step is not None and claimed > 1.1 * step:
                evidence = f"{s.source} has {s.values['compute'] * 1e3:g} ms of computing and {s.values['communication'] * 1e3:g} ms of communication in a step; the whole step is {step * 1e3:.1f} ms"
                found.append(
                    named(
                        "parts-exceed-step",
                        "invalid",
                        context.of(s.values["of"]),
                        evidence,
                        f"{step * 1e3:.1f} ms together",
                    )
                )
    return found


def parameters_are_counted(context: AuditContext) -> list[Finding]:
    """The parameters of a GPT-2, with the head tied to the token table or not."""
    found = []
    for s in context.evidence.published_claims:
        if s.kind != "parameters":
            continue
        v = s.values
        if not all(0 < v[k] < 1e7 for k in ("layers", "width", "vocab", "context")):
            continue
        layers, width, vocab, context = (int(v[k]) for k in ("layers", "width", "vocab", "context"))
        tied = count(ModelShape(layers=layers, width=width, heads=1, context=context), vocab, context).parameters
        right = tied if v["tied"] else tied + vocab * width
        if not near(v["value"], right, SAME_SHAPE):
            kind = "tied" if v["tied"] else "untied"
            evidence = f"{s.source} says {v['value'] / 1e6:.1f}M; {layers} layers of {width} with {vocab:,} entries and a head that is {kind} have {right:,}"
            found.append(named("parameter-count", "suspect", [s.source], evidence, f"{right:,} parameters"))
    return found


def peaks_are_the_devices(context: AuditContext) -> list[Finding]:
    """The peak behind a published MFU is that of the device and the precision."""
    found = []
    for s in context.evidence.published_claims:
        if s.kind != "mfu" or not s.values["peak"] > 0:
            continue
        v = s.values
        share = v["flops"] / v["peak"]
        right = peak(str(v["device"]), v["precision"]) if v["precision"] in ("fp32", "tf32", "bf16", "fp16") else None
        if share > 1:
            found.append(
                named(
                    "mfu-impossible",
                    "invalid",
                    [s.source],
                    f"{v['flops'] / TERA:g} of {v['peak'] / TERA:g} TFLOP/s is {share:.0%}",
                )
            )
        if right and not near(v["peak"], right.flops, 0.02):
            other = [
                d
                for d in ("A100", "H100", "V100", "T4", "L4", "H200")
                if d not in str(v["device"]) and any(near(v["peak"], p, 0.02) for p in known_peaks(d))
            ]
            evidence = f"{s.source} divides by {v['peak'] / TERA:g} TFLOP/s{f', the peak of {listed(other)}' if other else ''}; {v['device']} has {right.flops / TERA:g} in {v['precision']}"
            found.append(
                named(
                    "peak-of-another-device",
                    "invalid",
                    [s.source],
                    evidence,
                    f"{v['flops'] / right.flops:.1%} ({right.source})",
                )
            )
    return found


def named_runs_exist(context: AuditContext) -> list[Finding]:
    """A sentence about a run whose files are not there cannot be checked."""
    absent = []
    for s in context.evidence.published_claims:
        wanted: list[Any] = [s.values[k] for k in ("of", "over") if k in s.values]
        profiles = [p.name for p in context.evidence.operator_tables]
        absent += [w for w in wanted if not context.of(w) and not any(w in p for p in profiles)]
    if not absent:
        return []
    return [
        named(
            "claim-without-files",
            "note",
            sorted(set(absent)),
            f"published, but no file here: {listed(sorted(set(absent)))}",
        )
    ]


CHECKS = (
    statements_follow,
    differences_are_repeated,
    communication_is_not_negative,
    amdahl_needs_a_speedup,
    shares_have_one_total,
    parts_fit_the_step,
    parameters_are_counted,
    peaks_are_the_devices,
    named_runs_exist,
)
