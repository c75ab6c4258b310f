"""From runs to conclusions: one row per run, what is wrong with them, one row per cell, scaling.

With `repeats.resolve` looks at the runs so far decide how many repeats there are.
"""


rule collect:
    message:
        "Gather the runs of {wildcards.campaign}"
    input:
        metrics=run_files("training_metrics.json"),
        code=sources("conclude/analysis/run_tables.py", "ground/records/unreadable.py"),
    output:
        "results/{campaign}/runs.csv",
    log:
        "results/{campaign}/logs/collect.log",
    conda:
        "../../envs/report.yaml"
    params:
        file=lambda w: of_campaign(w).path,
    shell:
        "scaleproof stage collect {params.file} > {log} 2>&1"


rule findings:
    message:
        "Check runs, curves, traces and pairs of {wildcards.campaign}"
    input:
        runs=run_files("training_metrics.json", "steps.csv"),
        profiles=lambda w: trace_files(w, "profile_summary.json"),
        pairs=lambda w: pairs_files(w),
        references=reference_files,
        forecast=lambda w: forecast_of(w),
        code=sources("conclude/analysis/campaign_findings.py", "conclude/report/read_results.py", "ground/files.py"),
    output:
        "results/{campaign}/findings.json",
    log:
        "results/{campaign}/logs/findings.log",
    conda:
        "../../envs/report.yaml"
    params:
        file=lambda w: of_campaign(w).path,
    shell:
        "scaleproof stage findings {params.file} > {log} 2>&1"


checkpoint look:
    message:
        "Look at {wildcards.repeats} repeats of {wildcards.campaign}: is its comparison decided?"
    input:
        metrics=first_runs,
        code=sources("conclude/analysis/scaling.py", "ground/records/unreadable.py", "ground/files.py"),
    output:
        "results/{campaign}/looks/{repeats}.json",
    log:
        "results/{campaign}/logs/look-{repeats}.log",
    conda:
        "../../envs/report.yaml"
    params:
        file=lambda w: of_campaign(w).path,
        until=lambda w: str(of_campaign(w).campaign.repeat_until),
        question=lambda w: of_campaign(w).question,
    shell:
        "scaleproof stage look {params.file} --repeats {wildcards.repeats} --out {output} > {log} 2>&1"


rule analyse:
    message:
        "Compare the cells of {wildcards.campaign}"
    input:
        runs="results/{campaign}/runs.csv",  # with the checksum of every run
        findings="results/{campaign}/findings.json",
        code=sources(
            "conclude/analysis/run_tables.py",
            "conclude/analysis/scaling.py",
            "ground/records/series.py",
            "ground/records/unreadable.py",
        ),
    output:
        cells="results/{campaign}/cells.csv",
        losses="results/{campaign}/losses.csv",
        scaling="results/{campaign}/scaling_report.json",
    log:
        "results/{campaign}/logs/analyse.log",
    conda:
        "../../envs/report.yaml"
    params:
        file=lambda w: of_campaign(w).path,
        title=lambda w: of_campaign(w).campaign.title,
        target=lambda w: of_campaign(w).campaign.target_loss,
        margin=lambda w: of_campaign(w).campaign.margin,
        question=lambda w: of_campaign(w).question,
        until=lambda w: str(of_campaign(w).campaign.repeat_until),
    shell:
        "scaleproof stage analyse {params.file} > {log} 2>&1"


rule waterfall:
    message:
        "Where the scaling of {wildcards.campaign} is lost"
    input:
        cells="results/{campaign}/cells.csv",
        scaling="results/{campaign}/scaling_report.json",
        profiles=lambda w: trace_files(w, "profile_summary.json"),
        code=sources(
            "conclude/analysis/waterfall.py",
            "conclude/report/tables/waterfall.py",
            "conclude/report/charts/__init__.py",
            "conclude/report/read_results.py",
        ),
    output:
        json="results/{campaign}/waterfall.json",
        csv="results/{campaign}/tables/waterfall.csv",
        md="results/{campaign}/tables/waterfall.md",
        tex="results/{campaign}/tables/waterfall.tex",
        svg="results/{campaign}/charts/waterfall.svg",
        png="results/{campaign}/charts/waterfall.png",
    log:
        "results/{campaign}/logs/waterfall.log",
    conda:
        "../../envs/report.yaml"
    params:
        file=lambda w: of_campaign(w).path,
    shell:
        "scaleproof stage waterfall {params.file} > {log} 2>&1"
