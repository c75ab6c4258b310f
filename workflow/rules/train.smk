"""One timed run: one repeat of one cell, in fresh processes, alone on the machine or in a job of its own on a cluster."""


def tokens_of(wildcards):
    return tokens_dir(RESULTS, cell_of(wildcards))


def asked(what):
    """A resource: `what` the run asks of a cluster. Nothing of it counts on a single machine."""
    return lambda wildcards: getattr(job_of(wildcards.campaign, wildcards.cell), what)


@lru_cache
def job_of(campaign, cell):
    """One request for all the resources that name parts of it."""
    found = ask(load_named, campaign)
    return job(ask(found.cell, cell), found.campaign.resources)


rule train:
    message:
        "Train {wildcards.campaign} {wildcards.cell}, repeat {wildcards.rep}: {params.batch} samples a step"
    input:
        train=lambda w: ancient(tokens_of(w) / "train.bin"),
        val=lambda w: ancient(tokens_of(w) / "val.bin"),
        tokens=lambda w: tokens_of(w) / "tokens.json",
        code=sources(*MEASURING),
    output:
        metrics="results/{campaign}/runs/{cell}/rep{rep}/training_metrics.json",
        steps="results/{campaign}/runs/{cell}/rep{rep}/steps.csv",
        launcher="results/{campaign}/runs/{cell}/rep{rep}/launcher_metadata.json",
    log:
        "results/{campaign}/runs/{cell}/rep{rep}/train.log",
    conda:
        "../../envs/train.yaml"
    params:
        file=lambda w: of_campaign(w).path,
        # The whole configuration in one word: this cell is trained again when it changes, and only then.
        fingerprint=lambda w: cell_of(w).fingerprint,
        tokens=tokens_of,
        batch=lambda w: str(cell_of(w).batch),
    # Repeat by repeat, cells in random order within one: a machine that drifts favours no cell.
    priority: lambda w: of_campaign(w).priority(w.cell, int(w.rep))
    # All of this machine: nothing else may run beside a measurement. On a cluster cpus_per_task says it.
    threads: lambda w: workflow.resource_settings.cores or 1
    resources:
        # One launcher a node is one task a node. tasks_per_gpu=0 keeps the plugin from asking for tasks per GPU as well.
        nodes=asked("nodes"),
        tasks=asked("nodes"),
        mpi=asked("mpi"),
        tasks_per_gpu=0,
        gres=asked("gres"),
        cpus_per_task=asked("cpus_per_task"),
        mem_mb=asked("mem_mb"),
        runtime=asked("runtime"),
        slurm_extra=asked("options"),
    shell:
        "scalebench train {params.file} {wildcards.cell} --repeat {wildcards.rep} --fingerprints {params.fingerprint}"
        " --tokens {params.tokens} --out results/{wildcards.campaign}/runs/{wildcards.cell}/rep{wildcards.rep}"
