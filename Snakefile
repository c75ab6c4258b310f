"""`snakemake` in this folder: the workflow, and the report of the demo where no target is named."""


include: "workflow/Snakefile"


# The default: an included file cannot say which.
rule demo:
    input:
        rules.all.input,
    localrule: True
    message:
        "The report of the demo: {input}"
