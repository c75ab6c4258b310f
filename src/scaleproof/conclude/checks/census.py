"""Is what ran what was configured: model, operations, kernels, optimizer, engine, threads, cores?"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from scaleproof.conclude.checks.updates import clipping_problems, learning_rate, update_problems
from scaleproof.ground.campaign.model_shapes import EncoderShape, ModelShape
from scaleproof.ground.campaign.strategies import is_deepspeed, is_offloaded, zero_stage
from scaleproof.ground.errors import plural
from scaleproof.ground.facts.counts import Counts, Inventory, count_parameters_and_flops, inventory_of_shape
from scaleproof.ground.findings.registry import AT_A_TIME, Flag, of_run
from scaleproof.ground.number_format import integer, megabytes, significant
from scaleproof.ground.records.census import Census, ProbedStep
from scaleproof.ground.records.open_sections import Rank
from scaleproof.ground.records.run import MeasuredRun
from scaleproof.measure.machine.network import short_host

# `execution.compile` -> what the modules that a census lists as compiled must have among them.
COMPILED = {"loss": "LossHead", "max-autotune": "with max_autotune", "reduce-overhead": "with triton.cudagraphs"}
SAME_MEMORY = 0.05  # a relative tolerance of a machine's memory: a host may take some of it back
FLOPS = 0.005  # a relative tolerance: the count is exact, but for what a later torch may count otherwise


@lru_cache(maxsize=AT_A_TIME)
def inventory_of_run(run: MeasuredRun) -> Inventory:
    """Return the tensors of the configured model: those counted on the network where a run records them, else by shape.

    Another check compares the run's count with the count of the replay (`settings-differ`).
    """
    if run.metrics.model.inventory is not None:
        return run.metrics.model.inventory
    workload, data = run.metrics.config["workload"], run.metrics.data
    shape_type = EncoderShape if "d_model" in workload["model_shape"] else ModelShape  # an encoder has other keys
    shape = shape_type.model_validate(workload["model_shape"])
    vocab_size = workload["vocab_size"]
    if not isinstance(vocab_size, int):  # "derive"
        vocab_size = data["vocab_size"]
    return inventory_of_shape(shape, vocab_size, len(data.get("classes", [])))


@lru_cache(maxsize=AT_A_TIME)
def counts_of_run(run: MeasuredRun) -> Counts:
    """Return parameters and FLOPs of the configured model by the formula, for samples of the run's mean length."""
    ledger = run.metrics.ledger
    return count_parameters_and_flops(inventory_of_run(run), ledger.tokens_consumed / ledger.samples_consumed)


@of_run.finds("model-differs", "invalid", only_first=True)
def model_is_the_configured_one(run: MeasuredRun) -> Iterator[Flag]:
    """The model that was trained is not the configured one: other layers, tables that are not tied, frozen parts.

    Detected: Parameters and trainable parameters, counted on every rank, against the formula of the shape.
    Seen: Benchmarks whose model is one layer short of its name.
    Repair: Quote the figures of no run of this model; correct what builds it.
    """
    expected_count = inventory_of_run(run).parameters
    parameter_counts = {"the trained model": run.metrics.model.parameters}
    for rank, census in enumerate(run.metrics.census or []):
        parameter_counts[f"the model of rank {rank}"] = census.parameters
        if census.trainable != census.parameters:
            frozen = census.parameters - census.trainable
            yield Flag(f"on rank {rank} {integer(frozen)} of {integer(census.parameters)} parameters are not trained")

    for model, count in parameter_counts.items():
        if count != expected_count:
            yield Flag(f"{model} has {integer(count)} parameters; the configured shape has {integer(expected_count)}")


@of_run.finds("operations-differ", "invalid", only_first=True)
def operations_are_the_models(run: MeasuredRun) -> Iterator[Flag]:
    """A step did more or less arithmetic than its configuration needs, or did it with other kernels.

    Detected: FLOPs of all products with weights, attention kernels and recomputation in a probed step of every rank,
    before and after the window, against the formula; autograd nodes made in the window, against the probed steps, and
    collectives, against the step before it; profilers, tracers and checks that were on in the window.
    Seen: Half of each sequence trained and counted whole; a frozen block; checkpointing that one strategy turned on.
    Repair: The rate is that of another program. Look at what the strategy changes in the model or in a micro-step.
    """
    if run.metrics.training_config.strategy == "dp":  # its replicas run in other threads, which a probe does not see
        return
    for rank, census in enumerate(run.metrics.census or []):
        for when, step in _probed_steps(census):
            problem = _flops_problem(run, step) or _kernel_problem(run, step)
            if problem:
                yield Flag(f"rank {rank}, step {step.step}, {when} the window: {problem}")

        if census.modes_in_window:
            modes = plural(census.modes_in_window, "dispatch mode")
            yield Flag(f"on rank {rank} {modes} watched all operations of the window")
        if census.slowed_by:
            yield Flag(f"on rank {rank}, {', '.join(census.slowed_by)} slowed all operations of the window")

        problem = _window_problem(run, census) or _witness_problem(census)
        if problem:  # no sound run on a CPU has this; on a GPU that was never tried, so that it is no proof there
            yield Flag(f"rank {rank}: {problem}", severity=None if run.is_on_cpus else "suspect")
    yield from _flag_different_ranks(run)


def _probed_steps(census: Census) -> Iterator[tuple[str, ProbedStep]]:
    """Yield ("before" or "after" the window, the step probed there); older records lack the step after it."""
    yield "before", census.before
    if census.after is not None:
        yield "after", census.after


def _window_problem(run: MeasuredRun, census: Census) -> str | None:
    """Return in words the first count of the window that does not fit the count of a step beside it; None if all fit.

    Autograd nodes, collectives, and tokens inside the model are counted. Compiled cells are not compared, since their
    probed steps build another graph.
    """
    step_count, node_count = run.metrics.window.step_time_n, census.nodes_in_window
    if node_count is None or run.metrics.config["execution"]["compile"]:
        return None
    for when, step in _probed_steps(census):
        if step.nodes is not None and node_count != step_count * step.nodes:
            return (
                f"{integer(node_count)} autograd nodes were made in the {step_count} steps of the window, "
                f"{significant(node_count / step_count, 6)} a step, and {integer(step.nodes)} in the probed step "
                f"{when} it"
            )

    collective_count, count_of_step = census.collectives_in_window, census.collectives_of_step
    may_skip = run.metrics.window.skipped_optimizer_steps > 0  # a skipped update may exchange nothing
    if (
        collective_count is not None
        and count_of_step is not None
        and not may_skip
        and collective_count != step_count * count_of_step
    ):
        mean = significant(collective_count / step_count, 6)
        return f"{mean} collectives a step were begun in the window, and {integer(count_of_step)} in the step before it"

    token_count, probed_tokens = census.tokens_inside_window, census.before.tokens_inside
    if token_count is not None and probed_tokens and token_count != step_count * probed_tokens:
        return (
            f"{significant(token_count / step_count, 6)} tokens a step reached the table of tokens inside the model in "
            f"the window, and {integer(probed_tokens)} in the probed step before it"
        )
    return None


def _witness_problem(census: Census) -> str | None:
    """Return in words the first step of a rank's witness that ran other things than the run's probed steps; else None.

    Steps before the first probed step are not compared: in them engines lay out their buckets. After the shortest
    warm-up the probed step itself does so. Then a later step may run what the step after the window runs (DDP), or lack
    the collectives of integers by which ranks agree on the order of modules (ZeRO-3): neither is a problem.
    """
    if not census.witness:
        return None
    names = (*OF_STEP, "collectives", "nodes", "tokens_inside")
    before, after = census.before, census.after
    without_integers = {name: calls for name, calls in before.collectives.items() if calls["dtypes"] != ["int64"]}
    for step in census.witness.kinds:  # only steps that ran other things than the step before them
        changes = [name for name in names if getattr(step, name) != getattr(before, name)]
        is_as_after = after and all(getattr(step, name) == getattr(after, name) for name in names)
        lacks_integers = changes == ["collectives"] and step.collectives == without_integers
        is_explained = is_as_after or lacks_integers
        if step.step >= before.step and changes and not is_explained:
            value, probed_value = getattr(step, changes[0]), getattr(before, changes[0])
            return f"{changes[0]} of step {step.step} of the witness are {value}, in the probed step {probed_value}"
    return None


def linear_flops(run: MeasuredRun) -> tuple[float, float]:
    """Return the least and the most FLOPs of products with weights in one step of one rank.

    The forward pass makes 2 for each weight and position, the backward pass 4. Activation checkpointing makes the
    blocks' forward pass again, at least half of it; a loss in chunks may make that of the head again.
    """
    execution, training = run.metrics.config["execution"], run.metrics.training_config
    samples = training.micro_batch * training.accumulation
    positions = samples * training.seq_len
    inventory = inventory_of_run(run)
    block_products = inventory.block_weights * positions
    head_products = inventory.token_weights * positions + inventory.sample_weights * samples

    least_flops = most_flops = 6.0 * (block_products + head_products)
    if execution["activation_checkpointing"]:
        least_flops += block_products  # half of the forward pass of the blocks
        most_flops += 2.0 * block_products  # all of it
    if execution.get("loss", "plain") != "plain":
        most_flops += 2.0 * head_products
    return least_flops, most_flops


def _flops_problem(run: MeasuredRun, step: ProbedStep) -> str | None:
    """Return in words how a probed step's FLOPs of products with weights differ from the formula; None if not."""
    least_flops, most_flops = linear_flops(run)
    if least_flops * (1 - FLOPS) <= step.linear_flops <= most_flops * (1 + FLOPS):
        return None
    expected_text = significant(least_flops, 4)
    if least_flops != most_flops:
        expected_text += f" to {significant(most_flops, 4)}"
    return f"{significant(step.linear_flops, 4)} FLOPs of products with weights, {expected_text} by the formula"


def _kernel_problem(run: MeasuredRun, step: ProbedStep) -> str | None:
    """Return in words how kernels or calls of attention in a probed step are not as configured; None if they are."""
    if inventory_of_run(run).is_encoder:
        return None  # its attention is that of torch's or transformers' layer
    execution = run.metrics.config["execution"]
    backward_calls = sum(calls for name, calls in step.attention.items() if name.endswith("_backward"))
    forward_calls = sum(step.attention.values()) - backward_calls

    kind = execution["attention"]
    other_kernels = [name for name in step.attention if f"_{kind}_" not in name]
    if kind in ("flash", "cudnn") and other_kernels:
        return f"attention ran in {', '.join(other_kernels)}, but {kind} is configured"
    if kind == "eager" and forward_calls:
        return f"attention ran in {', '.join(step.attention)}, but eager attention is configured"

    # For some shapes of transformers' models (one head of keys for all queries) torch itself takes plain products.
    is_own_model = run.metrics.model.inventory is None
    has_plain_products = step.batched_flops and not forward_calls  # forward calls are of fused kernels
    is_on_bound_cores = bool(run.metrics.ranks[0]["cores"])  # a rank of a GPU has none
    if is_own_model and kind != "eager" and has_plain_products and is_on_bound_cores:
        return f"attention ran in plain products, but {kind} is configured"

    # Checkpointing makes forward passes again before their backward pass.
    is_checkpointing = execution["activation_checkpointing"]
    if forward_calls and backward_calls and (forward_calls > backward_calls) != is_checkpointing:
        return (
            f"{forward_calls} forward and {backward_calls} backward passes of attention with activation checkpointing "
            f"{'on' if is_checkpointing else 'off'}"
        )
    return None


# What the probed steps of all ranks of a sound run have in common, before and after the window.
OF_STEP = ("linear_flops", "batched_flops", "attention", "updates", "products")


def _flag_different_ranks(run: MeasuredRun) -> Iterator[Flag]:
    """Flag each difference of a rank's probed steps from those of rank 0, then each between the two of one rank."""
    censuses = run.metrics.census or []
    # Gradients only before the window: FSDP2 with accumulation may or may not have cast a shard when a hook sees it.
    for when, names in (("before", (*OF_STEP, "gradients", "collectives")), ("after", (*OF_STEP, "collectives"))):
        steps = [getattr(census, when) for census in censuses]
        for rank, step in enumerate(steps[1:], start=1):
            for name, value_of_0, value in _different_fields(names, steps[0], step):
                yield Flag(
                    f"{name} differ between ranks {when} the window: {value_of_0} on rank 0, {value} on rank {rank}"
                )

    for rank, census in enumerate(censuses):
        for name, before, after in _different_fields(OF_STEP, census.before, census.after):
            yield Flag(f"{name} of rank {rank} changed during the run: {before} before the window, {after} after it")


def _different_fields(
    names: Sequence[str], step: ProbedStep | None, other: ProbedStep | None
) -> Iterator[tuple[str, Any, Any]]:
    """Yield (name, value in `step`, value in `other`) of each field that differs; nothing where a step is missing."""
    if step and other:
        for name in names:
            value, other_value = getattr(step, name), getattr(other, name)
            if value != other_value:
                yield name, value, other_value


@of_run.finds("settings-differ", "invalid", only_first=True)
def settings_are_the_configured_ones(run: MeasuredRun) -> Iterator[Flag]:
    """A setting that was read back is not the configured one: the run answers another question than its cell's name.

    Detected: Threads, cores, optimizer and its groups, fused kernels, compiled graphs and the engine's own stage,
    clipping and batch, read back on every rank; the factor by which gradients were clipped, from AdamW's first moment;
    elements with weight decay; learning rates and settings of all updates of the window; buckets, overlap, offload,
    prefetch, backend, options of DDP, the timers of DeepSpeed; torch, CPU, CPUs and memory of the machine.
    Seen: zero_stage and precision keys that are ignored (SimuMax); affinities that were recorded but never set.
    Repair: Find out who overrides the setting; run the cell again.
    """
    for rank, census in enumerate(run.metrics.census or []):
        problems = [*_host_problems(run, rank, census)]
        for _, step in _probed_steps(census):
            problems += _optimizer_problems(run, step)
        problems += _engine_problems(run, census)
        problems += clipping_problems(run, rank)
        problems += update_problems(run, census)
        if problems:
            different_problems = dict.fromkeys(problems)  # both probed steps may have the same problem
            yield Flag(f"rank {rank}: {'; '.join(different_problems)}")


def _host_problems(run: MeasuredRun, rank: int, census: Census) -> Iterator[str]:
    """Yield in words which of a rank's threads and cores, its machine and its compiled graphs are not as configured."""
    execution, record = run.metrics.config["execution"], run.metrics.ranks[rank]
    if record["device_name"] == "cpu":
        threads = execution["threads_per_device"] or 0
        if census.threads != threads:
            yield f"torch uses {census.threads} threads, {threads} are configured"
        if record["cores"] and sorted(record["cores"]) != sorted(census.cores):
            yield f"the process may use cores {census.cores}, recorded are {record['cores']}"
        if record["cores"] and len(census.cores) > threads:
            yield f"the process may use {len(census.cores)} cores, {threads} are configured"
    yield from _machine_problems(run, record, census)
    yield from _compile_problems(run, census)


def _machine_problems(run: MeasuredRun, record: Rank, census: Census) -> Iterator[str]:
    """Yield in words what a rank saw of its machine that is not what is recorded of it."""
    node = node_of(run, record)
    recorded = {"torch_version": run.metrics.env.get("torch_version"), "cpu_model": node.get("cpu_model")}
    for name, value in recorded.items():
        rank_value = census.env.get(name)
        if rank_value and value and rank_value != value:
            yield f"the rank has {name.replace('_', ' ')} {rank_value}, recorded is {value}"

    cpu_count, node_cpu_count = record.get("machine_cpus"), node.get("cpu_count")
    if cpu_count and node_cpu_count and cpu_count != node_cpu_count:
        yield f"the rank sees {plural(cpu_count, 'CPU')}, recorded are {node_cpu_count}"
    memory_bytes, node_bytes = record.get("machine_memory_bytes"), node.get("memory_bytes")
    if memory_bytes and node_bytes and not abs(memory_bytes / node_bytes - 1) <= SAME_MEMORY:  # flags NaN as well
        yield f"the rank sees {megabytes(memory_bytes)} of memory, recorded are {megabytes(node_bytes)}"


def _compile_problems(run: MeasuredRun, census: Census) -> Iterator[str]:
    """Yield in words how a rank's model is wrapped or compiled otherwise than configured."""
    execution = run.metrics.config["execution"]
    if census.wrapper and run.metrics.training_config.strategy == "single" and not execution["compile"]:
        yield f"the model is wrapped in {census.wrapper}, though the strategy is single"
    if execution["compile"] and not census.compiled_graphs:
        yield "nothing was compiled, though execution.compile is true"
    if not execution["compile"] and census.compiled_graphs:
        yield f"{census.compiled_graphs} graphs were compiled, though execution.compile is false"
    expected_part = COMPILED.get(str(execution["compile"]))  # None for true: whichever modules the strategy compiles
    if expected_part and expected_part not in census.compiled:
        compiled = census.compiled or "none of these parts"
        yield f"compiled was {compiled}, though execution.compile is {execution['compile']}"


def node_of(run: MeasuredRun, rank: Rank) -> dict[str, Any]:
    """Return the record of a rank's machine (CPU, cores, memory), empty where it has none."""
    if "nodes" not in run.metrics.hardware:  # a record of the launcher's machine alone
        return {**run.metrics.hardware} if rank["host"] == run.metrics.host["hostname"] else {}
    return run.metrics.hardware["nodes"].get(short_host(rank["host"]), {})


def _optimizer_problems(run: MeasuredRun, step: ProbedStep) -> Iterator[str]:
    """Yield in words which settings that the optimizer had in a probed step are not the configured ones."""
    work, execution = run.metrics.config["work"], run.metrics.config["execution"]
    optimizer = work["optimizer"]
    scheduled_rate = learning_rate(work, step.step)
    for group in step.groups:
        if group.kind.lower() != optimizer["name"]:
            yield f"the optimizer is {group.kind}, {optimizer['name']} is configured"
        if not abs(group.learning_rate - scheduled_rate) <= 1e-9 * max(scheduled_rate, 1e-30):  # flags NaN as well
            yield (
                f"the learning rate of step {step.step} is {significant(group.learning_rate, 6)}, by the "
                f"schedule {significant(scheduled_rate, 6)}"
            )
        if group.betas != optimizer["betas"] or group.eps != optimizer["eps"]:
            yield f"betas and eps are {group.betas} and {significant(group.eps, 6)}"
        if group.variants:
            yield f"AdamW runs with another {', '.join(group.variants)}"

    decays = {group.weight_decay for group in step.groups}
    if decays != {optimizer["weight_decay"], 0.0}:
        yield (
            f"weight decays are {sorted(decays)}, {significant(optimizer['weight_decay'], 6)} for "
            "matrices and 0 are configured"
        )

    has_fused_kernels = bool(step.updates)  # `updates`: the names of fused kernels
    if not is_offloaded(execution["strategy"]) and has_fused_kernels != execution["fused_optimizer"]:
        kernels = ", ".join(step.updates) or "none"
        yield (
            f"fused kernels of the update: {kernels}, though execution.fused_optimizer is "
            f"{execution['fused_optimizer']}"
        )


def _engine_problems(run: MeasuredRun, census: Census) -> Iterator[str]:
    """Yield in words which settings that DeepSpeed reports of itself are not the configured ones."""
    training, work = run.metrics.training_config, run.metrics.config["work"]
    if is_deepspeed(training.strategy) != (census.engine is not None):
        yield f"strategy {training.strategy} ran {'with' if census.engine else 'without'} an engine"
    if not census.engine:
        return
    configured = {
        "zero_stage": zero_stage(training.strategy),
        "gradient_clipping": work["optimizer"]["max_grad_norm"],
        "micro_batch": training.micro_batch,
        "accumulation": training.accumulation,
    }
    for name, value in configured.items():
        if census.engine.get(name) != value:
            yield f"the engine's {name} is {census.engine.get(name)}, {value} is configured"
