"""Traces: a short run of its own for each traced cell, what it says, and what all of them say beside the timed runs."""


rule trace_capture:
    input:
        tokens=lambda w: token_files(traced_cell_of(w)),
        frontier=frontier_of_cell,
    output:
        capture="results/{campaign}/traces/{cell}/capture.json",
        raw=directory("results/{campaign}/traces/{cell}/raw"),
    log:
        "results/{campaign}/traces/{cell}/capture.log",
    benchmark:
        "results/{campaign}/traces/{cell}/benchmark.tsv"
    priority: -1  # after all timed runs
    conda:
        "../../envs/trace.yaml"
    threads: WHOLE_MACHINE
    resources:
        **resources_of(job_of_run),
    params:
        code=code_sha256(
            "measure/trace/capture/capture.py",
            "measure/trace/capture/rank_program.py",
            "measure/trace/capture/nsys_node.py",
            "measure/launch/torchrun.py",
        ),
        file=lambda w: of_campaign(w).path,
        fingerprint=lambda w: cell_of(w).planned_fingerprint,
        trace=lambda w: of_campaign(w).campaign.trace.model_dump_json(exclude={"cells"}),
        tokens=folder_of_tokens,
        out=subpath(output.capture, parent=True),
        results=subpath(output.capture, ancestor=4),
    message:
        "Trace {wildcards.campaign} {wildcards.cell}"
    shell:
        "scaleproof stage trace_capture {params.file} {wildcards.cell} --fingerprints {params.fingerprint}"
        " --tokens {params.tokens} --results {params.results} --out {params.out}"


rule trace_summary:
    input:
        capture="results/{campaign}/traces/{cell}/capture.json",
        raw="results/{campaign}/traces/{cell}/raw",
    output:
        profile="results/{campaign}/traces/{cell}/profile_summary.json",
        timeline="results/{campaign}/traces/{cell}/timeline.csv",
    log:
        "results/{campaign}/traces/{cell}/summary.log",
    localrule: True
    conda:
        "../../envs/report.yaml"
    params:
        code=code_sha256("measure/trace/summarise.py", "conclude/report/sentences/trace.py"),
        folder=subpath(input.capture, parent=True),
    message:
        "Summarise the trace of {wildcards.campaign} {wildcards.cell}"
    shell:
        "scaleproof stage trace_summary {params.folder} > {log} 2>&1"


rule trace_report:
    input:
        profiles=asked_profiles,
        runs=run_files("training_metrics.json"),
    output:
        "results/{campaign}/traces.json",
    log:
        "results/{campaign}/logs/traces.log",
    localrule: True
    conda:
        "../../envs/report.yaml"
    params:
        code=code_sha256("conclude/analysis/traces.py", "ground/files.py", "ground/records/unreadable.py"),
        file=lambda w: of_campaign(w).path,
        results=subpath(output[0], ancestor=2),
    message:
        "Compare the traces of {wildcards.campaign} with its timed runs"
    shell:
        "scaleproof stage trace_report {params.file} --results {params.results} > {log} 2>&1"


rule trace_charts:
    input:
        traces="results/{campaign}/traces.json",
        timelines=lambda w: trace_files(w, "timeline.csv"),
    output:
        *drawn(TRACE_CHARTS),
    log:
        "results/{campaign}/logs/trace_charts.log",
    localrule: True
    conda:
        "../../envs/report.yaml"
    params:
        code=code_sha256("conclude/report/charts/traces.py", "conclude/report/read_results.py"),
        folder=subpath(input.traces, parent=True),
    message:
        "Draw the traces of {wildcards.campaign}"
    shell:
        "scaleproof stage trace_charts {params.folder} > {log} 2>&1"
