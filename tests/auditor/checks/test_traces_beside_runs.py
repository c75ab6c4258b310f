"""Texts of nsys stats beside a run: the share of collectives, and the updates that were made."""

import json
import random
from pathlib import Path

import pytest
from external_files import metrics
from synthetic_traces import stats_text

from scaleproof.auditor.audit import audit_paths
from scaleproof.ground.findings.finding import Finding

GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"
REDUCE = "ncclDevKernel_AllReduce_Sum_f16_TREE_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"
GEMM = "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn"


def traced(root: Path, updates: int, bottleneck: bool, zero_stage: int = 1) -> dict[str, Finding]:
    """A run of 40 steps on 8 ranks, 4 of them traced, whose kernels are communication for 80 % of the time."""
    folder = root / "run"
    folder.mkdir()
    data = metrics(8, random.Random(0), zero_stage=zero_stage)
    data["epochs"][0]["optimizer_steps"] = 40
    (folder / "training_metrics.json").write_text(json.dumps(data))
    kernels = [(REDUCE, 70_000_000_000, 160), (GATHER, 10_000_000_000, 4 * updates), (GEMM, 20_000_000_000, 9_000)]
    (folder / "nsys_stats_host.txt").write_text(stats_text({"cuda_gpu_kern_sum": kernels}))
    summary = {"nvtx_top5": [], "likely_bottleneck": {"allreduce_gradients_over_20pct": bottleneck}}
    (folder / "profile_summary.json").write_text(json.dumps(summary))
    return {finding.code: finding for finding in audit_paths([root]).findings}


def test_a_summary_that_contradicts_its_trace_and_skipped_updates(tmp_path):
    findings = traced(tmp_path, updates=38, bottleneck=False)
    assert "80.0% of the time of all GPU kernels" in findings["communication-in-trace"].evidence
    assert findings["shares-contradict"].severity == "invalid"
    assert "38 all-gathers on each of 4 traced ranks" in findings["updates-skipped"].evidence


@pytest.mark.parametrize(("updates", "zero_stage"), [(40, 1), (38, 3)])
def test_a_trace_that_agrees_accuses_nobody(tmp_path, updates, zero_stage):
    """All updates were made; or the strategy gathers more than once for each update, so that nothing is counted."""
    findings = traced(tmp_path, updates, bottleneck=True, zero_stage=zero_stage)
    assert not {"shares-contradict", "updates-skipped"} & set(findings)
    assert findings["communication-in-trace"].severity == "note"
