"""What a trace of known truth is summarised to, exactly; and what is not said where the trace does not carry it."""

import pandas as pd
import pytest
from synthetic_traces import ADD, REDUCE, STEP, trace, without_rows

from scaleproof.conclude.report.sentences.trace import trace_sentences
from scaleproof.ground.facts.kernel_classes import class_of, collective_of
from scaleproof.ground.records.profile_schema import Profile
from scaleproof.measure.trace.breakdown import StepBreakdown
from scaleproof.measure.trace.events import Trace
from scaleproof.measure.trace.timeline import timeline_of_median_step


def profile(made, world=None) -> Profile:
    return Profile(generated_at_utc="now", run_dir="here", **StepBreakdown(made, world).profile_fields())


@pytest.mark.parametrize("lag", [0, 30, 1000])
def test_the_parts_of_a_step_are_recovered_exactly(lag):
    found = profile(trace(lag=lag))
    assert found.unknown == {}
    for row in found.per_step:
        assert row.wall_ms == pytest.approx(STEP / 1e3)
        assert (row.compute_ms, row.communication_ms) == (0.12, 0.09)
        assert (row.overlapped_ms, row.exposed_ms, row.idle_ms) == (0.05, 0.04, pytest.approx(0.04))
        assert row.compute_ms + row.exposed_ms + row.idle_ms == pytest.approx(row.wall_ms)
        assert row.ranges_ms == {"data": 0.005, "forward": 0.045, "backward": 0.1, "optimizer": 0.05}
        assert row.gaps == 1, "170-200; 140-150 is not more than 10 us"


def test_kernels_on_several_streams_are_not_added():
    made = trace()
    work = pd.concat([made.work, made.work.assign(stream=3)], ignore_index=True)
    both = Trace(work, made.ranges, made.host, made.source)
    once, twice = profile(made), profile(both)
    assert [r.exposed_ms for r in once.per_step] == [r.exposed_ms for r in twice.per_step]
    assert twice.kernel_time_ms == 2 * once.kernel_time_ms, "this one is a sum, as nsys stats has it"
    assert twice.collectives["all_reduce"].calls == 4


def test_classes_and_calls_per_step_and_rank():
    found = profile(trace(ranks=4, steps=3))
    assert found.classes_ms == {"communication": 0.09, "elementwise": 0.04, "gemm": 0.06, "optimizer": 0.02}
    reduce = found.collectives["all_reduce"]
    assert (reduce.calls, reduce.total_ms, reduce.exposed_ms) == (2.0, pytest.approx(0.09), pytest.approx(0.04))
    assert found.communication_share == pytest.approx(90 / 210)
    assert found.calls_by_kernel == {REDUCE: 24}
    assert found.kernels_top[0].name == REDUCE


def test_a_straggler_is_named_and_waiting_is_not_transfer():
    found = profile(trace(ranks=3, late={1: 20}))
    reduce = found.collectives["all_reduce"]
    # Two of three ranks wait 20 us of the 90; the transfer is what the late one needs: 40 + 30.
    assert reduce.wait_ms == pytest.approx(0.04 / 3)
    assert reduce.transfer_ms == pytest.approx(0.07)
    assert (found.slowest.rank, found.slowest.steps_last, found.slowest.of_steps) == (1, 4, 4)
    assert found.slowest.caused_ms == pytest.approx(0.02)
    assert [r.wait_ms for r in found.per_step if r.rank == 1] == [0.0] * 4
    # Rank 0 waits from 90 to 110, and computes until 100.
    waits = {(r.wait_ms, r.exposed_wait_ms) for r in found.per_step if r.rank == 0}
    assert waits == {(0.02, 0.01)}
    assert "Rank 1 comes last in 4 of 4 steps; the others wait for it, 0.02 ms a step on average." in trace_sentences(
        found
    )


def test_a_rank_that_is_last_by_chance_is_not_named():
    by_turns = trace(ranks=2, late={0: 20})
    other = trace(ranks=2, late={1: 20})
    half = by_turns.work["start"] < by_turns.work["start"].median()
    mixed = pd.concat([by_turns.work[half], other.work[~half]], ignore_index=True)
    found = profile(Trace(mixed, by_turns.ranges, by_turns.host, by_turns.source))
    assert found.slowest.steps_last == 2
    assert not any("comes last" in s for s in trace_sentences(found))


def test_level_ranks_have_no_straggler():
    assert profile(trace()).slowest is None


def test_a_renamed_collective_makes_communication_unknown_and_never_zero():
    found = profile(trace(reduce="mysteryKernel_v3"))
    assert found.coverage.classified_share == pytest.approx(120 / 210)
    assert "no known class (mysteryKernel_v3)" in found.unknown["communication"]
    assert {r.communication_ms for r in found.per_step} == {None}
    assert {r.exposed_ms for r in found.per_step} == {None}
    assert found.collectives == {}
    assert found.communication_share is None
    assert any("unknown, because 42.9% of the device time" in s for s in trace_sentences(found))
    assert not any("exposed" in s for s in trace_sentences(found))


def test_a_collective_renamed_to_something_known_is_noticed_where_ranks_must_communicate():
    found = profile(trace(reduce=ADD))
    assert "no collective was found in a trace of 2 ranks" in found.unknown["communication"]
    assert profile(trace(ranks=1, reduce=ADD)).unknown == {"waiting": "one rank waits for nobody"}


def test_lost_events_and_missing_ranks_take_claims_away():
    assert "lost 12 events" in profile(trace(dropped=12)).unknown["communication"]
    found = profile(trace(), world=4)
    assert found.coverage.missing_ranks == [2, 3]
    assert " on 2 of 4 ranks, " in trace_sentences(found)[0]
    assert found.unknown == {"waiting": "ranks 2, 3 are not in the trace"}
    assert found.per_step[0].exposed_ms == 0.04
    assert found.per_step[0].wait_ms is None
    assert found.per_step[0].exposed_wait_ms is None


def test_ranks_that_differ_in_their_calls_are_not_matched():
    made = trace()
    lost = without_rows(
        made, lambda w: ~((w["rank"] == 1) & (w["name"] == REDUCE) & (w["start"] == w["start"].min() + 40_000))
    )
    found = profile(lost)
    assert found.unknown["waiting"] == "the ranks differ in their calls of all_reduce in step 0 (rank 0: 2, rank 1: 1)"
    assert found.collectives["all_reduce"].wait_ms is None


def test_a_trace_without_steps_or_without_kernels_says_so():
    made = trace()
    found = profile(Trace(made.work, made.ranges[made.ranges["name"] != "step"], made.host, made.source))
    assert "no `step` ranges" in found.unknown["per_step"]
    assert found.steps is None
    assert found.per_step == []
    nothing = without_rows(trace(device="none"), lambda w: w["rank"] < 0)
    found = profile(nothing)
    assert "holds no kernels" in found.unknown["communication"]
    assert found.coverage.classified_share is None
    assert {r.idle_ms for r in found.per_step} == {None}
    assert found.per_step[0].ranges_ms["backward"] == 0.1


def test_the_tree_of_ranges_has_exclusive_times():
    by_path = {r.path: r for r in profile(trace()).ranges}
    assert by_path["step"].total_ms == pytest.approx(0.2)
    assert by_path["step"].own_ms == pytest.approx(0)
    assert by_path["step > backward"].own_ms == pytest.approx(0.1)
    assert by_path["step > data"].calls == 1


def test_the_fields_of_older_summaries_are_there():
    found = profile(trace(ranks=1, steps=1))
    assert found.nvtx_top5[0] == {
        "kind": "nvtx",
        "name": "step",
        "time_percent": 50.0,
        "total_time": "200000 ns",
        "raw": "",
    }
    assert [t["name"] for t in found.osrt_top5] == ["poll", "read"]
    assert found.likely_bottleneck == {"allreduce_gradients_over_20pct": False}
    assert found.tokens_per_sec is None, "a trace is no source of throughput"


def test_the_timeline_shows_one_step_of_all_ranks():
    spans = timeline_of_median_step(StepBreakdown(trace(late={1: 20})))
    assert set(spans["rank"]) == {0, 1}
    mine = spans[spans["rank"] == 0]
    reduce = mine[mine["what"] == "all_reduce"]
    assert reduce[["start_ms", "end_ms"]].round(3).to_numpy().tolist() == [[0.04, 0.08], [0.09, 0.14]]
    waiting = mine[mine["what"] == "waiting"]
    assert waiting[["start_ms", "end_ms"]].round(3).to_numpy().tolist() == [[0.09, 0.11]]
    assert set(mine[mine["lane"] == "compute"]["what"]) == {"gemm", "elementwise", "optimizer"}


@pytest.mark.parametrize(
    ("name", "kind", "collective"),
    [
        ("ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevKernelArgs…", "communication", "all_reduce"),
        ("ncclKernel_ReduceScatter_RING_LL_Sum_float(ncclDevComm*)", "communication", "reduce_scatter"),
        ("ncclAllGatherRingLLKernel_copy_i8(ncclColl)", "communication", "all_gather"),
        ("void ncclBroadcastRingLLKernel_copy_i8", "communication", "broadcast"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "communication", "send_recv"),
        ("ncclDevKernel_SomethingNew", "communication", "other"),
        ("gloo:all_reduce", "communication", "all_reduce"),
        ("gloo:reduce_scatter", "communication", "reduce_scatter"),
        ("volta_h884gemm_128x64_ldg8_nn", "gemm", None),
        ("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NTT", "gemm", None),
        ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm>", "gemm", None),
        ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits>", "attention", None),
        ("fmha_cutlassF_f16_aligned_64x64_rf_sm80", "attention", None),
        ("void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>", "optimizer", None),
        ("void at::native::vectorized_elementwise_kernel<4, add>", "elementwise", None),
        ("void at::native::vectorized_layer_norm_kernel<float>", "norm and loss", None),
        ("[CUDA memcpy HtoD]", "memcpy", None),
        ("aten::addmm", "gemm", None),
        ("aten::_fused_adamw_", "optimizer", None),
        ("ncclSymkDevKernel_AllReduce_AGxLL_R_sum_f32(ncclSymkDevWorkArgs4K)", "communication", "all_reduce"),
        ("void (anonymous namespace)::oneRankReduce<float>(void*)", "communication", "other"),
        ("void at::native::(anonymous namespace)::chunk_cat_cuda_kernel<float, c10::BFloat16>", "memcpy", None),
        ("split_with_sizes_copy_out_contiguous_no_cast_kernel(char**, char*)", "memcpy", None),
        ("cudnn::fusion::compute_dot_do_o_specialized<true, float>", "attention", None),
        ("void cudnn::fusion::convert_dq_to_16bits<true>", "attention", None),
        ("void at::native::krn_partials_per_segment<long>", "elementwise", None),
        ("void at::native::(anonymous namespace)::compute_grad_weight<float>", "elementwise", None),
        ("void at::native::compute_num_of_partial_segments<long>", "elementwise", None),
        ("thrust::cuda_cub::core::detail::_kernel_agent<thrust::cuda_cub::__parallel_for>", "elementwise", None),
        ("at::native::amp_update_scale_cuda_kernel(float*)", "optimizer", None),
        ("void at::native::tensor_kernel_scan_innermost_dim<float>", "elementwise", None),
        ("triton_poi_fused__scaled_dot_product_flash_attention_view_3", "elementwise", None),
        ("triton_poi_fused_memset_zero_0", "elementwise", None),
        ("triton_tem_fused_mm_12", "gemm", None),
        ("triton_per_fused_native_layer_norm_4", "norm and loss", None),
        ("triton_red_fused__log_softmax_nll_loss_forward_1", "norm and loss", None),
        ("completely_new_thing", "unclassified", None),
        ("[CUDA graph]", "unclassified", None),
    ],
)
def test_names_of_several_generations(name, kind, collective):
    assert (class_of(name), collective_of(name)) == (kind, collective)
