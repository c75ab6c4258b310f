"""Claims files that lack their first line: nothing reads them as claims, so `scaleproof compare` refuses them."""

from pathlib import Path
from typing import Any

from scaleproof.ground.errors import UserError

LARGEST = 1 << 20  # bytes of a claims file: larger ones are something else
KEYS = {"title", "runs", "claims"}


def refuse_claims_without_header(result: Path) -> None:
    """Raise UserError for a YAML file in the folder `result` that is a claims file but for its first line.

    It states facts of runs or kinds of claims, as a claims file does, and nothing else: other YAML files are settings.
    """
    from scaleproof.auditor.read.published_claims import KEYS as HEADERS
    from scaleproof.auditor.read.published_claims import VERSION
    from scaleproof.ground.campaign.yaml_loader import read_yaml

    for file in sorted([*result.glob("*.yaml"), *result.glob("*.yml")]) if result.is_dir() else ():
        if not file.is_file() or file.stat().st_size > LARGEST:
            continue
        try:
            content, _ = read_yaml(file)
        except (OSError, UserError):  # whatever it is, the readers of results say what they cannot read
            continue
        if _states_claims(content):
            header = f'{HEADERS[0]}: "{VERSION}"'
            raise UserError(f"{file}: it reads as a claims file, whose first line must be {header} (docs/audit.md)")


def _states_claims(content: Any) -> bool:
    """Return whether the content of a YAML file has facts of runs or claims under their keys, and no other key."""
    from scaleproof.auditor.read.published_claims import KINDS
    from scaleproof.auditor.read.run_fields import FIELDS

    if not isinstance(content, dict) or not set(content) <= KEYS:
        return False
    runs, claims = content.get("runs"), content.get("claims")
    facts = list(runs.values()) if isinstance(runs, dict) else []
    entries = claims if isinstance(claims, list) else []
    has_facts = any(isinstance(of_run, dict) and FIELDS.keys() & of_run.keys() for of_run in facts)
    return has_facts or any(isinstance(entry, dict) and entry.get("kind") in KINDS for entry in entries)
