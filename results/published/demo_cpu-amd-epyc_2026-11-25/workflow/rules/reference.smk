"""What every run's losses are compared with: the first steps of a workload, replayed by code of its own."""


rule reference:
    input:
        tokens=lambda w: token_files(replayed_cell(w)),
        reading=lambda w: tokens_dir(RESULTS, replayed_cell(w)) / SECOND_READING,
    output:
        "results/{campaign}/reference/{workload}.json",
    log:
        "results/{campaign}/logs/reference-{workload}.log",
    conda:
        "../../envs/train.yaml"
    threads: WHOLE_MACHINE
    resources:
        **resources_of(job_of_reference),
    params:
        code=code_sha256(
            "measure/launch/replay.py",
            "measure/launch/replayed_cells.py",
            "measure/reference/replay.py",
            "ground/files.py",
        ),
        file=lambda w: of_campaign(w).path,
        tokens=folder_of_tokens,
        results=subpath(output[0], ancestor=3),
    message:
        "Replay the first steps of {wildcards.campaign}: {wildcards.workload}"
    shell:
        "scaleproof stage reference {params.file} --tokens {params.tokens}"
        " --results {params.results} --out {output} > {log} 2>&1"
