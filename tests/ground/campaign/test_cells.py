"""Expansion, slugs, batch arithmetic, fingerprints."""

import json

import pytest

from scaleproof.conclude.forecast.frontier import NoTrial, limit_of
from scaleproof.ground.campaign.batch import resolve_batch
from scaleproof.ground.campaign.cells import expand_cells
from scaleproof.ground.campaign.config import Campaign, Work
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.campaign.yaml_loader import load_campaign
from scaleproof.ground.errors import UserError


def cells(**keys):
    return expand_cells(Campaign.model_validate({"title": "x"} | keys))


def slugs(**keys):
    return [cell.slug for cell in cells(**keys)]


@pytest.mark.parametrize(
    ("work", "world", "expected"),
    [
        ({"global_batch": 16}, 1, (16, 1, 1, 16)),
        ({"global_batch": 16}, 2, (8, 1, 2, 16)),
        ({"global_batch": 16, "micro_batch": 4}, 2, (4, 2, 2, 16)),
        ({"global_batch": 16, "accumulation": 4}, 2, (2, 4, 2, 16)),
        ({"global_batch": 16, "micro_batch": 4, "accumulation": 2}, 2, (4, 2, 2, 16)),
        ({"global_batch": "derive", "micro_batch": 4}, 8, (4, 1, 8, 32)),
        ({"global_batch": "derive", "micro_batch": 4, "accumulation": 3}, 2, (4, 3, 2, 24)),
    ],
)
def test_batch(work, world, expected):
    batch = resolve_batch(Work.model_validate(work), world)
    assert (batch.micro, batch.accumulation, batch.n_devices, batch.global_) == expected
    assert batch.micro * batch.accumulation * batch.n_devices == batch.global_


def test_indivisible_names_the_nearest_that_works():
    with pytest.raises(UserError, match=r"Nearest global_batch that works for this cell: 12 or 24"):
        resolve_batch(Work.model_validate({"global_batch": 16, "micro_batch": 4}), 3)


def test_an_exclude_without_a_match_lists_its_keys_in_one_order():
    vary = {"geometry": ["1x1"], "precision": ["fp32"], "strategy": ["ddp"], "seed": [1]}
    entry = {"seed": 1, "geometry": "1x4", "precision": "fp32", "strategy": "ddp"}
    with pytest.raises(UserError, match="exclude: strategy: ddp, precision: fp32, geometry: 1x4, seed: 1 matches no"):
        expand_cells(Campaign.model_validate({"title": "x", "vary": vary, "exclude": [entry]}))


def test_product_less_exclude_plus_cells():
    found = slugs(
        vary={"geometry": ["1x1", "1x2"], "seq_len": [64, 128]},
        exclude=[{"geometry": "1x2", "seq_len": 128}],
        cells=[{"geometry": "2x4", "micro_batch": 1, "global_batch": 16}],
    )
    assert found == ["ddp-sl64-n1x1", "ddp-sl64-n1x2", "ddp-sl128-n1x1", "ddp-sl128-n2x4-gb16-mb1"]


def test_a_slug_names_only_what_varies():
    assert slugs() == ["ddp-n1x1"]
    assert slugs(vary={"seed": [1, 2]}) == ["ddp-n1x1-seed1", "ddp-n1x1-seed2"]


def test_cells_without_vary_are_all_cells():
    listed = [{"strategy": "fsdp", "geometry": "1x2"}, {"precision": "bf16"}]
    assert slugs(cells=listed) == ["fsdp-n1x2", "ddp-bf16-n1x1"]
    assert slugs(cells=[*listed, {}]) == ["fsdp-n1x2", "ddp-bf16-n1x1", "ddp-n1x1"]
    assert slugs(vary={"geometry": ["1x1"]}, cells=listed) == ["ddp-n1x1", "fsdp-n1x2", "ddp-bf16-n1x1"]
    assert slugs(vary={}) == ["ddp-n1x1"]
    with pytest.raises(UserError, match="ddp-n1x1 is there already; an entry above makes it") as fault:
        cells(cells=[{}, {"strategy": "ddp"}])
    assert fault.value.key == ("cells", 1)


def test_a_new_value_renames_no_older_cell():
    before = slugs(vary={"geometry": ["1x1"]})
    assert set(before) < set(slugs(vary={"geometry": ["1x1", "1x2"]}))
    assert set(before) < set(slugs(vary={"geometry": ["1x1"]}, cells=[{"geometry": "1x2", "seq_len": 64}]))


def test_a_free_shape_has_a_slug_of_its_own():
    shape = {"layers": 3, "width": 96, "heads": 3}
    assert slugs(vary={"model": ["gpt2-tiny", shape]}) == ["ddp-gpt2-tiny-n1x1", "ddp-l3w96h3c1024-n1x1"]


def test_fingerprint_is_of_what_is_done_and_of_nothing_else():
    one = cells(vary={"geometry": ["1x2"]})[0].fingerprint
    assert one == cells(execution={"geometry": "1x2"}, title="another", repeats=9)[0].fingerprint
    assert one == cells(vary={"geometry": ["1x2"]}, work={"micro_batch": 8})[0].fingerprint, "8 is what was derived"
    assert one == cells(vary={"geometry": ["1x2"]}, resources={"time_limit": 99})[0].fingerprint
    assert one != cells(vary={"geometry": ["1x1"]})[0].fingerprint
    assert one != cells(vary={"geometry": ["1x2"]}, work={"steps": 51})[0].fingerprint
    assert one != cells(vary={"geometry": ["1x2"]}, work={"optimizer": {"learning_rate": 0.1}})[0].fingerprint


def test_a_name_and_its_shape_are_the_same_work():
    shape = {"layers": 2, "width": 128, "heads": 4, "context": 1024}
    named, free = cells()[0], cells(workload={"model": shape})[0]
    assert named.config["workload"]["model_shape"] == free.config["workload"]["model_shape"]


def test_published_runs_keep_their_fingerprints(repository):
    """A key of `execution` that they lack belongs in YOUNGER_KEYS; otherwise `gate` finds that settings differ."""
    for folder in (repository / "results/published").glob("demo_*"):
        planned = {cell.slug: cell for cell in expand_cells(load_campaign(folder / "campaign.yaml")[0])}
        for file in folder.glob("runs/*/rep1/training_metrics.json"):
            record = json.loads(file.read_text())
            assert planned[record["cell"]].fingerprint == record["fingerprint"]


def test_what_is_no_folder_cannot_hold_the_results(tmp_path):
    (tmp_path / "mine.yaml").write_text("title: x\n")
    LoadedCampaign(tmp_path / "mine.yaml", tmp_path)
    (tmp_path / "mine").symlink_to("nowhere")
    with pytest.raises(UserError, match="mine is a link to nowhere, which leads nowhere; the folder of a campaign's"):
        LoadedCampaign(tmp_path / "mine.yaml", tmp_path)
    (tmp_path / "mine").unlink()
    (tmp_path / "mine").touch()
    with pytest.raises(UserError, match="mine is a file; the folder of a campaign's results is made there"):
        LoadedCampaign(tmp_path / "mine.yaml", tmp_path)


def test_settings_are_those_of_a_command():
    with pytest.raises(UserError, match=r"`settings` are of the placeholders of .*, and there is none"):
        cells(vary={"settings": {"lr": [1, 2]}})
    assert len(cells(workload={"command": "p {lr}"}, vary={"settings": {"lr": [1, 2]}})) == 2


def test_no_trial_chooses_the_batch_of_a_command():
    (cell,) = cells(workload={"command": "p"})
    with pytest.raises(UserError, match="is a cell of a command, whose batch no trial can choose"):
        limit_of(cell, [], 1e9)
    assert limit_of(cells()[0], [], 1e9) == 1e9


@pytest.mark.parametrize(
    ("device", "fault", "words"),
    [("cuda", NoTrial, "ddp-n1x1 is for GPUs, and none is visible"), ("auto", UserError, "a CPU device has no memory")],
)
def test_a_search_without_gpus_says_what_is_missing(device, fault, words):
    with pytest.raises(UserError, match=words) as error:
        limit_of(cells(execution={"device": device, "strategy": "ddp"})[0], [], None)
    assert type(error.value) is fault
