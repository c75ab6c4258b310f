"""More faults: of engine, strategy, cores, figures and samples."""

from collections.abc import Callable
from typing import Any

from faults.planted import ACCUMULATING, FSDP, ONE, TWO, ZERO1, ZERO2, fault, replaced


def never_synchronising(original: Any) -> Any:
    return lambda self, boundary: self.replica.no_sync()


def always_synchronising(original: Any) -> Any:
    from contextlib import nullcontext

    return lambda self, boundary: nullcontext()


def in_bf16(original: Any) -> Any:
    import torch

    def autocast(self: Any) -> Any:
        return torch.autocast("cpu", torch.bfloat16)

    return autocast


def in_bf16_but_when_probed(original: Any) -> Any:
    import torch

    def autocast(self: Any) -> Any:
        probed = torch._C._len_torch_dispatch_stack()
        return original(self) if probed else torch.autocast("cpu", torch.bfloat16)

    return autocast


fault("gradients never reduced", TWO, "traffic-differs", "losses-differ-from-reference")(
    replaced("strategy.native", "DDP.synchronising", never_synchronising)
)
fault("gradients reduced in every micro-batch", ACCUMULATING, "traffic-differs")(
    replaced("strategy.native", "DDP.synchronising", always_synchronising)
)
fault("bf16 in an fp32 cell", ONE, "precision-differs")(replaced("strategy.base", "Precision.autocast", in_bf16))
fault("bf16 in the window alone", ONE, "losses-differ-from-reference")(
    replaced("strategy.base", "Precision.autocast", in_bf16_but_when_probed)
)


def configured(change: Callable[[dict], None]) -> Callable[[], None]:
    """DeepSpeed's configuration changed."""

    def make(original: Any) -> Any:
        def made(*arguments: Any) -> dict:
            config = original(*arguments)
            change(config)
            return config

        return made

    return replaced("strategy.zero", "make_config", make)


fault("stage 1 in zero2", ZERO2, "settings-differ")(configured(lambda c: c["zero_optimization"].update(stage=1)))
fault("stage 0 in zero1", ZERO1, "settings-differ")(configured(lambda c: c["zero_optimization"].update(stage=0)))
fault("no clipping in zero2", ZERO2, "settings-differ")(configured(lambda c: c.update(gradient_clipping=0.0)))
fault("bf16 in zero1", ZERO1, "precision-differs")(configured(lambda c: c.update(bf16={"enabled": True})))


def ddp_for_all(original: Any) -> Any:
    return lambda name: original("ddp")


fault("fsdp is ddp", FSDP, "traffic-differs")(replaced("trainer.measure", "strategy_class", ddp_for_all))
fault("zero1 is ddp", ZERO1, "settings-differ")(replaced("trainer.measure", "strategy_class", ddp_for_all))


def unbound(original: Any) -> Any:
    return lambda local_rank, threads, *others: [local_rank]


def two_threads() -> None:
    import torch

    torch.set_num_threads = lambda n, original=torch.set_num_threads: original(2)


fault("cores recorded, never set", ONE, "settings-differ")(replaced("trainer.session", "bind_to_cores", unbound))
fault("two threads for one", ONE, "settings-differ")(two_threads)


def mean_over_ranks(original: Any) -> Any:
    def steps(rows: Any) -> Any:
        result = original(rows)
        timed = rows[rows["phase"] == "window"]
        means = [timed["step_time_s"][timed["step"] == step].mean() for step in result["step"]]
        return result | {"step_time_s": _array(means)}

    return steps


def _array(values: list) -> Any:
    import numpy as np

    return np.array(values)


fault("step time is the mean over ranks", TWO, "figure-not-reproduced")(
    replaced("trainer.metrics", "window_steps", mean_over_ranks)
)
fault("tokens counted twice", ONE, "tokens-differ-from-batches", "figure-not-reproduced")(
    replaced("corpus.reader", "TokenFile.count", lambda original: lambda self, ids: 2 * original(self, ids))
)
fault("step 3 of the warm-up left out", ONE, "losses-differ-from-reference", "tokens-differ-from-reference")(
    replaced("corpus.reader", "SamplePlan.step", lambda original: lambda self, step: original(self, step + (step > 2)))
)
