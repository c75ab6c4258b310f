"""All that knows Snakemake, or the queue of a cluster: targets, requests, previews, what is out of date."""
