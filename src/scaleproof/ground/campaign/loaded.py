"""What the Snakefile asks of a campaign: its cells and the paths of its results."""

import json
import math
import os
import random
import re
from functools import cached_property, lru_cache
from pathlib import Path

from scaleproof.ground.campaign.campaign_paths import (
    CAMPAIGNS,
    RESERVED,
    has_title,
    no_campaign_error,
    other_folder_hint,
)
from scaleproof.ground.campaign.cell_checks import check_campaign
from scaleproof.ground.campaign.cells import Cell, arms_of, expand_cells, tokens_of
from scaleproof.ground.campaign.config import Comparison
from scaleproof.ground.campaign.corpora import Corpus, folder_of
from scaleproof.ground.campaign.corpus_hints import no_such_corpus
from scaleproof.ground.campaign.hub_names import lines_of_hub_name
from scaleproof.ground.campaign.look_alikes import look_alike_text, valid_name
from scaleproof.ground.campaign.question_cells import cells_of_question
from scaleproof.ground.campaign.shared_jobs import (
    SharedJob,
    check_search,
    may_share_jobs,
    plan_shared_jobs,
    sharing_key,
)
from scaleproof.ground.campaign.yaml_loader import CORPORA, load_campaign, load_corpora, read_yaml
from scaleproof.ground.errors import UserError, did_you_mean, no_such, path_fault, printable
from scaleproof.ground.files import read_record
from scaleproof.ground.snakemake_command import RESULTS

TOGETHER = "together"  # of a campaign's folder: records of the jobs that hold several runs
NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")


class LoadedCampaign:
    """A campaign file with everything that hangs on it checked: its name, its cells, and the corpora that they name."""

    def __init__(self, path: Path, results: Path = RESULTS) -> None:
        """Read the campaign at `path` and check it. Raises UserError naming file and line.

        `results`: the folder in which the micro-batches that trials have found are looked up.
        """
        self.path, self.name = path, path.stem
        self._orders: dict[int, dict[str, int]] = {}  # repeat -> its `_order`, kept: a thousand jobs ask for it
        is_misnamed = path.suffix != ".yaml" or not NAME.fullmatch(self.name) or self.name in RESERVED
        # A misnamed file without a title is no campaign; with one, it is a campaign that needs another name.
        if not path.is_file() or path.suffix not in (".yaml", ".yml") or (is_misnamed and not has_title(path)):
            raise no_campaign_error(path)
        if is_misnamed:
            allowed = f"lower-case letters, digits, - and _, ending with .yaml, but not {' or '.join(RESERVED)}"
            fault = f"{path} cannot be the name of a campaign, which is a folder of results/ as well"
            raise UserError(f"{fault}; allowed: {allowed}.{_rename_advice(path)}")
        try:
            self.campaign, self._lines = load_campaign(path)
        except UserError as error:  # with them a misspelt corpus is told, not after them
            raise UserError("\n".join(dict.fromkeys([str(error), *_faults_of_corpus(path)]))) from None
        place = results / self.name
        if os.path.lexists(place) and not place.is_dir():
            fault = path_fault(place) or " is a file"
            raise UserError(f"{place}{fault}; the folder of a campaign's results is made there: move it away")
        try:
            self._expand(results)
        except UserError as error:
            if str(error).startswith(f"{CORPORA}"):  # the fault is in the other file
                raise
            raise self.placed(error) from None

    def placed(self, error: UserError) -> UserError:
        """Return an error with the file, and the line of its key, before its message."""
        place = error.key
        if place and ("vary", place[-1]) in self._lines:  # the file gives the values of that key under `vary`
            place = ("vary", place[-1])
        return UserError(f"{self._lines.place_prefix(self.path, place)}{error}")

    def _expand(self, results: Path) -> None:
        """Make the cells, and check their corpora and whether keys go together. Raises UserError without a line."""
        self.cells: list[Cell] = [self._with_found_batch(cell, results) for cell in expand_cells(self.campaign)]
        names = [comparison.name for comparison in self.campaign.compare]
        for index, name in enumerate(names):
            if name in names[:index]:  # both comparisons would have one folder
                fault = f'compare: "{name}" is the name of two comparisons; rename one'
                raise UserError(fault, ("compare", index, "name"))
        # Name -> the comparison, and the cells of its arms A and B.
        self.comparisons = {c.name: (c, *arms_of(self.campaign, c)) for c in self.campaign.compare}
        self.traced: list[Cell] = self._cells_to_trace()
        self._check_forecast()
        check_search(self.campaign, self.cells, on_cpu=self.campaign.execution.device == "cpu")
        if self.campaign.repeat_until and len(self.cells) == 1:
            slug = self.cells[0].slug
            raise UserError(f"repeats.resolve: {slug} is the only cell; none is there to compare", ("repeats",))
        self.question = cells_of_question(self.campaign.question, self.cells)
        self.shared_jobs  # noqa: B018  (planning them raises where a job has too little time)
        for cell in self._all_cells:
            if cell.command is None:
                _check_corpus(cell)
        check_campaign(self.campaign)

    @property
    def time_limit_s(self) -> float:
        return 60 * self.campaign.resources.time_limit

    def _cells_to_trace(self) -> list[Cell]:
        """Return the cells to trace, in the order of `cells`. Raises UserError for an unknown name."""
        selection = self.campaign.trace.cells
        if selection == "all":
            return self.cells
        names = [cell.slug for cell in self.cells]
        for index, slug in enumerate(selection):
            place = ("trace", "cells", index)
            if slug in selection[:index]:
                raise UserError(f'trace.cells: "{slug}" is named twice', place)
            if slug not in names:
                hint = " For all of them write cells: all." if slug == "all" else did_you_mean(slug, names)
                raise UserError(f'trace.cells: there is no cell "{slug}".{hint} Cells: {", ".join(names)}', place)
        return [cell for cell in self.cells if cell.slug in selection]

    def _with_found_batch(self, cell: Cell, results: Path) -> Cell:
        """Return the cell with the micro-batch that trials found, or the cell as it is where there is no answer yet."""
        path = frontier_file(results, self.name, cell.slug)
        if cell.searched is None or not path.is_file():
            return cell

        def resolve_from_answer(data: bytes) -> Cell:
            """Return the cell with the micro-batch in the bytes of the trials' answer."""
            answer = json.loads(data)
            if answer["planned_fingerprint"] != cell.planned_fingerprint:
                return cell  # the answer is of an older campaign file: the trials will be made again
            return cell.resolved(int(answer["micro_batch"]))

        return read_record(path, resolve_from_answer)

    def _check_forecast(self) -> None:
        """Check that `forecast` names geometries of cells, each under `from` or `hold_out` alone. Raises UserError."""
        settings = self.campaign.forecast
        geometries = sorted({str(cell.execution.geometry) for cell in self.cells})
        from_, held_out = list(map(str, settings.from_)), list(map(str, settings.hold_out))
        for side, of_side in (("from", from_), ("hold_out", held_out)):
            for index, geometry in enumerate(of_side):
                if geometry not in geometries:
                    fault = no_such("cell with the geometry", geometry, geometries, "Geometries")
                    raise UserError(f"forecast.{side}: {fault}", ("forecast", side, index))
        if not held_out:
            return

        on_both_sides = [geometry for geometry in held_out if geometry in from_]
        fault = ""
        if on_both_sides:
            fault = f"{on_both_sides[0]} is in forecast.from as well"
        elif set(held_out) == set(geometries):
            fault = "nothing is left to forecast from"
        elif may_share_jobs(self.campaign):
            key = sharing_key(self.campaign.resources)
            fault = f"with resources.{key} several cells run in one job, none after the forecast"
        elif self.campaign.repeat_until:
            fault = "the forecast is made from all repeats of the other cells, whose number is not known before the "
            fault += "held-out ones have run; give repeats as a number"
        if fault:
            raise UserError(f"forecast.hold_out: {fault}", ("forecast", "hold_out"))

    @cached_property
    def shared_jobs(self) -> dict[str, SharedJob]:
        """The jobs that hold several runs, by name. There are none where each run is a job. Raises UserError."""
        if not may_share_jobs(self.campaign):
            return {}
        return {job.name: job for job in plan_shared_jobs(self.campaign, self._cells_in_order)}

    def shared_job(self, name: str) -> SharedJob:
        """Return the job called `name`. Raises UserError where the campaign has no such job, or no longer has it."""
        if name not in self.shared_jobs:
            advice = "If the campaign was changed while the workflow ran, start snakemake again"
            hint = f"{did_you_mean(name, self.shared_jobs)} {advice}"
            raise UserError(f'{self.path}: there is no job "{name}" of several runs.{hint}')
        return self.shared_jobs[name]

    def records(self, results: Path, repeats: int | None = None) -> dict[Path, SharedJob]:
        """Return path of the record -> job, for jobs with several runs that begin within the first `repeats`."""
        last_repeat = repeats or self.repeats(results)
        folder = results / self.name / TOGETHER
        # `rounds`: (repeat, its cells) for each repeat of a job; [0][0] is the job's first repeat.
        jobs = [job for job in self.shared_jobs.values() if job.rounds[0][0] <= last_repeat]
        return {folder / f"{job.name}.json": job for job in jobs}

    def _cells_in_order(self, repeat: int) -> list[Cell]:
        return [self._by_slug[slug] for slug in self._order(repeat)]

    @property
    def communicating_groups(self) -> dict[str, str]:
        """Geometry of two or more devices -> slug of its first cell whose ranks communicate and that is no command."""
        groups: dict[str, str] = {}
        for cell in self.cells:
            has_ranks = cell.command is None and cell.execution.strategy != "dp"
            if cell.execution.geometry.n_devices > 1 and has_ranks:
                groups.setdefault(str(cell.execution.geometry), cell.slug)
        return groups

    def held_out(self, cell: Cell) -> bool:
        """Return whether the cell is forecast first, and runs afterwards."""
        return cell.execution.geometry in self.campaign.forecast.hold_out

    @cached_property
    def _by_slug(self) -> dict[str, Cell]:
        """The cells by name. Each of a thousand jobs asks for them several times."""
        return {cell.slug: cell for cell in self.cells}

    def cell(self, slug: str) -> Cell:
        """Return the cell called `slug`. Raises UserError, with the nearest name, for an unknown slug."""
        cells = self._by_slug
        if slug not in cells:
            heading = f"{look_alike_text(slug)} Cells".strip()
            raise UserError(f"{self.path}: {no_such('cell', slug, cells, heading)}")
        return cells[slug]

    def count_witness_steps(self, cell: Cell, repeats: int) -> int:
        """Count the witness steps of `cell`: steps that its first run makes again after the window, to be checked.

        They are the share `resources.witness` of the steps of all `repeats` together, but at most the steps of one run.
        A command has none.
        """
        if cell.command is not None:
            return 0
        steps = cell.work.warmup_steps + cell.work.steps
        return min(steps, math.ceil(self.campaign.resources.witness * repeats * steps))

    def comparison(self, name: str) -> tuple[Comparison, Cell, Cell]:
        """Return the comparison called `name` with its arms. Raises UserError, with the nearest name, for others."""
        if name in self.comparisons:
            return self.comparisons[name]
        raise UserError(f"{self.path}: {no_such('comparison', name, self.comparisons, 'Comparisons')}")

    def priority(self, slug: str, repeat: int) -> int:
        """Return the priority of a run's job: jobs with a higher number start first.

        All first repeats come before any second one. The cells of a repeat come in a random order that depends on the
        names alone, so that it is the same in every invocation.
        """
        order = self._order(repeat)
        return (self.campaign.most_repeats - repeat) * len(order) + order[slug]

    def _order(self, repeat: int) -> dict[str, int]:
        """Return slug -> priority in a repeat, cells in the order of their runs: the last one has priority 1."""
        if repeat not in self._orders:
            slugs = sorted(cell.slug for cell in self.cells)
            random.Random(f"{self.name} {repeat}").shuffle(slugs)
            self._orders[repeat] = dict(zip(reversed(slugs), range(len(slugs), 0, -1), strict=True))
        return self._orders[repeat]

    def runs(self, results: Path, repeats: int | None = None) -> list[Path]:
        """Return the folders of all runs, in the order of cells and repeats."""
        return [folder for folder, *_ in self.planned(results, repeats)]

    def planned(self, results: Path, repeats: int | None = None) -> list[tuple[Path, Cell, int]]:
        """Return folder, cell and repeat of each run. `repeats`: only so many first runs of each cell."""
        numbers = range(1, (repeats or self.repeats(results)) + 1)
        return [(run_dir(results, self.name, cell.slug, k), cell, k) for cell in self.cells for k in numbers]

    def repeats(self, results: Path) -> int:
        """Return the number of runs of each cell: as planned; with `repeats.resolve` as many as the looks so far need.

        A look is a file with the decision, after so many repeats of all cells, whether more are to be made.
        """
        rule = self.campaign.repeat_until
        if rule is None:
            return self.campaign.most_repeats
        looks = ((repeats, look_file(results, self.name, repeats)) for repeats in rule.looks())
        # A look that was not made yet asks for nothing.
        return next((repeats for repeats, look in looks if not asks_for_more_repeats(look)), rule.at_most)

    @property
    def corpora(self) -> dict[str, Corpus]:
        """The rows of the corpora of all cells, by name. Commands have no corpus."""
        names = [cell.workload.corpus for cell in self._all_cells if cell.command is None]
        return {name: corpus_called(name) for name in names}

    @property
    def _all_cells(self) -> list[Cell]:
        """All cells, the arms of comparisons among them."""
        return [*self.cells, *(cell for _, a, b in self.comparisons.values() for cell in (a, b))]


@lru_cache
def load_named(name: str, results: Path = RESULTS) -> LoadedCampaign:
    """Return the campaign called `name` in config/campaigns. Raises UserError, with the nearest name, for others."""
    path = CAMPAIGNS / f"{name}.yaml"
    if path.with_suffix(".yml").is_file() and not path.is_file():
        path = path.with_suffix(".yml")  # refused with the right name
    if not path.is_file():
        names = [file.stem for file in sorted(CAMPAIGNS.glob("*.yaml"))]
        elsewhere = other_folder_hint() or f"; this is {Path.cwd()}, without {CAMPAIGNS}" * (not CAMPAIGNS.is_dir())
        for strayed in filter(has_title, (CAMPAIGNS.parent / path.name, Path(path.name))):
            elsewhere = f"; {strayed} is there: move it to {CAMPAIGNS}"
        raise UserError(f"{path}: {no_such('campaign', name, names, 'Campaigns')}{elsewhere}")
    return LoadedCampaign(path, results)


def corpus_called(name: str, place: str = "") -> Corpus:
    """Return the corpus called `name`.

    Raises UserError, its message after `place`: the nearest name, or what to write for a corpus of the hub.
    """
    rows, faults = _corpus_table()
    if name in faults:
        raise UserError(faults[name])
    if name not in rows:
        fault = lines_of_hub_name(name) or no_such_corpus(name, rows, CORPORA)
        raise UserError("\n".join([f"{place}{fault}", *faults.values()]), key=("workload", "corpus"))
    return rows[name]


def _faults_of_corpus(path: Path) -> list[str]:
    """Return that a campaign file names no corpus of the table, if it is so. Names with a slash are told elsewhere."""
    try:
        data, lines = read_yaml(path)
        name, rows = data["workload"]["corpus"], {**_corpus_table()[0], **_corpus_table()[1]}
    except (UserError, KeyError, TypeError):
        return []
    fault = no_such_corpus(name, rows, CORPORA) if isinstance(name, str) else ""
    prefix = lines.place_prefix(path, ("workload", "corpus"))
    return [f"{prefix}workload.corpus: {fault}"] if fault and name not in rows and "/" not in name else []


def corpus_folders() -> list[str]:
    """Return the folders below results/corpora of all corpora whose rows are sound."""
    return [folder_of(name, corpus) for name, corpus in _corpus_table()[0].items()]


def corpora() -> dict[str, Corpus]:
    """Return all rows of the table of corpora. Raises UserError with every fault, one per line."""
    rows, faults = _corpus_table()
    if faults:
        raise UserError("\n".join(faults.values()))
    return rows


@lru_cache
def _corpus_table() -> tuple[dict[str, Corpus], dict[str, str]]:
    return load_corpora(CORPORA)


def _rename_advice(path: Path) -> str:
    """Return ` Rename it to "my-question.yaml".`, or "" if no valid name resembles the file's."""
    name = valid_name(printable(path.stem)).replace(".", "-")
    is_other_name = name not in RESERVED and f"{name}.yaml" != path.name
    return f' Rename it to "{name}.yaml".' if is_other_name and NAME.fullmatch(name) else ""


def _check_corpus(cell: Cell) -> None:
    """Check that there is the corpus of a cell, with labels for a classification. Raises UserError."""
    corpus = corpus_called(cell.workload.corpus, "workload.corpus: ")
    if cell.workload.task == "classification" and not corpus.label:
        labelled = ", ".join(name for name, corpus in _corpus_table()[0].items() if corpus.label) or "none"
        fault = f'"{cell.workload.corpus}" has no labels in {CORPORA} (key: label), which classification needs'
        raise UserError(f"workload.corpus: {fault}. Corpora with labels: {labelled}", key=("workload", "corpus"))


def corpus_of_folder(folder: str) -> tuple[str, Corpus]:
    """Return name and row of the corpus whose folder below results/corpora is called `folder`.

    Raises UserError where the table has another revision or budget by now.
    """
    name = folder.partition("@")[0]
    corpus = corpus_called(name)
    if folder != folder_of(name, corpus):
        raise UserError(f"{CORPORA}: {name} is now {folder_of(name, corpus)}, not {folder}")
    return name, corpus


def frontier_file(results: Path, campaign: str, cell: str) -> Path:
    """Return the path of the answer of the trials that look for a cell's micro-batch."""
    return results / campaign / "frontier" / cell / "frontier.json"


def run_dir(results: Path, campaign: str, cell: str, repeat: int) -> Path:
    return results.joinpath(campaign, "runs", cell, f"rep{repeat}")  # in one go: ten thousand are asked for


def look_file(results: Path, campaign: str, repeats: int) -> Path:
    """Return the path of the look at the first `repeats` runs of each cell (conclude/analysis/stopping.py)."""
    return results / campaign / "looks" / f"{repeats}.json"


def asks_for_more_repeats(look: Path) -> bool:
    """Return whether the look in a file asks for more repeats. Without a file, it does not. Raises UserError."""
    return look.is_file() and read_record(look, lambda data: bool(json.loads(data)["goes_on"]))


def tokens_dir(results: Path, cell: Cell) -> Path:
    name, tokenizer = tokens_of(cell)
    return results / "corpora" / folder_of(name, corpus_called(name)) / tokenizer


def tokens_of_run(results: Path, cell: Cell) -> Path:
    """Return the folder of the tokens of a cell; Path() for a command, which has no tokens."""
    return tokens_dir(results, cell) if cell.command is None else Path()
