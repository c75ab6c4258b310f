"""Models of transformers by file, function or hub: what is built, what is counted, what is refused."""

import json
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import huggingface_hub
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import CONFIG_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING
from webserver import Server, serving

from scaleproof.ground.campaign.cells import expand_cells
from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.campaign.transformers_model import TransformersModel
from scaleproof.ground.errors import UserError
from scaleproof.ground.facts.counts import count_parameters_and_flops, inventory_of_shape
from scaleproof.measure.model import inventory, time_limit
from scaleproof.measure.model.build import build_model
from scaleproof.measure.model.fetch import fetch_config
from scaleproof.measure.model.inventory import inventory_of
from scaleproof.measure.model.known_names import _tables, check_names
from scaleproof.measure.reference.network import build_network as build_for_replay

ARCHITECTURES = sorted((Path(__file__).parent / "architectures").glob("*.json"))
DECODERS = [path for path in ARCHITECTURES if "bert" not in path.stem]
LLAMA = json.loads((Path(__file__).parent / "architectures/llama.json").read_text())
COMMIT = "c" * 40
FUNCTION = """
from transformers import LlamaConfig, LlamaForCausalLM

def build(vocab_size):
    config = LlamaConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                         vocab_size=vocab_size, max_position_embeddings=64)
    return LlamaForCausalLM(config)
"""


def cell_of(model: dict[str, str], **workload: object):
    data = {"title": "x", "workload": {"model": model, "seq_len": 32, "tokenizer": "bpe-512", **workload}}
    return expand_cells(Campaign.model_validate(data))[0]


def classifying(path: Path):
    return cell_of({"config": str(path)}, task="classification", corpus="ag_news")


def written(folder: Path, **changes: object) -> dict[str, str]:
    (folder / "config.json").write_text(json.dumps(LLAMA | changes))
    return {"config": str(folder / "config.json")}


@pytest.mark.parametrize("path", ARCHITECTURES, ids=lambda path: path.stem)
def test_parameters_are_those_of_the_network_and_of_the_replay(path):
    encoder = path not in DECODERS
    cell = classifying(path) if encoder else cell_of({"config": str(path)})
    own, other = build_model(cell, 4 * encoder), build_for_replay(cell.config["workload"], cell.work.seed, 4)
    counted = [sum(p.numel() for p in network.parameters()) for network in (own, other)]
    assert counted == [inventory_of(cell, 4).parameters] * 2
    assert {p.dtype for p in own.parameters()} == {torch.float32}, "whatever the file says"


@pytest.mark.parametrize("path", DECODERS, ids=lambda path: path.stem)
def test_flops_against_the_profiler_of_torch(path):
    cell = cell_of({"config": str(path)})
    network = build_model(cell)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        network(torch.randint(512, (4, 33))).backward()
    expected = count_parameters_and_flops(inventory_of(cell), 32).flops_per_token * 4 * 32
    assert counter.get_total_flops() == pytest.approx(expected, rel=0.02)


def test_a_gpt2_by_its_file_is_that_of_its_shape(tmp_path):
    keys = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 2, "n_positions": 64}
    (tmp_path / "config.json").write_text(json.dumps(keys))
    by_file = cell_of({"config": str(tmp_path / "config.json")})
    by_shape = cell_of({"layers": 2, "width": 64, "heads": 2, "context": 64})
    assert inventory_of(by_file) == inventory_of(by_shape) == inventory_of_shape(by_shape.workload.model, 512)
    pairs = zip(build_model(by_file).parameters(), build_model(by_shape).parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def test_a_function_makes_the_model(tmp_path):
    (tmp_path / "own.py").write_text(FUNCTION)
    cell = cell_of({"module": f"{tmp_path}/own.py:build"})
    assert sum(p.numel() for p in build_model(cell).parameters()) == inventory_of(cell).parameters
    rows = torch.randint(512, (2, 33))
    replayed = build_for_replay(cell.config["workload"], cell.work.seed, 0)
    assert build_model(cell)(rows).item() == pytest.approx(replayed(rows).mean().item(), rel=1e-6)
    workload = cell.config["workload"]
    (tmp_path / "own.py").write_text(FUNCTION + "# another\n")
    with pytest.raises(UserError, match="was changed since the run"):
        build_for_replay(workload, cell.work.seed, 0)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def build(vocab_size):\n    raise ValueError(1)\n", "own.py, line 2: .* ValueError: 1"),
        ("import notalib\ndef build(): pass\n", "own.py, line 1: .* No module named 'notalib'"),
        ("def build(vocab_size:\n", "own.py, line 1: .* SyntaxError"),
        ("def build(rows): pass\n", r"own.py, line 1: .* write def build\(vocab_size\)"),
        ("def built(vocab_size): pass\n", 'own.py has no function "build".* Did you mean "built"'),
        ("def my_net(vocab_size): pass\n", 'own.py has no function "build".* Defined there: my_net'),
        ("async def build(vocab_size): pass\n", 'own.py: "build" returns a coroutine'),
        ("raise SystemExit(3)\ndef build(): pass\n", "own.py, line 1: .* SystemExit: 3"),
    ],
)
def test_a_function_that_fails_is_named_with_its_line(tmp_path, code, message):
    (tmp_path / "own.py").write_text(code)
    with pytest.raises(UserError, match=message):
        build_model(cell_of({"module": f"{tmp_path}/own.py:build"}))


def test_too_few_and_far_too_many_embeddings_are_named_before_a_run(tmp_path):
    (tmp_path / "own.py").write_text(FUNCTION.replace("vocab_size=vocab_size", "vocab_size=100"))
    with pytest.raises(UserError, match="it has 100 embeddings for 512 tokens"):
        inventory_of(cell_of({"module": f"{tmp_path}/own.py:build"}))
    (tmp_path / "own.py").write_text(FUNCTION.replace("vocab_size=vocab_size", "vocab_size=2000"))
    with pytest.raises(UserError, match="it has 2000 embeddings for 512 tokens"):
        inventory_of(cell_of({"module": f"{tmp_path}/own.py:build"}))


def test_a_function_that_never_returns_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(inventory, "MOST_SECONDS", 0.05)
    monkeypatch.setattr(time_limit, "WAITS", 1000)  # the clock also runs while others compute
    (tmp_path / "own.py").write_text("def build(vocab_size):\n    while True:\n        pass\n")
    with pytest.raises(UserError, match=r"own\.py, line [23]: .* it has not returned after 0.05 s of computing"):
        inventory_of(cell_of({"module": f"{tmp_path}/own.py:build"}))
    monkeypatch.setattr(time_limit, "WAITS", 3)
    (tmp_path / "own.py").write_text("import time\ndef build(vocab_size):\n    time.sleep(100)\n")
    with pytest.raises(UserError, match=r"own\.py, line 3: .* it has not returned after 0.15 s$"):
        inventory_of(cell_of({"module": f"{tmp_path}/own.py:build"}))


def test_weights_that_are_not_fp32_are_named(tmp_path):
    (tmp_path / "own.py").write_text(FUNCTION.replace("(config)\n", "(config).bfloat16()\n"))
    with pytest.raises(UserError, match=r"it has weights of torch.bfloat16; make them of torch.float32"):
        inventory_of(cell_of({"module": f"{tmp_path}/own.py:build"}))


def test_the_line_of_another_files_error_is_not_taken_for_one_of_the_model(tmp_path, monkeypatch):
    """A module that the model's file imports has the fault: the line is that of the import."""
    (tmp_path / "helper_of_own.py").write_text("\n\n\n\ndef layers(:\n")
    (tmp_path / "own.py").write_text("\nimport helper_of_own\ndef build(vocab_size): pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UserError, match=r"own.py, line 2: .* SyntaxError: .*\(helper_of_own.py, line 5\)"):
        build_model(cell_of({"module": f"{tmp_path}/own.py:build"}))


def test_a_file_that_is_beside_the_campaigns_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config/campaigns").mkdir(parents=True)
    (tmp_path / "config/campaigns/llama.json").write_text("{}")
    with pytest.raises(UserError, match='"config/campaigns/llama'):
        TransformersModel(config="llama.json").description()
    Path("llama").mkdir()
    Path("llama/config.json").touch()
    with pytest.raises(UserError, match=r"llama is a folder; give the name of llama/config\.json"):
        TransformersModel(config="llama").description()
    with pytest.raises(UserError, match="is an address; download it"):
        TransformersModel(config="https://x.org/llama.json").description()


def test_another_file_is_another_fingerprint(tmp_path):
    one = cell_of(written(tmp_path)).fingerprint
    assert cell_of(written(tmp_path, num_hidden_layers=3)).fingerprint != one
    assert cell_of(written(tmp_path)).fingerprint == one


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_local_experts": 8}, "num_local_experts 8: how much arithmetic"),
        ({"auto_map": {"AutoModel": "modeling.Own"}}, "its code is on the hub"),
        ({"final_logit_softcapping": 30.0}, "its logits are capped"),
        ({"model_type": "mamba", "num_attention_heads": None}, "mixes tokens by a state"),
        ({"model_type": "jamba"}, "mixes tokens by a state"),
        ({"model_type": "mixtral"}, "num_local_experts 8: how much arithmetic"),  # its default
        ({"model_type": "bert"}, "must be causal; an encoder has task: classification"),
        ({"model_type": "nonsense"}, 'has no model_type "nonsense"'),
        ({"model_type": "lama"}, 'Did you mean "llama"'),
        ({"num_hidden_layers": 0}, "num_hidden_layers cannot be 0; allowed: a whole number from 1 to 10,000"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers cannot be 1000000000; allowed"),
        (
            {"num_hidden_layers": "two"},
            'config.json: num_hidden_layers cannot be "two"; allowed: a whole number from 1',
        ),
        ({"max_position_embeddings": 2.5}, "max_position_embeddings cannot be 2.5; allowed: a whole number"),
        ({"num_key_value_heads": 3}, "num_attention_heads 4 is not a multiple of num_key_value_heads 3"),
        ({"hidden_act": "sluw"}, "hidden_act is sluw, which transformers does not know"),
        (
            {"num_attention_heads": 5, "num_key_value_heads": 5},
            "hidden_size 32 is not a multiple of num_attention_heads 5",
        ),
        ({"model_type": "mistral", "rms_norm_eps": "x"}, "transformers refuses it: .*rms_norm_eps"),
        ({"max_position_embeddings": 16}, "longer than the model's context of 16"),
        ({"model_type": None}, 'it has no "model_type"'),
        ({"rms_norm_esp": 1e-5}, 'unknown key rms_norm_esp. Did you mean "rms_norm_eps"'),
    ],
)
def test_what_cannot_be_exact_is_refused(tmp_path, changes, message):
    with pytest.raises(UserError, match=message) as refusal:
        inventory_of(cell_of(written(tmp_path, **changes)))
    assert refusal.value.key[:1] == ("workload",), "the line of the campaign is found by it"


def test_a_key_that_is_given_twice_is_refused(tmp_path):
    model = written(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(path.read_text().replace("{", '{"hidden_size": 64, ', 1))
    with pytest.raises(UserError, match=r'config\.json: the key "hidden_size" is given twice'):
        inventory_of(cell_of(model))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import transformers\nf = transformers.LlamaForCausaLM", 'Did you mean "LlamaForCausalLM"'),
        ("def f(vocab_size):\n  from transformers import NoSuchLM", "made.py, line 2: transformers .* has no NoSuchLM"),
        ("from transformers import LlamaConfig, modeling_utils, models\nf = 1", None),
        ("import transformers\nf = transformers.models, transformers.__version__", None),
        ("transformers = []\nf = transformers.append", None),
        ("try:\n  from transformers import NoSuchLM\nexcept ImportError:\n  pass\nf = 1", None),
        ("import torch\nf = (", "made.py, line 2: no network can be built: SyntaxError: '[(]' was never closed"),
    ],
)
def test_names_that_transformers_lacks_are_read_from_the_file(tmp_path, monkeypatch, text, message):
    monkeypatch.chdir(tmp_path)
    Path("made.py").write_text(text)
    with pytest.raises(UserError, match=message) if message else nullcontext():
        check_names(TransformersModel(module="made.py:f"), "language-modelling")


def test_what_files_say_of_types_is_what_transformers_says():
    tables = {task: _tables(task) for task in ("language-modelling", "classification")}
    of_library = (MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING)
    for (configs, networks), mapping in zip(tables.values(), of_library, strict=True):
        assert configs.keys() >= set(CONFIG_MAPPING.keys())
        for name in ("bert", "encodec", "gpt-sw3", "gpt2", "llama", "vit"):
            assert (configs[name] in {configs.get(one) for one in networks}) == (CONFIG_MAPPING[name] in mapping)


LINEAR = "import torch\ndef build(vocab_size): return torch.nn.Linear(4, vocab_size)\n"


@pytest.mark.parametrize(
    ("source", "library", "message"),
    [
        ("vit", "torch", "has no model of type vit for language-modelling"),
        (
            "rwkv",
            "torch",
            "it mixes tokens by a state (state space, recurrence), whose arithmetic no formula here counts",
        ),
        ("bert", "torch", 'an encoder has task: classification, or "is_decoder": true in its config.json'),
        ("def build(:\n", "torch", "own.py, line 1: no network can be built: SyntaxError: invalid syntax"),
        (LINEAR, "transformers", "own.py:build returns a Linear, no model of transformers"),
        ("def build(rows): pass\n", "transformers", "build is called with one argument; write def build(vocab_size)"),
    ],
)
def test_what_makes_no_model_is_refused_before_seconds_of_imports(tmp_path, source, library, message):
    (tmp_path / "own.py").write_text(source)
    model = {"module": f"{tmp_path}/own.py:build"} if "(" in source else written(tmp_path, model_type=source)
    code = (
        "import sys\nfrom scaleproof.measure.model import inventory as i\n"
        f"try: i._count_network(i.TransformersModel(**{model}), '', 512, 0)\n"
        f"except i.UserError as error: print(error, {library!r} in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith(f"{message} False\n")


def test_a_bert_that_is_a_decoder_is_a_language_model(tmp_path):
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = {"model_type": "bert", "is_decoder": True, "num_hidden_layers": 2, "hidden_size": 32} | dropout
    (tmp_path / "config.json").write_text(json.dumps(config | {"num_attention_heads": 4, "intermediate_size": 64}))
    assert inventory_of(cell_of({"config": str(tmp_path / "config.json")})).parameters


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_another_file_than_a_configuration_leads_to_it(tmp_path, name):
    (tmp_path / name).write_bytes(b"\xc0\x01")
    with pytest.raises(UserError, match="not UTF-8") as refusal:
        TransformersModel(config=str(tmp_path / name)).description()
    assert ("give the config.json of the model" in str(refusal.value)) == (name != "config.json")


def test_a_decoder_is_no_classifier(tmp_path):
    with pytest.raises(UserError, match="a classifier must not be causal"):
        inventory_of(classifying(Path(written(tmp_path)["config"])))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"hub": "owner/name"}, "`revision` is missing"),
        ({"config": "a.json", "module": "b.py:f"}, "not 2 of them"),
        ({"config": "a.json", "revision": COMMIT}, "`revision` is for `hub`"),
    ],
)
def test_a_name_that_is_none(model, message):
    with pytest.raises(ValueError, match=message):
        cell_of(model)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A stand-in of the hub with one model, and a folder without any."""
    with serving() as server:
        _put_model(server)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.chdir(tmp_path)
        yield server


def _put_model(server: Server) -> None:
    info = {"id": "owner/tiny", "sha": COMMIT, "tags": [], "private": False}
    server.files["/api/models/owner/tiny/revision/main"] = json.dumps(info).encode()
    path = f"/owner/tiny/resolve/{COMMIT}/config.json"
    server.files["/store/config.json"] = json.dumps(LLAMA).encode()
    size = str(len(server.files["/store/config.json"]))
    headers = {"X-Repo-Commit": COMMIT, "X-Linked-Etag": '"abc"', "X-Linked-Size": size}
    server.redirects[path] = (f"{server.url.replace('127.0.0.1', 'localhost')}/store/config.json", headers)


def test_a_model_of_the_hub_is_fetched_once(hub):
    model = {"hub": "owner/tiny", "revision": COMMIT}
    with pytest.raises(UserError, match="scaleproof model fetch owner/tiny --revision c"):
        cell_of(model).config  # noqa: B018  (it reads the file)
    assert fetch_config("owner/tiny", "main", hub.url, None) == f"model: {{hub: owner/tiny, revision: {COMMIT}}}"
    assert inventory_of(cell_of(model)).parameters == 51_360


def test_a_model_that_the_hub_does_not_have(hub):
    with pytest.raises(UserError, match="has no config"):
        fetch_config("owner/other", "main", hub.url, None)
