"""What each finding about anybody's results means: one page a code. `scalebench explain` prints them; docs/audit.md is that text."""

from dataclasses import dataclass

from scalebench.audit.registry import Code
from scalebench.audit.shared_codes import SHARED


@dataclass(frozen=True)
class Page:
    """`what` is wrong and why it matters, how it is `detected`, where it was `seen`, how to `repair` it."""

    what: str
    detected: str
    seen: str
    repair: str


_V100 = "GPT-2 on 1, 2 and 4 V100 with a fixed global batch"
_NODES = "GPT-2 on two nodes of V100, before and after a change of bucket sizes"
_L4 = "GPT-2 on 1, 2 and 4 L4 with DataParallel, DDP, ZeRO-2 and ZeRO-3"
_H100 = "ZeRO stages and precisions on one H100"
_NEWS = "a text classifier with DDP on 4 GPUs"

PAGES: dict[str, Page | Code] = {code.name: code for code in SHARED} | {
    "rate-of-one-rank": Page(
        "The rate is that of one rank, where the reader takes it for all: N devices look slower than one.",
        "Rate x time is exactly 1/N of the tokens, or of the single run's rate x time over the same epoch.",
        f"{_V100}, its T4 runs: 11,213 tokens/s on four devices after 12,915 on one; all four made 44,854.",
        "Add the tokens of all ranks before dividing, and name the figure global or per device.",
    ),
    "rate-multiplied": Page(
        "A rate that counted all ranks already was multiplied by their number again.",
        "Rate x time is exactly N times the tokens.",
        "huggingface/optimum-benchmark issue 29 asks whether to multiply.",
        "Multiply a per-rank rate once, a global rate never.",
    ),
    "steps-differ-from-batches": Page(
        "Optimizer steps are not micro-steps over accumulation: accumulation was ignored, or steps are counted by another rule.",
        "optimizer steps outside of floor and ceiling of micro-steps / accumulation.",
        "DeepSpeed issues 2165 and 2498: the throughput timer is wrong with accumulation.",
        "Ask the optimizer how often it has updated; do not compute it.",
    ),
    "each-rank-trained-on-everything": Page(
        "Without a sampler each of N ranks trains on all of the data: N times the work in an epoch, reported as slow scaling.",
        "Samples of an epoch are N times the data set; or micro-steps per epoch do not fall with N; or the loss per epoch falls much faster "
        "with N ranks while an epoch takes as long or longer.",
        f"{_NEWS}: a test of an attribute that does not exist switched the sampler off; 0.46x and 0.80x were 1.85x and 3.20x.",
        "Give each rank its share (DistributedSampler with set_epoch) and assert that the ranks' sample ids are disjoint; run again.",
    ),
    "mean-of-rates": Page(
        "A mean of rates weighs a short epoch like a long one.",
        "The stated mean differs from all tokens over all time by more than 1 %.",
        "Rule 4 of Hoefler and Belli, Scientific benchmarking of parallel computing systems (2015).",
        "Divide the sum of the tokens by the sum of the times.",
    ),
    "files-disagree": Page(
        "Two files of one run tell different figures; one of them is of another run.",
        "World size, rate or wall time in RUN_COMPLETE or in the launcher's record differ from the metrics by more than 0.1 %.",
        "none yet",
        "Write every run into a folder of its own, and the marker of completion last.",
    ),
    "sawtooth-timer": Page(
        "The step timer is restarted only where something is printed, so that most step times hold several steps: throughput is too low by half of "
        "the period.",
        "Times since the last fall are 1, 2, ... p times one base time, within 15 % for four fifths of the steps, with one period p of 3 or more.",
        f"{_H100}: a restart every tenth step made 23,174 tokens/s of 115,869.",
        "Read the clock once a step, outside of any branch.",
    ),
    "interval-over-cumulative": Page(
        "The time since the last log line is divided by all steps so far: the printed time falls and the rate rises with every line.",
        "printed time x all steps equals the interval on the progress bar's clock; or printed times fall as 1, 1/2, 1/3, ...; other logs of the same "
        "program are suspect with it.",
        f"{_L4}: throughput doubles from step 15 to step 30 in every log.",
        "Divide an interval by the steps in that interval.",
    ),
    "sampled-steps-miss-update": Page(
        "Every n-th micro-step is timed and every m-th updates the weights; with a common divisor the two never meet, so that step times leave out "
        "gradient exchange, clipping and the optimizer.",
        "gcd(n, accumulation) > 1, and time over micro-steps exceeds the recorded mean by more than 5 %.",
        f"{_NODES}: 51.8 ms recorded, 273 ms needed.",
        "Time whole optimizer steps, all of them.",
    ),
    "percentile-of-few": Page(
        "A 95th percentile of five numbers is their maximum; of one number it is that number.",
        "Fewer than 20 timed steps behind it.",
        f"{_NODES}: p95 of 5 samples, and of 1.",
        "Time every step; print a percentile only from 20 samples (p99: 100).",
    ),
    "warmup-in-window": Page(
        "First steps start libraries, allocate and compile; an average with them depends on how long the run was.",
        "The first epoch takes 1.15 times the others or more, the first step 3 times; or the program is known to count from the first step.",
        f"{_V100}, an early set: first epoch 22.1 s, then 16.4 s.",
        "State a number of warm-up steps and start the clock after them.",
    ),
    "identical-losses": Page(
        "Ranks with different samples have different losses. Equal to the last digit means equal batches: N devices did one device's work.",
        "All ranks print the same loss at every logged step. `invalid` where a run with one device prints it too; otherwise the program may average before printing.",
        f"{_L4}: 2.550994634628296 on all ranks; no sampler and one seed.",
        "Give each rank its share of the data; print the loss before it is averaged, once, to see that they differ.",
    ),
    "batch-multiplied": Page(
        "nn.DataParallel splits the loader's batch over the devices. Counting that batch once per device multiplies throughput by N.",
        "Strategy dp, equal stated work per device and step at 1 and N devices, while the first device's memory shrinks.",
        f"{_L4}: 3.88 times on four devices were 0.97 times; transformers issue 24345.",
        "Count the loader's batch once.",
    ),
    "runs-interleaved": Page(
        "Two runs wrote to one file. Sums and averages over it are of neither.",
        "An epoch is there twice, or epochs are out of order.",
        f"{_NEWS}: 35 rows, epochs 6, 1, 7, 2, ...",
        "Give every run a folder of its own; never append to a file that is there.",
    ),
    "baseline-other-program": Page(
        "The run with the fewest devices used another engine or precision, so that the speed-up is of the program and of the devices at once.",
        "Engine or precision differ between a run and the most similar baseline among the files.",
        f"{_V100}: autocast on one device, fp16 DeepSpeed on two and four; 0.97 and 0.85 mix both.",
        "Run the same program at every number of devices; show the best single-device program in a column of its own.",
    ),
    "baseline-other-surroundings": Page(
        "Baseline and run come from different commits, versions, launchers or devices.",
        "These fields differ between a run and its baseline.",
        f"{_V100}: one commit for 1 GPU, another for 2 and 4.",
        "Run all sizes from one commit in one environment.",
    ),
    "arms-differ": Page(
        "Two arms of a comparison that differ in more than one thing: the difference has no one cause.",
        "Runs of equal work on equally many devices, where no other run differs in one recorded condition only.",
        f"{_NODES}: commit and configuration; the profile also in accumulation, logs and nodes.",
        "Change one thing; run both arms from one commit, in turn, several times.",
    ),
    "run-counted-twice": Page(
        "The same run lies in several folders; counted as repeats, its copies make a spread that is too small.",
        "Equal run_id and equal rate.",
        "Repositories that keep curated copies beside the folders of their runs.",
        "Audit one of the copies; repeats are runs of their own.",
    ),
    "spread-of-one-run": Page(
        "A standard deviation of 0.0 from one run reads as perfect repeatability.",
        "Spread 0.0 beside one file of metrics.",
        f"{_V100}, its scaling report.",
        "Print n=1 and no spread.",
    ),
    "sharding-one-device": Page(
        "ZeRO and FSDP divide state among devices; with one there is nothing to divide, and what is measured is their overhead.",
        "World size 1 with a sharding strategy.",
        f"{_H100}: read as a result about ZeRO.",
        "Label it overhead only, or use two devices and more.",
    ),
    "fp32-without-tf32": Page(
        "fp32 without TF32 does not use the tensor cores. A gain of 16 bits over it is mostly the gain of using them.",
        "fp32 runs beside 16-bit runs, none of them TF32; `suspect` where the device is known to have TF32.",
        f"{_H100}: “3.1 times” over strict fp32.",
        "Add TF32 as a row (torch.backends.cuda.matmul.allow_tf32), and bf16.",
    ),
    "offload-undisclosed": Page(
        "With the optimizer on the CPU a run measures the bus and the CPU's Adam, beside runs that do not.",
        "offload_optimizer in a log's configuration, and no word of it in the run's name.",
        f"{_L4}: ZeRO-2 and ZeRO-3.",
        "Name it in the row, or switch it off.",
    ),
    "engine-batch-differs": Page(
        "The engine scales losses and counts steps by a batch that it does not get.",
        "train_micro_batch_size_per_gpu in a log differs from the program's own micro-batch.",
        f"{_L4}: told 4 and 2, fed 8; {_H100}: told 4, fed 32.",
        "Let one number feed both.",
    ),
    "hash-of-the-file": Page(
        "A hash of the configuration file does not change when the command line overrides it.",
        "One hash beside different batches.",
        f"{_V100}: one sha256 for accumulation 2 and 1.",
        "Hash the configuration that the engine reports after start.",
    ),
    "report-differs-from-runs": Page(
        "A table's speed-ups do not follow from its own rates.",
        "speed-up against rate / first rate, efficiency against speed-up / N: more than 1 % apart.",
        f"{_NEWS}: one chart divides by the index of the bar.",
        "Compute tables from files, in one place.",
    ),
    "comparison-refused": Page(
        "The program that made this table found that its runs are not comparable.",
        "Status invalid_comparison, or a list of mismatches.",
        f"{_V100}: its own check rejects the table in its README.",
        "Run the sizes with equal settings.",
    ),
    "profiled-run": Page(
        "Profilers, collective logs, synchronising timers and debugging slow runs down, and not all runs alike.",
        "Command lines, environments and configurations that are recorded: nsys, --profile, NCCL_DEBUG=INFO, TORCH_DISTRIBUTED_DEBUG, wall_clock_breakdown, ...",
        f"{_NODES}: 24,091 tokens/s under a profiler, 35,807 without.",
        "Take throughput from a run without any of them.",
    ),
    "validation-zero": Page(
        "A validation loss of 0.0 is the sum of nothing; as a best loss it beats every model.",
        "Exactly 0.",
        f"{_NODES}: best_val_loss 0.0 with no validation steps.",
        "Write null where nothing was validated.",
    ),
    "updates-skipped": Page(
        "fp16 overflow skips updates: such steps are cheaper and the work is not done.",
        "Skipped iterations in the log.",
        f"{_NODES}: 38 updates in 40 steps; DeepSpeed issue 2879.",
        "Warm up until the loss scale is stable; count updates; prefer bf16.",
    ),
    "not-finite": Page(
        "NaN or infinity in the figures of a run.",
        "Values that are not finite.",
        "none yet",
        "Find the step at which it began; a run without finite losses did not do the work.",
    ),
    "field-unusable": Page(
        "A field does not hold what its name says; it was left out of all checks.",
        "Text where a number belongs, times and rates of 0 or below, broken rows.",
        "none yet",
        "Write null for unknown, and numbers as numbers.",
    ),
    "field-missing": Page(
        "A field of the file's schema is missing; what it would say is derived, or unknown.",
        "Fields that other files of the schema have.",
        f"{_V100}: deepspeed_enabled.",
        "Raise the schema's version when fields change.",
    ),
    "mfu-impossible": Page(
        "More than the peak of the device, or less than nothing.",
        "MFU above 100 % or below 0.",
        "nanoGPT pull request 464 (104 %), flame issue 7 (133 %), llm.c issue 796 (-100 %).",
        "Check tokens, time, parameter count and peak; print no figure for a device that is not in the table.",
    ),
    "peak-of-another-device": Page(
        "The MFU is relative to the peak of another device, precision, or to one with sparsity.",
        "The peak that the program divided by is none of the device's published dense ones.",
        "torchtitan falls back to an A100's 312 TFLOP/s; torchtitan issues 668 and 2307.",
        "Take the dense peak of this device and precision, with its source; otherwise print nothing.",
    ),
    "peak-assumed": Page(
        "nanoGPT divides by an A100's bf16 peak whatever it runs on.",
        "A log of nanoGPT, and no word about the device.",
        "nanoGPT, estimate_mfu.",
        "Say which device it was (`runs:` in a claims file), or recompute.",
    ),
    "parameter-count": Page(
        "FLOPs and MFU follow from the parameters; a head that is not tied to the token table adds a third to GPT-2 small.",
        "Stated parameters against those of the shape.",
        f"{_V100}: “124M” is 163,037,184 with its untied head.",
        "Count the parameters of the model that is built.",
    ),
    "memory-after-step": Page(
        "Memory that is allocated after a step is what is left, not what was needed.",
        "The framework's figure is below a fifth of what the driver sees.",
        f"{_L4}: 651.7 MB reported, 21.5 GB in use.",
        "Report the peaks of allocated and reserved memory, reset after the warm-up.",
    ),
    "inclusive-times-summed": Page(
        "Inclusive times hold the time of nested operators; their sum counts it several times. `note` where nobody has published the sum.",
        "The sum of inclusive device times exceeds that of own times by half; `invalid` where a claim equals it.",
        f"{_L4}: 125 s published, 21.8 s of device time.",
        "Add the column of own times.",
    ),
    "profiles-of-different-length": Page(
        "Sums over profiles of different numbers of steps are not comparable.",
        "ProfilerStep counts differ between profiles.",
        f"{_L4}: 15 and 10 steps.",
        "Divide by the profiled steps.",
    ),
    "pollers-overlap": Page(
        "Pollers of earlier runs still write into this file and load this run.",
        "Samples of one device whose time goes backwards.",
        f"{_H100}: the wrapper was killed, its nvidia-smi lived on.",
        "Stop the process that polls, not its wrapper; one file for each run.",
    ),
    "claim-not-in-data": Page(
        "The published figure does not come out of the files that are published with it.",
        "More than 0.5 % (and 0.006) between the statement and the figure computed anew.",
        f"{_L4}: 4.789 comes out of no log.",
        "Generate tables from files; retype nothing.",
    ),
    "claim-without-files": Page(
        "A statement about a run whose files are not here.",
        "The name of the run occurs in no file.",
        f"{_H100}: no step log was published.",
        "Publish the raw series beside the table.",
    ),
    "difference-of-single-runs": Page(
        "Two runs always differ. Without repeats nobody knows whether more than two runs of one arm do.",
        "A claimed change with n=1 in an arm.",
        f"{_NODES}: +19.5 %.",
        "Run both arms in turn, several times, and give an interval.",
    ),
    "communication-negative": Page(
        "Communication as “time at N minus time at 1” comes out below zero: it is a difference of two programs, not of communication.",
        "A communication time below zero.",
        f"{_L4}: -0.115 and -0.133 s.",
        "Measure the collectives' kernels in a trace, what overlaps and what does not apart.",
    ),
    "amdahl-below-one": Page(
        "Amdahl's law has no speed-up below 1; a parallel fraction from one means nothing.",
        "P from S < 1, or a P that the formula does not give.",
        f"{_NEWS}: P = 0.43 from 0.46x; the formula gives -1.57.",
        "Fit only where S > 1, from three sizes or more; otherwise look for the fault.",
    ),
    "shares-of-different-totals": Page(
        "Percentages of different totals are compared as if they were of one.",
        "Two shares of the same thing in two runs, of totals that are named differently.",
        f"{_NODES}: 40.8 % and 16.8 % are of sums of different nested ranges; of all kernel time both are above 85 %.",
        "Compare seconds per step, or shares of one total.",
    ),
    "shares-contradict": Page(
        "Two shares of the same thing in the same run cannot both describe it.",
        "More than 1.5 times apart.",
        f"{_NODES}: all-reduce 16.8 % of ranges, 87.9 % of kernel time.",
        "Name the total, and take kernel time for communication.",
    ),
    "parts-exceed-step": Page(
        "The parts of a step take longer than the step: they were assumed, not measured.",
        "Computing plus communicating exceeds the measured step by more than 10 %.",
        f"{_NEWS}: 17.5 + 32.5 ms in steps of 11.3 ms.",
        "Measure the parts in a trace, or leave them out.",
    ),
    "file-unreadable": Page(
        "A file could not be read; what it says is in no check.",
        "Cut off, empty, binary, too large, of a broken structure.",
        "none yet",
        "Write whole files or none (write beside, then rename), and make the run anew.",
    ),
    "run-failed": Page("A run without numbers.", "Its status says so.", "none yet", "See its reason; keep it as a row of the table."),
}  # fmt: skip
