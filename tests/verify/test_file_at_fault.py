"""`scaleproof verify` names the file that was changed, in what it is now, and accuses no file that was not."""

import gzip
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import scaleproof

from scaleproof.verify.campaign import verify
from scaleproof.verify.raw import logs_are_gone

PUBLISHED = next((Path(__file__).parents[2] / "results/published").glob("demo_*"))
RUN = "runs/ddp-n1x2/rep1"
METRICS = f"{RUN}/training_metrics.json"
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:12\n"

Change = Callable[[Path], None]


def rewritten(file: str, change: Callable[[str], str]) -> Change:
    def rewrite(folder: Path) -> None:
        (folder / file).write_text(change((folder / file).read_text()))

    return rewrite


def encoded(file: str, encode: Callable[[bytes], bytes]) -> Change:
    def rewrite(folder: Path) -> None:
        (folder / file).write_bytes(encode((folder / file).read_bytes()))

    return rewrite


def packed_steps(folder: Path) -> None:
    steps = folder / f"{RUN}/steps.csv"
    steps.with_name("steps.csv.gz").write_bytes(gzip.compress(steps.read_bytes()))
    steps.unlink()


def forecast_by_hand(folder: Path) -> None:
    (folder / "forecasts").mkdir()
    (folder / "forecasts/mine.json").write_text('{"schema_version": "1.0"}')


def run_of_another_day(folder: Path) -> None:
    for file in ("RUN_COMPLETE.txt", "launcher_metadata.json"):
        (folder / RUN / file).write_text((folder / RUN / file).read_text() + " \n")


def cell_of_a_lost_disk(folder: Path) -> None:
    shutil.rmtree(folder / "runs/ddp-n1x2")
    (folder / "runs/ddp-n1x2").symlink_to("/scratch/gone")


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        # The hash of steps.csv in metrics that are not the run's says nothing of steps.csv.
        (
            rewritten(METRICS, lambda text: re.sub(r'("steps.csv": ")\w{64}', r"\g<1>" + "ab" * 32, text)),
            [f"{METRICS}: sha256: is "],
        ),
        (encoded(METRICS, lambda data: data.decode().encode("utf-16")), [f"{METRICS}: not readable: it is not UTF-8"]),
        (encoded(METRICS, gzip.compress), [f"{METRICS}: not readable: it is not UTF-8 text, but gzip data; changed"]),
        (
            rewritten(METRICS, lambda text: re.sub(r'(_sec": \d+)\.', r"\1,", text, count=1)),
            [f"{METRICS}: not readable: no JSON, or cut off (line "],
        ),
        (
            rewritten(f"{RUN}/steps.csv", lambda text: text.replace(",", "\t")),
            [f"{RUN}/steps.csv: not readable: no comma is between the names in its first line; changed"],
        ),
        (
            rewritten("runs.csv", lambda text: text + text),
            ["runs.csv: not readable: the names of its columns stand in it twice; changed"],
        ),
        (
            encoded("tables/strong.csv", lambda _: b"PK\x03\x04" + b"x" * 300),
            ["tables/strong.csv: not readable: is a zip archive or an Office document, not text; unpack it"],
        ),
        (rewritten("cells.csv", lambda _: ""), ["cells.csv: not readable: it is empty; changed"]),
        (
            rewritten("cells.csv", lambda text: f"<<<<<<< HEAD\n{text}=======\n>>>>>>> theirs\n"),
            ["cells.csv: not readable: a merge conflict of git?; changed"],
        ),
        (
            rewritten("cells.csv", lambda _: POINTER),
            ["cells.csv: not readable: a pointer of Git LFS, not the file itself; fetch it with: git lfs pull"],
        ),
        (
            rewritten("cells.csv", lambda text: text.replace(",findings", ",mine", 1)),
            ["cells.csv: "],
        ),
        (
            rewritten("losses.csv", lambda text: re.sub(r"ddp-n1x2,\d+,window,4,.*\n", "", text)),
            ["losses.csv: ddp-n1x2, step 4: this row is missing in the table; changed"],
        ),
        (
            run_of_another_day,
            [f"{RUN}: 2 files changed since the report was written: RUN_COMPLETE.txt, launcher_metadata.json"],
        ),
        (encoded(f"{RUN}/steps.csv", lambda data: bytes(len(data))), [f"{RUN}/steps.csv: not readable: zero bytes"]),
        (forecast_by_hand, ["forecasts/mine.json: sha256: is missing, its content gives "]),
        (packed_steps, [f"{RUN}/steps.csv: is missing; steps.csv.gz is there"]),
        (cell_of_a_lost_disk, ["runs/ddp-n1x2 is a link to /scratch/gone, which leads nowhere"]),
    ],
)
def test_the_file_at_fault_is_named_alone(tmp_path: Path, change: Change, lines: list[str]) -> None:
    shutil.copytree(PUBLISHED, tmp_path / "demo")
    change(tmp_path / "demo")
    done = scaleproof("verify", "demo", cwd=tmp_path)
    *printed_lines, last = done.stdout.splitlines()
    assert (done.returncode, last[:4]) == (1, "FAIL")
    assert len(printed_lines) == len(lines), done.stdout
    for printed_line, line in zip(printed_lines, lines, strict=True):
        assert printed_line.startswith(line)


@pytest.mark.parametrize(
    ("lost_runs", "words"),
    [
        ("ddp-n1x2/rep[12]", "--cell ddp-n1x2/rep1 --cell ddp-n1x2/rep2 &&"),
        ("ddp-n1x2/rep*", "--cell ddp-n1x2 &&"),
        ("*/rep*", "--cell all &&"),
    ],
)
def test_the_command_that_measures_again_names_whole_cells(tmp_path: Path, lost_runs: str, words: str) -> None:
    folder = tmp_path / "results/demo"
    shutil.copytree(PUBLISHED, folder)
    (folder / "campaign.yaml").unlink()
    (tmp_path / "config/campaigns").mkdir(parents=True)
    (tmp_path / "config/campaigns/demo.yaml").touch()
    for run in folder.glob(f"runs/{lost_runs}"):
        (run / "steps.csv").unlink()
    assert f"retry config/campaigns/demo.yaml {words}" in scaleproof("verify", "results/demo", cwd=tmp_path).stdout


def test_runs_without_a_report_are_told_how_to_make_one(tmp_path: Path) -> None:
    shutil.copytree(PUBLISHED / "runs", tmp_path / "results/demo/runs")
    done = scaleproof("verify", "results/demo", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout.startswith(
        "report.html: there is no report yet; it is made by: snakemake --cores 2 results/demo/"
    )
    assert done.stdout.count("snakemake") == 1, "one command, not two"


RATES = ("tokens_per_sec_global", "tokens_per_sec_per_device")


@pytest.mark.parametrize(
    ("factors", "named"),
    [
        ({"wall_time_sec": 1.03}, ["wall_time_sec"]),
        ({"wall_time_sec": 0.5}, ["wall_time_sec"]),
        ({RATES[1]: 1.1}, [RATES[1]]),
        (dict.fromkeys(RATES, 1.2), [*RATES]),  # together, as if the time were wrong
    ],
)
def test_the_figure_of_a_window_that_was_edited_is_the_one_that_is_named(tmp_path, factors, named):
    folder = tmp_path / "demo"
    shutil.copytree(PUBLISHED, folder)
    data = json.loads((folder / METRICS).read_text())
    for name, factor in factors.items():
        data["window"][name] *= factor
    (folder / METRICS).write_text(json.dumps(data))
    differences = verify(folder, with_manifest=False)[0]
    assert [d.where for d in differences if d.file.endswith(METRICS)] == [f"window.{name}" for name in named]


def test_logs_that_are_gone_are_no_fault_and_are_not_called_unchanged(tmp_path):
    (tmp_path / RUN).mkdir(parents=True)
    assert logs_are_gone(tmp_path)
    (tmp_path / RUN / "train.log").touch()
    assert not logs_are_gone(tmp_path)
