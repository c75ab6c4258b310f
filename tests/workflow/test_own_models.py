"""Models of transformers that a campaign names by a file come to their report by the real Snakemake."""

import json

import pytest

CONFIG = {
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
}
FUNCTION = f"""
from transformers import LlamaConfig, LlamaForCausalLM

def build(vocab_size):
    return LlamaForCausalLM(LlamaConfig(vocab_size=vocab_size, **{ {key: CONFIG[key] for key in list(CONFIG)[1:]} }))
"""
CAMPAIGN = """title: Is my model measured?
workload: {{model: {{{model}}}, corpus: prose, tokenizer: bpe-257, seq_len: 32}}
work: {{global_batch: 2, warmup_steps: 3, steps: 4}}
execution: {{start: forked}}
vary: {{geometry: [1x1]}}
repeats: 1
"""


@pytest.mark.parametrize(("model", "name"), [("config: mine.json", "mine"), ("module: 'own.py:build'", "own")])
def test_a_model_in_a_file_comes_to_a_report(built, model, name):
    (built.root / "mine.json").write_text(json.dumps(CONFIG))
    (built.root / "own.py").write_text(FUNCTION)
    built.campaign(name, CAMPAIGN.format(model=model))
    built.build(f"results/{name}/report.html")
    header, row = (built.root / f"results/{name}/cells.csv").read_text().splitlines()
    assert dict(zip(header.split(","), row.split(","), strict=True))["model"] == name
    assert built.command("scaleproof", "verify", f"results/{name}").returncode == 0
    assert built.command("scaleproof", "plan", f"config/campaigns/{name}.yaml").returncode == 0
