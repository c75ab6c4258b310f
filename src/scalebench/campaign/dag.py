"""What the Snakefile asks of a campaign: its cells, the paths of its results, the sources of each room."""

import hashlib
import random
from functools import lru_cache
from pathlib import Path

from scalebench.campaign.cells import Cell, expand, find
from scalebench.campaign.config import Campaign
from scalebench.campaign.corpora import Corpus, CorpusTable
from scalebench.campaign.load import CAMPAIGNS, CORPORA, load_campaign, load_corpora
from scalebench.errors import UserError, nearest

PACKAGE = Path(__file__).parents[1]
# The rooms whose sources take part in a timed run; an edit in one of them re-runs the trainings.
SHARED = ("errors.py", "progress.py")
MEASURING = ("campaign", "corpus", "model", "strategy", "trainer", "launch", "record")


class Study:
    """A campaign file with everything that hangs on it checked: its cells, and the corpora that they name."""

    def __init__(self, path: Path) -> None:
        """Raises UserError naming the file."""
        self.path, self.name = path, path.stem
        self.campaign: Campaign = load_campaign(path)
        try:
            self.cells: list[Cell] = expand(self.campaign)
            for corpus in {cell.workload.corpus for cell in self.cells}:
                corpus_called(corpus)
        except UserError as error:
            raise UserError(f"{path}: {error}") from None

    def cell(self, slug: str) -> Cell:
        try:
            return find(self.cells, slug)
        except UserError as error:
            raise UserError(f"{self.path}: {error}") from None

    def priority(self, slug: str, repeat: int) -> int:
        """Jobs with a higher number start first: all first repeats before any second one, cells in random order in each.

        The order depends on the names alone, so that it is the same in every invocation.
        """
        slugs = sorted(cell.slug for cell in self.cells)
        random.Random(f"{self.name} {repeat}").shuffle(slugs)
        return (self.campaign.repeats - repeat) * len(slugs) + slugs.index(slug) + 1

    def runs(self, results: Path) -> list[Path]:
        """The folders of all runs, in the order of cells and repeats."""
        return [run_dir(results, self.name, c.slug, k) for c in self.cells for k in range(1, self.campaign.repeats + 1)]


@lru_cache
def study(name: str) -> Study:
    """The campaign called `name` in config/campaigns. Raises UserError with the nearest name where there is none."""
    path = CAMPAIGNS / f"{name}.yaml"
    if not path.is_file():
        names = [p.stem for p in sorted(CAMPAIGNS.glob("*.yaml"))]
        raise UserError(f'there is no campaign "{name}" ({path}).{nearest(name, names)} Campaigns: {", ".join(names)}')
    return Study(path)


def corpus_called(name: str) -> Corpus:
    """The row of the table of corpora. Raises UserError with the nearest name where there is none."""
    table = _corpora().root
    if name not in table:
        raise UserError(f'there is no corpus "{name}" in {CORPORA}.{nearest(name, table)} Corpora: {", ".join(table)}')
    return table[name]


@lru_cache
def _corpora() -> CorpusTable:
    return load_corpora(CORPORA)


def run_dir(results: Path, campaign: str, cell: str, repeat: int) -> Path:
    return results / campaign / "runs" / cell / f"rep{repeat}"


def tokens_dir(results: Path, cell: Cell) -> Path:
    return results / "corpora" / cell.workload.corpus / cell.workload.tokenizer


def sources(*parts: str) -> list[str]:
    """The source files of some rooms (or single files of a room), and the few that all share: an input of a rule."""
    root = Path.cwd()
    files = [path for part in parts for path in _files(PACKAGE / part)] + [PACKAGE / name for name in SHARED]
    return [str(p.relative_to(root) if p.is_relative_to(root) else p) for p in files]


def _files(part: Path) -> list[Path]:
    return [part] if part.is_file() else [p for p in sorted(part.rglob("*")) if p.suffix in (".py", ".j2")]


def code_sha256(*rooms: str) -> str:
    """One hash over the sources of some rooms: equal code at different commits is recognised as equal."""
    total = hashlib.sha256()
    for path in sources(*rooms):
        total.update(Path(path).read_bytes() + b"\0")
    return total.hexdigest()
