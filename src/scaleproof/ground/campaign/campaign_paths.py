"""Where campaign files are, and what to say of a path that is none of them."""

import os
import re
from pathlib import Path

from scaleproof.ground.errors import UserError, nearest_name, path_fault
from scaleproof.ground.snakemake_command import RESULTS

CAMPAIGNS = Path("config/campaigns")
# Folders of results/ that are not of a campaign.
RESERVED = ("corpora", "downloads", "published", "job-logs", "case-studies", "forecasts", "series")
OF_CORPORA = "is a table of corpora, no campaign; a campaign names one of its rows: workload: {corpus: NAME}"
ROW_OF_CORPORA = re.compile(
    rb"^(?: +|[a-z0-9._-]+: *\{.*)source: *(?:python-docs|text|jsonl|parquet|csv|hub|http|dataset)\b", re.MULTILINE
)


def no_campaign_error(path: Path) -> UserError:
    """Return the error for a path that is no campaign file, with the campaign probably meant, or those that exist."""
    fault = path_fault(path)
    if fault and (os.path.lexists(path) or "not a folder" in fault):  # a pipe, a broken link, a file for a folder
        return UserError(f"{path}{fault}")
    namesake = path.parent / f"{path.stem}.yml"
    if namesake.is_file() and namesake != path:
        return UserError(f"{path}: no such campaign file; {namesake} is there: rename it, campaigns end with .yaml")

    campaigns = _campaigns_near(path)
    nearest_campaign = _campaign_meant(path, campaigns)
    hint = f' Did you mean "{nearest_campaign}"?' if nearest_campaign else ""
    if path.is_dir():
        is_profile = any(path.glob("*.v[0-9]*.yaml"))  # config.v8+.yaml, profile.v9+.yaml
        fault = " is a folder, not a campaign file"
        if is_profile:
            fault = f" is a profile, not a campaign file; give it as --profile {path}"
    elif path.exists():
        empty = "" if path.stat().st_size else "is empty, and "
        is_table = path.suffix in (".yaml", ".yml") and ROW_OF_CORPORA.search(path.read_bytes()[:10_000])
        fault = f" {OF_CORPORA}" if is_table else f" {empty}is no campaign file, which ends with .yaml and has a title"
    else:
        fault = ": no such campaign file" + (", and standard input is not read" if path == Path("-") else "")

    results = RESULTS / path.stem
    file = CAMPAIGNS / f"{path.stem}.yaml"
    if path.stem not in ("", *RESERVED) and results.is_dir() and not file.is_file():
        fault += f"; of {results} the campaign's file, {file}, is gone"
    if not campaigns and (folder_hint := other_folder_hint()):
        return UserError(f"{path}{fault}{folder_hint}")
    others = f" and {len(campaigns) - 10} more" if len(campaigns) > 10 else ""
    names = ", ".join(map(str, campaigns[:10])) or "none; `scaleproof init NAME` makes a folder with one"
    return UserError(f"{path}{fault}.{hint} Campaign files: {names}{others}")


def _campaigns_near(path: Path) -> list[Path]:
    """Find the campaign files in or beside `path`. Without any, returns the files in config/campaigns."""
    # For a bare name, the folder is config/campaigns: the repository's own folder has other YAML files.
    parent = path.parent if path.parent != Path() and path.parent.is_dir() else CAMPAIGNS
    folder = path if path.is_dir() else parent
    near = sorted(filter(has_title, folder.glob("[!.]*.yaml")))
    return near or sorted(filter(Path.is_file, CAMPAIGNS.glob("*.yaml")))


def _campaign_meant(path: Path, campaigns: list[Path]) -> Path | None:
    """Find the campaign that `path` may mean: one of the same name in config/campaigns, else the nearest name."""
    # demo.yaml for demo, demo.yml, demo.yaml.bak and results/demo/runs/ddp-n1x2
    same = (CAMPAIGNS / f"{part.partition('.')[0]}.yaml" for part in reversed(path.parts))
    if named := next((file for file in same if file.is_file() and file != path), None):
        return named
    nearest_stem = nearest_name(path.stem, [file.stem for file in campaigns])
    return next((file for file in campaigns if file.stem == nearest_stem), None)


def other_folder_hint() -> str:
    """Return a hint to the campaigns of a folder above, or below: `; this is ..., and campaigns are in ...: cd ...`.

    Returns "" where the current folder has campaigns, or no other or several have any; a file for the folder is named.
    """
    here = Path.cwd()
    if (here / CAMPAIGNS).exists():
        return "" if (here / CAMPAIGNS).is_dir() else f"; {CAMPAIGNS} is a file, not a folder"
    outer = [folder for folder in here.parents if (folder / CAMPAIGNS).is_dir()][:1]
    others = outer or [place.parents[1] for place in here.glob(f"*/{CAMPAIGNS}/")]
    return "" if len(others) != 1 else f"; this is {here}, and campaigns are in {others[0] / CAMPAIGNS}: cd {others[0]}"


def check_same_folder(campaign: Path, results: Path) -> None:
    """Raise UserError where a `campaign` is of another folder than this one, whose `results` are meant."""
    file = Path(os.path.abspath(campaign))
    root = file.parents[2] if file.parent.parts[-2:] == CAMPAIGNS.parts else Path.cwd()
    if Path(os.path.abspath(results)).parent == Path.cwd() != root:
        raise UserError(f"{campaign} is of another folder, and {results} is of this one: cd {root}")


def has_title(path: Path) -> bool:
    """Return whether a file begins with a title, as campaigns do and other YAML files do not."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return re.search(rb"^title:", file.read(10_000), re.MULTILINE) is not None
