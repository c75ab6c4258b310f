"""Nodes that the driver asked for no more because jobs kept failing there: a record in the campaign's logs."""

import json
from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ValidationError

from scaleproof.ground.errors import UserError
from scaleproof.ground.files import read_regular, write_json

EXCLUDED = "logs/excluded_nodes.json"  # of a campaign's folder; `scaleproof retry` keeps the logs


class ExcludedNode(BaseModel, extra="forbid", frozen=True):
    """A node, and the jobs that failed there: its id -> its state."""

    node: str
    jobs: dict[str, str]


def read_excluded_nodes(campaign: Path) -> list[ExcludedNode]:
    """Return the excluded nodes of a campaign, by name; [] without a file. Raises UserError for a damaged one."""
    path = campaign / EXCLUDED
    if not path.is_file():
        return []
    try:
        nodes = [ExcludedNode.model_validate(entry) for entry in json.loads(read_regular(path))]
    except (OSError, TypeError, ValueError, ValidationError) as error:
        raise UserError(f"{path} is damaged ({str(error).splitlines()[0]}); remove it") from None
    return sorted(nodes, key=lambda entry: entry.node)


def note_excluded(campaign: Path, nodes: Iterable[ExcludedNode]) -> None:
    """Add `nodes` to the record in a campaign's folder; a node that is there already gets the further jobs."""
    known = {entry.node: entry for entry in read_excluded_nodes(campaign)}
    for entry in nodes:
        earlier = known[entry.node].jobs if entry.node in known else {}
        known[entry.node] = ExcludedNode(node=entry.node, jobs=earlier | entry.jobs)
    write_json(campaign / EXCLUDED, [known[name].model_dump() for name in sorted(known)])
