"""What a heading of a table (or a key of a JSON file) means: its kind, unit, statistic and scope.

A heading is taken apart into its unit, its statistic ("p95"), its scope ("per GPU", "total") and a phrase; the phrase
must be one of `heading_words` as a whole. Any other heading is not understood, and is listed as such.
"""

import re
from dataclasses import replace
from functools import lru_cache

from scaleproof.auditor.read.heading_words import PHRASES
from scaleproof.auditor.read.printed_figures import DEVICE, KINDS, KINDS_OF_UNITS, Unit, plain_text, unit_of
from scaleproof.auditor.read.reported_tables import Statistic, TableColumn
from scaleproof.auditor.read.words import DEVICES, describe, in_english

STATISTICS: tuple[tuple[str, Statistic], ...] = (
    (
        r"\b(?:std (?:dev|deviation|error|err)|st dev|standard (?:deviation|error)|std|stdev|stddev|stderr|sd|sem|"
        r"variance|coefficient of variation|cv|iqr)\b",
        "std",
    ),
    (r"\bp ?50\b", "p50"),
    (r"\bp ?90\b", "p90"),
    (r"\b(?:p ?95|95th(?: percentile)?)\b", "p95"),
    (r"\b(?:p ?99|99th(?: percentile)?)\b", "p99"),
    (r"\b(?:median|med)\b", "median"),
    (r"\b(?:mean|avg|average|averaged)\b", "mean"),
    (r"\b(?:min|minimum)\b", "min"),
    (r"\b(?:max|maximum)\b", "max"),
)
# The spread that a heading names behind a mean: "tok/s (mean ± std)", "Throughput [95 % CI]". The figure is still the
# mean. "Time +/-" is not matched: it is a spread or a difference, and no time.
WITH_SPREAD = re.compile(
    r"(?i)\s*(?:[(\[]\s*)?(?:±|\+/-|\+-)\s*(?:std|stdev|std\.? dev\.?|sd|sem|ci|\d+ ?%? ?ci|error)(?:\s*[)\]])?|"
    r"\s*[(\[]\s*\d+ ?%(?: (?:ci|confidence(?: interval)?))?\s*[)\]]|\s*[(\[]\s*(?:\d+ ?%? ?)?ci\s*[)\]]"
)


def without_statistic(text: str) -> tuple[Statistic | None, str]:
    """Return the first statistic that a heading names, and the heading without any: "p95 latency" -> p95, "latency"."""
    first_statistic: Statistic | None = None
    for pattern, statistic in STATISTICS:
        shorter, count = re.subn(pattern, " ", text)
        if count and shorter.strip():
            first_statistic = first_statistic or statistic
            text = " ".join(shorter.split())
    return first_statistic, text


NOT_FIGURES = ("strategy", "precision", "model", "dataset", "device", "backend", "run", "status", "text", "metric")
RATE_INSIDE = re.compile(
    rf"(?i)\b(?:tokens?|tok|samples?|images?|imgs?|sequences?|steps?|it)/(?:second|sec|"
    rf"s)(?:/{DEVICE})?(?![a-z/])|\b(?:T|P|tera|peta)FLOPS?(?:/s(?:ec)?)?(?:(?:/| per ){DEVICE})?\b"
)
# A statistic before or behind a name that ends in its unit: "step_time_ms_mean", "p95 step_time_s".
_STATISTIC = "(?:mean|median|std|min|max|p50|p90|p95|p99|avg)"
STATISTIC_AROUND = rf"(?i)^{_STATISTIC}[ _]|[ _]{_STATISTIC}$"
PER_DEVICE = re.compile(rf"(?:\bper[ -]|/ ?)(?:the )?{DEVICE}\b|\bgpu \d\b|\bsingle gpu\b(?= throughput)|\beach gpu\b")
OF_ALL_DEVICES = re.compile(
    r"\b(?:global|total|aggregate[d]?|overall|all gpus|all devices|cluster|system|combined|across all \w+)\b"
)
# The scope is part of the phrases of these kinds: "total time".
SCOPED_KINDS = {"total_time_s", "global_batch", "steps", "epochs", "tokens", "samples", "parameters"}
SCOPED_KINDS |= {"devices", "energy_j", "cost"}
VERSUS = re.compile(r"\b(?:vs\.?|versus|over|relative to|compared (?:to|with)|rel\. to|w\.r\.t\.?) (.*)$")
BASELINE = re.compile(rf"(?:a |the )?(?:(?:\d+|one|single)[ -]?x?)?[ -]?(?:{DEVICE}|baseline)s?")
# Other names of a baseline with fewer devices, or of linear scaling; anything else is another configuration.
FEWER_DEVICES = re.compile(
    r"(?:the |a )?(?:1|one|single|serial|sequential|baseline|base|ideal|linear|perfect|theoretical|n ?1|np ?1)\b.*"
)
# Of a model; a rate is "FLOPS", "GFLOP/s".
OPERATIONS = re.compile(r"(?:\w+[_ ])?(?:[GM]?FLOPs|[Ff]lops)(?:[_ ](?:total|count))?")
UNITS_IN_NAMES = re.compile(
    r"(?i)[_ ](ms|us|ns|sec|secs|seconds|s|min|minutes|hours|hrs|h|mb|gb|kb|mib|gib|bytes|pct|percent|tflops|m?w|watts|"
    r"k?wh|k?j|usd|eur|gbp|x|per_sec|per_s|millis)$"
)
LEADING_WORD = re.compile(
    r"(?i)(?:(?:pytorch )?(?:ddp|fsdp\d?|dp|zero[ -]?\d?|deepspeed|horovod|baseline|single[ -]gpu|fp16|bf16|"
    rf"fp32|tf32|amp|mixed[ -]precision|\d+[ -]?gpus?|{DEVICES})[ -]+)+"
)
PRECISION = re.compile(r"(?i)\b(?:tf32|fp32|fp16|bf16|fp8|amp|mixed[ -]precision)\b")
ENDS_OF_KINDS_WITH_PRECISION = ("_per_s", "_time_s", "rate", "time_s", "efficiency")
# "Throughput - TF32 (sequences/sec)"
TRAILING_PRECISION = re.compile(r"(.+?) ?[-–] ?((?i:tf32|fp32|fp16|bf16|fp8|amp|mixed precision)) ?(\([^()]*\))?")
# "Time for 90 epochs (h)": every row did the same work.
OF_STATED_WORK = re.compile(
    r"(?i)(?:training |total |wall )?time (?:for|to train) [\d,.]+ ?[kmbt]? ?(?:epochs?|steps|iterations|tokens|"
    r"samples)(?: ?\([a-z]+\))?"
)
KINDS_OF_STATISTICS = {"time": "latency_s", "rate": "rate"}  # dimension of a unit -> kind: "p95 (ms)" is a latency
DIFFERENCE = re.compile(r"(?i)\bdelta\b|Δ|\bminus\b|\bdiff(?:erence)?\b")  # of two figures: no rate and no time
_KIND_OF = {phrase: kind for kind, phrases in PHRASES.items() for phrase in phrases.split("|")}


@lru_cache(maxsize=20_000)
def column_of(heading: str) -> TableColumn:
    """Return what a heading means: "p95 step time (ms)" is the p95 of `step_time_s` in 0.001 s.

    `kind` is None where the heading is not understood. The result is remembered: copy it before you change it.
    """
    original = plain_text(heading)
    if OPERATIONS.fullmatch(original):
        return TableColumn(original)
    simpler = in_english(original)
    simpler = _without_spread(original) if simpler == original else simpler
    if simpler != original:
        return replace(column_of(simpler), heading=original)

    # Unit, baseline, statistic and scope are taken off the heading; the rest is the phrase.
    column = TableColumn(original)
    text, unit = _without_unit_and_case(original)
    text, column.over = _without_baseline(text)
    column.statistic, scoped_phrase = without_statistic(text)
    column.per_device, phrase = _without_scope(scoped_phrase)
    kind = _kind_of_phrase(scoped_phrase, phrase, unit)

    # Other headings: a statistic ("p95 (ms)"), a form ("tok_s"), a phrase with a remark ("expected speedup") or a note.
    kind_of_statistic = KINDS_OF_STATISTICS.get(unit.dimension) if unit is not None else None
    if kind is None and kind_of_statistic and (statistic := statistic_alone(phrase)):
        column.statistic, kind = statistic, kind_of_statistic
    if kind is None:
        kind, unit = _kind_of_form(original, unit)
        column.per_device = unit.per_device if kind == "rate" and unit is not None else column.per_device
    if kind is None:
        kind = _kind_without_remark(phrase)
    if kind is None and (column_with_note := _column_with_note(original)) is not None:
        return column_with_note

    _set_kind(column, kind, unit)
    if kind in ("steps", "epochs"):
        column.statistic = None  # "Max steps" are all of a run
    return column


def _kind_of_form(heading: str, unit: Unit | None) -> tuple[str | None, Unit | None]:
    """Return kind and unit of a heading with a form of its own: "Time for 90 epochs (h)", "minutes", "tok_s"."""
    if OF_STATED_WORK.fullmatch(heading):
        return "total_time_s", unit
    if heading.lower() in ("mins", "minutes", "hrs", "hours", "days"):
        return "time_s", unit_of(heading)
    rate = rate_of(heading)
    return ("rate", rate) if rate is not None else (None, unit)


def _without_spread(text: str) -> str:
    """Return a heading without the spread that it names: "Time (s, mean ± std)" -> "Time (s, mean)"."""
    shorter = WITH_SPREAD.sub(" ", text).replace("( ", "(").strip(" ([")
    return text if shorter in (text, "") else shorter + ")" * (shorter.count("(") - shorter.count(")"))


def _without_unit_and_case(heading: str) -> tuple[str, Unit | None]:
    """Return a heading in lower case without its unit, and the unit. A statistic at its end stays: "step time mean"."""
    heading = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])(?!Wh\b)", "_", heading)  # "SamplesPerSec", but "kWh"
    text, unit = _without_unit(re.sub(STATISTIC_AROUND, "", heading))
    if text == heading:
        return _spaced(text), unit
    statistics = " ".join(m[0] for m in re.finditer(STATISTIC_AROUND, heading))
    return _spaced(f"{text} {statistics}"), unit


def _kind_of_phrase(scoped_phrase: str, phrase: str, unit: Unit | None) -> str | None:
    """Return the kind of a phrase, with its scope where that belongs to the kind ("total time"), else by its unit."""
    kind = _KIND_OF.get(scoped_phrase)
    if kind not in SCOPED_KINDS:
        kind = _KIND_OF.get(phrase) or kind
    if unit is None:
        return kind
    is_time = not _TIMES.keys().isdisjoint((kind, phrase)) and unit.dimension == "time"  # "step (ms)": a step is none
    return _kind_by_unit(phrase, unit) if kind is None or is_time else kind


def statistic_alone(phrase: str) -> Statistic | None:
    """Return the statistic that is all of a phrase: "p95", "95" of "95% (ms)". None for any other phrase."""
    # The word is added because `without_statistic` does not take a statistic off that is all of a text.
    statistic, remaining = without_statistic(re.sub(r"^(\d\d)$", r"p\1", phrase) + " figure")
    return statistic if remaining == "figure" else None


def _column_with_note(printed: str) -> TableColumn | None:
    """Return what a part of a heading means, with the rest as a note: "speed (A100)" is a speed. None without parts."""
    if m := TRAILING_PRECISION.fullmatch(printed):
        column = column_of_part(printed, m[1] + (m[3] or ""), note=m[2])
        return column if (column.kind or "").endswith(ENDS_OF_KINDS_WITH_PRECISION) else TableColumn(printed)
    m = re.search(r"^(.+?) ?[(\[]([^()\[\]]+)[)\]]$|^(.+?)(?: ?@ ?| on )(.+)$", printed)
    leading = LEADING_WORD.match(printed)
    is_phrase = leading is not None and printed[leading.end() :][:1].isalpha()
    if m and not (is_phrase and unit_of(m[2] or "")):  # "speed (A100)", "MFU @ bs 8"
        return column_of_part(printed, m[1] or m[3], note=m[2] or m[4])
    if leading and is_phrase:  # "DDP speed (img/s)", but not "1 GPU (img/s)"
        return column_of_part(printed, printed[leading.end() :], note=leading[0])
    if len(printed) > 15 and (m := RATE_INSIDE.search(printed)):  # "ResNet-50 images/sec"
        rest = re.sub(r" ?(?:\(\)|\[\])", "", printed[: m.start()] + printed[m.end() :])  # of "Speed (tokens/s) DDP"
        return column_of_part(printed, f"throughput ({m[0]})", note=rest.strip(" ()"))
    return None


# "tok_s", "tokens_per_sec_gpu", "imgs_s_per_device": a rate whose separators are lost. "step_s" is a time.
LOST_SEPARATORS = re.compile(
    rf"(tokens?|toks?|samples|sequences|seqs|images|imgs?|examples)(?: per)? (s|sec|second)(?:(?: per)? ({DEVICE}))?"
)


def rate_of(heading: str) -> Unit | None:
    """Return the unit of a heading that is nothing but a rate: "tok_s" -> tokens/s. None for any other."""
    spaced = " ".join(heading.lower().replace("_", " ").split())
    if m := LOST_SEPARATORS.fullmatch(spaced):
        spaced = f"{m[1]}/{m[2]}" + (f"/{m[3]}" if m[3] else "")
    unit = unit_of(spaced)
    return unit if unit is not None and unit.dimension == "rate" else None


def column_of_part(printed: str, part: str, note: str) -> TableColumn:
    """Return what `part` of a heading means ("speed"), with what `note`, the rest of it, says of the rows ("A100")."""
    column = column_of(part)
    if column.kind is None or column.kind in NOT_FIGURES:
        return TableColumn(printed)
    note = note.strip()
    if PRECISION.fullmatch(note):
        note = note.lower()
    description = describe(note)
    is_ratio = column.kind in ("speedup", "efficiency", "change")
    if is_ratio and (len(PRECISION.findall(note)) > 1 or printed.startswith(description.words.get("device", " "))):
        return TableColumn(printed)  # a ratio of one precision or device to another, whatever their number
    devices = description.numbers.get("devices")
    return replace(column, heading=printed, note=note, devices=devices, words=description.words)


def _kind_without_remark(phrase: str) -> str | None:
    """Return the kind of a phrase without its remark on the figure: "expected speedup" -> "speedup". Else None."""
    shorter = re.sub(
        r"\b(?:expected|projected|estimated|theoretical|ideal|typical|target|measured|actual|real|observed|"
        r"achieved|approx|approximate|predicted|training|train|final|best|our|my|relative|gpu|wall|steady state|"
        r"effective|model|e2e|raw|median|optimal|stated|reported|new|old|interval)\b",
        " ",
        phrase,
    )
    shorter = " ".join(shorter.split())
    return _KIND_OF.get(shorter) if shorter != phrase else None


def _spaced(text: str) -> str:
    """Return lower case words with single spaces: "Step_Time", "step_time" and "step / time" -> "step time"."""
    text = re.sub(r"(latency|time)[-_ ]*(?=\d\d ?%)", r"\1 p", text.lower())  # "Latency-90%"
    text = re.sub(r"[#№]", " number of ", text)
    text = re.sub(r"(?<![a-z])(?:no\.|num\.|nr\.) ?", "number of ", text)
    text = re.sub(r"[_\-–/|.:,;'\"?!*↑↓()\[\]{}=%@]", " ", text)
    return " ".join(text.split()).replace("number of of ", "number of ")


def _without_unit(text: str) -> tuple[str, Unit | None]:
    """Return a heading without its unit, and the unit: "time_ms" -> "time", ms. (text, None) where it has none.

    The unit is looked for in brackets, behind a comma, in all of the text and at its end, in this order. A text that is
    nothing but a unit stays as it is, and so does a text with a rate, without which it means nothing.
    """
    if text_and_unit := _without_unit_in_brackets(text):
        return text_and_unit
    if (tail := re.search(r"(?:,| in| -) ([^,]{1,20})$", text)) and (unit := unit_of(tail[1])):  # "time in ms"
        return text[: tail.start()], unit

    unit_of_all = unit_of(text.replace("_", " "))
    if unit_of_all is not None and unit_of_all.of:  # "ms/step"
        return text, unit_of_all
    if suffix := UNITS_IN_NAMES.search(text):
        unit = unit_of(suffix[1].replace("_", " ").replace("per sec", "/s").replace("millis", "ms"))
        if unit is not None and unit.dimension != "rate":
            return text[: suffix.start()], unit
    if "%" in (text[:1], text[-1:]):
        return text.strip("% "), unit_of("%")
    if unit_of_all is not None and unit_of_all.dimension in ("rate", "flops", "bandwidth", "price", "token price"):
        return text, unit_of_all

    head, _, last_word = text.rpartition(" ")
    is_letter = last_word.lower() in ("t", "x", "b", "d", "m", "g")  # part of a name, no unit
    unit = None if is_letter or not head else unit_of(last_word)
    if unit is None or unit.dimension != "rate":
        return (text if unit is None else head), unit
    return text, (unit if "/" in last_word else None)


def _without_unit_in_brackets(text: str) -> tuple[str, Unit] | None:
    """Return a heading without its unit in brackets, and the unit. The scope of "rate (img/s, per GPU)" stays."""
    for m in re.finditer(r"[(\[]([^()\[\]]+)[)\]]", text):
        for part in map(str.strip, re.split(r"[,;]", m[1])):
            if unit := unit_of(re.sub(r"^(?:in|unit:?) ", "", part)):
                scope = m[1].replace(part, " ").strip(" ,;")
                separator = "" if part == m[1].strip() else " "
                return (text[: m.start()] + separator + scope + text[m.end() :]).strip(), unit
    return None


def _without_baseline(text: str) -> tuple[str, str]:
    """Return a text without its baseline ("vs 1 gpu"), and the baseline if that is another configuration.

    "speedup vs 1 gpu" -> ("speedup", ""); "speedup vs gpipe" -> ("speedup", "gpipe").
    """
    m = VERSUS.search(text)
    if m is None or not text[: m.start()].strip():
        return text, ""
    shorter, baseline = text[: m.start()].strip(), m[1].strip()
    is_of_same_configuration = BASELINE.fullmatch(baseline) or FEWER_DEVICES.fullmatch(baseline)
    return shorter, "" if is_of_same_configuration else baseline


def _without_scope(text: str) -> tuple[bool | None, str]:
    """Return whether a heading is of one device (None: unsaid), and its other words: True, "rate" of "rate per gpu"."""
    shorter, count = PER_DEVICE.subn(" ", text)
    # "tokens/s GPU". Behind other words than a rate the device is a part of the phrase: "peak GPU".
    if count == 0 and re.search(rf"(?:sec|s|second|throughput|tflops|tps|ips) (?:{DEVICE})$", text):
        shorter, count = re.subn(rf"(?<=[a-z]) {DEVICE}$", " ", text)
    if count and shorter.strip():
        return True, " ".join(shorter.split())
    shorter, count = OF_ALL_DEVICES.subn(" ", text)
    if count and shorter.strip():
        return False, " ".join(shorter.split())
    return None, text


# Phrase -> kind beside a unit of time; phrases that mean memory beside a unit of memory.
_TIMES = dict.fromkeys(("step", "iteration", "iter", "batch"), "step_time_s")
_TIMES |= {"epoch": "epoch_time_s", "total": "total_time_s", "train": "time_s", "training": "time_s"}
_TIMES |= dict.fromkeys(("compute", "optimizer"), "compute_time_s")  # without a unit what was computed on, or with
_MEMORY = ("peak", "gpu", "max", "allocated", "reserved", "peak gpu", "gpu peak", "gpu max", "usage")


def _kind_by_unit(phrase: str, unit: Unit) -> str | None:
    """Return the kind of a heading by its unit: "step (ms)" is a time, "peak (GB)" memory. None if it may be any."""
    if unit.dimension == "time":  # "s/epoch" is of an epoch, whatever the phrase says
        return f"{unit.of}_time_s" if unit.of else _TIMES.get(phrase)
    is_vague = phrase in ("", "training", "train", "gpu", "median", "total")  # says nothing that the unit does not
    if unit.dimension == "rate" and (is_vague or unit_of(phrase) == unit):
        return "rate"
    if unit.dimension == "memory" and phrase in _MEMORY:
        return "memory_bytes"
    if unit.dimension in ("price", "token price"):
        return KINDS_IN_UNITS["cost", unit.dimension]
    if unit.dimension == "cost" and (phrase in ("total", "run", "training") or unit_of(phrase) == unit):
        return "cost"
    # The unit must be all of the phrase: with other words it may be the rate of anything.
    units_of_phrase = (unit_of(phrase), unit_of(phrase.replace(" ", "/")))  # "gb s" is "GB/s", which has lost its slash
    is_bare = unit.dimension in ("flops", "bandwidth") and unit in units_of_phrase
    return KINDS_OF_UNITS[unit.dimension] if is_bare else None


RATE_KINDS = dict.fromkeys(("samples", "images", "sequences"), "samples_per_s")
RATE_KINDS |= {"tokens": "tokens_per_s", "steps": "steps_per_s"}
# (Kind, dimension of a unit) -> the kind that the unit makes of it; None: shares that have no kind.
KINDS_IN_UNITS: dict[tuple[str, str], str | None] = {
    ("cost", "price"): "price_per_s",
    ("cost", "token price"): "cost_per_token",
    ("loss", "percent"): "loss",
    ("memory_bytes", "percent"): "memory_share",
    ("communication_time_s", "percent"): "communication_share",
    ("compute_time_s", "percent"): None,
    ("data_time_s", "percent"): None,
    ("speedup", "percent"): "change",
    ("rate", "flops"): "flops_per_s",
    **dict.fromkeys((("rate", "times"), ("efficiency", "times"), ("change", "times")), "speedup"),
}
ITEMS_IN_HEADINGS = {"tok": "tokens", "img": "images", "ima": "images", "seq": "sequences"}


def _set_kind(column: TableColumn, kind: str | None, unit: Unit | None) -> None:
    """Give a column its kind, scale, item and scope, unless it has no kind or its unit contradicts the kind."""
    kind_in_unit = kind_with_unit(kind, unit) if kind is not None and unit is not None else kind
    if kind_in_unit is None:
        return
    column.kind = kind_in_unit
    if unit is not None:
        column.scale, column.item = unit.scale, unit.item
        column.unit = unit.dimension
        column.per_device = unit.per_device if unit.per_device is not None else column.per_device
    elif kind in ("tokens_per_s", "samples_per_s", "steps_per_s"):
        item = re.search(r"(?i)tok|img|image|seq|step|it|sample", column.heading)
        column.item = ITEMS_IN_HEADINGS.get(item[0].lower()[:3]) if item else None  # None for steps and samples

    # The scope of a batch is part of its kind; that of a time means nothing.
    if column.kind == "batch" and column.per_device is not None:
        column.kind = "micro_batch" if column.per_device else "global_batch"
    if column.kind.endswith("_time_s") or column.kind in SCOPED_KINDS:
        column.per_device = None


def kind_with_unit(kind: str, unit: Unit) -> str | None:
    """Return the kind that a unit makes of a kind: "rate" in tokens/s -> "tokens_per_s". None if they disagree."""
    if (kind, unit.dimension) in KINDS_IN_UNITS:
        return KINDS_IN_UNITS[kind, unit.dimension]
    if kind not in KINDS or unit.dimension not in KINDS[kind].printed_in:
        return None
    if unit.dimension == "rate" and unit.item:
        return RATE_KINDS.get(unit.item, kind)
    if unit.dimension == "time" and unit.of and kind in ("time_s", "total_time_s", "latency_s"):
        return f"{unit.of}_time_s"
    return kind
