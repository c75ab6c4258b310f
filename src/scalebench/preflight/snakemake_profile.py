"""A Snakemake profile's folder, as far as `scalebench cluster check` needs to know what it says."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from scalebench.campaign.site import Site
from scalebench.errors import UserError

NAMES = ("profile.v9+.yaml", "config.v9+.yaml", "config.yaml")


class SnakemakeProfile:
    """The keys of the profile in `folder`. Raises UserError where there is none."""

    def __init__(self, folder: Path) -> None:
        settings_files = [folder / name for name in NAMES if (folder / name).is_file()]
        if not settings_files:
            raise UserError(
                f"there is no profile in {folder}: {NAMES[0]} is missing there; the repository's is profiles/slurm"
            )
        self.settings: dict[str, Any] = yaml.safe_load(settings_files[0].read_text()) or {}

    def resources(self, rule: str) -> dict[str, str]:
        """What the profile says of a rule's resources. Of what the rule says itself, only `replaced` counts."""
        return self._defaults | self.replaced(rule)

    def replaced(self, rule: str) -> dict[str, str]:
        """What set-resources puts in the place of what the rule asks for."""
        return self._changed.get(rule, {})

    @property
    def partitions(self) -> dict[str, list[str]]:
        """Partition -> the rules that the profile sends there by name."""
        rules: dict[str, list[str]] = {}
        for rule, changed in self._changed.items():
            if "slurm_partition" in changed:
                rules.setdefault(changed["slurm_partition"], []).append(rule)
        return rules

    @cached_property
    def site(self) -> Site:
        """How the cluster wants to be asked. Raises UserError."""
        return Site.of(_pairs(self.settings.get("config") or {}))

    @cached_property
    def _defaults(self) -> dict[str, str]:
        return _pairs(self.settings.get("default-resources") or {})

    @cached_property
    def _changed(self) -> dict[str, dict[str, str]]:
        """set-resources, which may be a list as on the command line: train:gres=''."""
        written = self.settings.get("set-resources") or {}
        if isinstance(written, Mapping):
            return {rule: _pairs(changed or {}) for rule, changed in written.items()}
        by_rule: dict[str, dict[str, str]] = {}
        for entry in written:
            rule, changed = entry.split(":", 1)
            by_rule.setdefault(rule, {}).update(_pairs([changed]))
        return by_rule


def _pairs(written: Mapping[str, Any] | list[str]) -> dict[str, str]:
    """Name -> value without the quotes that keep Snakemake from evaluating it."""
    entries = written if isinstance(written, Mapping) else dict(entry.split("=", 1) for entry in written)
    return {name: str(value).strip("'\"") for name, value in entries.items()}
