"""Timed steps against their witness and a bare loop: what differs is named, and what is sound is not."""

import pytest
from sound_records import sealed

from scaleproof.conclude.checks.all_checks import audit

CONDITIONS = {"threads": ["1"], "float32_matmul": ["highest"], "dispatch_modes": ["0"], "moments": ["float32"]}
BESIDE = {"step-unexplained": "suspect"}
BARE = 0.9  # of a step's processor time


def with_witness(run, change=lambda data: None):
    """`run` with a sound witness and control, then changed."""
    losses, work = run.losses.tolist(), run.metrics.config["work"]
    moments = [0.5 / (step + 1) for step in range(len(losses))]

    def add(data):
        for rank, census in zip(data["ranks"], data["census"], strict=True):
            for step in (census["before"], census["after"]):
                step["tokens_inside"] = 64
            probed = census["before"]
            census["tokens_inside_window"] = 64 * work["steps"]
            census["updates_in_window"] |= {"moments": moments[work["warmup_steps"] :]}
            census["updates_in_window"] |= {"conditions": {name: [*values] for name, values in CONDITIONS.items()}}
            census["witness"] = {
                "seconds": 1.0,
                "losses": losses,
                "gradient_norms": [probed["gradient_norm"]] * len(losses),
                "scaled_by": [probed["scaled_by"]] * len(losses),
                "moments": moments,
                "kinds": [probed | {"step": 0}],
            }
            cpu_s = BARE * rank["cpu_s"] / work["steps"]
            census["control"] = {"steps": 10, "step_s": cpu_s, "cpu_s": cpu_s}
            rank |= {"full_collections": 1, "bytes_written": 4096, "main_thread_s": rank["cpu_s"]}
        change(data)

    return sealed(run, add)


def of_census(change):
    """A change of the census of every rank."""
    return lambda data: [change(census) for census in data["census"]]


def scaled(name, first, factor):
    """The values of a series of the witness from place `first` on, times a factor."""

    def change(census):
        values = census["witness"][name]
        values[first:] = [value * factor for value in values[first:]]

    return of_census(change)


def codes(runs) -> dict[str, str]:
    return {f.code: f.severity for f in audit("x", runs).findings}


def test_a_run_that_does_what_its_witness_did_is_not_accused(sound):
    assert codes([with_witness(sound[0]), *sound[1:]]) == {}


def test_a_moment_that_is_nothing_but_rounding_is_not_held_against_itself(sound):
    def change(data):
        for census in data["census"]:
            census["witness"]["moments"][5] = 1e-9
            census["updates_in_window"]["moments"][5 - data["config"]["work"]["warmup_steps"]] = 2e-9

    assert codes([with_witness(sound[0], change), *sound[1:]]) == {}


def test_a_cause_names_what_it_explains(sound):
    def change(data):
        scaled("losses", 5, 1.001)(data)
        data["census"][0]["nodes_in_window"] += 30

    run = with_witness(sound[0], change)
    findings = [finding for finding in audit("x", [run, *sound[1:]]).findings if finding.runs == [run.name]]
    assert [finding.code for finding in findings] == ["operations-differ"]
    (finding,) = findings
    assert finding.evidence.endswith("; found with it: window-differs-from-witness")


def test_repeats_are_held_against_the_witness_of_their_cell(sound):
    run = with_witness(sound[0])
    fewer = with_witness(sound[1], of_census(lambda census: census.update(witness=None)))
    moments = [census.updates_in_window.moments for census in fewer.metrics.census]
    assert codes([run, fewer]) == {}

    def change(data):
        data["census"][0]["updates_in_window"]["moments"][0] = 1.1 * moments[0][0]

    assert codes([run, sealed(fewer, change)]) == {"window-differs-from-witness": "invalid"}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (scaled("moments", 5, 1.2), {"window-differs-from-witness": "invalid"}),
        (scaled("moments", 5, 1 + 1e-6), {}),
        (scaled("losses", 5, 1.001), {"window-differs-from-witness": "invalid"}),
        (scaled("losses", 5, 1 + 1e-7), {}),
        (scaled("gradient_norms", 1, 1.3), {"settings-differ": "invalid"}),  # and what it explains
        (scaled("scaled_by", 5, 1.3), {"settings-differ": "invalid"}),
        (
            of_census(lambda c: c["witness"]["kinds"].append(c["before"] | {"step": 9, "collectives": {}})),
            {"operations-differ": "invalid"},
        ),
        (
            of_census(lambda c: c["witness"]["kinds"].insert(0, c["before"] | {"step": 0, "collectives": {}})),
            {},  # engines lay out their buckets
        ),
        (of_census(lambda c: c.update(tokens_inside_window=64)), {"operations-differ": "invalid"}),
        (of_census(lambda c: c.update(collectives_in_window=1)), {"operations-differ": "invalid"}),
        (of_census(lambda c: c.update(collectives_of_step=None)), {}),
        (of_census(lambda c: c.update(coarse=0.97)), {"precision-differs": "invalid"}),
        (of_census(lambda c: c.update(coarse=0.5)), {}),
        (
            of_census(lambda c: c["updates_in_window"]["conditions"].update(float32_matmul=["highest", "medium"])),
            {"settings-differ": "invalid"},
        ),
        (
            of_census(lambda c: c["updates_in_window"]["conditions"].update(moments=["bfloat16"])),
            {"settings-differ": "invalid"},
        ),
        (of_census(lambda c: c["updates_in_window"]["moments"].pop()), {"window-differs-from-witness": "invalid"}),
    ],
)
def test_what_the_witness_shows_is_named(sound, change, expected):
    assert codes([with_witness(sound[0], change), *sound[1:]]) == expected


@pytest.mark.parametrize(("dtype", "expected"), [("int64", {}), ("float32", {"operations-differ": "invalid"})])
def test_ranks_may_agree_on_an_order_in_the_probed_step_alone(sound, dtype, expected):
    """As ZeRO-3 does with a short warm-up; a sum of gradients that later steps lack is another matter."""

    def change(data):
        agreed = {"calls": 6, "bytes": 1448, "dtypes": [dtype]}
        for census in data["census"]:
            later = census["before"] | {"step": census["before"]["step"] + 1}
            census["before"] |= {"collectives": census["before"]["collectives"] | {"broadcast": agreed}}
            census["witness"]["kinds"] = [census["before"] | {"step": 0}, later]
            census["after"] = None

    assert codes([with_witness(sound[0], change), *sound[1:]]) == expected


def faster(data):
    """A bare loop that takes half of the time of a step."""
    for census in data["census"]:
        census["control"]["cpu_s"] *= 0.3
        census["control"]["step_s"] *= 0.3


def with_controls_at(share):
    """A bare loop that takes `share` of the time of a step and its exchange, in each rank."""

    def change(data):
        for rank, census in zip(data["ranks"], data["census"], strict=True):
            census["control"]["cpu_s"] = share * rank["cpu_s"] / data["config"]["work"]["steps"]

    return change


def of_witness(name, value):
    """A field of the witness of rank 0, by the processor time of a step of its main thread."""

    def change(data):
        step_s = data["ranks"][0]["main_thread_s"] / data["config"]["work"]["steps"]
        data["census"][0]["witness"][name] = value(step_s)

    return change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (faster, {"step-unexplained": "suspect"}),
        (with_controls_at(0.5), {}),  # as of a core that computed half as fast in the window
        (lambda data: data["census"][0].update(control=None), {}),
        (lambda data: data["ranks"][0].update(full_collections=15), {"step-unexplained": "suspect"}),
        (lambda data: data["ranks"][0].update(main_thread_s=0.3 * data["ranks"][0]["cpu_s"]), BESIDE),
        (lambda data: data["ranks"][0].update(main_thread_s=0.9 * data["ranks"][0]["cpu_s"]), {}),
        (lambda data: data["ranks"][0].update(bytes_written=10**6), {"step-unexplained": "suspect"}),
        (lambda data: data["ranks"][0].update(bytes_written=None), {}),
        (of_census(lambda c: c["updates_in_window"].update(children=15)), BESIDE),
        (of_census(lambda c: c["updates_in_window"].update(children=1)), {}),
        (of_witness("beside", lambda step_s: {"logger.py:write": 0.2 * step_s}), BESIDE),
        (of_witness("beside", lambda step_s: {"timed_loop.py:run_steps": 0.01 * step_s}), {}),
        (of_witness("plain_s", lambda step_s: 0.5 * step_s), BESIDE),
        (of_witness("plain_s", lambda step_s: 0.8 * step_s), {}),
    ],
)
def test_a_step_that_takes_longer_than_training_explains_is_named(sound, change, expected):
    assert codes([with_witness(sound[0], change), *sound[1:]]) == expected


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        ([4.716, 5.895], {"validation-differs-from-reference": "invalid"}),
        ([5.89500001, 5.895], {}),
        (None, {}),
    ],
)
def test_samples_are_scored_as_they_are_trained_on(sound, pair, expected):
    change = of_census(lambda census: census.update(scored_and_trained=pair))
    assert codes([with_witness(sound[0], change), *sound[1:]]) == expected


def resident(data, factor):
    """Change the memory of all processes."""
    data["memory"]["max_rss_bytes"] = round(data["memory"]["max_rss_bytes"] * factor)
    for rank in data["ranks"]:
        rank["max_rss_bytes"] = round(rank["max_rss_bytes"] * factor)


READ_BACK = {
    "torch of the ranks": (lambda d: d["census"][0]["env"].update(torch_version="0.1"), "settings-differ"),
    "another CPU": (lambda d: d["census"][0]["env"].update(cpu_model="Another"), "settings-differ"),
    "other instructions": (lambda d: d["census"][0]["env"].update(MKL_ENABLE_INSTRUCTIONS="AVX"), "provenance-differs"),
    "a process in KiB": (lambda d: resident(d, 1 / 1024), "state-differs"),
    "half of the memory at most": (lambda d: resident(d, 0.5), "state-differs"),
    "the same memory": (lambda d: resident(d, 1), None),
}


@pytest.mark.parametrize("name", READ_BACK)
def test_what_is_recorded_is_read_back(sound, name):
    change, code = READ_BACK[name]
    sound[0] = sealed(sound[0], change)
    assert set(codes(sound)) == ({code} if code else set())


MACHINES = {
    "more CPUs": (lambda d: d["hardware"].update(cpu_count=2 * d["hardware"]["cpu_count"]), "settings-differ"),
    "more memory": (lambda d: d["hardware"].update(memory_bytes=2 * d["hardware"]["memory_bytes"]), "settings-differ"),
    "some pages more": (lambda d: d["hardware"].update(memory_bytes=d["hardware"]["memory_bytes"] + 2**20), None),
    "another machine's": (lambda d: (d["hardware"].update(cpu_count=999), d["host"].update(hostname="login")), None),
}


@pytest.mark.parametrize("name", MACHINES)
def test_a_rank_says_what_its_machine_is(sound, name):
    change, code = MACHINES[name]
    assert set(codes([sealed(run, change) for run in sound])) == ({code} if code else set())
