"""`campaign show`: what will run, before anything runs."""

from pathlib import Path

import pytest

from scaleproof.conclude.forecast import requirements
from scaleproof.conclude.forecast import text as forecast_text
from scaleproof.conclude.forecast.campaign_forecast import ForecastEvidence
from scaleproof.conclude.forecast.plan import make_plan
from scaleproof.conclude.forecast.requirements import RunTimes
from scaleproof.conclude.forecast.text import plan_text
from scaleproof.driver import campaign_preview
from scaleproof.driver.campaign_preview import preview_campaign
from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.campaign.corpora import Corpus
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.measure.corpus.downloads import describe_corpora_table, lines_of_downloads
from scaleproof.measure.machine.gpus import Gpu, LostDevice


def test_what_runs_on_no_machine_is_not_blamed_on_this_one(repository, monkeypatch, tmp_path):
    monkeypatch.chdir(repository)
    path = Path(tmp_path / "mine.yaml")
    text = "title: x\nwork: {global_batch: 8}\nvary: {strategy: [single, dp], geometry: [1x1, 1x2]}\n"
    path.write_text(text)
    anywhere, here = preview_campaign(LoadedCampaign(path)).split("These cannot run here")
    assert (
        "These can run on no machine; leave them out (exclude, or the entry of cells) (each is a row that says why):\n"
        in anywhere
    )
    assert ("single-n1x2" in anywhere.rpartition("These can run")[2], "dp-n1x2" in here) == (True, True)
    path.write_text(text.replace("single, dp", "ddp"))
    assert "These can" not in preview_campaign(LoadedCampaign(path))


def test_show_lists_cells_batches_tokens_and_processes(repository, monkeypatch, tmp_path):
    monkeypatch.chdir(repository)
    path = Path(tmp_path / "mine.yaml")
    path.write_text("title: Which?\nwork: {global_batch: 16, steps: 10}\nvary: {geometry: [1x1, 1x4]}\nrepeats: 2\n")
    text = preview_campaign(LoadedCampaign(path))
    line = next(line for line in text.splitlines() if line.startswith("ddp-n1x4"))
    assert line.split() == [
        "ddp-n1x4",
        *["16", "=", "4", "x", "1", "x", "4"],
        "2,048",
        "10",
        "10",
        "20,480",
        "4",
        "12.6",
        "MB",
    ]
    assert text.startswith("Which?")
    assert "2 cells x 2 repeats = 4 runs, 81,920 timed tokens" in text


@pytest.fixture
def shown(repository, monkeypatch, tmp_path):
    """What `campaign show` says of a campaign, in a folder without results."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config/corpora.yaml").write_text((repository / "config/corpora.yaml").read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HF_TOKEN", raising=False)

    def run(text: str) -> str:
        (tmp_path / "mine.yaml").write_text(f"title: Which?\n{text}")
        return preview_campaign(LoadedCampaign(Path("mine.yaml")))

    return run


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        ("gpt2-small", "124,439,808"),
        ("gpt2-medium", "354,823,168"),
        ("gpt2-large", "774,030,080"),
        ("gpt2-xl", "1,557,611,200"),
        ("{layers: 1, width: 64, heads: 2}", "3,332,096"),
    ],
)
def test_models_with_their_parameters(shown, model, parameters):
    """The published counts of GPT-2, with its own tokenizer and the head tied to the token table."""
    text = shown(f"workload: {{model: {model}, tokenizer: gpt2, seq_len: 1024}}\n")
    assert f"50,257 entries, seq_len 1,024: {parameters} parameters (tied head)" in text
    if model == "gpt2-small":
        assert "854 MFLOP a token" in text, "6 x 123,532,032 + 12 x 12 x 768 x 1,024 = 854,438,400"


def test_of_another_head_nothing_is_said(shown):
    config = Path(__file__).parents[1] / "measure/model/architectures/llama.json"
    text = shown(f"workload: {{model: {{config: {config}}}, tokenizer: gpt2, seq_len: 64}}\n")
    assert " parameters, " in text
    assert "tied head" not in text


def test_state_by_strategy(shown):
    text = shown(
        "workload: {model: gpt2-small, tokenizer: gpt2}\n"
        "vary: {strategy: [ddp, zero1, zero3], precision: [bf16], geometry: [1x4]}\n"
    )
    rows = {line.split()[0]: " ".join(line.split()[-2:]) for line in text.splitlines() if "-bf16-n1x4 " in line}
    assert rows == {"ddp-bf16-n1x4": "1.99 GB", "zero1-bf16-n1x4": "871 MB", "zero3-bf16-n1x4": "498 MB"}
    assert "activations, buffers and the allocator's reserve come on top" in text


def test_a_state_that_no_device_here_holds(shown, monkeypatch):
    monkeypatch.setattr(campaign_preview, "cuda_devices", lambda: [Gpu("Tesla T4", "GPU-1", 16 * 10**9, (7, 5))])
    text = shown("workload: {model: gpt2-xl}\nexecution: {device: cuda}\n")
    assert "The state alone is more than the 16 GB of a device here: ddp-n1x1" in text
    assert "more than" not in shown("workload: {model: gpt2-small}\nexecution: {device: cuda}\n")


def test_processes_that_the_memory_here_cannot_hold_are_named(shown, monkeypatch, tmp_path):
    monkeypatch.setattr(campaign_preview, "cuda_devices", list)
    monkeypatch.setattr(forecast_text, "cuda_devices", list)
    monkeypatch.setattr(requirements.os, "sysconf", lambda name: {"SC_PAGE_SIZE": 10**6, "SC_PHYS_PAGES": 30_000}[name])
    campaign = "workload: {model: gpt2-xl, tokenizer: gpt2}\nvary: {geometry: [1x1, 1x2]}\n"
    line = "The state of all processes is more than the 30 GB of this machine: ddp-n1x2 (49.8 GB)"
    assert f"\n{line}\n" in shown(campaign), "and not the one process, which has 24.9 GB"
    loaded = LoadedCampaign(tmp_path / "mine.yaml")
    evidence = ForecastEvidence(loaded, {}, None, [], [])
    assert plan_text(loaded, make_plan(evidence, times=RunTimes((), ()))).endswith(line)
    assert "of this machine: " not in shown(campaign.replace("gpt2-xl", "gpt2-small"))


def test_a_lost_device_is_why_there_are_none(shown, monkeypatch):
    def lost():
        raise LostDevice("GPU 3 of this machine does not answer (GPU is lost)")

    monkeypatch.setattr(campaign_preview, "cuda_devices", lost)
    assert "No CUDA device can be used, because GPU 3 of this machine does not answer" in shown("")


@pytest.mark.parametrize(
    ("corpus", "parts"),
    [
        ("python-docs", ["python-docs; nothing to download; licence PSF-2.0"]),
        ("wikitext-103", ["wikitext-103 at b08601e04326; downloads 2 files, 314 MB; licence CC-BY-SA"]),
        ("fineweb-edu", ["first 1 GB; downloads at most 14 files, 28.5 GB; licence ODC-By-1.0"]),
        ("webtext", ["webtext at v1; downloads 1 file, of unknown size; licence unknown"]),
        (
            "oscar-2301",
            ["first 100 MB", "gated: accept its terms on the hub; HF_TOKEN is not set; its revision may move"],
        ),
    ],
)
def test_corpora_with_what_they_need(shown, corpus, parts):
    text = shown(f"workload: {{corpus: {corpus}}}\n")
    for part in parts:
        assert part in text
    assert "tokenizer gpt2" not in text


def test_what_is_downloaded_before_the_first_run_is_a_line(shown):
    lines = []
    for corpus in ("wikitext-103", "python-docs"):
        shown(f"workload: {{corpus: {corpus}}}\n")
        lines += lines_of_downloads(LoadedCampaign(Path("mine.yaml")))
    assert lines == ["corpus wikitext-103 downloads 2 files, 314 MB"]


def test_what_is_streamed_is_downloaded(shown):
    streamed = Corpus(
        source="dataset", load=["a/b", "default", "train"], revision="0" * 40, field="text", budget="1 MB"
    )
    line = describe_corpora_table({"mine": streamed})
    assert "first 1 MB; downloads what is read of it, as a stream from the hub; licence" in line


def test_a_corpus_that_is_there_needs_no_download(shown):
    Path("results/corpora/ag_news@eb185aade064").mkdir(parents=True)
    Path("results/corpora/ag_news@eb185aade064/corpus.json").touch()
    assert "ag_news at eb185aade064; there already; licence unknown" in shown("workload: {corpus: ag_news}\n")


def test_the_token_is_not_shown(shown, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    text = shown("workload: {corpus: oscar-2301, tokenizer: gpt2}\n")
    assert "HF_TOKEN is set" in text
    assert "hf_secret" not in text
    assert "tokenizer gpt2: downloads" in text


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1 kB"),
        (999_999, "1 MB"),
        (12_640_256, "12.6 MB"),
        (2e15, "2e+03 TB"),
    ],
)
def test_sizes(count, said):
    assert requirements.bytes_text(count) == said


def test_processes_are_ranks_not_devices(repository, monkeypatch, tmp_path):
    """nn.DataParallel drives two devices from one process."""
    monkeypatch.chdir(repository)
    path = Path(tmp_path / "dp.yaml")
    path.write_text(
        "title: Which?\nwork: {global_batch: 16, steps: 10}\n"
        "execution: {strategy: dp, device: cuda}\nvary: {geometry: [1x2]}\n"
    )
    line = next(line for line in preview_campaign(LoadedCampaign(path)).splitlines() if line.startswith("dp-n1x2"))
    assert line.split()[-3] == "1"


@pytest.mark.parametrize(
    ("minutes", "runs", "text"),
    [
        (1, 60, "time limit 1 minute per run, so at most 1 hour in all"),
        (10, 2, "time limit 10 minutes per run, so at most 0.333 hours in all"),
    ],
)
def test_one_hour_is_no_hours(minutes, runs, text):
    campaign = Campaign.model_validate({"title": "t", "resources": {"time_limit": minutes}})
    assert campaign_preview._time_limit_text(campaign, runs) == text
    assert campaign_preview._runs_text(1, 1) == "1 run"
    assert campaign_preview._runs_text(6, 24) == "6 to 24 runs"


@pytest.mark.parametrize(("geometry", "is_said"), [("1x64", True), ("1x1", False)])
def test_cells_that_share_cores_are_named(shown, geometry, is_said):
    text = shown(f"work: {{global_batch: 64}}\nvary: {{geometry: [{geometry}]}}\n")
    assert ("cores, which is no scaling: ddp-n1x64" in text) == is_said
    assert "hold_out" not in text


@pytest.mark.parametrize(("held_out", "is_said"), [("1x64", True), ("1x1", False)])
def test_a_forecast_of_cells_that_share_cores_is_named(shown, held_out, is_said):
    sizes = "work: {global_batch: 64}\nvary: {geometry: [1x1, 1x64]}\n"
    assert ("forecast.hold_out: no forecast" in shown(f"{sizes}forecast: {{hold_out: [{held_out}]}}\n")) == is_said


@pytest.mark.parametrize(
    ("device", "limit", "is_said"), [("auto", "null", True), ("auto", "4", False), ("cuda", "null", False)]
)
def test_a_search_of_a_cpu_needs_a_limit(shown, monkeypatch, device, limit, is_said):
    """A campaign for GPUs needs none: a limit that is written here would hold there, too."""
    monkeypatch.setattr(campaign_preview, "cuda_devices", list)
    keys = f"execution: {{device: {device}}}\nfrontier: {{limit_gb: {limit}}}\n"
    text = shown(f"work: {{micro_batch: largest, global_batch: 64}}\n{keys}")
    assert (
        "ddp-n1x1 cannot be searched without a limit, so that Snakemake refuses it here; write frontier: {lim" in text
    ) == is_said


COMMAND = 'workload: {command: "python train.py {micro_batch}", per_step: {samples: "{global_batch}"}}\n'


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            f"{COMMAND}vary: {{micro_batch: [32, 64]}}",
            "differ in micro_batch. To compare two of them, write question: {is: n1x1-mb64, better_than: n1x1-mb32}",
        ),
        ("vary: {micro_batch: [4, 8]}\nwork: {global_batch: derive}", "differ in global_batch, micro_batch. To"),
        (f"{COMMAND}vary: {{micro_batch: [4, 8]}}\nquestion: {{is: n1x1-mb8, better_than: n1x1-mb4}}", ""),
        (f"{COMMAND}vary: {{micro_batch: [4, 8], geometry: [1x1, 1x2]}}", ""),  # two series
        (COMMAND.replace(', per_step: {samples: "{global_batch}"}', "") + "vary: {micro_batch: [4, 8]}", ""),
        ("vary: {strategy: [ddp, zero2], geometry: [1x2]}", ""),
        ("vary: {model: [gpt2-tiny, gpt2-small]}", ""),  # of other parameters, on which no question is valid
    ],
)
def test_cells_that_nothing_ranks_are_given_the_question_that_compares_two(shown, text, line):
    preview = shown(text)
    assert ("\n\nNo ranking: cells " in preview, line in preview) == (bool(line), True)


@pytest.mark.parametrize(("command", "is_said"), [("python train.py --n 3", True), ("python -c pass", False)])
def test_a_program_that_is_not_there_is_named(shown, command, is_said):
    text = shown(f"workload: {{command: {command}}}\n")
    assert ("train.py: there is no such file in " in text) == is_said
