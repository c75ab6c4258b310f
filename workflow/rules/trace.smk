"""Traces: a short run of its own for each traced cell, what it says, and what all of them say beside the timed runs."""


def trace_results(wildcards):
    """What the page shows of the campaign's traces; nothing if it has none."""
    if not of_campaign(wildcards).traced:
        return []
    names = ("traces.json", *(f"charts/{chart}.svg" for chart in TRACE_CHARTS))
    return [*trace_files(wildcards, "profile_summary.json"), *(RESULTS / wildcards.campaign / name for name in names)]


rule trace_capture:
    message:
        "Trace {wildcards.campaign} {wildcards.cell}"
    input:
        train=lambda w: ancient(tokens_of(w) / "train.bin"),
        tokens=lambda w: tokens_of(w) / "tokens.json",
        frontier=frontier_of_cell,
        code=sources(
            "measure/trace/capture/capture.py",
            "measure/trace/capture/rank_program.py",
            "measure/trace/capture/nsys_node.py",
            "measure/launch/torchrun.py",
        ),
    output:
        capture="results/{campaign}/traces/{cell}/capture.json",
        raw=directory("results/{campaign}/traces/{cell}/raw"),
    log:
        "results/{campaign}/traces/{cell}/capture.log",
    conda:
        "../../envs/trace.yaml"
    params:
        file=lambda w: of_campaign(w).path,
        fingerprint=lambda w: cell_of(w).planned_fingerprint,
        trace=lambda w: of_campaign(w).campaign.trace.model_dump_json(exclude={"cells"}),
        tokens=tokens_of,
    priority: -1 # after all timed runs
    threads: whole_machine
    resources:
        **resources_of(job_of_run),
    shell:
        "scaleproof stage trace_capture {params.file} {wildcards.cell} --fingerprints {params.fingerprint}"
        " --tokens {params.tokens} --out results/{wildcards.campaign}/traces/{wildcards.cell}"


rule trace_summary:
    message:
        "Summarise the trace of {wildcards.campaign} {wildcards.cell}"
    input:
        capture="results/{campaign}/traces/{cell}/capture.json",
        raw="results/{campaign}/traces/{cell}/raw",
        code=sources("measure/trace/summarise.py", "conclude/report/sentences/trace.py"),
    output:
        profile="results/{campaign}/traces/{cell}/profile_summary.json",
        timeline="results/{campaign}/traces/{cell}/timeline.csv",
    log:
        "results/{campaign}/traces/{cell}/summary.log",
    conda:
        "../../envs/report.yaml"
    shell:
        "scaleproof stage trace_summary results/{wildcards.campaign}/traces/{wildcards.cell} > {log} 2>&1"


rule trace_report:
    message:
        "Compare the traces of {wildcards.campaign} with its timed runs"
    input:
        profiles=lambda w: trace_files(w, "profile_summary.json"),
        runs=run_files("training_metrics.json"),
        code=sources("conclude/analysis/traces.py", "ground/files.py", "ground/records/unreadable.py"),
    output:
        "results/{campaign}/traces.json",
    log:
        "results/{campaign}/logs/traces.log",
    conda:
        "../../envs/report.yaml"
    params:
        file=lambda w: of_campaign(w).path,
    shell:
        "scaleproof stage trace_report {params.file} > {log} 2>&1"


rule trace_chart:
    message:
        "Draw {wildcards.chart} of {wildcards.campaign}"
    wildcard_constraints:
        chart="|".join(TRACE_CHARTS),
    input:
        traces="results/{campaign}/traces.json",
        timelines=lambda w: trace_files(w, "timeline.csv"),
        code=sources("conclude/report/charts/traces.py", "conclude/report/read_results.py"),
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
    shell:
        "scaleproof stage trace_chart {wildcards.chart} results/{wildcards.campaign} > {log} 2>&1"
