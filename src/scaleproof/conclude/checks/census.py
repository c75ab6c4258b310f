"""Is what ran what was configured: model, operations, kernels, optimizer, engine, threads, cores?"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from scaleproof.conclude.checks.updates import clipping_problems, learning_rate, update_problems
from scaleproof.ground.campaign.model_shapes import EncoderShape, ModelShape
from scaleproof.ground.campaign.strategies import is_deepspeed, is_offloaded, zero_stage
from scaleproof.ground.errors import plural
from scaleproof.ground.facts.counts import Counts, Inventory, count_parameters_and_flops, inventory_of_shape
from scaleproof.ground.findings.registry import AT_A_TIME, Code, Flag, of_run
from scaleproof.ground.number_format import integer, megabytes, significant
from scaleproof.ground.records.census import Census, ProbedStep
from scaleproof.ground.records.open_sections import Rank
from scaleproof.ground.records.run import MeasuredRun
from scaleproof.measure.machine.network import short_host

# `execution.compile` -> what the modules that a census lists as compiled must have among them.
COMPILED = {"loss": "LossHead", "max-autotune": "with max_autotune", "reduce-overhead": "with triton.cudagraphs"}
SAME_MEMORY = 0.05  # relative, of a machine: a host may take some of it back
FLOPS = 0.005  # relative; the count is exact, but for what a later torch may count otherwise


@lru_cache(maxsize=AT_A_TIME)
def inventory_of_run(run: MeasuredRun) -> Inventory:
    """Return the tensors of the configured model: those counted on the network where a run records them, else by shape.

    What was counted is held against the replay's own count elsewhere (`settings-differ`).
    """
    if run.metrics.model.inventory is not None:
        return run.metrics.model.inventory
    described = run.metrics.config["workload"]["model_shape"]
    shape_type = EncoderShape if "d_model" in described else ModelShape  # an encoder's shape has other keys
    shape = shape_type.model_validate(described)
    rows = run.metrics.config["workload"]["vocab_size"]  # of the embedding, or "derive"
    vocabulary = rows if isinstance(rows, int) else run.metrics.data["vocab_size"]
    return inventory_of_shape(shape, vocabulary, len(run.metrics.data.get("classes", [])))


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
    expected = inventory_of_run(run).parameters
    counted = {"the trained model": run.metrics.model.parameters}
    for rank, census in enumerate(run.metrics.census or []):
        counted[f"the model of rank {rank}"] = census.parameters
        if census.trainable != census.parameters:
            frozen = census.parameters - census.trainable
            yield Flag(f"on rank {rank} {integer(frozen)} of {integer(census.parameters)} parameters are not trained")
    for what, parameters in counted.items():
        if parameters != expected:
            yield Flag(f"{what} has {integer(parameters)} parameters; the configured shape has {integer(expected)}")


@of_run.finds("operations-differ", "invalid", only_first=True)
def operations_are_the_models(run: MeasuredRun) -> Iterator[Flag]:
    """A step did more or less arithmetic than its configuration needs, or did it with other kernels.

    Detected: FLOPs of all products with weights, attention kernels and recomputation in a probed step of every rank,
    before and after the window, against the formula; autograd nodes made in the window, against the probed steps, and
    collectives, against the step before it; profilers, tracers and checks that were on in the window.
    Seen: Half of each sequence trained and counted whole; a frozen block; checkpointing that one strategy turned on.
    Repair: The rate is that of another program. Look at what the strategy changes in the model or in a micro-step.
    """
    if run.metrics.training_config.strategy == "dp":  # its replicas run in threads of their own
        return
    for rank, census in enumerate(run.metrics.census or []):
        for when, step in (("before", census.before), ("after", census.after)):
            if step is None:
                continue
            problem = _flops_problem(run, step) or _kernel_problem(run, step)
            if problem:
                yield Flag(f"rank {rank}, step {step.step}, {when} the window: {problem}")
        if census.modes_in_window:
            yield Flag(
                f"on rank {rank} {plural(census.modes_in_window, 'dispatch mode')} watched all operations of the window"
            )
        if census.slowed_by:
            yield Flag(f"on rank {rank}, {', '.join(census.slowed_by)} slowed all operations of the window")
        problem = _window_problem(run, census) or _witness_problem(census)
        if problem:  # never seen in a sound run on a CPU; nobody has looked on a GPU
            yield Flag(f"rank {rank}: {problem}", severity=None if run.is_on_cpus else "suspect")
    yield from _flag_different_ranks(run)


def _window_problem(run: MeasuredRun, census: Census) -> str | None:
    """Return in words the first count of the window that does not fit that of a step beside it; None if all fit.

    Counted are autograd nodes, collectives, and tokens inside the model. Compiled cells are not compared, since their
    probed steps build another graph.
    """
    steps, nodes = run.metrics.window.step_time_n, census.nodes_in_window
    if nodes is None or run.metrics.config["execution"]["compile"]:
        return None
    for when, step in (("before", census.before), ("after", census.after)):
        if step and step.nodes is not None and nodes != steps * step.nodes:
            return (
                f"{integer(nodes)} autograd nodes were made in the {steps} steps of the window, "
                f"{significant(nodes / steps, 6)} a step, and {integer(step.nodes)} in the probed step {when} it"
            )
    begun, of_step = census.collectives_in_window, census.collectives_of_step
    may_skip = run.metrics.window.skipped_optimizer_steps > 0  # a skipped update may exchange nothing
    if begun is not None and of_step is not None and begun != steps * of_step and not may_skip:
        a_step = significant(begun / steps, 6)
        return f"{a_step} collectives a step were begun in the window, and {integer(of_step)} in the step before it"
    inside = census.tokens_inside_window
    if inside is not None and census.before.tokens_inside and inside != steps * census.before.tokens_inside:
        return (
            f"{significant(inside / steps, 6)} tokens a step reached the table of tokens inside the model in the "
            f"window, and {integer(census.before.tokens_inside)} in the probed step before it"
        )
    return None


def _witness_problem(census: Census) -> str | None:
    """Return in words the first step of a rank's witness that ran other things than the run's probed steps; else None.

    Engines lay out their buckets in the first steps, so that no step before the first probed one is compared. After
    the shortest warm-up the probed step still lays them out. A later step may then run what the step after the window
    runs (DDP), or lack the collectives of integers by which ranks agree on the order of modules (ZeRO-3).
    """
    names = (*OF_STEP, "collectives", "nodes", "tokens_inside")
    before, after = census.before, census.after
    without_orders = {name: calls for name, calls in before.collectives.items() if calls["dtypes"] != ["int64"]}
    for step in census.witness.kinds if census.witness else []:  # those that differ from the step before them
        changed = [name for name in names if getattr(step, name) != getattr(before, name)]
        is_as_after = after and all(getattr(step, name) == getattr(after, name) for name in names)
        lacks_orders = changed == ["collectives"] and step.collectives == without_orders
        if step.step >= before.step and changed and not is_as_after and not lacks_orders:
            value, probed = getattr(step, changed[0]), getattr(before, changed[0])
            return f"{changed[0]} of step {step.step} of the witness are {value}, in the probed step {probed}"
    return None


def linear_flops(run: MeasuredRun) -> tuple[float, float]:
    """Return the least and the most FLOPs of products with weights in one step of one rank.

    The forward pass makes 2 for each weight and position, the backward pass 4. Activation checkpointing makes the
    blocks' forward pass again, at least half of it; a loss in chunks may make that of the head again.
    """
    config, training = run.metrics.config, run.metrics.training_config
    samples = training.micro_batch * training.accumulation
    positions = samples * training.seq_len
    inventory = inventory_of_run(run)
    blocks = inventory.block_weights * positions
    head = inventory.token_weights * positions + inventory.sample_weights * samples
    least = most = 6.0 * (blocks + head)
    if config["execution"]["activation_checkpointing"]:
        least += blocks
        most += 2.0 * blocks
    if config["execution"].get("loss", "plain") != "plain":
        most += 2.0 * head
    return least, most


def _flops_problem(run: MeasuredRun, step: ProbedStep) -> str | None:
    """Return in words how a probed step's FLOPs of products with weights differ from the formula; None if not."""
    least, most = linear_flops(run)
    if least * (1 - FLOPS) <= step.linear_flops <= most * (1 + FLOPS):
        return None
    expected = significant(least, 4) if least == most else f"{significant(least, 4)} to {significant(most, 4)}"
    return f"{significant(step.linear_flops, 4)} FLOPs of products with weights, {expected} by the formula"


def _kernel_problem(run: MeasuredRun, step: ProbedStep) -> str | None:
    """Return in words how kernels or calls of attention in a probed step are not as configured; None if they are."""
    execution = run.metrics.config["execution"]
    if inventory_of_run(run).is_encoder:
        return None  # its attention is that of torch's or transformers' layer
    backward = sum(n for name, n in step.attention.items() if name.endswith("_backward"))
    forward = sum(step.attention.values()) - backward
    kind = execution["attention"]
    others = [name for name in step.attention if f"_{kind}_" not in name]
    if kind in ("flash", "cudnn") and others:
        return f"attention ran in {', '.join(others)}, but {kind} is configured"
    if kind == "eager" and forward:
        return f"attention ran in {', '.join(step.attention)}, but eager attention is configured"
    # Some shapes of transformers' models (one head of keys for all queries) torch itself computes in plain products.
    is_own_model = run.metrics.model.inventory is None
    has_plain_products = step.batched_flops and not forward  # and no fused kernel
    is_on_bound_cores = bool(run.metrics.ranks[0]["cores"])  # never on a GPU
    if is_own_model and kind != "eager" and has_plain_products and is_on_bound_cores:
        return f"attention ran in plain products, but {kind} is configured"
    # Checkpointing makes forward passes again before their backward pass.
    if forward and backward and (forward > backward) != execution["activation_checkpointing"]:
        state = "on" if execution["activation_checkpointing"] else "off"
        return f"{forward} forward and {backward} backward passes of attention with activation checkpointing {state}"
    return None


# What the probed steps of all ranks of a sound run have in common, before and after the window.
OF_STEP = ("linear_flops", "batched_flops", "attention", "updates", "products")


def _flag_different_ranks(run: MeasuredRun) -> Iterator[Flag]:
    """Flag each difference of a rank's probed steps from those of rank 0, then each between the two of one rank."""
    censuses = run.metrics.census or []
    # Not the gradients after the window: FSDP2 with accumulation may or may not have cast a shard when a hook sees it.
    for when, names in (("before", (*OF_STEP, "gradients", "collectives")), ("after", (*OF_STEP, "collectives"))):
        steps = [getattr(census, when) for census in censuses]
        for rank, step in enumerate(steps[1:], start=1):
            if not step or not steps[0]:
                continue
            for name in names:
                value, value_of_0 = getattr(step, name), getattr(steps[0], name)
                if value != value_of_0:
                    yield Flag(
                        f"{name} differ between ranks {when} the window: {value_of_0} on rank 0, {value} on rank {rank}"
                    )
    for rank, census in enumerate(censuses):
        if not census.after:
            continue
        for name in OF_STEP:
            before, after = getattr(census.before, name), getattr(census.after, name)
            if before != after:
                yield Flag(
                    f"{name} of rank {rank} changed during the run: {before} before the window, {after} after it"
                )


SETTINGS_DIFFER = Code(
    "settings-differ",
    "invalid",
    what="A setting that was read back is not the configured one: the run answers another question than "
    "its cell's name.",
    detected="Threads, cores, optimizer and its groups, fused kernels, compiled graphs and the engine's own stage, "
    "clipping and batch, read back on every rank; the factor by which gradients were clipped, from AdamW's first "
    "moment; elements with weight decay; learning rates and settings of all updates of the window; buckets, overlap, "
    "offload, prefetch, backend, options of DDP, the timers of DeepSpeed; torch, CPU, CPUs and memory of the machine.",
    seen="zero_stage and precision keys that are ignored (SimuMax); affinities that were recorded but never set.",
    repair="Find out who overrides the setting; run the cell again.",
)


@of_run.check(SETTINGS_DIFFER, only_first=True)
def settings_are_the_configured_ones(run: MeasuredRun) -> Iterator[Flag]:
    """Flag the first rank on which a setting that was read back is not the configured one."""
    for rank, census in enumerate(run.metrics.census or []):
        problems = [
            *_host_problems(run, rank, census),
            *_optimizer_problems(run, census.before),
            *(_optimizer_problems(run, census.after) if census.after else ()),
            *_engine_problems(run, census),
            *clipping_problems(run, rank),
            *update_problems(run, census),
        ]
        if problems:
            yield Flag(f"rank {rank}: {'; '.join(dict.fromkeys(problems))}")  # once, if in both probed steps


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
    cpus, memory = record.get("machine_cpus"), record.get("machine_memory_bytes")
    if cpus and node.get("cpu_count") and cpus != node["cpu_count"]:
        yield f"the rank sees {plural(cpus, 'CPU')}, recorded are {node['cpu_count']}"
    if memory and node.get("memory_bytes") and not abs(memory / node["memory_bytes"] - 1) <= SAME_MEMORY:
        yield f"the rank sees {megabytes(memory)} of memory, recorded are {megabytes(node['memory_bytes'])}"


def _compile_problems(run: MeasuredRun, census: Census) -> Iterator[str]:
    """Yield in words how a rank's model is wrapped or compiled otherwise than configured."""
    execution = run.metrics.config["execution"]
    if census.wrapper and run.metrics.training_config.strategy == "single" and not execution["compile"]:
        yield f"the model is wrapped in {census.wrapper}, though the strategy is single"
    if execution["compile"] and not census.compiled_graphs:
        yield "nothing was compiled, though execution.compile is true"
    if not execution["compile"] and census.compiled_graphs:
        yield f"{census.compiled_graphs} graphs were compiled, though execution.compile is false"
    expected = COMPILED.get(str(execution["compile"]))  # None for true: whichever modules the strategy compiles
    if expected and expected not in census.compiled:
        compiled = census.compiled or "none of these parts"
        yield f"compiled was {compiled}, though execution.compile is {execution['compile']}"


def node_of(run: MeasuredRun, rank: Rank) -> dict[str, Any]:
    """Return the record of a rank's machine (CPU, cores, memory), empty where it has none."""
    if "nodes" not in run.metrics.hardware:
        return {**run.metrics.hardware} if rank["host"] == run.metrics.host["hostname"] else {}
    return run.metrics.hardware["nodes"].get(short_host(rank["host"]), {})


def _optimizer_problems(run: MeasuredRun, step: ProbedStep) -> Iterator[str]:
    """Yield in words which settings that the optimizer had in a probed step are not the configured ones."""
    work, execution = run.metrics.config["work"], run.metrics.config["execution"]
    optimizer = work["optimizer"]
    expected = learning_rate(work, step.step)
    for group in step.groups:
        if group.kind.lower() != optimizer["name"]:
            yield f"the optimizer is {group.kind}, {optimizer['name']} is configured"
        if not abs(group.learning_rate - expected) <= 1e-9 * max(expected, 1e-30):
            yield (
                f"the learning rate of step {step.step} is {significant(group.learning_rate, 6)}, by the "
                f"schedule {significant(expected, 6)}"
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
    offload = is_offloaded(execution["strategy"])
    if not offload and bool(step.updates) != execution["fused_optimizer"]:
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
    expected = {
        "zero_stage": zero_stage(training.strategy),
        "gradient_clipping": work["optimizer"]["max_grad_norm"],
        "micro_batch": training.micro_batch,
        "accumulation": training.accumulation,
    }
    for name, value in expected.items():
        if census.engine.get(name) != value:
            yield f"the engine's {name} is {census.engine.get(name)}, {value} is configured"
