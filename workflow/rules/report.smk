"""Tables, charts, the page."""


def drawn_by(wildcards):
    """The code of a chart; a name that no chart has ends Snakemake with a message."""
    if wildcards.chart not in CATALOG:
        print(unknown_chart(wildcards.chart, CATALOG), file=sys.stderr)
        sys.exit(2)
    return sources("conclude/report/charts/__init__.py", "conclude/report/read_results.py")


def forecast_of(wildcards, *charts):
    """forecast.json of a campaign that has forecasts; of a chart only where forecasts stand in it."""
    if charts and wildcards.chart not in charts:
        return []
    return [RESULTS / wildcards.campaign / "forecast.json"] if of_campaign(wildcards).campaign.forecast.enabled else []


def machine_check(wildcards):
    """The doctor's report, where there is one: it is shown on the page, and no campaign needs it."""
    return [path for path in [RESULTS / "doctor.json"] if path.is_file()]


rule table:
    message:
        "Write the table {wildcards.table} of {wildcards.campaign}"
    wildcard_constraints:
        table="scaling|strong|weak",
    input:
        runs="results/{campaign}/runs.csv",
        cells="results/{campaign}/cells.csv",
        scaling="results/{campaign}/scaling_report.json",
        code=sources(
            "conclude/report/tables/cells.py",
            "conclude/report/tables/scaling.py",
            "conclude/report/read_results.py",
        ),
    output:
        csv="results/{campaign}/tables/{table}.csv",
        md=report(
            "results/{campaign}/tables/{table}.md",
            caption="../report/scaling.rst",
            category="{campaign}",
            labels={"what": "table {table}"},
        ),
        tex="results/{campaign}/tables/{table}.tex",
    log:
        "results/{campaign}/logs/table-{table}.log",
    conda:
        "../../envs/report.yaml"
    shell:
        "scaleproof stage table {wildcards.table} results/{wildcards.campaign} > {log} 2>&1"


rule chart:
    message:
        "Draw {wildcards.chart} of {wildcards.campaign}"
    wildcard_constraints:
        chart=r"(?!comparison\b|waterfall\b|forecast\b|trace-|loss_)[^/.]+",  # those are in other files, and below
    input:
        runs="results/{campaign}/runs.csv",
        cells="results/{campaign}/cells.csv",
        scaling="results/{campaign}/scaling_report.json",
        forecast=lambda w: forecast_of(w, "throughput", "speedup"),
        code=drawn_by,
    output:
        svg=report(
            "results/{campaign}/charts/{chart}.svg",
            caption="../report/chart.rst",
            category="{campaign}",
            labels={"what": "{chart}"},
        ),
        png="results/{campaign}/charts/{chart}.png",
    log:
        "results/{campaign}/logs/chart-{chart}.log",
    conda:
        "../../envs/report.yaml"
    params:
        forecast=lambda w, input: [f"--forecast {path}" for path in input.forecast],
    shell:
        "scaleproof stage chart {wildcards.chart} results/{wildcards.campaign} {params.forecast} > {log} 2>&1"


rule loss_chart:
    message:
        "Draw the losses of {wildcards.campaign} against {wildcards.against}"
    wildcard_constraints:
        against="step|seconds",
    input:
        losses="results/{campaign}/losses.csv",
        cells="results/{campaign}/cells.csv",
        code=sources("conclude/report/charts/__init__.py", "conclude/report/read_results.py"),
    output:
        svg=report(
            "results/{campaign}/charts/loss_{against}.svg",
            caption="../report/losses.rst",
            category="{campaign}",
            labels={"what": "loss against {against}"},
        ),
        png="results/{campaign}/charts/loss_{against}.png",
    log:
        "results/{campaign}/logs/chart-loss_{against}.log",
    conda:
        "../../envs/report.yaml"
    shell:
        "scaleproof stage loss_chart {wildcards.against} results/{wildcards.campaign} > {log} 2>&1"


rule report:
    message:
        "Write the report of {wildcards.campaign}: {output.page}"
    input:
        runs="results/{campaign}/runs.csv",
        cells="results/{campaign}/cells.csv",
        scaling="results/{campaign}/scaling_report.json",
        findings="results/{campaign}/findings.json",
        tables=lambda w: [f"results/{w.campaign}/tables/{table}.md" for table in tables_of(of_campaign(w))],
        charts=lambda w: [f"results/{w.campaign}/charts/{chart}.svg" for chart in charts_of(of_campaign(w))],
        comparisons=lambda w: comparison_files(w),
        traces=lambda w: trace_results(w),
        waterfall=lambda w: [
            f"results/{w.campaign}/{name}.json" for name in charts_of(of_campaign(w)) if name == "waterfall"
        ],
        forecast=lambda w: forecast_of(w),
        doctor=machine_check,
        code=sources(
            "conclude/report/page.py",
            "conclude/report/read_results.py",
            "conclude/report/templates/report.html.j2",
            "conclude/report/templates/run_rows.html.j2",
            "ground/templates/macros.html.j2",
            "ground/templates/head.html.j2",
            "ground/templates/base.css",
            "conclude/report/templates/report.css",
            "conclude/report/templates/report.js",
            "verify/manifest.py",
            "ground/records/unreadable.py",
        ),
    output:
        page=report(
            "results/{campaign}/report.html",
            caption="../report/page.rst",
            category="{campaign}",
            labels={"what": "report"},
        ),
        manifest="results/{campaign}/manifest.json",
    log:
        "results/{campaign}/logs/report.log",
    conda:
        "../../envs/report.yaml"
    params:
        file=lambda w: of_campaign(w).path,
        anonymous=ANONYMOUS,
    shell:
        "scaleproof stage report {params.file} {params.anonymous} 2> {log}" # the answer goes to the console


rule pdf:
    message:
        "Write the paper of {wildcards.campaign}: {output}"
    input:
        runs="results/{campaign}/runs.csv",
        cells="results/{campaign}/cells.csv",
        scaling="results/{campaign}/scaling_report.json",
        findings="results/{campaign}/findings.json",
        tables=lambda w: [f"results/{w.campaign}/tables/{table}.md" for table in tables_of(of_campaign(w))],
        charts=lambda w: [f"results/{w.campaign}/charts/{chart}.svg" for chart in charts_of(of_campaign(w))],
        comparisons=lambda w: comparison_files(w),
        traces=lambda w: trace_results(w),
        waterfall=lambda w: [
            f"results/{w.campaign}/{name}.json" for name in charts_of(of_campaign(w)) if name == "waterfall"
        ],
        forecast=lambda w: forecast_of(w),
        code=sources(
            "conclude/report/paper.py",
            "conclude/report/read_results.py",
            "conclude/report/templates/paper.typ",
            "ground/records/unreadable.py",
        ),
    output:
        report(
            "results/{campaign}/report.pdf",
            caption="../report/page.rst",
            category="{campaign}",
            labels={"what": "paper"},
        ),
    log:
        "results/{campaign}/logs/pdf.log",
    conda:
        "../../envs/report.yaml"
    params:
        file=lambda w: of_campaign(w).path,
        anonymous=ANONYMOUS,
    shell:
        "scaleproof stage pdf {params.file} {params.anonymous} > {log} 2>&1"
