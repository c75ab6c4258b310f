"""Forecasts: what links carry, what is expected of cells before they run, and how that turned out."""


def swept_groups(wildcards):
    """The sweeps of a campaign that has forecasts: one for each group in which its cells communicate."""
    loaded = of_campaign(wildcards)
    if not (loaded.campaign.forecast.enabled and loaded.campaign.forecast.launches):
        return []
    return [RESULTS / wildcards.campaign / "sweep" / group / "sweep.json" for group in loaded.communicating_groups]


def calibrating_runs(wildcards):
    """The runs that the forecast is made from: all but those that are held out."""
    loaded = of_campaign(wildcards)
    names = ("training_metrics.json", "steps.csv")
    return [
        folder / name
        for folder, cell, _ in loaded.planned(RESULTS)
        if not loaded.held_out(cell)
        for name in names
    ]


def before_held_out(campaign):
    """The forecast that held-out runs wait for; nothing where none are held out. Another one re-runs nothing."""
    if not or_exit(load_named, campaign).campaign.forecast.hold_out:
        return []
    return ancient(RESULTS / campaign / "forecast_before.json")


def job_of_group(wildcards):
    loaded = of_campaign(wildcards)
    return job(or_exit(loaded.cell, loaded.communicating_groups[wildcards.group]), loaded.campaign.resources)


rule sweep:
    message:
        "Sweep collectives of {wildcards.campaign} in {wildcards.group}"
    input:
        code=sources(
            "conclude/forecast/sweep.py",
            "conclude/forecast/sweep_program.py",
            "conclude/forecast/text.py",
            "measure/launch/torchrun.py",
        ),
    output:
        "results/{campaign}/sweep/{group}/sweep.json",
    log:
        "results/{campaign}/sweep/{group}/stage.log",
    conda:
        "../../envs/train.yaml"
    params:
        file=lambda w: of_campaign(w).path,
        launches=lambda w: of_campaign(w).campaign.forecast.launches,
    threads: whole_machine
    resources:
        **resources_of(job_of_group),
    shell:
        "scaleproof stage sweep {params.file} {wildcards.group}"
        " --out results/{wildcards.campaign}/sweep/{wildcards.group} > {log} 2>&1"


rule forecast:
    message:
        "Forecast the held-out cells of {wildcards.campaign}, before they run"
    input:
        runs=calibrating_runs,
        sweeps=swept_groups,
        code=sources(
            "conclude/checks/all_checks.py",
            "conclude/forecast/campaign_forecast.py",
            "conclude/forecast/ledger.py",
            "conclude/forecast/sweep_file.py",
            "ground/files.py",
        ),
    output:
        "results/{campaign}/forecast_before.json",
    log:
        "results/{campaign}/logs/forecast.log",
    conda:
        "../../envs/report.yaml"
    params:
        file=lambda w: of_campaign(w).path,
    shell:
        "scaleproof stage forecast {params.file} --out {output} > {log} 2>&1"


rule forecast_report:
    message:
        "Score the forecasts of {wildcards.campaign}"
    input:
        before=lambda w: before_held_out(w.campaign),
        runs=run_files("training_metrics.json", "steps.csv"),
        sweeps=swept_groups,
        code=sources(
            "conclude/checks/all_checks.py",
            "conclude/forecast/report_data.py",
            "conclude/forecast/ledger.py",
            "conclude/forecast/sweep_file.py",
            "conclude/report/charts/forecast.py",
            "conclude/report/charts/node_pairs.py",
            "conclude/report/tables/forecast.py",
            "ground/files.py",
        ),
    output:
        json="results/{campaign}/forecast.json",
        csv="results/{campaign}/tables/forecast.csv",
        md="results/{campaign}/tables/forecast.md",
        tex="results/{campaign}/tables/forecast.tex",
        svg="results/{campaign}/charts/forecast.svg",
        png="results/{campaign}/charts/forecast.png",
    log:
        "results/{campaign}/logs/forecast_report.log",
    conda:
        "../../envs/report.yaml"
    params:
        file=lambda w: of_campaign(w).path,
    shell:
        "scaleproof stage forecast_report {params.file} > {log} 2>&1"
