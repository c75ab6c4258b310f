"""One timed run: one repeat of one cell, alone on the machine or in a job of its own on a cluster."""


rule train:
    message:
        "Train {wildcards.campaign} {wildcards.cell}, repeat {wildcards.rep}: {params.batch} samples a step"
    input:
        before=inputs_of_run,
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
        file=inspected_once(lambda w: of_campaign(w).path),
        # The whole configuration in one word: this cell is trained again when it changes, and only then.
        fingerprint=inspected_once(lambda w: cell_of(w).planned_fingerprint),
        tokens=tokens_of,
        batch=inspected_once(lambda w: cell_of(w).planned_batch),
    # Repeat by repeat, cells in random order within one: a machine that drifts favours no cell.
    priority: lambda w: of_campaign(w).priority(w.cell, int(w.rep))
    threads: whole_machine
    resources:
        **resources_of(job_of_run),
    shell:
        "scaleproof stage train {params.file} {wildcards.cell} --repeat {wildcards.rep}"
        " --fingerprints {params.fingerprint}"
        " --tokens {params.tokens} --out results/{wildcards.campaign}/runs/{wildcards.cell}/rep{wildcards.rep}"


rule frontier:
    message:
        "Look for the micro-batch of {wildcards.campaign} {wildcards.cell}: {params.batch}"
    input:
        train=lambda w: ancient(tokens_of(w) / "train.bin"),
        tokens=lambda w: tokens_of(w) / "tokens.json",
        code=sources(
            "conclude/forecast/frontier_runs.py",
            "conclude/forecast/frontier_program.py",
            "conclude/forecast/text.py",
            "measure/launch/torchrun.py",
            "ground/files.py",
        ),
    output:
        "results/{campaign}/frontier/{cell}/frontier.json",
    log:
        "results/{campaign}/frontier/{cell}/stage.log",
    conda:
        "../../envs/train.yaml"
    params:
        file=lambda w: of_campaign(w).path,
        fingerprint=lambda w: cell_of(w).planned_fingerprint,
        limit=lambda w: of_campaign(w).campaign.frontier.limit_gb,
        tokens=tokens_of,
        batch=lambda w: cell_of(w).planned_batch,
    threads: whole_machine
    resources:
        **resources_of(job_of_run),
    shell:
        "scaleproof stage frontier {params.file} {wildcards.cell} --fingerprints {params.fingerprint}"
        " --tokens {params.tokens} --out {output} > {log} 2>&1"
