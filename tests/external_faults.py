"""Faults in files that are otherwise sound: what writes them, for tests of the audit."""

import json
import random
import re
from pathlib import Path

from external_files import metrics

from scaleproof.auditor.audit import audit_paths
from scaleproof.ground.findings.finding import Finding


def put(folder: Path, data: dict) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "training_metrics.json").write_text(json.dumps(data))


def run(world: int, family: float = 0.0) -> dict:
    return metrics(world, random.Random(1), family=family)


def findings(root: Path) -> dict[str, Finding]:
    return {f.code: f for f in audit_paths([root]).findings}


def one(change, world: int = 2):
    """A fault of one run: `change` edits its JSON in place."""

    def make(root: Path) -> None:
        data = run(world)
        change(data, data["epochs"][0], data["training_config"])
        put(root / "a", data)

    return make


def pair(change, worlds: tuple[int, int] = (1, 4)):
    """A fault of two runs: `change` edits the second one's JSON in place, having seen the first one's."""

    def make(root: Path) -> None:
        first, second = run(worlds[0]), run(worlds[1])
        change(first, second)
        put(root / "first", first)
        put(root / "second", second)

    return make


def copied_repeat(root: Path) -> None:
    """A folder of repeats that was filled up with a copy."""
    first = run(2)
    for repeat in (1, 2):
        put(root / f"rep{repeat}", first)


def log(writer, *replacements: tuple[str, str]):
    """A fault of a text: `writer` writes a sound one, regular expressions change it."""

    def make(root: Path) -> None:
        writer(root, random.Random(3))
        (path,) = (p for p in root.rglob("*") if p.is_file())
        text = path.read_text()
        for pattern, new in replacements:
            text, n = re.subn(pattern, new, text)
            assert n, pattern
        path.write_text(text)

    return make


def file(name: str, text: str):
    def make(root: Path) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)

    return make


def beside(name: str, text: str):
    """A sound run, and a file in its folder."""

    def make(root: Path) -> None:
        put(root / "a", run(2))
        (root / "a" / name).write_text(text)

    return make


def claimed(*claims: str):
    return beside("claims.yaml", 'scaleproof_claims: "1.0"\nclaims:\n' + "".join(f"  - {c}\n" for c in claims))


def published(make):
    """The same, and a claim that compares the two runs."""

    def make_with_claim(root: Path) -> None:
        make(root)
        claim = "{kind: speedup, value: 3.0, of: second, over: first}"
        file("claims.yaml", f'scaleproof_claims: "1.0"\nclaims:\n  - {claim}\n')(root)

    return make_with_claim


def two_baselines(root: Path) -> None:
    """Two precisions on one device, and a run on four that does not state its own."""
    for name, world, kind in (("a/1gpu", 1, "fp32"), ("b/1gpu", 1, "bf16"), ("4gpu", 4, None)):
        data = run(world)
        data["training_config"]["precision"] = kind
        put(root / name, data)


def times(**factors: float):
    def change(data, epoch, config) -> None:
        for key, factor in factors.items():
            epoch[key] = type(epoch[key])(epoch[key] * factor)

    return change


def same_steps(first, second) -> None:
    """The second run's ranks go through all of the data, and the file does not know how large that is."""
    for data in (first, second):
        data["training_config"].update(micro_batch_size_per_gpu=4, grad_accum_steps=1, dataset_subset_sizes=None)
    for data, world, seconds in ((first, 1, 100.0), (second, 4, 120.0)):
        tokens = 4 * world * data["training_config"]["seq_len"] * 937
        data["training_config"]["global_batch_size"] = 4 * world
        data["epochs"][0].update(
            micro_steps=937,
            optimizer_steps=937,
            tokens_processed_global=tokens,
            epoch_wall_time_sec=seconds,
            tokens_per_sec_global=tokens / seconds,
            step_time_mean_sec=seconds / 937,
        )


def everything_each(data, epoch, config) -> None:
    config["dataset_subset_sizes"]["train"] //= 2


def precision(first, second) -> None:
    second["training_config"]["precision"] = "fp32"


def repeated(root: Path) -> None:
    rows = "".join(f"{e},0.5,{10 + e / 10}\n" for e in [1, 2, 3, 1, 2, 3])
    file("metrics.csv", "epoch,train_loss,train_time\n" + rows)(root)


def sawtooth(root: Path) -> None:
    rows = "".join(f"{i},{0.1 * (i % 8 + 1):.4f},{1000 / (0.1 * (i % 8 + 1)):.2f}\n" for i in range(80))
    file("step_log.csv", "global_step,step_time_s,tokens_per_sec\n" + rows)(root)


def cumulative(root: Path) -> None:
    """A log of many intervals without a bar, each one divided by all steps so far."""
    text = ["micro_batch_size: 8", "num_gpus: 1"]
    for i in range(1, 8):
        text += [f"Step {10 * i}: loss {4 - i / 10}", f"elapsed_time_per_iteration: {2.0 / i:.4f} s"]
    file("train.out", "\n".join(text))(root)


def alike(root: Path) -> None:
    text = ["num_gpus: 2", *["Step 10: loss 3.25", "elapsed_time_per_iteration: 1.5 s"] * 2]
    file("train.out", "\n".join(text))(root)


def two_pollers(root: Path) -> None:
    """Two clocks in turn, a minute apart."""
    rows = [f"2026/01/01 10:{i % 2 * 3:02d}:{i // 2:02d}.000, 0, 50 %, 1 MiB" for i in range(101)]
    file("gpu_log.csv", "timestamp, index, utilization.gpu [%], memory.used [MiB]\n" + "\n".join(rows))(root)


def dp_twice(root: Path) -> None:
    for n, seconds, used in ((1, 1.0, 20000), (2, 0.9, 12000)):
        text = [
            "framework: dp",
            f"num_gpus: {n}",
            "Step 10: loss 3",
            f"elapsed_time_per_iteration: {seconds} s",
            f"Throughput (TFLOPS) at step 10: {7 / seconds}",
            "| ID | Name | Memory used |",
            f"| 0 | NVIDIA L4 | {used}MB |",
        ]
        file(f"{n}.out", "\n".join(text))(root)
