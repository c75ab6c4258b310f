"""A campaign in small: each cell with its strategy, geometry and launcher, on a tiny model, for three steps.

What would fail at night fails in minutes. Its rates mean nothing, so that no page shows them.
"""

from collections.abc import Callable, Iterator
from typing import Any

from scaleproof.ground.campaign.cell_checks import is_used_of_section
from scaleproof.ground.campaign.cells import expand_cells
from scaleproof.ground.campaign.config import AXES, Campaign, shape_of
from scaleproof.ground.campaign.model_shapes import EncoderShape, ModelShape

PREFIX = "rehearsal-"  # of the campaign's name
STEPS = WARMUP_STEPS = 3
STEPS_OF_COMMAND = 30  # of a whole run: programs that print each tenth step print three
CONTEXT = 1024
# Keys whose results would be figures, or that name what a rehearsal has not.
DROPPED = ("question", "forecast", "target_loss", "margin")


def is_rehearsal(campaign: str) -> bool:
    return campaign.startswith(PREFIX)


def make_rehearsal(campaign: Campaign, without_gpu: bool) -> Campaign:
    """Return the campaign in small, which shows in minutes what would fail: tiny models, STEPS steps, one repeat.

    `without_gpu`: it is rehearsed on CPUs, whatever it asks for. Models of transformers, batches, and the length of
    commands that do not take {steps} stay as they are.
    """
    small = campaign.model_dump(mode="json", exclude_defaults=True, exclude=set(DROPPED))
    for section in ("workload", "work", "execution"):
        small.setdefault(section, {})
    if campaign.workload.command is None:
        _shrink(campaign, small)
        small["work"]["validation_samples"] = 4
    small["title"] = f"Rehearsal of: {campaign.title}"[:300]
    small["work"] |= {"steps": STEPS, "warmup_steps": WARMUP_STEPS}
    for key in ("fewer_steps", "schedule"):  # the difference of two short runs is noise; a ramp needs its steps
        small["work"].pop(key, None)
    if campaign.workload.command is not None:
        small["work"]["steps"] = STEPS_OF_COMMAND
    small["repeats"] = 1
    for comparison in small.get("compare", []):
        comparison |= {"pairs": 2, "null_pairs": 2}
    if without_gpu:
        small["execution"]["device"] = "cpu"
        small["frontier"] = {"limit_gb": 4} | small.get("frontier", {})  # far more than tiny models need
    selection = campaign.trace.cells
    if selection and selection != "all":  # names of cells; with a tiny model a cell may have another name
        names = zip(expand_cells(campaign), expand_cells(Campaign.model_validate(small | {"trace": {}})), strict=True)
        small["trace"]["cells"] = [new.slug for old, new in names if old.slug in selection]
    return Campaign.model_validate(small)


def _shrink(campaign: Campaign, small: dict[str, Any]) -> None:
    """Replace models, lengths of samples and buckets in `small`. Cells that differ in one of them still differ."""
    workload, execution = campaign.workload, campaign.execution
    _replace(small, small["workload"], "model", workload.model_dump(mode="json")["model"], _tiny_model)
    _replace(small, small["workload"], "seq_len", workload.seq_len, lambda _, place: 16 * (place + 1))
    if execution.bucket_elements != "auto" or "bucket_elements" in small.get("vary", {}):
        _replace(small, small["execution"], "bucket_elements", execution.bucket_elements, _small_bucket)
    for axis in ("model", "seq_len", "bucket_elements"):
        if not is_used_of_section(campaign, axis):  # `vary` gives all values; `check_campaign` refuses an unused one
            small[AXES[axis][0]].pop(axis, None)


def _replace(
    small: dict[str, Any], section: dict[str, Any], axis: str, value: Any, replacement: Callable[[Any, int], Any]
) -> None:
    """Replace the values of `axis` wherever the campaign `small` gives any. Equal values stay equal.

    `section`: the part of `small` that has the axis; `value`: of the axis there, given or by default.
    `replacement(old, place)` returns the new value for `old`, the campaign's value number `place`, from 0.
    """
    section[axis] = value
    seen: list[Any] = []  # the different values so far: the place of each is its number
    for mapping in _mappings_with_axes(small, section):
        given = mapping.get(axis)
        if given is None:
            continue
        old_values = given if isinstance(given, list) else [given]
        seen += [old for old in old_values if old not in seen]
        new_values = [replacement(old, seen.index(old)) for old in old_values]
        mapping[axis] = new_values if isinstance(given, list) else new_values[0]


def _mappings_with_axes(small: dict[str, Any], section: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the mappings of a campaign that may give an axis of `section` its value, or several values."""
    yield section
    yield small.get("vary", {})
    yield from small.get("cells", [])
    yield from small.get("exclude", [])
    for comparison in small.get("compare", []):
        yield from (comparison[arm] for arm in ("a", "b") if arm in comparison)


def _tiny_model(model: Any, place: int) -> Any:
    """Return a tiny model like `model`, `place` layers deeper so that cells differ. Models of transformers stay."""
    if isinstance(model, dict) and {"hub", "config", "module"} & set(model):
        return model
    shape = shape_of(model) if isinstance(model, str) else model
    is_encoder = "d_model" in shape if isinstance(shape, dict) else isinstance(shape, EncoderShape)
    layers = 2 + place
    if is_encoder:
        return EncoderShape(layers=layers, d_model=32, heads=2, feed_forward=64, context=CONTEXT).model_dump()
    return ModelShape(layers=layers, width=32, heads=2, context=CONTEXT).model_dump()


def _small_bucket(elements: Any, place: int) -> Any:
    """Return a small, even number of elements, another for each `place`, so that cells still differ; "auto" stays."""
    return elements if elements == "auto" else 10_000 * (place + 1)
