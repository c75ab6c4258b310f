"""What every run's losses are compared with: the first steps of a workload, replayed by code of its own."""


@lru_cache
def replayed(campaign):
    """Name of every workload -> the cell with the fewest devices that trains it."""
    cells = sorted(or_exit(load_named, campaign).cells, key=lambda cell: cell.batch.n_devices, reverse=True)
    return {workload_name(cell.config): cell for cell in cells}


def replayed_cell(wildcards):
    return replayed(wildcards.campaign)[wildcards.workload]


def reference_files(wildcards):
    """The references of all workloads of the campaign."""
    return [RESULTS / wildcards.campaign / FOLDER / f"{name}.json" for name in replayed(wildcards.campaign)]


def job_of_reference(wildcards):
    return job_of_replay(replayed_cell(wildcards), of_campaign(wildcards).campaign.resources)


rule reference:
    message:
        "Replay the first steps of {wildcards.campaign}: {wildcards.workload}"
    input:
        train=lambda w: ancient(tokens_dir(RESULTS, replayed_cell(w)) / "train.bin"),
        val=lambda w: ancient(tokens_dir(RESULTS, replayed_cell(w)) / "val.bin"),
        tokens=lambda w: tokens_dir(RESULTS, replayed_cell(w)) / "tokens.json",
        code=sources("measure/launch/replay.py", "measure/reference/replay.py", "ground/files.py"),
    output:
        "results/{campaign}/reference/{workload}.json",
    log:
        "results/{campaign}/logs/reference-{workload}.log",
    conda:
        "../../envs/train.yaml"
    params:
        file=lambda w: of_campaign(w).path,
        cell=lambda w: replayed_cell(w).slug,
        tokens=lambda w: tokens_dir(RESULTS, replayed_cell(w)),
    threads: whole_machine
    resources:
        **resources_of(job_of_reference),
    shell:
        "scaleproof stage reference {params.file} {params.cell} --tokens {params.tokens} --out {output} > {log} 2>&1"
