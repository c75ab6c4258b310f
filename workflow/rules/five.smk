"""Five published benchmarks: their files made from their figures, audited, and told on one page."""

FIVE = ("h100", "agnews", "l4", "v100", "nodes")


rule rebuild:
    localrule: True
    message:
        "Write the files of the published benchmark {wildcards.benchmark}"
    wildcard_constraints:
        benchmark="|".join(FIVE),
    input:
        figures="config/five/{benchmark}.yaml",
        code=sources("importers/case_studies.py"),
    output:
        directory("results/five-benchmarks/files/{benchmark}"),
    log:
        "results/five-benchmarks/logs/rebuild-{benchmark}.log",
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=500,
        runtime=5,
    shell:
        "scalebench stage rebuild {input.figures} {output} > {log} 2>&1"


rule five:
    localrule: True
    message:
        "Audit five published benchmarks: {output.html}"
    input:
        files=expand("results/five-benchmarks/files/{benchmark}", benchmark=FIVE),
        figures=expand("config/five/{benchmark}.yaml", benchmark=FIVE),
        code=sources(
            "report/case_studies.py",
            "files.py",
            "report/templates/five.html.j2",
            "report/templates/audit_finding.html.j2",
            "report/templates/audit.css",
        ),
    output:
        html=report(
            "results/five-benchmarks/five-benchmarks.html",
            caption="../report/five.rst",
            category="five benchmarks",
            labels={"what": "audit"},
        ),
        md="results/five-benchmarks/five-benchmarks.md",
    log:
        "results/five-benchmarks/logs/five.log",
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=500,
        runtime=5,
    shell:
        "scalebench stage five results/five-benchmarks {input.figures} > {log} 2>&1"
