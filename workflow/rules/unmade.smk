"""Answers to targets that nothing makes, such as charts/speed_up.svg."""

CAMPAIGN_NAMES = [path.stem for path in Path("config/campaigns").glob("*.yaml")]
MADE = [os.path.relpath(path, FOUND) for rule in workflow.rules for path in rule.products()]
# What the command line names: targets, rules, values of options. Files below results/ have a rule of their own.
WORDS = {word.rpartition("=")[2] for word in sys.argv[1:] if not word.startswith(("results/", "./results/"))}


def real_rules():
    """The rules that make something, by their names, those that a user's Snakefile adds among them."""
    return {rule.name: rule for rule in workflow.rules if "no_such_file" not in rule.name}


def is_made(path):
    """Whether a rule makes a file; those that refuse targets do not."""
    return any(rule.is_producer(str(path)) for rule in real_rules().values())


def refuse_meant(target, path):
    """End with the nearest that a rule makes of a path below results/."""
    name = re.split("[/.]", path)[0]
    of_campaign = names_of_targets(campaign_called(name)) if name in CAMPAIGN_NAMES else {"campaign": []}
    corpora = or_exit(corpus_folders) if name == "corpora" else []
    or_exit(refuse_target, target, path, MADE, {"corpus": corpora, **of_campaign})


def refuse_elsewhere(wildcards):
    """End with what is meant by a target that lacks its results/, begins with /, or is no rule's name."""
    file = wildcards.file
    options = workflow.dag_settings
    rules_meant = {*options.forcerun, *options.until}
    if file in {*options.targets, *rules_meant} and not is_made(file):
        path = Path(file.replace("\\", os.sep))  # written as on Windows
        path = next(
            (path.relative_to(above) for above in (FOUND.absolute(), RESULTS) if path.is_relative_to(above)), path
        )
        if path.parts[:1] == ("config",) or not CAMPAIGN_NAMES:
            campaign_called(path.stem)
            path = Path(path.name)
        if "".join(path.parts[:1]).partition(".")[0] in CAMPAIGN_NAMES:
            refuse_meant(file, str(path) if path.parts[1:] else path.stem)
        if file in rules_meant:
            or_exit(known_name, "rule", file, real_rules())
        or_exit(refuse_cell, file, CAMPAIGN_NAMES)
        or_exit(known_name, "target", file, {f"{RESULTS}/{name}/report.html": name for name in CAMPAIGN_NAMES})
    return f"no rule makes {RESULTS / file}"


def say_rules_of_any_campaign():
    """Print the files of a target that is a rule with wildcards, which Snakemake refuses without asking for any."""
    for name in workflow.dag_settings.targets if workflow.dag_settings else ():
        named = real_rules().get(str(name))
        if named and named.has_wildcards():
            file = os.path.relpath(next(iter(named.output)))
            print(f"\nscaleproof: {rule_of_any_text(named.name, file, CAMPAIGN_NAMES)}", file=sys.stderr)


@lru_cache
def check_omitted():
    """End where an option names a rule that there is not, or nothing that is made, of which Snakemake says nothing."""
    resources = workflow.resource_settings
    for option, rules in (
        ("--set-threads", resources.overwrite_threads),
        ("--set-resources", resources.overwrite_resources),
    ):
        for name in rules:
            or_exit(check_name, f"{option}: ", name, real_rules(), "the workflow has no rule")
    for name in {*workflow.dag_settings.omit_from, *(workflow.dag_settings.allowed_rules or ())}:
        if not is_made(name):
            or_exit(known_name, "rule", name, real_rules())


def refuse_unmade(wildcards):
    """End with what is meant by a target that no rule makes. What is there, or what a user's own rule makes, passes.

    Snakemake drops a rule whose input is missing where another one makes the file, or the file is there.
    """
    path = FOUND / wildcards.file
    is_input = path.exists() and str(path) not in workflow.dag.targetfiles
    if not is_made(path) and not is_input:
        name = wildcards.file.removesuffix(".yaml").partition("/")[0]
        if name not in RESERVED and ("." not in name or Path(f"config/campaigns/{name}.yaml").is_file()):
            campaign_called(name)
        of_campaign_alone = wildcards.file.partition(".")[0]  # demo, of demo.html
        path = of_campaign_alone if of_campaign_alone in CAMPAIGN_NAMES else wildcards.file
        refuse_meant(RESULTS / wildcards.file, path)
    return f"no rule makes {path}"  # not below results/, where this would be asked again
