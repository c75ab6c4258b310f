"""More faults: what rounding hides in low precision, and what begins after the replayed steps and stops for a probe."""

from typing import Any

from faults.planted import BF16, ONE, TWO, ZERO2, around_window, fault, in_update, model, optimizer, rate, replaced
from faults.planted_blind_spots import probed

BF16_FSDP_ACCUMULATING = {
    "execution": {"precision": "bf16", "geometry": "1x2", "strategy": "fsdp"},
    "work": {"micro_batch": 2},
}
BF16_ACCUMULATING = {"execution": {"precision": "bf16", "geometry": "1x2"}, "work": {"micro_batch": 2}}
BF16_ZERO2 = {"execution": {"precision": "bf16", "geometry": "1x2", "strategy": "zero2"}}
BF16_ZERO3 = {"execution": {"precision": "bf16", "geometry": "1x2", "strategy": "zero3"}}
FP16 = {"execution": {"precision": "fp16"}}
LONGER = {"work": {"steps": 48}}  # the replay makes 30 steps
LATE = 40  # a step of the window after those
OTHER_TOKENS, OTHER_LOSSES, OTHER_SETTINGS = (
    "tokens-differ-from-reference",
    "losses-differ-from-reference",
    "settings-differ",
)


def late(change: Any, module: str = "strategy.base", name: str = "Native.micro_step") -> Any:
    """`change(tokens, strategy)` in micro-steps from LATE on, but in no probed one."""

    def make(original: Any) -> Any:
        def micro_step(self: Any, tokens: Any, boundary: bool) -> Any:
            number = vars(self).setdefault("micro_steps_made", 0)
            self.micro_steps_made = number + 1
            if number >= LATE and not probed():
                tokens = change(tokens, self)
            return original(self, tokens, boundary)

        return micro_step

    return replaced(module, name, make)


def the_first_again(tokens: Any, strategy: Any) -> Any:
    return vars(strategy).setdefault("first_batch", tokens)


def half(tokens: Any, strategy: Any) -> Any:
    return tokens[:, :17]


def half_of_the_rows(tokens: Any, strategy: Any) -> Any:
    return tokens[: len(tokens) // 2].repeat(2, 1)


fault("one batch again and again, late", LONGER, OTHER_TOKENS, fast=True)(late(the_first_again))
fault("one batch again and again, late, zero2", {**ZERO2, **LONGER}, OTHER_TOKENS)(
    late(the_first_again, "strategy.zero", "Zero.micro_step")
)
fault("half of each sequence, late", LONGER, OTHER_TOKENS)(late(half))
fault("half of the samples twice, late, bf16", {**BF16, **LONGER}, OTHER_TOKENS)(late(half_of_the_rows))


def reader_stops(original: Any) -> Any:
    def read(self: Any, step: int, micro: int) -> Any:
        ids, tokens = original(self, step, micro)
        return ids, tokens if step < LATE else original(self, LATE - 1, micro)[1]

    return read


def odd_before_even(original: Any) -> Any:
    def read(self: Any, step: int, micro: int) -> Any:
        ids, tokens = original(self, step, micro)
        return ids, tokens if step < LATE else original(self, step ^ 1, micro)[1]

    return read


def first_share_late(original: Any) -> Any:
    def read(self: Any, step: int, micro: int) -> Any:
        import torch

        ids, tokens = original(self, step, micro)
        if step >= LATE:
            tokens = torch.from_numpy(self.file.read(self.plan.ids_of_rank(step, self.batch, 0)[micro]))
        return ids, tokens

    return read


fault("the reader stops at a batch", {**TWO, **LONGER}, OTHER_TOKENS)(
    replaced("trainer.batches", "Batches._read_micro_batch", reader_stops)
)
fault("batches in another order", LONGER, OTHER_TOKENS)(
    replaced("trainer.batches", "Batches._read_micro_batch", odd_before_even)
)
fault("all ranks train rank 0's samples, late", {**TWO, **LONGER}, OTHER_TOKENS)(
    replaced("trainer.batches", "Batches._read_micro_batch", first_share_late)
)


def a_tenth_late(value: float, step: int) -> float:
    return value / 10 if step >= LATE and not probed() else value


def no_decay_late(strategy: Any, step: int) -> None:
    for group in strategy.optimizer.param_groups[:1]:
        group["weight_decay"] = 0.0 if step >= LATE and not probed() else 0.1


for label, keys, room in (("fp32", ONE, "base"), ("zero2", ZERO2, "zero"), ("zero3, bf16", BF16_ZERO3, "zero")):
    fault(f"a tenth of the learning rate, late ({label})", {**keys, **LONGER}, OTHER_SETTINGS, fast=label == "fp32")(
        rate(a_tenth_late, f"strategy.{room}")
    )
fault("no weight decay, late", LONGER, OTHER_SETTINGS)(in_update(no_decay_late))


def profile(rank: int) -> None:
    import torch

    torch.autograd.profiler.profile(use_cpu=True).__enter__()


def detect_anomalies(rank: int) -> None:
    import torch

    torch.autograd.set_detect_anomaly(True)


def deterministic(rank: int) -> None:
    import torch

    torch.use_deterministic_algorithms(True)


fault("profiler left on in the window", ONE, "operations-differ")(around_window(profile))
fault("anomaly detection in the window", TWO, "operations-differ")(around_window(detect_anomalies))
fault("deterministic algorithms", ONE, "operations-differ")(around_window(deterministic))
fault("Adam with coupled decay, bf16", BF16, OTHER_SETTINGS)(
    optimizer(lambda group: group.update(decoupled_weight_decay=False))
)


def others_scored(original: Any) -> Any:
    return lambda self, tokens: original(self, tokens.clone().index_fill_(1, tokens.new_tensor([20, 21, 22]), 0))


fault("three tokens of each validation sample are others", {**ONE, **LONGER}, OTHER_TOKENS)(
    replaced("strategy.base", "Native.evaluate", others_scored)
)


def other_seed(original: Any) -> Any:
    def built(cell: Any, *others: Any) -> Any:
        work = cell.work.model_copy(update={"seed": cell.work.seed + 1})
        return original(type(cell)(cell.slug, cell.workload, work, cell.execution), *others)

    return built


def shifted_positions(network: Any) -> None:
    import torch

    def shift(module: Any, arguments: Any, keywords: Any) -> Any:
        length = keywords["input_ids"].shape[1]
        return arguments, keywords | {"position_ids": 1 + torch.arange(length)[None]}

    network.network.transformer.register_forward_pre_hook(shift, with_kwargs=True)


def sees_the_future(network: Any) -> None:
    from torch.nn import functional

    attention = functional.scaled_dot_product_attention

    def uncausal(*arguments: Any, **keywords: Any) -> Any:
        keywords = {name: value for name, value in keywords.items() if name not in ("is_causal", "attn_mask")}
        return attention(*arguments[:3], **keywords)

    functional.scaled_dot_product_attention = uncausal


for label, keys in (
    ("bf16", BF16),
    ("bf16, fsdp", BF16_FSDP_ACCUMULATING),
    ("fp16", FP16),
    ("bf16, zero2", BF16_ZERO2),
):
    fault(f"another seed ({label})", keys, OTHER_LOSSES)(replaced("trainer.measure", "build_model", other_seed))
    fault(f"positions shifted by one ({label})", keys, OTHER_LOSSES, fast=label == "bf16")(model(shifted_positions))
    fault(f"no causal mask ({label})", keys, OTHER_LOSSES)(model(sees_the_future))


def table_without_decay(original: Any) -> Any:
    def made(network: Any, cell: Any) -> Any:
        result = original(network, cell)
        decayed, others = result.param_groups
        others["params"].append(decayed["params"].pop(0))
        return result

    return made


def biases_decay(original: Any) -> Any:
    def made(network: Any, cell: Any) -> Any:
        result = original(network, cell)
        decayed, others = result.param_groups
        decayed["params"].append(others["params"].pop())
        return result

    return made


for label, keys, room in (
    ("bf16", BF16, "base"),
    ("bf16, fsdp", BF16_FSDP_ACCUMULATING, "base"),
    ("bf16, zero2", BF16_ZERO2, "zero"),
    ("bf16, zero3", BF16_ZERO3, "zero"),
):
    fault(f"table without decay ({label})", keys, OTHER_SETTINGS)(
        replaced(f"strategy.{room}", "make_optimizer", table_without_decay)
    )
    fault(f"one bias decays ({label})", keys, OTHER_SETTINGS)(
        replaced(f"strategy.{room}", "make_optimizer", biases_decay)
    )


def no_clipping(original: Any) -> Any:
    return lambda self, max_norm: None


def twofold(original: Any) -> Any:
    return lambda self, max_norm: original(self, 2 * max_norm)


for label, keys in (("bf16", BF16), ("bf16, fsdp", BF16_FSDP_ACCUMULATING)):
    fault(f"no clipping ({label})", keys, OTHER_SETTINGS, fast=label == "bf16")(
        replaced("strategy.base", "Native._clip", no_clipping)
    )
    fault(f"clipping at twice the norm ({label})", keys, OTHER_SETTINGS)(
        replaced("strategy.base", "Native._clip", twofold)
    )


def undivided(original: Any) -> Any:
    def micro_step(self: Any, tokens: Any, boundary: bool) -> Any:
        accumulation, self.accumulation = self.accumulation, 1
        try:
            return original(self, tokens, boundary)
        finally:
            self.accumulation = accumulation

    return micro_step


for label, keys in (("bf16", BF16_ACCUMULATING), ("bf16, fsdp", BF16_FSDP_ACCUMULATING)):
    fault(f"gradients are summed over micro-batches ({label})", keys, OTHER_LOSSES)(
        replaced("strategy.base", "Native.micro_step", undivided)
    )
