"""What a wrong value in a campaign file is answered with: what is allowed, the nearest word, and where it goes."""

from pathlib import Path

import pytest
from command_line import scaleproof

HEAD = "title: x\n"
GRID = HEAD + "vary: {strategy: [ddp, zero2], geometry: [1x1, 1x2]}\n"

# File -> a part of the message.
MEANT = [
    ("work: {steps: 10\u00b3}", "(optimizer steps).\n"),
    ("work: {steps: \u0665\u0660}", "Write 50."),
    ("work:\n  steps:5", "Write steps: 5, with a colon and a blank."),
    ("work:\n  steps = 5", "line 3: write steps: 5"),
    ("vary: {strategy: (ddp, fsdp)}", "Write [ddp, fsdp]."),
    ("vary: {strategy: !!set {ddp, fsdp}}", "vary.strategy: tags such as !!set are not allowed"),
    ("work: {steps: 5; seed: 1}", "a comma is missing"),
    ("work: {optimizer: {learning_rate: 1,5}}", "<= 1000. Write 1.5."),
    ("work: {global_batch: 1,024}", "(samples); derive. Write 1024."),
    ("work: {optimizer: {learning_rate: 3e\u22124}}", "Write 3e-4."),
    ("workload: {model: {config: x, layers: 4}}", "unknown key workload.model.layers. It does not go with config. A"),
    ("workload: {model: {layers: 2, reviscon: x}}", 'Did you mean "revision"? It does not go with layers. Allowed'),
    ("workload: {model: {feed_forward: 8, heads: 2}}", "workload.model.d_model is missing"),
    ("workload: {model: {layers: 4, hidden_size: 8}}", 'hidden_size. Did you mean "width"? Allowed here: layers'),
    ("+work.steps: 20", "unknown key +work.steps. It belongs under work. Allowed"),
    ("foo.steps: 20", "It belongs under work or trace."),
    ("execution: {dynamo_backend: x}", 'Did you mean "compile"?'),
    ("execution: {dist_backend: nccl}", "It follows from the device"),
    ("workload: {model: {name: gpt2-tiny}}", "unknown key workload.model.name. Write model: gpt2-tiny."),
    ("execution: {geometry: 2x}", "like 1x2 or 2x4.\n"),
    ("workload: {model: ./gpt2}", "Write {config: ./gpt2}."),
    ("workload: {model: './mine.py:model'}", "Write {module: ./mine.py:model}."),
    ("resources: {time_limit: 10 min}", "allowed: a number > 0 and <= 1000000 (minutes)."),
    ("work: {validation_samples: 64 samples}", "(samples)."),
    ("work: {optimizer: {learning_rate: '1e-3'}}", "allowed: a number >"),
    ("vary: {repeats: [2, 3]}", "It belongs at the top of the file, not indented."),
    ("execution: {zero_stage: 2}", 'Did you mean "strategy"?'),
    ("resources: {memory_per_device: 8GB}", "(GB). Write 8."),
    ("resources: {memory_per_device: 16GiB}", "(GB). Write 17.1799."),
    ("resources: {memory_per_device: 80G}", "(GB). Write 80."),
    ("resources: {memory_per_device: 16000 MB}", "(GB). Write 16."),
    ("resources: {memory_per_device: 16 GPUs}", "(GB).\n"),
    ("work: {steps: 1k}", "(optimizer steps)."),
    ("work: {steps: 1\u00a0500}", "(optimizer steps). Write 1500."),
    ("work: {steps: 1\u00a05000}", "(optimizer steps).\n"),
    ("repeats: 3# five", "Write 3."),
    ("workload: {corpus: {name: notes}}", "Write notes."),
    ("workload: {corpus: {title: notes}}", 'mine: {"title": "notes"}; then corpus: mine.'),
    ("work.seed: 3", "unknown key work.seed. It belongs under work."),
    ("work.foo: 3", 'unknown key work.foo. Did you mean "work"?'),
    # Keys and notations of other programs.
    ("work: {per_device_train_batch_size: 8}", 'Did you mean "micro_batch"?'),
    ("work: {train_micro_batch_size_per_gpu: 8}", 'Did you mean "micro_batch"?'),
    ("work: {train-iters: 3}", 'Did you mean "steps"?'),
    ("work: {warmup_ratio: 0.1}", 'Did you mean "schedule"?'),
    ("work: {optimizer: {adam_beta1: 0.9}}", 'Did you mean "betas"?'),
    ("workload: {model: {num-attention-heads: 4}}", 'Did you mean "heads"?'),
    ("resources: {slurm_partition: gpu}", "It is the profile's business: slurm_partition in profiles/slurm"),
    ("resources: {runtime: 60, mem_mb: 64000}", 'Did you mean "time_limit"?'),
    ("execution: {strategy: HYBRID_SHARD}", 'Did you mean "hsdp"?'),
    ("work: {optimizer: {gradient_clipping: 1.0}}", 'Did you mean "max_grad_norm"?'),
    ("workload: {dataset_name: x}", 'Did you mean "corpus"?'),
    ("execution: {gradient_checkpointing: true}", 'Did you mean "activation_checkpointing"?'),
    ("execution: {num_machines: 2}", 'Did you mean "geometry"?'),
    ("execution: {bf16: {enabled: true}}", "unknown key execution.bf16. Write precision: bf16."),
    ("execution: {strategy: deepspeed_stage_2_offload}", 'Did you mean "zero2-offload"?'),
    ("execution: {strategy: ddp_find_unused_parameters_true}", 'Did you mean "ddp"?'),
    ("vary: {strategy: {values: [ddp, fsdp]}}", "Write [ddp, fsdp]."),
    ("vary: {strategy: ddp | fsdp}", "Write [ddp, fsdp]."),
    ("vary: {precision: {a: fp32}}", "Write [fp32]."),
    ("vary:\n  strategy:\n    -ddp\n    -fsdp", "Write [ddp, fsdp]."),
    ("work: {optimizer: {betas: (0.9, 0.95)}}", "Write [0.9, 0.95]."),
    ("work: {optimizer: {betas: {beta1: 0.9, beta2: 0.95}}}", "Write [0.9, 0.95]."),
    ("work:\n  steps: 8,", "Write 8."),
    ("cells: [{execution: {strategy: ddp}}]", "Its keys stand here without `execution`."),
    ("execution: {strategy: ddp+fsdp}", "Several stand apart: ddp, fsdp."),
    ("work: {schedule: {ramp_steps: 5s}}", "(optimizer steps).\n"),
    ("workload: {model: 'layers: 4, width: 128'}", "Write {layers: 4, width: 128}."),
    ("workload: {model: {config: {hidden_size: 8}}}", "allowed: text. A config.json of transformers, relative to"),
    ("trace: {cells: [{strategy: ddp}]}", "allowed: text. Names of cells, as `campaign show` lists them, or all."),
    ("vary: {strategy: , geometry: [1x1]}", "vary.strategy has no value; list some, or leave it out"),
    # Keys beside a command.
    ("workload: {command: &a}", "workload.command has no value"),
    ("workload: {command: 'p {LR}'}\nvary: {LR: [0.1]}", "digits and _: write {lr} in both places."),
    ("workload: {command: [p a, p b]}", 'Programs vary by a placeholder: command: "{program}"'),
    ("workload: {command: 'p {x}'}\nvary: {x: []}", "vary.x cannot be []; allowed: a list of at least 1 entry, each"),
    ("workload: {command: p}\nvary: {command: [a, b]}", 'Programs vary by a placeholder: command: "{program}"'),
    ("workload: {command: 'p {lr}'}\nwork: {lr: 0.1}", "Values of {lr} stand under vary: {lr: [0.1]}."),
    ("workload: {command: p}\nvary: {lr: [0.1]}", "unknown key vary.lr. workload.command has no {lr}."),
    ("work: {steps: }", 'work.steps has no value (empty, null or behind a "#"); allowed: a whole number'),
    ("work: {optimizer: {weight_decay: 1%}}", "allowed: a number >="),
    ("work: {schedule: {final_fraction: 10 %}}", "Write 0.1."),
    ("work: {fewer_steps: 5}", "workload.figures: whole; write one, without fewer_steps"),
    ("workload: {corpus: python docs}", "Several stand apart: python, docs; one name has no blanks: python-docs."),
    ("repeats: # 3", 'line 2: repeats has no value (empty, null or behind a "#"); allowed: a whole number >= 1'),
    ("vary:", 'line 2: vary has no value (empty, null or behind a "#"); allowed: a mapping of strategy'),
    ("compare: # later", "line 2: compare has no value"),
    ("compar:", 'unknown key compar. Did you mean "compare"?'),
    ("work: {optimizer: AdamW}", "eps, weight_decay, max_grad_norm. Write {name: adamw}."),
    (
        "workload: {command: python t.py}\nwork: {seconds: 9000}",
        "work.seconds 9000: a run is stopped after resources.time_limit, which is 15 minutes",
    ),
    ("workload: {command: 't.py {x}'}\nvary: {x: [[1]]}", "vary.x[0] cannot be [1]; allowed: text, a number, true or"),
    ("work: {schedule: cosine}", "final_fraction. Write {name: cosine}."),
    ("work: {schedule: {warmup: 5}}", 'Did you mean "ramp_steps"?'),
    ("work: {work: {steps: 3}}", "It belongs at the top of the file, not indented."),
    ("fp16: {enabled: true}", "It belongs under execution, as precision: fp16."),
    ("execution: {fsdp: full_shard}", "Write strategy: fsdp."),
    ("workload: {hidden_size: 64}", "It belongs under workload.model, as width."),
    ("resources: {gres: 'gpu:a100:4'}", "It belongs under execution, as geometry."),
    ("execution: {strategy: SHARD_GRAD_OP}", 'Did you mean "fsdp"?'),
    ("mixed_precision: bf16", "It belongs under execution, as precision."),
    ("work: {train_batch_size: 8}", 'Did you mean "global_batch"?'),
    ("execution: {precision: torch.bfloat16}", 'Did you mean "bf16"?'),
    ("workload: {corpus: $CORPUS}", "Variables are not filled in: write the value itself."),
    ("resources: {time_limit: 2h}", "Write 120 (minutes)."),
    ("resources: {time_limit: '1-12:30:00'}", "Write 2190 (minutes)."),
    ("cells: {strategy: ddp}", "all stand in brackets: [{...}, {...}]."),
    ("execution: {precision: 16}", 'Did you mean "fp16"?'),
    ("execution: {strategy: deepspeed_stage_3}", 'Did you mean "zero3"?'),
    ("execution: {geometry: 1*2}", "nodes x devices of each, from 1x1 to 99999x999, like 1x2 or 2x4."),
    ("vary: {geometry: [0x4]}", "like 1x2 or 2x4. Write 1x4."),
    ("execution: {backend: nccl}", "unknown key execution.backend. It follows from the device: NCCL on GPUs"),
    ("trace: all", "like {cells: all}. Write {cells: all}."),
    ("execution: {num_gpus: 2}", 'Did you mean "geometry"?'),
    ("workload: {corpus: 3.10}", "beginning with a letter or digit"),
    ("vary: {geometry: 1x2}", "Write [1x2]."),
    ("vary: {geometry: [1x1-1x4]}", "like 1x2 or 2x4.\n"),  # which of them?
    ("vary: {geometry: [ddp-n1x4]}", "Write 1x4."),
    ("vary:\n  global_batch: 4,8,16", "Write [4, 8, 16]."),
    ("vary: {strategy: [ds_z3_config.json]}", 'Did you mean "zero3"?'),  # a file of DeepSpeed
    ("execution: {compile: inductor}", "Write true."),
    ("execution: {compile: disabled}", "Write false."),
    ("vary: {model: []}", "a list of at least 1 entry, each gpt2-tiny"),
    ("pairs: 3", "unknown key pairs. It belongs under an entry of compare."),
    ("work: {schedule: {type: cosine}}", 'Did you mean "name"?'),
    ("resources: {cpus-per-task: 8}", 'Did you mean "cpus_per_device"?'),
    ("workload: {tokenizer: bpe2048}", "Write bpe-2048."),
    ("workload: {corpus: notes/my.txt}", "is a row of config/corpora.yaml (docs/corpora.md): my: {"),
    (
        "workload: {corpus: allenai/c4}",
        "and in the campaign corpus: c4. scaleproof corpus check c4 asks the hub",
    ),
    ("vary: {corpus: [python-docs, allenai/c4]}", "and in the campaign corpus: c4"),
    ("repeats: {resolve: 3 %, at_least: 5, at_most: 3}", "at_least 5 must be less than at_most 3"),
    (
        "vary: {work: {global_batch: [8, 16]}}",
        "unknown key vary.work. Its keys stand here without `work`. Allowed here: ",
    ),
    ("vary:\n  - geometry: [1x1]", "allowed: a mapping of"),
    ("cells: {strategy: fsdp}", "a list, each a mapping of strategy, precision"),
    ("compare: [{name: My Compare}]", 'Write "my-compare".'),
    ("repeats: [3]", "Write 3."),
    ("repeats: 1e1", "Write 10."),
    ("work: {steps: 20.0}", "Write 20."),
    ("workload: {seq_len: 64 tokens}", "Write 64."),
    ("execution: {bucket_elements: 25MB}", "(elements); auto."),
    ("workload: {model: Qwen/Qwen3-0.6B}", "scaleproof model fetch Qwen/Qwen3-0.6B prints what to write."),
    ("workload: {model: {hub: Qwen/Qwen3-0.6B}}", "workload.model: `revision` is missing: the commit"),
    ("workload: {model: {module: model.py}}", 'workload.model.module cannot be "model.py"; allowed: file.py:function.'),
    ("workload: {model: {hub: a/b, revision: main}}", "allowed: a commit, 40 hexadecimal digits."),
    ("vary: {execution.precision: [fp32]}", 'unknown key vary.execution.precision. Did you mean "precision"?'),
    (
        "cells: [{learning_rate: 1}]",
        "unknown key cells[0].learning_rate. It belongs under work.optimizer. It is the same for all cells: "
        "another value needs a campaign of its own.",
    ),
    ("cells: [{name: mine}]", "unknown key cells[0].name. Allowed here: strategy"),
    (
        "workload: {command: python t.py}\nvary: {strategy: [ddp, fsdp]}",
        "line 3: vary.strategy: workload.command has no",
    ),
    ("<<<<<<< HEAD\nrepeats: 3", "line 2: a merge conflict of git is not resolved"),
    ("repeats: {resolve: 3}", "like 2 %; a number >= 0 and < 1 (part of the tokens/s). Write 3 %."),
    ("repeats: {resolve: 3 percent}", "Write 3 %."),
    ("workload: {command: python t.py, figures: NanoGTP}", 'Did you mean "NanoGPT"?'),
    (
        "workload: {command: 't.py {x}'}\nvary: {x: [A, a]}",
        'line 3: vary.x: "A" and "a" would both be "a" in names of cells',
    ),
    ("workload: {command: 't.py {x}'}\nvary: {x: ['+', a]}", 'vary.x: "+" has no letter or digit for a name of a cell'),
    ("vary: {seq_len: 128..1024}", "each a whole number"),
    ("execution: {geometry: {nodes: 1, devices: 2}}", "nodes x devices of each"),
    ("workload: {{ model }}", "a key must be a word"),
    ("margin: 100 %", "a percentage below 100 %"),
    ("work: {optimizer: {learning_rate: '0,001'}}", "allowed: a number > 0 and <= 1000. Write 0.001."),
    ("work: {steps: '1,000'}", "Write 1000."),
    ("resources: {time_limit: '1,5 h'}", "Write 90 (minutes)."),
    ("resources: {time_limit: '1,000 s'}", "Write 16.6667 (minutes)."),
    ("margin: 3,5 %", "Write 3.5 %."),
    ("vary: {strategy: [ddp\uff0c zero2]}", "Several stand apart: ddp, zero2.\n"),
    ("work: {schedule: {final_fraction: 2}}", "(part of the peak).\n"),
    ("%margin: 2", 'line 2: "%" begins no comment in YAML, but "#" does; a text needs quotes'),
    ("execution: {compile: on}", "reduce-overhead. Write true."),
    ("execution: {compile: off}", "reduce-overhead. Write false."),
    ("vary: {geometry: [0x2]}", 'cannot be "0x2"; allowed: nodes x devices'),
    (
        "workload: {corpus: data/my notes.txt}",
        "my-notes: {source: text, files: [data/my notes.txt], document: paragraph}; then corpus: my-notes.",
    ),
    ("resources: {time_limit: 0}", "a number > 0 and <= 1000000 (minutes)"),
    ("n_runs: 3", 'Did you mean "repeats"?'),
    ("resources: {memory: 8}", 'Did you mean "memory_per_device"?'),
    ("trace: {tool: nsight}", 'Did you mean "nsys"?'),
    ("target_loss: auto", 'Did you mean "derive"?'),
    # The same in another form.
    ("vary: {geometry: [1X1, n1x2]}", "Write 1x1."),
    ("vary: {geometry: [[1, 2]]}", "Write 1x2."),
    ("execution: {geometry: 2 gpus}", "Write 1x2."),
    ("workload: {tokenizer: bpe-50k}", "Write bpe-50000."),
    ("workload: {tokenizer: tiktoken}", "allowed: gpt2, bytes or bpe-ENTRIES like bpe-2048.\n"),
    ("vary: {geometry: '1x1, 1x2]'}", "Write [1x1, 1x2]."),
    ("repeats: 6 // enough", "Write 6."),
    ("repeats: 6x", "Write 6."),
    ("workload: {model: models/llama.json}", "Write {config: models/llama.json}."),
    ("workload: {model: {path: llama.json}}", 'Did you mean "config"?'),
    ("workload: {corpus: notes/}", "notes: {source: text, files: [notes/*.txt]}; then corpus: notes."),
    ("workload: {corpus: {source: text}}", 'mine: {"source": "text"}; then corpus: mine.'),
    ("execution: {bucket_size: 5}", 'Did you mean "bucket_elements"?'),
    ("workload: {corpora: x}", 'Did you mean "corpus"?'),
    ("tracing: {cells: all}", 'Did you mean "trace"?'),
    ("execution: {fused: true}", 'Did you mean "fused_optimizer"?'),
    ("work: {schedule: {warmup_steps: 5}}", 'Did you mean "ramp_steps"?'),
    ("question: {is: a, geometry: 1x2}", 'Did you mean "on"?'),
    ("trace: {cells: all cells}", 'all. Did you mean "all"?'),
    ("vary: {strategy: {ddp, fsdp}}", "Write [ddp, fsdp]."),
    ("workload: {command: p, per_step: '{steps} * 2'}", 'Write {tokens: "{steps} * 2"}.'),
    ("workload: {corpus: data/train.bin}", "train: {source: text, files: [data/train.bin], document: paragraph}"),
    ("workload: {model: model.py}", "Write {module: model.py:FUNCTION}."),
    ("execution: {precision: bfloat16-mixed}", 'Did you mean "bf16"?'),
    ("strategy: [ddp, fsdp]", "unknown key strategy. It belongs under vary."),
    ("geometry: 1x2", "unknown key geometry. It belongs under execution. Allowed"),
    ("workload: {command: 'p {lr}'}\nvary: {rl: [0.1]}", "workload.command has no {rl}. It has {lr}."),
]
CELLS = [
    ("exclude: [{strategy: fsdp}]", "strategy: fsdp matches no combination of `vary` (strategy is ddp, zero2)"),
    ("question: {is: zero9, better_than: ddp, on: 1x2}", 'Did you mean "zero2"?'),
    ("question: {is: zero2, better_than: ddp}", "give question.on (for instance on: 1x2) or the name of one"),
    ("question: {is: zero2, better_than: ddp, on: 1x8}", "question.on: no cell of zero2 is on 1x8"),
    ("question: {is: zero2, on: 1x2}", "question: zero2-n1x2 is compared with nothing; give better_than"),
    ("question: {is: zero2, on: 1x2}", "Other cells: ddp-n1x1, ddp-n1x2, zero2-n1x1"),
    ("question: {is: zero2, than: ddp}", 'Did you mean "better_than"?'),
    ("trace: {cells: [all]}", "write cells: all."),
    (
        "compare: [{name: x, b: {strategy: fsdp}}, {name: x, b: {strategy: zero1}}]",
        '"x" is the name of two comparisons',
    ),
    (
        "work: {micro_batch: largest}\nexecution: {device: cpu}",
        "frontier.limit_gb is missing: the micro-batch of ddp-n1x1 is searched on a CPU",
    ),
    ("work: {micro_batch: largest}\nfrontier: {limit_gb: 1.0e-4}", "limit_gb 0.0001 is less than the weights"),
]
NO_YAML = [
    ("title: Question: does it scale?\n", 'text with ": " in it needs quotes'),
    ("title: 'Does it scale?\nrepeats: 3\n", "line 1, column 8: not valid YAML: a quote that begins here has no end"),
    (HEAD + "execution: {strategy: *base}\n", 'text that begins with "*" needs quotes'),
    (HEAD + "work:\n\tsteps: 3\n", "indent with spaces, not tabs"),
    (HEAD + "repeats: 3\t# runs\n", "and have one before a comment"),
    ("title: | home\n", 'text that begins with "|" or ">" needs quotes'),
    ("title: @home\n", "text that begins with it needs quotes"),
    ("title: 'it's'\n", "a quote within '...' is doubled"),
    (HEAD + "---\n" + HEAD, "a file has one document"),
    (HEAD + "vary:\n  strategy:\n  - ddp\n=======\n  - fsdp\n", "line 5: a merge conflict of git is not resolved"),
    (HEAD + "...\nnotes\n", 'take away what follows "---" or "..."'),
    (HEAD + "work:\n  device:cpu\n  steps: 3\n", "line 3, column 3: not valid YAML: a colon is missing"),
    (HEAD + "work:\n  seed = 3\n  steps: 3\n", "line 3: write seed: 3"),
    (HEAD + "work:\n  steps: 3: x\n", "line 3, column 11: not valid YAML: a colon makes a key"),
    ("title: 'x' y\n", "this belongs neither to the value before it nor to the keys above (keys of"),
    ("title: x\nwork: {steps: }}\n", "line 2, column 16: not valid YAML: this bracket closes none"),
    ("title: x\rwork: y: z\r", "line 2, column 8: not valid YAML: a colon"),  # lines of an old Macintosh
    ("[model]\nname = x\n", "line 1: this is TOML or INI, not YAML: keys and values stand as in"),
    (HEAD + "work: {steps: 5\nrepeats: 3\n", "(the bracket of line 2 is not closed"),
    (HEAD + "vary: {strategy: [ddp]]}\n", "(brackets do not match)"),
    (HEAD + "vary: {strategy: *}\n", 'text that begins with "*" or "&" needs quotes'),
    (">>> title: x\n", 'text that begins with "|" or ">" needs quotes'),
    (f"title: {'long ' * 100}\n", "at most 300 characters that is not blank. The question that the campaign answers"),
    (HEAD + "```yaml\nrepeats: 3\n```\n", "line 2: a mark of Markdown (```)"),
    (HEAD + "work: [\n", "a value or a closing bracket is missing"),
    (
        "apiVersion: v1\nkind: Job\n",
        "is no campaign, but a file of Kubernetes; it has apiVersion, kind; allowed: ",
    ),
    ("defaults: [model]\ntrainer: {}\n", "is no campaign, but a file of Hydra; it has defaults, trainer; allowed: "),
    (HEAD + "defaults: [model]\n", "line 2: unknown key defaults. No other file is read"),
    ("title: !!python/object/apply:os.system ['true']\n", "python/object/apply:os.system are not allowed"),
]


def refused(tmp_path: Path, repository: Path, text: str) -> str:
    path = tmp_path / "mine.yaml"
    path.write_bytes(text.encode())
    done = scaleproof("campaign", "validate", path, cwd=repository)
    assert done.returncode == 2, done
    assert "mine.yaml" in done.stderr
    return done.stderr


@pytest.mark.parametrize(("text", "hint"), MEANT)
def test_the_value_that_is_meant_is_said(tmp_path, repository, text, hint):
    assert hint in refused(tmp_path, repository, f"{HEAD}{text}\n")


@pytest.mark.parametrize(("text", "hint"), CELLS)
def test_names_of_cells_are_answered_with_those_that_are_there(tmp_path, repository, text, hint):
    assert hint in refused(tmp_path, repository, f"{GRID}{text}\n")


@pytest.mark.parametrize(("text", "hint"), NO_YAML)
def test_a_fault_of_the_notation_is_said_in_words(tmp_path, repository, text, hint):
    assert hint in refused(tmp_path, repository, text)


@pytest.mark.parametrize(
    "text",
    [
        "work: {optimizer: sgd}",
        "work: {optimizer: {betas: 0.9}}",  # [0.9] would be wrong as well
        "resources: {time_limit: 0}",
        "work: {steps: many}",
        "work: {steps: '0,5'}",
        "work: {steps: 2h}",
        "resources: {time_limit: 0h}",
        "execution: {compile: maybe}",
        "work: {seed: on}",
        "work: {optimizer: {weight_decay: -0.1}}",
        "work: {optimizer: {betas: {b1: 0.9}}}",
        "work: {global_batch: 0}",
        "work: {global_batch: 16.5}",
        "execution: {geometry: 1x1000}",
        "repeats: {resolve: 300}",
    ],
)
def test_nothing_is_suggested_that_would_be_refused(tmp_path, repository, text):
    message = refused(tmp_path, repository, f"{HEAD}{text}\n")
    assert not [word for word in ("Write", "Put") if word in message]


def test_faults_come_in_the_order_of_the_file(tmp_path, repository):
    lines = refused(tmp_path, repository, HEAD + "vary: {geometry: [1, 2, 3]}\n").splitlines()
    assert [line.partition("geometry[")[2][0] for line in lines] == ["0", "1", "2"]


@pytest.mark.parametrize("name", ["demo", "results/demo", "config/campaigns/Demo.yml", "demo.yaml.bak"])
def test_what_is_no_campaign_file_is_answered_with_the_campaign(repository, name):
    done = scaleproof("campaign", "show", name, cwd=repository)
    assert done.returncode == 2
    assert 'Did you mean "config/campaigns/demo.yaml"?' in done.stderr


@pytest.mark.parametrize("name", ["config/campaigns/nope.yaml", "/"])
def test_no_campaign_is_suggested_that_has_another_name(repository, name):
    done = scaleproof("campaign", "show", name, cwd=repository)
    assert " campaign file. Campaign files: " in done.stderr


@pytest.mark.parametrize("words", ["campaign show config/campaigns/demo.yaml", "corpus list", "stale"])
def test_another_folder_is_said(tmp_path, words):
    (tmp_path / "config/campaigns").mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    done = scaleproof(*words.split(), cwd=tmp_path / "docs")
    assert f"this is {tmp_path}/docs" in done.stdout + done.stderr
    assert f"cd {tmp_path}\n" in done.stdout + done.stderr
    here = scaleproof(*words.split(), cwd=tmp_path)
    assert f"cd {tmp_path}" not in here.stdout + here.stderr


def test_cells_that_cannot_run_are_said_by_validate(tmp_path, repository):
    path = tmp_path / "mine.yaml"
    path.write_text(HEAD + "execution: {device: cpu}\nvary: {strategy: [single, ddp], geometry: [1x1, 1x2]}\n")
    done = scaleproof("campaign", "validate", path, cwd=repository)
    assert done.returncode == 0
    assert "single is one device without a wrapper; 1x2 has 2: single-n1x2" in done.stdout


ROWS = {
    "d.jsonl": ('{"text": "a"}\n{"text": "b"}\n{"text": c}\n', "{source: jsonl, files: [d.jsonl]}", "line 3"),
    "n.jsonl": ('{"text": "a"}\n{"text": 5}\n', "{source: jsonl, files: [n.jsonl]}", 'line 2: field "text" is not'),
    "l.json": ('[{"text": "a"},\n {"text": "b"}]\n', "{source: jsonl, files: [l.json]}", "is a JSON list"),
    "d.csv": ("k,body\n1,a\n2\n", "{source: csv, files: [d.csv], field: body}", "line 3 has 1 fields, not 2"),
    "s.csv": ("k;body\n1;a\n", "{source: csv, files: [s.csv], field: body}", "columns separated by ';'"),
    "latin.csv": ("k,body\n1,\xfc\n", "{source: csv, files: [latin.csv], field: body}", "is not UTF-8 (byte 0xfc)"),
    "here.txt": ("x", "{source: text, files: [hre.txt]}", 'matches no file. Did you mean "here.txt"?'),
    "home.txt": ("x", "{source: text, files: ['~/home.txt']}", "begins with ~, which only a shell replaces"),
}


@pytest.mark.parametrize("file", ROWS)
def test_own_data_is_opened_before_anything_runs(tmp_path, file):
    content, row, part = ROWS[file]
    (tmp_path / "config").mkdir()
    (tmp_path / "config/corpora.yaml").write_text(f"mine: {row}\n")
    (tmp_path / file).write_text(content, encoding="latin-1")
    done = scaleproof("corpus", "check", "mine", cwd=tmp_path)
    assert done.returncode == 2, done
    assert "config/corpora.yaml: mine.files" in done.stderr
    assert part in done.stderr
