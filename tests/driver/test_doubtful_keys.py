"""What a campaign may say, and hardly means."""

import pytest

from scaleproof.cli.commands import run
from scaleproof.driver.doubtful_keys import doubts_text
from scaleproof.ground.campaign.campaign_paths import CAMPAIGNS
from scaleproof.ground.campaign.loaded import LoadedCampaign

HEAD = "title: x\nwork: {global_batch: 8%s}\n"
SIZES = "vary: {strategy: [%s], geometry: [%s]}\n"
COMMAND = "title: x\nworkload: {command: 'torchrun %s train.py'}\n%s"
NODES = "vary: {geometry: [1x1, 2x1]}\n"
SIZES_OF_COMMAND = "vary: {geometry: [1x1, 1x2]}\n"


def doubts(folder, text: str) -> str:
    (folder / "mine.yaml").write_text(text)
    return doubts_text(LoadedCampaign(folder / "mine.yaml"), [])


@pytest.mark.parametrize(
    ("text", "doubt"),
    [
        (HEAD % "" + SIZES % ("hsdp, ddp", "1x1, 1x2"), "on one node it is fsdp: hsdp-n1x1, hsdp-n1x2"),
        (HEAD % ", optimizer: {learning_rate: 10}", "work.optimizer.learning_rate is above 0.1"),
        (HEAD % ", optimizer: {learning_rate: 1e-30}", "work.optimizer.learning_rate is below 1e-08"),
        (
            HEAD % "" + SIZES % ("single, ddp", "1x2") + "question: {is: ddp, better_than: single}\n",
            "question is about what can run on no machine: single-n1x2",
        ),
        (
            HEAD % "" + "execution: {device: cpu}\ntrace: {cells: all, interconnect: true}\n",
            "trace.interconnect looks at the links of GPUs, and these cells run on a CPU: ddp-n1x1",
        ),
        (
            HEAD % "" + "execution: {device: cpu}\ntrace: {cells: all, tool: nsys}\n",
            "nsys sees neither operators nor gloo's collectives on a CPU; torch.profiler sees both: ddp-n1x1",
        ),
        (
            HEAD % "" + "compare: [{name: z, a: {strategy: single, geometry: 1x2}, b: {geometry: 1x2}}]\n",
            "compare is about what can run on no machine: single-n1x2",
        ),
        (
            HEAD % "" + "execution: {device: cpu, strategy: single, compile: reduce-overhead}\n",
            "reduce-overhead is for CUDA graphs, and these cells run on a CPU: single-n1x1",
        ),
        (HEAD % "" + "trace: {nodes: all}\n", "trace names no cells, and nothing is traced"),
        (HEAD % "" + "target_loss: 50\n", "target_loss 50.0 is reached without training"),
        (HEAD % "" + SIZES % ("ddp", "1x1, 1x2") + "forecast: {hold_out: [1x2]}\n", "no strategy two sizes"),
        (HEAD % "" + "trace: {cells: all, steps: 900}\n", "trace.steps is 900: a few show what a step is made of"),
        (
            HEAD % "" + "execution: {precision: fp32}\nvary: {precision: [fp32, bf16]}\n",
            "execution.precision has no effect: vary.precision replaces it",
        ),
        (
            HEAD % ", seed: 2" + "cells: [{seed: 2}, {seed: 3}]\n",
            "work.seed has no effect: cells replaces it",
        ),
        (COMMAND % ("--nproc-per-node=2", "") + SIZES_OF_COMMAND, "{devices_per_node} is it: n1x1"),
        (
            COMMAND % ("--nproc-per-node {devices_per_node}", NODES),
            "without --nnodes={nodes}, which trains on each node by itself: n2x1",
        ),
        (COMMAND % ("--nproc-per-node {devices}", NODES), "{devices_per_node} is it: n2x1"),
        (COMMAND % ("\u2014epochs 3", ""), "a long dash where an option begins, which needs hyphens: --: n1x1"),
        (COMMAND % ("", "work: {steps: 100}\n"), "work.steps changes nothing: workload.command has no {steps}: n1x1"),
    ],
)
def test_what_is_hardly_meant_is_named(tmp_path, repository, monkeypatch, text, doubt):
    monkeypatch.chdir(repository)
    assert doubt in doubts(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    [
        HEAD % "" + SIZES % ("hsdp", "2x1, 2x2"),
        HEAD % "" + "trace: {cells: []}\n",
        HEAD % "" + "compare: [{name: z, a: {strategy: ddp}, b: {strategy: fsdp}}]\n",
        HEAD % "" + "execution: {device: cuda, strategy: single, compile: reduce-overhead}\n",
        HEAD % "" + "trace: {cells: all, nodes: all, steps: 50}\n",
        HEAD % "" + "execution: {device: cuda}\ntrace: {cells: all, tool: nsys}\n",
        HEAD % "" + "execution: {device: cpu}\ntrace: {cells: all, tool: auto}\n",
        HEAD % "" + "execution: {precision: fp32}\nvary: {precision: [bf16]}\ncells: [{strategy: fsdp}]\n",
        HEAD % "" + "execution: {precision: fp32}\nvary: {strategy: [ddp, fsdp]}\n",
        HEAD % ", optimizer: {learning_rate: 0.01}" + "target_loss: 5\n",
        HEAD % "" + SIZES % ("ddp", "1x1, 1x2, 1x4") + "forecast: {hold_out: [1x4]}\n",
        "title: x\nworkload: {command: python train.py}\ntarget_loss: 50\n",
        COMMAND % ("--nproc-per-node=2", "vary: {geometry: [1x2]}\n"),
        COMMAND % ("--nproc-per-node {devices_per_node} --nnodes={nodes} --rdzv-endpoint={host}:{port}", NODES),
        COMMAND.replace("torchrun", "python") % ("-m", NODES),
        COMMAND % ("--title a\u2014b", ""),
        COMMAND % ("--nproc-per-node {devices}", "") + SIZES_OF_COMMAND,
        COMMAND % ("--nproc-per-node gpu t.py --steps {steps}", "work: {steps: 100}\n"),
    ],
)
def test_what_is_common_is_not(tmp_path, repository, monkeypatch, text):
    monkeypatch.chdir(repository)
    assert doubts(tmp_path, text) == ""


def test_no_campaign_of_ours_is_doubted(repository, monkeypatch):
    monkeypatch.chdir(repository)
    assert not [path for path in CAMPAIGNS.glob("*.yaml") if doubts_text(LoadedCampaign(path), [])]


def test_a_plan_says_them_too(tmp_path, repository, monkeypatch, capsys):
    monkeypatch.chdir(repository)
    words = ["scaleproof", "plan", str(tmp_path / "mine.yaml"), "--results", str(tmp_path)]
    monkeypatch.setattr("sys.argv", words)
    for optimizer, is_doubted in (("", False), (", optimizer: {learning_rate: 10}", True)):
        (tmp_path / "mine.yaml").write_text(HEAD % optimizer)
        run()
        assert ("learning_rate is above 0.1" in capsys.readouterr().out) == is_doubted


@pytest.mark.parametrize(("words", "is_said"), [([], True), (["--device", "H100 80GB"], False)])
def test_a_plan_says_what_cannot_run_here(tmp_path, repository, monkeypatch, capsys, words, is_said):
    monkeypatch.chdir(repository)
    (tmp_path / "mine.yaml").write_text(f"{HEAD % ''}execution: {{geometry: 2x1}}\n")
    monkeypatch.setattr(
        "sys.argv", ["scaleproof", "plan", str(tmp_path / "mine.yaml"), "--results", str(tmp_path), *words]
    )
    run()
    assert ("These cannot run here (each is a row that says why):" in capsys.readouterr().out) == is_said
