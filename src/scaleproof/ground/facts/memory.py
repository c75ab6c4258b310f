"""Bytes of persistent training state per device, by the ZeRO paper's model (Rajbhandari et al. 2020, section 3)."""

from scaleproof.ground.campaign.strategies import LOW, STAGES, is_offloaded, without_offload, zero_stage

# Bytes per parameter: (weights, gradients, optimizer state). Adam keeps two moments in fp32; low-precision weights have
# an fp32 master copy beside them in the optimizer's state.
FP32 = (4, 4, 8)
MIXED = (2, 2, 12)


def state_bytes(strategy: str, precision: str, parameters: int, devices: int) -> float:
    """Return the bytes of weights, gradients and optimizer state on one of `devices` that share them; no activations.

    Autocast keeps fp32 weights and gradients; so does FSDP2, whose low-precision copies live only while a block is
    used. DeepSpeed's stages 1 to 3 keep low-precision weights. State that is offloaded to the host does not count.
    Raises KeyError for an unknown strategy.
    """
    has_low_weights = precision in LOW and zero_stage(strategy)
    weights, gradients, state = MIXED if has_low_weights else FP32
    stage = STAGES[without_offload(strategy)]
    if is_offloaded(strategy):
        state = 0
    # ZeRO shards the optimizer state from stage 1 on, gradients from stage 2, weights in stage 3.
    shards = [devices if stage >= first_stage else 1 for first_stage in (3, 2, 1)]  # of weights, gradients, state
    sizes = zip((weights, gradients, state), shards, strict=True)
    return parameters * sum(size / n_shards for size, n_shards in sizes)
