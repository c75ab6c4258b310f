"""A campaign whose keys have the least values that are allowed comes to its report by the real Snakemake."""

import json

from scaleproof.measure.reference.schema import read_reference

LEAST = """title: What is the least that runs?
workload:
  model: {layers: 1, width: 2, heads: 1, context: 2}
  corpus: prose
  tokenizer: bpe-257
  seq_len: 1
work:
  global_batch: 2
  warmup_steps: 3
  steps: 2
  validation_samples: 0
  seed: 0
  optimizer: {betas: [0, 0], weight_decay: 0, max_grad_norm: 0}
  schedule: {name: linear, final_fraction: 0}
execution: {start: forked}
vary:
  strategy: [ddp, zero1]
  geometry: [1x1, 1x2]
compare: [{name: fused, a: {geometry: 1x1}, b: {geometry: 1x1, fused_optimizer: false}, pairs: 2, null_pairs: 2}]
trace: {cells: [ddp-n1x2], steps: 1}
margin: 0
repeats: 1
"""


def test_the_least_values_come_to_a_report(make_copy):
    copy = make_copy()
    copy.campaign("least", LEAST)
    copy.build("results/least/report.html")
    results = copy.root / "results/least"
    for path in results.glob("runs/*/rep1/training_metrics.json"):
        metrics = json.loads(path.read_text())
        assert (metrics["status"], metrics["validation"]) == ("ok", None), path
    reference = read_reference(next(results.glob("reference/*.json")))
    assert (len(reference.losses), reference.validation_loss, reference.shortened) == (5, None, None)
    verified = copy.command("scaleproof", "verify", "results/least")
    assert verified.returncode == 0, verified.stdout[-2000:]
