"""Tables and charts, each set of them by one job; the page and the paper."""


rule tables:
    input:
        runs="results/{campaign}/runs.csv",
        cells="results/{campaign}/cells.csv",
        scaling="results/{campaign}/scaling_report.json",
    output:
        csv=expand("results/{{campaign}}/tables/{table}.csv", table=TABLES),
        md=[in_report(f"results/{{campaign}}/tables/{table}.md", "scaling", f"table {table}") for table in TABLES],
        tex=expand("results/{{campaign}}/tables/{table}.tex", table=TABLES),
    log:
        "results/{campaign}/logs/tables.log",
    localrule: True
    conda:
        "../../envs/report.yaml"
    params:
        code=code_sha256(
            "conclude/report/tables/cells.py",
            "conclude/report/tables/scaling.py",
            "conclude/report/read_results.py",
        ),
        folder=subpath(input.scaling, parent=True),
    message:
        "Write the tables of {wildcards.campaign}"
    shell:
        "scaleproof stage tables {params.folder} > {log} 2>&1"


rule charts:
    input:
        runs="results/{campaign}/runs.csv",
        cells="results/{campaign}/cells.csv",
        scaling="results/{campaign}/scaling_report.json",
        forecast=forecast_of,
    output:
        *drawn(charts_drawn_by("charts")),
    log:
        "results/{campaign}/logs/charts.log",
    localrule: True
    conda:
        "../../envs/report.yaml"
    params:
        code=code_sha256("conclude/report/charts/__init__.py", "conclude/report/read_results.py"),
        folder=subpath(input.scaling, parent=True),
        forecast=lambda w, input: [f"--forecast {path}" for path in input.forecast],
    message:
        "Draw the charts of {wildcards.campaign}"
    shell:
        "scaleproof stage charts {params.folder} {params.forecast} > {log} 2>&1"


rule loss_charts:
    input:
        losses="results/{campaign}/losses.csv",
        cells="results/{campaign}/cells.csv",
    output:
        *drawn(charts_drawn_by("loss_charts"), caption="losses"),
    log:
        "results/{campaign}/logs/loss_charts.log",
    localrule: True
    conda:
        "../../envs/report.yaml"
    params:
        code=code_sha256("conclude/report/charts/__init__.py", "conclude/report/read_results.py"),
        folder=subpath(input.losses, parent=True),
    message:
        "Draw the losses of {wildcards.campaign}"
    shell:
        "scaleproof stage loss_charts {params.folder} > {log} 2>&1"


# What its stage prints, the answer, goes to the console.
rule report:
    input:
        runs="results/{campaign}/runs.csv",
        cells="results/{campaign}/cells.csv",
        scaling="results/{campaign}/scaling_report.json",
        findings="results/{campaign}/findings.json",
        shown=shown,
        doctor=machine_check,
    output:
        page=in_report("results/{campaign}/report.html", "page", "report"),
        manifest="results/{campaign}/manifest.json",
    log:
        "results/{campaign}/logs/report.log",
    localrule: True
    conda:
        "../../envs/report.yaml"
    params:
        code=code_sha256(
            "conclude/report/campaign_page.py",
            "conclude/report/read_results.py",
            "conclude/report/templates/rehearsal.html.j2",
            "conclude/report/templates/report.html.j2",
            "conclude/report/templates/run_rows.html.j2",
            "ground/templates/macros.html.j2",
            "ground/templates/head.html.j2",
            "ground/templates/base.css",
            "ground/templates/tables.js",
            "conclude/report/templates/report.css",
            "conclude/report/templates/report.js",
            "verify/manifest.py",
            "ground/records/lost_results.py",
            "ground/records/unreadable.py",
        ),
        file=lambda w: of_campaign(w).path,
        title=lambda w: of_campaign(w).campaign.title,
        results=subpath(output.page, ancestor=2),
        anonymous=ANONYMOUS,
    message:
        "Write the report of {wildcards.campaign}: {output.page}"
    shell:
        "scaleproof stage report {params.file} --results {params.results} {params.anonymous} 2> {log}"


rule pdf:
    input:
        runs="results/{campaign}/runs.csv",
        cells="results/{campaign}/cells.csv",
        scaling="results/{campaign}/scaling_report.json",
        findings="results/{campaign}/findings.json",
        shown=shown,
    output:
        in_report("results/{campaign}/report.pdf", "page", "paper"),
    log:
        "results/{campaign}/logs/pdf.log",
    localrule: True
    conda:
        "../../envs/report.yaml"
    params:
        code=code_sha256(
            "conclude/report/paper.py",
            "conclude/report/read_results.py",
            "conclude/report/templates/paper.typ",
            "ground/records/unreadable.py",
        ),
        file=lambda w: of_campaign(w).path,
        title=lambda w: of_campaign(w).campaign.title,
        results=subpath(output[0], ancestor=2),
        anonymous=ANONYMOUS,
    message:
        "Write the paper of {wildcards.campaign}: {output}"
    shell:
        "scaleproof stage pdf {params.file} --results {params.results} {params.anonymous} > {log} 2>&1"
