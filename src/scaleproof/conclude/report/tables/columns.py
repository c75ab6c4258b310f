"""The columns of the table of cells: what each is called, which are shown first, how plain figures are scaled."""

# The columns of the public tables that people quote, then what those leave out: interval, baseline, n, findings.
HUMAN = {
    "task": "task",
    "strategy": "strategy",
    "precision": "precision",
    "model": "model",
    "vocab_size": "embedding rows",
    "seq_len": "seq len",
    "corpus": "corpus",
    "tokenizer": "tokenizer",
    "attention": "attention",
    "compile": "compile",
    "activation_checkpointing": "act. ckpt",
    "fused_optimizer": "fused opt.",
    "bucket_elements": "bucket",
    "threads_per_device": "threads/device",
    "seed": "seed",
    "geometry": "nodes x devices",
    "micro_batch": "micro-batch",
    "accumulation": "accum.",
    "global_batch": "global batch",
    "tokens_per_s": "tokens/s [95 %]",
    "samples_per_s": "samples/s",
    "n": "n",
    "letters": "group",
    "kind": "scaling",
    "relative_to_fastest": "vs fastest [95 %]",
    "speedup": "speed-up [95 %]",
    "scaling_efficiency": "efficiency [95 %]",
    "speedup_vs_best_single": "vs fastest 1-device [95 %]",
    "tokens_per_s_per_device": "tokens/s/device",
    "mfu": "MFU",
    "validation_loss": "val. loss",
    "perplexity": "perplexity",
    "accuracy": "accuracy",
    "time_to_loss_s": "time to loss (s) [95 %]",
    "target_loss": "target loss",
    "step_time_p50_s": "step p50 (ms)",
    "step_time_p95_s": "step p95 (ms)",
    "state_bytes": "state (MB)",
    "state_bytes_predicted": "ZeRO model (MB)",
    "max_cuda_mem_allocated_bytes": "peak allocated (MB)",
    "joules_per_token": "mJ/token",
    "startup_s": "start-up (s)",
    "findings": "findings",
}
RATIOS = ("speedup", "scaling_efficiency", "speedup_vs_best_single")
LEARNT = ("validation_loss", "target_loss", "time_to_loss_s")
# Configured columns: they say nothing in a table where they never change.
CONFIGURED = tuple(
    name for name in list(HUMAN)[: list(HUMAN).index("tokens_per_s")] if name not in ("strategy", "geometry")
)
# Plain figures: column -> factor between the stored value and the printed one.
PLAIN = {
    "samples_per_s": 1,
    "tokens_per_s_per_device": 1,
    "mfu": 1,
    "perplexity": 1,
    "accuracy": 1,
    "step_time_p50_s": 1e3,
    "step_time_p95_s": 1e3,
    "state_bytes": 1e-6,
    "state_bytes_predicted": 1e-6,
    "max_cuda_mem_allocated_bytes": 1e-6,
    "joules_per_token": 1e3,
    "startup_s": 1,
}
# What a narrow table shows: LaTeX columns, and the first view of the page.
MAIN = (
    "tokens_per_s",
    "n",
    "letters",
    "relative_to_fastest",
    "speedup",
    "scaling_efficiency",
    "speedup_vs_best_single",
)
# Columns of words; all others are numbers and stand on the right.
TEXT = (
    "task",
    "strategy",
    "precision",
    "model",
    "corpus",
    "tokenizer",
    "attention",
    "compile",
    "activation_checkpointing",
    "fused_optimizer",
    "bucket_elements",
    "geometry",
    "kind",
    "letters",
    "findings",
)
# How each figure is computed, for the page.
DEFINITIONS = {
    "tokens_per_s": "all tokens over all time of the timed windows of a cell's runs; interval: Student's t over runs, "
    "on the logarithm of their rates",
    "samples_per_s": "all samples over all time of the timed windows",
    "n": "measured runs, each a fresh start",
    "letters": "of the cells of one size, those that share a letter cannot be told apart, with 95 % for all pairs "
    "together; none for fewer than 3 repeats",
    "relative_to_fastest": "tokens/s over that of the fastest cell of the same size; simultaneous 95 % "
    "intervals of all pairs of that size",
    "speedup": "tokens/s of the timed window over that of the same series at its smallest number of devices; interval "
    "paired by repeat, Welch's where repeats do not match",
    "scaling_efficiency": "speed-up over the ratio of the numbers of devices",
    "speedup_vs_best_single": "tokens/s over that of the fastest cell with one device that does the same work (batch, "
    "model, data) with the same settings, strategy apart; simultaneous 95 % intervals of all cells of one size, none "
    "for fewer than 3 repeats; of a single cell paired by repeat",
    "speedup_by_job_wall_time": "wall time of the baseline's whole job over that of this one: from the "
    "launcher's start to the last result, with start-up, warm-up and validation",
    "rating": "in words where the efficiency's whole interval is: low below 0.7, excellent from 0.85",
    "karp_flatt": "serial fraction (1/S - 1/N) / (1 - 1/N) that a speed-up S on N devices stands for",
    "tokens_per_sec_global": "all tokens over all time of the timed windows of a cell's runs",
    "tokens_per_s_per_device": "tokens/s over the number of devices",
    "mfu": "model FLOPs per second over the peak of the devices",
    "validation_loss": "mean over runs of the loss on the validation samples after the window (nats)",
    "accuracy": "mean over runs of the part of the validation samples that is classified correctly",
    "time_to_loss_s": "seconds in the window until the smoothed training loss falls to the target loss",
    "step_time_p50_s": "median over the steps of all runs, each step that of its slowest rank",
    "step_time_p95_s": "95 % quantile over the steps of all runs; none for fewer than 20 steps",
    "state_bytes": "weights, gradients and optimizer state on the fullest device, largest over runs",
    "state_bytes_predicted": "the same by the model of the ZeRO paper",
    "max_cuda_mem_allocated_bytes": "peak of the memory allocated on the fullest device, largest over runs",
    "joules_per_token": "energy of the devices in the window over tokens",
    "global_batch": "samples per optimizer step: micro-batch x accumulation x devices",
}
