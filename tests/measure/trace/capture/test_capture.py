"""Real captures: two ranks on gloo under torch's profiler and under the real Nsight Systems."""

import os
import shutil
from pathlib import Path

import pytest

from scaleproof.conclude.report.sentences.trace import trace_sentences
from scaleproof.ground.campaign.cells import Cell, expand_cells
from scaleproof.ground.campaign.config import Campaign, Tracing
from scaleproof.ground.errors import UserError
from scaleproof.ground.files import write_json
from scaleproof.ground.records.profile_schema import PROFILE, read_profile
from scaleproof.ground.records.run import CAPTURE
from scaleproof.measure.corpus.reader import TokenFile
from scaleproof.measure.trace.capture.capture import capture_trace, choose_tool
from scaleproof.measure.trace.capture.capture_schema import Captured, read_capture
from scaleproof.measure.trace.summarise import summarise_capture

STEPS = 3


def cell(strategy: str = "ddp", **execution) -> Cell:
    data = {
        "title": "traced",
        "workload": {
            "model": {"layers": 1, "width": 64, "heads": 2, "context": 64},
            "seq_len": 32,
            "tokenizer": "bpe-512",
        },
        "work": {"global_batch": 8, "micro_batch": 2, "warmup_steps": 3, "steps": 2},
        "execution": {"geometry": "1x2", "device": "cpu", "strategy": strategy} | execution,
    }
    return expand_cells(Campaign.model_validate(data))[0]


@pytest.fixture(scope="module")
def take(tokens: Path, tmp_path_factory: pytest.TempPathFactory):
    """Trace a cell; returns the folder."""

    def run(strategy: str = "ddp", tool: str = "auto", limit: float = 120, **execution) -> Path:
        out = tmp_path_factory.mktemp("traces") / "cell"
        capture_trace(cell(strategy, **execution), "traced", tokens, out, Tracing(steps=STEPS, tool=tool), limit)
        return out

    return run


@pytest.fixture(scope="module")
def ddp(take) -> Path:
    return take()


@pytest.fixture(scope="module")
def nsys(take) -> Path:
    if not shutil.which("nsys"):
        if os.environ.get("CI"):
            pytest.fail("CI must have nsys: tests/install-system-packages installs it")
        pytest.skip("nsys is not installed (tests/install-system-packages installs it as root)")
    return take(tool="nsys")


def test_a_capture_is_whole_and_says_how_it_was_taken(ddp):
    found = read_capture(ddp)
    assert (found.status, found.tool, found.steps, found.world_size) == ("ok", "torch.profiler", STEPS, 2)
    assert "on a CPU nsys sees neither operators" in found.tool_reason
    assert set(found.files) == {"rank0.json.gz", "rank1.json.gz"}
    assert len(found.step_time_s) == STEPS
    assert sorted(p.name for p in ddp.iterdir()) == ["capture.json", "capture.log", "raw"]
    assert str(Path.cwd()) not in (ddp / CAPTURE).read_text()


@pytest.mark.parametrize(
    ("strategy", "start"),
    [
        ("ddp", "fresh"),
        ("ddp", "forked"),
        ("fsdp", "forked"),
        ("zero1", "fresh"),
        ("zero2", "forked"),
        ("zero3", "forked"),
    ],
)
def test_communication_of_every_strategy_is_found_and_counted(strategy, start, take, ddp):
    """In ranks that start as those of the cell's timed runs."""
    folder = ddp if (strategy, start) == ("ddp", "fresh") else take(strategy, start=start)
    assert {rank["start"] for rank in read_capture(folder).ranks} == {start}
    found = summarise_capture(folder)
    assert found.unknown == {}
    assert found.coverage.classified_share == 1
    assert len(found.per_step) == STEPS * 2
    for row in found.per_step:
        assert 0 < row.exposed_ms <= row.communication_ms < row.wall_ms
        assert row.exposed_ms + row.overlapped_ms == pytest.approx(row.communication_ms)
        assert row.compute_ms + row.exposed_ms + row.idle_ms == pytest.approx(row.wall_ms)
        assert row.wait_ms <= row.communication_ms
        assert {"data", "forward", "backward", "optimizer"} <= set(row.ranges_ms)
        assert ("reduce" in row.ranges_ms) == strategy.startswith("zero")
    # Every collective that the dispatcher saw in the probed step is an event of gloo's in each traced one.
    unseen = 1 if strategy == "fsdp" else 0  # DTensor's reduction of the gradients' norm, below the dispatcher
    assert sum(c.calls for c in found.collectives.values()) == sum(found.expected_calls.values()) + unseen
    clock = sum(max(row.wall_ms for row in found.per_step if row.step == step) for step in range(STEPS))
    assert clock == pytest.approx(sum(found.step_time_ms), rel=0.1), "the trainer's clock saw the same steps"


def test_the_slowest_link_is_told_where_the_transfer_is_known(ddp):
    """Bus bandwidth as nccl-tests have it: two ranks send each byte of an all-reduce once."""
    found = summarise_capture(ddp)
    reduce, size = found.collectives["all_reduce"], read_capture(ddp).collectives["allreduce"]["bytes"]
    assert reduce.bus_gb_per_s == pytest.approx(size / (reduce.transfer_ms * 1e6))
    assert any(f"bus bandwidth {reduce.bus_gb_per_s:.3g} GB/s" in line for line in trace_sentences(found))


def test_accumulation_is_one_step_with_several_forwards(ddp):
    forward = next(r for r in summarise_capture(ddp).ranges if r.path == "step > forward")
    assert forward.calls == 2, "8 samples are 2 micro-batches of 2 on each of 2 ranks"


def test_nothing_is_left_of_the_ranges_after_the_trace():
    from scaleproof.measure.trace.capture.annotate import mark_ranges

    class Thing:
        module = __import__("torch").nn.Identity()

        def take(self, step, micro):
            return "tokens"

        def micro_step(self, tokens, boundary):
            return self.module(tokens)

        def update(self, step):
            pass

    strategy, batches, said = Thing(), Thing(), []
    with mark_ranges(strategy, batches, said.append, lambda: said.append("/")):
        strategy.micro_step(batches.take(0, 0), True)
        strategy.update(0)
    assert " ".join(said) == "step data / forward / backward / optimizer / /"
    assert vars(strategy) == vars(batches) == {}
    assert not strategy.module._forward_hooks


def test_the_real_nsys_records_the_ranges_and_says_that_it_sees_no_communication(nsys):
    captured = read_capture(nsys)
    assert (captured.tool, captured.tool_reason) == ("nsys", None)
    assert {Path(name).suffix for name in captured.files} == {".nsys-rep", ".sqlite"}
    found = summarise_capture(nsys)
    assert found.tool == f"nsys {captured.tool_version}" or captured.tool_version.startswith(found.tool.split()[1])
    assert (found.ranks, found.ranks_from, found.steps) == ([0, 1], "the trace", STEPS)
    assert {r.path for r in found.ranges} == {
        "step",
        "step > data",
        "step > forward",
        "step > backward",
        "step > optimizer",
    }
    assert found.osrt_top5
    assert "holds no kernels" in found.unknown["communication"]
    assert {row.communication_ms for row in found.per_step} == {None}
    assert sum(r.wall_ms for r in found.per_step if r.rank == 0) == pytest.approx(sum(found.step_time_ms), rel=0.1)


def test_the_text_of_the_real_nsys_is_read(nsys, tmp_path):
    import subprocess

    from scaleproof.ground.nsys_stats import read_stats_output

    report = next((nsys / "raw").glob("*.nsys-rep"))
    shutil.copy(report, tmp_path / "a.nsys-rep")
    command = ["nsys", "stats", "--report", "nvtxsum,osrtsum,gpukernsum", str(tmp_path / "a.nsys-rep")]
    for form in ("column", "csv"):
        said = subprocess.run([*command, "--format", form], capture_output=True, text=True, check=True).stdout
        (tmp_path / f"{form}.txt").write_text(said)
        tables = read_stats_output(tmp_path / f"{form}.txt")
        steps = next(line for line in tables["nvtx_sum"] if line.name == "step")
        assert steps.count == 2 * STEPS
        assert steps.total_ns == pytest.approx(1e6 * sum(r.wall_ms for r in summarise_capture(nsys).per_step), rel=1e-6)
        assert "osrt_sum" in tables


def test_the_tool_that_is_not_there_is_replaced_and_said(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert choose_tool("nsys", gpu=False) == (
        "torch.profiler",
        "nsys is not installed here (not found on PATH), so torch's profiler was used instead",
    )
    assert choose_tool("auto", gpu=True)[0] == "torch.profiler"
    assert choose_tool("torch.profiler", gpu=True) == ("torch.profiler", None)


def test_a_second_summary_changes_no_file_and_a_wait_for_devices_takes_nothing_away(ddp, tokens, monkeypatch):
    summarise_capture(ddp)
    before = {path: path.read_bytes() for path in ddp.rglob("*") if path.is_file()}
    (ddp / PROFILE).unlink()  # as Snakemake does before it makes it again
    summarise_capture(ddp)

    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("scaleproof.measure.trace.capture.capture.hold_devices", stopped)
    with pytest.raises(KeyboardInterrupt):
        capture_trace(cell("ddp"), "traced", tokens, ddp, Tracing(steps=STEPS), 120)
    assert {path: path.read_bytes() for path in ddp.rglob("*") if path.is_file()} == before


def test_a_cell_that_cannot_run_is_told_and_the_rest_goes_on(take):
    out = take(precision="fp16", device="auto")
    assert read_capture(out).status == "not_applicable"
    found = summarise_capture(out)
    assert found.reason == "fp16 training needs a CUDA device; this is a CPU"
    assert trace_sentences(found) == ["There is no trace: fp16 training needs a CUDA device; this is a CPU."]
    assert read_profile(out).status == "not_applicable"


def test_samples_of_a_corpus_with_labels_are_its_documents(labelled, tmp_path):
    """As in the timed run: 300 documents hold many more windows of eight tokens."""
    work = {"global_batch": 400, "micro_batch": 400, "warmup_steps": 3, "steps": 2}
    workload = {
        "task": "classification",
        "model": {"d_model": 32, "heads": 2, "layers": 1, "feed_forward": 64, "context": 64},
        "seq_len": 8,
        "tokenizer": "bpe-512",
    }
    # fp16: were the samples enough, the capture would end before any rank is started, as not applicable to a CPU.
    execution = {"strategy": "single", "precision": "fp16"}
    data = {"title": "traced", "workload": workload, "work": work, "execution": execution}
    chosen = expand_cells(Campaign.model_validate(data))[0]
    assert TokenFile(labelled, "train", 8).n_samples > 400
    with pytest.raises(UserError, match="300"):
        capture_trace(chosen, "traced", labelled, tmp_path / "cell", Tracing(steps=STEPS), 60)


def test_a_capture_that_fails_says_why(take):
    out = take(limit=0.5)
    found = read_capture(out)
    assert found.status == "failed"
    assert "timeout: stopped after the time limit" in found.reason


def test_changed_and_lost_files_are_noticed(ddp, tmp_path):
    shutil.copytree(ddp, tmp_path / "copy")
    raw = tmp_path / "copy/raw/rank1.json.gz"
    raw.write_bytes(raw.read_bytes()[:-5])
    with pytest.raises(UserError, match="its sha256 differs"):
        read_capture(tmp_path / "copy")
    raw.unlink()
    with pytest.raises(UserError, match=r"no such file, but .* lists it"):
        read_capture(tmp_path / "copy")
    with pytest.raises(UserError, match="there is no capture in this folder"):
        read_capture(tmp_path)
    (tmp_path / CAPTURE).write_text("{}")
    with pytest.raises(UserError, match="is not a capture of schema"):
        read_capture(tmp_path)


def test_a_rank_whose_file_is_missing_takes_the_waiting_away(ddp, tmp_path):
    shutil.copytree(ddp, tmp_path / "copy")
    data = read_capture(tmp_path / "copy").model_dump(mode="json")
    del data["files"]["rank1.json.gz"]
    write_json(tmp_path / "copy" / CAPTURE, Captured(**data).model_dump(mode="json"))
    found = summarise_capture(tmp_path / "copy")
    assert found.coverage.missing_ranks == [1]
    assert found.unknown == {"waiting": "rank 1 is not in the trace"}
