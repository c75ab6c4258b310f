"""Campaigns with `same_allocation`: a repeat of all cells is one job, so that they are compared on the same nodes.

The runs are copied from there to where rule train would have put them.
"""

SAME_ALLOCATION = "|".join(map(re.escape, in_one_allocation())) or "$^"


def job_of_all_cells(wildcards):
    """The request for the runs of one repeat."""
    loaded = of_campaign(wildcards)
    return job_together(loaded.cells, loaded.campaign.resources)


ruleorder: copy_run > train


rule same_allocation:
    message:
        "Train all cells of {wildcards.campaign}, repeat {wildcards.rep}, on the same nodes"
    wildcard_constraints:
        campaign=SAME_ALLOCATION,
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
        fingerprints=lambda w: [c.planned_fingerprint for c in of_campaign(w).cells],
    priority: lambda w: -int(w.rep)
    threads: whole_machine
    resources:
        **resources_of(job_of_all_cells),
    shell:
        "scalebench stage same_allocation {params.file} --repeat {wildcards.rep} --fingerprints {params.fingerprints}"
        " --out {output} > {log} 2>&1"


rule copy_run:
    message:
        "Take {wildcards.campaign} {wildcards.cell}, repeat {wildcards.rep}, from the runs in one allocation"
    wildcard_constraints:
        campaign=SAME_ALLOCATION,
    input:
        runs="results/{campaign}/together/rep{rep}",
        code=sources("record/copy_run.py"),
    output:
        metrics="results/{campaign}/runs/{cell}/rep{rep}/training_metrics.json",
        steps="results/{campaign}/runs/{cell}/rep{rep}/steps.csv",
        launcher="results/{campaign}/runs/{cell}/rep{rep}/launcher_metadata.json",
    log:
        "results/{campaign}/logs/copy_run-{cell}-{rep}.log",
    conda:
        "../../envs/report.yaml"
    shell:
        "scalebench stage copy_run {input.runs}/{wildcards.cell}"
        " --out results/{wildcards.campaign}/runs/{wildcards.cell}/rep{wildcards.rep} > {log} 2>&1"
