"""A against B: all pairs of a comparison in one job, so that they share their devices; then what they say."""


rule pairs:
    input:
        tokens=lambda w: token_files(arms_of(w)[1]),
    output:
        "results/{campaign}/compare/{comparison}/pairs.json",
    log:
        "results/{campaign}/logs/pairs-{comparison}.log",
    priority: 0  # after all runs of cells
    conda:
        "../../envs/train.yaml"
    threads: WHOLE_MACHINE
    resources:
        **resources_of(job_of_pairs),
    params:
        code=code_sha256(*MEASURING, "measure/launch/pairs.py"),
        file=lambda w: of_campaign(w).path,
        fingerprints=lambda w: [cell.planned_fingerprint for cell in arms_of(w)[1:]],
        pairs=lambda w: [arms_of(w)[0].pairs, arms_of(w)[0].null_pairs],
        tokens=folder_of_tokens,
        out=subpath(output[0], parent=True),
        results=subpath(output[0], ancestor=4),
    message:
        "Compare in pairs: {wildcards.comparison} of {wildcards.campaign}"
    shell:
        "scaleproof stage pairs {params.file} {wildcards.comparison} --tokens {params.tokens}"
        " --fingerprints {params.fingerprints} --results {params.results} --out {params.out} > {log} 2>&1"


rule comparison:
    input:
        pairs=asked_pairs,
        findings="results/{campaign}/findings.json",
    output:
        json="results/{campaign}/comparison.json",
        csv="results/{campaign}/tables/comparison.csv",
        md="results/{campaign}/tables/comparison.md",
        tex="results/{campaign}/tables/comparison.tex",
        svg="results/{campaign}/charts/comparison.svg",
        png="results/{campaign}/charts/comparison.png",
    log:
        "results/{campaign}/logs/comparison.log",
    localrule: True
    conda:
        "../../envs/report.yaml"
    params:
        code=code_sha256(
            "conclude/analysis/ab_comparison.py",
            "conclude/report/tables/comparison.py",
            "conclude/report/charts/__init__.py",
        ),
        file=lambda w: of_campaign(w).path,
        results=subpath(output.json, ancestor=2),
    message:
        "Compare the pairs of {wildcards.campaign}"
    shell:
        "scaleproof stage comparison {params.file} --results {params.results} > {log} 2>&1"
