"""Forecasts: what links carry, what is expected of cells before they run, and how that turned out."""


rule sweep:
    input:
        swept_group,
    output:
        "results/{campaign}/sweep/{group}/sweep.json",
    log:
        "results/{campaign}/sweep/{group}/stage.log",
    conda:
        "../../envs/train.yaml"
    threads: WHOLE_MACHINE
    resources:
        **resources_of(job_of_group),
    params:
        code=code_sha256(
            "conclude/forecast/sweep.py",
            "conclude/forecast/sweep_program.py",
            "conclude/forecast/text.py",
            "measure/launch/torchrun.py",
        ),
        file=lambda w: of_campaign(w).path,
        launches=lambda w: of_campaign(w).campaign.forecast.launches,
        results=subpath(output[0], ancestor=4),
        out=subpath(output[0], parent=True),
    message:
        "Sweep collectives of {wildcards.campaign} in {wildcards.group}"
    shell:
        "scaleproof stage sweep {params.file} {wildcards.group}"
        " --results {params.results} --out {params.out} > {log} 2>&1"


rule forecast:
    input:
        runs=calibrating_runs,
        sweeps=swept_groups,
    output:
        "results/{campaign}/forecast_before.json",
    log:
        "results/{campaign}/logs/forecast.log",
    localrule: True
    conda:
        "../../envs/train.yaml"
    params:
        code=code_sha256(
            "conclude/checks/all_checks.py",
            "conclude/forecast/campaign_forecast.py",
            "conclude/forecast/ledger.py",
            "conclude/forecast/sweep_file.py",
            "ground/files.py",
        ),
        file=lambda w: of_campaign(w).path,
        results=subpath(output[0], ancestor=2),
    message:
        "Forecast the held-out cells of {wildcards.campaign}, before they run"
    shell:
        "scaleproof stage forecast {params.file} --results {params.results} --out {output} > {log} 2>&1"


rule forecast_report:
    input:
        before=forecast_to_report,
        runs=run_files("training_metrics.json", "steps.csv"),
        sweeps=swept_groups,
    output:
        json="results/{campaign}/forecast.json",
        csv="results/{campaign}/tables/forecast.csv",
        md="results/{campaign}/tables/forecast.md",
        tex="results/{campaign}/tables/forecast.tex",
        svg="results/{campaign}/charts/forecast.svg",
        png="results/{campaign}/charts/forecast.png",
    log:
        "results/{campaign}/logs/forecast_report.log",
    localrule: True
    conda:
        "../../envs/train.yaml"
    params:
        code=code_sha256(
            "conclude/checks/all_checks.py",
            "conclude/forecast/report_data.py",
            "conclude/forecast/ledger.py",
            "conclude/forecast/sweep_file.py",
            "conclude/report/charts/forecast.py",
            "conclude/report/charts/node_pairs.py",
            "conclude/report/tables/forecast.py",
            "ground/files.py",
        ),
        file=lambda w: of_campaign(w).path,
        results=subpath(output.json, ancestor=2),
    message:
        "Score the forecasts of {wildcards.campaign}"
    shell:
        "scaleproof stage forecast_report {params.file} --results {params.results} > {log} 2>&1"
