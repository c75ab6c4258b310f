"""`import scaleproof`: its functions, and nothing heavy until one is called."""

import re
import subprocess
import sys

import pytest
from synthetic import cells, write_failure, write_run

import scaleproof
from scaleproof.ground.errors import UserError


def test_the_import_is_light():
    code = (
        "import sys, scaleproof; sys.exit(any(m in sys.modules for m in ('numpy', 'pydantic', 'torch', 'snakemake')))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_everything_that_is_listed_is_there():
    for name in scaleproof.__all__:
        assert callable(getattr(scaleproof, name))
        assert getattr(scaleproof, name).__doc__


def test_runs_are_loaded_audited_and_compared(tmp_path):
    for place, cell in zip(("a", "b"), cells()[:2], strict=True):
        write_run(tmp_path / place, cell)
    runs = scaleproof.load_runs(tmp_path)
    assert len(runs) == 2
    assert len(runs[0].steps) > 0
    assert scaleproof.audit(tmp_path).runs
    assert scaleproof.compare(tmp_path / "a", tmp_path / "b")[0].why.startswith("incomparable")


def test_runs_of_pairs_can_be_told_from_the_others(tmp_path):
    cell = cells()[0]
    write_run(tmp_path / "runs", cell)
    write_run(tmp_path / "elsewhere", cell)
    (tmp_path / "compare/fused/pair12").mkdir(parents=True)
    next((tmp_path / "elsewhere").glob("*/*")).rename(tmp_path / "compare/fused/pair12/b")
    frame = scaleproof.to_frame(tmp_path).set_index("comparison")
    assert len(frame) == 2
    assert frame.loc["fused", ["pair", "arm"]].tolist() == [12, "b"]
    assert frame["tokens_per_s"].notna().all()
    assert frame[frame["arm"].isna()]["metrics"].str.contains("/runs/").tolist() == [True]


def test_numbers_that_no_run_has_are_numbers_all_the_same(tmp_path):
    write_failure(tmp_path / "failed", cells()[0], kind="nan", reason="the loss of step 2 is nan")
    frame = scaleproof.to_frame(tmp_path)
    assert (frame["tokens_per_s"].dtype, len(frame)) == (float, 1)
    assert frame["reason"].tolist() == ["the loss of step 2 is nan"]


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(UserError, match="no run below"):
        scaleproof.load_runs(tmp_path)


def test_a_watched_loop_is_no_run_and_becomes_a_table_as_documented(tmp_path, monkeypatch, repository):
    torch = pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCALEPROOF_WATCH", "scaleproof-watch")
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for rows in scaleproof.watch([torch.ones(2, 3)] * 5, model, optimizer):
        model(rows).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    for place in (".", "scaleproof-watch", "scaleproof-watch/watched.0.json"):
        with pytest.raises(
            UserError, match=r"not a run; `scaleproof watched scaleproof-watch` reads it, and the lines"
        ):
            scaleproof.to_frame(place)

    (lines,) = re.findall(r"```python\n(import json\n.*?)```", (repository / "docs/python.md").read_text(), re.DOTALL)
    names = {}
    exec(lines, names)
    assert list(names["steps"].columns) == ["step_s", "samples", "tokens", "losses", "rank"]
    assert (names["steps"]["samples"] == 2).sum() == 5


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("load_runs", {"folder": ""}, "the path of a file or folder, not ''"),
        ("load_runs", {"folder": 5}, "the path of a file or folder, not 5"),
        ("read_trace", {"steps": -1}, "steps cannot be -1; allowed: a whole number from 1"),
        (
            "mfu",
            {"flops_per_s": 1e18, "device": "NVIDIA H100 80GB HBM3", "precision": "bf16"},
            "1.01e+03 times the peak",
        ),
        ("mfu", {"flops_per_s": -5, "device": "NVIDIA H100 80GB HBM3", "precision": "bf16"}, "cannot be -5; allowed"),
        ("peak", {"device": "A100", "precision": "float16"}, 'allowed: fp32, tf32, bf16, fp16. Did you mean "fp16"?'),
        ("counts", {"layers": 1.5, "width": 10, "seq_len": 3}, "layers cannot be 1.5; allowed"),
        ("counts", {"layers": None, "width": 10, "seq_len": 3}, "layers cannot be None; allowed"),
        ("compare", {"a": ".", "b": ".", "vary": 5}, "vary cannot be 5; allowed: names"),
        ("watch", {"batches": [1], "model": 1, "optimizer": 1, "folder": 5}, "a file or folder, not 5"),
        ("watch_callback", {"folder": 5}, "a file or folder, not 5"),
        ("watch_callback", {"of": "lightening"}, 'Did you mean "lightning"'),
        ("to_frame", {"folder": "nowhere"}, "nowhere: no such file or folder"),
        ("watch", {"batches": [1], "model": None, "optimizer": None}, "not list, NoneType, NoneType"),
    ],
)
def test_wrong_arguments_are_named(name, given, message):
    with pytest.raises(UserError, match=re.escape(message)):
        getattr(scaleproof, name)(**given)


def test_one_field_may_be_given_as_a_word(tmp_path):
    for place, cell in zip(("a", "b"), cells()[:2], strict=True):
        write_run(tmp_path / place, cell)
    with pytest.raises(UserError, match='no field "strategie"'):
        scaleproof.compare(tmp_path / "a", tmp_path / "b", vary="strategie")


def test_a_trace_that_is_missing_is_named(tmp_path):
    with pytest.raises(UserError, match="gone"):
        scaleproof.read_trace(tmp_path / "gone.json")


def test_mfu_of_a_model_on_a_device():
    """GPT-2 small at 480,000 tokens/s on an H100: 41 %, as nanoGPT's formula says."""
    counts = scaleproof.counts(layers=12, width=768, seq_len=1024)
    assert counts.parameters == 124_439_808
    device = "NVIDIA H100 80GB HBM3"
    assert scaleproof.mfu(counts.flops_per_token * 480_000, device, "bf16") == pytest.approx(0.4147, abs=1e-4)
    assert scaleproof.peak(device, "bf16").source.startswith("NVIDIA H100 data sheet")


def test_where_no_peak_is_published_there_is_no_mfu():
    assert scaleproof.mfu(1e12, "NVIDIA GeForce GTX 1080", "bf16") is None
    assert scaleproof.peak("NVIDIA A100-SXM4-80GB MIG 3g.40gb", "bf16") is None
    with pytest.raises(UserError, match=r"fp8.*allowed: fp32, tf32, bf16, fp16"):
        scaleproof.peak("NVIDIA H100 80GB HBM3", "fp8")


def test_a_lost_series_is_named_with_the_way_to_get_it_again(tmp_path):
    write_run(tmp_path / "results/demo/runs", cells()[0])
    (run,) = scaleproof.load_runs(tmp_path)
    (run.folder / "steps.csv").unlink()
    with pytest.raises(UserError, match=r"rep1/steps\.csv: no such file; measure it again: scaleproof retry"):
        _ = run.steps


def test_what_this_user_may_not_read_is_wrong_input(tmp_path, monkeypatch):
    def refused(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("pathlib.Path.iterdir", refused)
    with pytest.raises(UserError, match=f"{tmp_path}: this user may not read or write it"):
        scaleproof.load_runs(tmp_path)


def test_a_tilde_is_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write_run(tmp_path / "mine", cells()[0])
    assert len(scaleproof.load_runs("~/mine")) == 1
