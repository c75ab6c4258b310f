"""Campaigns as Snakemake read them when it planned its jobs: an edit must not reach the plan of a job in a queue.

A job starts Snakemake anew on its node. Were the campaign's file read there, the job would compare it with itself, and
publish the new settings where the old ones were planned.
"""

import hashlib
import os
from collections.abc import MutableMapping
from pathlib import Path

from scaleproof.ground.campaign.campaign_paths import CAMPAIGNS
from scaleproof.ground.campaign.loaded import LoadedCampaign, load_named
from scaleproof.ground.campaign.shared_jobs import check_search
from scaleproof.ground.errors import UserError, missing_file
from scaleproof.ground.files import write_atomic
from scaleproof.ground.snakemake_command import RESULTS
from scaleproof.measure.machine.applicable import reason_of_all
from scaleproof.measure.machine.gpus import cuda_devices, usable_gpus

VARIABLE = "SCALEPROOF_CAMPAIGNS"  # goes along with every job: "demo=0123456789abcdef", the copy that counts
COPIES = Path(".snakemake/scaleproof/campaigns")


def check_possible(loaded: LoadedCampaign) -> None:
    """Raise UserError where no cell of a campaign can run on any machine."""
    if reason := reason_of_all(loaded.cells):
        raise loaded.placed(UserError(f"no cell can run on any machine; {reason}"))


def check_search_here(loaded: LoadedCampaign) -> None:
    """Raise UserError where a micro-batch is to be searched on this machine's CPU, and no limit is given."""
    wants_gpus = loaded.campaign.execution.device == "cuda"  # without one each run is a row that says why
    try:
        check_search(loaded.campaign, loaded.cells, on_cpu=not wants_gpus and not usable_gpus(cuda_devices)[0])
    except UserError as error:
        raise loaded.placed(error) from None


class CampaignsAsSent:
    """The campaigns of one Snakemake: read from their files where it plans, from copies of them in its jobs."""

    def __init__(self, plans: bool, environment: MutableMapping[str, str] = os.environ) -> None:
        """Begin without campaigns, or, in a job, with the copies that VARIABLE of `environment` names.

        `plans`: True where the user has started this Snakemake (VARIABLE is then emptied), False in one of its jobs.
        """
        self._plans, self._environment = plans, environment
        if plans:  # forget the copies of another Snakemake, in whose job this one may run
            environment[VARIABLE] = ""
        self._copies = dict(word.split("=", 1) for word in environment.setdefault(VARIABLE, "").split())
        self._campaigns: dict[str, LoadedCampaign] = {}

    @property
    def loaded(self) -> list[LoadedCampaign]:
        return [self._campaigns[name] for name in sorted(self._campaigns)]

    def load_named(self, name: str, results: Path = RESULTS) -> LoadedCampaign:
        """Return the campaign called `name`, with its results in `results`. It is loaded once. Raises UserError."""
        if name not in self._campaigns:
            load = self._load_copy if name in self._copies else load_named
            self._campaigns[name] = load(name, results)
            check_possible(self._campaigns[name])
        return self._campaigns[name]

    def _load_copy(self, name: str, results: Path) -> LoadedCampaign:
        """Load the campaign `name` as it was when its jobs were planned. Raises UserError where the copy is gone."""
        copy = _copy(name, self._copies[name])
        if not copy.is_file():
            raise missing_file(copy)
        loaded = LoadedCampaign(copy, results)
        loaded.path = CAMPAIGNS / copy.name  # messages name the user's file, not the copy
        return loaded

    def send(self) -> None:
        """Copy each campaign's file for the jobs. Raises UserError where it was edited after it was loaded."""
        for name, loaded in self._campaigns.items():
            text = loaded.path.read_text()
            self._copies[name] = hashlib.sha256(text.encode()).hexdigest()[:16]
            write_atomic(_copy(name, self._copies[name]), text)
            if self._load_copy(name, RESULTS).campaign != loaded.campaign:
                raise UserError(f"{loaded.path} was changed while the workflow was planned; start snakemake again")
        self._environment[VARIABLE] = " ".join(f"{name}={digest}" for name, digest in sorted(self._copies.items()))


def _copy(name: str, digest: str) -> Path:
    """Return the path of the copy of a campaign with this hash."""
    return COPIES / digest / f"{name}.yaml"
