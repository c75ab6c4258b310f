"""A metrics file that is damaged: a row, and a finding with its file; all others are tabled, audited and reported."""

import csv
import json
import shutil
from pathlib import Path

import pytest
import synthetic
import yaml
from command_line import scaleproof
from sound_records import write_unlike_reference
from synthetic import cells, rewrite, write_run

from scaleproof.auditor.audit import audit_paths
from scaleproof.conclude.checks.all_checks import audit
from scaleproof.ground.campaign.cells import arms_of
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.errors import UserError
from scaleproof.ground.files import sha256_of
from scaleproof.ground.records.failed_runs import failed_runs_text
from scaleproof.ground.records.retry import remove_failed
from scaleproof.ground.records.run import LOG, METRICS, STEPS, DamagedMetrics, read_run
from scaleproof.ground.records.unreadable import is_readable, read_or_mark_unreadable
from scaleproof.verify.campaign import verify
from scaleproof.verify.raw import read_runs

KEYS = {
    "title": "x",
    "repeats": 2,
    "work": {"global_batch": 16, "steps": 30, "warmup_steps": 5},
    "vary": {"geometry": ["1x1", "1x2"]},
}
PAIRS = {"name": "fused", "a": {"fused_optimizer": False}, "b": {"fused_optimizer": True}}


def with_values(change):
    """The file with an edit of its content; NaN and infinity are written as Python writes them."""

    def damage(data: bytes) -> bytes:
        content = json.loads(data)
        change(content)
        return json.dumps(content).encode()

    return damage


def without(*keys):
    def change(content):
        for key in keys:
            del content[key]

    return with_values(change)


def within(section, **values):
    return with_values(lambda content: content[section].update(values))


def having(**values):
    return with_values(lambda content: content.update(values))


DAMAGED = {
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "a list": lambda data: b"[1, 2]",
    "null": lambda data: b"null",
    "an empty object": lambda data: b"{}",
    "binary": lambda data: bytes(range(256)),
    "nested too deeply": lambda data: b"[" * 100_000,
    "a merge conflict": lambda data: b"<<<<<<< HEAD\n" + data + b"=======\n" + data + b">>>>>>> other\n",
    "another schema": having(schema_version="9"),
    "without env": without("env"),
    "without window": without("window"),
    "an odd status": having(status="fine"),
    "text for a number": within("window", tokens_processed_global="61440"),
    "yesterday": having(timestamp_utc="yesterday"),
    "a local time": having(timestamp_utc="2026-01-01T00:00:00"),
    "the year 9999": having(timestamp_utc="9999-12-31T23:59:59Z"),
    "no time": within("window", wall_time_sec=0),
    "less than no time": within("window", wall_time_sec=-1.0),
    "endless": having(total_wall_time_sec=1e308),
    "not a number": within("window", train_loss_last=float("nan")),
    "infinite": within("memory", state_bytes_predicted=float("inf")),
    "no ranks": having(ranks=[]),
    "a rank without a name": having(ranks=[{}]),
    "ranks of text": having(ranks=["cpu", "cpu"]),
    "no hardware": having(hardware={}),
    "hardware of text": within("hardware", cpu_allowed="8"),
    "no host name": having(host={"os": "Linux"}),
    "no data": having(data={}),
    "no configuration": having(config={}),
    "another configuration": within("config", work={}),
    "a truth for a number": within("window", step_time_n=True),
    "a lost rank": with_values(lambda content: content["ranks"].pop()),
    "a lost census": having(census=[]),
    "a rank twice": with_values(lambda content: content.update(census=[], ranks=content["ranks"] * 2)),
    "a cut hash": with_values(lambda content: content["files"].update({STEPS: content["files"][STEPS][:-1]})),
    "a key twice": lambda data: data.replace(b'"status"', b'"status": "failed", "status"'),
    "a folder": lambda data: Path,
    "a broken link": lambda data: Path("gone.json"),
}
STAGES = (
    *(("collect",), ("findings",), ("analyse",)),
    ("waterfall",),
    *(("tables",), ("loss_charts",), ("charts",)),
)


def copied(source: Path, place: Path) -> Path:
    shutil.copytree(source, place, dirs_exist_ok=True)
    return place


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A campaign of two cells with two runs each, all made, and a comparison of four pairs."""
    root = tmp_path_factory.mktemp("made")
    (root / "config").mkdir()
    shutil.copy(Path(__file__).parents[3] / "config/corpora.yaml", root / "config")
    (root / "small.yaml").write_text(yaml.safe_dump(KEYS))
    (root / "pairs.yaml").write_text(yaml.safe_dump(KEYS | {"compare": [PAIRS | {"pairs": 2, "null_pairs": 2}]}))
    for name in ("small", "pairs"):
        for cell, seconds in zip(cells(), (0.1, 0.06), strict=True):
            for repeat in (1, 2):
                last = write_run(root / "results" / name / "runs", cell, repeat, seconds)
        write_unlike_reference(last)
    write_pairs(root)
    return root


def write_pairs(root: Path) -> None:
    given = synthetic.campaign(**KEYS, compare=[PAIRS])
    a, b = arms_of(given, given.compare[0])
    folder = root / "results/pairs/compare/fused"
    entries = []
    for k in range(1, 5):
        entry = {"pair": k, "null": k > 2, "first": "a"}
        for arm, cell in (("a", a), ("b", a if k > 2 else b)):
            run = write_run(root / "made" / f"{k}{arm}", cell, k, 0.1, seed=ord(arm)).folder
            (folder / f"pair{k}").mkdir(parents=True, exist_ok=True)
            run.rename(folder / f"pair{k}" / arm)
            entry[arm] = f"results/pairs/compare/fused/pair{k}/{arm}"
        entries.append(entry)
    (folder / "pairs.json").write_text(json.dumps({"comparison": "fused", "pairs": entries}))


@pytest.fixture
def campaign(made, tmp_path):
    return copied(made, tmp_path)


def stage(campaign: Path, *words: str, of: str = "small") -> None:
    """A step of the workflow, as its rule calls it."""
    name, *rest = words
    of_folder = name in ("tables", "charts", "loss_charts")
    done = scaleproof("stage", name, *rest, f"results/{of}" if of_folder else f"{of}.yaml", cwd=campaign)
    assert done.returncode == 0, (words, done.stderr)


def chain(campaign: Path, charts: bool = True, of: str = "small") -> None:
    """All steps of the workflow after the trainings, up to the page; without drawing what is drawn already."""
    for words in STAGES if charts else STAGES[:5]:
        stage(campaign, *words, of=of)
    if of == "pairs":
        stage(campaign, "comparison", of=of)
    stage(campaign, "report", of=of)


@pytest.fixture(scope="module")
def reported(made, tmp_path_factory):
    """The campaign with one damaged run, reported: its tables and charts are those of any damage to that run."""
    root = copied(made, tmp_path_factory.mktemp("reported"))
    damage(root, "cut")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)  # charts are looked up by a campaign's path
        chain(root)
    return root


def damage(campaign: Path, how: str, run: str = "ddp-n1x2/rep2") -> None:
    path = campaign / "results/small/runs" / run / METRICS
    content = DAMAGED[how](path.read_bytes())
    if isinstance(content, bytes):
        path.write_bytes(content)
        return
    path.unlink()
    if content is Path:
        path.mkdir()
    else:
        path.symlink_to(content)


@pytest.mark.parametrize("how", DAMAGED)
def test_a_damaged_file_is_a_run_without_numbers(campaign, how, monkeypatch):
    damage(campaign, how)
    monkeypatch.chdir(campaign)
    loaded = LoadedCampaign(Path("small.yaml"))
    runs = [
        read_or_mark_unreadable(folder, loaded.name, cell, k) for folder, cell, k in loaded.planned(Path("results"))
    ]
    assert [run.name for run in runs if not is_readable(run)] == ["ddp-n1x2/rep2"]
    assert runs[-1].metrics.failure.failure_class == "unreadable"
    assert runs[-1].metrics.failure.reason.startswith(f"ddp-n1x2/rep2/{METRICS}")


@pytest.mark.parametrize(
    "how", ["empty", "text for a number", "no ranks", "yesterday", "another configuration", "a folder", "a broken link"]
)
def test_a_damaged_file_is_a_row_and_a_finding_and_the_report_is_written(made, reported, tmp_path, how, monkeypatch):
    campaign = copied(reported, tmp_path)
    shutil.rmtree(campaign / "results/small/runs")
    copied(made / "results/small/runs", campaign / "results/small/runs")
    damage(campaign, how)
    monkeypatch.chdir(campaign)
    chain(campaign, charts=False)
    folder = campaign / "results/small"
    with (folder / "runs.csv").open() as file:
        rows = {(row["cell"], row["repeat"]): row for row in csv.DictReader(file)}
    assert len(rows) == 4
    damaged = rows["ddp-n1x2", "2"]
    assert (damaged["status"], damaged["failure"]) == ("failed", "unreadable")
    assert damaged["reason"].startswith(f"ddp-n1x2/rep2/{METRICS}")
    found = json.loads((folder / "findings.json").read_text())
    assert "ledger_equals_plan" in found["checks"]
    assert [(f["code"], f["severity"], f["runs"]) for f in found["findings"] if f["severity"] != "note"] == [
        ("record-unusable", "invalid", ["ddp-n1x2/rep2"])
    ]
    page = (folder / "report.html").read_text()
    assert f"ddp-n1x2/rep2/{METRICS}" in page, "the page says which run has no numbers and why"
    assert "8 logical CPUs" in page, "the other records say what the machine is"
    ((file, _), *_) = [(d.file, d.problem) for d in verify(folder)[0]]
    assert file == f"runs/ddp-n1x2/rep2/{METRICS}", "the damaged file is named first"


@pytest.mark.parametrize("runs", [["ddp-n1x2/rep1", "ddp-n1x2/rep2"], ["ddp-n1x1/rep1", "ddp-n1x1/rep2"], None])
def test_a_cell_or_a_campaign_of_damaged_files_is_reported_too(campaign, runs, monkeypatch):
    monkeypatch.chdir(campaign)
    for run in runs or [f"ddp-n1x{n}/rep{k}" for n in (1, 2) for k in (1, 2)]:
        damage(campaign, "cut", run)
    chain(campaign)
    stage(campaign, "pdf")
    page = (campaign / "results/small/report.html").read_text()
    assert page.count("is not a metrics file of schema 3") >= len(runs or "four")


def test_the_paper_and_the_overview_of_a_damaged_campaign(reported, tmp_path, monkeypatch):
    campaign = copied(reported, tmp_path)
    monkeypatch.chdir(campaign)
    stage(campaign, "pdf")
    assert (campaign / "results/small/report.pdf").stat().st_size
    for path in (campaign / "results/small/runs").glob("*/*/" + METRICS):
        path.write_bytes(b'{"ranks": [1], "timestamp_utc": [], "hardware": 3}')
    done = scaleproof("index", cwd=campaign)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_damaged_arm_is_a_finding_of_its_comparison(campaign, monkeypatch):
    monkeypatch.chdir(campaign)
    path = campaign / "results/pairs/compare/fused/pair2/b" / METRICS
    path.write_bytes(path.read_bytes()[:99])
    chain(campaign, of="pairs")
    (entry,) = json.loads((campaign / "results/pairs/comparison.json").read_text())["comparisons"]
    assert entry["status"] == "incomplete"
    assert "unreadable: " in entry["why"]
    found = json.loads((campaign / "results/pairs/findings.json").read_text())["findings"]
    assert [(f["code"], f["cells"], f["concerns"]) for f in found if f["severity"] == "invalid"] == [
        ("record-unusable", ["fused"], "comparison")
    ]


def test_they_are_counted_when_snakemake_ends(campaign, monkeypatch):
    (campaign / "results/small/runs/ddp-n1x2/rep2" / METRICS).write_bytes(b"{")
    monkeypatch.chdir(campaign)
    text = failed_runs_text(LoadedCampaign(Path("small.yaml")), Path("results"))
    assert text.startswith("1 of 4 runs of small failed")
    assert "ddp-n1x2/rep2: unreadable: " in text
    assert "(log: " not in text, "there is none"
    (campaign / "results/small/runs/ddp-n1x2/rep2" / LOG).touch()
    text = failed_runs_text(LoadedCampaign(Path("small.yaml")), Path("results"))
    assert "(log: results/small/runs/ddp-n1x2/rep2/train.log)" in text
    damage(campaign, "a broken link", "ddp-n1x2/rep1")
    text = failed_runs_text(LoadedCampaign(Path("small.yaml")), Path("results"))
    assert text.startswith("2 of 4 runs of small failed")


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("a lost rank", "of schema 3: 1 entry of `ranks` for 2 devices"),
        ("a cut hash", "no sha256, which has 64 hexadecimal digits"),
        ("a key twice", 'of schema 3: the key "status" is given twice'),
        ("a folder", "is a folder; a file is expected"),
        ("a broken link", "is a link to gone.json, which leads nowhere"),
    ],
)
def test_what_is_wrong_is_said_of_the_key_that_was_touched(campaign, how, told):
    run = campaign / "results/small/runs/ddp-n1x2/rep2"
    damage(campaign, how)
    with pytest.raises(DamagedMetrics) as fault:
        read_run(run)
    assert str(fault.value).endswith(told)
    assert remove_failed(campaign / "results/small", [run]) == [run]


@pytest.mark.parametrize("length", [100, 1500, -30, -3])
def test_verify_counts_the_lines_of_a_cut_file_as_every_command_does(campaign, length):
    path = campaign / "results/small/runs/ddp-n1x2/rep2" / METRICS
    assert read_runs(campaign / "results/small")[1] == []
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(DamagedMetrics) as fault:
        read_run(path.parent)
    ((_, reason),) = [(one.file, one.problem) for one in read_runs(campaign / "results/small")[1]]
    assert reason.removeprefix("not readable: ") == str(fault.value).partition("schema 3: ")[2]


def test_records_of_odd_shapes_are_read(tmp_path):
    """One rank has all devices of nn.DataParallel; the record may be a link that leads somewhere."""
    run = write_run(tmp_path / "runs", cells()[1])
    both = [run.metrics.ranks[0] | {"devices": ["cuda:0", "cuda:1"]}]
    assert rewrite(run, lambda data: data.update(ranks=both)).n_devices == 2
    (run.folder / METRICS).rename(tmp_path / "elsewhere.json")
    (run.folder / METRICS).symlink_to(tmp_path / "elsewhere.json")
    assert read_run(run.folder).ok


def test_a_record_of_a_newer_version_is_not_measured_again(campaign):
    run = campaign / "results/small/runs/ddp-n1x2/rep2"
    path = run / METRICS
    path.write_text(path.read_text().replace('"3.3"', '"4.0"'))
    (finding,) = audit_paths([run]).findings
    assert (finding.code, finding.advice) == ("record-unusable", "Update scaleproof.")
    assert remove_failed(campaign / "results/small", [run]) == []


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({}, "status is missing"),
        ({"status": "fine"}, "status cannot be 'fine'; allowed: 'ok', 'failed', 'not_applicable'"),
        (
            {"status": "ok", "schema_version": "9"},
            "schema_version cannot be '9'; allowed: '3.0', '3.1', '3.2' or '3.3'",
        ),
        (
            {"status": "ok", "schema_version": "2.9"},
            "schema_version cannot be '2.9'; allowed: '3.0', '3.1', '3.2' or '3.3'",
        ),
        (
            {"status": "ok", "schema_version": "3.10"},
            "schema_version is '3.10': it was written by a newer version of scaleproof; this one reads 3.0 to 3.3",
        ),
    ],
)
def test_what_is_allowed_is_said_in_full_and_in_our_words(tmp_path, content, told):
    (tmp_path / METRICS).write_text(json.dumps(content))
    with pytest.raises(UserError) as fault:
        read_run(tmp_path)
    assert str(fault.value).endswith(f"is not a metrics file of schema 3: {told}")


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (lambda text: "", "steps.csv is empty"),
        (lambda text: text.replace("loss", "lozz", 1), "steps.csv has no column loss"),
    ],
)
def test_what_is_wrong_with_the_steps_is_said_in_words(tmp_path, edit, told):
    """Sealed, so that nothing but its contents shows that it is not what was written."""
    run = write_run(tmp_path / "x/runs", cells()[0])
    steps = run.folder / STEPS
    steps.write_text(edit(steps.read_text()))
    odd = rewrite(run, lambda data: data["files"].update({STEPS: sha256_of(steps)}))
    (finding,) = [f for f in audit("x", [odd]).findings if f.code == "record-unusable"]
    assert finding.evidence == told
    assert told in scaleproof("audit", "x", cwd=tmp_path).stdout
