"""Texts that workflow tests write into files."""

# A campaign of two cells that train in well under a second.
TINY = """title: Does it scale?
workload:
  model: {layers: 1, width: 32, heads: 2, context: 64}
  corpus: prose
  tokenizer: bpe-512
  seq_len: 32
work:
  global_batch: 8
  warmup_steps: 3
  steps: 4
execution: {start: forked}
vary:
  geometry: [1x1, 1x2]
repeats: 1
"""

# The same, said in other words.
REFORMATTED = """# a comment
"repeats": 1
execution:
  start: forked
vary: {geometry: ["1x1", '1x2']}
workload:

    seq_len:   32   # tokens
    tokenizer: bpe-512
    corpus: "prose"
    model:
        context: 64
        heads: 2
        layers: 1
        width: 32
work: {steps: 4, warmup_steps: 3, global_batch: 8}
title: 'Does it scale?'
"""

# A comparison to append to a campaign.
COMPARE = """compare:
  - {name: fused, a: {fused_optimizer: false}, b: {fused_optimizer: true}, pairs: 2, null_pairs: 2}
"""
