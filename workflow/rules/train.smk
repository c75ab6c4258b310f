"""One timed run: one repeat of one cell, in fresh processes, alone on the machine."""


def tokens_of(wildcards):
    return tokens_dir(RESULTS, cell_of(wildcards))


rule train:
    message:
        "Train {wildcards.campaign} {wildcards.cell}, repeat {wildcards.rep}: {params.batch} samples a step"
    input:
        train=lambda w: ancient(tokens_of(w) / "train.bin"),
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
    threads: lambda w: workflow.cores or 1 # all of them: nothing else may run beside a measurement
    resources:
        mem_mb=8000,
        runtime=lambda w: int(of_campaign(w).campaign.resources.time_limit) + 2,
    shell:
        "scalebench train {params.file} {wildcards.cell} --repeat {wildcards.rep} --fingerprint {params.fingerprint}"
        " --tokens {params.tokens} --out results/{wildcards.campaign}/runs/{wildcards.cell}/rep{wildcards.rep}"
