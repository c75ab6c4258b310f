"""Steps that a program counts aloud: which lines are found, and what is taken from one to the next."""

import pytest

from scaleproof.measure.command.progress import find_progress

EPOCHS = [f"Train Epoch: {e} [{64 * k}/192 ({k / 3:.0%})]\tLoss: {2 - k / 9:.6f}" for e in (1, 2) for k in range(3)]
FORMS = {
    "pytorch/examples": (EPOCHS, [64] * 4, 192, "items"),
    "bare number": ([f"{k} | loss 5.5{k} | lr {k}e-06 | 39.22ms" for k in range(5)], [1] * 4, None, "items"),
    "name and number": (
        [f"iter_dt 33.03ms; iter {k}: train loss 2.1" for k in range(0, 50, 10)],
        [10] * 4,
        None,
        "steps",
    ),
    "two pairs": (
        [f"[Epoch 0/3] [Batch {k}/47] [D loss: 0.1] [G loss: 0.2]" for k in range(4)],
        [1] * 3,
        47,
        "batches",
    ),
    "epochs alone": ([f"Epoch [{k}/5], average loss: nan" for k in range(1, 5)], [1] * 3, 5, "epochs"),
    "a bar": ([f"Epoch 0:  {k}%|#   | {k}/100 [00:0{k}<00:09,  4.{k}it/s]" for k in range(5)], [1] * 4, 100, "items"),
    "a bare bar": (
        [
            line
            for k in range(5)
            for line in (f" 0%| | {k}/1500 [00:0{k}<1:10:40, 2.5it/s]", f"{{'loss': '2.1', 'epoch': '0.{k}'}}")
        ],
        [1] * 4,
        1500,
        "items",
    ),
    "a bar of images": (
        [f"Epoch 1/5: {k}/9 [00:0{k}<00:27, 1.01img/s, loss (batch)=1]" for k in range(4)],
        [1] * 3,
        9,
        "samples",
    ),
    "two losses": ([f"[0/25][{k}/250] Loss_D: 1.01 Loss_G: 0.{k}" for k in range(4)], [1] * 3, 250, "items"),
    "no word": ([f"{k}: 0.{k}e-08" for k in range(12)], [1] * 11, None, "items"),
    "two ranks": ([f"step {k} loss 2.{r}" for k in range(4) for r in (1, 2)], [1] * 3, None, "steps"),
    "it": (
        [f"Finished training it {k}/500 of epoch 0, 8.31 ms/it, loss 0.2" for k in range(0, 40, 10)],
        [10] * 3,
        500,
        "steps",
    ),
    "items": ([f"items {k}/50 loss 1" for k in range(4)], [1] * 3, 50, "items"),
    "images": ([f"seen images: {k}/50, Loss nan" for k in range(0, 50, 10)], [10] * 4, 50, "samples"),
}


@pytest.mark.parametrize(("lines", "amounts", "counts_to", "unit"), FORMS.values(), ids=FORMS)
def test_forms_of_lines(lines, amounts, counts_to, unit):
    found = find_progress(lines, [float(k) for k in range(len(lines))])
    assert (found.amounts, found.counts_to, found.unit) == (amounts, counts_to, unit)


def test_the_time_between_two_epochs_is_left_out():
    arrivals = [0.0, 1.0, 2.0, 10.0, 11.0, 12.0]  # evaluated between 2 and 10
    found = find_progress([*EPOCHS[:3], *EPOCHS[3:]], arrivals)
    assert found.seconds == [1.0, 1.0, 1.0, 1.0]
    assert found.losses[0] == pytest.approx(2 - 1 / 9, abs=1e-6)


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["hello", "world"],
        [f"Map: {k}%|#| {k}/100 [00:01<00:00, 900 examples/s]" for k in range(9)],  # data are prepared
        [f"Tokenizing: {k}%|#| {k}/100 [00:01<00:00, 90it/s]" for k in range(9)],  # likewise
        [f"Test: [{k}/10] Loss 0.3" for k in range(9)],
        [f"2026-11-24 18:34:0{k} loss 2.3" for k in range(9)],  # a clock is no count
        [f"step 3 loss 2.{k}" for k in range(9)],  # it does not rise
        ["step 1 loss 2.3", "step 2 loss 2.2"],  # too few
        [f"{k}: 0.5" for k in range(9)],  # bare numbers, too few
        [f"{k * k} 0.5" for k in range(20)],  # bare numbers of something else
    ],
)
def test_other_lines_are_no_progress(lines):
    assert find_progress(lines, [float(k) for k in range(len(lines))]) is None


def test_lines_of_the_training_are_taken_before_those_of_an_evaluation():
    lines = [f"epoch {k} batch {k}/9 loss 2.3" for k in range(4)] + [f"Valid: batch {k}/99 loss 2" for k in range(90)]
    assert find_progress(lines, [float(k) for k in range(len(lines))]).counts_to == 9
