"""Targets on Snakemake's command line: those that no rule makes are answered with the nearest one that is made."""

import re
from pathlib import Path, PurePosixPath

from scalebench.campaign.loaded import RESERVED, LoadedCampaign, load_named
from scalebench.campaign.yaml_loader import CAMPAIGNS
from scalebench.errors import UserError, nearest, nearest_name, shortened

RUN_FILES = ("training_metrics.json", "steps.csv", "launcher_metadata.json")
RUN = re.compile(r"results/[^/]+/runs/(?P<cell>[^/]+)/rep(?P<rep>[^/]+)(?:/.*)?")
TRACE = re.compile(r"results/[^/]+/traces/(?P<cell>[^/]+)(?:/.*)?")
WILDCARD = re.compile(r"\{(\w+)[^{}]*\}")


def check_targets(targets: dict[str, bool], patterns: list[str], choices: dict[str, list[str]]) -> None:
    """Raise UserError for the first target below results/ that would not be made, or is not of the campaign.

    `targets`: target -> whether a rule has such an output. `patterns`: the outputs of all rules, with wildcards.
    `choices`: wildcard -> the values that it can have, where they are few (charts, tables).
    """
    for target, has_rule in targets.items():
        path = PurePosixPath(target)
        if path.parts[:1] != ("results",):
            continue
        name = path.parts[1] if len(path.parts) > 1 else ""
        if name in RESERVED:
            continue
        loaded = _campaign(name, path)
        _check_planned(target, loaded)
        if not has_rule:
            made = _made(loaded, patterns, choices)
            meant = nearest_name(target, made) or f"results/{loaded.name}/report.html"
            raise UserError(f'no rule makes "{shortened(target, 200)}". Did you mean "{meant}"?')


def _campaign(name: str, path: PurePosixPath) -> LoadedCampaign:
    """The campaign of a target. Raises UserError with the target that is meant, if there is no such campaign."""
    if (CAMPAIGNS / f"{name}.yaml").is_file():
        return load_named(name)
    names = [p.stem for p in sorted(CAMPAIGNS.glob("*.yaml"))]
    meant = nearest_name(name.partition(".")[0], names)
    rest = path.parts[2:] or ("report.html",)
    hint = f' Did you mean "{meant}"? ({PurePosixPath("results", meant, *rest)})' if meant else ""
    listed = ", ".join(names) or "none"
    raise UserError(f'there is no campaign "{shortened(name)}" in {CAMPAIGNS}.{hint} Campaigns: {listed}')


def _check_planned(target: str, loaded: LoadedCampaign) -> None:
    """Runs and traces that the campaign does not plan are refused."""
    if match := RUN.fullmatch(target):
        loaded.cell(match["cell"])
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


def _made(loaded: LoadedCampaign, patterns: list[str], choices: dict[str, list[str]]) -> list[str]:
    """The files that the rules make of a campaign."""
    known = {**choices, "campaign": [loaded.name], "comparison": list(loaded.comparisons)}
    made = [f"{folder}/{name}" for folder in loaded.runs(Path("results")) for name in RUN_FILES]
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
