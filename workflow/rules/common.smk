"""Input functions and requests that several rules share.

A campaign is read when a target asks for it, so a broken one disturbs no other.
"""

TRACE_CHARTS = ("trace-timeline", "trace-communication", "trace-steps", "trace-kernels")


def inspected_once(function):
    """`function` with its signature noted, which Snakemake would inspect several times for each of a thousand runs."""
    overwrite_function_params(function, inspect.signature(function).parameters)
    return function


def or_exit(function, *arguments):
    """`function(*arguments)`; wrong input ends Snakemake with the message alone and exit code 2."""
    try:
        return function(*arguments)
    except UserError as error:
        print(f"\n{printable(str(error), besides=chr(10))}\n", file=sys.stderr)
        sys.exit(2)


def of_campaign(wildcards):
    return or_exit(load_named, wildcards.campaign)


def cell_of(wildcards):
    return or_exit(of_campaign(wildcards).cell, wildcards.cell)


@inspected_once
def tokens_of(wildcards):
    """The folder of the cell's token files."""
    return _tokens_of(wildcards.campaign, wildcards.cell)


@cache
def _tokens_of(campaign, cell):
    return tokens_dir(RESULTS, or_exit(or_exit(load_named, campaign).cell, cell))


def enough_repeats(wildcards):
    """Repeats of each cell. With `repeats.resolve` every look must be there first: it says whether they go on."""
    until = of_campaign(wildcards).campaign.repeat_until
    if until is None:
        return of_campaign(wildcards).campaign.most_repeats
    for repeats in until.looks()[:-1]:
        taken = checkpoints.look.get(campaign=wildcards.campaign, repeats=str(repeats)).output[0]
        if not or_exit(goes_on, Path(taken)):
            return repeats
    return until.at_most


def frontier_of_cell(wildcards):
    """The trials that find the micro-batch of a cell; nothing where the campaign gives it."""
    return [frontier_file(RESULTS, wildcards.campaign, wildcards.cell)] if cell_of(wildcards).searched else []


def files_of_runs(loaded, repeats, names):
    """What stands for the first `repeats` of all cells: files of each run, or the records of jobs of several runs."""
    if loaded.shared_jobs:
        return [str(record) for record in loaded.records(RESULTS, repeats)]
    return [f"{folder}/{name}" for folder in loaded.runs(RESULTS, repeats) for name in names]


def run_files(*names):
    """An input function: the files called `names` of every run of the campaign."""

    def files(wildcards):
        return files_of_runs(of_campaign(wildcards), enough_repeats(wildcards), names)

    return files


def first_runs(wildcards):
    """The runs that a look is taken at."""
    return files_of_runs(of_campaign(wildcards), int(wildcards.repeats), ["training_metrics.json"])


@inspected_once
def inputs_of_run(wildcards):
    """The tokens of a run's cell, and what it waits for. One function: a thousand runs are asked for it."""
    tokens = tokens_of(wildcards)
    cell = cell_of(wildcards)
    forecast = before_held_out(wildcards.campaign) if of_campaign(wildcards).held_out(cell) else []
    large = [ancient(f"{tokens}/{name}") for name in ("train.bin", "val.bin")]
    return [*large, f"{tokens}/tokens.json", *frontier_of_cell(wildcards), *([forecast] if forecast else [])]


def trace_files(wildcards, *names):
    """The files called `names` of every traced cell."""
    folder = RESULTS / wildcards.campaign / "traces"
    return [folder / cell.slug / name for cell in of_campaign(wildcards).traced for name in names]


@lru_cache
def command_line():
    """Snakemake's options and targets, those of profiles among them."""
    with contextlib.redirect_stderr(io.StringIO()):  # it says once more which profiles it uses
        return parse_args(sys.argv[1:])[1]


if workflow.is_main_process:
    # For whoever names the command that goes on, in this process or in its stages.
    STARTED = started_as(command_line().profile or (), command_line().executor, command_line().jobs)
    os.environ[STARTED_AS] = STARTED or ""

# How the cluster of this profile wants to be asked; `config` of a profile says it.
SITE = or_exit(Site.of, config)
# `--config anonymous=true`: pages and papers without names of hosts.
ANONYMOUS = "--anonymous" if config.get("anonymous") else ""


def refuse_short_jobs():
    """End before anything is sent where set-resources gives jobs less time than their runs may take."""
    replaced = workflow.resource_settings.overwrite_resources.items() if command_line().executor else ()
    rules = {rule for rule, resources in replaced if "runtime" in resources}
    for job in workflow.dag.needrun_jobs() if rules else ():
        if job.rule.name in rules and "campaign" in job.wildcards.keys():
            limits = of_campaign(job.wildcards).campaign.resources
            reason = too_short(job.rule.name, job.resources.get("runtime"), limits)
            if reason:
                raise UserError(f"nothing was submitted: {of_campaign(job.wildcards).path}: {reason}")


def note_profile():
    """Write down how jobs are sent, in the campaigns that they are for: for later, when this Snakemake is gone."""
    sent = [job.wildcards for job in workflow.dag.needrun_jobs() if not job.is_local] if STARTED else []
    for name in {wildcards.campaign for wildcards in sent if "campaign" in wildcards.keys()}:
        with contextlib.suppress(OSError):  # advice, which must not stop a campaign
            write_json(RESULTS / name / NOTE, {"options": STARTED})


def fork_short_stages():
    """Let the jobs of this workflow find a `scaleproof` whose short stages are forked from one process."""
    if stage_server.VARIABLE in os.environ:  # of a workflow around this one
        return
    with contextlib.suppress(OSError):  # without it each stage imports its libraries itself
        server = stage_server.StageServer()
        os.environ[stage_server.VARIABLE] = str(server.folder)
        os.environ["PATH"] = f"{server.folder}{os.pathsep}{os.environ['PATH']}"
        atexit.register(server.close)


@inspected_once
def whole_machine(wildcards):
    """Threads: all of this machine, as nothing else may run beside a measurement.

    On a cluster cpus_per_task says how many.
    """
    return workflow.resource_settings.cores or 1


def resources_of(job_of):
    """The resources of a rule: what `job_of(wildcards)` requests of a cluster; none on one machine, which uses none."""
    if workflow.is_main_process and not command_line().executor:
        return {}

    def part(name):
        return lambda wildcards: resources_of_job(job_of(wildcards))[name]

    return {name: part(name) for name in SITE.resource_names}


@lru_cache
def resources_of_job(request):
    """The request in the words of the scheduler, of which each resource is a part."""
    return SITE.resources(request)


def job_of_run(wildcards):
    return _job_of_run(wildcards.campaign, wildcards.cell)


@lru_cache
def _job_of_run(campaign, cell):
    """One request for all the resources that name parts of it."""
    loaded = or_exit(load_named, campaign)
    return job(or_exit(loaded.cell, cell), loaded.campaign.resources)


NOTES = Path(".snakemake")  # what Snakemake remembers of each file
REMEDY_OF_NOTES = f"the files in {NOTES}/log; or move {NOTES} to a larger disk and let it be a link"


def say_full_disk():
    """Print it where it is so: a job that failed may have been unable to write its log, and Snakemake its notes.

    Of those it says no more than that it cannot write them.
    """
    if RESULTS.is_dir() and disk_is_full(RESULTS):
        print(f"\n{full_disk_text(RESULTS)}\n", file=sys.stderr)
    elif NOTES.is_dir() and disk_is_full(NOTES):
        print(f"\n{full_disk_text(NOTES, REMEDY_OF_NOTES)}\n", file=sys.stderr)


def stop_on_full_disk():
    """End before anything is begun where Snakemake could not even note that it has: it would, with a traceback.

    Said at the end where the disk fills up meanwhile, as onerror is not reached then.
    """
    logging.raiseExceptions = False  # a log that cannot be written stops nobody
    if NOTES.is_dir() and disk_is_full(NOTES):
        say_full_disk()
        sys.exit(1)
    atexit.register(say_full_disk)


def unrecorded_runs():
    """What to say of finished runs that Snakemake would make again for want of a record alone; empty if there are none.

    Not of those that it is forced to make, nor of those that it was making when it was killed.
    """
    if workflow.touch or not getattr(workflow, "dag", None):
        return ""
    pending = workflow.dag.needrun_jobs(exclude_finished=False)
    jobs = [job for job in pending if job.rule.name in ("train", "shared_job")]
    reasons = {job: workflow.dag.reason(job) for job in jobs}
    unknown = [
        (job.wildcards.campaign, Path(output))
        for job, reason in reasons.items()
        if not reason.forced and not reason.incomplete_output
        for output in job.output[:1]
        if workflow.persistence.metadata(output) is None
    ]
    campaigns = sorted({campaign for campaign, _ in unknown})
    outputs = {output for _, output in unknown}
    texts = [unrecorded_text(load_named(campaign), RESULTS, outputs) for campaign in campaigns]
    return "\n".join(text for text in texts if text)


def stop_on_unrecorded():
    """Raises UserError before hours of measuring begin that nobody may have wanted."""
    if text := unrecorded_runs():
        raise UserError(f"nothing was started: {text}")


def say_unrecorded():
    """The same after a dry run."""
    if workflow.dryrun and (text := unrecorded_runs()):
        print(f"\n{text}", file=sys.stderr)


def say_failed_runs():
    """Print the failed runs of the campaigns that were asked for; the exit code that tells of them, or 0."""
    targets = [word for word in sys.argv[1:] if word.startswith("results/")] or ["results/demo/report.html"]
    campaigns = {Path(target).parts[1] for target in targets if len(Path(target).parts) > 1}
    texts = [failed_runs_text(load_named(c), RESULTS) for c in sorted(campaigns) if (CAMPAIGNS / f"{c}.yaml").is_file()]
    print(*("\n" + text for text in texts if text), sep="\n", file=sys.stderr)
    return FAILED_RUNS if any(texts) else 0


CONCLUSION = re.compile(r"results/([^/]+)/(?:[^/]+|(?:tables|charts)/[^/]+)")  # made from all runs of a campaign


def demanded():
    """The targets on the command line that are files; without any target, the default one."""
    if not command_line().targets:
        return ["results/demo/report.html"]
    names = {rule.name for rule in workflow.rules}
    return sorted(target.removeprefix("./") for target in command_line().targets if target not in names)


def demand_lost(targets):
    """Start again with what a report was made from and is missing now as further targets, if anything is.

    The table of the runs is made again where a look at them is due, because `repeats.resolve` is new or allows for more
    than before: without that, Snakemake takes the look for an intermediate file that nothing needs.
    """
    campaigns = {match[1] for match in map(CONCLUSION.fullmatch, targets) if match}
    lost, forced, records, of_records = [], [], [], []
    for loaded in [load_named(name) for name in sorted(campaigns) if (CAMPAIGNS / f"{name}.yaml").is_file()]:
        lost += lost_results(loaded, RESULTS, {*tables_of(loaded), *charts_of(loaded)})
        for record, missing in records_without_runs(loaded, RESULTS).items():
            records.append(str(record))
            of_records += missing
        table = RESULTS / loaded.name / "runs.csv"
        if loaded.look_is_due(RESULTS) and table.is_file():
            forced.append(str(table))
    forced += records
    added = [path for path in [*map(str, lost), *records] if path not in targets]
    if added:
        print(lost_text([*lost, *of_records]), file=sys.stderr, flush=True)
    if added or set(forced) - set(command_line().forcerun):
        every = sorted({*targets, *command_line().targets})
        options = [word for word in sys.argv[1:] if word not in ("--", *every)]
        # The last --forcerun counts, so what the command line forces is said again.
        options += ["--forcerun", *sorted({*forced, *command_line().forcerun})] if forced else []
        os.execv(sys.executable, [sys.executable, "-m", "snakemake", *options, "--", *every, *added])
