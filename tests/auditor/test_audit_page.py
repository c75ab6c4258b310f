"""What the audit says, on the console, as JSON, as a page; and the page of explanations."""

import json
import random
import re

import pytest
from external_files import metrics

from scaleproof import cli
from scaleproof.auditor.audit import audit_paths
from scaleproof.auditor.audit_page import audit_page
from scaleproof.auditor.audit_text import audit_text, explained, grouped, rounded
from scaleproof.auditor.read.published_claims import KINDS
from scaleproof.auditor.read.run_fields import CLAIMED
from scaleproof.ground.findings.catalog import own_only_codes, pages_by_code
from scaleproof.ground.findings.finding import Finding


def put(folder, **change):
    folder.mkdir(parents=True)
    data = metrics(2, random.Random(0))
    data["epochs"][0].update(change)
    (folder / "training_metrics.json").write_text(json.dumps(data))
    return folder


def scaleproof(monkeypatch, *arguments) -> int:
    monkeypatch.setattr("sys.argv", ["scaleproof", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


def test_the_document_is_what_explain_prints(repository):
    assert (repository / "docs/findings.md").read_text() == explained(), "scaleproof explain --all > docs/findings.md"


def test_the_keys_of_a_claims_file_are_documented(repository):
    text = (repository / "docs/audit.md").read_text()
    assert [key for key in CLAIMED if f"`{key}`" not in text] == []
    assert [kind for kind, keys in KINDS.items() if not all(f"`{key}`" in text for key in (kind, *keys))] == []


def test_every_code_of_our_own_checks_has_a_page(repository):
    package = repository / "src/scaleproof"
    places = ("ground/findings/*.py", "conclude/checks/*.py", "conclude/forecast/findings.py")
    files = [path for place in places for path in package.glob(place)]
    codes = {c for f in files for c in re.findall(r'"([a-z]+(?:-[a-z]+)+)"', f.read_text()) if f.name != "pages.py"}
    assert {"losses-differ", "super-linear", "device-throttled"} <= codes
    no_codes = {"core-seconds", "language-modelling", "max-autotune", "reduce-overhead"}  # words of evidence
    assert codes - no_codes <= set(pages_by_code())
    assert set(own_only_codes()) <= codes


def test_exit_codes(monkeypatch, capsys, tmp_path):
    assert scaleproof(monkeypatch, "audit", put(tmp_path / "sound")) == 0
    assert "found: 1 note" in capsys.readouterr().out
    assert scaleproof(monkeypatch, "audit", put(tmp_path / "faulty", val_loss_avg_global=0.0)) == 1
    assert "invalid validation-zero" in capsys.readouterr().out
    assert scaleproof(monkeypatch, "audit", tmp_path / "nothing") == 2
    assert "no such file or folder" in capsys.readouterr().err
    assert scaleproof(monkeypatch, "audit", tmp_path, "--world-size", "four") == 2
    assert "allowed: a number from 1 to 999,999,999, or NAME=NUMBER" in capsys.readouterr().err
    assert scaleproof(monkeypatch, "audit", tmp_path, "--world-size", "nope=4") == 2
    assert 'no run has "nope" in its name' in capsys.readouterr().err
    (tmp_path / "scaling.md").write_text("| GPUs | tokens/s |\n|---|---|\n| 1 | 11,200 |\n| 2 | 21,300 |\n")
    assert scaleproof(monkeypatch, "audit", tmp_path / "scaling.md", "--world-size", "4") == 0  # of all runs: of none
    capsys.readouterr()
    state = put(tmp_path / "hf") / "trainer_state.json"
    end = {"step": 2, "train_runtime": 10.0, "train_samples_per_second": 1.6, "train_steps_per_second": 0.2}
    history = [*({"step": k, "loss": 3.0 - k / 10} for k in (1, 2)), end]
    state.write_text(json.dumps({"log_history": history, "global_step": 2}))
    for name in ("hf", "trainer_state"):  # the run is named by its folder; its file is as good
        assert scaleproof(monkeypatch, "audit", state, "--world-size", f"{name}=4") == 0
        assert re.search(r"^hf +4\b", capsys.readouterr().out, re.MULTILINE)
    assert scaleproof(monkeypatch, "audit", tmp_path / "sound", "--world-size", "metrics=4") == 0  # of a file's name
    capsys.readouterr()
    assert scaleproof(monkeypatch, "audit", "") == 2
    assert "a path is empty" in capsys.readouterr().err
    (tmp_path / "steps.csv").write_text("step,loss,step_time_s\nx,y,z\n")
    assert scaleproof(monkeypatch, "audit", tmp_path / "steps.csv") == 2
    assert "read: nothing" in capsys.readouterr().out
    assert scaleproof(monkeypatch, "explain", "sawtooth") == 2
    assert 'Did you mean "sawtooth-timer"?' in capsys.readouterr().err


def test_json_is_whole(monkeypatch, capsys, tmp_path):
    assert scaleproof(monkeypatch, "audit", put(tmp_path / "a", val_loss_avg_global=0.0), "--json") == 1
    data = json.loads(capsys.readouterr().out)
    assert data["schema_version"] == "1.3"
    assert {"code", "severity", "runs", "evidence", "corrected", "advice"} <= set(data["findings"][0])


def test_the_page_has_every_finding_once(tmp_path):
    for name in ("a", "b"):
        put(tmp_path / name, val_loss_avg_global=0.0)
    audit = audit_paths([tmp_path])
    page, text = audit_page(audit), audit_text(audit)
    for out in (page, text):
        assert out.count("A validation loss of 0.0 is the sum of nothing") == 1
        assert all(f.evidence.split(":")[0] in out for f in audit.findings)
    assert "http" not in page.replace("http-equiv", "")


def test_the_first_screen_says_what_to_mend_first(tmp_path):
    table = tmp_path / "t.md"
    rows = "| GPUs | tokens/s | speed-up |\n|---|---|---|\n| 1 | 1000 | 1 |\n| 8 | 7000 | {} |\n"
    for speedup, step in (("7.5", "t.md:4, speedup-not-in-table: Compute the column"), ("7.0", "nothing to mend.")):
        table.write_text(rows.format(speedup))
        head, _, rest = audit_page(audit_paths([tmp_path])).partition("<h2>")
        assert f'<p class="next"><strong>Next:</strong> {step}' in head
        assert "Next:" not in rest


def test_a_column_without_a_text_is_left_out(tmp_path):
    (tmp_path / "a.csv").write_text("gpus,tokens_per_s\n1,1000\n2,1900\n")
    headings = re.findall(r"<th[^>]*>([^<]*)</th>", audit_page(audit_paths([tmp_path])))
    assert {"configuration", "run or row", "speed-up", "over", "rate", "file"} <= {*headings}
    assert {"beside", "work", "corrected"}.isdisjoint(headings)


def test_scaling_lists_what_has_a_speed_up(tmp_path):
    for rates, listed in (((1000, 1900, 3600), 3), ((1000, 400, 390), 0)):  # of all devices, or of each
        rows = "".join(f"{gpus},{rate}\n" for gpus, rate in zip((1, 2, 4), rates, strict=True))
        (tmp_path / "a.csv").write_text(f"gpus,tokens_per_s\n{rows}")
        audit = audit_paths([tmp_path])
        assert (len(audit.scaling), len(audit.readings)) == (listed, 3)


def test_words_in_backticks_are_in_code_font(tmp_path):
    (tmp_path / "t.log").write_text("".join(f"iter {k}: loss 4.{9 - k}, time 9.00ms, mfu 2.00%\n" for k in range(8)))
    page = audit_page(audit_paths([tmp_path]))
    assert "(<code>runs:</code> in a claims file)" in page
    assert "`" not in page.partition("<script")[0]


def test_nothing_tells_where_the_files_lie(tmp_path):
    put(tmp_path / "a")
    (tmp_path / "broken.json").write_text('{"log_history": [')
    audit = audit_paths([tmp_path])
    assert "broken.json" in [name for f in audit.findings for name in f.runs]
    assert str(tmp_path) not in audit.model_dump_json()


def test_long_decimals_are_rounded_for_people():
    assert rounded("17156.860645272016 (tokens_per_s), 1234567.1234567, 0.000123456789, 0.0754, v1.2.3456789") == (
        "17,156.9 (tokens_per_s), 1,234,567, 0.000123457, 0.0754, v1.2.3456789"
    )


def test_what_is_said_of_several_runs_in_the_same_words_is_said_once():
    finding = Finding(code="x", severity="note", cells=[], runs=["a"], evidence="same", advice="none")
    others = [finding.model_copy(update=change) for change in ({"runs": ["b"]}, {"runs": ["c"], "evidence": "other"})]
    ((key, merged),) = grouped([finding, *others]).items()
    assert (key, [f.runs for f in merged]) == (("note", "x"), [["a", "b"], ["c"]])
    assert finding.runs == ["a"]


def test_its_own_page_is_no_source(tmp_path):
    (tmp_path / "t.md").write_text(
        "| GPUs | tokens/s | speed-up |\n|---|---|---|\n| 1 | 1000 | 1 |\n| 8 | 7000 | 7.5 |\n"
    )
    first = audit_paths([tmp_path])
    (tmp_path / "audit.html").write_text(audit_page(first))
    second = audit_paths([tmp_path])
    assert (second.findings, second.readings) == (first.findings, first.readings)
    foreign = (tmp_path / "audit.html").read_text().replace('lang="en"', 'lang="de"')  # anybody's page is read
    (tmp_path / "audit.html").write_text(foreign)
    assert len(audit_paths([tmp_path]).readings) > len(first.readings)
