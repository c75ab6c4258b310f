"""Traces: a short run of its own for each traced cell, what it says, and what all of them say beside the timed runs."""

TRACE_CHARTS = ("trace-timeline", "trace-communication", "trace-steps", "trace-kernels")


def trace_files(wildcards, *names):
    """The files called `names` of every traced cell."""
    return [RESULTS / wildcards.campaign / "traces" / cell.slug / name for cell in of_campaign(wildcards).traced for name in names]


def told_of_traces(wildcards):
    """What the page shows of the campaign's traces; nothing where it has none."""
    if not of_campaign(wildcards).traced:
        return []
    names = ("traces.json", *(f"charts/{chart}.svg" for chart in TRACE_CHARTS))
    return [*trace_files(wildcards, "profile_summary.json"), *(RESULTS / wildcards.campaign / name for name in names)]


rule trace:
    message:
        "Trace {wildcards.campaign} {wildcards.cell}"
    input:
        train=lambda w: ancient(tokens_of(w) / "train.bin"),
        tokens=lambda w: tokens_of(w) / "tokens.json",
        code=sources("trace/capture/capture.py", "trace/capture/rank_program.py", "trace/capture/nsys_node.py", "launch/torchrun.py"),
    output:
        capture="results/{campaign}/traces/{cell}/capture.json",
        raw=directory("results/{campaign}/traces/{cell}/raw"),
    log:
        "results/{campaign}/traces/{cell}/capture.log",
    conda:
        "../../envs/trace.yaml"
    params:
        file=lambda w: of_campaign(w).path,
        fingerprint=lambda w: cell_of(w).fingerprint,
        asked=lambda w: of_campaign(w).campaign.trace.model_dump_json(exclude={"cells"}),
        tokens=tokens_of,
    priority: -1 # after all timed runs
    threads: lambda w: workflow.resource_settings.cores or 1
    resources:
        nodes=asked("nodes"),
        tasks=asked("nodes"),
        mpi=asked("mpi"),
        tasks_per_gpu=0,
        gres=asked("gres"),
        cpus_per_task=asked("cpus_per_task"),
        mem_mb=asked("mem_mb"),
        runtime=asked("runtime"),
        slurm_extra=asked("options"),
    shell:
        "scalebench trace capture {params.file} {wildcards.cell} --fingerprint {params.fingerprint}"
        " --tokens {params.tokens} --out results/{wildcards.campaign}/traces/{wildcards.cell}"


rule profile:
    localrule: True
    message:
        "Say where the time of {wildcards.campaign} {wildcards.cell} goes"
    input:
        capture="results/{campaign}/traces/{cell}/capture.json",
        raw="results/{campaign}/traces/{cell}/raw",
        code=sources("trace/summarise.py", "report/sentences/trace.py"),
    output:
        profile="results/{campaign}/traces/{cell}/profile_summary.json",
        timeline="results/{campaign}/traces/{cell}/timeline.csv",
    log:
        "results/{campaign}/traces/{cell}/summary.log",
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    shell:
        "scalebench trace summary results/{wildcards.campaign}/traces/{wildcards.cell} > {log} 2>&1"


rule traces:
    localrule: True
    message:
        "Hold the traces of {wildcards.campaign} against its timed runs"
    input:
        profiles=lambda w: trace_files(w, "profile_summary.json"),
        runs=run_files("training_metrics.json"),
        code=sources("analysis/traces.py", "files.py"),
    output:
        "results/{campaign}/traces.json",
    log:
        "results/{campaign}/logs/traces.log",
    conda:
        "../../envs/report.yaml"
    params:
        file=lambda w: of_campaign(w).path,
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    shell:
        "scalebench trace report {params.file} > {log} 2>&1"


rule trace_chart:
    localrule: True
    message:
        "Draw {wildcards.chart} of {wildcards.campaign}"
    wildcard_constraints:
        chart="|".join(TRACE_CHARTS),
    input:
        traces="results/{campaign}/traces.json",
        timelines=lambda w: trace_files(w, "timeline.csv"),
        code=sources("report/charts/traces.py", "report/read_results.py"),
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
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    shell:
        "scalebench trace chart {wildcards.chart} results/{wildcards.campaign} > {log} 2>&1"
