"""Case studies: files of five published benchmarks reconstructed from their figures, audited, on one page."""

CASE_STUDIES = ("h100", "agnews", "l4", "v100", "nodes")


rule write_case_studies:
    localrule: True
    message:
        "Write the files of the published benchmark {wildcards.study}"
    wildcard_constraints:
        study="|".join(CASE_STUDIES),
    input:
        figures="config/case_studies/{study}.yaml",
        code=sources("auditor/read/case_studies.py"),
    output:
        directory("results/case-studies/files/{study}"),
    log:
        "results/case-studies/logs/write-{study}.log",
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=500,
        runtime=5,
    shell:
        "scaleproof stage write_case_studies {input.figures} {output} > {log} 2>&1"


rule audit_case_studies:
    localrule: True
    message:
        "Audit five published benchmarks: {output.html}"
    input:
        files=expand("results/case-studies/files/{study}", study=CASE_STUDIES),
        figures=expand("config/case_studies/{study}.yaml", study=CASE_STUDIES),
        code=sources(
            "auditor/case_studies.py",
            "ground/files.py",
            "auditor/templates/case_studies.html.j2",
            "auditor/templates/audit_finding.html.j2",
            "ground/templates/head.html.j2",
            "ground/templates/base.css",
        ),
    output:
        html=report(
            "results/case-studies/case-studies.html",
            caption="../report/case_studies.rst",
            category="case studies",
            labels={"what": "audit"},
        ),
        md="results/case-studies/case-studies.md",
    log:
        "results/case-studies/logs/audit.log",
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=500,
        runtime=5,
    shell:
        "scaleproof stage audit_case_studies results/case-studies {input.figures} > {log} 2>&1"
