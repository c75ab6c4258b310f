"""More faults: ranks that sleep or do more, data, validation, updates and totals."""

import os
import time
from typing import Any

from faults.planted import ACCUMULATING, LONG, ONE, TWO, ZERO2, fault, in_update, model, replaced, timer

SLEEP_S, SPIN_S = 0.02, 0.03
WRONG_LOSS = ("losses-differ-from-reference",)


def sleep_on_rank_1(strategy: Any, step: int) -> None:
    time.sleep(SLEEP_S if os.environ["RANK"] == "1" else 0)


def spin_on_rank_1(strategy: Any, step: int) -> None:
    end = time.thread_time() + (SPIN_S if os.environ["RANK"] == "1" else 0)
    while time.thread_time() < end:
        pass


def sleeping_engine(original: Any) -> Any:
    def update(self: Any, step: int) -> None:
        time.sleep(SLEEP_S)
        original(self, step)

    return update


def sleeping_forward(network: Any) -> None:
    pause = SLEEP_S if os.environ["RANK"] == "1" else 0
    network.register_forward_pre_hook(lambda module, inputs: time.sleep(pause))


fault("rank 1 sleeps in every step", TWO, "step-idle", fast=True)(in_update(sleep_on_rank_1))
fault("rank 1 sleeps in every forward pass", TWO, "step-idle")(model(sleeping_forward))
fault("zero2 sleeps in every step", ZERO2, "step-idle")(replaced("strategy.zero", "Zero.update", sleeping_engine))
fault("rank 1 computes longer in every step", {**TWO, "work": {"steps": 48}}, "ranks-uneven")(in_update(spin_on_rank_1))


def slow_reader(original: Any) -> Any:
    def read(self: Any, step: int, micro: int) -> Any:
        time.sleep(0.003)
        return original(self, step, micro)

    return read


def every_second_batch_again(original: Any) -> Any:
    return lambda self, step: original(self, step - step % 2)


fault("slow reader", ONE, "data-wait", "step-idle")(
    replaced("trainer.batches", "Batches._read_micro_batch", slow_reader)
)
fault("every second batch is trained twice", TWO, "ledger-differs-from-plan")(
    replaced("corpus.reader", "SamplePlan.step", every_second_batch_again)
)


def half_of_each_sample(original: Any) -> Any:
    return lambda self, tokens: original(self, tokens[:, :17])


fault("validation of half of each sample", ONE, "validation-differs-from-reference", "figure-not-reproduced")(
    replaced("strategy.base", "Native.evaluate", half_of_each_sample)
)


def no_clipping(original: Any) -> Any:
    return lambda self, max_norm: None


def tenfold(original: Any) -> Any:
    return lambda self, max_norm: original(self, 10 * max_norm)


fault("no clipping", ONE, *WRONG_LOSS)(replaced("strategy.base", "Native._clip", no_clipping))
fault("clipping at ten times the norm", TWO, *WRONG_LOSS)(replaced("strategy.base", "Native._clip", tenfold))


def forget(strategy: Any, step: int) -> None:
    if step == 10:
        strategy.optimizer.state.clear()


def twice(strategy: Any, step: int) -> None:
    strategy.optimizer.step()


def in_even_steps(original: Any) -> Any:
    return lambda self, step: None if step % 2 else original(self, step)


fault("no update in odd steps", ONE, "updates-differ-from-steps")(
    replaced("strategy.base", "Native.update", in_even_steps)
)
fault("optimizer's state lost in step 10", ONE, *WRONG_LOSS, "updates-differ-from-steps")(in_update(forget))
fault("two updates in a step", ONE, "updates-differ-from-steps")(in_update(twice))


def other_epsilon(network: Any) -> None:
    network.network.transformer.ln_f.eps = 1e-3


def repeated_half(original: Any) -> Any:
    def micro_step(self: Any, tokens: Any, boundary: bool) -> Any:
        return original(self, tokens[: len(tokens) // 2].repeat(2, 1), boundary)

    return micro_step


fault("another epsilon in the last norm", ONE, *WRONG_LOSS)(model(other_epsilon))
fault("half of each micro-batch, twice", ACCUMULATING, *WRONG_LOSS, "tokens-differ-from-reference")(
    replaced("strategy.base", "Native.micro_step", repeated_half)
)


def compressing(original: Any) -> Any:
    def wrap(self: Any, network: Any) -> Any:
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

        module = original(self, network)
        self.replica.register_comm_hook(None, fp16_compress_hook)
        return module

    return wrap


fault("gradients travel in fp16", TWO, "traffic-differs", *WRONG_LOSS)(
    replaced("strategy.native", "DDP.wrap", compressing)
)


def of_the_median(original: Any) -> Any:
    def stop(self: Any) -> Any:
        import numpy as np

        steps, _ = original(self)
        return steps, float(np.median(steps)) * len(steps) * 0.9

    return stop


fault("wall time from the median step", LONG, "steps-do-not-fill-window", "clock-differs")(
    replaced("trainer.timed_loop", "StepTimer.stop", of_the_median)
)


def with_warmup(original: Any) -> Any:
    def window(request: Any, *others: Any) -> Any:
        result = original(request, *others)
        work = request.cell.work
        rate = result.tokens_per_s * (work.steps + work.warmup_steps) / work.steps
        return result.model_copy(update={"tokens_per_s": rate})

    return window


def without_launch(original: Any) -> Any:
    def summarised(*arguments: Any) -> Any:
        result = original(*arguments)
        return result.model_copy(update={"total_wall_time_s": 0.5 * result.total_wall_time_s})

    return summarised


fault("tokens of the warm-up in the rate", ONE, "figure-not-reproduced", "rate-times-time")(
    replaced("trainer.metrics", "_window_figures", with_warmup)
)
fault("half of the total time", ONE, "figure-not-reproduced")(
    replaced("trainer.measure", "summarise_run", without_launch)
)


def first_core(original: Any) -> Any:
    return lambda local_rank, threads: original(0, threads)


fault("all ranks on one core", TWO, "cores-shared")(replaced("trainer.session", "bind_to_cores", first_core))
fault("timer x 0.9", LONG, "clock-differs")(timer(0.9))
