"""An opponent: random edits of the package by a grammar, each run on real ranks or stages, then audited and verified.

Prints each edit as a line, with what names it, and the hack rate: of the edits that change a published figure by more
than 1 % (of a time: and by more than sound runs differ, in each of three tries), the share that no finding above a
note and no difference of `verify` names, with its 95 % interval (Wilson). An edit after which nothing is published is
not counted. Whatever passes with a short window is tried again with a long one.
"""

import argparse
import itertools
import math
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
sys.path.insert(0, str(TESTS))

from faults import planted, planted_window, ranks  # noqa: E402
from opponent_edits import Edit, Lines, Opponent, apply, drawn, in_words, note_lines, read_lines  # noqa: E402
from patience import OF_A_BUSY_MACHINE  # noqa: E402
from planted_faults import in_lines, tokens_in  # noqa: E402
from scipy.stats import binomtest  # noqa: E402
from verify import test_faults_after_analysis as stages  # noqa: E402

STARTED = time.monotonic()
CHANGED = 0.01
PAIRS = 0.25  # of the edits come with a second one
SHORT, LONG = {"steps": 12, "warmup_steps": 3}, {"steps": 40, "warmup_steps": 3}
CONTROLS = 2
TRIES = 3  # with a long window
CELLS = {"ddp": planted.TWO, "fsdp": planted.FSDP, "ga": planted.ACCUMULATING, "bf16": planted.BF16, "one": planted.ONE}
RUNNING = ["measure/trainer", "measure/strategy", "measure/model"]
CORPUS = ["measure/corpus"]
CONCLUDING = ["conclude/analysis", "conclude/report", "conclude/report/sentences", "conclude/report/tables"]
OF_THE_MACHINE = OF_A_BUSY_MACHINE | {"single-run", "window-short", "data-wait"}  # name no edit
TIMES = re.compile(
    "^[a-z0-9_]*(_s|per_s_per_device|device_load|wait_share|rss_bytes)\\b"
)  # columns that machines change
STAGES = ("analyse", "comparison", "trace_report", "waterfall", "tables", "report")
Figures = dict[str, float]


class Rig:
    """Where edited ranks run, and the figures of the sound ones."""

    def __init__(self, root: Path) -> None:
        (root / "corpus").mkdir()
        self.root, self.tokens = root, tokens_in(root / "corpus")
        read_again(self.tokens)
        ranks.load()
        ranks.LIMIT_S = 100  # an edit may leave ranks waiting for each other
        self._sound: dict[str, list[Figures]] = {}
        self._noise: dict[str, set[str]] = {}  # what sound runs are named for on a machine as busy as this one
        self._runs = 0

    def of_ranks(self, edits: Sequence[Edit], name: str, work: dict) -> tuple[list[str], list[str]]:
        """Codes above a note, and changed figures, of a run of cell `name` with the edits."""

        def patch() -> None:
            helper = Opponent()
            planted_window.watch_the_window(
                lambda: setattr(helper, "window_open", True), lambda: setattr(helper, "window_open", False)
            )
            apply(edits, helper)

        return self.against_sound(name, work, patch, self.tokens)

    def against_sound(
        self, name: str, work: dict, patch: Callable[[], object], tokens: Path
    ) -> tuple[list[str], list[str]]:
        """Codes above a note that no sound run has, and changed figures; sound runs surround what is long."""
        sound, noise = self.sound(name, work)
        codes, figures = self.figures(name, work, patch, tokens)
        if work is LONG and differing(figures, sound):
            later_codes, later = self.figures(name, work, lambda: None, self.tokens)
            noise |= later_codes
            sound.append(later)
        return sorted(codes - noise), differing(figures, sound)

    def lines(self, name: str) -> Lines:
        """The lines that a sound run of a cell runs."""
        log = self.root / f"lines-{name}"
        if not log.exists():
            self.figures(name, SHORT, lambda: note_lines(log), self.tokens)
        return read_lines(log, RUNNING)

    def corpus_lines(self, _: str) -> Lines:
        """The lines that write a corpus."""
        log = self.root / "lines"
        if not log.exists():
            folder = self.root / "lines-of-corpus"
            folder.mkdir()
            ranks.wait([ranks.fork(lambda: (note_lines(log), tokens_in(folder)), folder / "log")])
        return read_lines(log, CORPUS)

    def of_corpus(self, edits: Sequence[Edit], name: str, work: dict) -> tuple[list[str], list[str]]:
        """The same of a sound run on a corpus that was written with the edits. Raises RuntimeError without one."""
        self._runs += 1
        folder = self.root / f"corpus{self._runs}"
        folder.mkdir()

        def child() -> None:
            apply(edits, Opponent())
            tokens_in(folder)

        ranks.wait([ranks.fork(child, folder / "log")])
        if not (folder / "bpe-512/tokens.json").exists():
            raise RuntimeError("no corpus")
        read_again(folder / "bpe-512")
        return self.against_sound(name, work, lambda: None, folder / "bpe-512")

    def figures(self, name: str, work: dict, patch: Callable[[], object], tokens: Path) -> tuple[set[str], Figures]:
        """Codes above a note, and columns of runs.csv, of one run. Raises RuntimeError where it leaves no metrics."""
        from scaleproof.conclude.analysis.run_tables import runs_table
        from scaleproof.conclude.checks.all_checks import audit

        self._runs += 1
        keys = CELLS[name]
        cell = ranks.cell(keys.get("execution"), keys.get("work", {}) | work)
        results = self.root / f"{tokens.parent.name}-{work['steps']}"
        ranks.write_reference(cell, tokens, results / "reference", 3)
        run = ranks.run(cell, tokens, results / "runs" / f"{name}{self._runs}" / "rep1", patch, sum(work.values()))
        above = {finding.code for finding in audit("opponent", [run]).findings if finding.severity != "note"}
        row = runs_table([run]).iloc[0].to_dict()
        numbers = {key: float(value) for key, value in row.items() if isinstance(value, int | float)}
        return above - OF_THE_MACHINE, numbers

    def sound(self, name: str, work: dict) -> tuple[list[Figures], set[str]]:
        """Figures of some sound runs of a cell, and what they are named for on a machine as busy as this one."""
        key = f"{name}-{work['steps']}"
        if key not in self._sound:
            runs = [self.figures(name, work, lambda: None, self.tokens) for _ in range(CONTROLS)]
            self._noise[key] = set().union(*(codes for codes, _ in runs))
            print(f"sound    {key}: {sorted(self._noise[key]) or 'nothing named'}", flush=True)
            self._sound[key] = [figures for _, figures in runs]
        return self._sound[key], self._noise[key]


def read_again(tokens: Path) -> None:
    """Write the second reading of a tokenised corpus, as the workflow does before the first run."""
    from scaleproof.ground.campaign.corpora import Corpus
    from scaleproof.ground.files import write_json
    from scaleproof.measure.reference.corpus_reader import read_corpus
    from scaleproof.measure.reference.schema import SECOND_READING

    write_json(
        tokens / SECOND_READING,
        read_corpus(tokens, Corpus(**in_lines(tokens.parent)), tokens.parent).model_dump(mode="json"),
    )


def differing(figures: Figures, sound: list[Figures]) -> list[str]:
    """Figures that are more than 1 %, and more than the sound runs' range, away from that range."""
    changed = []
    for name, first in sound[0].items():
        if name == "startup_s":  # of forked ranks: the machine's
            continue
        values = [one[name] for one in sound if not math.isnan(one[name])]
        value = figures.get(name, math.nan)
        if not values or math.isnan(value):
            changed += [name] if math.isnan(value) != math.isnan(first) else []
            continue
        low, high = min(values), max(values)
        margin = CHANGED * max(abs(low), abs(high)) + (high - low)
        if not low - margin <= value <= high + margin:
            changed.append(f"{name} {value:.4g} for {sum(values) / len(values):.4g}")
    return changed


class Pages:
    """The published demo, whose stages are run again by edited code. `folder`: where the sound one is kept, or made."""

    def __init__(self, root: Path, folder: Path) -> None:
        from scaleproof.conclude.report import claims_report

        self.root, self._runs = root, 0
        self._project, self._log = folder / "project", folder / "lines"
        claims_report.code_sha256 = lambda *_: "0" * 64  # as of a package that is edited on disk
        Opponent().coarse(1.0)  # imports torch once: it is most of the time of an edit
        if (self._project / "done").exists():
            os.chdir(self._project)
            for stage in STAGES:  # what they import is there before they are forked
                stages.run(stage)
        else:
            shutil.rmtree(folder, ignore_errors=True)
            factory = type("Factory", (), {"mktemp": lambda _, name: self._made(folder / name)})()
            next(stages.project.__wrapped__(factory))
            self._make(self._project, lambda stage: note_lines(self._log, stage), lambda _: True)
        self._ran = {stage: read_lines(self._log, CONCLUDING, stage) for stage in STAGES}
        self._files = contents(self._project / stages.FOLDER)
        self._sound = self.stated(self._project / stages.FOLDER)

    def _made(self, folder: Path) -> Path:
        folder.mkdir(parents=True)
        return folder

    def of_stages(self, edits: Sequence[Edit], *_: object) -> tuple[list[str], list[str]]:
        """What verify names, and what is published otherwise. Raises RuntimeError where a stage fails."""
        from scaleproof.conclude.publication.gate import verify_and_audit
        from scaleproof.conclude.publication.made_again import compare_with_rewritten

        self._runs += 1
        copy = self.root / f"copy{self._runs}"
        shutil.copytree(self._project, copy)

        edited = {edit.file for edit in edits}
        helper = Opponent()

        def is_due(stage: str) -> bool:  # it runs an edited file, or one before it has written something else
            return not edited.isdisjoint(self._ran[stage]) or self._differ(copy)

        self._make(copy, lambda stage: stage == STAGES[0] and apply(edits, helper), is_due)
        if not (copy / "done").exists():
            raise RuntimeError("a stage has failed")
        changed = changed_words(self._sound, self.stated(copy / stages.FOLDER)) if self._differ(copy) else []
        differences = verify_and_audit(copy / stages.FOLDER)[0] if changed else []
        if changed and not differences:
            changed.append(compare_with_rewritten(copy / stages.FOLDER).reservation)
        shutil.rmtree(copy)
        return [str(difference)[:100] for difference in differences[:3]], changed

    def lines(self, _: str) -> Lines:
        """The lines that the stages run."""
        files = set().union(*self._ran.values())
        return {file: set().union(*(ran.get(file, set()) for ran in self._ran.values())) for file in files}

    def _differ(self, project: Path) -> bool:
        """Whether a copy of the project has other files than the sound one."""
        return contents(project / stages.FOLDER) != self._files

    def _make(self, project: Path, before: Callable[[str], object], is_due: Callable[[str], bool]) -> None:
        """Run the stages that are due in a copy of the project, in a process of their own, `before` each."""
        done = project / "done"
        done.unlink(missing_ok=True)

        def child() -> None:
            os.chdir(project)
            for stage in STAGES:
                before(stage)
                if is_due(stage):
                    stages.run(stage)
            done.touch()

        ranks.wait([ranks.fork(child, project / "log")])

    def stated(self, folder: Path) -> dict[str, list[str]]:
        """The numbers and words of every file that states figures."""
        layout = r"<(script|style|svg).*?</\1>|<[^>]*>|\\begin\{tabular\}\{[^}]*\}|\\shortstack\[.\]"
        words = {}
        for name, content in contents(folder).items():
            text = re.sub(layout, " ", content.decode(), flags=re.DOTALL)
            text = text if name.endswith(".csv") else text.replace(",", "")  # of numbers such as 14,130
            words[name] = re.findall(r"[\w.+-]*\w", text)
        return words


def contents(folder: Path) -> dict[str, bytes]:
    """The files of results that state figures, by their names below `folder`."""
    files = [path for kind in ("*.json", "*.csv", "*.html", "tables/*") for path in sorted(folder.glob(kind))]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files if path.name != "manifest.json"}


def changed_words(before: dict[str, list[str]], after: dict[str, list[str]]) -> list[str]:
    """For each file, the words that are others, or numbers that are more than 1 % away. Of the page numbers alone."""
    changed = [f"{file}: missing" for file in before if file not in after]
    for file, words in after.items():
        one, two = before.get(file, []), words
        if file.endswith(".html"):
            one, two = ([word for word in side if _number(word) is not None] for side in (one, two))
        lost, new = ((Counter(a) - Counter(b)).elements() for a, b in ((one, two), (two, one)))
        left, others = sorted(lost), sorted(new)
        if file.endswith(".html") and not left:  # a column more changes no figure
            continue
        pairs = [(a, b) for a, b in itertools.zip_longest(left, others, fillvalue="nothing") if not _alike(a, b)]
        if pairs:
            changed.append(f"{file}: {pairs[0][0]} -> {pairs[0][1]}")
    return changed


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def _alike(one: str, two: str) -> bool:
    numbers = _number(one), _number(two)
    return None not in numbers and math.isclose(*numbers, rel_tol=CHANGED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edits", type=int, default=20, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=sorted(CELLS), help="of the runs on ranks")
    parser.add_argument("--of", choices=("ranks", "corpus", "stages"), action="append")
    parser.add_argument("--seconds", type=float, default=math.inf, help="after which no further edit is begun")
    parser.add_argument("--sound", type=Path, help="folder where the sound stages are kept for the next seed")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        counts = sum((attack(kind, args, Path(folder)) for kind in args.of or ("ranks", "corpus", "stages")), Counter())
    passed, changing = counts["PASSED"], counts["PASSED"] + counts["named"]
    low, high = binomtest(passed, changing).proportion_ci(method="wilson") if changing else (0.0, 1.0)
    print(f"{dict(counts)}; hack rate {passed} of {changing}, {low:.1%} to {high:.1%}")
    sys.exit(bool(passed))


def attack(kind: str, args: argparse.Namespace, root: Path) -> Counter[str]:
    """Make the edits of one kind; returns how many ended how."""
    chance, counts = random.Random(f"{args.seed}/{kind}"), Counter[str]()
    (root / kind).mkdir()
    if kind == "stages":
        pages = Pages(root / kind, (args.sound or root / "sound").resolve())
        ran, trial = pages.lines, pages.of_stages
    else:
        rig = Rig(root / kind)
        ran, trial = (rig.lines, rig.of_ranks) if kind == "ranks" else (rig.corpus_lines, rig.of_corpus)
    for _ in range(args.edits):
        if time.monotonic() - STARTED > args.seconds:
            break
        name = chance.choice(args.cells)
        edits = [drawn(chance, ran(name), kind == "ranks") for _ in range(1 + (chance.random() < PAIRS))]
        try:
            named, changed = trial(edits, name, SHORT)
            for _ in range(TRIES if kind != "stages" else 0):  # what is of the machine is not there each time
                if named or not changed or not all(TIMES.search(figure) for figure in changed):
                    break
                names = {figure.split()[0] for figure in changed}
                named, again = trial(edits, name, LONG)
                changed = [figure for figure in again if figure.split()[0] in names]
            verdict = "harmless" if not changed else "named" if named else "PASSED"
        except (RuntimeError, ValueError, TypeError) as error:
            verdict, changed = "failed", []
            named = [str(error).strip().splitlines()[-1][:150]]
        counts[verdict] += 1
        print(
            f"{verdict:8} {name} {in_words(edits)}\n         {'; '.join(named)} | {'; '.join(changed[:4])}", flush=True
        )
    return counts


if __name__ == "__main__":
    main()
