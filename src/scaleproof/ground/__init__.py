"""What every house stands on: words, files, records, findings, facts. No torch, no pandas, no Snakemake."""
