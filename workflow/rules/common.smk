"""Input functions. A campaign is read when a target asks for it, so a broken one disturbs no other."""


def ask(question, *arguments):
    """`question(*arguments)`; a mistake in a campaign ends Snakemake with the message alone and exit code 2."""
    try:
        return question(*arguments)
    except UserError as error:
        print(f"\n{error}\n", file=sys.stderr)
        sys.exit(2)


def of_campaign(wildcards):
    return ask(load_named, wildcards.campaign)


def cell_of(wildcards):
    return ask(of_campaign(wildcards).cell, wildcards.cell)


def run_files(*names):
    """An input function: the files called `names` of every run of the campaign."""
    return lambda wildcards: [folder / name for folder in of_campaign(wildcards).runs(RESULTS) for name in names]
