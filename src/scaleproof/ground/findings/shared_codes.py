"""Codes that the checks of `conclude` and of `auditor` can both raise: in own runs and in anybody's results."""

from scaleproof.ground.findings.registry import Code

RATE_TIMES_TIME = Code(
    "rate-times-time",
    "invalid",
    what="Rate, time and tokens are three statements of one fact. Where they disagree, at least one figure is "
    "of something else.",
    detected="tokens/s x seconds differs from the tokens by more than 1 % (15 % for rates that are printed as "
    "moving averages). Products of medians and percentiles are not looked at: they need not be the work.",
    seen="optimum-benchmark divides all steps by the mean of one step.",
    repair="Divide the tokens that were processed by the seconds that processing them took; quote nothing else.",
)

TOKENS_DIFFER_FROM_BATCHES = Code(
    "tokens-differ-from-batches",
    "invalid",
    what="The tokens that the file counts are not those of its own batches, so every rate made of them is off "
    "by the same factor.",
    detected="micro-batch x world size x seq_len x micro-steps differs from the tokens by more than the last, "
    "smaller micro-step.",
    seen="DeepSpeed issues 62 and 152: batch in the JSON, another in the loader.",
    repair="Count the tokens where they are consumed, on every rank, and add them.",
)

SUPER_LINEAR = Code(
    "super-linear",
    "suspect",
    what="More than N times as fast on N devices: caches can do that now and then; counting faults do it every day.",
    detected="Speed-up above 1.03 x N. A note up to 1.05 x N.",
    seen="GPT-2 on 1, 2 and 4 L4 with DataParallel, DDP, ZeRO-2 and ZeRO-3: 2.246 times on two devices, 4.789 on four.",
    repair="Look for a batch that is multiplied, a baseline with start-up in it, or another program at N = 1.",
)

SLOWER_WITH_MORE = Code(
    "slower-with-more",
    "note",
    what="More devices make it slower. Small models on slow networks do that; ranks that repeat each other's "
    "work look the same.",
    detected="Speed-up below 0.98.",
    seen="a text classifier with DDP on 4 GPUs: “negative scaling”.",
    repair="Count the samples that each rank consumed before explaining it by communication.",
)

SINGLE_RUN = Code(
    "single-run",
    "note",
    what="One run has no spread. Whether a difference is more than chance cannot be said.",
    detected="A configuration with one run.",
    seen="All five projects in part.",
    repair="Repeat each configuration in fresh processes, five times or more.",
)

RUN_COPIED = Code(
    "run-copied",
    "invalid",
    what="Two runs are one run: intervals over them are too narrow, down to zero width.",
    detected="Equal run ids, equal series of steps, or equal times to all of many digits; in anybody's files of runs "
    "whose names differ only by the repeat, or equal times in four of five steps on other numbers of devices, or equal "
    "bytes under the name of another configuration.",
    seen="Repeats that were filled up with copies.",
    repair="Remove the copies and run the missing repeats.",
)
