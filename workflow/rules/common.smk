"""Input functions and requests of all rules.

A campaign is read when a target asks for it, so a broken one disturbs no other.
"""

TABLES = ("scaling", "strong", "weak")
TRACE_CHARTS = ("trace-timeline", "trace-communication", "trace-steps", "trace-kernels")
# All of this machine: nothing else may run beside a measurement. On a cluster cpus_per_task says how many.
WHOLE_MACHINE = workflow.resource_settings.cores or 1


# How the cluster of this profile wants to be asked; `config` of a profile says it.
SITE = or_exit(Site.from_config, config)
or_exit(check_config_name, config)
or_exit(check_start, workflow.resource_settings.cores)
if workflow.is_main_process:
    or_exit(check_order, sys.argv)
    or_exit(check_profile_of_call, sys.argv)
or_exit(check_resource_names, workflow.resource_settings.default_resources or ())
# `--config anonymous=true`: pages and papers without names of hosts.
ANONYMOUS = "--anonymous" if config.get("anonymous") else ""


# Outputs


def in_report(path, caption, what):
    """An output that stands in Snakemake's own report."""
    return report(path, caption=f"../report/{caption}.rst", category="{campaign}", labels={"what": what})


def drawn(charts, caption="chart"):
    """Some charts as outputs: each as SVG and as PNG."""
    paths = [f"results/{{campaign}}/charts/{chart}" for chart in charts]
    named = zip(paths, charts, strict=True)
    return [*(in_report(f"{path}.svg", caption, chart) for path, chart in named), *(f"{path}.png" for path in paths)]


# Campaigns, cells, runs


def campaign_called(name):
    return or_exit(CAMPAIGNS_AS_SENT.load_named, name, FOUND)


def of_campaign(wildcards):
    if workflow.is_main_process:
        check_omitted()  # here, as all rules are known by now, those of the user too; with -n nothing starts
    return campaign_called(wildcards.campaign)


def cell_of(wildcards):
    return or_exit(of_campaign(wildcards).cell, wildcards.cell)


def step_of(wildcards):
    """The work of a step of a cell, in words."""
    cell = cell_of(wildcards)
    if cell.workload.command is None:
        return f"{cell.planned_batch} samples a step"
    given = cell.workload.per_step
    return f"{cell.per_step} {given.unit} a step" if given else "a command"


def run_of(wildcards):
    """The cell of a run that the campaign plans."""
    return or_exit(cell_of_run, of_campaign(wildcards), wildcards.cell, int(wildcards.rep))


def traced_cell_of(wildcards):
    return or_exit(cell_of_trace, of_campaign(wildcards), wildcards.cell)


def token_files(*cells):
    """The token files of some cells, each once; the large ones count only as there or not."""
    folders = dict.fromkeys(tokens_dir(RESULTS, cell) for cell in cells if cell.command is None)
    large = [ancient(f"{folder}/{name}") for folder in folders for name in ("train.bin", "val.bin")]
    return [*large, *(f"{folder}/tokens.json" for folder in folders)]


def files_to_gather(wildcards):
    """The local files of a corpus. Where they are still to be gathered, they are looked into, also with -n."""
    row = or_exit(corpus_of_folder, wildcards.corpus)
    files = or_exit(local_files, *row)
    if files and not (FOUND / "corpora" / wildcards.corpus / "documents.parquet").exists():
        try:
            from scaleproof.measure.corpus.check import check_corpus
        except ImportError:  # an environment of Snakemake alone: the job looks
            return [local(file) for file in files]
        for warning in or_exit(check_corpus, *row):
            print(f"warning: {warning}", file=sys.stderr)
    return [local(file) for file in files]


def refuse_impossible_tokenizer(wildcards):
    """End where no tokenizer has so few entries, or so many. It needs no file more."""
    or_exit(entries_of_possible, wildcards.tokenizer)
    return []


def folder_of_tokens(wildcards, input):
    """The folder of the token files that come first among the inputs, as one of `token_files`."""
    return os.path.dirname(input.tokens[0])


def option_of_tokens(wildcards, input):
    """`--tokens` with that folder; nothing for a command, whose inputs are files of its own."""
    return "" if cell_of(wildcards).command else f"--tokens {folder_of_tokens(wildcards, input)}"


def files_of_command(cell):
    """The files that the command of a cell names, which `prefix:` of a module leaves where they are."""
    return map(local, existing_files(cell.words))


def inputs_of_run(wildcards):
    """The tokens of a run's cell or the files of its command, and what it waits for.

    One function: a thousand runs are asked for it.
    """
    cell = run_of(wildcards)
    forecast = before_held_out(wildcards) if of_campaign(wildcards).held_out(cell) else []
    return [*token_files(cell), *files_of_command(cell), *frontier_of_cell(wildcards), *forecast]


def inputs_of_shared_job(wildcards):
    """The tokens of all cells of a job, or the files of their commands."""
    cells = shared_job_of(wildcards).cells
    return [*token_files(*cells), *dict.fromkeys(file for cell in cells for file in files_of_command(cell))]


def tokens_of_trials(wildcards):
    """The tokens of the trials that look for the micro-batch of a cell."""
    cell = cell_of(wildcards)
    fault = f"looks for no micro-batch of {cell.slug} (key: work.micro_batch)"
    or_exit(check_asked, of_campaign(wildcards), cell.searched is not None, fault)
    return token_files(cell)


def frontier_of_cell(wildcards):
    """The trials that find the micro-batch of a cell; nothing where the campaign gives it."""
    if not cell_of(wildcards).searched:
        return []
    if runs_here():
        or_exit(check_search_here, of_campaign(wildcards))
    return [frontier_file(RESULTS, wildcards.campaign, wildcards.cell)]


def enough_repeats(wildcards):
    """Repeats of each cell. With `repeats.resolve` every look must be there first: it says whether they go on."""
    until = of_campaign(wildcards).campaign.repeat_until
    if until is None:
        return of_campaign(wildcards).campaign.most_repeats
    for repeats in until.looks()[:-1]:
        taken = checkpoints.look.get(campaign=wildcards.campaign, repeats=str(repeats)).output[0]
        if not or_exit(asks_for_more_repeats, Path(taken)):
            return repeats
    return until.at_most


def files_of_runs(loaded, repeats, names):
    """What stands for the first `repeats` of all cells: files of each run, or the records of jobs of several runs."""
    if loaded.shared_jobs:
        return [str(record) for record in loaded.records(RESULTS, repeats)]
    return [f"{folder}/{name}" for folder in loaded.runs(RESULTS, repeats) for name in names]


def run_files(*names):
    """An input function: the files called `names` of every run of the campaign."""

    def files(wildcards):
        repeats = enough_repeats(wildcards)
        note_unmade_runs(wildcards, repeats)
        return files_of_runs(of_campaign(wildcards), repeats, names)

    return files


def note_unmade_runs(wildcards, repeats):
    """Print that runs are missing of which Snakemake may plan none: without a record it goes by times alone."""
    table = rules.collect.output[0].apply_wildcards(wildcards)
    is_asked = workflow.is_main_process and not workflow.dag_settings.forcerun
    if not is_asked or not Path(table).exists() or workflow.persistence.metadata(table) is not None:
        return
    loaded = of_campaign(wildcards)
    missing = [run for run in loaded.runs(FOUND, repeats) if not (run / METRICS).exists()]
    if missing:
        note_once(
            f"scaleproof: {plural(len(missing), 'run')} of {loaded.name} missing ({missing[0]}), and snakemake has no "
            f"record of {table}, as of a file that was copied. Where it plans none of them: "
            f"{keep_command(loaded.path, FOUND)}"
        )


@lru_cache
def note_once(text):
    print(text, file=sys.stderr)


def first_runs(wildcards):
    """The runs that a look is taken at."""
    loaded = of_campaign(wildcards)
    fault = "takes no looks: its number of repeats is fixed (key: repeats.resolve)"
    or_exit(check_asked, loaded, loaded.campaign.repeat_until is not None, fault)
    return files_of_runs(loaded, int(wildcards.repeats), ["training_metrics.json"])


def shared_job_of(wildcards):
    return or_exit(of_campaign(wildcards).shared_job, wildcards.job)


def priority_of_shared_job(wildcards):
    """That of its first run."""
    cell, repeat = shared_job_of(wildcards).runs[0]
    return of_campaign(wildcards).priority(cell.slug, repeat)


@lru_cache
def replayed(campaign):
    """Name of every workload -> a cell that trains it."""
    return cells_by_workload(campaign_called(campaign).cells)


def replayed_cell(wildcards):
    return or_exit(known_name, "workload", wildcards.workload, replayed(wildcards.campaign))


def reference_files(wildcards):
    """The references of all workloads of the campaign."""
    return [RESULTS / wildcards.campaign / FOLDER / f"{name}.json" for name in replayed(wildcards.campaign)]


# Comparisons, traces, forecasts


def arms_of(wildcards):
    return or_exit(of_campaign(wildcards).comparison, wildcards.comparison)


def pairs_files(wildcards):
    """The pairs of every comparison of the campaign."""
    folder = RESULTS / wildcards.campaign / "compare"
    return [folder / name / "pairs.json" for name in of_campaign(wildcards).comparisons]


def asked_pairs(wildcards):
    """The pairs files of a campaign that compares in pairs."""
    loaded = of_campaign(wildcards)
    or_exit(check_asked, loaded, bool(loaded.comparisons), "compares nothing in pairs (key: compare)")
    return pairs_files(wildcards)


def asked_profiles(wildcards):
    """The summaries of the traces of a campaign that traces cells."""
    loaded = of_campaign(wildcards)
    or_exit(check_asked, loaded, bool(loaded.traced), "traces no cell (key: trace.cells)")
    return trace_files(wildcards, "profile_summary.json")


def trace_files(wildcards, *names):
    """The files called `names` of every traced cell."""
    folder = RESULTS / wildcards.campaign / "traces"
    return [folder / cell.slug / name for cell in of_campaign(wildcards).traced for name in names]


def swept_groups(wildcards):
    """The sweeps of a campaign that has forecasts: one for each group in which its cells communicate."""
    loaded = of_campaign(wildcards)
    if not (loaded.campaign.forecast.enabled and loaded.campaign.forecast.launches):
        return []
    return [RESULTS / wildcards.campaign / "sweep" / group / "sweep.json" for group in loaded.communicating_groups]


def swept_group(wildcards):
    """End where no cell of the campaign communicates within such a group. A sweep needs no files."""
    or_exit(known_name, "group of devices", wildcards.group, of_campaign(wildcards).communicating_groups)
    return []


def calibrating_runs(wildcards):
    """The runs that the forecast is made from: all but those that are held out."""
    loaded = of_campaign(wildcards)
    folders = [folder for folder, cell, _ in loaded.planned(RESULTS) if not loaded.held_out(cell)]
    return [folder / name for folder in folders for name in ("training_metrics.json", "steps.csv")]


def before_held_out(wildcards):
    """The forecast that held-out runs wait for; nothing where none are held out. Another one re-runs nothing."""
    if not of_campaign(wildcards).campaign.forecast.hold_out:
        return []
    return [ancient(RESULTS / wildcards.campaign / "forecast_before.json")]


def forecast_to_report(wildcards):
    """The forecast that held-out runs waited for, of a campaign that has forecasts."""
    loaded = of_campaign(wildcards)
    fault = "has no forecasts: write forecast: {hold_out: [GEOMETRY]} into it"
    or_exit(check_asked, loaded, loaded.campaign.forecast.enabled, fault)
    return before_held_out(wildcards)


def forecast_of(wildcards):
    """forecast.json of a campaign that has forecasts."""
    return [RESULTS / wildcards.campaign / "forecast.json"] if of_campaign(wildcards).campaign.forecast.enabled else []


# The page and the paper


def shown(wildcards):
    """The tables and charts of a campaign's page, and what they were drawn from."""
    loaded = of_campaign(wildcards)
    folder = RESULTS / loaded.name
    names = [f"tables/{table}.md" for table in tables_of(loaded)]
    names += [f"charts/{chart}.svg" for chart in charts_of(loaded)]
    names += ["waterfall.json"] if "waterfall" in charts_of(loaded) else []
    names += ["comparison.json", "charts/comparison.svg"] if loaded.comparisons else []
    traces = ["traces.json", *(f"charts/{chart}.svg" for chart in TRACE_CHARTS)] if loaded.traced else []
    files = [folder / name for name in (*names, *traces)]
    return [*files, *trace_files(wildcards, "profile_summary.json"), *forecast_of(wildcards)]


def machine_check(wildcards):
    """The doctor's report, where there is one: it is shown on the page, and no campaign needs it."""
    return [RESULTS / "doctor.json"] if (FOUND / "doctor.json").is_file() else []


# What a job asks of a cluster


def runs_here():
    """Whether the jobs that are planned run on this machine."""
    return workflow.is_main_process and workflow.resource_settings.nodes is None  # without --jobs, nothing is sent


def resources_of(job_of):
    """What `job_of(wildcards)` requests of a cluster, as resources of a rule; none on one machine, which uses none."""
    if runs_here():
        return {}

    def part(name):
        return lambda wildcards: resources_of_job(job_of(wildcards))[name]

    return {name: part(name) for name in SITE.resource_names}


@lru_cache
def resources_of_job(request):
    """The request in the words of the scheduler, of which each resource is a part."""
    if workflow.is_main_process and (fault := SITE.missing_nodes(request)):
        note_once(f"warning: {fault}")
    return SITE.resources(request)


def job_of_run(wildcards):
    return _job_of_run(wildcards.campaign, wildcards.cell)


@lru_cache
def _job_of_run(campaign, cell):
    """One request for all the resources that name parts of it."""
    loaded = campaign_called(campaign)
    return request_of_run(or_exit(loaded.cell, cell), loaded.campaign.resources)


def job_of_shared_job(wildcards):
    return _job_of_shared_job(wildcards.campaign, wildcards.job)


@lru_cache
def _job_of_shared_job(campaign, name):
    """The request for all runs of a job."""
    loaded = campaign_called(campaign)
    runs = or_exit(loaded.shared_job, name).runs
    return request_of_shared_job([cell for cell, _ in runs], loaded.campaign.resources)


def job_of_reference(wildcards):
    return request_of_replay(replayed_cell(wildcards), of_campaign(wildcards).campaign.resources)


def job_of_pairs(wildcards):
    """The request for all pairs of a comparison, one after the other."""
    comparison, a, b = arms_of(wildcards)
    runs = [a, b] * (comparison.pairs + comparison.null_pairs)
    return request_of_shared_job(runs, of_campaign(wildcards).campaign.resources)


def job_of_group(wildcards):
    loaded = of_campaign(wildcards)
    return request_of_run(or_exit(loaded.cell, loaded.communicating_groups[wildcards.group]), loaded.campaign.resources)
