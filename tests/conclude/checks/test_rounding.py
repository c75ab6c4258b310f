"""What training amplifies is no fault, what it does not amplify is one, and what is not compared is noted."""

import numpy as np
import pytest
from sound_records import GRADIENT_NORM, VALIDATION_LOSS, sealed, write_reference
from synthetic import as_rows

from scaleproof.conclude.checks.all_checks import audit
from scaleproof.conclude.checks.replayed import (
    QUIET,
    QUIET_NORM,
    comparable_steps,
    reference_for,
    rounding_amplification,
)
from scaleproof.ground.records.run import MeasuredRun
from scaleproof.ground.records.steps import loss_series, window_steps
from scaleproof.measure.reference.schema import FOLDER, Reference, Repetition

JUMP = 8  # the step from which on repetitions are apart


def repeated(run: MeasuredRun, apart: float, norms: float = 0.0, validation: float = 0.0) -> dict:
    """Fields of a reference whose repetitions are as far apart from step JUMP on."""
    losses = loss_series(run.steps)
    after = np.arange(len(losses)) >= JUMP
    norm = np.full(len(losses), GRADIENT_NORM)
    repetition = Repetition(
        losses=(losses * (1 + apart * after)).tolist(),
        gradient_norms=(norm * (1 + norms * after)).tolist(),
        validation_loss=VALIDATION_LOSS * (1 + validation),
    )
    return {"gradient_norms": norm.tolist(), "repetitions": [repetition]}


def moved(run: MeasuredRun, by: float, first: int = JUMP) -> MeasuredRun:
    """The run with losses that are as far from the others from step `first` on."""
    frames = []

    def change_steps(frame):
        frames.append(frame.assign(loss=frame["loss"] * (1 + by * (frame["step"] >= first))))
        return frames[0]

    def change(data):
        losses = window_steps(as_rows(frames[0]))["loss"]
        data["window"] |= {
            "train_loss_avg_global": float(losses.mean()),
            "train_loss_first": float(losses[0]),
            "train_loss_last": float(losses[-1]),
        }

    return sealed(run, change, change_steps)


def found(runs) -> dict[str, tuple[str, str]]:
    reference_for.cache_clear()  # of a run; a test writes several references of one
    return {f.code: (f.severity, f.evidence) for f in audit("x", runs).findings if f.code != "single-run"}


def test_what_training_amplifies_is_allowed(sound):
    """A run that is 30 times as far from the replay as its repetitions are."""
    write_reference(sound[0], **repeated(sound[0], apart=1e-5))
    assert found([moved(sound[0], 3e-4)]) == {}
    write_reference(sound[0], **repeated(sound[0], apart=0.0))
    severity, evidence = found([moved(sound[0], 3e-4)])["losses-differ-from-reference"]
    assert severity == "invalid"
    assert "from step 8 of" in evidence
    assert "1.0e-05 is allowed" in evidence


def test_norms_show_it_earlier_than_losses(sound):
    write_reference(sound[0], **repeated(sound[0], apart=3e-8, norms=2e-4))
    assert found([moved(sound[0], 3e-4)]) == {}


def test_a_fault_before_the_jump_is_named(sound):
    write_reference(sound[0], **repeated(sound[0], apart=1e-5))
    findings = found([moved(sound[0], 3e-5, first=3)])
    assert set(findings) == {"losses-differ-from-reference"}
    assert "from step 3 of" in findings["losses-differ-from-reference"][1]


def test_a_larger_fault_after_the_jump_is_named(sound):
    write_reference(sound[0], **repeated(sound[0], apart=1e-5))
    assert set(found([moved(sound[0], 3e-3)])) == {"losses-differ-from-reference"}


def test_comparing_ends_where_it_means_nothing(sound):
    write_reference(sound[0], **repeated(sound[0], apart=2e-3))
    severity, evidence = found([moved(sound[0], 0.3)])["replay-in-part"]
    assert severity == "note"
    assert "before step 8 alone" in evidence
    assert "20,000 times" in evidence
    assert set(found([moved(sound[0], 0.3)])) == {"replay-in-part"}


def test_runs_are_allowed_to_differ_by_as_much(sound):
    """Runs among themselves, and where the replay has ended before the window does."""
    runs = [sound[0], moved(sound[3], 3e-4)]
    write_reference(sound[0], **repeated(sound[0], apart=1e-5))
    assert not {"losses-differ", "learns-differently"} & set(found(runs))
    fields = repeated(sound[0], apart=1e-5)
    short = {"losses": loss_series(sound[0].steps)[: JUMP + 1].tolist()}
    short["repetitions"] = [
        repetition.model_copy(
            update={name: getattr(repetition, name)[: JUMP + 1] for name in ("losses", "gradient_norms")}
        )
        for repetition in fields["repetitions"]
    ]
    short["gradient_norms"] = fields["gradient_norms"][: JUMP + 1]
    write_reference(sound[0], **short)
    assert "losses-differ" not in found(runs)
    write_reference(sound[0], **repeated(sound[0], apart=0.0))
    assert found(runs)["losses-differ"][0] == "invalid"


def other_validation(by: float):
    def change(data):
        loss = VALIDATION_LOSS * (1 + by)
        data["validation"] |= {"loss": loss, "perplexity": float(np.exp(loss))}
        data["validation"]["rank_losses"] = [x * (1 + by) for x in data["validation"]["rank_losses"]]

    return change


@pytest.mark.parametrize("fields", [{"apart": 1e-5}, {"apart": 0.0, "validation": 1e-5}])
def test_a_validation_is_allowed_to_differ_by_as_much(sound, fields):
    run = sealed(sound[0], other_validation(3e-4))
    write_reference(sound[0], **repeated(sound[0], **fields))
    assert "validation-differs-from-reference" not in found([run])
    write_reference(sound[0], **repeated(sound[0], apart=0.0))
    assert found([run])["validation-differs-from-reference"][0] == "invalid"


def test_runs_may_differ_by_what_the_replays_validation_does(sound):
    """Its losses after the last step are further apart than those of the last replayed steps."""
    runs = [sound[0], sealed(sound[3], other_validation(5e-3))]
    write_reference(sound[0], **repeated(sound[0], apart=0.0, validation=1e-6))
    assert "learns-differently" not in found(runs)
    write_reference(sound[0], **repeated(sound[0], apart=0.0))
    assert found(runs)["learns-differently"][0] == "suspect"


def test_a_replay_that_ended_early_is_a_note(sound):
    reason = "memory does not suffice for one row"
    nothing = {"losses": [], "gradient_norms": [], "first_losses": [], "validation_loss": None}
    write_reference(sound[0], **nothing, parameters=None, decayed=None, shortened=reason)
    assert found(sound) == {"replay-in-part": ("note", f"0 of 35 steps were replayed for comparison: {reason}")}
    (finding,) = audit("x", sound).findings
    assert len(finding.runs) == len(sound), "one note for all"


def test_a_damaged_reference_is_no_fault_of_a_run(sound):
    write_reference(sound[0])
    path = next((sound[0].folder.parents[2] / FOLDER).glob("*.json"))
    path.write_text("{}")
    ((code, (severity, evidence)),) = found(sound).items()
    assert (code, severity) == ("replay-in-part", "note")
    assert "is not a reference of schema" in evidence
    assert "/" not in evidence.replace(f"{FOLDER}/", ""), "no path of this machine"


def test_a_reference_of_other_tokens_compares_nothing(sound):
    write_reference(sound[0], train_sha256="0" * 64)
    ((code, (severity, evidence)),) = found(sound).items()
    assert (code, severity) == ("replay-in-part", "note")
    assert evidence.endswith("is damaged (it replays other tokens than those of the runs)")


def test_a_reference_of_schema_1_0_is_read(sound, tmp_path):
    write_reference(sound[0])
    path = next((sound[0].folder.parents[2] / FOLDER).glob("*.json"))
    old = Reference.model_validate_json(path.read_text()).model_dump(mode="json", exclude={"repetitions", "shortened"})
    assert Reference.model_validate(old | {"schema_version": "1.0"}).repetitions == []
    assert found(sound) == {}
    assert set(found([moved(sound[0], 3e-4)])) == {"losses-differ-from-reference"}


def test_factors(sound):
    write_reference(sound[0])
    reference = Reference.model_validate_json(next((sound[0].folder.parents[2] / FOLDER).glob("*.json")).read_text())
    assert rounding_amplification(None).of(3).tolist() == rounding_amplification(reference).of(3).tolist() == [1, 1, 1]
    fields = repeated(sound[0], apart=10 * QUIET, norms=300 * QUIET_NORM, validation=500 * QUIET)
    factors = rounding_amplification(reference.model_copy(update=fields))
    assert factors.of(JUMP).tolist() == [1] * JUMP
    assert factors.of(JUMP + 1)[-1] == pytest.approx(300, rel=1e-3)
    assert factors.later == pytest.approx(60, rel=1e-3), "that of norms a fifth as much: 1e-5 is what they may be apart"
    assert factors.of(100)[-1] == factors.later
    assert factors.validation == pytest.approx(500, rel=1e-3)


def test_a_comparison_that_has_ended_does_not_begin_again():
    assert comparable_steps(np.array([1e-5, 0.2, 1e-5])) == 1
    assert comparable_steps(np.array([1e-5, 1e-3])) == 2
