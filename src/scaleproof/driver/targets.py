"""Targets of Snakemake that are not made: runs and traces that no campaign plans, names that no rule knows."""

import re
from collections.abc import Iterable, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import NoReturn, TypeVar

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.errors import UserError, did_you_mean, nearest_name, no_such
from scaleproof.ground.snakemake_command import RESULTS
from scaleproof.measure.launch.replayed_cells import cells_by_workload

Found = TypeVar("Found")
WILDCARD = re.compile(r"\{(\w+)(?:,((?:[^{}]|\{[0-9,]+\})*))?\}")
LISTED = 30  # names of a folder, at most


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


def names_of_targets(loaded: LoadedCampaign) -> dict[str, list[str]]:
    """Return, for each wildcard of a target of the campaign, what may stand for it; of a cell, by the folder."""
    campaign = loaded.campaign
    until = campaign.repeat_until
    return {
        "campaign": [loaded.name],
        "runs/cell": [] if loaded.shared_jobs else [cell.slug for cell in loaded.cells],
        "traces/cell": [cell.slug for cell in loaded.traced],
        "frontier/cell": [cell.slug for cell in loaded.cells if cell.searched],
        "rep": [str(repeat) for repeat in range(1, campaign.most_repeats + 1)],
        "job": list(loaded.shared_jobs),
        "workload": list(cells_by_workload(loaded.cells)),
        "comparison": list(loaded.comparisons),
        "group": list(loaded.communicating_groups),
        "repeats": [str(look) for look in until.looks()[:-1]] if until else [],
    }


def refuse_target(target: str, path: str, patterns: Iterable[str], names: Mapping[str, list[str]]) -> NoReturn:
    """Raise UserError for a target that no rule makes, with the nearest that one makes, and others of its folder.

    `path`: what is meant, below results/. `patterns`: what rules make there, with wildcards in braces. `names`: what
    may stand for the wildcards.
    """
    given = path.removesuffix(".yaml").split("/")  # of a campaign's file
    all_made = [parts for pattern in patterns if all(parts := _choices(pattern.split("/"), given, names))]
    mended: list[str] = []
    left = [all_made]  # what begins like that, before and after each part
    for part in given:
        beside = _names_at(left[-1], len(mended))
        nearest = part if part in beside else nearest_name(part, beside) or nearest_name(part.partition(".")[0], beside)
        if nearest is None:
            break
        left.append([parts for parts in left[-1] if len(parts) > len(mended) and nearest in parts[len(mended)]])
        mended.append(nearest)
    below = _names_at(left[-1], len(mended))
    folder = mended if below else mended[:-1]
    if len(mended) < len(given) and below:
        same_name = next((parts for parts in all_made if given[-1] in parts[-1]), [])
        filled = [next((part for part in given if part in choices), choices[0]) for choices in same_name]
        meant = filled if set(given) <= set(filled) else []  # folders were left out
    elif len(below) == 1 or "report.html" in below:
        meant = [*mended, below[0] if len(below) == 1 else "report.html"]
    else:
        meant = [] if below else mended
    hint = f' Did you mean "{RESULTS.joinpath(*meant)}"?' if meant else ""
    beside = below or _names_at(left[-2:][0], len(folder))
    of_kind = [name for name in beside if Path(name).suffix == Path(given[-1]).suffix != ""] or beside
    listed = f"{', '.join(of_kind[:LISTED])}{', ...' * (len(of_kind) > LISTED)}"
    there = f" In {RESULTS.joinpath(*folder)}: {listed}" if folder and of_kind else ""
    raise UserError(f"no rule makes {target}.{hint}{there}")


def _expression(pattern: str) -> str:
    """Return the regular expression of a path, or of a part of one, with wildcards in braces."""
    texts_and_wildcards = WILDCARD.split(pattern)  # text, name, constraint, text, ...
    texts = map(re.escape, texts_and_wildcards[::3])
    wildcards = [f"(?:{constraint or '[^/]+'})" for constraint in texts_and_wildcards[2::3]]
    return "".join(part for pair in zip_longest(texts, wildcards, fillvalue="") for part in pair)


def _choices(of_pattern: list[str], given: list[str], names: Mapping[str, list[str]]) -> list[list[str]]:
    """Return what each part of a pattern may be. A wildcard without `names` may be what its expression allows."""
    return [
        _choices_of_part(part, folder, of_path, names)
        for folder, part, of_path in zip(
            ["", *of_pattern], of_pattern, [*given, *of_pattern[len(given) :]], strict=False
        )
    ]


def _choices_of_part(part: str, folder: str, given: str, names: Mapping[str, list[str]]) -> list[str]:
    wildcards = WILDCARD.split(part)  # text, name, constraint, text, ...
    if len(wildcards) != 4:
        return [part] if len(wildcards) == 1 else []
    before, name, constraint, after = wildcards
    known = names.get(f"{folder}/{name}", names.get(name))
    if known is None:
        known = [given.removeprefix(before).removesuffix(after), *re.findall(r"\b\w+(?=\||$)", constraint or "")]
    return [f"{before}{choice}{after}" for choice in known if re.fullmatch(constraint or "[^/]+", choice)]


def _names_at(made: Iterable[list[list[str]]], depth: int) -> list[str]:
    return list(dict.fromkeys(name for parts in made if len(parts) > depth for name in parts[depth]))
