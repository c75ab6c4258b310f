"""`scaleproof rehearse`: a campaign of commands in small, from its file to its page."""

import shlex
import sys

import small_programs

CAMPAIGN = f"""
title: Does mine run?
workload: {{command: "{shlex.quote(sys.executable)} nanogpt.py --steps {{steps}} --end {{code}}", figures: NanoGPT}}
work: {{steps: 100000}}
vary: {{code: {{good: 0, bad: 3}}, geometry: [1x1]}}
question: {{is: good, better_than: bad}}
repeats: 9
"""


def test_a_campaign_that_cannot_run_here_is_not_rehearsed(built):
    built.campaign("absent", "title: x\nworkload: {command: pyhton train.py, figures: whole}\n")
    done = built.command("scaleproof", "rehearse", "config/campaigns/absent.yaml")
    assert (done.returncode, "no cell can run here: " in done.stderr) == (2, True), done.stderr
    assert not (built.root / "results/rehearsal-absent").exists()


def test_what_would_fail_at_night_fails_now(built):
    small_programs.write(built.root)
    built.campaign("mine", CAMPAIGN)
    done = built.command("scaleproof", "rehearse", "config/campaigns/mine.yaml")
    assert done.returncode == 1, done.stderr
    assert "2 runs in small; logs: results/rehearsal-mine/runs/CELL/rep1/train.log" in done.stderr
    assert "1 of 2 runs of rehearsal-mine failed" in done.stdout
    assert "bad-n1x1/rep1: crash: the command ended with exit code 3" in done.stdout
    page = (built.root / "results/rehearsal-mine/report.html").read_text()
    assert "<strong>Next:</strong> fix what ended the runs without the status ok, and rehearse again." in page
    assert "Rehearsal of: Does mine run?" in page
    assert '<th scope="row">good-n1x1</th><td>ok' in page
    assert "1 of 2 cells ran from start to page" in page
    assert "tokens" not in page, "it shows no rate"
    refused = built.command("scaleproof", "publish", "results/rehearsal-mine", "--author", "A. Uthor")
    assert refused.returncode == 2
    assert "is a rehearsal: its rates mean nothing" in refused.stderr


def test_the_console_names_the_work_of_a_command(built):
    small_programs.write(built.root)
    for given, words in (("", "a command"), (", per_step: {samples: 16}", "16 samples a step")):
        built.campaign("counted", CAMPAIGN.replace(", figures: NanoGPT", f", figures: NanoGPT{given}"))
        assert f"Train counted good-n1x1, repeat 1: {words}\n" in built.dry("results/counted/report.html")
