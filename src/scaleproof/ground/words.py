"""The words of the report and of the console, each explained once: on the page and by `scaleproof explain`.

A key may have several words, with commas between them.
"""

import re

Words = dict[str, str]

MEASURED: Words = {
    "run, n": "One measurement of a cell in processes of its own; n is how many of them have numbers.",
    "device, rank": "A GPU; on a CPU a process bound to cores of its own. A rank is a process of the training.",
    "step, window": "A step is one optimizer step with all of its micro-batches; the window is the timed steps.",
    "baseline": "The same series at its smallest number of devices.",
    "95 % CI": "An interval over the runs here: 1.62x (95 % CI 1.20-2.19, n=3) in text, 1.62 (1.20-2.19) in a "
    "table. ~ beside a ratio: the interval contains 1, so a difference is undecided. Corrected, or "
    "simultaneous: of each size such intervals hold together with 95 %, by Tukey's range over its cells and the single "
    "devices that they are held against; other sizes have 95 % of their own.",
    "finding": "What a check has found. invalid: the number is wrong or answers another question; suspect: it may be; "
    "note: worth knowing.",
}
PAIRS: Words = {
    "pair": "A and B one after the other on the same devices, in "
    "random order. A/A pairs run A twice: what they differ by is noise."
}
TRACED: Words = {
    "exposed": "Communication while nothing is computed on the same rank. It is transfer, or waiting for a rank that "
    "came later; computing, exposed communication and idle time add up to the step.",
    "waterfall": "From the ideal step to the measured one, which is the window over its number of steps. Parts from a "
    "trace are its shares of the traced step times that step, so they differ from the trace's own milliseconds.",
}
LEARNT: Words = {"nats": "Unit of a loss: cross-entropy with the natural logarithm; e to its power is the perplexity."}
# What the page explains where it stands, or says as part of a sentence.
ANSWERS: Words = {
    "CI, confidence, confidence interval, interval, 95 % interval, 95 %, 95 % confidence, corrected, corrected for "
    "comparisons, simultaneous": (
        f"{MEASURED['95 % CI']} What no run has met, a rare slow run or another state of the machine, is in none."
    ),
    "p-value, significant": "The 95 % CI of a ratio leaves out 1: p < 0.05 in a test. No p-value is printed, as the "
    "interval also says how large the difference may be.",
    "repeat": "A run of the same cell and seed once more, in fresh processes. Intervals are over repeats.",
    "session": "The runs of a campaign, made one after the other: what an interval is over. Another day may differ.",
    "p50, p95": "The step time that 50 %, or 95 %, of the steps stay below.",
    "strong scaling, strong": "The global batch stays the same over more devices: the ideal step takes its Nth part.",
    "weak scaling, weak": "The global batch grows with the devices: the ideal step takes as long as on one.",
    "noise, noise floor": "What two equal arms differ by: measured by A/A pairs, or by the spread over repeats.",
    "detectable, reliably, the smallest difference that would show": "The "
    "smallest true difference that so many repeats, or pairs, show in 7 to 9 of 10 campaigns.",
    "claim": "A statement of the answer with its value, bounds and method: claims.json, from which sentences are made.",
    "evidence, evidence level, printed, watched, built": "What stands behind a figure. printed: the program says so. "
    "watched: scaleproof's clock and counts in its process. built: scaleproof's trainer, whose work is counted and "
    "replayed.",
    "witness": "An untimed twin of a cell, every step of which is looked at; timed runs must agree with it.",
    "control": "Something whose result is known beforehand: A against A, or a bare loop that shares no code.",
    "ledger": "The samples and tokens that a run was planned to train on, and those that it did.",
    "rehearsal": "A campaign in small: every cell once, tiny shapes, few steps. Its rates mean nothing.",
    "unsigned, signature": "Whether the results carry an SSH signature of who published them (scaleproof publish "
    "--sign); it says who, not that figures are right.",
    "vs fastest": "tokens/s over that of the fastest cell of the same size, in tables of 0.1; now fastest over this.",
    "none, recommended: none": "No cell is recommended: none is shown to be as fast as the others within the margin of "
    "the campaign, or none beats one device. The report says why beside it, and under Next what would decide it.",
    "A/B, A against B": "Two cells in pairs of runs, A and B one after the other in random order: what changes slowly "
    "on a machine cancels in their ratio. Keys: compare (a campaign), scaleproof ab (two commands).",
    "B / A, B over A, of each pair": "Of an A/B comparison: what B has over what A has in the same pair: above 1, B "
    "has more.",
    "A/A, A / A, A / A noise": "A against itself, in pairs as of A/B: what they differ by is noise.",
    "ratio": "One rate over another of the same work, in one direction: above 1 the first named is the faster.",
    "round": "One repeat of every cell: repeat k of cells measured in turns runs in round k, and shares its machine.",
    "look": "A reading of the results between two rounds, which ends the campaign if they decide. Each look has a "
    "part of the 5 % chance of an error, so that all intervals hold together (docs/statistics.md).",
    "series": "Cells that differ in their number of devices alone. Of scaleproof ab --series: comparisons that share "
    "one chance of false claims.",
    "gloo, nccl, backend": "The library by which ranks exchange tensors: NCCL between NVIDIA GPUs (RCCL of AMD), gloo "
    "between processes on CPUs.",
    "single, dp": "Strategies: one device; nn.DataParallel, one process for several devices of a node.",
    "ddp": "Strategy: every rank has the whole model, and gradients are averaged (DistributedDataParallel).",
    "fsdp, hsdp": "Strategies: every rank keeps a part of weights, gradients and optimizer state, and gathers weights "
    "as they are needed (fully_shard); hsdp does so within each node, and averages between nodes.",
    "zero0, zero1, zero2, zero3, DeepSpeed": "Strategies by DeepSpeed's engine, which shards nothing (0), the "
    "optimizer's state (1), gradients too (2), weights too (3). -offload: the optimizer is on the CPU.",
    "idle": "Of a step: nothing is computed and nothing is exchanged; the host is late, or data are.",
    "computing": "Of a step: the time in which a device computes, whether or not it exchanges meanwhile.",
    "waiting, waiting for the last rank, waiting for the slowest rank, transfer": "Of a collective: from the arrival "
    "of a rank until the last one has come; the rest is transfer.",
    "overlap": "Communication while the same rank computes: it costs no time of the step by itself.",
    "exposed communication, exposed transfer, exposed waiting": TRACED["exposed"],
    "all communication, all waiting": "Of a step: what a rank exchanges, or waits for others in, whether or not it "
    "computes meanwhile.",
    "traced with": "The profiler of a trace: torch.profiler (torch) or Nsight Systems (nsys).",
    "nodes x devices, nodes": "The geometry of a cell: nodes (machines), and devices of each.",
    "on, machine": "The machine of the runs. Of an A/B comparison: the geometry of its runs, nodes x devices.",
    "loss, losses": "Cross-entropy in nats: of the training, or of held-out documents. Of a recommendation, the loss "
    "against the best: by how much its rate is lower. What scaling loses: see waterfall.",
    "last step": "Of a loss: that of the last step of the window, mean over runs.",
    "traced / untraced": "The step time under the profiler over that of the timed runs: what tracing costs.",
    "serial fraction": "What the Karp-Flatt metric estimates: the part of the work that does not get faster on more "
    "devices. It contains all that is lost, communication too.",
    "correlation": "Of repeats: neighbouring runs are alike, so that intervals are too narrow (repeats-correlated).",
    "energy": "Of GPUs, by their counter, in the window: mJ/token. On a CPU it is unknown.",
    "conformal": "An interval whose width is taken from earlier errors of the same forecast, not from a formula.",
    "A, B": "The two that are compared: results, cells, commands or arms, in the order in which they are named.",
    "both sides, on one side alone, what": "Of two results: what each was measured with, side by side; cells "
    "that only one has.",
    "all cells": "The table of a campaign's cells, by number of devices, the fastest first.",
    "batch": "The samples of a step. global batch: over all devices; micro-batch: of one pass on one device.",
    "inside a step": "What traces show of a step: computing, communication, idle time. Their runs are in no rate.",
    "what was run, protocol": "The settings that all cells share, and those in which they differ.",
    "where each number comes from, sha256": "The files of every run, each with its sha256, a fingerprint of its "
    "content: scaleproof verify computes all figures from them again.",
    "commit": "The state of the code that ran, as git names it.",
    "date": "When the runs were made, in UTC.",
    "environment, operating system, processor, Python, scaleproof, torch, transformers": "The machine of the runs and "
    "the versions on it, which each run records. Where they differ between two results, no ratio is formed.",
    "machine check": "What scaleproof doctor found on the machine: whether it is fit for measurements.",
    "file": "Of a trace: what a viewer of profiles opens. Of an audit: where a figure stands.",
    "chart": "Drawn from the files of the campaign; charts/ has each as SVG and PNG.",
    "definition, word, name, column": "What headings, words and names of cells mean, at the end of a page; "
    "scaleproof explain WORD prints it.",
    "order": "Of a table: how its rows are sorted.",
    "this page": "The command that writes the page again.",
    "status": "Of a run: ok, or the class of its failure. Of a plan, check or forecast: what stands beside it.",
    "ideal, ideal step": "What costs nothing would give: N devices N times the rate of one, or an Nth of its step.",
    "smoothed, target": "A smoothed loss is the mean of a tenth of the window's steps; time to loss is until it "
    "falls to the target.",
    "after the window": "Of a whole run: validation, writing, and the end of its processes.",
    "data, forward, backward": "Of a timeline: what the program does on the host, in ranges that it names: it takes a "
    "batch, computes the loss, then the gradients.",
    "gemm, elementwise, memcpy, norm and loss, attention, unclassified": "Classes of kernels, by their names: matrix "
    "products (gemm), attention, norms and losses, copies, and what is computed element by element.",
    "campaign": "A file in config/campaigns/: what is trained, what is varied, what is asked. Its results have one "
    "page.",
    "comparison": "Pairs of runs, A and B: the key compare of a campaign; or two results: scaleproof compare A B.",
    "not read": "Of an audit: files and headings that nobody understood. They are in no check.",
    "waiver, waived": "A finding that a project lives with, by its code, place, reason and last day: scaleproof.toml "
    "(docs/ci.md). An audit counts it, and does not fail for it.",
    "coverage": "How often intervals hold the truth, by simulation or over published series.",
    "timed window, optimizer step": MEASURED["step, window"],
    "null pair": PAIRS["pair"],
    "family": "Comparisons whose intervals hold together: the cells of one size with each other and with one device.",
    "census": "What a step of the witness shows of the program that really runs: operations, bytes, dtypes, kernels.",
    "tied head": "The output layer shares its weights with the embedding of tokens: they are counted once.",
    "parameters": "Of a model: its weights, counted as it was built; tied ones once.",
    "measuring code, code": "The sha256 of the program that takes part in a run: runs of other code are other runs.",
    "as started": "A command with its placeholders filled in, as the first runs were started.",
    "program's files": "The files that a command names, with the sha256 of their content when its runs began.",
    "in all rows": "What every row of the table has in common, said once below it.",
    "probe, probed step": "A step whose operations and exchanges are counted; it is in no timed window. Of a "
    "machine: two seconds of products, from which estimates are made.",
    "samples/s/device": "samples/s over the number of devices.",
    "warm-up": "The steps before the window, in no figure: work.warmup_steps.",
    "validation": "The loss on held-out documents after the window, in no rate: work.validation_samples.",
    "rate": "tokens/s in the window, or another unit of work per second: all work over all time.",
    "check": "A rule that a sound figure keeps, tried on every run; scaleproof explain lists what they find.",
    "measured": "From runs that were made, with n beside it; else a figure is forecast, estimated, or from a formula.",
    "start-up": "From the launcher's start of a run to its first step: imports, process groups, weights.",
    "unexplained": "Of a waterfall: what is left of the measured step when its parts have been taken off.",
    "where scaling is lost": "A waterfall: the parts of a step that keep it from being an Nth of that on one device.",
    "host gaps": "Of a waterfall: a device idles, and not for data: the host is late with its next work.",
    "smaller local batch": "Of a waterfall: a device with an Nth of the batch is less than N times as fast.",
    "waiting for data": "Of a step: the trainer waits for its next tokens.",
    "pays off": "Shown to be faster than one device that does the same work.",
    "bus bandwidth": "Bytes that a collective moves through each link, over its time: comparable with the link's own "
    "figure, whatever the number of ranks (nccl-tests).",
    "cell": "One configuration of a campaign: a strategy, a geometry and whatever else it varies.",
    "undecided, ~, too close to call, may be as fast": "The interval of the ratio contains 1: by these runs either "
    "side may be the faster one. More repeats make it narrower. What those so far show stands below Can I trust it?; "
    "how many more it takes, under Next where they would help, and in scaleproof plan FILE. Of a rating: the interval "
    "of the efficiency reaches from one rating into another; both are named.",
    "too wide, interval too wide to print, the interval is too wide to print, too few": "The "
    "interval is too wide to help, its bounds more than ten times "
    "apart (of two runs: twice), so n stands in its place. More repeats make it narrower.",
    "non-inferiority": "Shown to lose no more than a margin that was set beforehand: the whole interval of the ratio "
    "lies above it. Not the same as not shown to be slower.",
    "cannot be told apart": "As undecided: the interval of the ratio contains 1.",
    "incomparable, not comparable, no ratio": "Something differs that the campaign does not vary, such as code, "
    "versions, hardware or batch. A ratio would mix its effect with the one in question, so none is formed. If it is "
    "meant to differ, name it: scaleproof compare A B --vary FIELD.",
    "rating, low, good, excellent": "Of a scaling efficiency: low below 0.7, excellent from 0.85, good in between, "
    "where the whole interval says so; else undecided, with the ratings that its ends have.",
    "invalid": "A finding that proves the number wrong, or that it answers another question. A report "
    "with one gives no answer.",
    "suspect": "A finding by which the number may be wrong. It stays in the answers, which say so.",
    "note": "A finding worth knowing that puts no number in doubt.",
    "disturbed": "Runs of the cell lie apart as runs of one configuration do not (run-stands-out, runs-far-apart), or "
    "its device was throttled or its cores shared, so that its rate is not the cell's. Other findings, machine-busy "
    "among them, are reservations alone. Measure all disturbed cells again when the machine is quiet.",
    "decided": "An interval excludes the other answer; further repeats would make it narrower, not different.",
    "failed, not applicable, runs without numbers": "A run without numbers: it crashed, hung, ran out of memory or "
    "time; or cannot run here, with the reason beside it.",
    "oom, host_oom": "Class of a failed run: the memory of a device (oom) or of the machine (host_oom) ran out. A "
    "smaller micro_batch, or a strategy that shards more.",
    "timeout, hang": "Class of a failed run: it reached resources.time_limit (timeout), or its ranks made no steps "
    "any more (hang). Its train.log shows where; a longer limit helps the first alone.",
    "crash": "Class of a failed run: a rank ended with an error or by a signal. The reason and the end of train.log "
    "stand in the run's record. Mend the program, then repeat the runs: scaleproof retry.",
    "nan": "Class of a failed run: a loss or gradient is NaN or infinite. A smaller learning rate, or bf16 for fp16.",
    "node_fail": "Class of a failed run: its node was lost, by the scheduler's word. It can be repeated as it is.",
    "wrong_world": "Class of a failed run: not as many ranks, or other devices, came together than were asked for.",
    "no_figures": "Class of a failed run of a command: it ended well and printed no time and no rate that is read, or "
    "too few steps. A pattern says where they stand: workload.figures, or ab --pattern.",
    "unreadable": "A run whose record is damaged: it is a row without numbers, and nothing is concluded from it.",
    "not fully": "Raw files are gone, so that figures can no longer be recomputed.",
    "with reservations, reservations": "The answer rests on runs with findings that are suspect, which are named.",
    "candidate, simplest candidate": "A cell that further runs may show to be as fast as the fastest, as far as the "
    "margin of the campaign allows: nothing disturbed its runs, and it is not shown to lose against one device.",
    "recommended, recommendation, for now, not confirmed, simplest, simplest first": "The simplest cell of those "
    "that are as fast as the fastest, as far as the margin of the campaign allows. For now: its intervals do not "
    "confirm that yet.",
    "fastest, highest, 1 (highest), highest rate, measured highest": "The "
    "cell with the highest rate of its size. Where it is not shown to "
    "be faster than the next ones, the line says that it is too close to call.",
    "faster, slower": "Shown: the whole interval of the ratio is on one side of 1.",
    "against one device, one device, 1-device": "Rates of several devices over that of one device that does the "
    "same work: above 1 pays off.",
    "no clear winner yet, no clear answer yet": "The runs so far do not decide the question; Next says what would.",
    "next": "What to do now: the command, or the number of repeats, that would decide what is open.",
    "can I trust it, trust": "By the findings on the runs that the answer uses: yes, with reservations, or no; and by "
    "whether its figures can be recomputed.",
    "median run, mean, robust rate": "The run of a cell whose rate is in the middle; the mean is moved by rare slow "
    "runs, it is not.",
    "told apart": "Shown to differ: the interval of their ratio leaves out 1.",
    "scaling": "Rates on more devices over those on fewer, at the same or at a growing global batch.",
    "group, letters": "Cells that share a letter are not shown to differ; cells that share none are.",
    "whole job, job": "From the launcher's start to the last result, with start-up, warm-up and validation; all other "
    "rates are those of the window.",
    "unknown": "Not measured, or not measurable here; the reason stands beside it. It is never printed as 0.",
    "overhead only": "A sharding strategy on one device: there is nothing to shard, so it shows what sharding costs.",
    "held out": "A cell that was forecast before it ran, to score the forecast.",
    "run or row": "Of an audit: a run, a row of a table or a sentence with a figure, by the name that findings use.",
    "configuration": "What a run was made with. Of an audit: rows that differ in their number of devices alone.",
    "work": "What a run did, as far as its files say: strategy, precision, model, batch. Also a key of "
    "campaigns: batch and steps.",
    "published, recomputed": "Of an audit: a figure as a file states it, and as it follows from other figures there.",
    "mark": "Of an audit: the severity of the worst finding on a row.",
    "over, beside": "Of an audit: the number of devices that a speed-up is relative to, and what stands in its line.",
    "severity, class": "Of a finding: invalid, suspect or note. Of a failed run, its class: crash, hang, oom, timeout, "
    "nan and others.",
    "differs on purpose": "Of two results: what --vary names, or what the campaign varies. All else must be the same.",
    "PASS, FAIL, FAILED, not here": "Of a check of a machine, cluster or publication: nothing speaks against it; "
    "something does, and the next line says what to do; it has nothing to look at, such as no GPU.",
    "ok": "A run that has its numbers. Of scaleproof gate: a change that chance explains.",
    "worse": "Of scaleproof gate: a rate below the earlier results by more than their spread explains.",
    "cannot tell, cannot tell yet, not compared": "Runs decide nothing: their spread is larger than the difference in "
    "question, or they are not of the same work, code, versions or hardware. More repeats help in the first case.",
    "global = micro x accum. x devices, gradient accumulation": "Samples of a step: those of a pass on one device, "
    "times passes before an update, times devices.",
    "tokens/step, tokens/run": "Global batch times sequence length; of a run those of all timed steps together.",
    "processes": "Processes of a run: one for each device, but one in all of dp.",
    "state, state/device": "Weights, gradients and optimizer state on one device, by the formula of the ZeRO paper; "
    "activations and buffers come on top.",
    "memory, peak": "Of a plan and a frontier: the most that a device holds at a time, as runs on GPUs measured it, or "
    "as torch counts it (--count-memory). On the page, see state.",
    "fits, does not fit": "Whether the peak of the memory is below that of the smallest GPU that ran.",
    "ms/step": "Time of a step. Two numbers: the mean of one further run lies between them, in 95 of 100 cases.",
    "device hours": "Hours of all runs, each times its number of devices.",
    "from": "What a figure of a plan or forecast rests on: measured, forecast or estimated.",
    "forecast, 80 %": "A prediction, written before the run that tests it, whose intervals hold 80 or 95 % of what is "
    "measured later.",
    "inside": "Of a forecast: whether the later measurement lies in its interval.",
    "estimated": "Neither measured nor forecast: from FLOPs and the speed of this machine, or from its earlier runs.",
    "value, formula": "Of scaleproof why: a figure in full, and what it is computed from.",
    "collective, bytes, all_reduce, all_gather, reduce_scatter, broadcast": "An exchange in which all ranks take "
    "part, such as all_reduce, and what it hands in.",
    "of link, bus GB/s": "Of a sweep: bus bandwidth, and its part of what the link between the devices can do.",
    "launches": "Fresh starts of a sweep: times differ between them more than within one.",
    "traced step, measured step": "The mean time of a step: under the profiler of a trace, which makes it longer; in "
    "the window.",
    "trace, torch.profiler, nsys": "A short run of its own under a profiler, which says where the time of a step goes.",
    "sweep, sweep of collectives": "Exchanges of many sizes, timed in the groups of devices that the cells use.",
    "frontier, trial, search for a micro-batch": "The largest micro-batch that fits, found by a few short trials.",
    "retries": "How often torch gave its cached memory back and tried again: memory is nearly full.",
    "fp32, tf32, bf16, fp16": "Precisions of products: 32 bits; 32 with inputs shortened to 19 (NVIDIA); 16, with "
    "weights kept in fp32, of fp16 with scaled losses.",
    "offload, zero1-offload, zero2-offload, zero3-offload": "The optimizer's state and update are on the CPU, which "
    "frees memory of the device.",
    "Amdahl's law, law": "Speed-up of a fixed work of which one part, the serial fraction, does not get faster.",
    "†, !, has a finding, –": "†, in charts ! or a red ring: the row has a finding, explained below its table or "
    "under Findings. –: unknown, or does not apply.",
    "unit, us, ms, kB, MB, GB, GiB, MB/s, GB/s, MFLOP, GFLOP, TFLOP/s, FLOPs, kWh": "Units are decimal: MB is 10^6 "
    "bytes, GB/s 10^9 bytes a second; GiB alone is 2^30 bytes. A FLOP is one addition or multiplication.",
    "reference, replay, replayed": "The first steps of a campaign's training, done again by a second program: every "
    "strategy is held against its losses.",
}
GLOSSARY: Words = MEASURED | PAIRS | TRACED | LEARNT | ANSWERS


PRINTED_BEHIND = r"(\s*(\[[^\]]*\]|\([^)]*\)|[:?.,]))+$"  # a unit, an interval
OF_CELL = re.compile(r"\w-n\d+x\d+")  # its name, as of ddp-n1x2
# Parts of a cell's name: prefix -> what the number behind it is.
NAME_PARTS = {
    "n": "nodes x devices per node",
    "gb": "samples per step, the global batch",
    "mb": "samples per device and pass, the micro-batch",
    "ga": "micro-batches per step, gradient accumulation",
    "sl": "tokens per sample, sequence length",
    "t": "cores per device",
}
GEOMETRY = re.compile(r"\d+x\d+")  # nodes x devices per node
PART = re.compile(r"([a-z]+)(\d[\dx]*)")  # of a cell's name, as n1x2


def all_words() -> list[str]:
    """Return all words, each as a person would type it."""
    return [word for key in GLOSSARY for word in key.split(", ")]


def meaning_of_word(text: str) -> str | None:
    """Return the explanation of a word, in any case, with hyphens or blanks; None where it is not among the words."""
    if OF_CELL.search(text):
        return GLOSSARY["cell"]
    part = PART.fullmatch(f"n{text}" if GEOMETRY.fullmatch(text) else text)
    if part and part[1] in NAME_PARTS:
        return f"In the name of a cell: {NAME_PARTS[part[1]]}. {GLOSSARY['cell']}"
    # "corrected for 6 comparisons" is looked up as "corrected for comparisons".
    whole, *parts = map(_normalise, (re.sub(r" for \d+ (?=comparison)", " for ", text), *text.split(", ")))
    for form in (whole, *parts):  # of "loss, last step": "loss", then "last step"
        for key, explanation in GLOSSARY.items():
            if not {form, form.removesuffix("s")}.isdisjoint(map(_normalise, (key, *key.split(", ")))):  # "runs": "run"
                return explanation
    return None


def bare_word(text: str) -> str:
    """Return a word or heading without what is printed around it: "step p50" of "Step p50 (ms):", "CI" of "the CI"."""
    return re.sub(rf"^(what (is|are) )?((an?|the) )?(?=.)|{PRINTED_BEHIND}", "", text.strip().lower())


def _normalise(word: str) -> str:
    """Return a word in lower case, its hyphens and underscores as blanks, without an n before it ("n=6: too wide")."""
    return re.sub(r"[\s_-]+", " ", bare_word(re.sub(r"^n=\d+: ?", "", word))).replace(" %", "%").strip()
