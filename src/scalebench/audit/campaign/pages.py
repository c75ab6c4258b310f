"""What each finding about a run of our own means: one page a code, beside those of audit/external/pages.py."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Page:
    """`what` is wrong and why it matters, how it is `detected`, where it was `seen`, how to `repair` it."""

    what: str
    detected: str
    seen: str
    repair: str


PAGES: dict[str, Page] = {
    "ledger-differs-from-plan": Page(
        "The ranks consumed other samples than planned: some twice, some never, so that throughput counts repeated work.",
        "Sample ids that every rank wrote down, against the plan made anew from the configuration.",
        "Every benchmark without a sampler; openvla issue 125, voxceleb_trainer issue 98.",
        "Give the ranks disjoint shares of each global batch.",
    ),
    "text-damaged": Page(
        "Bytes of the corpus that were not UTF-8 stand as U+FFFD in what was trained on. Times are not touched by it.",
        "Replacements counted when the corpus was read.",
        "Old text collections in Latin-1.",
        "Convert the files before the corpus is built.",
    ),
    "wrong-world": Page(
        "The ranks ran on other nodes or devices than the cell's name says: the figures are those of another geometry.",
        "Host and device that every rank wrote down, against the cell.",
        "Rendezvous that fell back to localhost, each node its own world (pith-train issue 91).",
        "Run the cell again on the nodes that it asks for.",
    ),
    "traffic-differs": Page(
        "A step moved more or fewer bytes between ranks than its strategy must: gradients are exchanged too often, or not at all.",
        "Bytes of collectives in a probed step, against the strategy's formula (README).",
        "All-reduce in each micro-batch, a forgotten no_sync.",
        "Look at what wraps the model, and at which micro-step gradients are exchanged.",
    ),
    "precision-differs": Page(
        "The matrix products ran in another precision than the cell's name says.",
        "Dtypes seen by the products themselves in a probed step, and the TF32 flags.",
        "bf16 that falls back on V100; zero_stage and precision keys that are ignored (SimuMax).",
        "Mend the precision; compare this cell with nothing.",
    ),
    "updates-differ-from-steps": Page(
        "The weights were updated more or less often than once a step.",
        "Updates counted in the optimizer, against the steps of the window.",
        "fp16 overflow that skips steps (DeepSpeed issue 2879); an accumulation that is ignored.",
        "Warm up until the loss scale is stable; check accumulation.",
    ),
    "utilization-impossible": Page(
        "More arithmetic per second than the device can do.",
        "Model FLOPs utilization above 100 % of the published dense peak.",
        "nanoGPT pull request 464, flame issue 7.",
        "Check time, tokens and peak.",
    ),
    "losses-differ": Page(
        "Runs that must do the same work have other losses: they did not.",
        "The loss of every step of runs with one workload, global batch and seed, within the tolerance of their precision.",
        "Ranks that do not exchange gradients; a sampler that differs.",
        "Do not compare their times.",
    ),
    "surroundings-differ": Page(
        "Code, versions, environment or hardware changed between runs that are compared.",
        "Fields of provenance that are not equal in all runs.",
        "One commit for one GPU, another for four.",
        "Run all cells again in one environment.",
    ),
    "run-stands-out": Page(
        "One run of a cell is much faster or slower than its repeats.",
        "More than 1.25 times from the middle one.",
        "Shared machines.",
        "Make the cell anew on a quiet machine; nothing is dropped in silence.",
    ),
    "incomparable-baseline": Page(
        "Something around a cell differs from its baseline that nobody declared, so that no ratio is formed.",
        "Provenance of a cell against that of its baseline.",
        "One commit for one GPU, another for four.",
        "Run both in one environment, or declare the difference.",
    ),
    "validation-differs-from-plan": Page(
        "The validation loss is that of other samples than planned, so that it cannot be compared with others.",
        "Ids of the held-out samples that the ranks scored, against those of the configuration.",
        "Evaluation on a shard of the data by each rank, averaged as if it were all.",
        "Give every rank its share of the same held-out samples.",
    ),
    "learns-differently": Page(
        "A cell ends with another validation loss than others that did the same work: it may be fast because it learns less.",
        "Validation losses after the last step, within the tolerance of the precision.",
        "Reduced precision without master weights; gradients that are summed where they should be averaged.",
        "Find the difference before its speed is told; tokens that teach less are not the same work.",
    ),
    "profiler-slows": Page(
        "A profiler made the traced steps longer, so that their milliseconds are not those of a timed step.",
        "Step time under the profiler over that of the timed runs of the cell: told above 1.1, suspect above 1.5.",
        "One published figure of 19,028 tokens/s was taken with a profiler and NCCL's log on.",
        "Believe shares of the step before its times; trace fewer steps.",
    ),
    "trace-missing": Page(
        "There is no trace of a cell that should have one. Times are not touched by it.",
        "The capture's own record.",
        "Profilers that the machine does not allow.",
        "capture.log says why; `scalebench retry` takes the failed trace away.",
    ),
    "trace-not-understood": Page(
        "Too much device time is in kernels of no known class: they may communicate, so communication is unknown.",
        "Share of the device time in classified kernels, against the coverage mark of 95 %.",
        "A renamed NCCL kernel made the overlap of a published analysis 0.",
        "Add the names to trace/kernel_classes.py.",
    ),
    "trace-incomplete": Page(
        "The trace lost events, or ranks are not in it.",
        "Events that the tool says it has dropped; ranks of the run against those of the trace.",
        "Traces of one node of two.",
        "Trace fewer steps; trace.nodes: all.",
    ),
    "trace-steps-differ": Page(
        "The steps in the trace are not those that the trainer timed.",
        "Number and length of the `step` ranges against the trainer's clock, 5 %.",
        "Captures that end too early.",
        "Trace again; a longer warm-up helps where the profiler starts late.",
    ),
    "trace-collectives-differ": Page(
        "A traced step has more or fewer collectives than a probed step of the same run: communication is missing or counted twice.",
        "Calls of collectives in the trace against those that the dispatcher counted.",
        "Kernels with names that nobody looked for.",
        "Do not trust the communication times of this trace.",
    ),
}
