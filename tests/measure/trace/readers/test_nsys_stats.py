"""Texts of nsys stats. Our own writer makes them; they carry the figures of two published V100 profiles."""

import pytest
from synthetic_traces import stats_text

from scaleproof.conclude.report.sentences.trace import trace_sentences
from scaleproof.ground.errors import UserError
from scaleproof.ground.nsys_stats import read_stats_output
from scaleproof.measure.trace.summarise import summarise_files

F16, F32, F64, U8 = (
    f"ncclDevKernel_AllReduce_Sum_{t}_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4…"
    for t in ("f16", "f32", "f64", "u8")
)
GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"
GEMM = "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn"
ADAM = "void multi_tensor_apply_kernel<TensorListMetadata<(int)4>, AdamFunctor<float, float, int>, float, float>"
# A run of 3,561 optimizer steps and one of 40, each 4 ranks: total kernel time, NCCL's, calls. Sums as published; how
# the time falls on single kernels is made up.
LONG = {
    "nvtx_sum": [
        (":DeepSpeedEngine.backward", 2_765_967_562_725, 14_244),
        (":DeepSpeedEngine.allreduce_gradients", 2_093_359_690_089, 14_244),
        (":DeepSpeedEngine.forward", 265_596_000_000, 14_244),
        ("NCCL:ncclAllReduce", 1_000_000_000, 42_748),
    ],
    "cuda_gpu_kern_sum": [
        (F16, 2_550_546_000_000, 14_244),
        (U8, 60_000_000_000, 14_244),
        (F32, 20_000_000_000, 14_244),
        (F64, 5_000_000_000, 16),
        (GATHER, 15_000_000_000, 14_212),
        (GEMM, 400_039_000_000, 3_000_000),
        (ADAM, 46_000_000_000, 14_212),
    ],
    "osrt_sum": [("poll", 9_000_000_000_000, 100_000), ("pthread_cond_wait", 1_000_000_000_000, 5_000)],
}
SHORT = {
    "nvtx_sum": [
        (":train/backward", 62_133_803_775, 320),
        (":DeepSpeedEngine.backward", 62_133_803_775, 320),
        (":DeepSpeedEngine.allreduce_gradients", 42_561_655_586, 160),
        (":train/forward", 86_500_000_000, 320),
    ],
    "cuda_gpu_kern_sum": [
        (F16, 60_896_000_000, 160),
        (U8, 2_000_000_000, 160),
        (F32, 2_000_000_000, 184),
        (F64, 500_000_000, 16),
        (GATHER, 500_000_000, 152),
        (GEMM, 7_074_000_000, 60_000),
        (ADAM, 2_000_000_000, 152),
    ],
    "osrt_sum": [("poll", 9_000_000_000, 1_000)],
}
PUBLISHED = [(LONG, 3_561, 0.8560, 3.00, 3_553), (SHORT, 40, 0.8790, 3.25, 38)]


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize(("reports", "steps", "share", "calls", "executed"), PUBLISHED)
def test_the_published_figures_come_out(tmp_path, reports, steps, share, calls, executed, old):
    path = tmp_path / "nsys_stats_host.txt"
    path.write_text(stats_text(reports, old))
    found = summarise_files([path], ranks=4, steps=steps)
    assert round(found.communication_share, 4) == share
    assert round(found.calls_per_step["all_reduce"], 2) == calls
    assert found.executed_steps == executed
    assert found.unknown.keys() == {"exposed"}, "sums say nothing about overlap"
    assert found.coverage.classified_share == 1
    said = trace_sentences(found)
    assert f"{executed:,} of {steps:,} optimizer steps were executed (all-gathers per rank)." in said
    assert any(f"{100 * share:.2f} %" in s for s in said)


def test_the_summary_keeps_the_fields_of_before(tmp_path):
    path = tmp_path / "nsys_stats_host.txt"
    path.write_text(stats_text(LONG))
    found = summarise_files([path])
    first = found.nvtx_top5[0]
    assert (first["kind"], first["name"], first["total_time"]) == (
        "nvtx",
        "DeepSpeedEngine.backward",
        "2765967562725 ns",
    )
    assert "27,65,96,75,62,725" in first["raw"]
    assert found.likely_bottleneck["allreduce_gradients_over_20pct"] is True
    assert found.likely_bottleneck["matched"]["total_time"] == "2093359690089 ns"
    assert found.osrt_top5[0]["name"] == "poll"
    assert list(found.per_file) == ["nsys_stats_host.txt"]


def test_one_file_given_twice_is_counted_once(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(stats_text(SHORT))
    assert (
        summarise_files([path, path]).kernel_time_ms == summarise_files([path]).kernel_time_ms == pytest.approx(74_970)
    )


@pytest.mark.parametrize(
    "digits", [str, lambda n: f"{n:,}", lambda n: f"{n:,}".replace(",", "\u202f"), lambda n: f"{n:,}".replace(",", "'")]
)
def test_digits_are_grouped_in_any_way(tmp_path, digits):
    path = tmp_path / "a.txt"
    path.write_text(stats_text(SHORT, digits=digits))
    assert summarise_files([path]).kernel_time_ms == pytest.approx(74_970)


def test_comma_separated_values(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(
        "Processing [a.sqlite] with [reports/cuda_gpu_kern_sum.py]... \n"
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
        f'87.9,65896000000,520,1.0,1.0,1,1,0.0,"{F16}, a name with a comma"\n'
        f"12.1,9074000000,100,1.0,1.0,1,1,0.0,{GEMM}\n"
    )
    found = summarise_files([path], ranks=4, steps=40)
    assert round(found.communication_share, 4) == 0.8790
    assert found.calls_per_step == {"all_reduce": 3.25}


def test_a_renamed_collective_in_a_text_is_unknown_too(tmp_path):
    path = tmp_path / "a.txt"
    kernels = [("mystery_kernel", 80_000, 10), (GEMM, 20_000, 10)]
    path.write_text(stats_text({"cuda_gpu_kern_sum": kernels}))
    found = summarise_files([path])
    assert "80.0% of the kernel time is in kernels of no known class (mystery_kernel)" in found.unknown["communication"]
    assert found.communication_share is None
    path.write_text(stats_text({"cuda_gpu_kern_sum": [(GEMM, 20_000, 10)]}))
    assert "no kernel of a collective was found" in summarise_files([path], ranks=4).unknown["communication"]


def test_ranges_alone_say_nothing_about_communication(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(
        stats_text({"nvtx_sum": LONG["nvtx_sum"]}, preamble="NOTICE: Existing SQLite export found: a.sqlite")
    )
    found = summarise_files([path])
    assert "ranges of the host say nothing" in found.unknown["communication"]
    assert found.kernel_time_ms is None


def test_reports_without_data_and_cut_tables_are_refused(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(
        "Processing [a.sqlite] with [gpukernsum.py]... \nSKIPPED: a.sqlite does not contain CUDA kernel data.\n"
    )
    with pytest.raises(UserError, match=r"every report is empty .SKIPPED: a\.sqlite does not contain CUDA kernel data"):
        read_stats_output(path)
    whole = stats_text(SHORT)
    place = whole.index("152")
    path.write_text(whole[:place])
    with pytest.raises(
        UserError, match=r"a\.txt, line \d+: the line ends before its last column; was the text cut off"
    ):
        read_stats_output(path)
