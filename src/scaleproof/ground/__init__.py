"""What every house stands on: words, files, records, findings, facts. No torch, no pandas, no Snakemake."""

__all__ = [
    "campaign",
    "chart_words",
    "code_dependencies",
    "columns",
    "comparison",
    "confidence",
    "cores",
    "errors",
    "facts",
    "files",
    "findings",
    "html",
    "losses",
    "nsys_stats",
    "number_format",
    "progress",
    "records",
    "snakemake_command",
    "verdict",
    "words",
]
