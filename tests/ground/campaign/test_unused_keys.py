"""Keys without effect are refused, so that nobody thinks that they count."""

import pytest

from scaleproof.ground.campaign.cell_checks import check_campaign
from scaleproof.ground.campaign.cells import expand_cells
from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.campaign.rehearsal import make_rehearsal
from scaleproof.ground.campaign.yaml_loader import load_campaign
from scaleproof.ground.errors import UserError

BESIDE_VARY = {"execution": {"strategy": "fsdp"}, "vary": {"strategy": ["ddp"]}}
COMMAND = {"command": "train.py --bs {micro_batch}"}


def campaign(**keys) -> Campaign:
    return Campaign.model_validate({"title": "x"} | keys)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (BESIDE_VARY, "execution.strategy is fsdp, and no cell has it: vary.strategy lists ddp. Keep one"),
        (BESIDE_VARY | {"cells": [{"strategy": "zero1"}]}, "execution.strategy is fsdp"),
        (
            {"execution": {"strategy": "fsdp"}, "cells": [{"strategy": "ddp"}, {"strategy": "zero1"}]},
            "execution.strategy is fsdp, and no cell has it: their own are ddp, zero1. Keep one",
        ),
        ({"execution": {"fsdp_prefetch": 2}, "cells": [{"strategy": "ddp"}]}, "fsdp_prefetch says nothing to ddp"),
        (
            {"execution": {"fsdp_reshard": False}, "vary": {"strategy": ["ddp", "zero1"]}},
            "says nothing to ddp, zero1; it",
        ),
        (
            {"execution": {"overlap_comm": True, "strategy": "fsdp"}},
            "execution.overlap_comm says nothing to fsdp; it is of zero1, zero2, zero3, with or without -offload",
        ),
        ({"vary": {"fsdp_prefetch": [1, 2]}}, "vary.fsdp_prefetch says nothing to ddp; it is of fsdp, hsdp"),
        ({"workload": {"vocab_size": 512, "vocab_multiple": 64}}, "vocab_multiple is of a derived vocab_size"),
        ({"workload": {"figures": "auto"}}, "workload.figures is for workload.command, which"),
        ({"workload": COMMAND | {"model": "gpt2-tiny"}}, "workload.model: workload.command does not read it"),
        ({"workload": COMMAND, "work": {"optimizer": {"learning_rate": 0.1}}}, "work.optimizer: workload.command"),
        ({"workload": COMMAND, "execution": {"precision": "bf16"}}, "execution.precision: workload.command"),
    ],
)
def test_a_key_without_effect_is_refused(keys, message):
    with pytest.raises(UserError, match=message):
        check_campaign(campaign(**keys))


@pytest.mark.parametrize(
    "keys",
    [
        BESIDE_VARY | {"vary": {"strategy": ["ddp", "fsdp"]}},  # one of them
        BESIDE_VARY | {"cells": [{"precision": "bf16"}]},  # which takes fsdp
        {"execution": {"strategy": "fsdp"}, "cells": [{"strategy": "ddp"}, {"strategy": None}]},
        BESIDE_VARY | {"compare": [{"name": "x", "a": {}, "b": {"precision": "bf16"}}]},
        {"execution": {"precision": "bf16"}, "vary": {"strategy": ["ddp"]}},
        {"execution": {"overlap_comm": True}, "vary": {"strategy": ["ddp", "zero2-offload"]}},
        {"execution": {"fsdp_reshard": False}, "cells": [{"strategy": "hsdp"}]},
        {"workload": {"vocab_multiple": 64}},
        {
            "workload": COMMAND | {"per_step": {"samples": 8}},
            "work": {"micro_batch": 8, "steps": 30, "seed": 2},
            "execution": {"geometry": "1x2", "device": "cpu", "threads_per_device": 2},
        },
    ],
)
def test_a_key_that_some_cell_or_the_command_reads_is_allowed(keys):
    check_campaign(campaign(**keys))


def test_the_rehearsal_of_a_campaign_has_no_key_without_effect():
    varied = {"vary": {"seq_len": [128, 256], "model": ["gpt2-small"], "bucket_elements": [1000, 2000]}}
    for keys in (varied, {"workload": COMMAND}, varied | {"cells": [{"strategy": "fsdp"}]}):
        check_campaign(make_rehearsal(campaign(**keys), without_gpu=True))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("machine_rank: 0", "line 2: unknown key machine_rank. Ranks are started and find each other by themselves; l"),
        (
            "execution: {sync_batchnorm: true}",
            "unknown key execution.sync_batchnorm. The models have none; leave it out",
        ),
        ("execution: {find_unused_parameters: no}", "Other settings of a strategy's library cannot be changed; leave"),
        ("work: {dataloader_num_workers: 4}", "Samples come from files of tokens, without a data loader; leave it out"),
        ("work: {log_every_n_steps: 4}", "Results go to results/, and nothing else is logged or saved; leave it out"),
        ("defaults: [base]", "No other file is read: vary lists what differs; an anchor"),
        ("execution: {los: plain}", 'unknown key execution.los. Did you mean "loss"?'),
        ("default: 1", "unknown key default. Allowed here"),
        ("matrix: {strategy: [ddp]}", 'unknown key matrix. Did you mean "vary"?'),
        ("scheduler: {type: cosine}", "unknown key scheduler. It belongs under work, as schedule."),
        (
            "work: {optimizer: {params: {lr: 0.1}}}",
            "unknown key work.optimizer.params. Its keys stand here without `par",
        ),
        ("base: {work: {steps: 5}, execution: {}}", "unknown key base. Its keys stand here without `base`."),
        ("base: {work: {steps: 5}, mine: {}}", "unknown key base. Allowed here"),
        ("repeats: ${oc.env:REPEATS}", "Variables are not filled in: write the value itself."),
        ("vary: {seed: '{{ seeds }}'}", "Variables are not filled in: write the value itself."),
        ("trace: true", "interconnect like {cells: all}."),
        ("question: Is fsdp faster than ddp?", "like {better_than: ddp, is: zero2, on: 1x2}."),
        ("forecast: 1x4", "launches like {hold_out: [1x4]}."),
    ],
)
def test_keys_and_values_of_other_programs_have_an_answer(tmp_path, text, answer):
    file = tmp_path / "mine.yaml"
    file.write_text(f"title: x\n{text}\n")
    with pytest.raises(UserError) as fault:
        load_campaign(file)
    assert answer in str(fault.value)


@pytest.mark.parametrize(("name", "value"), [("precision", "fp16"), ("precision", "tf32"), ("attention", "cudnn")])
def test_what_needs_cuda_is_not_for_the_cpu(name, value):
    with pytest.raises(UserError, match=f"execution.{name} {value} needs a CUDA device, and execution.device is cpu"):
        expand_cells(campaign(execution={"device": "cpu", name: value}))
    assert expand_cells(campaign(execution={name: value}))
    assert expand_cells(campaign(execution={"device": "cpu"}))
