"""The reference replays what real runs do, and shares no code with them."""

import ast
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from synthetic import campaign

from scaleproof.ground.campaign.cells import Cell, expand_cells
from scaleproof.ground.errors import UserError
from scaleproof.ground.facts.counts import count_gpt2
from scaleproof.measure.corpus.reader import SamplePlan, held_out_ids, open_split
from scaleproof.measure.reference.planned import steps_to_replay
from scaleproof.measure.reference.replay import replay
from scaleproof.measure.reference.samples import SplitSamples, checksum, step_ids
from scaleproof.measure.reference.schema import find_reference, read_reference, workload_name
from scaleproof.measure.strategy.base import learning_rate

PACKAGE = Path(__file__).parents[3] / "src/scaleproof/measure/reference"
SHAPE = {"layers": 1, "width": 32, "heads": 2, "context": 64}
ENCODER = {"d_model": 32, "heads": 2, "layers": 1, "feed_forward": 48, "context": 64}


def cell(**keys) -> Cell:
    data = {
        "workload": {"model": SHAPE, "seq_len": 32, "tokenizer": "bpe-512"},
        "work": {"global_batch": 8, "steps": 4, "warmup_steps": 3},
        "vary": {"geometry": ["1x1"]},
    }
    for name, section in keys.items():
        data[name] = data.get(name, {}) | section
    return expand_cells(campaign(**data))[0]


def trained(c: Cell, tokens: Path, steps: int) -> list[float]:
    """Losses of the trainer's own model, batches and optimizer on one device, without its loop."""
    import torch

    from scaleproof.measure.model.build import build_model
    from scaleproof.measure.strategy import strategy_class
    from scaleproof.measure.trainer.batches import Batches

    file = open_split(tokens, "train", c.workload)
    plan = SamplePlan(file.n_samples, c.batch.global_, c.work.seed)
    device = torch.device("cpu")
    strategy = strategy_class("single")(c, build_model(c, 4), device)
    batches = Batches(file, plan, c.batch, range(1), device)
    losses = []
    for step in range(steps):
        parts = []
        for micro in range(c.batch.accumulation):
            last = micro == c.batch.accumulation - 1
            parts.append(float(strategy.micro_step(batches.take(step, micro), boundary=last)))
        strategy.update(step)
        losses.append(sum(parts) / len(parts))
    return losses


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"work": {"micro_batch": 2, "schedule": {"name": "cosine", "ramp_steps": 2}}},
        {"execution": {"attention": "eager", "activation_checkpointing": True}},
    ],
)
def test_a_language_model_makes_the_same_steps(tokens, keys):
    c = cell(**keys)
    reference = replay(c.config, tokens)
    assert reference.losses == pytest.approx(trained(c, tokens, 7), rel=1e-6)
    assert reference.parameters == count_gpt2(c_shape(), c.vocab_size, 32).parameters
    assert reference.validation_loss is not None, "it has made all steps of the run"


def c_shape():
    from scaleproof.ground.campaign.model_shapes import ModelShape

    return ModelShape(**SHAPE)


CLASSIFYING = {"model": ENCODER, "task": "classification", "corpus": "ag-news", "seq_len": 32}


def test_a_classifier_makes_the_same_steps(labelled):
    c = cell(workload=CLASSIFYING)
    reference = replay(c.config, labelled)
    assert reference.losses == pytest.approx(trained(c, labelled, 7), rel=1e-6)


@pytest.mark.parametrize(("corpus", "keys"), [("tokens", {}), ("labelled", {"workload": CLASSIFYING})])
def test_a_model_as_built_has_the_same_losses(request, corpus, keys):
    """In fp32, whatever the cell's precision is; and not once its positions, or its mode, are others."""
    import torch

    from scaleproof.measure.model.build import build_model
    from scaleproof.measure.trainer.first_losses import score_unwrapped_model

    folder, c = request.getfixturevalue(corpus), cell(**keys, execution={"precision": "bf16"})
    reference, file = replay(c.config, folder), open_split(folder, "train", c.workload)
    plan, model, device = SamplePlan(file.n_samples, 8, c.work.seed), build_model(c, 4), torch.device("cpu")
    assert score_unwrapped_model(model, plan, file, device) == pytest.approx(reference.first_losses, rel=2e-6)
    assert len(reference.first_losses) == 4
    assert reference.decayed == sum(p.numel() for p in model.parameters() if p.dim() > 1)
    positions = next(p for name, p in model.named_parameters() if "wpe" in name or name == "positions.weight")
    with torch.no_grad():
        positions.copy_(positions.roll(1, dims=0))
    assert score_unwrapped_model(model, plan, file, device) != pytest.approx(reference.first_losses, rel=2e-5)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_an_update_is_watched(tokens, precision):
    """The norm of the gradients is the replay's, and the factor is that of clipping; nothing is said in fp16."""
    import torch

    from scaleproof.measure.model.build import build_model
    from scaleproof.measure.strategy import strategy_class
    from scaleproof.measure.trainer.batches import Batches
    from scaleproof.measure.trainer.updates import UpdateWitness

    c = cell(execution={"precision": precision, "strategy": "single"}, work={"optimizer": {"max_grad_norm": 0.5}})
    reference, file = replay(c.config, tokens), open_split(tokens, "train", c.workload)
    strategy = strategy_class("single")(c, build_model(c), torch.device("cpu"))
    batches = Batches(file, SamplePlan(file.n_samples, 8, c.work.seed), c.batch, range(1), torch.device("cpu"))
    for step in range(2):
        strategy.micro_step(batches.take(step, 0), boundary=True)
        witness = UpdateWitness(strategy)
        witness.note_gradients()
        strategy.update(step)
        witness.note_update()
        if precision == "fp16":
            assert (witness.gradient_norm, witness.scaled_by) == (None, None)
            continue
        norm = reference.gradient_norms[step]
        assert witness.gradient_norm == pytest.approx(norm, rel=1e-5 if precision == "fp32" else 0.02)
        assert norm > 0.5
        assert witness.scaled_by == pytest.approx(0.5 / witness.gradient_norm, rel=1e-3)


def test_a_mistake_in_the_optimizer_shows(tokens):
    c = cell()
    wrong = json.loads(json.dumps(c.config))
    wrong["work"]["optimizer"]["weight_decay"] = 0.0
    difference = np.abs(np.array(replay(c.config, tokens).losses) - replay(wrong, tokens).losses)
    assert difference.max() > 1e-5


def test_samples_are_those_of_the_written_rule(tokens):
    c = cell()
    file = open_split(tokens, "train", c.workload)
    own = SplitSamples(tokens, "train", 32, labelled=False)
    plan = SamplePlan(file.n_samples, 8, 3)
    for step in (0, 1, file.n_samples // 8):  # the last one goes over the end of an epoch
        ids = step_ids(own.count, 8, 3, step)
        assert sorted(ids) == sorted(plan.step(step))
        assert (own.rows(ids) == file.read(ids)).all()
    assert list(held_out_ids(10, 4)) == list(held_out_ids(10, 4))
    assert len(held_out_ids(3, 8)) == 3


def test_samples_of_documents(labelled):
    c = cell(workload={"model": ENCODER, "task": "classification", "corpus": "ag-news", "seq_len": 16})
    file = open_split(labelled, "val", c.workload)
    own = SplitSamples(labelled, "val", 16, labelled=True)
    ids = np.arange(file.n_samples)
    assert (own.rows(ids) == file.read(ids)).all()


def test_a_checksum_sees_every_token_and_no_order():
    rows = np.arange(12).reshape(3, 4)
    changed = rows.copy()
    changed[1, 2] += 1
    assert checksum(rows) == checksum(rows[::-1])
    assert checksum(rows) != checksum(changed)
    assert checksum(rows) != checksum(rows[:2])


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
def test_the_learning_rate_is_the_trainers(schedule):
    from scaleproof.measure.reference.training import rate_of_step

    c = cell(work={"schedule": {"name": schedule, "ramp_steps": 3}, "steps": 20})
    assert [rate_of_step(c.config["work"], s) for s in range(23)] == [learning_rate(c.work, s) for s in range(23)]


def test_large_models_make_few_steps():
    assert steps_to_replay(124_000_000, 16 * 1024) == 3
    assert steps_to_replay(600_000, 8 * 128) == 30


def test_cells_that_train_alike_have_one_reference():
    def name(**keys):
        return workload_name(cell(**keys).config)

    assert name() == name(work={"micro_batch": 2}) == name(execution={"strategy": "single", "precision": "bf16"})
    assert name() != name(work={"seed": 2})
    assert name() != name(workload={"seq_len": 16})


def test_a_run_finds_its_reference(tmp_path, tokens):
    c = cell()
    reference = replay(c.config, tokens)
    folder = tmp_path / "results/x/runs/cell/rep1"
    folder.mkdir(parents=True)
    assert find_reference(folder, c.config, reference.train_sha256) is None
    path = tmp_path / f"results/x/reference/{reference.workload}.json"
    path.parent.mkdir()
    path.write_text(reference.model_dump_json())
    assert find_reference(folder, c.config, reference.train_sha256) == reference
    with pytest.raises(UserError, match=r"is damaged \(it replays other tokens than those of the runs\)"):
        find_reference(folder, c.config, "of another corpus")
    path.write_text("{}")
    with pytest.raises(UserError, match=r"is not a reference of schema 1\.0 to 1\.3"):
        read_reference(path)


def test_a_damaged_token_file_is_refused(tmp_path, tokens):
    copy = shutil.copytree(tokens, tmp_path / "tokens")
    with (copy / "train.bin").open("ab") as file:
        file.write(b"00")
    with pytest.raises(UserError, match="tokenise the corpus again"):
        replay(cell().config, copy)


def test_it_imports_nothing_that_it_checks():
    for path in PACKAGE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("scaleproof"):
                own = node.module.startswith("scaleproof.measure.reference")
                # The table of corpora says what a campaign names: it is no code that is checked.
                # The schema of the files that it reads computes nothing either.
                names = ("campaign.corpora", "errors", "files", "number_format", "records.corpus_files")
                allowed = [f"scaleproof.ground.{name}" for name in names]
                assert own or node.module in allowed, f"{path}: {node.module}"


def test_a_token_file_of_the_right_size_with_other_tokens_is_refused(tokens, tmp_path):
    folder = tmp_path / "tokens"
    shutil.copytree(tokens, folder)
    SplitSamples(folder, "train", 32, labelled=False)
    data = bytearray((folder / "train.bin").read_bytes())
    data[100] ^= 1
    (folder / "train.bin").write_bytes(data)
    with pytest.raises(UserError, match="its sha256 differs"):
        SplitSamples(folder, "train", 32, labelled=False)
