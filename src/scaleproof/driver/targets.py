"""Targets of Snakemake that are not made: runs and traces that no campaign plans, names that no rule knows."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NoReturn, TypeVar

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.errors import UserError, did_you_mean, nearest_name, no_such
from scaleproof.ground.snakemake_command import RESULTS

Found = TypeVar("Found")


def cell_of_run(loaded: LoadedCampaign, slug: str, repeat: int) -> Cell:
    """Return the cell `slug`, whose run `repeat` is a job of its own. Raises UserError where none is planned."""
    cell = loaded.cell(slug)
    if not 1 <= repeat <= loaded.campaign.most_repeats:
        raise UserError(f"{loaded.path} plans repeats 1 to {loaded.campaign.most_repeats} (key: repeats)")
    if loaded.shared_jobs:
        first_job = next(iter(loaded.records(RESULTS, 1)))
        advice = f"ask for all of them, results/{loaded.name}/runs.csv, or for one job: {first_job}"
        raise UserError(f"runs of {loaded.path} are made several in a job (resources); {advice}")
    return cell


def cell_of_trace(loaded: LoadedCampaign, slug: str) -> Cell:
    """Return the cell `slug`, whose trace is to be made. Raises UserError where the campaign does not trace it."""
    cell = loaded.cell(slug)
    if cell not in loaded.traced:
        traced_slugs = [cell.slug for cell in loaded.traced]
        hint = f"{did_you_mean(slug, traced_slugs)} Traced: {', '.join(traced_slugs) or 'none'}"
        raise UserError(f"{loaded.path} does not trace {slug} (key: trace.cells).{hint}")
    return cell


def check_asked(loaded: LoadedCampaign, is_asked: bool, fault: str) -> None:
    """Raise UserError with the `fault` where a campaign does not ask for what a target is."""
    if not is_asked:
        raise UserError(f"{loaded.path} {fault}")


def known_name(what: str, name: str, known: Mapping[str, Found]) -> Found:
    """Return what is `known` by a name of a target. Raises UserError for another name."""
    if name not in known:
        raise UserError(no_such(what, name, known))
    return known[name]


def other_names(patterns: Iterable[str]) -> str:
    """Return the regular expression of all paths but those of `patterns`, which have wildcards in braces."""
    return f"(?!(?:{'|'.join(map(_expression, patterns))})$).+"


def refuse_target(target: str, path: str, patterns: Iterable[str]) -> NoReturn:
    """Raise UserError for a target that no rule makes, with the nearest that one makes, and others of its folder.

    `path`: what is meant, below results/. `patterns`: what rules make there, with wildcards in braces.
    """
    path = path.removesuffix(".yaml")  # of a campaign's file
    made = [filled for pattern in patterns if (filled := _filled(pattern, path.split("/")))]
    parent, _, name = path.rpartition("/")
    folder = path if any(file.startswith(f"{path}/") for file in made) else parent  # the one that is asked for
    beside = list(dict.fromkeys(Path(file).name for file in made if file.rpartition("/")[0] == folder))
    same_names = (file for file in made if Path(file).name == name)
    likely = (path, f"{folder}/{nearest_name(name, beside)}", f"{path}/report.html", *same_names)
    meant = next((f' Did you mean "{RESULTS / file}"?' for file in likely if file in made), "")
    of_kind = [file for file in beside if Path(file).suffix == Path(name).suffix] or beside
    there = f" In {RESULTS / folder}: {', '.join(of_kind)}" if of_kind else ""
    raise UserError(f"no rule makes {target}.{meant}{there}")


def _expression(pattern: str) -> str:
    """Return the regular expression of a path, or of a part of one, with wildcards in braces."""
    return re.sub(r"\\{.*?\\}", "[^/]+", re.sub(r"\\{campaign\b.*?\\}", "[A-Za-z0-9_-]+", re.escape(pattern)))


def _filled(pattern: str, parts: list[str]) -> str:
    """Return the `pattern` of an output with the `parts` of a path for its wildcards; "" where they do not fit."""
    of_pattern = pattern.split("/")
    pairs = zip(of_pattern, parts + of_pattern[len(parts) :], strict=False)
    filled = [given if "{" in part else part for part, given in pairs]
    fits = re.fullmatch(_expression(pattern), "/".join(filled)) and "{" not in "".join(filled)
    return "/".join(filled) if fits else ""
