"""Which variables of the login node reach a job: all but what looks like a secret."""

import os
import re
from collections.abc import Iterable
from typing import Any

SECRET = re.compile(
    r"TOKEN(?!IZERS)|SECRET|PASSW|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_KEY|PRIVATE|_KEY$|_PAT$|^SSH_|^XAUTHORITY$"
)


def secrets(names: Iterable[str]) -> list[str]:
    """The names of variables that look like secrets."""
    return sorted(name for name in names if SECRET.search(name.upper()))


def job_environment() -> dict[str, str]:
    """Return the environment variables that sbatch hands on to a job, without secrets.

    Left out, too, are the variables of a job that this process may itself be in, and a profile, by which a job's
    Snakemake would submit jobs again.
    """
    withheld = {"SNAKEMAKE_PROFILE", *secrets(os.environ)}
    return {
        name: value
        for name, value in os.environ.items()
        if name not in withheld and (name == "SLURM_CONF" or not name.startswith("SLURM_"))
    }


def withhold_secrets(settings: Any) -> None:
    """Remove secrets from this process where `settings` are of cluster-generic, whose command is given all variables.

    Cloud executors sign their requests with such variables, and send none that is not named.
    """
    if not hasattr(settings, "submit_cmd"):
        return
    withheld = secrets(os.environ)
    for name in withheld:
        del os.environ[name]
    if withheld:
        print(f"not sent to compute nodes, nor given to this workflow's local steps: {', '.join(withheld)}")
