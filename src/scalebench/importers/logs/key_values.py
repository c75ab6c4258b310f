"""Repeated lines of `key: number` that no known program prints. What is read so is marked as guessed.

A line counts where at least one key is understood as a result (a time, a rate, a loss) and one as a step or an epoch,
and where lines with the
same keys come at least three times.
"""

import re
from collections import Counter
from collections.abc import Iterator

from scalebench.importers.fields import figure
from scalebench.importers.headings import NOT_FIGURES, column_of, kind_with_unit
from scalebench.importers.logs.base import LogReader
from scalebench.importers.reported import LoggedStep, ReportedRun, TimedSpan
from scalebench.importers.text_files import CONTROL
from scalebench.importers.units import unit_of

# Words are taken whole (`*+`), and only from their beginning: a line may be a sequence of a thousand letters.
PAIR = re.compile(
    r"(?P<key>(?<![A-Za-z])[A-Za-z][A-Za-z_]*+(?:[ /.\-][A-Za-z][A-Za-z_]*+){0,3}(?: ?\([A-Za-z/%]+\))?)"
    r"(?: ?[:=] ?|\s{1,4})[\[(]?\s*(?P<number>[-+]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?|nan|NaN|inf)"
    r"(?:\s?(?P<unit>%|[a-zA-Zµ]+(?:/[a-zA-Z]+){0,2})(?![\w:=]))?(?:\s*/\s*(?P<of>\d+))?\s*[\])]?"
)
LEAST = 3  # lines with the same keys
RESULTS = {"step_time_s", "epoch_time_s", "time_s", "tokens_per_s", "samples_per_s", "steps_per_s", "rate", "loss"}
TIMES_AND_RATES = RESULTS - {"loss"}
RANK = re.compile(r"(?i)(?:\[?rank[ :=]?|\[(?:GPU|cuda:?) ?)(\d{1,5})")
MOST_PAIRS = 30


def pairs_of(line: str) -> Iterator[tuple[str, str, float | None]]:
    """Kind, printed number, and value in the base unit, of each pair in a line whose key is understood."""
    if len(line) > 1000:
        return
    for m in PAIR.finditer(CONTROL.sub("", line) if "\x1b" in line else line):
        column = column_of(re.sub(r"\s+", " ", m["key"]).strip())
        kind, scale = column.kind, column.scale
        if kind is None:
            last = column_of(m["key"].split()[-1])
            kind, scale = last.kind, last.scale
        if kind is None or kind in NOT_FIGURES:
            continue
        if m["unit"] and (unit := unit_of(m["unit"])):
            retyped = kind_with_unit(kind, unit)
            if retyped is None:
                continue
            kind, scale = retyped, unit.scale
        value = figure(m["number"])
        yield kind, m["number"], None if value is None else value * scale


class KeyValues(LogReader):
    """Lines of `key: number` of an unknown program."""

    mark = r"(?!)"  # chosen by `reads`
    looked_at = r"\d"
    format = "text log of an unknown program"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._signatures: Counter[frozenset[str]] = Counter()
        self._steps: list[tuple[frozenset[str], LoggedStep, str | None]] = []
        self._spans: list[tuple[frozenset[str], TimedSpan]] = []
        self._rank: str | None = None
        self._example = ""

    @classmethod
    def reads(cls, text: str) -> bool:
        """Whether a piece of a log has such lines."""
        counted: Counter[frozenset[str]] = Counter()
        for line in text.splitlines()[:3000]:
            if (
                any(c.isdigit() for c in line)
                and (kinds := frozenset(k for k, _, _ in pairs_of(line)))
                and _is_log_line(kinds)
            ):
                counted[kinds] += 1
                if counted[kinds] >= LEAST:
                    return True
        return False

    def feed(self, number: int, line: str) -> None:
        pairs = list(pairs_of(line))[:MOST_PAIRS]
        kinds = frozenset(kind for kind, _, _ in pairs)
        if not _is_log_line(kinds):
            self.launch(line)
            return
        if m := RANK.search(line):
            self._rank = m[1] if self._rank is None else self._rank
            if m[1] != self._rank:
                return
        self._example = self._example or line.strip()[:120]
        self._signatures[kinds] += 1
        values: dict[str, float | None] = {}
        texts: dict[str, str] = {}
        for kind, text, value in pairs:
            if kind not in values:
                values[kind], texts[kind] = value, text
        step, epoch = values.get("step", values.get("steps")), values.get("epoch", values.get("epochs"))
        seconds = values.get("step_time_s")
        if step is not None:
            logged = LoggedStep(
                int(step), seconds if seconds and seconds > 0 else None, values.get("loss"), line=number
            )
            logged.tokens_per_s, logged.samples_per_s = values.get("tokens_per_s"), values.get("samples_per_s")
            logged.epoch = None if epoch is None else int(epoch)
            logged.mfu, logged.flops_per_s = values.get("mfu"), values.get("flops_per_s")
            self._steps.append((kinds, logged, texts.get("loss")))
        elif epoch is not None:
            span = TimedSpan(
                int(epoch), values.get("epoch_time_s") or values.get("time_s"), train_loss=values.get("loss")
            )
            span.val_loss = values.get("val_loss")
            span.tokens_per_s = values.get("tokens_per_s")
            span.samples_per_s = values.get("samples_per_s")
            if span.seconds is not None and span.seconds <= 0:
                span.seconds = None
            self._spans.append((kinds, span))

    def finish(self) -> list[ReportedRun]:
        common = {kinds for kinds, count in self._signatures.items() if count >= LEAST}
        for kinds, logged, loss in self._steps:
            if kinds in common:
                self._add_step(logged, loss)
        if not self.run.logged_steps:
            self._add_spans([span for kinds, span in self._spans if kinds in common])
        for run in self.runs:
            run.guessed = f"lines like `{self._example}`"
        return super().finish()

    def _add_step(self, logged: LoggedStep, loss: str | None) -> None:
        """Steps may count from 0 in every epoch; ranks may print the same step one after the other."""
        last = self.run.logged_steps[-1] if self.run.logged_steps else None
        if last is not None and (last.step, last.epoch) == (logged.step, logged.epoch):
            self.run.details["repeated_lines"] = self.run.details.get("repeated_lines", 0) + 1
        elif last is not None and logged.epoch is not None and logged.epoch != last.epoch:
            self.run.logged_steps.append(logged)
        else:
            self.step(logged, loss)

    def _add_spans(self, spans: list[TimedSpan]) -> None:
        """Epochs of the run, or of several where they start again behind the last one.

        A line of validation belongs to the epoch before it. Where epochs of two sequences take turns, several ranks
        print them to one file: those of the first sequence are read.
        """
        chains: list[list[tuple[int, TimedSpan]]] = []
        for place, span in enumerate(spans):
            same = next((c for c in chains if c[-1][1].index == span.index), None)
            if same is not None and (span.val_loss is not None) != (same[-1][1].val_loss is not None):
                epoch = same[-1][1]
                epoch.val_loss = epoch.val_loss if epoch.val_loss is not None else span.val_loss
                continue
            last = None if span.index is None else span.index - 1
            before = next((c for c in chains if last is not None and c[-1][1].index == last), None)
            if before is None:
                chains.append([(place, span)])
            else:
                before.append((place, span))
        end = -1
        for chain in chains:
            if chain[0][0] < end:
                self.run.details["repeated_lines"] = self.run.details.get("repeated_lines", 0) + len(chain)
                continue
            if self.run.timed_spans:
                self._restart()
            self.run.timed_spans = [span for _, span in chain]
            end = chain[-1][0]


def _is_log_line(kinds: frozenset[str]) -> bool:
    has_place = bool(kinds & {"step", "steps", "epoch", "epochs"})
    return has_place and bool(kinds & RESULTS)
