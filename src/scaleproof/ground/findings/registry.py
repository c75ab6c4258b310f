"""The register of checks: codes, severity, page of explanation and function of a check in one place.

    @of_run.finds("window-short", "suspect", shortest=SHORTEST_S)
    def window_is_long_enough(run: MeasuredRun) -> Iterator[Flag]:
        '''A window of a few scheduler ticks measures the machine's mood.

        Detected: Less than {shortest:g} seconds.
        Seen: marin issue 7981: 25-step windows mislead.
        Repair: Raise work.steps.
        '''
        if run.metrics.window.wall_time_s < SHORTEST_S:
            yield Flag(f"the window took {run.metrics.window.wall_time_s:.2f} s")

The function sees one subject (a run, all runs, a scaling series, a traced cell; the context of an external audit) and
yields one flag per fault. The register turns flags into findings. A check with several codes has a `Code`
of each instead, in `check`.
"""

import hashlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

from scaleproof.ground.errors import UserError, shortened
from scaleproof.ground.findings.finding import SEVERITIES, Concern, Correction, Finding, Severity
from scaleproof.ground.json_faults import NEWER
from scaleproof.ground.records.run import MeasuredRun, Run, TimedRun

Subject = TypeVar("Subject")
AT_A_TIME = 50  # runs that all checks on single runs are made of before the next ones; what they share is kept as long
# The docstring of a check as its page; "Seen:" may be missing.
PAGE = re.compile(r"(.+?)\s+Detected: (.+?)(?:\s+Seen: (.+?))?\s+Repair: (.+)")


@dataclass(frozen=True)
class Code:
    """The name of a fault and its page: `what` is wrong and why it matters, how it is `detected`, where it was `seen`
    in the wild, how to `repair` it. `severity` is the usual one; a flag may carry another."""

    name: str
    severity: Severity
    what: str
    detected: str
    seen: str
    repair: str


class Named(Protocol):
    """A run, ours or reported."""

    @property
    def name(self) -> str: ...


@dataclass(frozen=True)
class Flag:
    """One fault that a check has seen. Only `evidence` is always needed.

    `about`: the runs (or names) that it concerns; empty: the subject of the check. `code`: which of the check's codes,
    where it has several. `severity` and `advice` replace those of the code. `cells`: where `about` does not tell them.
    """

    evidence: str
    about: Sequence[Named | str] = ()
    code: str = ""
    severity: Severity | None = None
    advice: str | None = None
    corrected: Correction | None = None
    cells: Sequence[str] = ()


FILE_UNREADABLE = Code(
    "file-unreadable",
    "note",
    what="A file, or a part of it, was not read, or a check broke on it; what that says is in no check.",
    detected="Cut off, empty, binary, too large, of a broken structure or of an unknown schema; an error of a check.",
    seen="",
    repair="Mend what is named, or save its figures as CSV, JSON or Markdown; of a large file, the results alone.",
)

RECORD_UNUSABLE = Code(
    "record-unusable",
    "invalid",
    what="The record of a run lacks something that every run has, so that it cannot be checked as the others are.",
    detected="A series that is missing or another one than the metrics describe; fields of a wrong kind.",
    seen="Files copied by hand; disks that were full.",
    repair="Restore the files of this run, or run the cell again (scaleproof retry).",
)


CHECK, BROKE = "the check ", " could not be made on these files ("


def note_on_broken_check(check: str, error: Exception, runs: Sequence[str] = (), cells: Sequence[str] = ()) -> Finding:
    """Return the note that a check raised `error`, which says nothing against the files that the check read."""
    what = shortened(f"{type(error).__name__}: {error}", 160)
    return Finding(
        code=FILE_UNREADABLE.name,
        severity=FILE_UNREADABLE.severity,
        cells=list(cells),
        runs=list(runs or [check]),
        evidence=f"{CHECK}{check}{BROKE}{what})",
        advice="Report it as a defect of scaleproof, with the file.",
    )


def one_note_a_cause(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings, with a single note on all checks that broke with the same error."""
    merged: list[Finding] = []
    index_by_error: dict[str, int] = {}  # error -> index of its note in `merged`
    for finding in findings:
        check, separator, error = finding.evidence.removeprefix(CHECK).partition(BROKE)  # "the check X could not ..."
        is_of_broken_check = bool(separator) and finding.evidence.startswith(CHECK)
        if not is_of_broken_check:
            merged.append(finding)
        elif error not in index_by_error:
            index_by_error[error] = len(merged)
            merged.append(finding)
        else:
            first = merged[index_by_error[error]]
            checks, _, _ = first.evidence.partition(BROKE)
            runs = list(dict.fromkeys([*first.runs, *finding.runs]))
            evidence = f"{checks}, {check}{BROKE}{error}"
            merged[index_by_error[error]] = first.model_copy(update={"evidence": evidence, "runs": runs})
    return merged


def finding_on_unusable_record(run: str, cell: str, problem: str) -> Finding:
    """Return the finding that the record of `run` cannot be checked; `problem`: what it lacks, in words."""
    return Finding(
        code=RECORD_UNUSABLE.name,
        severity=RECORD_UNUSABLE.severity,
        cells=[cell],
        runs=[run],
        evidence=problem,
        advice="Update scaleproof." if NEWER in problem else RECORD_UNUSABLE.repair,
    )


@dataclass(frozen=True)
class Check(Generic[Subject]):
    """A registered check; calling it with a subject gives its findings, the first alone where it is `only_first`."""

    name: str
    codes: tuple[Code, ...]
    function: Callable[[Subject], Iterable[Flag]]
    register: "Register[Subject]"
    only_first: bool = False

    def __call__(self, subject: Subject) -> list[Finding]:
        """Return the findings of this check on one subject. Returns [] where nothing is wrong."""
        flags = islice(self.function(subject), 1 if self.only_first else None)
        return [self._make_finding(flag, subject) for flag in flags]

    def findings_on(self, subject: Subject) -> list[Finding]:
        """Return the findings on a subject; a note where the check breaks. Raises UserError for a damaged file."""
        try:
            return self(subject)
        except UserError:
            raise
        except Exception as error:
            return [note_on_broken_check(self.name, error)]

    def _make_finding(self, flag: Flag, subject: Subject) -> Finding:
        """Return the finding of a flag on `subject`; its code and the register fill in what the flag leaves out."""
        code = self._named_code(flag.code)
        about = flag.about or self.register.default_about(subject)
        cells_of_runs = {item.metrics.cell for item in about if isinstance(item, Run)}
        return Finding(
            code=code.name,
            severity=flag.severity or code.severity,
            cells=sorted(flag.cells or self.register.default_cells(subject) or cells_of_runs),
            runs=[item if isinstance(item, str) else item.name for item in about],
            evidence=flag.evidence,
            advice=code.repair if flag.advice is None else flag.advice,
            corrected=flag.corrected,
            concerns=self.register.concerns,
        )

    def _named_code(self, name: str) -> Code:
        """Return the code of that name; "" means the only one. Raises ValueError where the check has no such code."""
        if not name and len(self.codes) == 1:
            return self.codes[0]
        for code in self.codes:
            if code.name == name:
                return code
        raise ValueError(f"check {self.name} yields the code {name!r}, which it has not registered")


class Register(Generic[Subject]):
    """The checks of one kind of subject, in the order in which they were registered.

    `default_about` and `default_cells`: the runs and the cells that a flag concerns when it names none. `concerns`:
    which figures the findings are about.
    """

    def __init__(
        self,
        default_about: Callable[[Subject], Sequence[Named | str]],
        default_cells: Callable[[Subject], Sequence[str]] = lambda subject: (),
        concerns: Concern = "runs",
    ) -> None:
        """Start an empty register; the parameters are those of the class."""
        self.default_about = default_about
        self.default_cells = default_cells
        self.concerns = concerns
        self._checks: list[Check[Subject]] = []

    def check(
        self, *codes: Code, only_first: bool = False
    ) -> Callable[[Callable[[Subject], Iterable[Flag]]], Check[Subject]]:
        """Return a decorator that makes a check of a function which yields flags with these codes, and registers it.

        `only_first`: of several flags on a subject the first says enough; the function is asked for no other.
        """

        def register(function: Callable[[Subject], Iterable[Flag]]) -> Check[Subject]:
            """Return the check that `function` makes; it is one of the register's from now on."""
            check = Check(function.__name__, codes, function, self, only_first)
            self._checks.append(check)
            return check

        return register

    def finds(
        self, name: str, severity: Severity, only_first: bool = False, **figures: object
    ) -> Callable[[Callable[[Subject], Iterable[Flag]]], Check[Subject]]:
        """Return a decorator as `check` does, for one code; its page is the function's docstring, `figures` filled in.

        Raises ValueError where the docstring is not a page.
        """

        def register(function: Callable[[Subject], Iterable[Flag]]) -> Check[Subject]:
            """Return the check that `function` makes."""
            text = re.sub(r"\s*\n\s*", " ", (function.__doc__ or "").strip())
            page = PAGE.fullmatch(text.format(**figures) if figures else text)
            if page is None:
                raise ValueError(f"the docstring of {function.__name__} is no page of {name}: Detected, Seen, Repair")
            what, detected, seen, repair = page.groups(default="")
            return self.check(Code(name, severity, what, detected, seen, repair), only_first=only_first)(function)

        return register

    def __iter__(self) -> Iterator[Check[Subject]]:
        """Return the checks, in the order in which they were registered."""
        return iter(self._checks)

    def findings(self, subjects: Iterable[Subject]) -> list[Finding]:
        """Return the findings of all checks on all subjects, check by check, in each in the order of the subjects."""
        subjects = list(subjects)
        return [finding for check in self for subject in subjects for finding in check(subject)]

    def findings_on(self, subjects: Iterable[Subject]) -> list[Finding]:
        """Return the findings as `findings` does, with a note for each check that breaks."""
        subjects = list(subjects)
        return [finding for check in self for subject in subjects for finding in check.findings_on(subject)]


def codes_of(*registers: Iterable[Check[Any]]) -> dict[str, Code]:
    """Return every registered code by name. Raises ValueError where two checks explain one code differently."""
    codes: dict[str, Code] = {}
    for register in registers:
        for check in register:
            for code in check.codes:
                if codes.setdefault(code.name, code) != code:
                    raise ValueError(f"the code {code.name} is registered with two pages")
    return codes


def rules_version(codes: dict[str, Code], modules: Iterable[str] = ()) -> str:
    """Return the version of a set of rules: "2" and a digest of codes, severities and thresholds.

    It cannot go stale, as it follows from them. Thresholds: numbers, alone or in tuples and dictionaries, that the
    `modules` of the checks name in capitals.
    """
    lines = {f"{name} {codes[name].severity}" for name in codes}
    for module in modules:
        constants = {name: value for name, value in vars(sys.modules[module]).items() if name.isupper()}
        lines |= {f"{module} {name} {value!r}" for name, value in constants.items() if _is_threshold(value)}
    return f"2-{hashlib.sha256(chr(10).join(sorted(lines)).encode()).hexdigest()[:8]}"


def _is_threshold(value: object) -> bool:
    """Return whether a constant is a number, or numbers in a tuple or as values of a dictionary."""
    if isinstance(value, dict | tuple):
        return all(map(_is_threshold, value.values() if isinstance(value, dict) else value))
    return isinstance(value, int | float)


def by_severity(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings, invalid ones first, then suspect ones, then notes; otherwise in the given order."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


# Subjects of our own checks. The register of external checks is in auditor/checks/context.py, beside its subject.
of_run: Register[MeasuredRun] = Register(lambda run: [run])
of_runs: Register[list[MeasuredRun]] = Register(lambda runs: runs)
# Of runs of any evidence level, together; of single runs of somebody's program.
of_timed: Register[list[TimedRun]] = Register(lambda runs: runs)
of_printed: Register[TimedRun] = Register(lambda run: [run])
