"""Campaigns with `same_allocation` or `minutes_per_job`: several runs are one job, one after the other.

The runs go where rule train would have put them. Snakemake knows the job's record alone, so that thousands of runs are
as many jobs as the cluster gets, and so that the finished runs of a job that was cut off stay.
"""


def shared_job_of(wildcards):
    return or_exit(of_campaign(wildcards).shared_job, wildcards.job)


def tokens_of_job(wildcards):
    """The folders of the token files of a job's cells, each once."""
    return list(dict.fromkeys(tokens_dir(RESULTS, cell) for cell in shared_job_of(wildcards).cells))


def priority_of_shared_job(wildcards):
    """That of its first run."""
    cell, repeat = shared_job_of(wildcards).runs[0]
    return of_campaign(wildcards).priority(cell.slug, repeat)


def job_of_shared_job(wildcards):
    return _job_of_shared_job(wildcards.campaign, wildcards.job)


@lru_cache
def _job_of_shared_job(campaign, name):
    """The request for all runs of a job."""
    loaded = or_exit(load_named, campaign)
    runs = or_exit(loaded.shared_job, name).runs
    return job_together([cell for cell, _ in runs], loaded.campaign.resources)


rule shared_job:
    message:
        "Train {params.runs} of {wildcards.campaign} in one job: {wildcards.job}"
    input:
        large=lambda w: [ancient(f"{t}/{name}") for t in tokens_of_job(w) for name in ("train.bin", "val.bin")],
        tokens=lambda w: [f"{t}/tokens.json" for t in tokens_of_job(w)],
        code=sources(*MEASURING, "measure/launch/shared_job.py"),
    output:
        "results/{campaign}/together/{job}.json",
    log:
        "results/{campaign}/logs/together-{job}.log",
    conda:
        "../../envs/train.yaml"
    params:
        file=lambda w: of_campaign(w).path,
        fingerprint=lambda w: shared_job_of(w).planned_fingerprint,
        runs=lambda w: plural(len(shared_job_of(w).runs), "run"),
    priority: priority_of_shared_job
    threads: whole_machine
    resources:
        **resources_of(job_of_shared_job),
    shell:
        "scaleproof stage shared_job {params.file} {wildcards.job} --fingerprints {params.fingerprint}"
        " --out {output} > {log} 2>&1"
