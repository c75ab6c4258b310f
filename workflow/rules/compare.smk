"""A against B: all pairs of a comparison in one job, so that they share their devices; then what they say."""


def arms_of(wildcards):
    return or_exit(of_campaign(wildcards).comparison, wildcards.comparison)


def job_of_pairs(wildcards):
    """The request for all pairs of a comparison, one after the other."""
    comparison, a, b = arms_of(wildcards)
    runs = [a, b] * (comparison.pairs + comparison.null_pairs)
    return job_together(runs, of_campaign(wildcards).campaign.resources)


def comparison_files(wildcards):
    """What the page shows of the campaign's comparisons; nothing if it has none."""
    names = ("comparison.json", "charts/comparison.svg") if of_campaign(wildcards).comparisons else ()
    return [RESULTS / wildcards.campaign / name for name in names]


def pairs_files(wildcards):
    """The pairs of every comparison of the campaign."""
    folder = RESULTS / wildcards.campaign / "compare"
    return [folder / name / "pairs.json" for name in of_campaign(wildcards).comparisons]


rule pairs:
    message:
        "Compare in pairs: {wildcards.comparison} of {wildcards.campaign}"
    input:
        train=lambda w: ancient(tokens_dir(RESULTS, arms_of(w)[1]) / "train.bin"),
        val=lambda w: ancient(tokens_dir(RESULTS, arms_of(w)[1]) / "val.bin"),
        tokens=lambda w: tokens_dir(RESULTS, arms_of(w)[1]) / "tokens.json",
        code=sources(*MEASURING, "measure/launch/pairs.py"),
    output:
        "results/{campaign}/compare/{comparison}/pairs.json",
    log:
        "results/{campaign}/logs/pairs-{comparison}.log",
    conda:
        "../../envs/train.yaml"
    params:
        file=lambda w: of_campaign(w).path,
        fingerprints=lambda w: [cell.planned_fingerprint for cell in arms_of(w)[1:]],
        pairs=lambda w: [arms_of(w)[0].pairs, arms_of(w)[0].null_pairs],
        tokens=lambda w: tokens_dir(RESULTS, arms_of(w)[1]),
    priority: 0 # after all runs of cells
    threads: whole_machine
    resources:
        **resources_of(job_of_pairs),
    shell:
        "scaleproof stage pairs {params.file} {wildcards.comparison} --tokens {params.tokens}"
        " --fingerprints {params.fingerprints} --out results/{wildcards.campaign}/compare/{wildcards.comparison}"
        " > {log} 2>&1"


rule comparison:
    message:
        "Compare the pairs of {wildcards.campaign}"
    input:
        pairs=pairs_files,
        findings="results/{campaign}/findings.json",
        code=sources(
            "conclude/analysis/ab_comparison.py",
            "conclude/report/tables/comparison.py",
            "conclude/report/charts/__init__.py",
        ),
    output:
        json="results/{campaign}/comparison.json",
        csv="results/{campaign}/tables/comparison.csv",
        md="results/{campaign}/tables/comparison.md",
        tex="results/{campaign}/tables/comparison.tex",
        svg="results/{campaign}/charts/comparison.svg",
        png="results/{campaign}/charts/comparison.png",
    log:
        "results/{campaign}/logs/comparison.log",
    conda:
        "../../envs/report.yaml"
    params:
        file=lambda w: of_campaign(w).path,
    shell:
        "scaleproof stage comparison {params.file} > {log} 2>&1"
