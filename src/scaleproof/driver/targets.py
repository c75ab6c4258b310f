"""Targets of Snakemake that are not made: runs and traces that no campaign plans, names that no rule knows."""

import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import NoReturn, TypeVar

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.loaded import LoadedCampaign, load_named
from scaleproof.ground.errors import UserError, did_you_mean, nearest_name, no_such
from scaleproof.ground.records.run import METRICS
from scaleproof.ground.snakemake_command import RESULTS
from scaleproof.measure.launch.replayed_cells import cells_by_workload

Found = TypeVar("Found")
WILDCARD = re.compile(r"\{(\w+)(?:,((?:[^{}]|\{[0-9,]+\})*))?\}")
# Name in results/ that no rule makes -> the command that does.
WRITERS = {
    "published": "publish results/NAME --author NAME",
    "forecasts": "forecast config/campaigns/NAME.yaml",
    "doctor.json": "doctor",
    "index.html": "index",
}
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


def refuse_cell(name: str, campaigns: Iterable[str]) -> None:
    """Raise UserError where a target is the name of a cell, with what makes its runs. `campaigns`: names of all."""
    files = []
    for campaign in campaigns:
        with suppress(UserError):  # of a campaign that is not valid
            loaded = load_named(campaign, RESULTS)
            run = next((folder for folder, cell, _ in loaded.planned(RESULTS) if cell.slug == name), None)
            if run:
                files.append(RESULTS / campaign / "runs.csv" if loaded.shared_jobs else run / METRICS)
    if files:
        others = f"; also of {len(files) - 1} other campaigns" if len(files) > 1 else ""
        raise UserError(f"{name} is a cell, not a target; what makes a run of it: snakemake {min(files)}{others}")


def rule_of_any_text(name: str, pattern: str, campaigns: Collection[str]) -> str:
    """Describe the files of a rule that makes one for each campaign, of which a target names none.

    `pattern`: a file that the rule makes, with wildcards in braces. `campaigns`: names of all.
    """
    file = WILDCARD.sub(lambda wildcard: wildcard[1].upper(), pattern)
    listed = f" (CAMPAIGN: {', '.join(sorted(campaigns)[:LISTED])})" if campaigns and "CAMPAIGN" in file else ""
    return f"{name} is a rule for any campaign; name the file that it is to make: snakemake {file}{listed}"


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
    made = [parts for pattern in patterns if all(parts := _choices(pattern.split("/"), given, names))]
    mended: list[str] = []  # `given`, as far as it resembles what is made
    for part in given:
        beside = _names_in(mended, made)
        nearest = part if part in beside else nearest_name(part, beside) or nearest_name(part.partition(".")[0], beside)
        if nearest is None:
            break
        mended.append(nearest)

    below = _names_in(mended, made)
    if not below:
        meant = mended
    elif len(mended) < len(given):
        meant = _with_folders(given, made)
    else:
        meant = [*mended, below[0]] if len(below) == 1 else [*mended, "report.html"] * ("report.html" in below)
    hint = f' Did you mean "{RESULTS.joinpath(*meant)}"?' if meant else ""
    if given[1:2] == ["runs"] and not names["runs/cell"]:
        hint = f" Runs here are made several in a job (resources); all of them: {RESULTS / given[0] / 'runs.csv'}."
    if writer := WRITERS.get(given[0]):
        hint = f" It is written by: scaleproof {writer}"

    folder = mended if below else mended[:-1]
    beside = _names_in(folder, made)
    of_kind = [name for name in beside if Path(name).suffix == Path(given[-1]).suffix != ""] or beside
    listed = f"{', '.join(of_kind[:LISTED])}{', ...' * (len(of_kind) > LISTED)}"
    there = f" In {RESULTS.joinpath(*folder)}: {listed}" if folder and of_kind else ""
    raise UserError(f"no rule makes {target}.{hint}{there}")


def _with_folders(given: list[str], made: Iterable[list[list[str]]]) -> list[str]:
    """Return the path of the file that a path means which leaves folders out; [] where there is none."""
    choices_of_parts: list[list[str]] = next((parts for parts in made if given[-1] in parts[-1]), [])
    filled = [next((part for part in given if part in choices), choices[0]) for choices in choices_of_parts]
    return filled if set(given) <= set(filled) else []


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


def _names_in(folder: list[str], made: Iterable[list[list[str]]]) -> list[str]:
    """Return the names that are made in a folder. `made`: for each path what its parts may be."""
    inside = [
        parts[len(folder)]
        for parts in made
        if len(parts) > len(folder) and all(name in choices for name, choices in zip(folder, parts, strict=False))
    ]
    return list(dict.fromkeys(name for choices in inside for name in choices))
