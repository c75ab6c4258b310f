"""How a site wants to be asked: the resources of a run, which the campaign states once, in the words of a scheduler.

A profile says it under `config`: `{scheduler: lsf}`, or `{gpu_type: h100, exclusive: false}` for a Slurm site.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from scaleproof.driver.cluster.request import JobRequest
from scaleproof.driver.cluster.slurm import OPTIONS
from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.errors import UserError, did_you_mean, edit_distance, shortened
from scaleproof.ground.snakemake_command import snakemake_command

SCHEDULERS = ("slurm", "queue", "lsf")
REPORT = "results/NAME/report.html"
GPU_OPTIONS = ("gres", "gpus-per-node", "none")
OTHER_KEYS = ("container", "anonymous", "profile")  # of Snakemake's config, which the Snakefile reads itself
ELSEWHERE = " It goes under default-resources of the profile, as {}."
TARGET = " The campaign is chosen by the target: {command}."
# Resources that a profile gives its jobs; the others are the campaign's business.
OF_SITE = ("constraint", "qos", "slurm_account", "slurm_partition", "lsf_queue", "lsf_project")
OF_RESOURCES = {
    **{name: ELSEWHERE.format(name) for name in OF_SITE},
    "partition": ELSEWHERE.format("slurm_partition"),
    "account": ELSEWHERE.format("slurm_account"),
}
# What people look for in Snakemake's config -> where it goes.
OF_OTHERS = {
    "campaign": TARGET,
    "campaigns": TARGET,
    "name": TARGET,
    **OF_RESOURCES,
    "executor": " It is an option of its own: --executor, or a key at the top of the profile.",
    "gpus": " How many devices a run has is the campaign's business (key: geometry).",
    "nodes": " How many nodes a run has is the campaign's business (key: geometry).",
}
# A lost node ends the run's processes, not the job: the launcher lives to write down what happened.
ALWAYS = "--no-kill"
EXCLUSIVE = "--exclusive"
PLACES = "Snakemake (config/config.yaml, --config, or a profile)"  # where its config stands
Resources = dict[str, int | str]  # of a rule: name -> value
RESOURCE_NAMES = [*sorted(OPTIONS.keys() - {"mem_mb"}), "slurm_extra", "lsf_queue", "lsf_project", "lsf_extra"]


def check_resource_names(names: Iterable[str], where: str = "the profile: ") -> None:
    """Raise UserError for a name within two letters of a known one, or without "slurm_". Others may be the site's."""
    for name in names:
        nearest = f"slurm_{name}"  # as for "partition"
        if nearest not in RESOURCE_NAMES:
            nearest = min(RESOURCE_NAMES, key=lambda known: edit_distance(name, known))
            if edit_distance(name, nearest) > 2 or len(name) <= 4:  # short names are alike by chance
                continue
        if name != nearest:
            raise UserError(f'{where}no scheduler knows "{shortened(name)}". Did you mean "{nearest}"?')


def _check_keys(config: Mapping[str, Any], known: Sequence[str]) -> None:
    """Check that a profile's `config` has only `known` keys. Raises UserError, which says where another key belongs."""
    for key in config:
        if key in Campaign.model_fields:  # checked before other keys: such a config is not needed at all
            advice = f"write it into config/campaigns/NAME.yaml and ask for its report, {snakemake_command(REPORT)}"
            raise UserError(f'"{key}" is a key of a campaign, which needs no --configfile and no --config: {advice}')
    for key in config:
        if key not in known:
            hint = did_you_mean(key, known) or OF_OTHERS.get(key, "").format(command=snakemake_command(REPORT))
            place = f"the config of {PLACES}"
            raise UserError(f'unknown key "{shortened(key)}" in {place}.{hint} Allowed: {", ".join(known)}')


@dataclass(frozen=True)
class Site:
    """What a profile says of its cluster."""

    scheduler: str = "slurm"
    gpu_type: str = ""  # as the site calls its GPUs: h100
    gpu_option: str = "gres"  # of sbatch; none: trainings are on CPUs
    exclusive: bool = True  # whether the site lets a job have whole nodes

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | None) -> "Site":
        """Return the site that a profile's `config` describes. Raises UserError for unknown keys and wrong values."""
        known = [field.name for field in fields(cls)]
        _check_keys(config or {}, [*known, *OTHER_KEYS])
        # A key without a value counts as absent; true and false come from --config as text.
        given = {key: str(value) for key, value in (config or {}).items() if value is not None}
        for key in ("exclusive", "anonymous"):  # the Snakefile reads `anonymous`
            truth = given.get(key, "true").lower()
            if truth not in ("true", "false"):
                raise UserError(f'config of {PLACES}: {key} is "{shortened(truth)}"; allowed: true, false')
        exclusive = given.pop("exclusive", "true").lower() == "true"
        site = cls(**{key: text for key, text in given.items() if key in known}, exclusive=exclusive)
        for key, allowed in (("scheduler", SCHEDULERS), ("gpu_option", GPU_OPTIONS)):
            value = getattr(site, key)
            if value not in allowed:
                hint = did_you_mean(value, allowed)
                fault = f'{key} is "{shortened(value)}".{hint} Allowed: {", ".join(allowed)}'
                raise UserError(f"config of {PLACES}: {fault}")
        if not all(c.isalnum() or c in "_.-" for c in site.gpu_type):
            allowed_text = 'letters, digits, "_", "." and "-", like h100 (sinfo -o "%N %G" lists them)'
            fault = f'gpu_type is "{shortened(site.gpu_type)}"; allowed: {allowed_text}'
            raise UserError(f"config of {PLACES}: {fault}")
        return site

    def resources(self, request: JobRequest) -> Resources:
        """Return the resources of a rule for a request, in this site's words and under its scheduler's names."""
        common: Resources = {
            "nodes": request.nodes,
            "cpus_per_task": request.cores,  # a task is the launcher of one node
            "mem_mb": request.memory_mb,
            "runtime": request.minutes,
            "devices_per_node": request.devices,
        }
        if self.scheduler == "slurm":
            gres, options = self._gpus(request.devices)
            exclusive = [EXCLUSIVE] if self._whole_nodes(request) else []
            slurm_extra = " ".join([ALWAYS, *exclusive, *options])
            return common | {"tasks": request.nodes, "gres": gres, "slurm_extra": slurm_extra}
        common["nodes"] = 1  # nothing starts the ranks of several nodes: such a run ends as `not_applicable`
        if self.scheduler == "lsf":
            common["lsf_extra"] = self._lsf_extra(request)
        return common

    def missing_nodes(self, request: JobRequest) -> str:
        """Return what is wrong where a request is of more nodes than this site's jobs get, else ""."""
        if self.resources(request)["nodes"] == request.nodes:
            return ""
        return (
            f"{request.nodes} nodes in the campaign, and this profile asks for 1, as only Slurm's srun starts the "
            "ranks of several: its runs would end as not_applicable"
        )

    def _gpus(self, devices: int) -> tuple[str, list[str]]:
        """Return the generic resource by which this site's Slurm gives `devices` GPUs, or "", and options of sbatch."""
        if not devices or self.gpu_option == "none":
            return "", []
        number = f"{self.gpu_type}:{devices}" if self.gpu_type else str(devices)
        if self.gpu_option == "gpus-per-node":
            return "", [f"--gpus-per-node={number}"]
        return f"gpu:{number}", []

    def _whole_nodes(self, request: JobRequest) -> bool:
        """Return whether a job has its nodes for itself: it asks for whole nodes, and the site lets it have them."""
        return self.exclusive and request.exclusive

    def _lsf_extra(self, request: JobRequest) -> str:
        """Return the options of LSF's bsub: the whole node where this site lets a job have it, and GPUs by type."""
        options = []
        if self._whole_nodes(request):
            options.append("-x")
        if request.devices:
            by_type = f":gmodel={self.gpu_type}" if self.gpu_type else ""
            options.append(f"-gpu num={request.devices}{by_type}:mode=shared")
        return " ".join(options)

    @property
    def resource_names(self) -> list[str]:
        """The names of `resources`, the same for every job."""
        return list(self.resources(JobRequest(1, 0, 1, 1, 1)))
