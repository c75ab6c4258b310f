"""Campaigns with `same_allocation`: a repeat of all cells is one job, so that they are compared on the same nodes.

The runs are copied from there to where rule train would have made them.
"""

TOGETHER = "|".join(map(re.escape, in_one_allocation())) or "$^"


def asked_together(what):
    """A resource: `what` the runs of one repeat ask of a cluster."""

    def answer(wildcards):
        loaded = of_campaign(wildcards)
        return getattr(job_together(loaded.cells, loaded.campaign.resources), what)

    return answer


ruleorder: adopt > train


rule together:
    message:
        "Train all cells of {wildcards.campaign}, repeat {wildcards.rep}, on the same nodes"
    wildcard_constraints:
        campaign=TOGETHER,
    input:
        train=lambda w: [ancient(tokens_dir(RESULTS, c) / "train.bin") for c in of_campaign(w).cells],
        val=lambda w: [ancient(tokens_dir(RESULTS, c) / "val.bin") for c in of_campaign(w).cells],
        tokens=lambda w: [tokens_dir(RESULTS, c) / "tokens.json" for c in of_campaign(w).cells],
        code=sources(*MEASURING),
    output:
        directory("results/{campaign}/together/rep{rep}"),
    log:
        "results/{campaign}/logs/together-{rep}.log",
    conda:
        "../../envs/train.yaml"
    params:
        file=lambda w: of_campaign(w).path,
        fingerprints=lambda w: [c.fingerprint for c in of_campaign(w).cells],
    priority: lambda w: -int(w.rep)
    threads: lambda w: workflow.resource_settings.cores or 1
    resources:
        nodes=asked_together("nodes"),
        tasks=asked_together("nodes"),
        mpi=asked_together("mpi"),
        tasks_per_gpu=0,
        gres=asked_together("gres"),
        cpus_per_task=asked_together("cpus_per_task"),
        mem_mb=asked_together("mem_mb"),
        runtime=asked_together("runtime"),
        slurm_extra=asked_together("options"),
    shell:
        "scalebench together {params.file} --repeat {wildcards.rep} --fingerprints {params.fingerprints}"
        " --out {output} > {log} 2>&1"


rule adopt:
    localrule: True
    message:
        "Take {wildcards.campaign} {wildcards.cell}, repeat {wildcards.rep}, from the runs that were made together"
    wildcard_constraints:
        campaign=TOGETHER,
    input:
        runs="results/{campaign}/together/rep{rep}",
        code=sources("record/copy_run.py"),
    output:
        metrics="results/{campaign}/runs/{cell}/rep{rep}/training_metrics.json",
        steps="results/{campaign}/runs/{cell}/rep{rep}/steps.csv",
        launcher="results/{campaign}/runs/{cell}/rep{rep}/launcher_metadata.json",
    log:
        "results/{campaign}/logs/adopt-{cell}-{rep}.log",
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    shell:
        "scalebench adopt {input.runs}/{wildcards.cell} --out results/{wildcards.campaign}/runs/{wildcards.cell}/rep{wildcards.rep} > {log} 2>&1"
