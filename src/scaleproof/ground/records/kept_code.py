"""Other code whose runs count as runs of today's code, because `scaleproof keep` was told so.

Jobs of several runs heed it: a retried run or a further cell makes no kept run again.
"""

from collections.abc import Collection
from pathlib import Path

from scaleproof.ground.files import write_json
from scaleproof.ground.json_faults import read_part

KEPT = "kept.json"  # in a campaign's results: today's code -> the other code that counts as it


def keep_code(results: Path, current: str, codes: Collection[str]) -> None:
    """Let runs of these `codes` count as runs of the `current` one. `results`: folder of the campaign's results."""
    if others := sorted({*codes, *_kept_codes(results, current)} - {current}):
        write_json(results / KEPT, {current: others})


def is_same_code(code: str, current: str, folder: Path) -> bool:
    """Return whether the `code` of the run in `folder` is the `current` one, or was kept as such."""
    return code == current or any(code in _kept_codes(parent, current) for parent in folder.parents[:4])


def _kept_codes(results: Path, current: str) -> list[str]:
    return read_part(results / KEPT, lambda content: list(content[current])) or []
