"""Two traces side by side: the same quantities, per optimizer step and rank, and what moved."""

from typing import Any

from scaleproof.ground.errors import UserError
from scaleproof.ground.records.profile_schema import Profile, mean_of_field

PARTS = {
    "step": "wall_ms",
    "computing": "compute_ms",
    "communication": "communication_ms",
    "exposed communication": "exposed_ms",
    "waiting for ranks": "wait_ms",
    "idle": "idle_ms",
}
NOTABLE_SHARE = 0.01  # share of A's step: smaller differences are in the table and not in the sentence
EXPLAINING = ("exposed communication", "idle")  # the PARTS that stand in the sentence, beside classes
MOST_MOVED = 5  # parts that the sentence lists at most


def diff_rows(a: Profile, b: Profile, names: tuple[str, str] = ("A", "B")) -> list[dict[str, Any]]:
    """Return rows with `name`, `a`, `b` and `difference` (b - a) of figures per step and rank.

    Figures are milliseconds, or what the name says, None where a trace lacks one. `names`: of the traces, for messages.
    Raises UserError where a trace has no steps: totals of runs of different lengths are not compared.
    """
    for name, profile in zip(names, (a, b), strict=True):
        if profile.status != "ok":
            raise UserError(f"{name} is no trace ({profile.reason}); there is nothing to compare")
        if not profile.steps:
            advice = "mark them with NVTX ranges called `step`"
            if profile.tool == "nsys stats":
                advice = "say how many with --steps and --ranks"
            raise UserError(
                f"{name} has no steps, and totals of runs of different lengths cannot be compared; {advice}"
            )

    parts = PARTS if a.per_step and b.per_step else {}  # totals by `nsys stats` have no rows of single steps
    rows = [_diff_row(label, mean_of_field(a, key), mean_of_field(b, key)) for label, key in parts.items()]
    for name in sorted({*(a.classes_ms or {}), *(b.classes_ms or {})}):
        rows.append(_diff_row(f"class {name}", _figure(a.classes_ms, name), _figure(b.classes_ms, name)))
    calls_a, calls_b = _calls_per_step(a), _calls_per_step(b)
    knows_a, knows_b = ("communication" not in profile.unknown for profile in (a, b))
    for name in sorted({*calls_a, *calls_b}):
        count_a = _figure(calls_a if knows_a else None, name)
        count_b = _figure(calls_b if knows_b else None, name)
        rows.append(_diff_row(f"calls of {name}", count_a, count_b))
    rows.append(_diff_row("share of communication in kernel time", a.communication_share, b.communication_share))
    return rows


def _figure(figures: dict[str, float] | None, name: str) -> float | None:
    """Return the figure called `name`, 0 where it is missing, None where all `figures` are unknown (None)."""
    return None if figures is None else figures.get(name, 0.0)


def summarise_diff(rows: list[dict[str, Any]]) -> str:
    """Return sentences on the steps and the parts that differ most. `rows`: those of `diff_rows`."""
    step = next((row for row in rows if row["name"] == "step"), None)
    if not step or step["difference"] is None:
        return "How the steps differ is unknown: see the table."
    parts = [row for row in rows if row["name"].startswith("class ") or row["name"] in EXPLAINING]
    moved = [
        row for row in parts if row["difference"] is not None and abs(row["difference"]) >= NOTABLE_SHARE * step["a"]
    ]
    moved.sort(key=lambda row: -abs(row["difference"]))
    texts = [f"{row['name'].removeprefix('class ')} {row['difference']:+.3g} ms" for row in moved[:MOST_MOVED]]
    return (
        f"A step of B takes {step['b']:.3g} ms, of A {step['a']:.3g} ms ({step['difference']:+.3g} ms). "
        f"Moved: {', '.join(texts) or 'nothing of note'}."
    )


def diff_table(rows: list[dict[str, Any]]) -> str:
    """Return the rows of `diff_rows` as a text table with a heading."""
    width = max(len(row["name"]) for row in rows)
    table = [["per step and rank", "A", "B", "B - A"]]
    for row in rows:
        figures = [row[column] for column in ("a", "b", "difference")]
        table.append([row["name"], *("unknown" if figure is None else format(figure, ".4g") for figure in figures)])
    return "\n".join("  ".join([name.ljust(width), *(cell.rjust(12) for cell in cells)]) for name, *cells in table)


def _diff_row(name: str, a: float | None, b: float | None) -> dict[str, Any]:
    """Return a row of `diff_rows`: two figures and their difference, None where a figure is unknown."""
    difference = None if a is None or b is None else b - a
    return {"name": name, "a": a, "b": b, "difference": difference}


def _calls_per_step(profile: Profile) -> dict[str, float]:
    """Return collective -> its calls per optimizer step and rank."""
    return {name: figures.calls for name, figures in profile.collectives.items()} or profile.calls_per_step
