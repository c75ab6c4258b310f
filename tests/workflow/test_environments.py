"""`--sdm conda` and `--sdm apptainer`: what the real Snakemake asks for, with stubs for conda and apptainer."""

import re
from pathlib import Path

import pytest

from scaleproof.ground.records.failed_runs import EXIT_CODE as FAILED_RUNS

STUBS = Path(__file__).parents[1] / "envs/stub"
REPORT_RULES = ("collect", "findings", "analyse", "waterfall", "tables", "charts", "loss_charts", "report")
DATA_RULES = ("corpus_fetch", "gpt2_tokenizer", "corpus_tokenizer", "corpus_tokenise", "corpus_reread")
STAGE = (
    dict.fromkeys(DATA_RULES, "data") | {"train": "train", "reference": "train"} | dict.fromkeys(REPORT_RULES, "report")
)
SHELL = re.compile(r'^    shell:\n(?: {8}".*\n)+', re.MULTILINE)


@pytest.fixture(scope="module")
def copy(make_copy):
    """A copy whose rules say in which environment they are, instead of doing their work, in a directory of its own."""
    copy = make_copy()
    for path in (copy.root / "workflow/rules").glob("*.smk"):
        path.write_text(
            SHELL.sub('    shell:\n        "touch {output}; echo {rule} $ACTIVE >> $STUB_JOBS"\n', path.read_text())
        )
    own = copy.root / "repro"
    own.mkdir()
    for name in ("config", "prose.txt"):
        (own / name).symlink_to(f"../{name}")
    copy.env |= {
        "STUB_CALLS": str(copy.root / "calls"),
        "STUB_JOBS": str(copy.root / "jobs"),
        "ACTIVE": "none",
        "PATH": f"{STUBS}:{copy.env['PATH']}",
    }
    return copy


@pytest.fixture(scope="module")
def done(copy):
    """What was said in a whole campaign with `--sdm conda`, and for the tokenizer that it does not use."""
    targets = ["results/tiny/report.html", "results/corpora/prose/gpt2/tokenizer.json"]
    done = copy.snakemake("--sdm", "conda", "--directory", "repro", "--", *targets)
    # The stubs leave empty metrics, which are failed runs.
    assert done.returncode == FAILED_RUNS, done.stderr[-3000:]
    return done.stderr


def test_every_rule_asks_for_the_environment_of_its_stage(copy, done):
    asked = {}
    for line in (copy.root / "jobs").read_text().splitlines():
        rule, prefix = line.split()
        asked[rule] = re.search(r"The (\w+) stage", Path(f"{prefix}.yaml").read_text())[1]
        assert Path(f"{prefix}.yaml").read_bytes() == (copy.root / f"envs/{asked[rule]}.yaml").read_bytes()
    assert asked == STAGE


def test_each_environment_is_made_once_and_gets_the_package_of_this_checkout(copy, done):
    calls = (copy.root / "calls").read_text().splitlines()
    assert len([c for c in calls if c.startswith("env create")]) == len(set(STAGE.values()))
    installed = [c for c in calls if c.startswith("python")]
    wanted = f"python -m pip install --no-deps --no-build-isolation --editable {copy.root}"
    assert installed == [wanted] * len(set(STAGE.values()))


def test_a_directory_of_its_own_keeps_the_two_kinds_of_runs_apart(copy, done):
    same = ["--sdm", "conda", "--directory", "repro", "--", "results/tiny/report.html"]
    assert "Nothing to be done" in copy.dry(*same)
    assert not (copy.root / "results").exists()
    assert "Software environment definition has changed" in copy.dry("--directory", "repro", "results/tiny/report.html")


def test_without_the_option_no_environment_is_asked_for(copy, done):
    calls = (copy.root / "calls").read_text()
    copy.dry("results/tiny/report.html")
    assert (copy.root / "calls").read_text() == calls


def test_jobs_run_in_the_container_that_was_named(copy, done):
    (copy.root / "scaleproof.sif").touch()
    (copy.root / "calls").write_text("")
    target = "results/corpora/prose/corpus.json"
    copy.build("--sdm", "apptainer", "--apptainer-args=--nv", "--config", "container=scaleproof.sif", "--", target)
    call = (copy.root / "calls").read_text()
    assert f"exec --home {copy.root} --nv" in call
    assert " scaleproof.sif bash -c" in call
