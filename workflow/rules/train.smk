"""One timed run: one repeat of one cell, alone on the machine or in a job of its own on a cluster."""


rule train:
    input:
        tokens=inputs_of_run,
    output:
        metrics="results/{campaign}/runs/{cell}/rep{rep}/training_metrics.json",
        steps="results/{campaign}/runs/{cell}/rep{rep}/steps.csv",
        launcher="results/{campaign}/runs/{cell}/rep{rep}/launcher_metadata.json",
    log:
        "results/{campaign}/runs/{cell}/rep{rep}/train.log",
    benchmark:
        "results/{campaign}/runs/{cell}/rep{rep}/benchmark.tsv"
    # Repeat by repeat, cells in random order within one: a machine that drifts favours no cell.
    priority: lambda w: of_campaign(w).priority(w.cell, int(w.rep))
    conda:
        "../../envs/train.yaml"
    threads: WHOLE_MACHINE
    resources:
        **resources_of(job_of_run),
    params:
        code=code_sha256(*MEASURING),
        file=lambda w: of_campaign(w).path,
        # The whole configuration in one word: this cell is trained again when it changes, and only then.
        fingerprint=lambda w: cell_of(w).planned_fingerprint,
        tokens=option_of_tokens,
        out=subpath(output.metrics, parent=True),
        results=subpath(output.metrics, ancestor=5),
        step=step_of,
    message:
        "Train {wildcards.campaign} {wildcards.cell}, repeat {wildcards.rep}: {params.step}"
    shell:
        "scaleproof stage train {params.file} {wildcards.cell} --repeat {wildcards.rep}"
        " --fingerprints {params.fingerprint}"
        " {params.tokens} --results {params.results} --out {params.out}"


rule frontier:
    input:
        tokens=tokens_of_trials,
    output:
        "results/{campaign}/frontier/{cell}/frontier.json",
    log:
        "results/{campaign}/frontier/{cell}/stage.log",
    conda:
        "../../envs/train.yaml"
    threads: WHOLE_MACHINE
    resources:
        **resources_of(job_of_run),
    params:
        code=code_sha256(
            "conclude/forecast/frontier.py",
            "conclude/forecast/frontier_program.py",
            "conclude/forecast/text.py",
            "measure/launch/torchrun.py",
            "ground/files.py",
        ),
        file=lambda w: of_campaign(w).path,
        fingerprint=lambda w: cell_of(w).planned_fingerprint,
        limit=lambda w: of_campaign(w).campaign.frontier.limit_gb,
        tokens=folder_of_tokens,
        results=subpath(output[0], ancestor=4),
        batch=lambda w: cell_of(w).planned_batch,
    message:
        "Look for the micro-batch of {wildcards.campaign} {wildcards.cell}: {params.batch}"
    shell:
        "scaleproof stage frontier {params.file} {wildcards.cell} --fingerprints {params.fingerprint}"
        " --tokens {params.tokens} --results {params.results} --out {output} > {log} 2>&1"
