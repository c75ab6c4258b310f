"""Answers to targets that nothing makes, such as charts/speed_up.svg."""

CAMPAIGN_NAMES = [path.stem for path in Path("config/campaigns").glob("*.yaml")]
MADE = [os.path.relpath(path, FOUND) for rule in workflow.rules for path in rule.products()]
ELSEWHERE = f"config/campaigns/[^/]+[.]yaml|{re.escape(os.path.abspath(FOUND))}/.+"


def is_made(path):
    """Whether a rule makes a file; those that refuse targets do not."""
    return any("no_such_file" not in rule.name and rule.is_producer(str(path)) for rule in workflow.rules)


def refuse_elsewhere(wildcards):
    """End with what is meant by a target that lacks its results/, begins with /, or is the file of a campaign."""
    if wildcards.file in workflow.dag.targetfiles and not is_made(wildcards.file):
        if wildcards.file.startswith("config/"):
            campaign_called(Path(wildcards.file).stem)
        path = wildcards.file.removeprefix("config/campaigns/").removeprefix(f"{os.path.abspath(FOUND)}/")
        or_exit(refuse_target, wildcards.file, path, MADE)
    return f"no rule makes {RESULTS / wildcards.file}"


def refuse_unmade(wildcards):
    """End with what is meant by a target that no rule makes. What is there, or what a user's own rule makes, passes.

    Snakemake drops a rule whose input is missing where another one makes the file, or the file is there.
    """
    path = FOUND / wildcards.file
    is_input = path.exists() and str(path) not in workflow.dag.targetfiles
    if not is_made(path) and not is_input:
        name = wildcards.file.removesuffix(".yaml").partition("/")[0]
        if name not in RESERVED and "." not in name:
            campaign_called(name)
        of_campaign_alone = wildcards.file.partition(".")[0]  # demo, of demo.html
        path = of_campaign_alone if of_campaign_alone in CAMPAIGN_NAMES else wildcards.file
        or_exit(refuse_target, RESULTS / wildcards.file, path, MADE)
    return f"no rule makes {path}"  # not below results/, where this would be asked again
