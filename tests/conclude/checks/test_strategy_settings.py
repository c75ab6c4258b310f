"""Settings of the strategies' wrappers, stored dtypes, and keys that leave no trace."""

import pytest
from explained_findings import codes
from sound_records import census_of, complete, sealed
from synthetic import cells, write_run

from scaleproof.conclude.checks.strategy_settings import TRACES
from scaleproof.ground.campaign.config import AXES
from scaleproof.ground.records.run import MeasuredRun


def run_of(tmp_path, change=lambda data: None, geometry="1x2", **keys) -> MeasuredRun:
    """A complete run of the last cell of a campaign of two devices, changed."""
    execution = {"strategy": "ddp"} | keys
    cell = cells(execution=execution, vary={"geometry": [geometry]})[-1]
    return complete(write_run(tmp_path / "results/x/runs", cell, 1, 0.06), None, change)


ALL = "all"  # a bucket of as many elements as the model has


def engine(**settings):
    def change(data):
        sized = {name: data["model"]["parameters"] if value == ALL else value for name, value in settings.items()}
        work = data["config"]["work"]
        strategy = data["config"]["execution"]["strategy"]
        data["engine_config"] = {
            "train_batch_size": work["global_batch"],
            "train_micro_batch_size_per_gpu": work["micro_batch"],
            "gradient_accumulation_steps": work["accumulation"],
            "gradient_clipping": work["optimizer"]["max_grad_norm"],
            "zero_optimization": {"stage": int(strategy[4])} | sized,
        }
        data["training_config"] |= {"zero_stage": int(strategy[4])}
        size = 4 * data["model"]["parameters"]
        data["collectives"] = {
            name: {"calls": 1, "bytes": size, "dtypes": ["float32"]} for name in ("allreduce", "allgather_into_tensor")
        }

    return change


def prefetch(blocks):
    return lambda data: (
        data.update(engine_config={"fsdp": {"forward_prefetch": blocks}}),
        data.update(collectives=_of_fsdp(data)),
    )


def ddp(**options):
    return lambda data: data.update(engine_config={"ddp": options})


def _of_fsdp(data):
    size = 4 * data["model"]["parameters"]
    return {
        "allgather_into_tensor": {"calls": 4, "bytes": 2 * size, "dtypes": ["float32"]},
        "reduce_scatter_tensor": {"calls": 2, "bytes": size, "dtypes": ["float32"]},
    }


def buckets(calls):
    return lambda data: data["collectives"]["allreduce"].update(calls=calls)


def reduced_in_bf16(data):
    size = 2 * data["model"]["parameters"]
    data["collectives"] = {"allreduce": {"calls": 1, "bytes": size, "dtypes": ["bfloat16"]}}
    data["dtypes"].update(products="bfloat16", reduced="bfloat16")


def of_rank_1(**fields):
    return lambda data: data["ranks"][1].update(fields)


SETTINGS = {
    "engine's bucket": ({"strategy": "zero2", "bucket_elements": 5000}, engine(reduce_bucket_size=5000), {}),
    "bucket ignored": (
        {"strategy": "zero2", "bucket_elements": 5000},
        engine(reduce_bucket_size=500_000_000),
        {"settings-differ": "invalid"},
    ),
    "one bucket for all": ({"strategy": "zero2"}, engine(allgather_bucket_size=ALL), {}),
    "a bucket as large as the model": (
        {"strategy": "zero2", "bucket_elements": 10**12},
        engine(reduce_bucket_size=ALL),
        {},
    ),
    "a bucket of an older result": (
        {"strategy": "zero2", "bucket_elements": 10**12},
        engine(reduce_bucket_size=10**12),
        {},
    ),
    "overlap": ({"strategy": "zero2", "overlap_comm": True}, engine(overlap_comm=True), {}),
    "overlap by default": ({"strategy": "zero2"}, engine(overlap_comm=False), {}),
    "overlap though off by default": ({"strategy": "zero2"}, engine(overlap_comm=True), {"settings-differ": "invalid"}),
    "overlap ignored": (
        {"strategy": "zero2", "overlap_comm": True},
        engine(overlap_comm=False),
        {"settings-differ": "invalid"},
    ),
    "offload": ({"strategy": "zero2"}, engine(offload_optimizer=None, offload_param={"device": "none"}), {}),
    "offloads silently": (
        {"strategy": "zero2"},
        engine(offload_optimizer={"device": "cpu", "pin_memory": False}),
        {"settings-differ": "invalid"},
    ),
    "prefetch": ({"strategy": "fsdp", "fsdp_prefetch": 3}, prefetch(1), {}),
    "torch's own order, which is one ahead": ({"strategy": "fsdp"}, prefetch(1), {}),
    "torch's own order": ({"strategy": "fsdp"}, prefetch(0), {}),
    "prefetch ignored": ({"strategy": "fsdp", "fsdp_prefetch": 2}, prefetch(0), {"settings-differ": "invalid"}),
    "ddp's options": ({}, ddp(find_unused_parameters=False, gradient_as_bucket_view=True), {}),
    "a walk for unused parameters": ({}, ddp(find_unused_parameters=True), {"settings-differ": "invalid"}),
    "gradients copied": ({}, ddp(gradient_as_bucket_view=False), {"settings-differ": "invalid"}),
    "an engine that times its steps": (
        {"strategy": "zero2"},
        lambda data: (engine()(data), data["engine_config"].update(wall_clock_breakdown=True)),
        {"settings-differ": "invalid"},
    ),
    "small buckets": ({"bucket_elements": 100_000}, buckets(5), {}),
    "small buckets ignored": ({"bucket_elements": 100_000}, buckets(1), {"settings-differ": "invalid"}),
    "small buckets though auto": ({}, buckets(9), {"settings-differ": "invalid"}),
    "a kernel of attention": ({"attention": "flash"}, lambda data: None, {}),
    "another kernel of attention": (
        {"attention": "cudnn"},
        lambda data: None,
        {"operations-differ": "invalid"},
    ),
    "gradients in bf16": ({"precision": "bf16", "reduce_dtype": "bf16"}, reduced_in_bf16, {}),
    "gradients in bf16, but fp32 is configured": (
        {"precision": "bf16"},
        reduced_in_bf16,
        {"traffic-differs": "invalid"},
    ),
    "backend": ({}, of_rank_1(backend="gloo"), {}),
    "another backend": ({}, of_rank_1(backend="nccl"), {"settings-differ": "invalid"}),
    "weights in bf16": (
        {"precision": "bf16"},
        lambda data: data["dtypes"].update(products="bfloat16", parameters="bfloat16"),
        {"precision-differs": "invalid"},
    ),
    "state in bf16": (
        {},
        lambda data: data["dtypes"].update(optimizer_state="bfloat16"),
        {"precision-differs": "invalid"},
    ),
    "masters in fp32": (
        {"precision": "bf16"},
        lambda data: data["dtypes"].update(products="bfloat16", parameters="float32", optimizer_state="float32"),
        {},
    ),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_of_the_wrapper_are_read_back(tmp_path, name):
    keys, change, expected = SETTINGS[name]
    names = codes([run_of(tmp_path, change, **keys)])
    assert {
        code: severity for code, severity in names.items() if code not in ("single-run", "state-differs")
    } == expected


@pytest.mark.parametrize(
    ("value", "parts", "flagged"),
    [
        ("loss", "LossHead", False),
        ("loss", "OptimizedModule", True),
        ("max-autotune", "OptimizedModule with max_autotune", False),
        ("max-autotune", "OptimizedModule", True),
        ("reduce-overhead", "OptimizedModule with triton.cudagraphs", False),
        ("reduce-overhead", "OptimizedModule", True),
        (True, "", False),  # of a record from before it said what
    ],
)
def test_what_was_compiled_is_what_the_cell_says(tmp_path, value, parts, flagged):
    def change(data):
        for census in data["census"]:
            census.update(compiled_graphs=3, compiled=parts, after=None)

    alone = {"strategy": "single", "geometry": "1x1"} if value == "reduce-overhead" else {}
    run = sealed(run_of(tmp_path, compile=value, **alone), change)
    assert ("settings-differ" in codes([run])) == flagged


@pytest.mark.parametrize("parts", [("OptimizedModule", "OptimizedModule with max_autotune"), ("OptimizedModule",) * 2])
def test_a_choice_of_kernels_by_timing_leaves_a_trace(tmp_path, parts):
    keys = {"strategy": ["ddp"], "geometry": ["1x2"], "compile": [True, "max-autotune"]}
    runs = [write_run(tmp_path / "runs", cell, 1) for cell in cells(vary=keys)]
    for place, (run, part) in enumerate(zip(runs, parts, strict=True)):
        census = [each | {"compiled_graphs": 3, "compiled": part} for each in census_of(run)]
        runs[place] = sealed(run, lambda data, census=census: data.update(census=census))
    assert ("knob-without-trace" in codes(runs)) == (parts[0] == parts[1])


@pytest.mark.parametrize(
    ("keys", "values", "flagged"),
    [
        ({"strategy": ["zero2"], "overlap_comm": [True, False]}, (True, False), False),
        ({"strategy": ["zero2"], "overlap_comm": [True, False]}, (True, True), True),
        ({"strategy": ["ddp"], "overlap_comm": [True, False]}, (None, None), True),
    ],
)
def test_a_key_that_says_nothing_to_the_only_strategy_is_named(tmp_path, keys, values, flagged):
    runs = [write_run(tmp_path / "runs", cell, 1) for cell in cells(vary={"geometry": ["1x2"], **keys})]

    def settings(run, value):
        def change(data):
            data["census"] = census_of(run)
            if value is not None:
                data["engine_config"] = {"zero_optimization": {"overlap_comm": value}}

        return change

    runs = [sealed(run, settings(run, value)) for run, value in zip(runs, values, strict=True)]
    assert ("knob-without-trace" in codes(runs)) == flagged


def test_a_key_that_is_tried_in_one_strategy_is_not_held_against_the_others(tmp_path):
    keys = {"strategy": ["zero2", "ddp"], "overlap_comm": [True, False]}
    runs = [write_run(tmp_path / "runs", cell, 1) for cell in cells(vary={"geometry": ["1x2"], **keys})]

    def settings(run):
        value = run.metrics.config["execution"]["overlap_comm"]

        def change(data):
            data["census"] = census_of(run)
            if run.metrics.training_config.strategy == "zero2":
                data["engine_config"] = {"zero_optimization": {"overlap_comm": value}}

        return change

    assert "knob-without-trace" not in codes([sealed(run, settings(run)) for run in runs])


def test_every_key_of_execution_that_can_vary_leaves_a_trace():
    keys = {name for name, (section, _) in AXES.items() if section == "execution"}
    assert keys - {"strategy", "geometry"} == set(TRACES)
