"""Any file gives findings or one clear message: never a traceback, whatever is in it."""

import copy
import json
import os
import random
from pathlib import Path

import pytest
from case_study_files import FIGURES, write_case_study
from external_files import WRITERS, metrics
from synthetic import cells, write_run

from scaleproof.auditor import audit
from scaleproof.auditor.audit import Audit, audit_paths
from scaleproof.auditor.audit_page import audit_page
from scaleproof.auditor.audit_text import audit_text
from scaleproof.auditor.read import text_files
from scaleproof.auditor.read.discover import gather
from scaleproof.ground.errors import UserError
from scaleproof.ground.findings.registry import Code, Register

STRANGE = [
    b"NaN",
    b"Infinity",
    b"-1",
    b"0",
    b"1e999",
    b"9" * 400,
    b"null",
    b'""',
    b"[]",
    b"{}",
    b"true",
    b"\x00",
    b"\xff\xfe",
    b"\x1b[2J",
    b"\n",
    b",",
    b'"',
    b"1e-300",
    b"-0.0",
    "½".encode(),
]


def audited(*paths: Path) -> Audit | None:
    """The audit, shown in every way that it can be; None where it ends with a message."""
    try:
        result = audit_paths(list(paths))
    except UserError:
        return None
    json.loads(result.model_dump_json())
    assert [f.evidence for f in result.findings if "could not be made" in f.evidence] == []
    assert "\x1b" not in audit_text(result)
    assert "<script>alert" not in audit_page(result)
    return result


def mutated(data: bytes, chance: random.Random) -> bytes:
    """A file with a few of the faults that files have."""
    for _ in range(chance.randint(1, 4)):
        kind, at = chance.randrange(6), chance.randrange(len(data) + 1)
        if kind == 0:
            data = data[:at]
        elif kind == 1:
            data = data[:at] + chance.choice(STRANGE) + data[at:]
        elif kind == 2:  # a number becomes something else
            digits = [i for i in range(len(data)) if data[i : i + 1].isdigit()]
            if digits:
                start = end = chance.choice(digits)
                while end < len(data) and data[end : end + 1] in b"0123456789.":
                    end += 1
                data = data[:start] + chance.choice(STRANGE) + data[end:]
        elif kind == 3:
            lines = data.split(b"\n")
            del lines[chance.randrange(len(lines))]
            data = b"\n".join(lines)
        elif kind == 4:
            lines = data.split(b"\n")
            chance.shuffle(lines)
            data = b"\n".join(lines)
        else:
            data = data[:at] + bytes(chance.randrange(256) for _ in range(8)) + data[at + 8 :]
    return data


@pytest.fixture(scope="module")
def originals(tmp_path_factory, request) -> list[bytes]:
    root = tmp_path_factory.mktemp("originals")
    for i, writer in enumerate(WRITERS):
        writer(root / str(i), random.Random(i))
    for source in FIGURES.glob("*.yaml"):
        write_case_study(source, root / source.stem)
    write_run(root / "own", cells()[0])
    return [p.read_bytes()[:20000] for p in sorted(root.rglob("*")) if p.is_file()]


@pytest.mark.parametrize("seed", range(8))
def test_broken_files_never_break_the_audit(tmp_path, originals, seed):
    """Several broken files side by side, so that checks that compare them see what is left of them."""
    chance = random.Random(seed)
    for round_ in range(25):
        folder = tmp_path / str(round_)
        for i in range(6):
            (folder / str(i)).mkdir(parents=True)
            name = chance.choice(["training_metrics.json", "x.csv", "y.log", "claims.yaml", "z"])
            (folder / str(i) / name).write_bytes(mutated(chance.choice(originals), chance))
        audited(folder)


@pytest.mark.parametrize("seed", range(4))
def test_values_of_the_wrong_kind_never_break_the_audit(tmp_path, seed):
    """JSON that is whole, with fields replaced: the checks, not only the readers, must stand it."""
    chance = random.Random(seed)
    values = [
        None,
        0,
        -1,
        1e300,
        -5.5,
        "text",
        [],
        {},
        [1],
        {"a": 1},
        True,
        float("nan"),
        float("inf"),
        10**30,
        1,
        2,
        1e-300,
    ]
    for round_ in range(60):
        for run, world in enumerate((1, 2, 4)):
            data = metrics(world, chance)
            for _ in range(chance.randint(1, 5)):
                part = data
                while True:
                    key = chance.choice(list(part) if isinstance(part, dict) else list(range(len(part))))
                    if isinstance(part[key], dict | list) and part[key] and chance.random() < 0.8:
                        part = part[key]
                        continue
                    part[key] = copy.deepcopy(chance.choice(values))
                    break
            folder = tmp_path / f"{round_}" / f"{run}"
            folder.mkdir(parents=True)
            (folder / "training_metrics.json").write_text(json.dumps(data))
        audited(tmp_path / f"{round_}")


HOSTILE = {
    "empty": b"",
    "blank": b"  \n \n",
    "binary": bytes(range(256)) * 100,
    "deep JSON": b'{"a":' * 100000,
    "deep list": b"[" * 100000,
    "cut JSON": b'{"schema_version": "2.0", "training_config": {',
    "JSON of a number": b"12",
    "UTF-16": json.dumps(metrics(1, random.Random(0))).encode("utf-16"),
    "Latin-1": json.dumps(metrics(1, random.Random(0)) | {"host": {"hostname": "Zürich"}}, ensure_ascii=False).encode(
        "latin-1"
    ),
    "no YAML": b"scaleproof_claims: '1.0'\nclaims: [}",
    "YAML with aliases": b"scaleproof_claims: '1.0'\na: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nclaims: *c\n",
    "YAML of an object": b"scaleproof_claims: '1.0'\nclaims: !!python/object/apply:os.system ['touch /tmp/never']\n",
    "YAML that holds itself": b"scaleproof_claims: '1.0'\nclaims: &a [*a]\n",
    "deep YAML": b"scaleproof_claims: '1.0'\nclaims: " + b"[" * 5000,
    "CSV of a header": b"timestamp,global_step,step_time_s,loss,tokens_per_sec,gpu_max_mem_mb\n",
    "CSV of one line without end": b"epoch,train_time\n" + b"1," * 300000,
}


@pytest.mark.parametrize("what", HOSTILE)
@pytest.mark.parametrize("name", ["training_metrics.json", "x.csv"])
def test_a_hostile_file_named_alone(tmp_path, what, name):
    path = tmp_path / name
    path.write_bytes(HOSTILE[what])
    audited(path)
    audited(tmp_path)


def test_other_encodings_are_read(tmp_path):
    for i, what in enumerate(("UTF-16", "Latin-1")):
        (tmp_path / f"{i}.json").write_bytes(HOSTILE[what])
    assert audited(tmp_path).formats == {"metrics JSON 2.0": 2}


@pytest.mark.parametrize("name", ["training_metrics.json", "findings.json"])
def test_a_broken_file_is_named_with_its_fault(tmp_path, name):
    (tmp_path / name).write_bytes(HOSTILE["cut JSON"])
    (finding,) = audited(tmp_path).findings
    assert (finding.code, finding.runs) == ("file-unreadable", [name])
    assert "cut off" in finding.evidence


@pytest.mark.parametrize("content", ["[]", "{}", "null"])
def test_a_report_of_ours_that_is_none_any_more_is_named(tmp_path, content):
    (tmp_path / "training_metrics.json").write_text(json.dumps(metrics(1, random.Random(0))))
    (tmp_path / "findings.json").write_text(content)
    assert "file-unreadable" not in {f.code for f in audited(tmp_path).findings}, "nobody says whose it is"
    (tmp_path / "manifest.json").write_text("{}")
    finding = next(f for f in audited(tmp_path).findings if f.code == "file-unreadable")
    assert (finding.runs, finding.evidence[:13]) == (["findings.json"], "it is damaged")


def test_broken_json_of_something_else_is_no_finding(tmp_path):
    """Settings with comments lie in many repositories."""
    (tmp_path / "training_metrics.json").write_text(json.dumps(metrics(1, random.Random(0))))
    (tmp_path / "tsconfig.json").write_text("{ // comment\n}")
    assert "file-unreadable" not in {f.code for f in audited(tmp_path).findings}


def test_names_cannot_get_into_the_output(tmp_path):
    folder = tmp_path / "<script>alert(1)<\x1b[31m\nred"
    folder.mkdir()
    (folder / "training_metrics.json").write_text(
        json.dumps(metrics(1, random.Random(0)) | {"git_commit": "<script>alert(2)</script>"})
    )
    latin = os.fsencode(tmp_path) + b"/\xff\xfe"
    os.mkdir(latin)
    with open(latin + b"/training_metrics.json", "w") as file:
        file.write(json.dumps(metrics(1, random.Random(0))))
    result = audited(tmp_path)
    assert len(result.runs) == 2
    assert all(name.isprintable() for name in result.runs)


def test_what_is_no_file_is_left_alone(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    (tmp_path / "training_metrics.json").write_text(json.dumps(metrics(1, random.Random(0))))
    assert len(audited(tmp_path).runs) == 1
    assert audited(tmp_path / "pipe").findings[0].code == "file-unreadable"


def test_a_folder_that_cannot_be_opened_is_told(tmp_path, monkeypatch):
    (tmp_path / "closed").mkdir()
    scandir = os.scandir

    def refused(path):
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    (finding,) = audited(tmp_path).findings
    assert (finding.runs, finding.evidence) == (["closed"], "Permission denied")


def test_a_huge_file_is_not_read_as_one_piece(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "LARGEST_PARSED", 1 << 20)
    with (tmp_path / "training_metrics.json").open("wb") as file:
        file.write(b'{"schema_version": "2.0", "training_config": {"x": "')
        file.truncate(1 << 33)  # 8 GiB, without a disk for it
    assert audited(tmp_path) is None or audited(tmp_path).findings[0].code == "file-unreadable"


def test_a_hundred_thousand_rows(tmp_path):
    rows = "".join(f"{i},{i},0.1,3.0,40960,100\n" for i in range(100_000))
    (tmp_path / "step_log.csv").write_text(
        "timestamp,global_step,step_time_s,loss,tokens_per_sec,gpu_max_mem_mb\n" + rows
    )
    assert [f.severity for f in audited(tmp_path).findings] == ["note"]


def test_rows_in_disorder_take_no_longer(tmp_path):
    order = random.Random(0).sample(range(100_000), 100_000)
    (tmp_path / "metrics.csv").write_text("epoch,train_time\n" + "".join(f"{i},1.5\n" for i in order))
    assert {f.code for f in audited(tmp_path).findings} == {"runs-interleaved", "single-run"}


def test_a_check_that_breaks_does_not_end_the_audit(tmp_path, monkeypatch):
    register = Register(lambda context: [])

    @register.check(Code("file-unreadable", "note", "", "", "", ""))
    def broken(context):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(audit, "of_evidence", [broken, *audit.of_evidence])
    (tmp_path / "training_metrics.json").write_text(
        json.dumps(metrics(1, random.Random(0)) | {"summary": {"best_val_loss": 0.0}})
    )
    findings = audit_paths([tmp_path]).findings
    assert {f.code for f in findings if f.severity != "note"} == {"validation-zero"}
    assert ["broken"] in [f.runs for f in findings if f.code == "file-unreadable"]


def test_a_step_of_four_hundred_digits_is_no_step(tmp_path):
    text = "".join(f"Step {step}: loss 3.0\nelapsed_time_per_iteration: 1.5 s\n" for step in (10, "9" * 400, 30))
    (tmp_path / "train.log").write_text(text)
    assert len(audited(tmp_path).runs) == 1


def test_a_long_log_is_read_to_its_end(tmp_path):
    """Its lines are streamed: there is no limit after which the rest is left out."""
    rows = "".join(f"{i},0.1,40960\n" for i in range(100_000))
    (tmp_path / "step_log.csv").write_text("global_step,step_time_s,tokens_per_sec\n" + rows)
    (run,) = gather([tmp_path]).runs
    assert len(run.logged_steps) == 100_000


def test_a_missing_path_is_a_message(tmp_path):
    with pytest.raises(UserError, match="no such file or folder"):
        audit_paths([tmp_path / "nothing"])
    (tmp_path / "README.md").write_text("# nothing here")
    with pytest.raises(UserError, match="no benchmark result among 1 file"):
        audit_paths([tmp_path])
