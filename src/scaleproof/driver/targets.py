"""Targets on Snakemake's command line: those that no rule makes are answered with the nearest one that is made."""

import os
import re
from pathlib import PurePosixPath

from scaleproof.ground.campaign.loaded import RESERVED, RESULTS, LoadedCampaign, load_named
from scaleproof.ground.campaign.yaml_loader import CAMPAIGNS, no_campaign
from scaleproof.ground.errors import UserError, nearest, nearest_name, path_fault, shortened

RUN_FILES = ("training_metrics.json", "steps.csv", "launcher_metadata.json")
RUN = re.compile(r"results/[^/]+/runs/(?P<cell>[^/]+)/rep(?P<rep>[^/]+)(?:/.*)?")
TRACE = re.compile(r"results/[^/]+/traces/(?P<cell>[^/]+)(?:/.*)?")
WILDCARD = re.compile(r"\{(\w+)[^{}]*\}")


def check_targets(targets: dict[str, bool], patterns: list[str], choices: dict[str, list[str]]) -> None:
    """Raise UserError for the first target below results/ that would not be made, or is not of the campaign.

    `targets`: target -> whether a rule has such an output. `patterns`: the outputs of all rules, with wildcards.
    `choices`: wildcard -> the values that it can have, where they are few (charts, tables).
    """
    if os.path.lexists(RESULTS) and not RESULTS.is_dir():
        raise UserError(f"{RESULTS}{path_fault(RESULTS) or ' is a file'}; the folder of all results is expected there")
    for target, has_rule in targets.items():
        path = PurePosixPath(target)
        if path.parts[:1] != ("results",):
            if has_rule:
                continue
            _check_campaign_given(path, path, patterns, choices)
            raise UserError(f'no rule makes "{shortened(target, 200)}".{_elsewhere(path)}')
        name = path.parts[1] if len(path.parts) > 1 else ""
        if not name:
            raise UserError(f'no rule makes "{target}".{_elsewhere(PurePosixPath("results", "x"))}')
        if name in RESERVED:
            continue
        file = CAMPAIGNS / f"{name}.yaml"
        if os.path.lexists(file) and not file.is_file():
            raise no_campaign(file)
        if not file.is_file():
            _check_campaign_given(path, PurePosixPath(*path.parts[1:]), patterns, choices)
        loaded = _campaign(name, path)
        _check_planned(target, loaded)
        if not has_rule:
            runs = [f"{folder}/{file}" for folder in loaded.runs(RESULTS) for file in RUN_FILES]
            made = [*runs, *_made(loaded.name, patterns, {**choices, "comparison": list(loaded.comparisons)})]
            report = f"results/{loaded.name}/report.html"
            below = [file for file in made if file.startswith(f"{target.rstrip('/')}/")]
            meant = (report if report in below else below[0]) if below else nearest_name(target, made) or report
            meant = report if f"{target}.html" == report else meant
            beside = [PurePosixPath(file).name for file in made if PurePosixPath(file).parent == path.parent]
            listed = f" In {path.parent}: {', '.join(sorted(set(beside)))}" if beside and not below else ""
            raise UserError(
                f'no rule makes "{shortened(target, 200)}". Did you mean "{meant}"?{shortened(listed, 600)}'
            )


def _campaigns() -> list[str]:
    return [file.stem for file in sorted(CAMPAIGNS.glob("*.yaml")) if file.is_file()]


def _check_campaign_given(
    target: PurePosixPath, rest: PurePosixPath, patterns: list[str], choices: dict[str, list[str]]
) -> None:
    """Raises UserError where `rest`, such as tables/scaling.md, lies in a campaign's folder, and no campaign is named.

    A word that resembles a campaign is taken for a misspelt one.
    """
    names = _campaigns()
    first = rest.parts[0] if rest.parts else ""
    of_campaigns = [pattern.partition("}/")[2] for pattern in patterns if pattern.startswith("results/{campaign")]
    in_folder = {PurePosixPath(pattern).parts[0] for pattern in of_campaigns if pattern}
    folder = first if first in in_folder else nearest_name(first, in_folder)
    if not names or folder is None or first in names or nearest_name(first, names):
        return
    measured = [name for name in names if (RESULTS / name).is_dir()] or names
    campaign = "demo" if "demo" in measured else measured[0]
    made = [file for file in _made(campaign, patterns, choices) if PurePosixPath(file).parts[2] == folder]
    place = shortened(PurePosixPath(folder, *rest.parts[1:]), 200)
    candidate = f"results/{campaign}/{place}"
    meant = candidate if candidate in made else nearest_name(candidate, made)
    hint = f' Did you mean "{meant}"?' if meant else ""
    raise UserError(
        f'no rule makes "{shortened(target, 200)}": the campaign is missing: results/NAME/{place}.{hint} '
        f"Campaigns: {', '.join(names)}"
    )


def _elsewhere(path: PurePosixPath) -> str:
    """What is meant by a target that is not below results/: the report of a campaign, or the same path there."""
    names = _campaigns()
    parts = path.parts
    campaign = nearest_name(path.stem, names) if path.stem not in names else path.stem
    if "results" in parts[:-1]:
        meant = str(PurePosixPath("results", *parts[len(parts) - parts[::-1].index("results") :]))
    elif len(parts) > 1 and nearest_name(parts[0], ["results"]):
        meant = str(PurePosixPath("results", *parts[1:]))
    elif len(parts) > 1 and parts[0] in names:
        meant = str(PurePosixPath("results", *parts))
    elif campaign:
        meant = f"results/{campaign}/report.html"
    else:
        return f" Targets are files such as results/NAME/report.html; campaigns: {', '.join(names) or 'none'}"
    return f' Did you mean "{meant}"?'


def _campaign(name: str, path: PurePosixPath) -> LoadedCampaign:
    """The campaign of a target. Raises UserError with the target that is meant, if there is no such campaign."""
    if (CAMPAIGNS / f"{name}.yaml").is_file():
        return load_named(name)
    names = _campaigns()
    if len(path.parts) == 2 and PurePosixPath(name).stem in names:
        raise UserError(f'no rule makes "{path}". Did you mean "results/{PurePosixPath(name).stem}/report.html"?')
    if len(path.parts) == 2 and (name == "index.html" or nearest_name(name, ["index.html"])):
        raise UserError("no rule makes the list of campaigns, results/index.html; scaleproof index writes it")
    meant = nearest_name(name.partition(".")[0], names)
    rest = list(path.parts[2:]) or ["report.html"]
    if meant is None and rest[0] in names and len(rest) > 1:
        meant, *rest = rest
    hint = f' Did you mean "{meant}"? ({PurePosixPath("results", meant, *rest)})' if meant else ""
    listed = ", ".join(names) or "none"
    raise UserError(f'there is no campaign "{shortened(name)}" in {CAMPAIGNS}.{hint} Campaigns: {listed}')


def _check_planned(target: str, loaded: LoadedCampaign) -> None:
    """Runs and traces that the campaign does not plan are refused."""
    if match := RUN.fullmatch(target):
        loaded.cell(match["cell"])
        if loaded.shared_jobs:
            raise UserError(
                f"{target}: runs of {loaded.path} are made several in a job (resources); ask for all of them, "
                f"results/{loaded.name}/runs.csv, or for one job: {next(iter(loaded.records(RESULTS, 1)))}"
            )
        rep, repeats = match["rep"], loaded.campaign.most_repeats
        if not rep.isdecimal() or not 1 <= int(rep[:9]) <= repeats:
            raise UserError(f"{target}: {loaded.path} plans repeats 1 to {repeats} (key: repeats)")
    if match := TRACE.fullmatch(target):
        loaded.cell(match["cell"])
        traced = [cell.slug for cell in loaded.traced]
        if match["cell"] not in traced:
            raise UserError(
                f"{target}: {loaded.path} does not trace this cell (key: trace.cells).{nearest(match['cell'], traced)} "
                f"Traced: {', '.join(traced) or 'none'}"
            )


def _made(campaign: str, patterns: list[str], choices: dict[str, list[str]]) -> list[str]:
    """The files that the rules make of a campaign beside its runs."""
    known = {**choices, "campaign": [campaign]}
    made = []
    for pattern in patterns:
        if not pattern.startswith("results/{campaign"):
            continue
        names = [""]
        position = 0
        for match in WILDCARD.finditer(pattern):
            values = known.get(match[1], [])
            names = [name + pattern[position : match.start()] + value for name in names for value in values]
            position = match.end()
        made += [name + pattern[position:] for name in names]
    return made
