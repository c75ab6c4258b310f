"""What is checked before the first job, and printed after the last one."""


def refuse_short_jobs():
    """End before anything is sent where set-resources gives jobs less time than their runs may take."""
    replaced = workflow.resource_settings.overwrite_resources.items()
    rules = {rule for rule, resources in replaced if "runtime" in resources}
    for job in workflow.dag.needrun_jobs() if rules else ():
        if job.rule.name in rules and "campaign" in job.wildcards.keys():
            limits = of_campaign(job.wildcards).campaign.resources
            reason = complaint_on_job_time(job.rule.name, job.resources.get("runtime"), limits)
            if reason:
                raise UserError(f"nothing was submitted: {of_campaign(job.wildcards).path}: {reason}")


def note_how_jobs_are_sent():
    """Write down in the campaigns by which profile their jobs are sent: for later, when this Snakemake is gone."""
    sent = [job.wildcards for job in workflow.dag.needrun_jobs() if not job.is_local]
    for name in {wildcards.campaign for wildcards in sent if "campaign" in wildcards.keys()}:
        note_options(FOUND / name, config.get("profile"), workflow.executor_plugin.name, workflow.nodes)


def is_recorded(output):
    """Whether Snakemake has noted that it made this file; of one that is newer, a job of a killed Snakemake made it."""
    record = workflow.persistence.metadata(output)
    made = Path(output).stat().st_mtime if Path(output).exists() else 0
    return record is not None and made <= record.endtime


def is_forced(job, reason):
    """Whether the command line forces a job. The `reason` does not say so where an input of the job is made as well."""
    by_name = job.rule in workflow.dag.forcerules or not workflow.dag.forcefiles.isdisjoint(job.output)
    return reason.forced or by_name


def unseen(words, cut_off=False):
    """What would be measured again although it is there, as Snakemake has no record of it; in `words`, or "".

    Not of those that it is forced to make. `cut_off`: of those that it was making when it was killed, else of others.
    """
    if workflow.touch:
        return ""
    pending = workflow.dag.needrun_jobs(exclude_finished=False)
    jobs = [job for job in pending if job.rule.name in MEASURED]
    incomplete = incomplete_files()  # by --rerun-incomplete Snakemake is forced to make them
    unknown = [
        (job.wildcards.campaign, Path(output))
        for job in jobs
        for output in job.output[:1]
        if (Path(output) in incomplete) == cut_off
        if cut_off or not (is_forced(job, workflow.dag.reason(job)) or is_recorded(output))
    ]
    outputs = {output for _, output in unknown}
    texts = [words(campaign_called(name), FOUND, outputs) for name in sorted({name for name, _ in unknown})]
    return "\n".join(text for text in texts if text)


def stop_on_unrecorded():
    """Raises UserError before something is measured again that Snakemake has no record of."""
    if text := unseen(unrecorded_text):
        raise UserError(f"nothing was started: {text}")


def say_cut_off():
    """Print what is there, and is measured again, as Snakemake was killed before it saw the job end."""
    if text := unseen(cut_off_text, cut_off=True):
        print(f"\nwarning: {text}", file=sys.stderr)


def say_doubts_of_cells():
    """Print which cells of runs on this machine cannot run, or have more processes than it has cores."""
    jobs = list(workflow.dag.needrun_jobs(exclude_finished=False)) if runs_here() else []
    of_runs = [cell_of(job.wildcards) for job in jobs if job.rule.name == "train"]
    of_runs += [cell for job in jobs if job.rule.name == "shared_job" for cell in shared_job_of(job.wildcards).cells]
    cells = {cell.slug: cell for cell in of_runs}
    for doubt in doubts_of_cells_here(cells.values()) if cells else ():
        print(f"\nwarning: {doubt}", file=sys.stderr)


def say_what_stops_it():
    """With -n, of which Snakemake calls no hook, print what would stop the call without it, and what spoils it."""
    if not (workflow.dryrun and workflow.dag):
        return
    if text := unseen(unrecorded_text):
        print(f"\nscaleproof: without -n nothing would be started: {text}", file=sys.stderr)
    say_cut_off()
    say_doubts_of_cells()


def say_failed_runs():
    """Print the failed runs of the campaigns that were asked for; whether there are any."""
    texts = [text for loaded in CAMPAIGNS_AS_SENT.loaded if (text := failed_runs_text(loaded, FOUND))]
    print(*(f"\n{text}" for text in texts), sep="\n", file=sys.stderr)
    return bool(texts)


def say_why(logs):
    """Print what the log of the first failed stage ends with. `logs`: Snakemake's own, which name it."""
    words = [last_words_of_failed_stage(Path(log).read_text("utf-8", "replace")) for log in logs]
    print(*(f"\nscaleproof: {text}" for text in words if text), sep="\n", file=sys.stderr)


def say_how_it_goes_on():
    """Print how many runs are left, or the command for those that are gone."""
    planned, unfinished = (
        {Path(output) for job in workflow.dag.needrun_jobs(exclude_finished=finished) for output in job.output}
        for finished in (False, True)
    )
    texts = [ended_early_text(loaded, FOUND, planned, unfinished) for loaded in CAMPAIGNS_AS_SENT.loaded]
    print(*(f"\n{text}" for text in texts if text), sep="\n", file=sys.stderr)


def say_full_disk():
    """Print it where it is so: a job that failed may have been unable to write its log."""
    if FOUND.is_dir() and disk_is_full(FOUND):
        print(f"\n{full_disk_text(FOUND)}\n", file=sys.stderr)
