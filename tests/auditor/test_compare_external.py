"""`scaleproof compare` with somebody else's results: the same rules, on what their files tell."""

import json
import random
import re
import shutil

import pytest
from external_files import metrics
from synthetic import cells, write_run

from scaleproof.auditor.compare_external import compare_external
from scaleproof.conclude.analysis.compare_runs import are_all_own
from scaleproof.conclude.report.sentences.ratios import compared_sentence
from scaleproof.ground.errors import UserError
from scaleproof.ground.files import write_atomic


def write(folder, world, k, **change):
    chance = random.Random(k)
    data = metrics(world, chance, family=1, **change)
    write_atomic(folder / f"run_{k}/training_metrics.json", json.dumps(data))
    return data


@pytest.fixture
def two(tmp_path):
    """Three runs on 1 and on 4 devices each, sound ones."""
    for k in (1, 2, 3):
        write(tmp_path / "one", 1, k)
        write(tmp_path / "four", 4, 10 + k)
    return tmp_path / "one", tmp_path / "four"


def test_a_file_of_a_campaign_is_no_side_of_a_comparison(tmp_path):
    folder = tmp_path / "demo"
    write_run(folder / "runs", cells()[0], 1, seed=1)
    for parent, is_named in ((folder, True), (tmp_path, False)):
        (parent / "notes.md").write_text("# Notes\n")
        with pytest.raises(UserError) as refused:
            compare_external(parent / "notes.md", folder, [])
        assert (f"(a part of {folder}; give that folder)" in str(refused.value)) == is_named


def test_a_copy_of_a_log_is_the_same_file(tmp_path):
    for name, rate in (("a.log", 100), ("b.log", 100), ("c.log", 101)):
        (tmp_path / name).write_text("".join(f"step: {n} tokens/s: {rate + n}\n" for n in range(9)))
    with pytest.raises(UserError, match="are the same file; compare two"):
        compare_external(tmp_path / "a.log", tmp_path / "b.log", [])
    assert compare_external(tmp_path / "a.log", tmp_path / "c.log", []).why is None
    for name in "abc":
        (tmp_path / name).mkdir()
        (tmp_path / f"{name}.log").rename(tmp_path / name / "train.log")
    assert "have the same bytes" in str(compare_external(tmp_path / "a", tmp_path / "b", []).why)
    assert compare_external(tmp_path / "a", tmp_path / "c", []).why is None


def test_a_copy_of_a_log_of_rates_is_known_by_its_steps(tmp_path):
    lines = "".join(f"step: {n} tokens/s: {4500 + 7.3 * n % 11:.2f}\n" for n in range(30))
    for name, text in (("a.log", lines), ("copy.log", f"# of Monday\n{lines}"), ("b.log", lines.replace(".3", ".4"))):
        (tmp_path / name).write_text(text)
    assert "same tokens/s of 30 steps" in str(compare_external(tmp_path / "a.log", tmp_path / "copy.log", []).why)
    assert compare_external(tmp_path / "a.log", tmp_path / "b.log", []).why is None


@pytest.mark.parametrize(
    ("days", "sessions", "is_stated"),
    [
        (("[2024-05-01 10", "2024/05/03T10"), ["2024-05-01", "2024-05-03"], True),
        (("2024-05-01 10", "2024-05-01 11"), [], True),
        (("2024-05-01 10", "10"), [], False),
    ],
)
def test_the_day_of_a_log_is_that_of_its_first_time_stamp(tmp_path, days, sessions, is_stated):
    for side, day in zip("ab", days, strict=True):
        lines = (f"{day}:00:0{n} step: {n} tokens/s: {ord(side) + n}\n" for n in range(9))
        (tmp_path / f"{side}.log").write_text("data of 2023-01-01\n" + "".join(lines))
    found = compare_external(tmp_path / "a.log", tmp_path / "b.log", [])
    assert (found.sessions, "day" not in found.unstated) == (sessions, is_stated)


@pytest.mark.parametrize(("other", "unit"), [("/GPU", "tokens/s of a device"), ("", None)])
def test_rates_of_one_device_are_compared_where_nobody_says_how_many_there_were(tmp_path, other, unit):
    for name, rate, scope in (("a.log", 100, "/GPU"), ("b.log", 125, other)):
        lines = (f"step: {n} tokens/s{scope}: {rate + n % 5 / 100}\n" for n in range(9))
        (tmp_path / name).write_text("".join(lines))
    if unit:
        assert compare_external(tmp_path / "a.log", tmp_path / "b.log", []).unit == unit
    else:
        with pytest.raises(UserError, match="different units"):
            compare_external(tmp_path / "a.log", tmp_path / "b.log", [])


def test_two_lines_of_a_log_say_nothing_of_its_speed(tmp_path):
    for name, steps in (("long.log", 9), ("other.log", 8), ("short.log", 2)):
        (tmp_path / name).write_text("".join(f"iter {n}: loss 2, time {len(name) + n}ms\n" for n in range(steps)))
    with pytest.raises(UserError, match=r"short.log: 2 lines of steps\); it takes .* three lines or more"):
        compare_external(tmp_path / "long.log", tmp_path / "short.log", [])
    assert compare_external(tmp_path / "long.log", tmp_path / "other.log", []).why is None


def test_the_sizes_are_what_is_meant_to_differ(two):
    found = compare_external(*two, ["world_size"])
    assert found.why is None
    assert 2 < found.low < found.ratio < found.high < 4.5
    assert found.runs == (3, 3)
    assert found.intended == ["world_size"]
    assert re.search(r"Not stated by both, so not compared: [^.]*, day\b", compared_sentence(found))


def test_an_unintended_difference_gives_no_ratio(two):
    assert compare_external(*two, []).why.startswith("incomparable: world")
    for k in (1, 2, 3):
        write(two[1], 4, k, precision="fp32")
    assert "precision" in compare_external(two[0], two[1], ["world_size"]).why


def test_our_own_against_a_foreign_one_tells_what_differs(tmp_path, two):
    own = write_run(tmp_path / "own", cells()[0]).folder
    assert not are_all_own(own, two[0])
    assert are_all_own(own, own)
    found = compare_external(two[0], own, ["world_size"])
    assert found.why.startswith("incomparable: ")
    assert "device" in found.why


def test_an_invalid_foreign_result_gives_no_ratio(two):
    path = two[1] / "run_11/training_metrics.json"
    data = json.loads(path.read_text())
    data["epochs"][0]["tokens_per_sec_global"] *= 4
    path.write_text(json.dumps(data))
    assert compare_external(*two, ["world_size"]).why.startswith("invalid: ")


def test_a_run_on_both_sides_gives_no_ratio(two):
    first, second = two[0] / "run_1/training_metrics.json", two[1] / "run_11/training_metrics.json"
    second.write_text(first.read_text())
    why = compare_external(*two, ["world_size"]).why
    assert why.startswith("invalid: run-copied")


def test_copies_are_one_run(tmp_path):
    """Three files of the same bytes are no three repeats: there is no interval."""
    for side, rate in (("a", 128), ("b", 160)):
        (tmp_path / side).mkdir()
        lines = [f"step: {10 * i} loss: {9 - i / 8} tokens/s: {rate}{i:03d}" for i in range(1, 13)]
        for k in (1, 2, 3):
            (tmp_path / side / f"run{k}.log").write_text("\n".join(lines))
    found = compare_external(tmp_path / "a", tmp_path / "b", [])
    assert (found.runs, found.low, found.reservations) == ((1, 1), None, ["run-copied (A and B)"])
    for k in (2, 3):
        (tmp_path / f"a/run{k}.log").write_text("\n".join(lines).replace("160", f"12{k}"))
    found = compare_external(tmp_path / "a", tmp_path / "b", [])
    assert (found.runs, found.reservations) == ((3, 1), ["run-copied (B)"])
    for k in (2, 3):
        (tmp_path / f"b/run{k}.log").unlink()
    assert compare_external(tmp_path / "a", tmp_path / "b", []).reservations == []


def sides(folder, top=("", ""), last_losses=("2.1", "2.1")):
    for side, rate, head, loss in zip("ab", (128, 160), top, last_losses, strict=True):
        (folder / side).mkdir()
        for k in (1, 2, 3):
            lines = [f"step: {i} loss: {2.5 if i < 30 else loss} tokens/s: {rate}{k}{i}" for i in (10, 20, 30, 40)]
            (folder / side / f"run{k}.log").write_text("\n".join([head, *lines]))
    return compare_external(folder / "a", folder / "b", [])


@pytest.mark.parametrize(
    ("loss", "said"), [("nan", "at step 30 that of {b} is no finite number"), ("2.1", "agree in 4")]
)
def test_losses_that_are_no_numbers_differ(tmp_path, loss, said):
    assert said.format(b=tmp_path / "b") in sides(tmp_path, last_losses=("2.1", loss)).losses


@pytest.mark.parametrize(
    ("top", "why"),
    [
        (("batch_size: 8\nworld_size: 2", "batch_size: 16\nworld_size: 2"), "incomparable: batch_size ("),
        (("world_size: 2", "World size = 4"), "incomparable: world_size ("),
        (("batch_size: 8", "batch_size: 8"), None),
        (("batch_size: 8", ""), None),
        (("seen batch_size: 8 in step 3", "seen batch_size: 16 in step 3"), None),
    ],
)
def test_what_stands_above_the_steps_is_compared(tmp_path, top, why):
    found = sides(tmp_path, top).why
    assert found == why or found.startswith(why)


@pytest.mark.parametrize(("tokens", "is_compared"), [("24,576", False), ("12,288", True)])
def test_steps_of_other_numbers_of_tokens_are_other_work(tmp_path, tokens, is_compared):
    for name, stated in (("a.log", "12,288"), ("b.log", tokens)):
        lines = [f"iter {step}: loss {3 - step / 100:.4f}, time {50 + step / 10:.2f}ms, mfu 2.13%" for step in range(9)]
        lines[0] += name  # no copy
        (tmp_path / name).write_text("\n".join([f"tokens per iteration will be: {stated}", *lines]))
    two = (tmp_path / "a.log", tmp_path / "b.log")
    refused = compare_external(*two, []).why
    assert refused is None if is_compared else refused.startswith("incomparable: tokens_per_step (")
    assert compare_external(*two, ["tokens_per_step"]).why is None


def test_each_file_is_read_once(two, monkeypatch):
    read = []
    from scaleproof.auditor import compare_external as module

    original = module.gather
    monkeypatch.setattr(module, "gather", lambda paths: read.extend(paths) or original(paths))
    monkeypatch.setattr("scaleproof.auditor.audit.gather", lambda paths, given=None: pytest.fail("read again"))
    compare_external(*two, ["world_size"])
    assert read == list(two)


def test_several_kinds_on_one_side_and_nothing_at_all(tmp_path, two):
    shutil.make_archive(str(tmp_path / "both"), "gztar", tmp_path)
    with pytest.raises(UserError, match=r"both.tar.gz: several kinds of runs .*; unpack it, and name one, or"):
        compare_external(tmp_path / "both.tar.gz", two[0], [])
    (tmp_path / "both.tar.gz").unlink()
    with pytest.raises(UserError, match=r"several kinds of runs .*; name one, or rename repeats of one: run1, run2"):
        compare_external(tmp_path, two[0], [])
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(UserError, match="no run below"):
        compare_external(tmp_path / "notes.txt", two[0], [])
    with pytest.raises(UserError, match='there is no field "wrld"'):
        compare_external(*two, ["wrld"])


def test_lines_of_a_log_that_a_document_quotes_are_no_run_to_compare(tmp_path, two):
    """Others of its lines may be left out."""
    line = "step {k:4} | loss: {loss:.6f} | lr 6.0e-04 | norm: 1.2 | dt: 100.00ms | tok/sec: 5120.00"
    lines = "\n".join(line.format(k=k, loss=4 - k / 10) for k in range(8))
    (two[0] / "README.md").write_text(f"It prints\n```\n{lines}\n```\n")
    assert compare_external(*two, ["world_size"]).runs == (3, 3)
    (two[0] / "train.log").write_text(lines)
    with pytest.raises(UserError, match="several kinds of runs"):
        compare_external(*two, ["world_size"])


def test_a_kind_that_is_called_run_something_is_no_repeat(tmp_path, two):
    side = tmp_path / "kinds"
    for name in ("run_ddp", "run_fsdp"):
        write_atomic(side / name / "training_metrics.json", json.dumps(metrics(2, random.Random(name), family=1)))
    with pytest.raises(UserError, match="several kinds of runs"):
        compare_external(side, two[0], [])


def printed(folder, name, line, offset=0.0):
    """A log of 20 steps: `line` with the step, the loss and a figure of about 100."""
    rows = (line.format(k=k, loss=3 - k / 30 - offset, figure=100 + offset + k % 3) for k in range(1, 21))
    write_atomic(folder / name, "\n".join(rows))
    return folder / name


@pytest.mark.parametrize(
    ("figure", "unit", "ratio"),
    [("samples/s: {figure:.2f}", "samples/s", 1.5), ("step_time_ms: {figure:.2f}", "steps/s", 1 / 1.5)],
)
def test_what_audit_reads_of_a_log_is_compared(tmp_path, figure, unit, ratio):
    line = "step: {k} loss: {loss:.4f} " + figure
    for k in (1, 2, 3):
        printed(tmp_path / "a", f"run{k}.log", line, k / 10)
        printed(tmp_path / "b", f"run{k}.log", line, 50 + k / 10)
    found = compare_external(tmp_path / "a", tmp_path / "b", [])
    assert (found.why, found.unit) == (None, unit)
    assert found.ratio == pytest.approx(ratio, rel=0.01)
    assert found.low < found.ratio < found.high


def test_step_times_of_other_numbers_of_devices_give_no_ratio_and_those_of_equal_ones_do(tmp_path):
    """What a step did on 4 devices nobody says: the batch of one device, or a quarter of it on each."""
    line = "step: {k} loss: {loss:.4f} step_time_ms: {figure:.2f}"
    one, other, four = (printed(tmp_path, f"{n}.log", line, k) for k, n in enumerate(("1gpu", "a_1gpu", "4gpus")))
    assert compare_external(one, four, ["world_size"]).why.startswith("steps/s do not say how much was done")
    assert compare_external(one, other, []).why is None


def test_other_units_are_converted_where_batch_and_length_are_stated(tmp_path):
    """Samples/s of one of several devices, or of all: nobody knows, unless the number of devices is stated."""
    time = printed(tmp_path / "time", "time.log", "step: {k} loss: {loss:.4f} step_time_ms: {figure:.2f}", 1).parent
    rate = printed(tmp_path / "rate", "rate.log", "step: {k} loss: {loss:.4f} samples/s: {figure:.2f}").parent
    claims = 'scaleproof_claims: "1.0"\nruns: {NAME: {world_size: 1, global_batch: 20, seq_len: 512}}\n'
    for folder in (time, rate):
        write_atomic(folder / "claims.yaml", claims.replace("NAME", folder.name))
    found = compare_external(rate, time, [])
    assert found.unit == "tokens/s (by batch and length)"
    assert found.rates == pytest.approx((101 * 512, 20 * 512 / 0.102), rel=1e-6)
    write_atomic(rate / "claims.yaml", claims.replace("NAME", "rate").replace("world_size: 1, ", ""))
    with pytest.raises(
        UserError, match=r"has steps/s, tokens/s\. Let both print .* or compare folders, each with a claims file"
    ):
        compare_external(rate, time, [])
    write_atomic(rate / "claims.yaml", claims.replace("NAME", "rates"))
    fault = r"^\S*rate/claims\.yaml: runs\.rates is in no run's name\. Did you mean \"rate\"\? Runs: rate\.log$"
    with pytest.raises(UserError, match=fault):
        compare_external(rate, time, [])
    other = printed(tmp_path / "other", "other.log", "step: {k} loss: {loss:.4f} samples/s: {figure:.2f}").parent
    with pytest.raises(UserError, match=fault):  # though the unit is the same without it
        compare_external(rate, other, [])
    write_atomic(rate / "claims.yaml", claims.replace("NAME", "rate"))
    assert compare_external(rate, other, []).unit == "samples/s"


@pytest.mark.parametrize(("world_size", "fault"), [(1, ""), (4, "world_size: 1 and seq_len are enough; of several")])
def test_samples_become_tokens_by_the_length_alone_where_they_are_of_all_devices(tmp_path, world_size, fault):
    samples = printed(tmp_path / "a", "a.log", "step: {k} loss: {loss:.4f} samples/s: {figure:.2f}").parent
    tokens = printed(tmp_path / "b", "b.log", "step: {k} loss: {loss:.4f} tokens/s: {figure:.2f}").parent
    for folder in (samples, tokens):
        facts = f"{{world_size: {world_size}, seq_len: 512}}"
        write_atomic(folder / "claims.yaml", f'scaleproof_claims: "1.0"\nruns: {{{folder.name}: {facts}}}\n')
    if not fault:
        assert compare_external(samples, tokens, []).unit == "tokens/s (by batch and length)"
        return
    with pytest.raises(UserError, match=fault):
        compare_external(samples, tokens, [])


def test_a_refusal_says_what_was_seen(tmp_path):
    rate = printed(tmp_path, "rate.log", "step: {k} loss: {loss:.4f} samples/s: {figure:.2f}")
    time = printed(tmp_path, "time.log", "step: {k} loss: {loss:.4f} step_time_ms: {figure:.2f}")
    with pytest.raises(
        UserError, match=r"different units: .*rate.log has samples/s; .*time.log has steps/s. Let both print"
    ):
        compare_external(rate, time, [])
    loss_alone = printed(tmp_path, "loss.log", "step: {k} loss: {loss:.4f}")
    with pytest.raises(UserError, match=r"\(loss.log: no known time or rate\).*step_time_ms"):
        compare_external(loss_alone, rate, [])


def test_repeats_that_are_told_apart_by_the_end_of_their_names(tmp_path):
    for day, rate in (("monday", 400), ("friday", 380)):
        for k in range(3):
            lines = "\n".join(f"step: {step} samples/s: {rate + k + step}" for step in range(9))
            write_atomic(tmp_path / day / f"{day}-run{k}.log", lines)
    sides = [tmp_path / "monday", tmp_path / "friday"]
    assert compare_external(*sides, []).runs == (3, 3)
    (sides[0] / "monday-run2.log").rename(sides[0] / "sunday-run2.log")
    with pytest.raises(UserError, match=r"several kinds of runs \(monday, sunday\)"):
        compare_external(*sides, [])
    (sides[0] / "monday-run1.log").rename(sides[0] / "run1.log")
    (sides[0] / "monday-run0.log").rename(sides[0] / "run0.log")
    with pytest.raises(UserError, match=r"several kinds of runs \(run0.log, sunday\)"):
        compare_external(*sides, [])


def log_with(folder, losses, repeat=1):
    lines = [f"step: {10 * k} loss: {loss} tokens/s: {128000 + 97 * k + 31 * repeat}" for k, loss in losses.items()]
    write_atomic(folder / f"run{repeat}.log", "\n".join(lines))


def test_losses_of_equal_steps_are_held_against_each_other(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    log_with(one, {1: 9.31, 2: 8.02, 3: 7.44})
    log_with(two, {1: 9.30, 2: 7.05, 3: 5.1})
    losses = compare_external(one, two, []).losses
    assert losses.startswith("Losses differ in 2 of 3 equal steps, first at step 20 (8.02 in ")
    assert "most at step 30 (7.44 in" in losses
    assert losses.endswith("31 % apart).")
    log_with(two, {1: 9.30, 2: 8.03, 3: 7.42})
    assert compare_external(one, two, []).losses == "Losses agree in 3 equal steps: at most 0.27 % apart."


def test_losses_within_the_scatter_of_repeats_do_not_differ(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    for repeat, shift in ((1, 0.0), (2, 0.9), (3, 0.4)):
        log_with(one, {1: 9.3 + shift, 2: 8.0 + shift, 3: 7.4 + shift}, repeat)
        log_with(two, {1: 9.1 + shift, 2: 7.9 + shift, 3: 7.2 + shift}, repeat + 3)
    found = compare_external(one, two, [])
    assert found.losses.startswith("Losses agree in 3 equal steps")
    assert "within the scatter of runs" in found.losses
    assert found.losses in compared_sentence(found)


def test_why_losses_were_not_compared(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    log_with(one, {1: 9.31, 2: 8.02, 3: 7.44})
    log_with(two, {11: 9.31, 12: 8.02, 13: 7.44})
    assert compare_external(one, two, []).losses == "Losses were not compared: no step has one in all runs."
    write_atomic(two / "run1.log", "\n".join(f"step: {k} tokens/s: {128000 + k}" for k in range(10, 40, 10)))
    assert compare_external(one, two, []).unstated[-1] == "losses"
