"""A command as the workload: placeholders are axes, and what cannot run is refused."""

import pytest

from scaleproof.ground.campaign.cells import expand_cells
from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.campaign.yaml_loader import load_campaign
from scaleproof.ground.errors import UserError


def cells(command: str, **keys):
    workload = {"command": command} | keys.pop("workload", {})
    return expand_cells(Campaign.model_validate({"title": "x", "workload": workload} | keys))


def test_each_placeholder_is_an_axis():
    every = cells(
        "torchrun --nproc-per-node {devices} train.py --parallel {parallel} --bs {micro_batch}",
        vary={"parallel": ["ddp", "fsdp"], "micro_batch": [2], "geometry": ["1x1", "1x2"]},
    )
    slugs = {cell.slug for cell in every}
    assert slugs == {"ddp-n1x1-mb2", "ddp-n1x2-mb2", "fsdp-n1x1-mb2", "fsdp-n1x2-mb2"}
    last = next(cell for cell in every if cell.slug == "fsdp-n1x2-mb2")
    assert last.words == ["torchrun", "--nproc-per-node", "2", "train.py", "--parallel", "fsdp", "--bs", "2"]


def test_values_may_have_names_of_their_own():
    a, b = cells("{program}", vary={"program": {"old": "python a.py --x 1", "new": "python b.py"}})
    assert (a.slug, b.slug) == ("old-n1x1", "new-n1x1")
    assert a.words == ["python", "a.py", "--x", "1"]


def test_numbers_and_switches_are_named_after_their_axis():
    slugs = [cell.slug for cell in cells("p {layers} {fused}", vary={"layers": [2, 4], "fused": [True, False]})]
    assert slugs == ["layers2-fused-n1x1", "layers2-nofused-n1x1", "layers4-fused-n1x1", "layers4-nofused-n1x1"]


def test_a_global_batch_that_is_given_reaches_a_command_by_what_follows_from_it():
    per_step = {"per_step": {"samples": "{global_batch}"}}
    one, two = cells(
        "p --bs {micro_batch}", work={"global_batch": 256}, vary={"geometry": ["1x1", "1x2"]}, workload=per_step
    )
    assert [(cell.words[-1], cell.per_step) for cell in (one, two)] == [("256", 256), ("128", 256)]


@pytest.mark.parametrize("work", [{"micro_batch": 8}, {"micro_batch": 8, "global_batch": 64}])
def test_a_micro_batch_alone_says_how_large_a_step_is(work):
    (cell,) = cells("p --bs {micro_batch}", work=work, workload={"per_step": {"samples": "{global_batch}"}})
    assert cell.per_step == work["micro_batch"]


def test_a_command_is_not_ended_before_it_is_looked_at():
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        cells("p", work={"seconds": 0.5})
    assert cells("p", work={"seconds": 1})[0].work.seconds == 1


def test_other_braces_stay():
    (cell,) = cells("python -c 'print({1: 2}, {})'")
    assert cell.words == ["python", "-c", "print({1: 2}, {})"]


@pytest.mark.parametrize(
    "command",
    [
        "p {steps:04d}",
        "p --n {steps --m 3",
        "p {x} {x!r}",
        "p { steps }",
        "p {steps",
        "p {Steps}",
        "p {work.steps}",
        "p {global-batch}",
        "p {GPU}",
        "p <steps>",
        "p %steps%",
        "p @steps@ [steps]",
    ],
)
def test_a_placeholder_with_a_format_or_left_open_is_refused(command):
    vary = {"x": [1]} if "{x}" in command else {}
    with pytest.raises(UserError, match=r"is not filled in; write \{"):
        cells(command, vary=vary)
    assert cells("p '{steps:5} {\"a\": 1} {name:04d} {name {Lightning} <s> %d%% {Model}'")


def test_a_command_is_one_line():
    with pytest.raises(UserError, match="python begins two lines, and no shell reads them; write bash -c"):
        cells("python a.py\npython b.py\n")
    (cell,) = cells("python a.py \\\n  --steps 5\n  --out x\n")
    assert cell.words == ["python", "a.py", "--steps", "5", "--out", "x"]


def test_a_micro_batch_follows_from_the_global_batch_that_is_given_or_is_asked_for():
    geometries = {"geometry": ["1x1", "1x2"]}
    words = [cell.words for cell in cells("p {micro_batch}", work={"global_batch": 256}, vary=geometries)]
    assert words == [["p", "256"], ["p", "128"]]
    with pytest.raises(UserError, match=r"work.micro_batch: the command's \{micro_batch\} has no value"):
        cells("p {micro_batch}")


def test_two_settings_have_two_fingerprints_and_one_work():
    a, b = cells("p {x}", vary={"x": [1, 2]}, workload={"per_step": {"tokens": "8 * {devices}"}})
    assert a.fingerprint != b.fingerprint
    assert (a.per_step, b.per_step) == (8, 8)


@pytest.mark.parametrize(
    ("command", "word"),
    [
        *(("python t.py | tee l", "|"), ("cd x && python t.py", "&&"), ("python t.py 2>&1", "2>&1")),
        *(("LR=1 t.py -b $B", "$B"), ("python t.py --lr=$LR", "--lr=$LR"), ("t.py -n $(nproc)", "$(nproc)")),
        *(("~/t.py --lr 1", "~/t.py"), ("python ~/t.py", "~/t.py"), ("t.py -n `nproc`", "`nproc`")),
    ],
)
def test_what_only_a_shell_obeys_is_refused(command, word):
    with pytest.raises(UserError) as refused:
        cells(command)
    assert f"no shell reads it, so that {word} is a plain word; write bash -c" in str(refused.value)
    assert cells(f"bash -c '{command}'")
    assert cells("./x=1/python t.py --query a=b '|x' '{ print $1, $NF }' '^a$' a~b --d=~/x")
    assert cells("python t.py --sep '|' --lt \"<\" ';'")


@pytest.mark.parametrize("words", ["--hub hf_", "--api-key=", "--token w", "--x sk-", "--env WANDB_API_KEY="])
def test_a_token_in_a_command_is_refused_and_not_printed(words):
    with pytest.raises(UserError, match=r"looks like a password or token.* set the variable") as refused:
        cells(f"python t.py {words}0123456789abcdef0123")
    assert "6789" not in str(refused.value)


def test_words_about_tokens_are_no_secrets():
    assert cells("t.py --token-file key1234567890abcdef --api-key {x}", vary={"x": ["a"]})
    assert cells("t.py --tokenizer hf_internal --pad_token end1234567890abcdefgh --max-tokens 1234567890123456789")


def test_quotes_of_yaml_make_no_other_setting():
    with pytest.raises(UserError, match=r"vary\.lr lists lr0\.1 twice"):
        cells("p {lr}", vary={"lr": [0.1, "0.1"]})
    with pytest.raises(UserError, match=r'vary\.x: " a" and "a" would both be "a"'):
        cells("p {x}", vary={"x": [" a", "a"]})
    with pytest.raises(UserError, match=r"vary\.fused lists fused twice"):
        cells("p {fused}", vary={"fused": [True, "true"]})
    slugs = [cell.slug for cell in cells("p {x}", vary={"x": ["1a", "0.1", "v"]})]
    assert slugs == ["1a-n1x1", "x0.1-n1x1", "v-n1x1"]
    assert len(cells("p {x}", vary={"x": {"one": "same", "two": "same"}})) == 2  # A against A, on purpose


def test_a_variable_before_the_program_is_for_env():
    with pytest.raises(UserError, match="LR=1 is no variable; write env LR=1"):
        cells("LR=1 python t.py")
    assert cells("env LR=1 python t.py")


def test_two_lengths():
    (cell,) = cells("p {steps}", work={"steps": [50, 150]}, workload={"figures": "whole"})
    assert (cell.work.fewer_steps, cell.work.steps) == (50, 150)


def test_exclude_takes_the_name_of_a_value():
    values = {"old": "python a.py", "new": "python b.py"}
    made = cells(
        "{x} --bs {micro_batch}", vary={"x": values, "micro_batch": [1, 2]}, exclude=[{"x": "old", "micro_batch": 2}]
    )
    assert [cell.slug for cell in made] == ["old-n1x1-mb1", "new-n1x1-mb1", "new-n1x1-mb2"]


def test_cells_and_exclude_take_placeholders():
    slugs = [c.slug for c in cells("p {x}", vary={"x": [1, 2]}, cells=[{"x": 3}], exclude=[{"x": 2}])]
    assert slugs == ["x1-n1x1", "x3-n1x1"]


def test_cells_alone_fill_placeholders_in():
    made = cells("p {x} {y}", cells=[{"x": 1, "y": 2}, {"x": 3, "y": 4, "geometry": "1x2"}])
    assert [(cell.slug, cell.words) for cell in made] == [
        ("x1-y2-n1x1", ["p", "1", "2"]),
        ("x3-y4-n1x2", ["p", "3", "4"]),
    ]
    assert [cell.slug for cell in cells("p {seed}", cells=[{"seed": 2}, {}])] == ["n1x1-seed2", "n1x1"]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"vary": {"geometry": ["1x1"]}, "cells": [{"x": 1}]}, "{x} has no value; list its values under vary"),
        ({"cells": [{"x": 1}, {}]}, "or, without vary, in each entry of cells"),
        ({"cells": [{"x": 1}], "exclude": [{"x": 1}]}, "exclude: x: x1 matches no combination of `vary`; remove it"),
    ],
)
def test_a_cell_without_a_value_for_a_placeholder_is_refused(keys, message):
    with pytest.raises(UserError, match=message):
        cells("p {x}", **keys)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"command": "p {paralel}", "vary": {}}, r"{paralel} has no value; list its values under vary"),
        ({"command": "p {geometry}", "vary": {}}, "{geometry} stands for nothing; write {nodes}, {devices_per_node}"),
        ({"command": "p 'open"}, "No closing quotation"),
        ({"command": "p", "work": {"steps": [50, 150]}}, "has no {steps}"),
        ({"command": "p {steps}", "work": {"steps": [50, 150]}}, "two lengths are for workload.figures: whole"),
        ({"command": "p", "workload": {"figures": "whole", "rate_of": "all"}}, "workload.rate_of is of a printed rate"),
        ({"command": "p", "workload": {"per_step": {"tokens": "2 + 2"}}}, "no product of whole numbers"),
        ({"command": "p {x}", "vary": {"x": [1]}, "workload": {"per_step": {"tokens": "b * 8"}}}, r"command \(.*{x}"),
        ({"command": "p", "workload": {"per_step": {"tokens": "{seq_len} * 8"}}}, "; {seq_len} has no value here"),
        ({"command": "p", "workload": {"per_step": {"tokens": "{globalbatch}"}}}, 'Did you mean "global_batch"?'),
        ({"command": "p {x}", "vary": {"x": [1]}, "cells": [{}]}, "has no value"),
        ({"command": "p", "work": {"micro_batch": "largest"}}, "a command needs a number"),
    ],
)
def test_what_cannot_run_is_refused(keys, message):
    with pytest.raises(UserError, match=message):
        cells(**keys)


@pytest.mark.parametrize(
    "workload",
    [
        {"figures": {"step_ms": r"time [\d.]+ms"}},
        {"figures": {"step_ms": "("}},
        {"figures": {"loss": r"loss ([\d.]+)"}},
        {"per_step": {"tokens": 1, "samples": 1}},
        {"figures": {"step": r"/step (\d+)/"}},
    ],
)
def test_figures_that_cannot_be_read_are_refused(workload):
    with pytest.raises(ValueError, match=r"groups|regular expression|is needed|one of|without the slashes: step "):
        cells("p", workload=workload)


def test_slashes_around_a_number_may_be_meant():
    assert cells("p", workload={"figures": {"step": r"/(\d+)/"}})
    assert cells("p", workload={"figures": {"step": r"/run (\d+)/\d+"}})


@pytest.mark.parametrize(
    ("command", "axis", "problem"),
    [
        ("p {{lr}}", "lr", "write {lr}, in single braces"),
        ("p ${lr}", "lr", r"write {lr}, without the \$"),
        ("p {strategy}", "strategy", "{strategy} needs another name"),
    ],
)
def test_a_placeholder_that_would_not_be_filled_in_is_refused(command, axis, problem):
    values = ["ddp", "fsdp"] if axis == "strategy" else [1, 2]
    with pytest.raises(UserError, match=problem):
        cells(command, vary={axis: values})


@pytest.mark.parametrize(("command", "axis"), [("p", "micro_batch"), ("p", "seed"), ("p {seed}", "global_batch")])
def test_an_axis_that_the_command_does_not_read_is_refused(command, axis):
    per_step = {"per_step": {"samples": "{global_batch}"}}
    with pytest.raises(UserError, match=rf"vary.{axis}: workload.command has no {{{axis}}}, so it changes nothing"):
        cells(command, vary={axis: [8, 64]}, workload=per_step)
    assert len(cells(f"{command} {{micro_batch}} {{seed}}", vary={axis: [8, 64]}, work={"micro_batch": 1})) == 2


def test_a_name_that_is_no_placeholder_is_refused():
    with pytest.raises(ValueError, match="Extra inputs"):
        cells("p {x}", vary={"x": [1], "y": [2]})


def test_placeholders_of_a_faulty_command_are_no_faults_of_their_own(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text('title: x\nworkload: {command: [python, "{mode}"]}\nvary: {mode: [a, b]}\nwork: {stesp: 3}\n')
    with pytest.raises(UserError, match=r"Write python \{mode\}") as refused:
        load_campaign(file)
    assert "vary.mode" not in str(refused.value)
    assert "unknown key work.stesp" in str(refused.value)
    file.write_text("title: x\nworkload: {command: python x.py}\nvary: {mode: [a, b]}\n")
    with pytest.raises(UserError, match=r"unknown key vary.mode. workload.command has no \{mode\}"):
        load_campaign(file)
