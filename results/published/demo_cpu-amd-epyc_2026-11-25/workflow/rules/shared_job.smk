"""Campaigns with `same_allocation` or `minutes_per_job`: several runs are one job, one after the other.

The runs go where rule train would have put them. Snakemake knows the job's record alone, so that thousands of runs are
as many jobs as the cluster gets, and so that the finished runs of a job that was cut off stay.
"""


rule shared_job:
    input:
        tokens=inputs_of_shared_job,
    output:
        "results/{campaign}/together/{job}.json",
    log:
        "results/{campaign}/logs/together-{job}.log",
    priority: priority_of_shared_job
    conda:
        "../../envs/train.yaml"
    threads: WHOLE_MACHINE
    resources:
        **resources_of(job_of_shared_job),
    params:
        code=code_sha256(*MEASURING, "measure/launch/shared_job.py"),
        file=lambda w: of_campaign(w).path,
        fingerprint=lambda w: shared_job_of(w).planned_fingerprint,
        results=subpath(output[0], ancestor=3),
        runs=lambda w: plural(len(shared_job_of(w).runs), "run"),
    message:
        "Train {wildcards.job} of {wildcards.campaign}, one job: those of its {params.runs} that are missing"
    shell:
        "scaleproof stage shared_job {params.file} {wildcards.job} --fingerprints {params.fingerprint}"
        " --results {params.results} --out {output} 2> {log}"
