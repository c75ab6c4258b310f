"""A YAML file `scaleproof_claims: "1.0"`: what was published about the files beside it, and what the files do not say.

scaleproof_claims: "1.0"
title: AG News on 4 GPUs
runs:                                  # NAME: part of a file's path
  exp042: {world_size: 4, dataset_samples: 120000}
claims:
  - {kind: speedup, value: 0.46, of: exp042, over: exp041, source: README}
"""

import re
from pathlib import Path
from typing import Any

from scaleproof.auditor.read.reported import Evidence, PublishedClaim, ReportedRun
from scaleproof.auditor.read.reported_tables import LARGEST
from scaleproof.auditor.read.run_fields import CLAIMED, FIELDS, figure, is_number
from scaleproof.auditor.read.text_files import UnreadableFile
from scaleproof.ground.errors import UserError, did_you_mean

VERSION = "1.0"
KEYS = ("scaleproof_claims", "scalebench_claims")  # the second: of files made before a change of name
BEGINNING = re.compile(r"(?m)^(?:scaleproof|scalebench)[-_ ]?claims?\s*:")
# Kind of a claim -> its keys; those with "?" may be left out.
KINDS = {
    "speedup": ("value", "of", "over", "devices?"),
    "change": ("value", "of", "over", "because?"),
    "throughput": ("value", "of"),
    "communication_time": ("value", "of", "how?"),
    "amdahl": ("parallel_fraction", "speedup", "devices"),
    "share": ("what", "percent", "of_total", "run"),
    "total_time": ("value", "of"),
    "step_parts": ("compute", "communication", "of", "steps_per_epoch"),
    "parameters": ("value", "layers", "width", "vocab", "context", "tied"),
    "mfu": ("flops", "peak", "device", "precision", "value?"),
}
TEXTS = {"of", "over", "what", "of_total", "run", "how", "device", "precision", "because", "tied"}


class FaultyClaims(UnreadableFile):
    """Why a claims file was not read: a mistake of whoever asks for the audit."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, "claims file")


def is_claims_file(text: str) -> bool:
    return BEGINNING.search(text, 0, 4000) is not None


def read_claims_file(path: Path, evidence: Evidence) -> dict[str, dict[str, Any]]:
    """Add the statements of a claims file; return its facts about runs. Raises FaultyClaims with the mistake."""
    from scaleproof.ground.campaign.yaml_loader import read_yaml  # takes a tenth of a second; few folders have claims

    try:
        data, _ = read_yaml(path)
    except UserError as error:
        raise FaultyClaims(str(error).removeprefix(str(path)).lstrip(":, ")) from None

    key = next((key for key in KEYS if isinstance(data, dict) and key in data), KEYS[0])
    allowed = (key, "title", "runs", "claims")
    for name in data if isinstance(data, dict) else ():
        if name not in allowed:
            raise FaultyClaims(f"{name} is unknown.{did_you_mean(name, allowed)} Allowed: {', '.join(allowed)}")
    if not isinstance(data, dict) or str(data.get(key)) != VERSION:
        raise FaultyClaims(f'{key} must be "{VERSION}"')
    claims, runs = data.get("claims") or [], data.get("runs") or {}
    if not isinstance(claims, list):
        raise FaultyClaims("claims is no list; each claim begins with a hyphen: - {kind: speedup, ...}")
    if not isinstance(runs, dict):
        raise FaultyClaims("runs is no mapping of names to facts, such as {exp042: {world_size: 4}}")

    for k, entry in enumerate(claims):
        evidence.published_claims.append(_claim_of(entry, f"claims[{k}]"))
    for name, facts in runs.items():
        _check_facts(facts, f"runs.{name}")
    return {str(name): facts for name, facts in runs.items()}


def _claim_of(entry: Any, where: str) -> PublishedClaim:
    """Return one entry of `claims` (`where`: "claims[0]"), checked. Raises FaultyClaims with the mistake."""
    kind = entry.get("kind") if isinstance(entry, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        fault = f"{where}.kind is {str(kind)[:40]!r}"
        raise FaultyClaims(f"{fault}.{did_you_mean(kind, KINDS)} Kinds: {', '.join(KINDS)}")
    values = {key: value for key, value in entry.items() if key not in ("kind", "source")}
    allowed = {key.rstrip("?") for key in KINDS[kind]}
    for key in KINDS[kind]:
        if key not in values and not key.endswith("?"):
            raise FaultyClaims(f"{where} ({kind}) lacks `{key}`; it has the keys {', '.join(KINDS[kind])}")

    for key, value in values.items():
        if key not in allowed:
            hint = did_you_mean(key, allowed) or " Numbers have a decimal point: 7.6" * str(key).isdigit()
            raise FaultyClaims(f"{where}.{key} is no key of {kind}.{hint}")
        values[key] = _value_of(key, value, where)
    return PublishedClaim(kind, values, str(entry.get("source") or "the claims file")[:200])


def _value_of(key: str, value: Any, where: str) -> Any:
    """Return the text or the number of a key of a claim. Raises FaultyClaims for any other value."""
    if key in TEXTS and isinstance(value, bool if key == "tied" else str):  # `on` is a truth to YAML, no name of a run
        return value
    number = figure(value) if isinstance(value, str) else value  # YAML 1.1 reads 1e9 as a text
    if key in TEXTS or not is_number(number) or abs(number) >= LARGEST:
        raise FaultyClaims(f"{where}.{key} is {str(value)[:40]!r}, not a {'text' if key in TEXTS else 'number'}")
    return number


def _check_facts(facts: Any, where: str) -> None:
    """Check what a claims file says about a run. Raises FaultyClaims with the mistake."""
    if not isinstance(facts, dict):
        raise FaultyClaims(f"{where} must be a mapping")
    for key, value in facts.items():
        if key not in CLAIMED:
            raise FaultyClaims(f"{where}.{key} is unknown.{did_you_mean(key, CLAIMED)} Allowed: {', '.join(CLAIMED)}")
        least = 0 if key == "zero_stage" else 1
        if FIELDS[key].whole and (isinstance(value, bool) or not isinstance(value, int) or not least <= value < 10**12):
            raise FaultyClaims(f"{where}.{key} is {str(value)[:40]!r}, not a whole number from {least} on")
        if not FIELDS[key].whole and not isinstance(value, str):
            raise FaultyClaims(f"{where}.{key} is {str(value)[:40]!r}, not a text")


def complete(run: ReportedRun, facts: dict[str, Any]) -> None:
    """Put facts where the run has none: what a file itself says counts more."""
    for field, value in facts.items():
        if getattr(run, field) is None:
            setattr(run, field, value)
            run.claimed.add(field)


def is_named(run_name: str, part: str) -> bool:
    """Whether `part` of a claims file means a run: it is a piece of the run's name, or a pattern of its path."""
    return part in run_name or Path(run_name).match(part)


def completion_mark(opening: str, name: str, folder: str) -> dict[str, Any]:
    """Return a mark of completion: its name, folder, "world" size, "rate" and "wall" time, None for each unstated."""
    pairs = dict(re.findall(r"(\w+)=(\S+)", opening))
    keys = {"world": "world_size", "rate": "tokens_per_sec", "wall": "total_wall_time_sec"}
    return {"name": name, "folder": folder} | {field: figure(pairs.get(key)) for field, key in keys.items()}
