"""Did the strategy that was asked for run: its collectives, its precision, its updates, equal replicas in the end?"""

from collections import defaultdict
from collections.abc import Iterator

from scaleproof.conclude.checks.census import inventory_of_run, node_of
from scaleproof.ground.campaign.strategies import LOW, SHARDING_ZERO, without_offload
from scaleproof.ground.facts import traffic
from scaleproof.ground.findings.registry import Flag, of_run
from scaleproof.ground.number_format import integer, percent, significant
from scaleproof.ground.records.open_sections import Rank
from scaleproof.ground.records.run import MeasuredRun

# More than this share of fp32 weights that bf16 holds exactly is no chance: by chance it is 2**-16 of the weights that
# are not 0; biases and norms that have not moved from 0 and 1 are a few in a thousand.
COARSE = 0.9


@of_run.finds("traffic-differs", "invalid")
def traffic_is_the_strategys(run: MeasuredRun) -> Iterator[Flag]:
    """A step moved more or fewer bytes between ranks than its strategy must: gradients are exchanged too often, or not
    at all. The throughput is that of another program.

    Detected: Bytes of collectives in a probed step, against the strategy's formula (docs/reference.md).
    Seen: All-reduce in each micro-batch, a forgotten no_sync.
    Repair: Look at what wraps the model, and at which micro-step gradients are exchanged.
    """
    config = run.metrics.training_config
    if run.n_devices < 2 or config.strategy in ("single", "dp"):
        return  # one device talks to nobody; nn.DataParallel copies inside of one process
    moved = moved_bytes(run)
    for kind, (least, most) in expected_bytes(run).items():
        if not traffic.fits_formula(moved[kind], (least, most)):
            expected_text = integer(least)
            if least != most:
                expected_text += f" to {integer(most)}"
            yield Flag(
                f"{integer(moved[kind])} bytes per step are {kind}, where {config.strategy} with "
                f"{config.accumulation} micro-batches has {expected_text}"
            )


def moved_bytes(run: MeasuredRun) -> dict[str, int]:
    """Return the logical bytes of one step by kind of collective: the full size of what is reduced or gathered."""
    return traffic.moved_bytes(run.metrics.collectives or {})


def expected_bytes(run: MeasuredRun) -> dict[str, tuple[float, float]]:
    """Return (least, most) bytes of one optimizer step by kind of collective, by the formula of the run's strategy."""
    metrics = run.metrics
    config = metrics.training_config
    blocks = sum(inventory_of_run(run).blocks)  # parameters of all blocks
    nodes, per_node = run.geometry
    return traffic.step_traffic(
        config.strategy,
        config.precision,
        config.accumulation,
        metrics.model.parameters,
        blocks,
        nodes=nodes,
        devices_per_node=per_node,
        reshards=metrics.config["execution"].get("fsdp_reshard", True),
        reduce_dtype=metrics.config["execution"].get("reduce_dtype", "fp32"),
    )


@of_run.finds("precision-differs", "invalid")
def precision_is_what_ran(run: MeasuredRun) -> Iterator[Flag]:
    """Matrix products ran, or weights and optimizer state are stored, in another precision than the cell's name says.

    Detected: Dtypes seen by the products themselves in a probed step, the TF32 flags, and the dtypes of weights and
    optimizer state as they are: in low precision too, they are fp32 (with DeepSpeed's stages 1 to 3 the weights are
    not, but its optimizer has an fp32 copy), and 90 % of fp32 weights with no digits beyond bf16's.
    Seen: bf16 that falls back on V100; zero_stage and precision keys that are ignored (SimuMax).
    Repair: Fix the precision; do not compare this cell with any other.
    """
    precision = run.metrics.training_config.precision
    dtypes = run.metrics.dtypes
    expected_dtype = LOW.get(precision, "float32")
    product_dtypes = dtypes["products"].split("+")  # such as "bfloat16+float32"
    uses_tf32 = dtypes["float32_matmul"] == "high"
    is_tf32_wrong = uses_tf32 != (precision == "tf32")
    is_mixed = expected_dtype == "float32" and len(product_dtypes) > 1  # a low precision may have products in fp32
    if expected_dtype not in product_dtypes or is_mixed or is_tf32_wrong:
        with_tf32 = " with TF32" if uses_tf32 else ""
        yield Flag(f"{precision} was asked for; matrix products ran in {dtypes['products']}{with_tf32}")

    for name, right_dtype in _stored_dtypes(run).items():
        dtype = dtypes.get(name)
        if dtype and dtype != right_dtype:
            tensors = name.replace("_", " ")
            yield Flag(f"{tensors} are stored in {dtype}; {precision} of this strategy has {right_dtype}")

    # The share of the fp32 weights that bf16 holds exactly, on each rank.
    coarse_shares = [census.coarse for census in run.metrics.census or [] if census.coarse is not None]
    if coarse_shares and max(coarse_shares) > COARSE:
        yield Flag(f"{percent(max(coarse_shares))} of the weights are those of bf16, though they are stored in float32")


def _stored_dtypes(run: MeasuredRun) -> dict[str, str]:
    """Return the dtypes of stored weights and optimizer state. ZeRO casts the weights, and keeps fp32 masters."""
    training = run.metrics.training_config
    is_cast = without_offload(training.strategy) in SHARDING_ZERO and training.precision in LOW
    parameters = LOW[training.precision] if is_cast else "float32"
    return {"parameters": parameters, "optimizer_state": "float32"}


@of_run.finds("updates-differ-from-steps", "invalid")
def updates_are_the_steps(run: MeasuredRun) -> Iterator[Flag]:
    """The weights were updated more or less often than once a step.

    Detected: Updates counted in the optimizer, against the steps of the window; fewer are `suspect` in fp16, whose loss
    scale may overflow, and `invalid` otherwise.
    Seen: fp16 overflow that skips steps (DeepSpeed issue 2879); an accumulation that is ignored.
    Repair: Warm up until the loss scale is stable; check accumulation.
    """
    window = run.metrics.window
    missing_updates = window.skipped_optimizer_steps  # negative where there are more updates than steps
    evidence = f"{window.step_time_n} steps in the window, {window.optimizer_steps} updates"
    if missing_updates < 0:
        yield Flag(evidence, advice="Weights were updated inside of a step: the accumulation was ignored.")
    elif missing_updates and run.metrics.training_config.precision != "fp16":
        yield Flag(f"{evidence}; only fp16 can overflow", advice="Look at what the strategy's update leaves out.")
    elif missing_updates:
        advice = "Skipped updates (fp16 overflow) cost less time than real ones; warm up for longer."
        yield Flag(evidence, severity="suspect", advice=advice)


@of_run.finds("utilization-impossible", "invalid")
def utilization_is_possible(run: MeasuredRun) -> Iterator[Flag]:
    """More arithmetic per second than the device can do.

    Detected: Model FLOPs utilization above 100 % of the published dense peak.
    Seen: nanoGPT pull request 464, flame issue 7.
    Repair: Check time, work and peak; the peak may be that of another device or precision.
    """
    utilization = run.metrics.utilization
    if utilization.mfu is not None and utilization.peak_flops_per_s and utilization.mfu > 1:
        tera = utilization.peak_flops_per_s / 1e12
        yield Flag(f"MFU is {percent(utilization.mfu)} of {significant(tera, 6)} TFLOP/s ({utilization.peak_source})")


@of_run.finds("replicas-differ", "invalid", only_first=True)
def replicas_are_equal(run: MeasuredRun) -> Iterator[Flag]:
    """Ranks that hold the whole model have different weights after the last step: they did not train one model
    together.

    Detected: A checksum of the bits of all weights on each rank, at the end of the run, between ranks with one kind of
    device, of CPUs one model. Where weights are sharded (fsdp, zero3) there is nothing to compare.
    Seen: Parameters that a wrapper leaves out of the reduction; ranks that skip an update; a process group that each
    rank has to itself.
    Repair: Look at what one rank does and the others do not: reduction, learning rate, skipped updates.
    """
    checksums_by_device: dict[str, dict[int, str]] = defaultdict(dict)  # kind of device -> rank -> checksum
    for rank, census in enumerate(run.metrics.census or []):
        if census.weights is not None:
            device = _kind_of_device(run, run.metrics.ranks[rank])
            checksums_by_device[device][rank] = census.weights
    for checksums in checksums_by_device.values():
        first, *others = checksums
        if different_ranks := [str(rank) for rank in others if checksums[rank] != checksums[first]]:
            ranks_text = ", ".join(different_ranks)
            yield Flag(f"after the last step the weights of rank {ranks_text} are not those of rank {first}")


def _kind_of_device(run: MeasuredRun, rank: Rank) -> str:
    """Return the GPU's name or the CPU's model (two may round one sum in two ways), else the host's name."""
    device, host = str(rank["device_name"]), str(rank["host"])
    if device != "cpu":
        return device
    return str(node_of(run, rank).get("cpu_model", host))
