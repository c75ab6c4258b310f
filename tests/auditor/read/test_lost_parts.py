"""Files of which a part is lost, given twice or not understood: that is said, and the rest is read."""

import pytest
from command_line import scaleproof

from scaleproof.auditor.audit import NoResult, audit_paths
from scaleproof.auditor.read.discover import gather

LOG = "".join(f"iter {n}: loss {4 - n / 1000:.4f}, time 893.{n % 100:02d}ms, mfu 16.60%\n" for n in range(2000))
FIRST_KIBIBYTES = len("".join(LOG.splitlines(keepends=True)[:1600]))  # more than tell what a file is
MODEL_HEADINGS = "| model | tokens/s | mem (GB) | tokens/s | mem (GB) |"
RATES = {1: 1000.0, 2: 1900.0}


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ("\0" * 4096, "bytes of value 0 in line 1601: a part of it was lost; the rest was read"),
        (
            "<<<<<<< HEAD\n=======\n>>>>>>> theirs\n",
            "a merge conflict of git begins in line 1601; both of its versions were read",
        ),
        ("<<<<<<< a banner\n", None),
        ("", None),
    ],
)
def test_damage_far_behind_the_beginning_is_said(tmp_path, part, reason):
    (tmp_path / "run.log").write_text(LOG[:FIRST_KIBIBYTES] + part + LOG[FIRST_KIBIBYTES:])
    evidence = gather([tmp_path / "run.log"])
    assert len(evidence.runs[0].logged_steps) == 2000
    assert [unread.reason for unread in evidence.unread] == ([reason] if reason else [])


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("m.json", '{"gpus": 2, "gpus": 4, "tokens_per_sec": 4000}', "gpus given twice; the last was read"),
        ("m.json", '[{"gpus": 2, "tokens_per_sec": 1900}, {"gpus": 4, "tokens_per_sec": 4000}]', None),
        (
            "t.csv",
            "gpus,tokens/s,tokens/s\n1,1000,990\n2,1900,1880\n",
            "columns of one name: tokens/s; give each a name of its own",
        ),
        ("t.csv", "gpus,tokens/s,note,note\n1,1000,a,b\n2,1900,c,d\n", None),
    ],
)
def test_what_is_given_twice_is_said(tmp_path, name, text, reason):
    (tmp_path / name).write_text(text)
    evidence = gather([tmp_path / name])
    assert evidence.tables
    assert [unread.reason for unread in evidence.unread] == ([reason] if reason else [])


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (
            "t.md",
            ["| | 1 GPU | | 2 GPUs | |", "|---|---|---|---|---|", MODEL_HEADINGS, "| gpt2 | 1000 | 10 | 1900 | 9 |"],
        ),
        ("t.csv", [",tokens/s,tokens/s", ",mean,std", "gpus,,", "1,1000,5", "2,1900,9"]),
        (
            "t.tex",
            [
                r"\begin{tabular}{lcc}",
                r"& \multicolumn{2}{c}{DDP}\\",
                r"GPUs & tokens/s & mem\\",
                r"1 & 1000 & 9\\",
                "2 & 1900 & 9",
            ],
        ),
    ],
)
def test_headings_in_several_lines(tmp_path, name, lines):
    (tmp_path / name).write_text("\n".join(lines))
    (table,) = gather([tmp_path / name]).tables
    assert {row.devices: row.value("tokens_per_s") for row in table.rows} == RATES


def test_a_row_of_words_below_an_empty_heading_is_no_heading(tmp_path):
    (tmp_path / "t.md").write_text("| | tokens/s | |\n|---|---|---|\n| base | OOM | a |\n| other | 1000 | b |\n")
    (table,) = gather([tmp_path / "t.md"]).tables
    assert [row.label for row in table.rows] == ["base, a", "other, b"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Loading\nTraceback:\nCUDA out of memory\nhint\n", "no step and no table; its last error: CUDA out of memory"),
        ("KeyError: 'a'\n  ...\nRuntimeError: NCCL\n", "no step and no table; its last error: RuntimeError: NCCL"),
        ("Loading, without a word on it\n", "no benchmark result among 1 file"),
    ],
)
def test_the_error_of_a_log_without_steps_is_said(tmp_path, text, reason):
    (tmp_path / "run.log").write_text(text)
    with pytest.raises(NoResult, match=f"run.log: {reason}"):
        audit_paths([tmp_path / "run.log"])


def test_a_claim_about_a_run_that_is_not_here_names_those_that_are(tmp_path):
    (tmp_path / "exp1.log").write_text(LOG)
    claim = "{kind: speedup, value: 2, of: exp2, over: exp1}"
    (tmp_path / "c.yaml").write_text(f"scaleproof_claims: '1.0'\nclaims:\n- {claim}\n")
    evidence = [finding.evidence for finding in audit_paths([tmp_path]).findings]
    assert "published, but no file here: exp2; runs here: exp1.log" in evidence


def test_a_page_is_written_to_a_file(tmp_path):
    (tmp_path / "run.log").write_text(LOG)
    done = scaleproof("audit", "run.log", "--html", "-", cwd=tmp_path)
    assert done.returncode == 2
    assert '"-" is standard output; give the name of a file' in done.stderr
