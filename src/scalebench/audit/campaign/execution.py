"""Did the strategy that was asked for run: its collectives, its precision, its updates?"""

from scalebench.audit.finding import Finding, about
from scalebench.campaign.model_shapes import EncoderShape, ModelShape
from scalebench.model.counts import block_parameters
from scalebench.record.run import MeasuredRun

TOLERANCE = 0.02  # padding of shards, norms and flags beside the tensors that the formulas count
LOW = {"bf16": "bfloat16", "fp16": "float16"}
KINDS = {"reduced": ("allreduce",), "gathered": ("allgather",), "scattered": ("reduce_scatter",)}


def traffic_is_the_strategys(runs: list[MeasuredRun]) -> list[Finding]:
    """Logical bytes per optimizer step, counted in a probe, against the formula of the strategy."""
    found = []
    for run in runs:
        if run.n_devices < 2 or run.metrics.training_config.strategy in ("single", "dp"):
            continue  # one device talks to nobody; nn.DataParallel copies inside of one process
        moved = moved_bytes(run)
        for kind, (low, high) in expected_bytes(run).items():
            if not low * (1 - TOLERANCE) - 4096 <= moved[kind] <= high * (1 + TOLERANCE) + 4096:
                allowed = f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"
                found.append(
                    about(
                        run,
                        "traffic-differs",
                        "invalid",
                        f"{moved[kind]:,} bytes per step are {kind}, where {run.metrics.training_config.strategy} with "
                        f"{run.metrics.training_config.accumulation} micro-batches has {allowed}",
                        "The run does not synchronise as its strategy does (too often, or not at all); its throughput is "
                        "that of another program.",
                    )
                )
    return found


def moved_bytes(run: MeasuredRun) -> dict[str, int]:
    """Logical bytes of one step by kind of collective: the full size of what is reduced, gathered or scattered."""
    collectives = run.metrics.collectives or {}
    return {
        kind: sum(c["bytes"] for name, c in collectives.items() if name.startswith(prefixes))
        for kind, prefixes in KINDS.items()
    }


def expected_bytes(run: MeasuredRun) -> dict[str, tuple[float, float]]:
    """Bytes of one optimizer step by kind: (least, most).

    P parameters of b bytes, a micro-batches:
    ddp, zero0: P reduced, once. fsdp: every micro-batch gathers the blocks twice and the rest once or twice (by version of
    torch); gradients are scattered once, in fp32. zero1: P reduced (DeepSpeed's default all-reduces where the paper
    scatters) and P gathered, once; zero2: reduced a times. zero3: P scattered a times; gathered between once (everything
    stays until the backward pass) and three times a micro-batch (Rajbhandari et al. 2020, section 7).
    """
    metrics = run.metrics
    config, shape = metrics.training_config, metrics.config["workload"]["model_shape"]
    strategy, a, p = config.strategy.removesuffix("-offload"), config.accumulation, metrics.model.parameters
    low = config.precision in LOW
    nothing = {"reduced": (0, 0), "gathered": (0, 0), "scattered": (0, 0)}
    if strategy in ("ddp", "zero0"):
        return nothing | {"reduced": (4 * p, 4 * p)}
    b = 2 if low else 4
    if strategy == "fsdp":
        kind = EncoderShape if "d_model" in shape else ModelShape
        blocks = shape["layers"] * block_parameters(kind.model_validate(shape))
        return nothing | {"gathered": (a * b * (p + blocks), 2 * a * b * p), "scattered": (4 * p, 4 * p)}
    if strategy in ("zero1", "zero2"):
        times = a if strategy == "zero2" else 1
        return nothing | {"reduced": (b * p * times, b * p * times), "gathered": (b * p, b * p)}
    return nothing | {"gathered": (b * p, 3 * a * b * p), "scattered": (a * b * p, a * b * p)}


def precision_is_what_ran(runs: list[MeasuredRun]) -> list[Finding]:
    """Matrix products were made in the precision that the cell names."""
    found = []
    for run in runs:
        precision, dtypes = run.metrics.training_config.precision, run.metrics.dtypes
        wanted = LOW.get(precision, "float32")
        products = dtypes["products"].split("+")
        tf32 = dtypes["float32_matmul"] == "high"
        if wanted not in products or (wanted == "float32" and len(products) > 1) or tf32 != (precision == "tf32"):
            found.append(
                about(
                    run,
                    "precision-differs",
                    "invalid",
                    f"{precision} was asked for; matrix products ran in {dtypes['products']}"
                    f"{' with TF32' if tf32 else ''}",
                    "The arithmetic is not that of the cell's name; compare it with nothing.",
                )
            )
    return found


def updates_are_the_steps(runs: list[MeasuredRun]) -> list[Finding]:
    """The optimizer updated the weights once in each step of the window."""
    found = []
    for run in runs:
        window = run.metrics.window
        missing = window.skipped_optimizer_steps
        if missing < 0:
            severity, advice = "invalid", "Weights were updated inside of a step: the accumulation was ignored."
        else:
            severity, advice = (
                "suspect",
                "Skipped updates (fp16 overflow) cost less time than real ones; warm up for longer.",
            )
        if missing:
            evidence = f"{window.step_time_n} steps in the window, {window.optimizer_steps} updates"
            found.append(about(run, "updates-differ-from-steps", severity, evidence, advice))
    return found


def utilization_is_possible(runs: list[MeasuredRun]) -> list[Finding]:
    """No device exceeds its peak."""
    found = []
    for run in runs:
        u = run.metrics.utilization
        if u.mfu is not None and u.mfu > 1:
            found.append(
                about(
                    run,
                    "utilization-impossible",
                    "invalid",
                    f"MFU is {u.mfu:.0%} of {u.peak_flops_per_s / 1e12:g} TFLOP/s ({u.peak_source})",
                    "Time, work or peak is wrong; the peak may be that of another device or precision.",
                )
            )
    return found
