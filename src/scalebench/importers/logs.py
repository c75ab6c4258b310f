"""Text logs of training programs: one dialect each, told apart by their lines."""

import re
from collections.abc import Callable, Iterable

from scalebench.importers.fields import Fields, figure
from scalebench.importers.reported import LoggedStep, ReportedRun, TimedSpan

N = r"([-+]?[0-9][0-9.,]*(?:[eE][-+]?[0-9]+)?)"
STEP = r"(\d{1,12})"  # more digits are no step
SETTLING = 2  # first lines of a log, in which a loss scaler finds its scale
HOURS = r"(?:([0-9]{1,6}):)?([0-9]{1,2}):([0-9]{2})"


def _whole(text: str | None) -> int | None:
    value = figure(text)
    return int(value) if value is not None and value == int(value) and value >= 0 else None


def _least(a: float | None, b: float | None) -> float | None:
    return min((v for v in (a, b) if v is not None), default=None)


def nanogpt(claim: ReportedRun, lines: Iterable[str]) -> None:
    """karpathy/nanoGPT: the iteration's time covers all micro-steps; MFU is of an A100's bf16 peak, whatever the device."""
    claim.peak_flops = 312e12
    tokens = None
    for line in lines:
        if m := re.search(rf"iter {STEP}: loss {N}, time {N}ms(?:, mfu {N}%)?", line):
            seconds, mfu = figure(m[3]), figure(m[4])
            row = LoggedStep(
                int(m[1]), seconds / 1e3 if seconds else None, figure(m[2]), mfu=None if mfu is None else mfu / 100
            )
            claim.logged_steps.append(row)
        elif m := re.search(rf"tokens per iteration will be: {N}", line):
            tokens = _whole(m[1])
        elif m := re.search(rf"number of parameters: {N}M", line):
            claim.parameters = (figure(m[1]) or 0) * 1e6 or None
        elif m := re.search(rf"step {STEP}: train loss {N}, val loss {N}", line):
            claim.best_val_loss = _least(claim.best_val_loss, figure(m[3]))
        elif m := re.search(r"world_size[ =:]+(\d{1,12})", line):
            claim.world_size = int(m[1]) or None
    if any((row.mfu or 0) > 0 for row in claim.logged_steps):
        for row in claim.logged_steps:  # -100 % is printed until the program has measured
            row.mfu = None if (row.mfu or 0) < 0 else row.mfu
    claim.details["tokens_per_step"] = tokens


def llmc(claim: ReportedRun, lines: Iterable[str]) -> None:
    """karpathy/llm.c: `step 10/100 | loss 9.5 (+nanz)| ... | 135.1 ms | 47.8% bf16 MFU | 3880000 tok/s`."""
    table = {}
    for line in lines:
        if m := re.search(
            rf"step +{STEP}/\d+ \|.*?loss {N}.*?\| {N} ms \| (?:{N}% (\w+) MFU|n/a MFU) \| {N} tok/s", line
        ):
            seconds, mfu = figure(m[3]), figure(m[4])
            claim.logged_steps.append(
                LoggedStep(
                    int(m[1]),
                    seconds / 1e3 if seconds else None,
                    figure(m[2]),
                    figure(m[6]),
                    mfu=None if mfu is None else mfu / 100,
                )
            )
            claim.precision = m[5] or claim.precision
        elif m := re.match(r"\| ([\w ()/]+?) +\| (.+?) +\|$", line):
            table[m[1].strip()] = m[2].strip()
        elif m := re.match(rf"val loss {N}", line):
            claim.best_val_loss = _least(claim.best_val_loss, figure(m[1]))
    claim.device = table.get("device")
    claim.micro_batch, claim.seq_len = _whole(table.get("micro batch size B")), _whole(table.get("sequence length T"))
    claim.world_size = _whole(table.get("num_processes")) or None
    claim.parameters = figure(table.get("num_parameters"))
    claim.details["tokens_per_step"] = _whole(table.get("total batch size"))
    claim.rate_scope = "global"


def torchtitan(claim: ReportedRun, lines: Iterable[str]) -> None:
    """pytorch/torchtitan: tps (or wps) is of one device."""
    for line in lines:
        if m := re.search(
            rf"step: +{STEP} +loss: +{N}.*?(?:tps|wps): +{N}(?:.*?tflops: +{N})?(?:.*?mfu: +{N}%)?", line
        ):
            flops, mfu = figure(m[4]), figure(m[5])
            claim.logged_steps.append(
                LoggedStep(
                    int(m[1]),
                    None,
                    figure(m[2]),
                    figure(m[3]),
                    mfu=None if mfu is None else mfu / 100,
                    flops_per_s=flops * 1e12 if flops else None,
                )
            )
        elif m := re.search(rf"Peak FLOPS used for computing MFU: {N}", line):
            claim.peak_flops = figure(m[1])
        elif m := re.search(r"(?:CUDA|GPU) capacity: (.+?) with ", line):
            claim.device = m[1]
        elif m := re.search(rf"local batch size:? {N}, global batch size:? {N}.*?sequence length:? {N}", line):
            claim.micro_batch, claim.global_batch, claim.seq_len = (_whole(v.strip(",.")) or None for v in m.groups())
        elif m := re.search(r"device mesh with \[[^\]]*\], \[([\d, ]+)\]", line):
            product = 1
            for size in m[1].split(",")[:5]:
                product *= min(int(size), 10**6) if size.strip() else 1
            claim.world_size = product or None
    claim.rate_scope = "rank"


def megatron(claim: ReportedRun, lines: Iterable[str]) -> None:
    """NVIDIA/Megatron-LM: ` iteration  100/ 5000 | consumed samples: ... | elapsed time per iteration (ms): ... |`."""
    for line in lines:
        if m := re.search(rf"iteration +{STEP}/ *\d+ \|.*?elapsed time per iteration \(ms\): {N}", line):
            seconds = figure(m[2])
            row = LoggedStep(int(m[1]), seconds / 1e3 if seconds else None)
            rest = {k.strip(): v.strip() for k, _, v in (part.rpartition(":") for part in line.split("|")[1:])}
            row.loss = figure(rest.get("lm loss"))
            flops = figure(rest.get("throughput per GPU (TFLOP/s/GPU)"))
            row.flops_per_s = flops * 1e12 if flops else None
            claim.logged_steps.append(row)
            claim.global_batch = _whole(rest.get("global batch size")) or claim.global_batch
            skipped = _whole(rest.get("number of skipped iterations")) or 0
            if len(claim.logged_steps) > SETTLING:
                claim.skipped_steps = (claim.skipped_steps or 0) + skipped
            nan = _whole(rest.get("number of nan iterations"))
            if nan:
                claim.details["nan_steps"] = claim.details.get("nan_steps", 0) + nan
        elif m := re.match(r" *(\w+) \.{3,} (\S+)", line):
            _argument(claim, m[1], m[2])


ARGUMENTS = {
    "world_size": "world_size",
    "micro_batch_size": "micro_batch",
    "global_batch_size": "global_batch",
    "seq_length": "seq_len",
    "num_gpus": "world_size",
}


def _argument(claim: ReportedRun, name: str, value: str) -> None:
    count = _whole(value)
    if name in ARGUMENTS and count:
        setattr(claim, ARGUMENTS[name], count)
    if name in ("use_pytorch_profiler", "profile") and value == "True":
        claim.debug_settings[f"--{name.replace('_', '-')}"] = "on"
    if name == "framework":
        claim.strategy = value.lower()


def blocks(claim: ReportedRun, lines: Iterable[str]) -> None:
    """Blocks that every rank prints: `Step N: loss x`, `elapsed_time_per_iteration: x s`, a rate, memory, GPUtil's table; tqdm's bar."""
    step, rows, batches, columns = None, {}, {}, []
    for line in lines:
        if m := re.search(rf"Step {STEP}: loss:? {N}", line):
            step = int(m[1])
            loss = figure(m[2])
            if loss is not None:
                claim.rank_losses.setdefault(step, []).append(loss)
            rows.setdefault(step, LoggedStep(step, loss=loss))
        elif (m := re.search(rf"elapsed_time_per_iteration:? {N} ?s", line)) and step is not None:
            seconds = figure(m[1])
            rows[step].seconds = max(rows[step].seconds or 0, seconds or 0) or None
        elif m := re.search(rf"Throughput (?:average on|\(TFLOPS\) at step) {STEP}: {N}", line):
            row = rows.setdefault(int(m[1]), LoggedStep(int(m[1])))
            row.flops_per_s = (figure(m[2]) or 0) * 1e12 or None
        elif m := re.search(rf"Torch reports memory usage: {N} ?MB", line):
            claim.memory_reported_bytes = max(claim.memory_reported_bytes or 0, (figure(m[1]) or 0) * 2**20) or None
        elif m := re.search(rf"{N}it/s\]|{N}s/it\]", line):
            _bar(claim, line, m)
        elif line.startswith("|"):
            cells = [cell.strip() for cell in line.split("|") if cell.strip()]
            columns = cells if "Memory used" in cells else columns
            if columns and len(cells) == len(columns) and cells[0].isdigit():
                _device(claim, dict(zip(columns, cells, strict=True)))
        elif m := re.match(r" *(?:\[[^\]]*\] *)*(?:--)?([\w-]+)(?: \.{3,} |: |=)(\S+)$", line):
            _argument(claim, m[1].replace("-", "_"), m[2])
        if m := re.search(r"train_micro_batch_size_per_gpu[\"' ]*[:.=]+ *(\d{1,12})", line):
            batches["engine"] = int(m[1])
        if (
            "offload_optimizer" in line
            and (m := re.search(r"device['\"]?[=: ]+<?['\"]?(?:OffloadDeviceEnum\.)?(\w+)", line))
            and m[1] != "none"
        ):
            claim.offload = m[1]
        if m := re.search(r"(?:zero_optimization_stage|zero_stage|[\"']stage[\"'])[\"' ]*[:.= ]+(\d)", line):
            claim.zero_stage = int(m[1])
        if "OVERFLOW!" in line and "kipping step" in line:
            claim.skipped_steps = (claim.skipped_steps or 0) + 1
    claim.logged_steps = [rows[s] for s in sorted(rows)]
    claim.engine_batch = batches.get("engine")
    claim.engine = "DeepSpeed" if claim.zero_stage is not None or claim.engine_batch else claim.engine
    if claim.zero_stage is not None:
        claim.strategy = f"zero{claim.zero_stage}"


def _device(claim: ReportedRun, row: dict[str, str]) -> None:
    """A line of GPUtil's table."""
    used = figure(row["Memory used"].removesuffix("MB"))
    claim.memory_used_bytes = max(claim.memory_used_bytes or 0, (used or 0) * 2**20) or None
    claim.device = row.get("Name", claim.device)


def _bar(claim: ReportedRun, line: str, speed: re.Match) -> None:
    pace = figure(speed[2]) or (1 / figure(speed[1]) if figure(speed[1]) else None)
    m = re.search(rf"{STEP}/\d+ \[{HOURS}<", line)
    if m and pace and pace > 0:
        elapsed = int(m[2] or 0) * 3600 + int(m[3]) * 60 + int(m[4])
        claim.progress_bar.append((int(m[1]), float(elapsed), pace))


# What tells a dialect (the most particular first), its name, who reads it, and the lines that its reader looks at: most lines of a log are not.
DIALECTS: tuple[tuple[str, str, Callable[[ReportedRun, Iterable[str]], None], str], ...] = (
    (
        r"elapsed_time_per_iteration",
        "text log in blocks",
        blocks,
        r"Step \d|elapsed_time|Throughput|Torch reports|it/s\]|s/it\]|^\||zero|stage|offload_optimizer|OVERFLOW|micro.batch|global.batch|"
        r"seq.length|num.gpus|world.size|framework|profile",
    ),
    (r"elapsed time per iteration \(ms\):", "Megatron-LM log", megatron, r"elapsed time per iteration|\.{3,} "),
    (
        r"step: +\d+ +loss: +[0-9.]+.*?(tps|wps): ",
        "torchtitan log",
        torchtitan,
        r"step: |Peak FLOPS|capacity: |batch size|mesh",
    ),
    (r"step +\d+/\d+ \|.*?tok/s", "llm.c log", llmc, r"step |^\| |val loss"),
    (
        r"iter \d+: loss [0-9.]+, time [0-9.]+ms",
        "nanoGPT log",
        nanogpt,
        r"iter |step |tokens per iteration|number of parameters|world_size",
    ),
)


def dialect_of(text: str) -> int | None:
    """The number of the dialect that a piece of a log is written in; None for none of them."""
    return next((i for i, (pattern, *_) in enumerate(DIALECTS) if re.search(pattern, text)), None)


def read_log(name: str, dialect: int, lines: Iterable[str]) -> ReportedRun:
    _, format_, reader, wanted = DIALECTS[dialect]
    claim, looked_at = ReportedRun(name, format_), re.compile(wanted).search
    reader(claim, (line for line in lines if looked_at(line)))
    return claim


def read_trainer_state(name: str, data: dict) -> ReportedRun:
    """transformers' trainer_state.json: losses along the way, and one rate over everything, start-up included."""
    claim = ReportedRun(name, "HF Trainer state")
    top = Fields(data, claim.problems)
    claim.micro_batch = top.count("train_batch_size")
    history = top.parts("log_history")
    for entry in history:
        step = entry.count("step", 0)
        if step is None:
            continue
        if (seconds := entry.positive("train_runtime")) is not None:
            claim.details["steps_per_second"] = entry.positive("train_steps_per_second")
            claim.timed_spans = [
                TimedSpan(
                    None, seconds, optimizer_steps=top.count("global_step"), train_loss=entry.number("train_loss")
                )
            ]
        elif (loss := entry.number("loss")) is not None:
            claim.logged_steps.append(LoggedStep(step, loss=loss))
        elif (loss := entry.number("eval_loss")) is not None:
            claim.best_val_loss = _least(claim.best_val_loss, loss)
    claim.epochs = top.count("num_train_epochs")
    return claim
