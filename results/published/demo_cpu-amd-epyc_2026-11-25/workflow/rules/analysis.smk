"""From runs to conclusions: one row per run, what is wrong with them, one row per cell, scaling.

With `repeats.resolve` looks at the runs so far decide how many repeats there are.
"""


rule collect:
    input:
        metrics=run_files("training_metrics.json"),
    output:
        "results/{campaign}/runs.csv",
    log:
        "results/{campaign}/logs/collect.log",
    localrule: True
    conda:
        "../../envs/report.yaml"
    params:
        code=code_sha256("conclude/analysis/run_tables.py", "ground/records/unreadable.py"),
        file=lambda w: of_campaign(w).path,
        results=subpath(output[0], ancestor=2),
    message:
        "Gather the runs of {wildcards.campaign}"
    shell:
        "scaleproof stage collect {params.file} --results {params.results} > {log} 2>&1"


rule findings:
    input:
        runs=run_files("training_metrics.json", "steps.csv"),
        profiles=lambda w: trace_files(w, "profile_summary.json"),
        pairs=pairs_files,
        references=reference_files,
        forecast=forecast_of,
    output:
        "results/{campaign}/findings.json",
    log:
        "results/{campaign}/logs/findings.log",
    localrule: True
    conda:
        "../../envs/report.yaml"
    params:
        code=code_sha256(
            "conclude/analysis/campaign_findings.py",
            "ground/files.py",
        ),
        file=lambda w: of_campaign(w).path,
        results=subpath(output[0], ancestor=2),
    message:
        "Check runs, curves, traces and pairs of {wildcards.campaign}"
    shell:
        "scaleproof stage findings {params.file} --results {params.results} > {log} 2>&1"


checkpoint look:
    input:
        metrics=first_runs,
    output:
        "results/{campaign}/looks/{repeats}.json",
    log:
        "results/{campaign}/logs/look-{repeats}.log",
    localrule: True
    conda:
        "../../envs/report.yaml"
    params:
        code=code_sha256("conclude/analysis/scaling.py", "ground/records/unreadable.py", "ground/files.py"),
        file=lambda w: of_campaign(w).path,
        results=subpath(output[0], ancestor=3),
        until=lambda w: str(of_campaign(w).campaign.repeat_until),
        question=lambda w: of_campaign(w).question,
    message:
        "Look at {wildcards.repeats} repeats of {wildcards.campaign}: is its comparison decided?"
    shell:
        "scaleproof stage look {params.file} --repeats {wildcards.repeats} --results {params.results}"
        " --out {output} > {log} 2>&1"


rule analyse:
    input:
        runs="results/{campaign}/runs.csv",  # with the checksum of every run
        findings="results/{campaign}/findings.json",
    output:
        cells="results/{campaign}/cells.csv",
        losses="results/{campaign}/losses.csv",
        scaling="results/{campaign}/scaling_report.json",
    log:
        "results/{campaign}/logs/analyse.log",
    localrule: True
    conda:
        "../../envs/report.yaml"
    params:
        code=code_sha256(
            "conclude/analysis/run_tables.py",
            "conclude/analysis/scaling.py",
            "ground/records/series.py",
            "ground/records/unreadable.py",
        ),
        file=lambda w: of_campaign(w).path,
        results=subpath(output.cells, ancestor=2),
        title=lambda w: of_campaign(w).campaign.title,
        target=lambda w: of_campaign(w).campaign.target_loss,
        margin=lambda w: of_campaign(w).campaign.margin,
        question=lambda w: of_campaign(w).question,
        until=lambda w: str(of_campaign(w).campaign.repeat_until),
    message:
        "Compare the cells of {wildcards.campaign}"
    shell:
        "scaleproof stage analyse {params.file} --results {params.results} > {log} 2>&1"


rule waterfall:
    input:
        cells="results/{campaign}/cells.csv",
        scaling="results/{campaign}/scaling_report.json",
        profiles=lambda w: trace_files(w, "profile_summary.json"),
    output:
        json="results/{campaign}/waterfall.json",
        csv="results/{campaign}/tables/waterfall.csv",
        md="results/{campaign}/tables/waterfall.md",
        tex="results/{campaign}/tables/waterfall.tex",
        svg="results/{campaign}/charts/waterfall.svg",
        png="results/{campaign}/charts/waterfall.png",
    log:
        "results/{campaign}/logs/waterfall.log",
    localrule: True
    conda:
        "../../envs/report.yaml"
    params:
        code=code_sha256(
            "conclude/analysis/waterfall.py",
            "conclude/report/tables/waterfall.py",
            "conclude/report/charts/__init__.py",
            "conclude/report/read_results.py",
        ),
        file=lambda w: of_campaign(w).path,
        results=subpath(output.json, ancestor=2),
    message:
        "Where the scaling of {wildcards.campaign} is lost"
    shell:
        "scaleproof stage waterfall {params.file} --results {params.results} > {log} 2>&1"
