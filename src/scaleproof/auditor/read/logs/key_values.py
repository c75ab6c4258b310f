"""Repeated lines of `key: number` that no known program prints. Their runs are marked as guessed.

A line counts where at least one key is understood as a result (a time, a rate, a loss) and one as a step or an epoch,
and where lines with the same keys come at least three times.
"""

import re
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from scaleproof.auditor.read.headings import NOT_FIGURES, RATE_KINDS, column_of, kind_with_unit
from scaleproof.auditor.read.logged_steps import LoggedStep, StepSeries
from scaleproof.auditor.read.logs.dialect import BAR, LogReader
from scaleproof.auditor.read.printed_figures import unit_of
from scaleproof.auditor.read.reported import ReportedRun, TimedSpan, span_of, step_of
from scaleproof.auditor.read.run_fields import figure, not_finite
from scaleproof.auditor.read.text_files import CONTROL
from scaleproof.ground.errors import plural

# Words are taken whole (`*+`), and only from their beginning: a line may be a sequence of a thousand letters.
PAIR = re.compile(
    r"(?P<key>(?<![A-Za-z])[A-Za-z][A-Za-z_]*+(?:[ /.\-](?!(?:nan|NaN|inf)\b)[A-Za-z][A-Za-z_]*+){0,3}"
    r"(?: ?[(\[][A-Za-z/%]+[)\]])?)"
    r"(?:[\"']? ?[:=] ?[\"']?|\s{1,4})[\[(]?\s*"
    r"(?P<number>[-+]?\d+(?:,\d+)*(?:\.\d+)?(?:[eE][-+]?\d+)?(?!\.?\d|,\d)|nan|NaN|inf)"
    r"(?:\s?(?P<unit>%|[a-zA-Zµ]+(?:/[a-zA-Z]+){0,2})(?![\w/]|(?: ?[(\[][A-Za-z/%]+[)\]])?[\"']?\s{0,2}[:=]))?"
    r"(?:\s*/\s*(?P<of>\d+))?\s*[\])]?"
)
# A figure without a key, whose unit says what it is: "412 ms/step", "19,883 tok/s", "442.2 steps per sec".
BARE = re.compile(
    r"(?<![\w.,/+-])(?P<number>\d+(?:,\d+)*(?:\.\d+)?)\s?"
    r"(?P<unit>(?:[kKM] )?[a-zA-Zµ]+(?:/| per )[a-zA-Z]+(?:/[a-zA-Z]+)?)(?![\w/]|\s{0,2}[:=])"
)
# "perf/time_per_step", not "eval/loss".
PART_OF_KEY = re.compile(r"(?!(?:e?val\w*|test)/)[A-Za-z_]+(?:/\w+)*/(\w+)")
NEXT_NUMBER = re.compile(r"\s{1,4}(?:[-+]?\d|nan|NaN|inf)")  # behind "tokens/s" in "loss 3.1 tokens/s 128000"
MAGNITUDES = {"k": 1e3, "K": 1e3, "M": 1e6}
SETTING = re.compile(r"\W*([A-Za-z][A-Za-z_ ]*?) ?[:=] ?(\d{1,9})\s*")  # a line that is nothing else
LEAST_LINES = 3  # lines with the same keys
MOST_SEQUENCES = 64  # of epochs that take turns in one log, as several ranks print them
TOOK = "took_s"  # kind of a time that the step or epoch of its line took; a "time" may run since the start
BARE_TIME = "bare_step_time_s"  # kind of a step's time by its unit alone: nobody says of how many steps it is the mean
FIGURES_OF_STEPS = {TOOK, BARE_TIME, "step_time_s", "epoch_time_s", "time_s", "loss"}
FIGURES_OF_STEPS |= {"tokens_per_s", "samples_per_s", "steps_per_s", "rate"}
PLACES = ("step", "steps", "epoch", "epochs")
RANK = re.compile(r"(?i)(?:\[?rank[ :=]?|\[(?:GPU|cuda:?) ?)(\d{1,5})")
MOST_PAIRS = 30
MOST_FORMS = 20_000  # of lines that are remembered
LONGEST_LINE = 1000  # characters
DIGITS = re.compile(r"([0-9]+)")


class Meaning(NamedTuple):
    """What a printed number is: number x scale is in the base unit of its kind."""

    kind: str
    scale: float
    per_device: bool | None = None


class PrintedNumber(NamedTuple):
    """A match of PAIR or BARE whose key or unit is understood."""

    match: re.Match[str]
    meaning: Meaning


@dataclass(frozen=True, slots=True)
class KeyedNumber:
    """A number with its meaning, in all lines that differ in their digits alone.

    Its text is `prefix` and the parts from `first` to `last` of the line, which is cut at its runs of digits.
    """

    meaning: Meaning
    prefix: str  # a sign; "nan" where the number has no digits
    first: int = 0
    last: int = -1


@dataclass(frozen=True, slots=True)
class Form:
    """What all lines with the same text between their digits have in common."""

    numbers: tuple[KeyedNumber, ...]
    kinds: frozenset[str]  # of the numbers
    is_log_line: bool
    has_rank: bool


def form_of(parts: list[str]) -> Form:
    """Return the form of a line, cut at its runs of digits: ["step ", "12", " loss ", "3", ".", "1", ""].

    What `PAIR` matches does not depend on how many digits a run has, so that one digit stands for each: the template
    is "step 0 loss 0.0".
    """
    template = "0".join(parts[::2])
    ends = list(accumulate(1 if k % 2 else len(part) for k, part in enumerate(parts)))  # of the parts in `template`
    all_printed = _printed_numbers(template)[:MOST_PAIRS]
    numbers = [_keyed_number(printed, ends) for printed in all_printed]
    kinds = frozenset(number.meaning.kind for number in numbers)
    of_steps = [printed for printed in all_printed if printed.meaning.kind in ("step", "steps")]
    step_keys = [printed.match.groupdict().get("key") for printed in of_steps]
    # The same key twice: "step 3 loss 2.1step 3 loss 2.2" is of two ranks, and a figure may be cut between them.
    has_place = not kinds.isdisjoint(PLACES) and len(step_keys) == len(set(step_keys))
    is_log_line = has_place and bool(kinds & FIGURES_OF_STEPS)
    return Form(tuple(numbers), kinds, is_log_line, has_rank=RANK.search(template) is not None)


def _keyed_number(printed: PrintedNumber, ends: list[int]) -> KeyedNumber:
    """Return which parts of its line a number is made of. `ends`: where each part ends; every second has digits."""
    m = printed.match
    text = m["number"]
    digits = [k for k in range(1, len(ends), 2) if m.start("number") < ends[k] <= m.end("number")]
    if not digits:  # "nan"
        return KeyedNumber(Meaning(printed.meaning.kind, printed.meaning.scale), prefix=text)
    sign = text[0] if text[0] in "+-" else ""
    return KeyedNumber(printed.meaning, prefix=sign, first=digits[0], last=digits[-1])


def _printed_numbers(text: str) -> list[PrintedNumber]:
    """Return each number of a text whose key or unit is understood: 12 and 3.1 of "step 12 loss 3.1"."""
    bare_matches = {m.start("unit"): m for m in BARE.finditer(text)}
    meanings: dict[int, tuple[re.Match[str], Meaning | None]] = {}  # by the place of the number
    start = 0
    while m := PAIR.search(text, start):
        number_before = bare_matches.get(m.start("key"))
        if number_before is not None and number_before.start("number") not in meanings:
            start = number_before.end()  # no key, but the unit of the number before it
        else:
            meaning, start = _meaning_of_pair(m)
            meanings[m.start("number")] = m, meaning

    has_step = any(meaning is not None and meaning.kind in ("step", "steps") for _, meaning in meanings.values())
    if has_step:  # figures without a key beside an epoch may be of a part of it: not taken
        for m in bare_matches.values():
            meanings.setdefault(m.start("number"), (m, _meaning_of_unit(m)))
    return [PrintedNumber(m, meaning) for m, meaning in meanings.values() if meaning is not None]


def _meaning_of_pair(m: re.Match[str]) -> tuple[Meaning | None, int]:
    """Return (meaning of a match of PAIR, where the next match may start); meaning None for a key that is no figure."""
    last_word = m["key"].split()[-1]
    column = column_of(re.sub(r"\s+", " ", m["key"]).strip())
    if column.kind is None:
        column = column_of(last_word)
    if column.kind is None and (part := PART_OF_KEY.fullmatch(last_word)):
        column = column_of(part[1])
        column = column_of("") if column.kind in PLACES else column
    kind = "step" if last_word.lower() == "it" else column.kind
    scale, per_device = column.scale, column.per_device
    unit = unit_of(m["unit"]) if m["unit"] else None
    # Without a unit, the word behind the number is the next key.
    end = m.end("number") if unit is None else m.end()
    if kind is None or kind in NOT_FIGURES:
        return None, end

    if unit is None:
        scale *= MAGNITUDES.get(m["unit"], 1.0)  # "19.9k"
    elif (kind_in_unit := kind_with_unit(kind, unit)) is not None:
        kind, scale = kind_in_unit, unit.scale
        per_device = unit.per_device if unit.per_device is not None else per_device
    elif NEXT_NUMBER.match(m.string, m.end("unit")):
        end = m.end("number")  # the unit is the key of the next number
    else:
        return None, end
    if kind == "time_s" and m["key"].lower().endswith("took"):
        kind = TOOK
    return Meaning(kind, scale, per_device), end


def _meaning_of_unit(m: re.Match[str]) -> Meaning | None:
    """Return the meaning of a match of BARE, "412 ms/step". None unless its unit is a rate of work or a step's time."""
    unit = unit_of(m["unit"])
    if unit is None:
        return None
    if unit.dimension == "rate" and unit.item:
        return Meaning(RATE_KINDS[unit.item], unit.scale, unit.per_device)
    return Meaning(BARE_TIME, unit.scale) if unit.dimension == "time" and unit.of == "step" else None


class KeyValues(LogReader):
    """Lines of `key: number` of an unknown program."""

    mark = r"(?!)"  # chosen by `reads`
    looked_at = r"\d"
    format = "text log of an unknown program, whose form is guessed"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._lines_by_kinds: Counter[frozenset[str]] = Counter()
        self._steps = StepSeries()
        self._kinds_of_steps: list[frozenset[str]] = []  # kinds of the line of each step
        self._texts_of_losses: dict[int, str] = {}  # index of a step -> its loss that is no number
        self._spans: list[tuple[frozenset[str], TimedSpan]] = []  # epochs, with the kinds of their lines
        self._place_before: tuple[int, int | None] | None = None  # step and epoch of the line before
        self._first_rank: str | None = None  # only its lines are read
        self._example = ""
        self._forms: dict[str, Form] = {}

    @classmethod
    def reads(cls, text: str) -> bool:
        """Whether a piece of a log has LEAST_LINES lines like "step 1 loss 2.3", or as many progress bars."""
        lines_by_kinds: Counter[frozenset[str]] = Counter()
        forms: dict[str, Form] = {}
        lines = text.splitlines()[:3000]
        if sum(BAR.match(line) is not None for line in lines) >= LEAST_LINES:
            return True
        for line in lines:
            form, _ = _form_and_parts(line, forms)
            if form is not None and form.is_log_line:
                lines_by_kinds[form.kinds] += 1
                if lines_by_kinds[form.kinds] >= LEAST_LINES:
                    return True
        return False

    def feed(self, number: int, line: str) -> None:
        """Read one line: a step or an epoch of the first rank with its figures, a progress bar, or else a command."""
        form, parts = _form_and_parts(line, self._forms)
        is_bar = self.bar(line)  # which also takes the rate of the bar
        is_log_line = form is not None and form.is_log_line
        if is_bar or is_log_line:
            self._example = self._example or line.strip()[:120]
        if is_bar and form is not None and "loss" in form.kinds:
            self.take_loss_of_bar(line, self._figures(form, parts)[1]["loss"])
        if form is None or not is_log_line:
            if not self._steps and (m := SETTING.fullmatch(line)):
                self.argument(m[1].lower().replace(" ", "_"), m[2])
            self.launch(line)
            return
        if form.has_rank and not self._is_of_first_rank(line):
            return
        self._lines_by_kinds[form.kinds] += 1

        values, texts = self._figures(form, parts)
        step = values.get("step", values.get("steps"))
        epoch = values.get("epoch", values.get("epochs"))
        if step is not None:
            # A "time" may run since the start; beside the time of the data it is that of the step.
            of_line = values.get(TOOK) or (values.get("time_s") if "data_time_s" in form.kinds else None)
            seconds = values.get("step_time_s") or of_line
            logged = step_of(int(step), seconds, values, number, None if epoch is None else int(epoch))
            if logged.loss is None and "loss" in texts:
                self._texts_of_losses[len(self._steps)] = texts["loss"]
            self._steps.append(logged)
            self._kinds_of_steps.append(form.kinds)
        if not is_bar:  # else the rate is taken already
            self._take_epoch_and_rate(form, values, epoch if step is None else None)

    def argument(self, name: str, value: str) -> None:
        """Take a setting that stands above the steps. Whose batch a "batch_size" is nobody knows."""
        if name == "batch_size":
            self.say(name, value)
        super().argument(name, value)

    def _is_of_first_rank(self, line: str) -> bool:
        """Whether a line is of the rank whose line came first, or names no rank."""
        if m := RANK.search(line):
            self._first_rank = self._first_rank or m[1]
        return m is None or m[1] == self._first_rank

    def _take_epoch_and_rate(self, form: Form, values: dict[str, float | None], epoch: float | None) -> None:
        """Take the epoch of a line (None: it is a line of a step) and the steps per second that it states."""
        step_s, bare_s = values.get("step_time_s"), values.get(BARE_TIME)  # with a key, and by its unit alone
        steps_per_s = 1 / bare_s if bare_s else values.get("steps_per_s")
        epoch_s = values.get("epoch_time_s") or values.get(TOOK) or values.get("time_s")
        if epoch is not None and step_s and not epoch_s:
            steps_per_s = 1 / step_s  # of batches within an epoch: "| epoch 1 | 200/2983 batches | ms/batch 15.11"
        elif epoch is not None:
            self._spans.append((form.kinds, span_of(int(epoch), epoch_s, values)))
        if steps_per_s:
            self.run.steps_per_s.append(steps_per_s)

    def _figures(self, form: Form, parts: list[str]) -> tuple[dict[str, float | None], dict[str, str]]:
        """Return the first figure and text of each kind: {"loss": 3.1}, {"loss": "3.1"}. Sets the scope of the rate."""
        values: dict[str, float | None] = {}
        texts: dict[str, str] = {}
        for number in form.numbers:
            kind, scale, per_device = number.meaning
            if kind in values:
                continue
            texts[kind] = number.prefix + "".join(parts[number.first : number.last + 1])
            value = figure(texts[kind])
            values[kind] = None if value is None else value * scale
            if kind == "tokens_per_s" and per_device is not None:
                self.run.rate_scope = "rank" if per_device else "global"
        return values, texts

    def finish(self) -> list[ReportedRun]:
        """Return the runs of the lines whose keys are repeated. Epochs count only where there are no steps."""
        meanings = [number.meaning for form in self._forms.values() for number in form.numbers]
        if Meaning("mfu", 1.0) in meanings:  # printed without "%": it may be in percent
            self._steps.read_mfu_as_share()
        common_kinds = {kinds for kinds, count in self._lines_by_kinds.items() if count >= LEAST_LINES}
        do_steps_rise = bool((np.diff(np.array(self._steps.step_numbers)) > 0).all())
        if do_steps_rise and not self._texts_of_losses and common_kinds.issuperset(self._kinds_of_steps):
            self.run.logged_steps = self._steps  # the usual log, one run without NaN or a repeated step: fast
        else:
            for k, (kinds, logged) in enumerate(zip(self._kinds_of_steps, self._steps, strict=True)):
                if kinds in common_kinds:
                    self._add_step(logged, self._texts_of_losses.get(k))

        if not self.run.logged_steps:
            self.run.nan_steps += self.lost_in_bars
            self._add_spans([span for kinds, span in self._spans if kinds in common_kinds])
        for kind in ("tokens_per_s", "samples_per_s"):
            steps = self.run.logged_steps
            if steps and any(kind in kinds for kinds in common_kinds) and not steps.values(kind).size:
                self.run.problems.append(f"no {kind.replace('_per_s', '/s')} above 0 in {plural(len(steps), 'line')}")
        for run in self.runs:
            run.guessed = f"lines like `{self._example}`"
        return super().finish()

    def _add_step(self, logged: LoggedStep, loss: str | None) -> None:
        """Add a step to its run, unless the line before had the same step: then another rank printed it."""
        place_before, self._place_before = self._place_before, (logged.step, logged.epoch)
        if place_before == self._place_before:
            return
        _, epoch_before = place_before or (None, logged.epoch)  # the first line begins no epoch
        if logged.epoch not in (None, epoch_before):  # steps may count from 0 in each epoch: no new run
            self.run.logged_steps.append(logged)
            if loss is not None and not_finite(loss):
                self.run.nan_steps.append(logged.step)
        else:
            self.step(logged, loss)

    def _add_spans(self, spans: list[TimedSpan]) -> None:
        """Add epochs to the run, or to several where they start again behind the last epoch: 1, 2, 3, 1, 2, 3.

        Where epochs of two sequences take turns (1, 1, 2, 2), several ranks print them to one file, and only the first
        sequence is read.
        """
        end = -1  # place of the last epoch that was added
        for sequence in _sequences_of_epochs(spans):
            if sequence[0].place < end:
                continue
            if self.run.timed_spans:
                self._restart()
            self.run.timed_spans = [epoch.span for epoch in sequence]
            end = sequence[-1].place


class _Epoch(NamedTuple):
    """An epoch and its place among the epochs of a log."""

    place: int
    span: TimedSpan


def _sequences_of_epochs(spans: list[TimedSpan]) -> list[list[_Epoch]]:
    """Sort epochs into rising sequences, 1, 2, 3, 1, 2 into two. The line of a validation joins its epoch."""
    sequences: list[list[_Epoch]] = []
    for place, span in enumerate(spans):
        number = span.index or 0
        recent = sequences[-MOST_SEQUENCES:]
        ends = [sequence[-1].span for sequence in recent]
        same_epoch = next((end for end in ends if end.index == span.index), None)
        if same_epoch is not None and (span.val_loss is None) != (same_epoch.val_loss is None):
            if span.val_loss is not None:
                same_epoch.val_loss = span.val_loss
            else:  # the line of validation came first: the epoch has the time and the loss of its training
                for name in TimedSpan.__slots__:
                    if name != "val_loss":
                        setattr(same_epoch, name, getattr(span, name))
            continue

        rising = [sequence for sequence in recent if (sequence[-1].span.index or 0) < number]
        if open_sequences := [sequence for sequence in rising if not _is_over(sequence, recent)]:
            open_sequences[0].append(_Epoch(place, span))
        else:
            sequences.append([_Epoch(place, span)])
    return sequences


def _is_over(sequence: list[_Epoch], sequences: list[list[_Epoch]]) -> bool:
    """Whether a sequence of two epochs or more began behind the last epoch of this one: it is of the next run."""
    return any(len(other) > 1 and other[0].place > sequence[-1].place for other in sequences)


def _form_and_parts(line: str, forms: dict[str, Form]) -> tuple[Form | None, list[str]]:
    """Return the form of a line, and its parts cut at runs of digits: ["lr ", "10", ""].

    The result is (None, []) for a line that is too long or has no digits. `forms`: template -> form, to remember the
    forms of lines that differ in their digits alone.
    """
    text = CONTROL.sub("", line) if "\x1b" in line else line
    parts = DIGITS.split(text) if len(line) <= LONGEST_LINE else []
    if len(parts) < 3:
        return None, []
    template = "0".join(parts[::2])
    form = forms.get(template)
    if form is None:
        form = form_of(parts)
        if len(forms) < MOST_FORMS:
            forms[template] = form
    return form, parts
